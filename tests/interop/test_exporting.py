"""Exported to torchvision: its transform does the same, and comes back as ours."""

import numpy as np
import pytest
import torch

import pellucid as P
from pellucid.interop import Unsupported, from_albumentations, from_torchvision, to_albumentations, to_torchvision
from tests.peers import torchvision_functional

IMAGE = torch.rand(3, 21, 26, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
CERTAIN = [
    P.RandomHorizontalFlip(p=1.0),
    P.RandomVerticalFlip(p=1.0),
    P.RandomInvert(p=1.0),
    P.RandomAutoContrast(p=1.0),
    P.RandomRotation((30, 30), interpolation="nearest", fill=0.5),
    P.RandomRotation((-20, -20), interpolation="nearest", center=(9.0, 8.0)),
    P.RandomCrop((25, 30), padding=2, padding_mode="reflect"),
    P.CenterCrop((30, 10)),
    P.Pad((1, 2, 3, 4), padding_mode="edge"),
    P.Pad(2, fill=0.25),
    P.Resize(15),
    P.Resize((40, 13), interpolation="nearest", antialias=False),
    P.Resize((13, 15), interpolation="bicubic"),
    P.ColorJitter(contrast=(0.6, 0.6), clip="each"),
    P.Normalize((0.4, 0.5, 0.6), (0.1, 0.2, 0.3)),
    P.Apply([P.RandomInvert(p=1.0), P.RandomHorizontalFlip(p=1.0)], p=1.0),
    P.OneOf([P.RandomInvert(p=1.0), [P.RandomHorizontalFlip(p=1.0), P.RandomVerticalFlip(p=1.0)]], weights=(0.0, 1.0)),
    P.Shuffle([P.RandomInvert(p=1.0), P.RandomHorizontalFlip(p=1.0)]),
]


@pytest.mark.parametrize("ours", CERTAIN, ids=[f"{type(one).__name__}-{i}" for i, one in enumerate(CERTAIN)])
def test_what_is_certain_is_the_same(ours):
    torchvision_functional()
    theirs = to_torchvision([ours])
    wanted = P.Pipeline([ours])(IMAGE)
    assert (theirs(IMAGE) - wanted).abs().max() < 2e-6
    assert (from_torchvision(theirs)(IMAGE) - wanted).abs().max() < 2e-6


def test_ranges_come_back():
    steps = [P.RandomRotation((-10, 25), interpolation="nearest", p=0.4), P.ColorJitter(0.2, hue=0.1, clip="each", p=0.8)]
    back = from_torchvision(to_torchvision(steps, plain=True))
    assert [type(one) for one in back] == [P.Apply, P.Apply]
    assert (back[0].p, back[1].p) == (0.4, 0.8)
    rotation, jitter = back[0].branches[0][0], back[1].branches[0][0]
    assert (rotation.degrees, rotation.interpolation) == ((-10, 25), "nearest")
    assert (jitter.brightness, jitter.hue, jitter.clip) == (0.2, 0.1, "each")


@pytest.mark.parametrize(
    "ours",
    [
        P.RandomRotation(5),
        P.RandomRotation(P.Learnable(5.0), interpolation="nearest"),
        P.ColorJitter(0.2),
        P.RandomGamma(),
        P.RandomHorizontalFlip(same_on_batch=True),
        P.CenterCrop(5, fill=0.5),
        P.Apply([P.RandomGamma()], p=0.5),
    ],
    ids=repr,
)
def test_what_would_differ_is_refused(ours):
    with pytest.raises(Unsupported):
        to_torchvision([ours])


ALBUMENTATIONS = [
    P.RandomHorizontalFlip(p=1.0),
    P.RandomVerticalFlip(p=1.0),
    P.RandomInvert(p=1.0),
    P.RandomGrayscale(p=1.0),
    P.RandomBrightnessContrast((0.2, 0.2), (-0.3, -0.3), p=1.0),
    P.RGBShift(red=(0.1, 0.1), green=(-0.2, -0.2), blue=(0.0, 0.0), p=1.0),
    P.RandomSolarize(0.4, p=1.0),
    P.RandomGamma(1.4),
    P.RandomCrop((21, 26)),
    P.Crop((20, 22), top=1, left=3),
    P.Normalize((0.4, 0.5, 0.6), (0.1, 0.2, 0.3)),
    P.Apply([P.RandomInvert(p=1.0), P.RandomHorizontalFlip(p=1.0)], p=1.0),
    P.OneOf([P.RandomInvert(p=1.0), [P.RandomHorizontalFlip(p=1.0), P.RandomVerticalFlip(p=1.0)]], weights=(0.0, 1.0)),
]
BYTES = np.random.default_rng(0).integers(0, 256, (21, 26, 3), dtype=np.uint8)


@pytest.mark.parametrize("ours", ALBUMENTATIONS, ids=[f"{type(one).__name__}-{i}" for i, one in enumerate(ALBUMENTATIONS)])
def test_what_albumentations_reads_comes_back(ours):
    wanted = P.Pipeline([ours])(BYTES).double()
    found = torch.from_numpy(from_albumentations(to_albumentations([ours], plain=True))(BYTES)).movedim(-1, 0).double()
    assert (found - wanted).abs().max() <= (1 if wanted.max() > 10 else 1e-5)


@pytest.mark.parametrize("ours", ALBUMENTATIONS, ids=[f"{type(one).__name__}-{i}" for i, one in enumerate(ALBUMENTATIONS)])
def test_what_is_certain_is_the_same_in_albumentations(ours):
    import os

    os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")
    pytest.importorskip("albumentations", reason="albumentations is not installed: its differential tests need it")
    wanted = P.Pipeline([ours])(BYTES).movedim(0, -1).double().numpy()
    found = to_albumentations([ours])(image=BYTES)["image"].astype(float)
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max() <= (1 if wanted.max() > 10 else 1e-5)


def test_ranges_come_back_from_albumentations():
    steps = [
        P.RandomBrightnessContrast(0.1, (-0.3, 0.2), p=0.4),
        P.RGBShift(red=0.1, green=(0.0, 0.2), blue=0.3, p=0.2),
        P.RandomGamma((0.5, 1.5)),
    ]
    back = from_albumentations(to_albumentations(steps, plain=True))
    for one, other in zip(steps, back, strict=True):
        assert (type(one), one.p) == (type(other), other.p)
        for name, distribution in one._fixed.items():
            assert other._fixed[name].span() == pytest.approx(distribution.span())


@pytest.mark.parametrize(
    "ours",
    [
        P.RandomRotation(5),
        P.RandomGamma(P.Uniform(P.Learnable(0.5), 1.5)),
        P.RandomGamma(gain=(0.9, 1.0)),
        P.RandomCrop(8, padding=2),
        P.CenterCrop(8),
        P.Crop(8, top=-1),
        P.RandomBrightnessContrast(clip="none"),
        P.RandomInvert(same_on_batch=True),
        P.OneOf([P.RandomHue(0.1)]),
    ],
    ids=repr,
)
def test_what_albumentations_would_do_otherwise_is_refused(ours):
    with pytest.raises(Unsupported):
        to_albumentations([ours])
