"""The only comparison helpers."""

import torch
from torch import Tensor


def within_budget(fast: Tensor, reference: Tensor, truth: Tensor, factor: float = 2.0) -> bool:
    """Whether ``fast`` errs no more than ``factor`` times the low-precision reference itself does against float64."""
    finite = torch.isfinite(truth)
    budget = (reference.double() - truth).abs()[finite].max() * factor + torch.finfo(fast.dtype).eps
    return bool(((fast.double() - truth).abs()[finite] <= budget).all())


def grads_close(left: Tensor, right: Tensor, relative: float) -> bool:
    """Gradients compared as vectors: the difference is small against the vector's own length."""
    return bool((left - right).norm() <= relative * right.norm())
