"""Bicubic resizes against PIL, by whichever way they are asked for: enlarged and reduced, to single rows and columns.

PIL computes on float pictures in float32 with float64 weights, so 2e-6 is the rounding of a few dozen products. Without
antialiasing it has no reduction; there Keys' weights are written out.
"""

import numpy as np
import pytest
import torch
from PIL import Image

import pellucid
from pellucid import functional as PF

SIZES = [
    ((5, 7), (9, 13)),
    ((9, 9), (4, 4)),
    ((6, 8), (3, 1)),
    ((6, 8), (1, 1)),
    ((6, 8), (12, 3)),
    ((1, 1), (3, 3)),
    ((31, 47), (13, 64)),
]


def ways(image, size, **options):
    """The function and the transform, compiled and reference, alone and as a part of a longer run."""
    for impl in ("cpu", "reference"):
        yield PF.resize(image, size, interpolation="bicubic", impl=impl, **options)
        resize = pellucid.Resize(size, interpolation="bicubic", **options)
        yield pellucid.Pipeline([resize], impl=impl)(image)
        padded = pellucid.Pipeline([resize, pellucid.Pad(2), pellucid.RandomHorizontalFlip(p=1.0)], impl=impl)(image)
        yield padded[..., 2:-2, 2:-2].flip(-1)


@pytest.mark.parametrize(("given", "size"), SIZES)
def test_antialiased(given, size):
    picture = np.random.default_rng(0).random(given).astype(np.float32)
    wanted = np.asarray(Image.fromarray(picture).resize((size[1], size[0]), Image.Resampling.BICUBIC))
    for found in ways(torch.from_numpy(picture)[None, None], size):
        assert np.abs(found[0, 0].numpy() - wanted).max() < 2e-6


@pytest.mark.parametrize(("given", "size"), SIZES)
def test_not_antialiased(given, size):
    picture = np.random.default_rng(0).random(given)
    weights = []
    for n, m in zip(given, size, strict=True):
        t = np.abs((np.arange(m)[:, None] + 0.5) * n / m - 0.5 - np.arange(n))
        near, far = 1.5 * t**3 - 2.5 * t**2 + 1, -0.5 * t**3 + 2.5 * t**2 - 4 * t + 2
        keys = np.where(t <= 1, near, np.where(t < 2, far, 0.0))
        weights.append(keys / keys.sum(1, keepdims=True))
    wanted = weights[0] @ picture @ weights[1].T
    if size[0] >= given[0] and size[1] >= given[1]:
        pil = Image.fromarray(picture.astype(np.float32)).resize((size[1], size[0]), Image.Resampling.BICUBIC)
        assert np.abs(np.asarray(pil) - wanted).max() < 2e-6
    for found in ways(torch.from_numpy(picture)[None, None], size, antialias=False):
        assert np.abs(found[0, 0].numpy() - wanted).max() < 1e-12
