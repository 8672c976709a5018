"""The operators every compiled warp registers: what torch sees of it, whoever computes.

Owns: schemas, fake kernels and batching rules, one set per implementation, and how labels reach their operator.
Must not: compute, or know about gradients (``autograd.py``).
Read next: ``cpu/op.py``, ``triton/op.py``.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Shaped
from torch import Tensor

from pellucid.types import Size

__all__ = ["Gradients", "batched", "copy_labels", "define", "empty_gradients"]

Gradients = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]
_COMMON = "Tensor image, Tensor mapping, Tensor? window, Tensor params, Tensor? field, SymInt[] size, int[] options, float cubic"
_LABELS = "Tensor image, Tensor mapping, Tensor? window, Tensor fill, Tensor? field, SymInt[] size, int mode"
_TENSORS = 5  # in either


def define(name: str) -> None:
    """Define ``pellucid::{name}_warp``, ``_warp_backward`` and ``_labels``, without the kernels themselves.

    The warp takes (image, mapping, window, params, field, size, (taps, mode, flags, out_channels), cubic, dtype) and returns the
    output, of that dtype.

    * image: uint8 (read as fractions of 255), float16, bfloat16, float32 or float64, any strides.
    * mapping: (b or 1, 6 or 9), of the dtype in which everything is computed (float32 or float64), as are the next three.
    * window: (b or 1, 4) or None; params: (b or 1, n); ``layout.py`` says what these and the options mean.
    * field: (b or 1, 2, height, width) or None: added to the projected coordinates, x first.

    Its backward takes the output's gradient (any floating dtype and strides), the same without dtype, and ``needs``: (image, map
    or window, params, field). It returns the gradients of image (in its dtype), mapping, window, params (float64, one row per
    sample, whatever the arguments had) and field (as computed, one per sample). What is not needed has no elements.

    The labels take (image, mapping, window, fill, field, size, mode) and return the nearest pixels; image and fill (b or 1, c) are
    of one integer dtype.
    """
    warp, backward, labels = f"pellucid::{name}_warp", f"pellucid::{name}_warp_backward", f"pellucid::{name}_labels"
    torch.library.define(warp, f"({_COMMON}, ScalarType dtype) -> Tensor")
    torch.library.define(backward, f"(Tensor grad, {_COMMON}, bool[] needs) -> (Tensor, Tensor, Tensor, Tensor, Tensor)")
    torch.library.define(labels, f"({_LABELS}) -> Tensor")
    torch.library.register_fake(warp, _fake_warp)
    torch.library.register_fake(backward, _fake_backward)
    torch.library.register_fake(labels, _fake_labels)
    operators = torch.ops.pellucid
    batched(warp, getattr(operators, f"{name}_warp"), _TENSORS, 0)
    batched(backward, getattr(operators, f"{name}_warp_backward"), 1 + _TENSORS, 1)
    batched(labels, getattr(operators, f"{name}_labels"), _TENSORS, 0)


def copy_labels(
    operator: Any,
    image: Tensor,
    src_from_dst: Tensor,
    window: Tensor | None,
    fill: Tensor | None,
    field: Tensor | None,
    size: Size,
    mode: int,
) -> Shaped[Tensor, "b c h2 w2"]:
    """Call a labels operator on integers or booleans: whole pixels are copied, and nothing has a gradient."""
    fill = image.new_zeros((1, image.shape[1])) if fill is None else fill.to(image.dtype)
    coordinates = torch.promote_types(src_from_dst.dtype, torch.float32)
    window, field = (None if part is None else part.detach().to(coordinates) for part in (window, field))
    mapping = src_from_dst.detach().flatten(1).to(coordinates)
    out: Tensor = operator(image, mapping, window, fill, field, list(size), mode)
    return out


def empty_gradients(
    image: Tensor, mapping: Tensor, window: Tensor | None, params: Tensor, field: Tensor | None, needs: list[bool]
) -> Gradients:
    """Uninitialised memory for what a backward returns."""
    batch = image.shape[0]
    rows = [
        (batch, mapping.shape[1]) if needs[1] else (0,),
        (batch, 4) if needs[1] and window is not None else (0,),
        (batch, params.shape[1]) if needs[2] else (0,),
    ]
    to_map, to_window, to_params = (params.new_empty(shape, dtype=torch.float64) for shape in rows)
    to_field = mapping.new_empty((batch, *field.shape[1:]) if needs[3] and field is not None else (0,))
    return image.new_empty(image.shape if needs[0] else (0,)), to_map, to_window, to_params, to_field


def _fake_warp(
    image: Tensor,
    mapping: Tensor,
    window: Tensor | None,
    params: Tensor,
    field: Tensor | None,
    size: list[int],
    options: list[int],
    cubic: float,
    dtype: torch.dtype,
) -> Tensor:
    del mapping, window, params, field, cubic
    return image.new_empty((image.shape[0], options[3], size[0], size[1]), dtype=dtype)


def _fake_backward(
    grad: Tensor,
    image: Tensor,
    mapping: Tensor,
    window: Tensor | None,
    params: Tensor,
    field: Tensor | None,
    size: list[int],
    options: list[int],
    cubic: float,
    needs: list[bool],
) -> Gradients:
    del grad, size, options, cubic
    return empty_gradients(image, mapping, window, params, field, needs)


def _fake_labels(
    image: Tensor,
    mapping: Tensor,
    window: Tensor | None,
    fill: Tensor,
    field: Tensor | None,
    size: list[int],
    mode: int,
) -> Tensor:
    del mapping, window, fill, field, mode
    return image.new_empty((*image.shape[:2], size[0], size[1]))


def batched(name: str, operator: Any, tensors: int, image_at: int) -> None:
    """Register the rule for a mapped axis: it joins the batch axis. The first ``tensors`` arguments may have one."""

    def rule(info: Any, dims: Any, *arguments: Any) -> Any:
        lanes, image, dim = info.batch_size, arguments[image_at], dims[image_at]
        batch = image.shape[0] if dim is None else image.movedim(dim, 0).shape[1]
        found = operator(*_fold(arguments[:tensors], dims[:tensors], lanes, batch), *arguments[tensors:])
        if isinstance(found, Tensor):
            return found.unflatten(0, (lanes, batch)), 0
        split = tuple(r.unflatten(0, (lanes, batch)) if r.numel() else r.new_empty((lanes, 0)) for r in found)
        return split, (0,) * len(split)

    torch.library.register_vmap(name, rule)


def _fold(tensors: Any, dims: Any, lanes: int, batch: int) -> list[Tensor | None]:
    """Merge the mapped axis into the batch axis; what has no mapped axis and one row for all stays as it is."""
    folded: list[Tensor | None] = []
    for tensor, dim in zip(tensors, dims, strict=True):
        if tensor is None or (dim is None and tensor.shape[0] == 1 and batch > 1):
            folded.append(tensor)
            continue
        lane = tensor[None].expand(lanes, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
        lane = lane.expand(lanes, batch, *lane.shape[2:])
        folded.append(lane.reshape(lanes * batch, *lane.shape[2:]))
    return folded
