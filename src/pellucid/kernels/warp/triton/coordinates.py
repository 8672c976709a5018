"""Where output pixels read: coordinates, taps, weights and border rules, as functions inlined into the kernels.

Owns: the same arithmetic as the reference's ``coordinates`` and ``axis_taps``, for a block of pixels in registers.
Must not: read an image.
Read next: ``sampling.py``.
"""

# Coordinates must equal the reference's bit for bit, so that hard edges (nearest, windows) fall on the same pixel. Kernels are
# therefore compiled without contraction; where a fused multiply-add does no harm it is written out.

import linecache
from collections import namedtuple
from inspect import signature
from typing import Any

import triton
import triton.language as tl

from pellucid.kernels.launching import kernel
from pellucid.kernels.warp.triton.blocks import from_sample

__all__ = [
    *("BORDER", "FILLED", "Given", "bump", "fold", "half_up", "load_map", "locate", "pixels", "rise", "settle", "slope", "weight"),
    "within",
]

FILLED, BORDER, REFLECTION, REFLECT_101 = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2), tl.constexpr(3)  # and 4: wrap
FAR = tl.constexpr(4194304.0)  # as in taps.py


Given = namedtuple(
    "Given",
    "b group first m mapping window colors field table field_c field_y field_x rows columns height width out_height out_width",
)
"""A program's data: sample, group of channels and its first; the sample's map, read once; where map, window, colours, field and
table lie, the field's steps, the table's rows and columns; the sizes of picture and result.

``table`` says with map and field where pixels read: it holds the links of a chain, whose knots are the field then, or the weights
of an antialiased warp, a crop or a resize.
"""


@triton.jit
def load_map(mapping, PROJECTIVE: tl.constexpr):  # type: ignore[no-untyped-def]
    """The nine numbers of a sample's map; the last row is never used where it is not projective."""
    m = ()
    for k in tl.static_range(9):
        m = m + (tl.load(mapping + (k if PROJECTIVE or k < 6 else 0)),)
    return m


