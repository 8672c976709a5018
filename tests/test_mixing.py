"""Pictures mixed with one another: against torchvision with the same draws, and every target beside its picture."""

import numpy as np
import pytest
import torch

import pellucid
from pellucid import Beta, CutMix, InvalidArgument, Key, MixUp, Mosaic, OneOf, Pipeline
from tests.peers import torchvision_functional
from tests.refusals import refused


def pictures(count=4, size=(11, 13), dtype=torch.float64):
    return torch.rand((count, 3, *size), generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(dtype)


def peer(name, lam, monkeypatch, corner=None):
    """torchvision's transform with these draws."""
    torchvision_functional()
    from torchvision.transforms import v2

    class Drawn:
        def sample(self, shape):
            return torch.tensor(lam, dtype=torch.float64).reshape(shape)

    made = getattr(v2, name)(num_classes=7)
    made._dist = Drawn()
    if corner is not None:
        places = iter(corner)
        monkeypatch.setattr(torch, "randint", lambda *args, **kwargs: torch.tensor([next(places)]))
    return made


def test_mixup_is_torchvisions(monkeypatch):
    x, labels = pictures(), torch.tensor([0, 3, 6, 3])
    mixing = Pipeline([MixUp(Beta(0.4), num_classes=7, pairing="roll", same_on_batch=True)], seed=4)
    ours, record = mixing({"image": x, "labels": labels}, return_record=True)
    theirs = peer("MixUp", record.params[0]["lam"][0].item(), monkeypatch)(x, labels)
    torch.testing.assert_close(ours["image"], theirs[0], rtol=0, atol=1e-15)
    torch.testing.assert_close(ours["labels"], theirs[1], rtol=0, atol=1e-6)  # labels are float32 in both


@pytest.mark.parametrize("step", range(12))
def test_cutmix_is_torchvisions(step, monkeypatch):
    x, labels = pictures(), torch.tensor([0, 3, 6, 3])
    mixing = Pipeline([CutMix(num_classes=7, pairing="roll", same_on_batch=True)])
    ours, record = mixing({"image": x, "labels": labels}, key=Key(2, step), return_record=True)
    lam, across, down = (record.params[0][name][0].item() for name in ("lam", "x", "y"))
    corner = int(across * x.shape[3]), int(down * x.shape[2])
    theirs = peer("CutMix", lam, monkeypatch, corner)(x, labels)
    assert torch.equal(ours["image"], theirs[0])
    torch.testing.assert_close(ours["labels"], theirs[1], rtol=0, atol=1e-6)


def test_neighbours_meet_and_a_last_one_alone_stays():
    x = pictures(5)
    out, record = Pipeline([MixUp(num_classes=3)], seed=1)(x, return_record=True)
    lam = record.params[0]["lam"][:, None, None, None]
    expected = lam * x + (1 - lam) * x[[1, 0, 3, 2, 4]]
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-15)


def test_parts_of_a_record_keep_partners_or_are_refused():
    x, mixing = pictures(6), Pipeline([CutMix()], seed=1)
    out, record = mixing(x, return_record=True)
    assert torch.equal(mixing.apply(x[2:6], record[2:6]), out[2:6])
    order = torch.tensor([4, 5, 0, 1])
    assert torch.equal(mixing.apply(x[order], record[order]), out[order])
    for part in (slice(1, 3), slice(0, 3), torch.tensor([1, 0, 3]), 2):
        with pytest.raises(InvalidArgument, match="mixed with"):
            record[part]
    rolled = Pipeline([CutMix(pairing="roll")], seed=1).draw(x)
    assert rolled[:].samples == 6
    with pytest.raises(InvalidArgument, match="mixed with"):
        rolled[0:4]


def test_no_inverse_and_no_matrix():
    x = pictures()
    mixing = Pipeline([pellucid.RandomRotation(20), MixUp(), pellucid.RandomHorizontalFlip()], seed=3)
    out, record = mixing(x, return_record=True)
    for call in (lambda: mixing.inverse(out, record), lambda: record.matrix, lambda: record.src_from_dst):
        refused(InvalidArgument, r"MixUp.*step 1.*record\.step", call)
    assert record.step(0).matrix.shape == (4, 3, 3)


