"""``pellucid augment``: augment a folder of pictures and their annotations to disk.

Owns: the command.
Must not: touch pictures; ``../data/folders.py`` does.
Read next: ``../data/folders.py``.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pellucid.cli.errors import printable
from pellucid.errors import invalid

if TYPE_CHECKING:
    from rich.console import Console

    from pellucid.data.folders import Job, Outcome
    from pellucid.pipeline import Pipeline

__all__ = ["augment"]


def augment(
    source: Annotated[Path, typer.Argument(metavar="IN", help="A folder of pictures; subfolders of any depth are read.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The folder for the copies; subfolders and formats stay.")],
    pipeline: Annotated[Path, typer.Option("--pipeline", "-p", metavar="FILE", help="Written by Pipeline.save (.toml, .json).")],
    copies: Annotated[int, typer.Option("--copies", "-n", min=1, help="Copies of each picture.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draws.")] = 0,
    annotations: Annotated[str, typer.Option(help="auto, none, coco, yolo, voc or masks.")] = "auto",
    coco: Annotated[Path | None, typer.Option(metavar="FILE", help="The COCO file of the pictures.")] = None,
    masks: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Masks (.png, .nii.gz), named like the pictures.")] = None,
    workers: Annotated[int, typer.Option("--workers", "-w", min=0, help="Worker processes, beside the main one.")] = 0,
    shard: Annotated[str | None, typer.Option(metavar="I/N", help="Take part I of N; default: torchrun's rank.")] = None,
    quality: Annotated[int, typer.Option(min=1, max=100, help="Quality of JPEG and WebP files.")] = 95,
    gray: Annotated[bool, typer.Option("--gray", help="Read and write one channel; default three.")] = False,
    block: Annotated[int | None, typer.Option(min=1, help="Voxels along each axis at a time, for volumes above memory.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Delete OUT first.")] = False,
    allow: Annotated[list[str] | None, typer.Option(metavar="MODULE", help="A module with transforms of your own.")] = None,
) -> None:
    """Augment a folder of pictures with boxes, outlines or masks, or of NIfTI volumes with labels. Call again to resume."""
    from pellucid.core.arguments import check_choice
    from pellucid.data.annotations import FORMATS, find_annotations
    from pellucid.data.folders import Job, for_files, shard_of
    from pellucid.data.outputs import check_pipeline, pictures_in, plan_of
    from pellucid.data.volumes import volumes_in
    from pellucid.pipeline import Pipeline

    check_choice("--annotations", annotations, FORMATS)
    first, every = shard_of(shard)
    if out.resolve() == source.resolve() or source.resolve().is_relative_to(out.resolve()):
        raise invalid("OUT", expected="a folder that neither is nor contains IN", got=str(out))
    if overwrite and first:
        expected = "to be passed to the first shard only, before the others start"
        raise invalid("--overwrite", expected=expected, got=f"--shard {first + 1}/{every}")
    loaded = Pipeline.load(pipeline, allow=allow or ())
    elsewhere = (out, *([masks] if masks else []))
    if scans := volumes_in(source, without=elsewhere):
        if workers:
            raise invalid("--workers", expected="0 for volumes", got=workers, fix="Start several processes with --shard I/N.")
        _clear(out, overwrite)
        how: dict[str, Any] = {"labels": masks, "copies": copies, "seed": seed, "block": block}
        _augment_volumes(scans[first::every], source, out, loaded, how)
        return
    pictures = pictures_in(source, without=elsewhere)
    if not pictures:
        raise invalid("IN", expected="a folder with pictures or NIfTI volumes in it", got=str(source))
    labels = find_annotations(annotations, source, pictures, file=coco, masks=masks)
    check_pipeline(loaded, labels)
    _console().print(printable(str(plan_of(source, out, pictures, labels, copies))))
    job = Job(source, out, for_files(loaded, seed=seed), labels, copies=copies, seed=seed, quality=quality, gray=gray)
    _clear(out, overwrite)
    _augment_pictures(job, pictures, pictures[first::every], workers, coco)


def _console(*, wrong: bool = False) -> Console:
    """Return standard output, or standard error, as something that prints plain text."""
    from rich.console import Console

    return Console(stderr=wrong, highlight=False, markup=False, soft_wrap=True)


def _clear(out: Path, overwrite: bool) -> None:
    """Delete what an earlier call wrote, if it is to be overwritten."""
    if overwrite and out.exists():
        shutil.rmtree(out)


def _augment_pictures(job: Job, pictures: list[PurePosixPath], mine: list[PurePosixPath], workers: int, coco: Path | None) -> None:
    """Augment this shard's pictures, and report on them and on their annotations."""
    from rich.progress import track

    from pellucid.data.folders import run

    console = _console()
    job.manifest.begin(job.settings, pictures)
    outcomes = list(track(run(job, mine, workers=workers), "Augmenting", total=len(mine), console=console))
    job.finish(pictures)
    console.print(printable(f"Wrote {_counted(outcomes, job.out)}."))
    turned = sum(outcome.turned for outcome in outcomes)
    if turned and job.annotations.form != "none":
        said = "picture was" if turned == 1 else "pictures were"
        console.print(f"{turned} {said} turned upright (EXIF); annotations are taken to match the upright picture.")
    faults = job.annotations.faults()
    for fault in faults:
        _console(wrong=True).print(printable(f"{coco}: {fault}."), style="red")
    _complain(len(mine), [(outcome.picture, outcome.wrong) for outcome in outcomes if outcome.wrong])
    if faults:
        raise typer.Exit(1)


def _counted(outcomes: Sequence[Outcome], out: Path) -> str:
    """How many pictures were written, anew, or kept, in words."""
    written, anew, kept = (sum(getattr(outcome, name) for outcome in outcomes) for name in ("written", "anew", "kept"))
    again = f", {anew} anew, as pictures or annotations had changed" if anew else ""
    rest = f"; {kept} {'was' if kept == 1 else 'were'} there already" if kept else ""
    return f"{written} picture{'s' * (written != 1)} to {out}{again}{rest}"


def _augment_volumes(scans: list[Path], source: Path, out: Path, pipeline: Pipeline, how: dict[str, Any]) -> None:
    """Augment NIfTI volumes, and report on them."""
    from rich.progress import track

    from pellucid.data.volumes import augment_volumes

    console, total = _console(), how["copies"] * len(scans)
    work = augment_volumes(scans, source, out, pipeline, **how)
    outcomes = list(track(work, "Augmenting", total=len(scans), console=console))
    written, wrong = sum(count for _, count, _ in outcomes), [(scan, said) for scan, _, said in outcomes if said]
    rest = "" if written == total or wrong else "; the others were there already"
    console.print(printable(f"Wrote {written} of {total} volumes to {out}{rest}."))
    _complain(len(scans), wrong)


def _complain(many: int, wrong: Sequence[tuple[object, str]]) -> None:
    """Print what could not be augmented, and fail if there is any."""
    if not wrong:
        return
    errors = _console(wrong=True)
    errors.print(f"{len(wrong)} of {many} could not be augmented:", style="bold red")
    for name, said in wrong:
        errors.print(printable(f"  {name}: {said}"), style="red")
    raise typer.Exit(1)
