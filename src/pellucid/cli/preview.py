"""``pellucid preview``: draw your own pictures and their annotations before and after your own pipeline.

Owns: the command; pictures of different sizes are augmented one by one.
Must not: need anything outside the library's own dependencies.
Read next: ``sheet.py``.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pellucid.errors import invalid

if TYPE_CHECKING:
    from PIL.Image import Image

    from pellucid.data.annotations import Annotations
    from pellucid.pipeline import Pipeline

__all__ = ["preview"]

_TILE = 224


@dataclass(frozen=True)
class _Picture:
    """A picture to show: its folder and name, the index of its draws, and the reader of its annotations."""

    folder: Path
    name: PurePosixPath
    index: int
    annotations: Annotations


def preview(
    images: Annotated[list[Path], typer.Argument(metavar="IMAGE", help="Pictures of any format Pillow reads, or folders of them.")],
    pipeline: Annotated[Path, typer.Option("--pipeline", "-p", metavar="FILE", help="Written by Pipeline.save (.toml, .json).")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The sheet to write (.png).")] = Path("sheet.png"),
    variants: Annotated[int, typer.Option(min=1, help="Draws per picture.")] = 4,
    most: Annotated[int, typer.Option(min=1, help="Pictures shown of a folder, evenly spaced.")] = 8,
    annotations: Annotated[str, typer.Option(help="For folders: auto, none, coco, yolo, voc or masks.")] = "auto",
    coco: Annotated[Path | None, typer.Option(metavar="FILE", help="The COCO file of a folder's pictures.")] = None,
    masks: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Masks (.png), named like the pictures.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the draws.")] = 0,
    gray: Annotated[bool, typer.Option("--gray", help="Read pictures with one channel; default three.")] = False,
    allow: Annotated[list[str] | None, typer.Option(metavar="MODULE", help="A module with transforms of your own.")] = None,
) -> None:
    """Show your pictures and their annotations before and after a pipeline, one row for each picture."""
    import torch
    from rich.console import Console
    from rich.progress import track

    from pellucid.cli.files import check_png, png_bytes, write_bytes
    from pellucid.cli.sheet import contact_sheet
    from pellucid.core.arguments import check_choice
    from pellucid.data.annotations import FORMATS
    from pellucid.data.folders import for_files
    from pellucid.pipeline import Pipeline

    check_png("--output", output)
    check_choice("--annotations", annotations, FORMATS)
    for name, given in (("--coco", coco), ("--masks", masks)):
        if given is not None and not any(path.is_dir() for path in images):
            raise invalid(name, expected="a folder of pictures that the annotations belong to", got="single pictures")
    loaded = Pipeline.load(pipeline, allow=allow or ())
    augment = for_files(loaded, seed=seed)
    pictures = [
        one for i, path in enumerate(images) for one in _found(path, i, most=most, form=annotations, coco=coco, masks=masks)
    ]
    console = Console()
    with torch.no_grad():
        rows = [_row(augment, one, variants, seed, gray=gray) for one in track(pictures, "Augmenting", console=console)]
    sheet = contact_sheet(
        rows,
        columns=["Before", *(f"Variant {i + 1}" for i in range(variants))],
        labels=[str(one.name) for one in pictures],
        title=pipeline.name,
        note=f"{' > '.join(type(t).__name__.removeprefix('Random') for t in augment.transforms)}; seed {seed}",
    )
    write_bytes(output, png_bytes(sheet))
    console.print(f"Wrote {output}.", highlight=False, markup=False, soft_wrap=True)


def _found(path: Path, number: int, *, most: int, form: str, coco: Path | None, masks: Path | None) -> list[_Picture]:
    """Return the one picture, or a folder's; its draws have its position in the call as index, a folder's those of ``augment``."""
    from pellucid.data.annotations import Annotations, find_annotations
    from pellucid.data.outputs import pictures_in
    from pellucid.data.samples import index_of

    if not path.is_dir():
        return [_Picture(path.parent, PurePosixPath(path.name), number, Annotations())]
    names = pictures_in(path, without=(masks,) if masks else ())
    if not names:
        raise invalid("IMAGE", expected="pictures, or folders with pictures in them", got=f"the folder {path}")
    shown = names if len(names) <= most else [names[i * len(names) // most] for i in range(most)]
    read = find_annotations(form, path, names, file=coco, masks=masks)
    return [_Picture(path, name, index_of(os.fsencode(str(name))), read) for name in shown]


def _row(augment: Pipeline, one: _Picture, variants: int, seed: int, *, gray: bool) -> list[Image]:
    """The picture and its variants; variant i is the draw of (seed, step i, the picture's index)."""
    import torch

    from pellucid.cli.files import read_image
    from pellucid.random import Key

    image = read_image(one.folder / one.name, gray=gray)
    targets, _ = one.annotations.read(one.annotations.raw(one.name), one.name, (image.shape[1], image.shape[2]))
    sample = {"image": image, **targets}
    keys = [Key(seed, variant, torch.tensor([one.index])) for variant in range(variants)]
    return [_tile(sample, ()), *(_tile(augment(sample, key=key), augment.transforms) for key in keys)]


def _tile(sample: dict[str, Any], transforms: tuple[Any, ...]) -> Image:
    """Scale a picture to the sheet's cell (up by whole factors only), and draw its targets at that size."""
    import torch
    from PIL import Image
    from torch.nn.functional import interpolate

    from pellucid.cli.draw import draw_targets
    from pellucid.cli.files import to_picture, to_tensor
    from pellucid.pipeline.figures import displayable

    picture = to_picture(displayable(transforms, sample["image"]))
    longest = max(picture.size)
    scale = _TILE // longest or _TILE / longest
    width, height = (max(1, round(side * scale)) for side in picture.size)
    how = Image.Resampling.NEAREST if scale >= 1 else Image.Resampling.LANCZOS
    shown = {"image": to_tensor(picture.resize((width, height), how))}
    stretch = torch.tensor([width / picture.width, height / picture.height])
    for name, edge in (("boxes", 0.0), ("keypoints", 0.5)):
        if name in sample:
            rows = sample[name]
            shown[name] = ((rows.unflatten(-1, (-1, 2)) + edge) * stretch - edge).flatten(-2)
            shown[f"{name}_valid"] = sample.get(f"{name}_valid", torch.ones(len(rows), dtype=torch.bool))
    if "polygons" in sample:
        shown["polygons"] = sample["polygons"] * stretch
    if "mask" in sample:
        mask = sample["mask"].long()
        if mask.dim() == 3:  # a channel for each object
            mask = (mask * torch.arange(1, len(mask) + 1)[:, None, None]).amax(0)
        shown["mask"] = interpolate(mask[None, None].double(), (height, width), mode="nearest-exact")[0, 0].long()
    return draw_targets(shown)
