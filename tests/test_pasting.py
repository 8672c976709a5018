"""Objects pasted by their masks: against the paper's formula in NumPy, with every target beside its picture."""

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck

import pellucid
from pellucid import CopyPaste, InvalidArgument, Key, Mosaic, Pipeline
from tests.refusals import refused

SIZE = (12, 17)


def blocks(count=4, objects=3, size=SIZE, seed=0):
    """Pictures with rectangles of objects, and their boxes; some objects are empty, as padding is."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand((count, 3, *size), generator=generator, dtype=torch.float64)
    low = torch.stack([torch.randint(0, side - 3, (count, objects), generator=generator) for side in size[::-1]], -1)
    high = low + torch.randint(1, 8, (count, objects, 2), generator=generator)
    high = torch.minimum(high, torch.tensor(size[::-1]))
    columns, rows = torch.arange(size[1]), torch.arange(size[0])
    across = (columns >= low[..., :1]) & (columns < high[..., :1])
    down = (rows >= low[..., 1:]) & (rows < high[..., 1:])
    masks = (down[..., None] & across[..., None, :]).to(torch.uint8)
    boxes = torch.cat((low, high), -1).double()
    return {"image": x, "masks": masks, "boxes": boxes, "labels": torch.arange(count * objects).reshape(count, objects)}


def chosen_of(out, objects):
    """Which of the partner's objects a call has pasted, as its rows say."""
    return out["boxes_valid"][:, objects:]


def hull(mask):
    rows, columns = np.nonzero(mask)
    return [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]


@pytest.mark.parametrize("step", range(6))
def test_it_is_the_papers_formula_with_every_target(step):
    """I1 a + I2 (1 - a), a the union of pasted masks; masks lose what is covered; boxes are taken again from the masks that do."""
    batch = blocks(seed=step)
    out = Pipeline([CopyPaste(share=0.6)], seed=3)(batch, key=Key(1, step))
    chosen = chosen_of(out, 3).numpy()
    x, masks, boxes, labels = (batch[key].numpy() for key in ("image", "masks", "boxes", "labels"))
    for i in range(4):
        j = i ^ 1
        pasted = masks[j] * chosen[i][:, None, None]
        alpha = pasted.max(0)
        assert np.array_equal(out["image"][i].numpy(), np.where(alpha, x[j], x[i]))
        left = masks[i] * (1 - alpha)
        assert np.array_equal(out["masks"][i].numpy(), np.concatenate((left, pasted)))
        assert out["labels"][i].tolist() == [*labels[i], *labels[j]]
        for n in range(3):
            assert bool(out["boxes_valid"][i, n]) == bool(left[n].any())
            if left[n].any():
                assert out["boxes"][i, n].tolist() == hull(left[n])
            if chosen[i, n]:
                assert out["boxes"][i, 3 + n].tolist() == boxes[j, n].tolist()


def test_each_subset_is_drawn_and_a_share_of_half_makes_them_alike():
    batch = {key: value[:1].expand(512, *value.shape[1:]) for key, value in blocks(objects=2).items()}
    chosen = chosen_of(Pipeline([CopyPaste()], seed=0)(batch), 2)
    counts = torch.bincount(chosen.long() @ torch.tensor([1, 2]), minlength=4)
    assert counts.min() > 90  # 128 expected, with a standard deviation of 10
    for share, expected in ((0.0, False), (1.0, True)):
        assert chosen_of(Pipeline([CopyPaste(share)], seed=0)(batch), 2).eq(expected).all()


