"""``pellucid bench``: the commands.

Owns: options, progress and exit codes.
Must not: measure or format tables.
Read next: ``overhead.py``.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markdown import Markdown

from pellucid.cli.errors import need
from pellucid_bench.antialias import antialias_table, measure_antialias
from pellucid_bench.compare import Row, compare
from pellucid_bench.documents import write_case, write_documents
from pellucid_bench.every import SIZES as EVERY_SIZES
from pellucid_bench.every import WAYS, every_table, measure_every
from pellucid_bench.loader import loader_table, measure_loader
from pellucid_bench.measure import on_threads
from pellucid_bench.mixing import measure_mixing, mixing_table
from pellucid_bench.operations import OPERATIONS
from pellucid_bench.overhead import Overhead, measure_overhead
from pellucid_bench.patches import NEEDED, measure_patches, patches_table, speedups
from pellucid_bench.peers import MODULES
from pellucid_bench.penalty import measure_penalty, penalty_table
from pellucid_bench.plot import draw_cases, draw_scaling
from pellucid_bench.policies import measure_policies, policies_table
from pellucid_bench.reach import measure_reach, reach_table
from pellucid_bench.real import PIPELINES, measure_real, real_table
from pellucid_bench.recipes import measure_recipe, recipe_table
from pellucid_bench.register import PARTS, measure_register, register_table
from pellucid_bench.report import case_tables, describe, insert, overhead_table, report, scaling_table, write_json
from pellucid_bench.scaling import AXES, scaling
from pellucid_bench.settings import SINGLES
from pellucid_bench.sizes import MOST, measure_sizes, ratios, sizes_table
from pellucid_bench.their_benchmark import measure_theirs, theirs_table
from pellucid_bench.tones import measure_tones, tones_table
from pellucid_bench.volumes import measure_volumes, volumes_table

__all__ = ["app"]

app = typer.Typer(help="Time Pellucid beside its peers, in one process, with equal parameters.", no_args_is_help=True)

Threads = Annotated[int, typer.Option(min=0, help="torch's threads; 0 leaves them as they are.")]
Budget = Annotated[float, typer.Option(min=0.01, help="Seconds of timing per subject and mode.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Folder for the JSON report and the plot.")]
Peers = Annotated[list[str] | None, typer.Option("--only", help=f"Measure only these ({', '.join(MODULES)}); may be repeated.")]
ImplName = Annotated[str, typer.Option(help="Pellucid's implementation: auto, reference, cpu or triton.")]
Batch = Annotated[int, typer.Option(min=1, help="Images per batch.")]
Size = Annotated[int, typer.Option(min=8, help="Height and width.")]
Memory = Annotated[bool, typer.Option(help="Measure peak memory too, each library in its own process.")]

_console = Console(stderr=True)


@app.command()
def overhead(
    threads: Threads = 1,
    budget: Budget = 2.0,
    impl: ImplName = "auto",
    output: Output = None,
    docs_page: Annotated[Path | None, typer.Option("--docs", help="The page whose section on overhead to rewrite.")] = None,
    strict: Annotated[bool, typer.Option(help="Exit with 1 if the budget is missed.")] = True,
) -> None:
    """Time and Python calls on 8x3x64x64, eager, and of one picture; at most a quarter of kornia's."""
    with _setting(threads):
        result = measure_overhead(impl=impl, budget=budget)
        data = report("overhead", {"budget_s": budget, "impl": impl}, overhead_rows(result))
    _finish("overhead", data, overhead_table(result), output, docs_page)
    if strict and not result.met():
        raise typer.Exit(1)


Cases = Annotated[list[str] | None, typer.Option("--case", help="Only this section; may be repeated.")]


