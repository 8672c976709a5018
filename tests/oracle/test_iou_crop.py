"""RandomIoUCrop on pictures and their boxes, against torchvision's; which window is chosen: tests/draws/test_windows.py."""

import pytest
import torch

import pellucid
from pellucid import InvalidArgument, Key, Pipeline
from pellucid.boxes import convert_boxes
from tests.peers import torchvision_functional
from tests.refusals import refused

SIZE, OUT = (40, 60), (24, 20)
CROP = pellucid.RandomIoUCrop(OUT)


def batch(samples=40, rows=6, seed=0):
    make = torch.Generator().manual_seed(seed)
    ends = torch.rand(samples, rows, 2, 2, generator=make).sort(dim=2).values
    boxes = torch.round(ends * torch.tensor((SIZE[1], SIZE[0]))).flatten(-2)  # whole pixels: centres also on edges of windows
    valid = torch.rand(samples, rows, generator=make) < 0.8
    return {"image": torch.rand(samples, 3, *SIZE, generator=make), "boxes": boxes, "boxes_valid": valid}


def test_boxes_and_which_are_kept_are_torchvisions():
    torchvision_functional()
    from torchvision import tv_tensors
    from torchvision.transforms import v2

    given = batch()
    out, record = Pipeline([CROP], seed=0)(given, return_record=True)
    windows, whole = record.params[0]["window"].long().tolist(), 0
    for b, (left, top, right, bottom) in enumerate(windows):
        boxes, height, width = given["boxes"][b], bottom - top, right - left
        middle = (boxes[:, :2] + boxes[:, 2:]) / 2
        inside = ((torch.tensor((left, top)) < middle) & (middle < torch.tensor((right, bottom)))).all(-1)
        params = {"top": top, "left": left, "height": height, "width": width, "is_within_crop_area": inside}
        theirs = tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=SIZE)
        if (height, width) == SIZE:
            whole += 1  # as is
        else:
            theirs = v2.RandomIoUCrop().transform(theirs, params)
        theirs = torch.as_tensor(v2.ClampBoundingBoxes()(theirs)).float() * torch.tensor((OUT[1] / width, OUT[0] / height)).repeat(
            2
        )
        kept = ((theirs[:, 2:] - theirs[:, :2]) > 0).all(-1) & given["boxes_valid"][b]
        assert torch.equal(out["boxes_valid"][b], kept)
        torch.testing.assert_close(out["boxes"][b][kept], theirs[kept], rtol=0, atol=1e-4)
    assert 0 < whole < 20
    visible = given["boxes_valid"] & pellucid.boxes.visible(out["boxes"], out["boxes"])
    assert bool((visible & ~out["boxes_valid"]).any())  # shown in part, with a centre outside


def test_pictures_are_cropped_and_resized():
    given = batch(8)
    out, record = Pipeline([CROP], seed=1)(given, return_record=True)
    for picture, found, window in zip(given["image"], out["image"], record.params[0]["window"].long().tolist(), strict=True):
        left, top, right, bottom = window
        cut = picture[None, :, top:bottom, left:right].double()
        wanted = torch.nn.functional.interpolate(cut, OUT, mode="bilinear", antialias=True, align_corners=False)
        torch.testing.assert_close(found, wanted[0].float(), rtol=0, atol=2e-6)


@pytest.mark.parametrize("form", ["xywh", "cxcywh", "cxcywhr", "albumentations"])
def test_the_format_of_the_boxes_does_not_matter(form):
    given = batch()
    given["boxes"] = given["boxes"] + 0.013  # off ties, which fractions would round
    plain = Pipeline([CROP], seed=0)(given)
    if form == "albumentations":
        boxes = given["boxes"] / torch.tensor((SIZE[1], SIZE[0])).repeat(2)
    else:
        boxes = convert_boxes(given["boxes"], "xyxy", form)
    out = Pipeline([CROP], seed=0, box_format=form)({**given, "boxes": boxes})
    torch.testing.assert_close(out["image"], plain["image"], rtol=0, atol=0)
    assert torch.equal(out["boxes_valid"], plain["boxes_valid"])


def test_one_window_for_a_clip_and_for_a_shared_draw():
    given = batch(6, seed=3)
    clip = {key: value.unflatten(0, (2, 3)) for key, value in given.items()}
    key = Key(5, 0)
    out = Pipeline([CROP])(clip, key=key)
    pooled = {key: value[:, :1].flatten(0, 1) for key, value in clip.items()}
    pooled |= {"boxes": clip["boxes"].flatten(1, 2), "boxes_valid": clip["boxes_valid"].flatten(1, 2)}
    together = Pipeline([CROP])(pooled, key=key)
    assert torch.equal(out["image"][:, 0], together["image"])
    assert torch.equal(out["boxes"].flatten(1, 2), together["boxes"])
    assert torch.equal(out["boxes_valid"].flatten(1, 2), together["boxes_valid"])
    shared = Pipeline([CROP], same_on_batch=True).draw(given, key=key).params[0]["window"]
    one = {key: value.flatten(0, 1)[None] if key != "image" else value[:1] for key, value in given.items()}
    assert torch.equal(shared, Pipeline([CROP], same_on_batch=True).draw(one, key=key).params[0]["window"].expand(6, 4))
    assert len(Pipeline([CROP]).draw(given, key=key).params[0]["window"].unique(dim=0)) > 1


