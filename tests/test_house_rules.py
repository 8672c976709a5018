"""Rules of the house, checked on the source text itself."""

import ast
import re
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import get_args

import pytest

import pellucid
from pellucid.segments.specs import SegmentSpec

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "pellucid"
MODULES = sorted([*SOURCE.rglob("*.py"), *(ROOT / "benchmarks" / "pellucid_bench").rglob("*.py"), *(ROOT / "printer").glob("*.py")])
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
    *(path for path in SOURCE.glob("engine/lowering/*.py") if path.name not in TAPED),
    SOURCE / "engine" / "execution.py",
    SOURCE / "pipeline" / "applying.py",
    SOURCE / "engine" / "drawing.py",
]
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)


@cache
def tree(path):
    """A file's syntax, which several rules read."""
    return ast.parse(path.read_text())


FORBIDDEN = {"detach", "item", "numpy", "tolist", "data", "cpu"}


@pytest.mark.parametrize("path", GRAPH, ids=lambda p: str(p.relative_to(SOURCE)))
def test_nothing_on_the_way_leaves_the_graph(path):
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Attribute):
            assert node.attr not in FORBIDDEN, f"{path.name}:{node.lineno} .{node.attr}"
            in_place = node.attr.endswith("_") and not node.attr.endswith("__") and not node.attr.startswith("_")
            assert not in_place, f"{path.name}:{node.lineno} .{node.attr}"


FACTORIES = {
    *("arange", "as_tensor", "empty", "eye", "full", "hann_window", "linspace", "logspace", "ones", "rand", "randint", "randn"),
    *("randperm", "scalar_tensor", "tensor", "tril_indices", "triu_indices", "zeros"),
}
"""Functions of torch's whose tensors lie on the default device where none is named."""


ON_DEVICES = ("boxes", "color", "detection", "engine/lowering", "functional", "geometry", "kernels", "losses", "nn")
ON_DEVICES += ("registration", "segments", "transforms")


@pytest.mark.parametrize("folder", ON_DEVICES)
def test_what_computes_says_where_its_tensors_lie(folder):
    """A function that is called by itself must not depend on torch's default device, nor meet its inputs elsewhere."""
    for path in sorted(SOURCE.glob(f"{folder}/**/*.py")):
        for node in ast.walk(tree(path)):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr=name)) if name in FACTORIES:
                    place = f"{path.relative_to(SOURCE)}:{node.lineno} torch.{name}"
                    assert "device" in {keyword.arg for keyword in node.keywords}, place


def imported(path, modules):
    """The modules of the package that a file imports: anywhere in it, also for types and within functions."""
    for node in ast.walk(tree(path)):
        names = [one.name for one in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{name}" for name in names]
        for name in names:
            found = next((one for one in (name, name.rpartition(".")[0]) if one in modules), None)
            if found:
                yield found


def test_imports_form_no_circle():
    """Every import counts, also one under TYPE_CHECKING or within a function: what two files share lies below both."""
    paths = [path for path in MODULES if SOURCE in path.parents]
    modules = {".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__"): path for path in paths}
    found = {name: set(imported(path, modules)) - {name} for name, path in modules.items()}
    assert sum(map(len, found.values())) > 2000
    assert not any(node.level for path in paths for node in ast.walk(tree(path)) if isinstance(node, ast.ImportFrom))
    TopologicalSorter(found).prepare()  # raises CycleError with the circle


def test_every_module_says_what_it_owns():
    for path in MODULES:
        if path.name in ("_version.py", "__main__.py"):
            continue
        text = ast.get_docstring(tree(path)) or ""
        for word in ("Owns:", "Must not:", "Read next:"):
            assert word in text, f"{path.relative_to(ROOT)} lacks {word!r}"


def test_what_to_read_next_is_there():
    for path in MODULES:
        links = re.search(r"^Read next:(.*)", ast.get_docstring(tree(path)) or "", re.MULTILINE)
        for link in re.findall(r"``([^`]+\.(?:py|md))``", links.group(1) if links else ""):
            assert (path.parent / link).exists() or (ROOT / link).exists(), f"{path.relative_to(ROOT)} points to {link}"


def test_a_module_says_once_what_it_exports_and_repeats_no_block():
    for path in MODULES:
        exports = [node for node in tree(path).body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"]
        blocks = [ast.dump(node) for node in tree(path).body if not isinstance(node, ast.Expr)]
        assert len(exports) <= 1, path
        assert len(set(blocks)) == len(blocks), path


def test_no_catch_all_files_and_no_giants():
    for path in MODULES:
        assert path.name not in ("utils.py", "helpers.py", "common.py", "misc.py")
        text = path.read_text()
        told = [
            node.body[0] for node in ast.walk(tree(path)) if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False)
        ]
        docstrings = sum(one.end_lineno - one.lineno + 1 for one in told)
        assert len(text.splitlines()) - docstrings <= 480, path


