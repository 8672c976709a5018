"""Write parts of kernels as vector instructions, where Numba's compiler would not vectorise a loop.

Owns: `woven`, which generates such a part from a Python function; `Array` and `Lanes`, which that function gets in place of values.
Must not: check bounds.
Read next: ``warp/cpu/quads.py``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from pellucid.kernels.narrow import Narrow, widened

__all__ = ["Array", "Lanes", "Sum", "take", "together", "woven"]

_INT = ir.IntType(32)


class Lanes:
    """A number, or a vector of numbers, in code that is being generated.

    A number beside a vector is broadcast to every lane. Sums of products may become fused multiply-adds.
    """

    def __init__(self, builder: Any, value: Any) -> None:
        self.builder, self.value = builder, value

    @property
    def type(self) -> Any:
        """LLVM's type of one lane."""
        return self.value.type.element if self.count else self.value.type

    @property
    def count(self) -> int:
        """The number of lanes; 0 for a single number."""
        return self.value.type.count if isinstance(self.value.type, ir.VectorType) else 0

    @property
    def whole(self) -> bool:
        """Whether the numbers are integers."""
        return isinstance(self.type, ir.IntType)

    def spread(self, count: int) -> Lanes:
        """Broadcast a number to so many lanes."""
        kind = ir.VectorType(self.type, count)
        first = self.builder.insert_element(ir.Constant(kind, ir.Undefined), self.value, _INT(0))
        return self._made(self.builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(_INT, count), [0] * count)))

    def to(self, like: Lanes) -> Lanes:
        """Convert to the type of ``like``, which is no narrower; integers are read as unsigned."""
        if self.type == like.type:
            return self
        kind = ir.VectorType(like.type, self.count) if self.count else like.type
        how = {(True, True): "zext", (True, False): "uitofp", (False, False): "fpext"}[self.whole, like.whole]
        return self._made(getattr(self.builder, how)(self.value, kind))

    def like(self, number: float | list[float]) -> Lanes:
        """A constant of the same type and number of lanes, or one constant for each lane."""
        return self._made(
            ir.Constant(self.value.type, [number] * self.count if self.count and not isinstance(number, list) else number)
        )

    def choose(self, this: Lanes, other: Lanes) -> Lanes:
        """Select one of two by this condition, which is one for all or one for each lane."""
        return self._made(self.builder.select(self.value, this.value, other.value))

    def is_not(self, number: float) -> Lanes:
        """Whether it differs from a constant; NaN does."""
        return self._made(self.builder.fcmp_unordered("!=", self.value, self.like(number).value))

    def at_least(self, number: int) -> Lanes:
        """The maximum of integers and a constant."""
        return self._limited(">", number)

    def at_most(self, number: int) -> Lanes:
        """The minimum of integers and a constant."""
        return self._limited("<", number)

    def shifted(self, bits: int) -> Lanes:
        """Integers divided by 2 ** bits, rounded down."""
        return self._made(self.builder.ashr(self.value, self.like(bits).value))

    def sums(self) -> Lanes:
        """The sum over all lanes, half by half."""
        total = self
        while total.count > 1:
            half = total.count // 2
            total = total[:half] + total[half:]
        return total.lane(0)

    def lane(self, place: int) -> Lanes:
        """The number in one lane."""
        return self._made(self.builder.extract_element(self.value, _INT(place)))

    def __getitem__(self, lanes: slice | Iterable[int]) -> Lanes:
        return take(self, self, range(self.count)[lanes] if isinstance(lanes, slice) else lanes)

    def __add__(self, other: Any) -> Lanes:
        return self._with(other, "add")

    def __radd__(self, other: Any) -> Lanes:
        return self + other

    def __sub__(self, other: Any) -> Lanes:
        return self._with(other, "sub")

    def __rsub__(self, other: Any) -> Lanes:
        return self.like(other) - self

    def __mul__(self, other: Any) -> Lanes:
        return self._with(other, "mul")

    def __rmul__(self, other: Any) -> Lanes:
        return self * other

    @contextmanager
    def loop(self) -> Iterator[Lanes]:
        """Generate a loop: the code inside runs for every integer below this number."""
        with cgutils.for_range(self.builder, self.value) as found:
            yield self._made(found.index)

    def _made(self, value: Any) -> Lanes:
        return Lanes(self.builder, value)

    def _limited(self, sign: str, number: int) -> Lanes:
        limit = self.like(number)
        return self._made(self.builder.icmp_signed(sign, self.value, limit.value)).choose(self, limit)

    def _with(self, other: Any, what: str) -> Lanes:
        one, two = self, other if isinstance(other, Lanes) else self.like(other)
        if one.count != two.count:
            one, two = one if one.count else one.spread(two.count), two if two.count else two.spread(one.count)
        if one.whole:
            return self._made(getattr(self.builder, what)(one.value, two.value))
        return self._made(getattr(self.builder, f"f{what}")(one.value, two.value, flags=("contract",)))


class Sum:
    """An accumulator for a loop."""

    def __init__(self, start: Lanes) -> None:
        self._builder, self._place = start.builder, cgutils.alloca_once_value(start.builder, start.value)

    def add(self, more: Lanes) -> None:
        """Add to the accumulator."""
        self._builder.store((self.found + more).value, self._place)

    @property
    def found(self) -> Lanes:
        """The sum so far."""
        return Lanes(self._builder, self._builder.load(self._place))


