"""Arrays of 16-bit floats and of 8-bit steps that kernels read and write as if they held float32.

Owns: `numbers` and `steps`, which wrap an array inside a compiled function, and the conversions, which equal torch's bit for bit.
Must not: copy an array, or be imported by anything that ``import pellucid`` imports.
Read next: ``jit.py``.

Numba has no 16-bit floats, so they come as the integers of their bits: float16 as uint16, bfloat16 as int16. The array's type
decides while compiling: kernels for other arrays stay what they were.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils, imputils
from numba.core.typing import templates
from numba.extending import intrinsic, models, register_model

__all__ = ["Narrow", "half_bits", "half_number", "numbers", "steps", "widened"]

_FLOAT, _INT, _SHORT = ir.FloatType(), ir.IntType(32), ir.IntType(16)
_KINDS = {types.uint16: "float16", types.int16: "bfloat16", types.uint8: "fractions", types.int8: "levels"}
_BYTES = ("fractions", "levels")


class Narrow(types.Type):  # type: ignore[misc]
    """A contiguous array with one or two axes whose elements are read and written as float32.

    Args:
        kind: ``float16``, ``bfloat16``; or bytes, rounded when written: ``fractions`` of 255, clipped to [0, 1], or ``levels``
            as they are, clipped to [0, 255].
        ndim: how many axes.
    """

    def __init__(self, kind: str, ndim: int) -> None:
        self.kind, self.ndim = kind, ndim
        self.bits = types.uint8 if kind in _BYTES else types.uint16
        super().__init__(f"Narrow({kind}, {ndim})")


@register_model(Narrow)
class _Model(models.StructModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Narrow) -> None:
        # length of the last axis, and of the first
        members = [("data", types.CPointer(kind.bits)), ("length", types.intp), ("rows", types.intp)]
        super().__init__(manager, kind, members)


def _wrapping(*wrapped: Any) -> Any:
    """An intrinsic that wraps arrays of these types, and takes the owner off all others, as ``jit.without_refcount`` does."""

    @intrinsic
    def wrap(context: Any, array: Any) -> Any:
        del context
        if array.dtype not in wrapped:

            def borrowed(target: Any, builder: Any, signature: Any, args: Any) -> Any:
                value = target.make_array(signature.args[0])(target, builder, value=args[0])
                value.meminfo, value.parent = value.meminfo.type(None), value.parent.type(None)
                return value._getvalue()

            return array(array), borrowed
        kind = Narrow(_KINDS[array.dtype], array.ndim)

        def codegen(target: Any, builder: Any, signature: Any, args: Any) -> Any:
            value = target.make_array(signature.args[0])(target, builder, value=args[0])
            made = cgutils.create_struct_proxy(kind)(target, builder)
            made.data = builder.bitcast(value.data, made.data.type)
            shape = cgutils.unpack_tuple(builder, value.shape)
            made.length, made.rows = shape[-1], shape[0]
            return made._getvalue()

        return kind(array), codegen

    return wrap


numbers = _wrapping(types.uint16, types.int16)
"""An array to read or write, without its owner; 16-bit floats are wrapped."""

steps = _wrapping(types.uint16, types.int16, types.uint8, types.int8)
"""The same for an array to write; bytes are wrapped, too: levels come as int8."""


def half_number(bits):  # type: ignore[no-untyped-def]
    """Convert a float16's bits to float32, on processors that have no instruction for it."""
    magnitude = np.uint32(bits & 0x7FFF)
    # The exponent's bias differs by 112; a product also brings subnormal numbers right.
    number = np.uint32(magnitude << 13).view(np.float32) * np.float32(2.0**112)
    found = np.float32(number).view(np.uint32)
    if magnitude >= 0x7C00:
        found = np.uint32(0x7F800000 | (magnitude << 13))
    return np.uint32(found | np.uint32(bits & 0x8000) << np.uint32(16)).view(np.float32)


def half_bits(number):  # type: ignore[no-untyped-def]
    """The bits of the nearest float16, halves to even, on processors that have no instruction for it."""
    bits = np.float32(number).view(np.uint32)
    sign, magnitude = np.uint32(bits >> 16) & np.uint32(0x8000), bits & np.uint32(0x7FFFFFFF)
    if magnitude > 0x7F800000:
        found = np.uint32(0x7E00)
    elif magnitude >= 0x477FF000:  # from 65520 on the nearest is infinity
        found = np.uint32(0x7C00)
    elif magnitude < 0x38800000:  # subnormal: units of 2^-24
        found = np.uint32(np.rint(np.uint32(magnitude).view(np.float32) * np.float32(2.0**24)))
    else:
        rebased = magnitude - np.uint32(0x38000000)
        found = (rebased + np.uint32(0x0FFF) + (rebased >> np.uint32(13) & np.uint32(1))) >> np.uint32(13)
    return np.uint16(found | sign)


@templates.infer_global(operator.getitem)
class _Get(templates.AbstractTemplate):  # type: ignore[misc]
    def generic(self, args: Any, kws: Any) -> Any:
        del kws
        array, index = args
        if not isinstance(array, Narrow):
            return None
        if isinstance(index, types.SliceType):
            return templates.signature(array, array, types.slice2_type) if array.ndim == 1 else None
        if isinstance(index, types.Integer):
            return templates.signature(types.float32 if array.ndim == 1 else Narrow(array.kind, 1), array, index)
        return None


@templates.infer_global(operator.setitem)
class _Set(templates.AbstractTemplate):  # type: ignore[misc]
    def generic(self, args: Any, kws: Any) -> Any:
        del kws
        array, index, value = args
        if isinstance(array, Narrow) and array.ndim == 1 and isinstance(index, types.Integer) and isinstance(value, types.Float):
            return templates.signature(types.none, array, index, value if array.kind in _BYTES else types.float32)
        return None


