"""Patches by SciPy in float64: the same pyramid on an image extended by hand, and a true Gaussian."""

import numpy as np
from scipy import ndimage


def sample_positions(frame, size):
    """Rows and columns of the image that a patch's cells show."""
    v, u = ((2.0 * np.arange(n) + 1.0) / n - 1.0 for n in size)
    u, v = np.meshgrid(u, v)
    x = frame[0, 0] * u + frame[0, 1] * v + frame[0, 2]
    y = frame[1, 0] * u + frame[1, 1] * v + frame[1, 2]
    return np.stack((y, x))


def scipy_level(image, level, reach):
    """Level ``level`` of a picture that repeats its border; returns it and the pixel of the image its first pixel lies on."""
    margin = reach * 2**level
    current = np.pad(image, margin, mode="edge")
    for _ in range(level):
        for axis in (0, 1):
            current = ndimage.correlate1d(current, np.array([1, 4, 6, 4, 1]) / 16, axis=axis, mode="nearest")
        current = current[::2, ::2]
    return current, -margin


def scipy_patch(image, frame, size, span, reach=8):
    """Two levels, each read by ``map_coordinates``, mixed by the S-curve of the wanted variance."""
    level = 0
    while span >= 4.0 ** (level + 1):
        level += 1
    t = (span / 4.0**level - 1.0) / 3.0
    values = []
    for which in (level, level + 1):
        picture, origin = scipy_level(image, which, reach)
        values.append(
            ndimage.map_coordinates(picture, (sample_positions(frame, size) - origin) / 2**which, order=1, mode="nearest")
        )
    weight = t * t * (3 - 2 * t)
    return values[0] + weight * (values[1] - values[0])


def gaussian_patch(image, frame, size, sigma):
    """What a perfect prefilter of that width would give: a Gaussian, then a cubic spline."""
    blurred = ndimage.gaussian_filter(image, sigma, mode="nearest", truncate=6.0) if sigma > 0 else image
    return ndimage.map_coordinates(blurred, sample_positions(frame, size), order=3, mode="nearest")
