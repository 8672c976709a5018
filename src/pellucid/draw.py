"""Drawing: one hash evaluation gives every parameter of every sample.

Owns: turning (seed, step, index) and the plan into Params.
Must not: see images.
Read next: ``execute.py``.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from pellucid.constants import constant
from pellucid.kernels.dispatch import numba_works
from pellucid.plan import Plan
from pellucid.random.key import draw_words
from pellucid.random.philox import uniforms
from pellucid.tape import Recording, kept, undisturbed

__all__ = ["DrawnParams", "draw_params", "draw_uniforms", "params_of"]

DrawnParams = tuple[dict[str, Tensor], ...]
"""For each transform, its drawn values by name; one row per sample, float64 (integers for permutations and keys)."""


def draw_params(
    plan: Plan,
    seed: Int64[Tensor, ""],
    step: Int64[Tensor, ""],
    index: Int64[Tensor, "b"],
    learned: Mapping[tuple[int, str], Mapping[str, Tensor]],
) -> DrawnParams:
    """Draw every parameter of the plan.

    Args:
        plan: says what is drawn and from which words.
        seed, step: scalars.
        index: names the samples.
        learned: unbounded parameters behind each learned distribution, by (transform, name); scalars or one per sample.

    Gradient:
        learned: as the distributions declare.
    """
    if not plan.draws:
        return tuple({} for _ in plan.transforms)
    if not learned and index.is_cpu and undisturbed() and numba_works():
        return _replayed(plan, seed, step, index)
    return params_of(plan, draw_uniforms(plan, seed, step, index), learned)


def _replayed(plan: Plan, seed: Tensor, step: Tensor, index: Tensor) -> DrawnParams:
    """The same from a tape; only exact arithmetic is taped, so the bits are those of the code."""

    def make() -> Recording:
        return Recording(lambda u: params_of(plan, u, {}), [(4 * len(plan.slots),)], exact=True)

    u = draw_uniforms(plan, seed, step, index)
    tape = kept(plan, "draw", make)
    params: DrawnParams = params_of(plan, u, {}) if tape is None else tape.play(u)
    return params


def draw_uniforms(
    plan: Plan, seed: Int64[Tensor, ""], step: Int64[Tensor, ""], index: Int64[Tensor, "b"]
) -> Float[Tensor, "b words"]:
    """The uniforms in (0, 1) that every draw of the plan maps to its value."""
    device = index.device
    slots = constant(plan.slots, torch.int64, device)
    if any(plan.shared):
        keep = constant([0 if shared else 1 for shared in plan.shared], torch.int64, device)
        words = draw_words(seed, step, index, slots, keep)
    else:
        words = draw_words(seed, step, index, slots)
    return uniforms(words)


def params_of(plan: Plan, u: Float[Tensor, "b words"], learned: Mapping[tuple[int, str], Mapping[str, Tensor]]) -> DrawnParams:
    """Map uniforms to the values of every draw."""
    device = u.device
    params: DrawnParams = tuple({} for _ in plan.transforms)
    shift, scale = [0.0] * u.shape[1], [1.0] * u.shape[1]
    affine = set()
    for draw in plan.draws:
        pair = draw.distribution.affine()
        if pair is not None:
            shift[draw.word], scale[draw.word] = pair
            affine.add(draw.word)
    linear = (constant(shift, u.dtype, device) + constant(scale, u.dtype, device) * u).unbind(1)
    for draw in plan.draws:
        if draw.word in affine:
            value = linear[draw.word]
        else:
            distribution = draw.distribution
            source = u[:, draw.word : draw.word + distribution.words] if distribution.vector else u[:, draw.word]
            raw = {name: tensor.to(u.dtype) for name, tensor in learned.get((draw.transform, draw.name), {}).items()}
            value = distribution.sample(source, raw)
        params[draw.transform][draw.name] = value
    return params
