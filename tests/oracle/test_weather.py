"""Rain against scipy's shifts, and snow against ImageNet-C's formula in scipy."""

import numpy as np
import pytest
import torch
from scipy import ndimage

import pellucid as P
from pellucid.corruptions.table import TABLE
from pellucid.kernels.blend import gaussian_field
from pellucid.random.patterns import uniform_field


def pictures(*shape):
    return torch.rand(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_rain_is_noise_shifted_along_a_line():
    x = pictures(2, 3, 24, 30)
    rain = P.RandomRain(0.6, density=(0.02, 0.1), length=(3.0, 7.0), slant=40.0, p=1.0)
    found, record = P.Pipeline([rain], seed=3)(x, return_record=True)
    values, reach = record.params[0], 5  # 1 + 7 / 2, rounded up
    fields = uniform_field(values["words"], (1, 24 + 2 * reach, 30 + 2 * reach), torch.float64)[:, 0].numpy()
    for b in range(2):
        density, length, slant = (float(values[name][b]) for name in ("density", "length", "slant"))
        drops = np.maximum(1 - fields[b] / density, 0)
        up, right = np.cos(np.deg2rad(slant)), -np.sin(np.deg2rad(slant))
        places = length * ((np.arange(64) + 0.5) / 64 - 0.5)
        light = sum(ndimage.shift(drops, (-up * at, right * at), order=1, mode="constant") for at in places) / 64
        light = np.minimum((1 + length) * light, 1)[reach:-reach, reach:-reach]
        wanted = x[b].numpy() * (1 - 0.6 * light) + 0.6 * light
        np.testing.assert_allclose(found[b].numpy(), wanted, atol=1e-12)


def test_as_many_drops_as_asked_and_as_bright():
    rain = P.RandomRain(1.0, density=0.05, length=0.0, slant=0.0, p=1.0)
    light = P.Pipeline([rain], seed=0)(torch.zeros(4, 1, 200, 200, dtype=torch.float64))
    n = light.numel()
    drops = light[light > 0]
    assert abs(len(drops) / n - 0.05) < 5 * (0.05 * 0.95 / n) ** 0.5
    assert abs(float(drops.mean()) - 0.5) < 5 / (12 * len(drops)) ** 0.5


@pytest.mark.parametrize("slant", [0.0, 30.0, -60.0])
def test_streaks_lean_counter_clockwise(slant):
    rain = P.RandomRain(1.0, density=0.0005, length=30.0, slant=(slant, slant), p=1.0)
    light = P.Pipeline([rain], seed=1)(torch.zeros(1, 1, 256, 256, dtype=torch.float64))[0, 0]
    down, across = torch.gradient(torch.from_numpy(ndimage.gaussian_filter(light.numpy(), 2.0)))
    # Softened, as differences of lines one pixel wide favour the diagonals.
    # Light changes least along the streaks: the eigenvector of the least eigenvalue of the structure tensor.
    tensor = torch.tensor([[(across**2).sum(), (across * down).sum()], [(across * down).sum(), (down**2).sum()]])
    x, y = torch.linalg.eigh(tensor).eigenvectors[:, 0].tolist()
    angle = np.rad2deg(np.arctan2(-y, x)) % 180  # y points down
    assert abs(angle - (90.0 + slant)) < 3


@pytest.mark.parametrize("severity", [1, 3, 5])
def test_snow_is_imagenet_cs_mixed_with_the_picture(severity):
    x = pictures(3, 3, 40, 36)
    found, record = P.Pipeline([P.RandomSnow((0.2, 1.0), severity=severity, p=1.0)], seed=2)(x, return_record=True)
    values, snow = record.params[0], TABLE["snow"]  # which scipy and numpy hold in tests/corruptions
    normal = gaussian_field(values["words"], (1, 40, 36), torch.float64)[:, 0]
    whole = snow.formula(x, snow.constants[severity - 1], normal=normal, degrees=values["angle"])
    unclipped = P.Pipeline([P.RandomSnow((0.2, 1.0), severity=severity, clip="none", p=1.0)], seed=2)
    torch.testing.assert_close(unclipped.apply(x, record).clamp(0, 1), found)
    full = record.with_param(0, "strength", torch.ones(3, dtype=torch.float64))
    torch.testing.assert_close(P.Pipeline([P.RandomSnow((0.2, 1.0), severity=severity, p=1.0)], seed=2).apply(x, full), whole)


def test_the_gradient_moves_a_strength_to_what_was_used():
    x = pictures(2, 3, 16, 16)
    wanted = P.Pipeline([P.RandomRain(0.6, density=0.1, p=1.0)], seed=5)(x)
    learned = P.Pipeline([P.RandomRain(P.Learnable(0.3, low=0.0, high=1.0), density=0.1, p=1.0)], seed=5)
    optimizer = torch.optim.Adam(learned.parameters(), lr=0.1)
    for _ in range(60):
        optimizer.zero_grad()
        loss = ((learned(x, key=P.Key(5, 0)) - wanted) ** 2).mean()
        loss.backward()
        optimizer.step()
    assert abs(float(learned.frozen()[0].strength) - 0.6) < 0.01


def test_rain_and_its_gradients_are_the_references():
    found = []
    for impl in ("cpu", "reference"):
        image = pictures(2, 3, 40, 36).requires_grad_()
        density, length = (torch.nn.Parameter(torch.tensor(number, dtype=torch.float64)) for number in (0.05, 9.0))
        rain = P.RandomRain(0.6, P.Constant(density), length=P.Constant(length), slant=20.0, p=1.0)
        out = P.Pipeline([rain], seed=4, impl=impl)(image)
        found.append((out, *torch.autograd.grad(out.square().sum(), (image, density, length))))
    torch.testing.assert_close(*found, atol=1e-10, rtol=1e-10)
