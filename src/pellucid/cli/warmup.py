"""``pellucid warmup``: compile kernels before they are needed, for instance while a container image is built.

Owns: the choice of pipelines and pictures to compile for.
Must not: know which kernels exist; `Pipeline.warmup` calls pipelines as users do.
Read next: ``../core/compilers/__init__.py``.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pellucid.cli.explain import parse_size
from pellucid.errors import InvalidArgument, InvalidType, invalid

if TYPE_CHECKING:
    import torch

    from pellucid.pipeline import Pipeline

__all__ = ["warmup"]


def warmup(
    pipeline: Annotated[
        list[Path] | None, typer.Option("--pipeline", "-p", metavar="FILE", help="Written by Pipeline.save; may be repeated.")
    ] = None,
    size: Annotated[str, typer.Option(metavar="HxW", help="Height and width of the pictures to come.")] = "320x400",
    dtype: Annotated[list[str] | None, typer.Option(metavar="NAME", help="float32, uint8 (both by default), bfloat16, ...")] = None,
    channels: Annotated[int, typer.Option(min=1, help="Channels of the pictures.")] = 3,
    gradients: Annotated[bool, typer.Option(help="Also compile the backward passes.")] = True,
    allow: Annotated[list[str] | None, typer.Option(metavar="MODULE", help="A module with transforms of your own.")] = None,
    export: Annotated[Path | None, typer.Option(metavar="DIR", help="Write compiled kernels there, for other machines.")] = None,
    processor: Annotated[
        str, typer.Option(metavar="NAME", help="With --export: this, x86-64-v3, x86-64-v4 or (on ARM) generic.")
    ] = "this",
    import_: Annotated[
        Path | None, typer.Option("--import", metavar="DIR", help="Install kernels that --export wrote; nothing is compiled.")
    ] = None,
) -> None:
    """Compile the CPU kernels that pipelines need, and keep them on disk, so that no later process waits for a compiler."""
    if import_ is not None:
        _import(import_)
        return
    from pellucid.cli.waiting import waiting
    from pellucid.core.compilers import numba_works
    from pellucid.core.compilers.ahead import exported
    from pellucid.pipeline import Pipeline

    shape = channels, *parse_size("--size", size)
    dtypes = [_dtype_named(name) for name in dtype or ("float32", "uint8")]
    pipelines = {str(file): Pipeline.load(file, allow=allow or ()) for file in pipeline or ()} or _usual()
    if not numba_works():
        typer.echo("Numba does not work here: there is nothing to compile.")
        return
    if export is not None:
        named = [("--pipeline", str(file)) for file in pipeline or ()]
        named += [("--dtype", str(kind)[6:]) for kind in dtypes] + [("--allow", one) for one in allow or ()]
        named += [("--size", size), ("--channels", str(channels))]
        options = [*(word for pair in named for word in pair), "--gradients" if gradients else "--no-gradients"]
        count = exported(export, options, processor=_processor_named(processor))
        typer.echo(f"{export}: {count} files. Set PELLUCID_KERNELS to this folder, or call `pellucid warmup --import` with it.")
        return
    total = 0
    for name, one in pipelines.items():
        for kind in dtypes:
            start = time.perf_counter()
            with waiting(f"Compiling for {name}, {str(kind)[6:]}"):
                compiled = _warm(one, shape, kind, gradients=gradients)
            total += compiled
            typer.echo(f"{name}, {str(kind)[6:]}: {compiled} compiled, {time.perf_counter() - start:.1f} s")
    typer.echo(f"{total} compiled and kept, the others were there already." if total else "All were there already.")


def _processor_named(name: str) -> str | None:
    from pellucid.core.compilers.processors import levels_here

    here = levels_here()
    if name != "this" and name not in here:
        raise invalid("--processor", expected=f"a level that this machine can run: {', '.join(('this', *here))}", got=repr(name))
    return None if name == "this" else name


def _import(folder: Path) -> None:
    from pellucid.core.compilers.ahead import imported
    from pellucid.core.compilers.kept import COMPILED

    if not any(folder.glob("*.nbc")):
        raise invalid("--import", expected="a folder that `pellucid warmup --export` wrote", got=repr(str(folder)))
    try:
        count = imported(folder)
    except OSError as error:
        fix = f"Set PELLUCID_KERNELS={folder.resolve()} instead."
        raise invalid("--import", expected=f"to write to {COMPILED}", got=f"{type(error).__name__}: {error}", fix=fix) from error
    typer.echo(f"{count} files. Kernels among them are not compiled on this machine.")


def _dtype_named(name: str) -> Any:
    import torch

    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype) or found.is_complex or found == torch.bool:
        raise invalid("--dtype", expected="a torch dtype of images such as float32, bfloat16 or uint8", got=repr(name))
    return found


def _usual() -> dict[str, Pipeline]:
    """Pipelines that cover the usual kernels."""
    import pellucid as pl
    from pellucid import policy

    colour, end = pl.ColorJitter(0.2, 0.2, saturation=0.2, hue=0.1), pl.Normalize((0.5,), (0.25,))
    lists: dict[str, list[Any]] = {
        "turn and colour": [pl.RandomHorizontalFlip(), pl.RandomAffine(10.0), colour, end],
        "crop and colour": [pl.RandomResizedCrop(224), pl.RandomHorizontalFlip(), colour, end],
        "crop, turn and colour": [pl.RandomResizedCrop(224), pl.RandomAffine(10.0), colour, end],
        "two views": [pl.RandomResizedCrop(96), colour, pl.RandomGrayscale(0.5), pl.RandomGaussianBlur(23), end],
        "flip": [pl.RandomHorizontalFlip()],
        "affine": [pl.RandomAffine(10.0)],
        "perspective": [pl.RandomPerspective(p=1.0), end],
        "perspective alone": [pl.RandomPerspective(p=1.0)],
        "resize": [pl.Resize((224, 224)), end],
        "blur and noise": [pl.RandomGaussianBlur(5, p=1.0), pl.RandomGaussianNoise(p=1.0), end],
        "blur": [pl.RandomGaussianBlur(5, p=1.0)],
        "elastic": [pl.RandomElastic(p=1.0)],
        "holes": [pl.CoarseDropout(p=1.0)],
        "curves": [pl.RandomGamma(p=1.0)],
        "levels": [pl.RandomSolarize(p=1.0), pl.RandomPosterize(p=1.0), pl.RandomEqualize(p=1.0)],
        "RandAugment": [policy.RandAugment()],
        "TrivialAugmentWide": [policy.TrivialAugmentWide()],
        "MixUp": [pl.MixUp(p=1.0)],
        "JPEG": [pl.RandomJPEG(p=1.0)],
    }
    return {name: pl.Pipeline(transforms) for name, transforms in lists.items()}


def _warm(pipeline: Pipeline, shape: tuple[int, ...], dtype: torch.dtype, *, gradients: bool) -> int:
    """Compile for a batch, and for one picture, alone and with a mask, if the pipeline accepts them."""
    import torch

    image = torch.zeros(shape, dtype=dtype)
    compiled = pipeline.warmup(image.expand(4, *shape).contiguous(), gradients=gradients)
    for mask in (None, torch.zeros(shape[1:], dtype=torch.int64), torch.zeros(shape[1:], dtype=torch.uint8)):
        with suppress(InvalidArgument, InvalidType):
            compiled += pipeline.warmup(image if mask is None else {"image": image, "mask": mask}, gradients=gradients)
    return compiled
