"""Pairs of patches of one place, to train a descriptor: extracted once from photographs, warped and lit anew at every step.

Owns: the pool of patches around keypoints, the order in which they are visited, and which rows of a batch show the same place.
Must not: resample or change colours itself; the pipeline does, in one pass over patches small enough for the cache.
Read next: ``../train/descriptor.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, final

import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor

from pellucid.errors import invalid
from pellucid.features.frames_cv2 import frames_from_cv2
from pellucid.functional import resize
from pellucid.functional.patches import extract_patches
from pellucid.pipeline import Pipeline
from pellucid.random import Key, LogUniform, Normal
from pellucid.transforms import CenterCrop, RandomAffine, RandomGamma, RandomGaussianBlur, RandomGaussianNoise

__all__ = ["PatchBatch", "PatchPairs", "PatchPool", "patch_jitter"]

_ROOM: Final = 1.5
"""Factor by which stored patches are wider than the network's input, so that rotations and shifts stay inside them."""
_ZOOMS: Final = (1.0, 0.6)
"""Photographs are searched at these sizes: keypoints of the smaller one are sharper than those of the same size in the larger."""


@dataclass(frozen=True)
class PatchPool:
    """Patches around the keypoints of photographs.

    Args:
        patches: (N, 1, S, S) uint8, 1.5 times as wide as the network's input.
        photographs: (N,) the index of each patch's photograph.
        places: (N, 3) x, y and size of each patch's keypoint, in the photograph's pixels.
    """

    patches: UInt8[Tensor, "n 1 s s"]
    photographs: Int[Tensor, "n"]
    places: Float[Tensor, "n 3"]

    def __len__(self) -> int:
        return len(self.patches)

    @staticmethod
    def from_photographs(
        photographs: Sequence[Float[Tensor, "1 h w"]],
        *,
        keypoints: int = 4000,
        total: int = 200_000,
        factor: float = 8.0,
        size: int = 32,
    ) -> PatchPool:
        """Cut a patch around every SIFT keypoint of every photograph.

        Args:
            photographs: grey; each is read once.
            keypoints: the largest number of keypoints of each photograph at each of two sizes; the strongest are taken.
            total: the largest number of patches (2.3 kB each) from all photographs; many photographs give fewer each.
            factor: the side of the network's input, in keypoint sizes.
            size: the side of the network's input, in pixels.

        Errors:
            ``InvalidArgument`` if fewer than two keypoints are found in all photographs together. ImportError without OpenCV.
        """
        each = max(1, min(keypoints, total // (len(_ZOOMS) * max(1, len(photographs)))))
        parts = []
        for number in range(len(photographs)):
            picture = photographs[number]
            parts += [_cut(picture, number, zoom, each, factor, round(size * _ROOM)) for zoom in _ZOOMS]
        patches, which, places = (torch.cat(column) for column in zip(*parts, strict=True))
        if len(patches) < 2:
            expected = "pictures with SIFT keypoints"
            raise invalid("photographs", expected=expected, got=f"{len(patches)} keypoints in {len(photographs)}")
        return PatchPool(patches, which, places)


@dataclass(frozen=True)
class PatchBatch:
    """A batch of pairs: row i of both shows the same place; rows with equal ids show the same place, too."""

    anchors: Float[Tensor, "b 1 h w"]
    positives: Float[Tensor, "b 1 h w"]
    ids: Int[Tensor, "b"]


@final
class PatchPairs:
    """Walk through a pool in epochs, each in its own order, and draw two views of every patch.

    Batch s of a run depends only on (seed, s), so a run may be resumed anywhere. The last batch of an epoch may be shorter.

    Args:
        pool: the patches.
        jitter: draws a view; it must turn stored patches into the network's input.
        batch: pairs per step.
        seed: seed of order and views.
        both: draw both views; if False, the anchor is the unchanged patch.
        variants: also visit each place mirrored, inverted and both, as if these were further places.

    Errors:
        ``InvalidArgument`` for a batch of fewer than two pairs, or more than the pool has.
    """

    def __init__(
        self, pool: PatchPool, jitter: Pipeline, *, batch: int, seed: int = 0, both: bool = True, variants: bool = False
    ) -> None:
        if not 2 <= batch <= len(pool):
            raise invalid("batch", expected=f"2 to {len(pool)} pairs, the number of patches", got=batch)
        self.pool, self.jitter, self.batch, self.seed, self.both = pool, jitter, batch, seed, both
        self.variants = variants
        # A single pair has no negative: it is left out of its epoch.
        self.batches_per_epoch = len(pool) // batch + (len(pool) % batch > 1)

    def __call__(self, step: int, *, rank: int = 0, ranks: int = 1) -> PatchBatch:
        """Return the rank's share of batch ``step``: consecutive rows; shares differ by at most one row."""
        epoch, at = divmod(step, self.batches_per_epoch)
        chosen = self._order(epoch)[at * self.batch : (at + 1) * self.batch]
        ids = same_place(self.pool.photographs[chosen], self.pool.places[chosen])
        mine = torch.arange(len(chosen)).tensor_split(ranks)[rank]
        patches = self.pool.patches[chosen[mine]]
        if self.variants:
            patches = _vary(patches, self._faces(step, len(chosen))[mine])
        views = [self._view(patches, step, 2 * mine + side) for side in (0, 1)]
        return PatchBatch(views[0], views[1], ids[mine])

    def _view(self, patches: Tensor, step: int, index: Tensor) -> Tensor:
        if not self.both and bool((index % 2 == 0).all()):
            return _middle(patches).float() / 255.0
        view: Tensor = self.jitter(patches, key=Key(seed=self.seed, step=step, index=index))
        return view

    def _faces(self, step: int, count: int) -> Int[Tensor, "b"]:
        dice = torch.Generator().manual_seed((self.seed * 1_000_003 + step) * 2 + 1)
        return torch.randint(4, (count,), generator=dice)

    def _order(self, epoch: int) -> Int[Tensor, "n"]:
        dice = torch.Generator().manual_seed(self.seed * 1_000_003 + epoch)
        return torch.randperm(len(self.pool), generator=dice)


def patch_jitter(size: int = 32, *, geometric: float = 1.0, photometric: float = 1.0) -> Pipeline:
    """Return the pipeline that draws a view of a place: errors of a keypoint's position, size and angle, a tilt, light and noise.

    Args:
        size: side of the views, in pixels.
        geometric: strength of position, size, angle and tilt; 0 is none.
        photometric: strength of light, blur and noise; 0 is none.
    """
    for name, value in (("geometric", geometric), ("photometric", photometric)):
        if not 0 <= value <= 1.5:
            raise invalid(name, expected="in [0, 1.5]", got=value)
    g, p = geometric, photometric
    stored = round(size * _ROOM)
    shift = 1.4 * g * (size / 32) / stored
    lean = 16.0 * g
    return Pipeline(
        [
            RandomAffine(
                Normal(0.0, 7.0 * g),
                translate=(shift, shift),
                scale=LogUniform(0.85**g, 1.18**g),
                shear=(-lean, lean, -lean, lean),
                padding_mode="border",
            ),
            CenterCrop(size),
            RandomGamma((1 - 0.4 * min(p, 1.0), 1 + 0.6 * p), gain=(1 - 0.4 * min(p, 1.0), 1 + 0.2 * p)),
            RandomGaussianBlur(kernel_size=3, sigma=(0.4, 1.0), p=min(1.0, 0.3 * p)),
            RandomGaussianNoise(sigma=(0.0, 0.03 * p)),
        ],
        dtype=torch.float32,
    )


def same_place(photographs: Int[Tensor, "b"], places: Float[Tensor, "b 3"]) -> Int[Tensor, "b"]:
    """Number the places of a batch: keypoints of a photograph within half the smaller size, or linked by such, share a number.

    Args:
        photographs: the index of each keypoint's photograph.
        places: x, y, size.
    """
    centers, sizes = places[:, :2], places[:, 2]
    near = torch.cdist(centers, centers) < 0.5 * torch.minimum(sizes[:, None], sizes).clamp(min=3.0)
    linked: Bool[Tensor, "b b"] = near & (photographs[:, None] == photographs)
    ids = torch.arange(len(places))
    for _ in range(4):  # each takes its neighbours' lowest number: chains of more than four links are split
        ids = torch.where(linked, ids, len(places)).amin(1)
    return ids


def _cut(picture: Tensor, number: int, zoom: float, keypoints: int, factor: float, stored: int) -> tuple[Tensor, Tensor, Tensor]:
    cv2: Any = import_module("cv2")
    if zoom != 1.0:
        height, width = (max(8, round(side * zoom)) for side in picture.shape[-2:])
        picture = resize(picture, (height, width))
    pixels = (picture[0].clamp(0.0, 1.0) * 255.0).round().to(torch.uint8).numpy()
    finder = cv2.SIFT_create(keypoints, contrastThreshold=0.03)
    points = sorted(finder.detect(pixels, None), key=lambda point: -point.response)[:keypoints]
    frames = frames_from_cv2(points, factor=factor * _ROOM)
    cut = [extract_patches(picture[None], part[None], stored)[0] for part in frames.split(1024)]
    patches = torch.cat(cut) if cut else torch.zeros(0, 1, stored, stored)
    places = torch.tensor([[*point.pt, point.size] for point in points], dtype=torch.float32).reshape(-1, 3) / zoom
    return (patches.clamp(0.0, 1.0) * 255.0).round().to(torch.uint8), torch.full((len(points),), number), places


def _vary(patches: Tensor, faces: Int[Tensor, "b"]) -> Tensor:
    """Mirror top to bottom (faces 1, 3); invert and mirror left to right (2, 3): both keep the main gradient along +x."""
    mirrored = torch.where(((faces & 1) > 0)[:, None, None, None], patches.flip(-2), patches)
    return torch.where(((faces & 2) > 0)[:, None, None, None], 255 - mirrored.flip(-1), mirrored)


def _middle(patches: Tensor) -> Tensor:
    side = patches.shape[-1]
    seen = round(side / _ROOM)
    low = (side - seen) // 2
    return patches[..., low : low + seen, low : low + seen]
