"""Polygons follow the picture: outlines of what the picture shows, cut where it is cut."""

import math

import numpy as np
import pytest
import torch

import pellucid as P
from pellucid.data import collate
from pellucid.errors import InvalidArgument
from pellucid.functional import polygon_areas, polygon_boxes, rasterize
from pellucid.geometry.clipping import clipped, densified, trimmed, without
from pellucid.geometry.polygons import hulls, rings_of, signed_areas
from tests.cases import CASES, IDS, images
from tests.refusals import refused

DOUBLE = torch.float64
WINDOW = torch.tensor([5.0, 7.0, 40.0, 33.0], dtype=DOUBLE)


def blobs(count, size, corners=24, seed=0, reach=0.38):
    """Simple outlines around the middle of a picture, with bays."""
    random = np.random.default_rng(seed)
    angles = np.linspace(0, 2 * math.pi, corners, endpoint=False)
    radii = random.uniform(0.4, 1.0, (count, corners)) * reach
    around = np.stack((np.cos(angles), np.sin(angles)), -1) * radii[..., None] + 0.5
    return torch.from_numpy(around * size[::-1])[:, None]


def agreement(one, other):
    """Intersection over union of masks with values between."""
    return (torch.minimum(one, other).sum() / torch.maximum(one, other).sum()).item()


WARPS = {
    "affine": P.RandomAffine(30, translate=(0.1, 0.1), scale=(0.7, 1.4), shear=10),
    "perspective": P.RandomPerspective(0.4, p=1.0),
    "elastic": P.RandomElastic(p=1.0),
    "grid": P.GridDistortion(p=1.0),
    "lens": P.LensDistortion(p=1.0),
    "crop": P.RandomResizedCrop(256, antialias=False),
}


@pytest.mark.parametrize("name", WARPS)
def test_masks_of_warped_outlines_are_warped_masks(name):
    outlines, size = blobs(2, (256, 256)), (256, 256)
    masks = rasterize(outlines, size)
    augment = P.Pipeline([WARPS[name]], seed=4)
    out = augment({"image": torch.zeros(2, 3, *size, dtype=DOUBLE), "heatmap": masks, "polygons": outlines})
    assert out["polygons_valid"].all()
    assert agreement(*((one > 0.5).double() for one in (rasterize(out["polygons"], size), out["heatmap"]))) >= 0.995
    assert agreement(masks, out["heatmap"]) < 0.985


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_every_transform_moves_outlines_as_it_moves_heatmaps(case):
    x = images(case)
    outlines = blobs(len(x), tuple(x.shape[-2:]), corners=8)
    batch = {"image": x, "polygons": outlines, "heatmap": rasterize(outlines, tuple(x.shape[-2:]))}
    augment = P.Pipeline([case.transform], seed=5)
    if case.objects:
        batch["masks"] = torch.ones(len(x), 2, *x.shape[-2:], dtype=torch.bool)
        refused(InvalidArgument, "masks", augment, batch)
        return
    out = augment(batch)
    if augment.draw(x).plan.moving_layers or min(x.shape[-2:]) < 16:
        return  # shares of heatmaps are mixed
    covered = rasterize(out["polygons"], tuple(out["image"].shape[-2:])) * out["polygons_valid"][..., None, None]
    assert (covered - out["heatmap"]).abs().mean() < 0.05


def stars(count, seed=0):
    """Outlines around points in and beside `WINDOW`, of 5 to 60 corners; some cross themselves."""
    random, rows = np.random.default_rng(seed), []
    for corners in random.integers(5, 60, count):
        angles, radii = np.sort(random.uniform(0, 2 * math.pi, corners)), random.uniform(4, 48, corners)
        rows.append(random.uniform(0, 50, 2) + radii[:, None] * np.stack((np.cos(angles), np.sin(angles)), 1))
    return rows


