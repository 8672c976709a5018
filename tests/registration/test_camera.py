"""Cameras: slopes against autograd, lenses known by formula, of our model and of another, and pictures that fit nothing."""

import math

import numpy as np
import pytest
import torch
from torch.autograd.functional import jacobian

from pellucid import LensDistortion, Pipeline
from pellucid.errors import InvalidArgument, InvalidType
from pellucid.registration import fit_camera
from pellucid.registration.camera import _Frame, _linearised, _Pictures, _rendered
from tests.refusals import refused

HEIGHT, WIDTH = 80, 96
UNIT = math.hypot(HEIGHT - 1, WIDTH - 1) / 2
CENTER = (2.0, -1.5)
Y, X = torch.meshgrid(torch.arange(HEIGHT).double(), torch.arange(WIDTH).double(), indexing="ij")
POINTS = torch.stack((X, Y), -1)


def waves(seed, x, y, blur=0.0):
    """A picture by formula, and the same blurred: a Gaussian lowers each wave by exp(-(blur * frequency)^2 / 2)."""
    random = torch.Generator().manual_seed(seed)
    found = torch.zeros_like(x)
    for _ in range(40):
        across, down = 0.25 * torch.randn(2, generator=random, dtype=torch.float64)
        weight = torch.exp(-0.5 * blur**2 * (across**2 + down**2))
        found = found + weight * torch.cos(across * x + down * y + 6.28 * torch.rand((), generator=random))
    return 0.5 + 0.08 * found / math.sqrt(20)


def brown(k1, k2):
    return lambda r: 1 + k1 * r**2 + k2 * r**4


def fisheye(degrees):
    angle = math.radians(degrees)
    return lambda r: torch.tan(r * angle) / (r * math.tan(angle))


def polar():
    u, v = (X - (WIDTH - 1) / 2 - CENTER[0]) / UNIT, (Y - (HEIGHT - 1) / 2 - CENTER[1]) / UNIT
    return u, v, torch.hypot(u, v).clamp_min(1e-9)


def field(lens):
    u, v, r = polar()
    middle = torch.tensor([(WIDTH - 1) / 2 + CENTER[0], (HEIGHT - 1) / 2 + CENTER[1]], dtype=torch.float64)
    return middle + UNIT * torch.stack((u, v), -1) * lens(r)[..., None]


def pairs(lens, count=2, noise=0.003):
    """Pictures by formula at the places where the lens reads."""
    where, (_, _, r) = field(lens), polar()
    random = torch.Generator().manual_seed(9)
    ideal = torch.stack([waves(seed, X, Y) for seed in range(count)])[:, None]
    sharp = torch.stack([waves(seed, where[..., 0], where[..., 1]) for seed in range(count)])[:, None]
    seen = (0.9 * (1 - 0.3 * r**2 - 0.05 * r**4) * sharp.clamp_min(0)) ** 0.8
    return ideal, seen + noise * torch.randn(seen.shape, generator=random, dtype=torch.float64)


def worst_error(found, lens):
    """In pixels, of the pixels whose ideal place lies in the ideal picture."""
    true = field(lens)
    inside = ((true >= 0) & (true <= torch.tensor([WIDTH - 1, HEIGHT - 1]))).all(-1)
    return float((found.ideal_points(POINTS) - true).norm(dim=-1)[inside].max())


@pytest.fixture(scope="module")
def known():
    lens = brown(-0.12, 0.03)
    return fit_camera(*pairs(lens), radial=2), lens


def test_a_known_camera_is_found(known):
    found, lens = known
    assert found.reason == "converged"
    assert worst_error(found, lens) < 0.05
    wanted = {"scale": 1.0, "k1": -0.12, "k2": 0.03, "center_x": 2.0, "center_y": -1.5, "v1": -0.3, "v2": -0.05}
    spread = dict(zip(found.names, found.covariance.diagonal().sqrt().tolist(), strict=True))
    for name, value in wanted.items():
        assert abs(found.parameters[name] - value) < 5 * spread[name] + 2e-3, name
    assert found.parameters["gain"] == pytest.approx(0.9, abs=5e-3)
    assert found.parameters["gamma"] == pytest.approx(0.8, abs=5e-3)
    assert found.parameters["noise"] == pytest.approx(0.003, rel=0.05)
    assert found.history[0][0] < found.history[-1][0] == (HEIGHT, WIDTH)


@pytest.mark.parametrize("degrees", [40])
def test_a_lens_of_another_model_is_found_to_a_twentieth_of_a_pixel(degrees):
    lens = fisheye(degrees)
    found = fit_camera(*pairs(lens))
    assert found.converged
    assert worst_error(found, lens) < 0.05


def test_blur_is_found():
    ideal = torch.stack([waves(seed, X, Y) for seed in range(2)])[:, None]
    seen = torch.stack([waves(seed, X, Y, blur=1.2) for seed in range(2)])[:, None]
    found = fit_camera(ideal, seen, radial=0, vignetting=0, gamma=False)
    assert found.parameters["blur"] == pytest.approx(1.2, abs=0.02)
    same = fit_camera(ideal, ideal, radial=0, vignetting=0)
    assert same.parameters["blur"] < 0.05
    assert same.parameters["scale"] == pytest.approx(1.0, abs=1e-4)


