"""Apply a user's function to a batch, with the gradient that the user declared.

Owns: `called`.
Must not: know what a function does.
Read next: ``../transforms/function.py``.
"""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor

from pellucid.errors import invalid

__all__ = ["called"]


def called(function: Callable[[Tensor], Tensor], image: Float[Tensor, "b c h w"], image_gradient: str) -> Float[Tensor, "b c h w"]:
    """Apply the user's function to images.

    Gradient:
        image: autograd's for ``exact`` and ``almost_everywhere``, that of the identity for ``surrogate: straight_through``, else 0.
    Errors:
        InvalidArgument: the result has another shape than the images.
    """
    followed = image_gradient in ("exact", "almost_everywhere")
    result = function(image if followed else image.detach())
    if not isinstance(result, Tensor) or result.shape != image.shape:
        got = tuple(result.shape) if isinstance(result, Tensor) else repr(result)
        raise invalid("Lambda.function", expected=f"a result of shape {tuple(image.shape)}, as the images", got=got)
    result = result.to(image.dtype)
    return result if image_gradient in ("exact", "almost_everywhere", "none") else result + (image - image.detach())
