"""The shapes, dtypes and reductions that all losses on maps share.

Owns: the checks at the public edge and the three reductions.
Must not: hold any loss.
Read next: ``hausdorff_erosion.py``.
"""

import math
from typing import Literal, get_args

import torch
from torch import Tensor

from pellucid.errors import invalid, wrong_type

__all__ = ["Reduction", "check_count", "check_maps", "reduce", "working_dtype"]

Reduction = Literal["mean", "sum", "none"]


def check_maps(prediction: Tensor, target: Tensor, reduction: str, alpha: float) -> None:
    """Raise unless both are (B, C, H, W) or (B, C, D, H, W) of one shape, with pixels, and the prediction is floating point."""
    for name, value in (("prediction", prediction), ("target", target)):
        if not isinstance(value, Tensor):
            raise wrong_type(name, expected="a tensor", got=type(value).__name__)
    if not prediction.is_floating_point():
        fix = "Apply sigmoid or softmax."
        raise wrong_type("prediction", expected="floating-point probabilities", got=prediction.dtype, fix=fix)
    if prediction.ndim not in (4, 5):
        raise invalid("prediction", expected="shape (B, C, H, W) or (B, C, D, H, W)", got=tuple(prediction.shape))
    if 0 in prediction.shape[2:]:
        raise invalid("prediction", expected="maps of at least one pixel", got=tuple(prediction.shape))
    if target.shape != prediction.shape:
        fix = "Turn class labels into masks with torch.nn.functional.one_hot(labels).movedim(-1, 1)."
        raise invalid("target", expected=f"one mask per channel, shape {tuple(prediction.shape)}", got=tuple(target.shape), fix=fix)
    if reduction not in get_args(Reduction):
        raise invalid("reduction", expected="'mean', 'sum' or 'none'", got=repr(reduction))
    if not isinstance(alpha, int | float) or not 0 <= alpha < math.inf:
        raise invalid("alpha", expected="a finite number that is not negative", got=repr(alpha))


def check_count(name: str, value: int) -> None:
    """Raise unless ``value`` is a whole number of at least 1."""
    if not isinstance(value, int) or value < 1:
        raise invalid(name, expected="a whole number, at least 1", got=repr(value))


def reduce(per_channel: Tensor, reduction: Reduction) -> Tensor:
    """Reduce one number per image and channel, or per descriptor."""
    if reduction == "none":
        return per_channel
    return per_channel.mean() if reduction == "mean" else per_channel.sum()


def working_dtype(prediction: Tensor) -> torch.dtype:
    """Return float32 for half-precision maps: sums over an image do not fit 11 bits."""
    return torch.promote_types(prediction.dtype, torch.float32)
