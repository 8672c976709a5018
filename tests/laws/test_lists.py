"""A list of pictures is each of them alone, and a batch of those that agree in size: for every kind of target, in every call.

The plain call, the call that returns its record, and the replay of that record give the same, picture by picture. Every transform
stands alone, and beside crops that pad and warps; pipelines put together by chance follow. Some pictures are smaller than the crop,
some larger.
"""

import random
import zlib
from dataclasses import replace
from typing import get_args

import pytest
import torch
from torch.nn.utils.rnn import pad_sequence

import pellucid as P
from pellucid import InvalidArgument, Key, Pipeline
from pellucid.boxes import BoxFormat
from pellucid.transforms.warping import Bending
from tests.cases import CASES, IDS

SIZES = ((11, 13), (21, 10), (11, 13), (24, 22), (13, 25), (21, 10))
SQUARES = ((11, 11), (24, 24), (11, 11), (17, 17), (13, 13), (24, 24))
KEY = Key(7, 3, torch.tensor([4, 0, 11, 2, 9, 5]))

CROP = P.RandomCrop((17, 16), pad_if_needed=True, fill=0.2)
WARP = P.RandomAffine(20, (0.1, 0.1), scale=(0.8, 1.2), p=0.8)
FIELD = P.RandomElastic(4, magnitude=(0.1, 0.3), p=0.8)
PLACES = {
    "alone": ((), ()),
    "before a crop": ((), (CROP,)),
    "after a crop": ((CROP,), ()),
    "between warp and crop": ((WARP,), (CROP,)),
    "between crop and warp": ((CROP,), (WARP,)),
}
BENDS = {"between field and crop": ((FIELD,), (CROP,)), "between crop and field": ((CROP,), (FIELD,))}
"""Beside what moves pixels."""
LEAVES = {
    name: case
    for name, case in zip(IDS, CASES, strict=True)
    if case.group == 1 and not case.objects  # what mixes samples wants one batch
}


def chance_of(name: str) -> int:
    """A number that depends on a name alone."""
    return zlib.crc32(name.encode())


def chosen(names, one_of):
    """Names as cases of a test: one of so many in the default run, by chance; which ones does not depend on the others."""
    return [pytest.param(name, marks=[] if chance_of(name) % one_of == 0 else [pytest.mark.slow]) for name in names]


def targets_of(size, number, dtype, form):
    """A picture with a target of every kind, of which there may be several or none."""
    generator = torch.Generator().manual_seed(number)

    def rand(*shape):
        return torch.rand(shape, generator=generator)

    height, width = size
    many = (2, 0, 3, 1, 2, 4)[number]
    corners = rand(many, 2, 2).sort(1).values * torch.tensor([width, height])
    image = rand(3, *size)
    return {
        "image": (image * 255).to(dtype) if dtype == torch.uint8 else image.to(dtype),
        "mask": (rand(*size) * 5).long(),
        "masks": rand(2, *size) > 0.5,  # of objects
        "boxes": P.boxes.convert_boxes(corners.flatten(1), "xyxy", form),
        "keypoints": rand(many, 2) * torch.tensor([width - 1.0, height - 1.0]),
        "keypoints_seen": torch.cat((rand(2, 2) * 10, torch.tensor([[1.0], [0.0]])), 1),
        "heatmap": rand(2, *size),
        "depth": rand(*size),
        "disparity": rand(*size),
        "flow": 3 * rand(2, *size) - 1,
        "normals": 2 * rand(3, *size) - 1,
        "labels": torch.arange(many),
    }


def batch_of(samples):
    """Samples of one size as tensors; rows of coordinates are made as many everywhere, and flagged."""
    together = {}
    for key in (key for key in samples[0] if key != "labels"):
        rows = [sample[key] for sample in samples]
        together[key] = pad_sequence(rows, batch_first=True)
        if key in ("boxes", "keypoints"):
            together[f"{key}_valid"] = pad_sequence([torch.ones(len(one), dtype=torch.bool) for one in rows], batch_first=True)
    return together


def same(found, wanted, batches_exactly=True):
    """Equal, but for the last bits of sines and products, which depend on what is computed beside them."""
    if found.dtype != wanted.dtype or found.shape != wanted.shape:
        return False
    if found.is_floating_point():
        bound = (16.0 if batches_exactly else 1000.0) * torch.finfo(found.dtype).eps
        return torch.allclose(found, wanted, rtol=bound, atol=bound, equal_nan=True)
    few = 0 if batches_exactly else found.numel() // 100  # differ by a level of bytes, or are labels on an edge
    return int((found != wanted).sum()) <= few