def test_objects_are_those_of_torchvisions_reference():
    """Its rules on one pair: the union is pasted, empty masks go with their labels, boxes are those of masks, the pasted ones last.

    Its boxes end at the last pixel (``masks_to_boxes``), ours behind it.
    """
    batch = blocks(count=2, seed=11)
    out = Pipeline([CopyPaste(share=1.0, pairing="roll")], seed=0)(batch)
    keep = out["boxes_valid"][0]
    alpha = batch["masks"][1].amax(0)
    masks = batch["masks"][0] * (1 - alpha)
    kept = masks.sum((1, 2)) > 0
    assert torch.equal(out["masks"][0][keep], torch.cat((masks[kept], batch["masks"][1])))
    assert torch.equal(out["labels"][0][keep], torch.cat((batch["labels"][0][kept], batch["labels"][1])))
    ends = torch.tensor([hull(mask.numpy()) for mask in masks[kept]], dtype=torch.float64)
    assert torch.equal(out["boxes"][0][keep], torch.cat((ends, batch["boxes"][1])))


def test_a_box_that_loses_no_pixel_stays_as_it_was_and_one_that_does_stays_within():
    masks = torch.zeros(2, 1, 8, 8, dtype=torch.bool)
    masks[0, 0, 2:5, 1:6] = True
    masks[1, 0, :, 4:] = True
    boxes = torch.tensor([[[1.25, 2.5, 5.75, 4.5]], [[4.0, 0.0, 8.0, 8.0]]])
    batch = {"image": torch.rand(2, 3, 8, 8), "masks": masks, "boxes": boxes}
    out = Pipeline([CopyPaste(share=1.0)])(batch)
    assert out["boxes"][0, 0].tolist() == [1.25, 2.5, 4.0, 4.5]
    assert torch.equal(Pipeline([CopyPaste(share=0.0)])(batch)["boxes"][:, :1], boxes)


@pytest.mark.parametrize(("least", "valid"), [(0.0, True), (0.59, True), (0.61, False)])
def test_one_that_hardly_shows_is_invalid(least, valid):
    masks = torch.zeros(2, 1, 8, 8, dtype=torch.int64)
    masks[0, 0, 2:5, 1:6] = 1  # of five columns three are left
    masks[1, 0, :, 4:] = 1
    batch = {"image": torch.rand(2, 3, 8, 8), "masks": masks, "boxes": torch.tensor([[[1.0, 2, 6, 5]], [[4, 0, 8, 8]]])}
    out = Pipeline([CopyPaste(share=1.0)], min_visibility=least)(batch)
    assert out["boxes_valid"].tolist() == [[valid, True], [True, True]]


def test_padding_is_not_pasted():
    batch = blocks()
    flags = torch.tensor([[True, False, True]]).expand(4, 3)
    out = Pipeline([CopyPaste(share=1.0)])({**batch, "boxes_valid": flags})
    assert torch.equal(out["boxes_valid"][:, 3:], flags)
    assert not out["masks"][:, 4].any()


def test_points_are_those_seen_and_other_masks_what_shows():
    batch = blocks(seed=4)
    points = (batch["boxes"][..., :2] + batch["boxes"][..., 2:]) / 2 - 0.5
    whose = torch.arange(4)[:, None, None].expand(4, *SIZE)
    out = Pipeline([CopyPaste(share=0.7)], seed=1)({**batch, "keypoints": points, "mask": whose, "depth": whose.double()})
    chosen = chosen_of(out, 3)
    for i in range(4):
        covered = (batch["masks"][i ^ 1] * chosen[i][:, None, None]).amax(0).bool()
        assert torch.equal(out["mask"][i], torch.where(covered, i ^ 1, i))
        assert torch.equal(out["depth"][i], out["mask"][i].double())
        for n in range(3):
            for row, source in ((n, i), (3 + n, i ^ 1)):
                x, y = (int(v) for v in torch.floor(points[source, n] + 0.5))
                assert bool(out["keypoints_valid"][i, row]) == (bool(covered[y, x]) == (source != i))


