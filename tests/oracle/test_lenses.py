"""Smooth maps by formula, fitted to a grid: against scipy, OpenCV and numpy, with the errors that their docstrings state."""

import math

import numpy as np
import pytest
import torch
from scipy.interpolate import RBFInterpolator, make_interp_spline
from torch.autograd import gradcheck

import pellucid as P
from pellucid.geometry.bends import Bend, displaced, fitted, sampled
from pellucid.random.patterns import uniform_field
from tests.refusals import refused

HEIGHT, WIDTH = 256, 320
HALF_DIAGONAL = math.hypot(HEIGHT - 1, WIDTH - 1) / 2
CENTER = np.array([(WIDTH - 1) / 2, (HEIGHT - 1) / 2])


def pixels(height=HEIGHT, width=WIDTH):
    """Of a picture, x then y, (h, w, 2)."""
    return np.stack(np.meshgrid(np.arange(width, dtype=float), np.arange(height, dtype=float)), -1)


def sources(transform, height=HEIGHT, width=WIDTH, batch=1, seed=0):
    """Where the picture's pixels read, (b, h, w, 2), and the record."""
    record = P.Pipeline([transform], seed=seed).draw(torch.zeros(batch, 1, height, width, dtype=torch.float64))
    ends = torch.from_numpy(pixels(height, width)).flatten(0, 1)[None].expand(batch, -1, -1)
    bend = bend_of(transform, record.params[0], height, width)
    x, y = displaced(ends[..., 0], ends[..., 1], bend)
    return torch.stack((x, y), -1).unflatten(1, (height, width)).detach().numpy(), record


def bend_of(transform, values, height, width):
    from pellucid.types import ImageSpec

    return transform.bend(values, ImageSpec(1, height, width), torch.zeros((), dtype=torch.float64))