@pytest.mark.parametrize("backwards", [False, True])
def test_what_is_cut_off_is_exact_and_pieces_are_apart(backwards):
    shapely = pytest.importorskip("shapely")
    simple = [one for one in stars(120) if shapely.Polygon(one).is_valid]
    assert len(simple) > 60
    points = torch.full((len(simple), 60, 2), torch.nan, dtype=DOUBLE)
    for i, one in enumerate(simple):
        points[i, : len(one)] = torch.from_numpy(one[::-1].copy() if backwards else one)
    inside, outside = clipped(points, WINDOW), without(points, WINDOW)
    box, several = shapely.box(*WINDOW.tolist()), 0
    for i, one in enumerate(simple):
        shape = shapely.Polygon(one)
        for found, exact in ((inside[i], shape.intersection(box)), (outside[i], shape.difference(box))):
            assert signed_areas(found).abs().item() == pytest.approx(exact.area, abs=1e-9)
            if exact.area:
                assert np.allclose(hulls(found), exact.bounds, rtol=0, atol=1e-9)
        pieces = [part for part in getattr(shape.intersection(box), "geoms", [shape.intersection(box)]) if part.area > 1e-9]
        assert len(rings_of(inside[i])) == len(pieces)
        several += len(pieces) > 1
    assert several > 10


def test_what_is_cut_off_is_what_pixels_say():
    """The same without shapely, and with outlines that cross themselves and have holes."""
    pad, row = torch.nn.functional.pad, torch.full((1, 2), torch.nan, dtype=DOUBLE)
    size, x0, y0, x1, y1 = (60, 70), 5, 7, 40, 33
    for one in stars(30, seed=1):
        ring = torch.from_numpy(one)
        points = torch.cat((ring, row, ring.flip(0) * 0.4 + 11.3))  # the smaller one runs the other way: a hole, in part
        whole = rasterize(points, size)
        expected = pad(whole[y0:y1, x0:x1], (x0, 70 - x1, y0, 60 - y1))
        torch.testing.assert_close(rasterize(clipped(points, WINDOW), size), expected, rtol=0, atol=1e-9)
        torch.testing.assert_close(rasterize(without(points, WINDOW), size), whole - expected, rtol=0, atol=1e-9)
        torch.testing.assert_close(signed_areas(densified(points, 2.0)), signed_areas(points))


def test_what_is_cut_off_is_as_opencv_fills_it():
    cv2, random = pytest.importorskip("cv2"), np.random.default_rng(0)
    for _ in range(50):
        turn = np.sort(random.uniform(0, 2 * np.pi, 7))
        points = random.uniform(0, 40, 2) + 20 * np.stack((np.cos(turn), np.sin(turn)), 1)
        cut = clipped(torch.from_numpy(points), torch.tensor([0.0, 0.0, 40.0, 30.0], dtype=DOUBLE))
        canvas = np.zeros((300, 400), np.uint8)
        cv2.fillPoly(canvas, [np.round(points * 10 - 0.5).astype(np.int32)], 1)
        assert abs(signed_areas(cut).abs().item() - canvas.sum() / 100) < 8.0  # half a pixel around the outline
        assert (cut >= 0).all()
        assert (cut <= cut.new_tensor([40.0, 30.0])).all()


def test_outlines_inside_keep_every_bit_and_their_corners_order():
    quads = torch.tensor([[[9.5, 8.0], [30.1, 9.0], [31.0, 20.0], [9.0, 21.0]]])
    assert torch.equal(clipped(quads, WINDOW.float()), quads)
    flipped = P.Pipeline([P.RandomHorizontalFlip(p=1.0)])({"image": torch.zeros(1, 3, 40, 50), "polygons": quads[None]})
    assert torch.equal(flipped["polygons"][0, 0, :, 0], 50 - quads[0, :, 0])  # the first corner is still that of the first letter


