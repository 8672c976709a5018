"""Harris, Shi-Tomasi, Hessian and DoG against scikit-image and OpenCV; gradients against finite differences."""

import numpy as np
import pytest
import torch
from scipy import ndimage
from torch.autograd import gradcheck

from pellucid import InvalidArgument
from pellucid.features import dog_response, harris_response, hessian_response, shi_tomasi_response
from tests.refusals import refused

RESPONSES = {
    "harris": harris_response,
    "shi_tomasi": shi_tomasi_response,
    "hessian": hessian_response,
    "dog": dog_response,
    "harris_sobel": lambda i: harris_response(i, derivative_sigma=None, block_size=3),
}


def picture(size=(60, 70)):
    return ndimage.gaussian_filter(np.random.default_rng(0).random(size), 1.0)


def interior(x, margin=12):
    return np.asarray(x)[..., margin:-margin, margin:-margin]


def close(ours, theirs, share=1e-6):
    return np.abs(interior(ours) - interior(theirs)).max() < share * np.abs(interior(theirs)).max()


def test_harris_equals_scikit_image():
    corner = pytest.importorskip("skimage.feature")
    image = picture()
    ours = harris_response(torch.from_numpy(image)[None, None], derivative_sigma=None, sigma=1.5, k=0.05)[0, 0]
    # skimage's Sobel filters are 8 (scipy's factor) times ours; the response is of fourth degree.
    assert close(ours * 8**4, corner.corner_harris(image, k=0.05, sigma=1.5), 1e-4)


@pytest.mark.parametrize("block", [3, 5])
def test_harris_and_shi_tomasi_equal_opencv(block):
    cv2 = pytest.importorskip("cv2")
    image = picture()
    tensor = torch.from_numpy(image)[None, None]
    # OpenCV sums over 4 * block^2 ... and divides its Sobel filters by 4 * block.
    scale = (8 / (4 * block)) ** 2 * block**2
    single = image.astype(np.float32)
    ours = harris_response(tensor, derivative_sigma=None, block_size=block, k=0.06)[0, 0]
    assert close(ours * scale**2, cv2.cornerHarris(single, block, 3, 0.06), 1e-3)
    ours = shi_tomasi_response(tensor, derivative_sigma=None, block_size=block)[0, 0]
    assert close(ours * scale, cv2.cornerMinEigenVal(single, block, ksize=3), 1e-3)


def test_shi_tomasi_is_the_smaller_eigenvalue():
    feature = pytest.importorskip("skimage.feature")
    image = picture()
    ours = shi_tomasi_response(torch.from_numpy(image)[None, None], derivative_sigma=None, sigma=2.0)[0, 0]
    assert close(ours * 64, feature.corner_shi_tomasi(image, sigma=2.0), 1e-4)


def test_hessian_determinant():
    image = picture()
    yy, xx, xy = (ndimage.gaussian_filter(image, 2.0, order=o, truncate=8) for o in ((2, 0), (0, 2), (1, 1)))
    ours = hessian_response(torch.from_numpy(image)[None, None], sigma=2.0)[0, 0]
    # Cut at 4 sigma and exact on parabolas, our second derivatives have 0.3 % more gain than the untruncated ones.
    assert close(ours, 16 * (xx * yy - xy**2), 6e-3)


def test_hessian_of_a_gaussian_blob():
    place = torch.arange(-20, 21, dtype=torch.float64)
    blob = torch.exp(-(place[:, None] ** 2 + place**2) / (2 * 3.0**2))[None, None]
    # Blurred by 2 px: height 9 / 13, variance 13, and both second derivatives -height / variance.
    assert abs(hessian_response(blob, sigma=2.0)[0, 0, 20, 20].item() / (16 * (9 / 13 / 13) ** 2) - 1) < 6e-3


def test_dog_equals_scikit_image():
    filters = pytest.importorskip("skimage.filters")
    image = picture()
    ours = dog_response(torch.from_numpy(image)[None, None], sigma=1.6, ratio=1.25, signed=True)[0, 0]
    theirs = -filters.difference_of_gaussians(image, 1.6, 2.0)  # theirs is narrow minus wide
    assert close(ours, theirs)
    assert bool((dog_response(torch.from_numpy(image)[None, None], sigma=1.6, ratio=1.25) >= 0).all())


@pytest.mark.parametrize("name", RESPONSES)
def test_gradient(name):
    image = torch.rand(1, 1, 4, 5, dtype=torch.float64, requires_grad=True)
    assert gradcheck(RESPONSES[name], image)


@pytest.mark.parametrize("name", RESPONSES)
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_finite_on_flat_images(name, value):
    image = torch.full((2, 1, 16, 16), value, requires_grad=True)
    out = RESPONSES[name](image)
    (grad,) = torch.autograd.grad(out.sum(), image)
    assert out.abs().max() < 1e-6
    assert bool(grad.isfinite().all())


@pytest.mark.parametrize("name", RESPONSES)
def test_batch_equals_loop(name):
    images = torch.rand(3, 1, 20, 16)
    assert torch.allclose(RESPONSES[name](images)[1:2], RESPONSES[name](images[1:2]), atol=1e-6)


def test_errors():
    refused(InvalidArgument, "block_size", harris_response, torch.rand(1, 1, 8, 8), block_size=4)
    refused(InvalidArgument, "ratio", dog_response, torch.rand(1, 1, 8, 8), ratio=1.0)
    refused(InvalidArgument, "B, 1, H, W", hessian_response, torch.rand(8, 8))
