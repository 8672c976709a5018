"""Whitening as modules: fit once, transform many times, invert.

Owns: ``ZCAWhitening``, ``PCAWhitening``, ``CholeskyWhitening``, how their fitted transforms are saved and loaded, and
    ``LinearTransformation``, whose matrix the caller brings.
Must not: compute a transform itself; see ``whitening.py``.
Read next: ``group_whitening.py`` for whitening inside networks.
"""

from typing import Any, ClassVar, Self, final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from pellucid.errors import invalid
from pellucid.nn.whitening import Whitener, WhiteningMethod, apply_whitener, fit_whitener, invert_whitener

__all__ = ["CholeskyWhitening", "LinearTransformation", "PCAWhitening", "ZCAWhitening"]

_FITTED = ("transform", "mean", "inverse")


class _Whitening(nn.Module):
    """The common part of the three modules. Abstract: use one of them."""

    method: ClassVar[WhiteningMethod]
    transform: Tensor | None
    mean: Tensor | None
    inverse: Tensor | None

    def __init__(self, dim: int = 0, *, eps: float = 1e-6, unbiased: bool = True, detach_transforms: bool = True) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps
        self.unbiased = unbiased
        self.detach_transforms = detach_transforms
        for name in _FITTED:
            self.register_buffer(name, None)

    def fit(self, x: Float[Tensor, "*shape"]) -> Self:
        """Fit the transform to the samples in ``x``; returns the module."""
        self.transform, self.mean, self.inverse = self._fit(x)
        return self

    def forward(self, x: Float[Tensor, "*shape"], *, include_fit: bool = False) -> Float[Tensor, "*shape"]:
        """Whiten ``x`` with the fitted transform; ``include_fit=True`` fits it to ``x`` first, and keeps it without its graph."""
        if not include_fit:
            return apply_whitener(x, self._fitted(), self.dim)
        whitener = self._fit(x)
        self.transform, self.mean, self.inverse = whitener.detach()
        return apply_whitener(x, whitener, self.dim)

    def inverse_transform(self, y: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Undo the whitening."""
        return invert_whitener(y, self._fitted(), self.dim)

    def extra_repr(self) -> str:
        """The options."""
        return f"dim={self.dim}, eps={self.eps}, unbiased={self.unbiased}, detach_transforms={self.detach_transforms}"

    def _fit(self, x: Tensor) -> Whitener:
        whitener = fit_whitener(x, self.dim, method=self.method, eps=self.eps, unbiased=self.unbiased)
        return whitener.detach() if self.detach_transforms else whitener

    def _fitted(self) -> Whitener:
        if self.transform is None or self.mean is None or self.inverse is None:
            fix = "Call fit(x), or pass include_fit=True."
            raise invalid(type(self).__name__, expected="a fitted transform", got="none", fix=fix)
        return Whitener(self.transform, self.mean, self.inverse)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        # Shapes are known only after a fit, so a fresh module takes them from what is loaded.
        for name in _FITTED:
            saved = state_dict.get(prefix + name)
            if saved is not None:
                setattr(self, name, torch.empty_like(saved))
        super()._load_from_state_dict(state_dict, prefix, *args)


@final
class ZCAWhitening(_Whitening):
    """Whiten with the symmetric transform ``(cov + eps I)^(-1/2)``, which stays closest to the data.

    Args:
        dim: the dimension that counts samples; everything else is one feature vector.
        eps: added to the covariance's eigenvalues; positive.
        unbiased: divide the covariance by n - 1 instead of n.
        detach_transforms: True keeps the fitted mean and transform as constants. False keeps their graph, so that gradients reach
            the data they were fitted to; fit anew in every step then.

    Gradient:
        x: exact given the transform; through the fit too (at any order, also for isotropic and rank-deficient data) with
        ``detach_transforms=False``.

    Errors:
        InvalidArgument for a ``dim`` that x has not, for x without features, and for a layer that is not fitted.

    Example:
        >>> white = ZCAWhitening().fit(torch.randn(100, 3, 4, 4))
        >>> x = torch.randn(5, 3, 4, 4)
        >>> torch.allclose(white.inverse_transform(white(x)), x, atol=1e-4)
        True
    """

    method = "zca"


@final
class PCAWhitening(_Whitening):
    """Whiten along the principal axes, largest variance first; options as in :class:`ZCAWhitening`.

    Args:
        dim, eps, unbiased, detach_transforms: as there.

    Gradient:
        x: exact given the transform; through the fit, exact where eigenvalues are distinct and finite elsewhere.

    Errors:
        InvalidArgument for a ``dim`` that x has not, for x without features, and for a layer that is not fitted.

    Example:
        >>> PCAWhitening()(torch.randn(100, 8), include_fit=True).shape
        torch.Size([100, 8])
    """

    method = "pca"


@final
class CholeskyWhitening(_Whitening):
    """Whiten with a triangular transform: no eigenvectors, fastest; options as in :class:`ZCAWhitening`.

    Args:
        dim, eps, unbiased, detach_transforms: as there.

    Gradient:
        x: exact, through the fit too with ``detach_transforms=False``.
    Errors:
        torch raises where eps is below the rounding error of a rank-deficient covariance (about 1e-16 of its largest eigenvalue).

    Example:
        >>> CholeskyWhitening()(torch.randn(100, 8), include_fit=True).shape
        torch.Size([100, 8])
    """

    method = "cholesky"


@final
class LinearTransformation(nn.Module):
    """Multiply each flattened sample, less a mean, by a fixed matrix: ``(x - mean) @ matrix``.

    Args:
        matrix: (D, D), D the number of elements of a sample. It is a buffer, as is the mean.
        mean: (D,).

    Returns:
        In the shape and dtype of x, whose first dimension counts samples. ``pellucid.Lambda(layer)`` is a step of a pipeline.

    Gradient:
        x: exact. Second order: yes.

    Errors:
        InvalidArgument for other shapes, and for samples of another number of elements.

    Source:
        ``torchvision.transforms.v2.LinearTransformation`` (``tests/interop/test_torchvision.py``).

    Example:
        >>> halve = LinearTransformation(torch.eye(12) / 2, torch.zeros(12))
        >>> halve(torch.ones(1, 3, 2, 2)).unique()
        tensor([0.5000])
    """

    matrix: Tensor
    mean: Tensor

    def __init__(self, matrix: Float[Tensor, "d d"], mean: Float[Tensor, " d"]) -> None:
        super().__init__()
        if matrix.shape != (*mean.shape, *mean.shape) or mean.ndim != 1:
            got = f"{tuple(matrix.shape)} and {tuple(mean.shape)}"
            raise invalid("matrix, mean", expected="shapes (D, D) and (D,)", got=got)
        self.register_buffer("matrix", matrix)
        self.register_buffer("mean", mean)

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Multiply each sample, less the mean, by the matrix."""
        return apply_whitener(x, Whitener(self.matrix, self.mean, self.matrix))