def _compared(command: str, cases: tuple[str, ...], summary: str) -> None:
    def run(
        batch: Batch = 32,
        size: Size = 224,
        threads: Threads = 0,
        budget: Budget = 3.0,
        only: Peers = None,
        some: Cases = None,
        impl: ImplName = "auto",
        memory: Memory = True,
        output: Output = None,
        docs_page: Annotated[Path | None, typer.Option("--docs", help="The page whose sections on these to rewrite.")] = None,
    ) -> None:
        _check_names(only)
        _check_pictures(output)
        for name in some or ():
            if name not in cases:
                raise typer.BadParameter(f"expected one of {', '.join(cases)}; got {name}", param_hint="--case")
        tables: dict[str, list[Row]] = {}
        with _setting(threads):
            for case in some or cases:
                tables[case] = compare(
                    case, batch=batch, size=size, budget=budget, only=only or (), impl=impl, memory=memory, say=_say
                )
            rows = [row for table in tables.values() for row in table]
            data = report(command, {"batch": batch, "size": size, "budget_s": budget, "impl": impl}, rows)
        texts = [f"## {case}\n\n{case_tables(table)}" for case, table in tables.items()]
        _show(describe(data["environment"]) + "\n\n" + "\n\n".join(texts))
        if docs_page is not None:
            for case, table in tables.items():
                write_case(docs_page, case, table, batch, size)
        if output is not None:
            write_json(output / f"{command}.json", data)
            draw_cases(rows, output / f"bench-{command}.png")
        if any(row["status"] == "refused" for row in rows):
            raise typer.Exit(1)

    app.command(command, help=summary)(run)


_compared(
    "pipelines",
    ("flagship", "geometry"),
    "Two pipelines, forward and backward: affine + flip + colour + normalise, and crop + affine + perspective.",
)
_compared(
    "warp",
    ("warp", "remap"),
    "One affine warp by matrices, and one remap by coordinates, against grid_sample, OpenCV and kornia.",
)
_compared("singles", SINGLES, "Single operations: Gaussian blur, colour jitter, Gaussian noise, flips, JPEG, elastic deformation.")


@app.command()
def patches(
    batch: Batch = 4,
    size: Size = 512,
    frames: Annotated[int, typer.Option(min=1, help="Frames per image.")] = 512,
    patch: Annotated[int, typer.Option(min=2, help="Side of a patch, in samples.")] = 32,
    threads: Threads = 1,
    budget: Budget = 3.0,
    impl: ImplName = "auto",
    output: Output = None,
    docs_page: Annotated[Path | None, typer.Option("--docs", help="The page whose patches section to rewrite.")] = None,
    strict: Annotated[bool, typer.Option(help="Exit with 1 if a ratio to kornia is below 3.")] = True,
) -> None:
    """Patches at affine frames of 8 to 128 pixels, forward and backward to image and frames, against kornia's pyramid."""
    settings = {"batch": batch, "size": size, "count": frames, "patch": patch, "budget": budget, "impl": impl}
    with _setting(threads):
        rows = measure_patches(
            batch=batch, size=size, count=frames, patch=patch, channels=(1, 3), budget=budget, impl=impl, say=_say
        )
        data = report("patches", settings, rows)
    note = f"{batch} images of {size}x{size}, {frames} frames each, patches of {patch}x{patch}."
    _finish("patches", data, patches_table(rows), output, docs_page, note)
    if strict and (any(ratio < NEEDED for ratio in speedups(rows).values()) or any(row["status"] == "refused" for row in rows)):
        raise typer.Exit(1)


@app.command()
def loader(
    images: Annotated[int, typer.Option(min=32, help="Files in the folder.")] = 256,
    workers: Annotated[list[int] | None, typer.Option(min=0, help="Worker processes; may be repeated; default 0 and 2.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Timed epochs of each.")] = 3,
    output: Output = None,
    docs_page: Annotated[Path | None, typer.Option("--docs", help="The page whose loader section to rewrite.")] = None,
) -> None:
    """A folder of JPEGs of natural sizes to normalised batches of 32 x 3 x 224 x 224, one thread per process (and two in one)."""
    need("bench", "skimage")
    counts = tuple(workers or (0, 2))
    with _setting(1):
        rows = measure_loader(images=images, workers=counts, rounds=rounds, say=_say)
        data = report("loader", {"images": images, "workers": counts, "rounds": rounds}, rows)
    note = f"{images} files, the best of {rounds} epochs taken in turns."
    _finish("loader", data, loader_table(rows), output, docs_page, note)


