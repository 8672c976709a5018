"""Wrap another library's transform as a step of a pipeline, if it has no substitute here.

Owns: calling another library's transform on pictures.
Must not: be used unless a caller asks for it, because it imports that library.
Read next: ``reading.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from pellucid.transforms import Lambda

__all__ = ["wrapped"]

_MODULES = {"albumentations": "albumentations", "torchvision": "torchvision.transforms.v2", "kornia": "kornia.augmentation"}


@dataclass(frozen=True)
class _Original:
    """Calls albumentations with pictures as bytes (H, W, C), and torchvision and kornia with tensors."""

    one: Any
    arrays: bool

    def __call__(self, images: Tensor) -> Tensor:
        if not self.arrays:
            return torch.stack([self.one(image[None])[0] for image in images.detach()])
        levels = (images.detach().cpu() * 255.0).round().clamp(0.0, 255.0).to(torch.uint8).movedim(1, -1).contiguous()
        changed = torch.stack([torch.from_numpy(self.one(image=image.numpy())["image"]) for image in levels])
        return (changed.movedim(-1, 1).to(images.dtype) / 255.0).to(images.device)


def wrapped(library: str, name: str, options: Mapping[str, Any]) -> Lambda | str:
    """Return a step around the original transform, or a sentence that says why that is not possible."""
    try:
        module = import_module(_MODULES[library])
    except ImportError as error:
        return f"the original cannot be imported ({error})"
    kind = getattr(module, name, None)
    if not isinstance(kind, type):
        return f"{library} has no {name} either"
    if library == "albumentations" and not issubclass(kind, module.ImageOnlyTransform):
        return "the original moves masks, boxes and points, which a wrapped step would leave in place"
    chance = options.get("p", 0.5 if library == "albumentations" else 1.0)
    try:
        one = kind(**{key: value for key, value in options.items() if key != "p"}, **({"p": 1.0} if "p" in options else {}))
        if library == "albumentations":
            one.p = 1.0
    except (TypeError, ValueError, LookupError) as error:
        return f"the original does not take its options ({error})"
    if asked := getattr(one, "targets_as_params", ()):
        return f"the original asks for {', '.join(asked)} with each call"
    return Lambda(_Original(one, library == "albumentations"), gradients="none", p=chance)
