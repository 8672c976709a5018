"""Gradients that reach further than the pixels a warp reads: how slopes are blurred, and how the image's gradient is widened.

Owns: `anneal`, and reading `gradient_scale` and `image_gradient` at the edge.
Must not: blur; the kernels do.
Read next: ``../kernels/softened.py``.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from pellucid.core.arguments import check_choice
from pellucid.errors import invalid
from pellucid.functional.fills import Factor, read_factor
from pellucid.functional.images import Layout, join_batch
from pellucid.kernels.softened import WIDEST, widened

__all__ = ["anneal", "reached", "read_scale"]


def anneal(start: float, steps: int, *, end: float = 0.5) -> Float[Tensor, "steps"]:
    """Scales for `gradient_scale`, one for each step of a descent: from ``start`` pixels down to ``end`` by equal ratios.

    Rows of a tensor are tensors, so a compiled step is compiled once.

    Args:
        start: the first scale in pixels, > 0; about half the largest shift to correct, at most 16.
        steps: how many steps, >= 1.
        end: the last scale, in (0, start].

    Returns:
        (steps,), to be iterated over.

    Example:
        >>> anneal(8.0, 5)
        tensor([8.0000, 4.0000, 2.0000, 1.0000, 0.5000])
    """
    if not 0 < start <= WIDEST:
        raise invalid("start", expected=f"pixels, a number > 0 and at most {WIDEST:g}", got=start)
    if not isinstance(steps, int) or isinstance(steps, bool) or steps < 1:
        raise invalid("steps", expected="a whole number of at least 1", got=repr(steps))
    if not 0 < end <= start:
        raise invalid("end", expected="a number > 0 and at most start", got=end)
    share = torch.arange(steps, dtype=torch.float64, device="cpu") / max(steps - 1, 1)
    return (start * (end / start) ** share).to(torch.float32)


def read_scale(value: Factor, device: torch.device) -> tuple[Float[Tensor, "b_or_1"] | None, bool]:
    """``gradient_scale`` as a tensor, and whether the caller gave a batch; the number 0 is None: nothing is blurred."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not 0 <= value <= WIDEST:
            raise invalid("gradient_scale", expected=f"pixels, from 0 to {WIDEST:g}", got=value)
        if value == 0:
            return None, False
    scale, batched = read_factor("gradient_scale", value, device=device)
    return scale.detach(), batched


def reached(
    pixels: Shaped[Tensor, "b c h w"], layout: Layout, gradient_scale: Factor, image_gradient: str
) -> tuple[Shaped[Tensor, "b c h w"], Layout, Float[Tensor, "b_or_1"] | None]:
    """The image with the gradient that ``image_gradient`` names, and the scale at which slopes to coordinates are read."""
    check_choice("image_gradient", image_gradient, ("exact", "widened"))
    if image_gradient == "widened" and pixels.is_floating_point():
        pixels = widened(pixels)
    scale, batched = read_scale(gradient_scale, pixels.device)
    if scale is not None:
        pixels, layout = join_batch(pixels, layout, "gradient_scale", scale.shape[0], batched)
    return pixels, layout, scale
