"""Every corruption against its formula in numpy, scipy, OpenCV and Pillow, given the same draws, at square and other sizes.

The formulas are written here from what the paper's code computes: those libraries' functions, and loops over pixels.
"""

import io
import math

import numpy as np
import pytest
import torch
from scipy import ndimage, stats

from pellucid import Key
from pellucid.corruptions import NAMES, corrupt
from pellucid.corruptions.draws import Draws
from pellucid.corruptions.table import TABLE
from tests.peers import opencv

SIZES = ((24, 24), (21, 34))
every = pytest.mark.parametrize("severity", [1, *(pytest.param(k, marks=pytest.mark.slow) for k in (2, 3, 4)), 5])
sizes = pytest.mark.parametrize("size", SIZES, ids=str)


def pictures(size, seed=0):
    return torch.rand(2, 3, *size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def drawn(name, severity, x):
    one = TABLE[name]
    index = torch.arange(x.shape[0])
    draws = Draws(9, 2, index, tuple(x.shape[-2:]), torch.float64, 256 * NAMES.index(name))
    return one.constants[severity - 1], one.draw(draws, one.constants[severity - 1])


def run(name, severity, x, **options):
    return corrupt(x, name, severity, key=Key(9, 2), **options)


def hwc(picture):
    return np.ascontiguousarray(picture.permute(1, 2, 0).numpy())


def same(found, wanted, atol=1e-12):
    for b, one in enumerate(wanted):
        np.testing.assert_allclose(hwc(found[b]), one, atol=atol)


@every
def test_noise_has_the_laws_of_scipy(severity):
    x = torch.linspace(0.1, 0.9, 5, dtype=torch.float64)[None, :, None, None].expand(1, 5, 64, 64)
    c = TABLE["gaussian_noise"].constants[severity - 1]
    noise = (run("gaussian_noise", severity, x) - x)[0]
    inner = noise[2][(noise[2] + x[0, 2] > 0) & (noise[2] + x[0, 2] < 1)].numpy()
    law = stats.truncnorm(-0.5 / c, 0.5 / c, scale=c)
    assert stats.kstest(inner, law.cdf).pvalue > 1e-4
    photons = TABLE["shot_noise"].constants[severity - 1]
    counts = (run("shot_noise", severity, x) * photons)[0].numpy()
    np.testing.assert_allclose(counts, np.minimum(np.round(counts), photons), atol=1e-6)
    for level, found in zip(x[0, :, 0, 0].tolist(), counts, strict=True):
        k = np.arange(math.ceil(photons))
        wanted = stats.poisson.cdf(k, level * photons)
        assert np.abs((found.reshape(-1)[:, None] <= k + 0.5).mean(0) - wanted).max() < 4.5 * 0.5 / 64
    share = TABLE["impulse_noise"].constants[severity - 1]
    salted = run("impulse_noise", severity, x)
    for value in (0.0, 1.0):
        assert abs(float((salted == value).double().mean()) - share / 2) < 4.5 * math.sqrt(share / 2 / salted.numel())
    assert torch.equal(salted[(salted > 0) & (salted < 1)], x[(salted > 0) & (salted < 1)])


@every
@sizes
def test_defocus(severity, size):
    cv2, x = opencv(), pictures(size)
    radius, blur = TABLE["defocus_blur"].constants[severity - 1]
    reach = np.arange(-max(8, radius), max(8, radius) + 1)
    disk = np.array([[float(a * a + b * b <= radius * radius) for a in reach] for b in reach])
    kernel = cv2.GaussianBlur(disk / disk.sum(), (3, 3) if radius <= 8 else (5, 5), sigmaX=blur)
    same(run("defocus_blur", severity, x), [np.clip(cv2.filter2D(hwc(p), -1, kernel), 0, 1) for p in x], 1e-10)


@every
@sizes
def test_glass(severity, size):
    x = pictures(size)
    (sigma, reach, turns), values = drawn("glass_blur", severity, x)
    wanted = []
    for b, picture in enumerate(x):
        soft = np.floor(ndimage.gaussian_filter(hwc(picture), (sigma, sigma, 0), mode="nearest") * 255)
        for turn in range(turns):
            moves = values["moves"][turn][b].numpy()
            for row in range(size[0] - reach, reach, -1):
                for column in range(size[1] - reach, reach, -1):
                    across, down = moves[:, row, column]
                    assert -reach <= across < reach
                    soft[row, column] = soft[row + down, column + across]
        wanted.append(np.clip(ndimage.gaussian_filter(soft / 255, (sigma, sigma, 0), mode="nearest"), 0, 1))
    same(run("glass_blur", severity, x), wanted)


def line_blur(picture, radius, sigma, degrees):
    """Weights of half a Gaussian, each pixel read a whole number of rows and columns away, edges repeated (scipy shifts)."""
    weights = stats.norm.pdf(np.arange(2 * radius + 1), scale=sigma)
    total = np.zeros_like(picture)
    for step, weight in enumerate(weights / weights.sum()):
        column, row = (math.ceil(step * turn(math.radians(degrees)) - 0.5) for turn in (math.cos, math.sin))
        shift = (-row, -column, 0)[: picture.ndim]
        total += weight * ndimage.shift(picture, shift, order=0, mode="nearest")
    return total


@every
@sizes
def test_motion(severity, size):
    x = pictures(size)
    c, values = drawn("motion_blur", severity, x)
    degrees = values["degrees"].tolist()
    assert all(-45 < angle < 45 for angle in degrees)
    same(run("motion_blur", severity, x), [line_blur(hwc(p), *c, a) for p, a in zip(x, degrees, strict=True)])


def clipped_zoom(picture, zoom):
    parts = [math.ceil(length / zoom) for length in picture.shape[:2]]
    first = [(length - part) // 2 for length, part in zip(picture.shape, parts, strict=False)]
    middle = picture[first[0] : first[0] + parts[0], first[1] : first[1] + parts[1]]
    large = ndimage.zoom(middle, (zoom, zoom, 1)[: picture.ndim], order=1)
    cut = [(grown - length) // 2 for grown, length in zip(large.shape, picture.shape, strict=False)]
    return large[cut[0] : cut[0] + picture.shape[0], cut[1] : cut[1] + picture.shape[1]]


@every
@sizes
def test_zoom(severity, size):
    x = pictures(size)
    end, step = TABLE["zoom_blur"].constants[severity - 1]
    zooms = np.arange(1, end, step)
    wanted = [(hwc(p) + sum(clipped_zoom(hwc(p), zoom) for zoom in zooms)) / (len(zooms) + 1) for p in x]
    same(run("zoom_blur", severity, x), [np.clip(p, 0, 1) for p in wanted])


@every
@sizes
def test_snow(severity, size):
    cv2, x = opencv(), pictures(size)
    c, values = drawn("snow", severity, x)
    wanted = []
    for b, picture in enumerate(x):
        layer = clipped_zoom(c[0] + c[1] * values["normal"][b].numpy(), c[2])
        layer[layer < c[3]] = 0
        layer = (np.clip(layer, 0, 1) * 255).astype(np.uint8) / 255.0
        layer = np.round(line_blur(layer, c[4], c[5], float(values["degrees"][b])) * 255) / 255.0
        plain = hwc(picture)
        gray = cv2.cvtColor(plain.astype(np.float32), cv2.COLOR_RGB2GRAY)[..., None] * 1.5 + 0.5
        pale = c[6] * plain + (1 - c[6]) * np.maximum(plain, gray)
        wanted.append(np.clip(pale + layer[..., None] + np.rot90(layer, 2)[..., None], 0, 1))
    same(run("snow", severity, x), wanted, 1e-6)


@every
@sizes
def test_frost(severity, size, tmp_path):
    from PIL import Image

    x, rows = pictures(size), np.random.default_rng(0).integers(0, 256, (7, 40, 50, 3), dtype=np.uint8)
    for i, picture in enumerate(rows):
        Image.fromarray(picture).save(tmp_path / f"frost{i}.png")
    (tmp_path / "about.txt").write_text("no picture")
    c, values = drawn("frost", severity, x)
    wanted = []
    for b, picture in enumerate(x):
        which, top, left = (float(values[name][b]) for name in ("picture", "top", "left"))
        row, column = int(top * (40 - size[0])), int(left * (50 - size[1]))
        part = rows[int(5 * which), row : row + size[0], column : column + size[1]] / 255.0
        wanted.append(np.clip(c[0] * hwc(picture) + c[1] * part, 0, 1))
    same(run("frost", severity, x, frost=tmp_path), wanted, 1e-6)
    given = [torch.from_numpy(one).movedim(-1, 0).double() / 255 for one in rows]
    same(run("frost", severity, x, frost=given), wanted)


@every
@sizes
def test_fog(severity, size):
    x = pictures(size)
    strength, decay = TABLE["fog"].constants[severity - 1]
    side = 2 ** math.ceil(math.log2(max(size)))
    stream = Draws(9, 2, torch.arange(2), size, torch.float64, 256 * NAMES.index("fog"))
    fields = [stream.square(1)]
    count = 1
    while count < side:
        fields += [stream.square(count) for _ in range(3)]
        count *= 2
    wanted = []
    for b, picture in enumerate(x):
        grid, step, wibble, number = np.zeros((side, side)), side, 100.0, 1
        while step >= 2:
            half = step // 2

            def put(rows, columns, four, *, b=b, grid=grid, wibble=wibble):
                nonlocal number
                noise = fields[number][b].numpy() * 2 - 1
                number += 1
                for i, row in enumerate(rows):
                    for j, column in enumerate(columns):
                        corners = [grid[(row + r) % side, (column + q) % side] for r, q in four]
                        grid[row, column] = sum(corners) / 4 + wibble * wibble * noise[i, j]

            corners, middles = range(0, side, step), range(half, side, step)
            put(middles, middles, [(-half, -half), (-half, half), (half, -half), (half, half)])
            cross = [(-half, 0), (half, 0), (0, -half), (0, half)]
            put(corners, middles, cross)
            put(middles, corners, cross)
            step, wibble = half, wibble / decay
        cloud = (grid - grid.min()) / (grid.max() - grid.min())
        most = float(picture.max())
        foggy = hwc(picture) + strength * cloud[: size[0], : size[1], None]
        wanted.append(np.clip(foggy * most / (most + strength), 0, 1))
    same(run("fog", severity, x), wanted, 1e-10)


@every
def test_brightness_and_contrast(severity):
    color = pytest.importorskip("matplotlib.colors")
    x = pictures((9, 11))
    wanted = []
    for picture in x:
        hsv = color.rgb_to_hsv(hwc(picture))
        hsv[..., 2] = np.clip(hsv[..., 2] + TABLE["brightness"].constants[severity - 1], 0, 1)
        wanted.append(color.hsv_to_rgb(hsv))
    same(run("brightness", severity, x), wanted)
    c = TABLE["contrast"].constants[severity - 1]
    means = [hwc(p).mean((0, 1), keepdims=True) for p in x]
    same(run("contrast", severity, x), [np.clip((hwc(p) - m) * c + m, 0, 1) for p, m in zip(x, means, strict=True)])


@every
@sizes
def test_elastic(severity, size):
    cv2, x = opencv(), pictures(size)
    (alpha, sigma, corner), values = drawn("elastic_transform", severity, x)
    middle, reach = np.array(size, dtype=np.float32) // 2, min(size) // 3
    start = np.float32([middle + reach, [middle[0] + reach, middle[1] - reach], middle - reach])
    stream = Draws(9, 2, torch.arange(2), size, torch.float64, 256 * NAMES.index("elastic_transform"))
    moves = stream.numbers(6).numpy().reshape(2, 3, 2) * 2 - 1
    fields = [stream.uniform(1)[:, 0].numpy() * 2 - 1 for _ in range(2)]
    wanted = []
    for b, picture in enumerate(x):
        matrix = cv2.getAffineTransform(start, (start + corner * moves[b]).astype(np.float32))
        np.testing.assert_allclose(values["dst_from_src"][b], matrix, atol=2e-4)
        inverse = np.linalg.inv(np.vstack((values["dst_from_src"][b].numpy(), [0, 0, 1])))
        rows, columns = np.mgrid[: size[0], : size[1]].astype(float)
        back = [inverse[i, 0] * columns + inverse[i, 1] * rows + inverse[i, 2] for i in (1, 0)]
        shift = [ndimage.gaussian_filter(field[b], sigma, mode="reflect", truncate=3.0) * alpha for field in fields]
        layers = []
        for channel in picture.numpy():
            warped = ndimage.map_coordinates(channel, back, order=1, mode="mirror")  # OpenCV's reflect_101, unrounded
            layers.append(ndimage.map_coordinates(warped, (rows + shift[1], columns + shift[0]), order=1, mode="reflect"))
        wanted.append(np.clip(np.stack(layers, -1), 0, 1))
    same(run("elastic_transform", severity, x), wanted, 1e-9)


@every
@sizes
def test_pixelate_is_pillows(severity, size):
    from PIL import Image

    x, c = pictures(size), TABLE["pixelate"].constants[severity - 1]
    found = run("pixelate", severity, x)
    for b, picture in enumerate(x):
        for k, channel in enumerate(picture):
            small = Image.fromarray(channel.numpy().astype(np.float32)).resize(
                [int(n * c) for n in size[::-1]], Image.Resampling.BOX
            )
            large = np.asarray(small.resize(size[::-1], Image.Resampling.BOX))
            np.testing.assert_allclose(found[b, k].numpy(), large, atol=1e-6)


@every
@sizes
def test_jpeg_is_pillows(severity, size):
    from PIL import Image

    x = (pictures(size) * 255).to(torch.uint8)
    found = run("jpeg_compression", severity, x)
    for b, picture in enumerate(x):
        file = io.BytesIO()
        Image.fromarray(np.ascontiguousarray(picture.permute(1, 2, 0).numpy())).save(
            file, "JPEG", quality=TABLE["jpeg_compression"].constants[severity - 1]
        )
        assert np.array_equal(np.asarray(Image.open(file)), found[b].permute(1, 2, 0).numpy())
