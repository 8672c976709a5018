"""Images as users hold them, and as the kernels want them.

Owns: ranks, layouts and dtypes at the edge of every function here: (C, H, W) or (B, C, H, W), channels last on request.
Must not: compute on pixels beyond the rounding of 8-bit results.
Read next: ``fills.py``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from pellucid.core.axes import CHANNELS_FIRST, check_axes
from pellucid.core.constants import compute_dtype
from pellucid.errors import invalid, wrong_type
from pellucid.functional.fills import Factor, read_factor
from pellucid.types import FLOATING, ImageSpec

__all__ = [
    "CHANNELS_LAST", "Layout", "close_image", "close_unit", "compute_dtype", "join_batch", "open_image", "open_unit", "open_with",
    "read_dtype", "require_channels", "require_float", "spec_of", "to_compute",
]  # fmt: skip


CHANNELS_LAST = ", or channels_last=True; channels_last=False takes the axes as they stand"
"""What errors about the order of axes add in functions that have this option."""


class Layout(NamedTuple):
    """The caller's batch axis, order of axes and dtype."""

    batched: bool
    channels_last: bool
    dtype: torch.dtype


def open_image(image: object, *, channels_last: bool | None = None, option: str = "") -> tuple[Shaped[Tensor, "b c h w"], Layout]:
    """Check an image and view it as (B, C, H, W) in its own dtype.

    Args:
        image: what the caller gave.
        channels_last: whether its channels are the last axis; None takes them as first, and raises for shapes that look otherwise.
        option: what the caller could pass instead of moving axes, as `check_axes` wants it.
    """
    if not isinstance(image, Tensor):
        fix = f"{CHANNELS_FIRST}."
        raise wrong_type("image", expected="a tensor", got=type(image).__name__, fix=fix)
    axes = ("(H, W, C)", "(B, H, W, C)") if channels_last else ("(C, H, W)", "(B, C, H, W)")
    if image.dim() not in (3, 4):
        fix = "A single grey picture is image[None]." if image.dim() == 2 else "Flatten further leading axes into the first."
        raise invalid("image", expected=f"{axes[0]} or {axes[1]}", got=f"shape {tuple(image.shape)}", fix=fix)
    if image.dtype.is_complex:
        raise wrong_type("image", expected="floating-point or integer pixels", got=image.dtype)
    if channels_last is None:
        check_axes("image", image.shape, option=option)
    if image.is_floating_point() and image.dtype not in FLOATING:
        fix = "Use .float(): torch only stores these."
        raise wrong_type("image", expected="float16, bfloat16, float32, float64 or integer pixels", got=image.dtype, fix=fix)
    batched = image.dim() == 4
    if not torch.compiler.is_compiling():
        image = image.resolve_neg()  # kernels read memory, and would miss torch's bit for a pending negation
    pixels = image if batched else image[None]
    pixels = pixels.permute(0, 3, 1, 2) if channels_last else pixels
    if min(pixels.shape[1:]) < 1:
        expected = f"at least one channel, row and column in {axes[batched]}"
        raise invalid("image", expected=expected, got=f"shape {tuple(image.shape)}")
    return pixels, Layout(batched, bool(channels_last), image.dtype)


def spec_of(image: object, channels_last: bool | None = None, option: str = "") -> ImageSpec:
    """Channels, height and width of an image that `open_image` takes."""
    return ImageSpec(*open_image(image, channels_last=channels_last, option=option)[0].shape[1:])


def require_float(image: object, why: str) -> None:
    """Raise unless the pixels are floating point."""
    if isinstance(image, Tensor) and not image.dtype.is_floating_point:
        fix = "image / 255 makes them of 8-bit ones."
        raise wrong_type("image", expected=f"floating-point pixels ({why})", got=image.dtype, fix=fix)


