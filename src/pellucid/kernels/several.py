"""Pictures of several sizes, which passes take for a batch.

Owns: `Pictures`, and `listed`, a primitive for tensors of which several are pictures.
Must not: know what is computed, or copy a picture.
Read next: ``sources.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pellucid.kernels.primitive import Primitive

__all__ = ["Pictures", "listed", "rows_of"]


class Pictures(NamedTuple):
    """Samples of a list, those of one size together; what holds for a sample stands in the list's order.

    Passes take them for a batch, of which they look at no size.

    Args:
        parts: (n, c, h, w), each with its own height and width, all of one dtype.
        places: of each part, where its samples stand in the list.
    """

    parts: tuple[Tensor, ...]
    places: tuple[tuple[int, ...], ...]

    @property
    def dtype(self) -> torch.dtype:
        """Of all of them."""
        return self.parts[0].dtype

    @property
    def device(self) -> torch.device:
        """Of all of them."""
        return self.parts[0].device

    @property
    def channels(self) -> int:
        """Of all of them."""
        return self.parts[0].shape[1]

    @property
    def shape(self) -> torch.Size:
        """(samples, channels)."""
        return torch.Size((sum(map(len, self.places)), self.channels))

    @property
    def requires_grad(self) -> bool:
        """Whether one of them does."""
        return any(part.requires_grad for part in self.parts)

    def is_floating_point(self) -> bool:
        """As tensors say it."""
        return self.parts[0].is_floating_point()

    def to(self, dtype: torch.dtype) -> Pictures:
        """As numbers of another kind."""
        return self.each(lambda part: part.to(dtype))

    def detach(self) -> Pictures:
        """Without their history."""
        return self.each(torch.Tensor.detach)

    def view(self, dtype: torch.dtype) -> Pictures:
        """The same bits as numbers of another kind."""
        return self.each(lambda part: part.view(dtype))

    def each(self, function: Callable[..., Tensor], *given: Any) -> Pictures:
        """What a function makes of each part, and of the rows of what else is given, in any nesting of tuples."""
        each = zip(self.parts, self.places, strict=True)
        return self._replace(parts=tuple(function(part, *rows_of(given, where)) for part, where in each))

    def batch(self) -> Tensor:
        """Of parts that have one size."""
        order = torch.tensor([place for where in self.places for place in where], device="cpu")
        return self.parts[0] if len(self.parts) == 1 else torch.cat(self.parts)[order.argsort()]

    def through(self, function: Callable[..., Tensor], *given: Any) -> Tensor:
        """What a function of batches makes of pictures that end in one size, called once for each size."""
        return self.each(function, *given).batch()

    def gradients(self, flat: Tensor) -> tuple[Tensor, ...]:
        """Those of the parts, of what `gradient_of` gave the memory for."""
        parts = flat.split([part.numel() for part in self.parts])
        return tuple(own.view(part.shape) for own, part in zip(parts, self.parts, strict=True))


def rows_of(value: Any, where: tuple[int, ...]) -> Any:
    """What belongs to some of the samples; what all share, and what is no number, stays as it is."""
    if isinstance(value, tuple):
        parts = [rows_of(part, where) for part in value]
        return value._make(parts) if hasattr(value, "_make") else tuple(parts)
    if not isinstance(value, Tensor) or len(value) == 1:
        return value
    return value[where[0] : where[0] + 1] if len(where) == 1 else value[list(where)]


def listed(primitive: Primitive, places: tuple[tuple[int, ...], ...], others: int) -> Primitive:
    """The primitive, whose tensors are the first part of the pictures, ``others``, and the other parts."""
    count = others + len(places)

    def whole(given: tuple[Any, ...]) -> tuple[Any, ...]:
        """With all pictures in the first place."""
        return Pictures((given[0], *given[1 + others : count]), places), *given[1 : 1 + others], *given[count:]

    def reference(*given: Any) -> Tensor:
        pictures, *rest = whole(given)
        return pictures.through(primitive.reference, *rest)

    def backward(grad: Tensor, *given: Any) -> tuple[Tensor, ...]:
        assert primitive.back is not None
        needs, (pictures, *tensors) = given[-1], whole(given[:-1])
        asked = any(needs[k] for k in (0, *range(1 + others, count)))
        flat, *found = primitive.back(grad, pictures, *tensors, [asked, *needs[1 : 1 + others]])
        first, *rest = pictures.gradients(flat) if asked else [flat] * len(places)
        return (first, *found, *rest)

    def forward(*given: Any) -> Tensor:
        return primitive.direct(*whole(given))

    return primitive._replace(
        reference=reference, direct=forward, forward=forward, backward=backward, dual=None, linear=lambda *_: None
    )
