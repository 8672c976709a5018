"""Rules of the house, checked on the source text itself."""

import ast
import re
from pathlib import Path

import pytest

import pellucid

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "pellucid"
MODULES = sorted([*SOURCE.rglob("*.py"), *(ROOT / "benchmarks" / "pellucid_bench").rglob("*.py")])
# Read values, and only where no gradient is asked for: see ``tape.plain``.
TAPED = ("lowered.py", "openings.py", "operations.py", "replayed.py", "tapes.py")
# What runs between a user's tensor and the result; the record's saving and the commands may read values.
GRAPH = [
    *SOURCE.glob("kernels/**/reference.py"),
    *SOURCE.glob("kernels/warp/taps.py"),
    *SOURCE.glob("kernels/warp/footprint.py"),
    *SOURCE.glob("transforms/*.py"),
    *SOURCE.glob("geometry/*.py"),
    *SOURCE.glob("color/*.py"),
    *SOURCE.glob("segments/*.py"),
    *(path for path in SOURCE.glob("lowering/*.py") if path.name not in TAPED),
    SOURCE / "execute.py",
    SOURCE / "apply.py",
    SOURCE / "draw.py",
]
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)
FORBIDDEN = {"detach", "item", "numpy", "tolist", "data", "cpu"}


@pytest.mark.parametrize("path", GRAPH, ids=lambda p: str(p.relative_to(SOURCE)))
def test_nothing_on_the_way_leaves_the_graph(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute):
            assert node.attr not in FORBIDDEN, f"{path.name}:{node.lineno} .{node.attr}"
            in_place = node.attr.endswith("_") and not node.attr.endswith("__") and not node.attr.startswith("_")
            assert not in_place, f"{path.name}:{node.lineno} .{node.attr}"


def test_every_module_says_what_it_owns():
    for path in MODULES:
        if path.name in ("_version.py", "__main__.py"):
            continue
        text = ast.get_docstring(ast.parse(path.read_text())) or ""
        for word in ("Owns:", "Must not:", "Read next:"):
            assert word in text, f"{path.relative_to(ROOT)} lacks {word!r}"


def test_what_to_read_next_is_there():
    for path in MODULES:
        links = re.search(r"^Read next:(.*)", ast.get_docstring(ast.parse(path.read_text())) or "", re.MULTILINE)
        for link in re.findall(r"``([^`]+\.(?:py|md))``", links.group(1) if links else ""):
            assert (path.parent / link).exists() or (ROOT / link).exists(), f"{path.relative_to(ROOT)} points to {link}"


def test_no_catch_all_files_and_no_giants():
    for path in MODULES:
        assert path.name not in ("utils.py", "helpers.py", "common.py", "misc.py")
        text = path.read_text()
        told = [node.body[0] for node in ast.walk(ast.parse(text)) if isinstance(node, DOCUMENTED) and ast.get_docstring(node)]
        docstrings = sum(one.end_lineno - one.lineno + 1 for one in told)
        assert len(text.splitlines()) - docstrings <= 480, path


@pytest.mark.parametrize("kind", pellucid.ALL, ids=lambda k: k.__name__)
def test_transform_docstrings_follow_the_template(kind):
    text = kind.__doc__
    for heading in ("Args:", "Gradient:", "On each target:", "Errors:", "Example:\n        >>> "):
        assert heading in text, heading
    first = text.strip().splitlines()[0]
    assert first.endswith("."), first


def test_the_repository_names_no_machine():
    for path in [*SOURCE.rglob("*.py"), *ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("tests/**/*.py")]:
        text = path.read_text()
        for word in ("/" + "work/", "/" + "root/", "/" + "opt/"):
            assert word not in text, (path, word)


def test_the_library_knows_nothing_of_its_benchmarks():
    for path in SOURCE.rglob("*.py"):
        assert "pellucid_bench" not in path.read_text(), path


def test_decision_records_share_one_form():
    paths = sorted((ROOT / "docs" / "adr").glob("*.md"))
    numbers = [int(path.name[:4]) for path in paths]
    assert len(set(numbers)) == len(numbers)
    for number, path in zip(numbers, paths, strict=True):
        text = path.read_text()
        assert re.match(rf"# ADR {number}: \S.*\n\nStatus: \S.*\.\n", text), path.name
        assert path.name.startswith(f"{number:04d}-"), path.name
        assert "\n## Decision\n" in text, path.name


def test_tests_that_are_cut_short_exist():
    """A function that was renamed or split has lost its measurement: run ``make seconds``, or move its row by hand."""
    from tests.sampled import every, seconds

    for name in seconds():
        file, _, function = name.partition("::")
        if every(name) != 1:
            assert f"def {function.rpartition('::')[2]}(" in (ROOT / "tests" / file).read_text(), name
