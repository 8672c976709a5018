"""OpenCV's matrices: rotation, three points, four points, inverse."""

import numpy as np
import pytest
import torch

from pellucid import functional as PF
from tests.peers import opencv

# OpenCV solves 8x8 systems by elimination: conditions of some 1e5 cost it five digits of its sixteen.
SOLVED = 1e-9


ROTATIONS = [((3, 4), 30, 1), ((0.5, -7.25), -123.4, 0.37), ((10, 2), 90, 2), ((0, 0), 180, 1)]


@pytest.mark.parametrize(("center", "angle", "scale"), ROTATIONS)
def test_rotation(center, angle, scale):
    wanted = opencv().getRotationMatrix2D(center, angle, scale)
    assert np.abs(PF.get_rotation_matrix2d(center, angle, scale).numpy() - wanted).max() < 1e-12


def test_rotation_of_a_batch():
    centers = (torch.rand(5, 2) * 9).double()  # OpenCV holds centres in single precision
    angles, scales = torch.randn(5, dtype=torch.float64) * 90, torch.rand(5) + 0.5
    ours = PF.get_rotation_matrix2d(centers, angles, scales)
    assert ours.dtype == torch.float64
    for matrix, center, angle, scale in zip(ours, centers.tolist(), angles.tolist(), scales.tolist(), strict=True):
        assert np.abs(matrix.numpy() - opencv().getRotationMatrix2D(center, angle, scale)).max() < 1e-12


def _quads(count: int) -> np.ndarray:
    corners = np.array([[0, 0], [30, 0], [30, 20], [0, 20]], dtype=np.float32)
    moved = corners + np.random.default_rng(0).uniform(-6, 6, (count, 4, 2))
    # Eighths: OpenCV multiplies coordinates in single precision, and products of these are exact there.
    return (np.round(8 * moved) / 8).astype(np.float32)


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 1, 3, 2), (2, 0, 1, 3)])
def test_four_points_in_any_order(order):
    quads = np.ascontiguousarray(_quads(10)[:, list(order)])
    ours = PF.get_perspective_transform(quads[:5], quads[5:])
    for matrix, src, dst in zip(ours.numpy(), quads[:5], quads[5:], strict=True):
        wanted = opencv().getPerspectiveTransform(src, dst)
        assert np.abs(matrix - wanted).max() < SOLVED * np.abs(wanted).max()
        assert (
            np.abs(PF.get_perspective_transform(src.tolist(), dst.tolist()).numpy() - wanted).max() < SOLVED * np.abs(wanted).max()
        )


def test_three_points_and_the_inverse():
    points = np.ascontiguousarray(_quads(10)[:, :3])
    for matrix, src, dst in zip(PF.get_affine_transform(points[:5], points[5:]).numpy(), points[:5], points[5:], strict=True):
        wanted = opencv().getAffineTransform(src, dst)
        assert np.abs(matrix - wanted).max() < SOLVED * np.abs(wanted).max()
        inverse = opencv().invertAffineTransform(wanted)
        assert np.abs(PF.invert_affine_transform(wanted).numpy() - inverse).max() < SOLVED * np.abs(inverse).max()


def test_points_through_a_homography():
    matrix = PF.get_perspective_transform(*_quads(2))
    points = np.random.default_rng(1).uniform(0, 30, (40, 2))
    wanted = opencv().perspectiveTransform(points[None], matrix.numpy())[0]
    assert np.abs(PF.transform_points(torch.from_numpy(points), matrix).numpy() - wanted).max() < 1e-11


def test_no_solution_is_nan_with_no_gradient():
    line = torch.tensor([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0], [3.0, 3.0]], dtype=torch.float64)
    square = torch.tensor([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]], dtype=torch.float64)
    src = torch.stack((square, line)).requires_grad_()
    matrix = PF.get_perspective_transform(src, square)
    assert matrix[1].isnan().all()
    out = PF.warp_perspective(torch.rand(1, 5, 6, dtype=torch.float64), matrix, (6, 5), border_value=0.25)
    assert (out[1] == 0.25).all()
    (gradient,) = torch.autograd.grad((out * torch.rand_like(out)).sum(), src)
    assert (gradient[0] != 0).any()
    assert gradient[0].isfinite().all()
    assert (gradient[1] == 0).all()
