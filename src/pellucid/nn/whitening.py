"""Fit and apply transforms that give data zero mean and identity covariance: ZCA, PCA and Cholesky.

Owns: the functions; which dimension holds samples, and the arithmetic of covariances.
Must not: keep state; see ``whitening_layers.py``.
Read next: ``spectral.py`` for the gradients, ``whitening_layers.py`` for the modules.
"""

from typing import Literal, NamedTuple, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.core.constants import compute_dtype, full_precision, wide_dtype
from pellucid.errors import invalid
from pellucid.nn.moments import check_float
from pellucid.nn.spectral import matrix_roots, stable_eigh

__all__ = ["Whitener", "WhiteningMethod", "apply_whitener", "fit_whitener", "invert_whitener", "zca_mean", "zca_whiten"]

WhiteningMethod: TypeAlias = Literal["zca", "pca", "cholesky"]


class Whitener(NamedTuple):
    """A fitted transform: ``y = (x - mean) @ transform`` and ``x = y @ inverse + mean`` on flattened samples.

    Args:
        transform: (..., d, d), d the number of features.
        mean: (..., 1, d).
        inverse: (..., d, d).
    """

    transform: Tensor
    mean: Tensor
    inverse: Tensor

    def detach(self) -> "Whitener":
        """Return the same transform as a constant.

        Example:
            >>> whitener = fit_whitener(torch.randn(100, 8, requires_grad=True))
            >>> whitener.detach().transform.requires_grad
            False
        """
        return Whitener(self.transform.detach(), self.mean.detach(), self.inverse.detach())


def fit_whitener(
    x: Float[Tensor, "*shape"],
    dim: int = 0,
    *,
    method: WhiteningMethod = "zca",
    eps: float = 1e-6,
    unbiased: bool = True,
    batch_dims: int = 0,
) -> Whitener:
    """Fit a whitening transform to the samples along ``dim``; everything else is one feature vector.

    Args:
        x: data. Covariance and transform are computed in float64 where the device has it, and returned in ``x``'s precision
            (float32 for half precision).
        dim: the dimension that counts samples.
        method: ``"zca"`` stays closest to the data (symmetric transform); ``"pca"`` turns to the principal axes, largest variance
            first; ``"cholesky"`` makes each output of the same and earlier features only (triangular transform).
        eps: added to the covariance's eigenvalues; positive. Bounds the gain by ``1 / sqrt(eps)``.
        unbiased: divide the covariance by n - 1 instead of n.
        batch_dims: number of leading dimensions that count independent data sets, each with its own transform.

    Returns:
        ``Whitener(transform, mean, inverse)`` of shapes (*batch, d, d), (*batch, 1, d), (*batch, d, d).

    Gradient:
        x: ``"zca"`` and ``"cholesky"`` exact, also at repeated eigenvalues, rank deficiency and a single sample; ``"pca"`` exact
        where eigenvalues are distinct, otherwise a finite subgradient. Second order: yes. Forward mode: ``"cholesky"`` only.
        Deterministic: yes.
    Errors:
        InvalidArgument for an eps that is not positive, an unknown method, or dimensions out of range.
    Source:
        ``numpy.cov`` and float64 finite differences, ``tests/nn/test_whitening.py``.

    Example:
        >>> x = torch.randn(500, 4) @ torch.randn(4, 4)
        >>> y = apply_whitener(x, fit_whitener(x, eps=1e-9))
        >>> bool((torch.cov(y.T) - torch.eye(4)).abs().max() < 1e-3)
        True
    """
    check_float("x", x)
    if not eps > 0:
        raise invalid("eps", expected="a positive number", got=eps, fix="Rank-deficient data has no inverse root without it.")
    samples = _as_samples(x, dim, batch_dims)
    # Autocast would run the covariance in half precision.
    with full_precision(x.device):
        wide = samples.to(wide_dtype(x.device))
        mean = wide.mean(-2, keepdim=True)
        centred = wide - mean
        covariance = centred.mT @ centred / max(wide.shape[-2] - int(unbiased), 1)
        transform, inverse = _transform(covariance, method, eps)
    dtype = compute_dtype(x.dtype)
    return Whitener(transform.to(dtype), mean.to(dtype), inverse.to(dtype))


def apply_whitener(x: Float[Tensor, "*shape"], whitener: Whitener, dim: int = 0, *, batch_dims: int = 0) -> Float[Tensor, "*shape"]:
    """Whiten samples along ``dim`` with a fitted transform.

    Args:
        x: data; all dimensions but ``dim`` and the first ``batch_dims`` count features.
        whitener: the result of :func:`fit_whitener` for data of these features.
        dim: the dimension that counts samples.
        batch_dims: number of leading dimensions that count independent data sets.

    Returns:
        In the shape of x.

    Gradient:
        x, transform, mean: exact. Second order: yes.

    Errors:
        InvalidArgument for a ``dim`` or ``batch_dims`` that x has not, and for data of another number of features.

    Example:
        >>> x = torch.randn(100, 8, dtype=torch.float64)
        >>> y = apply_whitener(x, fit_whitener(x))
        >>> torch.allclose(torch.cov(y.mT), torch.eye(8, dtype=torch.float64), atol=1e-4)
        True
    """
    return _affine(x, dim, batch_dims, before=whitener.mean, matrix=whitener.transform, after=None)