@app.command()
def antialias(
    batch: Annotated[int, typer.Option(min=1, help="Images of the timed batch.")] = 8,
    threads: Threads = 1,
    budget: Budget = 1.0,
    output: Output = None,
    docs_page: Annotated[Path | None, typer.Option("--docs", help="The page whose section on antialiasing to rewrite.")] = None,
) -> None:
    """How near a turned, shrinking warp of photographs comes to integration, its slopes, and its time."""
    need("bench", "skimage")
    with _setting(threads):
        rows = measure_antialias(budget=budget, batch=batch, say=_say)
        data = report("antialias", {"batch": batch, "budget_s": budget}, rows)
    note = f"Eight photographs; times for {batch}x3x480x640 to 224x224, a zoom of 1/1.8 at 10 degrees."
    _finish("antialias", data, antialias_table(rows), output, docs_page, note)


@app.command()
def sizes(
    count: Annotated[int, typer.Option(min=1, help="How many new sizes.")] = 100,
    longest: Annotated[int, typer.Option(min=8, help="Side of the largest images.")] = 500,
    threads: Threads = 1,
    impl: ImplName = "auto",
    output: Output = None,
    docs_page: Annotated[Path | None, typer.Option("--docs", help="The page whose section on sizes to rewrite.")] = None,
    strict: Annotated[bool, typer.Option(help="Exit with 1 if a new size costs more than 1.15 times a seen one.")] = True,
) -> None:
    """Single images of sizes not seen before, against the same images again."""
    with _setting(threads):
        rows = measure_sizes(count=count, longest=longest, impl=impl, say=_say)
        data = report("sizes", {"count": count, "longest": longest, "impl": impl}, rows)
    note = f"{count} sizes of up to {longest}x{longest}, one image each, in turns."
    _finish("sizes", data, sizes_table(rows), output, docs_page, note)
    if strict and max(ratios(rows).values()) > MOST:
        raise typer.Exit(1)


@app.command()
def reach(
    directions: Annotated[int, typer.Option(min=1, help="Shifts per picture and distance.")] = 2,
    threads: Threads = 1,
    output: Output = None,
    docs_page: Annotated[Path | None, typer.Option("--docs", help="The page whose section on reach to rewrite.")] = None,
) -> None:
    """Shifts found by descent with different slopes, beside grid_sample, kornia and linearised multi-sampling."""
    need("bench", "skimage")
    with _setting(threads):
        rows = measure_reach(directions=directions, say=_say)
        data = report("reach", {"directions": directions}, rows)
    _finish("reach", data, reach_table(rows), output, docs_page)


@app.command()
def real(
    batch: Annotated[int, typer.Option(min=1, help="Pictures of 480x640 per call; a quarter of it at 1080x1920.")] = 8,
    threads: Threads = 1,
    budget: Budget = 0.5,
    pipeline: Annotated[list[str] | None, typer.Option(help="Only these; may be repeated.")] = None,
    output: Output = None,
    docs_page: Annotated[Path | None, typer.Option("--docs", help="The page whose section on real pipelines to rewrite.")] = None,
) -> None:
    """Twelve pipelines people write, at 480x640 and 1080x1920, float32 and uint8, one by one and as batches."""
    for name in pipeline or ():
        if name not in PIPELINES:
            raise typer.BadParameter(f"expected one of {', '.join(PIPELINES)}; got {name}", param_hint="--pipeline")
    with _setting(threads):
        rows = measure_real(batch=batch, budget=budget, only=pipeline or (), say=_say)
        data = report("real", {"batch": batch, "budget_s": budget}, rows)
    _finish("real", data, real_table(rows), output, docs_page)


