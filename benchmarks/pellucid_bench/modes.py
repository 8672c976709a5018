"""What is timed of a subject: the forward pass, or with a backward pass to the image, or to image and parameters.

Owns: `Mode` and building the call.
Must not: time it.
Read next: ``measure.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from pellucid_bench.subject import Subject

__all__ = ["MODES", "Mode", "call_of", "offered"]

Mode: TypeAlias = Literal["forward", "image", "image+parameters"]

MODES: dict[Mode, str] = {
    "forward": "forward",
    "image": "forward + backward to the image",
    "image+parameters": "forward + backward to image and parameters",
}


def offered(subject: Subject, mode: Mode) -> bool:
    """Whether the subject is meant to run in this mode at all."""
    if mode == "forward":
        return True
    return subject.differentiable if mode == "image" else subject.parameters is not None


def call_of(subject: Subject, mode: Mode, images: Tensor) -> Callable[[], Any]:
    """The call to time; its input is prepared here, outside the clock."""
    if mode == "forward":
        prepared = subject.prepare(images)
        return lambda: subject.forward(prepared)
    leaf = images.clone().requires_grad_()
    upstream = _upstream(images)
    with torch.no_grad():
        prepared = subject.prepare(leaf)
    # With matrices beside it, the image is still the leaf.
    prepared = (leaf, *prepared[1:]) if isinstance(prepared, tuple) else leaf
    if mode == "image":
        return lambda: torch.autograd.grad(subject.forward(prepared), leaf, upstream)
    parameters = subject.parameters
    assert parameters is not None

    def to_both() -> Any:
        result, leaves = parameters(prepared)
        return torch.autograd.grad(result, [leaf, *leaves], upstream, allow_unused=True)

    return to_both


def _upstream(images: Tensor) -> Tensor:
    """A dense gradient of the loss; a sum's would be an expanded scalar, which some backward passes shortcut."""
    generator = torch.Generator().manual_seed(2)
    return torch.randn(images.shape, generator=generator).to(images.device)
