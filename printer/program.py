"""Programs of scalar arithmetic: what a stage computes on one pixel.

Owns: `Program` and its operations, `Writer`, which never writes a value twice, and `played`, the meaning of a program in torch.
Must not: know a stage, a derivative or a compiler.
Read next: ``derived.py``.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

__all__ = ["FLAT", "OPERATIONS", "Program", "Step", "Value", "Writer", "played"]


def _over_all(operation: Callable[[Tensor, int], Tensor]) -> Callable[..., Tensor]:
    return lambda *values: operation(torch.stack(torch.broadcast_tensors(*values)), 0)


OPERATIONS: Mapping[str, Callable[..., Tensor]] = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "neg": torch.neg,
    "abs": torch.abs,
    "sign": lambda value: torch.copysign(torch.ones_like(value), value),
    "floor": torch.floor,
    "remainder": torch.remainder,
    "pow": torch.pow,
    "exp2": torch.exp2,
    "log": torch.log,
    "cos": torch.cos,
    "lt": torch.lt,
    "le": torch.le,
    "eq": torch.eq,
    "and": torch.logical_and,
    "or": torch.logical_or,
    "not": torch.logical_not,
    "where": torch.where,
    "minimum": torch.minimum,
    "maximum": torch.maximum,
    "least": _over_all(torch.amin),  # of all channels
    "most": _over_all(torch.amax),
    "clamp": torch.clamp,
    "still": lambda value: value,  # no gradient goes back through it
    "lesser": torch.fmin,  # where a value is not a number, whichever of the two is cheap
    "greater": torch.fmax,
}
"""What a program may do, and what it means."""

FLAT = frozenset({"given", "number", "floor", "still", "lt", "le", "eq", "and", "or", "not"})
"""What has no slope anywhere."""

_EXCHANGEABLE = frozenset({"add", "mul", "eq", "and", "or"})


class Step(NamedTuple):
    """One value: an operation of earlier values, by their places; ``given``; or a ``number``."""

    what: str
    of: tuple[int, ...] = ()
    number: float = 0.0


class Program(NamedTuple):
    """Numbers in, numbers out.

    Args:
        given: names of what comes in; they are the first steps.
        steps: every value once, after those that it is made of.
        results: places of what comes out.
    """

    given: tuple[str, ...]
    steps: tuple[Step, ...]
    results: tuple[int, ...]


def played(program: Program, given: Sequence[Tensor]) -> list[Tensor]:
    """A program's results for tensors of one dtype, which broadcast; torch's own operations give them."""
    values: list[Tensor] = list(given)
    for step in program.steps[len(program.given) :]:
        if step.what == "number":
            values.append(given[0].new_tensor(step.number))
        else:
            values.append(OPERATIONS[step.what](*(values[place] for place in step.of)))
    return [values[place] for place in program.results]


Number: TypeAlias = "Value | float"


def _written(what: str, *, turned: bool = False) -> Callable[..., Value]:
    """A method that writes an operation of a value and of others; ``turned``: with the value last."""

    def method(self: Value, *others: Number) -> Value:
        return self.writer.do(what, *((*others, self) if turned else (self, *others)))

    return method


@dataclass(frozen=True, eq=False)
class Value:
    """A value of the program that a writer is writing; arithmetic on it is written down.

    Besides operators there are `equals`, as Python's ``==`` is asked by containers, and `where`: of two, by an answer.
    """

    writer: Writer
    place: int

    __add__ = _written("add")
    __sub__, __rsub__ = _written("sub"), _written("sub", turned=True)
    __mul__ = _written("mul")
    __truediv__, __rtruediv__ = _written("div"), _written("div", turned=True)
    __pow__ = _written("pow")
    __neg__ = _written("neg")
    __lt__, __gt__, __le__ = _written("lt"), _written("lt", turned=True), _written("le")
    __and__, __or__, __invert__ = _written("and"), _written("or"), _written("not")
    equals, where = _written("eq"), _written("where")


class Writer:
    """Writes a program; what was written before is found again, and what changes no bit is left out."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._given: list[str] = []
        self._known: dict[tuple[str, tuple[int, ...], bytes], Value] = {}

    def given(self, name: str) -> Value:
        """What comes in; before anything else is written."""
        self._given.append(name)
        return self._append(Step("given"))

    def number(self, number: float) -> Value:
        """A constant."""
        return self._find(Step("number", (), number))

    def do(self, what: str, *values: Number) -> Value:
        """The value of an operation."""
        of = [value if isinstance(value, Value) else self.number(value) for value in values]
        shorter = self._shorter(what, of)
        if shorter is not None:
            return shorter
        places = tuple(value.place for value in of)
        return self._find(Step(what, tuple(sorted(places)) if what in _EXCHANGEABLE else places))

    def add(self, program: Program, given: Iterable[Value]) -> list[Value]:
        """All values of another program, for what it is given here."""
        values = list(given)
        for step in program.steps[len(program.given) :]:
            values.append(self.number(step.number) if step.what == "number" else self.do(step.what, *(values[k] for k in step.of)))
        return values

    def assumed(self, value: Value, question: Value, answer: bool) -> Value:
        """What a value is where a question has this answer."""
        known: dict[int, int] = {}

        def seen(place: int) -> int:
            if place not in known:
                step = self.steps[place]
                if step.what == "where" and step.of[0] == question.place:
                    known[place] = seen(step.of[1 if answer else 2])
                else:
                    of = [seen(k) for k in step.of]
                    known[place] = place if tuple(of) == step.of else self.do(step.what, *map(self._at, of)).place
            return known[place]

        return self._at(seen(value.place))

    def program(self, results: Sequence[Value]) -> Program:
        """What was written, as far as the results need it."""
        needed = {value.place for value in results}
        for place in range(len(self.steps) - 1, -1, -1):
            if place in needed:
                needed.update(self.steps[place].of)
        kept = [place for place in range(len(self.steps)) if place < len(self._given) or place in needed]
        new = {place: k for k, place in enumerate(kept)}
        steps = [self.steps[place] for place in kept]
        moved = (step._replace(of=tuple(new[place] for place in step.of)) for step in steps)
        return Program(tuple(self._given), tuple(moved), tuple(new[value.place] for value in results))

    def _shorter(self, what: str, of: list[Value]) -> Value | None:
        """An equal value with fewer operations, NaN and infinities included, but for the sign of a zero."""
        step = [self.steps[value.place] for value in of]
        if what == "mul":
            for one, other in (of, of[::-1]):
                if self.steps[one.place] == Step("number", (), 1.0):
                    return other
        if what == "div" and step[1] == Step("number", (), 1.0):
            return of[0]
        if what == "neg" and step[0].what == "neg":
            return self._at(step[0].of[0])
        if what in ("add", "sub") and step[1].what == "neg":
            return self.do("sub" if what == "add" else "add", of[0], self._at(step[1].of[0]))
        if what == "add" and step[0].what == "neg":
            return self.do("sub", of[1], self._at(step[0].of[0]))
        if what == "add" and step[0].what == step[1].what == "where" and step[0].of[0] == step[1].of[0]:
            pairs = list(zip(step[0].of[1:], step[1].of[1:], strict=True))
            if any(self.steps[place] == Step("number") for pair in pairs for place in pair):
                return self.do("where", self._at(step[0].of[0]), *(self._sum(*pair) for pair in pairs))
        if what in ("add", "sub", "mul") and step[0].what == step[1].what == "where" and step[0].of[0] == step[1].of[0]:
            (_, _, none), (_, known, again) = step[0].of, step[1].of
            if none == again and math.isnan(self.steps[none].number):  # one of them says that it is not a number
                return self.do(what, of[0], self._at(known))
        if what == "where":
            if of[1].place == of[2].place:
                return of[1]
            for branch in (1, 2):  # the same question again has the same answer
                if step[branch].what == "where" and step[branch].of[0] == of[0].place:
                    of[branch] = self._at(step[branch].of[branch])
                    return self.do("where", *of)
        return None

    def _sum(self, place: int, other: int) -> Value:
        for zero, rest in ((place, other), (other, place)):
            if self.steps[zero] == Step("number"):
                return self._at(rest)
        return self._at(place) + self._at(other)

    def _at(self, place: int) -> Value:
        return Value(self, place)

    def _find(self, step: Step) -> Value:
        key = step.what, step.of, struct.pack("d", step.number)  # tells -0.0 from 0.0, and a NaN equals itself
        if key not in self._known:
            self._known[key] = self._append(step)
        return self._known[key]

    def _append(self, step: Step) -> Value:
        self.steps.append(step)
        return Value(self, len(self.steps) - 1)
