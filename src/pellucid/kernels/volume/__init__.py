"""Volumes resampled through an affine map in space and a cubic B-spline field.

Owns: `volume` and `majority`, which pick an implementation.
Must not: compute anything itself.
Read next: ``reference.py``.
"""

from __future__ import annotations

from typing import TypeAlias

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from pellucid.core.tape import is_plain_eager
from pellucid.kernels.derivatives import needs_grad
from pellucid.kernels.explicit import AVAILABLE, implementation, run
from pellucid.kernels.primitive import Primitive
from pellucid.kernels.volume import cpu, reference
from pellucid.kernels.volume.blocks import Block, reach
from pellucid.types import Size3

__all__ = ["AVAILABLE", "Block", "Window", "block_of", "majority", "volume"]

Window: TypeAlias = tuple[Float[Tensor, "b_or_1 3"], Size3]


def volume(
    image: Float[Tensor, "b c d h w"],
    src_from_dst: Float[Tensor, "b_or_1 3 4"],
    control: Float[Tensor, "b_or_1 3 gd gh gw"] | None = None,
    *,
    size: tuple[int, int, int],
    window: Window | None = None,
    border: bool = False,
    nearest: bool = False,
    block: Block | None = None,
    impl: str = "auto",
) -> Float[Tensor, "b c d2 h2 w2"]:
    """See :func:`pellucid.kernels.volume.reference.volume`; ``impl`` says who computes it. The field is A times ``control``: a
    spline of displacements in voxels of the output, before the map. ``window`` is (start, lattice), if they are not (0, size);
    no gradient goes to it. ``block`` computes a part of the result from a part of the volume, as :func:`block_of` finds it.

    The compiled one's second derivative goes through the reference; forward mode raises. Bit for bit the same for any number of
    threads: forward, they share the slices; backward, each sample has one thread.
    """
    field = _field(src_from_dst, control)
    start, lattice = (None, size) if window is None else (window[0].detach(), window[1])
    part, inside = (size, []) if block is None else (block.size, block.numbers)
    static = (list(part), list(lattice), border, nearest, inside)
    if implementation(impl, image.device) == "reference":
        return reference.volume(image, src_from_dst, field, start, *static)
    return run(_VOLUME, static, image, src_from_dst, field, start)


def block_of(
    first: Size3,
    part: Size3,
    whole: Size3,
    src_from_dst: Float[Tensor, "b_or_1 3 4"],
    control: Float[Tensor, "b_or_1 3 gd gh gw"] | None = None,
    *,
    size: Size3,
    window: Window | None = None,
) -> Block:
    """The block of a volume of the size ``whole`` that ``part`` voxels of :func:`volume`'s result read, from the ``first`` on."""
    start, lattice = (None, size) if window is None else window
    return reach(first, part, whole, src_from_dst, _field(src_from_dst, control), start, lattice)


def majority(
    labels: Shaped[Tensor, "b c d h w"],
    src_from_dst: Float[Tensor, "b_or_1 3 4"],
    control: Float[Tensor, "b_or_1 3 gd gh gw"] | None = None,
    *,
    size: tuple[int, int, int],
    points: tuple[int, int, int] = (1, 1, 1),
    window: Window | None = None,
    border: bool = False,
    block: Block | None = None,
    impl: str = "auto",
) -> Shaped[Tensor, "b c d2 h2 w2"]:
    """The label (a whole number) that each voxel shows most of; a label's share is read as :func:`volume` reads. No gradient.

    Each voxel is read at ``points`` evenly spread points along z, y and x: one where a map does not shrink, elsewhere as many as
    the voxels of the input that one of the output covers. Of labels with equal shares the least is shown.
    """
    maps, control = src_from_dst.detach(), None if control is None else control.detach()
    each = torch.tensor(points[::-1], dtype=maps.dtype, device=maps.device)
    first = 0.5 / each - 0.5  # the first point of a voxel, from its centre
    finer = torch.cat((maps[:, :, :3] / each, maps[:, :, :3] @ first[:, None] + maps[:, :, 3:]), 2)
    start, lattice = (torch.zeros_like(each)[None], size) if window is None else (window[0].detach(), window[1])
    begin = (start.to(maps.dtype) - 0.5) * each + 0.5
    whole = [(length - 1) * many + 1 for length, many in zip(lattice, points, strict=True)]
    part, inside = (size, []) if block is None else (block.size, block.numbers)
    given = labels, finer, _field(maps, control), begin, list(part), whole, border, list(points), inside
    if implementation(impl, labels.device) == "reference" or needs_grad(labels):
        return reference.majority(*given)
    direct, forward, _ = cpu.MAJORITY
    return (direct if is_plain_eager() else forward)(*given)


def _field(src_from_dst: Tensor, control: Tensor | None) -> Tensor | None:
    linear = src_from_dst[:, :, :3]
    return None if control is None else (linear @ control.flatten(2).to(linear.dtype)).unflatten(2, control.shape[2:])


_VOLUME = Primitive("volume", reference.volume, *cpu.VOLUME)
