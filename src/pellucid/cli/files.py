"""Read pictures as tensors, and write files atomically.

Owns: reading images through Pillow, filling in page templates, and atomic writes.
Must not: know of pipelines.
Read next: ``draw.py``.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from pellucid.core.files import written
from pellucid.errors import invalid

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

__all__ = ["check_png", "facts_list", "page", "png_bytes", "read_image", "to_picture", "to_tensor", "write_bytes"]


def check_png(name: str, path: Path) -> Path:
    """Check an output file's name before any work is done."""
    if path.suffix.lower() != ".png":
        raise invalid(name, expected="a file name ending in .png", got=repr(str(path)))
    return path


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically: a reader sees the old content or the new, never a part."""
    written(path, lambda draft: draft.write_bytes(content))


def page(name: str, **parts: object) -> bytes:
    """Fill the template ``name.html`` with parts, styled by ``report.css`` and, if it exists, ``name.css``."""
    folder = files("pellucid.cli")
    looks = [folder.joinpath(f"{sheet}.css") for sheet in dict.fromkeys(("report", name))]
    style = "".join(look.read_text("utf-8") for look in looks if look.is_file())
    return Template(folder.joinpath(f"{name}.html").read_text("utf-8")).substitute(style=style, **parts).encode("utf-8")


def facts_list(facts: Iterable[tuple[str, str]]) -> str:
    """The items of a page's list of facts, as HTML, from pairs (value, name)."""
    return "".join(f"<div><dd>{escape(value)}</dd><dt>{escape(name)}</dt></div>" for value, name in facts)


def png_bytes(picture: Image) -> bytes:
    """Encode a picture as PNG."""
    buffer = io.BytesIO()
    picture.save(buffer, format="PNG")
    return buffer.getvalue()


def read_image(path: Path, *, gray: bool = False) -> Tensor:
    """Read a picture as (3, H, W), or (1, H, W) with ``gray``, float32 in [0, 1], upright; see `pellucid.data.decode`."""
    from pellucid.data import decode

    if path.is_dir():
        raise invalid("IMAGE", expected="an image file", got=f"the folder {path}")
    image = decode(path, gray=gray)
    return image.float() / (65535.0 if image.itemsize > 1 else 255.0)


def to_tensor(picture: Any) -> Tensor:
    """Convert an 8-bit picture or (H, W[, C]) array to (C, H, W), float32 in [0, 1]."""
    import numpy as np
    import torch

    values = torch.from_numpy(np.array(picture, dtype=np.uint8))
    values = values[..., None] if values.dim() == 2 else values
    return values.permute(2, 0, 1).to(torch.float32) / 255.0


def to_picture(image: Tensor) -> Image:
    """Convert a tensor (C, H, W) in [0, 1] to an RGB picture, clipped; unless C is 3, the first channel is shown in gray."""
    import torch
    from PIL import Image

    shown = image.detach().to("cpu", torch.float32)
    shown = shown if shown.shape[0] == 3 else shown[:1].expand(3, -1, -1)
    eight_bit = torch.round(torch.nan_to_num(shown).clamp(0.0, 1.0) * 255.0).to(torch.uint8)
    return Image.fromarray(eight_bit.permute(1, 2, 0).contiguous().numpy())
