"""Corrupt pictures: check the arguments, draw, apply the formula.

Owns: `corrupt`, `NAMES`, `GRADIENTS`, and where pictures of frost come from.
Must not: hold a constant of any corruption.
Read next: ``table.py``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import numpy as np
import torch
from jaxtyping import Shaped
from torch import Tensor

from pellucid.core.arguments import check_choice
from pellucid.corruptions.draws import Draws
from pellucid.corruptions.table import TABLE
from pellucid.errors import invalid, wrong_type
from pellucid.functional.images import close_unit, open_image, open_unit
from pellucid.random.key import Key, default_index

__all__ = ["GRADIENTS", "NAMES", "corrupt", "frost_pictures"]

NAMES: tuple[str, ...] = tuple(TABLE)
"""The fifteen corruptions, in the order of the paper."""

GRADIENTS: Mapping[str, str] = MappingProxyType({name: one.gradient for name, one in TABLE.items()})
"""By name, the declared gradient to the image."""

_FROSTS = 5
"""The published code has six pictures of frost and draws among the first five."""

_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp")


def corrupt(
    image: Shaped[Tensor, "*b c h w"],
    name: str,
    severity: int = 1,
    *,
    key: Key,
    frost: str | os.PathLike[str] | Sequence[Tensor] | None = None,
) -> Shaped[Tensor, "*b c h w"]:
    """Corrupt images as ImageNet-C does, at any size, reproducibly, with a gradient.

    Args:
        image: (C, H, W) or (B, C, H, W): floating point in [0, 1], or uint8; ``frost`` and ``brightness`` are meant for colour.
        name: one of `NAMES`.
        severity: 1 to 5.
        key: decides every draw: seed, step and one index per image.
        frost: for ``frost`` alone: a folder of pictures, or their tensors (3, H, W) in the image's units, each at least as large as
            the image. Only the first five count (in a folder: by name).

    Returns:
        The corrupted images in the dtype of ``image``; 8-bit results are rounded. (The published data sets were truncated to bytes
        and saved as JPEG.)

    Gradient:
        image: as `GRADIENTS` says: almost everywhere (kinks of the clip) where the formula is smooth, else a declared surrogate.

    Errors:
        ``InvalidArgument`` and ``InvalidType`` for names, severities, shapes and dtypes that do not fit.

    Source:
        Hendrycks and Dietterich, "Benchmarking neural network robustness to common corruptions and perturbations", ICLR 2019: the
        constants and formulas of the code published with it. Lengths in pixels are those for 224 x 224, at every size.

    Example:
        >>> import torch
        >>> from pellucid import Key
        >>> from pellucid.corruptions import corrupt
        >>> corrupt(torch.tensor([0.2, 0.6]).reshape(1, 1, 2), "contrast", 1, key=Key(0))
        tensor([[[0.3200, 0.4800]]])
    """
    check_choice("name", name, NAMES)
    if not isinstance(severity, int) or isinstance(severity, bool) or not 1 <= severity <= 5:
        raise invalid("severity", expected="a whole number from 1 to 5", got=repr(severity))
    if not isinstance(key, Key):
        raise wrong_type("key", expected="a Key", got=repr(key), fix="For example key=Key(seed=0, step=7).")
    pixels, layout = open_image(image)
    index = default_index(pixels.shape[0], pixels.device) if key.index is None else key.index.to(pixels.device, torch.int64)
    if index.shape[0] != pixels.shape[0]:
        raise invalid("key.index", expected=f"one index per image, ({pixels.shape[0]},)", got=tuple(index.shape))
    if (frost is not None) != (name == "frost"):
        raise invalid("frost", expected="pictures of frost for name='frost', and for no other", got=repr(frost))
    work, one = open_unit(pixels), TABLE[name]
    if not pixels.shape[0]:
        return close_unit(work * 1.0, layout)
    height, width = pixels.shape[-2:]
    draws = Draws(key.seed, key.step, index, (height, width), work.dtype, 256 * NAMES.index(name))
    constants = one.constants[severity - 1]
    drawn = one.draw(draws, constants)
    if frost is not None:
        drawn = {"frost": _cut(frost_pictures(frost, layout.dtype), drawn, work)}
    return close_unit(one.formula(work, constants, **drawn), layout)


def frost_pictures(frost: object, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """The pictures to draw from, (3, H, W) in [0, 1]; tensors are in the units of images of this dtype."""
    if isinstance(frost, str | os.PathLike):
        from PIL import Image

        paths = sorted(path for path in Path(frost).iterdir() if path.suffix.lower() in _SUFFIXES)[:_FROSTS]
        pictures = []
        for path in paths:
            with Image.open(path) as picture:
                pictures.append(torch.from_numpy(np.array(picture.convert("RGB"))).movedim(-1, 0).to(torch.float32) / 255.0)
    else:
        given = list(frost)[:_FROSTS] if isinstance(frost, Sequence) else []
        if not all(isinstance(picture, Tensor) for picture in given):
            raise wrong_type("frost", expected="a folder, or tensors (3, H, W)", got=repr(frost))
        scale = 1.0 if dtype.is_floating_point else 255.0
        pictures = [picture / scale for picture in given]
    if not pictures:
        raise invalid("frost", expected="a folder with pictures in it, or tensors (3, H, W)", got=repr(frost))
    return pictures


def _cut(pictures: list[Tensor], drawn: Mapping[str, Tensor], like: Tensor) -> Tensor:
    """Cut a random window out of a random frost picture for every sample."""
    height, width = like.shape[-2:]
    parts = []
    for choice, top, left in zip(*(drawn[name].tolist() for name in ("picture", "top", "left")), strict=True):
        picture = pictures[int(choice * len(pictures))]
        down, across = picture.shape[-2] - height, picture.shape[-1] - width
        if min(down, across) < 0:
            got = f"{picture.shape[-2]}x{picture.shape[-1]}"
            raise invalid("frost", expected=f"pictures of at least {height}x{width}, the image's size", got=got, fix="Resize them.")
        row, column = int(top * max(down, 1)), int(left * max(across, 1))
        parts.append(picture[:, row : row + height, column : column + width])
    return torch.stack(parts).to(like.device, like.dtype)