def row_of(result, key, i, count):
    """What a list's result has under a key for one picture; rows that were added to make numbers agree are left out."""
    value = result[key][i]
    return value[:count] if key.removesuffix("_valid") in ("boxes", "keypoints") else value


def refused(function, *args, **options):
    """What a call returns, or None where it is refused."""
    try:
        return function(*args, **options)
    except InvalidArgument:
        return None


def differences(steps, name, sizes=SIZES, batches_exactly=True):
    """Where a list differs from its pictures, call by call and key by key; nothing should.

    Options, the format of boxes and the dtype of pictures are chosen by the name.
    """
    chance = random.Random(chance_of(name))
    form, dtype = chance.choice(get_args(BoxFormat)), chance.choice((torch.float32, torch.uint8, torch.float64))
    options = {"fuse": chance.random() < 0.8, "canvas": chance.choice(("each", "each", "image")), "box_format": form}
    augment = Pipeline(steps, **options)
    bends = any(isinstance(step, Bending) for step in steps)  # fields are followed backwards by iteration, which takes seconds
    sizes = sizes[:4] if bends else sizes
    key_of_all = replace(KEY, index=KEY.index[: len(sizes)])
    samples = [targets_of(size, number, dtype, form) for number, size in enumerate(sizes)]
    batch = {key: [sample[key] for sample in samples] for key in samples[0]}
    keys = [replace(KEY, index=KEY.index[[i]]) for i in range(len(sizes))]
    singles = [refused(augment, sample, key=one, return_record=True) for sample, one in zip(samples, keys, strict=True)]
    recorded = refused(augment, batch, key=key_of_all, return_record=True)
    if recorded is None or None in singles:
        return [] if recorded is None and None in singles else ["refused"]
    result, record = recorded
    calls = {"plain": augment(batch, key=key_of_all), "recorded": result, "replayed": augment.apply(batch, record)}
    found = [
        f"alone: {key} of {i}"
        for i, (single, _) in enumerate(singles)
        for key, value in augment(samples[i], key=keys[i]).items()
        if not same(value, single[key])
    ]
    found += [
        f"{call}: {key} of {i}"
        for call, result in calls.items()
        for i, (single, _) in enumerate(singles)
        for key, wanted in single.items()
        if not same(row_of(result, key, i, len(wanted)), wanted)
    ]
    back = augment.inverse(calls["plain"], record) if not bends else {}
    found += [
        f"inverse: {key} of {i}"
        for i, (single, own) in enumerate([] if bends else singles)
        for key, wanted in augment.inverse(single, own).items()
        if not same(row_of(back, key, i, len(wanted)), wanted)
    ]
    alike = [i for i, size in enumerate(sizes) if size == sizes[0]]
    stacked = augment(batch_of([samples[i] for i in alike]), key=replace(KEY, index=KEY.index[alike]))
    found += [
        f"batch: {key} of {i}"
        for k, i in enumerate(alike)
        for key, wanted in singles[i][0].items()
        if key != "labels" and not same(row_of(stacked, key, k, len(wanted)), wanted, batches_exactly)
    ]
    return found


def checked(name, places):
    """Nothing differs with this transform in this place."""
    leaf, _, place = name.partition(" ")
    case, (before, after) = LEAVES[leaf], places[place]
    sizes = SQUARES if case.square else SIZES
    assert not differences([*before, case.transform, *after], name, sizes, case.batch_exact)


@pytest.mark.parametrize("name", chosen((f"{leaf} {place}" for leaf in LEAVES for place in PLACES), 80))
def test_every_transform(name):
    checked(name, PLACES)


@pytest.mark.parametrize("name", chosen((f"{leaf} {place}" for leaf in LEAVES if LEAVES[leaf].targets for place in BENDS), 30))
def test_what_moves_pixels_beside_a_field(name):
    checked(name, BENDS)


def by_chance(seed):
    """A pipeline of a few transforms, one of them a crop that pads; whether it is refused is not asked."""
    chance = random.Random(seed)
    cases = chance.sample([case for case in LEAVES.values() if not case.square], chance.randint(1, 4))
    steps = [case.transform for case in cases]
    size = (chance.randint(8, 26), chance.randint(8, 26))
    crop = chance.choice(
        (P.RandomCrop(size, pad_if_needed=True), P.RandomCrop(size, 1, pad_if_needed=True, fill=0.3, padding_mode="reflection"))
    )
    steps.insert(chance.randint(0, len(steps)), crop)
    return steps, all(case.batch_exact for case in cases)


@pytest.mark.parametrize("seed", chosen(map(str, range(200)), 80))
def test_pipelines_put_together_by_chance(seed):
    steps, batches_exactly = by_chance(int(seed))
    assert not differences(steps, seed, batches_exactly=batches_exactly)
