"""Draws that decide the size of a result: one picture, lists, and batches that end in one size."""

import numpy as np
import pytest
import torch

import pellucid as P
from pellucid import InvalidArgument, Key, Pipeline
from pellucid.core.tape import recording
from tests.refusals import refused

TALL = torch.rand(6, 3, 4, 7, generator=torch.Generator().manual_seed(0))
DRAWN = [
    P.RandomRotation90(p=0.8),
    P.RandomD4((5,), p=0.5),
    P.RandomD4(),
    P.RandomShortestSize((3, 4, 6), 9),
    P.RandomRescale((0.6, 1.9), p=0.7),
    P.RandomCropFromBorders(left=(0.0, 0.4), top=0.2, right=(0.1, 0.4), bottom=(0.0, 0.3), p=0.8),
]


def by_name(transforms):
    return pytest.mark.parametrize("transform", transforms, ids=lambda one: type(one).__name__)


@by_name(DRAWN)
def test_a_list_is_what_each_picture_is_alone(transform):
    pictures = [TALL[0], TALL[1, :, :3], TALL[2], TALL[3], TALL[4, :, :, :4]]
    pipeline = Pipeline([transform], seed=4)
    out, record = pipeline(pictures, key=Key(4, 2), return_record=True)
    alone = [pipeline(one, key=Key(4, 2, torch.tensor([i]))) for i, one in enumerate(pictures)]
    assert len({one.shape for one in out}) > 1
    assert all(torch.equal(a, b) for a, b in zip(out, alone, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(out, pipeline.apply(pictures, record), strict=True))
    assert [one.shape[-2:] for one in out] == list(record.sizes_out)


@by_name(DRAWN)
def test_a_batch_needs_one_size_and_gets_it_by_a_crop_behind(transform):
    refused(InvalidArgument, "list\\(batch\\)", Pipeline([transform], seed=1), TALL)
    shared = Pipeline([transform], seed=1, same_on_batch=True)
    assert len({shared(TALL).shape for _ in range(6)}) > 1
    ends = Pipeline([transform, P.RandomCrop(2), P.RandomInvert()], seed=1)
    out, record = ends({"image": TALL, "keypoints": torch.ones(6, 1, 2)}, return_record=True)
    each = [ends(one, key=Key(1, 0, torch.tensor([i]))) for i, one in enumerate(TALL)]
    assert out["keypoints"].shape == (6, 1, 2)
    assert torch.equal(out["image"], torch.stack(each))
    assert torch.equal(ends.apply({"image": TALL, "keypoints": torch.ones(6, 1, 2)}, record)["image"], out["image"])


@by_name(DRAWN)
def test_gradients_and_files_know_what_was_drawn(transform, tmp_path):
    picture = TALL[:1].double().requires_grad_()
    pipeline = Pipeline([transform], seed=0)
    out, record = pipeline(picture, return_record=True)
    (slope,) = torch.autograd.grad(out.sum(), picture)
    inside = torch.autograd.functional.jvp(lambda x: pipeline.apply(x, record), picture.detach(), torch.ones_like(picture))[1]
    torch.testing.assert_close(slope.sum(), inside.sum())
    record.save(tmp_path / "one.pt")
    assert torch.equal(pipeline.apply(picture, P.Record.load(tmp_path / "one.pt")), out)
    assert Pipeline.from_dict(pipeline.to_dict())[0] == transform


@by_name(DRAWN)
def test_pictures_of_one_kind_go_by_the_recipe_of_what_they_drew(transform):
    picture = TALL[0].permute(1, 2, 0).contiguous().mul(255).round().to(torch.uint8).numpy()
    known, anew = (Pipeline([transform, P.RandomHorizontalFlip()], seed=3, out="same") for _ in range(2))
    for step in range(30):
        anew._recipes.clear()
        one, other = known(picture), anew(picture)
        assert one.shape == other.shape
        assert np.array_equal(one, other)
        assert np.array_equal(known(picture, key=Key(7, step)), anew(picture, key=Key(7, step)))
    assert known.step == anew.step == 30
    assert bool(known._recipes) != transform.many_sizes


def test_nothing_is_recorded_for_a_size_that_one_draw_decided():
    pipeline = Pipeline([P.RandomRescale((0.6, 1.9)), P.RandomInvert()], seed=0)
    pipeline(TALL[0])
    before = len(recording._recordings)
    assert len({pipeline(TALL[0]).shape for _ in range(20)}) > 5
    assert len(recording._recordings) == before


def test_turns_are_numpys():
    picture = TALL[0]
    for element in range(8):
        theirs = np.rot90(picture.numpy()[..., ::-1] if element > 3 else picture.numpy(), element % 4, (1, 2))
        assert np.array_equal(P.RandomD4((element,))(picture).numpy(), theirs), element
    assert torch.equal(P.RandomD4((5,))(picture), picture.mT)
    boxes = torch.tensor([[1.0, 0.5, 3.0, 2.0]])
    moved = P.RandomD4((5,))({"image": picture, "boxes": boxes})["boxes"]
    assert torch.equal(moved, boxes[:, [1, 0, 3, 2]])


def test_every_symmetry_is_as_likely():
    drawn = Pipeline([P.RandomD4()], seed=3).draw(torch.zeros(4000, 1, 2, 2)).params[0]["elements"]
    assert (torch.bincount(drawn.long(), minlength=8) - 500).abs().max() < 100


@pytest.mark.parametrize(("size", "most"), [(30, None), (30, 40), (70, 64), (50, 1000)])
def test_sizes_are_torchvisions(size, most):
    from tests.peers import torchvision_functional

    torchvision_functional()
    from torchvision.transforms import v2

    picture = torch.rand(3, 37, 53)
    theirs = v2.RandomShortestSize((size,), most)(picture)
    ours = P.RandomShortestSize((size,), most)(picture)
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)
    assert P.RandomRescale(0.77)(picture).shape[-2:] == (int(37 * 0.77), int(53 * 0.77))


def test_borders_are_cut_off():
    out = P.RandomCropFromBorders(left=0.2, top=0.25, right=0.4, bottom=0.0)(TALL[0])
    assert torch.equal(out, TALL[0, :, 1:, 1:4])


def test_views_take_one_size():
    views = Pipeline([P.RandomRescale((0.5, 2.0), same_on_batch=True)], seed=0).views(TALL, 2)
    assert views[0][0].shape[0] == 6
    refused(InvalidArgument, "one size here", Pipeline([P.RandomRescale((0.5, 2.0))], seed=0).views, TALL, 2)
    refused(InvalidArgument, "not learned", Pipeline([P.RandomRescale(P.Learnable(1.2))]), TALL[0])
