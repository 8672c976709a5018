"""Pictures of the measurements.

Owns: the bars of a case and the scaling curves.
Must not: measure; matplotlib is imported when a picture is drawn.
Read next: ``command.py``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pellucid_bench.compare import Row
from pellucid_bench.modes import MODES

__all__ = ["draw_cases", "draw_scaling", "pyplot"]

_COLORS = {
    "pellucid": "#0072b2",
    "kornia": "#d55e00",
    "torchvision": "#009e73",
    "albumentations": "#cc79a7",
    "fuse": "#e69f00",
    "torch ": "#56b4e9",
    "cv2": "#555555",
}
_TITLES = {
    "flagship": "RandomAffine + flip + ColorJitter + Normalize",
    "geometry": "RandomResizedCrop + RandomAffine + RandomPerspective",
    "warp": "affine warp, matrices given",
    "remap": "remap, coordinates given",
}


def _color(subject: str) -> str:
    return next((color for name, color in _COLORS.items() if subject.startswith(name)), "#888888")


def pyplot() -> Any:
    """Matplotlib without a window."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def draw_cases(rows: list[Row], path: Path) -> None:
    """Horizontal bars from zero, one panel per case and mode; whiskers are quartiles. What raises has its line, and says so."""
    plt = pyplot()
    timed = [row for row in rows if row["status"] == "ok"]
    cases = list(dict.fromkeys(row["case"] for row in timed))
    modes = [mode for mode in MODES if any(row["mode"] == mode for row in timed)][:2]
    panels = {(case, mode): _fastest_last(rows, case, mode) for case in cases for mode in modes}
    heights = [max(2, *(len(panels[case, mode]) for mode in modes)) + 1.6 for case in cases]
    figure, axes = plt.subplots(
        len(cases),
        len(modes),
        figsize=(7.4 * len(modes), 0.42 * sum(heights)),
        squeeze=False,
        layout="constrained",
        gridspec_kw={"height_ratios": heights},
    )
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.12)
    for line, case in zip(axes, cases, strict=True):
        for axis, mode in zip(line, modes, strict=True):
            _bars(axis, panels[case, mode], f"{_TITLES.get(case, case)}\n{MODES[mode]}")
    shape = "x".join(map(str, timed[0]["shape"])) if timed else ""
    figure.suptitle(
        f"{shape} float32, {timed[0]['threads'] if timed else 0} thread(s): milliseconds per batch, lower is better", fontsize=11
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _fastest_last(rows: list[Row], case: str, mode: str) -> list[Row]:
    """Bars are drawn from below: first what raises, then the slowest."""
    here = [row for row in rows if row["case"] == case and row.get("mode") == mode and row["status"] in ("ok", "raises")]
    return sorted(here, key=lambda row: (row["status"] == "ok", -row.get("median_ms", 0.0)))


def _bars(axis: Any, rows: list[Row], title: str) -> None:
    top = max((row["q3_ms"] for row in rows if row["status"] == "ok"), default=1.0)
    beside = {"textcoords": "offset points", "va": "center", "fontsize": 8}
    for place, row in enumerate(rows):
        if row["status"] == "raises":
            axis.annotate("raises", (0.0, place), xytext=(6, 0), color="#c62828", **beside)
            continue
        spread = [[row["median_ms"] - row["q1_ms"]], [row["q3_ms"] - row["median_ms"]]]
        axis.barh(place, row["median_ms"], xerr=spread, color=_color(row["subject"]), error_kw={"lw": 1, "capsize": 2})
        axis.annotate(f"{row['median_ms']:.3g}", (row["q3_ms"], place), xytext=(5, 0), **beside)
    axis.set_yticks(range(len(rows)), [row["subject"] for row in rows])
    axis.set_xlim(0.0, 1.15 * top)
    axis.set_ylim(-0.6, len(rows) - 0.4)
    axis.set_title(title, fontsize=9)
    axis.grid(axis="x", which="major", alpha=0.3)
    axis.set_axisbelow(True)


def draw_scaling(rows: list[Row], path: Path) -> None:
    """One panel per axis: forward solid, with backward dashed; bands are quartiles."""
    plt = pyplot()
    axes_names = list(dict.fromkeys(row["axis"] for row in rows))
    columns = min(2, len(axes_names))
    lines = -(-len(axes_names) // columns)
    figure, axes = plt.subplots(lines, columns, figsize=(6.4 * columns, 4.2 * lines), squeeze=False, constrained_layout=True)
    for axis, name in zip(axes.flat, axes_names, strict=False):
        _curves(axis, [row for row in rows if row["axis"] == name], name)
    for axis in list(axes.flat)[len(axes_names) :]:
        axis.set_axis_off()
    handles = {label: handle for axis in axes.flat for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4, fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _curves(axis: Any, rows: list[Row], name: str) -> None:
    from matplotlib import ticker

    for subject in dict.fromkeys(row["subject"] for row in rows):
        for mode, style in (("forward", "-"), ("image", "--")):
            points = sorted(
                (row for row in rows if row["subject"] == subject and row["mode"] == mode), key=lambda row: row["value"]
            )
            if not points:
                continue
            values = [row["value"] for row in points]
            label = subject if mode == "forward" else f"{subject}, with backward"
            # Two variants of one library share its colour; the loop is the dotted one.
            style_here = ":" if "loop" in subject else style
            axis.plot(
                values, [row["median_ms"] for row in points], style_here, marker="o", ms=3, color=_color(subject), label=label
            )
            axis.fill_between(
                values, [row["q1_ms"] for row in points], [row["q3_ms"] for row in points], color=_color(subject), alpha=0.12, lw=0
            )
    if name == "operations":
        axis.set_ylim(bottom=0.0)
    else:
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.yaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    ticks = sorted({row["value"] for row in rows})
    axis.set_xticks(ticks, [str(tick) for tick in ticks], fontsize=8)
    axis.minorticks_off()
    fixed = rows[0]["shape"]
    where = {"batch": f"{fixed[2]}x{fixed[3]} pixels", "size": f"batch {fixed[0]}"}.get(name, f"{fixed[0]}x3x{fixed[2]}x{fixed[3]}")
    what = "number of operations in the pipeline" if name == "operations" else name
    axis.set(xlabel=f"{what} ({where})", ylabel="milliseconds per batch")
    axis.grid(alpha=0.3)
