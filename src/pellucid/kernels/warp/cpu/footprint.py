"""Reading and writing all the pixels that an output pixel spans, with the weights of a table.

Owns: the antialiased gather and its adjoint; inside of the image eight columns at a time, at its borders pixel by pixel.
Must not: know how tables are made (``../footprint.py``), or colours.
Read next: ``sweep.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from pellucid.kernels.jit import fused, noinline, without_refcount
from pellucid.kernels.narrow import Narrow, widened
from pellucid.kernels.warp.cpu.coordinates import FILLED, fold
from pellucid.kernels.warp.cpu.layout import COVER, X, Y
from pellucid.kernels.warp.footprint import BLOCK, PHASES

__all__ = ["add_table", "read_table"]

_FUSED = ("contract",)
_FAR = float(1 << 22)
_LAST = PHASES - 1
_EDGES = PHASES + 1


class _Rows:
    """Vectors of a block's columns, in one function being built."""

    def __init__(self, target: Any, builder: Any, array: Any, value: Any, number: Any) -> None:
        self.target, self.builder, self.kind = target, builder, array
        self.number = types.float64 if isinstance(number, ir.DoubleType) else types.float32
        self.type, self.size = ir.VectorType(number, BLOCK), 8 if isinstance(number, ir.DoubleType) else 4
        if isinstance(array, Narrow):
            self.data = cgutils.create_struct_proxy(array)(target, builder, value=value).data
        else:
            self.data = target.make_array(array)(target, builder, value).data

    def _at(self, index: Any, element: Any) -> Any:
        return self.builder.bitcast(self.builder.gep(self.data, [index]), ir.VectorType(element, BLOCK).as_pointer())

    def load(self, index: Any) -> Any:
        value = self.builder.load(self._at(index, self.data.type.pointee))
        if not isinstance(self.kind, Narrow):
            value.align = self.kind.dtype.bitwidth // 8
            return value if self.kind.dtype == self.number else self.builder.uitofp(value, self.type)  # bytes
        value.align = self.kind.bits.bitwidth // 8
        return widened(self.target, self.builder, self.kind.kind, value)

    def store(self, value: Any, index: Any) -> None:
        self.builder.store(value, self._at(index, self.type.element)).align = self.size

    def splat(self, number: Any) -> Any:
        first = self.builder.insert_element(ir.Constant(self.type, ir.Undefined), number, ir.IntType(32)(0))
        return self.builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(ir.IntType(32), BLOCK), [0] * BLOCK))

    def sum(self, value: Any) -> Any:
        """All lanes, in halves."""
        lanes = BLOCK
        while lanes > 1:
            lanes //= 2
            half = [ir.Constant(ir.VectorType(ir.IntType(32), lanes), list(range(k * lanes, k * lanes + lanes))) for k in (0, 1)]
            value = self.builder.fadd(*(self.builder.shuffle_vector(value, value, part) for part in half), flags=_FUSED)
        return self.builder.extract_element(value, ir.IntType(32)(0))

    def plus_times(self, total: Any, a: Any, b: Any) -> Any:
        return self.builder.fadd(total, self.builder.fmul(a, b, flags=_FUSED), flags=_FUSED)


class _Table(_Rows):
    """A row of weights at the four positions around one: two side by side, two further on."""

    def __init__(self, target: Any, builder: Any, array: Any, value: Any, number: Any, place: Any) -> None:
        super().__init__(target, builder, array, value, number)
        at, right, below, tx, ty = place
        lower = builder.add(at, below)
        self.steps = (at, builder.add(at, right), lower, builder.add(lower, right))
        self.tx, self.ty = self.splat(tx), self.splat(ty)

    def corners(self, offset: Any) -> list[Any]:
        return [self.load(self.builder.add(step, offset)) for step in self.steps]

    def lerp(self, a: Any, b: Any, t: Any) -> Any:
        return self.plus_times(a, t, self.less(b, a))

    def less(self, a: Any, b: Any) -> Any:
        return self.builder.fsub(a, b, flags=_FUSED)

    def blended(self, offset: Any) -> Any:
        upper, upper_right, lower, lower_right = self.corners(offset)
        return self.lerp(self.lerp(upper, upper_right, self.tx), self.lerp(lower, lower_right, self.tx), self.ty)


def _walk(target: Any, builder: Any, lines: Any, step: Any, offsets: Any, value: Any, body: Any) -> None:
    """Call ``body`` with the offset of every line in a table and in an image.

    The latter are read from an array: an optimizer that knew them to be multiples would keep too many pointers for the registers.
    """
    rows = target.make_array(offsets)(target, builder, value).data
    with cgutils.for_range(builder, lines) as loop:
        body(builder.mul(loop.index, step), builder.load(builder.gep(rows, [loop.index])))


