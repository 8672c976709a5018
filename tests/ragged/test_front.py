"""Lists of pictures of different sizes: each sample is what the call with that picture alone gives."""

import gc

import numpy as np
import pytest
import torch
from PIL import Image

import pellucid as P
from pellucid import Key, Learnable, Pipeline, Uniform
from pellucid.pipeline.ragged import calls
from pellucid.targets.arrays import pixels_of_pillow
from pellucid.types import ImageSpec
from tests.cases import CASES
from tests.refusals import refused

SIZES = ((31, 47), (40, 29), (31, 47), (64, 33), (40, 29))
JITTER = P.ColorJitter(0.3, 0.3, saturation=0.3, hue=0.1)
NORMAL = P.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
STATIC = {
    "crop": [P.RandomResizedCrop(24), P.RandomHorizontalFlip(), JITTER, NORMAL],
    "crop and turn": [P.RandomResizedCrop((24, 20)), P.RandomAffine(20, shear=5), JITTER],
    "letterbox": [P.RandomAffine(10), P.Letterbox((48, 32)), P.RandomContrast(0.4)],
    "exact crop": [P.RandomCrop(24), P.RandomVerticalFlip()],
    "padded crop": [P.RandomCrop(48, pad_if_needed=True), P.RandomGamma((0.5, 2.0))],
    "blur": [P.Resize((32, 32)), P.RandomGaussianBlur(5), P.RandomErasing(), P.RandomGaussianNoise(0.1)],
}
TOGETHER = STATIC | {
    "evaluation": [P.Resize(26), P.CenterCrop(24), NORMAL],
    "letterbox first": [P.Letterbox((48, 32)), JITTER],
    "sharpness": [P.Resize((33, 20)), P.RandomSharpness(0.6, p=0.5), JITTER, NORMAL],
    "a choice": [P.RandomResizedCrop(24), P.OneOf([P.RandomGamma((0.5, 2.0)), P.RandomInvert()])],
}
APART = ("letterbox",)
"""A first pass that keeps sizes."""
LEFT_OUT = ("blur", "sharpness", "a choice")
"""Passes that leave out samples of bytes that they do not change."""
MOVING = {
    "turn": [P.RandomRotation(30), JITTER],
    "pad": [P.Pad(3), P.RandomPerspective(0.3)],
    "shorter side": [P.Resize(20), P.RandomHorizontalFlip()],
    "nothing": [],
}
KEY = Key(7, 3, torch.tensor([4, 0, 11, 2, 9]))


def pictures(dtype=torch.float32, sizes=SIZES):
    made = [torch.rand(3, *size, generator=torch.Generator().manual_seed(i)) for i, size in enumerate(sizes)]
    return [(image * 255).to(torch.uint8) if dtype == torch.uint8 else image.to(dtype) for image in made]


def one(key, i):
    return Key(key.seed, key.step, key.index[i : i + 1])


def alone(augment, images, key=KEY):
    return [augment(image, key=one(key, i)) for i, image in enumerate(images)]


def same(result, wanted):
    assert len(result) == len(wanted)
    for found, expected in zip(result, wanted, strict=True):
        assert found.dtype == expected.dtype
        assert torch.equal(found, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.uint8, torch.float16], ids=str)
@pytest.mark.parametrize("name", [*STATIC, *MOVING])
def test_every_sample_is_the_call_with_its_picture_alone(name, dtype):
    augment, images = Pipeline({**STATIC, **MOVING}[name]), pictures(dtype)
    result = augment(images, key=KEY)
    assert isinstance(result, torch.Tensor if name in STATIC else list)
    same(result, alone(augment, images))


@pytest.mark.parametrize(
    "case", [case for case in CASES if not case.square and not case.size], ids=lambda c: repr(c.transform)[:60]
)
def test_every_transform_takes_lists(case):
    augment, images = Pipeline([case.transform]), pictures(sizes=((11, 13), (16, 12), (11, 13)))
    key = Key(1, 2, torch.tensor([5, 3, 8]))
    if augment.plan(ImageSpec(3, 11, 13)).moving_layers:  # these want one batch
        refused(P.InvalidArgument, r"expected one batch for .*Bring them to one size", augment, images, key=key)
    else:
        same(augment(images, key=key), alone(augment, images, key))


