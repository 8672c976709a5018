"""Imported from kornia: augmentations whose draw is certain give the same."""

import pytest
import torch

import pellucid as P
from pellucid.interop import Unsupported, from_kornia, read_kornia

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
    "translate": lambda K: K.RandomTranslate((0.2, 0.2), (-0.3, -0.3), p=1.0),
    "translate up": lambda K: K.RandomTranslate(translate_y=(-0.13, -0.13), padding_mode="border", p=1.0),
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


# From random numbers to one of theirs, and what was drawn as our values.
DRAWN = {
    "affine by axis": (
        lambda K, r: K.RandomAffine((-r(40), r(40)), scale=(1 - r(0.3), 1 + r(0.3), 0.8, 1 + r(0.2)), p=1.0),
        lambda d: {"degrees": -d["angle"], "scale_x": d["scale"][:, 0], "scale_y": d["scale"][:, 1]},
    ),
    "affine": (
        lambda K, r: K.RandomAffine((-r(40), r(40)), translate=(r(0.2), r(0.2)), scale=(1 - r(0.3), 1 + r(0.3)), p=1.0),
        lambda d: {
            "degrees": -d["angle"],
            "translate_x": d["translations"][:, 0] / 26,
            "translate_y": d["translations"][:, 1] / 20,
            "scale": d["scale"][:, 0],
        },
    ),
    "rotation": (lambda K, r: K.RandomRotation((-r(90), r(90)), p=1.0), lambda d: {"degrees": d["degrees"]}),
    "brightness": (
        lambda K, r: K.RandomBrightness((1 - r(0.5), 1 + r(0.5))),
        lambda d: {"brightness": d["brightness_factor"] - 1},
    ),
    "contrast": (lambda K, r: K.RandomContrast((1 - r(0.5), 1 + r(0.5))), lambda d: {"brightness": d["contrast_factor"]}),
    "hue": (lambda K, r: K.RandomHue((-r(0.5), r(0.5))), lambda d: {"hue": d["hue_factor"]}),
    "gamma": (
        lambda K, r: K.RandomGamma((1 - r(0.7), 1 + r(1.0)), (1 - r(0.5), 1 + r(0.5))),
        lambda d: {"gamma": d["gamma_factor"], "gain": d["gain_factor"]},
    ),
    "rgb shift": (
        lambda K, r: K.RandomRGBShift((-r(0.5), r(0.5)), (0.0, r(0.5)), (-r(0.5), 0.0), p=1.0),
        lambda d: {"red": d["r_shift"], "green": d["g_shift"], "blue": d["b_shift"]},
    ),
    "blur": (lambda K, r: K.RandomGaussianBlur((3, 7), (0.3 + r(0.5), 1 + r(2)), p=1.0), lambda d: {"sigma": d["sigma"]}),
    "solarize": (
        lambda K, r: K.RandomSolarize((r(0.5), 0.5 + r(0.5)), (0.0, 0.0), p=1.0),
        lambda d: {"threshold": d["thresholds"]},
    ),
}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", DRAWN)
def test_random_configurations_with_the_values_that_were_drawn(K, name, seed):
    make, values = DRAWN[name]
    random = torch.Generator().manual_seed(seed)
    theirs = make(K, lambda most: float(torch.empty(()).uniform_(0.1, 1, generator=random)) * most)
    torch.manual_seed(seed)
    wanted = theirs(IMAGE)
    ours = from_kornia(theirs)
    record = ours.draw(IMAGE)
    for one, value in values(theirs._params).items():
        low, high = ours[0]._fixed[one].span()
        slack = 1 / 20 if one.startswith("translate") else 1e-5  # whole pixels there
        assert low - slack <= value.min(), one
        assert value.max() <= high + slack, one
        record = record.with_param(0, one, value.to(record.params[0][one]))
    assert (ours.apply(IMAGE, record) - wanted).abs().max() < 2e-4


def test_ranges_are_read_from_where_kornia_keeps_them(K):
    assert from_kornia(K.RandomAffine((-5.0, 20.0), translate=(0.1, 0.2), p=0.3))[0] == P.RandomAffine(
        (-20.0, 5.0), translate=(0.1, 0.2), p=0.3
    )
    assert from_kornia(K.RandomRotation(12.0))[0].degrees == (-12.0, 12.0)
    assert from_kornia(K.RandomGamma((0.5, 1.5)))[0].gamma == (0.5, 1.5)
    assert from_kornia(K.RandomHorizontalFlip(p=0.3, same_on_batch=True))[0] == P.RandomHorizontalFlip(p=0.3, same_on_batch=True)


@pytest.mark.filterwarnings("ignore:Nearest")
def test_erased_rectangles_are_erased_in_masks_too(K):
    theirs = K.AugmentationSequential(K.RandomErasing((0.3, 0.3), (1.0, 1.0), p=1.0), data_keys=["input", "mask"])
    image, mask = torch.ones(1, 3, 20, 20), torch.ones(1, 1, 20, 20)
    for one, other in (theirs(image, mask), from_kornia(theirs)({"image": image, "mask": mask}).values()):
        assert torch.equal(one[:, :1] > 0.5, other > 0.5)
        assert 0.6 < other.mean() < 0.8


def test_one_number_shifts_up_and_down_alone(K):
    theirs = K.RandomAffine(degrees=0.0, translate=0.2, p=1.0)
    theirs(torch.rand(50, 1, 20, 20))
    (ours,) = from_kornia(theirs)
    assert (theirs._params["translations"][:, 0] == 0).all()
    assert theirs._params["translations"][:, 1].abs().max() <= 0.2 * 20
    assert ours.translate == (0.0, 0.2)


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
        ({"name": "RandomJPEG", "jpeg_quality": [1, 100]}, ""),
        ({"name": "RandomHorizontalFlip", "p_batch": 0.5}, "p_batch=0.5"),
        ({"name": "RandomAffine", "degrees": 5, "shear": 4}, "shear"),
        ({"name": "Sequential", "transforms": [], "random_apply": 2}, "random_apply=2"),
    ],
)
def test_what_would_differ_is_refused(table, option):
    with pytest.raises(Unsupported) as caught:
        from_kornia(table, match="exact")
    assert caught.value.missing[0].option == option


@pytest.mark.parametrize("times", [(-1, -1), (1, 1), (2, 2), (3, 3)])
def test_quarter_turns_are_those_of_the_range(K, times):
    theirs, square = K.RandomRotation90(times, p=1.0), IMAGE[..., :20]
    found = read_kornia(theirs)
    assert (found.pipeline(square) - theirs(square)).abs().max() < 2e-4
    assert not any("times" in note for note in found.notes)
    assert read_kornia({"name": "RandomRotation90", "times": [-1, 1]}).pipeline[0].times == (0, 1, 3)


def test_the_longer_side_is_the_longer_side(K):
    for side in ("short", "long"):
        theirs = K.Resize(13, side=side)
        assert read_kornia(theirs).pipeline(IMAGE).shape == theirs(IMAGE).shape
    assert "side='vert'" in read_kornia({"name": "Resize", "size": 13, "side": "vert"}).notes[1]