@app.command()
def every(
    batch: Annotated[int, typer.Option(min=1, help="Pictures per call; a quarter of it at 1080x1920.")] = 8,
    threads: Threads = 1,
    budget: Budget = 0.2,
    operation: Annotated[list[str] | None, typer.Option(help="Only these; may be repeated.")] = None,
    size: Annotated[list[str] | None, typer.Option(help=f"Of {', '.join(EVERY_SIZES)}; may be repeated.")] = None,
    way: Annotated[list[str] | None, typer.Option(help=f"Of {', '.join(WAYS)}; may be repeated.")] = None,
    output: Output = None,
    docs_page: Annotated[
        Path | None, typer.Option("--docs", help="The page whose section on single operations to rewrite.")
    ] = None,
) -> None:
    """Every single operation that a peer has: bytes, arrays, floats and gradients, from 32x32 to 1080x1920."""
    for given, known, name in ((operation, OPERATIONS, "operation"), (size, EVERY_SIZES, "size"), (way, WAYS, "way")):
        for one in given or ():
            if one not in known:
                raise typer.BadParameter(f"expected one of {', '.join(known)}; got {one}", param_hint=f"--{name}")
    with _setting(threads):
        rows = measure_every(batch=batch, budget=budget, only=operation or (), sizes=size or (), ways=way or (), say=_say)
        data = report("every", {"batch": batch, "budget_s": budget}, rows)
    _finish("every", data, every_table(rows), output, docs_page)


@app.command()
def albumentations(
    pictures: Annotated[int, typer.Option(min=1, help="Pictures per call.")] = 8,
    budget: Budget = 0.2,
    row: Annotated[list[str] | None, typer.Option(help="One row; may be repeated; default all.")] = None,
    output: Output = None,
    docs_page: Annotated[Path | None, typer.Option("--docs", help="The page whose section on that benchmark to rewrite.")] = None,
) -> None:
    """The rows of albumentations' own benchmark: one picture of bytes at a time on one thread, beside the installed peers."""
    need("bench", "skimage")
    with _setting(1):
        rows = measure_theirs(count=pictures, budget=budget, only=row or (), say=_say)
        data = report("albumentations", {"pictures": pictures, "budget_s": budget}, rows)
    _finish("albumentations", data, theirs_table(rows), output, docs_page)


@app.command()
def register(
    draws: Annotated[int, typer.Option(min=1, help="Maps per picture of 128 pixels.")] = 1,
    photographs: Annotated[int, typer.Option(min=1, help="Pictures of 512 pixels.")] = 10,
    slow: Annotated[int, typer.Option(min=1, help="Pairs of a set for kornia and SimpleITK beyond 128 pixels.")] = 4,
    only: Annotated[list[str] | None, typer.Option(help=f"One of {', '.join(PARTS)}; may be repeated; default all.")] = None,
    subject: Annotated[
        list[str] | None, typer.Option(help="Only methods whose names begin so, such as kornia; may be repeated.")
    ] = None,
    threads: Threads = 1,
    output: Output = None,
    docs_page: Annotated[Path | None, typer.Option("--docs", help="The page whose section on registration to rewrite.")] = None,
) -> None:
    """Alignment of photographs under known maps, sequences under PELLUCID_DATA, and volumes, beside OpenCV, kornia and SimpleITK.

    With an output folder every row is written as it is measured, and a later call goes on from there.
    """
    need("bench", "skimage")
    if wrong := set(only or ()) - set(PARTS):
        raise typer.BadParameter(f"expected one of {', '.join(PARTS)}; got {', '.join(sorted(wrong))}", param_hint="--only")
    path, parts = None if output is None else output / "register.json", {"only": only or (), "subjects": subject or ()}
    with _setting(threads):
        rows = measure_register(draws=draws, photographs=photographs, slow=slow, path=path, say=_say, **parts)
        data = report("register", {"draws": draws, "photographs": photographs, "slow": slow}, rows)
    alone = f"-{only[0]}" if only in (["volumes"], ["bends"]) else ""
    _finish(f"register{alone}", data, register_table(rows), output, docs_page)


