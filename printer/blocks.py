"""Programs printed as Triton functions of blocks of pixels: tuples in, tuples out.

Owns: the text of such a function, and what of a program a device says in words of its own.
Must not: compile, or decide what is printed.
Read next: ``printing.py``.
"""

import math
import operator
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce

from printer.program import Program, Step, Value
from printer.rows import Rows, Words, lowered
from printer.text import Expression, Text, called, infix, packed, prefix

__all__ = ["printed"]


def _clamp(x: Value, low: Value, high: Value) -> Value:
    writer = x.writer
    if writer.steps[low.place].number != -math.inf:
        x = writer.do("maximum", x, low)
    return x if writer.steps[high.place].number == math.inf else writer.do("minimum", x, high)


def _inverse(b: Value) -> Value:
    step = b.writer.steps[b.place]
    return b.writer.number(1.0 / step.number) if step.what == "number" else 1.0 / b


def _shared(a: Value, b: Value) -> Value:
    """A division by how many of three tie: none do where the extreme is not a number, nor is what is divided then."""
    writer = a.writer
    ties = [writer.steps[place] for place in _terms(b)]
    if len(ties) != 3 or any(step.what != "where" for step in ties):
        return a * _inverse(b)
    one, two, three = (Value(writer, step.of[0]) for step in ties)
    return a * (one & two & three).where(1.0 / 3.0, ((one & two) | (two & three) | (one & three)).where(0.5, 1.0))


def _terms(value: Value) -> list[int]:
    step = value.writer.steps[value.place]
    return [k for place in step.of for k in _terms(Value(value.writer, place))] if step.what == "add" else [value.place]


def _signed(a: Value, b: Value) -> Value:
    """A product with a sign is a choice of signs."""
    steps = a.writer.steps
    for sign, other in ((a, b), (b, a)):
        step = steps[sign.place]
        if step.what == "where" and [steps[k] for k in step.of[1:]] == [Step("number", (), number) for number in (-1.0, 1.0)]:
            return Value(a.writer, step.of[0]).where(-other, other)
    return a * b


_LOWERED: Words = {
    "most": lambda *values: reduce(lambda a, b: a.writer.do("maximum", a, b), values),
    "least": lambda *values: reduce(lambda a, b: a.writer.do("minimum", a, b), values),
    "clamp": _clamp,
    "mul": _signed,
    "remainder": lambda a, b: a - b * a.writer.do("floor", a * _inverse(b)),
    "div": _shared,
    "sign": lambda a: (a < 0.0).where(-1.0, 1.0),
    "pow": lambda a, b: b.writer.do("exp2", b) if a.place == a.writer.number(2.0).place else a**b,
    "still": lambda a: a,
}
"""A division multiplies by an inverse, which others share. Extremes and clamps keep what is not a number, as a device can."""


def _zero(value: Value) -> bool:
    return value.writer.steps[value.place] == Step("number")


def _asked(value: Value) -> tuple[Value, Value] | None:
    """(question, answer) of a choice between something and 0."""
    writer, step = value.writer, value.writer.steps[value.place]
    parts = [Value(writer, place) for place in step.of]
    return (parts[0], parts[1]) if step.what == "where" and _zero(parts[2]) else None


def _swallowed(outer: Value, inner: Value) -> bool:
    """Whether the outer question, is x not 0, is answered where the inner is: that is no for a magnitude of 0."""
    steps = outer.writer.steps
    parts = [steps[place] for place in steps[outer.place].of]
    if steps[outer.place].what != "or" or any(step.what != "lt" for step in parts):
        return False
    (low, none), (again, high) = parts[0].of, parts[1].of
    if low != high or none != again or steps[none] != Step("number"):
        (again, high), (low, none) = parts[0].of, parts[1].of
    known: dict[int, float | None] = {
        place: 0.0 for place, step in enumerate(steps) if step == Step("abs", (low,)) and (low, none) == (high, again)
    }

    def at(place: int) -> float | None:
        step = steps[place]
        if place not in known:
            of = [at(k) for k in step.of]
            if step.what == "number":
                known[place] = step.number
            elif step.what == "and" and False in of:
                known[place] = False
            else:
                known[place] = _FOLDED[step.what](*of) if step.what in _FOLDED and of and None not in of else None
        return known[place]

    return bool(known) and at(inner.place) is False


_FOLDED: Mapping[str, Callable[..., float]] = {"add": operator.add, "sub": operator.sub, "lt": operator.lt, "le": operator.le}


def _choice(question: Value, this: Value, other: Value) -> Value:
    """Choices between something and 0 become one."""
    inner, second = _asked(this), _asked(other)
    if inner and _zero(other):
        both = inner[0] if _swallowed(question, inner[0]) else question & inner[0]
        return both.where(inner[1], 0.0)
    if inner and second and inner[0].place == second[0].place:
        return inner[0].where(question.where(inner[1], second[1]), 0.0)
    first, last = (question.writer.steps[part.place] for part in (this, other))
    if first.what == last.what == "where" and first.of[:2] == last.of[:2]:
        asked, same, one, two = (Value(question.writer, place) for place in (*first.of, last.of[2]))
        return asked.where(same, question.where(one, two))
    return question.where(this, other)


def _told(value: Value, question: Value, answer: bool) -> Value:
    """What choices of choices come to where a question has this answer."""
    step, writer = value.writer.steps[value.place], value.writer
    if step.what != "where":
        return value
    if step.of[0] == question.place:
        return _told(Value(writer, step.of[1 if answer else 2]), question, answer)
    return Value(writer, step.of[0]).where(*(_told(Value(writer, place), question, answer) for place in step.of[1:]))