def test_the_kind_of_result_does_not_depend_on_the_sizes_that_came():
    alike = pictures(sizes=((31, 31),) * 3)
    assert isinstance(Pipeline(MOVING["turn"])(alike), list)
    assert isinstance(Pipeline(MOVING["shorter side"])(alike), list)
    assert Pipeline(STATIC["crop"])(alike).shape == (3, 3, 24, 24)
    assert Pipeline(STATIC["crop"])(alike[:1]).shape == (1, 3, 24, 24)
    assert Pipeline(STATIC["crop"])(tuple(alike)).shape == (3, 3, 24, 24)


def test_without_an_index_samples_are_counted():
    augment, images = Pipeline(STATIC["crop"]), pictures()
    same(augment(images, key=Key(7, 3)), alone(augment, images, Key(7, 3, torch.arange(5))))


def test_a_call_takes_one_step_of_the_stream():
    augment, images = Pipeline(STATIC["crop"], seed=5), pictures()
    first, second = augment(images), augment(images)
    assert augment.step == 2
    assert torch.equal(first, augment(images, key=Key(5, 0)))
    assert torch.equal(second, augment(images, key=Key(5, 1)))


def test_shared_draws_are_shared():
    augment, images = Pipeline([P.RandomRotation(30)], same_on_batch=True, seed=0), pictures()
    _, record = augment(images, return_record=True)
    degrees = record.params[0]["degrees"]
    assert torch.equal(degrees, degrees[:1].expand(5))


def test_arrays_and_pictures_are_read_as_rows_columns_channels():
    augment, images = Pipeline(STATIC["crop"]), pictures(torch.uint8)
    arrays = [image.permute(1, 2, 0).numpy() for image in images]
    wanted = augment(images, key=KEY)
    frozen = arrays[1].copy()
    frozen.flags.writeable = False
    backwards = arrays[2][:, ::-1].copy()[:, ::-1]
    for given in (
        arrays,
        [Image.fromarray(a) for a in arrays],
        [images[0], frozen, backwards, Image.fromarray(arrays[3]), images[4]],
    ):
        assert torch.equal(augment(given, key=KEY), wanted)
    floats = [a.astype(np.float32) / 255 for a in arrays]
    assert torch.equal(augment(floats, key=KEY), augment([torch.from_numpy(a).permute(2, 0, 1) for a in floats], key=KEY))
    # One of them alone, and in a dict.
    assert torch.equal(augment(Image.fromarray(arrays[0]), key=one(KEY, 0)), wanted[0])
    assert torch.equal(augment({"image": arrays[0]}, key=one(KEY, 0))["image"], wanted[0])
    batch = np.stack([arrays[0], arrays[2]])
    assert torch.equal(augment(batch, key=Key(7, 3, KEY.index[[0, 2]])), wanted[[0, 2]])


def test_modes_of_pictures():
    augment = Pipeline([P.Resize((8, 8))])
    for mode, channels in (("L", 1), ("RGB", 3), ("RGBA", 4), ("P", 3), ("CMYK", 3), ("1", 3)):
        assert augment([Image.new(mode, (9, 7)), Image.new(mode, (5, 6))]).shape == (2, channels, 8, 8), mode
    assert augment([np.zeros((9, 7), np.uint8), np.zeros((5, 4), np.uint8)]).shape == (2, 1, 8, 8)


def targets():
    images = pictures()
    boxes = [torch.tensor([4.0, 5.0, 20.0, 18.0]) + torch.arange(float(n))[:, None] for n in (2, 0, 1, 5, 3)]
    points = [torch.tensor([10.0, 12.0]) + torch.arange(float(n))[:, None] for n in (1, 4, 0, 2, 2)]
    masks = [(image[0] * 5).to(torch.uint8) for image in images]
    return {"image": images, "boxes": boxes, "keypoints": points, "mask": masks, "labels": [torch.arange(len(b)) for b in boxes]}


@pytest.mark.parametrize("name", ["crop and turn", "turn"])
def test_targets_of_their_own_number(name):
    augment, batch = Pipeline({**STATIC, **MOVING}[name]), targets()
    result = augment(batch, key=KEY)
    singles = [augment({k: v[i] for k, v in batch.items()}, key=one(KEY, i)) for i in range(5)]
    assert result["boxes"].shape == (5, 5, 4)
    assert result["keypoints"].shape == (5, 4, 2)
    assert result["labels"] is batch["labels"]
    for key in ("image", "mask"):
        same(result[key], [single[key] for single in singles])
        assert isinstance(result[key], torch.Tensor) == (name in STATIC)
    for key in ("boxes", "keypoints"):
        for i, single in enumerate(singles):
            count = len(batch[key][i])
            assert torch.equal(result[key][i, :count], single[key])
            assert torch.equal(result[f"{key}_valid"][i, :count], single[f"{key}_valid"])
            assert not result[f"{key}_valid"][i, count:].any()
            assert not result[key][i, count:].any()