@app.command()
def policies(
    batch: Batch = 32,
    size: Size = 224,
    threads: Threads = 1,
    budget: Budget = 3.0,
    output: Output = None,
    docs_page: Annotated[Path | None, typer.Option("--docs", help="The page whose section on policies to rewrite.")] = None,
) -> None:
    """TrivialAugmentWide, RandAugment, AutoAugment and AugMix on bytes, beside torchvision's."""
    with _setting(threads):
        rows = measure_policies(batch=batch, size=size, budget=budget, say=_say)
        data = report("policies", {"batch": batch, "size": size, "budget_s": budget}, rows)
    _finish("policies", data, policies_table(rows), output, docs_page)


@app.command()
def tones(
    batch: Batch = 32,
    size: Size = 224,
    threads: Threads = 1,
    budget: Budget = 1.0,
    output: Output = None,
    docs_page: Annotated[Path | None, typer.Option("--docs", help="The page whose section on tones to rewrite.")] = None,
) -> None:
    """Tone curves on bytes and floats beside a colour pass, a flip, and curves between other passes."""
    with _setting(threads):
        rows = measure_tones(batch=batch, size=size, budget=budget, say=_say)
        data = report("tones", {"batch": batch, "size": size, "budget_s": budget}, rows)
    _finish("tones", data, tones_table(rows), output, docs_page)


@app.command()
def mixing(
    batch: Batch = 32,
    size: Size = 224,
    threads: Threads = 1,
    budget: Budget = 3.0,
    output: Output = None,
    docs_page: Annotated[Path | None, typer.Option("--docs", help="The page whose section on mixing to rewrite.")] = None,
) -> None:
    """MixUp, CutMix, Mosaic and GridShuffle, beside torchvision's, kornia's and albumentations'."""
    with _setting(threads):
        rows = measure_mixing(batch=batch, size=size, budget=budget, say=_say)
        data = report("mixing", {"batch": batch, "size": size, "budget_s": budget}, rows)
    _finish("mixing", data, mixing_table(rows), output, docs_page)


@app.command()
def penalty(
    batch: Batch = 32,
    size: Size = 64,
    threads: Threads = 1,
    budget: Budget = 3.0,
    output: Output = None,
    docs_page: Annotated[Path | None, typer.Option("--docs", help="The page whose section on R1 to rewrite.")] = None,
) -> None:
    """A step of R1 through ADA's geometry, beside StyleGAN2-ADA's detour by grid_sample, which has no second derivative."""
    with _setting(threads):
        rows = measure_penalty(batch=batch, size=size, budget=budget, say=_say)
        data = report("penalty", {"batch": batch, "size": size, "budget_s": budget}, rows)
    _finish("penalty", data, penalty_table(rows), output, docs_page)


@app.command()
def volumes(
    batch: Annotated[int, typer.Option(min=1, help="Volumes.")] = 1,
    size: Annotated[int, typer.Option(min=8, help="Depth, height and width.")] = 128,
    threads: Threads = 1,
    budget: Budget = 3.0,
    output: Output = None,
    docs_page: Annotated[Path | None, typer.Option("--docs", help="The page whose section on volumes to rewrite.")] = None,
) -> None:
    """Volumes through maps and fields beside affine_grid + grid_sample, SciPy and MONAI; nnU-Net's operations beside others'."""
    with _setting(threads):
        rows = measure_volumes(batch=batch, size=size, budget=budget, say=_say)
        steps = measure_recipe(size=size, budget=budget, say=_say)
        data = report("volumes", {"batch": batch, "size": size, "budget_s": budget}, [*rows, *steps])
    _finish("volumes", data, f"{volumes_table(rows)}\n\n{recipe_table(steps)}", output, docs_page)


def _finish(name: str, data: dict[str, Any], table: str, output: Path | None, page: Path | None, note: str = "") -> None:
    """Show a report, and write what was asked for; the page has a note before it."""
    text = f"{describe(data['environment'])}\n\n{table}"
    _show(text)
    if output is not None:
        write_json(output / f"{name}.json", data)
    if page is not None:
        insert(page, name, f"{note}\n\n{text}" if note else text)


