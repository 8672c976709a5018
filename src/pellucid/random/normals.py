"""Normal numbers from random words, by arithmetic with the same result on every device.

Owns: the Box-Muller map, and the three series it needs.
Must not: use a library's logarithm or cosine: those differ between devices, and so would the noise.
Read next: ``../kernels/blend/reference.py``.

Every processor rounds sums, products, quotients and square roots the same way, and the CPU, the GPU and the compiled kernel do the
same operations in the same order. So float32 numbers are equal bit for bit, and float64 numbers up to one rounding of the square
root. (A compiler that fuses a product with a sum also differs by a rounding.)
"""

from __future__ import annotations

from math import factorial, log, pi, sqrt

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from pellucid.core.constants import wide_dtype

__all__ = ["HALF_PI", "LOG_2", "ROOT_HALF", "SHIFTS", "normal_pairs", "series"]

LOG_2, HALF_PI, ROOT_HALF = log(2.0), pi / 2.0, sqrt(0.5)
SHIFTS = (16, 8, 4, 2, 1)
"""Exponents of the powers of two by which a small number is scaled up, one after the other."""


def series(dtype: torch.dtype) -> tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]:
    """Return Taylor coefficients, the highest first: of 2 artanh(s) / s in s^2 for |s| <= 0.172, and of sin(x) / x and cos(x) in
    x^2 for |x| <= pi / 4. The omitted terms are below half a unit in the last place.
    """
    artanh, sine, cosine = (11, 9, 10) if dtype == torch.float64 else (5, 5, 6)
    return (
        tuple(2.0 / (2 * n + 1) for n in reversed(range(artanh))),
        tuple((-1.0) ** n / factorial(2 * n + 1) for n in reversed(range(sine))),
        tuple((-1.0) ** n / factorial(2 * n) for n in reversed(range(cosine))),
    )


def normal_pairs(words: Int64[Tensor, "*grid 4"], dtype: torch.dtype) -> Float[Tensor, "*grid 4"]:
    """Map the upper 24 bits of every four words to four standard normal values (Box-Muller).

    Source:
        ``torch.log``, ``torch.cos`` and ``torch.sin`` in float64 (``tests/draws/test_normals.py``).
    """
    u = ((words >> 8).to(dtype) + 0.5) * 2.0**-24  # 24 bits are exact in float32; only the added half may be rounded
    artanh, sine, cosine = series(dtype)
    radius = _root(-2.0 * _log(u[..., 0::2], artanh))
    cos, sin = _turned(u[..., 1::2], sine, cosine)
    return torch.stack((radius * cos, radius * sin), dim=-1).flatten(-2)


def _root(x: Tensor) -> Tensor:
    """Return the square root, correctly rounded in float32: torch's on the CPU may be off by a unit in some vector lanes."""
    return torch.sqrt(x.to(wide_dtype(x.device))).to(x.dtype)


def _log(u: Tensor, coefficients: tuple[float, ...]) -> Tensor:
    """The logarithm of numbers in [2^-31, 1]."""
    power = torch.zeros_like(u)
    for shift in SHIFTS:
        small = u < 2.0**-shift
        u, power = torch.where(small, u * 2.0**shift, u), torch.where(small, power - shift, power)
    small = u < ROOT_HALF
    u, power = torch.where(small, u * 2.0, u), torch.where(small, power - 1.0, power)  # u in [0.7, 1.4]
    s = (u - 1.0) / (u + 1.0)
    return power * LOG_2 + s * _horner(s * s, coefficients)


def _turned(u: Tensor, sine: tuple[float, ...], cosine: tuple[float, ...]) -> tuple[Tensor, Tensor]:
    """Cosine and sine of u turns, for u in (0, 1]."""
    t = 4.0 * u
    quarter = torch.floor(t + 0.5)  # 0 to 4
    x = (t - quarter) * HALF_PI
    square = x * x
    s, c = x * _horner(square, sine), _horner(square, cosine)
    odd, left = (quarter == 1.0) | (quarter == 3.0), (quarter == 1.0) | (quarter == 2.0)
    low = (quarter == 2.0) | (quarter == 3.0)
    cos, sin = torch.where(odd, s, c), torch.where(odd, c, s)
    return torch.where(left, -cos, cos), torch.where(low, -sin, sin)


def _horner(x: Tensor, coefficients: tuple[float, ...]) -> Tensor:
    total = torch.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        total = total * x + coefficient
    return total
