"""Homographies from four points, in closed form.

Owns: the map between two quadrilaterals.
Must not: call a linear solver (it would sync, and does not batch under every transform of torch).
Read next: ``points.py``.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.geometry.matrices import from_rows, inverse

__all__ = ["quad_from_quad", "quad_from_unit_square"]


def quad_from_unit_square(quad: Float[Tensor, "b 4 2"]) -> Float[Tensor, "b 3 3"]:
    """The homography that sends (0,0), (1,0), (1,1), (0,1) to the corners of ``quad`` in that order.

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
    """The homography that sends each corner of ``source`` to that of ``target``, scaled so that the last entry is 1.

    Gradient:
        exact to both.
    Source:
        ``cv2.getPerspectiveTransform``.
    """
    target_from_source = quad_from_unit_square(target) @ inverse(quad_from_unit_square(source))
    return target_from_source / target_from_source[..., 2:, 2:]
