"""Lossy codecs.

Owns: `jpeg`.
Must not: hold arithmetic of its own; the codec kernels do.
Read next: ``../kernels/codec/reference.py``.
"""

from __future__ import annotations

from jaxtyping import Shaped
from torch import Tensor

from pellucid.core.formerly import formerly
from pellucid.errors import invalid
from pellucid.functional.fills import Factor
from pellucid.functional.images import close_unit, open_unit, open_with, require_channels
from pellucid.kernels import codec
from pellucid.transforms.base import check_choice

__all__ = ["jpeg"]

_SUBSAMPLINGS = ("4:2:0", "4:2:2", "4:4:4")
_IMAGE_GRADIENTS = ("proximity", "cubic", "straight_through", "none")


@formerly(magnitude="surrogate")
def jpeg(
    image: Shaped[Tensor, "*b c h w"],
    quality: Factor,
    *,
    subsampling: str = "4:2:0",
    image_gradient: str = "proximity",
    surrogate: str = "secant",
    h: float = 5.0,
) -> Shaped[Tensor, "*b c h w"]:
    """Encode as JPEG and decode again: bit for bit as if Pillow had written a file and read it.

    Args:
        image: (C, H, W) or (B, C, H, W) with one or three channels: floating point in [0, 1], which is brought to 8 bits first, or
            uint8.
        quality: 1 to 100, rounded to a whole number; a number or a tensor () or (B,).
        subsampling: of the colour differences: ``4:2:0`` (halves in both axes), ``4:2:2`` (half the columns) or ``4:4:4``.
        image_gradient: slope of a coefficient's rounding: ``proximity`` (a Gaussian of 0.2 steps at each jump, which is where
            a coefficient can change), ``cubic`` (3 d^2 at distance d from the stored value), ``straight_through`` (1) or
            ``none`` (zero).
        surrogate: gradient to the quality: ``secant`` (the difference of the results at ``quality + h`` and ``quality - h``) or
            ``none`` (zero).
        h: reach of the secant.

    Gradient:
        image: surrogate as chosen, zero where clipped. quality: surrogate as chosen. Second order: of the surrogate.

    Source:
        ITU-T T.81; libjpeg's slow integer transform with triangular upsampling (oracle: Pillow). ``cubic``: Shin and Song,
        "JPEG-resistant adversarial images", 2017.

    Example:
        >>> jpeg(torch.tensor([[[0, 40, 80, 120, 160, 200, 240, 255]]], dtype=torch.uint8), 30)
        tensor([[[  0,  40,  86, 120, 158, 205, 242, 255]]], dtype=torch.uint8)
    """
    check_choice("subsampling", subsampling, _SUBSAMPLINGS)
    check_choice("image_gradient", image_gradient, _IMAGE_GRADIENTS)
    check_choice("surrogate", surrogate, ("secant", "none"))
    if not h > 0:
        raise invalid("h", expected="a reach > 0", got=h)
    pixels, layout, (amount,) = open_with(image, {"quality": (quality, 1.0, 100.0)})
    require_channels(pixels, (1, 3), "grey or RGB")
    work = open_unit(pixels)
    result = codec.jpeg(work, amount, subsampling=subsampling, image_gradient=image_gradient, surrogate=surrogate, h=float(h))
    return close_unit(result, layout)
