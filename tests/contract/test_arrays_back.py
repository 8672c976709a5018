"""Arrays, pictures and rows in; arrays, pictures and rows out, equal to what tensors give."""

import numpy as np
import pytest
import torch
from PIL import Image

import pellucid as P
from tests.refusals import refused

RNG = np.random.default_rng(0)
BYTES = RNG.integers(0, 256, (20, 30, 3), dtype=np.uint8)
CLASSES = RNG.integers(0, 5, (20, 30), dtype=np.uint8)
ROWS = [[2.0, 3.0, 12.0, 15.0], [0.0, 0.0, 2.0, 2.0]]
STEPS = [P.CenterCrop((12, 16)), P.RandomHorizontalFlip(p=1.0)]


def chw(array):
    return torch.from_numpy(np.ascontiguousarray(np.moveaxis(array, -1, 0)))


def test_the_call_that_people_know():
    augment = P.Pipeline(STEPS, out="same", drop_invalid=True)
    found = augment(image=BYTES, mask=CLASSES, bboxes=ROWS, keypoints=[(10.0, 8.0)], class_labels=["cat", "dog"])
    wanted = P.Pipeline(STEPS)({"image": chw(BYTES), "mask": torch.from_numpy(CLASSES), "boxes": torch.tensor(ROWS)})
    assert type(found["image"]) is type(found["mask"]) is np.ndarray
    assert found["image"].flags.c_contiguous
    assert np.array_equal(found["image"], wanted["image"].movedim(0, -1).numpy())
    assert np.array_equal(found["mask"], wanted["mask"].numpy())
    assert found["bboxes"] == wanted["boxes"][:1].tolist()
    assert found["class_labels"] == ["cat"]
    assert isinstance(found["keypoints"], list)
    assert np.asarray(found["bboxes_valid"]).tolist() == [True]


def test_masks_of_objects_in_a_list_come_back_as_a_list():
    found = P.Pipeline(STEPS, out="same")(image=BYTES, masks=[CLASSES, CLASSES + 1])["masks"]
    wanted = P.Pipeline(STEPS)({"image": chw(BYTES), "mask": torch.from_numpy(CLASSES)})["mask"].numpy()
    assert np.array_equal(found[0], wanted)
    assert np.array_equal(found[1], wanted + 1)


@pytest.mark.parametrize("out", ["same", "numpy"])
def test_arrays_of_every_shape(out):
    augment = P.Pipeline(STEPS, out=out)
    for shape in ((20, 30), (20, 30, 1), (20, 30, 4), (2, 20, 30, 3)):
        array = RNG.random(shape, dtype=np.float32)
        found = augment(array)
        assert found.shape == (*shape[:-3], 12, 16, *shape[-1:]) if len(shape) > 2 else found.shape == (12, 16)
        layers = array if len(shape) > 2 else array[..., None]
        assert np.array_equal(found.reshape(-1), layers[..., 4:16, 7:23, :][..., ::-1, :].reshape(-1))


def test_pictures_come_back_as_pictures_and_lists_as_lists():
    augment = P.Pipeline(STEPS, out="same")
    found = augment(Image.fromarray(BYTES))
    assert np.array_equal(np.asarray(found), augment(BYTES))
    gray, palette = augment({"image": Image.fromarray(BYTES), "mask": Image.fromarray(CLASSES)}).values()
    assert (gray.mode, palette.mode) == ("RGB", "L")
    several = augment([BYTES, BYTES[:, :25]])
    assert [type(one) for one in several] == [np.ndarray] * 2
    assert np.array_equal(several[0], augment(BYTES))
    assert isinstance(P.Pipeline([P.Normalize(0.5, 0.5)], out="same")(Image.fromarray(BYTES)), torch.Tensor)


def test_numpy_for_all_and_tensors_where_tensors_came():
    found = P.Pipeline(STEPS, out="numpy")({"image": chw(BYTES), "boxes": torch.tensor(ROWS)})
    assert found["image"].shape == (12, 16, 3)
    assert found["boxes"].dtype == np.float32
    assert isinstance(P.Pipeline(STEPS, out="same")(chw(BYTES)), torch.Tensor)
    inverse = P.Pipeline(STEPS, out="same")
    moved, record = inverse(BYTES, return_record=True)
    back = inverse.inverse(moved, record)
    assert np.array_equal(back[4:16, 7:23], BYTES[4:16, 7:23])


@pytest.mark.parametrize("dtype", [np.uint16, np.int16])
@pytest.mark.parametrize("form", ["array", "tensor", "list", "dict"])
def test_sixteen_bits_stay_sixteen_bits(dtype, form):
    """Moves keep every level; arithmetic is that of floats, rounded once."""
    most = np.iinfo(dtype).max
    deep = RNG.integers(0, most + 1, (20, 30, 3)).astype(dtype)
    tensor = chw(deep)
    given = {"array": deep, "tensor": tensor, "list": [tensor, tensor], "dict": {"image": tensor}}[form]

    def called(augment):
        found = augment(given)
        return found["image"] if form == "dict" else found[0] if form == "list" else found

    assert torch.equal(called(P.Pipeline(STEPS)), tensor[:, 4:16, 7:23].to(torch.int32).flip(-1).to(tensor.dtype))
    steps = [P.RandomAffine((7, 7), interpolation="bilinear"), P.RandomBrightness((1.1, 1.1)), P.RandomGamma((1.3, 1.3))]
    floats = P.Pipeline(steps)(tensor.to(torch.float32) / most)
    found = called(P.Pipeline(steps))
    assert found.dtype == tensor.dtype
    assert torch.equal(found.to(torch.int32), (floats * most).round().int())
    assert called(P.Pipeline([*steps, P.Normalize(0.5, 0.5)])).dtype == torch.float32
    assert called(P.Pipeline(steps, dtype=torch.float32)).max() <= 1
    assert torch.equal(P.Pipeline([])(tensor), tensor)


def test_words_that_are_no_way_out():
    refused(P.InvalidArgument, "out: expected one of", P.Pipeline, [], out="arrays")
    refused(P.InvalidType, "mask: expected the targets as one batch", P.Pipeline([]), chw(BYTES), mask=CLASSES)


@pytest.mark.parametrize("key", ["image", "mask", "boxes"])
def test_arrays_in_another_byte_order_are_told_how_to_convert_them(key):
    batch = {"image": BYTES, "mask": CLASSES, "boxes": np.array(ROWS)}
    kind = {"image": "u2", "mask": "i4", "boxes": "f4"}[key]
    foreign = batch[key].astype(np.dtype(kind).newbyteorder("S"))
    flip = P.Pipeline([P.RandomHorizontalFlip(p=1.0)], out="same")
    refused(P.InvalidType, r"machine's byte order.*newbyteorder", flip, {**batch, key: foreign})
    native = {**batch, key: foreign.astype(foreign.dtype.newbyteorder("="))}
    assert np.array_equal(flip(native)["image"], native["image"][:, ::-1])