def require_channels(pixels: Shaped[Tensor, "b c h w"], allowed: tuple[int, ...], why: str) -> None:
    """Raise unless the image has one of these numbers of channels."""
    if pixels.shape[1] not in allowed:
        numbers = " or ".join(map(str, allowed))
        raise invalid("image", expected=f"{numbers} channels ({why})", got=f"{pixels.shape[1]} channels")


def to_compute(pixels: Shaped[Tensor, "b c h w"]) -> Float[Tensor, "b c h w"]:
    """Pixels in the dtype of the arithmetic, in their own units; integers other than 8-bit are refused."""
    require_averageable(pixels)
    return pixels.to(compute_dtype(pixels.dtype))


def require_averageable(pixels: Shaped[Tensor, "b c h w"]) -> None:
    """Raise unless the image has floating-point or 8-bit pixels."""
    if not pixels.dtype.is_floating_point and pixels.dtype != torch.uint8:
        fix = "Convert it, or use interpolation='nearest' where there is one: labels must not be averaged."
        raise wrong_type("image", expected="floating-point or uint8 pixels", got=pixels.dtype, fix=fix)


def read_dtype(pixels: Shaped[Tensor, "b c h w"], interpolation: str) -> tuple[torch.dtype | None, Tensor]:
    """The dtype that a warp must return (None for labels, which it copies), and a tensor with the dtype that fills must have."""
    if interpolation == "nearest" and not pixels.dtype.is_floating_point:
        return None, pixels
    require_averageable(pixels)
    return pixels.dtype, pixels.new_empty((0,), dtype=compute_dtype(pixels.dtype))


def close_image(pixels: Shaped[Tensor, "b c h w"], layout: Layout) -> Shaped[Tensor, "..."]:
    """Return pixels to the caller's dtype (8-bit values are rounded and clipped) and layout."""
    if layout.dtype == torch.uint8 and pixels.dtype != torch.uint8:
        pixels = torch.round(torch.clamp(pixels, 0.0, 255.0))
    pixels = pixels.to(layout.dtype)
    pixels = pixels.permute(0, 2, 3, 1) if layout.channels_last else pixels
    return pixels if layout.batched else pixels[0]


def open_with(
    image: object, numbers: Mapping[str, tuple[Factor, float, float]]
) -> tuple[Shaped[Tensor, "b c h w"], Layout, list[Float[Tensor, "b_or_1"]]]:
    """Open an image with `open_image`, and read each named number (value, least, most), one for all images or one for each."""
    (pixels, layout), read = open_image(image), []
    for name, (value, low, high) in numbers.items():
        if isinstance(value, int | float) and not low <= value <= high:
            expected = f"a number >= {low:g}" if high == math.inf else f"a number from {low:g} to {high:g}"
            raise invalid(name, expected=expected, got=value)
        number, batched = read_factor(name, value, device=pixels.device)
        pixels, layout = join_batch(pixels, layout, name, number.shape[0], batched)
        read.append(number)
    return pixels, layout, read


def open_unit(pixels: Shaped[Tensor, "b c h w"]) -> Tensor:
    """Pixels for the arithmetic, 8-bit values as parts of 255."""
    work = to_compute(pixels)
    return work if pixels.dtype.is_floating_point else work * (1.0 / 255.0)


def close_unit(work: Tensor, layout: Layout) -> Tensor:
    """Return to the caller's units, dtype and layout."""
    return close_image(work if layout.dtype.is_floating_point else work * 255.0, layout)


def join_batch(pixels: Shaped[Tensor, "b c h w"], layout: Layout, name: str, count: int, batched: bool) -> tuple[Tensor, Layout]:
    """Expand one image to many parameters, or let one parameter serve many images; the result is batched if either is."""
    images = pixels.shape[0]
    if count not in (1, images) and images != 1:
        raise invalid(name, expected=f"1 or {images} of them, as there are {images} images", got=count)
    if images == 1 and count != 1:
        pixels = pixels.expand(count, -1, -1, -1)
    return pixels, layout._replace(batched=layout.batched or batched)
