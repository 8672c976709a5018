"""One of several lists of transforms per sample, with learnable weights, in one fused pass.

Owns: `RandomChoice`.
Must not: run one pipeline per branch; the branches not chosen rest at the identity inside one pipeline.
Read next: ``presets.py``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from pellucid.constants import constant
from pellucid.errors import invalid
from pellucid.pipeline import Pipeline, check_no_more
from pellucid.random.arguments import check_flag, finite_number, finite_numbers, whole_number
from pellucid.random.key import Key, default_index, draw_words, on_device
from pellucid.random.philox import uniforms
from pellucid.random.stream import slot_of
from pellucid.record import Record
from pellucid.transforms.base import Transform, as_transforms, ordered

__all__ = ["RandomChoice"]

_MOST_TIMES = 64
_COLDEST = 1e-6
"""Below, the logits overflow."""


class RandomChoice(nn.Module):
    """Apply one of several branches, each a list of transforms, drawn per sample.

    All branches lie in one pipeline, one after the other, and the gates of those not chosen are closed: at the identity they
    cost a small matrix each, and geometry and colour of all branches still fuse into one resample. Every learnable number takes
    part in every call, whatever is drawn, so distributed training needs no ``find_unused_parameters``.

    Args:
        branches: lists of transforms; every transform must have a probability ``p``.
        weights: of the branches, not negative, normalised here; default equal.
        learn: train the weights (as the logits of a softmax).
        times: how often a branch is drawn and applied, 1 to 64. The branches lie in the pipeline this often, each time with
            parameters of their own where numbers are learned; the weights are shared.
        temperature: None draws one branch and lets gradients pass straight through; a number > 0 mixes the branches by the
            Gumbel-softmax of that temperature (1e-6 or more), whose largest share falls on each branch with exactly its weight.
        seed, options: as in `Pipeline`; ``same_on_batch`` shares the branch as well.

    Gradient:
        images and learned numbers inside the branches: as in `Pipeline`. weights: surrogate (straight-through; or that of the
        relaxed choice where ``temperature`` is set).

    Example:
        >>> import torch, pellucid
        >>> from pellucid.policy import RandomChoice
        >>> flips = RandomChoice([[pellucid.RandomHorizontalFlip(p=1.0)], [pellucid.RandomVerticalFlip(p=1.0)]])
        >>> sorted({tuple(row) for row in flips(torch.arange(4.0).reshape(1, 1, 2, 2).expand(32, 1, 2, 2)).flatten(1).tolist()})
        [(1.0, 0.0, 3.0, 2.0), (2.0, 3.0, 0.0, 1.0)]
    """

    logits: Tensor

    def __init__(
        self,
        branches: Sequence[Sequence[Transform]],
        *,
        weights: Sequence[float] | None = None,
        learn: bool = False,
        times: int = 1,
        temperature: float | None = None,
        seed: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        fix = "For example [[RandomInvert()], [RandomHorizontalFlip(), RandomRotation(9)]]."
        self.branches = tuple(
            as_transforms(branch, f"branches[{i}]")
            for i, branch in enumerate(ordered("branches", branches, "a list of lists of transforms", fix))
        )
        if not self.branches:
            raise invalid("branches", expected="at least one list of transforms", got=repr(branches))
        for i, branch in enumerate(self.branches):
            for transform in branch:
                if "gate" not in transform.gradients:
                    raise invalid(
                        f"branches[{i}]",
                        expected="transforms that have a probability p",
                        got=repr(transform),
                        fix="Put it before or after the choice.",
                    )
        check_flag("learn", learn)
        times = whole_number("times", times, 1, _MOST_TIMES)
        shares = torch.tensor((1.0,) * len(self.branches) if weights is None else finite_numbers("weights", weights))
        if len(shares) != len(self.branches) or float(shares.min()) < 0 or not 0 < float(shares.sum()) < math.inf:
            raise invalid(
                "weights", expected=f"{len(self.branches)} non-negative numbers with a positive, finite sum", got=repr(weights)
            )
        if learn and float(shares.min()) <= 0:
            raise invalid(
                "weights", expected="numbers > 0 where they are learned", got=repr(weights), fix="A weight of 0 cannot grow."
            )
        if temperature is not None and finite_number("temperature", temperature) < _COLDEST:
            raise invalid("temperature", expected=f"a number >= {_COLDEST:g}, or None for hard choices", got=repr(temperature))
        self.times = times
        self.temperature = None if temperature is None else float(temperature)
        self.pipeline = Pipeline([t for branch in self.branches for t in branch] * times, seed=seed, **options)
        with torch.inference_mode(False):
            # One hundred orders of magnitude stand in for the logarithm of zero, whose gradient is NaN.
            logits = torch.log((shares / shares.sum()).clamp(min=1e-38))
            if learn:
                self.logits = nn.Parameter(logits)
            else:
                self.register_buffer("logits", logits)
        # The choice and the branch that each transform belongs to.
        self._owner = tuple((turn, i) for turn in range(times) for i, branch in enumerate(self.branches) for _ in branch)

    @property
    def weights(self) -> Float[Tensor, "k"]:
        """The probabilities of the branches; part of the graph where they are learned."""
        return torch.softmax(self.logits, 0)

    def forward(self, batch: Any, *, key: Key | None = None, return_record: bool = False, **unknown: Any) -> Any:
        """Augment a batch; the arguments and results are those of a pipeline."""
        check_no_more(unknown)
        record = self.draw(batch, key=key)
        result = self.pipeline.apply(batch, record)
        return (result, record) if return_record else result

    def draw(self, batch: Any, *, key: Key | None = None) -> Record:
        """Draw branches and parameters; ``apply(batch, record)`` finishes. The record is one of ``self.pipeline``."""
        key = self.pipeline.key_of(batch, key)
        record = self.pipeline.draw(batch, key=key)
        shares = [self.choose(record.samples, key, record.device, turn=turn) for turn in range(self.times)]  # b k each
        params = []
        for values, (turn, branch) in zip(record.params, self._owner, strict=True):
            mine = shares[turn][:, branch]
            params.append({**values, "gate": values["gate"] * mine if "gate" in values else mine})
        return replace(record, params=tuple(params))

    def apply(self, batch: Any, record: Record | None = None) -> Any:
        """Replay a record; with a function instead of a batch it is ``nn.Module.apply``."""
        if record is None:
            # The pipeline says what is missing.
            return self.pipeline.apply(batch) if isinstance(batch, Tensor | dict) else super().apply(batch)
        return self.pipeline.apply(batch, record)

    def inverse(self, batch: Any, record: Record) -> Any:
        """Undo the geometry, as `Pipeline.inverse` does."""
        return self.pipeline.inverse(batch, record)

    def choose(self, samples: int, key: Key, device: torch.device, *, turn: int = 0) -> Float[Tensor, "b k"]:
        """The share of each branch in each sample: one-hot, or relaxed where there is a temperature."""
        index = default_index(samples, device) if key.index is None else key.index.to(device, torch.int64)
        logits = torch.log_softmax(self.logits.double(), 0).to(device)
        if self.temperature is None:
            u = self._uniforms(key, index, turn, 1)  # b 1
            edges = torch.softmax(logits, 0).cumsum(0)[:-1]
            hard = nn.functional.one_hot((u >= edges).sum(1), len(self.branches)).to(u.dtype)
            soft = torch.softmax(logits, 0)
            return hard + (soft - soft.detach())
        u = self._uniforms(key, index, turn, len(self.branches))
        return torch.softmax((logits - torch.log(-torch.log(u))) / self.temperature, dim=1)

    def extra_repr(self) -> str:
        """One line per branch."""
        return "\n".join(f"({i}): {', '.join(map(repr, branch))}" for i, branch in enumerate(self.branches))

    def _uniforms(self, key: Key, index: Int64[Tensor, "b"], turn: int, count: int) -> Float[Tensor, "b n"]:
        device = index.device
        blocks = range(-(-count // 4))
        slots = constant([slot_of(turn, "RandomChoice", "branch", block) for block in blocks], torch.int64, device)
        keep = constant([0 for _ in blocks], torch.int64, device) if self.pipeline.same_on_batch else None
        return uniforms(draw_words(on_device(key.seed, device), on_device(key.step, device), index, slots, keep))[:, :count]