@intrinsic
def _weigh(context: Any, table: Any, place: Any, step: Any, img: Any, starts: Any, offsets: Any, lines: Any) -> Any:
    """The weighted sums of ``lines`` rows of eight pixels, of three channels that begin at ``starts``."""
    del context
    number = table.dtype

    def codegen(target: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = target.get_data_type(number)
        weights = _Table(target, builder, table, args[0], kind, cgutils.unpack_tuple(builder, args[1]))
        image, begin = _Rows(target, builder, img, args[3], kind), cgutils.unpack_tuple(builder, args[4])
        sums = [cgutils.alloca_once_value(builder, ir.Constant(image.type, None)) for _ in begin]

        def line(at: Any, offset: Any) -> None:
            weight = weights.blended(at)
            for total, start in zip(sums, begin, strict=True):
                pixels = image.load(builder.add(start, offset))
                builder.store(image.plus_times(builder.load(total), weight, pixels), total)

        _walk(target, builder, args[6], args[2], offsets, args[5], line)
        return target.make_tuple(builder, signature.return_type, [image.sum(builder.load(total)) for total in sums])

    return types.UniTuple(number, 3)(table, place, step, img, starts, offsets, lines), codegen


@intrinsic
def _spread(context: Any, table: Any, place: Any, step: Any, into: Any, starts: Any, offsets: Any, lines: Any, grads: Any) -> Any:
    """Add ``grads`` times the weights to such rows of three channels: the adjoint of :func:`_weigh`."""
    del context
    number = table.dtype

    def codegen(target: Any, builder: Any, signature: Any, args: Any) -> Any:
        del signature
        kind = target.get_data_type(number)
        weights = _Table(target, builder, table, args[0], kind, cgutils.unpack_tuple(builder, args[1]))
        image = _Rows(target, builder, into, args[3], kind)
        begin, factors = cgutils.unpack_tuple(builder, args[4]), [image.splat(g) for g in cgutils.unpack_tuple(builder, args[7])]

        def line(at: Any, offset: Any) -> None:
            weight = weights.blended(at)
            for start, factor in zip(begin, factors, strict=True):
                index = builder.add(start, offset)
                image.store(image.plus_times(image.load(index), factor, weight), index)

        _walk(target, builder, args[6], args[2], offsets, args[5], line)
        return target.get_dummy_value()

    return types.void(table, place, step, into, starts, offsets, lines, grads), codegen


@intrinsic
def _tilt(
    context: Any, table: Any, place: Any, step: Any, img: Any, starts: Any, offsets: Any, lines: Any, grads: Any, sums: Any
) -> Any:
    """(along x, along y): slopes of what :func:`_weigh` gives, per phase; and what the table's numbers get is added to ``sums``."""
    del context
    number = table.dtype

    def codegen(target: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = target.get_data_type(number)
        parts = cgutils.unpack_tuple(builder, args[1])
        weights = _Table(target, builder, table, args[0], kind, parts)
        into = _Table(target, builder, sums, args[8], kind, parts)
        image, begin = _Rows(target, builder, img, args[3], kind), cgutils.unpack_tuple(builder, args[4])
        factors = [image.splat(g) for g in cgutils.unpack_tuple(builder, args[7])]
        nothing, one = ir.Constant(image.type, None), image.splat(kind(1.0))
        along_x, along_y = (cgutils.alloca_once_value(builder, nothing) for _ in range(2))
        tx, ty = weights.tx, weights.ty
        far_x, far_y = weights.less(one, tx), weights.less(one, ty)

        def times(a: Any, b: Any) -> Any:
            return builder.fmul(a, b, flags=_FUSED)

        shares = times(far_x, far_y), times(tx, far_y), times(far_x, ty), times(tx, ty)

        def line(at: Any, offset: Any) -> None:
            read = nothing
            for start, factor in zip(begin, factors, strict=True):
                read = image.plus_times(read, factor, image.load(builder.add(start, offset)))
            a, b, c, d = weights.corners(at)
            across = weights.lerp(weights.less(b, a), weights.less(d, c), ty)
            down = weights.lerp(weights.less(c, a), weights.less(d, b), tx)
            builder.store(image.plus_times(builder.load(along_x), read, across), along_x)
            builder.store(image.plus_times(builder.load(along_y), read, down), along_y)
            for step, share in zip(into.steps, shares, strict=True):
                index = builder.add(step, at)
                into.store(into.plus_times(into.load(index), share, read), index)

        _walk(target, builder, args[6], args[2], offsets, args[5], line)
        return target.make_tuple(builder, signature.return_type, [image.sum(builder.load(total)) for total in (along_x, along_y)])

    return types.UniTuple(number, 2)(table, place, step, img, starts, offsets, lines, grads, sums), codegen


@fused
def _table_of(tables, b):  # type: ignore[no-untyped-def]
    """A sample's weights, and (rows, columns with padding, used rows, used columns, where rows lie in image and gradient)."""
    noinline()
    flat, rows, columns, used, read, written = tables
    at = b if len(flat) > 1 else 0
    table, (top, bottom, left, right) = without_refcount(flat)[at], without_refcount(used)[at]
    at = b if len(read) > 1 else 0
    return table, (rows, columns, top, bottom, left, right, without_refcount(read)[at], without_refcount(written)[at])


@fused
def _weight(table, at, place):  # type: ignore[no-untyped-def]
    """One weight between four positions, and its slopes along x and y, per phase."""
    _, right, below, tx, ty = place
    a, b, c, d = table[at], table[at + right], table[at + below], table[at + below + right]
    upper, lower = a + tx * (b - a), c + tx * (d - c)
    return upper + ty * (lower - upper), (b - a) + ty * ((d - c) - (b - a)), (c - a) + tx * ((d - b) - (c - a))


@fused
def _share(sums, at, place, read):  # type: ignore[no-untyped-def]
    """What such a weight's four numbers get."""
    _, right, below, tx, ty = place
    one = sums.dtype.type(1.0)
    sums[at] += (one - tx) * (one - ty) * read
    sums[at + right] += tx * (one - ty) * read
    sums[at + below] += (one - tx) * ty * read
    sums[at + below + right] += tx * ty * read


@fused
def _three(first, c, channels, step):  # type: ignore[no-untyped-def]
    """Where three channels from c on begin; those that are not there, where the first of them does."""
    start = first + np.uint64(c) * step
    second = start + step if c + 1 < channels else start
    return start, second, start + step + step if c + 2 < channels else start


@fused
def _grads(g, u, c, channels, unit):  # type: ignore[no-untyped-def]
    """The gradients of three channels from c on, zero for those that are not there."""
    zero = g.dtype.type(0.0)
    return unit * g[c, u], unit * g[c + 1, u] if c + 1 < channels else zero, unit * g[c + 2, u] if c + 2 < channels else zero


@fused
def _place(x):  # type: ignore[no-untyped-def]
    """(whole pixel, phase, share of the next phase) of a coordinate."""
    number = type(x)
    x = min(max(x, number(-_FAR)), number(_FAR))
    pixel = np.floor(x)
    fine = (x - pixel) * number(PHASES)
    phase = min(np.floor(fine), number(_LAST))
    return np.int64(pixel), np.int64(phase), fine - phase


@fused
def _seen(i, length, mode):  # type: ignore[no-untyped-def]
    return (mode != FILLED) | ((i >= 0) & (i < length))


@fused
def _outside(left, top, lines, columns, shape):  # type: ignore[no-untyped-def]
    return (left + columns <= 0) | (left >= shape[1]) | (top + lines <= 0) | (top >= shape[0])


@fused
def _inside(left, top, lines, columns, shape, strides):  # type: ignore[no-untyped-def]
    return (strides[2] == 1) & (left >= 0) & (left + columns <= shape[1]) & (top >= 0) & (top + lines <= shape[0])


@fused
def read_table(img, call, tables, b, strip, out):  # type: ignore[no-untyped-def]
    """Write the weighted sums around a strip's points, and the weights inside of the image."""
    noinline()
    table, (rows, right, first, last, begin, end, offsets, _) = _table_of(tables, b)
    base, channels, shape, unit, mode = np.uint64(call.base), call.channels, (call.height, call.width), call.unit, call.mode
    x, y, cover, strides = strip.rows[X], strip.rows[Y], strip.rows[COVER], (call.stride_c, call.stride_y, call.stride_x)
    blocks, line, lines = (end - begin + BLOCK - 1) // BLOCK, right * _EDGES, last - first
    columns, below = blocks * BLOCK, rows * line
    zero, one = cover.dtype.type(0.0), cover.dtype.type(1.0)
    stride_c, stride_y, stride_x = np.uint64(strides[0]), np.uint64(strides[1]), np.uint64(strides[2])
    for u in range(len(x)):
        cover[u] = zero
        for c in range(channels):
            out[c, u] = zero
        if not (np.isfinite(x[u]) & np.isfinite(y[u])):
            continue
        across, g, tx = _place(x[u])
        down, f, ty = _place(y[u])
        left, top = across + 1 - rows // 2 + begin, down + 1 - rows // 2 + first
        if (mode == FILLED) & _outside(left, top, lines, columns, shape):
            continue
        place = (f * below + first * line + g * right + begin, right, below, tx, ty)
        if _inside(left, top, lines, columns, shape, strides):
            cover[u] = one
            start = base + np.uint64(top) * stride_y + np.uint64(left)
            for k in range(blocks):
                here, block = (place[0] + k * BLOCK, right, below, tx, ty), np.uint64(k * BLOCK)
                for c in range(0, channels, 3):
                    found = _weigh(table, here, line, img, _three(start + block, c, channels, stride_c), offsets, lines)
                    out[c, u] += unit * found[0]
                    if c + 1 < channels:
                        out[c + 1, u] += unit * found[1]
                    if c + 2 < channels:
                        out[c + 2, u] += unit * found[2]
            continue
        for r in range(lines):
            v, seen = fold(top + r, shape[0], mode), _seen(top + r, shape[0], mode)
            for k in range(end - begin):
                weight, _, _ = _weight(table, place[0] + r * line + k, place)
                if (weight == zero) | ((not seen) | (not _seen(left + k, shape[1], mode))):
                    continue
                cover[u] += weight
                start = base + np.uint64(v) * stride_y + np.uint64(fold(left + k, shape[1], mode)) * stride_x
                for c in range(channels):
                    out[c, u] += unit * weight * img[start]
                    start += stride_c
        if mode != FILLED:
            cover[u] = one


@fused
def add_table(img, call, tables, b, needs, strip, g, to_cover, to_image, sums, along):  # type: ignore[no-untyped-def]
    """Pass on what a strip's pixels got: the adjoint of :func:`read_table`.

    Args:
        needs: whether the image's gradient is wanted, and whether those of points and table are.
        g, to_cover: the gradients of the sums and of the coverage.
        to_image: flat.
        sums: to which the table's gradient is added.
        along: where the points' gradients are written.
    """
    noinline()
    table, (rows, right, first, last, begin, end, offsets, written) = _table_of(tables, b)
    base, channels, shape, unit, mode = np.uint64(call.base), call.channels, (call.height, call.width), call.unit, call.mode
    x, y, along_x, along_y, own = strip.rows[X], strip.rows[Y], along[0], along[1], call.own
    strides, (needs_image, needs_slopes) = (call.stride_c, call.stride_y, call.stride_x), needs
    blocks, line, lines = (end - begin + BLOCK - 1) // BLOCK, right * _EDGES, last - first
    columns, below, plane = blocks * BLOCK, rows * line, np.uint64(shape[0] * shape[1])
    zero, scale = to_cover.dtype.type(0.0), to_cover.dtype.type(PHASES)
    stride_c, stride_y, stride_x = np.uint64(strides[0]), np.uint64(strides[1]), np.uint64(strides[2])
    for u in range(len(x)):
        along_x[u] = along_y[u] = zero
        if not (np.isfinite(x[u]) & np.isfinite(y[u])):
            continue
        across, h, tx = _place(x[u])
        down, f, ty = _place(y[u])
        left, top = across + 1 - rows // 2 + begin, down + 1 - rows // 2 + first
        if (mode == FILLED) & _outside(left, top, lines, columns, shape):
            continue
        place = (f * below + first * line + h * right + begin, right, below, tx, ty)
        total_x = total_y = zero
        if _inside(left, top, lines, columns, shape, strides):
            start, into = base + np.uint64(top) * stride_y + np.uint64(left), np.uint64(own + top * shape[1] + left)
            for k in range(blocks):
                here, block = (place[0] + k * BLOCK, right, below, tx, ty), np.uint64(k * BLOCK)
                for c in range(0, channels, 3):
                    grads = _grads(g, u, c, channels, unit)
                    if needs_image:
                        _spread(table, here, line, to_image, _three(into + block, c, channels, plane), written, lines, grads)
                    if needs_slopes:
                        starts = _three(start + block, c, channels, stride_c)
                        tilt = _tilt(table, here, line, img, starts, offsets, lines, grads, sums)
                        total_x, total_y = total_x + tilt[0], total_y + tilt[1]
        else:
            for r in range(lines):
                v, seen = fold(top + r, shape[0], mode), _seen(top + r, shape[0], mode)
                for k in range(end - begin):
                    if (not seen) | (not _seen(left + k, shape[1], mode)):
                        continue
                    i, at = fold(left + k, shape[1], mode), place[0] + r * line + k
                    weight, slope_x, slope_y = _weight(table, at, place)
                    start = base + np.uint64(v) * stride_y + np.uint64(i) * stride_x
                    into = np.uint64(own + v * shape[1] + i)
                    read = to_cover[u] if mode == FILLED else zero
                    for c in range(channels):
                        if needs_image and weight != zero:
                            to_image[into] += unit * g[c, u] * weight
                        if needs_slopes:
                            read += unit * g[c, u] * img[start]
                        start += stride_c
                        into += plane
                    if needs_slopes:
                        total_x, total_y = total_x + read * slope_x, total_y + read * slope_y
                        _share(sums, at, place, read)
        along_x[u], along_y[u] = total_x * scale, total_y * scale
