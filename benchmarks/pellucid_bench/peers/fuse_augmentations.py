"""fuse-augmentations' version of each case: it fuses kornia's transforms.

Owns: handing kornia's transforms over.
Must not: choose other options than its defaults.
Read next: ``plain_torch.py``.
"""

from __future__ import annotations

import contextlib
from typing import Any

from torch import Tensor

from pellucid_bench.peers.kornia import flagship_transforms, geometry_transforms
from pellucid_bench.subject import BATCHED, Subject

with contextlib.suppress(ImportError):  # it imports torchvision where it can, so that import must be the careful one
    from pellucid_bench.peers.torchvision_import import torchvision_v2

    torchvision_v2()
import fuse_augmentations

__all__ = ["flagship", "geometry"]


def flagship() -> list[Subject]:
    """Affine and flip in one resample; colour passes through to kornia."""
    return [Subject("fuse-augmentations", BATCHED, fuse_augmentations.Compose(flagship_transforms()))]


def geometry() -> list[Subject]:
    """Its own crop, affine and perspective segments."""
    made: dict[tuple[int, int], Any] = {}

    def forward(images: Tensor) -> Tensor:
        size = (images.shape[-2], images.shape[-1])
        if size not in made:
            made[size] = fuse_augmentations.Compose(geometry_transforms(size))
        result: Tensor = made[size](images)
        return result

    return [Subject("fuse-augmentations", BATCHED, forward)]
