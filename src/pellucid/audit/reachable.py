"""How much of a picture a warp could reach: the pixels around its samples, and the pixels that it would read with antialiasing.

Owns: shifting the maps of known warps by a tiny step, and running them with antialiasing.
Must not: guess about callables whose map is not known.
Read next: ``checks/coverage.py``.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor

from pellucid.audit.context import Context

__all__ = ["reachable"]

_HAIR = 2.0**-10
"""A shift in pixels: neighbours that have no weight because a sample lies on a pixel centre get some after the shift."""
_PICTURES = ("image", "images", "batch", "input")

Call = Callable[..., Any]


def reachable(context: Context, name: str, seen: Tensor) -> tuple[int | None, int | None]:
    """Count the elements of a picture in the footprint of a sample, and those that the same call reaches with antialiasing.

    This works for the warps of ``pellucid.functional``, partials of them and pipelines; ``F.grid_sample`` has the first count. The
    call is repeated with its map shifted by a thousandth of a pixel towards each corner, and once with ``antialias=True``.

    Args:
        context: the audit's context.
        name: the input's name.
        seen: a mask of its elements that have a gradient.

    Returns:
        Two counts; None where a count is not known.
    """
    value = context.given[name]
    if name.split(".")[-1] not in _PICTURES or value.dim() < 3 or name in context.subject.params:
        return None, None
    find = _pipeline if hasattr(context.subject.fn, "draw") else _warp
    moved, wide = find(context)
    around, far = (_support(context, name, calls) for calls in (moved, wide))
    return None if around is None else int((around | seen).sum()), None if far is None else int(far.sum())


def _support(context: Context, name: str, calls: list[Call]) -> Tensor | None:
    """A mask of the elements where any of these calls has a gradient; None if there are no calls, or if one raises."""
    found = torch.zeros_like(context.generic[name], dtype=torch.bool)
    for call in calls:
        try:
            with context.subject.calling(call):
                slope = context.subject.gradient(context.generic)[1][name]
        except Exception:  # for instance, antialiasing is not possible here
            return None
        found = found if slope is None else found | (slope != 0)
    return found if calls else None


def _hairs() -> Iterator[tuple[float, float]]:
    return ((x, y) for x in (-_HAIR, _HAIR) for y in (-_HAIR, _HAIR))


def _warp(context: Context) -> tuple[list[Call], list[Call]]:
    """Calls of a functional warp with shifted maps, and one with antialiasing."""
    from pellucid import functional

    subject: Any = context.subject.fn
    whole = subject if isinstance(subject, functools.partial) else functools.partial(subject)
    fn, before, options = whole.func, whole.args, whole.keywords
    moves = {
        functional.warp: _move_matrix,
        functional.warp_affine: _move_opencv,
        functional.warp_perspective: _move_opencv,
        functional.remap: _move_maps,
        torch.nn.functional.grid_sample: _move_grid,
    }
    move = next((move for known, move in moves.items() if fn is known), None)
    if move is None:
        return [], []
    form = inspect.signature(fn)

    def call(change: Callable[[dict[str, Any]], None], *args: Any, **kwargs: Any) -> Any:
        bound = form.bind(*before, *args, **{**options, **kwargs})
        bound.apply_defaults()
        change(bound.arguments)
        return fn(*bound.args, **bound.kwargs)

    moved: list[Call] = [functools.partial(call, functools.partial(move, x=x, y=y)) for x, y in _hairs()]
    wide: list[Call] = (
        [] if fn is torch.nn.functional.grid_sample else [functools.partial(call, lambda given: given.update(antialias=True))]
    )
    return moved, wide


def _numbers(value: Any) -> Tensor:
    return value if isinstance(value, Tensor) else torch.as_tensor(value, dtype=torch.float64)


def _move_matrix(given: dict[str, Any], x: float, y: float, name: str = "src_from_dst") -> None:
    matrix = _numbers(given[name]).to(torch.float64)
    last = matrix[..., 2:, :] if matrix.shape[-2] == 3 else matrix.new_tensor([[0.0, 0.0, 1.0]])
    given[name] = torch.cat((matrix[..., :2, :] + matrix.new_tensor([[x], [y]]) * last, matrix[..., 2:, :]), -2)


def _move_opencv(given: dict[str, Any], x: float, y: float) -> None:
    flags = given["interpolation"]
    if given["inverse_map"] or (isinstance(flags, int) and flags & 16):
        return _move_matrix(given, x, y, "M")
    matrix = _numbers(given["M"]).to(torch.float64)
    given["M"] = torch.cat((matrix[..., :2], matrix[..., 2:] - matrix[..., :2] @ matrix.new_tensor([[x], [y]])), -1)
    return None


def _move_maps(given: dict[str, Any], x: float, y: float) -> None:
    given.update(map_x=_numbers(given["map_x"]) + x, map_y=_numbers(given["map_y"]) + y)


def _move_grid(given: dict[str, Any], x: float, y: float) -> None:
    height, width = given["input"].shape[-2:]
    given["grid"] = given["grid"] + given["grid"].new_tensor([2 * x / width, 2 * y / height])


def _pipeline(context: Context) -> tuple[list[Call], list[Call]]:
    """Replays of a pipeline's draw with an added shift, and one with antialiasing in every transform that has this option."""
    import pellucid

    fn = context.subject.fn
    if not isinstance(fn, pellucid.Pipeline):
        return [], []
    batch, *_ = context.subject.arguments(context.generic)[0]
    context.subject.rewind()
    record = fn.draw(batch)

    plan, parts = record.plan, list[Any](fn)
    if len(parts) != len(plan.steps):  # choices
        return [], []
    # Shift before the first step that shows pixels outside of its source; steps that show none read none there.
    at = next((k for k, segment in enumerate(plan.segments) if getattr(segment, "exposes", False)), len(parts))

    def again(changed: pellucid.Pipeline, more: int, batch: Any) -> Any:
        """Apply the same draw through other transforms; an added transform gets a draw of its own."""
        with torch.no_grad():
            other = changed.draw(batch)
        params = (*record.params[:at], *other.params[at : at + more], *record.params[at:])
        return changed.apply(batch, replace(other, params=params))

    height, width = plan.specs[at].height, plan.specs[at].width
    shifts = (pellucid.RandomTranslate(((x / width, x / width), (y / height, y / height))) for x, y in _hairs())
    moved: list[Call] = [
        functools.partial(again, fn[:at] + [shift] + fn[at:], 1)  # noqa: RUF005 - keeps the pipeline's options
        for shift in shifts
    ]
    options = [{field.name for field in fields(part)} for part in parts]
    wide = [replace(part, antialias=True) if "antialias" in known else part for part, known in zip(parts, options, strict=True)]
    return moved, [functools.partial(again, fn[:0] + wide, 0)] if any("antialias" in known for known in options) else []
