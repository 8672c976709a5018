"""Chains of maps compiled for the CPU: rows of output pixels through all canvases in a close cache.

Owns: `through` and `laid_over` where nobody traces or maps, with first derivatives; second ones are the reference's.
Must not: import Numba before it is called.
Read next: ``sweep.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.errors import ImplementationError
from pellucid.kernels.canvases.values import Chained
from pellucid.kernels.derivatives import needs_grad
from pellucid.kernels.threads import run_split, scratch
from pellucid.types import Size

__all__ = ["differentiate_again_with", "laid_over", "through"]

_MODES = {"zeros": 0, "constant": 0, "border": 1, "reflection": 2}
_HARD = 3

How: TypeAlias = tuple[Size, tuple[str, ...], tuple[bool, ...]]
"""The output's size, and each canvas's mode and whether it is hard."""
_PIXELS = 1 << 14  # the fewest worth handing to another thread


def through(
    maps: Float[Tensor, "#b k1 3 3"],
    windows: Float[Tensor, "#b k 4"],
    fills: Float[Tensor, "#b k c"] | None,
    *,
    size: Size,
    modes: Sequence[str],
    hard: Sequence[bool],
) -> Chained:
    """See :func:`pellucid.kernels.canvases.reference.through`."""
    shared = fills if fills is not None else maps.new_zeros((1, len(modes), 0))
    rows = next((part.shape[0] for part in (maps, windows, shared) if part.shape[0] != 1), 1)
    maps, windows, shared = (part.expand(rows, *part.shape[1:]) for part in (maps, windows, shared))
    compute = _Through.apply if needs_grad(maps, windows, shared) else _forward
    places, share, ground = compute(maps, windows, shared, (size, tuple(modes), tuple(hard)))
    return Chained(places, share, None if fills is None else ground)


def laid_over(found: Float[Tensor, "b c h w"], share: Float[Tensor, "#b 1 h w"], ground: Tensor | None) -> Tensor:
    """See :func:`pellucid.kernels.canvases.reference.laid_over`; for what no gradient goes through. Writes into ``found``."""
    from pellucid.kernels.canvases.cpu.sweep import lay_over

    out = found.flatten(2).numpy()
    under = np.empty((1, 0, 1), out.dtype) if ground is None else ground.flatten(2).numpy()
    shares = share.flatten(1).numpy()

    def task(start: int, stop: int) -> None:
        lay_over(out, shares, under, start, stop)

    if found.numel():
        run_split(task, out.shape[0], _PIXELS // out.shape[2] + 1)
    return found


def _forward(
    maps: Tensor, windows: Tensor, fills: Tensor, how: tuple[Size, tuple[str, ...], tuple[bool, ...]]
) -> tuple[Tensor, ...]:
    from pellucid.kernels.canvases.cpu.sweep import forward

    (height, width), modes, hard = how
    batch, channels = maps.shape[0], fills.shape[2]
    places, share = (maps.new_empty((batch, n, height, width)) for n in (2, 1))
    ground = maps.new_zeros((batch, channels, height, width))
    arguments, kinds = _arrays(maps, windows, fills), _kinds(modes, hard)
    into = places.flatten(2).numpy(), share.flatten(1).numpy(), ground.flatten(2).numpy()

    def task(start: int, stop: int) -> None:
        room = scratch("chain", 2 * max(width, 4), into[0].dtype.type).reshape(2, -1)
        forward(*arguments, kinds, width, *into, room, start, stop)

    if share.numel():
        run_split(task, batch * height, _PIXELS // width + 1)
    return places, share, ground


def _arrays(*tensors: Tensor) -> tuple[Any, ...]:
    return tuple(tensor.detach().flatten(2).contiguous().numpy() for tensor in tensors)


def _kinds(modes: tuple[str, ...], hard: tuple[bool, ...]) -> Any:
    kinds = (_HARD if ends and _MODES[mode] == 0 else _MODES[mode] for mode, ends in zip(modes, hard, strict=True))
    return np.array([*kinds], np.int64)


class _Through(torch.autograd.Function):
    """(maps, windows, fills, how) -> places, share, ground."""

    @staticmethod
    def forward(ctx: Any, maps: Tensor, windows: Tensor, fills: Tensor, how: How) -> tuple[Tensor, ...]:
        ctx.save_for_backward(maps, windows, fills)
        ctx.how = how
        return _forward(maps, windows, fills, how)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        tensors = ctx.saved_tensors
        needed = ctx.needs_input_grad[:3]
        if torch.is_grad_enabled():  # to be differentiated again
            return *_again(tensors, ctx.how, grads, needed), None
        if not (needed[0] or needed[1]):
            return None, None, _to_fills(tensors, ctx.how, grads[2]), None
        return *_backward(tensors, ctx.how, grads, needed), None


_reference: Callable[..., Chained] | None = None


def differentiate_again_with(function: Callable[..., Chained]) -> None:
    """Tell second derivatives how the reference computes the same; told by the dispatcher: implementations import no other."""
    global _reference
    _reference = function


def _again(tensors: Any, how: How, grads: tuple[Tensor, ...], needed: Any) -> list[Tensor | None]:
    # Views, so that the derivatives below are partial: the gradients' own history leads to the maps too.
    inputs = [tensor.view_as(tensor) for tensor in tensors]
    size, modes, hard = how
    if _reference is None:
        raise ImplementationError("Second derivatives across canvases need the reference, which nobody named.")
    found = _reference(inputs[0], inputs[1], inputs[2], size=size, modes=modes, hard=hard)
    outs = [(out, grad) for out, grad in zip(found, grads, strict=True) if out is not None and out.requires_grad]
    wanted = [tensor for tensor, need in zip(inputs, needed, strict=True) if need]
    given = iter(torch.autograd.grad([o for o, _ in outs], wanted, [g for _, g in outs], create_graph=True, allow_unused=True))
    return [next(given) if need else None for need in needed]


def _to_fills(tensors: Any, how: How, to_ground: Tensor) -> Tensor:
    """The gradient of the fills alone, as where only colours follow the image: how much of each canvas's fill every pixel shows."""
    maps, windows, fills = tensors
    batch, canvases = fills.shape[:2]
    each = torch.eye(canvases, dtype=fills.dtype).expand(batch, canvases, canvases)
    shown = _forward(maps, windows, each, how)[2].flatten(2).double()  # b k h2*w2
    return (shown @ to_ground.flatten(2).double().mT).to(fills.dtype)


def _backward(tensors: Any, how: How, grads: tuple[Tensor, ...], needed: Any) -> list[Tensor | None]:
    from pellucid.kernels.canvases.cpu.sweep import backward

    (height, width), modes, hard = how
    batch = tensors[0].shape[0]
    arguments, kinds = _arrays(*tensors), _kinds(modes, hard)
    given = tuple(grad.contiguous().flatten(2).numpy() for grad in grads)
    sums = tuple(np.zeros(array.shape) for array in arguments)  # float64

    def task(start: int, stop: int) -> None:
        backward(*arguments, kinds, width, given, sums, np.empty((len(modes), 4)), start, stop)

    if grads[1].numel():
        run_split(task, batch, _PIXELS // (height * width) + 1)
    return [
        torch.from_numpy(total).reshape(tensor.shape).to(tensor.dtype) if need else None
        for total, tensor, need in zip(sums, tensors, needed, strict=True)
    ]
