"""What every warp must satisfy, whatever the matrix: linear algebra, not examples."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pellucid import functional as PF

from .strategies import law, matrices

SIZE = (9, 11)
MODES = ("bilinear", "nearest", "bicubic", "bicubic_opencv")
BORDERS = ("zeros", "constant", "border", "reflection", "reflect_101", "wrap")


def _image(seed: int, channels: int = 2, size: tuple[int, int] = SIZE) -> torch.Tensor:
    return torch.rand(channels, *size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) - 0.5


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("mode", MODES)
@law
@given(matrix=matrices(), seed=st.integers(0, 1000))
def test_adjoint(mode, border, matrix, seed):
    """<W x, y> = <x, W' y>, with W' what the backward pass computes."""
    x, y = _image(seed).requires_grad_(), _image(seed + 1, size=(7, 8))
    warped = PF.warp(x, matrix, size=(7, 8), interpolation=mode, padding_mode=border)
    (adjoint,) = torch.autograd.grad(warped, x, y)
    assert abs(torch.sum(warped * y) - torch.sum(x * adjoint)) < 1e-12


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("mode", MODES)
@law
@given(matrix=matrices(), seed=st.integers(0, 1000), a=st.floats(-2, 2), b=st.floats(-2, 2))
def test_linear_in_the_image(mode, border, matrix, seed, a, b):
    def through(image):
        return PF.warp(image, matrix, size=(7, 8), interpolation=mode, padding_mode=border)

    x, y = _image(seed), _image(seed + 1)
    assert (through(a * x + b * y) - a * through(x) - b * through(y)).abs().max() < 1e-12


@pytest.mark.parametrize("border", ["border", "reflection", "reflect_101", "wrap"])
@pytest.mark.parametrize("mode", MODES)
@law
@given(matrix=matrices())
def test_constants_stay_constant(mode, border, matrix):
    out = PF.warp(torch.full((1, *SIZE), 0.7, dtype=torch.float64), matrix, size=(8, 9), interpolation=mode, padding_mode=border)
    assert (out - 0.7).abs().max() < 1e-12


@pytest.mark.parametrize("mode", MODES)
@law
@given(matrix=matrices())
def test_coverage_is_a_partition(mode, matrix):
    """Fill is mixed once: an image of ones with fill 1 is ones, and the share of fill is one minus the share of image."""
    ones = torch.ones(1, *SIZE, dtype=torch.float64)
    same = PF.warp(ones, matrix, size=(8, 9), interpolation=mode, padding_mode="constant", fill=1.0)
    assert (same - 1).abs().max() < 1e-12
    image = PF.warp(ones, matrix, size=(8, 9), interpolation=mode)
    fill = PF.warp(0 * ones, matrix, size=(8, 9), interpolation=mode, padding_mode="constant", fill=1.0)
    assert (image + fill - 1).abs().max() < 1e-12


@law
@given(first=matrices(), second=matrices())
def test_matrices_compose_on_points(first, second):
    points = 8 * torch.rand(6, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    one_by_one = PF.transform_points(PF.transform_points(points, first), second)
    at_once = PF.transform_points(points, second @ first)
    size = 1 + torch.nan_to_num(at_once).abs()
    assert (torch.nan_to_num(one_by_one - at_once).abs() / size).max() < 1e-9


@law
@given(matrix=matrices())
def test_points_come_back(matrix):
    points = 8 * torch.rand(6, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    there = PF.transform_points(points, matrix)
    assert (PF.transform_points(there, matrix.inverse()) - points).abs().max() < 1e-9


def _smooth(size: int) -> torch.Tensor:
    y, x = torch.meshgrid(*[torch.arange(size, dtype=torch.float64)] * 2, indexing="ij")
    middle = (size - 1) / 2
    return torch.exp(-((x - middle - 3) ** 2 + 2 * (y - middle + 2) ** 2) / (2 * 7.0**2))[None]


@law
@given(first=matrices(projective=False), second=matrices(projective=False))
def test_two_warps_are_the_product_of_their_matrices(first, second):
    """On a smooth image, away from the border.

    A cubic pass errs by some h^3 / 16 times the third derivative, at most 1.4 / 5^3 for the blob's narrow axis (sigma 5); shrunk
    by 0.4 before the second pass, and sheared, 27 times that: 0.02. A wrong order is off by the blob itself, which is 1 high.
    """
    size = 61
    centre = torch.tensor([[1.0, 0, -25], [0, 1, -26], [0, 0, 1]], dtype=torch.float64)
    first, second = (centre.inverse() @ matrix @ centre for matrix in (first, second))
    image = _smooth(size)
    twice = PF.warp(
        PF.warp(image, first, size=(size, size), interpolation="bicubic", padding_mode="border"),
        second,
        size=(size, size),
        interpolation="bicubic",
        padding_mode="border",
    )
    once = PF.warp(image, first @ second, size=(size, size), interpolation="bicubic", padding_mode="border")
    y, x = torch.meshgrid(*[torch.arange(size, dtype=torch.float64)] * 2, indexing="ij")
    middle = PF.transform_points(torch.stack((x, y), -1).reshape(-1, 2), second)
    inside = ((middle > 1) & (middle < size - 2)).all(-1).reshape(size, size)
    assert ((once - twice).abs() * inside).max() < 0.02


@law
@given(matrix=matrices(), seed=st.integers(0, 1000))
def test_forward_and_inverse_maps_are_each_other(matrix, seed):
    image = _image(seed)
    forward = PF.warp_perspective(image, matrix, (10, 8))
    inverse = PF.warp_perspective(image, matrix.inverse(), (10, 8), inverse_map=True)
    # Noise of slope 1, coordinates to 1e-13 times the condition of the matrix.
    assert (forward - inverse).abs().max() < 1e-9
