"""Tests of which the default run takes some cases: which ones, a hash of their names decides.

Two kinds of functions are cut short. The mark ``sampled(n)`` says that one case in n is enough and that the others are ``slow``
(``make test-all``). Functions that are long by ``tests/seconds.json`` (``make seconds`` measures them anew) get `SHARE` seconds;
their other cases are ``long``, and CI runs them as well (``make test-long``), up to `LONG` seconds a function: the rest is ``slow``
again. A law of the contract keeps at least one case of every transform in CI. What is in `WHOLE` is never cut for its length, and
`SHARES` gives some functions more.
"""

import json
import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import pytest

SHARE = 0.25
"""CPU seconds that the default run gives to one test function with several cases."""

SHARES = {
    "compile/test_compile.py::test_one_graph_for_five_draws_of_every_transform": 26.0,
    "losses/test_leaves.py::test_both_derivatives_by_finite_differences": 2.5,
    "losses/test_leaves.py::test_one_graph_has_the_values_and_gradients_of_the_call": 4.0,
}
"""What some functions get instead."""

LONG = 3.0
"""CPU seconds of one function in CI."""

EACH = "contract/"
"""Where CI takes at least one case of every transform all the same."""

ENTIRE = (
    "compile/test_compile.py::test_one_graph_for_five_draws_of_every_transform",
    "guide/test_pages.py::test_the_page_prints_what_it_says",
    "test_docs.py::test_docstring_examples",
)
"""What CI runs whole: every transform compiles, and pages and docstrings say what is so."""

COMPILING = 0.1
"""What a second of Numba's compiler counts among them: it is spent where kernels are not yet in the cache."""

LONGEST = 0.45
"""Beyond this one case takes too long for the default run."""

ALWAYS = ("contract/", "oracle/", "laws/", "kernels/test_resampled.py")
"""Where the default run takes at least one case of every function, however long it is."""

WHOLE = (
    "test_",
    "contract/test_gradients.py::test_degenerate_images_have_finite_gradients",
    "contract/test_values.py::test_prefix_of_a_larger_batch",
    "guide/test_no_inplace.py",
    "guide/test_reference.py",
)
"""Of what begins so the default run takes every case: laws that invariants cite, every transform, and rules over source text."""

CUT = ("test_docs.py::test_docstring_examples", "test_examples.py", "test_export.py")
"""And what is cut short all the same: every docstring, examples that train, and graphs at fifty sizes."""


class Sample(NamedTuple):
    """A function's cases, and those of them that the default run takes."""

    cases: list[pytest.Item]
    taken: list[pytest.Item]

    def still(self) -> set[str]:
        """Parameters with one value in the default run and more in the grid; none where a single case is run."""
        grid, shown = (_shown(map(_parameters, items)) for items in self)
        return {name for name in grid if len(self.taken) > 1 and len(shown[name]) == 1 < len(grid[name])}


samples = pytest.StashKey[dict[str, Sample]]()
"""What was collected, by function."""


@cache
def seconds() -> dict[str, tuple[int, float, float]]:
    """Cases, CPU seconds, and what compiling counts among these, by test function; those under a quarter of a second left out."""
    rows = json.loads(Path(__file__).with_name("seconds.json").read_text())
    return {name: (cases, cpu, COMPILING * compiling) for name, (cases, cpu, compiling) in rows.items()}


def whole(name: str) -> bool:
    """Whether a function is never cut for its length."""
    return name.startswith(WHOLE) and not name.startswith(CUT)


def every(name: str) -> int:
    """Of how many cases of a function the default run takes one; none for 0."""
    cases, cpu, compiling = seconds().get(name, (1, 0.0, 0.0))
    cost, share = cpu + compiling, SHARES.get(name, SHARE)
    if cost <= share or whole(name):
        return 1
    if max(cpu, compiling) > LONGEST * cases and not name.startswith(ALWAYS) and name not in SHARES:
        return 0
    return min(math.ceil(cost / share), cases)


