"""The colour of black bodies.

Owns: a black body's chromaticity at a temperature, and its light's red, green and blue.
Must not: see pixels.
Read next: ``maps.py``.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["LIMITS", "chromaticity_of", "gains_of"]

LIMITS = (2000.0, 25000.0)
"""In kelvin: below, a black body has no blue that sRGB could hold; above, the fit ends."""

# Cubics from 1000 K / T to x, and from x to y, the highest power first (Kim et al., 2002).
_WARM_X, _COLD_X = (-0.2661239, -0.2343589, 0.8776956, 0.179910), (-3.0258469, 2.1070379, 0.2226347, 0.240390)
_RED_Y, _WARM_Y = (-1.1063814, -1.34811020, 2.18555832, -0.20219683), (-0.9549476, -1.37418593, 2.09137015, -0.16748867)
_COLD_Y = (3.0817580, -5.87338670, 3.75112997, -0.37001483)
_RGB_FROM_XYZ = ((3.2406, -1.5372, -0.4986), (-0.9689, 1.8758, 0.0415), (0.0557, -0.2040, 1.0570))  # IEC 61966-2-1


def _cubic(x: Tensor, coefficients: tuple[float, ...]) -> Tensor:
    a, b, c, d = coefficients
    return ((a * x + b) * x + c) * x + d


def chromaticity_of(temperature: Float[Tensor, "*b"]) -> tuple[Float[Tensor, "*b"], Float[Tensor, "*b"]]:
    """CIE 1931 (x, y) of a black body, for temperatures in kelvin from 1667 to 25000.

    Gradient:
        temperature: exact, but for the joints of the fit at 2222 K and 4000 K.
    Source:
        Kim et al., 2002 (oracle: CIE illuminants).
    """
    inverse = 1000.0 / temperature
    cold, red = temperature > 4000.0, temperature < 2222.0
    x = torch.where(cold, _cubic(inverse, _COLD_X), _cubic(inverse, _WARM_X))
    return x, torch.where(cold, _cubic(x, _COLD_Y), torch.where(red, _cubic(x, _RED_Y), _cubic(x, _WARM_Y)))


def gains_of(temperature: Float[Tensor, "b"]) -> Float[Tensor, "b 3"]:
    """The light's red, green and blue in linear sRGB, relative to its green.

    Gradient:
        temperature: exact, but for the joints of the fit.
    """
    x, y = chromaticity_of(temperature)
    light = [(r * x + g * y + b * (1.0 - x - y)) / y for r, g, b in _RGB_FROM_XYZ]  # at luminance 1
    return torch.stack([channel / light[1] for channel in light], -1)
