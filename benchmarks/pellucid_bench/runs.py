"""Runs of a study, one for each arm and seed, written down as they end.

Owns: `run_all`, which goes on where it was stopped; `read_sizes`; `each`, a mean with its parts; `example`, one of ``examples/``.
Must not: know what is measured.
Read next: ``watermark.py``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.util import module_from_spec, spec_from_file_location
from math import inf
from multiprocessing import get_context
from pathlib import Path
from statistics import mean
from types import ModuleType
from typing import Any, TypeAlias

from pellucid.errors import invalid

__all__ = ["Row", "each", "example", "read_sizes", "run_all"]

Row: TypeAlias = dict[str, Any]


def run_all(
    run: Callable[[str, int], Row],
    arms: Sequence[str],
    seeds: int,
    *,
    about: Row,
    path: Path | None,
    say: Callable[[str], None],
    jobs: int = 1,
    until: float = inf,
) -> list[Row]:
    """The rows of all arms and seeds, in their order.

    Args:
        run: from arm and seed to what was measured.
        about: what a row depends on besides; a file that says otherwise is kept as ``NAME-before.json``, and not used.
        path: a JSON file, read first and written after every run; None for none.
        say: is told of each run.
        jobs: how many runs at a time, each in a process of its own where there are several.
        until: no run begins after this time of ``time.monotonic``.
    """
    rows: list[Row] = []
    if path is not None and path.exists():
        before = json.loads(path.read_text())
        if before["about"] == about:
            rows = before["rows"]
        else:
            kept = path.replace(path.with_stem(f"{path.stem}-before"))
            say(f"{path} has runs of other settings: they are kept in {kept}")
    done = {(row["seed"], row["arm"]) for row in rows}
    order = [(seed, arm) for seed in range(seeds) for arm in arms]
    for row in _rows(run, [place for place in order if place not in done], jobs, until):
        rows.append(row)
        say(f"seed {row['seed']}: {row['arm']}: { ({name: value for name, value in row.items() if not isinstance(value, list)}) }")
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            draft = path.with_suffix(".writing")
            draft.write_text(json.dumps({"about": about, "rows": rows}, indent=1) + "\n")
            draft.replace(path)
    return rows


def _rows(run: Callable[[str, int], Row], places: Sequence[tuple[int, str]], jobs: int, until: float) -> Iterator[Row]:
    """The rows of these seeds and arms, one after the other, as they end."""
    global _run, _until
    if jobs == 1 or len(places) < 2:
        yield from (_timed(run, place) for place in places if time.monotonic() < until)
        return
    _run, _until = run, until
    with get_context("fork").Pool(jobs) as pool:  # a fork has what the closure holds
        yield from filter(None, pool.imap(_one, places))


def _one(place: tuple[int, str]) -> Row | None:
    assert _run is not None
    return _timed(_run, place) if time.monotonic() < _until else None


def _timed(run: Callable[[str, int], Row], place: tuple[int, str]) -> Row:
    seed, arm = place
    start = time.process_time()
    row = run(arm, seed)
    return {"arm": arm, "seed": seed, "cpu_seconds": round(time.process_time() - start, 1), **row}


_run: Callable[[str, int], Row] | None = None
"""What processes that are forked run,"""
_until = inf
"""and until when they begin another."""


def each(values: Sequence[float], form: str = ".1f") -> str:
    """The mean, and in brackets every value."""
    return f"{mean(values):{form}} ({', '.join(f'{one:{form}}' for one in values)})"


def read_sizes(text: str, name: str = "images") -> list[int]:
    """Read ``500,2000``."""
    try:
        sizes = [int(part) for part in text.split(",")]
    except ValueError:
        sizes = []
    if not sizes or min(sizes) < 1:
        raise invalid(name, expected="numbers of at least 1 with commas between them, such as 500,2000", got=repr(text))
    return sizes


def example(name: str) -> ModuleType:
    """A file of the repository's ``examples/``."""
    path = Path(__file__).parents[2] / "examples" / f"{name}.py"
    spec = spec_from_file_location(f"pellucid_example_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