def test_masks_are_those_that_the_transforms_before_have_made():
    """A turned object is pasted where it is, and what comes after moves it with its picture."""
    batch = blocks(size=(24, 24), seed=2)
    before, after = [pellucid.RandomHorizontalFlip(), pellucid.RandomCrop(20)], [pellucid.RandomVerticalFlip(p=1.0)]
    whole, record = Pipeline([*before, CopyPaste(), *after], seed=5)(batch, return_record=True)
    parts = batch
    for index in range(4):
        parts = Pipeline([]).apply(parts, record.step(index))
    for key in ("image", "masks", "boxes", "boxes_valid"):
        assert torch.equal(whole[key], parts[key]), key


def test_a_turned_object_takes_its_pixels_along():
    x = torch.zeros(8, 1, 24, 24)
    masks = torch.zeros(8, 1, 24, 24)
    for i in range(8):
        x[i, 0, 4 + i : 12 + i, 5:13] = masks[i, 0, 4 + i : 12 + i, 5:13] = float(i + 1)
    batch = {"image": x, "masks": (masks > 0).to(torch.uint8)}
    turned = Pipeline([pellucid.RandomRotation((20, 40), interpolation="nearest"), CopyPaste(share=1.0)], seed=1)
    out = turned(batch)
    for i in range(8):
        assert torch.equal(out["image"][i, 0] == (i ^ 1) + 1, out["masks"][i, 1].bool())
        assert torch.equal(out["image"][i, 0] == i + 1, out["masks"][i, 0].bool())


def test_a_soft_edge_is_a_gaussian_of_the_union():
    ndimage = pytest.importorskip("scipy.ndimage", reason="SciPy is not installed: it is the oracle of the soft edge")
    batch = blocks(seed=7)
    batch["masks"] = batch["masks"].double()  # in whose precision the edge is computed
    hard, soft = (Pipeline([CopyPaste(share=0.7, sigma=sigma)], seed=2)(batch) for sigma in (0.0, 1.3))
    for key in ("masks", "boxes", "boxes_valid", "labels"):
        assert torch.equal(hard[key], soft[key])
    for i in range(4):
        alpha = hard["masks"][i, 3:].amax(0).double().numpy()
        alpha = ndimage.gaussian_filter(alpha, 1.3, radius=4, mode="mirror")
        expected = batch["image"][i ^ 1].numpy() * alpha + batch["image"][i].numpy() * (1 - alpha)
        np.testing.assert_allclose(soft["image"][i].numpy(), expected, rtol=0, atol=1e-12)


def test_bytes_and_mattes():
    batch = blocks(seed=3)
    given = {**batch, "image": (batch["image"] * 255).round().to(torch.uint8)}
    out = Pipeline([CopyPaste()], seed=2)(given)
    alpha = out["masks"][:, 3:].amax(1, keepdim=True).bool()
    assert torch.equal(out["image"], torch.where(alpha, given["image"][[1, 0, 3, 2]], given["image"]))
    mattes = {**batch, "masks": batch["masks"] * 0.75}
    seen = Pipeline([CopyPaste(share=1.0)])(mattes)["image"]
    alpha = mattes["masks"].amax(1, keepdim=True)[[1, 0, 3, 2]]
    torch.testing.assert_close(seen, batch["image"][[1, 0, 3, 2]] * alpha + batch["image"] * (1 - alpha))


def test_gradients_reach_both_pictures_and_mattes():
    batch = blocks(count=2, objects=2, size=(4, 5))
    pasting = Pipeline([CopyPaste(share=1.0, sigma=0.8)], seed=0)
    record = pasting.draw(batch)
    generator = torch.Generator().manual_seed(1)
    mattes = torch.rand((2, 2, 4, 5), generator=generator, dtype=torch.float64).mul(0.8).add(0.1).requires_grad_()
    image, gate = batch["image"].requires_grad_(), torch.full((2,), 0.9, dtype=torch.float64, requires_grad=True)

    def through(image, masks, gate):
        return pasting.apply({"image": image, "masks": masks}, record.with_param(0, "gate", gate))["image"]

    record = pellucid.Record(record.plan, ({**record.params[0], "gate": gate.detach()},), 2)
    assert gradcheck(through, (image, mattes, gate))
    (slope,) = torch.autograd.grad(through(image, mattes, gate)[0].sum(), image)
    assert slope[0].any()
    assert slope[1].any()


