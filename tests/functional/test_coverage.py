"""``return_coverage=True``: the share of each pixel that comes from the image, and its gradients."""

import cv2
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.autograd import gradcheck

from pellucid.functional import remap, warp, warp_affine, warp_perspective

AFFINE = [[0.9, -0.3, 4.0], [0.25, 1.1, -3.0], [0.0, 0.0, 1.0]]
PROJECTIVE = [[1.1, 0.1, -3.0], [0.0, 1.2, 2.0], [0.002, 0.001, 1.0]]
SIZE = (15, 18)


def torchs(matrix, displacement, shape, size):
    """Ones through torch's own sampler, in float64."""
    v, u = torch.meshgrid(*(torch.arange(n, dtype=torch.float64) for n in size), indexing="ij")
    x, y, w = (matrix @ torch.stack((u, v, torch.ones_like(u))).flatten(1)).unflatten(-1, size)
    points = torch.stack((x / w, y / w)) + displacement
    sides = torch.tensor(shape[::-1], dtype=torch.float64)
    grid = (2 * points.permute(1, 2, 0) + 1) / sides - 1
    return F.grid_sample(torch.ones(1, 1, *shape, dtype=torch.float64), grid[None], align_corners=False)


@pytest.mark.parametrize("matrix", [AFFINE, PROJECTIVE], ids=["affine", "projective"])
@pytest.mark.parametrize("strength", [0.0, 2.0], ids=["map", "field"])
def test_it_is_what_torch_samples_of_ones(matrix, strength):
    generator = torch.Generator().manual_seed(1)
    given = torch.tensor(matrix, dtype=torch.float64, requires_grad=True)
    field = (strength * torch.randn(2, *SIZE, dtype=torch.float64, generator=generator)).requires_grad_()
    weights = torch.randn(1, 1, *SIZE, dtype=torch.float64, generator=generator)
    image = torch.rand(2, 3, 16, 20, dtype=torch.float64)
    out, found = warp(image, given, size=SIZE, displacement=field, fill=0.7, padding_mode="constant", return_coverage=True)
    expected = torchs(given, field, (16, 20), SIZE)
    assert 0 < int((expected == 0).sum()) < expected.numel()
    torch.testing.assert_close(found, expected.expand(2, -1, -1, -1), rtol=0, atol=1e-12)
    slopes = [torch.autograd.grad((weights * c[:1]).sum(), (given, field)) for c in (found, expected)]
    torch.testing.assert_close(slopes[0], slopes[1], rtol=1e-9, atol=1e-9)
    assert torch.equal(out, warp(image, given, size=SIZE, displacement=field, fill=0.7, padding_mode="constant"))