@templates.infer_global(len)
class _Len(templates.AbstractTemplate):  # type: ignore[misc]
    def generic(self, args: Any, kws: Any) -> Any:
        del kws
        return templates.signature(types.intp, *args) if isinstance(args[0], Narrow) else None


@templates.infer_getattr
class _Attributes(templates.AttributeTemplate):  # type: ignore[misc]
    key = Narrow

    def resolve_itemsize(self, kind: Narrow) -> Any:
        del kind
        return types.intp


@imputils.lower_getattr(Narrow, "itemsize")
def _itemsize(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    del builder, value
    return context.get_constant(types.intp, kind.bits.bitwidth // 8)


def _parts(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    return cgutils.create_struct_proxy(kind)(context, builder, value=value)


@imputils.lower_builtin(len, Narrow)
def _len(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return _parts(context, builder, signature.args[0], args[0]).rows


@imputils.lower_builtin(operator.getitem, Narrow, types.SliceType)
def _slice(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    kind, sliced = signature.args
    made, part = _parts(context, builder, kind, args[0]), _parts(context, builder, sliced, args[1])
    stop = builder.select(builder.icmp_signed("<", part.stop, made.length), part.stop, made.length)
    made.data = builder.gep(made.data, [part.start])
    made.length = made.rows = builder.sub(stop, part.start)
    return made._getvalue()


@imputils.lower_builtin(operator.getitem, Narrow, types.Integer)
def _get(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    kind = signature.args[0]
    made, index = _parts(context, builder, kind, args[0]), _offset(context, builder, signature.args[1], args[1])
    if kind.ndim == 2:
        row = cgutils.create_struct_proxy(signature.return_type)(context, builder)
        row.data = builder.gep(made.data, [builder.mul(index, made.length)])
        row.length = row.rows = made.length
        return row._getvalue()
    bits = builder.load(builder.gep(made.data, [index]))
    return _widened(context, builder, kind.kind, bits)


@imputils.lower_builtin(operator.setitem, Narrow, types.Integer, types.Float)
def _set(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    kind = signature.args[0]
    made, index = _parts(context, builder, kind, args[0]), _offset(context, builder, signature.args[1], args[1])
    builder.store(_narrowed(context, builder, kind.kind, args[2]), builder.gep(made.data, [index]))
    return context.get_dummy_value()


def _offset(context: Any, builder: Any, kind: Any, index: Any) -> Any:
    return context.cast(builder, index, kind, types.uintp if not kind.signed else types.intp)


def _converts_halves() -> bool:
    """Whether the processor converts float16 by itself; LLVM would otherwise call a library that is not there."""
    machine = binding.get_process_triple().partition("-")[0]
    if machine in ("x86_64", "i686"):
        return bool(binding.get_host_cpu_features().get("f16c", False))
    return machine in ("aarch64", "arm64")


def _widened(context: Any, builder: Any, kind: str, bits: Any) -> Any:
    if kind in _BYTES:
        return builder.uitofp(bits, _FLOAT)
    if kind == "bfloat16":
        return builder.bitcast(builder.shl(builder.zext(bits, _INT), _INT(16)), _FLOAT)
    if _converts_halves():
        return builder.fpext(builder.bitcast(bits, ir.HalfType()), _FLOAT)
    return context.compile_internal(builder, half_number, types.float32(types.uint16), [bits])


def widened(context: Any, builder: Any, kind: str, bits: Any) -> Any:
    """A vector of such elements as one of float32."""
    lanes = bits.type.count
    if kind in _BYTES:
        return builder.uitofp(bits, ir.VectorType(_FLOAT, lanes))
    if kind == "bfloat16":
        wide = ir.VectorType(_INT, lanes)
        return builder.bitcast(builder.shl(builder.zext(bits, wide), ir.Constant(wide, [16] * lanes)), ir.VectorType(_FLOAT, lanes))
    if _converts_halves():
        return builder.fpext(builder.bitcast(bits, ir.VectorType(ir.HalfType(), lanes)), ir.VectorType(_FLOAT, lanes))
    vector = ir.Constant(ir.VectorType(_FLOAT, lanes), ir.Undefined)
    for lane in range(lanes):
        number = _widened(context, builder, kind, builder.extract_element(bits, _INT(lane)))
        vector = builder.insert_element(vector, number, _INT(lane))
    return vector


def _narrowed(context: Any, builder: Any, kind: str, number: Any) -> Any:
    if kind in _BYTES:
        zero, most = number.type(0.0), number.type(1.0 if kind == "fractions" else 255.0)
        number = builder.select(builder.fcmp_ordered(">", number, zero), number, zero)  # not NaN either
        number = builder.select(builder.fcmp_ordered("<", number, most), number, most)
        if kind == "fractions":
            number = builder.fmul(number, number.type(255.0))
        rint = builder.module.declare_intrinsic("llvm.rint", [number.type])
        return builder.trunc(builder.fptosi(builder.call(rint, [number]), _INT), ir.IntType(8))
    if kind == "bfloat16":
        bits = builder.bitcast(number, _INT)
        high = builder.lshr(bits, _INT(16))
        rounded = builder.lshr(builder.add(bits, builder.add(_INT(0x7FFF), builder.and_(high, _INT(1)))), _INT(16))
        ordered = builder.fcmp_ordered("ord", number, number)
        return builder.trunc(builder.select(ordered, rounded, builder.or_(high, _INT(0x40))), _SHORT)
    if _converts_halves():
        return builder.bitcast(builder.fptrunc(number, ir.HalfType()), _SHORT)
    return context.compile_internal(builder, half_bits, types.uint16(types.float32), [number])
