"""Records as maps: from view to view, at other resolutions, put together, and applied to other numbers of pictures."""

from functools import cache

import pytest
import torch
import torch.nn.functional as F

import pellucid as P
from tests.cases import CASES, IDS
from tests.refusals import refused

SIZE = (12, 12)
TRANSFORMS = {name: case.transform for case, name in zip(CASES, IDS, strict=True) if case.targets}
moving = pytest.mark.parametrize("mover", TRANSFORMS)


@pytest.fixture(autouse=True)
def _shapes_checked():
    """Every pair of transforms repeats the calls of ``test_targets.py``, where shapes in signatures are held to."""


@cache
def drawn(mover, step):
    augment = P.Pipeline([TRANSFORMS[mover]], seed=3)
    return augment, augment.draw(torch.zeros(4, 3, *SIZE), key=P.Key(3, step))


@moving
def test_a_map_is_inverse_then_apply_for_every_pair(mover):
    augment, a = drawn(mover, 1)
    height, width = a.size_out
    points = torch.rand(4, 6, 2, dtype=torch.float64) * torch.tensor([width - 1.0, height - 1.0])
    source = augment.inverse({"keypoints": points}, a)["keypoints"]
    for other in TRANSFORMS:
        onwards, b = drawn(other, 2)
        expected = onwards.apply({"keypoints": source}, b)["keypoints"]
        assert torch.allclose(a.map_to(b).points(points), expected, rtol=0, atol=1e-4)


@moving
def test_what_both_views_show_is_visible(mover):
    augment, a = drawn(mover, 1)
    points = torch.rand(4, 50, 2, dtype=torch.float64) * 15 - 2
    inside = ((points >= -0.5) & (points < SIZE[0] - 0.5)).all(-1)
    here = augment.apply({"keypoints": points}, a)
    for other in TRANSFORMS:
        onwards, b = drawn(other, 2)
        there = onwards.apply({"keypoints": points}, b)
        expected = inside & here["keypoints_valid"] & there["keypoints_valid"]
        assert torch.equal(a.map_to(b).visible(here["keypoints"]), expected)


@moving
def test_maps_of_strides_agree(mover):
    _, a = drawn(mover, 1)
    _, b = drawn(next(name for name in TRANSFORMS if "Affine" in name), 2)
    fine = a.map_to(b)
    (height, width), (tall, wide) = a.size_out, b.size_out
    coarse = a.at((6, 3), out=(5, 7)).map_to(b.at((6, 3), out=(4, 9)))
    points = torch.rand(4, 9, 2, dtype=torch.float64) * torch.tensor([width - 1.0, height - 1.0])
    scaled = (points + 0.5) * torch.tensor([7 / width, 5 / height]) - 0.5
    expected = (fine.points(points) + 0.5) * torch.tensor([9 / wide, 4 / tall]) - 0.5
    assert torch.allclose(coarse.points(scaled), expected, rtol=0, atol=1e-4)
    assert torch.allclose(coarse.grid(), (fine.grid((5, 7)) + 0.5) * torch.tensor([9 / wide, 4 / tall]) - 0.5, rtol=0, atol=1e-4)
    assert torch.equal(coarse.valid(), fine.valid((5, 7)))


def test_a_grid_reads_one_view_from_the_other():
    """A linear picture, which interpolation leaves as it is; torch's grid_sample reads it."""
    y, x = torch.meshgrid(torch.arange(40.0, dtype=torch.float64), torch.arange(48.0, dtype=torch.float64), indexing="ij")
    picture = torch.stack((x, y, x + y))[None]
    both = [P.RandomAffine(20, scale=(0.9, 1.1)), P.RandomResizedCrop((24, 30), scale=(0.4, 0.7), antialias=False)]
    (one, a), (two, b) = (P.Pipeline(both, seed=i)(picture, return_record=True) for i in (1, 2))
    across = a.map_to(b)
    height, width = b.size_out
    grid = (2 * across.grid() + 1) / torch.tensor([width, height]) - 1
    read = F.grid_sample(two, grid, align_corners=False)
    inner = across.valid() & (across.grid() > 1).all(-1) & (across.grid() < torch.tensor([width - 2.0, height - 2.0])).all(-1)
    source = a.map_to(P.Pipeline([]).draw(picture)).grid()
    inner &= (source > 2).all(-1) & (source < torch.tensor([45.0, 37.0])).all(-1)
    assert inner.double().mean() > 0.3
    assert ((read - one).abs().amax(1)[inner] < 1e-6).all()