def test_targets_as_lists_on_request():
    batch = targets()
    result = Pipeline(STATIC["crop and turn"], pad_targets=False)(batch, key=KEY)
    padded = Pipeline(STATIC["crop and turn"])(batch, key=KEY)
    for key in ("boxes", "keypoints", "boxes_valid", "keypoints_valid"):
        assert [len(part) for part in result[key]] == [len(part) for part in batch[key.removesuffix("_valid")]]
        same(result[key], [rows[: len(part)] for rows, part in zip(padded[key], result[key], strict=True)])


def test_flags_given_stay():
    batch = targets()
    batch["boxes_valid"] = [torch.zeros(len(b), dtype=torch.bool) for b in batch["boxes"]]
    assert not Pipeline(STATIC["crop and turn"])(batch)["boxes_valid"].any()


def test_box_formats_and_the_visible_share():
    batch = targets()
    xywh = [torch.cat((b[:, :2], b[:, 2:] - b[:, :2]), 1) for b in batch["boxes"]]
    result = Pipeline([P.Letterbox((32, 32))], box_format="xywh", return_valid=True)({"image": batch["image"], "boxes": xywh})
    wanted = Pipeline([P.Letterbox((32, 32))])({"image": batch["image"], "boxes": batch["boxes"]})["boxes"]
    torch.testing.assert_close(result["boxes"][..., :2] + result["boxes"][..., 2:], wanted[..., 2:])
    assert result["valid"].shape == (5, 1, 32, 32)


@pytest.mark.parametrize("name", ["crop and turn", "turn"])
def test_records_replay_slice_and_invert(name):
    augment, images = Pipeline({**STATIC, **MOVING}[name], seed=0), pictures()
    result, record = augment(images, return_record=True)
    same(augment.apply(images, record), list(result))
    same(augment.apply(images, augment.draw(images, key=Key(0, 0))), list(result))
    assert len(record) == record.samples == 5
    assert record.sizes_in == SIZES
    assert record.matrix.shape == (5, 3, 3)
    torch.testing.assert_close(record.matrix @ record.src_from_dst, torch.eye(3, dtype=torch.float64).expand(5, 3, 3))
    same(augment.apply(images[1:4], record[1:4]), list(result)[1:4])
    same(augment.apply([images[3], images[0]], record[torch.tensor([3, 0])]), [result[3], result[0]])
    assert torch.equal(augment.apply(images[2][None], record[2])[0], result[2])
    singles = [augment.inverse(result[i][None], record[i])[0] for i in range(5)]
    back = augment.inverse(result, record)
    assert isinstance(back, list)
    same(back, singles)
    late = augment.apply({"keypoints": [torch.tensor([[1.0, 2.0]])] * 5}, record)["keypoints"]
    moved = torch.einsum("bij,j->bi", record.matrix, torch.tensor([1.0, 2.0, 1.0], dtype=torch.float64))
    torch.testing.assert_close(late[:, 0], (moved[:, :2] / moved[:, 2:]).float())
    again = augment.inverse({"keypoints": late}, record)["keypoints"]
    torch.testing.assert_close(again[:, 0], torch.tensor([1.0, 2.0]).expand(5, 2), atol=1e-3, rtol=0)
    same(augment.valid_mask(record), [augment.valid_mask(record[i])[0] for i in range(5)])


