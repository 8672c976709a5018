"""What goes wrong in hand-written warps does not go wrong here: values that are not finite, and the classic mistakes."""

import math

import numpy as np
import pytest
import torch

from pellucid import functional as PF

IDENTITY = torch.tensor([[1.0, 0.0, 0.3], [0.0, 1.0, -0.2]])
SINGULAR = torch.tensor([[1.0, 2.0, 0.0], [2.0, 4.0, 0.0]])
BORDERS = ["constant", "replicate", "reflect", "reflect_101", "wrap"]


def _with(row: int, column: int, value: float) -> torch.Tensor:
    matrix = IDENTITY.clone()
    matrix[row, column] = value
    return matrix


BROKEN = {
    "singular": (SINGULAR, False),
    "zero": (torch.zeros(2, 3), False),
    "nan": (_with(0, 0, math.nan), False),
    "nan shift": (_with(1, 2, math.nan), False),
    "inf": (_with(0, 1, math.inf), False),
    "nan inverse": (_with(0, 0, math.nan), True),
    "inf inverse": (_with(1, 2, -math.inf), True),
    "overflow": (_with(0, 0, 1e-42), False),
}


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("projective", [False, True])
@pytest.mark.parametrize("name", BROKEN)
def test_a_matrix_without_meaning_shows_the_border_value_and_has_no_gradient(name, projective, mode, border):
    broken, inverse = BROKEN[name]
    matrices = torch.stack((IDENTITY, broken, IDENTITY))
    if projective:
        matrices = torch.cat((matrices, torch.tensor([0.01, 0.0, 1.0]).expand(3, 1, 3)), 1)
        if name == "zero":
            matrices[1] = 0
    function = PF.warp_perspective if projective else PF.warp_affine
    images = torch.rand(3, 2, 6, 7, requires_grad=True)
    matrices = matrices.clone().requires_grad_()
    before = matrices.detach().clone()
    options = {"interpolation": mode, "border_mode": border, "border_value": 0.25, "inverse_map": inverse}
    out = function(images, matrices, (7, 6), **options)
    well = function(images[[0, 2]], matrices[[0, 2]], (7, 6), **options)
    assert torch.equal(out[[0, 2]], well)
    assert torch.equal(matrices.detach().nan_to_num(7), before.nan_to_num(7))
    if name == "overflow" and projective:
        return  # a tiny entry beside a tilt leaves a matrix that has an inverse
    assert (out[1] == 0.25).all()
    loss = (out * torch.rand_like(out)).sum()
    by_image, by_matrix = torch.autograd.grad(loss, (images, matrices), allow_unused=True)
    assert by_image.isfinite().all()
    assert (by_image[1] == 0).all()
    assert (by_image[0] != 0).any()
    if mode != "nearest":
        assert by_matrix.isfinite().all()
        assert (by_matrix[1] == 0).all()
        assert (by_matrix[0] != 0).any()


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e38])
@pytest.mark.parametrize("border", BORDERS)
def test_one_bad_coordinate_touches_one_pixel(border, bad):
    image = torch.rand(1, 6, 7, requires_grad=True)
    x, y = torch.rand(4, 5) * 6, (torch.rand(4, 5) * 5).requires_grad_()
    good = PF.remap(image, x, y, border_mode=border, border_value=0.25)
    x[2, 3] = bad
    x.requires_grad_()
    out = PF.remap(image, x, y, border_mode=border, border_value=0.25)
    other = torch.ones(4, 5, dtype=torch.bool)
    other[2, 3] = False
    assert torch.equal(out[0, other], good[0, other])
    assert out.isfinite().all()
    if not math.isfinite(bad):
        assert out[0, 2, 3] == 0.25
    gradients = torch.autograd.grad(out.sum(), (image, x, y))
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert gradients[1][2, 3] == 0


def test_a_nan_pixel_reaches_those_that_interpolate_from_it_and_no_other():
    image = torch.rand(1, 6, 7)
    image[0, 2, 3] = math.nan
    out = PF.warp_affine(image, [[1, 0, 0.5], [0, 1, 0.5]], (7, 6))
    assert out.isnan().nonzero().tolist() == [[0, 2, 3], [0, 2, 4], [0, 3, 3], [0, 3, 4]]


def test_the_horizon_shows_the_border_value():
    image = torch.rand(1, 6, 7, requires_grad=True)
    matrix = torch.tensor([[1.0, 0, 0], [0, 1, 0], [1.0, 0, -3.0]], requires_grad=True)
    out = PF.warp_perspective(image, matrix, (7, 6), inverse_map=True, border_mode="replicate", border_value=0.25)
    assert (out[0, :, 3] == 0.25).all()
    assert all(g.isfinite().all() for g in torch.autograd.grad(out.sum(), (image, matrix)))


def test_the_matrix_is_not_detached():
    """Gradient descent on M alone finds the shift between two pictures."""
    y, x = torch.meshgrid(torch.arange(24.0), torch.arange(24.0), indexing="ij")
    image = torch.exp(-((x - 11) ** 2 + (y - 12) ** 2) / 40)[None]
    wanted = PF.warp_affine(image, [[1, 0, 2.5], [0, 1, -1.5]], (24, 24), border_mode="replicate")
    shift = torch.zeros(2, requires_grad=True)
    optimizer = torch.optim.Adam([shift], lr=0.2)
    for _ in range(80):
        matrix = torch.cat((torch.eye(2), shift[:, None]), 1)
        loss = (PF.warp_affine(image, matrix, (24, 24), border_mode="replicate") - wanted).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert (shift - torch.tensor([2.5, -1.5])).abs().max() < 0.05


