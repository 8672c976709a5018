"""Roots and eigenvectors of symmetric matrices whose gradients stay finite where eigenvalues meet.

Owns: ``matrix_roots`` (Daleckii-Krein), ``stable_eigh`` and ``newton_schulz_inverse_root``.
Must not: know what the matrix is a covariance of.
Read next: ``whitening.py``, ``group_whitening.py``.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["matrix_roots", "newton_schulz_inverse_root", "stable_eigh"]


def matrix_roots(
    matrix: Float[Tensor, "*batch d d"], *, eps: float
) -> tuple[Float[Tensor, "*batch d d"], Float[Tensor, "*batch d d"]]:
    """Return ``(S + eps I)^(1/2)`` and ``(S + eps I)^(-1/2)`` of a symmetric positive semi-definite matrix S.

    Args:
        matrix: S. Only its symmetric part counts; eigenvalues below zero are rounding and taken as zero.
        eps: added to the eigenvalues; positive, so that a rank-deficient S has an inverse root.

    Returns:
        The root and the inverse root, both symmetric.

    Gradient:
        matrix: exact, also at repeated and zero eigenvalues: nothing is divided by their differences. In the eigenbasis the
        inverse root's is ``K * G`` with ``K_ij = -1 / (s_i s_j (s_i + s_j))``, the root's has ``K_ij = 1 / (s_i + s_j)``,
        s = sqrt(eigenvalue + eps). Any order. Forward mode: raises.
    Source:
        Daleckii and Krein; the adjoint is written as the Lyapunov equation ``R X + X R = Q``, which can be differentiated again.

    Example:
        >>> root, inverse = matrix_roots(torch.diag(torch.tensor([4.0, 9.0])), eps=1e-9)
        >>> (root @ inverse).round(decimals=4).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    root, inverse, _, _ = _MatrixRoots.apply((matrix + matrix.mT) / 2, eps)
    return root, inverse


class _MatrixRoots(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(matrix: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        values, vectors = torch.linalg.eigh(matrix)
        s = torch.sqrt(torch.where(values > 0, values, 0) + eps)
        root = (vectors * s[..., None, :]) @ vectors.mT
        inverse = (vectors / s[..., None, :]) @ vectors.mT
        return root, inverse, s, vectors

    @staticmethod
    def setup_context(ctx: Any, _inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.mark_non_differentiable(*output[2:])
        ctx.save_for_backward(*output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        root, inverse, s, vectors = ctx.saved_tensors
        # d inverse = -inverse (d root) inverse, and d root solves  root (d root) + (d root) root = d matrix.
        grad = grads[0] - inverse @ grads[1] @ inverse
        return _Lyapunov.apply(root, (grad + grad.mT) / 2, s, vectors), None


class _Lyapunov(torch.autograd.Function):
    """Solve ``R X + X R = Q``, given the eigenvalues s and eigenvectors of R."""

    generate_vmap_rule = True

    @staticmethod
    def forward(_root: Tensor, right: Tensor, s: Tensor, vectors: Tensor) -> Tensor:
        inside = vectors.mT @ right @ vectors / (s[..., :, None] + s[..., None, :])
        return vectors @ inside @ vectors.mT

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        root, _, s, vectors = inputs
        ctx.save_for_backward(root, s, vectors, output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None]:
        root, s, vectors, solution = ctx.saved_tensors
        adjoint = _Lyapunov.apply(root, grads[0], s, vectors)
        return -(adjoint @ solution.mT + solution.mT @ adjoint), adjoint, None, None


def stable_eigh(matrix: Float[Tensor, "*batch d d"]) -> tuple[Float[Tensor, "*batch d"], Float[Tensor, "*batch d d"]]:
    """Return eigenvalues in falling order, and eigenvectors (columns) whose largest entry is positive.

    Args:
        matrix: only its symmetric part counts.

    Returns:
        (values, vectors): the k-th column of ``vectors`` belongs to the k-th value.

    Gradient:
        matrix: exact where eigenvalues are distinct. Where two agree to rounding their eigenvectors are not defined, only the space
        they span; the gradient then leaves out rotations within it (a subgradient: finite, where ``torch.linalg.eigh`` gives NaN).
        Second order: yes. Forward mode: raises.

    Example:
        >>> values, vectors = stable_eigh(torch.diag(torch.tensor([1.0, 3.0])))
        >>> values.tolist(), vectors.tolist()
        ([3.0, 1.0], [[0.0, 1.0], [1.0, 0.0]])
    """
    values, vectors = _StableEigh.apply((matrix + matrix.mT) / 2)
    return values, vectors


class _StableEigh(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(matrix: Tensor) -> tuple[Tensor, Tensor]:
        values, vectors = torch.linalg.eigh(matrix)
        values, vectors = values.flip(-1), vectors.flip(-1)
        largest = vectors.gather(-2, vectors.abs().argmax(-2, keepdim=True))
        return values, vectors * torch.where(largest < 0, -1, 1)

    @staticmethod
    def setup_context(ctx: Any, _inputs: tuple[Tensor], output: tuple[Tensor, Tensor]) -> None:
        ctx.save_for_backward(*output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        values, vectors = ctx.saved_tensors
        gap = values[..., None, :] - values[..., :, None]  # i j: value_j - value_i
        rounding = 8 * values.shape[-1] * torch.finfo(values.dtype).eps
        distinct = gap.abs() > rounding * values.abs().amax(-1)[..., None, None]
        turn = torch.where(distinct, (vectors.mT @ grads[1]) / torch.where(distinct, gap, 1), 0)
        inside = turn + torch.diag_embed(grads[0])
        grad = vectors @ inside @ vectors.mT
        return (grad + grad.mT) / 2


def newton_schulz_inverse_root(matrix: Float[Tensor, "*batch d d"], *, iterations: int) -> Float[Tensor, "*batch d d"]:
    """Approximate ``S^(-1/2)`` of a positive definite matrix by matrix products only.

    In exact arithmetic each step is ``P <- (3 P - P^3 S / tr S) / 2``. Iterated like that, rounding grows until it overflows (at
    condition 10^4 after about 12 steps in float64); carrying the root alongside the inverse root, as here, is stable.

    A direction with eigenvalue e grows 1.5 times per step until it arrives: about ``log(sqrt(tr S / e)) / log 1.5`` steps, then
    four more to full precision. At condition 10^6 that is 22; five steps leave the weakest direction a hundred times too small.

    Args:
        matrix: S, symmetric, with positive eigenvalues.
        iterations: how many steps.

    Returns:
        The approximate inverse root.

    Gradient:
        matrix: exact for the approximation. Any order, forward mode too.
    Source:
        The coupled iteration of Higham, "Functions of Matrices", 2008, chapter 6; :func:`matrix_roots` (tests).

    Example:
        >>> torch.allclose(newton_schulz_inverse_root(4 * torch.eye(2), iterations=10), 0.5 * torch.eye(2))
        True
    """
    trace = matrix.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None]
    identity = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    root, inverse = matrix / trace, identity.expand_as(matrix)  # eigenvalues in (0, 1], where the iteration converges
    for _ in range(iterations):
        step = 1.5 * identity - 0.5 * (inverse @ root)
        root, inverse = root @ step, step @ inverse
    return inverse * torch.rsqrt(trace)
