"""Which output pixels may read an input pixel: a box that never misses one.

Owns: the preimage of a rectangle under the map, with room for rounding; where it cannot be bounded, the box is the whole output.
Must not: decide weights; the forward map of every candidate does that.
Read next: ``gather.py``.
"""

# A convex region whose denominator keeps its sign maps to a convex region, so the images of a rectangle's corners under the inverse
# bound its preimage. Numbers of the sample alone are computed once (`bounds`): its inverse, in double precision from
# single-precision numbers, whose products are then exact: a determinant above 1e-9 of its terms has seven digits. Corners are
# mapped in working precision, with first-order bounds on its rounding and on that of the forward map added. All tests are written
# so that a NaN leads to the whole output. Constants stand to the right of blocks, and no condition on a scalar is combined with one
# on a block: Triton's interpreter needs both.

import triton
import triton.language as tl

from pellucid.kernels.launching import kernel
from pellucid.kernels.warp.triton.coordinates import load_map

__all__ = ["BOUNDS", "bounds", "candidates"]

BOUNDS = 16
"""Numbers per sample that `bounds` writes, in the dtype of the map."""

_TINY = tl.constexpr(1e-9)
_ROOM = tl.constexpr(1e-3)
_HUGE = tl.constexpr(1e30)
_STRIDE = tl.constexpr(BOUNDS)


@triton.jit
def _affine_bounds(out, valid, m, src_height, src_width, height, width, S):  # type: ignore[no-untyped-def]
    """0 to 3: the inverse's linear part; 4, 5: the shift; 6, 7: room for rounding; 8, 9: room for it and for REACH; 10: the most
    columns that a pixel's box has, where it is 2 REACH wide and high.

    Where nothing is bounded, all are zero but the room, which holds everything; where no coordinate is finite, it is negative.
    """
    a, b, c, d, e, f, _, _, _ = m
    wide_a, wide_b, wide_d, wide_e = a.to(tl.float64), b.to(tl.float64), d.to(tl.float64), e.to(tl.float64)
    det = wide_a * wide_e - wide_b * wide_d
    terms = tl.abs(wide_a * wide_e) + tl.abs(wide_b * wide_d)
    regular = tl.abs(det) > terms * _TINY
    scale = 1.0 / tl.where(regular, det, 1.0)
    i00, i01 = (wide_e * scale).to(S.F), (-wide_b * scale).to(S.F)
    i10, i11 = (-wide_d * scale).to(S.F), (wide_a * scale).to(S.F)
    # Rounding of the forward coordinates and of the differences in `candidates`, for any pixel of the image.
    reach_x = tl.abs(a) * width + tl.abs(b) * height + tl.abs(c)
    reach_y = tl.abs(d) * width + tl.abs(e) * height + tl.abs(f)
    rx = (reach_x + tl.abs(c) * 2.0 + src_width) * (2.0 * S.EPS) + _ROOM
    ry = (reach_y + tl.abs(f) * 2.0 + src_height) * (2.0 * S.EPS) + _ROOM
    # A number that is not finite in an affine map leaves no coordinate finite.
    none = (tl.zeros(a.shape, S.F) + (reach_x + reach_y) < float("inf")) == 0
    low_u = (tl.abs(i00) * rx + tl.abs(i01) * ry) * (1.0 + S.EPS)
    low_v = (tl.abs(i10) * rx + tl.abs(i11) * ry) * (1.0 + S.EPS)
    across = (low_u + (tl.abs(i00) + tl.abs(i01)) * S.REACH) * 2.0
    farthest = (tl.abs(i00) + tl.abs(i10)) * (src_width + tl.abs(c)) + (tl.abs(i01) + tl.abs(i11)) * (src_height + tl.abs(f))
    bounded = regular & (farthest + low_u + low_v + across < _HUGE * 1e-3)
    columns = tl.where(bounded, tl.minimum(tl.floor(tl.where(bounded, across + farthest * (4.0 * S.EPS), 0.0)) + 1.0, width), width)
    known = bounded & (none == 0)
    rest = tl.where(none, -_HUGE, _HUGE).to(S.F)
    high_u, high_v = low_u + (tl.abs(i00) + tl.abs(i01)) * S.REACH, low_v + (tl.abs(i10) + tl.abs(i11)) * S.REACH
    numbers = (i00, i01, i10, i11, c, f, low_u, low_v, high_u, high_v)
    for k in tl.static_range(10):
        tl.store(out + k, tl.where(known, numbers[k], 0.0 if k < 6 else rest), mask=valid)
    tl.store(out + 10, columns, mask=valid)


