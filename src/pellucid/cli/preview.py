"""``pellucid preview``: the user's own pictures under the user's own pipeline.

Owns: the command; pictures of different sizes are augmented one by one.
Must not: need anything outside the library's own dependencies.
Read next: ``sheet.py``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pellucid.errors import invalid

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

    from pellucid.pipeline import Pipeline

__all__ = ["preview"]

_TILE = 224


def preview(
    images: Annotated[list[Path], typer.Argument(metavar="IMAGE", help="Pictures of any size and format Pillow reads.")],
    pipeline: Annotated[Path, typer.Option("--pipeline", "-p", metavar="FILE", help="Written by Pipeline.save (.toml, .json).")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The sheet to write (.png).")] = Path("sheet.png"),
    variants: Annotated[int, typer.Option(help="Draws per picture.")] = 4,
    seed: Annotated[int, typer.Option(help="Seed of the draws.")] = 0,
    gray: Annotated[bool, typer.Option("--gray", help="Read pictures with one channel; default three.")] = False,
    allow: Annotated[list[str] | None, typer.Option(metavar="MODULE", help="To import transforms of your own from.")] = None,
) -> None:
    """Show what a pipeline makes of your pictures: one row each, before and after."""
    import torch
    from rich.console import Console
    from rich.progress import track

    from pellucid.cli.files import check_png, png_bytes, read_image, write_bytes
    from pellucid.cli.sheet import contact_sheet
    from pellucid.pipeline import Pipeline

    check_png("--output", output)
    if variants < 1:
        raise invalid("--variants", expected="at least 1", got=variants)
    augment = Pipeline.load(pipeline, allow=allow or ())
    console = Console()
    rows = []
    with torch.no_grad():
        for number, path in enumerate(track(images, "Augmenting", console=console)):
            rows.append(_row(augment, read_image(path, gray=gray), number, variants, seed))
    sheet = contact_sheet(
        rows,
        columns=["Before", *(f"Variant {i + 1}" for i in range(variants))],
        labels=[path.name for path in images],
        title=pipeline.name,
        note=f"{' > '.join(type(t).__name__.removeprefix('Random') for t in augment.transforms)}; seed {seed}",
    )
    write_bytes(output, png_bytes(sheet))
    console.print(f"Wrote {output}.", highlight=False, soft_wrap=True)


def _row(augment: Pipeline, image: Tensor, number: int, variants: int, seed: int) -> list[Image]:
    """The picture and its variants, each the draw of (seed, step = variant, index = the picture's number)."""
    import torch

    from pellucid.figures import displayable
    from pellucid.random import Key

    row = [_tile(image)]
    for variant in range(variants):
        key = Key(seed=seed, step=variant, index=torch.tensor([number]))
        row.append(_tile(displayable(augment.transforms, augment(image[None], key=key)[0])))
    return row


def _tile(image: Tensor) -> Image:
    """A picture that fits the sheet's cell; small ones are enlarged by whole factors, so that their pixels show."""
    from PIL import Image

    from pellucid.cli.files import to_picture

    picture = to_picture(image)
    longest = max(picture.size)
    if longest <= _TILE:
        factor = _TILE // longest
        return picture.resize((picture.width * factor, picture.height * factor), Image.Resampling.NEAREST)
    scaled = [max(1, round(side * _TILE / longest)) for side in picture.size]
    return picture.resize((scaled[0], scaled[1]), Image.Resampling.LANCZOS)
