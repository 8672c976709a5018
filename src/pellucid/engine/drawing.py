"""Drawing: one hash evaluation gives every parameter of every sample.

Owns: turning (seed, step, index) and the plan into Params.
Must not: see images.
Read next: ``execution.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias
from weakref import ref

import numpy as np
import torch
from jaxtyping import Float, Int64
from numpy.typing import NDArray
from torch import Tensor

from pellucid.core.compilers import numba_works
from pellucid.core.constants import constant
from pellucid.core.tape import Recording, TapeError, cached_recording, is_plain_eager, record
from pellucid.engine.lowering import Replayed
from pellucid.engine.plan import Draw, Plan, for_size
from pellucid.kernels.threads import memory
from pellucid.random.compiled import row_filler
from pellucid.random.continuous import LogUniform
from pellucid.random.distribution import Distribution
from pellucid.random.key import draw_words
from pellucid.random.philox import uniforms

__all__ = [
    "DrawTape", "DrawnParams", "as_slots", "draw_each", "draw_params", "draw_uniforms", "drawn_at", "params_of", "words_of",
]  # fmt: skip

DrawnParams: TypeAlias = Sequence[Mapping[str, Tensor]]
"""For each step, its drawn values by name; one row per sample, float64 (integers for permutations and keys)."""


def draw_params(
    plan: Plan,
    seed: Int64[Tensor, ""],
    step: Int64[Tensor, ""],
    index: Int64[Tensor, "b"],
    learned: Mapping[tuple[int, str], Mapping[str, Tensor]],
) -> DrawnParams:
    """Draw every parameter of the plan; the result may be computed on first access.

    Args:
        plan: says what is drawn, and from which random words.
        seed, step: scalars.
        index: identifies the samples.
        learned: unbounded parameters behind each learned distribution, by (transform, name); scalars or one per sample.

    Gradient:
        learned: as the distributions declare.
    """
    if learned:
        return params_of(plan, draw_uniforms(plan, seed, step, index), learned)
    return draw_each([plan], seed, step, [index])[0]


def draw_each(
    plans: Sequence[Plan], seed: Int64[Tensor, ""], step: Int64[Tensor, ""], indices: Sequence[Int64[Tensor, "b"]]
) -> list[DrawnParams]:
    """Draw parameters without learned ones for samples of several sizes: for each plan (of the same transforms) its samples."""
    kinds: dict[int, list[int]] = {}
    for k, plan in enumerate(plans if len(plans) > 1 else ()):
        kinds.setdefault(id(plan.owner), []).append(k)
    if len(kinds) > 1:  # the sizes lead to different plans: for instance, only some crops pad
        drawn: dict[int, DrawnParams] = {}
        for some in kinds.values():
            found = draw_each([plans[k] for k in some], seed, step, [indices[k] for k in some])
            drawn.update(zip(some, found, strict=True))
        return [drawn[k] for k in range(len(plans))]
    plan, index = plans[0], indices[0] if len(indices) == 1 else torch.cat(list(indices))
    if not plan.draws:
        return [tuple({} for _ in plan.steps)] * len(plans)
    tape = _tape_for(plan, index)
    if tape is not None:
        return _replayed(tape, plans, int(seed), int(step), index, indices)
    u = draw_uniforms(plan, seed, step, index)
    if len(plans) == 1:  # without reading the count: a traced graph takes any number of samples
        return [params_of(plan, u, {})]
    counts = [len(some) for some in indices]
    if all(one.draws == plan.draws for one in plans):
        steps = [{name: value.split(counts) for name, value in values.items()} for values in params_of(plan, u, {})]
        return [tuple({name: parts[i] for name, parts in values.items()} for values in steps) for i in range(len(plans))]
    return [params_of(one, some, {}) for one, some in zip(plans, u.split(counts), strict=True)]


def drawn_at(plan: Plan, u: Float[Tensor, "b words"], learned: Mapping[tuple[int, str], Mapping[str, Tensor]]) -> DrawnParams:
    """Return the values of every draw at given uniforms, where `draw_params` takes the uniforms of a key."""
    tape = None if learned or u.requires_grad or not plan.draws else _tape_for(plan, u)
    return params_of(plan, u, learned) if tape is None else tape.at(plan, u)


def _tape_for(plan: Plan, rows: Tensor) -> DrawTape | None:
    """Return a tape of the draws of these samples, or None if the tensor code has to run."""
    taped = rows.is_cpu and is_plain_eager() and len(rows) and not plan.volumes and numba_works()
    return DrawTape.of(plan) if taped else None


def _replayed(
    tape: DrawTape, plans: Sequence[Plan], seed: int, step: int, index: Tensor, indices: Sequence[Tensor]
) -> list[DrawnParams]:
    """Replay a tape of drawn values. Only exact arithmetic is taped, so the values equal those of the tensor code bit for bit.
    Values that are not exact, such as exponentials, are computed first and are inputs of the tape.
    """
    if len(plans) == 1:
        return [tape.draw(plans[0], seed, step, memory(index))]
    rows, count = tape.rows(plans[0], seed, step, memory(index)), len(tape.rounded)
    drawn: list[DrawnParams] = []
    alike = count and all(tape.rounded_of(plan) == tape.rounded_of(plans[0]) for plan in plans)
    if alike:  # these distributions do not depend on the size
        rows[:, -2 - count : -2] = tape.values(rows, plans[0])
    stop = 0
    for plan, some in zip(plans, indices, strict=True):
        start, stop = stop, stop + len(some)
        rows[start:stop, -2:] = plan.size_in
        if count and not alike:
            rows[start:stop, -2 - count : -2] = tape.values(rows[start:stop], plan)
        drawn.append(Replayed(rows[start:stop], tape.unpack, tape.recording.play))
    return drawn


class DrawTape:
    """The recorded draws of a plan, for images of any size."""

    def __init__(self, plan: Plan) -> None:
        self._fill, self._words = row_filler(*as_slots(plan.slots, plan.shared, torch.device("cpu"))), 4 * len(plan.slots)
        self.rounded = frozenset((draw.transform, draw.name) for draw in plan.draws if _is_rounded(draw.distribution))
        self._width, self._known = self._words + len(self.rounded) + 2, _Known(plan, self.rounded_of(plan))
        planned = for_size(plan)

        def drawn(words: Tensor, height: int, width: int) -> DrawnParams:
            return self.unpack(planned(height, width), words)

        self.recording = Recording(drawn, [(4 * len(plan.slots) + len(self.rounded),), *plan.size_in], exact=True)

    @classmethod
    def of(cls, plan: Plan) -> DrawTape | None:
        """Return the tape of plans of this kind; None if they cannot be taped."""
        return None if plan.kind is None else cached_recording(plan.kind, "draw", lambda: cls(plan))

    def rows(self, plan: Plan, seed: int, step: int, index: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the tape's inputs: random words, empty columns for the inexact values, and the size."""
        rows = np.empty((len(index), self._width))
        rows[:, -2:] = self._known_of(plan).size
        self._fill(seed, step, index, rows)
        return rows

    def draw(self, plan: Plan, seed: int, step: int, index: NDArray[np.int64]) -> Replayed:
        """Draw for samples of one size."""
        return self._drawn(plan, self.rows(plan, seed, step, index))

    def at(self, plan: Plan, u: Float[Tensor, "b words"]) -> Replayed:
        """Draw at these uniforms."""
        rows = np.empty((len(u), self._width))
        rows[:, -2:] = plan.size_in
        rows[:, : self._words] = memory(u) * 2.0**32 - 0.5
        return self._drawn(plan, rows)

    def _drawn(self, plan: Plan, rows: NDArray[np.float64]) -> Replayed:
        count = len(self.rounded)
        if count:
            rows[:, -2 - count : -2] = self.values(rows, plan)
        return Replayed(rows, self.unpack, self.recording.play)

    def values(self, rows: NDArray[np.float64], plan: Plan) -> NDArray[np.float64]:
        """Compute the inexact values, one column each; ``rows`` begin with the words."""
        known = self._known_of(plan)
        if known.exponents:
            logs = known.shift + known.scale * (rows.take(known.words, 1) + 0.5)
            return memory(torch.exp(torch.from_numpy(logs)))
        u = torch.from_numpy((rows[:, : self._words] + 0.5) * 2.0**-32)  # same strides as the tensor code's: they may decide a bit
        return np.array([memory(draw.distribution.sample(words_of(draw, u), {})) for draw in self.rounded_of(plan)]).T

    def _known_of(self, plan: Plan) -> _Known:
        known = self._known
        if known.plan() is not plan:
            known = self._known = _Known(plan, self.rounded_of(plan))
        return known

    def unpack(self, plan: Plan, words: Tensor) -> DrawnParams:
        """Turn words, and the inexact values after them, into drawn values."""
        count = 4 * len(plan.slots)
        values = words[:, count:].unbind(1)
        known = {(draw.transform, draw.name): value for draw, value in zip(self.rounded_of(plan), values, strict=True)}
        return params_of(plan, uniforms(words[:, :count]), {}, known)

    def rounded_of(self, plan: Plan) -> list[Draw]:
        """Return the draws whose values are inexact."""
        return [draw for draw in plan.draws if (draw.transform, draw.name) in self.rounded]


