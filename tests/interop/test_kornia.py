"""Imported from kornia: augmentations whose draw is certain give the same."""

import pytest
import torch

import pellucid as P
from pellucid.interop import Unsupported, from_kornia

IMAGE = torch.rand(2, 3, 20, 26, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def K():
    return pytest.importorskip("kornia.augmentation", reason="kornia is not installed: its differential tests need it")


CERTAIN = {
    "flip": lambda K: K.RandomHorizontalFlip(p=1.0),
    "vertical flip": lambda K: K.RandomVerticalFlip(p=1.0),
    "affine": lambda K: K.RandomAffine((17.0, 17.0), scale=(1.2, 1.2), p=1.0),
    "affine border": lambda K: K.RandomAffine((-20.0, -20.0), padding_mode="border", p=1.0),
    "rotation": lambda K: K.RandomRotation((17.0, 17.0), p=1.0),
    "center crop": lambda K: K.CenterCrop((12, 14)),
    "brightness": lambda K: K.RandomBrightness((1.3, 1.3)),
    "contrast": lambda K: K.RandomContrast((0.7, 0.7)),
    "jitter brightness": lambda K: K.ColorJitter(brightness=(1.3, 1.3), p=1.0),
    "jitter contrast": lambda K: K.ColorJitter(contrast=(0.7, 0.7), p=1.0),
    "jitter saturation": lambda K: K.ColorJitter(saturation=(1.5, 1.5), p=1.0),
    "jitter hue": lambda K: K.ColorJitter(hue=(0.1, 0.1), p=1.0),
    "hue": lambda K: K.RandomHue((0.2, 0.2)),
    "gamma": lambda K: K.RandomGamma((0.6, 0.6), (0.9, 0.9)),
    "invert": lambda K: K.RandomInvert(p=1.0),
    "gray": lambda K: K.RandomGrayscale(p=1.0),
    "rgb shift": lambda K: K.RandomRGBShift((0.1, 0.1), (-0.2, -0.2), (0.05, 0.05), p=1.0),
    "blur": lambda K: K.RandomGaussianBlur((3, 7), (1.3, 1.3), p=1.0),
    "solarize": lambda K: K.RandomSolarize((0.4, 0.4), (0.0, 0.0), p=1.0),
    "normalize": lambda K: K.Normalize(torch.tensor([0.4, 0.5, 0.6]), torch.tensor([0.1, 0.2, 0.3])),
    "denormalize": lambda K: K.Denormalize(torch.tensor([0.4, 0.5, 0.6]), torch.tensor([0.1, 0.2, 0.3])),
    "sequence": lambda K: K.AugmentationSequential(K.RandomHorizontalFlip(p=1.0), K.RandomInvert(p=1.0), data_keys=["input"]),
    "nn": lambda K: torch.nn.Sequential(K.RandomHorizontalFlip(p=1.0), K.RandomBrightness((0.6, 0.6))),
}


@pytest.mark.parametrize("name", CERTAIN)
def test_what_is_certain_is_the_same(K, name):
    theirs = CERTAIN[name](K)
    wanted, found = theirs(IMAGE), from_kornia(theirs)(IMAGE)
    assert found.shape == wanted.shape
    assert (found - wanted).abs().max() < 2e-4


def test_ranges_are_read_from_where_kornia_keeps_them(K):
    assert from_kornia(K.RandomAffine((-5.0, 20.0), translate=(0.1, 0.2), p=0.3))[0] == P.RandomAffine(
        (-20.0, 5.0), translate=(0.1, 0.2), p=0.3
    )
    assert from_kornia(K.RandomRotation(12.0))[0].degrees == (-12.0, 12.0)
    assert from_kornia(K.RandomGamma((0.5, 1.5)))[0].gamma == (0.5, 1.5)
    assert from_kornia(K.RandomHorizontalFlip(p=0.3, same_on_batch=True))[0] == P.RandomHorizontalFlip(p=0.3, same_on_batch=True)


def test_affines_turn_clockwise_and_rotations_do_not():
    assert from_kornia({"name": "RandomAffine", "degrees": [0, 30]})[0].degrees == (-30.0, 0.0)
    assert from_kornia({"name": "RandomRotation", "degrees": [0, 30]})[0].degrees == (0.0, 30.0)


def test_brightness_is_added_and_contrast_scales_about_black():
    assert from_kornia({"name": "RandomBrightness", "brightness": [0.75, 1.5]})[0] == P.RandomBrightnessContrast(
        (-0.25, 0.5), 0.0, p=1.0
    )
    assert from_kornia({"name": "RandomContrast", "contrast": [0.75, 1.5]})[0] == P.RandomBrightness((0.75, 1.5))


@pytest.mark.parametrize(
    ("table", "option"),
    [
        ({"name": "RandomSaturation", "saturation": [0.5, 1.5]}, ""),
        ({"name": "ColorJiggle"}, ""),
        ({"name": "RandomJPEG", "jpeg_quality": [1, 100]}, "jpeg_quality"),
        ({"name": "RandomHorizontalFlip", "p_batch": 0.5}, "p_batch=0.5"),
        ({"name": "RandomAffine", "degrees": 5, "shear": 4}, "shear"),
        ({"name": "Sequential", "transforms": [], "random_apply": 2}, "random_apply=2"),
    ],
)
def test_what_would_differ_is_refused(table, option):
    with pytest.raises(Unsupported) as caught:
        from_kornia(table)
    assert caught.value.missing[0].option == option
