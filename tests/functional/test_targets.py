"""Points and boxes go where their pixels go, and a bad one harms nobody else."""

import math

import pytest
import torch

from pellucid import functional as PF

MATRIX = torch.tensor([[1.1, 0.2, -3.0], [-0.1, 0.9, 2.0], [0.002, -0.001, 1.0]], dtype=torch.float64)


def test_points_follow_the_picture():
    image = torch.zeros(1, 40, 50, dtype=torch.float64)
    y, x = torch.meshgrid(torch.arange(40.0), torch.arange(50.0), indexing="ij")
    image[0] = torch.exp(-((x - 21) ** 2 + (y - 17) ** 2) / 18)
    out = PF.warp_perspective(image, MATRIX, (50, 40), interpolation="bicubic")
    point = PF.transform_points(torch.tensor([[21.0, 17.0]], dtype=torch.float64), MATRIX)[0]
    row, column = divmod(int(out.argmax()), 50)
    assert math.hypot(column - point[0], row - point[1]) < 1
    assert PF.transform_points(point[None], MATRIX.inverse())[0].tolist() == pytest.approx([21, 17], abs=1e-12)


def test_shapes_of_points_and_matrices():
    points, matrices = torch.rand(5, 2), MATRIX.expand(3, 3, 3)
    assert PF.transform_points(points, MATRIX).shape == (5, 2)
    assert PF.transform_points(points, matrices).shape == (3, 5, 2)
    assert PF.transform_points(points.expand(3, 5, 2), MATRIX).shape == (3, 5, 2)
    assert PF.transform_points(points.expand(3, 5, 2), matrices[:1]).shape == (3, 5, 2)
    assert PF.transform_points(points.half(), [[1, 0, 5], [0, 1, 0]]).dtype == torch.float16
    assert PF.transform_boxes(torch.rand(5, 4), matrices).shape == (3, 5, 4)
    assert PF.transform_boxes(torch.rand(3, 5, 5), MATRIX, format="cxcywhr").shape == (3, 5, 5)
    assert PF.transform_boxes(torch.rand(3, 0, 4), MATRIX).shape == (3, 0, 4)


@pytest.mark.parametrize("bad", [math.nan, math.inf, "horizon"])
def test_a_bad_point_leaves_the_gradient_of_the_others_alone(bad):
    matrix = MATRIX.clone()
    matrix[2] = torch.tensor([0.5, 0.0, -1.0])  # the horizon is x = 2
    matrix.requires_grad_()
    points = torch.tensor([[3.0, 4.0], [2.0, 1.0] if bad == "horizon" else [bad, 1.0]], dtype=torch.float64, requires_grad=True)
    out = PF.transform_points(points, matrix)
    assert not out[1].isfinite().any()
    gradients = torch.autograd.grad(out[0].sum(), (points, matrix))
    alone = torch.autograd.grad(PF.transform_points(points[:1], matrix).sum(), (points, matrix))
    assert torch.equal(gradients[0][0], alone[0][0])
    assert torch.equal(gradients[0][1], torch.zeros(2, dtype=torch.float64))
    assert torch.equal(gradients[1], alone[1])


def test_a_bad_matrix_leaves_the_gradient_of_the_others_alone():
    matrices = MATRIX.repeat(2, 1, 1)
    matrices[1, 0, 0] = math.nan
    matrices.requires_grad_()
    points = torch.rand(4, 2, dtype=torch.float64, requires_grad=True)
    out = PF.transform_points(points, matrices)
    assert out[1].isnan().all()
    by_point, by_matrix = torch.autograd.grad(out[0].sum(), (points, matrices))
    assert by_point.isfinite().all()
    assert by_matrix.isfinite().all()
    assert (by_matrix[1] == 0).all()
