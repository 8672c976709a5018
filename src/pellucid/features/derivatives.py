"""Gaussian smoothing and derivatives of grey images, as correlations with separable kernels.

Owns: the kernels, which are exact on constants, ramps and parabolas at any truncation, and the check for a grey image.
Must not: combine derivatives into responses; see ``classical.py``.
Read next: ``classical.py``.
"""

import math
from collections.abc import Sequence

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from pellucid.core.constants import constant
from pellucid.errors import invalid
from pellucid.nn.moments import check_float

__all__ = ["check_grey", "check_sigma", "gaussian_derivatives", "gaussian_kernel", "sobel_derivatives"]

Order = tuple[int, int]
"""How often to differentiate, along (y, x)."""


def check_grey(name: str, image: Tensor) -> None:
    """Raise unless ``image`` is floating-point (B, 1, H, W) with at least one pixel."""
    check_float(name, image)
    if image.ndim != 4 or image.shape[1] != 1 or 0 in image.shape[-2:]:
        fix = "Use pellucid.functional.rgb_to_grayscale for colours."
        raise invalid(name, expected="shape (B, 1, H, W)", got=tuple(image.shape), fix=fix)


def check_sigma(name: str, sigma: float) -> None:
    """Raise unless a Gaussian of this standard deviation is wide enough to be sampled."""
    if not 0.4 <= sigma < math.inf:
        raise invalid(name, expected="a standard deviation of at least 0.4 pixels", got=sigma)


def gaussian_kernel(sigma: float, order: int = 0, *, truncate: float = 4.0) -> list[float]:
    """Sample a Gaussian or its first or second derivative, to be *correlated* with an image.

    The moments are corrected after truncation: smoothing keeps constants, the first derivative of ``x`` is exactly 1, and the
    second of ``x^2 / 2`` is exactly 1 while that of a constant is 0.

    Example:
        >>> gaussian_kernel(0.5, 1, truncate=2)
        [-0.5, 0.0, 0.5]
    """
    reach = max(1, int(truncate * sigma + 0.5))
    places = range(-reach, reach + 1)
    bell = [math.exp(-0.5 * (x / sigma) ** 2) for x in places]
    total = sum(bell)
    bell = [value / total for value in bell]
    if order == 0:
        return bell
    if order == 1:
        slope = [x * b for x, b in zip(places, bell, strict=True)]
        return [s / sum(x * s for x, s in zip(places, slope, strict=True)) for s in slope]
    if order == 2:
        spread = sum(x * x * b for x, b in zip(places, bell, strict=True))
        bend = [(x * x - spread) * b for x, b in zip(places, bell, strict=True)]
        return [v / sum(x * x * w / 2 for x, w in zip(places, bend, strict=True)) for v in bend]
    raise invalid("order", expected="0, 1 or 2", got=order)


def gaussian_derivatives(
    image: Float[Tensor, "b c h w"], sigma: float, orders: Sequence[Order] = ((0, 1), (1, 0)), *, truncate: float = 4.0
) -> Float[Tensor, "b c k h w"]:
    """Differentiate an image smoothed by a Gaussian; the border pixels repeat outside.

    Args:
        image: any channels, each on its own.
        sigma: standard deviation in pixels.
        orders: how often along (y, x), one pair per result; ``(0, 0)`` only smooths.
        truncate: radius of the kernel in standard deviations.

    Gradient:
        image: exact, to any order.
    Source:
        ``scipy.ndimage.gaussian_filter(order=..., mode="nearest")``, ``tests/features/test_derivatives.py``.

    Example:
        >>> import torch
        >>> ramp = torch.arange(9.0).expand(1, 1, 9, 9)
        >>> gaussian_derivatives(ramp, 0.5)[0, 0, :, 4, 4].round().tolist()  # d/dx, d/dy
        [1.0, -0.0]
    """
    check_sigma("sigma", sigma)
    per_axis = [sorted({order[axis] for order in orders}) for axis in (0, 1)]
    horizontal = [gaussian_kernel(sigma, order, truncate=truncate) for order in per_axis[1]]
    # One vertical kernel per result, on the row-filtered image it needs and zero on the others.
    silent = [0.0] * len(horizontal[0])
    vertical = [
        [gaussian_kernel(sigma, along_y, truncate=truncate) if x == along_x else silent for x in per_axis[1]]
        for along_y, along_x in orders
    ]
    flat = [tap for row in vertical for kernel in row for tap in kernel]
    taps = len(silent)
    rows = constant([tap for kernel in horizontal for tap in kernel], image.dtype, image.device).reshape(-1, 1, 1, taps)
    columns = constant(flat, image.dtype, image.device).reshape(len(orders), len(horizontal), taps, 1)
    b, c, h, w = image.shape
    padded = F.pad(image.reshape(b * c, 1, h, w), [taps // 2] * 4, mode="replicate")
    return F.conv2d(F.conv2d(padded, rows), columns).reshape(b, c, len(orders), h, w)


def sobel_derivatives(image: Float[Tensor, "b c h w"]) -> Float[Tensor, "b c 2 h w"]:
    """Return (d/dx, d/dy) by 3x3 Sobel filters scaled to slope 1 on a ramp; the border pixels repeat outside.

    Gradient:
        image: exact.
    Source:
        ``scipy.ndimage.sobel(mode="nearest") / 8``.
    """
    across = constant((-1, 0, 1, -2, 0, 2, -1, 0, 1), image.dtype, image.device).reshape(3, 3) / 8
    b, c, h, w = image.shape
    padded = F.pad(image.reshape(b * c, 1, h, w), [1] * 4, mode="replicate")
    kernels = constant((1.0, 0.0, 0.0, 1.0), image.dtype, image.device).reshape(2, 2, 1, 1)
    both = kernels[:, :1] * across + kernels[:, 1:] * across.T  # 2 1 3 3
    return F.conv2d(padded, both).reshape(b, c, 2, h, w)
