"""Plates, cells, holes, zooms, bars and shifted channels as functions: by others' formulas, and as the transforms do."""

import cv2
import numpy as np
import pytest
import torch
from scipy.interpolate import RBFInterpolator
from scipy.ndimage import map_coordinates

import pellucid as P
from pellucid import Pipeline
from pellucid import functional as PF
from pellucid.errors import InvalidArgument
from tests.refusals import refused

HEIGHT, WIDTH = 30, 43


def noise(*shape, seed=2):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def picture():
    return noise(3, HEIGHT, WIDTH)


def read(image, y, x):
    return np.stack([map_coordinates(part, [y, x], order=1, mode="nearest") for part in image.numpy()])


def test_a_plate_bends_as_scipys():
    moved = 4.0 * noise(2, 3, 3, seed=5) - 2.0
    y, x = np.mgrid[:HEIGHT, :WIDTH].astype(float)
    across, down = (WIDTH - 1) / 2, (HEIGHT - 1) / 2
    knots = np.stack(np.meshgrid(np.arange(3.0), np.arange(3.0), indexing="xy"), -1).reshape(-1, 2)
    plate = RBFInterpolator(knots, moved.flatten(1).T.numpy(), kernel="thin_plate_spline", degree=1)
    dx, dy = plate(np.stack((x / across, y / down), -1).reshape(-1, 2)).T.reshape(2, HEIGHT, WIDTH)
    found = PF.thin_plate_spline(picture(), moved, border_mode="replicate")
    np.testing.assert_allclose(found.numpy(), read(picture(), y + dy, x + dx), rtol=0, atol=1e-10)


@pytest.mark.parametrize("batched", [False, True])
def test_cells_are_stretched_as_by_interp(batched):
    rows, columns = noise(4, seed=6) + 0.5, noise(5, seed=7) + 0.5
    places = []
    for lengths, size in ((rows, HEIGHT), (columns, WIDTH)):
        ends = np.concatenate(([0.0], np.cumsum(lengths.numpy()))) / lengths.sum().item() * (size - 1)
        places.append(np.interp(np.arange(size), np.linspace(0.0, size - 1, len(lengths) + 1), ends))
    expected = read(picture(), *np.meshgrid(*places, indexing="ij"))
    found = PF.grid_distortion(picture(), rows[None] if batched else rows, columns)
    assert found.dim() == 3 + batched
    np.testing.assert_allclose((found[0] if batched else found).numpy(), expected, rtol=0, atol=1e-12)


def test_zooms_are_averaged():
    y, x = np.mgrid[:HEIGHT, :WIDTH].astype(float)
    middle = (HEIGHT - 1) / 2, (WIDTH - 1) / 2
    zooms = np.linspace(1.0, 1.6, 5)
    parts = [read(picture(), middle[0] + (y - middle[0]) / zoom, middle[1] + (x - middle[1]) / zoom) for zoom in zooms]
    np.testing.assert_allclose(PF.zoom_blur(picture(), 1.6, zooms=5).numpy(), np.mean(parts, 0), rtol=0, atol=1e-12)


@pytest.mark.parametrize("size", [(20, 50), (61, 40), 33])
def test_bars_around_what_fits(size):
    image = (255 * picture()).to(torch.uint8)
    height, width = (size, size) if isinstance(size, int) else size
    zoom = min(height / HEIGHT, width / WIDTH)
    inner = PF.resize(image, (round(HEIGHT * zoom), round(WIDTH * zoom)))
    top, left = (height - inner.shape[1]) // 2, (width - inner.shape[2]) // 2
    around = top, height - inner.shape[1] - top, left, width - inner.shape[2] - left
    expected = cv2.copyMakeBorder(inner.movedim(0, -1).numpy(), *around, cv2.BORDER_CONSTANT, value=(9, 8, 7))
    found = PF.letterbox(image, size, fill=(9, 8, 7))
    np.testing.assert_array_equal(found.movedim(0, -1).numpy(), expected)
    whole = PF.letterbox(image[None], size, interpolation="nearest")
    assert torch.equal(whole, Pipeline([P.Letterbox(size, interpolation="nearest")])(image[None]))


@pytest.mark.parametrize(
    "mode", [("constant", cv2.BORDER_CONSTANT), ("border", cv2.BORDER_REPLICATE), ("reflection", cv2.BORDER_REFLECT)]
)
@pytest.mark.parametrize("size", [(35, 43), (20, 60), (41, 48)])
def test_padding_where_needed(size, mode):
    image = (255 * picture()).to(torch.uint8)
    more = [max(0, wanted - length) for wanted, length in zip(size, (HEIGHT, WIDTH), strict=True)]
    around = more[0] // 2, more[0] - more[0] // 2, more[1] // 2, more[1] - more[1] // 2
    expected = cv2.copyMakeBorder(image.movedim(0, -1).numpy(), *around, mode[1], value=(3, 3, 3))
    found = PF.pad_if_needed(image, size, fill=3, padding_mode=mode[0])
    np.testing.assert_array_equal(found.movedim(0, -1).numpy(), expected)


