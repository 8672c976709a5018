"""Programs printed as Numba functions over rows of pixels.

Owns: the text of a loop over a row, and `lowered`: what has no instruction of its own, said in those that vectorise.
Must not: compile, or decide what is printed.
Read next: ``printing.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import NamedTuple, TypeAlias

from printer.program import Program, Value, Writer
from printer.text import Expression, Text, packed

__all__ = ["Rows", "Words", "lowered", "printed"]


def _quick(pick: str, values: Sequence[Value]) -> Value:
    return reduce(lambda a, b: a.writer.do(pick, a, b), values)


def _known(values: Sequence[Value]) -> Value:
    return reduce(lambda a, b: a & b, [value.equals(value) for value in values])


def _clamp(x: Value, low: Value, high: Value) -> Value:
    writer = x.writer
    if writer.steps[low.place].number != -math.inf:
        x = (x < low).where(low, x)
    return x if writer.steps[high.place].number == math.inf else (x > high).where(high, x)


Words: TypeAlias = Mapping[str, Callable[..., Value]]
"""By operation: the same, said in others."""

_LOWERED: Words = {
    "most": lambda *values: _known(values).where(_quick("greater", values), math.nan),
    "least": lambda *values: _known(values).where(_quick("lesser", values), math.nan),
    "minimum": lambda a, b: ((a < b) | ~a.equals(a)).where(a, b),
    "maximum": lambda a, b: ((a > b) | ~a.equals(a)).where(a, b),
    "clamp": _clamp,
    "remainder": lambda a, b: a - b * a.writer.do("floor", a * (1.0 / b)),
    "div": lambda a, b: a * a.writer.do("div", 1.0, b),
    "still": lambda a: a,
}
"""A division multiplies by an inverse, which others share and which waits for one number alone: a rounding more. A remainder may be
the divisor itself, by rounding. A clamp keeps what is not a number, as vectors compare."""


def lowered(program: Program, words: Words = _LOWERED) -> Program:
    """The same program in operations that a vector has, or in others (``words``), the shorter of two ways.

    Where a choice is not looked at, what goes into it may be another number: one that saves an earlier choice by the same question.
    What the gradient needs of that, too, would be computed twice.
    """
    return min((_lowered(program, words, assuming) for assuming in (True, False)), key=lambda found: len(found.steps))


def _lowered(program: Program, words: Words, assuming: bool) -> Program:
    writer, told = Writer(), _told(program) if words is _LOWERED else {}
    values = [writer.given(name) for name in program.given]
    for place, step in enumerate(program.steps[len(values) :], len(values)):
        of = [values[k] for k in step.of]
        if step.what == "number":
            made = writer.number(step.number)
        elif step.what == "where" and assuming:
            made = of[0].where(
                *(writer.assumed(branch, of[0], answer) for branch, answer in zip(of[1:], (True, False), strict=True))
            )
        elif step.what in _EXTREMES and step.of in told:
            made = _quick(_EXTREMES[step.what], of)
        else:
            for k, channels in enumerate(program.steps[k].of for k in step.of):
                if told.get(channels) == place:
                    of[k] = _known([values[channel] for channel in channels]).where(of[k], math.nan)
            made = words[step.what](*of) if step.what in words else writer.do(step.what, *of)
        values.append(made)
    return writer.program([values[place] for place in program.results])


_EXTREMES = {"most": "greater", "least": "lesser"}
_STRICT = frozenset({"add", "sub", "mul", "div", "neg", "abs", "floor", "remainder", "clamp", "still"})
"""What is not a number where something that it is made of is none."""


def _told(program: Program) -> dict[tuple[int, ...], int]:
    """Channels, and the one step of their extremes that needs to know where a channel is not a number: no result is one then."""
    told: dict[tuple[int, ...], int] = {}
    for place, step in enumerate(program.steps):
        for channels in (program.steps[k].of for k in step.of if program.steps[k].what in _EXTREMES):
            if step.what in _STRICT and _reached(program, place).issuperset(program.results):
                told[channels] = place
    return told


def _reached(program: Program, first: int) -> set[int]:
    reached = {first}
    for place in range(first + 1, len(program.steps)):
        if program.steps[place].what in _STRICT and not reached.isdisjoint(program.steps[place].of):
            reached.add(place)
    return reached


_CALLS: Mapping[str, str] = {
    "abs": "abs",
    "sign": "sign",
    "floor": "np.floor",
    "log": "np.log",
    "cos": "np.cos",
    "where": "pick",
    "lesser": "min",
    "greater": "max",
}


class Rows(NamedTuple):
    """A function over rows.

    Args:
        name: of the function.
        program: what it computes of each pixel.
        groups: names of its arguments that hold rows, each with what of the program's input lies in them, in order.
        targets: names of arguments that hold rows, each with the places of the results that go there. One that is a group, too, is
            written over.
        says: its docstring.
        flags: how it is compiled: ``exact``, ``fused`` or ``summing``.
        others: what of the program's input other functions of the same program are given.
    """

    name: str
    program: Program
    groups: Mapping[str, Sequence[str]]
    targets: Mapping[str, Sequence[int]]
    says: str
    flags: str = "fused"
    others: Sequence[str] = ()


def printed(rows: Rows) -> str:
    """The text of a function: the program's other inputs as numbers, groups and targets."""
    program = lowered(rows.program)
    within = {name for group in rows.groups.values() for name in group}
    numbers = [name for name in program.given if name not in within]
    arguments = [*numbers, *rows.groups, *(name for name in rows.targets if name not in rows.groups)]
    counts = {name: len(part) for name, part in (*rows.targets.items(), *rows.groups.items())}
    text = _Text(program, rows.groups)
    for name, places in rows.targets.items():
        for k, place in enumerate(places):
            text.store(program.results[place], f"{name}_{k}[u]")
    first = f"{next(iter(rows.groups))}_0"
    lines = [f"@{rows.flags}.noinline.wide", f"def {rows.name}({', '.join(arguments)}):  # type: ignore[no-untyped-def]"]
    lines.append(f'    """{rows.says}"""')
    rows_of = [f"{name}_{k} = {name}[{k}]" for name, count in counts.items() for k in range(count)]
    lines += [f"    {line}" for line in packed(rows_of)]
    lines.append(f"    cast = {first}.dtype.type")
    lines += [f"    {line}" for line in packed([f"{name} = cast({number})" for name, number in text.numbers.items()])]
    lines += [f"    {line}" for line in packed(text.before)]
    lines.append(f"    for u in range(len({first})):")
    lines += [f"        {line}" for line in packed(text.lines)]
    return "\n".join(lines) + "\n"