def test_lists_have_boxes_of_their_own():
    make = torch.Generator().manual_seed(0)
    pictures = [torch.rand(3, 30, 44, generator=make), torch.rand(3, 36, 24, generator=make), torch.rand(3, 30, 44, generator=make)]
    boxes = [torch.tensor([[2.0, 3, 20, 18], [30, 20, 40, 28]]), torch.zeros(0, 4), torch.tensor([[5.0, 5, 40, 25]])]
    augment = Pipeline([CROP, pellucid.RandomHorizontalFlip()])
    many = {"image": pictures, "boxes": boxes, "labels": [torch.arange(len(rows)) for rows in boxes]}
    out, record = augment(many, key=Key(2, 0), return_record=True)
    for i, (picture, rows) in enumerate(zip(pictures, boxes, strict=True)):
        alone = augment({"image": picture, "boxes": rows}, key=Key(2, 0, torch.tensor([i])))
        assert torch.equal(out["image"][i], alone["image"])
        assert torch.equal(out["boxes_valid"][i, : len(rows)], alone["boxes_valid"])
    assert torch.equal(augment.apply(many, record)["image"], out["image"])
    assert tuple(record.params[0]["window"][1].tolist()) == (0, 0, 24, 36)  # said to have no boxes
    dropped = Pipeline([CROP], drop_invalid=True)(many, key=Key(2, 0))
    assert [len(rows) for rows in dropped["labels"]] == [
        int(valid.sum()) for valid in Pipeline([CROP])(many, key=Key(2, 0))["boxes_valid"]
    ]


def test_a_record_needs_no_boxes_and_takes_late_ones():
    given = batch(5)
    augment = Pipeline([pellucid.ColorJitter(0.2), CROP, pellucid.RandomHorizontalFlip()], seed=0)
    out, record = augment(given, return_record=True)
    assert torch.equal(augment.apply(given["image"], record), out["image"])
    late = augment.apply({"boxes": given["boxes"], "boxes_valid": given["boxes_valid"]}, record)
    assert torch.equal(late["boxes_valid"], out["boxes_valid"])
    strided = record.at((2, 3), out=(3, 4))  # a resize before and after
    moved = Pipeline(strided.plan.transforms).apply({"boxes": given["boxes"] / 20, "boxes_valid": given["boxes_valid"]}, strided)
    assert torch.equal(moved["boxes_valid"], out["boxes_valid"])
    assert str(record.plan) == "Warp[1,2] + Color[0]"


def test_a_closed_branch_drops_no_box():
    given = batch(30)
    augment = Pipeline([pellucid.OneOf([CROP, pellucid.Resize(OUT)])], seed=0)
    out, record = augment(given, return_record=True)
    resized = record.params[0]["choice"][:, 1] > 0.5
    assert 5 < int(resized.sum()) < 25
    sized = ((given["boxes"][..., 2:] - given["boxes"][..., :2]) > 0).all(-1)
    assert torch.equal(out["boxes_valid"][resized], (given["boxes_valid"] & sized)[resized])


def test_boxes_are_not_learned_numbers():
    given = batch(4)
    augment = Pipeline([pellucid.RandomBrightness(p=pellucid.Learnable(0.5)), CROP], seed=0)
    augment.expected(lambda out: out["image"].mean((1, 2, 3)), given).backward()
    assert float(augment.learned.get_parameter("0_gate_p").grad) != 0
    (_, first), (_, second) = augment.views(given)
    assert not torch.equal(first.params[1]["window"], second.params[1]["window"])
    _, record = augment.worst(lambda out: out["image"].mean((1, 2, 3)), given, draws=2, steps=1)
    assert record.params[1]["window"].shape == (4, 4)
    boxes = given["boxes"].clone().requires_grad_()
    out, record = augment({**given, "boxes": boxes}, return_record=True)
    assert not record.params[1]["window"].requires_grad
    assert out["boxes"].requires_grad


@pytest.mark.parametrize(
    "first", [pellucid.RandomHorizontalFlip(), pellucid.Mosaic(), pellucid.Apply([pellucid.RandomRotation(9)])]
)
def test_what_moves_boxes_comes_after(first):
    refused(InvalidArgument, r"before all that moves boxes.*pipeline of its own", Pipeline([first, CROP]), batch(4))


def test_a_batch_that_says_nothing_of_boxes_is_its_own_box():
    pictures = batch(50)["image"]
    augment = Pipeline([pellucid.RandomIoUCrop(OUT, options=(0.7,))], seed=0)
    window = augment.draw(pictures).params[0]["window"]
    share = (window[:, 2:] - window[:, :2]).prod(-1) / (SIZE[0] * SIZE[1])
    assert bool((share >= 0.7).all())
    assert float(share.min()) < 0.8
    boxes = torch.tensor((0.0, 0.0, SIZE[1], SIZE[0])).expand(50, 1, 4)
    assert torch.equal(augment.draw({"image": pictures, "boxes": boxes}, key=Key(0, 0)).params[0]["window"], window)


def test_errors():
    refused(InvalidArgument, "<= 1", pellucid.RandomIoUCrop, OUT, scale=(0.5, 1.2))
    refused(InvalidArgument, "low <= high", pellucid.RandomIoUCrop, OUT, ratio=(2.0, 0.5))
    refused(InvalidArgument, ">= 0", pellucid.RandomIoUCrop, OUT, options=(-0.1,))
    refused(InvalidArgument, "size", pellucid.RandomIoUCrop, size=0)
