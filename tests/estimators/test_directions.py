"""No dead parameter and no wrong turn: every learnable field against finite differences of its own expected loss."""

import math

import pytest
import torch

from pellucid import Key, Pipeline
from tests.draws.test_learning import FIELDS

SAMPLES, KEYS, STEP = 512, 2, 0.3
QUICK = ("affine.p", "affine.degrees", "solarize.threshold", "nearest")


def template():
    """A smooth coloured picture without symmetries, clear of black and white, so that every operation shows in a loss about it."""
    y, x = torch.meshgrid(torch.linspace(0, 1, 8), torch.linspace(0, 1, 8), indexing="ij")
    spot = 0.15 * torch.exp(-30.0 * ((x - 0.4) ** 2 + (y - 0.6) ** 2))
    return torch.stack((0.3 + 0.3 * x * y, 0.35 + 0.2 * y**2, 0.65 - 0.3 * x)) + spot


def pictures():
    generator = torch.Generator().manual_seed(2)
    noise = torch.nn.functional.interpolate(torch.randn(SAMPLES, 3, 3, 3, generator=generator), size=(8, 8), mode="bicubic")
    return template() + 0.02 * noise


def losses(out):
    return (out - template()).square().mean((1, 2, 3))


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in FIELDS])
def test_the_gradient_is_there_and_points_where_the_loss_goes(name):
    augment = Pipeline([FIELDS[name]])
    x = pictures()

    def found():
        total = sum(augment.expected(losses, x, key=Key(0, step)) for step in range(KEYS)) / KEYS
        return torch.autograd.grad(total, list(augment.parameters()))

    @torch.no_grad()
    def loss_of(step):
        return losses(augment(x, key=Key(0, step)))  # the same draws on both sides: what differs is the parameter

    judged = 0
    for gradient, (parameter_name, parameter) in zip(found(), augment.named_parameters(), strict=True):
        assert torch.isfinite(gradient), parameter_name
        differences = []
        for step in range(KEYS):
            with torch.no_grad():
                parameter += STEP
                above = loss_of(step)
                parameter -= 2 * STEP
                below = loss_of(step)
                parameter += STEP
            differences.append((above - below) / (2 * STEP))
        slope = torch.cat(differences)
        mean, error = slope.mean().item(), slope.std().item() / math.sqrt(SAMPLES * KEYS)
        if abs(mean) > 4 * error + 1e-9:
            judged += 1
            assert gradient.item() * mean > 0, (parameter_name, gradient.item(), mean, error)
    assert judged, "this test says nothing here: the loss does not see the field"
