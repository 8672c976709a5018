"""Stages as passes of their own in Triton compute what the reference does, values and gradients."""

import pytest
import torch

from pellucid.kernels import curve
from pellucid.kernels.color.passes import shift_hsv
from pellucid.kernels.stages.colour import BENT

from .interpreted import DEVICE, anywhere, runs  # noqa: F401
from .primitives import agree


def bent(name):
    how = BENT[name]
    given = {"image_gradient": how.image_gradient, "surrogate": how.surrogate, "scale": how.scale, "h": 0.5}
    return lambda image, amount, gate, impl: curve.tone(image, how.name, amount, gate, impl=impl, **given)


CASES = {
    "hsv": (lambda image, *numbers, impl: shift_hsv(image, *numbers, impl=impl), (0.3, -0.2, 0.1)),
    "gated hsv": (lambda image, *numbers, impl: shift_hsv(image, *numbers, impl=impl), (0.3, -0.2, 0.1, 0.7)),
    "power": (lambda image, *numbers, impl: curve.power(image, *numbers, clip=True, impl=impl), (0.7, 1.4)),
    **{name: (bent(name), (0.4 if "solarize" in name else 3.0, 0.6)) for name in BENT},
}


@pytest.mark.parametrize(("size", "shared"), [((36, 40), False), ((5, 7), True)])
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_the_references(name, size, shared):
    """Of more pixels than a chunk, and of one row of numbers for all."""
    function, numbers = CASES[name]
    generator = torch.Generator().manual_seed(3)
    image = torch.rand(2, 3, *size, generator=generator, dtype=torch.float64)
    spread = torch.ones(1 if shared else 2, dtype=torch.float64)
    tensors = [image, *(number * spread for number in numbers)]
    agree(function, tensors, "triton", close=1e-11)


def test_other_surrogates_are_the_references_own_and_empty_batches_stay_empty():
    image, amount = torch.rand(2, 3, 4, 5, device=DEVICE), torch.full((2,), 0.5, device=DEVICE)
    given = {"image_gradient": "none", "surrogate": "none", "scale": 1.0, "h": 0.5}
    ours, theirs = (curve.tone(image, "solarize", amount, None, impl=impl, **given) for impl in ("triton", "reference"))
    assert torch.equal(ours, theirs)
    assert curve.power(image[:0], amount[:1], amount[:1], impl="triton").shape == (0, 3, 4, 5)
