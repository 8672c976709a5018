"""The default run stands for the whole grid: every parameter moves, and every transform keeps its contract."""

import itertools
import json
from collections import Counter
from pathlib import Path

import pytest

import pellucid
from tests.cases import Case
from tests.sampled import COMPILING, CUT, EACH, ENTIRE, WHOLE, chosen, every, samples

TESTS = Path(__file__).parent


def grid(*sizes):
    """A grid as pytest walks it, by name."""
    return {f"case[{at}]": dict(enumerate(at)) for at in itertools.product(*map(range, sizes))}


@pytest.mark.parametrize("sizes", [(36, 2), (2, 36), (3, 4, 2), (5, 5), (2, 2, 2, 2), (19, 1)])
@pytest.mark.parametrize("count", [2, 3, 5])
def test_no_parameter_of_a_grid_stands_still(sizes, count):
    cases = grid(*sizes)
    taken = chosen(cases, count)
    assert len(taken) == count
    for at, size in enumerate(sizes):
        values = {cases[name][at] for name in taken}
        assert len(values) == min(size, count)


def test_cases_that_form_no_grid_move_every_parameter_too():
    """Most differ in one parameter alone, so that two cases would not do."""
    cases = {f"a{n}": {"size": n, "border": "zeros", "kind": "plain"} for n in range(40)}
    cases |= {"b": {"size": 0, "border": "wrap", "kind": "plain"}, "c": {"size": 0, "border": "zeros", "kind": "turned"}}
    taken = chosen(cases, 2)
    assert {"b", "c"} <= taken
    assert len(taken) <= 4


def test_the_choice_depends_on_names_alone():
    cases = grid(7, 5, 2)
    assert chosen(cases, 9) == chosen(dict(reversed(cases.items())), 9)
    assert len(chosen(cases, 1)) == 1


def test_no_parameter_of_the_default_run_stands_still(request):
    still = {name: one.still() for name, one in request.config.stash[samples].items() if one.still()}
    assert not still


def test_every_transform_has_rows_of_the_contract_in_the_default_run(request):
    rows = Counter()
    for name, (_, taken) in request.config.stash[samples].items():
        cases = [item.callspec.params["case"] for item in taken if hasattr(item, "callspec") and "case" in item.callspec.params]
        if name.startswith("contract/"):
            rows.update(type(case.transform) for case in cases if isinstance(case, Case))
    if not rows:
        pytest.skip("collected without tests/contract")
    assert {kind.__name__ for kind in pellucid.ALL if rows[kind] < 2} == set()


def test_ci_has_a_case_of_every_transform_in_each_law_of_the_contract(request):
    def kinds(items):
        return {type(item.callspec.params["case"].transform) for item in items}

    missing = {}
    for name, (cases, _) in request.config.stash[samples].items():
        rows = [item for item in cases if hasattr(item, "callspec") and hasattr(item.callspec.params.get("case"), "transform")]
        if name.startswith(EACH) and (left := kinds(rows) - kinds([item for item in rows if not item.get_closest_marker("slow")])):
            missing[name] = left
    assert not missing


def test_by_the_table_the_default_run_is_three_minutes_of_two_cores_and_ci_twenty(request):
    """And leaves a minute of them for what the table does not list; CI takes twenty minutes."""
    rows = json.loads((TESTS / "seconds.json").read_text())
    default, whole = {}, {}
    for name, (cases, taken) in request.config.stash[samples].items():
        if name in rows:
            default[name] = len(taken) * rows[name][1] / rows[name][0]
            whole[name] = sum(not item.get_closest_marker("slow") for item in cases) * rows[name][1] / rows[name][0]
    for cost, least in ((default, 300), (whole, 2400)):
        assert sum(cost.values()) < least, sorted(cost.items(), key=lambda item: -item[1])[:20]


def test_kernels_that_one_function_needs_alone_shorten_it(monkeypatch):
    cost = {
        "quick": (20, 2.0, 0.0),
        "compiling": (20, 2.0, 10 * COMPILING),
        "once": (1, 0.4, 4 * COMPILING),
        "long": (1, 0.5, 7 * COMPILING),
    }
    monkeypatch.setattr("tests.sampled.seconds", lambda: cost)
    assert [every(name) for name in cost] == [8, 12, 1, 0]


@pytest.mark.parametrize("name", [*WHOLE, *CUT, *ENTIRE])
def test_what_is_named_is_there(name):
    file, _, function = name.partition("::")
    if file != "test_":
        assert f"def {function}" in (TESTS / file).read_text()


def test_rules_over_source_text_are_never_cut():
    for path in TESTS.glob("test_*.py"):
        assert every(f"{path.name}::test_any") == 1
