"""The demo's contents: two pipelines, their draws, and the sheets made of them.

Owns: the flagship pipeline, and which picture goes where.
Must not: write files or HTML.
Read next: ``gradients.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from pellucid.boxes.outlines import outline
from pellucid.cli.draw import draw_outline, draw_targets, heat
from pellucid.cli.files import to_picture
from pellucid.cli.gradients import pixel_gradient
from pellucid.cli.sheet import contact_sheet
from pellucid.pipeline import Pipeline
from pellucid.pipeline.maps import back
from pellucid.random import Key
from pellucid.transforms.affine import RandomAffine
from pellucid.transforms.blur import RandomGaussianBlur
from pellucid.transforms.crop import RandomResizedCrop
from pellucid.transforms.flip import RandomHorizontalFlip
from pellucid.transforms.holes import RandomErasing
from pellucid.transforms.jitter import ColorJitter
from pellucid.transforms.perspective import RandomPerspective

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

    from pellucid.pipeline.records import Record

__all__ = ["Show", "augmented", "before_and_after", "flagship", "gradient_sheet"]


@dataclass(frozen=True)
class Show:
    """Everything the demo drew.

    Args:
        names: the photographs' names.
        batch: the photographs with their targets.
        pipeline, extended: the flagship, and the flagship with a blur and an erased rectangle behind it.
        records: one per draw of the flagship.
        last: the record of the extended pipeline under the last draw's key.
    """

    names: tuple[str, ...]
    batch: dict[str, Tensor]
    pipeline: Pipeline
    extended: Pipeline
    records: tuple[Record, ...]
    last: Record


def flagship(size: int, *, seed: int, extended: bool = False, impl: str = "auto") -> Pipeline:
    """The demo's pipeline for images of one size; ``extended`` adds a blur and an erased rectangle."""
    transforms = [
        RandomResizedCrop((size, size), scale=(0.5, 1.0)),
        RandomAffine(degrees=15, translate=(0.08, 0.08), scale=(0.9, 1.1), shear=5),
        RandomPerspective(distortion_scale=0.3, p=0.5),
        RandomHorizontalFlip(p=0.5),
        ColorJitter(brightness=0.25, contrast=0.25, saturation=0.3, hue=0.04),
    ]
    more = [RandomGaussianBlur(sigma=(size / 200, size / 100)), RandomErasing(p=1.0, scale=(0.03, 0.08), fill=0.5)]
    return Pipeline([*transforms, *(more if extended else [])], seed=seed, min_visibility=0.15, impl=impl)


def augmented(names: tuple[str, ...], batch: dict[str, Tensor], *, draws: int, seed: int) -> Show:
    """Draw from both pipelines; the extended one uses the last draw's key, and so has the same geometry and colours."""
    size = batch["image"].shape[-1]
    pipeline, extended = flagship(size, seed=seed), flagship(size, seed=seed, extended=True)
    keys = [Key(seed=seed, step=step) for step in range(draws)]
    records = tuple(pipeline.draw(batch, key=key) for key in keys)
    return Show(names, batch, pipeline, extended, records, extended.draw(batch, key=keys[-1]))


def before_and_after(show: Show) -> Image:
    """The contact sheet: each photograph, its draws, and the extended pipeline."""
    versions = [show.batch]
    versions += [show.pipeline.apply(show.batch, record) for record in show.records]
    versions.append(show.extended.apply(show.batch, show.last))
    rows = [
        [draw_targets({key: value[i] for key, value in version.items()}) for version in versions] for i in range(len(show.names))
    ]
    count = len(show.records)
    return contact_sheet(
        rows,
        columns=["Before", *(f"Draw {i + 1}" for i in range(count)), "+ blur, erasing"],
        labels=show.names,
        title="One draw moves the image and all its targets",
        note="Yellow: boxes, as hulls of their mapped corners. Dots: keypoints. Tint: mask classes.",
    )


def gradient_sheet(show: Show) -> Image:
    """The photograph, its augmented version, and |d loss / d pixel| on the photograph."""
    record = show.records[-1]
    images = show.batch["image"]
    with torch.no_grad():
        after = show.pipeline.apply(images, record)
    gradients = pixel_gradient(show.pipeline, images, record)
    rows = []
    for i in range(len(show.names)):
        frame = _frame_in_source(record, i)
        rows.append([draw_outline(to_picture(images[i]), frame), to_picture(after[i]), draw_outline(heat(gradients[i]), frame)])
    return contact_sheet(
        rows,
        columns=["Photograph", f"Draw {len(show.records)}", "|d loss / d pixel|"],
        labels=show.names,
        title="Where gradients arrive",
        note="White: the augmented image's frame in the photograph. Bright: pixels the loss feels.",
    )


def _frame_in_source(record: Record, sample: int) -> list[tuple[float, float]]:
    """The border of the output in the input's edge coordinates."""
    height, width = record.size_out
    box = torch.tensor([[[0.0, 0.0, width, height]]], dtype=torch.float64)
    with torch.no_grad():
        mapped, _ = back(record[sample], outline(box, "xyxy")[:, 0] - 0.5)
    return [(x + 0.5, y + 0.5) for x, y in mapped[0].tolist()]
