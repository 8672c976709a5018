"""torchvision's tensor classes, in and out, without importing torchvision.

Owns: recognising them, and wrapping results the same way.
Must not: import torchvision unless the caller already has.
Read next: ``targets.py``.
"""

from __future__ import annotations

import sys
from typing import Any

from torch import Tensor

from pellucid.types import Size

__all__ = ["box_format_of", "wrap_like"]


def _classes() -> Any:
    return sys.modules.get("torchvision.tv_tensors")


def box_format_of(tensor: object) -> str | None:
    """The format a torchvision box tensor declares, in our spelling; None for anything else."""
    module = _classes()
    if module is None or not isinstance(tensor, module.BoundingBoxes):
        return None
    return str(tensor.format.value).lower()


def wrap_like(result: Tensor, original: object, size: Size) -> Tensor:
    """Give a result the torchvision class of what it came from."""
    module = _classes()
    if module is None or type(original) is Tensor or not isinstance(original, module.TVTensor):
        return result
    if isinstance(original, module.BoundingBoxes):
        wrapped: Tensor = module.wrap(result, like=original, canvas_size=size)
        return wrapped
    plain: Tensor = module.wrap(result, like=original)
    return plain
