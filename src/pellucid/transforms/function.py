"""A function or module of the user's as a step.

Owns: `Lambda`.
Must not: know what the function does; its gradient is what it is declared to be.
Read next: ``mixture.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar

from torch import Tensor

from pellucid.core.arguments import check_choice
from pellucid.errors import wrong_type
from pellucid.random.fields import Chance
from pellucid.segments import Call, CallSpec, SegmentSpec
from pellucid.transforms.base import Params, Transform
from pellucid.types import ImageSpec

__all__ = ["Lambda"]

_KINDS = ("exact", "almost_everywhere", "none", "surrogate: straight_through")


@dataclass(frozen=True)
class Lambda(Transform):
    """Apply a function or module to the images, between the transforms before it and those after it.

    Args:
        function: from images (B, C, H, W), floating point, 8-bit ones as fractions of 255, to images of the same shape. It sees
            the whole batch, also samples whose gate is closed. A module's parameters are the pipeline's, and train with it.
        gradients: to the image: ``exact`` or ``almost_everywhere`` (autograd's, through the function), ``none`` (the function is
            a constant), ``surrogate: straight_through`` (as if it were the identity; for functions that autograd cannot go
            through). The attribute reads as a table, as on any transform.
        p: probability.
        same_on_batch: one draw for the whole batch.

    Gradient:
        image: exact. gate: almost everywhere. As ``gradients`` says.
    On each target:
        image only: a function that moves things leaves boxes, masks and keypoints behind.
    Identity at:
        p = 0.
    Errors:
        InvalidType for what cannot be called, InvalidArgument for another word, for a result of another shape, and where a pipeline
        with it is written to a file: code has no form there; save its ``state_dict``.

    Example:
        >>> import torch, pellucid
        >>> halve = pellucid.Pipeline([pellucid.RandomInvert(p=1.0), pellucid.Lambda(lambda x: x / 2)])
        >>> halve(torch.zeros(1, 3, 1, 1)).flatten()
        tensor([0.5000, 0.5000, 0.5000])
    """

    function: Callable[[Tensor], Tensor]
    _: KW_ONLY
    gradients: Any = field(default="exact", hash=False)  # type: ignore[misc]
    p: Chance = 1.0
    same_on_batch: bool = False

    lowers_to: ClassVar[SegmentSpec | None] = CallSpec()

    def check(self) -> None:
        if not callable(self.function) or isinstance(self.function, type):
            raise wrong_type("Lambda.function", expected="a function or module of images", got=repr(self.function))
        kind = self.gradients.get("image") if isinstance(self.gradients, Mapping) else self.gradients
        check_choice("Lambda.gradients", kind, _KINDS)
        object.__setattr__(self, "gradients", {"image": str(kind), "gate": "almost_everywhere"})

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Call:
        return Call(self.function, values.get("gate"), self.gradients["image"])
