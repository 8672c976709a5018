"""What a transform is: a frozen value that names its draws and lowers to one segment.

Owns: the `Transform` interface, gating by probability, and small argument checks shared by constructors.
Must not: draw, touch pixels, or keep per-call state.
Read next: ``flip.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from pellucid.errors import invalid, wrong_type
from pellucid.random.distributions import Distribution
from pellucid.segments import Segment, SegmentSpec
from pellucid.types import ImageSpec, Size

__all__ = ["Params", "Transform", "as_size", "check_choice", "check_padding", "gated", "gated_matrix", "set_runner"]

Params = Mapping[str, Tensor]
"""Drawn values of one transform, one row per sample."""

_runner: Callable[..., Any] | None = None


def set_runner(runner: Callable[..., Any]) -> None:
    """Tell transforms how to run on their own; called once by the pipeline layer, which they must not import."""
    global _runner
    _runner = runner


class Transform:
    """An interface nobody instantiates; final classes implement its three methods and declare their gradients.

    ``segment`` and ``draws`` see only shapes, so that planning needs no tensor; ``lower`` turns drawn values into the segment's
    tensors, differentiably, without looking at any value.
    """

    gradients: ClassVar[Mapping[str, str]] = {"image": "exact"}
    """For the image and each drawn value: ``exact``, ``almost_everywhere``, ``surrogate: <name>`` or ``none``."""

    tied: ClassVar[tuple[str, ...]] = ()
    """Drawn values that come from one distribution: what is learned of it, they share."""

    def segment(self, spec: ImageSpec) -> SegmentSpec:
        """The static description of what this lowers to, for images of this kind; raises if it cannot handle them."""
        raise NotImplementedError

    def draws(self, spec: ImageSpec) -> dict[str, Distribution]:
        """What is drawn for each sample, by name, in a fixed order."""
        return {}

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Segment:
        """The segment's tensors. ``like`` is a scalar that gives dtype and device to transforms that draw nothing."""
        raise NotImplementedError

    def __call__(self, batch: Any, **options: Any) -> Any:
        """Run this transform on its own, as a pipeline of one; same arguments as `Pipeline`'s call."""
        if _runner is None:
            raise RuntimeError("Import pellucid (not pellucid.transforms alone) to call a transform on its own.")
        return _runner(self, batch, **options)


def gated(values: Params, value: Tensor, resting: Tensor | float) -> Tensor:
    """The drawn value where the sample's gate is open, the resting value elsewhere; exact at both ends."""
    if "gate" not in values:
        return value
    gate = values["gate"].reshape(-1, *([1] * (value.dim() - 1)))
    return gate * value + (1.0 - gate) * resting


def gated_matrix(values: Params, matrix: Tensor) -> Tensor:
    """The same for square matrices, resting at the identity."""
    if "gate" not in values:
        return matrix
    return gated(values, matrix, torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device))


def as_size(name: str, size: int | Size) -> Size:
    """Read an int as a square, and check (height, width)."""
    if isinstance(size, int) and not isinstance(size, bool):
        size = (size, size)
    if not isinstance(size, tuple | list) or len(size) != 2 or not all(isinstance(s, int) for s in size):
        raise wrong_type(name, expected="an int or (height, width)", got=repr(size))
    if min(size) < 1:
        raise invalid(name, expected="a height and width of at least 1", got=tuple(size))
    return (size[0], size[1])


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Raise unless ``value`` is one of ``choices``."""
    if value not in choices:
        raise invalid(name, expected=f"one of {choices}", got=repr(value))


def check_padding(owner: str, padding_mode: str, interpolation: str = "bilinear") -> None:
    """Check the two options every warp has."""
    check_choice(f"{owner}.padding_mode", padding_mode, ("zeros", "constant", "border", "reflection"))
    check_choice(f"{owner}.interpolation", interpolation, ("bilinear", "nearest", "bicubic"))