def test_matrix_points_and_their_gradients():
    pictures = torch.rand(2, 3, 9, 11)
    augment = P.Pipeline([P.RandomPerspective(0.4, p=1.0), P.RandomGamma(), P.RandomCrop((6, 7))], seed=1)
    a, b = augment.draw(pictures), augment.draw(pictures).requires_grad_()
    points = torch.rand(5, 2, dtype=torch.float64) * 5
    across = a.map_to(b)
    from pellucid.geometry.points import transform_points

    assert torch.allclose(across.points(points), transform_points(points.expand(2, -1, -1), across.matrix), atol=1e-9)
    across.points(points).square().sum().backward()
    assert all(
        bool((values["weights" if "weights" in values else name].grad != 0).any()) for values in b.params[:1] for name in values
    )


def test_a_logit_map_goes_through_the_same_draw():
    """Ramps of coordinates at stride 4 come to lie where the matrix at stride 1 says."""
    augment = P.Pipeline([P.RandomRotation(25), P.RandomCrop((40, 32)), P.ColorJitter(0.1)], seed=2)
    record = augment.draw(torch.rand(3, 3, 48, 64))
    coarse = record.at((12, 16))
    assert coarse.size_out == (10, 8)
    y, x = torch.meshgrid(torch.arange(12.0, dtype=torch.float64), torch.arange(16.0, dtype=torch.float64), indexing="ij")
    out = augment.apply({"heatmap": torch.stack((x, y)).expand(3, -1, -1, -1)}, coarse)["heatmap"]
    nothing = P.Pipeline([]).draw(torch.rand(1, 3, 48, 64))
    expected = (record.map_to(nothing).grid((10, 8)) + 0.5) / 4 - 0.5
    inner = (expected > 0).all(-1) & (expected < torch.tensor([15.0, 11.0])).all(-1)
    assert inner.double().mean() > 0.5
    assert torch.allclose(out.movedim(1, -1)[inner], expected[inner], atol=1e-5)
    assert record.at((48, 64)).plan == record.plan


def test_resolutions_that_do_not_divide_are_told():
    record = P.Pipeline([P.CenterCrop((10, 8))]).draw(torch.rand(1, 3, 16, 16))
    refused(P.InvalidArgument, r"size: expected one that makes \(10, 8\) whole numbers, too.*out=", record.at, 4)
    assert record.at(4, out=(2, 2)).size_out == (2, 2)


def test_records_are_rows():
    augment = P.Pipeline([P.RandomAffine(30), P.RandomHorizontalFlip(), P.ColorJitter(0.3)], seed=4)
    left, right = torch.rand(2, 3, 3, 10, 12)
    (out_left, a), (out_right, b) = augment(left, return_record=True), augment(right, return_record=True)
    both = P.Record.cat([a, b])
    assert torch.equal(augment.apply(torch.cat((left, right)), both), torch.cat((out_left, out_right)))
    mask = torch.tensor([True, False, True])
    mixed = augment.apply(left, a.where(mask, b))
    other = augment.apply(left, b)
    assert torch.equal(mixed, torch.where(mask[:, None, None, None], out_left, other))
    again = augment.apply(left.repeat(2, 1, 1, 1), a.repeat(2))
    assert torch.equal(again, out_left.repeat(2, 1, 1, 1))
    singles = [augment(picture, return_record=True) for picture in left]
    stacked = P.Record.stack([record for _, record in singles])
    assert torch.equal(augment.apply(left, stacked), torch.stack([out for out, _ in singles]))
    assert torch.equal(augment.apply(left[1:2], a[1]), out_left[1:2])
    assert a.bounds()["0.degrees"] == (-30.0, 30.0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8])
