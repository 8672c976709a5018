"""What a primitive is: its reference, its compiled passes, and their derivatives.

Owns: `Primitive`.
Must not: choose who computes, or know autograd's functions.
Read next: ``explicit.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from torch import Tensor

__all__ = ["Primitive", "Tensors", "as_it_is"]

Tensors: TypeAlias = tuple[Tensor | None, ...]


class Primitive(NamedTuple):
    """The functions that compute a primitive. It takes up to eight tensors (some may be None), whose first axis is the batch (or 1,
    for all), and static arguments.

    Args:
        name: for errors.
        reference: (tensors, static) -> the result; for second derivatives.
        direct: the same, compiled, past torch's dispatcher.
        forward: the same as an operator.
        backward: (gradient of the result, tensors, static, which are needed) -> one gradient per tensor, empty where it is not
            needed. The first has the first tensor's dtype and shape; the others have one row per sample, most of them in float64.
        impl: who computes, for errors.
        dual: (tensors, their tangents or None, static) -> the result and its tangent, or None where this call has no such
            pass; None where no call has.
        back: backward past the dispatcher; it and ``direct`` take `Pictures` for the first tensor, whose gradient is flat then.
            None where they do not.
        linear: (tensors, static) -> the tensors after the first with which the primitive computes its own derivative to the first;
            then its second derivative and the first's tangent need no reference. None where the derivative depends on the first.
    """

    name: str
    reference: Callable[..., Tensor]
    direct: Callable[..., Tensor]
    forward: Callable[..., Tensor]
    backward: Callable[..., tuple[Tensor, ...]]
    impl: str = "cpu"
    dual: Callable[..., tuple[Tensor, Tensor] | None] | None = None
    linear: Callable[..., Tensors | None] = lambda *_: None
    back: Callable[..., tuple[Tensor, ...]] | None = None

    def gradients(
        self, static: tuple[Any, ...], needed: tuple[bool, ...], grad: Tensor, *tensors: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        """The gradient of every tensor, None where it is not needed."""
        given: Any = self.backward(grad, *tensors, *static, list(needed))
        found = (given,) if isinstance(given, Tensor) else given  # an operator has no tuple of one
        return tuple([_share(f, t) if need else None for f, t, need in zip(found, tensors, needed, strict=True)])


def _share(found: Tensor, like: Tensor | None) -> Tensor:
    """Turn per-sample gradients into that of a tensor, which may have one row for all samples."""
    assert like is not None
    total = found.sum(0, keepdim=True) if like.shape[0] == 1 and found.shape[0] != 1 else found
    return total.to(like.dtype)


def as_it_is(image: Tensor, *others: Any) -> Tensors:
    """`Primitive.linear` of a primitive that is linear in the image: all other tensors, unchanged."""
    del image
    return tuple(part for part in others if part is None or isinstance(part, Tensor))
