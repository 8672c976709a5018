"""The page docs/performance.md: every measurement, written where it is read.

Owns: which table goes into which section.
Must not: decide what is measured.
Read next: ``command.py``.
"""

from __future__ import annotations

from pathlib import Path

from pellucid_bench.antialias import antialias_table, measure_antialias
from pellucid_bench.compare import Row, compare
from pellucid_bench.environment import environment
from pellucid_bench.measure import Say, on_threads
from pellucid_bench.overhead import measure_overhead
from pellucid_bench.peers.ours import flagship_pipeline
from pellucid_bench.plot import draw_cases, draw_scaling
from pellucid_bench.report import case_tables, describe, insert, overhead_table, report, scaling_table, write_json
from pellucid_bench.scaling import AXES, scaling
from pellucid_bench.settings import SINGLES
from pellucid_bench.sizes import measure_sizes, sizes_table

__all__ = ["write_case", "write_documents"]


def write_documents(folder: Path, *, batch: int, size: int, budget: float, impl: str, memory: bool, full: bool, say: Say) -> None:
    """Measure and write: the cases, the overhead, the scaling curves, two pictures and the JSON beside them."""
    page = folder / "performance.md"
    say("overhead")
    insert(page, "overhead", overhead_table(measure_overhead(impl=impl, budget=budget)))
    say("sizes")
    with on_threads(1):
        insert(page, "sizes", sizes_table(measure_sizes(impl=impl)))
        say("antialias")
        insert(page, "antialias", antialias_table(measure_antialias(budget=budget)))
    rows: list[Row] = []
    for case in ("flagship", "geometry", "warp", "remap", *SINGLES):
        measured = compare(case, batch=batch, size=size, budget=budget, impl=impl, memory=memory, say=say)
        write_case(page, case, measured, batch, size)
        rows += measured
    draw_cases([row for row in rows if row["case"] not in SINGLES], folder / "img" / "bench-cases.png")
    curves: list[Row] = []
    for axis in AXES:
        measured = scaling(axis, batch=max(1, batch // 4), size=size, budget=budget / 4, full=full, impl=impl, say=say)
        insert(page, f"scaling-{axis}", scaling_table(measured, axis))
        curves += measured
    draw_scaling(curves, folder / "img" / "bench-scaling.png")
    plan = flagship_pipeline(impl=impl).explain(size=(size, size))
    insert(page, "environment", f"{describe(environment())}\n\nWhat runs in the first of the pipelines below:\n\n```\n{plan}\n```")
    settings = {"batch": batch, "size": size, "budget_s": budget, "impl": impl, "full": full}
    write_json(folder / "performance.json", report("docs", settings, rows + curves))


def write_case(page: Path, case: str, rows: list[Row], batch: int, size: int) -> None:
    """Rewrite a case's section."""
    insert(page, case, f"{batch}x3x{size}x{size}.\n\n{case_tables(rows)}")
