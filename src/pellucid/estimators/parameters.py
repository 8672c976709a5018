"""The parameters behind every learned number of a list of transforms.

Owns: `LearnedParameters`: what is registered under which name, and the raw tensors a draw reads.
Must not: draw, or map raw tensors to numbers (distributions do).
Read next: ``expected.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import torch
from torch import Tensor, nn

from pellucid.errors import invalid, wrong_type
from pellucid.random.distributions import Distribution
from pellucid.random.information import entropy, kl_divergence
from pellucid.random.learnable import Learnable
from pellucid.transforms.base import Transform
from pellucid.types import ImageSpec

__all__ = ["At", "LearnedParameters", "draws_anywhere"]

At: TypeAlias = tuple[int, str]
"""(transform, name) of a drawn value."""


class LearnedParameters(nn.Module):
    """The unbounded parameters behind every learned number, named ``<transform>_<value>_<number>``.

    Numbers that a module predicts have no parameter here; the module itself is registered, so that its parameters train along.
    """

    def __init__(self, transforms: Sequence[Transform]) -> None:
        super().__init__()
        self.predictors = nn.ModuleList()
        self._distributions: dict[At, Distribution] = {}
        self._names: dict[At, dict[str, str]] = {}
        self._predicted: dict[str, tuple[int, int, float]] = {}  # raw name -> (function, column, offset)
        self._functions: list[Callable[[Tensor], Tensor]] = []
        for index, transform in enumerate(transforms):
            shared: dict[str, str] | None = None
            for name, distribution in draws_anywhere(transform).items():
                learned = distribution.learned()
                if not learned:
                    continue
                self._distributions[index, name] = distribution
                if name in transform.tied and shared is not None:
                    self._names[index, name] = shared
                    continue
                starts = distribution.start()
                names = {raw: f"{index}_{name}_{raw}" for raw in learned}
                for raw, number in learned.items():
                    self._register(names[raw], number, starts[raw])
                self._names[index, name] = names
                if name in transform.tied:
                    shared = names

    def _register(self, name: str, number: Learnable, start: float) -> None:
        if isinstance(number.by, Tensor):
            self.register_parameter(name, number.by)
        elif number.by is None:
            self.register_parameter(name, nn.Parameter(torch.tensor(start, dtype=torch.float32)))
        else:
            where = next((i for i, known in enumerate(self._functions) if known is number.by), len(self._functions))
            if where == len(self._functions):
                self._functions.append(number.by)
                if isinstance(number.by, nn.Module):
                    self.predictors.append(number.by)
            self._predicted[name] = (where, number.column, start)

    @property
    def predicts(self) -> bool:
        """Whether the images decide some of the numbers."""
        return bool(self._predicted)

    @property
    def distributions(self) -> Mapping[At, Distribution]:
        """The learned distributions."""
        return self._distributions

    def raw(self, images: Tensor | None = None) -> dict[At, dict[str, Tensor]]:
        """The unbounded tensors, by drawn value and name; scalars, or (b,) where they are predicted from ``images``."""
        if not self._names:
            return {}
        outputs = self._outputs(images) if self._predicted else []
        found: dict[str, Tensor] = {}
        for names in self._names.values():
            for full in names.values():
                if full in self._predicted:
                    where, column, offset = self._predicted[full]
                    found[full] = outputs[where][:, column] + offset
                else:
                    found[full] = getattr(self, full).reshape(())
        return {at: {raw: found[full] for raw, full in names.items()} for at, names in self._names.items()}

    def _outputs(self, images: Tensor | None) -> list[Tensor]:
        if images is None:
            raise invalid(
                "batch",
                expected="images: a module predicts some of the numbers from them",
                got="nothing",
                fix="Pass the batch, for example pipeline.ranges(batch).",
            )
        widest = [0] * len(self._functions)
        for where, column, _ in self._predicted.values():
            widest[where] = max(widest[where], column + 1)
        outputs = []
        for function, columns in zip(self._functions, widest, strict=True):
            output = function(images)
            if not isinstance(output, Tensor):
                raise wrong_type(
                    f"output of {_called(function)}",
                    expected=f"a tensor of {columns} numbers per sample",
                    got=type(output).__name__,
                    fix="A function in the place of a number is called with the images, (B, C, H, W) -> (B,).",
                )
            output = output[:, None] if output.dim() == 1 else output
            if output.dim() != 2 or output.shape[0] != images.shape[0] or output.shape[1] < columns:
                raise invalid(
                    f"output of {_called(function)}",
                    expected=f"shape ({images.shape[0]}, {columns}) at least: {columns} numbers per sample",
                    got=tuple(output.shape),
                )
            outputs.append(output)
        return outputs

    def ranges(self, images: Tensor | None = None) -> dict[str, dict[str, Tensor]]:
        """The learned distributions' numbers as they are now."""
        raws = self.raw(images)
        return {
            _label(at): {name: torch.as_tensor(value) for name, value in distribution.current(raws[at]).items()}
            for at, distribution in self._distributions.items()
        }

    def entropy(self, images: Tensor | None = None) -> dict[str, Tensor]:
        """The entropy of every learned distribution that spreads; constants are left out."""
        raws = self.raw(images)
        spread = {at: d for at, d in self._distributions.items() if set(d.numbers()) != {"value"}}
        return {_label(at): entropy(distribution, raws[at]) for at, distribution in spread.items()}

    def kl(self, priors: Mapping[str, Distribution], images: Tensor | None = None) -> dict[str, Tensor]:
        """KL(learned || prior) for each prior, by the name of the drawn value."""
        raws = self.raw(images)
        by_label = {_label(at): at for at in self._distributions}
        for label in priors:
            if label not in by_label:
                raise invalid("kl", expected=f"names among {tuple(by_label)}", got=repr(label))
        return {
            label: kl_divergence(self._distributions[by_label[label]], raws[by_label[label]], prior)
            for label, prior in priors.items()
        }


def _called(function: Callable[[Tensor], Tensor]) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _label(at: At) -> str:
    return f"{at[0]}.{at[1]}"


def draws_anywhere(transform: Transform) -> dict[str, Distribution]:
    """The draws, asked with an image kind nobody has; learned ones do not depend on it."""
    try:
        return transform.draws(ImageSpec(3, 1 << 20, 1 << 20))
    except ValueError:
        return {}
