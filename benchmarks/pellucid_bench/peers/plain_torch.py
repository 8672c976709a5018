"""What PyTorch alone offers for a warp: ``affine_grid`` and ``grid_sample``.

Owns: translating pixel matrices to normalised coordinates.
Must not: be optimised; it is what people write by hand.
Read next: ``opencv.py``.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from pellucid import functional
from pellucid.kernels.warp import pack
from pellucid.kernels.warp import warp as warp_kernel
from pellucid_bench.peers.ours import src_from_dst_of
from pellucid_bench.settings import coordinates
from pellucid_bench.subject import Subject

__all__ = ["normalised", "remap", "warp"]


def normalised(src_from_dst: Tensor, size: tuple[int, int]) -> Tensor:
    """The (b, 2, 3) matrices in ``grid_sample``'s coordinates (``align_corners=False``)."""
    height, width = size
    pixel_from_norm = torch.tensor(
        [[width / 2, 0.0, (width - 1) / 2], [0.0, height / 2, (height - 1) / 2], [0.0, 0.0, 1.0]],
        dtype=torch.float64,
        device=src_from_dst.device,
    )
    last = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64, device=src_from_dst.device).expand(len(src_from_dst), 1, 3)
    square = torch.cat((src_from_dst.to(torch.float64), last), 1)
    return (torch.linalg.inv(pixel_from_norm) @ square @ pixel_from_norm)[:, :2].to(src_from_dst.dtype)


def warp() -> list[Subject]:
    """The grid made in the call, and the grid given."""
    regime = "batch, float32, a matrix per sample"

    def with_matrix(images: Tensor) -> tuple[Tensor, Tensor]:
        return images, normalised(src_from_dst_of(images), (images.shape[2], images.shape[3]))

    def with_grid(images: Tensor) -> tuple[Tensor, Tensor]:
        return images, F.affine_grid(with_matrix(images)[1], list(images.shape), align_corners=False)

    def grid_and_sample(inputs: tuple[Tensor, Tensor]) -> Tensor:
        grid = F.affine_grid(inputs[1], list(inputs[0].shape), align_corners=False)
        return F.grid_sample(inputs[0], grid, align_corners=False)

    def sample(inputs: tuple[Tensor, Tensor]) -> Tensor:
        return F.grid_sample(inputs[0], inputs[1], align_corners=False)

    def parameters(inputs: tuple[Tensor, Tensor]) -> tuple[Tensor, list[Tensor]]:
        leaf = inputs[1].detach().requires_grad_()
        return grid_and_sample((inputs[0], leaf)), [leaf]

    def ours(images: Tensor) -> Tensor:
        return warp_kernel(images, pack(src_from_dst_of(images), size=(images.shape[2], images.shape[3])))

    return [
        Subject(
            "torch affine_grid + grid_sample",
            regime,
            grid_and_sample,
            with_matrix,
            parameters=parameters,
            matched=lambda images: (grid_and_sample(with_matrix(images)), ours(images)),
        ),
        Subject(
            "torch grid_sample, grid given",
            regime,
            sample,
            with_grid,
            matched=lambda images: (sample(with_grid(images)), ours(images)),
        ),
    ]


def remap() -> list[Subject]:
    """The coordinates as a normalised grid, which is given."""

    def prepare(images: Tensor) -> tuple[Tensor, Tensor]:
        size = torch.tensor([images.shape[3], images.shape[2]], device=images.device)
        xy = coordinates(images.shape[0], (images.shape[2], images.shape[3])).to(images.device).permute(0, 2, 3, 1)
        return images, (2 * xy + 1) / size - 1

    def forward(inputs: tuple[Tensor, Tensor]) -> Tensor:
        return F.grid_sample(inputs[0], inputs[1], align_corners=False)

    def parameters(inputs: tuple[Tensor, Tensor]) -> tuple[Tensor, list[Tensor]]:
        leaf = inputs[1].detach().requires_grad_()
        return forward((inputs[0], leaf)), [leaf]

    def matched(images: Tensor) -> tuple[Tensor, Tensor]:
        xy = coordinates(images.shape[0], (images.shape[2], images.shape[3]))
        return forward(prepare(images)), functional.remap(images, xy[:, 0], xy[:, 1])

    regime = "batch, float32, coordinates per pixel"
    return [Subject("torch grid_sample, grid given", regime, forward, prepare, parameters=parameters, matched=matched)]
