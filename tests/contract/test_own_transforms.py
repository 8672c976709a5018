"""A transform in somebody else's package: the page about it runs, and the contract suite holds for it as for ours."""

import importlib
import inspect
import itertools
import re
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import ClassVar

import pytest
import torch

import pellucid
from pellucid import InvalidArgument, InvalidType, Pipeline, Record
from pellucid.audit.finding import Severity
from pellucid.pipeline import serialization
from pellucid.transforms import base
from tests.cases import Case
from tests.contract import test_gradients, test_targets, test_values
from tests.gradient_table import report_of
from tests.refusals import refused

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "own-transforms.md").read_text()
MODULE, *BLOCKS = re.findall(r"^```python\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)


def load(folder, name, source):
    (folder / f"{name}.py").write_text(source)
    importlib.invalidate_caches()
    return importlib.import_module(name)


@pytest.fixture
def table(monkeypatch):
    """What a test registers is forgotten after it."""
    monkeypatch.setattr(serialization, "_TRANSFORMS", {kind.__name__: kind for kind in pellucid.ALL})


@pytest.fixture(scope="module")
def toys(tmp_path_factory):
    """A package that is not ours, with the page's transforms in it."""
    folder = tmp_path_factory.mktemp("packages")
    (folder / "toys").mkdir()
    (folder / "toys" / "__init__.py").touch()
    (folder / "toys" / "transforms.py").write_text(MODULE)
    known = dict(serialization._TRANSFORMS)
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield importlib.import_module("toys.transforms")
    finally:
        sys.path.remove(str(folder))
        serialization._TRANSFORMS.clear()
        serialization._TRANSFORMS.update(known)
        for name in ("toys", "toys.transforms"):
            sys.modules.pop(name, None)


def row(toys, which):
    """What a contributor adds to tests/cases.py."""
    if which == "warp":
        resting = toys.RandomSqueeze((1.0, 1.0))
        return Case(toys.RandomSqueeze(p=0.7), resting, targets=True)
    pellucid.register(toys.Exposure)
    return Case(toys.Exposure((-1.0, 0.0)), toys.Exposure(0.0))


def checks():
    """(function, its other arguments) of every contract test that takes a case."""
    found = []
    for module in (test_values, test_gradients, test_targets):
        for name, function in inspect.getmembers(module, inspect.isfunction):
            marks = [mark.args[:2] for mark in getattr(function, "pytestmark", ()) if mark.name == "parametrize"]
            if name.startswith("test_") and any(names == "case" for names, _ in marks):
                others = [[{names: value} for value in values] for names, values in marks if names != "case"]
                found += [(function, dict(pair for one in chosen for pair in one.items())) for chosen in itertools.product(*others)]
    return found


CHECKS = [
    (which, check, more)
    for which in ("warp", "color")
    for check, more in checks()
    if which == "warp" or check.__module__ != test_targets.__name__
]


@pytest.mark.parametrize(
    ("which", "check", "more"), CHECKS, ids=["-".join([w, f.__name__, *map(str, m.values())]) for w, f, m in CHECKS]
)
def test_the_contract_holds(which, check, more, toys, tmp_path):
    wanted = inspect.signature(check).parameters
    fixtures = {"tmp_path": tmp_path} if "tmp_path" in wanted else {}
    check(row(toys, which), **more, **fixtures)


def test_the_contract_is_all_there():
    names = {check.__name__ for _, check, _ in CHECKS}
    assert {
        "test_serialisation_round_trip",
        "test_image_gradient",
        "test_second_order",
        "test_a_dot_lands_where_its_keypoint_does",
    } <= names
    assert len(names) > 25


def test_the_contract_hears_a_lie(toys):
    @dataclass(frozen=True)
    class Lying(toys.Exposure):
        gradients: ClassVar = {"image": "exact", "stops": "none"}

    with pytest.raises(AssertionError, match="a gradient nobody declared"):
        test_gradients.test_every_drawn_value_is_declared_and_has_that_gradient(Case(Lying((-1.0, 0.0))))


@pytest.mark.parametrize("which", ["warp", "color"])
def test_the_audit_holds(which, toys):
    report = report_of(row(toys, which))
    assert not report.at_least(Severity.WARNING), str(report)


def test_the_page_runs(table, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    load(tmp_path, "mytransforms", MODULE)
    scope = {}
    for block in BLOCKS:
        exec(compile(block, "docs/own-transforms.md", "exec"), scope)
    printed = capsys.readouterr().out
    assert "Warp[0,1] + Color[2]" in printed
    assert "allow=('mytransforms',)" in printed
    sys.modules.pop("mytransforms")


def test_nothing_is_imported_unasked(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "trap", raising=False)
    (tmp_path / "trap.py").write_text("raise SystemExit('imported')")
    spec = {"pellucid": 1, "transforms": [{"name": "trap.Transform"}]}
    for allow in ((), ("trap.Transform",), ("tra",), ("trap.sub",)):
        refused(InvalidArgument, r"transforms\[0\]\.name.*allow=\('trap',\)", Pipeline.from_dict, spec, allow=allow)
    assert "trap" not in sys.modules
    refused(SystemExit, "imported", Pipeline.from_dict, spec, allow=("trap",))  # the trap works


def test_a_record_keeps_and_finds_an_unregistered_class(table, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    other = load(tmp_path, "unregistered", MODULE.replace("@pellucid.register", ""))
    _, record = Pipeline([other.Exposure()])(torch.rand(2, 3, 4, 4), return_record=True)
    record.save(tmp_path / "record.pt")
    refused(InvalidArgument, r"allow=\('unregistered',\)", Record.load, tmp_path / "record.pt")
    assert Record.load(tmp_path / "record.pt", allow=["unregistered"]).plan == record.plan
    sys.modules.pop("unregistered")


def test_names_that_lead_nowhere(toys):
    def read(name, allow=()):
        Pipeline.from_dict({"pellucid": 1, "transforms": [{"name": name}]}, allow=allow)

    refused(InvalidArgument, r"RandomMagic.*@pellucid\.register", read, "RandomMagic")
    refused(InvalidArgument, r"a module that Python finds.*no_such_module", read, "no_such_module.Transform", ("no_such_module",))
    for name in ("toys.transforms.Nothing", "toys.transforms.torch", "toys.transforms.Transform"):
        refused(InvalidType, r"a subclass of pellucid\.Transform", read, name, ("toys.transforms",))
    refused(InvalidType, "allow: expected a list of texts", read, "toys.transforms.Exposure", "toys.transforms")


def test_classes_a_file_cannot_name(table, toys):
    @dataclass(frozen=True)
    class Hidden(toys.Exposure):
        pass

    refused(InvalidArgument, r"Hidden: .*Put @pellucid\.register above it", Pipeline([Hidden()]).to_dict)
    pellucid.register(Hidden)
    assert Pipeline.from_dict(Pipeline([Hidden()]).to_dict()).transforms == (Hidden(),)


def test_what_cannot_be_registered(table, toys):
    class RandomInvert(toys.Exposure):
        pass

    class Open(pellucid.Transform):
        pass

    with pytest.raises(InvalidArgument, match=r"a name that no other transform has.*transforms\.color\.RandomInvert"):
        pellucid.register(RandomInvert)
    for wrong in (Open, dataclass(Open), pellucid.Transform, 3):
        with pytest.raises(InvalidType):
            pellucid.register(wrong)
    refused(InvalidType, r"transforms\[0\]: expected a frozen dataclass.*@dataclass\(frozen=True\)", Pipeline, [Open()])
    again = dataclass(frozen=True)(type("RandomSqueeze", (toys.RandomSqueeze,), {"__module__": "toys.transforms"}))
    pellucid.register(again)  # a cell that runs twice
    assert serialization._TRANSFORMS["RandomSqueeze"] is again


def test_fields_are_read_by_type_or_by_its_text(toys):
    for field in fields(toys.RandomSqueeze):
        assert not isinstance(field.type, str)
        assert base._reader(field.type) is not None, field.name
    for text, (_, read) in base._TYPES.items():
        assert base._reader(f"types.{text} | None" if text.isidentifier() else text) is read
    refused(InvalidArgument, r"RandomSqueeze\.interpolation: expected one of", toys.RandomSqueeze, interpolation="cubical")
    refused(InvalidType, r"RandomSqueeze\.same_on_batch", toys.RandomSqueeze, same_on_batch="yes")


def test_units_and_white_are_asked_of_the_transform(toys):
    @dataclass(frozen=True)
    class Standard(toys.Exposure):
        units = "normalised"

    @dataclass(frozen=True)
    class Negative(toys.Exposure):
        white = True

    dark = torch.zeros(1, 3, 4, 4, dtype=torch.uint8)
    assert Pipeline([toys.Exposure()])(dark).dtype == torch.uint8
    assert Pipeline([Standard()])(dark).dtype == torch.float32
    with pytest.warns(UserWarning, match="Negative takes 1 for white"):
        Pipeline([Negative()])(torch.full((1, 3, 4, 4), 255.0))
    Pipeline([Standard(), Negative()])(torch.full((1, 3, 4, 4), 255.0))
