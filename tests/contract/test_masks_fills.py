"""What masks show where the picture shows fill or a hole, and what a hole hides of boxes and points."""

import pytest
import torch

import pellucid as P
from pellucid import InvalidArgument, Key, Pipeline

KEY = Key(seed=3)
SHIFT = P.RandomTranslate(((0.25, 0.25), (0, 0)), mask_fill=9)


def batch(count=4, size=(12, 16), dtype=torch.int64):
    return {"image": torch.rand(count, 3, *size), "mask": torch.ones(count, *size, dtype=dtype)}


FILLS = {
    "shift": (SHIFT, [9] * 4 + [1] * 12),
    "pad": (P.Pad((2, 0), mask_fill=9), [9] * 2 + [1] * 16 + [9] * 2),
    "pad if needed": (P.PadIfNeeded((12, 20), mask_fill=9), [9] * 2 + [1] * 16 + [9] * 2),
    "letterbox": (P.Letterbox((12, 24), mask_fill=9), [9] * 4 + [1] * 16 + [9] * 4),
    "center crop": (P.CenterCrop((12, 20), mask_fill=9), [9] * 2 + [1] * 16 + [9] * 2),
    "border": (P.RandomTranslate(((0.25, 0.25), (0, 0)), padding_mode="border", mask_fill=9), [1] * 16),
    "of the pipeline": (P.Pad((2, 0)), [3] * 2 + [1] * 16 + [3] * 2),
}


@pytest.mark.parametrize("name", FILLS)
@pytest.mark.parametrize("fuse", [True, False])
def test_a_step_says_what_masks_show_outside(name, fuse):
    step, row = FILLS[name]
    out = Pipeline([step], mask_fill=3, fuse=fuse)(batch())
    assert out["mask"][1, 4].tolist() == row


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.float32])
def test_every_canvas_keeps_its_own(dtype):
    """In one pass as step by step: the outer pad has the pipeline's, the inner one its own."""
    shift = P.RandomTranslate(((1 / 3, 1 / 3), (0, 0)), mask_fill=9)
    steps = [P.Pad(1, mask_fill=9), P.RandomVerticalFlip(p=1.0), shift, P.Pad(1), P.RandomHorizontalFlip(p=1.0)]
    one, two = (Pipeline(steps, mask_fill=3, fuse=fuse)(batch(dtype=dtype), key=KEY)["mask"] for fuse in (True, False))
    assert torch.equal(one, two)
    assert one.unique().tolist() == [1, 3, 9]
    assert one[0, 8].tolist() == [3] + [1] * 11 + [9] * 7 + [3]


def test_of_alternatives_the_one_that_was_chosen():
    other = P.RandomTranslate(((0.25, 0.25), (0, 0)), mask_fill=5)
    pipeline = Pipeline([P.OneOf([[SHIFT], [other]])])
    pictures = batch(16)
    out, record = pipeline(pictures, key=KEY, return_record=True)
    shown = out["mask"][:, 0, 0].tolist()
    assert set(shown) == {5, 9}
    assert shown == [
        pipeline.apply({k: v[i : i + 1] for k, v in pictures.items()}, record[i])["mask"][0, 0, 0].item() for i in range(16)
    ]


def test_values_that_a_mask_cannot_hold_are_refused():
    for step, name in ((P.Pad(1, mask_fill=300), "Pad.mask_fill"), (P.GridDropout(p=1.0, mask_fill=-1), "GridDropout.mask_fill")):
        with pytest.raises(InvalidArgument, match=name):
            Pipeline([step])(batch(dtype=torch.uint8))
        Pipeline([step])(batch(dtype=torch.int64))


HOLES = {
    "erasing": P.RandomErasing(p=0.8, mask_fill=7, hides=True),
    "coarse": P.CoarseDropout((1, 5), height=(0.1, 0.6), width=(0.1, 0.6), p=0.8, mask_fill=7, hides=True),
    "grid": P.GridDropout(p=0.8, mask_fill=7, hides=True),
}
AROUND = [P.RandomHorizontalFlip(p=1.0), P.RandomTranslate((0.2, 0.2), whole_pixels=True)]


def _full(count):
    """Targets of which the masks tell where each pixel is: boxes and points lie at whole pixels."""
    found = batch(count, (20, 24))
    corner = torch.randint(0, 12, (count, 6, 2)).float()
    found["boxes"] = torch.cat((corner, corner + torch.randint(2, 9, (count, 6, 2))), -1)
    found["keypoints"] = torch.randint(0, 20, (count, 8, 2)).float()
    return found


@pytest.mark.parametrize("name", HOLES)
def test_holes_paint_masks_where_they_paint_pictures(name):
    pictures = {**batch(12, (20, 24)), "image": torch.ones(12, 1, 20, 24)}
    out = Pipeline([*AROUND, HOLES[name], P.RandomVerticalFlip(p=1.0)], mask_fill=3)(pictures, key=KEY)
    shown = out["image"][:, 0]
    holes = out["mask"] == 7
    assert holes.any()
    assert (shown[holes] < 1).all()
    assert (out["mask"][shown == 1] == 1).all()
    assert (out["mask"][shown == 0] != 1).all()
    assert (shown[out["mask"] == 3] == 0).all()


