"""Non-maximum suppression, the K best, and their sub-pixel places."""

import numpy as np
import pytest
import torch
from scipy import ndimage
from torch.autograd import gradcheck

from pellucid import InvalidArgument
from pellucid.features import harris_response, select_keypoints, soft_argmax, suppress_non_maxima
from tests.refusals import refused


def bump(x, y, size=25, sigma=2.0, dtype=torch.float64):
    place = torch.arange(size, dtype=dtype)
    return torch.exp(-((place[:, None] - y) ** 2 + (place - x) ** 2) / (2 * sigma**2))[None, None]


def test_maxima_equal_scipy():
    response = np.random.default_rng(0).random((40, 50))
    theirs = response == ndimage.maximum_filter(response, size=7, mode="nearest")
    ours = suppress_non_maxima(torch.from_numpy(response)[None, None], 3)
    assert np.array_equal(ours[0, 0].numpy(), theirs)


def test_best_equal_scikit_image():
    feature = pytest.importorskip("skimage.feature")
    response = np.random.default_rng(1).random((40, 50))
    theirs = feature.peak_local_max(response, min_distance=2, exclude_border=3, num_peaks=20)
    found = select_keypoints(torch.from_numpy(response)[None, None], 20, radius=2, border=3, refine=0)
    assert bool(found.valid.all())
    assert {tuple(p) for p in found.points[0].int().tolist()} == {(x, y) for y, x in theirs.tolist()}
    assert bool((found.scores[0, :-1] >= found.scores[0, 1:]).all())


@pytest.mark.parametrize("sigma", [1.5, 2.0, 3.0, 5.0])
def test_subpixel_place_of_a_bump(sigma):
    for x, y in ((12.0, 12.0), (12.25, 11.9), (11.6, 12.4), (12.45, 12.45)):
        found = select_keypoints(bump(x, y, sigma=sigma), 1)
        assert (found.points[0, 0] - torch.tensor([x, y], dtype=torch.float64)).abs().max() < 0.045


def test_gain_and_offset_move_nothing():
    response = torch.rand(1, 1, 30, 30, dtype=torch.float64)
    a, b = select_keypoints(response, 8), select_keypoints(1e-6 * response - 3e-6, 8)
    assert torch.allclose(a.points, b.points, atol=1e-8)


def test_points_have_gradients_and_they_are_right():
    response = (bump(9.3, 8.8, size=17) + 0.8 * bump(3.2, 3.9, size=17)).requires_grad_()

    def points(r):
        return select_keypoints(r, 2, radius=3).points

    # The range is a constant by declaration: away from the two pixels that set it, the gradient is the finite difference.
    (grad,) = torch.autograd.grad(points(response)[0, 0].sum(), response)
    h = 1e-6
    for y, x in ((8, 9), (9, 10), (8, 8)):
        step = torch.zeros_like(response)
        step[0, 0, y, x] = h
        with torch.no_grad():
            change = (points(response + step) - points(response - step))[0, 0].sum() / (2 * h)
        if (y, x) != (9, 9):
            assert torch.isclose(grad[0, 0, y, x], change, rtol=1e-4), (y, x)
    assert int((grad != 0).sum()) == 25


def test_soft_argmax_gradcheck_for_a_fixed_range():
    windows = torch.rand(3, 3, 3, dtype=torch.float64)
    windows[:, 0, 0], windows[:, 2, 2] = -1.0, 2.0  # the range: not perturbed below
    middle = windows[:, 1].clone().requires_grad_()
    assert gradcheck(lambda m: soft_argmax(torch.stack((windows[:, 0], m, windows[:, 2]), 1), temperature=0.3), middle)


def test_gradient_reaches_the_image():
    image = torch.rand(2, 1, 32, 32, requires_grad=True)
    found = select_keypoints(harris_response(image), 6)
    (grad,) = torch.autograd.grad(found.points.square().sum() + found.scores.sum(), image)
    assert bool(grad.isfinite().all())
    assert bool((grad != 0).flatten(1).any(1).all())


@pytest.mark.parametrize("response", [torch.zeros(2, 1, 12, 12), torch.full((2, 1, 12, 12), torch.nan), torch.ones(2, 1, 1, 1)])
def test_nothing_to_find(response):
    response = response.clone().requires_grad_()
    found = select_keypoints(response, 5)
    assert found.points.shape == (2, 5, 2)
    assert not bool(found.valid.any())
    (grad,) = torch.autograd.grad(found.points.sum() + found.scores.sum(), response)
    assert bool((grad == 0).all())
    assert bool((found.points == 0).all())


def test_a_value_that_is_not_finite_leaves_the_others_alone():
    response = bump(12.2, 12.0)
    clean = select_keypoints(response, 1)
    for value in (torch.nan, torch.inf, -torch.inf):
        spoiled = response.clone()
        spoiled[0, 0, 2, 2] = value
        assert torch.equal(select_keypoints(spoiled, 1).points, clean.points)


def test_options():
    response = bump(3, 3) + 0.5 * bump(15, 15)
    assert select_keypoints(response, 4).valid.sum() == 2
    assert select_keypoints(response, 4, border=4).valid.sum() == 1
    assert select_keypoints(response, 4, threshold=0.7).valid.sum() == 1
    visible = torch.ones(1, 1, 25, 25, dtype=torch.bool)
    visible[..., :8] = False
    assert torch.allclose(select_keypoints(response, 1, visible=visible).points.round(), torch.tensor([[[15.0, 15.0]]]).double())
    refused(InvalidArgument, "count", select_keypoints, response, 0)
    refused(InvalidArgument, "radius", select_keypoints, response, 1, radius=0)


@pytest.mark.slow
def test_compiles_as_one_graph():
    def find(image):
        return select_keypoints(harris_response(image), 16, border=4)

    image = torch.rand(2, 1, 48, 48)
    ours, plain = torch.compile(find, fullgraph=True)(image), find(image)
    assert torch.allclose(ours.points, plain.points, atol=1e-3)
    assert torch.equal(ours.valid, plain.valid)