def test_negative_coordinates_are_floored_not_cut_off():
    """``.long()`` rounds -0.5 up to 0 and mirrors the interpolation around the border."""
    image = torch.tensor([[[10.0, 20.0, 30.0]]])
    out = PF.remap(image, torch.tensor([[-0.25, -0.75, -1.25]]), torch.zeros(1, 3))
    assert out.flatten().tolist() == [7.5, 2.5, 0.0]
    assert PF.remap(image, torch.tensor([[-0.75, -0.25]]), torch.zeros(1, 2), interpolation="nearest").flatten().tolist() == [
        0.0,
        10.0,
    ]


def test_weights_and_indices_agree_outside():
    """Clamped indices with unclamped weights extrapolate; a border is a border at any distance."""
    image = torch.tensor([[[10.0, 20.0, 30.0]]])
    out = PF.remap(image, torch.tensor([[-5.0, -0.3, 2.4, 9.0]]), torch.zeros(1, 4), border_mode="replicate")
    assert out.flatten().tolist() == [10.0, 10.0, 30.0, 30.0]


def test_the_border_value_is_mixed_in_by_the_share_outside():
    image = torch.tensor([[[10.0, 20.0, 30.0]]], requires_grad=True)
    value = torch.tensor(100.0, requires_grad=True)
    out = PF.remap(image, torch.tensor([[-0.25, 2.5, 4.0]]), torch.zeros(1, 3), border_value=value)
    assert out.flatten().tolist() == [32.5, 65.0, 100.0]
    by_image, by_value = torch.autograd.grad(out.sum(), (image, value))
    assert by_image.flatten().tolist() == [0.75, 0.0, 0.5]
    assert by_value == 0.25 + 0.5 + 1.0


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor, lambda m: torch.tensor(m, dtype=torch.int32), np.flip])
def test_any_holder_of_a_matrix(kind):
    rows = [[2, 0, 1], [0, 3, -1]]
    image = torch.rand(3, 6, 7, requires_grad=True)
    matrix = kind(np.flip(rows).copy()) if kind is np.flip else kind(rows)
    out = PF.warp_affine(image, matrix, (9, 8))
    assert torch.equal(out, PF.warp_affine(image, torch.tensor(rows, dtype=torch.float64), (9, 8)))
    out.sum().backward()
    assert (image.grad != 0).any()


def test_a_list_of_tensors_keeps_its_graph():
    angle = torch.tensor(0.3, requires_grad=True)
    c, s = torch.cos(angle), torch.sin(angle)
    out = PF.warp_affine(torch.rand(3, 6, 7), [[c, s, 0.1], [-s, c, 0.2]], (7, 6))
    (gradient,) = torch.autograd.grad(out.square().sum(), angle)
    assert gradient != 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_images_have_full_precision_coordinates(dtype):
    image = torch.arange(900.0).expand(1, 1, 900)  # wide: bfloat16 coordinates would be off by pixels
    exact = PF.warp_affine(image, [[1, 0, -3], [0, 1, 0]], (890, 1))
    out = PF.warp_affine(image.to(dtype), [[1, 0, -3], [0, 1, 0]], (890, 1))
    assert torch.equal(out, exact.to(dtype))


def test_a_bad_parameter_of_affine_leaves_the_others_alone():
    angle = torch.tensor([10.0, math.nan, 20.0], requires_grad=True)
    scale = torch.tensor([1.1, 1.0, 0.0], requires_grad=True)
    out = PF.affine(torch.rand(2, 6, 7), angle, scale=scale, fill=0.25)
    assert out.shape == (3, 2, 6, 7)
    assert (out[1:] == 0.25).all()
    by_angle, by_scale = torch.autograd.grad((out * torch.rand_like(out)).sum(), (angle, scale))
    assert by_angle[0] != 0
    assert by_scale[0] != 0
    assert by_angle[1:].tolist() == [0.0, 0.0]
    assert by_scale[1:].tolist() == [0.0, 0.0]


def test_blur_and_erase_with_values_without_meaning():
    image = torch.rand(3, 1, 6, 7)
    sigma = torch.tensor([1.0, math.nan, -1.0], requires_grad=True)
    out = PF.gaussian_blur(image, 5, sigma)
    assert torch.equal(out[1:], image[1:])
    (gradient,) = torch.autograd.grad(out.square().sum(), sigma)
    assert gradient[0] != 0
    assert gradient[1:].tolist() == [0.0, 0.0]
    boxes = torch.tensor([[1.0, 1, 3, 3], [math.nan, 1, 3, 3], [1.0, 1, math.inf, 3]], requires_grad=True)
    out = PF.erase(image, boxes)
    assert torch.equal(out[1:], image[1:])
    (gradient,) = torch.autograd.grad(out.sum(), boxes)
    assert gradient.isfinite().all()


@pytest.mark.parametrize("depth", [1e-20, 1e-25, 1e-38])
def test_quotients_that_overflow_show_the_border_value_and_have_no_gradient(depth):
    """The first column is so near the horizon that its coordinates, or their slopes, exceed the range of float32."""
    image = torch.rand(1, 5, 6, requires_grad=True)
    matrix = torch.tensor([[0.0, 0, 1], [0, 1, 1e-30], [0.25, 0, depth]], requires_grad=True)
    out = PF.warp_perspective(image, matrix, (6, 5), inverse_map=True, border_mode="replicate", border_value=0.25)
    assert (out[0, :, 0] == 0.25).all()
    assert out.isfinite().all()
    by_image, by_matrix = torch.autograd.grad((out * torch.rand_like(out)).sum(), (image, matrix))
    assert by_image.isfinite().all()
    assert by_matrix.isfinite().all()
    assert (by_matrix != 0).any()