def invert_whitener(
    y: Float[Tensor, "*shape"], whitener: Whitener, dim: int = 0, *, batch_dims: int = 0
) -> Float[Tensor, "*shape"]:
    """Undo :func:`apply_whitener`.

    Args:
        y: whitened data.
        whitener, dim, batch_dims: as there.

    Returns:
        In the shape of y.

    Gradient:
        y, inverse, mean: exact. Second order: yes.

    Errors:
        As there.

    Example:
        >>> x = torch.randn(100, 8, dtype=torch.float64)
        >>> whitener = fit_whitener(x)
        >>> torch.allclose(invert_whitener(apply_whitener(x, whitener), whitener), x)
        True
    """
    return _affine(y, dim, batch_dims, before=None, matrix=whitener.inverse, after=whitener.mean)


def zca_mean(
    x: Float[Tensor, "*shape"], dim: int = 0, *, eps: float = 1e-6, unbiased: bool = True, batch_dims: int = 0
) -> Whitener:
    """Fit the ZCA transform, the mean and the inverse transform: :func:`fit_whitener` with ``method="zca"``.

    Args:
        x: data.
        dim: the dimension that counts samples.
        eps: added to the covariance's eigenvalues.
        unbiased: divide the covariance by n - 1 instead of n.
        batch_dims: number of leading dimensions that count independent data sets.

    Returns:
        A `Whitener`: (transform, mean, inverse).

    Gradient:
        x: exact, isotropic and rank-deficient data included.

    Errors:
        As :func:`fit_whitener`.

    Example:
        >>> transform, mean, inverse = zca_mean(torch.tensor([[0.0, 1], [1, 0], [-1, 0], [0, -1]]))
        >>> torch.allclose(transform, 1.5**0.5 * torch.eye(2))
        True
    """
    return fit_whitener(x, dim, method="zca", eps=eps, unbiased=unbiased, batch_dims=batch_dims)


def zca_whiten(
    x: Float[Tensor, "*shape"],
    dim: int = 0,
    *,
    eps: float = 1e-6,
    unbiased: bool = True,
    detach_transforms: bool = True,
    batch_dims: int = 0,
) -> Float[Tensor, "*shape"]:
    """Whiten data with the ZCA transform fitted to itself.

    Args:
        x: data.
        dim: the dimension that counts samples.
        eps: added to the covariance's eigenvalues.
        unbiased: divide the covariance by n - 1 instead of n.
        detach_transforms: True takes mean and transform as constants: the gradient is then ``g @ transform``.
        batch_dims: number of leading dimensions that count independent data sets.

    Returns:
        In the shape of x: mean 0 and, but for eps, covariance 1.

    Gradient:
        x: exact with ``detach_transforms=False``, isotropic and rank-deficient data included; otherwise a surrogate by declaration.

    Errors:
        As :func:`fit_whitener`.

    Example:
        >>> x = torch.tensor([[0.0, 1], [1, 0], [-1, 0], [0, -1]], requires_grad=True)
        >>> zca_whiten(x, detach_transforms=False).pow(3).sum().backward()
        >>> bool(x.grad.isfinite().all())
        True
    """
    whitener = zca_mean(x, dim, eps=eps, unbiased=unbiased, batch_dims=batch_dims)
    return apply_whitener(x, whitener.detach() if detach_transforms else whitener, dim, batch_dims=batch_dims)


def _transform(covariance: Tensor, method: WhiteningMethod, eps: float) -> tuple[Tensor, Tensor]:
    match method:
        case "zca":
            root, inverse_root = matrix_roots(covariance, eps=eps)
            return inverse_root, root
        case "pca":
            values, vectors = stable_eigh(covariance)
            below_zero = torch.where(values < 0, values, 0).detach()  # rounding; subtracted so that the gradient stays
            s = torch.sqrt(values - below_zero + eps)
            return vectors / s[..., None, :], (vectors * s[..., None, :]).mT
        case "cholesky":
            identity = torch.eye(covariance.shape[-1], dtype=covariance.dtype, device=covariance.device)
            lower = torch.linalg.cholesky(covariance + eps * identity)
            return torch.linalg.solve_triangular(lower, identity.expand_as(lower), upper=False).mT, lower.mT
    raise invalid("method", expected="one of 'zca', 'pca', 'cholesky'", got=repr(method))


def _as_samples(x: Tensor, dim: int, batch_dims: int) -> Tensor:
    if not 0 <= batch_dims <= x.ndim - 2:
        fix = "Give x samples and features."
        raise invalid("batch_dims", expected=f"an integer in [0, {max(x.ndim - 2, 0)}]", got=batch_dims, fix=fix)
    if not -x.ndim <= dim < x.ndim or dim % x.ndim < batch_dims:
        raise invalid("dim", expected=f"a dimension of x (it has {x.ndim}) behind the {batch_dims} batch dimensions", got=dim)
    return x.movedim(dim, batch_dims).flatten(batch_dims + 1)  # *batch n d


def _affine(x: Tensor, dim: int, batch_dims: int, *, before: Tensor | None, matrix: Tensor, after: Tensor | None) -> Tensor:
    check_float("x", x)
    samples = _as_samples(x, dim, batch_dims)
    if samples.shape[-1] != matrix.shape[-1]:
        raise invalid("x", expected=f"{matrix.shape[-1]} features per sample, as fitted", got=samples.shape[-1])
    moved = x.movedim(dim, batch_dims)
    with full_precision(x.device):
        wide = samples.to(matrix.dtype)
        out = (wide if before is None else wide - before) @ matrix
        out = out if after is None else out + after
    return out.to(x.dtype).reshape(moved.shape).movedim(batch_dims, dim)
