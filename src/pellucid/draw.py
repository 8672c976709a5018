"""Drawing: one hash evaluation gives every parameter of every sample.

Owns: turning (seed, step, index) and the plan into Params.
Must not: see images.
Read next: ``execute.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from pellucid.compilers import numba_works
from pellucid.constants import constant
from pellucid.lowering import Replayed
from pellucid.plan import Draw, Plan, for_size
from pellucid.random.compiled import draw_rows
from pellucid.random.key import draw_words
from pellucid.random.philox import uniforms
from pellucid.tape import Recording, cached_recording, is_plain_eager

__all__ = ["DrawnParams", "draw_each", "draw_params", "draw_uniforms", "params_of", "words_of"]

DrawnParams = tuple[dict[str, Tensor], ...]
"""For each step, its drawn values by name; one row per sample, float64 (integers for permutations and keys)."""


def draw_params(
    plan: Plan,
    seed: Int64[Tensor, ""],
    step: Int64[Tensor, ""],
    index: Int64[Tensor, "b"],
    learned: Mapping[tuple[int, str], Mapping[str, Tensor]],
) -> Sequence[Mapping[str, Tensor]]:
    """Draw every parameter of the plan; ``tuple(...)`` makes `DrawnParams` of the result, which may wait until it is looked at.

    Args:
        plan: says what is drawn and from which words.
        seed, step: scalars.
        index: names the samples.
        learned: unbounded parameters behind each learned distribution, by (transform, name); scalars or one per sample.

    Gradient:
        learned: as the distributions declare.
    """
    if learned:
        return params_of(plan, draw_uniforms(plan, seed, step, index), learned)
    return draw_each([plan], seed, step, [index])[0]


def draw_each(
    plans: Sequence[Plan], seed: Int64[Tensor, ""], step: Int64[Tensor, ""], indices: Sequence[Int64[Tensor, "b"]]
) -> list[Sequence[Mapping[str, Tensor]]]:
    """The same, of what is not learned, for samples of several sizes: some of them for each plan, all plans of one kind."""
    plan, index = plans[0], indices[0] if len(indices) == 1 else torch.cat(list(indices))
    if not plan.draws:
        return [tuple({} for _ in plan.steps)] * len(plans)
    if index.is_cpu and len(index) and is_plain_eager() and numba_works():
        tape = cached_recording(plan.owner, "draw", lambda: _Tape(plan))
        if tape is not None:
            return _replayed(tape, plans, int(seed), int(step), index, indices)
    u = draw_uniforms(plan, seed, step, index)
    if len(plans) == 1:
        return [params_of(plan, u, {})]
    counts = [len(some) for some in indices]
    if all(one.draws == plan.draws for one in plans):
        steps = [{name: value.split(counts) for name, value in values.items()} for values in params_of(plan, u, {})]
        return [tuple({name: parts[i] for name, parts in values.items()} for values in steps) for i in range(len(plans))]
    return [params_of(one, some, {}) for one, some in zip(plans, u.split(counts), strict=True)]


def _replayed(
    tape: _Tape, plans: Sequence[Plan], seed: int, step: int, index: Tensor, indices: Sequence[Tensor]
) -> list[Sequence[Mapping[str, Tensor]]]:
    """Drawn values, from a tape. Only exact arithmetic is taped, so they equal those of the code bit for bit."""
    rows = draw_rows(seed, step, index, tape.slots, tape.keep, plans[0].size_in)
    if len(plans) == 1:
        return [Replayed(rows, unpack, tape.recording.play)]
    drawn: list[Sequence[Mapping[str, Tensor]]] = []
    stop = 0
    for plan, some in zip(plans, indices, strict=True):
        start, stop = stop, stop + len(some)
        rows[start:stop, -2:] = plan.size_in
        drawn.append(Replayed(rows[start:stop], unpack, tape.recording.play))
    return drawn


class _Tape:
    """The part of a plan's draws that is the same in every call, whatever the size."""

    def __init__(self, plan: Plan) -> None:
        self.slots, self.keep = _slots(plan, torch.device("cpu"))
        planned = for_size(plan)

        def drawn(words: Tensor, height: int, width: int) -> DrawnParams:
            return unpack(planned(height, width), words)

        self.recording = Recording(drawn, [(4 * len(plan.slots),), *plan.size_in], exact=True)


def unpack(plan: Plan, words: Tensor) -> DrawnParams:
    """Turns words into drawn values."""
    return params_of(plan, uniforms(words), {})


def _slots(plan: Plan, device: torch.device) -> tuple[Tensor, Tensor | None]:
    """The slots of the hash, and which of them see the sample's index (None: all)."""
    keep = constant([0 if shared else 1 for shared in plan.shared], torch.int64, device) if any(plan.shared) else None
    return constant(plan.slots, torch.int64, device), keep


def draw_uniforms(
    plan: Plan, seed: Int64[Tensor, ""], step: Int64[Tensor, ""], index: Int64[Tensor, "b"]
) -> Float[Tensor, "b words"]:
    """The uniforms in (0, 1) that every draw of the plan maps to its value."""
    slots, keep = _slots(plan, index.device)
    return uniforms(draw_words(seed, step, index, slots, keep))


def params_of(plan: Plan, u: Float[Tensor, "b words"], learned: Mapping[tuple[int, str], Mapping[str, Tensor]]) -> DrawnParams:
    """Map uniforms to the values of every draw."""
    device = u.device
    params: DrawnParams = tuple({} for _ in plan.steps)
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
            source = words_of(draw, u)
            raw = {name: tensor.to(u.dtype) for name, tensor in learned.get((draw.transform, draw.name), {}).items()}
            value = distribution.sample(source, raw)
        params[draw.transform][draw.name] = value
    return params


def words_of(draw: Draw, u: Float[Tensor, "b words"]) -> Float[Tensor, "b *own"]:
    """The uniforms of one draw: a row where it takes several or gives a row."""
    words = draw.distribution.words
    return u[:, draw.word : draw.word + words] if draw.distribution.vector or words > 1 else u[:, draw.word]
