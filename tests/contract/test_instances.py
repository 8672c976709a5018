"""An object is one row: its box, outlines, mask, keypoints and label stay together, and go together."""

import itertools

import pytest
import torch

import pellucid as P
from pellucid.functional import polygon_boxes, rasterize

SIZE = (40, 60)
SLIVER = torch.tensor([[0.0, 0, 12, 0, 0, 0.5]]).reshape(3, 2)


def rectangle(x, y, width=8.0, height=8.0):
    return torch.tensor([[x, y], [x + width, y], [x + width, y + height], [x, y + height]])


def objects():
    """Five: whole, of which a crop leaves the box alone, the outline alone, the mask alone, and nothing at all."""
    shown, left = rectangle(30, 16), rectangle(2, 16)
    outlines = torch.stack([shown, left, shown, left, left])
    sample = {
        "boxes": polygon_boxes(torch.stack([shown, shown, left, left, left])),
        "polygons": outlines,
        "quads": outlines.clone(),
        "masks": rasterize(torch.stack([shown, left, left, shown, left]), SIZE) > 0.5,
        "keypoints": torch.stack([one.mean(0) + torch.arange(3.0)[:, None] for one in outlines]),
        "labels": torch.tensor([10, 11, 12, 13, 14]),
    }
    gone = {
        "boxes": torch.tensor([0, 0, 1, 1, 1]).bool(),
        "polygons": torch.tensor([0, 1, 0, 1, 1]).bool(),
        "quads": torch.tensor([0, 1, 0, 1, 1]).bool(),
        "masks": torch.tensor([0, 1, 1, 0, 1]).bool(),
    }
    return sample, gone


PARTS = [names for count in range(1, 5) for names in itertools.combinations(("boxes", "polygons", "quads", "masks"), count)]
CROP = [P.CenterCrop((30, 36))]  # of what begins at x = 12


def _given(names):
    sample, gone = objects()
    kept = ~torch.stack([gone[name] for name in names]).any(0)
    chosen = {name: sample[name] for name in (*names, "labels")}
    if names != ("masks",):  # points of objects go with rows
        chosen["keypoints"] = sample["keypoints"]
    return {"image": torch.rand(3, *SIZE), **chosen}, kept


@pytest.mark.parametrize("names", PARTS, ids="+".join)
def test_an_object_goes_if_any_of_its_parts_is_gone(names):
    sample, kept = _given(names)
    pipeline = P.Pipeline(CROP, drop_invalid=True)
    every = P.Pipeline(CROP)(sample)
    alone = pipeline(sample)
    pictures = {name: [value, value.clone()] for name, value in sample.items()}
    pictures["image"][1] = torch.rand(3, 40, 60)
    listed = pipeline(pictures)
    batch = P.Pipeline(CROP)({name: value[None] for name, value in sample.items()})
    assert alone["labels"].tolist() == (torch.arange(10, 15)[kept]).tolist()
    for name in (*sample, *(f"{name}_valid" for name in sample if f"{name}_valid" in every)):
        if name == "image":
            continue
        assert torch.equal(alone[name], every[name][kept]), name
        assert all(torch.equal(listed[name][i], alone[name]) for i in range(2)), name
    # A batch keeps all rows; its flags, and the masks themselves, say the same.
    flags = [batch[f"{name}_valid"][0] for name in names if name != "masks"]
    flags += [batch["masks"][0].flatten(1).any(1)] if "masks" in names else []
    assert torch.equal(torch.stack(flags).all(0), kept)


def test_channels_of_masks_that_are_no_objects_stay():
    batch = {"image": torch.rand(3, *SIZE), "masks": torch.zeros(4, *SIZE), "labels": torch.tensor([1, 0])}
    out = P.Pipeline(CROP, drop_invalid=True)(batch)
    assert len(out["masks"]) == 4
    assert len(out["labels"]) == 2
    named = P.Pipeline(CROP, drop_invalid=True)(
        {"image": torch.rand(3, *SIZE), "masks": torch.zeros(4, *SIZE), "labels": list("abcd")}
    )
    assert named["labels"] == []


def test_a_sliver_whose_mask_has_no_pixel_goes():
    batch = {"image": torch.rand(3, *SIZE), "boxes": polygon_boxes(SLIVER[None]), "labels": torch.tensor([4])}
    batch["masks"] = rasterize(SLIVER[None], SIZE) > 0.5
    assert len(P.Pipeline([], drop_invalid=True)(batch)["boxes"]) == 0
    del batch["masks"]
    assert len(P.Pipeline([], drop_invalid=True)(batch)["boxes"]) == 1
