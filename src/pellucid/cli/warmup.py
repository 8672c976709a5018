"""``pellucid warmup``: compile kernels before they are needed, for instance while an image of a machine is built.

Owns: which pipelines, for which pictures.
Must not: know which kernels there are; `Pipeline.warmup` calls pipelines as their users do.
Read next: ``../compilers/__init__.py``.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pellucid.cli.explain import parse_size
from pellucid.errors import invalid

if TYPE_CHECKING:
    from pellucid.pipeline import Pipeline

__all__ = ["warmup"]


def warmup(
    pipeline: Annotated[
        list[Path] | None, typer.Option("--pipeline", "-p", metavar="FILE", help="Written by Pipeline.save; may be repeated.")
    ] = None,
    size: Annotated[str, typer.Option(metavar="HxW", help="Height and width of the pictures to come.")] = "320x400",
    dtype: Annotated[list[str] | None, typer.Option(metavar="NAME", help="float32, uint8 (both by default), bfloat16, ...")] = None,
    channels: Annotated[int, typer.Option(min=1, help="Channels of the pictures.")] = 3,
    gradients: Annotated[bool, typer.Option(help="Compile the way back, too.")] = True,
    allow: Annotated[list[str] | None, typer.Option(metavar="MODULE", help="To import transforms of your own from.")] = None,
) -> None:
    """Compile the CPU kernels that pipelines need, and keep them on disk, so that no later process waits for a compiler."""
    import torch

    from pellucid.cli.waiting import waiting
    from pellucid.compilers import numba_works
    from pellucid.pipeline import Pipeline

    shape = channels, *parse_size("--size", size)
    dtypes = [_dtype_named(name) for name in dtype or ("float32", "uint8")]
    pipelines = {str(file): Pipeline.load(file, allow=allow or ()) for file in pipeline or ()} or _usual()
    if not numba_works():
        typer.echo("Numba does not work here: there is nothing to compile.")
        return
    total = 0
    for name, one in pipelines.items():
        for kind in dtypes:
            start = time.perf_counter()
            with waiting(f"Compiling for {name}, {str(kind)[6:]}"):
                compiled = one.warmup(torch.zeros(4, *shape, dtype=kind), gradients=gradients)
            total += compiled
            typer.echo(f"{name}, {str(kind)[6:]}: {compiled} compiled, {time.perf_counter() - start:.1f} s")
    typer.echo(f"{total} compiled and kept, the others were there already." if total else "All were there already.")


def _dtype_named(name: str) -> Any:
    import torch

    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype) or found.is_complex or found == torch.bool:
        raise invalid("--dtype", expected="a torch dtype of images such as float32, bfloat16 or uint8", got=repr(name))
    return found


def _usual() -> dict[str, Pipeline]:
    """What most pipelines are made of."""
    import pellucid as pl

    colour, end = pl.ColorJitter(0.2, 0.2, 0.2, 0.1), pl.Normalize((0.5,), (0.25,))
    return {
        "turn and colour": pl.Pipeline([pl.RandomHorizontalFlip(), pl.RandomAffine(10.0), colour, end]),
        "crop and colour": pl.Pipeline([pl.RandomResizedCrop(224), pl.RandomHorizontalFlip(), colour, end]),
        "crop, turn and colour": pl.Pipeline([pl.RandomResizedCrop(224), pl.RandomAffine(10.0), colour, end]),
        "perspective": pl.Pipeline([pl.RandomPerspective(p=1.0), end]),
        "resize": pl.Pipeline([pl.Resize((224, 224)), end]),
        "blur and noise": pl.Pipeline([pl.RandomGaussianBlur(5, p=1.0), pl.RandomGaussianNoise(p=1.0), end]),
    }
