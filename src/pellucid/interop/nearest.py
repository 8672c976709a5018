"""Substitutes for operations that have no equal here.

Owns: `Near`, which makes a substitute and says so in a note, and the conversions of options.
Must not: substitute anything under ``match="exact"``.
Read next: ``albumentations_nearest.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from pellucid import transforms
from pellucid.core.arguments import is_number
from pellucid.errors import InvalidArgument
from pellucid.interop.reading import Given, Made, Reader, fractions, gated, integers, pair
from pellucid.random import Categorical
from pellucid.transforms.base import Transform

__all__ = [
    "Build", "Near", "Option", "around", "asis", "clamped", "elastic_of", "fields_of", "half_turn", "holes", "made", "near",
    "odd", "rounded", "scaled", "spread", "up_to", "whole", "why",
]  # fmt: skip

Build = Callable[[Given, Reader, str], Made]
Option = tuple[str, Any, Callable[[Any], Any]]


@dataclass(frozen=True)
class Near:
    """An entry of the tables of substitutes.

    Args:
        reason: the difference between the original and the substitute.
        nearest: the substitute.
        build: makes the substitute from the original's options.
    """

    reason: str
    nearest: str
    build: Build

    def __call__(self, given: Given, reader: Reader, where: str) -> Made:
        """Make the substitute, and note the difference."""
        given.near("", self.reason, self.nearest)
        built = self.build(given, reader, where)
        given.rest()
        return built


def why(table: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Return (reason, nearest) by name for the entries of a table that are substitutes."""
    return {name: (one.reason, one.nearest) for name, one in table.items() if isinstance(one, Near)}


def made(name: str, p: Any = 0.5, always: Mapping[str, Any] | None = None, /, note: str = "", **options: Option) -> Build:
    """Return a builder of one transform; each of its fields comes from (their option, its default, a conversion)."""

    def build(given: Given, reader: Reader, where: str) -> Made:
        if note:
            reader.note(f"{given.name}: {note}")
        kind: Any = getattr(transforms, name)
        read = fields_of(given, options)
        chance = given("p", p)
        if any(one.name == "p" for one in fields(kind)):
            one: Transform = kind(**(always or {}), **read, p=chance)
            return one
        return gated(kind(**(always or {}), **read), chance)

    return build


def near(reason: str, name: str, p: Any = 0.5, always: Mapping[str, Any] | None = None, /, **options: Option) -> Near:
    """Return an entry whose substitute is one transform, built as by `made`."""
    return Near(reason, name, made(name, p, always, note="", **options))


def fields_of(given: Given, options: Mapping[str, Option]) -> dict[str, Any]:
    """Compute the values of a transform's fields, each from (their option, its default, a conversion)."""
    return {ours: change(given(theirs, default)) for ours, (theirs, default, change) in options.items()}


def spread(option: str, default: Any, around: float | None = None) -> Option:
    """Describe an option that is a range: two numbers, or one number m for (around - m, around + m)."""
    return option, default, lambda value: pair(value, option, around=around)


def whole(option: str, default: Any) -> Option:
    """Describe an option that is a range of equally likely whole numbers."""
    return option, default, lambda value: integers(value, option)


def asis(value: Any) -> Any:
    """Return the value unchanged."""
    return value


def scaled(by: float, low: float = -math.inf, high: float = math.inf) -> Callable[[Any], Any]:
    """Return a conversion that multiplies by a number and clamps to bounds; a range stays a sorted range."""

    def change(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(sorted(map(change, value)))
        return min(max(float(value) * by, low), high)

    return change


def clamped(low: float, high: float) -> Callable[[Any], Any]:
    """Return a conversion that clamps to bounds."""
    return scaled(1.0, low, high)


def around(middle: float, low: float = -math.inf, high: float = math.inf) -> Callable[[Any], Any]:
    """Return a conversion that adds ``middle`` to a range, or turns a number m into (middle - m, middle + m); clamped."""
    return lambda value: clamped(low, high)(tuple(middle + end for end in pair(value, "limit", around=0.0)))


def up_to(least: float, by: float = 1.0) -> Callable[[Any], Any]:
    """Return a conversion that keeps a range, or turns a number into (least, number); multiplied by ``by``."""
    return lambda value: scaled(by)((min(least, value), value) if is_number(value) else tuple(value))


def rounded(low: float, high: float) -> Callable[[Any], Any]:
    """Return a conversion of a whole-number range for a draw that is rounded: widened, so that each number is equally likely."""
    return lambda value: clamped(low, high)((value, value) if is_number(value) else (min(value) - 0.499, max(value) + 0.499))


def odd(value: Any) -> tuple[int, ...]:
    """Return the odd numbers in a range, or from 3 to a number."""
    low, high = (3, value) if is_number(value) else pair(value, "blur_limit")
    return tuple(n for n in range(int(low), int(high) + 1) if n % 2) or (3,)


def holes(given: Given, reader: Reader, counts: Any, sides: tuple[tuple[str, Any, Any], ...], **options: Any) -> Made:
    """Make a `CoarseDropout` from ranges of the number of holes and of their two sides, in pixels or as fractions."""
    low, high = (counts, counts) if is_number(counts) else counts
    ends: list[Any] = []
    for axis, (option, least, most) in enumerate(sides):
        whole = [isinstance(end, int) and end >= 1 for end in (least, most)]
        parts = [
            end / reader.pixels(given, option)[axis] if pixel else float(end)
            for end, pixel in zip((least, most), whole, strict=True)
        ]
        ends.append(clamped(0.0, 1.0)((min(parts), max(parts))))
    numbers = tuple(float(n) for n in range(int(min(low, high)), int(max(low, high)) + 1))
    fill = options.pop("fill", 0)
    count = numbers[0] if len(numbers) == 1 else Categorical(numbers)
    return transforms.CoarseDropout(count, height=ends[0], width=ends[1], fill=fractions(fill), hides=True, **options)


def elastic_of(given: Given, alpha: float, sigma: float, library: Any, **options: Any) -> Transform:
    """Call `RandomElastic.from_alpha_sigma`; allow folding, and enlarge sigma, where it would refuse the numbers."""
    if sigma < 1.2:
        given.near(f"sigma={sigma}", "knots are 2 pixels apart at least here", "sigma=1.2")
        sigma = 1.2
    try:
        return transforms.RandomElastic.from_alpha_sigma(alpha, sigma, library=library, **options)
    except InvalidArgument:
        given.near(f"alpha={alpha:g}", "the picture may fold over itself", "allow_folding=True")
    return transforms.RandomElastic.from_alpha_sigma(alpha, sigma, library=library, allow_folding=True, **options)


def half_turn(given: Given, value: Any) -> Any:
    """Limit a hue to half a turn, and note it."""
    limit = clamped(-0.5, 0.5)(value) if value is not None else None
    if limit != value and (isinstance(value, tuple) or value > 0.5):
        given.near(f"hue={value}", "a hue turns by half at most", str(limit))
        return limit
    return value
