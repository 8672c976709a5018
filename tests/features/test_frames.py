"""Frames: the convention against OpenCV and NumPy, the algebra against autograd and closed forms."""

import math

import numpy as np
import pytest
import torch

from pellucid import InvalidArgument, InvalidType
from pellucid.features import (
    compose_frames,
    frame_center,
    frame_corners,
    frame_orientation,
    frame_scale,
    frames_from_cv2,
    frames_from_ellipses,
    frames_from_xy,
    frames_inside,
    frames_to_cv2,
    frames_to_ellipses,
    map_frames,
    rescale_frames,
    turn_frames,
    upright_frames,
)
from pellucid.geometry.points import transform_points
from tests.refusals import refused


def some_frames(batch=2, count=4, dtype=torch.float64):
    linear = 5.0 * torch.randn(batch, count, 2, 2, dtype=dtype)
    return torch.cat((linear, 30.0 + 10.0 * torch.randn(batch, count, 2, 1, dtype=dtype)), -1)


def homographies(batch=2):
    bend = torch.tensor([[0.1, 0.1, 3.0], [0.1, 0.1, 3.0], [5e-4, 5e-4, 0.0]], dtype=torch.float64)
    return torch.eye(3, dtype=torch.float64) + bend * torch.randn(batch, 3, 3, dtype=torch.float64)


def test_a_frame_covers_the_square_it_says():
    frames = frames_from_xy(torch.tensor([[50.0, 40.0]]), 16.0)
    assert frame_corners(frames)[0].tolist() == [[34.0, 24.0], [66.0, 24.0], [66.0, 56.0], [34.0, 56.0]]
    assert frame_scale(frames).item() == 16.0
    assert frame_center(frames)[0].tolist() == [50.0, 40.0]


def test_positive_degrees_turn_from_x_towards_y():
    right = frame_corners(frames_from_xy(torch.tensor([0.0, 0.0]), 1.0, 90.0))[1:3].mean(0)  # the middle of the patch's right side
    assert right.tolist() == [0.0, 1.0]  # below the centre: clockwise on screen


def test_scale_and_orientation_read_back_what_was_built():
    scale, degrees = torch.rand(50, dtype=torch.float64) + 0.1, 360.0 * torch.rand(50, dtype=torch.float64) - 180.0
    frames = frames_from_xy(torch.randn(50, 2, dtype=torch.float64), scale, degrees)
    torch.testing.assert_close(frame_scale(frames), scale)
    torch.testing.assert_close(frame_orientation(frames), degrees)


def test_every_frame_is_its_upright_form_turned():
    frames = some_frames()
    upright = upright_frames(frames)
    assert bool((upright[..., 0, 1] == 0).all())
    assert bool((upright[..., 0, 0] > 0).all())
    torch.testing.assert_close(turn_frames(upright, frame_orientation(frames)), frames)
    torch.testing.assert_close(frames_to_ellipses(upright), frames_to_ellipses(frames))


def test_rescaling_keeps_the_centre():
    frames = some_frames()
    factor = torch.rand(2, 4, dtype=torch.float64) + 0.5
    larger = rescale_frames(frames, factor)
    torch.testing.assert_close(frame_scale(larger), factor * frame_scale(frames))
    assert torch.equal(frame_center(larger), frame_center(frames))


def test_composition_is_that_of_maps():
    outer, inner = some_frames(), some_frames() / 30.0
    points = torch.randn(2, 4, 7, 2, dtype=torch.float64)

    def through(frames, p):
        return p @ frames[..., :2].mT + frames[..., None, :, 2]

    torch.testing.assert_close(through(compose_frames(outer, inner), points), through(outer, through(inner, points)))


def test_mapping_through_a_homography_is_its_exact_jacobian():
    frames, dst_from_src = some_frames(1, 5)[0], homographies(1)[0]
    mapped = map_frames(frames[None], dst_from_src[None])[0]
    for frame, result in zip(frames, mapped, strict=True):
        jacobian = torch.autograd.functional.jacobian(lambda p: transform_points(p[None], dst_from_src)[0], frame[:, 2])
        torch.testing.assert_close(result[:, :2], jacobian @ frame[:, :2])
        torch.testing.assert_close(result[:, 2], transform_points(frame[None, :, 2], dst_from_src)[0])


def test_mapping_composes_and_inverts():
    frames, first, second = some_frames(), homographies(), homographies()
    torch.testing.assert_close(map_frames(map_frames(frames, first), second), map_frames(frames, second @ first))
    torch.testing.assert_close(map_frames(map_frames(frames, first), torch.linalg.inv(first)), frames)
    torch.testing.assert_close(map_frames(frames, first[0]), torch.cat([map_frames(f[None], first[:1]) for f in frames]))


def test_behind_the_horizon_is_nan_without_a_gradient():
    frames = frames_from_xy(torch.tensor([[[0.0, 0.0], [100.0, 0.0], [float("nan"), 1.0]]]), 4.0).requires_grad_()
    tilted = torch.tensor([[[1.0, 0, 0], [0, 1, 0], [-0.02, 0, 1]]], requires_grad=True)
    mapped = map_frames(frames, tilted)
    assert torch.isfinite(mapped[0, 0]).all()
    assert torch.isnan(mapped[0, 1:]).all()
    torch.where(torch.isnan(mapped), 0.0, mapped).sum().backward()
    assert torch.isfinite(tilted.grad).all()
    assert bool((frames.grad[0, 1:] == 0).all())