def _both(a: Value, b: Value) -> Value:
    """A sum of what one question allows and of what its other answer does."""
    for one, other in ((a, b), (b, a)):
        asked = _asked(one)
        if asked and _zero(_told(other, asked[0], True)):
            return asked[0].where(asked[1], _told(other, asked[0], False))
    return a + b


def _minus(a: Value) -> Value:
    asked = _asked(a)
    return asked[0].where(-asked[1], 0.0) if asked else -a


def _inside(a: Value, b: Value) -> Value:
    """Whether a clamp, which is computed anyway, left a number as it was."""
    writer, (low, x) = a.writer, a.writer.steps[a.place].of or (0, 0)
    held = writer.steps.index(Step("maximum", (x, low))) if Step("maximum", (x, low)) in writer.steps else -1
    found = Step("minimum", (held, writer.steps[b.place].of[-1])) if writer.steps[b.place].what == "le" else None
    return Value(writer, writer.steps.index(found)).equals(Value(writer, x)) if found in writer.steps else a & b


_LAST: Words = {"and": _inside}

_CHOICES: Words = {"where": _choice, "add": _both, "neg": _minus}

_CALLS: Mapping[str, str] = {
    "abs": "tl.abs",
    "exp2": "tl.exp2",
    "floor": "tl.floor",
    "pow": "raised",
    "log": "tl.log",
    "cos": "tl.cos",
    "where": "tl.where",
    "minimum": "lesser",
    "maximum": "greater",
}


def printed(function: Rows) -> str:
    """The text of a function that takes numbers, then groups of blocks, and returns a tuple of blocks for each target."""
    program = function.program
    for words in (_LOWERED, _CHOICES, _LAST):
        program = lowered(program, words)
    within = [name for group in function.groups.values() for name in group]
    numbers = [name for name in program.given if name not in (*within, *function.others)]
    lines = ["@triton.jit", f"def {function.name}({', '.join((*numbers, *function.groups))}):  # type: ignore[no-untyped-def]"]
    lines.append(f'    """{function.says}"""')
    targets = [[program.results[place] for place in places] for places in function.targets.values()]
    text = _Text(program, within, [place for places in targets for place in places])
    result = text.returned(targets)
    for group, names in function.groups.items():
        lines.append(f"    {', '.join(names)} = {group}" if len(names) > 1 else f"    {names[0]} = {group}[0]")
    lines += [f"    {line}" for line in (*packed(text.lines), f"return {result}")]
    return "\n".join(lines) + "\n"


class _Text(Text):
    """Lines on blocks.

    Args:
        program: what is computed, of this and of other functions.
        pixels: names of what is given as blocks; the rest are numbers.
        results: places of this function's own.
    """

    def __init__(self, program: Program, pixels: Sequence[str], results: Sequence[int]) -> None:
        super().__init__(program, results, pixels, _CALLS, "~")
        self._like = Expression(pixels[0])
        self._anywhere = Counter((*program.results, *(k for step in program.steps for k in step.of)))

    def returned(self, targets: Sequence[Sequence[int]]) -> str:
        """A tuple for each target that is asked for; of one the tuple alone."""

        def tuples(*values: Expression) -> Expression:
            left = iter(values)
            made = [f"({', '.join(next(left).text for _ in places)}{',' * (len(places) == 1)})" for places in targets if places]
            return Expression(", ".join(made))

        return self.fitted(tuples, *(self.part(place) for places in targets for place in places)).text

    def leaf(self, place: int) -> Expression:
        step = self.program.steps[place]
        return Expression(self.program.given[place] if step.what == "given" else repr(step.number))

    def written(self, place: int) -> Expression:
        what, of, _ = self.program.steps[place]
        if what in ("add", "sub"):
            fused = self._fused(place)
            if fused:
                return fused
        if what == "where" and not self.varies.intersection(of[1:]):
            return self.fitted(partial(called, "tl.where"), self.part(of[0]), self._spread(of[1]), self.part(of[2]))
        if what in ("lt", "le", "eq") and place not in self.varies:  # an answer stands beside those of blocks
            return self.fitted(partial(infix, what), self.part(of[0]), self._spread(of[1]))
        return super().written(place)

    def _spread(self, place: int, *, minus: bool = False) -> Expression:
        """A value as a block."""
        text = prefix("-", self.part(place)) if minus else self.part(place)
        return text if place in self.varies else called("over", text, self._like)

    def _fused(self, place: int) -> Expression | None:
        """A sum with the products of which it is the only use: each rounded once with what was added before."""
        terms = self._terms(place)
        products = [term for term in terms if self._product(term[0])]
        rest = [term for term in terms if term not in products] or [products.pop()] if products else []
        if not products:
            return None
        (first, minus), *others = rest
        text = prefix("-", self.part(first)) if minus else self.part(first)
        for term, minus in others:
            text = infix("sub" if minus else "add", text, self.part(term))
        text = text if self.varies.intersection(term for term, _ in rest) else called("over", text, self._like)
        for term, minus in products:
            one, other = self.program.steps[term].of
            text = self.fitted(partial(called, "tl.fma"), self._spread(one, minus=minus), self._spread(other), text)
        return text

    def _product(self, place: int) -> bool:
        return self.program.steps[place].what == "mul" and self._anywhere[place] == 1 and place in self.varies

    def _terms(self, place: int, *, minus: bool = False, whole: bool = True) -> list[tuple[int, bool]]:
        """The terms of a sum, each with whether it is taken away."""
        step = self.program.steps[place]
        if step.what not in ("add", "sub") or not (whole or self._anywhere[place] == 1):
            return [(place, minus)]
        first, last = step.of
        away = minus != (step.what == "sub")
        terms = self._terms(first, minus=minus, whole=False) + self._terms(last, minus=away, whole=False)
        return terms if whole or any(self._product(term) for term, _ in terms) else [(place, minus)]
