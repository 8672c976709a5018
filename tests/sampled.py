"""Tests of which the default run takes some cases, evenly spread.

`sampled` marks the others as slow, which ``make test-all`` runs. `mark_long` shortens functions that are long by
``tests/seconds.json`` (``make seconds`` measures them anew): the cases beyond `SHARE` seconds are marked ``long``, and CI runs them
as well (``make test-long``).
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import pytest

SHARE = 0.4
"""CPU seconds that the default run gives to one test function with several cases, without what Numba compiles."""

LONGEST = 0.6
"""Beyond this one case takes too long for the default run."""

ALWAYS = ("contract/", "oracle/", "laws/")
"""Where the default run takes at least one case of every function, however long it is."""


def sampled(cases: Iterable, every: int, ids: Sequence[str] | None = None) -> list:
    """Mark all but each ``every``-th case as slow, from the first on."""
    cases = list(cases)
    names = ids or [getattr(case, "name", case) for case in cases]
    return [
        pytest.param(case, id=str(name), marks=[pytest.mark.slow] if n % every else [])
        for n, (case, name) in enumerate(zip(cases, names, strict=True))
    ]


@cache
def seconds() -> dict[str, tuple[int, float]]:
    """Cases and CPU seconds by test function, those under a quarter of a second left out."""
    return {name: (cases, cpu) for name, (cases, cpu) in json.loads(Path(__file__).with_name("seconds.json").read_text()).items()}


def every(name: str) -> int:
    """Of how many cases of a function the default run takes one; none for 0."""
    cases, cpu = seconds().get(name, (1, 0.0))
    if cpu <= SHARE:
        return 1
    if cpu > LONGEST * cases and not name.startswith(ALWAYS):
        return 0
    return min(math.ceil(cpu / SHARE), cases)


def mark_long(items: Iterable[pytest.Item]) -> None:
    """Mark what the default run leaves out, cases already slow not counted."""
    seen: Counter[str] = Counter()
    for item in items:
        name = item.nodeid.partition("[")[0].removeprefix("tests/")
        if item.get_closest_marker("slow"):
            continue
        step = every(name)
        if not step or seen[name] % step:
            item.add_marker(pytest.mark.long)
        seen[name] += 1
