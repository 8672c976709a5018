"""Runs of a study, one for each arm and seed, written down as they end.

Owns: `run_all`, which goes on where it was stopped; `each`, a mean with its parts; `example`, a file of ``examples/`` as a module.
Must not: know what is measured.
Read next: ``watermark.py``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from statistics import mean
from types import ModuleType
from typing import Any, TypeAlias

__all__ = ["Row", "each", "example", "run_all"]

Row: TypeAlias = dict[str, Any]


def run_all(
    run: Callable[[str, int], Row], arms: Sequence[str], seeds: int, *, about: Row, path: Path | None, say: Callable[[str], None]
) -> list[Row]:
    """The rows of all arms and seeds.

    Args:
        run: from arm and seed to what was measured.
        about: what a row depends on besides; rows of a file that says otherwise are not used.
        path: a JSON file, read first and written after every run; None for none.
        say: is told of each run.
    """
    rows: list[Row] = []
    if path is not None and path.exists():
        before = json.loads(path.read_text())
        rows = before["rows"] if before["about"] == about else []
    for seed in range(seeds):
        for arm in arms:
            if any((row["arm"], row["seed"]) == (arm, seed) for row in rows):
                continue
            start = time.process_time()
            row = run(arm, seed)
            rows.append({"arm": arm, "seed": seed, "cpu_seconds": round(time.process_time() - start, 1), **row})
            say(f"seed {seed}: {arm}: { ({name: value for name, value in rows[-1].items() if not isinstance(value, list)}) }")
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps({"about": about, "rows": rows}, indent=1) + "\n")
    return rows


def each(values: Sequence[float], form: str = ".1f") -> str:
    """The mean, and in brackets every value."""
    return f"{mean(values):{form}} ({', '.join(f'{one:{form}}' for one in values)})"


def example(name: str) -> ModuleType:
    """A file of the repository's ``examples/``."""
    path = Path(__file__).parents[2] / "examples" / f"{name}.py"
    spec = spec_from_file_location(f"pellucid_example_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
