"""``antialias=`` on the functional warps: every input pixel in sight counts, with exact gradients through maps and fields."""

import math

import pytest
import torch
import torch.nn.functional as F

from pellucid import InvalidArgument
from pellucid.functional import remap, warp, warp_affine, warp_perspective

HOMOGRAPHY = [[1.9, 0.1, 3.0], [0.2, 1.6, 2.0], [0.002, 0.001, 1.0]]


def turned(angle, across, down):
    c, s = math.cos(angle), math.sin(angle)
    return [[across * c, -down * s, 10.0], [across * s, down * c, -5.0], [0.0, 0.0, 1.0]]


def maps_of(matrix, size):
    v, u = torch.meshgrid(*(torch.arange(n, dtype=torch.float64) for n in size), indexing="ij")
    matrix = torch.tensor(matrix, dtype=torch.float64)
    x, y, w = (matrix @ torch.stack([u, v, torch.ones_like(u)]).flatten(1)).unflatten(1, size)
    return x / w, y / w


def test_every_pixel_of_the_known_example_gets_a_gradient():
    image = torch.rand(3, 64, 64, requires_grad=True)
    for antialias, reached in ((False, 768), (True, 12288), (4, 12288)):
        out = warp_affine(image, [[0.25, 0, 0], [0, 0.25, 0]], (64, 64), antialias=antialias)
        (grad,) = torch.autograd.grad(out.sum(), image)
        assert int((grad != 0).sum()) == reached


@pytest.mark.parametrize("zoom", [2, 3, 4])
def test_without_a_turn_it_is_a_resize(zoom):
    image = torch.rand(2, 3, 12 * zoom, 10 * zoom, dtype=torch.float64)
    middle = (zoom - 1) / 2
    matrix = [[zoom, 0, middle], [0, zoom, middle], [0, 0, 1]]
    expected = F.interpolate(image, (12, 10), mode="bilinear", antialias=True)
    found = warp(image, matrix, size=(12, 10), antialias=True, padding_mode="border")
    read = remap(image, *maps_of(matrix, (12, 10)), antialias=True, border_mode="replicate")
    inner = (..., slice(1, -1), slice(1, -1))  # at the edge a resize drops what lies outside
    torch.testing.assert_close(found[inner], expected[inner], rtol=0, atol=1e-12)
    torch.testing.assert_close(read[inner], expected[inner], rtol=0, atol=1e-12)


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
@pytest.mark.parametrize("border_mode", ["constant", "reflect_101"])
def test_a_map_and_its_coordinates_agree(interpolation, border_mode):
    """An affine map reads from a table of weights, its coordinates pixel by pixel."""
    image, size = torch.rand(3, 70, 80, dtype=torch.float64), (32, 40)
    matrix = turned(0.5, 1.7, 1.3)
    options = {"interpolation": interpolation, "antialias": True}
    found = warp_affine(image, matrix, size[::-1], border_mode=border_mode, inverse_map=True, **options)
    read = remap(image, *maps_of(matrix, size), border_mode=border_mode, **options)
    torch.testing.assert_close(read, found, rtol=0, atol=1e-3)  # noise, through weights that are interpolated (ADR 19)
    assert (read - remap(image, *maps_of(matrix, size), border_mode=border_mode, interpolation=interpolation)).abs().max() > 0.1


def test_a_homography_and_its_coordinates_agree():
    """But for the differences between neighbours, which stand for derivatives: second order inside, first at the edge."""
    image, size = torch.rand(3, 90, 100, dtype=torch.float64), (40, 48)
    found = warp_perspective(image, HOMOGRAPHY, size[::-1], inverse_map=True, antialias=4)
    read = remap(image, *maps_of(HOMOGRAPHY, size), antialias=4)
    assert (read - found).abs()[:, 1:-1, 1:-1].max() < 1e-3


@pytest.mark.parametrize(
    ("impl", "interpolation", "padding_mode"),
    [("reference", "bilinear", "zeros"), ("cpu", "bilinear", "border"), ("cpu", "bicubic", "reflection")],
)
def test_gradients_to_image_map_and_displacement(impl, interpolation, padding_mode):
    torch.manual_seed(3)
    image = torch.rand(1, 1, 6, 7, dtype=torch.float64, requires_grad=True)
    matrix = torch.tensor([[1.9, 0.2, 0.1], [-0.3, 1.7, 0.4], [0.01, 0.02, 1.0]], dtype=torch.float64, requires_grad=True)
    displacement = (torch.randn(1, 2, 3, 3, dtype=torch.float64) * 0.3).requires_grad_()

    def call(image, matrix, displacement):
        options = {"interpolation": interpolation, "padding_mode": padding_mode, "impl": impl}
        return warp(image, matrix, size=(3, 3), displacement=displacement, antialias=2, **options)

    assert torch.autograd.gradcheck(call, (image, matrix, displacement))


