"""What the other files of this package use of a pipeline.

Owns: `PipelineLike`.
Must not: do anything.
Read next: ``module.py``, whose `Pipeline` is the only such class.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from torch import Tensor

from pellucid.engine.plan import Plan, Plans
from pellucid.pipeline.first_look import Look
from pellucid.pipeline.recipes import Recipes
from pellucid.random.key import Key
from pellucid.targets.options import Options
from pellucid.targets.parsing import Parsed
from pellucid.transforms.base import Transform
from pellucid.transforms.choices import Step
from pellucid.types import ImageSpec

__all__ = ["PipelineLike"]


class PipelineLike(Protocol):
    """A `Pipeline`. The files below `Pipeline` name this class instead, so that no import leads back up."""

    transforms: tuple[Transform, ...]
    steps: tuple[Step, ...]
    options: Options
    learned: Any
    _plans: Plans
    _settles: bool
    _look: Look
    _recipes: Recipes
    _losses: Any
    _scene: Any

    def __call__(self, batch: Any, *, key: Key | None, return_record: bool, gradient_scale: Any) -> Any:
        """See `Pipeline.forward`."""

    def draw(self, batch: Any, *, key: Key | None) -> Any:
        """See `Pipeline.draw`."""

    def apply(self, batch: Any, record: Any, *, gradient_scale: Any = 0.0) -> Any:
        """See `Pipeline.apply`."""

    def inverse(self, batch: Any, record: Any, *, return_valid: bool) -> Any:
        """See `Pipeline.inverse`."""

    def key_of(self, batch: Any, key: Key | None = None) -> Key:
        """See `Pipeline.key_of`."""

    def valid_mask(self, record: Any) -> Any:
        """See `Pipeline.valid_mask`."""

    def explain(self, batch: Any) -> str:
        """See `Pipeline.explain`."""

    def _apart(self, batch: Any, key: Key | None) -> tuple[Parsed | None, Key | None]: ...

    def _at(self, parsed: Parsed, key: Key | None) -> tuple[Plan, Tensor, Tensor, Tensor]: ...

    def _key_parts(self, parsed: Parsed, key: Key | None, samples: int) -> tuple[Tensor, Tensor, Tensor]: ...

    def _planned(self, parsed: Parsed, settled: tuple[Transform, ...] | None) -> Plan: ...

    def _raw(self, parsed: Parsed, plan: Plan) -> Mapping[tuple[int, str], Mapping[str, Tensor]]: ...

    def _settled(
        self, specs: Sequence[ImageSpec], seed: Tensor, step: Tensor, index: Tensor
    ) -> list[tuple[Transform, ...]] | None: ...

    def _spec(self, parsed: Parsed) -> ImageSpec: ...