def test_it_reads_what_lens_distortion_makes():
    ideal, _ = pairs(brown(0.0, 0.0))
    found = fit_camera(ideal, Pipeline([LensDistortion(k1=0.06, k2=0.02)])(ideal), gamma=False)
    middle = torch.tensor([(WIDTH - 1) / 2, (HEIGHT - 1) / 2], dtype=torch.float64)
    away = (POINTS - middle) / UNIT
    square = away.square().sum(-1, keepdim=True)
    true = middle + UNIT * away * (1 + 0.06 * square + 0.02 * square**2)
    inside = ((true >= 0) & (true <= 2 * middle)).all(-1)
    assert found.converged
    assert float((found.ideal_points(POINTS) - true).norm(dim=-1)[inside].max()) < 0.05


def test_normal_equations_are_those_of_autograd():
    """In float64, from a Jacobian by autograd through the whole model."""
    random = torch.Generator().manual_seed(0)
    ideal = 0.3 + 0.5 * torch.rand(1, 2, 16, 18, generator=random, dtype=torch.float64)
    seen = 0.3 + 0.5 * torch.rand(1, 2, 10, 12, generator=random, dtype=torch.float64)
    weights = torch.rand(1, 1, 10, 12, generator=random, dtype=torch.float64)
    values = torch.tensor([0.97, 0.05, -0.02, 0.01, 0.6, -0.4, -0.2, -0.05, 0.9, 0.8, 0.7], dtype=torch.float64)
    frame = _Frame((10, 12), (16, 18), (20, 24))
    found = _linearised(_Pictures(ideal, seen, weights), values, frame)
    rows = jacobian(lambda v: _rendered(ideal, v, frame, frame.size), values)  # b c h w n
    residual = _rendered(ideal, values, frame, frame.size) - seen
    share = (weights / (2 * weights.sum())).expand_as(seen)  # every pixel reads inside of the larger picture
    assert found.overlap == pytest.approx(1.0)
    assert torch.allclose(found.left, torch.einsum("bchwi,bchw,bchwj->ij", rows, share, rows), rtol=1e-8, atol=1e-12)
    assert torch.allclose(found.right, torch.einsum("bchwi,bchw,bchw->i", rows, share, residual), rtol=1e-8, atol=1e-12)
    assert found.loss == pytest.approx(float((share * residual.square()).sum()))


def test_show_is_the_model_and_has_a_gradient(known):
    found, lens = known
    ideal, seen = pairs(lens, noise=0.0)
    ideal.requires_grad_()
    shown = found.show(ideal)
    assert float((shown.detach() - seen).abs().max()) < 0.02
    shown.sum().backward()
    assert bool((ideal.grad != 0).any())
    points = found.ideal_points(torch.tensor([[0.0, 0.0], [50.0, 40.0]], dtype=torch.float32))
    assert points.dtype == torch.float32
    refused(InvalidArgument, "ideal: expected", found.show, ideal[..., 1:])


def test_pictures_that_fit_nothing_are_told_so():
    ideal, seen = pairs(brown(0.0, 0.0), count=1)
    noise = torch.rand(seen.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    cases = {
        "the camera's pictures are constant": (ideal, torch.full_like(seen, 0.5)),
        "the ideal pictures have pixels that are not finite": (ideal * math.nan, seen),
        "the pictures do not agree": (ideal, noise),
    }
    for reason, given in cases.items():
        found = fit_camera(*given, steps=5)
        assert not found.converged
        assert found.reason.startswith(reason), found.reason
        assert all(math.isfinite(found.parameters[name]) for name in found.names)
    assert fit_camera(ideal, seen, mask=torch.zeros_like(seen)).reason == "the mask is empty"
    assert fit_camera(ideal, seen, steps=1).reason == "out of steps"


def test_a_mask_leaves_pixels_out_and_a_start_is_taken(known):
    _, lens = known
    ideal, seen = pairs(lens, count=2)
    mask = torch.ones_like(seen)
    mask[..., :20] = 0
    seen[..., :20] = 0.9
    found = fit_camera(ideal, seen, mask=mask, radial=2)
    assert worst_error(found, lens) < 0.1
    again = fit_camera(ideal, seen, mask=mask, radial=2, start=found)
    assert len(again.history) < len(found.history)


def test_what_does_not_fit_is_refused():
    picture = torch.rand(1, 1, 32, 32)
    for given, options, words in [
        ((picture[..., :8, :8], picture), {}, "ideal: expected"),
        ((picture, torch.rand(2, 1, 32, 32)), {}, "seen: expected"),
        ((picture[..., 1:], picture), {}, "ideal: expected pictures of at least"),
        ((picture, picture), {"radial": 4}, "radial"),
        ((picture, picture), {"tolerance": 0.0}, "tolerance"),
        ((picture, picture), {"mask": torch.ones(2, 1, 32, 32)}, "mask"),
    ]:
        refused(InvalidArgument, words, fit_camera, *given, **options)
    for given, options in [
        ((picture.to(torch.uint8), picture), {}),
        ((np.ones((1, 32, 32)), picture), {}),
        ((picture, picture), {"start": 1}),
    ]:
        with pytest.raises(InvalidType):
            fit_camera(*given, **options)
