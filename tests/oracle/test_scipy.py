"""SciPy in float64: the same interpolation to 1e-12 under every border rule.

Coordinates are random, so none lies on a nearest tie or a pixel centre. The tolerance is 1e-12: values are of order 1 and each is a
sum of four products, so double precision leaves some 1e-15; the rest is room for coordinates computed in another order.
"""

import numpy as np
import pytest
import torch

from pellucid import functional as PF
from tests.peers import ndimage

MODES = {"constant": "grid-constant", "border": "nearest", "reflection": "reflect", "reflect_101": "mirror", "wrap": "grid-wrap"}
BORDER_MODE = {"constant": "constant", "border": "replicate", "reflection": "reflect", "reflect_101": "reflect_101", "wrap": "wrap"}
ORDERS = {"nearest": 0, "bilinear": 1}


def _reference(image: torch.Tensor, x: np.ndarray, y: np.ndarray, order: int, mode: str, fill: float) -> torch.Tensor:
    planes = [ndimage().map_coordinates(plane.numpy(), [y, x], order=order, mode=mode, cval=fill) for plane in image]
    return torch.from_numpy(np.stack(planes))


def _coordinates(matrix: np.ndarray, size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    v, u = np.mgrid[: size[0], : size[1]].astype(np.float64)
    x, y, w = np.einsum("ij,jhw->ihw", matrix, np.stack([u, v, np.ones_like(u)]))
    return x / w, y / w


@pytest.mark.parametrize("interpolation", ORDERS)
@pytest.mark.parametrize("padding_mode", MODES)
def test_remap(padding_mode, interpolation):
    image = torch.rand(2, 13, 17, dtype=torch.float64)
    generator = np.random.default_rng(0)
    # Up to three image lengths outside: the border rules must hold there, too.
    x, y = generator.uniform(-45, 60, (40, 41)), generator.uniform(-35, 50, (40, 41))
    ours = PF.remap(image, x, y, interpolation=interpolation, border_mode=BORDER_MODE[padding_mode], border_value=0.3)
    wanted = _reference(image, x, y, ORDERS[interpolation], MODES[padding_mode], 0.3)
    assert (ours - wanted).abs().max() < 1e-12


@pytest.mark.parametrize("interpolation", ORDERS)
@pytest.mark.parametrize("padding_mode", MODES)
@pytest.mark.parametrize("projective", [False, True])
def test_warp(padding_mode, interpolation, projective):
    image = torch.rand(2, 13, 17, dtype=torch.float64)
    matrix = np.array([[1.13, 0.41, -4.17], [-0.37, 0.92, 3.71], [0.011, -0.007, 1.0]])
    matrix[:2] += np.array([[0.1234567, 0.2345678, 0.3456789]]) / 97  # no coordinate may fall on a tie of nearest
    matrix[2] = matrix[2] if projective else [0.0, 0.0, 1.0]
    size = (19, 23)
    ours = PF.warp(image, matrix, size=size, interpolation=interpolation, padding_mode=padding_mode, fill=0.3)
    wanted = _reference(image, *_coordinates(matrix, size), ORDERS[interpolation], MODES[padding_mode], 0.3)
    assert (ours - wanted).abs().max() < 1e-12


@pytest.mark.parametrize("padding_mode", MODES)
def test_integer_labels_with_nearest(padding_mode):
    labels = torch.randint(-5, 2**40, (1, 13, 17))
    generator = np.random.default_rng(0)
    x, y = generator.uniform(-45, 60, (40, 41)), generator.uniform(-35, 50, (40, 41))
    ours = PF.remap(labels, x, y, interpolation="nearest", border_mode=BORDER_MODE[padding_mode], border_value=-7)
    # Compared through indices: SciPy would carry the labels in double precision.
    places = torch.arange(13 * 17, dtype=torch.float64).reshape(1, 13, 17)
    x, y = x.astype(np.float32), y.astype(np.float32)
    index = _reference(places, x, y, 0, MODES[padding_mode], -1).long()
    wanted = torch.where(index < 0, -7, labels.flatten()[index.clamp(min=0)])
    assert ours.dtype == torch.int64
    assert torch.equal(ours, wanted)