class _Text(Text):
    """The lines of the loop; and before it the constants and what is made of numbers alone.

    Args:
        program: what is computed.
        groups: as of `Rows`; what else is given are numbers.
    """

    def __init__(self, program: Program, groups: Mapping[str, Sequence[str]]) -> None:
        self.numbers: dict[str, str] = {}
        self.before: list[str] = []
        self._loads = {name: f"{group}_{k}[u]" for group, names in groups.items() for k, name in enumerate(names)}
        super().__init__(program, program.results, self._loads, _CALLS, "not ")

    def store(self, place: int, target: str) -> None:
        """Compute a result, and write it; what is written over is read before."""
        value = self.part(place)
        for name, source in self._loads.items():
            if source == target:
                self.name(self.program.given.index(name))
        self.lines.append(f"{target} = {value.text}")

    def leaf(self, place: int) -> Expression:
        step = self.program.steps[place]
        if step.what == "number":
            self.numbers[_constant(step.number)] = _literal(step.number)
            return Expression(_constant(step.number))
        name = self.program.given[place]
        if name in self._loads:
            self.lines.append(f"{name} = {self._loads[name]}")
        return Expression(name)

    def part(self, place: int) -> Expression:
        return super().part(place) if place in self.varies else self.name(place)

    def name(self, place: int) -> Expression:
        if place in self.varies or place in self._names or self.program.steps[place].what in ("given", "number"):
            return super().name(place)
        value = self.written(place)
        self._names[place] = Expression(f"k{len(self.before)}")
        self.before.append(f"{self._names[place].text} = {value.text}")
        return self._names[place]


def _literal(number: float) -> str:
    return repr(number) if math.isfinite(number) else f"np.{'nan' if number != number else 'inf' if number > 0 else '-inf'}"


def _constant(number: float) -> str:
    """A name that shows the number: ``c6``, ``c0_5``."""
    return "c" + f"{number:g}".replace("-", "m").replace("+", "").replace(".", "_")