def test_gradients_to_corners_and_to_what_was_drawn():
    (points,) = (torch.from_numpy(one) for one in stars(1, seed=3))
    assert torch.autograd.gradcheck(lambda p: signed_areas(clipped(p, WINDOW)), points.requires_grad_(), fast_mode=False)
    augment = P.Pipeline([P.RandomRotation(20), P.RandomElastic(p=1.0), P.CenterCrop(30)], seed=1)
    batch = {"image": torch.zeros(1, 3, 40, 50, dtype=DOUBLE), "polygons": blobs(1, (40, 50))}
    record = augment.draw(batch)
    angle = record.params[0]["degrees"].double()

    def area(degrees):
        return polygon_areas(augment.apply(batch, record.with_param(0, "degrees", degrees))["polygons"])

    assert torch.autograd.gradcheck(area, angle.clone().requires_grad_(), atol=1e-5)


COCO = [
    [[10, 10, 60, 12, 55, 50, 30, 70]],
    [[70, 10, 90, 10, 90, 30], [70, 60, 90, 60, 90, 80, 75, 75]],
    [2, 2, 8, 2, 8, 8],
]
CROPS = [P.RandomAffine(20, scale=(0.8, 1.2)), P.RandomCrop(48)]


def test_lists_are_what_each_picture_is_alone():
    pictures, listed = [torch.rand(3, 96, 96), torch.rand(3, 100, 96)], [COCO, COCO[:1]]
    augment = P.Pipeline(CROPS, seed=0, same_on_batch=True)
    together, record = augment({"image": pictures, "polygons": listed}, key=P.Key(3), return_record=True)
    assert together["polygons"].shape[:2] == (2, 3)
    again = augment.apply({"image": pictures, "polygons": listed}, record)
    assert torch.equal(again["polygons"].nan_to_num(-1), together["polygons"].nan_to_num(-1))
    for i, (picture, polygons) in enumerate(zip(pictures, listed, strict=True)):
        alone = augment({"image": picture, "polygons": polygons}, key=P.Key(3))["polygons"]
        ours = trimmed(together["polygons"][i, : len(polygons)])
        assert torch.allclose(ours[:, : alone.shape[1]], alone, atol=1e-4, equal_nan=True)
        assert rasterize(ours, (48, 48)).sum() > 0


def test_the_inverse_brings_back_what_was_not_cut_off():
    augment = P.Pipeline([P.RandomAffine(10), P.RandomHorizontalFlip(p=1.0)], seed=0)
    batch = {"image": torch.zeros(2, 3, 40, 50, dtype=DOUBLE), "polygons": blobs(2, (40, 50), reach=0.25)}
    out, record = augment(batch, return_record=True)
    assert torch.allclose(augment.inverse(out, record)["polygons"], batch["polygons"], atol=1e-9)


def test_rows_come_back_as_they_came_and_an_object_goes_as_a_whole():
    sample = {
        "image": torch.zeros(3, 96, 96),
        "polygons": COCO,
        "boxes": polygon_boxes(COCO).tolist(),
        "masks": rasterize(COCO, (96, 96)) > 0.5,
        "labels": [1, 2, 3],
    }
    corner = P.Pipeline([P.CenterCrop((90, 64))], out="same", drop_invalid=True)
    out = corner(sample)
    assert out["labels"] == [1, 2]
    assert len(out["masks"]) == len(out["boxes"]) == len(out["polygons"]) == 2
    assert all(isinstance(ring, list) and len(ring) % 2 == 0 for polygon in out["polygons"] for ring in polygon)
    # The third's box would still show; its outline does not.
    shy = {"image": torch.zeros(3, 20, 20), "boxes": [[0.0, 0, 12, 12]], "polygons": [[[0, 0, 12, 0, 0, 12]]], "labels": [5]}
    cut = P.Pipeline([P.CenterCrop(4)], drop_invalid=True)
    kept = cut(shy)
    assert kept["labels"] == []
    assert len(kept["boxes"]) == len(kept["polygons"]) == 0
    alone = cut({name: value for name, value in shy.items() if name != "boxes"})
    assert alone["labels"] == []