@triton.jit
def _minors(m):  # type: ignore[no-untyped-def]
    """(a matrix in double precision, its minors, the size of their terms)."""
    d, minors, terms = (), (), ()
    for k in tl.static_range(9):
        d = d + (m[k].to(tl.float64),)
    for k in tl.static_range(9):
        p = d[(k + 1) % 3 * 3 + (k // 3 + 1) % 3] * d[(k + 2) % 3 * 3 + (k // 3 + 2) % 3]  # type: ignore[var-annotated]
        q = d[(k + 1) % 3 * 3 + (k // 3 + 2) % 3] * d[(k + 2) % 3 * 3 + (k // 3 + 1) % 3]  # type: ignore[var-annotated]
        minors, terms = minors + (p - q,), terms + (tl.abs(p) + tl.abs(q),)
    return d, minors, terms


@triton.jit
def _projective_bounds(out, valid, m, src_height, src_width, height, width, S):  # type: ignore[no-untyped-def]
    """0 to 8: the inverse; 9: a bound of its error; 10 to 12: the largest terms of the map's rows; 13: limit of a bounded box."""
    d, n, t = _minors(m)
    det = d[0] * n[0] + d[1] * n[3] + d[2] * n[6]
    regular = tl.abs(det) > (tl.abs(d[0]) * t[0] + tl.abs(d[1]) * t[3] + tl.abs(d[2]) * t[6]) * _TINY
    scale = 1.0 / tl.where(regular, det, 1.0)
    # What cancellation in the minors may have cost, for any pixel of the image.
    far_x, far_y = src_width + 4.0, src_height + 4.0
    lost = ((t[0] + t[3] + t[6]) * far_x + (t[1] + t[4] + t[7]) * far_y + (t[2] + t[5] + t[8])) * tl.abs(scale)
    for k in tl.static_range(9):
        tl.store(out + k, (n[k] * scale).to(S.F), mask=valid)
    tl.store(out + 9, (lost * 3.6e-15).to(S.F), mask=valid)
    for k in tl.static_range(3):
        terms = tl.abs(m[3 * k]) * width + tl.abs(m[3 * k + 1]) * height + tl.abs(m[3 * k + 2])
        tl.store(out + 10 + k, terms, mask=valid)
    tl.store(out + 13, tl.where(regular, _HUGE, -1.0).to(S.F), mask=valid)


@kernel
def bounds(mapping, out, src_height, src_width, height, width, samples, map_step, S: tl.constexpr):  # type: ignore[no-untyped-def]
    """Program: P samples' numbers for `candidates`, from an image of (src_height, src_width) to an output of (height, width)."""
    b = tl.program_id(0).to(tl.int64) * S.P + tl.arange(0, S.P)
    valid = b < samples
    m = load_map(mapping + tl.where(valid, b, 0) * map_step, S.PROJECTIVE)
    if S.PROJECTIVE:
        _projective_bounds(out + b * _STRIDE, valid, m, src_height, src_width, height, width, S)
    else:
        _affine_bounds(out + b * _STRIDE, valid, m, src_height, src_width, height, width, S)


@triton.jit
def span(low, high, count):  # type: ignore[no-untyped-def]
    """(first, last) of the integers in [low, high] and [0, count)."""
    past = tl.zeros(low.shape, low.dtype) + count
    first = tl.ceil(tl.minimum(tl.maximum(low, 0.0), past))
    return first.to(tl.int32), tl.floor(tl.maximum(tl.minimum(high, past - 1.0), -1.0)).to(tl.int32)


@triton.jit
def _affine(lx, hx, ly, hy, table, REACH: tl.constexpr, CLAMPED: tl.constexpr, EPS: tl.constexpr):  # type: ignore[no-untyped-def]
    """(low u, high u, low v, high v) for the rectangle [lx, hx] x [ly, hy], 2 REACH wide and high unless CLAMPED."""
    i00, i01, i10, i11 = tl.load(table), tl.load(table + 1), tl.load(table + 2), tl.load(table + 3)
    mx, my = lx + REACH, ly + REACH
    if CLAMPED:
        mx, my = (lx + hx) * 0.5, (ly + hy) * 0.5
    dx, dy = mx - tl.load(table + 4), my - tl.load(table + 5)
    mu, mv = i00 * dx + i01 * dy, i10 * dx + i11 * dy
    if CLAMPED:  # a window may reach far beyond the image
        rx, ry = (hx - lx) * 0.5 + tl.abs(mx) * (2.0 * EPS), (hy - ly) * 0.5 + tl.abs(my) * (2.0 * EPS)
        ru, rv = tl.load(table + 6) + tl.abs(i00) * rx + tl.abs(i01) * ry, tl.load(table + 7) + tl.abs(i10) * rx + tl.abs(i11) * ry
        fine, none = tl.abs(mu) + tl.abs(mv) + ru + rv < _HUGE, tl.zeros(mu.shape, mu.dtype) + tl.load(table + 6) < 0.0
        lu, lv, hv = tl.where(fine, mu - ru, -_HUGE), tl.where(fine, mv - rv, -_HUGE), tl.where(fine, mv + rv, _HUGE)
        hu = tl.where(none, -_HUGE, tl.where(fine, mu + ru, _HUGE))
    else:
        ru, rv = tl.load(table + 8), tl.load(table + 9)
        lu, hu, lv, hv = mu - ru, mu + ru, mv - rv, mv + rv
    return lu, hu, lv, hv


@triton.jit
def _corner(un, vn, dn, u_low, u_high, v_low, v_high):  # type: ignore[no-untyped-def]
    """The bounds so far, extended by one corner's image."""
    u, v = un / dn, vn / dn
    return tl.minimum(u_low, u), tl.maximum(u_high, u), tl.minimum(v_low, v), tl.maximum(v_high, v)


@triton.jit
def _projective(lx, hx, ly, hy, table, EPS: tl.constexpr):  # type: ignore[no-untyped-def]
    """(low u, high u, low v, high v, fine, none) for the rectangle [lx, hx] x [ly, hy]."""
    n00, n01, n02, n10, n11, n12, n20, n21, n22 = load_map(table, True)
    lost, top_x, top_y = tl.load(table + 9), tl.load(table + 10), tl.load(table + 11)
    bottom, limit = tl.load(table + 12), tl.load(table + 13)
    mx, my = (lx + hx) * 0.5, (ly + hy) * 0.5
    rx, ry = (hx - lx) * 0.5, (hy - ly) * 0.5
    # Forward coordinates are rounded by up to (error of numerator + |x| * error of denominator) / |w|, and 1 / w is what the last
    # row of the inverse gives.
    inverse_w = tl.abs(n20 * mx + n21 * my + n22) + tl.abs(n20) * rx + tl.abs(n21) * ry + lost
    rx += (top_x + (tl.abs(mx) + rx) * bottom) * inverse_w * (2.0 * EPS) + tl.abs(mx) * EPS + _ROOM
    ry += (top_y + (tl.abs(my) + ry) * bottom) * inverse_w * (2.0 * EPS) + tl.abs(my) * EPS + _ROOM
    un, vn, dn = n00 * mx + n01 * my + n02, n10 * mx + n11 * my + n12, n20 * mx + n21 * my + n22
    u_error = (tl.abs(n00) * (tl.abs(mx) + rx) + tl.abs(n01) * (tl.abs(my) + ry) + tl.abs(n02)) * EPS + lost
    v_error = (tl.abs(n10) * (tl.abs(mx) + rx) + tl.abs(n11) * (tl.abs(my) + ry) + tl.abs(n12)) * EPS + lost
    d_error = (tl.abs(n20) * (tl.abs(mx) + rx) + tl.abs(n21) * (tl.abs(my) + ry) + tl.abs(n22)) * EPS + lost
    spread = tl.abs(n20) * rx + tl.abs(n21) * ry
    least = tl.abs(dn) - spread - d_error
    ux, uy, vx, vy, dx, dy = n00 * rx, n01 * ry, n10 * rx, n11 * ry, n20 * rx, n21 * ry
    safe = least > tl.abs(dn) * _TINY
    dn = tl.where(safe, dn, 1.0)
    dx, dy = tl.where(safe, dx, 0.0), tl.where(safe, dy, 0.0)
    u, v = (un - ux - uy) / (dn - dx - dy), (vn - vx - vy) / (dn - dx - dy)
    lu, hu, lv, hv = _corner(un + ux - uy, vn + vx - vy, dn + dx - dy, u, u, v, v)
    lu, hu, lv, hv = _corner(un - ux + uy, vn - vx + vy, dn - dx + dy, lu, hu, lv, hv)
    lu, hu, lv, hv = _corner(un + ux + uy, vn + vx + vy, dn + dx + dy, lu, hu, lv, hv)
    least = tl.where(safe, least, 1.0)
    room_u = 2.0 * (u_error + tl.maximum(tl.abs(lu), tl.abs(hu)) * d_error) / least + _ROOM
    room_v = 2.0 * (v_error + tl.maximum(tl.abs(lv), tl.abs(hv)) * d_error) / least + _ROOM
    fine = safe & (tl.abs(lu) + tl.abs(hu) + tl.abs(lv) + tl.abs(hv) + room_u + room_v < limit)
    # An output pixel with denominator w reads where the last row of the inverse gives 1 / w, which bottom bounds from below.
    none = (inverse_w + spread + d_error) * bottom < tl.minimum(limit, 0.5)
    return lu - room_u, hu + room_u, lv - room_v, hv + room_v, fine, none


@triton.jit
def candidates(  # type: ignore[no-untyped-def]
    lx, hx, ly, hy, table, height, width, REACH: tl.constexpr, CLAMPED: tl.constexpr, S
):
    """(first u, last u, first v, last v) of the output pixels that may read in [lx, hx] x [ly, hy]; last < first: none do."""
    if S.PROJECTIVE:
        lu, hu, lv, hv, fine, none = _projective(lx, hx, ly, hy, table, S.EPS)
        lu, hu = tl.where(fine, lu, -_HUGE), tl.where(none, -_HUGE, tl.where(fine, hu, _HUGE))
        lv, hv = tl.where(fine, lv, -_HUGE), tl.where(fine, hv, _HUGE)
    else:
        lu, hu, lv, hv = _affine(lx, hx, ly, hy, table, REACH, CLAMPED, S.EPS)
    first_u, last_u = span(lu, hu, width)
    first_v, last_v = span(lv, hv, height)
    # Where one axis has none, neither has the other.
    return first_u, last_u, first_v, tl.where(last_u < first_u, -1, last_v)
