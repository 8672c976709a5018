"""Affine maps as 3x3 matrices, differentiable in their parameters, exact at flips and quarter turns.

Owns: the matrices' conventions (counter-clockwise positive on screen, y down), and homographies from four points in closed form.
Must not: know of images beyond a centre, or call a linear solver (it would sync, and not all of torch's transforms batch it).
Read next: ``points.py``.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = [
    "affine_src_from_dst", "cos_sin_degrees", "from_rows", "inverse", "quad_from_quad", "quad_from_unit_square", "scale_shift",
    "tangent_degrees",
]  # fmt: skip

RADIANS = torch.pi / 180.0


def from_rows(*entries: Tensor | float) -> Float[Tensor, "*b 3 3"]:
    """Assemble 3x3 matrices from six entries (two rows; the last is 0 0 1) or nine."""
    like = next(entry for entry in entries if isinstance(entry, Tensor))
    if len(entries) == 6:
        zero = torch.zeros_like(like)
        entries = (*entries, zero, zero, torch.ones_like(like))
    columns = [entry if isinstance(entry, Tensor) else torch.full_like(like, entry) for entry in entries]
    return torch.stack(columns, -1).unflatten(-1, (3, 3))


def scale_shift(
    scale_x: Tensor | float, shift_x: Tensor | float, scale_y: Tensor | float, shift_y: Tensor | float, like: Tensor
) -> Float[Tensor, "*b 3 3"]:
    """Scale and shift each axis: x -> scale x + shift. ``like`` gives dtype and device, and the shape when all four are numbers."""
    zero = next((v for v in (scale_x, shift_x, scale_y, shift_y) if isinstance(v, Tensor)), like)
    zero = torch.zeros_like(zero)
    return from_rows(scale_x, zero, shift_x, zero, scale_y, shift_y)


def cos_sin_degrees(degrees: Float[Tensor, "*b"]) -> tuple[Tensor, Tensor]:
    """Cosine and sine of an angle in degrees, exact at multiples of 90 and differentiable everywhere."""
    turns = torch.round(degrees / 90.0)
    rest = (degrees - 90.0 * turns) * RADIANS
    c, s = torch.cos(rest), torch.sin(rest)
    quarter = torch.remainder(turns, 4.0)
    odd = torch.remainder(turns, 2.0) == 1.0
    cosine, sine = torch.where(odd, s, c), torch.where(odd, c, s)
    negative_cosine = (quarter == 1.0) | (quarter == 2.0)
    return torch.where(negative_cosine, -cosine, cosine), torch.where(quarter >= 2.0, -sine, sine)


def tangent_degrees(degrees: Float[Tensor, "*b"]) -> Tensor:
    """Tangent of an angle in degrees."""
    return torch.tan(degrees * RADIANS)


def affine_src_from_dst(
    *,
    center: tuple[float, float],
    degrees: Tensor | None = None,
    translate: tuple[Tensor, Tensor] | None = None,
    shear: tuple[Tensor, Tensor] | None = None,
    scale: Tensor | tuple[Tensor, Tensor] | None = None,
) -> Float[Tensor, "b 3 3"]:
    """Invert translate . centre . rotate . shear . scale . -centre in closed form.

    Args:
        center: (x, y) in pixels.
        degrees: (b,), counter-clockwise on screen.
        translate: (x, y), each (b,), in pixels.
        shear: (x, y), each (b,), in degrees, with torchvision's signs.
        scale: (b,), or (x, y), each (b,), greater than 0.

    Gradient:
        every tensor: exact.
    Source:
        ``cv2.getRotationMatrix2D``; ``torchvision.transforms.functional.affine`` (whose angle has the opposite sign).
    """
    a: Tensor | float = 1.0
    b: Tensor | float = 0.0
    c: Tensor | float = 0.0
    d: Tensor | float = 1.0
    if shear is not None:
        tangent_x, tangent_y = tangent_degrees(shear[0]), tangent_degrees(shear[1])
        # (SHy SHx)^-1, whose determinant is 1
        a, b, c, d = 1.0 + tangent_x * tangent_y, tangent_x, tangent_y, 1.0
    if degrees is not None:
        # times the inverse of the counter-clockwise rotation (y down): [[cos, -sin], [sin, cos]]
        cosine, sine = cos_sin_degrees(degrees)
        if shear is None:
            a, b, c, d = cosine, -sine, sine, cosine
        else:
            a, b, c, d = a * cosine + b * sine, b * cosine - a * sine, c * cosine + d * sine, d * cosine - c * sine
    if scale is not None:
        shrink_x, shrink_y = (1.0 / along for along in (scale if isinstance(scale, tuple) else (scale, scale)))
        a, b, c, d = a * shrink_x, b * shrink_x, c * shrink_y, d * shrink_y
    x, y = center
    moved_x, moved_y = (x, y) if translate is None else (x + translate[0], y + translate[1])
    shift_x, shift_y = x - (a * moved_x + b * moved_y), y - (c * moved_x + d * moved_y)
    return from_rows(a, b, shift_x, c, d, shift_y)


def inverse(matrix: Float[Tensor, "*b 3 3"]) -> Float[Tensor, "*b 3 3"]:
    """Invert 3x3 matrices by cofactors: no host sync, no error; a singular matrix gives non-finite entries.

    Gradient:
        exact.
    """
    first, second, third = matrix.unbind(-2)
    cofactors = torch.stack(
        (torch.linalg.cross(second, third), torch.linalg.cross(third, first), torch.linalg.cross(first, second)), dim=-1
    )
    determinant = (first * cofactors[..., 0]).sum(-1)
    return cofactors / determinant[..., None, None]


def quad_from_unit_square(quad: Float[Tensor, "b 4 2"]) -> Float[Tensor, "b 3 3"]:
    """Return the homography that sends (0,0), (1,0), (1,1), (0,1) to the corners of ``quad`` in that order.

    Gradient:
        exact; non-finite entries for a degenerate quadrilateral.
    Source:
        Heckbert, "Fundamentals of Texture Mapping and Image Warping", 1989, section 2.2.3.
    """
    x, y = quad.unbind(-1)  # b 4
    (x0, x1, x2, x3), (y0, y1, y2, y3) = x.unbind(-1), y.unbind(-1)
    sum_x, sum_y = x0 - x1 + x2 - x3, y0 - y1 + y2 - y3
    right_x, right_y, left_x, left_y = x1 - x2, y1 - y2, x3 - x2, y3 - y2
    area = right_x * left_y - left_x * right_y
    g = (sum_x * left_y - left_x * sum_y) / area
    h = (right_x * sum_y - sum_x * right_y) / area
    one = torch.ones_like(g)
    return from_rows(x1 - x0 + g * x1, x3 - x0 + h * x3, x0, y1 - y0 + g * y1, y3 - y0 + h * y3, y0, g, h, one)


def quad_from_quad(source: Float[Tensor, "b 4 2"], target: Float[Tensor, "b 4 2"]) -> Float[Tensor, "b 3 3"]:
    """Return the homography that sends each corner of ``source`` to that of ``target``, scaled so that the last entry is 1.

    Gradient:
        exact to both.
    Source:
        ``cv2.getPerspectiveTransform``.
    """
    target_from_source = quad_from_unit_square(target) @ inverse(quad_from_unit_square(source))
    return target_from_source / target_from_source[..., 2:, 2:]
