"""OpenCV's ``warpAffine`` and ``remap``, image by image.

Owns: the loop over arrays.
Must not: set OpenCV's threads; it uses its own pool, as it does for its users.
Read next: ``../agreement.py``.
"""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import torch
from torch import Tensor

from pellucid import functional
from pellucid.kernels.warp import pack
from pellucid.kernels.warp import warp as warp_kernel
from pellucid_bench.peers.ours import src_from_dst_of
from pellucid_bench.settings import affine_matrices, coordinates
from pellucid_bench.subject import Subject, to_8bit_arrays

__all__ = ["remap", "warp"]


def warp() -> list[Subject]:
    """On uint8 and on float32 arrays."""

    def matrices(images: Tensor) -> list[Any]:
        return list(affine_matrices(images.shape[0], (images.shape[2], images.shape[3])).numpy())

    def from_8bit(images: Tensor) -> tuple[list[Any], list[Any]]:
        return to_8bit_arrays(images), matrices(images)

    def from_float(images: Tensor) -> tuple[list[Any], list[Any]]:
        return [image.permute(1, 2, 0).contiguous().numpy() for image in images], matrices(images)

    def forward(inputs: tuple[list[Any], list[Any]]) -> list[Any]:
        return [cv2.warpAffine(image, matrix, (image.shape[1], image.shape[0])) for image, matrix in zip(*inputs, strict=True)]

    def tensor(result: list[Any]) -> Tensor:
        stacked = torch.from_numpy(np.stack(result)).permute(0, 3, 1, 2)
        return stacked.float() / 255.0 if stacked.dtype == torch.uint8 else stacked

    def ours(images: Tensor) -> Tensor:
        return warp_kernel(images, pack(src_from_dst_of(images), size=(images.shape[2], images.shape[3])))

    made = []
    for name, kind, prepare, tolerance in (("uint8", "uint8", from_8bit, 4e-3), ("float32", "float32", from_float, 2e-3)):

        def matched(images: Tensor, prepare: Any = prepare) -> tuple[Tensor, Tensor]:
            return tensor(forward(prepare(images))), ours(images)

        regime = f"image by image, {kind} HWC arrays, a matrix each"
        made.append(
            Subject(
                f"cv2.warpAffine, {name}",
                regime,
                forward,
                prepare,
                tensor,
                matched=matched,
                tolerance=tolerance,
                differentiable=False,
            )
        )
    return made


def remap() -> list[Subject]:
    """On uint8 and on float32 arrays."""

    def maps(images: Tensor) -> list[Any]:
        return list(coordinates(images.shape[0], (images.shape[2], images.shape[3])).numpy())

    def from_8bit(images: Tensor) -> tuple[list[Any], list[Any]]:
        return to_8bit_arrays(images), maps(images)

    def from_float(images: Tensor) -> tuple[list[Any], list[Any]]:
        return [image.permute(1, 2, 0).contiguous().numpy() for image in images], maps(images)

    def forward(inputs: tuple[list[Any], list[Any]]) -> list[Any]:
        return [cv2.remap(image, xy[0], xy[1], cv2.INTER_LINEAR) for image, xy in zip(*inputs, strict=True)]

    def tensor(result: list[Any]) -> Tensor:
        stacked = torch.from_numpy(np.stack(result)).permute(0, 3, 1, 2)
        return stacked.float() / 255.0 if stacked.dtype == torch.uint8 else stacked

    def matched(prepare: Any) -> Any:
        def both(images: Tensor) -> tuple[Tensor, Tensor]:
            xy = coordinates(images.shape[0], (images.shape[2], images.shape[3]))
            return tensor(forward(prepare(images))), functional.remap(images, xy[:, 0], xy[:, 1])

        return both

    return [
        Subject(
            f"cv2.remap, {kind}",
            f"image by image, {kind} HWC arrays, coordinates per pixel",
            forward,
            prepare,
            tensor,
            matched=matched(prepare),
            tolerance=tolerance,
            differentiable=False,
        )
        for kind, prepare, tolerance in (("uint8", from_8bit, 4e-3), ("float32", from_float, 2e-3))
    ]
