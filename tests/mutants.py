"""Whether the default run catches small mistakes: ``python -m tests.mutants`` plants some, one at a time.

A mutant is one place in the library's source where an operator, a comparison, a function or a number is exchanged. Places are taken
by a hash of where they are, as many in each part, so nobody chose those that tests see. What the default run takes of that part's
tests runs until a case fails. Survivors are told by line: a mistake that nothing notices, or none at all (a tolerance, a loop that
ends a step later). Tests are collected once; a mutant is planted in a fork, into code that is loaded, and no file changes. With
``--results file`` each result is a line of a file as soon as it is known, and a later call takes up where this one stopped.
"""

import argparse
import ast
import contextlib
import gc
import io
import json
import os
import sys
from collections.abc import Iterator
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
CONTRACT = ["tests/contract/test_values.py", "tests/contract/test_targets.py"]
LINES = ["tests/contract/test_lines.py", "tests/contract/test_polygons.py", "tests/functional/test_polygons.py"]
PARTS = {
    "places": (
        ["geometry/*.py", "segments/chain.py", "transforms/warping.py", "transforms/affine.py", "transforms/crop.py"],
        [
            *CONTRACT,
            "tests/test_canvases.py",
            "tests/test_fusion.py",
            "tests/laws",
            "tests/oracle",
            *LINES,
            "tests/contract/test_vectors.py",
            "tests/volumes/test_geometry.py",
        ],
    ),
    "draws": (
        ["random/[bdfklnsw]*.py", "random/continuous.py", "random/philox.py", "random/multivariate.py", "engine/drawing.py"],
        ["tests/contract/test_values.py", "tests/draws", "tests/estimators/test_closed_forms.py", "tests/learn/test_edges.py"],
    ),
    "lowering": (
        ["engine/lowering/*.py", "engine/plan/*.py"],
        ["tests/contract/test_values.py", "tests/tape", "tests/test_canvases.py", "tests/test_fusion.py", "tests/test_openings.py"],
    ),
    "targets": (
        ["boxes/*.py", "targets/*.py", "pipeline/applying.py", "pipeline/maps.py"],
        [
            "tests/boxes",
            *CONTRACT[::-1],
            "tests/contract/test_maps.py",
            *LINES,
            "tests/test_pasting.py",
            "tests/test_mixing.py",
            "tests/views",
        ],
    ),
    "colours": (
        ["color/*.py", "transforms/color.py", "transforms/jitter.py", "transforms/hsv.py", "transforms/tone.py"],
        [
            "tests/contract/test_values.py",
            "tests/contract/test_gradients.py",
            "tests/test_fusion.py",
            "tests/oracle",
            "tests/interop",
        ],
    ),
}
"""Sources and tests of each part; the tests run in this order."""

OPERATORS = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.MatMult: None, ast.BitAnd: "|", ast.BitOr: "&"}
COMPARED = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "=="}
PAIRS = ("sin cos", "min max", "minimum maximum", "amin amax", "any all", "floor ceil", "log exp", "ones zeros")
NAMES = {one: other for pair in PAIRS for one, other in (pair.split(), pair.split()[::-1])}


class Mutant(NamedTuple):
    """One exchange in a file: bytes ``start`` to ``stop`` become ``text``."""

    file: str
    line: int
    start: int
    stop: int
    text: str
    function: str

    def __str__(self) -> str:
        source = (ROOT / "src" / "pellucid" / self.file).read_bytes()[self.start : self.stop].decode()
        return f"{self.file}:{self.line} in {self.function}: {source!r} -> {self.text!r}"

    def order(self) -> bytes:
        return blake2b(f"{self.file}:{self.function}:{self.text}:{self.start}".encode()).digest()


def mutants(path: Path) -> Iterator[Mutant]:
    """Every exchange in a file's functions, but for docstrings, annotations, defaults and what is raised."""
    source = path.read_bytes()
    begins = [0]
    for line in source.splitlines(keepends=True):
        begins.append(begins[-1] + len(line))

    def at(node: ast.expr, *, end: bool = False) -> int:
        return begins[(node.end_lineno if end else node.lineno) - 1] + (node.end_col_offset if end else node.col_offset)

    def found(node: ast.AST, function: str) -> Iterator[Mutant]:
        if isinstance(node, ast.Raise | ast.Assert | ast.arguments | ast.AnnAssign):
            return
        if isinstance(node, ast.FunctionDef) and not function:
            for child in node.body:
                yield from found(child, node.name)
            return
        if function and isinstance(node, ast.expr):
            name = str(path.relative_to(ROOT / "src" / "pellucid"))
            for start, stop, text in exchanges(node, source, at):
                yield Mutant(name, node.lineno, start, stop, text, function)
        for child in ast.iter_child_nodes(node):
            yield from found(child, function)

    return found(ast.parse(source), "")