def test_a_drawn_value_can_be_replaced_and_differentiated():
    augment, images = Pipeline(STATIC["crop and turn"], seed=0), pictures(torch.float64)
    record = augment.draw(images)
    still = record.with_param(1, "degrees", torch.zeros(5, dtype=torch.float64))
    assert not torch.equal(augment.apply(images, still), augment.apply(images, record))
    leaves = record.requires_grad_()
    augment.apply(images, leaves).pow(2).sum().backward()
    for i in range(5):
        alone = augment.draw(images[i], key=Key(0, 0, torch.tensor([i]))).requires_grad_()
        augment.apply(images[i], alone).pow(2).sum().backward()
        for mine, single in zip(leaves.params, alone.params, strict=True):
            for name, value in single.items():
                if value.requires_grad and value.grad is not None:
                    torch.testing.assert_close(mine[name].grad[i : i + 1], value.grad, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", [*STATIC, *MOVING])
def test_gradients_reach_every_picture(name):
    augment = Pipeline({**STATIC, **MOVING}[name])
    images = [image.requires_grad_() for image in pictures()]
    singles = [image.detach().clone().requires_grad_() for image in images]
    loss = sum((part.double() ** 2).sum() for part in augment(images, key=KEY))
    loss.backward()
    for result in alone(augment, singles):
        (result.double() ** 2).sum().backward()
    for image, single in zip(images, singles, strict=True):
        assert torch.equal(image.grad, single.grad)


def test_gradients_are_those_of_finite_differences():
    augment = Pipeline([P.RandomResizedCrop((5, 4)), P.RandomAffine(20), P.RandomBrightness(0.3)], impl="reference")
    images = [image.requires_grad_() for image in pictures(torch.float64, ((7, 6), (5, 8), (7, 6)))]
    key = Key(0, 0, torch.arange(3))
    assert torch.autograd.gradcheck(lambda *given: augment(list(given), key=key), images)


def test_gradients_reach_learned_numbers():
    images = pictures(torch.float64)
    sums = []
    for batched in (True, False):
        augment = Pipeline([P.RandomAffine(Uniform(Learnable(-10.0), Learnable(10.0))), P.CenterCrop(24)], seed=0)
        out = augment(images, key=KEY) if batched else torch.stack(alone(augment, images))
        out.pow(2).sum().backward()
        sums.append([p.grad for p in augment.parameters()])
    assert all(bool(grad.abs() > 0) for grad in sums[0])
    torch.testing.assert_close(*sums)


def test_choices_take_lists():
    from pellucid.policy import RandomChoice

    choice = RandomChoice([[P.RandomHorizontalFlip(p=1.0)], [P.RandomRotation(40, p=1.0)]], seed=3)
    images = pictures()
    result = choice(images, key=KEY)
    same(result, [choice(image, key=one(KEY, i)) for i, image in enumerate(images)])


IMAGE = torch.zeros(3, 8, 9)


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        ([], "batch: expected at least one picture, got an empty list"),
        ({"image": []}, "batch['image']: expected at least one picture, got an empty list"),
        ([IMAGE, torch.zeros(3, 0, 9)], "sample 1: image: expected at least one row and column, got shape (3, 0, 9)"),
        ([IMAGE, torch.zeros(1, 8, 9)], "sample 1: image: expected 3 channels, like sample 0, got 1"),
        ([IMAGE, IMAGE.to(torch.uint8)], "sample 1: image: expected torch.float32, like sample 0, got torch.uint8"),
        ([IMAGE, IMAGE[None]], "sample 1: image: expected one picture (C, H, W), got shape (1, 3, 8, 9)"),
        ([IMAGE, "cat.jpg"], "sample 1: batch['image']: expected a tensor, an array or a PIL image, got str"),
        ([IMAGE, IMAGE.permute(1, 2, 0)], "sample 1: batch['image']: expected channels before height and width"),
        ([IMAGE, np.zeros((3, 8, 9), np.uint8)], "sample 1: batch['image']: expected an array (H, W, C)"),
        (
            {"image": [IMAGE, IMAGE], "mask": [torch.zeros(8, 9), torch.zeros(8, 8)]},
            "sample 1: batch['mask']: expected height and width (8, 9)",
        ),
        ({"image": [IMAGE, IMAGE], "boxes": [torch.zeros(1, 4)]}, "batch['boxes']: expected 2 entries, like batch['image'], got 1"),
        (
            {"image": [IMAGE, IMAGE], "boxes": torch.zeros(2, 1, 4)},
            "batch['boxes']: expected a list, like batch['image'], got Tensor",
        ),
        ({"boxes": [torch.zeros(1, 4)]}, "batch: expected at least one image"),
    ],
    ids=range(13),
)
def test_mistakes_are_named(batch, words):
    with pytest.raises((P.InvalidArgument, P.InvalidType)) as caught:
        Pipeline(STATIC["letterbox"])(batch)
    assert str(caught.value).startswith(words), caught.value
    assert "\n" not in str(caught.value)


def test_a_record_of_other_pictures_is_refused():
    augment, images = Pipeline(STATIC["crop"]), pictures()
    record = augment.draw(images)
    refused(P.InvalidArgument, "5 samples, as in the record", augment.apply, images[:3], record)
    with pytest.raises(P.InvalidArgument, match=r"sample 1: batch\['image'\]: expected height and width \(40, 29\)"):
        augment.apply([images[0], images[0], *images[2:]], record)


