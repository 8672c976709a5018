"""Masks, areas and boxes of polygons: against shapely, sampling, and Green's theorem."""

import math

import numpy as np
import pytest
import torch

from pellucid.errors import InvalidArgument, InvalidType
from pellucid.functional import polygon_areas, polygon_boxes, rasterize
from tests.refusals import refused

SIZE = (24, 31)


def star(seed=0, corners=14, size=SIZE):
    """A simple polygon around a point of the picture, with corners outside."""
    random = np.random.default_rng(seed)
    angles = np.sort(random.uniform(0, 2 * math.pi, corners))
    radii = random.uniform(0.2, 0.8, corners) * max(size)
    middle = random.uniform(0.3, 0.7, 2) * size[::-1]
    return torch.from_numpy(middle + radii[:, None] * np.stack((np.cos(angles), np.sin(angles)), 1))


@pytest.mark.parametrize("seed", range(4))
def test_each_pixel_holds_the_area_of_its_intersection(seed):
    shapely = pytest.importorskip("shapely")
    outline = star(seed)
    mask, shape = rasterize(outline, SIZE), shapely.Polygon(outline.numpy())
    assert shape.is_valid
    rows, columns = (part.ravel() for part in np.mgrid[: SIZE[0], : SIZE[1]])
    exact = shapely.area(shapely.intersection(shapely.box(columns, rows, columns + 1, rows + 1), shape))
    assert np.abs(mask.numpy().ravel() - exact).max() < 1e-11


@pytest.mark.parametrize("seed", range(3))
def test_sampling_comes_near(seed):
    path = pytest.importorskip("matplotlib.path")
    outline, many = star(seed), 24
    rows, columns = ((np.arange(n * many) + 0.5) / many for n in SIZE)
    places = np.stack(np.meshgrid(columns, rows), -1).reshape(-1, 2)
    inside = path.Path(outline.numpy()).contains_points(places)
    sampled = inside.reshape(SIZE[0], many, SIZE[1], many).mean((1, 3))
    assert np.abs(rasterize(outline, SIZE).numpy() - sampled).max() < 2.5 / many
    assert rasterize(outline, SIZE).sum().item() == pytest.approx(inside.mean() * SIZE[0] * SIZE[1], rel=2e-3)


def test_the_sum_is_the_area_and_the_boxes_are_around():
    outline = star(3) * 0.3 + 9
    for way in (outline, outline.flip(0)):
        assert rasterize(way, SIZE).sum().item() == pytest.approx(polygon_areas(way).item(), abs=1e-10)
    ends = torch.cat((outline.amin(0), outline.amax(0)))
    assert torch.equal(polygon_boxes(outline), ends)
    torch.testing.assert_close(polygon_boxes([outline], format="xywh")[0, 2:], ends[2:] - ends[:2])


def test_boxes_of_the_least_area():
    turned = torch.tensor([[10.0, 20.0], [50.0, 50.0], [44.0, 58.0], [4.0, 28.0]], dtype=torch.float64)
    box = polygon_boxes(turned, format="cxcywhr")
    expected = torch.tensor([27.0, 39.0, 50.0, 10.0, -math.atan2(3, 4)], dtype=torch.float64)
    torch.testing.assert_close(box, expected)
    assert torch.equal(polygon_boxes([[], turned], format="cxcywhr")[0], torch.zeros(5, dtype=torch.float64))
    free = (star(1, 7) + 0.01).requires_grad_()
    assert torch.autograd.gradcheck(lambda p: polygon_boxes(p, format="cxcywhr"), free, fast_mode=False)
    shapely = pytest.importorskip("shapely")
    for seed in range(20):
        outline = star(seed)
        x, y, width, height, angle = polygon_boxes(outline, format="cxcywhr").tolist()
        assert abs(angle) <= math.pi / 4 + 1e-9
        assert width * height == pytest.approx(shapely.minimum_rotated_rectangle(shapely.Polygon(outline)).area, rel=1e-9)
        around = shapely.affinity.rotate(
            shapely.box(x - width / 2, y - height / 2, x + width / 2, y + height / 2), -math.degrees(angle)
        )
        assert around.buffer(1e-6).covers(shapely.Polygon(outline))


OUTER, HOLE = [1, 1, 9, 1, 9, 8, 1, 8], [3, 3, 6, 3, 6, 6, 3, 6]
APART = [12, 2, 12, 6, 15.5, 6, 15.5, 2]