def test_antialiased_it_is_a_resize_of_ones_among_zeros():
    ones = F.pad(torch.ones(1, 1, 24, 30, dtype=torch.float64), (18, 18, 18, 18))
    expected = F.interpolate(ones, (20, 22), mode="bilinear", antialias=True)
    zoom = torch.tensor([[3.0, 0, 1 - 18], [0, 3, 1 - 18], [0, 0, 1]], dtype=torch.float64)
    image = torch.rand(3, 24, 30, dtype=torch.float64)
    _, found = warp(image, zoom, size=(20, 22), antialias=True, return_coverage=True)
    assert found.shape == (1, 20, 22)
    torch.testing.assert_close(found[None], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("antialias", [False, 3])
def test_gradients_are_those_of_finite_differences(antialias):
    matrix = torch.tensor(PROJECTIVE, dtype=torch.float64).mul(1.7 if antialias else 1.0)
    matrix = torch.cat((matrix[:2], torch.tensor([PROJECTIVE[2]], dtype=torch.float64))).requires_grad_()
    field = torch.full((2, 6, 7), 0.21, dtype=torch.float64, requires_grad=True)
    image = torch.rand(1, 1, 9, 8, dtype=torch.float64)

    def cover(matrix, field):
        return warp(image, matrix, size=(6, 7), displacement=field, antialias=antialias, return_coverage=True)[1]

    assert gradcheck(cover, (matrix, field), eps=1e-7, atol=1e-5)


@pytest.mark.parametrize("interpolation", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding_mode", ["constant", "border", "reflect_101", "wrap"])
def test_the_fill_shows_in_the_rest(interpolation, padding_mode):
    options = {"size": SIZE, "interpolation": interpolation, "padding_mode": padding_mode}
    image = torch.rand(1, 2, 16, 20, dtype=torch.float64)
    dark, cover = warp(image, PROJECTIVE, fill=0.0, return_coverage=True, **options)
    torch.testing.assert_close(warp(image, PROJECTIVE, fill=1.0, **options), dark + 1 - cover, rtol=0, atol=1e-12)
    if padding_mode != "constant":
        torch.testing.assert_close(cover, torch.ones_like(cover), rtol=0, atol=1e-14)  # sums of cubic weights


def test_of_bytes_and_labels_it_is_a_floating_point_plane():
    bytes_, labels = torch.randint(0, 255, (3, 16, 20), dtype=torch.uint8), torch.randint(0, 9, (1, 16, 20))
    for image, interpolation in ((bytes_, "bilinear"), (labels, "nearest")):
        out, cover = warp(image, AFFINE, size=SIZE, interpolation=interpolation, return_coverage=True)
        assert (out.dtype, cover.dtype, cover.shape) == (image.dtype, torch.float32, (1, *SIZE))
        assert 0 < float(cover.mean()) < 1
    nan = torch.full((3, 3), torch.nan)
    assert not warp(bytes_, nan, size=SIZE, padding_mode="border", return_coverage=True)[1].any()


def maps(matrix):
    v, u = torch.meshgrid(*(torch.arange(n, dtype=torch.float64) for n in SIZE), indexing="ij")
    x, y, w = (torch.tensor(matrix, dtype=torch.float64) @ torch.stack((u, v, torch.ones_like(u))).flatten(1)).unflatten(-1, SIZE)
    return x / w, y / w


CV = {
    "warp_affine": lambda image, **options: warp_affine(image, AFFINE[:2], SIZE[::-1], inverse_map=True, **options),
    "warp_perspective": lambda image, **options: warp_perspective(image, PROJECTIVE, SIZE[::-1], inverse_map=True, **options),
    "remap": lambda image, **options: remap(image, *maps(PROJECTIVE), **options),
}


@pytest.mark.parametrize("name", CV)
def test_opencvs_names_give_what_opencv_makes_of_ones(name):
    image, ones, call = torch.rand(2, 16, 20, 3), np.ones((16, 20), np.float32), CV[name]
    out, found = call(image, channels_last=True, border_value=0.3, return_coverage=True)
    x, y = (part.float().numpy() for part in maps(AFFINE if name == "warp_affine" else PROJECTIVE))
    expected = torch.from_numpy(cv2.remap(ones, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_CONSTANT))
    assert (out.shape, found.shape, found.dtype) == ((2, *SIZE, 3), (2, *SIZE, 1), torch.float32)
    assert 0 < int((expected == 0).sum()) < expected.numel()
    torch.testing.assert_close(found[1, ..., 0], expected, rtol=0, atol=3e-2)  # OpenCV's weights have five bits
    assert torch.equal(out, call(image, channels_last=True, border_value=0.3))
    light = call(image, channels_last=True, border_value=1.3)
    torch.testing.assert_close(light - out, (1 - found).expand_as(out), rtol=0, atol=1e-6)


@pytest.mark.parametrize("antialias", [False, 3])
def test_coverage_of_maps_has_the_gradients_of_finite_differences(antialias):
    scale = 1.7 if antialias else 1.0
    x, y = ((scale * part[:5, :6] + 0.11).clone().requires_grad_() for part in maps(PROJECTIVE))
    image = torch.rand(1, 7, 6, dtype=torch.float64)
    assert gradcheck(lambda x, y: remap(image, x, y, antialias=antialias, return_coverage=True)[1], (x, y), eps=1e-7, atol=1e-5)