def test_the_lowest_of_the_batch_is_its_prefix_and_frames_meet():
    batch = blocks(6)
    whole = Pipeline([CopyPaste()], seed=3)(batch)
    part = Pipeline([CopyPaste()], seed=3)({key: value[:4] for key, value in batch.items()})
    for key, value in part.items():
        assert torch.equal(whole[key][:4], value), key
    clips = {key: torch.stack((value, value.flip(1) if key != "image" else value), 1) for key, value in batch.items()}
    labels = clips.pop("labels")
    frames = Pipeline([CopyPaste()], seed=3)({**clips, "labels": labels})
    assert torch.equal(frames["image"][:, 0], whole["image"])
    assert torch.equal(frames["masks"][:, 0], whole["masks"])
    assert frames["labels"].shape == (6, 2, 6)


def test_records_hold_no_masks_and_replay_on_others():
    batch, other = blocks(seed=1), blocks(seed=2)
    pasting = Pipeline([CopyPaste()], seed=3)
    out, record = pasting(batch, return_record=True)
    assert {name: value.shape for name, value in record.params[0].items()} == {"share": (4,), "words": (4, 2)}
    assert torch.equal(pasting.apply(batch, record)["image"], out["image"])
    there = pasting.apply(other, record)
    assert torch.equal(there["boxes_valid"][:, 3:], out["boxes_valid"][:, 3:])
    rest = pasting.apply({key: value[2:] for key, value in batch.items()}, record[2:])
    assert torch.equal(rest["image"], out["image"][2:])


def test_pictures_without_masks_stay_and_boxes_without_them_are_refused():
    batch = blocks()
    assert torch.equal(CopyPaste(share=1.0)(batch["image"]), batch["image"])
    points = CopyPaste(share=1.0)({"image": batch["image"], "keypoints": batch["boxes"][..., :2]})
    assert points["keypoints_valid"].tolist() == [[True] * 3 + [False] * 3] * 4
    for fewer in ({"boxes": batch["boxes"]}, {"boxes": batch["boxes"][:, :2], "masks": batch["masks"]}):
        refused(InvalidArgument, r"CopyPaste.*masks.*one for each box", CopyPaste(), {"image": batch["image"], **fewer})
    two = {"image": batch["image"], "masks": batch["masks"], "masks_b": batch["masks"]}
    refused(InvalidArgument, r"CopyPaste.*once", Pipeline([CopyPaste()], targets={"masks_b": "mask"}), two)
    none = {"image": batch["image"], "masks": batch["masks"][:, :0], "boxes": batch["boxes"][:, :0]}
    out = CopyPaste(share=1.0)(none)
    assert torch.equal(out["image"], batch["image"])
    assert out["masks"].shape == (4, 0, *SIZE)


def test_turned_boxes_keep_their_shape_and_formats_are_kept():
    batch = blocks(seed=6)
    plain = Pipeline([CopyPaste()], seed=1)(batch)
    wide = pellucid.boxes.convert_boxes(batch["boxes"], "xyxy", "xywh")
    out = Pipeline([CopyPaste()], seed=1, box_format="xywh")({**batch, "boxes": wide})
    valid = plain["boxes_valid"]
    assert torch.equal(out["boxes_valid"], valid)
    back = pellucid.boxes.convert_boxes(out["boxes"], "xywh", "xyxy")
    torch.testing.assert_close(back[valid], plain["boxes"][valid])
    turned = torch.cat((pellucid.boxes.convert_boxes(batch["boxes"], "xyxy", "cxcywh"), torch.zeros(4, 3, 1)), -1)
    out = Pipeline([CopyPaste()], seed=1, box_format="cxcywhr")({**batch, "boxes": turned})
    assert torch.equal(out["boxes_valid"], valid)


