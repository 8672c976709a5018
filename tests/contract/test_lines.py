"""Lines and quadrilaterals follow the picture: lines are cut into the pieces that show, quadrilaterals keep their four corners."""

import math

import numpy as np
import pytest
import torch

import pellucid as P
from pellucid.data import collate
from pellucid.errors import InvalidArgument
from pellucid.functional import polygon_boxes, rasterize
from pellucid.geometry.clipping import clipped, densified, without
from pellucid.geometry.polygons import lengths, rings_of, stacked
from tests.cases import CASES, IDS, images
from tests.contract.test_polygons import CROPS, WARPS, agreement, blobs
from tests.refusals import refused

DOUBLE = torch.float64
WINDOW = torch.tensor([5.0, 7.0, 40.0, 33.0], dtype=DOUBLE)


def ways(count, seed=0):
    """Lines of 2 to 30 points in and beside `WINDOW`."""
    random = np.random.default_rng(seed)
    return [torch.from_numpy(random.uniform(-5, 55, (random.integers(2, 30), 2))) for _ in range(count)]


def test_lines_are_cut_as_shapely_cuts_them():
    shapely = pytest.importorskip("shapely")
    lines, box, several = ways(120), shapely.box(*WINDOW.tolist()), 0
    points = stacked(lines)
    inside, outside = clipped(points, WINDOW, closed=False), without(points, WINDOW, closed=False)
    for i, line in enumerate(lines):
        shape = shapely.LineString(line.numpy())
        for found, exact in ((inside[i], shape.intersection(box)), (outside[i], shape.difference(box))):
            assert lengths(found).item() == pytest.approx(exact.length, abs=1e-9)
        several += len(rings_of(inside[i])) > 1
        for piece in rings_of(inside[i]):  # in the order of the line, and each a part of it
            assert shape.distance(shapely.MultiPoint(piece.numpy())) < 1e-9
            assert shape.buffer(1e-6).contains(shapely.LineString(piece.numpy()))
    assert several > 50


def test_lines_inside_keep_every_bit_and_borders_leave_no_points():
    line = torch.tensor([[9.5, 8.0], [30.1, 9.0], [31.0, 20.0]])
    assert torch.equal(clipped(line, WINDOW.float(), closed=False), line)
    tip = torch.tensor([[0.0, 8.0], [5.0, 20.0], [0.0, 30.0]])  # touches from outside
    assert not torch.isfinite(clipped(tip, WINDOW.float(), closed=False)).any()
    border = torch.tensor([[5.0, 10.0], [5.0, 20.0]])
    assert torch.equal(clipped(border, WINDOW.float(), closed=False), border)
    torch.testing.assert_close(lengths(densified(tip, 2.0, closed=False)), lengths(tip))


def circles(count, size, points=24):
    """Lines that nearly close: circles with a gap."""
    turn = torch.linspace(0.2, 2 * math.pi - 0.2, points, dtype=DOUBLE)
    around = torch.stack((turn.cos(), turn.sin()), -1) * 0.3 * min(size) + torch.tensor([size[1] / 2, size[0] / 2], dtype=DOUBLE)
    return around.expand(count, 1, -1, -1)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_every_transform_moves_lines_and_quads_as_it_moves_polygons(case):
    """A line is a polygon without its last edge; a quadrilateral, one of four corners before it is cut."""
    x = images(case)
    size = tuple(x.shape[-2:])
    quads = blobs(len(x), size, corners=4)
    batch = {
        "image": x,
        "polylines": circles(len(x), size),
        "quads": quads,
        "polygons": quads.clone(),
        "polygons_l": circles(len(x), size),
    }
    augment = P.Pipeline([case.transform], seed=5)
    if case.objects:
        batch["masks"] = torch.ones(len(x), 2, *size, dtype=torch.bool)
        refused(InvalidArgument, "masks", augment, batch)
        return
    out = augment(batch)
    assert out["quads"].shape[2:] == (4, 2)
    assert torch.equal(out["quads_valid"], out["polygons_valid"])
    sizes, window = tuple(out["image"].shape[-2:]), torch.tensor([0.0, 0, *out["image"].shape[:-3:-1]], dtype=DOUBLE)
    plan = augment.draw(x).plan
    if not (plan.moving_layers or plan.bends or plan.hiding):
        again = torch.where(out["quads_valid"][..., None, None], rasterize(clipped(out["quads"], window), sizes), 0)
        assert torch.allclose(again, rasterize(out["polygons"], sizes) * out["polygons_valid"][..., None, None], atol=1e-9)
    inner = [piece for row in out["polylines"].flatten(0, 1) for piece in rings_of(row)]
    outline = torch.cat(
        [ring for row in out["polygons_l"].flatten(0, 1) for ring in rings_of(row)] or [torch.zeros(1, 2, dtype=DOUBLE)]
    )
    for piece in inner:  # corners that are no ends are corners of the polygon, too
        near = torch.cdist(piece[1:-1], outline).amin(1) if len(piece) > 2 else piece.new_zeros(1)
        assert near.max() < 1e-6


