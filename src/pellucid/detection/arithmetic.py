"""Everyday box arithmetic of a detector, without a single write in place.

Owns: conversion between normalised and pixel coordinates, flips, and the refinement step of an iterative decoder.
Must not: clip or drop boxes.
Read next: ``decoder.py``.
"""

import torch
from jaxtyping import Float, Num
from torch import Tensor

from pellucid.boxes import BoxFormat
from pellucid.boxes.clip import check_size
from pellucid.boxes.formats import check_boxes
from pellucid.errors import invalid

__all__ = ["flip_boxes", "normalize_boxes", "refine_boxes", "scale_boxes"]


def scale_boxes(boxes: Float[Tensor, "*batch n 4"], sizes: Num[Tensor, "*batch 2"]) -> Float[Tensor, "*batch n 4"]:
    """Turn boxes in units of the image into boxes in pixels.

    Args:
        boxes: upright boxes in any of the 4-number formats, x and width in units of the width, y and height of the height.
        sizes: (height, width) of each image.

    Returns:
        The same format in pixels, at least in float32.

    Gradient:
        boxes, sizes: exact. Second order: yes. Deterministic: yes.

    Errors:
        ``InvalidArgument`` for shapes that do not fit; ``InvalidType`` for integer boxes.

    Source:
        One multiplication.

    Example:
        >>> scale_boxes(torch.tensor([[[0.5, 0.5, 0.1, 0.2]]]), torch.tensor([[100, 200]]))
        tensor([[[100.,  50.,  20.,  20.]]])
    """
    factor = _factors(boxes, sizes)
    return boxes.to(factor.dtype) * factor


def normalize_boxes(boxes: Float[Tensor, "*batch n 4"], sizes: Num[Tensor, "*batch 2"]) -> Float[Tensor, "*batch n 4"]:
    """Turn boxes in pixels into boxes in units of the image: the inverse of :func:`scale_boxes`.

    Args:
        boxes: upright boxes in pixels, in any of the 4-number formats.
        sizes: (height, width) of each image.

    Returns:
        The same format in units of the image, at least in float32.

    Gradient:
        boxes, sizes: exact. Second order: yes. Deterministic: yes.

    Errors:
        ``InvalidArgument`` for shapes that do not fit; ``InvalidType`` for integer boxes.

    Source:
        One division.

    Example:
        >>> normalize_boxes(torch.tensor([[[100.0, 50.0, 20.0, 20.0]]]), torch.tensor([[100, 200]]))
        tensor([[[0.5000, 0.5000, 0.1000, 0.2000]]])
    """
    factor = _factors(boxes, sizes)
    return boxes.to(factor.dtype) / factor


def flip_boxes(
    boxes: Float[Tensor, "*batch k"],
    size: tuple[int, int],
    format: BoxFormat = "xyxy",  # noqa: A002 - the word users know
    *,
    horizontal: bool = False,
    vertical: bool = False,
) -> Float[Tensor, "*batch k"]:
    """Mirror boxes together with an image.

    Args:
        boxes: any leading shape, pixel-edge coordinates.
        size: (height, width) of the image.
        format: how the boxes are written; the angle of rotated boxes changes its sign.
        horizontal: swap left and right.
        vertical: swap top and bottom; at least one of the two.

    Returns:
        Mirrored boxes of the same format, exact to the bit in ``xyxy`` and the centre formats.

    Gradient:
        boxes: exact. Second order: yes. Deterministic: yes.

    Errors:
        ``InvalidArgument`` without a direction, and as :func:`pellucid.boxes.clip_boxes`.

    Source:
        The closed form; equals :func:`pellucid.boxes.transform_boxes` with the flip's matrix.

    Example:
        >>> flip_boxes(torch.tensor([[0.0, 2.0, 3.0, 4.0]]), (5, 10), horizontal=True)
        tensor([[ 7.,  2., 10.,  4.]])
    """
    check_boxes(boxes, format)
    height, width = check_size(size)
    if not (horizontal or vertical):
        fix = "Say which way to mirror."
        raise invalid("flip_boxes", expected="horizontal=True, vertical=True or both", got="neither", fix=fix)
    values = list(boxes.unbind(-1))
    for axis, (flip, length) in enumerate(((horizontal, width), (vertical, height))):
        if flip and format == "xyxy":
            values[axis], values[axis + 2] = length - values[axis + 2], length - values[axis]
        elif flip and format == "xywh":
            values[axis] = length - (values[axis] + values[axis + 2])
        elif flip:
            values[axis] = length - values[axis]
    if format == "cxcywhr" and horizontal != vertical:
        values[4] = -values[4]
    return torch.stack(values, dim=-1)


def refine_boxes(
    reference: Float[Tensor, "*batch 4"], delta: Float[Tensor, "*batch 4"], *, eps: float = 1e-5
) -> Float[Tensor, "*batch 4"]:
    """Move normalised boxes by a step in logit space: ``sigmoid(logit(reference) + delta)``.

    Args:
        reference: boxes with coordinates in [0, 1], usually ``cxcywh``.
        delta: the step predicted by a decoder layer.
        eps: reference coordinates are limited to [eps, 1 - eps].

    Returns:
        Refined boxes in (0, 1), in the dtype of ``reference``.

    Gradient:
        delta: exact. reference: exact inside ``(eps, 1 - eps)``, zero outside. Second order: yes. Deterministic: yes.

    Errors:
        ``InvalidArgument`` where the shapes differ; ``InvalidType`` for integer boxes.

    Source:
        The iterative refinement of Deformable DETR and RT-DETR.

    Example:
        >>> refine_boxes(torch.tensor([0.5, 0.5, 0.2, 0.2]), torch.zeros(4))
        tensor([0.5000, 0.5000, 0.2000, 0.2000])
    """
    check_boxes(reference, "xyxy")
    if reference.shape != delta.shape:
        raise invalid("delta", expected=f"the shape of reference, {tuple(reference.shape)}", got=tuple(delta.shape))
    wide = reference.to(torch.promote_types(reference.dtype, torch.float32))  # 1 - 1e-5 is 1 in half precision
    inside = torch.where(wide < eps, eps, torch.where(wide > 1 - eps, 1 - eps, wide))
    return torch.sigmoid(inside.log() - (1 - inside).log() + delta).to(reference.dtype)


def _factors(boxes: Tensor, sizes: Tensor) -> Tensor:
    check_boxes(boxes, "xyxy")
    if boxes.ndim < 2 or not isinstance(sizes, Tensor) or tuple(sizes.shape) != (*boxes.shape[:-2], 2):
        expected = f"(height, width) per image, shape {(*boxes.shape[:-2], 2)}"
        raise invalid("sizes", expected=expected, got=tuple(sizes.shape) if isinstance(sizes, Tensor) else type(sizes).__name__)
    dtype = torch.promote_types(boxes.dtype, torch.float32)
    height, width = sizes.to(dtype).unbind(-1)
    return torch.stack([width, height, width, height], dim=-1)[..., None, :]