@pytest.mark.parametrize("knots", [3, 4, 5, 9, 40])
def test_a_fit_is_the_interpolating_spline_of_scipy(knots):
    """Through values at the knots and halfway in the outer cells."""
    values = torch.randn(2, 2, knots + 2, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    at = np.linspace(0, knots - 1, 61)
    bend = Bend(fitted(values), torch.tensor([[0.0, 0.0, 1.0, 1.0]], dtype=torch.float64))
    places = sampled(knots, values).numpy()
    for column, place in ((0, 0.0), (1, 0.5), (2, 1.0), (4, 2.0)):
        x, y = torch.full((2, 61), place, dtype=torch.float64), torch.from_numpy(at)[None].expand(2, -1)
        moved = torch.stack(displaced(x, y, bend), 1) - torch.stack((x, y), 1)
        numbers = values[..., column].movedim(-1, 0).numpy()
        expected = make_interp_spline(places, numbers, 3, t=np.arange(-3.0, knots + 3.0))(at)
        assert np.abs(moved.movedim(-1, 0).numpy() - expected).max() < 1e-12


def test_the_gradient_of_a_fit():
    values = torch.randn(1, 2, 5, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    assert gradcheck(fitted, (values,))


@pytest.mark.parametrize("k", [(-0.3, 0.0, 0.0), (0.1, 0.1, 0.1), (0.1, -0.1, 0.05)])
def test_a_lens_is_that_of_opencv(k):
    cv2 = pytest.importorskip("cv2")
    p = (0.003, -0.004) if k[0] < 0 else (0.02, -0.03)
    found, _ = sources(P.LensDistortion(k[0], k2=k[1], k3=k[2], p1=p[0], p2=p[1]))
    camera = np.array([[HALF_DIAGONAL, 0, CENTER[0]], [0, HALF_DIAGONAL, CENTER[1]], [0, 0, 1]])
    coefficients = np.array([k[0], k[1], *p, k[2]])
    # OpenCV's own map: rectified pixel to pixel of the picture. It is float32: 3e-5 px here.
    x, y = cv2.initUndistortRectifyMap(camera, coefficients, np.eye(3), camera, (WIDTH, HEIGHT), cv2.CV_32FC1)
    assert np.abs(found[0] - np.stack((x, y), -1)).max() < 2e-4


@pytest.mark.parametrize("angle", [5.0, 40.0, 60.0])
def test_a_fisheye_is_that_of_opencv(angle):
    cv2 = pytest.importorskip("cv2")
    found, _ = sources(P.RandomFisheye(angle))
    corner = math.radians(angle)
    fisheye, pinhole = (
        np.array([[f, 0, CENTER[0]], [0, f, CENTER[1]], [0, 0, 1]])
        for f in (HALF_DIAGONAL / corner, HALF_DIAGONAL / math.tan(corner))
    )
    points = pixels().reshape(-1, 1, 2)
    expected = cv2.fisheye.undistortPoints(points, fisheye, np.zeros(4), P=pinhole).reshape(HEIGHT, WIDTH, 2)
    assert np.abs(found[0] - expected).max() < 5e-4
    assert np.abs(found[0, 0, 0]).max() < 1e-9  # a corner stays


def test_rows_of_a_rolling_shutter_are_read_as_numpy_does():
    transform = P.RollingShutter(pan=0.2, tilt=-0.1, acceleration=0.7)
    height, width = 12, 17
    image = torch.rand(1, 1, height, width, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    out = P.Pipeline([P.RollingShutter(pan=0.2, tilt=0.0, acceleration=0.7, padding_mode="border")])(image)
    time = np.arange(height) / (height - 1) - 0.5
    path = time + 0.7 * (time**2 - 0.25)
    for row, shift in zip(range(height), 0.2 * width * path, strict=True):
        expected = np.interp(np.arange(width) + shift, np.arange(width), image[0, 0, row].numpy())
        assert np.abs(out[0, 0, row].numpy() - expected).max() < 1e-9
    found, _ = sources(transform, height, width)
    at = pixels(height, width)
    at[..., 0] += (0.2 * width * path)[:, None]
    at[..., 1] += (-0.1 * (height - 1) * path)[:, None]
    assert np.abs(found[0] - at).max() < 1e-9


def test_waves_are_sines():
    found, record = sources(P.RandomWave(0.1, period=(40.0, 50.0)), batch=20)
    at = pixels()
    for sample in range(20):
        period, phase = (float(record.params[0][name][sample]) for name in ("period", "phase"))
        moved = 0.1 * period * np.sin(2 * np.pi * ((at - CENTER)[..., ::-1] / period + phase))
        assert np.abs(found[sample] - at - moved).max() < 5e-4 * 0.1 * period


@pytest.mark.parametrize("points", [2, 4, 5])
def test_a_plate_is_that_of_scipy(points):
    found, record = sources(P.RandomThinPlateSpline(points, magnitude=0.15), batch=2)
    step = np.array([WIDTH - 1, HEIGHT - 1]) / (points - 1)
    knots = pixels(points, points).reshape(-1, 2)
    jitter = 2 * uniform_field(record.params[0]["words"], (2, points, points), torch.float64) - 1
    for sample in range(2):
        moved = 0.15 * jitter[sample].flatten(1).T.numpy()
        plate = RBFInterpolator(knots, moved, kernel="thin_plate_spline", degree=1)
        expected = pixels() + (plate(pixels().reshape(-1, 2) / step) * step).reshape(HEIGHT, WIDTH, 2)
        assert np.abs(found[sample] - expected).max() < 0.04


STRONG = [
    P.LensDistortion(-0.3),
    P.LensDistortion(-0.1, k2=-0.1, p1=0.01, p2=0.02),
    P.LensDistortion(1.0, k2=1.0, k3=1.0, p1=0.1, p2=-0.1),
    P.RandomFisheye(60.0),
    P.RollingShutter(1.0, -0.4, acceleration=1.0),
    P.RandomWave(0.1, period=(16.0, 30.0)),
    P.RandomThinPlateSpline(6, magnitude=0.15),
    P.RandomThinPlateSpline(8, magnitude=0.15),
]


@pytest.mark.parametrize("transform", STRONG, ids=lambda t: type(t).__name__)
def test_points_come_back_at_the_ends_of_the_ranges(transform):
    """Nothing folds, and Newton's six steps suffice."""
    height, width = 60, 80
    found, record = sources(transform, height, width, batch=3)
    seen = ((found >= 0) & (found <= (width - 1, height - 1))).all(-1).reshape(3, -1)  # what lies in the picture
    back = record.map_points(torch.from_numpy(found).flatten(1, 2)).numpy()
    assert seen.mean() > 0.4
    assert np.abs(back - pixels(height, width).reshape(-1, 2))[seen].max() < 1e-9


RADIAL, TANGENTIAL = P.Learnable(0.02, low=-0.04, high=0.04), P.Learnable(0.005, low=-0.01, high=0.01)


@pytest.mark.parametrize(
    "transform",
    [
        P.LensDistortion(RADIAL, k2=RADIAL, k3=RADIAL, p1=TANGENTIAL, p2=TANGENTIAL),
        P.RandomFisheye(P.Learnable(30.0)),
        P.RollingShutter(P.Learnable(0.1), P.Learnable(0.1), acceleration=P.Learnable(0.3)),
        P.RandomWave(P.Learnable(0.05), P.Learnable(20.0), phase=P.Learnable(0.3)),
        P.RandomThinPlateSpline(3, P.Learnable(0.1)),
    ],
    ids=lambda t: type(t).__name__,
)
def test_gradients_reach_the_drawn_numbers(transform):
    _, record = sources(transform, 20, 30)
    params = record.params[0]
    names = [name for name, value in params.items() if value.is_floating_point() and name != "gate"]
    leaves = [params[name].detach().clone().requires_grad_() for name in names]
    assert gradcheck(lambda *parts: bend_of(transform, {**params, **dict(zip(names, parts, strict=True))}, 20, 30)[0], leaves)


def test_what_could_fold_is_refused():
    for ranges in ({"k1": (-0.3, 0.1), "k2": -0.1}, {"k1": -0.2, "p1": 0.1}, {"p1": 0.1, "p2": (-0.15, 0.0)}):
        refused(P.InvalidArgument, r"k1|p2", P.LensDistortion, **ranges)
    refused(P.InvalidArgument, "low= and high=", P.LensDistortion, P.Learnable(0.0), k2=P.Learnable(0.0), k3=P.Learnable(0.0))
    P.LensDistortion(P.Normal(0.0, 0.1))
    refused(P.InvalidArgument, "16", P.RandomWave, period=12.0)
    refused(P.InvalidArgument, "for certain", P.RandomWave, period=P.Normal(60.0, 3.0))
    refused(P.InvalidArgument, "magnitude", P.RandomThinPlateSpline, magnitude=0.2)
    refused(P.InvalidArgument, "points", P.RandomThinPlateSpline, 1)