@pytest.mark.filterwarnings("ignore")
def test_compiled_pipelines_fall_back_and_say_so():
    augment, images = Pipeline([P.CenterCrop(8)]), pictures()
    compiled = torch.compile(augment, backend="eager")
    assert torch.equal(compiled(images), augment(images))
    torch._dynamo.reset()  # what broke once is remembered
    refused(Exception, "lists of pictures run eagerly", torch.compile(augment, backend="eager", fullgraph=True), images)


def test_what_is_given_stays_as_it_was():
    images = pictures()
    copies = [image.clone() for image in images]
    versions = [image._version for image in images]
    result = Pipeline([])(images)
    assert [image._version for image in images] == versions
    same(images, copies)
    result[0].zero_()
    same(images, copies)


def test_square_pictures_may_be_turned():
    pictures = [torch.rand(3, side, side, generator=torch.Generator().manual_seed(side)) for side in (9, 12, 9)]
    turned = Pipeline([P.RandomRotation90()], seed=0)(pictures)
    assert [one.shape for one in turned] == [one.shape for one in pictures]  # a list: these have no common size
    together = Pipeline([P.RandomRotation90(), P.Resize((6, 6))], seed=0)(pictures)
    assert together.shape == (3, 3, 6, 6)


def test_a_record_of_another_pipeline_is_refused():
    pictures = [torch.rand(3, 9, 8), torch.rand(3, 7, 8)]
    mine, other = Pipeline([P.RandomAffine(10)]), Pipeline([P.RandomVerticalFlip(), P.RandomInvert()])
    for batch in (pictures, torch.rand(2, 3, 9, 8)):
        out, record = other(batch, return_record=True)
        for call in (mine.apply, mine.inverse):
            refused(P.errors.InvalidArgument, r"RandomAffine.*RandomVerticalFlip, RandomInvert", call, out, record)
    assert torch.equal(Pipeline([]).inverse(out, record), other.inverse(out, record))


@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8], ids=str)
@pytest.mark.parametrize("name", TOGETHER)
def test_one_lowering_serves_many_sizes(name, dtype, monkeypatch):
    """Where the first pass brings pictures to one size; sizes that are planned alike are lowered together."""
    sizes = (*SIZES, (44, 30), (66, 35), (30, 50), (71, 36))
    augment, images, found = Pipeline(TOGETHER[name]), pictures(dtype, sizes), []
    together, key = calls.images_together, Key(7, 3, torch.tensor([4, 0, 11, 2, 9, 20, 8, 1, 5]))
    monkeypatch.setattr(calls, "images_together", lambda *given: found.append(together(*given)) or found[-1])
    result = augment(images, key=key)
    apart = name in APART or (dtype == torch.uint8 and name in LEFT_OUT)
    assert [list(each) for each in found] == [[] if apart else ["image"]]
    same(result, alone(augment, images, key))


