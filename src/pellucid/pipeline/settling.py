"""Take the draws that decide sizes before the plan is made.

Owns: the transforms of each sample with such draws filled in (ADR 59).
Must not: plan, or touch pixels.
Read next: ``ragged/calls.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from jaxtyping import Int64
from torch import Tensor

from pellucid.engine.drawing import as_slots, words_of
from pellucid.engine.plan import ends_of, layout_of
from pellucid.errors import invalid
from pellucid.random.key import draw_words
from pellucid.random.philox import uniforms
from pellucid.transforms.base import ANY_IMAGE, Transform
from pellucid.transforms.choices import Step, places_of, steps_of
from pellucid.types import ImageSpec

__all__ = ["decides", "settle_each"]


def decides(transforms: Sequence[Transform], spec: ImageSpec) -> bool:
    """Return whether a draw decides the size of a result, for images of one kind."""
    for transform in transforms:
        if transform.decides(spec):
            return True
        spec = ends_of((transform,), spec)
    return False


@lru_cache(maxsize=64)
def _layout(transforms: tuple[Transform, ...], same_on_batch: bool, streams: tuple[str, ...]) -> tuple[Sequence[Step], Any]:
    """Return the steps, and the layout of their draws."""
    steps = steps_of(transforms)
    return steps, layout_of(steps, [ANY_IMAGE] * len(steps), same_on_batch, streams)


@lru_cache(maxsize=256)
def _settled(transform: Transform, values: tuple[tuple[str, float], ...]) -> Transform:
    """Return a transform with these values filled in; cached, because most transforms choose between a few sizes."""
    return transform.settled(dict(values))


def settle_each(
    transforms: tuple[Transform, ...],
    specs: Sequence[ImageSpec],
    seed: Int64[Tensor, ""],
    step: Int64[Tensor, ""],
    index: Int64[Tensor, "b"],
    *,
    same_on_batch: bool,
    streams: Sequence[str] = (),
) -> list[tuple[Transform, ...]]:
    """Return the transforms for each sample, with the draws that decide sizes filled in.

    Args:
        transforms: of the pipeline.
        specs: of each sample.
        seed, step, index: to draw with; filling in a draw does not change the words of others.
        same_on_batch, streams: of the pipeline's plans.
    """
    steps, (draws, slots, shared) = _layout(transforms, same_on_batch, tuple(streams))
    words = uniforms(draw_words(seed, step, index, *as_slots(slots, shared, index.device)))
    places = [places_of(transforms, i)[0] for i in range(len(transforms))]
    deciding = {place for place, one in zip(places, transforms, strict=True) if type(one).decides is not Transform.decides}
    values: dict[int, dict[str, list[float]]] = {place: {} for place in deciding}
    for draw in draws:
        if draw.transform in deciding:
            if draw.distribution.learned():
                name = f"{type(steps[draw.transform].transform).__name__}.{'p' if draw.name == 'gate' else draw.name}"
                expected = "a number that is not learned, as it decides the size of the result"
                raise invalid(name, expected=expected, got=draw.distribution)
            values[draw.transform][draw.name] = draw.distribution.sample(words_of(draw, words), {}).tolist()
    found = []
    for i, spec in enumerate(specs):
        chosen: list[Transform] = []
        for place, transform in zip(places, transforms, strict=True):
            own = {name: rows[i] for name, rows in values.get(place, {}).items()}
            chosen.append(
                _settled(transform, tuple(own.items())) if place in deciding else transform
            )  # all samples alike: a record has one form
            spec = ends_of(chosen[-1:], spec)
        found.append(tuple(chosen))
    return found
