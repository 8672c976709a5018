"""Responses of the classical detectors, differentiable with respect to the image.

Owns: Harris, Shi-Tomasi, the determinant of the Hessian, and the difference of Gaussians.
Must not: pick keypoints; see ``keypoints.py``.
Read next: ``keypoints.py``, ``derivatives.py``.
"""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from pellucid.errors import invalid
from pellucid.features.derivatives import check_grey, check_sigma, gaussian_derivatives, sobel_derivatives
from pellucid.losses.descriptor_distance import safe_sqrt

__all__ = ["dog_response", "harris_response", "hessian_response", "shi_tomasi_response", "structure_tensor"]


def structure_tensor(
    image: Float[Tensor, "b 1 h w"], *, derivative_sigma: float | None = 1.0, sigma: float = 1.5, block_size: int | None = None
) -> tuple[Float[Tensor, "b 1 h w"], Float[Tensor, "b 1 h w"], Float[Tensor, "b 1 h w"]]:
    """Average the products of first derivatives around each pixel.

    Args:
        image: grey.
        derivative_sigma: smoothing inside the derivatives, in pixels; None takes 3x3 Sobel filters.
        sigma: standard deviation of the averaging window.
        block_size: average over a square of this many pixels (odd) instead, as OpenCV does.

    Returns:
        The averages of ``Ix Ix``, ``Ix Iy`` and ``Iy Iy``.

    Gradient:
        image: exact, to any order.
    Errors:
        InvalidArgument for shapes, widths or block sizes that do not fit; InvalidType for integer images.
    Source:
        ``skimage.feature.structure_tensor``.

    Example:
        >>> xx, xy, yy = structure_tensor(torch.arange(25.0).expand(1, 1, 25, 25))  # a ramp along x of slope 1
        >>> [round(product[0, 0, 12, 12].item(), 3) for product in (xx, yy)]
        [1.0, 0.0]
    """
    check_grey("image", image)
    if block_size is not None and (block_size < 1 or block_size % 2 == 0):
        raise invalid("block_size", expected="an odd number of pixels", got=block_size)
    slopes = sobel_derivatives(image) if derivative_sigma is None else gaussian_derivatives(image, derivative_sigma)
    dx, dy = slopes[:, 0].split(1, dim=1)  # b 1 h w each
    products = (dx * dx, dx * dy, dy * dy)
    if block_size is None:
        return tuple(gaussian_derivatives(p, sigma, [(0, 0)])[:, :, 0] for p in products)  # type: ignore[return-value]
    pad = [block_size // 2] * 4
    return tuple(F.avg_pool2d(F.pad(p, pad, mode="replicate"), block_size, 1) for p in products)  # type: ignore[return-value]


def harris_response(
    image: Float[Tensor, "b 1 h w"],
    *,
    derivative_sigma: float | None = 1.0,
    sigma: float = 1.5,
    block_size: int | None = None,
    k: float = 0.04,
) -> Float[Tensor, "b 1 h w"]:
    """Return Harris and Stephens' corner measure ``det - k trace^2`` of the structure tensor.

    Args:
        image: grey.
        derivative_sigma: as in :func:`structure_tensor`.
        sigma: as in :func:`structure_tensor`.
        block_size: as in :func:`structure_tensor`.
        k: weight of the squared trace, which lowers the response on edges.

    Returns:
        The response, in the image's size.

    Gradient:
        image: exact, to any order.
    Errors:
        As :func:`structure_tensor`.
    Source:
        ``skimage.feature.corner_harris`` and ``cv2.cornerHarris``, ``tests/features/test_classical.py``.

    Example:
        >>> image = torch.zeros(1, 1, 21, 21)
        >>> image[..., 10:, 10:] = 1
        >>> divmod(harris_response(image).argmax().item(), 21)
        (11, 11)
    """
    xx, xy, yy = structure_tensor(image, derivative_sigma=derivative_sigma, sigma=sigma, block_size=block_size)
    return xx * yy - xy * xy - k * (xx + yy).square()


def shi_tomasi_response(
    image: Float[Tensor, "b 1 h w"], *, derivative_sigma: float | None = 1.0, sigma: float = 1.5, block_size: int | None = None
) -> Float[Tensor, "b 1 h w"]:
    """Return the smaller eigenvalue of the structure tensor: "good features to track".

    Args:
        image, derivative_sigma, sigma, block_size: as in :func:`structure_tensor`.

    Returns:
        Of the image's size.

    Gradient:
        image: exact where the eigenvalues differ; the mean of the two eigenvalues' gradients where they are equal.
    Errors:
        As :func:`structure_tensor`.
    Source:
        ``skimage.feature.corner_shi_tomasi`` and ``cv2.cornerMinEigenVal``.

    Example:
        >>> shi_tomasi_response(torch.arange(9.0).expand(1, 1, 9, 9))[0, 0, 4, 4].item()  # a ramp has no corner
        0.0
    """
    xx, xy, yy = structure_tensor(image, derivative_sigma=derivative_sigma, sigma=sigma, block_size=block_size)
    return (xx + yy - safe_sqrt((xx - yy).square() + 4 * xy.square())) / 2


def hessian_response(image: Float[Tensor, "b 1 h w"], *, sigma: float = 2.0) -> Float[Tensor, "b 1 h w"]:
    """Return the determinant of the Hessian, times sigma^4 so that scales compare: high on blobs, negative on saddles.

    Args:
        image: grey.
        sigma: standard deviation of the Gaussian under the derivatives, in pixels.

    Returns:
        Of the image's size.

    Gradient:
        image: exact, to any order.
    Errors:
        As :func:`structure_tensor`.
    Source:
        Second derivatives of ``scipy.ndimage.gaussian_filter``.

    Example:
        >>> place = torch.arange(-10.0, 11)
        >>> blob = torch.exp(-(place[:, None] ** 2 + place**2) / 8)[None, None]
        >>> divmod(hessian_response(blob).argmax().item(), 21)
        (10, 10)
    """
    check_grey("image", image)
    xx, xy, yy = gaussian_derivatives(image, sigma, [(0, 2), (1, 1), (2, 0)])[:, 0].split(1, dim=1)
    return sigma**4 * (xx * yy - xy * xy)


def dog_response(
    image: Float[Tensor, "b 1 h w"], *, sigma: float = 1.6, ratio: float = 1.26, signed: bool = False
) -> Float[Tensor, "b 1 h w"]:
    """Return the difference of two Gaussian blurs, of standard deviations ``ratio * sigma`` and ``sigma``.

    Args:
        image: grey.
        sigma: the narrower blur, in pixels.
        ratio: the wider blur over the narrower one; 2^(1/3) is three steps per octave.
        signed: keep the sign (positive on dark blobs). By default bright and dark blobs are both high.

    Returns:
        Of the image's size.

    Gradient:
        image: exact with ``signed``, otherwise almost everywhere (a kink where the difference is 0).
    Errors:
        As :func:`structure_tensor`; InvalidArgument for a ratio that is not above 1.
    Source:
        ``skimage.filters.difference_of_gaussians``.

    Example:
        >>> dog_response(torch.ones(1, 1, 9, 9)).abs().max().item() < 1e-6
        True
    """
    check_grey("image", image)
    check_sigma("sigma", sigma)
    if not ratio > 1:
        raise invalid("ratio", expected="above 1", got=ratio)
    wide, narrow = (gaussian_derivatives(image, s, [(0, 0)])[:, :, 0] for s in (ratio * sigma, sigma))
    difference = wide - narrow
    return difference if signed else difference.abs()
