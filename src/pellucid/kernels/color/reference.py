"""Pointwise colour stages in plain PyTorch.

Owns: one function per stage, `compose`, which mixes channels, coverage and fill, and torchvision's chain of clipped steps.
Must not: know in which order a pipeline wants them.
Read next: ``../curve/reference.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float, Int64, Shaped
from torch import Tensor

from pellucid.color.hsv import shift_hue
from pellucid.color.luma import LUMA_TORCHVISION
from pellucid.core.constants import constant, full_precision
from pellucid.kernels.jumps import curved
from pellucid.segments.chain import AffineStage, CurveStage, HueStage, Stage

__all__ = ["affine", "clip", "compose", "hue", "jitter_steps", "stages"]


def compose(total: Tensor, covered: Tensor, fill: Tensor | None, matrix: Tensor | None, offset: Tensor | None) -> Tensor:
    """Matrix @ s + offset c + fill (1 - c), for b c n."""
    if matrix is not None:
        total = _mix_channels(matrix, total)
    if offset is not None:
        total = total + offset[:, :, None] * covered
    if fill is not None:
        total = total + fill[:, :, None] * (1.0 - covered)
    return total


def _mix_channels(matrix: Float[Tensor, "#b c2 c"], pixels: Float[Tensor, "#b c n"]) -> Float[Tensor, "b c2 n"]:
    """A channel mix in full precision: elementwise, because a matmul may run in TF32 and would not keep 1 * x exact."""
    if pixels.shape[1] > 4:
        with full_precision(pixels.device):
            return torch.matmul(matrix, pixels)
    mixed = matrix[:, :, 0, None] * pixels[:, 0, None]
    for channel in range(1, pixels.shape[1]):
        mixed = mixed + matrix[:, :, channel, None] * pixels[:, channel, None]
    return mixed


def affine(
    image: Float[Tensor, "b c h w"], matrix: Float[Tensor, "#b c2 c"], offset: Float[Tensor, "#b c2"] | None
) -> Float[Tensor, "b c2 h w"]:
    """Matrix @ pixel + offset."""
    one = torch.ones((), dtype=image.dtype, device=image.device)
    return compose(image.flatten(2), one, None, matrix, offset).unflatten(-1, image.shape[-2:])


def hue(image: Float[Tensor, "b 3 h w"], hue_shift: Float[Tensor, "#b"]) -> Float[Tensor, "b 3 h w"]:
    """Rotate the hue; see :func:`pellucid.color.hsv.shift_hue`."""
    return shift_hue(image, hue_shift)


def clip(image: Float[Tensor, "b c h w"]) -> Float[Tensor, "b c h w"]:
    """Clip to [0, 1]; the gradient outside is zero."""
    return torch.clamp(image, 0.0, 1.0)


def stages(image: Shaped[Tensor, "b c h w"], sequence: Sequence[Stage]) -> Shaped[Tensor, "b c2 h w"]:
    """One stage after the other, in the image's dtype; labels have none."""
    dtype = image.dtype
    for stage in sequence:
        if isinstance(stage, AffineStage):
            image = affine(image, stage.matrix.to(dtype), None if stage.offset is None else stage.offset.to(dtype))
        elif isinstance(stage, HueStage):
            image = hue(image, stage.hue_shift.to(dtype))
        elif isinstance(stage, CurveStage):
            image = curved(image, stage.numbers.to(dtype), stage.how)
        else:
            image = clip(image)
    return image


def jitter_steps(
    image: Float[Tensor, "b c h w"], order: Int64[Tensor, "b 4"] | None, factors: Mapping[str, Float[Tensor, "b"]]
) -> Float[Tensor, "b c h w"]:
    """Brightness, contrast, saturation and hue one after the other, clipped to [0, 1] after each, as torchvision does.

    Args:
        image: values in [0, 1].
        order: for each sample the sequence of the four operations (0 brightness, 1 contrast, 2 saturation, 3 hue); None
            is 0, 1, 2, 3.
        factors: the operations that take part, by name.

    Gradient:
        image and factors: almost everywhere (kinks of clip and hue). The contrast's pivot is part of the graph.
    Source:
        ``torchvision.transforms.v2.functional.adjust_*``; its luma weights are used here.
    """
    channels = image.shape[1]
    weights = constant(LUMA_TORCHVISION if channels == 3 else (1.0 / channels,) * channels, image.dtype, image.device)
    names = ("brightness", "contrast", "saturation", "hue")
    for turn in range(4):
        if order is None:
            if names[turn] in factors:
                image = _step(image, names[turn], factors[names[turn]], weights)
            continue
        # Every sample may want another operation now: compute those that take part, and choose.
        chosen = image
        for number, name in enumerate(names):
            if name in factors:
                wanted = (order[:, turn] == number)[:, None, None, None]
                chosen = torch.where(wanted, _step(image, name, factors[name], weights), chosen)
        image = chosen
    return image


def _step(image: Tensor, name: str, factor: Float[Tensor, "b"], weights: Float[Tensor, "c"]) -> Tensor:
    if name == "hue":
        return clip(shift_hue(image, factor))
    scale = factor[:, None, None, None]
    if name == "brightness":
        return clip(scale * image)
    grey = (image * weights[:, None, None]).sum(1, keepdim=True)
    if name == "contrast":
        grey = grey.mean((-2, -1), keepdim=True)
    return clip(scale * image + (1.0 - scale) * grey)
