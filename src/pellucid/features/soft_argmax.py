"""Locate a window's maximum as a weighted average, which gradients pass through.

Owns: the soft-argmax, its temperature, and the constants in its gradient.
Must not: choose windows.
Read next: ``keypoints.py``, ``covariant_loss.py``.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pellucid.errors import invalid

__all__ = ["soft_argmax", "soft_weights", "window_offsets"]


def window_offsets(height: int, width: int, like: Tensor) -> Float[Tensor, "hw 2"]:
    """Return (x, y) of each pixel of a window, row by row, relative to its centre."""
    y = torch.arange(height, dtype=like.dtype, device=like.device) - (height - 1) / 2
    x = torch.arange(width, dtype=like.dtype, device=like.device) - (width - 1) / 2
    return torch.stack((x.expand(height, width), y[:, None].expand(height, width)), dim=-1).reshape(-1, 2)


def soft_weights(
    values: Float[Tensor, "*b n"], *, temperature: float, inside: Bool[Tensor, "*#b n"] | None = None
) -> Float[Tensor, "*b n"]:
    """Return the softmax of values in units of their own range, which is a constant in the gradient.

    Args:
        values: responses, in any units: a common factor changes nothing.
        temperature: a difference of this share of the range (highest minus lowest) is a factor e in the weights.
        inside: False marks values that are ignored. If all are ignored, all weights are equal.

    Gradient:
        values: exact for a range held constant. Finite on flat windows.
    """
    if not temperature > 0:
        raise invalid("temperature", expected="a positive share of the window's range", got=temperature)
    known = torch.isfinite(values) if inside is None else torch.isfinite(values) & inside
    known = known | ~known.any(-1, keepdim=True)  # in an empty window, all values count equally
    values = torch.where(torch.isfinite(values), values, 0.0)
    fixed = values.detach()
    top = torch.where(known, fixed, -torch.inf).amax(-1, keepdim=True)
    span = top - torch.where(known, fixed, torch.inf).amin(-1, keepdim=True)
    # Below this a window is flat: dividing by its range would only magnify rounding.
    flat = span <= 16 * torch.finfo(values.dtype).eps * top.abs() + torch.finfo(values.dtype).tiny
    logits = (values - top) / (temperature * torch.where(flat, 1.0, span))
    return torch.where(known, torch.where(flat, logits * 0, logits), -torch.inf).softmax(-1)


def soft_argmax(
    windows: Float[Tensor, "*b h w"], *, temperature: float = 0.15, inside: Bool[Tensor, "*#b h w"] | None = None
) -> Float[Tensor, "*b 2"]:
    """Return the offset (x, y) from a window's centre to its maximum, in pixels, with sub-pixel precision.

    Args:
        windows: responses.
        temperature: see :func:`soft_weights`. At 0.15 and 5x5 a Gaussian peak of sigma 1.5 to 5 px is found to within 0.04 px;
            higher is smoother and pulls to the centre, lower pulls to the nearest pixel.
        inside: False marks pixels that are ignored.

    Returns:
        The offset in pixels, within the window.

    Gradient:
        windows: exact for the range (highest minus lowest value) held constant. Finite on flat windows, where the result is the
        centre. Second order: yes. Deterministic: yes.
    Errors:
        InvalidArgument for a temperature that is not positive.

    Example:
        >>> x, y = soft_argmax(torch.tensor([[0.0, 0, 0], [0, 1, 1], [0, 0, 0]]), temperature=0.1)
        >>> x, abs(y) < 1e-6
        (tensor(0.4999), tensor(True))
    """
    height, width = windows.shape[-2:]
    weights = soft_weights(
        windows.flatten(-2), temperature=temperature, inside=None if inside is None else inside.flatten(-2)
    )  # *b hw
    return weights @ window_offsets(height, width, windows)
