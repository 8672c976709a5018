"""The derivatives of a program, backward and forward, by declared conventions.

Owns: `SLOPES`, the one table of slopes with the conventions where there is no slope or more than one; `vjp` and `jvp`.
Must not: know a stage, or who computes it.
Read next: ``printing.py``.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import TypeAlias

from printer.program import FLAT, Program, Step, Value, Writer

__all__ = ["SLOPES", "jvp", "vjp"]

Through: TypeAlias = Callable[[Value], Value]
"""How a change goes through an operation from one of its values. A number's transpose is itself: gradients go back by the same."""

Slopes: TypeAlias = Mapping[str, Callable[..., Sequence[Through | None]]]


def _straight(u: Value) -> Value:
    return u


def _extreme(*values: Value) -> list[Through]:
    """Ties share evenly; where a channel is not a number nobody is the extreme, and 0 / 0 says so."""
    *channels, found = values
    ties = [channel.equals(found).where(1.0, 0.0) for channel in channels]
    count = reduce(lambda a, b: a + b, ties)
    return [lambda u, tie=tie: tie * (u / count) for tie in ties]  # type: ignore[misc]


def _lesser(a: Value, b: Value, _: Value) -> list[Through]:
    """Ties share evenly."""
    tie = a.equals(b)
    return [lambda u: tie.where(u * 0.5, (b < a).where(0.0, u)), lambda u: tie.where(u * 0.5, (a < b).where(0.0, u))]


def _clamp(x: Value, low: Value, high: Value, _: Value) -> list[Through | None]:
    """The ends are inside."""
    return [lambda u: ((low <= x) & (x <= high)).where(u, 0.0), None, None]


def _magnitude(x: Value, _: Value) -> list[Through]:
    """Flat at 0, and where x is not a number."""
    return [lambda u: ((x < 0.0) | (x > 0.0)).where(u * x.writer.do("sign", x), 0.0)]


def _power(x: Value, exponent: Value, y: Value) -> list[Through]:
    """The exponent 0 is flat to x; and the base 0 to the exponent, unless that is negative."""
    nothing = x.equals(0.0) & (exponent.writer.number(0.0) <= exponent)
    log = x.writer.do("log", x)
    return [
        lambda u: exponent.equals(0.0).where(0.0, u * (exponent * x ** (exponent - 1.0))),
        lambda u: nothing.where(0.0, u * (y * log)),
    ]


SLOPES: Slopes = {
    "add": lambda a, b, y: (_straight, _straight),
    "sub": lambda a, b, y: (_straight, lambda u: -u),
    "mul": lambda a, b, y: (lambda u: u * b, lambda u: u * a),
    "div": lambda a, b, y: (lambda u: u / b, lambda u: -(u / b * y)),
    "neg": lambda a, y: (lambda u: -u,),
    "abs": _magnitude,
    "remainder": lambda a, b, y: (_straight, lambda u: -(u * a.writer.do("floor", a / b))),  # the jump is flat
    "pow": _power,
    "where": lambda c, a, b, y: (None, lambda u: c.where(u, 0.0), lambda u: c.where(0.0, u)),
    "minimum": _lesser,
    "maximum": lambda a, b, y: _lesser(b, a, y)[::-1],
    "least": _extreme,
    "most": _extreme,
    "clamp": _clamp,
}
"""By operation: how a change goes through from each of its values, given these and the result; None where it does not.

Conventions: ties share evenly, ends of a clamp are inside, a magnitude is flat at 0, a floor and a comparison are flat, what is
detached is still, and what ``where`` does not choose has the gradient 0, whatever it is. They are torch's, as the law test shows.
"""


def _active(program: Program, wrt: Sequence[str], slopes: Slopes) -> set[int]:
    """The places of what changes with some of what is given."""
    active = {place for place, name in enumerate(program.given) if name in wrt}
    for place, step in enumerate(program.steps):
        if step.what not in FLAT and not active.isdisjoint(step.of):
            if step.what not in slopes:
                raise NotImplementedError(f"{step.what} has no row in the table of slopes; add one, and a point to its law")
            active.add(place)
    return active


def _through(step: Step, values: Sequence[Value], place: int, slopes: Slopes) -> Sequence[Through | None]:
    return slopes[step.what](*(values[k] for k in step.of), values[place])


def vjp(program: Program, wrt: Sequence[str] | None = None, slopes: Slopes = SLOPES) -> Program:
    """The gradients of what is given from those of the results.

    Args:
        program: what is differentiated.
        wrt: to which of what is given; all of it by default.
        slopes: the table.

    Returns:
        A program that is given what the other is, and the gradient of each result: ``grad0``, ``grad1``, ...
    """
    wrt = program.given if wrt is None else wrt
    writer = Writer()
    given = [writer.given(name) for name in program.given]
    upstream = [writer.given(f"grad{k}") for k in range(len(program.results))]
    values, active = writer.add(program, given), _active(program, wrt, slopes)
    flows: dict[int, list[Value]] = defaultdict(list)
    for place, more in zip(program.results, upstream, strict=True):
        flows[place].append(more)
    for place in range(len(program.steps) - 1, len(program.given) - 1, -1):
        if place in flows and place in active:
            step, whole = program.steps[place], _sum(writer, flows[place])
            for k, through in zip(step.of, _through(step, values, place, slopes), strict=True):
                if through is not None and k in active:
                    flows[k].append(through(whole))
    return writer.program([_sum(writer, flows[program.given.index(name)]) for name in wrt])


def _sum(writer: Writer, parts: Sequence[Value]) -> Value:
    """The sum of parts; what answers one question comes together first."""
    groups: dict[int, Value] = {}
    for part in parts:
        step = writer.steps[part.place]
        question = step.of[0] if step.what == "where" else -1
        groups[question] = groups[question] + part if question in groups else part
    return reduce(lambda a, b: a + b, groups.values()) if groups else writer.number(0.0)


def jvp(program: Program, wrt: Sequence[str] | None = None, slopes: Slopes = SLOPES) -> Program:
    """How the results change with what is given.

    Args:
        program, wrt, slopes: as :func:`vjp`.

    Returns:
        A program that is given what the other is, and the change of each of ``wrt``: their names after ``d_``.
    """
    wrt = program.given if wrt is None else wrt
    writer = Writer()
    given = [writer.given(name) for name in program.given]
    changes = {program.given.index(name): writer.given(f"d_{name}") for name in wrt}
    values, active = writer.add(program, given), _active(program, wrt, slopes)
    for place in range(len(program.given), len(program.steps)):
        if place in active:
            step = program.steps[place]
            throughs = zip(step.of, _through(step, values, place, slopes), strict=True)
            changes[place] = _sum(writer, [through(changes[k]) for k, through in throughs if through is not None and k in changes])
    zero = writer.number(0.0)
    return writer.program([changes.get(place, zero) for place in program.results])
