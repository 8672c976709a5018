"""One picture with its targets drawn on it.

Owns: the look of masks, outlines, boxes and keypoints.
Must not: lay out sheets; ``sheet.py`` does.
Read next: ``sheet.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pellucid.cli.files import to_picture
from pellucid.geometry.polygons import rings_of

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

__all__ = ["draw_outline", "draw_targets", "heat"]

_FINE = 4  # lines are drawn this much larger and scaled down, which smooths them
_MASKS = ((0, 170, 255), (255, 64, 129), (0, 214, 143))
_POINTS = ((255, 255, 255), (255, 92, 92), (64, 224, 255), (190, 255, 90), (255, 160, 255))
_BOX = (255, 214, 10)
_SHADOW = (0, 0, 0, 150)
# Nine steps of matplotlib's magma.
_MAGMA = ("000004", "1c1044", "4f127b", "812581", "b5367a", "e55064", "fb8761", "fec287", "fcfdbf")


def draw_targets(sample: Mapping[str, Tensor]) -> Image:
    """Draw one unbatched sample: its mask tinted and outlined, then outlines, boxes, and keypoints; rows not valid are left out."""
    from PIL import Image, ImageDraw

    picture = to_picture(sample["image"])
    if "mask" in sample:
        picture = _tint(picture, sample["mask"])
    overlay = Image.new("RGBA", (picture.width * _FINE, picture.height * _FINE))
    pen = ImageDraw.Draw(overlay)
    k, unit = _FINE, _FINE * max(1.0, min(picture.size) / 400)
    for number, polygon in enumerate(sample.get("polygons", ())):
        for ring in rings_of(polygon):
            loop = [(x * k, y * k) for x, y in (*ring.tolist(), ring[0].tolist())]
            for colour, width in ((_SHADOW, 3.4), (_MASKS[number % len(_MASKS)], 1.8)):
                pen.line(loop, fill=colour, width=round(width * unit), joint="curve")
    if "boxes" in sample:
        for box in sample["boxes"][sample["boxes_valid"]].tolist():
            pen.rectangle(_around(box, k, 2.6 * unit, overlay.size), outline=_SHADOW, width=round(3.4 * unit))
            pen.rectangle(_around(box, k, 1.8 * unit, overlay.size), outline=_BOX, width=round(1.8 * unit))
    if "keypoints" in sample:
        for number, (x, y) in enumerate(sample["keypoints"].tolist()):
            if sample["keypoints_valid"][number]:
                _disc(pen, ((x + 0.5) * k, (y + 0.5) * k), 3.4 * unit, (0, 0, 0, 220))
                _disc(pen, ((x + 0.5) * k, (y + 0.5) * k), 2.3 * unit, _POINTS[number % len(_POINTS)])
    return _merge(picture, overlay)


def draw_outline(picture: Image, corners: Sequence[tuple[float, float]]) -> Image:
    """Draw a closed polygon, in edge coordinates."""
    from PIL import Image, ImageDraw

    overlay = Image.new("RGBA", (picture.width * _FINE, picture.height * _FINE))
    loop = [(x * _FINE, y * _FINE) for x, y in (*corners, corners[0])]
    pen = ImageDraw.Draw(overlay)
    pen.line(loop, fill=_SHADOW, width=3 * _FINE, joint="curve")
    pen.line(loop, fill=(255, 255, 255, 235), width=round(1.6 * _FINE), joint="curve")
    return _merge(picture, overlay)


def heat(values: Tensor) -> Image:
    """An (H, W) field of numbers >= 0 as a dark-to-bright picture; the brightest half per cent saturates."""
    import torch

    top = torch.quantile(values.flatten().to(torch.float32), 0.995).clamp(min=1e-30)
    level = (values.to(torch.float32) / top).clamp(0.0, 1.0) * (len(_MAGMA) - 1)
    ramp = torch.tensor([list(bytes.fromhex(colour)) for colour in _MAGMA], dtype=torch.float32) / 255.0
    below = level.floor().long().clamp(max=len(_MAGMA) - 2)
    share = (level - below)[..., None]
    return to_picture(((1.0 - share) * ramp[below] + share * ramp[below + 1]).permute(2, 0, 1))


def _tint(picture: Image, mask: Tensor) -> Image:
    import numpy as np
    from PIL import Image

    pixels = np.asarray(picture).astype(np.float32)
    classes = mask.detach().cpu().numpy()
    padded = np.pad(classes, 1, mode="edge")
    neighbours = (padded[:-2, 1:-1], padded[2:, 1:-1], padded[1:-1, :-2], padded[1:-1, 2:])
    edge = np.any([neighbour != classes for neighbour in neighbours], axis=0)
    for number in np.unique(classes[classes > 0]).tolist():
        colour = np.array(_MASKS[(int(number) - 1) % len(_MASKS)], dtype=np.float32)
        inside = classes == number
        pixels[inside] = 0.66 * pixels[inside] + 0.34 * colour
        pixels[inside & edge] = colour
    return Image.fromarray(np.rint(pixels).astype(np.uint8))


def _around(box: Sequence[float], k: int, by: float, size: tuple[int, int]) -> tuple[float, float, float, float]:
    """The box's corners in fine pixels, moved outward so that its line hides nothing inside; kept in the picture."""
    left, top, right, bottom = (edge * k for edge in box)
    return max(left - by, 0), max(top - by, 0), min(right + by, size[0]) - 1, min(bottom + by, size[1]) - 1


def _disc(pen: object, centre: tuple[float, float], radius: float, colour: tuple[int, ...]) -> None:
    x, y = centre
    pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=colour)  # type: ignore[attr-defined]


def _merge(picture: Image, overlay: Image) -> Image:
    from PIL import Image

    small = overlay.resize(picture.size, Image.Resampling.BOX)
    return Image.alpha_composite(picture.convert("RGBA"), small).convert("RGB")