@app.command(name="scaling")
def scaling_command(
    axis: Annotated[list[str] | None, typer.Option(help=f"One of {', '.join(AXES)}; may be repeated; default all.")] = None,
    batch: Batch = 8,
    size: Size = 224,
    threads: Threads = 0,
    budget: Budget = 0.5,
    full: Annotated[bool, typer.Option("--full", help="Every point, however long it takes.")] = False,
    only: Peers = None,
    impl: ImplName = "auto",
    output: Output = None,
) -> None:
    """How time grows with batch, size, threads and the number of operations."""
    axes = axis or list(AXES)
    for name in axes:
        if name not in AXES:
            raise typer.BadParameter(f"expected one of {', '.join(AXES)}; got {name}", param_hint="--axis")
    _check_names(only)
    _check_pictures(output)
    rows: list[Row] = []
    with _setting(threads):
        for name in axes:
            rows += scaling(name, batch=batch, size=size, budget=budget, full=full, only=only or (), impl=impl, say=_say)
        data = report("scaling", {"axes": axes, "batch": batch, "size": size, "budget_s": budget, "full": full, "impl": impl}, rows)
    _show(describe(data["environment"]) + "\n\n" + "\n\n".join(scaling_table(rows, name) for name in axes))
    if output is not None:
        write_json(output / "scaling.json", data)
        draw_scaling(rows, output / "bench-scaling.png")


@app.command()
def docs(
    folder: Annotated[Path, typer.Argument(help="The folder with performance.md; pictures go to its img/.")] = Path("docs"),
    batch: Batch = 32,
    size: Size = 224,
    threads: Threads = 0,
    budget: Budget = 3.0,
    impl: ImplName = "auto",
    memory: Memory = True,
    full: Annotated[bool, typer.Option("--full", help="Every point of the scaling curves.")] = False,
) -> None:
    """Measure everything and rewrite the tables and pictures of docs/performance.md."""
    _check_pictures(folder)
    with _setting(threads):
        write_documents(folder, batch=batch, size=size, budget=budget, impl=impl, memory=memory, full=full, say=_say)


def overhead_rows(result: Overhead) -> list[Row]:
    """The overhead as rows of a report."""
    shares = {"subject": "shares", "status": {"met": "ok"}.get(result.verdict(), result.verdict()), **result.shares()}
    rows: list[Row] = [
        {
            "subject": name,
            "status": "ok",
            "median_ms": timing.median * 1e3,
            "q1_ms": timing.low * 1e3,
            "q3_ms": timing.high * 1e3,
            "rounds": timing.rounds,
            "small_median_ms": result.small[name].median * 1e3,
            "tiny_median_ms": result.tiny[name].median * 1e3,
            "calls": result.calls[name].total,
            "python_calls": result.calls[name].python,
        }
        for name, timing in result.time.items()
    ]
    missing = [] if result.missing is None else [{"subject": "kornia", "status": "missing", "note": result.missing}]
    one = [{"subject": name, "status": "ok", "one_picture_us": each.median * 1e6} for name, each in result.pictures.items()]
    return [*rows, *one, *missing, shares]


def _check_names(only: list[str] | None) -> None:
    for name in only or ():
        if name not in MODULES:
            raise typer.BadParameter(f"expected one of {', '.join(MODULES)}; got {name}", param_hint="--only")


def _check_pictures(output: Path | None) -> None:
    """A folder gets pictures, too: what draws them has to be there before anything is measured."""
    if output is not None:
        need("bench", "matplotlib")


def _say(text: str) -> None:
    _console.print(text, style="dim", highlight=False)


def _show(text: str) -> None:
    Console(width=None if Console().is_terminal else 200).print(Markdown(text))


@contextmanager
def _setting(count: int) -> Iterator[None]:
    """Set torch's threads, and keep peers' warnings out of the tables."""
    with on_threads(count), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