class _Known:
    """Facts that are the same in every draw of a plan: the size, and the words whose values are exponentials of uniform numbers.

    It holds a weak reference to the plan only, so that the plan can be freed.
    """

    def __init__(self, plan: Plan, rounded: Sequence[Draw]) -> None:
        self.plan, self.size, self.words = ref(plan), plan.size_in, np.array([draw.word for draw in rounded], np.intp)
        kinds = [draw.distribution for draw in rounded]
        pairs = [kind.logs().affine() if isinstance(kind, LogUniform) else None for kind in kinds]
        self.exponents = bool(pairs) and None not in pairs  # all of them
        self.shift, self.scale = np.array(pairs if self.exponents else (), np.float64).reshape(-1, 2).T * [[1.0], [2.0**-32]]


def _is_rounded(distribution: Distribution) -> bool:
    """Return whether a distribution's one number is inexact: its last bit depends on a library, as that of an exponential does."""
    if distribution.vector or distribution.words > 1 or distribution.affine() is not None:
        return False
    try:
        record(lambda u: [distribution.sample(u[:, 0], {})], [(1,)], exact=True)
    except TapeError:
        return True
    return False


def as_slots(slots: tuple[int, ...], shared: tuple[bool, ...], device: torch.device) -> tuple[Tensor, Tensor | None]:
    """Return the slots of the hash, and which of them use the sample's index (None: all)."""
    keep = constant([0 if one else 1 for one in shared], torch.int64, device) if any(shared) else None
    return constant(slots, torch.int64, device), keep