def test_a_record_of_one_row_applies_to_any_number(dtype):
    augment = P.Pipeline(
        [P.RandomAffine(30), P.ColorJitter(0.3, 0.3, saturation=0.3, hue=0.1, clip="each"), P.RandomGamma()], seed=4
    )
    pictures = (torch.rand(4, 3, 10, 12) * 255).to(dtype) if dtype == torch.uint8 else torch.rand(4, 3, 10, 12)
    record = augment.draw(pictures[0])
    points = torch.rand(4, 5, 2) * 8
    out = augment.apply({"image": pictures, "keypoints": points}, record)
    for i in range(4):
        alone = augment.apply({"image": pictures[i], "keypoints": points[i]}, record)
        assert torch.allclose(out["image"][i].double(), alone["image"].double(), atol=1e-6)
        assert torch.equal(out["keypoints"][i], alone["keypoints"])
    assert augment.inverse(out["image"], record).shape == pictures.shape
    video = pictures.expand(2, -1, -1, -1, -1)
    assert torch.allclose(augment.apply(video, record)[1].double(), out["image"].double(), atol=1e-6)


@moving
def test_the_inverse_says_what_the_view_had_shown(mover):
    augment, record = drawn(mover, 1)
    ones = torch.ones(4, 3, *record.size_out)
    back, valid = augment.inverse(ones, record, return_valid=True)
    assert valid.shape == (4, 1, *SIZE)
    assert torch.allclose(back, valid.expand_as(back), atol=1e-6)
    named = augment.inverse({"image": ones, "keypoints": torch.zeros(4, 1, 2)}, record, return_valid=True)
    assert torch.equal(named["valid"], valid)
    y, x = torch.meshgrid(torch.arange(12.0), torch.arange(12.0), indexing="ij")
    seen = augment.apply({"keypoints": torch.stack((x, y), -1).flatten(0, 1).expand(4, -1, -1)}, record)["keypoints_valid"]
    shown = valid.flatten(1)
    assert not bool((shown[~seen] > 0.5 + 1e-5).any())
    assert not bool((shown[seen] < 0.25 - 1e-5).any())


def test_mistakes_are_told():
    augment, pictures = P.Pipeline([P.RandomRotation(10)]), torch.rand(3, 3, 8, 8)
    record = augment.draw(pictures)
    other = P.Pipeline([P.RandomRotation(11)]).draw(pictures)
    with pytest.raises(P.InvalidArgument, match=r"map_to: expected a record for pictures of \(8, 8\).*record.at"):
        record.map_to(augment.draw(torch.rand(3, 3, 9, 8)))
    refused(P.InvalidArgument, "map_to: expected a record of 3 samples, or of 1, got 2", record.map_to, record[:2])
    refused(P.InvalidType, "record: expected the Record of an earlier call", record.map_to, record.matrix)
    refused(P.InvalidArgument, r"xy: expected points \(N, 2\) or \(3, N, 2\)", record.map_to(record).points, torch.rand(3, 4, 3))
    for put in (lambda: P.Record.cat([record, other]), lambda: record.where(torch.ones(3).bool(), other), lambda: P.Record.cat([])):
        refused(P.InvalidArgument, r"expected (records of one pipeline|at least one record)", put)
    refused(P.InvalidArgument, r"where: expected a boolean \(3,\) mask", record.where, torch.ones(3), record)
    refused(P.InvalidArgument, r"Record.stack: expected records of one sample", P.Record.stack, [record])
    for replay in (augment.apply, augment.inverse):
        with pytest.raises(P.InvalidArgument, match=r"record: expected one of this pipeline's: .*Replay it with"):
            replay(pictures, P.Pipeline([P.RandomHorizontalFlip()]).draw(pictures))
    refused(P.InvalidArgument, "2 samples, as in the record", augment.apply, pictures, record[:2])


def test_a_map_of_views_with_different_resizes():
    pictures = torch.rand(1, 3, 32, 32)
    a, b = (P.Pipeline([P.Resize(size)]).draw(pictures) for size in (8, 16))
    assert torch.allclose(a.map_to(b).points(torch.tensor([[0.0, 0.0], [7.0, 3.0]])), torch.tensor([[[0.5, 0.5], [14.5, 6.5]]]))
