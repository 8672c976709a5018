"""Seen, reachable by the footprint, reachable with antialiasing: counted by hand, sample by sample."""

import itertools
import math
from functools import partial

import pytest
import torch
import torch.nn.functional as F

import pellucid
from pellucid.audit import audit
from pellucid.functional import remap, warp, warp_affine, warp_perspective

FLAGS = {"quick": True, "modes": False, "degenerate": False, "isolate": False}


def figures(fn, inputs, leaf):
    """(seen, reachable, antialiased) of an audit, which the JSON repeats."""
    report = audit(fn, inputs, **FLAGS)
    measure = report.measures[leaf]
    data = report.to_dict()["measures"][leaf]
    assert (data["seen"], data["reachable"], data["antialiased"]) == (measure.seen, measure.reachable, measure.antialiased)
    assert measure.seen == round(measure.coverage * math.prod(measure.shape))
    return measure.seen, measure.reachable, measure.antialiased


def counted(matrix, size, of, half=1.0, closed=True):
    """Pixels at most ``half`` from a sample along both axes; at that distance they count where ``closed``."""
    pixels = set()
    for v, u in itertools.product(*map(range, size)):
        x, y, w = (row[0] * u + row[1] * v + row[2] for row in matrix)
        x, y = x / w, y / w
        for j, i in itertools.product(*map(range, of)):
            away = max(abs(x - i), abs(y - j))
            if away < half or (closed and away == half):
                pixels.add((j, i))
    return len(pixels)


SHIFT = [[1.0, 0.0, 5.0], [0.0, 1.0, -3.0], [0.0, 0.0, 1.0]]
ZOOM = [[4.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 0.0, 1.0]]
HALF = [[1.0, 0.0, 0.5], [0.0, 1.0, 7.0], [0.0, 0.0, 1.0]]
TURN = [[0.0, -1.0, 12.0], [1.0, 0.0, 2.0], [0.0, 0.0, 1.0]]


@pytest.mark.parametrize(("matrix", "size"), [(SHIFT, (16, 16)), (ZOOM, (4, 4)), (HALF, (16, 16)), (TURN, (10, 9))])
def test_figures_of_a_warp_are_what_a_loop_counts(matrix, size):
    seen, reachable, wide = figures(partial(warp, src_from_dst=matrix, size=size), torch.rand(1, 2, 16, 16), "image")
    assert (seen, reachable) == (2 * counted(matrix, size, (16, 16), closed=False), 2 * counted(matrix, size, (16, 16)))
    assert wide == (512 if matrix is ZOOM else seen)


def test_the_widest_kernel_reaches_two_pixels():
    seen, reachable, _ = figures(
        partial(warp, src_from_dst=SHIFT, size=(16, 16), interpolation="bicubic"), torch.rand(1, 1, 16, 16), "image"
    )
    assert seen == 11 * 13
    assert reachable == counted(SHIFT, (16, 16), (16, 16), half=2.0)


def test_a_whole_shift_sees_7128_of_12288_and_reaches_7425():
    """44 x 54 of 64 x 64 pixels in three channels have a gradient, 45 x 55 lie in the footprint; zooming out by 4 leaves 768."""
    picture = torch.rand(1, 3, 64, 64)
    shifted = partial(warp_affine, M=[[1.0, 0.0, 20.0], [0.0, 1.0, 10.0]], dsize=(64, 64))
    assert figures(shifted, picture, "image") == (7128, 7425, 7128)
    assert figures(partial(warp, src_from_dst=ZOOM, size=(16, 16)), picture, "image") == (768, 3 * 47 * 47, 12288)


def test_other_warps_say_the_same():
    picture = torch.rand(1, 1, 16, 16)
    wanted = figures(partial(warp, src_from_dst=SHIFT, size=(16, 16)), picture, "image")
    y, x = torch.meshgrid(torch.arange(16.0) - 3.0, torch.arange(16.0) + 5.0, indexing="ij")
    inverse = [[1.0, 0.0, -5.0], [0.0, 1.0, 3.0], [0.0, 0.0, 1.0]]
    for fn in (
        partial(remap, map_x=x, map_y=y),
        partial(warp_perspective, M=inverse, dsize=(16, 16)),
        partial(warp_affine, M=inverse, dsize=(16, 16)),
        partial(warp_affine, M=SHIFT[:2], dsize=(16, 16), inverse_map=True),
    ):
        assert figures(fn, picture, "image") == wanted
    grid = torch.stack(((2 * x + 1) / 16 - 1, (2 * y + 1) / 16 - 1), -1)[None].double()
    theirs = partial(F.grid_sample, grid=grid, align_corners=False)
    assert figures(theirs, picture.double(), "input") == (*wanted[:2], None)  # it knows no antialiasing


@pytest.mark.parametrize(
    ("transforms", "wanted"),
    [
        ([pellucid.RandomTranslate(((0.25, 0.25), (0.0, 0.0)))], (12 * 16, 13 * 16, None)),
        ([pellucid.RandomHorizontalFlip(1.0), pellucid.RandomTranslate(((0.25, 0.25), (0.0, 0.0)))], (12 * 16, 13 * 16, None)),
        ([pellucid.CenterCrop(8), pellucid.Resize(16)], (64, 64, 64)),  # a resize does not leave the crop
        ([pellucid.RandomAffine(0, scale=(0.25, 0.25))], (64, 64, 256)),
        ([pellucid.Resize(4, antialias=False)], (64, 64, 256)),
    ],
)
def test_figures_of_pipelines(transforms, wanted):
    assert figures(pellucid.Pipeline(transforms), torch.rand(1, 1, 16, 16), "batch") == wanted


def test_what_is_not_known_is_not_said():
    picture = torch.rand(1, 1, 8, 8)
    assert figures(lambda image: warp(image, SHIFT, size=(8, 8)), picture, "image")[1:] == (None, None)
    branch = pellucid.Pipeline([pellucid.OneOf([pellucid.RandomHorizontalFlip(1.0), pellucid.RandomRotation(20)])])
    assert figures(branch, picture, "batch")[1:] == (None, None)


def test_reports_show_the_figures():
    report = audit(partial(warp, src_from_dst=ZOOM, size=(2, 2)), torch.rand(1, 1, 8, 8), **FLAGS)
    html = report.to_html()
    assert "reachable" in html
    assert '<td class="number">25 (39.1 %)</td>' in html
    console = pytest.importorskip("rich.console").Console(width=200, record=True)
    from pellucid.audit.terminal import show

    show(report, console)
    text = console.export_text()
    assert "antialiased" in text
    assert "39 %" in text