LONGEST, MOST = 60, 16
"""Lines of a kernel's function below its docstring, and its arguments; and what is above that, which must not grow."""
ABOVE = {("sweep.py", "_one"): (62, MOST), ("packing.py", "pack"): (LONGEST, 17)}


def test_functions_of_kernels_stay_short_and_take_few_arguments():
    for path in sorted((SOURCE / "kernels").rglob("*.py")):
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef):
                begin = node.body[0].end_lineno if ast.get_docstring(node) else node.body[0].lineno - 1
                arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                longest, most = ABOVE.get((path.name, node.name), (LONGEST, MOST))
                place = f"{path.relative_to(SOURCE)}:{node.lineno} {node.name}"
                assert node.end_lineno - begin <= longest, f"{place} is longer than {longest} lines"
                assert len(arguments) <= most, f"{place} takes more than {most} arguments"


@pytest.mark.parametrize("kind", [*pellucid.ALL, *pellucid.VOLUMES], ids=lambda k: k.__name__)
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


LINK = r"\[ADR (\d+)\]\((\S+?\.md)\)"
LINKS = rf"{LINK}(?:(?:, | and ){LINK})*"
STATUS = re.compile(
    rf"(?:accepted(?:; changed by (?P<changed>{LINKS}))?|superseded by (?P<superseded>{LINKS}))\."
    rf"(?: Changes (?P<changes>{LINKS})\.)?(?: [A-Z].*\.)?"
)
DECISIONS = {int(path.name[:4]): path for path in sorted((ROOT / "docs" / "adr").glob("*.md"))}


def status_of(number):
    """Numbers of the records that a record was changed or superseded by, and of those that it changes."""
    status = re.match(rf"# ADR {number}: \S.*\n\nStatus: (.*)\n\n", DECISIONS[number].read_text())
    assert status, f"{DECISIONS[number].name}: a title, then a line that begins with 'Status: '"
    read = STATUS.fullmatch(status[1])
    assert read, f"ADR {number}: write 'accepted', 'accepted; changed by ADR N' or 'superseded by ADR N', with links: {status[1]}"
    links = [re.findall(LINK, read[one] or "") for one in ("changed", "superseded", "changes")]
    for other, name in [pair for found in links for pair in found]:
        assert DECISIONS[int(other)].name == name, DECISIONS[number].name
    later, earlier = [*links[0], *links[1]], links[2]
    return {int(other) for other, _ in later}, {int(other) for other, _ in earlier}


def test_decision_records_share_one_form():
    assert len(DECISIONS) == len(list((ROOT / "docs" / "adr").glob("*.md")))
    changes = {number: status_of(number) for number in DECISIONS}
    for number, (later, earlier) in changes.items():
        assert all(number in changes[other][1] for other in later), f"ADR {number}: what changed it does not say so"
        assert all(number in changes[other][0] for other in earlier), f"ADR {number}: what it changes does not say so"
        assert "\n## Decision\n" in DECISIONS[number].read_text(), number


def test_numbers_without_a_decision_are_told():
    told = re.search(r"ever recorded under the numbers ([\d, and]+);", (ROOT / "ARCHITECTURE.md").read_text())
    assert set(map(int, re.findall(r"\d+", told[1]))) == set(range(1, max(DECISIONS))) - DECISIONS.keys()


def test_the_architecture_names_every_room():
    text = (ROOT / "ARCHITECTURE.md").read_text()
    rows = re.findall(r"^\| (`.*?) \|", text.split("## Layers")[1].split("## ")[0], re.MULTILINE)
    rooms = {
        path.stem for path in SOURCE.iterdir() if (path.suffix == ".py" or (path / "__init__.py").exists()) and path.stem[0] != "_"
    }
    assert set(re.findall(r"`(\w+)`", " ".join(rows))) == rooms


def test_the_architecture_names_every_family_of_kernels_and_every_segment():
    text = (ROOT / "ARCHITECTURE.md").read_text()
    families = re.sub(r"\(.*?\)", "", text.split("kernels: ")[1].split("```")[0], flags=re.DOTALL)
    for family in (path.parent.name for path in (SOURCE / "kernels").glob("*/__init__.py")):
        assert re.search(rf"\b{family}\b", families), family
    segments = re.search(r"the closed set: ([\w, ]+), and how", text)[1].split(", ")
    assert sorted(segments) == sorted(kind.__name__.removesuffix("Spec") for kind in get_args(SegmentSpec))


def test_tests_that_are_cut_short_exist():
    """A function that was renamed or split has lost its measurement: run ``make seconds``, or move its row by hand."""
    from tests.sampled import every, seconds

    for name in seconds():
        file, _, function = name.partition("::")
        if every(name) != 1:
            assert f"def {function.rpartition('::')[2].removesuffix('[triton]')}(" in (ROOT / "tests" / file).read_text(), name