@pytest.mark.parametrize("learned", [False, True], ids=["pictures", "numbers"])
def test_gradients_of_many_sizes_take_one_call(learned, monkeypatch):
    """One call of the kernel forward and one backward, and the bits of each picture alone."""
    from pellucid.kernels.resize.cpu import op

    seen = []
    size_of, images = op.sources_of, [image.requires_grad_() for image in pictures(torch.float64, (*SIZES, (44, 30)))]
    degrees = Learnable(0.3) if learned else 0.3
    augment, key = (Pipeline([P.RandomResizedCrop(24), P.RandomBrightness(degrees)], seed=0), Key(0, 0, torch.arange(6)))
    augment(images, key=key)
    monkeypatch.setattr(op, "sources_of", lambda image: seen.append(image.shape[0]) or size_of(image))
    result = augment(images, key=key)
    grad = torch.randn(result.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    result.backward(grad)
    assert seen == [6, 6]
    summed = [parameter.grad.clone() for parameter in augment.parameters()]
    augment.zero_grad()
    for i, image in enumerate(images):
        single = image.detach().clone().requires_grad_()
        found = augment(single, key=one(key, i))
        found.backward(grad[i])
        assert torch.equal(found, result[i])
        assert torch.equal(single.grad, image.grad)
    torch.testing.assert_close(summed, [parameter.grad for parameter in augment.parameters()], rtol=1e-9, atol=1e-9)


def test_second_derivatives_of_many_sizes():
    augment = Pipeline([P.RandomResizedCrop((3, 4)), P.RandomHorizontalFlip(), P.RandomBrightness(0.3)])
    images = [image[:1].clone().requires_grad_() for image in pictures(torch.float64, ((4, 3), (3, 5), (4, 3), (4, 4)))]
    key = Key(0, 0, torch.arange(4))
    assert torch.autograd.gradcheck(lambda *given: augment(list(given), key=key), images)
    assert torch.autograd.gradgradcheck(lambda *given: augment(list(given), key=key) ** 2, images)


def test_boxes_of_pictures_that_go_together():
    images, boxes = pictures(torch.uint8), [torch.tensor([[2.0, 3.0, 20.0, 25.0]])] * 5
    augment = Pipeline([P.RandomResizedCrop(24), P.RandomHorizontalFlip(), JITTER])
    found = augment({"image": images, "boxes": boxes}, key=KEY)
    for i, image in enumerate(images):
        wanted = augment({"image": image, "boxes": boxes[i]}, key=one(KEY, i))
        assert torch.equal(found["image"][i], wanted["image"])
        assert torch.equal(found["boxes"][i], wanted["boxes"])


@pytest.mark.parametrize("gray", [False, True])
def test_pictures_of_pillow_are_their_arrays(gray):
    shown = [image[0].numpy() if gray else image.permute(1, 2, 0).numpy() for image in pictures(torch.uint8)]
    augment = Pipeline([P.RandomResizedCrop(24), JITTER] if not gray else [P.RandomResizedCrop(24)])
    same(augment([Image.fromarray(array) for array in shown], key=KEY), augment(shown, key=KEY))


def test_memory_of_a_picture_outlives_it():
    array = pictures(torch.uint8)[0].permute(1, 2, 0).numpy()
    made = [pixels_of_pillow(Image.fromarray(array).convert("RGB")) for _ in range(20)]
    gc.collect()
    others = [Image.new("RGB", (array.shape[1], array.shape[0]), (i, i, i)) for i in range(20)]
    assert all((pixels.numpy() == array).all() for pixels in made)
    assert len(others) == 20


def test_pictures_in_pieces_are_copied():
    large = Image.new("RGB", (3000, 2500), (7, 8, 9))  # more than a block of Pillow's
    assert torch.equal(pixels_of_pillow(large), torch.tensor([7, 8, 9], dtype=torch.uint8).expand(2500, 3000, 3))
    assert pixels_of_pillow(Image.new("L", (5, 4), 3)).tolist() == [[3] * 5] * 4


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32], ids=str)
@pytest.mark.parametrize("name", STATIC)
def test_what_lies_between_pixels_is_not_seen(name, dtype):
    images = pictures(dtype)
    apart = []
    for image in images:
        four = torch.full((*image.shape[1:], 4), 99, dtype=dtype)
        four[..., :3] = image.permute(1, 2, 0)
        apart.append(four[..., :3].permute(2, 0, 1))
    augment = Pipeline(STATIC[name])
    same(augment(apart, key=KEY), augment(images, key=KEY))


def test_each_picture_has_as_many_masks_as_objects():
    """Also none; where all have as many, they come back as one batch."""
    counts = (2, 0, 3, 2)
    images = pictures(sizes=SIZES[:4])
    masks = [torch.rand(count, *image.shape[-2:]) > 0.5 for count, image in zip(counts, images, strict=True)]
    boxes = [torch.tensor([[2.0, 3.0, 20.0, 25.0]]).expand(count, 4) for count in counts]
    augment = Pipeline([P.RandomCrop(24), P.RandomHorizontalFlip()])
    out = augment({"image": images, "masks": masks, "boxes": boxes}, key=Key(1, 0))
    assert out["image"].shape == (4, 3, 24, 24)
    for i, count in enumerate(counts):
        alone = augment({"image": images[i], "masks": masks[i], "boxes": boxes[i]}, key=one(Key(1, 0, torch.arange(4)), i))
        assert torch.equal(out["masks"][i], alone["masks"])
        assert out["masks"][i].shape == (count, 24, 24)
    dropped = Pipeline([P.RandomCrop(24)], drop_invalid=True)({"image": images, "masks": masks, "boxes": boxes})
    assert [len(mask) for mask in dropped["masks"]] == [len(rows) for rows in dropped["boxes"]]
    alike = augment({"image": images[::3], "masks": masks[::3]}, key=Key(1, 0))["masks"]
    assert alike.shape == (2, 2, 24, 24)
