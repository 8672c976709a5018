"""Gaussian derivatives against scipy, and exact on polynomials."""

import numpy as np
import pytest
import torch
from scipy import ndimage
from torch.autograd import gradcheck

from pellucid import InvalidArgument, InvalidType
from pellucid.features.derivatives import check_grey, gaussian_derivatives, sobel_derivatives
from tests.refusals import refused

ORDERS = [(0, 0), (0, 1), (1, 0), (0, 2), (1, 1), (2, 0)]


@pytest.mark.parametrize("sigma", [1.0, 1.6, 3.0])
def test_equals_scipy(sigma):
    image = np.random.default_rng(0).random((40, 50))
    ours = gaussian_derivatives(torch.from_numpy(image)[None, None], sigma, ORDERS, truncate=6)[0, 0].numpy()
    for result, order in zip(ours, ORDERS, strict=True):
        theirs = ndimage.gaussian_filter(image, sigma, order=order, mode="nearest", truncate=6)
        assert np.abs(result - theirs).max() < 2e-6 * max(1, np.abs(theirs).max()), order


@pytest.mark.parametrize("sigma", [0.5, 0.9, 2.0])
def test_exact_on_a_parabola_whatever_the_truncation(sigma):
    y, x = torch.meshgrid(torch.arange(41.0, dtype=torch.float64), torch.arange(41.0, dtype=torch.float64), indexing="ij")
    image = (3 + 2 * x - y + 0.5 * x * x + 4 * x * y - 3 * y * y)[None, None]
    result = gaussian_derivatives(image, sigma, ORDERS, truncate=2)[0, 0, :, 20, 20]
    assert torch.allclose(result[1:], torch.tensor([2 + 20 + 80, -1 + 80 - 120, 1, 4, -6], dtype=torch.float64), atol=1e-9)


def test_sobel():
    image = np.random.default_rng(1).random((12, 9))
    dx, dy = sobel_derivatives(torch.from_numpy(image)[None, None])[0, 0].numpy()
    assert np.allclose(dx, ndimage.sobel(image, axis=1, mode="nearest") / 8)
    assert np.allclose(dy, ndimage.sobel(image, axis=0, mode="nearest") / 8)


def test_images_smaller_than_the_kernel_and_channels():
    image = torch.rand(2, 3, 2, 1)
    assert gaussian_derivatives(image, 3.0, ORDERS).shape == (2, 3, 6, 2, 1)
    alone = gaussian_derivatives(image[1:, 2:], 3.0, ORDERS)
    assert torch.allclose(gaussian_derivatives(image, 3.0, ORDERS)[1:, 2:], alone, atol=1e-6)


def test_gradient():
    image = torch.rand(1, 1, 5, 4, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda i: gaussian_derivatives(i, 0.7, ORDERS), image)


def test_errors():
    refused(InvalidArgument, "grayscale", check_grey, "image", torch.rand(1, 3, 4, 4))
    with pytest.raises(InvalidType):
        check_grey("image", torch.zeros(1, 1, 4, 4, dtype=torch.uint8))
    refused(InvalidArgument, "sigma", gaussian_derivatives, torch.rand(1, 1, 4, 4), 0.0)