@pytest.mark.parametrize(
    "function",
    [
        frame_scale,
        frame_orientation,
        upright_frames,
        frames_to_ellipses,
        lambda f: turn_frames(f, 30.0),
        lambda f: rescale_frames(f, 3.0),
        lambda f: frames_from_ellipses(frames_to_ellipses(f)),
        lambda f: frames_from_xy(f[..., 2], f[..., 0, 0], f[..., 0, 1]),
    ],
)
def test_gradients_of_the_algebra(function):
    frames = some_frames(1, 3).requires_grad_()
    assert torch.autograd.gradcheck(function, frames)
    assert torch.autograd.gradgradcheck(function, frames)


def test_gradients_through_a_homography():
    inputs = some_frames(1, 3).requires_grad_(), homographies(1).requires_grad_()
    assert torch.autograd.gradcheck(map_frames, inputs)


def test_degenerate_frames_have_finite_gradients():
    frames = torch.zeros(3, 2, 3, requires_grad=True)
    (frame_scale(frames) + frame_orientation(frames) + upright_frames(frames).sum((-1, -2))).sum().backward()
    assert torch.isfinite(frames.grad).all()


def test_opencv_keypoints_there_and_back():
    cv2 = pytest.importorskip("cv2")
    points = [cv2.KeyPoint(10.5, 20.25, 8.0, 30.0), cv2.KeyPoint(1.0, 2.0, 4.0, -1), cv2.KeyPoint(3.0, 4.0, 2.0, 359.0)]
    frames = frames_from_cv2(points, factor=6.0)
    assert frame_scale(frames).tolist() == pytest.approx([24.0, 12.0, 6.0])  # half of six diameters
    assert frame_center(frames).tolist() == [[10.5, 20.25], [1.0, 2.0], [3.0, 4.0]]
    back = frames_to_cv2(frames, factor=6.0)
    for point, given in zip(back, points, strict=True):
        assert point.pt == pytest.approx(given.pt)
        assert point.size == pytest.approx(given.size)
        assert point.angle == pytest.approx(max(given.angle, 0.0), abs=1e-3)
    assert frame_orientation(frames_from_cv2(points, upright=True)).tolist() == [0.0, 0.0, 0.0]
    assert frames_from_cv2([]).shape == (0, 2, 3)


def test_opencv_angles_point_where_its_sift_does():
    """A blob on a ramp that rises to the lower right: the dominant gradient, hence the patch's x axis, points there."""
    cv2 = pytest.importorskip("cv2")
    y, x = np.mgrid[:128, :128] - 64.0
    picture = np.uint8(128 + 0.8 * (x + 0.5 * y) - 40 * np.exp(-(x**2 + y**2) / 50))
    points = cv2.SIFT_create(contrastThreshold=0.0).detect(picture, None)
    point = min(points, key=lambda k: (k.pt[0] - 64) ** 2 + (k.pt[1] - 64) ** 2)
    assert frame_orientation(frames_from_cv2([point]))[0].item() == pytest.approx(math.degrees(math.atan2(0.5, 1.0)), abs=10)


def test_ellipses_are_the_image_of_the_unit_circle():
    frames = some_frames()
    x, y, a, b, c = frames_to_ellipses(frames)[..., None].unbind(-2)
    turn = torch.linspace(0, 6.2, 11, dtype=torch.float64)
    circle = torch.stack((torch.cos(turn), torch.sin(turn)), -1)
    px, py = (circle @ frames[..., :2].mT + frames[..., None, :, 2]).unbind(-1)
    form = a * (px - x) ** 2 + 2 * b * (px - x) * (py - y) + c * (py - y) ** 2
    torch.testing.assert_close(form, torch.ones_like(form))
    again = frames_from_ellipses(frames_to_ellipses(frames))
    mirrored = torch.linalg.det(frames[..., :2])[..., None, None] < 0
    torch.testing.assert_close(torch.where(mirrored, again, upright_frames(frames)), again)
    torch.testing.assert_close(frames_from_ellipses(frames_to_ellipses(frames, factor=3.0), factor=3.0), again)
    assert torch.isnan(frames_from_ellipses(torch.tensor([0.0, 0.0, 1.0, 2.0, 1.0]))).all()


def test_inside_means_every_corner():
    frames = frames_from_xy(torch.tensor([[3.5, 3.5], [3.4, 3.5], [float("nan"), 3.5], [3.5, 3.5]]), torch.tensor([4.0, 4, 4, 0]))
    assert frames_inside(frames, (8, 8)).tolist() == [True, False, False, False]
    assert frames_inside(frames, (8, 8), margin=-1.0).tolist() == [True, True, False, False]
    assert frames_inside(frames_from_xy(torch.tensor([3.5, 3.5]), 4.0, 45.0), (8, 8)).item() is False


def test_autocast_leaves_coordinates_alone():
    frames, dst_from_src = some_frames().float(), homographies().float()

    def everything():
        return map_frames(frames, dst_from_src), compose_frames(frames, frames), frame_corners(frames), turn_frames(frames, 20.0)

    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = everything()
    assert all(torch.equal(one, other) for one, other in zip(inside, everything(), strict=True))


def test_errors_say_what_to_do():
    refused(InvalidArgument, r"frames: expected shape \(\.\.\., 2, 3\), got \(3, 3\)\. frames_from_xy", frame_scale, torch.eye(3))
    refused(InvalidType, "floating-point", frame_scale, torch.zeros(2, 3, dtype=torch.int64))
    refused(InvalidArgument, "dst_from_src", map_frames, some_frames(), torch.zeros(2, 3))
    refused(InvalidArgument, r"\(\.\.\., N, 2, 3\)", map_frames, some_frames()[0, 0], homographies(1)[0])