def test_the_compiled_pass_agrees_with_the_reference():
    """In single precision, whose error the reference in double precision measures."""
    image, displacement = torch.rand(2, 3, 50, 60), torch.randn(2, 2, 20, 24) * 0.4
    calls = {}
    for impl, dtype in (("cpu", torch.float32), ("reference", torch.float32), ("reference", torch.float64)):
        leaves = [part.to(dtype).requires_grad_() for part in (image, displacement)]
        out = warp(leaves[0], turned(0.3, 1.8, 2.2), size=(20, 24), displacement=leaves[1], antialias=3, fill=0.3, impl=impl)
        calls[impl, dtype] = [out, *torch.autograd.grad((out * out).sum(), leaves)]
    for fast, slow, exact in zip(*calls.values(), strict=True):
        error = (slow.double() - exact).abs().max()
        assert (fast.double() - exact).abs().max() <= 4 * error + 1e-6 * exact.abs().max()


def test_bytes_are_averaged_and_rounded():
    image = torch.randint(0, 256, (3, 40, 48), dtype=torch.uint8)
    exact = warp(image.double(), turned(0.5, 1.7, 1.3), size=(16, 20), antialias=True)
    found = warp(image, turned(0.5, 1.7, 1.3), size=(16, 20), antialias=True)
    assert found.dtype == torch.uint8
    assert (found.double() - exact).abs().max() <= 0.5 + 1e-3


def test_what_spans_one_pixel_keeps_its_bits():
    image, displacement = torch.rand(3, 20, 24), torch.rand(2, 20, 24).mul(3).floor()[:, :1, :1].expand(2, 20, 24)
    matrix = turned(0.4, 1.0, 0.7)
    plain = warp(image, matrix, size=(20, 24), displacement=displacement)
    assert torch.equal(plain, warp(image, matrix, size=(20, 24), displacement=displacement, antialias=True))
    assert torch.equal(warp(image, matrix, size=(5, 6), interpolation="nearest", antialias=4),
                       warp(image, matrix, size=(5, 6), interpolation="nearest"))  # fmt: skip


def test_a_coordinate_that_is_nowhere_shows_the_border_value_and_leaves_its_neighbours():
    x, y = maps_of([[2.0, 0, 0.5], [0, 2.0, 0.5], [0, 0, 1]], (8, 8))
    x[3, 4], y[5, 1] = torch.nan, torch.inf
    image = torch.rand(1, 16, 16, dtype=torch.float64, requires_grad=True)
    x, y = x.requires_grad_(), y.requires_grad_()
    out = remap(image, x, y, antialias=4, border_value=-7.0)
    assert (out == -7.0).sum() == 2
    for grad in torch.autograd.grad(out.sum(), (image, x, y)):
        assert torch.isfinite(grad).all()


def test_a_number_compiles_and_maps():
    image, matrix = torch.rand(2, 3, 20, 24), torch.tensor(turned(0.3, 1.8, 2.2)).expand(2, 3, 3).contiguous()

    def call(image, matrix):
        return warp(image, matrix, size=(8, 9), antialias=3)

    expected = call(image, matrix)
    torch.testing.assert_close(torch.compile(call, fullgraph=True, backend="eager")(image, matrix), expected)
    torch.testing.assert_close(torch.vmap(call)(image, matrix), expected)


def test_true_is_refused_where_numbers_are_hidden():
    image, matrix = torch.rand(2, 3, 20, 24), torch.eye(3).expand(2, 3, 3)
    with pytest.raises(InvalidArgument, match="antialias=4"):
        torch.vmap(lambda image, matrix: warp(image, matrix, size=(8, 9), antialias=True))(image, matrix)


@pytest.mark.parametrize("value", [-1, 65, 1.5, "yes", None, torch.tensor(3)])
def test_other_values_are_refused(value):
    with pytest.raises(InvalidArgument, match="antialias"):
        warp(torch.rand(3, 20, 24), torch.eye(3), size=(8, 9), antialias=value)
