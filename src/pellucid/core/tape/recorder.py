"""Recording: ordinary tensor code runs once, on one sample, and its scalar arithmetic is written down.

Owns: value numbering, removal of dead code, and `Tape`.
Must not: guess: code with an operation that has no rule cannot be taped.
Read next: ``machine.py``.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.utils._python_dispatch import TorchDispatchMode

from pellucid.core.tape.machine import ROUNDED, Op, player
from pellucid.core.tape.number import Number, map_nested
from pellucid.core.tape.rules import CONSTANTS, MOVES, RULES, Rule

__all__ = ["Rows", "Tape", "TapeError", "is_plain_eager", "record"]

Rows: TypeAlias = np.ndarray[Any, Any]
"""An array with a row of numbers for each sample."""


class TapeError(Exception):
    """The code does something that no rule covers; the caller runs the code itself instead of a tape."""


def is_plain_eager() -> bool:
    """Return whether this is plain eager execution: no tracing, no compiling, no vmap, no forward-mode differentiation.

    Backward gradients are not checked here: they depend on the tensors.
    """
    return not (
        torch.compiler.is_compiling()
        or torch._C._are_functorch_transforms_active()
        or forward_ad._current_level >= 0
        or torch._C._len_torch_dispatch_stack()
        or torch._C._get_tracing_state()
    )


class Tape:
    """A recorded program: numbers of a sample in, numbers of that sample out.

    Args:
        given: the number of inputs of a sample.
        registers: the number of registers; the first of them hold the inputs.
        code: instructions (op, to, a, b, c).
        constants: what the registers after the inputs hold from the start.
        outputs: for each result the registers that hold its numbers.
        readings: registers whose values the code read while it was recorded, and those values. The tape holds for inputs that give
            the same values.
    """

    def __init__(
        self,
        given: int,
        registers: int,
        code: Tensor,
        constants: Tensor,
        outputs: Sequence[Sequence[int]],
        readings: Mapping[int, float],
    ) -> None:
        self.given, self.registers = given, registers
        self.code, self.constants = code.numpy(), constants.numpy()
        outputs = [*outputs, list(readings)]
        self._read = np.array(list(readings.values()), np.float64)
        self.sizes_do = all(op in _OF_SIZES for op in self.code[:, 0].tolist())
        ends = list(accumulate(map(len, outputs), initial=0))
        self._bounds = list(pairwise(ends))
        placed = [(register, first, len(held)) for held, first in zip(outputs, ends, strict=False) for register in held]
        self._outputs = np.array(placed, np.int64).reshape(-1, 3)
        self._wanted = outputs[-2:]

    def play(self, inputs: Rows) -> list[Rows] | None:
        """Compute the results of every sample; call it only if :func:`is_plain_eager` and no input requires a gradient.

        Args:
            inputs: (b, given) float64, contiguous.

        Returns:
            For each result its numbers (b, n), contiguous. None if the code would have taken another branch for some sample.
        """
        samples = len(inputs)
        flat = np.empty(samples * len(self._outputs))
        player()(inputs, self.code, self.constants, self._outputs, self.registers, flat)
        found = []
        for start, stop in self._bounds:
            found.append(flat[samples * start : samples * stop].reshape(samples, stop - start))
        read = found.pop()
        return found if not len(self._read) or bool((read == self._read).all()) else None

    def fixed(self, samples: int) -> tuple[tuple[Any, ...], int, list[slice]]:
        """For this many samples of the recorded sizes: the player's arguments between inputs and results, the count of all result
        numbers, and the slice of each result.
        """
        given, places = (self.code, self.constants, self._outputs, self.registers), self._bounds[:-1]
        return given, samples * len(self._outputs), [slice(samples * start, samples * stop) for start, stop in places]

    @cached_property
    def of_sizes(self) -> Callable[..., Sequence[float] | None]:
        """The tape as a Python function of sizes, if its inputs are sizes only: for one row, that is faster than the machine.

        It returns the numbers of the last result; None if the code would have taken another branch. Use it only if ``sizes_do``.
        """
        names = [*(f"n{k}" for k in range(self.given)), *map(repr, self.constants.tolist())]
        lines = [f"def of_sizes({', '.join(names[: self.given])}):"]
        for op, to, a, b, _ in self.code.tolist():
            lines.append(f" n{to} = {_OF_SIZES[op].format(names[a], names[b])}")
            names.append(f"n{to}")
        wanted, read = (f"[{', '.join(names[register] for register in held)}]" for held in self._wanted)
        lines.append(f" return {wanted} if {read} == {self._read.tolist()} else None")
        made: dict[str, Any] = {"floor": math.floor, "ceil": math.ceil, "trunc": math.trunc, "inf": math.inf, "nan": math.nan}
        exec("\n".join(lines), made)  # the text consists of numbers and of the templates below
        found: Callable[..., Sequence[float] | None] = made["of_sizes"]
        return found


_OF_SIZES: dict[int, str] = {
    Op.ADD: "{} + {}",
    Op.SUB: "{} - {}",
    Op.MUL: "{} * {}",
    Op.DIV: "{} / {}",
    Op.LT: "{} < {}",
    Op.LE: "{} <= {}",
    Op.EQ: "{} == {}",
    Op.NE: "{} != {}",
    Op.REMAINDER: "{} % {}",
    Op.NEG: "-{}",
    Op.ABS: "abs({})",
    Op.FLOOR: "float(floor({}))",
    Op.CEIL: "float(ceil({}))",
    Op.TRUNC: "float(trunc({}))",
    Op.ROUND: "float(round({}))",
}
"""The operations of a `Number`, as templates of Python code."""


Result: TypeAlias = Tensor | Sequence[Number]


def record(
    function: Callable[..., Sequence[Result]],
    shapes: Sequence[tuple[int, ...] | int],
    *,
    exact: bool = False,
    plainly: bool = False,
    rules: Mapping[Any, Rule] = RULES,
) -> Tape:
    """Record a function of tensors whose first axis is the sample, and of positive whole numbers such as sizes.

    Args:
        function: treats samples independently and does not branch on their values. Each result is a tensor with one row (constants
            may have one row for all samples) or a sequence of numbers. If it reads a number that it was given, the tape notes that.
        shapes: for each argument its shape without the first axis, or the number to use while recording. The numbers of all
            arguments, one after another, are a row of the tape's inputs.
        exact: refuse functions whose last bit differs between libraries, such as sines.
        plainly: pass plain ints: the tape then holds for these numbers alone.
        rules: from torch's operations to scalar arithmetic. With other rules, a tape may hold instructions that `Tape.play` lacks.

    Errors:
        TapeError for an operation without a rule.
    """
    recorder = _Recorder(exact, rules)
    with torch.no_grad():
        inputs = [recorder.given_number(shape) if isinstance(shape, int) else recorder.given(shape) for shape in shapes]
        with recorder:
            results = list(function(*(int(x) if plainly and isinstance(x, Number) else x for x in inputs)))
    return recorder.tape([recorder.registers(result) for result in results])


class _Recorder(TorchDispatchMode):
    """Runs every tensor operation, and also tracks a shadow of each tensor: the numbers of the registers that hold its elements."""

    def __init__(self, exact: bool, rules: Mapping[Any, Rule]) -> None:
        super().__init__()
        self._exact, self._rules = exact, rules
        self._given = 0
        self._made = 0  # how many registers there are, numbered in the order in which they get their values
        self._shadows: dict[int, tuple[Tensor, Tensor]] = {}  # by identity of the tensor, which is kept alive
        self._numbers: dict[bytes, int] = {}
        self._values: dict[int, float] = {}
        self._known: dict[tuple[int, ...], int] = {}
        self._sized: set[int] = set()  # registers that depend on the given numbers (sizes) alone
        self._readings: dict[int, float] = {}
        self._settled: set[int] = set()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # otherwise the first operation would import torch's compiler, which takes a second

    def given(self, shape: tuple[int, ...]) -> Tensor:
        """Return a new tensor argument for one sample."""
        shadow = torch.arange(torch.Size(shape).numel()).reshape(1, *shape) + self._given
        self._given += shadow.numel()
        self._made = self._given
        # Draws lie in the open unit interval, so 0.5 raises no error anywhere; the tape does not depend on it.
        return self._track(torch.full((1, *shape), 0.5, dtype=torch.float64), shadow)

    def given_number(self, value: int) -> Number:
        """Return a new argument that is a positive whole number."""
        self._sized.add(self._given)
        self._given += 1
        self._made = self._given
        return Number(self, self._given - 1, value, positive=True)

    def tensor(self, number: Number) -> Tensor:
        """Return a number as a tensor, for operations with other tensors."""
        dtype = torch.int64 if isinstance(number.value, int) else torch.float64
        return self._track(torch.tensor(number.value, dtype=dtype), torch.tensor(number.register))

    def read(self, register: int, value: float) -> None:
        """Note that the code read a register's value: the tape holds for inputs that give this value."""
        if register not in self._values and register not in self._settled:
            self._readings[register] = float(value)

    def settle(self) -> None:
        """Forget which registers were read so far, and ignore it if they are read again."""
        self._settled.update(self._readings)
        self._readings.clear()

    def registers(self, result: Result) -> list[int]:
        """Return the registers that hold a result."""
        if isinstance(result, Tensor):
            return self.shadow(result).reshape(-1).tolist()
        return [number.register for number in result]

    def _track(self, tensor: Tensor, shadow: Tensor) -> Tensor:
        self._shadows[id(tensor)] = (tensor, shadow)
        return tensor

    def shadow(self, value: Any) -> Tensor:
        """See `rules.Recorder`."""
        if not isinstance(value, Tensor):
            return torch.tensor(self.number(float(value)))
        if id(value) in self._shadows:
            return self._shadows[id(value)][1]
        numbers = [self.number(x) for x in value.to(torch.float64).reshape(-1).tolist()]
        return torch.tensor(numbers, dtype=torch.int64).reshape(value.shape)

    def number(self, value: float) -> int:
        """See `rules.Recorder`."""
        key = struct.pack("d", value)  # tells -0.0 from 0.0, and a NaN equals itself
        if key not in self._numbers:
            self._numbers[key] = self._made
            self._values[self._made] = value
            self._made += 1
        return self._numbers[key]

    def emit(self, op: Op, *registers: int) -> int:
        """See `rules.Recorder`."""
        if self._exact and op in ROUNDED:
            raise TapeError(op.name)
        if op is Op.MUL:
            a, b = registers
            if self._values.get(a) == 1.0:
                return b
            if self._values.get(b) == 1.0:
                return a
        values = [self._values[r] for r in registers if r in self._values]
        if len(values) == len(registers) and op in _FOLDED:
            return self.number(_FOLDED[op](*values))
        key = (int(op), *registers)
        if key not in self._known:
            self._known[key] = self._made
            if all(r in self._sized or r in self._values for r in registers):
                self._sized.add(self._made)
            self._made += 1
        return self._known[key]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        packet = func.overloadpacket
        if packet in CONSTANTS or not any(id(t) in self._shadows for t in _tensors(args)):
            return out
        if packet is torch.ops.aten._local_scalar_dense and (register := int(self.shadow(args[0]))) in self._sized:
            self.read(register, out)
            return out
        if packet is torch.ops.aten._to_copy:
            self._track(out, self._converted(args[0], out))
        elif packet in self._rules:
            self._apply(packet, args, kwargs, out)
        elif packet in MOVES:
            moved = func(*_map_tensors(self.shadow, args), **_map_tensors(self.shadow, kwargs))
            for real, shadow in zip(out, moved, strict=True) if isinstance(out, list | tuple) else [(out, moved)]:
                self._track(real, shadow)
        else:
            raise TapeError(str(func))
        return out

    def _apply(self, packet: Any, args: Any, kwargs: Any, out: Any) -> None:
        try:
            shadows: Any = self._rules[packet](self, *args, **kwargs)
        except (TypeError, NotImplementedError) as error:  # an option that the rule does not support
            raise TapeError(str(packet)) from error
        for real, shadow in zip(out, shadows, strict=True) if isinstance(out, tuple) else [(out, shadows)]:
            if shadow is None:
                continue
            if real.dtype not in (torch.float64, torch.int64, torch.bool) or real.shape != shadow.shape:
                raise TapeError(f"{packet} in {real.dtype}")
            self._track(real, shadow)

    def _converted(self, source: Tensor, out: Tensor) -> Tensor:
        shadow = self.shadow(source)
        narrow = {torch.float32: Op.SINGLE, torch.int64: Op.TRUNC}.get(out.dtype)
        if out.dtype not in (torch.float64, torch.float32, torch.int64):
            raise TapeError(f"conversion to {out.dtype}")
        if narrow is None or source.dtype in (out.dtype, torch.bool):
            return shadow
        return torch.tensor([self.emit(narrow, r) for r in shadow.reshape(-1).tolist()], dtype=torch.int64).reshape(shadow.shape)

    def tape(self, outputs: list[list[int]]) -> Tape:
        """Make the tape of what the outputs need, with registers renumbered: inputs, constants, then computed values in order."""
        made = {register: key for key, register in self._known.items()}
        needed = {register for held in outputs for register in held} | set(self._readings)
        for register in sorted(made, reverse=True):
            if register in needed:
                needed.update(made[register][1:])
        constants = [r for r in self._values if r in needed]
        computed = [r for r in sorted(made) if r in needed]
        place = {r: r for r in range(self._given)}
        place |= {r: self._given + k for k, r in enumerate(constants + computed)}
        code = [[made[r][0], place[r], *(place[a] for a in made[r][1:]), 0, 0][:5] for r in computed]
        return Tape(
            self._given,
            len(place),
            torch.tensor(code, dtype=torch.int64).reshape(-1, 5),
            torch.tensor([self._values[r] for r in constants], dtype=torch.float64),
            [[place[r] for r in held] for held in outputs],
            {place[r]: value for r, value in self._readings.items()},
        )


_FOLDED: dict[Op, Callable[..., float]] = {
    Op.ADD: lambda a, b: a + b,
    Op.SUB: lambda a, b: a - b,
    Op.MUL: lambda a, b: a * b,
}
"""Operations that Python computes with the same bits, so that those on constants are computed while recording."""


def _tensors(args: Any) -> list[Tensor]:
    found: list[Tensor] = []
    _map_tensors(found.append, args)
    return found


def _map_tensors(function: Callable[[Tensor], Any], value: Any) -> Any:
    return map_nested(lambda v: function(v) if isinstance(v, Tensor) else v, value)
