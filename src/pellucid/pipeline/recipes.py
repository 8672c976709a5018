"""How pictures of one kind go through a pipeline, decided once: from a key to pixels without another look at the batch.

Owns: what tells kinds of calls apart, and `Recipe`, the draw's tape, the passes and the form of the result.
Must not: trace, hold numbers of a call, or compute otherwise than what it stands for.
Read next: ``../engine/prepared.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pellucid.core.compilers import numba_works
from pellucid.core.tape import is_plain_eager
from pellucid.engine.drawing import DrawTape
from pellucid.engine.lowering import Lowered, Replayed
from pellucid.engine.plan import Plan
from pellucid.engine.prepared import image_pass
from pellucid.pipeline.applying import dtype_of_result, image_of
from pellucid.random.key import RANK_STRIDE, Key, counted, key_for
from pellucid.random.stream import claim_numbers, rank_now
from pellucid.targets.arrays import as_given, as_tensor
from pellucid.targets.kinds import IMAGE
from pellucid.targets.options import Options
from pellucid.targets.parsing import Parsed, batch_of

__all__ = ["Recipe", "Recipes", "kind_of_call"]

_MOST = 64
_CPU = torch.device("cpu")


def kind_of_call(batch: Any) -> tuple[Any, ...] | None:
    """What a batch has in common with others that go the same way; None where one must look closer: it holds more than pictures,
    somebody traces, maps or listens, or its memory is not simply there.
    """
    if not is_plain_eager():
        return None
    if type(batch) is Tensor:
        if batch.is_cpu and batch.layout is torch.strided and not (batch.is_neg() or batch.is_nested):
            learns = batch.requires_grad and torch.is_grad_enabled()
            return batch.shape, batch.stride(), batch.dtype, learns
    elif type(batch) is np.ndarray:
        return batch.shape, batch.strides, batch.dtype, batch.flags.writeable
    return None


class Recipe:
    """One kind of call.

    Args:
        plan: what is fused with what.
        tape: of its draws.
        parsed: one such batch.
        options: of the pipeline.
    """

    def __init__(self, plan: Plan, tape: DrawTape, parsed: Parsed, options: Options) -> None:
        (entry,) = parsed.entries
        self.plan, self.samples, self.lead = plan, batch_of(parsed)[0], parsed.lead
        self._last, self._given = entry.channels_last, entry.given
        self._draw, self._options, self._index = tape.draw, options, counted(self.samples)
        self._shared = options.same_on_batch or any(plan.shared)
        self._dtype = dtype_of_result(plan, options, entry.tensor.dtype)
        self._pass: Callable[[Replayed, Tensor], Tensor] | None = None

    @staticmethod
    def of(plan: Plan, parsed: Parsed, options: Options) -> Recipe | None:
        """The recipe of a call that was looked at; None where calls of its kind must be."""
        one = (
            len(parsed.entries) == 1
            and parsed.form.bare
            and parsed.entries[0].kind is IMAGE
            and parsed.lead < 2
            and parsed.entries[0].depth is None
        )
        if not one or not batch_of(parsed)[0] or plan.looking or plan.moving_layers or plan.smooth or not numba_works():
            return None
        tape = DrawTape.of(plan)
        return None if tape is None else Recipe(plan, tape, parsed, options)

    def __call__(self, batch: Any, stream: Mapping[str, Any], key: Key | None) -> tuple[Replayed, Any]:
        """What is drawn, and the pictures under it in the form of the batch.

        Args:
            batch: of this kind.
            stream: the pipeline's seed and step.
            key: as in the call.
        """
        if key is None:
            seed, step = claim_numbers(stream["_seed"], stream["_step"], shared=self._shared)
            rank = rank_now()
            index = self._index + rank * RANK_STRIDE if rank else self._index
        else:
            keyed, at, index = key_for(key, self.samples, _CPU)
            seed, step = int(keyed), int(at)
        drawn = self._draw(self.plan, seed, step, index)
        image = batch if type(batch) is Tensor else as_tensor("image", "image", batch)
        image = image.movedim(-1, -3) if self._last and image is batch else image
        image = image if self.lead else image[None]
        if self._pass is None:
            self._pass = image_pass(self.plan, drawn, image, self._options.impl, self._dtype) or self._looking
        out = self._pass(drawn, image)
        out = out if self.lead else out[0]
        out = out.movedim(-3, -1) if self._last else out
        return drawn, as_given(out, self._given) if self._given else out

    def _looking(self, drawn: Replayed, image: Tensor) -> Tensor:
        """Where a pass depends on more than its kind."""
        return image_of(Lowered(self.plan, drawn, _CPU), image, self._options)


class Recipes(dict[tuple[Any, ...], Recipe]):
    """A pipeline's, by kind of call."""

    def __reduce__(self) -> Any:  # a copy makes its own
        return Recipes, ()

    def keep(self, kind: tuple[Any, ...], recipe: Recipe | None) -> None:
        """Remember the recipe of a kind, if it has one; of so many that pictures seem to differ each time, none stays."""
        if len(self) >= _MOST:
            self.clear()
        if recipe is not None:
            self[kind] = recipe
