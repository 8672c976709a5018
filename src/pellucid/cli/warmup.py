"""``pellucid warmup``: compile kernels before they are needed, for instance while an image of a machine is built.

Owns: which calls are made, and counting what they compile.
Must not: know which kernels there are; it calls pipelines as their users do.
Read next: ``../compilers.py``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pellucid.cli.explain import parse_size
from pellucid.errors import invalid

if TYPE_CHECKING:
    from torch import Tensor

    from pellucid.pipeline import Pipeline

__all__ = ["warmup"]

_DRAWS = 4  # of four pictures each: a gate of one half stays closed in all of them once in 65,536 times


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
            with waiting(f"Compiling for {name}, {str(kind)[6:]}"), _counted() as compiled:
                _call(one, shape, kind, gradients=gradients and kind.is_floating_point)
            total += len(compiled)
            typer.echo(f"{name}, {str(kind)[6:]}: {len(compiled)} compiled, {time.perf_counter() - start:.1f} s")
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


def _call(pipeline: Pipeline, shape: tuple[int, ...], dtype: Any, *, gradients: bool) -> None:
    import torch

    from pellucid.random.key import Key

    images = torch.zeros(4, *shape, dtype=dtype)
    for step in range(_DRAWS):
        with torch.no_grad():
            pipeline(images, key=Key(0, step=step))
        if gradients:
            result: Tensor = pipeline(images.detach().requires_grad_(), key=Key(0, step=step))
            if result.requires_grad:
                result.sum().backward()


@contextmanager
def _counted() -> Iterator[list[str]]:
    """The names of what Python calls and Numba compiles meanwhile; what it calls in turn is not counted."""
    from numba.core import event

    names: list[str] = []

    class Listener(event.Listener):  # type: ignore[misc]
        depth = 0

        def on_start(self, started: Any) -> None:
            if not self.depth:
                names.append(started.data["dispatcher"].py_func.__name__)
            self.depth += 1

        def on_end(self, ended: Any) -> None:
            del ended
            self.depth -= 1

    with event.install_listener("numba:compile", Listener()):
        yield names