@pytest.mark.parametrize(
    ("options", "valid"),
    [({}, True), ({"min_area": 51}, False), ({"min_visibility": 0.24}, True), ({"min_visibility": 0.26}, False)],
)
def test_min_area_and_min_visibility(options, valid):
    batch = {"image": torch.zeros(1, 3, 20, 20), "polygons": torch.tensor([[[[0.0, 0], [10, 0], [10, 20], [0, 20]]]])}
    out = P.Pipeline([P.CenterCrop(10)], **options)(batch)
    assert out["polygons_valid"].item() is valid
    assert polygon_areas(out["polygons"]).item() == 50


@pytest.mark.parametrize("transform", [P.CutMix(p=1.0), P.Mosaic(p=1.0)])
def test_pictures_in_one_have_the_outlines_that_show(transform):
    outlines = blobs(4, (64, 64), reach=0.45)
    masks = (rasterize(outlines, (64, 64)) > 0.5).to(torch.uint8)
    out = P.Pipeline([transform], seed=2)({"image": torch.zeros(4, 3, 64, 64), "polygons": outlines, "mask": masks})
    shown = rasterize(out["polygons"], (64, 64)) * out["polygons_valid"][..., None, None]
    assert agreement(shown.sum(1), out["mask"][:, 0].double()) > 0.9


def test_holes_that_hide_are_cut_out():
    outlines = blobs(3, (64, 64), reach=0.45)
    image = torch.ones(3, 3, 64, 64, dtype=DOUBLE)
    out = P.Pipeline([P.CoarseDropout(p=1.0, hides=True)], seed=2)({"image": image, "polygons": outlines})
    expected = rasterize(outlines, (64, 64)) * out["image"][:, :1]
    assert agreement(rasterize(out["polygons"], (64, 64)), expected) > 0.98
    assert polygon_areas(out["polygons"]).sum() < 0.95 * polygon_areas(outlines).sum()


def test_collate_takes_lists():
    samples = [{"image": torch.zeros(3, 96, 96), "polygons": COCO, "labels": [1, 2, 3]}]
    samples.append({"image": torch.zeros(3, 96, 96), "polygons": [], "labels": []})
    out = collate(P.Pipeline([P.RandomCrop(48)], seed=0))(samples)
    assert out["polygons"].shape[:2] == out["labels"].shape == out["polygons_valid"].shape == (2, 3)
    assert not out["polygons_valid"][1].any()


def test_wrong_rows_are_told():
    augment = P.Pipeline([P.RandomHorizontalFlip()])
    image = torch.zeros(3, 8, 8)
    with pytest.raises(InvalidArgument, match=r"batch\['polygons'\]\[1\].*three corners"):
        augment({"image": image, "polygons": [[0, 0, 4, 0, 4, 4], [1, 2, 3, 4]]})
    for key in ("contours", "segmentation"):
        refused(InvalidArgument, f"targets={{'{key}': 'polygons'}}", augment, {"image": image, key: COCO})
    refused(InvalidArgument, r"N, V, 2", augment, {"image": image[None], "polygons": torch.zeros(1, 4, 2)})
    flags = {"image": image[None], "polygons": torch.zeros(1, 2, 4, 2), "polygons_valid": torch.ones(1, 3, dtype=torch.bool)}
    refused(InvalidArgument, r"\(1, 2\)", augment, flags)


@pytest.mark.parametrize("side", ["left", "top", "right", "bottom"])
def test_an_outline_is_cut_where_the_picture_ends(side):
    x, y = {"left": (-3.0, 5), "top": (5, -3), "right": (33, 5), "bottom": (5, 33)}[side]  # the middle of a square of 10 x 10
    square = torch.tensor([[[[x - 5, y - 5], [x + 5, y - 5], [x + 5, y + 5], [x - 5, y + 5]]]], dtype=DOUBLE)
    given = {"image": torch.zeros(1, 3, 40, 40), "polygons": square + 5}
    cut = trimmed(P.Pipeline([P.CenterCrop(30)])(given)["polygons"][0])[0]
    assert polygon_areas(cut[None]).item() == 20
    assert cut.min().item() >= 0
    assert cut.max().item() <= 30
