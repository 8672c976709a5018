"""Agreement of several predictions for the same pictures.

Owns: `jensen_shannon_loss`.
Must not: make the predictions.
Read next: ``maps.py``.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.errors import invalid, wrong_type
from pellucid.losses.maps import Reduction, reduce

__all__ = ["jensen_shannon_loss"]


def jensen_shannon_loss(*logits: Float[Tensor, "b k *place"], reduction: Reduction = "mean") -> Tensor:
    """The Jensen-Shannon divergence among predictions, the consistency term of AugMix.

    The mean over predictions of KL(prediction || mean of the predictions), in nats: from 0, where all are alike, to the
    logarithm of their number.

    Args:
        logits: two or more, of one shape; classes along axis 1. AugMix takes those of the clean picture and of two mixtures.
        reduction: ``mean`` or ``sum`` over samples (and places), or ``none``.

    Returns:
        A scalar, or (B, *place).

    Gradient:
        logits: exact, also where a class has no probability; any order.
    Errors:
        InvalidArgument for fewer than two predictions or different shapes, InvalidType for anything but a floating-point tensor.
    Source:
        Hendrycks et al.: "AugMix", ICLR 2020. ``scipy.stats.entropy``: the entropy of the mean less the mean entropy.

    Example:
        >>> import torch
        >>> from pellucid.losses import jensen_shannon_loss
        >>> far = torch.tensor([[50.0, -50.0]]), torch.tensor([[-50.0, 50.0]])
        >>> round(jensen_shannon_loss(*far).item(), 4)  # log 2
        0.6931
    """
    if len(logits) < 2:
        raise invalid("logits", expected="at least two predictions", got=len(logits))
    for i, one in enumerate(logits):
        if not isinstance(one, Tensor) or not one.is_floating_point():
            raise wrong_type(f"logits[{i}]", expected="a floating-point tensor", got=type(one).__name__)
        if one.dim() < 2 or one.shape != logits[0].shape:
            expected = f"shape (B, classes, ...), all alike: {tuple(logits[0].shape)}"
            raise invalid(f"logits[{i}]", expected=expected, got=tuple(one.shape))
    if reduction not in ("mean", "sum", "none"):
        raise invalid("reduction", expected="'mean', 'sum' or 'none'", got=repr(reduction))
    logs = torch.stack([torch.log_softmax(one, 1) for one in logits])  # n b k ...
    middle = torch.logsumexp(logs, 0) - math.log(len(logits))
    return reduce((logs.exp() * (logs - middle)).sum(2).mean(0), reduction)