def exchanges(node: ast.expr, source: bytes, at) -> Iterator[tuple[int, int, str]]:
    """Where a node's text changes, and into what."""
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        start, stop = at(node.left, end=True), at(node.right)
        left, right = source[at(node.left) : start].decode(), source[stop : at(node.right, end=True)].decode()
        between = source[start:stop].decode()
        if isinstance(node.op, ast.MatMult):
            yield at(node.left), at(node.right, end=True), f"{right}{between}{left}"
        elif between.strip() in "+-*/&|":
            yield start, stop, f" {OPERATORS[type(node.op)]} "
    elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARED:
        yield at(node.left, end=True), at(node.comparators[0]), f" {COMPARED[type(node.ops[0])]} "
    elif isinstance(node, ast.Attribute) and node.attr in NAMES:
        yield at(node, end=True) - len(node.attr), at(node, end=True), NAMES[node.attr]
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield at(node), at(node, end=True), repr(node.value + 1)
    elif isinstance(node, ast.IfExp):
        start, stop = at(node.test), at(node.test, end=True)
        yield start, stop, f"not ({source[start:stop].decode()})"


def chosen(part: str, count: int) -> list[Mutant]:
    """As many mutants of a part, no two in one function."""
    everything = [
        one for glob in PARTS[part][0] for path in sorted((ROOT / "src" / "pellucid").glob(glob)) for one in mutants(path)
    ]
    firsts: dict[tuple[str, str], Mutant] = {}
    for one in sorted(everything, key=Mutant.order):
        firsts.setdefault((one.file, one.function), one)
    return list(firsts.values())[:count]


def plant(one: Mutant) -> None:
    """Exchange the code of a function that is loaded; its file stays as it is."""
    path = ROOT / "src" / "pellucid" / one.file
    import_module(".".join(("pellucid", *Path(one.file).with_suffix("").parts)).removesuffix(".__init__"))
    before = path.read_bytes()
    new = dict(codes(compile(before[: one.start] + one.text.encode() + before[one.stop :], str(path), "exec")))
    planted = 0
    for loaded in gc.get_objects():
        if type(loaded) is FunctionType and loaded.__code__.co_filename == str(path) and loaded.__name__ == one.function:
            loaded.__code__ = new[loaded.__code__.co_qualname, loaded.__code__.co_firstlineno]
            planted += 1
    assert planted, one


def codes(code: CodeType) -> Iterator[tuple[tuple[str, int], CodeType]]:
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield (inner.co_qualname, inner.co_firstlineno), inner
            yield from codes(inner)


class Forks:
    """A plugin of pytest that runs what was collected once for each mutant, in a fork, until a case fails."""

    def __init__(self, some: list[Mutant], results: Path | None) -> None:
        self.some, self.results, self.told = some, results, 0
        lines = results.read_text().splitlines() if results and results.exists() else []
        self.killed: dict[str, str] = dict(json.loads(line) for line in lines)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for one in self.some:
            if str(one) not in self.killed:
                reading, writing = os.pipe()
                if not os.fork():
                    self.told = writing
                    plant(one)
                    return
                os.close(writing)
                with os.fdopen(reading) as told:
                    killer = told.read()
                _, status = os.wait()
                self.killed[str(one)] = killer or (f"the process ended with {status}" if status else "")
                if self.results:
                    with self.results.open("a") as file:
                        print(json.dumps([str(one), self.killed[str(one)]]), file=file)
            print(f"{one}: {self.killed[str(one)] or 'SURVIVED'}", file=sys.stderr, flush=True)
        session.items.clear()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and self.told:
            os.write(self.told, report.nodeid.encode())
            os._exit(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--each", type=int, default=12, help="mutants of each part")
    parser.add_argument("--part", choices=PARTS, action="append", help="this part alone; may be given again")
    parser.add_argument("-m", dest="marks", help="cases to run instead of the default run's, as pytest's -m")
    parser.add_argument("--results", type=Path, help="a file of results: those in it are taken, new ones are added")
    given = parser.parse_args()
    for part in given.part or PARTS:
        forks = Forks(chosen(part, given.each), given.results)
        with contextlib.redirect_stdout(io.StringIO()):
            marks = ["-m", given.marks] if given.marks else []
            code = pytest.main(["-p", "no:cacheprovider", "-s", "--timeout", "900", *PARTS[part][1], *marks], plugins=[forks])
        if forks.told:  # a fork of which no test has failed
            sys.stdout.flush()
            os._exit(int(code))
        print(f"{part}: {sum(bool(forks.killed[str(one)]) for one in forks.some)} of {len(forks.some)} killed", flush=True)


if __name__ == "__main__":
    main()
