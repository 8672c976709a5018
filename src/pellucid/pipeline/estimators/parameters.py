"""The parameters behind every learned number of a list of transforms.

Owns: `LearnedParameters`: the parameters and their names, and the raw tensors that a draw reads.
Must not: draw, or map raw tensors to numbers (distributions do).
Read next: ``expected.py``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias
from zlib import crc32

import torch
from torch import Tensor, nn

from pellucid.core.constants import standing
from pellucid.errors import invalid, wrong_type
from pellucid.pipeline.estimators.site import LOSS_BASED
from pellucid.random.distributions import Distribution
from pellucid.random.information import entropy, kl_divergence
from pellucid.random.learnable import Learnable
from pellucid.transforms.base import ANY_IMAGE
from pellucid.transforms.choices import Step

__all__ = ["At", "LearnedParameters"]

At: TypeAlias = tuple[int, str]
"""(transform, name) of a drawn value."""

_MEANING = "_extra_state"
"""The ``state_dict`` key, torch's own for extra state, of the table by which the meaning of the parameters is checked."""


class LearnedParameters(nn.Module):
    """The unbounded parameters behind every learned number, named ``<transform>_<value>_<number>``.

    Numbers that a module predicts have no parameter here; the module itself is registered, so that its parameters are trained.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        super().__init__()
        self.predictors = nn.ModuleList()
        called = (getattr(step.transform, "function", None) for step in steps)
        self.called = nn.ModuleList(function for function in called if isinstance(function, nn.Module))
        self._distributions: dict[At, Distribution] = {}
        self._names: dict[At, dict[str, str]] = {}
        self._predicted: dict[str, tuple[int, int, float]] = {}  # raw name -> (function, column, offset)
        self._functions: list[Callable[[Tensor], Tensor]] = []
        self._arrays: set[str] = set()  # names of the parameters that are arrays
        for index, (transform, _, first) in enumerate(steps):
            shared: dict[str, str] | None = None
            for name, distribution in transform.draws(ANY_IMAGE).items():
                learned = distribution.learned()
                if not learned:
                    continue
                self._distributions[index, name] = distribution
                if first != index:  # a later turn of the same transform
                    self._names[index, name] = self._names[first, name]
                    continue
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
        self._unsaid = True
        self._surrogates = any(distribution.estimator in LOSS_BASED for distribution in self._distributions.values())

    def _register(self, name: str, number: Learnable, start: Any) -> None:
        if number.shape:
            self._arrays.add(name)
            if number.by is not None:
                raise invalid("Learnable.by", expected="one number per sample", got=f"a start of shape {number.shape}")
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

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if self._distributions:
            rows = [row for at in self._distributions for row in self._meaning(at)]
            destination[prefix + _MEANING] = torch.tensor(rows, dtype=torch.float64)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        saved = state_dict.pop(prefix + _MEANING, None)
        if saved is None:
            saved = torch.empty(0, 3)
        if not isinstance(saved, Tensor) or saved.dim() != 2 or saved.shape[1] != 3:
            got = f"shape {tuple(saved.shape)}" if isinstance(saved, Tensor) else type(saved).__name__
            raise invalid(f"state_dict[{prefix + _MEANING!r}]", expected="a tensor (n, 3), as state_dict() gives it", got=got)
        for at in self._distributions if len(saved) else ():
            here = torch.tensor(self._meaning(at), dtype=torch.float64)
            stored = saved[(saved[:, :2] == here[0, :2].to(saved)).all(1)].to(here)  # empty if the file has no such draw
            close = max(1e-6, 4.0 * torch.finfo(saved.dtype).eps)  # a state_dict may have been cast
            if len(stored) and not (
                stored.shape == here.shape and torch.allclose(stored, here, rtol=close, atol=1e-6, equal_nan=True)
            ):
                fix = "The parameters would mean other numbers here. Build the pipeline with the bounds they were saved with."
                expected = f"numbers saved under the same bounds: {_listed(here)} where the parameters are 0 and 1"
                raise invalid(f"state_dict of {_label(at)}", expected=expected, got=_listed(stored), fix=fix)
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def _meaning(self, at: At) -> list[tuple[float, float, float]]:
        """Return the numbers for all parameters equal to 0, and to 1: two points that differ if the bounds differ.

        Each row begins with the transform and a checksum of the value's name, by which saved rows are found again.
        """
        rows = []
        for place in (0.0, 1.0):
            raw = {
                name: torch.tensor(place + self._predicted.get(full, (0, 0, 0.0))[2], dtype=torch.float64)
                for name, full in self._names[at].items()
            }
            for number in self._distributions[at].current(raw).values():
                values = torch.as_tensor(number, dtype=torch.float64).flatten().tolist()
                rows += [(float(at[0]), float(crc32(at[1].encode())), value) for value in values]
        return rows

    def hint(self) -> None:
        """Warn once, in a plain call with gradients, about numbers whose gradient there is not that of their estimator."""
        # A trace must not depend on whether the warning has appeared.
        if not self._surrogates or torch.compiler.is_compiling() or not self._unsaid or not torch.is_grad_enabled():
            return
        self._unsaid = False
        kinds = {"boundary": "reparameterised"}
        surrogates = [
            f"{_label(at)} ({one.estimator}) by the {kinds.get(one.estimator, 'straight-through')} surrogate"
            for at, one in self._distributions.items()
            if one.estimator in LOSS_BASED and self._trains(at)
        ]
        if surrogates:
            warnings.warn(
                f"In a plain call these learned numbers get a biased gradient: {', '.join(surrogates)}. "
                "pipeline.expected(loss_fn, batch) gives the right one; estimator='straight_through' or 'reparameterised' says "
                "that this one is meant. This is said once.",
                stacklevel=6,
            )

    def _trains(self, at: At) -> bool:
        return any(full in self._predicted or getattr(self, full).requires_grad for full in self._names[at].values())

    @property
    def predicts(self) -> bool:
        """Whether modules predict some of the numbers from the images."""
        return bool(self._predicted)

    @property
    def distributions(self) -> Mapping[At, Distribution]:
        """The learned distributions."""
        return self._distributions

    def raw(self, images: Tensor | None = None) -> dict[At, dict[str, Tensor]]:
        """Return the unbounded tensors, by drawn value and name: scalars, arrays, or (b,) if predicted from ``images``."""
        if not self._names:
            return {}
        outputs = self._outputs(images) if self._predicted else []
        tensors: dict[str, Tensor] = {}
        for names in self._names.values():
            for full in names.values():
                if full in self._predicted:
                    where, column, offset = self._predicted[full]
                    tensors[full] = outputs[where][:, column] + offset
                else:
                    own = getattr(self, full)
                    tensors[full] = own if full in self._arrays else own.reshape(())
        return {at: {raw: tensors[full] for raw, full in names.items()} for at, names in self._names.items()}

    def _outputs(self, images: Tensor | None) -> list[Tensor]:
        if images is None:
            fix = "Pass the batch, for example pipeline.ranges(batch)."
            raise invalid("batch", expected="images: a module predicts some of the numbers from them", got="nothing", fix=fix)
        widest = [0] * len(self._functions)
        for where, column, _ in self._predicted.values():
            widest[where] = max(widest[where], column + 1)
        outputs = []
        for function, columns in zip(self._functions, widest, strict=True):
            with standing(images.device):  # a user's module may make tensors without naming a device
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
                expected = f"shape ({images.shape[0]}, {columns}) at least: {columns} numbers per sample"
                raise invalid(f"output of {_called(function)}", expected=expected, got=tuple(output.shape))
            outputs.append(output)
        return outputs

    def take(self, places: Sequence[tuple[LearnedParameters, int]]) -> None:
        """Copy the numbers of every step from a step of other parameters with the same transform."""
        with torch.no_grad():
            for (step, name), names in self._names.items():
                other, place = places[step]
                for raw, full in names.items():
                    if full not in self._predicted:
                        getattr(self, full).copy_(getattr(other, other._names[place, name][raw]))

    def ranges(self, images: Tensor | None = None) -> dict[str, dict[str, Tensor]]:
        """Return the current numbers of the learned distributions."""
        raws = self.raw(images)
        return {
            _label(at): {name: torch.as_tensor(value) for name, value in distribution.current(raws[at]).items()}
            for at, distribution in self._distributions.items()
        }

    def entropy(self, images: Tensor | None = None) -> dict[str, Tensor]:
        """Return the entropy of every learned distribution, except constants."""
        raws = self.raw(images)
        spread = {at: d for at, d in self._distributions.items() if set(d.numbers()) != {"value"}}
        return {_label(at): entropy(distribution, raws[at]) for at, distribution in spread.items()}

    def kl(self, priors: Mapping[str, Distribution], images: Tensor | None = None) -> dict[str, Tensor]:
        """Return KL(learned || prior) for each prior, by the name of the drawn value."""
        raws = self.raw(images)
        by_label = {_label(at): at for at in self._distributions}
        for label in priors:
            if label not in by_label:
                raise invalid("kl", expected=f"names among {tuple(by_label)}", got=repr(label))
        return {
            label: kl_divergence(self._distributions[by_label[label]], raws[by_label[label]], prior)
            for label, prior in priors.items()
        }


def _listed(rows: Tensor) -> str:
    return ", ".join(f"{number:.4g}" for number in rows[:, 2].tolist())


def _called(function: Callable[[Tensor], Tensor]) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _label(at: At) -> str:
    return f"{at[0]}.{at[1]}"