@pytest.mark.parametrize("name", WARPS)
def test_lines_lie_where_their_pixels_went(name):
    """The picture is bright along a circle; its line, moved, still lies on bright pixels, and their number is its length."""
    size = (256, 256)
    line = circles(1, size, 96)
    y, x = torch.meshgrid(torch.arange(256.0), torch.arange(256.0), indexing="ij")
    radius = ((x - 127.5) ** 2 + (y - 127.5) ** 2).sqrt()
    bright = torch.exp(-((radius - 0.3 * 256) ** 2) / 8).expand(1, 3, -1, -1).double()
    out = P.Pipeline([WARPS[name]], seed=4)({"image": bright, "polylines": line})
    points = torch.cat(rings_of(densified(out["polylines"][0, 0], 1.0, closed=False)))
    grid = (2 * points / 256 - 1)[None, None]
    read = torch.nn.functional.grid_sample(out["image"], grid, align_corners=False)[0, 0, 0]
    inner = ((points > 2) & (points < 254)).all(-1)
    assert inner.sum() > 100
    assert read[inner].min() > 0.9


def test_quads_keep_their_order_and_are_dropped_as_boxes_are():
    text = [[[10, 4, 26, 6, 25, 14, 9, 12]], [[30, 4], [38, 4], [38, 8], [30, 8]], np.array([[1.0, 1], [4, 1], [4, 3], [1, 3]])]
    sample = {"image": torch.zeros(3, 16, 40), "quads": text, "labels": ["one", "two", "three"]}
    flipped = P.Pipeline([P.RandomHorizontalFlip(p=1.0)])(sample)
    first = torch.tensor([[30.0, 4], [14, 6], [15, 14], [31, 12]])
    assert torch.equal(flipped["quads"][0], first)  # its first corner is that of the first letter
    cut = P.Pipeline([P.CenterCrop((16, 20))], drop_invalid=True, min_visibility=0.5)(sample)
    assert cut["labels"] == ["one"]
    assert torch.equal(cut["quads"][0], torch.tensor([[0.0, 4], [16, 6], [15, 14], [-1, 12]]))  # a corner may lie outside
    back = P.Pipeline([P.CenterCrop((16, 20))], out="same")
    moved, record = back(sample, return_record=True)
    assert moved["quads"][0] == [[0.0, 4.0], [16.0, 6.0], [15.0, 14.0], [-1.0, 12.0]]
    again = back.inverse({"quads": torch.tensor(moved["quads"])}, record)["quads"]
    assert torch.equal(again[0], torch.tensor(text[0]).reshape(4, 2).float())
    none = P.Pipeline([P.CenterCrop(8)])({"image": torch.zeros(3, 16, 40), "quads": []})
    assert none["quads"].shape == (0, 4, 2)


def test_lines_come_back_as_lists_and_fall_into_pieces():
    lane, ramp = [2, 12, 10, 2, 18, 12], [[3.0, 3.0], [16.0, 3.0]]
    crop = P.Pipeline([P.CenterCrop((8, 20))], out="same")
    out = crop({"image": torch.zeros(3, 16, 20), "polylines": [lane, ramp]})
    assert len(out["polylines"][0]) == 2  # a peak cut off leaves two
    assert out["polylines_valid"].tolist() == [True, False]
    assert out["polylines"][1] == []
    sizes = P.Pipeline([P.CenterCrop((8, 20))], min_area=400, min_visibility=0.5)
    assert sizes({"image": torch.zeros(3, 16, 20), "polylines": [lane]})["polylines_valid"].item()  # lines have no area


def test_lines_and_quads_go_through_lists_records_inverses_and_collate():
    lines = [[[4, 4, 60, 70, 90, 20]], [[10, 80, 80, 85]]]
    quads = [[10, 10, 40, 12, 38, 30, 9, 28]]
    pictures = [torch.rand(3, 96, 96), torch.rand(3, 100, 96)]
    augment = P.Pipeline(CROPS, seed=0, same_on_batch=True)
    batch = {"image": pictures, "polylines": [lines, lines[:1]], "quads": [quads, quads * 2]}
    together, record = augment(batch, key=P.Key(3), return_record=True)
    again = augment.apply(batch, record)
    for name in ("polylines", "quads"):
        assert torch.equal(again[name].nan_to_num(-1), together[name].nan_to_num(-1))
        for i, picture in enumerate(pictures):
            alone = augment({"image": picture, name: batch[name][i]}, key=P.Key(3))
            count = len(batch[name][i])
            assert torch.equal(together[f"{name}_valid"][i, :count], alone[f"{name}_valid"])
            ours, theirs = together[name][i, :count], alone[name]
            assert torch.allclose(ours[:, : theirs.shape[1]].nan_to_num(-1), theirs.nan_to_num(-1), atol=1e-4)
    turn = P.Pipeline([P.RandomAffine(10), P.RandomHorizontalFlip(p=1.0)], seed=0)
    some = {
        "image": torch.zeros(2, 3, 40, 50, dtype=DOUBLE),
        "polylines": circles(2, (40, 50)) * 0.5 + 10,
        "quads": blobs(2, (40, 50), 4),
    }
    out, record = turn(some, return_record=True)
    back = turn.inverse(out, record)
    assert torch.allclose(back["quads"], some["quads"], atol=1e-9)
    assert torch.allclose(back["polylines"], some["polylines"], atol=1e-9)
    samples = [{"image": one, "polylines": lines[i:], "quads": quads, "labels": [1]} for i, one in enumerate(pictures)]
    batch = collate(P.Pipeline([P.RandomCrop(48)], seed=0))(samples)
    assert batch["polylines"].shape[:2] == (2, 2)
    assert batch["quads"].shape == (2, 1, 4, 2)