@triton.jit
def program(own, field, sizes, steps, table, sample, S):  # type: ignore[no-untyped-def]
    """(`Given`, columns, rows) of the pixels of a program's first tile; its other tiles lie below.

    Every 32 pixels in a row are a patch of WW columns, which a warp reads.
    """
    mapping, window, colors = own
    field, field_b, field_c, field_y, field_x = field
    map_step, window_step, param_step, table_step = steps
    plane_at = tl.program_id(2)
    b, group = sample + plane_at // S.GROUPS, plane_at % S.GROUPS
    lane = tl.arange(0, S.P)
    patch, place = lane // 32, lane % 32
    u = tl.program_id(0) * S.BW + ((patch % (S.BW // S.WW)) * S.WW + place % S.WW)
    v = tl.program_id(1) * S.STEPS * (S.P // S.BW) + ((patch // (S.BW // S.WW)) * (32 // S.WW) + place // S.WW)
    mapping = from_sample(mapping, b, map_step)
    return Given(
        b, group, group * S.K, load_map(mapping, S.PROJECTIVE), mapping, from_sample(window, b, window_step),
        from_sample(colors, b, param_step), from_sample(field, b, field_b), from_sample(table[0], b, table_step),
        field_c, field_y, field_x, table[1], table[2], *sizes,
    ), u, v  # fmt: skip


_SHARED = (
    "mapping, window, colors, field, table, field_b, field_c, field_y, field_x, height, width, out_height, out_width, "
    "map_step, window_step, param_step, table_step, rows, columns, sample, S"
)
"""The arguments of kernels of pixels behind their own: pointers; elements from one sample (b), channel (c), row (y), column (x)
or row of numbers (step) to the next; sizes; the launch's first sample; and constants.
"""
_KERNEL = """def {name}({own}, {shared}: tl.constexpr):
    given, u, v = program(
        (mapping, window, colors), (field, field_b, field_c, field_y, field_x), (height, width, out_height, out_width),
        (map_step, window_step, param_step, table_step), (table, rows, columns), sample, S,
    )
    body({given}, given, u, v, S)
"""


def pixels(function: Any) -> Any:
    """Make a kernel with flat arguments of a function of a program's pixels: ``image`` and ``grad`` are a pointer and four steps.

    Triton would compile a kernel anew for values in a tuple of its arguments; between functions tuples cost nothing.
    """
    own = [*signature(function).parameters][:-4]
    planes = {name: ", ".join((name, *(f"{name}_{axis}" for axis in "bcyx"))) for name in own if name in ("image", "grad")}
    given = ", ".join(f"({planes[name]})" if name in planes else name for name in own)
    name, flat = function.__name__, ", ".join(planes.get(name, name) for name in own)
    text, file = _KERNEL.format(name=name, own=flat, shared=_SHARED, given=given), f"<{function.__module__}.{name}>"
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file  # where Triton looks for it
    found = {"__name__": function.__module__, "tl": tl, "program": program, "body": triton.jit(function)}
    exec(compile(text, file, "exec"), found)
    return kernel(found[name])


@triton.jit
def divide(a, b, F: tl.constexpr):  # type: ignore[no-untyped-def]
    """A quotient rounded to nearest; `/` alone is approximate in single precision."""
    if F == tl.float32:
        quotient = tl.div_rn(a, b)
    else:
        quotient = a / b
    return quotient


@triton.jit
def locate(u, v, m, PROJECTIVE: tl.constexpr, F: tl.constexpr, RAW: tl.constexpr = False):  # type: ignore[no-untyped-def]
    """(x, y, w, usable) of points by a map m; w is the denominator (x where affine). Unless RAW, x and y are 0 where not usable."""
    m0, m1, m2, m3, m4, m5, m6, m7, m8 = m
    column, row = u.to(F), v.to(F)
    x = m0 * column + (m1 * row + m2)
    y = m3 * column + (m4 * row + m5)
    w = x
    if PROJECTIVE:
        w = m6 * column + (m7 * row + m8)
        x, y = divide(x, w, F), divide(y, w, F)
        # On the horizon, and where a slope overflows, the point is nowhere.
        usable = (tl.abs(divide(x, w, F)) < float("inf")) & (tl.abs(divide(y, w, F)) < float("inf"))
    else:
        usable = (tl.abs(x) < float("inf")) & (tl.abs(y) < float("inf"))
    if not RAW:
        x, y = tl.where(usable, x, 0.0), tl.where(usable, y, 0.0)
    return x, y, w, usable


@triton.jit
def half_up(x, length):  # type: ignore[no-untyped-def]
    """The number added to x before nearest rounds down, as in ``taps.py``."""
    return tl.full(x.shape, 0.5, x.dtype) + (2.0**-51 if x.dtype == tl.float64 else 2.0**-22) * length


@triton.jit
def settle(x, low, high, length, TAPS: tl.constexpr, EDGE: tl.constexpr, WINDOW: tl.constexpr):  # type: ignore[no-untyped-def]
    """Apply window and limits to a coordinate: (index of the first tap, position between taps, whether the limits clamped it)."""
    if WINDOW:
        x = tl.minimum(tl.maximum(x, low), high)
    held = x
    # Beyond these bounds the taps no longer change, so neither may the gradient; and conversion to an integer stays defined. NaN
    # ends outside of the image: a GPU's maximum takes the number, and what the interpreter's NaN converts to is negative.
    if EDGE <= BORDER:
        x = tl.minimum(tl.maximum(x, -3.0), length + 2.0)
    else:
        x = tl.minimum(tl.maximum(x, -FAR), FAR)
    base = tl.floor(x + half_up(x, length)) if TAPS == 1 else tl.floor(x)
    first = base.to(tl.int32)
    if TAPS == 4:
        first -= 1
    return first, x - base, held != x


@triton.jit
def within(i, length):  # type: ignore[no-untyped-def]
    """Whether 0 <= i < length, by one comparison: as unsigned numbers, negative ones are the largest."""
    return i.to(tl.uint32, bitcast=True) < length.to(tl.uint32)


@triton.jit
def fold(i, length, EDGE: tl.constexpr):  # type: ignore[no-untyped-def]
    """Map any integer position to the pixel the border rule puts there."""
    if EDGE <= BORDER:
        i = tl.minimum(tl.maximum(i, 0), length - 1)
    else:
        if EDGE == REFLECTION:
            period = 2 * length
        elif EDGE == REFLECT_101:
            period = tl.maximum(2 * (length - 1), 1)
        else:
            period = length
        i = i % period
        i = tl.where(i < 0, i + period, i)
        if EDGE == REFLECTION:
            i = tl.where(i < length, i, period - 1 - i)
        elif EDGE == REFLECT_101:
            i = tl.where(i < length, i, period - i)
    return i


@triton.jit
def weight(t, CUBIC: tl.constexpr, K: tl.constexpr, TAPS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Weight of tap K for the position t in [0, 1) between the taps."""
    near, far = (t, 1.0 - t) if K < TAPS // 2 else (1.0 - t, t)
    if TAPS == 1:
        value = tl.full(t.shape, 1.0, t.dtype)
    elif TAPS == 2:
        value = far
    elif K % 3 == 0:
        value = CUBIC * near * far * far
    else:
        value = 1.0 + near * near * ((CUBIC + 2.0) * near - (CUBIC + 3.0))
    return value


@triton.jit
def bump(d, CUBIC: tl.constexpr, TAPS: tl.constexpr):  # type: ignore[no-untyped-def]
    """The weight at a distance of d >= 0 pixels, under a tent or a cubic kernel."""
    if TAPS == 2:
        value = tl.clamp(1.0 - d, 0.0, 1.0)
    else:
        inner = 1.0 + d * d * ((CUBIC + 2.0) * d - (CUBIC + 3.0))
        outer = CUBIC * (d - 1.0) * (d - 2.0) * (d - 2.0)
        value = tl.where(d < 1.0, inner, tl.where(d < 2.0, outer, 0.0))
    return value


@triton.jit
def rise(t, CUBIC: tl.constexpr, TAPS: tl.constexpr):  # type: ignore[no-untyped-def]
    """The slope of `bump` at a place on either side."""
    d = tl.abs(t)
    if TAPS == 2:
        value = tl.where(d < 1.0, -1.0, 0.0)
    else:
        inner = d * (3.0 * (CUBIC + 2.0) * d - 2.0 * (CUBIC + 3.0))
        outer = CUBIC * ((3.0 * d - 10.0) * d + 8.0)
        value = tl.where(d < 1.0, inner, tl.where(d < 2.0, outer, 0.0))
    return tl.where(t < 0.0, -value, value)


@triton.jit
def slope(t, CUBIC: tl.constexpr, K: tl.constexpr, TAPS: tl.constexpr):  # type: ignore[no-untyped-def]
    """The derivative of `weight` by t."""
    near, far = (t, 1.0 - t) if K < TAPS // 2 else (1.0 - t, t)
    if TAPS == 1:
        value = tl.full(t.shape, 0.0, t.dtype)
    elif TAPS == 2:
        value = tl.full(t.shape, -1.0, t.dtype)
    elif K % 3 == 0:
        value = CUBIC * far * (far - 2.0 * near)
    else:
        value = near * (3.0 * (CUBIC + 2.0) * near - 2.0 * (CUBIC + 3.0))
    return value if K < TAPS // 2 else -value