def test_lists_are_refused():
    with pytest.raises(InvalidArgument, match="one batch for MixUp"):
        Pipeline([pellucid.Resize(8), MixUp()])([torch.rand(3, 9, 9), torch.rand(3, 7, 8)])


@pytest.mark.parametrize("mixing", [MixUp(p=0.5), CutMix(p=0.5)])
def test_what_lies_around_it_is_done_before_and_after(mixing):
    before = [pellucid.RandomAffine(20, translate=(0.2, 0.1)), pellucid.ColorJitter(0.3, 0.3)]
    after = [pellucid.RandomRotation(15), pellucid.RandomInvert()]
    x = pictures(4)
    batch = {"image": x, "mask": (x[:, 0] > 0.5).long(), "heatmap": x[:, :2]}
    whole, record = Pipeline([*before, mixing, *after], seed=9)(batch, return_record=True)
    parts = {key: batch[key] for key in batch}
    for index in range(5):
        parts = Pipeline([]).apply(parts, record.step(index))
    torch.testing.assert_close(whole["image"].mean(), parts["image"].mean(), rtol=0, atol=5e-3)  # interpolated once, not twice
    alone = Pipeline([*before], seed=9)
    first = pellucid.Record(alone.plan(record.plan.specs[0]), record.params[:2], 4)
    mixed = Pipeline([mixing]).apply(alone.apply(batch, first), record.step(2))
    turned = Pipeline(after)
    last = pellucid.Record(turned.plan(record.plan.specs[3]), record.params[3:], 4)
    expected = turned.apply(mixed, last)
    for key in batch:
        assert torch.equal(whole[key], expected[key]), key


def test_one_of_two_mixings_in_one_plan():
    x, labels = pictures(64), torch.arange(64) % 5
    mixing = Pipeline([OneOf([MixUp(num_classes=5), CutMix(num_classes=5)])], seed=2)
    out, record = mixing({"image": x, "labels": labels}, return_record=True)
    chosen = record.params[0]["choice"].argmax(1)
    assert set(chosen.tolist()) == {0, 1}
    neighbour = torch.arange(64) ^ 1
    partner = x[neighbour]
    lam = record.params[1]["lam"][:, None, None, None]
    blended = lam * x + (1 - lam) * partner
    up = chosen == 0
    torch.testing.assert_close(out["image"][up], blended[up], rtol=0, atol=1e-15)
    there = torch.where(up[neighbour][:, None, None, None], blended[neighbour], partner)  # the first comes first
    nearest = torch.minimum((out["image"] - x).abs(), (out["image"] - there).abs())
    assert float(nearest[~up].max()) < 1e-15
    torch.testing.assert_close(out["labels"].sum(1), torch.ones(64))


def test_a_weight_learns_through_the_mixture():
    x, labels = pictures(2), torch.tensor([0, 1])
    mixing = Pipeline([MixUp(pellucid.Learnable(0.6), num_classes=2)])
    out = mixing({"image": x, "labels": labels})
    (slope,) = torch.autograd.grad(out["image"][0].sum(), list(mixing.learned.parameters()), retain_graph=True)
    h = 0.6 * 0.4  # the slope of the bounded parameter
    torch.testing.assert_close(slope.double().sum(), (x[0] - x[1]).sum() * h, rtol=1e-6, atol=0)
    (slope,) = torch.autograd.grad(out["labels"][0, 0], list(mixing.learned.parameters()))
    torch.testing.assert_close(slope.double().sum(), torch.tensor(h, dtype=torch.float64), rtol=1e-6, atol=0)
    assert out["labels"][0, 0].item() == pytest.approx(0.6)