def draw_uniforms(
    plan: Plan, seed: Int64[Tensor, ""], step: Int64[Tensor, ""], index: Int64[Tensor, "b"]
) -> Float[Tensor, "b words"]:
    """Return the uniforms in (0, 1) that the plan's draws map to values."""
    slots, keep = as_slots(plan.slots, plan.shared, index.device)
    return uniforms(draw_words(seed, step, index, slots, keep))


def params_of(
    plan: Plan,
    u: Float[Tensor, "b words"],
    learned: Mapping[tuple[int, str], Mapping[str, Tensor]],
    known: Mapping[tuple[int, str], Float[Tensor, "b"]] = MappingProxyType({}),
) -> DrawnParams:
    """Map uniforms to the values of every draw; values in ``known`` are taken from there."""
    device = u.device
    params: tuple[dict[str, Tensor], ...] = tuple({} for _ in plan.steps)
    shift, scale = [0.0] * u.shape[1], [1.0] * u.shape[1]
    affine = set()
    for draw in plan.draws:
        pair = draw.distribution.affine()
        if pair is not None:
            shift[draw.word], scale[draw.word] = pair
            affine.add(draw.word)
    linear = (constant(shift, u.dtype, device) + constant(scale, u.dtype, device) * u).unbind(1)
    for draw in plan.draws:
        if (draw.transform, draw.name) in known:
            value = known[draw.transform, draw.name]
        elif draw.word in affine:
            value = linear[draw.word]
        else:
            distribution = draw.distribution
            source = words_of(draw, u)
            raw = {name: tensor.to(u.dtype) for name, tensor in learned.get((draw.transform, draw.name), {}).items()}
            value = distribution.sample(source, raw)
        params[draw.transform][draw.name] = value
    return params


def words_of(draw: Draw, u: Float[Tensor, "b words"]) -> Float[Tensor, "b *own"]:
    """Return the uniforms of one draw: (b, n) if it takes several or returns rows, else (b,)."""
    words = draw.distribution.words
    return u[:, draw.word : draw.word + words] if draw.distribution.vector or words > 1 else u[:, draw.word]
