"""torchvision's tensor classes, in and out, without importing torchvision.

Owns: recognising them, reading their metadata, and wrapping results in the same class.
Must not: import torchvision unless the caller already has.
Read next: ``parsing.py``.
"""

from __future__ import annotations

import sys
from typing import Any

from torch import Tensor

from pellucid.types import Size

__all__ = ["box_format_of", "canvas_of", "class_of", "is_clip", "is_picture", "wrap_like"]


def _classes() -> Any:
    return sys.modules.get("torchvision.tv_tensors")


_KINDS = {"Image": "image", "Video": "image", "Mask": "mask", "BoundingBoxes": "boxes", "KeyPoints": "keypoints"}


def class_of(value: object) -> tuple[str, str] | None:
    """Return the kind of a value by its class, and the name of that class; None for anything but torchvision's tensors."""
    module = _classes()
    if module is None or not isinstance(value, module.TVTensor):
        return None
    for name, kind in _KINDS.items():
        if hasattr(module, name) and isinstance(value, getattr(module, name)):
            return kind, name
    return None


def is_clip(tensor: object) -> bool:
    """Return whether this is one of torchvision's videos, which are (..., T, C, H, W) by definition."""
    module = _classes()
    return module is not None and isinstance(tensor, module.Video)


def box_format_of(tensor: object) -> str | None:
    """Return the format of a torchvision box tensor, in lower case; rotated formats are in degrees. None for anything else."""
    module = _classes()
    if module is None or not isinstance(tensor, module.BoundingBoxes):
        return None
    return str(tensor.format.value).lower()


def canvas_of(tensor: object) -> Size | None:
    """Return the (height, width) of the picture of torchvision's boxes or keypoints; None for anything else."""
    module = _classes()
    if module is None or not isinstance(tensor, module.TVTensor):
        return None
    size = getattr(tensor, "canvas_size", None)
    return None if size is None else (size[0], size[1])


def is_picture(tensor: object) -> bool:
    """Return whether this is one of torchvision's pictures or videos, which are (..., C, H, W) by definition."""
    module = _classes()
    return module is not None and isinstance(tensor, (module.Image, module.Video))


def wrap_like(result: Tensor, original: object, size: Size) -> Tensor:
    """Give a result the torchvision class of the original, if it had one."""
    module = _classes()
    if module is None or type(original) is Tensor or not isinstance(original, module.TVTensor):
        return result
    canvas = {} if canvas_of(original) is None else {"canvas_size": size}
    wrapped: Tensor = module.wrap(result, like=original, **canvas)
    return wrapped