def test_a_soft_edge_is_the_share_covered_and_labels_are_its_mean():
    x = torch.stack((torch.zeros(1, 9, 12), torch.ones(1, 9, 12))).double()
    mixing = Pipeline([CutMix((0.6, 0.6), num_classes=2, edge=1.0)], seed=0)
    for step in range(5):
        out, record = mixing({"image": x, "labels": torch.eye(2, dtype=torch.float64)}, key=Key(0, step), return_record=True)
        across, down = (record.params[0][name][0].item() for name in ("x", "y"))
        half = 0.4**0.5 / 2
        x0, x1, y0, y1 = (across - half) * 12, (across + half) * 12, (down - half) * 9, (down + half) * 9
        area = (min(x1, 12) - max(x0, 0)) * (min(y1, 9) - max(y0, 0)) / 108
        assert out["image"][0].mean().item() == pytest.approx(area, abs=1e-12)
        assert out["labels"][0, 1].item() == pytest.approx(area, abs=1e-12)


BOXES = torch.tensor([[[1.0, 1.0, 5.0, 4.0], [2.0, 6.0, 12.0, 9.0]], [[0.0, 0.0, 13.0, 11.0], [6.0, 5.0, 8.0, 7.0]]])


def cut_at(box, labels=None):
    """CutMix of a rectangle given as (x0, y0, x1, y1) of an 11 x 13 picture, on two samples with two boxes each."""
    x0, y0, x1, y1 = box
    batch = {"image": pictures(2), "boxes": BOXES, "keypoints": BOXES[..., :2] + 0.25, "labels": torch.tensor([[1, 2], [3, 4]])}
    mixing = Pipeline([CutMix(edge=1.0)], seed=0)
    record = mixing.draw(batch)
    lam = 1 - ((x1 - x0) / 13) ** 2
    assert (y1 - y0) / 11 == pytest.approx((x1 - x0) / 13)
    for name, value in (("lam", lam), ("x", (x0 + x1) / 26), ("y", (y0 + y1) / 22)):
        record = record.with_param(0, name, torch.full((2,), value, dtype=torch.float64))
    return mixing.apply(batch, record)


def test_rows_of_both_stand_one_after_the_other_with_their_labels():
    out = cut_at((3.0, 2.0, 9.5, 7.5))
    assert out["boxes"].shape == (2, 4, 4)
    assert out["labels"].tolist() == [[1, 2, 3, 4], [3, 4, 1, 2]]
    assert out["boxes_valid"].tolist() == [[True, True, True, True], [True, False, True, True]]  # hidden: it lies in the rectangle
    torch.testing.assert_close(out["boxes"][0, :2], BOXES[0])  # a covered corner, and a covered middle, leave the hull
    torch.testing.assert_close(out["boxes"][0, 2:], torch.tensor([[3.0, 2.0, 9.5, 7.5], [6.0, 5.0, 8.0, 7.0]]), rtol=0, atol=1e-5)
    kept = out["keypoints_valid"]
    assert kept.tolist() == [[True, True, False, True], [True, False, False, False]]


def test_a_side_that_is_covered_from_end_to_end_is_taken_off():
    boxes = torch.tensor([[[4.0, 3.0, 8.0, 10.0]], [[0.0, 0.0, 1.0, 1.0]]])
    mixing = Pipeline([CutMix(edge=1.0)])
    batch = {"image": pictures(2), "boxes": boxes}
    record = mixing.draw(batch)
    for name, value in (("lam", 0.75), ("x", 0.5), ("y", 0.5)):  # a rectangle of 6.5 x 5.5 from (3.25, 2.75)
        record = record.with_param(0, name, torch.full((2,), value, dtype=torch.float64))
    out = mixing.apply(batch, record)
    torch.testing.assert_close(out["boxes"][0, 0], torch.tensor([4.0, 8.25, 8.0, 10.0]))
    assert out["boxes_valid"].tolist() == [[True, False], [True, True]]


