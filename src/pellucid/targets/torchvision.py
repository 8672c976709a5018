"""torchvision's tensor classes, in and out, without importing torchvision.

Owns: recognising them, what they say of themselves, and wrapping results the same way.
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
    """The kind that the class of a value says it is, and the name of that class; None for anything but torchvision's tensors."""
    module = _classes()
    if module is None or not isinstance(value, module.TVTensor):
        return None
    for name, kind in _KINDS.items():
        if hasattr(module, name) and isinstance(value, getattr(module, name)):
            return kind, name
    return None


def is_clip(tensor: object) -> bool:
    """Whether this is one of torchvision's videos, which are (..., T, C, H, W) by definition."""
    module = _classes()
    return module is not None and isinstance(tensor, module.Video)


def box_format_of(tensor: object) -> str | None:
    """The format a torchvision box tensor declares, in lower case; rotated ones carry degrees. None for anything else."""
    module = _classes()
    if module is None or not isinstance(tensor, module.BoundingBoxes):
        return None
    return str(tensor.format.value).lower()


def canvas_of(tensor: object) -> Size | None:
    """(height, width) of the picture that torchvision's boxes or keypoints belong to."""
    module = _classes()
    if module is None or not isinstance(tensor, module.TVTensor):
        return None
    size = getattr(tensor, "canvas_size", None)
    return None if size is None else (size[0], size[1])


def is_picture(tensor: object) -> bool:
    """Whether this is one of torchvision's pictures, which are (..., C, H, W) by definition."""
    module = _classes()
    return module is not None and isinstance(tensor, (module.Image, module.Video))


def wrap_like(result: Tensor, original: object, size: Size) -> Tensor:
    """Give a result the torchvision class of what it came from."""
    module = _classes()
    if module is None or type(original) is Tensor or not isinstance(original, module.TVTensor):
        return result
    canvas = {} if canvas_of(original) is None else {"canvas_size": size}
    wrapped: Tensor = module.wrap(result, like=original, **canvas)
    return wrapped
