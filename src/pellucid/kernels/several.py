"""Pictures of several sizes, which passes accept in place of a batch.

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
    """A list of pictures, grouped by size; numbers per sample keep the list's order.

    A pass accepts them in place of a batch if it does not ask for one height and width.

    Args:
        parts: (n, c, h, w), each with its own height and width, all of one dtype.
        places: of each part, where its samples stand in the list.
    """

    parts: tuple[Tensor, ...]
    places: tuple[tuple[int, ...], ...]

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of all parts."""
        return self.parts[0].dtype

    @property
    def device(self) -> torch.device:
        """The device of all parts."""
        return self.parts[0].device

    @property
    def channels(self) -> int:
        """The number of channels of all parts."""
        return self.parts[0].shape[1]

    @property
    def shape(self) -> torch.Size:
        """(samples, channels)."""
        return torch.Size((sum(map(len, self.places)), self.channels))

    @property
    def requires_grad(self) -> bool:
        """Whether one of the parts requires a gradient."""
        return any(part.requires_grad for part in self.parts)

    def is_floating_point(self) -> bool:
        """As tensors say it."""
        return self.parts[0].is_floating_point()

    def to(self, dtype: torch.dtype) -> Pictures:
        """Convert every part to this dtype."""
        return self.each(lambda part: part.to(dtype))

    def detach(self) -> Pictures:
        """Detach every part from its history."""
        return self.each(torch.Tensor.detach)

    def view(self, dtype: torch.dtype) -> Pictures:
        """Read the bits of every part as this dtype."""
        return self.each(lambda part: part.view(dtype))

    def each(self, function: Callable[..., Tensor], *given: Any) -> Pictures:
        """Apply a function to each part and to that part's rows of the other arguments, tensors or nested tuples of them."""
        each = zip(self.parts, self.places, strict=True)
        return self._replace(parts=tuple(function(part, *rows_of(given, where)) for part, where in each))

    def batch(self) -> Tensor:
        """One batch in the list's order; the parts must have one size."""
        order = torch.tensor([place for where in self.places for place in where], device="cpu")
        return self.parts[0] if len(self.parts) == 1 else torch.cat(self.parts)[order.argsort()]

    def through(self, function: Callable[..., Tensor], *given: Any) -> Tensor:
        """Call a function of batches once for each size, and join its results, which must have one size."""
        return self.each(function, *given).batch()

    def gradients(self, flat: Tensor) -> tuple[Tensor, ...]:
        """Split the flat gradient, whose memory `gradient_of` made, into the parts' gradients."""
        parts = flat.split([part.numel() for part in self.parts])
        return tuple(own.view(part.shape) for own, part in zip(parts, self.parts, strict=True))


def rows_of(value: Any, where: tuple[int, ...]) -> Any:
    """The rows of some samples, in nested tuples, too; a value that all samples share, or that is no tensor, stays as it is."""
    if isinstance(value, tuple):
        parts = [rows_of(part, where) for part in value]
        return value._make(parts) if hasattr(value, "_make") else tuple(parts)
    if not isinstance(value, Tensor) or len(value) == 1:
        return value
    return value[where[0] : where[0] + 1] if len(where) == 1 else value[list(where)]


def listed(primitive: Primitive, places: tuple[tuple[int, ...], ...], others: int) -> Primitive:
    """The primitive for a flat list of tensors: the first part of the pictures, ``others`` tensors, and the other parts."""
    count = others + len(places)

    def whole(given: tuple[Any, ...]) -> tuple[Any, ...]:
        """Gather all parts into `Pictures`, which come first."""
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