def test_boxes_show_what_the_picture_shows():
    """A bright block of each sample, found again in the mixture where its box is valid."""
    generator = torch.Generator().manual_seed(3)
    low = torch.randint(0, 20, (64, 2), generator=generator)
    high = low + torch.randint(3, 10, (64, 2), generator=generator)
    x = torch.zeros(64, 2, 32, 32)
    for i in range(64):
        x[i, i % 2, low[i, 1] : high[i, 1], low[i, 0] : high[i, 0]] = 1.0
    boxes = torch.cat((low, high), 1)[:, None].float()
    out = Pipeline([CutMix()], seed=5)({"image": x, "boxes": boxes})
    for i in range(64):
        for row, channel in enumerate((i % 2, 1 - i % 2)):
            seen = out["image"][i, channel].nonzero()
            assert bool(out["boxes_valid"][i, row]) == bool(len(seen)), (i, row)
            if len(seen):
                hull = torch.cat((seen.amin(0).flip(0), seen.amax(0).flip(0) + 1)).float()
                assert torch.equal(out["boxes"][i, row], hull), (i, row)


def test_masks_take_the_heavier_picture_and_soft_ones_are_mixed():
    x = pictures(2)
    mask = torch.stack((torch.zeros(11, 13), torch.ones(11, 13)))
    mixing = Pipeline([MixUp((0.3, 0.3))])
    hard = mixing({"image": x, "mask": mask.long()})["mask"]
    assert hard[0].unique().tolist() == [1]
    soft = mixing({"image": x, "mask": mask})["mask"]
    torch.testing.assert_close(soft[0], torch.full((11, 13), 0.7))
    out = Pipeline([CutMix()], seed=3)({"image": mask[:, None].double(), "mask": mask.long()})
    assert torch.equal(out["image"][:, 0].long(), out["mask"])


def test_frames_meet_the_same_frame_of_the_other_clip():
    clips = pictures(12).unflatten(0, (4, 3))
    out, record = Pipeline([CutMix(num_classes=4)], seed=2)({"image": clips, "labels": torch.arange(4)}, return_record=True)
    for frame in range(3):
        alone = Pipeline([CutMix()], seed=2)(clips[:, frame])
        assert torch.equal(out["image"][:, frame], alone)
    assert out["labels"].shape == (4, 4)
    assert torch.equal(out["labels"].sum(1), torch.ones(4))
    assert record.samples == 4


def test_labels_that_nobody_can_mix_are_named():
    x = pictures(2)
    for labels, said in (
        (torch.tensor([0, 1]), r"num_classes"),
        (torch.tensor([[0, 1, 2], [1, 2, 3]]), r"shape \(2, 3\)"),
        (torch.zeros(3, 4), "labels of 2 samples"),
    ):
        refused(InvalidArgument, said, Pipeline([MixUp()]), {"image": x, "labels": labels})
    refused(pellucid.InvalidType, "passthrough", Pipeline([MixUp()]), {"image": x, "labels": ["cat", "dog"]})
    names = Pipeline([MixUp()], passthrough=("labels",))({"image": x, "labels": ["cat", "dog"]})
    assert names["labels"] == ["cat", "dog"]


def test_a_pixel_that_is_covered_leaves_no_nan():
    x = pictures(2)
    x[0] = torch.nan
    x.requires_grad_()
    mixing = Pipeline([CutMix()], seed=1)
    record = mixing.draw(x).with_param(0, "lam", torch.zeros(2, dtype=torch.float64))
    for name in ("x", "y"):
        record = record.with_param(0, name, torch.full((2,), 0.5, dtype=torch.float64))
    out = mixing.apply(x, record)
    rows, columns = slice(1, 10), slice(1, 12)
    assert bool(out[0, :, rows, columns].isfinite().all())
    (gradient,) = torch.autograd.grad(out[0, :, rows, columns].sum(), x)
    assert bool(gradient.isfinite().all())


def test_mixing_compiles_to_one_graph():
    mixing = Pipeline([pellucid.RandomRotation(10), MixUp(Beta(0.3), num_classes=3), CutMix(num_classes=3)], seed=0)
    compiled = torch.compile(mixing, fullgraph=True, backend="eager")
    batch = {"image": pictures(4, dtype=torch.float32), "labels": torch.tensor([0, 1, 2, 0])}
    for step in range(3):
        key = Key(1, step)
        out, expected = compiled(batch, key=key), mixing(batch, key=key)
        for name in batch:
            torch.testing.assert_close(out[name], expected[name], rtol=0, atol=1e-6)