class Array:
    """A contiguous array in code that is being generated."""

    def __init__(self, target: Any, builder: Any, kind: Any, value: Any) -> None:
        self.builder, self._target, self._narrow = builder, target, kind.kind if isinstance(kind, Narrow) else None
        make = cgutils.create_struct_proxy(kind) if self._narrow else target.make_array(kind)
        self.data = make(target, builder, value).data
        self.size: int = (kind.bits if self._narrow else kind.dtype).bitwidth // 8

    def load(self, index: Lanes, lanes: int = 0) -> Lanes:
        """Load so many elements from an index on, or the one there; a `Narrow` array's come as float32."""
        value = self.builder.load(self._at(index, lanes and ir.VectorType(self.data.type.pointee, lanes)))
        value.align = self.size
        return Lanes(self.builder, value if self._narrow is None else widened(self._target, self.builder, self._narrow, value))

    def gathered(self, places: Iterable[Lanes], lanes: int) -> Lanes:
        """Gather the elements at these places into a vector, which zeros fill up to ``lanes``."""
        bits = ir.Constant(ir.VectorType(self.data.type.pointee, lanes), None)
        for lane, place in enumerate(places):
            bits = self.builder.insert_element(bits, self.builder.load(self._at(place)), _INT(lane))
        return Lanes(self.builder, bits if self._narrow is None else widened(self._target, self.builder, self._narrow, bits))

    def store(self, index: Lanes, found: Lanes) -> None:
        """Write a vector or a number from an index on."""
        self.builder.store(found.value, self._at(index, found.value.type)).align = self.size

    def add(self, index: Lanes, found: Lanes) -> None:
        """Add a vector or a number to the elements from an index on."""
        self.store(index, self.load(index, found.count) + found)

    def zeros(self, lanes: int) -> Lanes:
        """A vector of so many zeros."""
        return Lanes(self.builder, ir.Constant(ir.VectorType(self.data.type.pointee, lanes), None))

    def copy(self, place: Lanes, source: Array, at: Lanes, count: Lanes) -> None:
        """Copy elements of another array of the same kind."""
        cgutils.raw_memcpy(self.builder, self._at(place), source._at(at), count.value, self.size)

    def ask(self, index: Lanes, *, written: bool) -> None:
        """Prefetch the memory of an element."""
        place = self._at(index, ir.IntType(8))
        kind = ir.FunctionType(ir.VoidType(), [place.type, _INT, _INT, _INT])
        fetch = cgutils.get_or_insert_function(self.builder.module, kind, "llvm.prefetch.p0i8")
        self.builder.call(fetch, [place, _INT(int(written)), _INT(3), _INT(1)])

    def _at(self, index: Lanes, kind: Any = None) -> Any:
        place = self.builder.gep(self.data, [index.value])
        return self.builder.bitcast(place, kind.as_pointer()) if kind else place


def together(numbers: Iterable[Lanes], lanes: int) -> Lanes:
    """A vector of these numbers; further lanes, up to ``lanes``, are undefined."""
    *_, last = found = list(numbers)
    vector = ir.Constant(ir.VectorType(last.type, lanes), ir.Undefined)
    for lane, number in enumerate(found):
        vector = last.builder.insert_element(vector, number.value, _INT(lane))
    return Lanes(last.builder, vector)


def take(first: Lanes, second: Lanes, lanes: Iterable[int]) -> Lanes:
    """Shuffle two vectors: pick these lanes, counted through both."""
    places = list(lanes)
    order = ir.Constant(ir.VectorType(_INT, len(places)), places)
    return Lanes(first.builder, first.builder.shuffle_vector(first.value, second.value, order))


def _given(target: Any, builder: Any, kind: Any, value: Any) -> Any:
    if isinstance(kind, types.BaseTuple):
        parts = zip(kind, cgutils.unpack_tuple(builder, value), strict=True)
        return tuple(_given(target, builder, *part) for part in parts)
    return Array(target, builder, kind, value) if isinstance(kind, types.Array | Narrow) else Lanes(builder, value)


def woven(returns: int = 0) -> Callable[[Callable[..., Any]], Any]:
    """Turn a function into an intrinsic: it is called once, while a kernel is compiled, and its operations become kernel code.

    Args:
        returns: how many numbers, of the first argument's kind, it returns.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        def typed(context: Any, *kinds: Any) -> Any:
            del context

            def codegen(target: Any, builder: Any, signature: Any, args: Any) -> Any:
                found = function(*(_given(target, builder, *each) for each in zip(signature.args, args, strict=True)))
                if returns > 1:
                    return target.make_tuple(builder, signature.return_type, [number.value for number in found])
                return found.value if returns else target.get_dummy_value()

            made = types.void if not returns else kinds[0].dtype if returns == 1 else types.UniTuple(kinds[0].dtype, returns)
            return made(*kinds), codegen

        given = [
            inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD),
            *inspect.signature(function).parameters.values(),
        ]
        typed.__name__, typed.__signature__ = function.__name__, inspect.Signature(given)  # type: ignore[attr-defined]
        return intrinsic(typed)

    return decorate
