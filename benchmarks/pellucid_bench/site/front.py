"""The picture of the front page: ``python -m pellucid_bench.site.front``, which writes ``docs/img/twelve.jpg``.

Owns: which twelve transforms are shown, and their order.
Must not: draw; the command line's sheets do.
Read next: ``../../../docs/index.md``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

import pellucid as P
from pellucid.cli.annotations import ANNOTATIONS
from pellucid.cli.draw import draw_targets, heat
from pellucid.cli.gradients import arriving
from pellucid.cli.photographs import load_batch
from pellucid.transforms.base import Transform

__all__ = ["sheet"]

_SIDE = 200
_SHOWN: dict[str, tuple[Transform, int]] = {
    "RandomAffine": (P.RandomAffine(degrees=30, scale=(0.8, 1.1)), 1),
    "RandomPerspective": (P.RandomPerspective(0.5, p=1.0), 0),
    "RandomElastic": (P.RandomElastic(24.0, (0.35, 0.45)), 1),
    "RandomFisheye": (P.RandomFisheye((58.0, 60.0)), 0),
    "RandomResizedCrop": (P.RandomResizedCrop(_SIDE, scale=(0.3, 0.5)), 0),
    "RandomHorizontalFlip": (P.RandomHorizontalFlip(p=1.0), 0),
    "ColorJitter": (P.ColorJitter(0.4, 0.4, saturation=0.6, hue=0.2), 1),
    "RandomSolarize": (P.RandomSolarize((0.5, 0.6), p=1.0), 0),
    "RandomMotionBlur": (P.RandomMotionBlur((15, 15), p=1.0), 0),
    "RandomRain": (P.RandomRain(p=1.0), 0),
    "CoarseDropout": (P.CoarseDropout(4, p=1.0), 0),
    "Mosaic": (P.Mosaic(p=1.0), 0),
}
"""By name: the transform, and the step whose draw shows it well."""


def sheet() -> Image.Image:
    """Three rows of five: a photograph with its targets, twelve transforms of it, where a gradient arrives, and a draw undone."""
    batch = load_batch(ANNOTATIONS[:2], _SIDE)
    batch["mask"] = batch["mask"] * (batch["mask"] != 1)  # the helmet; a tinted face would only be in the way

    def drawn(values: Mapping[str, Tensor]) -> Image.Image:
        return draw_targets({key: value[0] for key, value in values.items()})

    shown = [("a photograph, its targets", drawn(batch))]
    for name, (transform, step) in _SHOWN.items():
        shown.append((name, drawn(P.Pipeline([transform], impl="reference")(batch, key=P.Key(0, step)))))
    turn, step = _SHOWN["RandomAffine"]
    pipeline = P.Pipeline([turn], impl="reference")
    turned, record = pipeline(batch, key=P.Key(0, step), return_record=True)
    shown.append(("gradient through the affine", heat(arriving(pipeline, batch["image"], record))))
    shown.append(("the affine, undone", drawn({**turned, **pipeline.inverse(turned, record)})))
    return _grid(shown)


def _grid(shown: Sequence[tuple[str, Image.Image]], columns: int = 5, gap: int = 10, line: int = 24) -> Image.Image:
    rows = -(-len(shown) // columns)
    paper = Image.new("RGB", (columns * (_SIDE + gap) + gap, rows * (_SIDE + line + gap) + gap), (255, 255, 255))
    pen, font = ImageDraw.Draw(paper), ImageFont.load_default(15)
    for place, (name, picture) in enumerate(shown):
        left, top = gap + place % columns * (_SIDE + gap), gap + place // columns * (_SIDE + line + gap)
        pen.text((left, top), name, font=font, fill=(24, 28, 33))
        paper.paste(picture, (left, top + line))
    return paper


def main() -> None:
    """Write the picture."""
    path = Path(__file__).parents[3] / "docs" / "img" / "twelve.jpg"
    sheet().save(path, quality=88)
    print(f"Wrote {path}.")


if __name__ == "__main__":
    main()