def _seen_along(place, low, high, holes, axis):
    """How much of a line across a box no hole covers, at a place on an axis."""
    spans = sorted((hole[1 - axis], hole[3 - axis]) for hole in holes if hole[axis] <= place < hole[axis + 2])
    seen = 0.0
    for start, stop in [*spans, (high, high)]:
        seen += max(0.0, min(start, high) - low)
        low = max(low, stop)
    return seen


@pytest.mark.parametrize("name", HOLES)
@pytest.mark.parametrize("least", [0.0, 0.4])
def test_boxes_become_what_is_seen_of_them(name, least):
    """Lines across a box: those within its new sides are seen in part, those beyond not at all; their sum is its share."""
    pipeline = Pipeline([HOLES[name]], min_visibility=least)
    pictures = {key: value.double() if key != "mask" else value for key, value in _full(10).items()}
    out, record = pipeline(pictures, key=KEY, return_record=True)
    holes = HOLES[name].lower(record.params[0], record.plan.specs[0], torch.zeros(())).box.double()
    for i in range(10):
        around = holes[i].tolist()
        for k, box in enumerate(pictures["boxes"][i].tolist()):
            found = out["boxes"][i, k].tolist()
            lines = [box[0] + (box[2] - box[0]) * (n + 0.5) / 200 for n in range(200)]
            share = sum(_seen_along(x, box[1], box[3], around, 0) for x in lines) / 200 / (box[3] - box[1])
            if abs(share - least) > 0.01:
                assert out["boxes_valid"][i, k] == (share > least), (i, k, share)
            for axis in (0, 1) if share > 0.01 else ():
                low, high, start, stop = box[axis], box[axis + 2], found[axis], found[axis + 2]
                across = (box[1 - axis], box[3 - axis], around, axis)
                assert _seen_along(start + 1e-4, *across) > 0
                assert _seen_along(stop - 1e-4, *across) > 0
                for n in range(8) if (low, high) != (start, stop) else ():
                    assert _seen_along(low + (start - low) * (n + 0.5) / 8, *across) < 1e-5 or start == low
                    assert _seen_along(high - (high - stop) * (n + 0.5) / 8, *across) < 1e-5 or stop == high
        for k, (px, py) in enumerate(pictures["keypoints"][i].tolist()):
            inside = any(a <= px + 0.5 < c and b <= py + 0.5 < d for a, b, c, d in around)
            assert out["keypoints_valid"][i, k] != inside, (i, k)


def test_holes_hide_what_is_there_when_their_turn_comes():
    """Boxes that moved before, and move on: as in two pipelines, one after the other; lists as batches."""
    hole = P.CoarseDropout((1, 3), height=(0.3, 0.6), width=(0.3, 0.6), p=1.0, mask_fill=7, hides=True)
    pictures = _full(8)
    whole = Pipeline([*AROUND, hole, P.RandomVerticalFlip(p=1.0), P.CenterCrop((14, 24))])
    out, record = whole(pictures, key=KEY, return_record=True)
    first = Pipeline(AROUND)(pictures, key=KEY)
    holes = Pipeline([P.RandomHorizontalFlip(p=0.0), P.RandomTranslate((0, 0)), hole])
    drawn = holes.draw(first, key=KEY)
    for name, value in record.params[2].items():
        drawn = drawn.with_param(2, name, value)
    last = Pipeline([P.RandomVerticalFlip(p=1.0), P.CenterCrop((14, 24))])(holes.apply(first, drawn))
    for key in ("mask", "keypoints_valid", "boxes_valid", "boxes", "keypoints"):
        assert torch.equal(out[key], last[key]), key
    assert not out["boxes_valid"].all()
    lists = {key: list(value) for key, value in pictures.items()}
    for key, value in whole(lists, key=KEY).items():
        assert torch.equal(value if isinstance(value, torch.Tensor) else torch.stack(value), out[key]), key


def test_turned_boxes_go_with_their_centres():
    boxes = torch.tensor([[[5.0, 5, 4, 2, 0.3], [15.0, 15, 4, 2, 0.3], [5.0, 15, 30, 30, 0.3]]])
    pipeline = Pipeline([P.CoarseDropout(1, height=(0.5, 0.5), width=(0.5, 0.5), p=1.0, hides=True)], box_format="cxcywhr")
    pictures = {"image": torch.rand(1, 3, 20, 20), "boxes": boxes}
    record = pipeline.draw(pictures)
    for name in ("x", "y"):
        record = record.with_param(0, name, torch.zeros(1, 1))
    assert pipeline.apply(pictures, record)["boxes_valid"].tolist() == [[False, True, True]]