def test_masks_beside_boxes_follow_a_mosaic():
    """Rows of masks, boxes and labels of all four, and every mask shows within its box."""
    batch = blocks(8, size=(20, 20))
    out = Pipeline([Mosaic(scale=(0.6, 1.0))], seed=2)(batch)
    assert out["masks"].shape == (8, 12, 20, 20)
    assert out["labels"].shape == (8, 12)
    found = 0
    for i in range(8):
        for n in range(12):
            mask = out["masks"][i, n].numpy()
            if mask.any() and bool(out["boxes_valid"][i, n]):
                found += 1
                low, high = np.array(hull(mask)), out["boxes"][i, n].numpy()
                assert np.abs(low - high).max() <= 1.0
            elif mask.any():
                assert mask.sum() <= 2  # a rounding at an edge
    assert found > 20
    alone = Pipeline([Mosaic(scale=(0.6, 1.0))], seed=2)({"image": batch["image"], "masks": batch["masks"]})
    assert alone["masks"].shape == (8, 3, 20, 20)  # channels, without boxes beside them


def test_masks_beside_boxes_follow_a_rectangle_and_a_mean():
    batch = blocks(4, seed=9)
    out, record = Pipeline([pellucid.CutMix()], seed=1)(batch, return_record=True)
    whose = torch.arange(4)[:, None, None].expand(4, *SIZE)
    shown = Pipeline([]).apply({"mask": whose}, record)["mask"]
    for i in range(4):
        theirs = (shown[i] == i ^ 1).double()
        assert torch.equal(out["masks"][i, 3:].double(), batch["masks"][i ^ 1] * theirs)
        assert torch.equal(out["masks"][i, :3].double(), batch["masks"][i] * (1 - theirs))
    mean = Pipeline([pellucid.MixUp((0.3, 0.3))])(batch)
    assert torch.equal(mean["masks"], torch.cat((batch["masks"], batch["masks"][[1, 0, 3, 2]]), 1))


def test_after_a_mosaic_what_it_shows_is_pasted():
    batch = blocks(8, size=(20, 20))
    pipeline = Pipeline([Mosaic(scale=(0.6, 1.0)), CopyPaste(share=0.5)], seed=2)
    out, record = pipeline(batch, return_record=True)
    first = Pipeline([]).apply(batch, record.step(0))
    then = Pipeline([]).apply(first, record.step(1))
    for key in ("image", "masks", "boxes", "boxes_valid", "labels"):
        assert torch.equal(out[key], then[key]), key
    assert out["masks"].shape[1] == out["boxes"].shape[1] == out["labels"].shape[1] == 24


def test_it_compiles_to_one_graph():
    pasting = Pipeline([pellucid.RandomRotation(10), CopyPaste(share=(0.3, 0.9), sigma=0.7, p=0.8)], seed=0)
    compiled = torch.compile(pasting, fullgraph=True, backend="eager")
    batch = {key: value.float() if value.is_floating_point() else value for key, value in blocks().items()}
    for step in range(3):
        key = Key(1, step)
        out, expected = compiled(batch, key=key), pasting(batch, key=key)
        for name in batch:
            torch.testing.assert_close(out[name], expected[name], rtol=0, atol=1e-6)


def test_one_of_two_ways():
    batch = blocks(64)
    mixing = Pipeline([pellucid.OneOf([CopyPaste(share=1.0), pellucid.RandomInvert(p=1.0)])], seed=2)
    out, record = mixing(batch, return_record=True)
    pasted = record.params[0]["choice"].argmax(1) == 0
    assert torch.equal(out["boxes_valid"][:, 3:].any(1), pasted)
    assert torch.equal(out["image"][~pasted], 1.0 - batch["image"][~pasted])