@pytest.mark.parametrize("transform", [P.CutMix(p=1.0), P.Mosaic(p=1.0), P.CoarseDropout(p=1.0, hides=True)])
def test_layers_and_holes_cut_lines_and_leave_quads_whole(transform):
    outlines = blobs(4, (64, 64), corners=4, reach=0.45)
    batch = {"image": torch.ones(4, 3, 64, 64, dtype=DOUBLE), "quads": outlines, "polygons": outlines, "polylines": outlines}
    out = P.Pipeline([transform], seed=2)(batch)
    assert torch.equal(out["quads_valid"], out["polygons_valid"])
    covered = rasterize(out["polygons"], (64, 64))
    for i in range(4):
        for j in range(out["quads"].shape[1]):
            whole = rasterize(out["quads"][i, j], (64, 64))
            assert (covered[i, j] <= whole + 1e-9).all()
            for piece in rings_of(out["polylines"][i, j]):
                assert ((piece >= -1e-9) & (piece <= 64 + 1e-9)).all()
    assert (lengths(out["polylines"]).sum(1) < lengths(outlines).sum(1) * out["quads"].shape[1]).all()
    assert agreement(covered.sum(1), rasterize(outlines, (64, 64)).sum(1)) < 0.999


def test_gradients_to_lines_and_quads():
    line = ways(1, seed=3)[0]
    assert torch.autograd.gradcheck(lambda p: lengths(clipped(p, WINDOW, closed=False)), line.requires_grad_(), fast_mode=False)
    augment = P.Pipeline([P.RandomRotation(20), P.RandomElastic(p=1.0), P.CenterCrop(30)], seed=1)
    batch = {"image": torch.zeros(1, 3, 40, 50, dtype=DOUBLE), "polylines": circles(1, (40, 50)), "quads": blobs(1, (40, 50), 4)}
    record = augment.draw(batch)
    angle = record.params[0]["degrees"].double()

    def moved(degrees):
        out = augment.apply(batch, record.with_param(0, "degrees", degrees))
        return lengths(out["polylines"]), out["quads"]

    assert torch.autograd.gradcheck(moved, angle.clone().requires_grad_(), atol=1e-5)


def test_wrong_lines_and_quads_are_told():
    augment = P.Pipeline([P.RandomHorizontalFlip()])
    image = torch.zeros(3, 8, 8)
    refused(InvalidArgument, r"batch\['polylines'\]\[0\].*two points", augment, {"image": image, "polylines": [[1, 2]]})
    with pytest.raises(InvalidArgument, match=r"batch\['quads'\]\[1\].*four corners"):
        augment({"image": image, "quads": [[0, 0, 1, 0, 1, 1, 0, 1], [0, 0, 1, 0, 1, 1]]})
    refused(InvalidArgument, r"B, N, 4, 2", augment, {"image": image[None], "quads": torch.zeros(1, 2, 5, 2)})
    for key, kind in (("lanes", "polylines"), ("text_quad", "quads")):
        refused(InvalidArgument, f"targets={{'{key}': '{kind}'}}", augment, {"image": image, key: torch.zeros(2, 4, 2)})


@pytest.mark.parametrize("degrees", range(-170, 181, 35))
def test_boxes_along_text_turn_with_it(degrees):
    word = torch.tensor([[30.0, 30], [60, 30], [60, 38], [30, 38]])[None]
    turn = P.Pipeline([P.RandomRotation((degrees, degrees))])
    out = turn({"image": torch.zeros(1, 1, 96, 96), "quads": word[None], "boxes": polygon_boxes(word)[None]})["quads"]
    found = polygon_boxes(out, format="cxcywhr", reading=True)[0, 0]
    assert torch.allclose(found[2:4], torch.tensor([30.0, 8.0]), atol=1e-3)
    assert torch.allclose(found[:2], out[0, 0].mean(0), atol=1e-3)
    apart = found[4] - math.radians(degrees)
    assert torch.allclose(torch.stack((apart.cos(), apart.sin())), torch.tensor([1.0, 0.0]), atol=1e-4)