@pytest.mark.parametrize("turned", [(), (0,), (1,), (2,), (0, 1, 2)])
def test_parts_and_holes_whichever_way_they_run(turned):
    outer, hole, apart = (np.array(ring).reshape(-1, 2)[:: -1 if i in turned else 1] for i, ring in enumerate((OUTER, HOLE, APART)))
    mask = rasterize([[[outer, hole], apart]], (10, 18))[0]
    expected = torch.zeros(10, 18)
    expected[1:8, 1:9], expected[2:6, 12:15], expected[2:6, 15] = 1.0, 1.0, 0.5
    expected[3:6, 3:6] = 0.0
    torch.testing.assert_close(mask.float(), expected)
    assert polygon_areas([[[outer, hole], apart]]).item() == pytest.approx(56 - 9 + 14)
    overlapping = rasterize([[outer, hole]], (10, 18))[0]  # two parts, as in COCO
    assert overlapping[1:8, 1:9].eq(1).all()


def test_every_form_of_a_list_is_the_same():
    flat, pairs = OUTER, np.array(OUTER).reshape(-1, 2)
    expected = rasterize(torch.tensor(pairs, dtype=torch.float32), (10, 12))
    for one in (flat, tuple(flat), pairs.tolist(), pairs, torch.from_numpy(pairs), [flat], [[flat]], [pairs.tolist()]):
        assert torch.equal(rasterize([one], (10, 12))[0], expected)
    two = rasterize([flat, [HOLE, APART], []], (10, 12))
    assert two.shape == (3, 10, 12)
    assert not two[2].any()
    assert rasterize([], (4, 5)).shape == (0, 4, 5)
    assert rasterize(torch.rand(2, 3, 5, 2, dtype=torch.float16), (4, 5)).dtype == torch.float32


def test_gradients_in_slow_mode():
    outline = torch.stack((star(0, 6, (5, 6)), star(1, 6, (5, 6))))
    rows = torch.cat((outline, torch.full((2, 1, 2), torch.nan), outline * 0.3 + 1.7), 1)
    free = rows[:, [0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12]].clone().requires_grad_()

    def masks(points):
        return rasterize(torch.cat((points[:, :6], rows[:, 6:7], points[:, 6:].flip(1)), 1), (5, 6))

    assert torch.autograd.gradcheck(masks, free, fast_mode=False)
    assert torch.autograd.gradcheck(lambda p: polygon_areas(p), free, fast_mode=False)


@pytest.mark.parametrize("way", [1, -1])
def test_corners_on_the_border_of_pixels_have_gradients(way):
    square = torch.tensor([[4.0, 4.0], [8.0, 4.0], [8.0, 7.0], [4.0, 7.0]])
    corners = (square if way > 0 else square.flip(0)).requires_grad_()
    rasterize(corners, (12, 14)).sum().backward()
    (area,) = torch.autograd.grad(polygon_areas(corners), corners)
    assert torch.equal(corners.grad, area)


def test_a_descent_finds_a_square():
    wanted = rasterize([[3.3, 2.6, 9.4, 2.6, 9.4, 8.1, 3.3, 8.1]], (12, 14))
    corners = torch.tensor([[5.0, 4.0], [8.0, 4.0], [8.0, 7.0], [5.0, 7.0]], requires_grad=True)
    descent = torch.optim.Adam([corners], 0.1)
    for _ in range(150):
        descent.zero_grad()
        (rasterize(corners, (12, 14)) - wanted).square().sum().backward()
        descent.step()
    assert (corners.detach() - torch.tensor([[3.3, 2.6], [9.4, 2.6], [9.4, 8.1], [3.3, 8.1]])).abs().max() < 0.05


def test_compiled_and_mapped():
    corners = torch.rand(2, 3, 5, 2, dtype=torch.float64) * 9
    expected = rasterize(corners, (8, 9))
    assert torch.equal(torch.func.vmap(lambda p: rasterize(p, (8, 9)))(corners), expected)
    compiled = torch.compile(lambda p: (rasterize(p, (8, 9)), polygon_boxes(p), polygon_areas(p)), fullgraph=True, backend="eager")
    assert torch.equal(compiled(corners)[0], expected)


def test_errors():
    refused(InvalidType, "a list of polygons", rasterize, "round", (4, 4))
    refused(InvalidArgument, r"\(..., V, 2\)", rasterize, torch.zeros(4, 3), (4, 4))
    refused(InvalidArgument, "three corners", rasterize, [[1, 2, 3, 4]], (4, 4))
    refused(InvalidArgument, r"polygons\[0\]", rasterize, [[[1, 2, 3, 4, 5]]], (4, 4))
    refused(InvalidType, "Run lengths are masks", rasterize, [OUTER, {"counts": [1, 2], "size": [3, 1]}], (4, 4))
    refused(InvalidType, r"polygons\[0\]", rasterize, [[["a", "b"]]], (4, 4))
    refused(InvalidArgument, "cxcywhr", polygon_boxes, [OUTER], format="round")
    refused(InvalidArgument, "size", rasterize, [OUTER], (0, 4))