def test_records_put_together_keep_partners_or_are_refused():
    x, mixing = pictures(6), Pipeline([MixUp()], seed=1)
    records = [mixing.draw(x[:4]), mixing.draw(x[4:])]
    together = pellucid.Record.cat(records)
    parts = [mixing.apply(x[:4], records[0]), mixing.apply(x[4:], records[1])]
    assert torch.equal(mixing.apply(x, together), torch.cat(parts))
    refused(InvalidArgument, r"Record\.cat.*mixed with", pellucid.Record.cat, [mixing.draw(x[:3]), mixing.draw(x[3:])])
    refused(InvalidArgument, "mixed with", pellucid.Record.stack, [mixing.draw(x[:1]), mixing.draw(x[1:2])])


def collage(x, record, size):
    """Mosaics by copying, for tiles of their own size."""
    height, width = size
    out = np.zeros((len(x), x.shape[1], height, width))
    for i in range(len(x)):
        cx, cy = (int(np.floor(record.params[0][name][i].item() * side + 0.5)) for name, side in (("x", width), ("y", height)))
        parts = [x[i ^ k] if (i ^ k) < len(x) else x[i] for k in range(4)]
        out[i, :, :cy, :cx] = parts[0][:, height - cy :, width - cx :]
        out[i, :, :cy, cx:] = parts[1][:, height - cy :, : width - cx]
        out[i, :, cy:, :cx] = parts[2][:, : height - cy, width - cx :]
        out[i, :, cy:, cx:] = parts[3][:, : height - cy, : width - cx]
    return out


def test_a_mosaic_is_copied_tiles():
    x = pictures(6)
    out, record = Pipeline([Mosaic(num_classes=6)], seed=3)({"image": x, "labels": torch.arange(6)}, return_record=True)
    assert np.array_equal(out["image"].numpy(), collage(x.numpy(), record, (11, 13)))
    shown = torch.zeros(6, 6)
    flat = Pipeline([Mosaic()], seed=3)(torch.eye(6)[:, :, None, None].expand(6, 6, 11, 13))
    torch.testing.assert_close(out["labels"], flat.mean((2, 3)) + shown, rtol=0, atol=1e-6)


def test_scaled_tiles_are_resampled_pictures():
    ndimage = pytest.importorskip("scipy.ndimage", reason="SciPy is not installed: it is the oracle of scaled tiles")
    x = pictures(4)
    out, record = Pipeline([Mosaic(scale=(1.2, 1.6))], seed=3)(x, return_record=True)
    scale = record.params[0]["scale"][0].item()
    cx, cy = (int(np.floor(record.params[0][name][0].item() * side + 0.5)) for name, side in (("x", 13), ("y", 11)))
    rows, columns = np.meshgrid(np.arange(cy, 11), np.arange(cx, 13), indexing="ij")
    places = [(rows + 0.5 - cy) / scale - 0.5, (columns + 0.5 - cx) / scale - 0.5]
    expected = ndimage.map_coordinates(x[3, 1].numpy(), places, order=1, mode="grid-constant")
    np.testing.assert_allclose(out[0, 1, cy:, cx:].numpy(), expected, rtol=0, atol=1e-12)


def test_boxes_go_with_their_tiles():
    generator = torch.Generator().manual_seed(3)
    low = torch.randint(0, 20, (64, 2), generator=generator)
    high = low + torch.randint(3, 12, (64, 2), generator=generator)
    x = torch.zeros(64, 4, 32, 32)
    for i in range(64):
        x[i, i % 4, low[i, 1] : high[i, 1], low[i, 0] : high[i, 0]] = 1.0
    boxes = torch.cat((low, high), 1)[:, None].float()
    batch = {"image": x, "boxes": boxes, "labels": torch.arange(64)[:, None]}
    out = Pipeline([Mosaic()], seed=5)(batch)
    assert out["boxes"].shape == (64, 4, 4)
    found = 0
    for i in range(64):
        for row in range(4):
            sample = int(out["labels"][i, row])
            assert sample == i ^ row
            seen = out["image"][i, sample % 4].nonzero()
            assert bool(out["boxes_valid"][i, row]) == bool(len(seen)), (i, row)
            if len(seen):
                found += 1
                hull = torch.cat((seen.amin(0).flip(0), seen.amax(0).flip(0) + 1)).float()
                assert torch.equal(out["boxes"][i, row], hull), (i, row)
    assert found > 64


