"""No red op is timed: every subject is checked first, on a small batch.

Owns: `check`.
Must not: time.
Read next: ``compare.py``.
"""

from __future__ import annotations

import random

import numpy as np
import torch
from torch import Tensor

from pellucid_bench.settings import photographs
from pellucid_bench.subject import Subject

__all__ = ["check", "statistics_of"]

_SPREAD = {
    "flagship": 0.15,
    "geometry": 0.2,
    "warp": 0.02,
    "remap": 0.02,
    "blur": 0.02,
    "jitter": 0.05,
    "noise": 0.02,
    "flips": 0.01,
    "jpeg": 0.01,
    "elastic": 0.1,
}
"""How far channel means and deviations over many draws may lie from Pellucid's: sampling noise, and for the geometry case the part
of the image that one resample still shows after a crop and three do not."""

_DRAWS = 24


def statistics_of(subject: Subject, *, batch: int = 8, size: int = 32, draws: int = _DRAWS) -> Tensor:
    """Mean and deviation of each channel over several calls: (2, channels)."""
    prepared = subject.prepare(photographs(batch, size))
    results = torch.stack([subject.tensor(subject.forward(prepared)) for _ in range(draws)])  # n b c h w
    return torch.stack((results.mean((0, 1, 3, 4)), results.std((0, 1, 3, 4))))


def check(subject: Subject, case: str, ours: Tensor | None = None) -> str | None:
    """What is wrong with a subject, or None.

    Args:
        subject: whom to check.
        case: a key of ``settings.CASES``.
        ours: :func:`statistics_of` Pellucid's version, to compare with; None skips that.

    With ``subject.matched`` the comparison is of images under equal parameters; else of statistics over many draws.
    """
    _seed()
    images = photographs(4, 48, seed=1)
    result = subject.tensor(subject.forward(subject.prepare(images)))
    if result.shape != images.shape:
        return f"the result has shape {tuple(result.shape)}, expected {tuple(images.shape)}"
    if not torch.isfinite(result).all():
        return "the result is not finite"
    if subject.matched is not None:
        theirs, expected = subject.matched(images)
        difference = float((theirs - expected).abs().mean())
        if not difference <= subject.tolerance:
            return f"differs from Pellucid under equal parameters: mean |difference| {difference:.2g} > {subject.tolerance:.2g}"
    if ours is not None:
        apart = float((statistics_of(subject) - ours).abs().max())
        if not apart <= _SPREAD[case]:
            return f"its channel means and deviations lie {apart:.2g} from Pellucid's, more than {_SPREAD[case]:.2g}"
    return None


def _seed() -> None:
    """Peers draw from the global generators."""
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