@pytest.mark.parametrize(("size", "expected"), [(20, (14, 20)), ((20, 60), (20, 29)), (86, (60, 86))])
def test_the_longer_side(size, expected):
    image = picture().float()
    found = PF.longest_max_size(image, size)
    assert tuple(found.shape[1:]) == expected
    assert torch.allclose(found, Pipeline([P.LongestMaxSize(size)])(image[None])[0], rtol=0, atol=1e-6)


def test_channels_are_shifted_and_dropped():
    image = picture().numpy()
    shift = np.array([0.3, 0.0, -0.4])[:, None, None]
    np.testing.assert_allclose(PF.rgb_shift(picture(), red=0.3, blue=-0.4).numpy(), np.clip(image + shift, 0.0, 1.0), atol=1e-15)
    np.testing.assert_allclose(
        PF.rgb_shift(picture(), red=0.3, green=0.0, blue=-0.4, clip=False).numpy(), image + shift, atol=1e-15
    )
    expected = image.copy()
    expected[[0, 2]] = np.array([0.1, 0.3])[:, None, None]
    np.testing.assert_array_equal(PF.channel_dropout(picture(), [2, 0], fill=(0.1, 0.2, 0.3)).numpy(), expected)
    assert torch.equal(PF.channel_dropout(picture(), []), picture())
    for wrong in ([3], [-1], [0.5], [True], 1):
        refused(InvalidArgument, "channels: expected", PF.channel_dropout, picture(), wrong)


def test_holes_of_whole_pixels_are_assignments():
    image = picture()[:, :20, :40]
    expected = image.clone()
    for top, left in ((0, 0), (15, 12), (5, 36)):
        expected[:, top : top + 5, left : left + 4] = 0.25
    x, y = (torch.tensor(numbers, dtype=torch.float64) for numbers in ([0, 12 / 36, 1], [0, 1, 5 / 15]))
    assert torch.allclose(PF.coarse_dropout(image, x, y, height=0.25, width=0.1, fill=0.25), expected, atol=1e-12)
    cut = image.clone()
    cut[:, :5, 18:22] = 0.0  # two fifths of the hole lie above the picture
    centre = torch.tensor([0.5], dtype=torch.float64)
    found = PF.coarse_dropout(image, centre, torch.tensor([0.0], dtype=torch.float64), height=0.5, width=0.1, inside=False)
    assert torch.allclose(found, cut, atol=1e-12)
    both = PF.coarse_dropout(
        image, torch.stack((x, x)), torch.stack((y, y)), height=torch.tensor([0.25, 0.0]), width=0.1, fill=0.25
    )
    assert torch.allclose(both[0], expected, atol=1e-7)
    assert torch.equal(both[1], image)


def test_a_grid_of_holes_is_an_assignment():
    image = picture()[:, :24, :36]
    expected = image.clone()
    for top in range(2, 24, 8):
        for left in range(3, 36, 12):
            expected[:, top : top + 4, left : left + 6] = 0.5
    assert torch.allclose(PF.grid_dropout(image, 3.0, 0.5, x=0.25, y=0.25, fill=0.5), expected, atol=1e-7)
    several = PF.grid_dropout(image, torch.tensor([3.0, 3.0], dtype=torch.float64), 0.5, x=0.25, y=0.25, fill=0.5)
    assert torch.allclose(several, expected.expand(2, -1, -1, -1), atol=1e-7)


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        (lambda x: PF.thin_plate_spline(x, torch.zeros(2, 3, 4)), "displacement"),
        (lambda x: PF.thin_plate_spline(x, torch.zeros(2, 9, 9)), "displacement"),
        (lambda x: PF.grid_distortion(x, [1.0], [1.0, 2.0]), "rows"),
        (lambda x: PF.grid_distortion(x, [1.0, 2.0], [1.0, 0.0]), "columns"),
        (lambda x: PF.grid_distortion(x, torch.ones(2, 3), torch.ones(3, 3)), "rows, columns"),
        (lambda x: PF.zoom_blur(x, 0.5), "factor"),
        (lambda x: PF.zoom_blur(x, 1.5, zooms=1), "zooms"),
        (lambda x: PF.coarse_dropout(x, [0.1], [0.1, 0.2]), "x, y"),
        (lambda x: PF.coarse_dropout(x, [0.1], [0.1], height=1.5), "height"),
        (lambda x: PF.coarse_dropout(x, torch.rand(2, 3), torch.rand(2, 3), height=torch.rand(3)), "x|height"),
        (lambda x: PF.grid_dropout(x, 0.5), "cells"),
        (lambda x: PF.letterbox(x, 0), "size"),
        (lambda x: PF.pad_if_needed(x, (0, 4)), "size"),
        (lambda x: PF.longest_max_size(x, -1), "size"),
    ],
)
def test_what_does_not_fit_is_named(wrong, name):
    refused(InvalidArgument, f"({name}).*: expected", wrong, picture())