def test_a_shuffled_grid_is_copied_tiles():
    x = pictures(5, size=(9, 12))
    points = torch.tensor([[[0.0, 0.0], [11.0, 8.0], [5.0, 4.0]]]).expand(5, 3, 2)
    mixing = Pipeline([pellucid.GridShuffle((3, 4), p=1.0)], seed=2)
    out, record = mixing({"image": x, "mask": (x * 100).long()[:, 0], "keypoints": points}, return_record=True)
    for i in range(5):
        order = record.params[0]["order"][i].tolist()
        for tile, taken in enumerate(order):
            (r, c), (r0, c0) = divmod(tile, 4), divmod(taken, 4)
            to = (slice(3 * r, 3 * r + 3), slice(3 * c, 3 * c + 3))
            fro = (slice(3 * r0, 3 * r0 + 3), slice(3 * c0, 3 * c0 + 3))
            assert torch.equal(out["image"][i][:, *to], x[i][:, *fro])
    assert torch.equal(out["mask"], (out["image"] * 100).long()[:, 0])
    assert out["keypoints_valid"].sum(1).tolist() == [3] * 5  # each lies in one tile
    for i in range(5):
        for at in out["keypoints_valid"][i].nonzero()[:, 0].tolist():
            before, after = points[i, at % 3].long(), out["keypoints"][i, at].round().long()
            assert torch.equal(out["image"][i, :, after[1], after[0]], x[i, :, before[1], before[0]])


def test_a_zoom_blur_is_the_mean_of_zooms():
    ndimage = pytest.importorskip("scipy.ndimage", reason="SciPy is not installed: it is the oracle of zooms")
    x = pictures(2, size=(12, 15))
    boxes = torch.tensor([[[1.0, 1.0, 5.0, 5.0]]]).expand(2, 1, 4)
    mixing = Pipeline([pellucid.RandomZoomBlur((1.3, 1.6), zooms=5, p=1.0)], seed=1)
    out, record = mixing({"image": x, "boxes": boxes}, return_record=True)
    assert torch.equal(out["boxes"], boxes)
    assert torch.equal(mixing.inverse(out["image"], record), out["image"])
    for i in range(2):
        factor, total = record.params[0]["factor"][i].item(), 0
        for k in range(5):
            zoom = 1 + (factor - 1) * k / 4
            places = np.meshgrid(5.5 + (np.arange(12) - 5.5) / zoom, 7 + (np.arange(15) - 7) / zoom, indexing="ij")
            total = total + ndimage.map_coordinates(x[i, 2].numpy(), places, order=1) / 5
        np.testing.assert_allclose(out["image"][i, 2].numpy(), total, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("size", "grid"), [((11, 13), (3, 4)), ((7, 9), (4, 2)), ((5, 3), (5, 3)), ((64, 50), (7, 9))])
