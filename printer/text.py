"""Programs as lines of text: what is needed once stands where it is needed, and the rest has a name.

Owns: `Text`, which both printers complete, and where parentheses are needed.
Must not: know a compiler.
Read next: ``rows.py``, ``blocks.py``.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from printer.program import Program

__all__ = ["Expression", "Text", "called", "infix", "packed", "prefix"]

_MOST, _WIDTH, _TOGETHER = 112, 120, 6
"""Characters of an expression and of a line; how many assignments a line holds."""

_INFIX: Mapping[str, tuple[str, int]] = {
    "lt": (" < ", 1),
    "le": (" <= ", 1),
    "eq": (" == ", 1),
    "or": (" | ", 2),
    "and": (" & ", 3),
    "add": (" + ", 4),
    "sub": (" - ", 4),
    "mul": (" * ", 5),
    "div": (" / ", 5),
    "pow": (" ** ", 7),
}
"""What stands between two values, and how firmly it holds them."""

_PREFIX, _NAME = 6, 8


class Expression(NamedTuple):
    """Text, and how firmly it holds together: by one of the operators above, by a sign before it, or as a name or a call."""

    text: str
    firmness: int = _NAME

    def at_least(self, firmness: int) -> str:
        """The text as an operand that has to be so firm."""
        return self.text if self.firmness >= firmness else f"({self.text})"


def infix(what: str, first: Expression, second: Expression) -> Expression:
    """Two values with their operator between them."""
    sign, firmness = _INFIX[what]
    alone = firmness in (1, 7)  # a < b < c and a ** b ** c mean something else
    return Expression(first.at_least(firmness + alone) + sign + second.at_least(firmness + 1), firmness)


def prefix(sign: str, value: Expression) -> Expression:
    """A value with a sign before it."""
    return Expression(sign + value.at_least(_NAME), _PREFIX)


def called(name: str, *values: Expression) -> Expression:
    """A function of values."""
    return Expression(f"{name}({', '.join(value.text for value in values)})")


def packed(lines: Sequence[str]) -> list[str]:
    """The same assignments, those that do not need one another side by side."""
    found: list[list[tuple[str, str]]] = []
    for name, value in (line.split(" = ", 1) for line in lines):
        some = [*found[-1], (name, value)] if found else []
        length = sum(len(part) + 2 for pair in some for part in pair)
        needs = {name for name, _ in some[:-1]}.intersection([name, *re.findall(r"\w+", value)])
        if some and not needs and length <= _WIDTH and len(some) <= _TOGETHER and "[" not in "".join(name for name, _ in some):
            found[-1] = some
        else:
            found.append([(name, value)])
    return [" = ".join(", ".join(side) for side in zip(*some, strict=True)) for some in found]


class Text(ABC):
    """Lines in an order in which few values wait.

    Args:
        program: what is computed.
        results: the places that are asked for.
        pixels: names of what is given of a pixel; the rest are numbers.
        calls: names of functions, by the operation that they compute.
        inverse: the sign of an answer that is turned round.
    """

    def __init__(
        self, program: Program, results: Sequence[int], pixels: Collection[str], calls: Mapping[str, str], inverse: str
    ) -> None:
        self.lines: list[str] = []
        self.program = program
        self.varies = {place for place, name in enumerate(program.given) if name in pixels}
        for place, step in enumerate(program.steps):
            if not self.varies.isdisjoint(step.of):
                self.varies.add(place)
        self._calls, self._prefixes = calls, {"neg": "-", "not": inverse}
        self._names: dict[int, Expression] = {}
        needed = set(results)
        for place in range(len(program.steps) - 1, -1, -1):
            if place in needed:
                needed.update(program.steps[place].of)
        self._uses = Counter((*results, *(k for place in needed for k in program.steps[place].of)))

    @abstractmethod
    def leaf(self, place: int) -> Expression:
        """What is given, or a number."""

    def name(self, place: int) -> Expression:
        """A value that is computed by now, however often it is needed."""
        if place not in self._names:
            leaf = self.program.steps[place].what in ("given", "number")
            self._names[place] = self.leaf(place) if leaf else self.assigned(self.written(place))
        return self._names[place]

    def part(self, place: int) -> Expression:
        """A value as part of an expression."""
        leaf = self.program.steps[place].what in ("given", "number")
        return self.name(place) if leaf or place in self._names or self._uses[place] > 1 else self.written(place)

    def written(self, place: int) -> Expression:
        """The operation that makes a value."""
        what, of, _ = self.program.steps[place]
        return self.fitted(lambda *parts: self._joined(what, parts), *map(self.part, of))

    def _joined(self, what: str, parts: tuple[Expression, ...]) -> Expression:
        if what in self._calls:
            return called(self._calls[what], *parts)
        return prefix(self._prefixes[what], *parts) if what in self._prefixes else infix(what, *parts)

    def assigned(self, value: Expression) -> Expression:
        """A name for it."""
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {value.text}")
        return Expression(name)

    def fitted(self, make: Callable[..., Expression], *parts: Expression) -> Expression:
        """What is made of parts, as one line holds it: the longest of them get names."""
        named = list(parts)
        while len((made := make(*named)).text) > _MOST:
            longest = max(range(len(named)), key=lambda k: len(named[k].text))
            named[longest] = self.assigned(named[longest])
        return made
