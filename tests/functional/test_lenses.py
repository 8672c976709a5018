"""Lenses, shutters and waves as functions: read where their formulas in numpy say, and as the transforms of the same names do."""

from functools import partial

import numpy as np
import pytest
import torch
from scipy.ndimage import map_coordinates

import pellucid as P
from pellucid import Key, Pipeline
from pellucid import functional as PF

HEIGHT, WIDTH = 40, 52
HALF = np.hypot(HEIGHT - 1, WIDTH - 1) / 2


def picture():
    coarse = torch.rand(1, 2, 7, 9, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    return torch.nn.functional.interpolate(coarse, size=(HEIGHT, WIDTH), mode="bicubic")[0]


def centred():
    return np.arange(WIDTH)[None] - (WIDTH - 1) / 2, np.arange(HEIGHT)[:, None] - (HEIGHT - 1) / 2


def lens(k1, k2, k3, p1, p2):
    x, y = (part / HALF for part in centred())
    square = x * x + y * y
    radial = 1 + k1 * square + k2 * square**2 + k3 * square**3
    return (
        HALF * (x * radial + 2 * p1 * x * y + p2 * (square + 2 * x * x)),
        HALF * (y * radial + 2 * p2 * x * y + p1 * (square + 2 * y * y)),
    )


def equidistant(angle):
    x, y = centred()
    share, angle = np.hypot(x, y) / HALF, np.deg2rad(angle)
    farther = np.tan(share * angle) / np.tan(angle) / share
    return x * farther, y * farther


def shutter(pan, tilt, acceleration):
    x, y = centred()
    time = y / (HEIGHT - 1)
    path = time + acceleration * (time * time - 0.25)
    return x + pan * WIDTH * path, y + tilt * (HEIGHT - 1) * path + 0 * x


def waves(amplitude, period, phase):
    x, y = centred()
    return tuple(own + amplitude * period * np.sin(2 * np.pi * (along / period + phase)) for own, along in ((x, y), (y, x)))


CASES = {
    "lens_distortion": (lens, (0.2, -0.03, 0.01, 0.02, -0.03), P.LensDistortion, ("k1", "k2", "k3", "p1", "p2")),
    "fisheye": (equidistant, (43.0,), P.RandomFisheye, ("angle",)),
    "rolling_shutter": (shutter, (0.17, -0.08, 0.4), P.RollingShutter, ("pan", "tilt", "acceleration")),
    "wave": (waves, (0.06, 24.0, 0.3), P.RandomWave, ("amplitude", "period", "phase")),
}


def called(name, image, *numbers, **options):
    """The function of a name, with its numbers by theirs."""
    return getattr(PF, name)(image, **dict(zip(CASES[name][3], numbers, strict=True)), **options)


@pytest.mark.parametrize("name", CASES)
def test_every_pixel_is_read_where_the_formula_says(name):
    formula, numbers, _, _ = CASES[name]
    x, y = np.broadcast_arrays(*formula(*numbers))
    at = [y + (HEIGHT - 1) / 2, x + (WIDTH - 1) / 2]
    expected = np.stack([map_coordinates(part, at, order=1, mode="nearest") for part in picture().numpy()])
    found = called(name, picture(), *numbers, border_mode="replicate")
    np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "numbers", "pixels"),  # how far off the spline is, as the docstrings say, for 256 pixels
    [
        ("lens_distortion", (0.1, -0.03, 0.01, 0.02, -0.03), 1e-3),
        ("fisheye", (43.0,), 5e-3),
        ("rolling_shutter", (0.17, -0.08, 0.4), 1e-9),
        ("wave", (0.06, 64.0, 0.3), 3e-3 * 0.06 * 64.0),
    ],
)
def test_the_transform_of_the_name_does_the_same(name, numbers, pixels):
    _, _, transform, names = CASES[name]
    x = torch.nn.functional.interpolate(picture()[None], size=(256, 256), mode="bicubic")
    made = transform(**dict(zip(names, numbers, strict=True)), padding_mode="border")
    found = called(name, x, *numbers, border_mode="replicate")
    steepest = (x.diff(dim=-1).abs().max() + x.diff(dim=-2).abs().max()).item()
    assert (Pipeline([made])(x) - found).abs().max() <= pixels * steepest


@pytest.mark.parametrize("name", CASES)
def test_one_image_and_several_numbers_are_several_images(name):
    _, numbers, _, _ = CASES[name]
    function = partial(called, name)
    both = function(picture(), torch.tensor([numbers[0], 0.5 * numbers[0]], dtype=torch.float64), *numbers[1:])
    assert torch.equal(both[0], function(picture(), *numbers))
    assert torch.equal(both[1], function(picture(), 0.5 * numbers[0], *numbers[1:]))
    last = function(picture()[:1].movedim(0, -1), *numbers, channels_last=True)
    assert torch.equal(last.movedim(-1, 0), function(picture()[:1], *numbers))


@pytest.mark.parametrize(
    ("function", "transform"),
    [
        (
            lambda x, key: PF.rain(x, 0.6, 0.02, length=9.0, slant=12.0, key=key),
            P.RandomRain(0.6, 0.02, length=9.0, slant=P.Constant(12.0), p=1.0),
        ),
        (lambda x, key: PF.snow(x, 0.7, -80.0, severity=3, key=key), P.RandomSnow(0.7, angle=-80.0, severity=3, p=1.0)),
    ],
)
def test_weather_falls_as_in_the_transform(function, transform):
    x = picture()[None].clamp(0, 1).repeat(3, 1, 1, 1)
    ours, theirs = function(x, Key(3)), Pipeline([transform], seed=3)(x)
    for found in (ours, theirs):  # other words, so other drops: as many of them, as bright
        assert (found[0] != found[1]).any()
    assert abs(ours.mean() - theirs.mean()) < 0.03
    assert torch.equal(function(x, Key(3)), ours)