def test_tiles_of_unequal_size_are_copied(size, grid):
    x = pictures(6, size=size)
    mixing = Pipeline([pellucid.GridShuffle(grid, p=0.8)], seed=2)
    out, record = mixing(x, return_record=True)
    rows, columns = ([k * length // count for k in range(count + 1)] for length, count in zip(size, grid, strict=True))
    for i in range(6):
        if not record.params[0]["gate"][i]:
            assert torch.equal(out[i], x[i])
            continue
        for tile, taken in enumerate(record.params[0]["order"][i].tolist()):
            (r, c), (r0, c0) = divmod(tile, grid[1]), divmod(taken, grid[1])
            height, width = rows[r + 1] - rows[r], columns[c + 1] - columns[c]
            top, left = min(rows[r0], size[0] - height), min(columns[c0], size[1] - width)
            here = out[i, :, rows[r] : rows[r + 1], columns[c] : columns[c + 1]]
            assert torch.equal(here, x[i, :, top : top + height, left : left + width])


def test_grids_that_have_no_tiles_are_refused():
    refused(InvalidArgument, r"at most 2x13 tiles", pellucid.GridShuffle(3), pictures(1, size=(2, 13)))
    refused(InvalidArgument, "at most 64 tiles", pellucid.GridShuffle, 9)


@pytest.mark.parametrize("mixing", [MixUp(p=0.5), CutMix(p=0.5)])
def test_a_closed_gate_has_the_slope_of_opening_it(mixing):
    x = pictures(2)
    pipeline = Pipeline([mixing], seed=1)
    record = pipeline.draw(x)
    for value in (0.0, 1.0):
        gate = torch.full((2,), value, dtype=torch.float64, requires_grad=True)
        (slope,) = torch.autograd.grad(pipeline.apply(x, record.with_param(0, "gate", gate))[0].sum(), gate)
        ends = [
            pipeline.apply(x, record.with_param(0, "gate", torch.full((2,), end, dtype=torch.float64)))[0] for end in (0.0, 1.0)
        ]
        torch.testing.assert_close(slope[0], (ends[1] - ends[0]).sum(), rtol=1e-12, atol=1e-12)


def test_the_colour_beyond_a_tile_is_in_the_images_units():
    x = (torch.rand(4, 3, 12, 14, generator=torch.Generator().manual_seed(1)) * 255).to(torch.uint8)
    grey, same, colour = (Pipeline([Mosaic(scale=(0.3, 0.5), fill=fill, p=1.0)]) for fill in (128, (128, 128, 128), (0, 128, 255)))
    for step in range(4):
        expected = grey(x, key=Key(2, step))
        assert torch.equal(same(x, key=Key(2, step)), expected)
        outside = (expected == 128).all(1)
        assert outside.any()
        assert (colour(x, key=Key(2, step)).movedim(1, -1)[outside] == torch.tensor([0, 128, 255], dtype=torch.uint8)).all()
    refused(InvalidArgument, r"Mosaic.fill: expected one number, or 3", Pipeline([Mosaic(fill=(0.1, 0.2))]), x)


@pytest.mark.parametrize("edge", [0.0, 2.0])
def test_a_rectangle_of_whole_pixels_has_no_gradient_anywhere(edge):
    """Neither one of zeros in one implementation and none in the other, nor one to labels alone."""
    x, mixing = pictures(4), Pipeline([CutMix(num_classes=3, edge=edge)], seed=1)
    record = mixing.draw(x)
    values = {name: record.params[0][name].clone().requires_grad_() for name in ("lam", "x", "y")}
    for name, value in values.items():
        record = record.with_param(0, name, value)
    for impl in ("reference", "auto"):
        out = Pipeline([CutMix(num_classes=3, edge=edge)], impl=impl).apply({"image": x, "labels": torch.arange(4) % 3}, record)
        assert [out[key].requires_grad for key in ("image", "labels")] == [edge > 0] * 2, impl


@pytest.mark.parametrize("transform", [MixUp, CutMix])
def test_a_class_number_beyond_the_classes_is_not_lost(transform):
    """Its share was zero for every class, and so was its loss."""
    mixing, x = Pipeline([transform(num_classes=3)], seed=0), pictures(2)
    refused(InvalidArgument, r"class numbers below 3, got 5", mixing, {"image": x, "labels": torch.tensor([0, 5])})
    kept = mixing({"image": x, "labels": torch.tensor([0, -1])})["labels"]
    assert kept.isfinite().all()
    assert (kept.sum(1) <= 1.0).all()
    compiled = torch.compile(mixing, backend="eager")
    assert compiled({"image": x, "labels": torch.tensor([0, 5])})["labels"].isnan().all()