def chosen(cases: Mapping[str, Mapping[str, Hashable]], count: int) -> set[str]:
    """Names of ``count`` cases, given the values of each case's parameters by name.

    Values that were taken least come next, so that no parameter stands still, and the hash of the name decides between equals: no
    order of the cases and no period of a grid can meet it. Where two cases or more are taken, it goes on until every parameter that
    has several values has shown two.
    """
    left = sorted(cases, key=_hash)
    values = {name: set(parameters.items()) for name, parameters in cases.items()}
    several = {name for name, found in _shown(cases.values()).items() if len(found) > 1}
    taken: set[str] = set()
    times: Counter = Counter()
    moved: set[str] = set()
    while left and (len(taken) < count or (len(taken) > 1 and moved != several)):
        name = min(left, key=lambda name: sum(times[value] for value in values[name]))
        left.remove(name)
        taken.add(name)
        times.update(values[name])
        shown = _shown(cases[name] for name in taken)
        moved = {name for name in several if len(shown[name]) > 1}
    return taken


def _hash(name: str) -> bytes:
    return blake2b(name.encode()).digest()


def _shown(cases: Iterable[Mapping[str, Hashable]]) -> dict[str, set]:
    shown: dict[str, set] = defaultdict(set)
    for parameters in cases:
        for name, value in parameters.items():
            shown[name].add(value)
    return shown


def _parameters(item: pytest.Item) -> dict[str, Hashable]:
    """The values of a case's parameters; their places in the list where they cannot be compared."""
    if not hasattr(item, "callspec"):
        return {}
    places, values = item.callspec.indices, item.callspec.params
    kinds = {f"{name}'s transform": type(value.transform) for name, value in values.items() if hasattr(value, "transform")}
    return {name: _comparable(value, places[name]) for name, value in values.items()} | kinds


def _comparable(value: object, place: int) -> Hashable:
    try:
        hash(value)
    except TypeError:
        return place
    return type(value), value


def function_of(item: pytest.Item) -> str:
    """A test function by its file and name; what Triton's interpreter computes of it (parameter ``by``) is one of its own."""
    name = item.nodeid.partition("[")[0].removeprefix("tests/")
    by = item.callspec.params.get("by") if hasattr(item, "callspec") else None
    return f"{name}[triton]" if by == "triton" else name


def mark_long(items: Iterable[pytest.Item], config: pytest.Config) -> None:
    """Mark what the default run leaves out, and tell ``config`` what it takes; cases already slow are not counted."""
    functions: dict[str, dict[str, pytest.Item]] = defaultdict(dict)
    for item in items:
        if not (item.get_closest_marker("slow") or item.get_closest_marker("gpu")):
            functions[function_of(item)][item.nodeid] = item
    config.stash[samples] = {}
    for function, cases in functions.items():
        grid = {name: _parameters(item) for name, item in cases.items()}
        some = next(iter(cases.values())).get_closest_marker("sampled")
        known, length, _ = seconds().get(function, (len(grid), 0.0, 0.0))
        length = 0.0 if whole(function) or function in ENTIRE else length
        quick = _every(grid, (some.args[0] if some else 1) * max(1, math.ceil(length / LONG)), len(grid))
        if function.startswith(EACH):
            quick |= _of_others(grid, quick)
        taken = _every({name: grid[name] for name in quick}, every(function), known)
        for name, item in cases.items():
            if name not in taken:
                item.add_marker(pytest.mark.long if name in quick else pytest.mark.slow)
        config.stash[samples][function] = Sample(list(cases.values()), [cases[name] for name in taken])


def _every(grid: dict[str, dict[str, Hashable]], step: int, count: int) -> set[str]:
    """Names of as many cases as one in ``step`` of ``count``; of none for 0."""
    if step < 2:
        return set(grid) if step else set()
    return chosen(grid, math.ceil(count / step))


def _of_others(grid: dict[str, dict[str, Hashable]], some: set[str]) -> set[str]:
    """Names of a case of each transform that ``some`` lack."""
    kind = next((name for values in grid.values() for name in values if name.endswith("'s transform")), None)
    found = {grid[name][kind]: name for name in sorted(grid, key=_hash) if kind in grid[name]}
    return {found[value] for value in found.keys() - {grid[name].get(kind) for name in some}}
