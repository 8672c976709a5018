"""Imported from torchvision: its own transform, with the values it drew, gives what ours gives with those values."""

import random

import pytest
import torch

import pellucid as P
from pellucid import Pipeline
from pellucid.interop import Unsupported, from_torchvision, read_torchvision
from pellucid.policy import AugMix
from tests.peers import torchvision_functional
from tests.refusals import refused

MATRIX = tuple(torch.randn(*shape, generator=torch.Generator().manual_seed(1)).double() / 40 for shape in ((1638, 1638), (1638,)))
IMAGE = torch.rand(3, 21, 26, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.fixture(scope="module")
def tv():
    torchvision_functional()
    from torchvision.transforms import v2

    return v2


def same(theirs, atol=1e-9, image=IMAGE, *, covered=False):
    """A transform whose draw is certain, as both do it; its borders are left out where it mixes the fill in twice."""
    pipeline = from_torchvision(theirs)
    (found, record), wanted = pipeline(image, return_record=True), theirs(image)
    assert found.shape == wanted.shape
    apart = (found.double() - wanted.double()).abs()
    if covered:
        apart = apart[:, pipeline.valid_mask(record)[0, 0] == 1.0]
        assert apart.numel() > 300
    assert apart.max() <= atol


@pytest.mark.parametrize("seed", range(12))
def test_affine_with_the_values_that_were_drawn(tv, seed):
    """Turns clockwise there; shifts are drawn as whole pixels there."""
    rng = random.Random(seed)
    ranges = tv.RandomAffine(
        (rng.uniform(-40, 0), rng.uniform(0, 40)),
        translate=(0.2, 0.3),
        scale=(0.7, 1.4),
        shear=(-12, 9, -6, 8),
        interpolation="bilinear",
    )
    torch.manual_seed(seed)
    drawn = ranges.make_params([IMAGE])
    degrees, (dx, dy), scale, (sx, sy) = (drawn[name] for name in ("angle", "translate", "scale", "shear"))
    pipeline = from_torchvision(ranges)
    record = pipeline.draw(IMAGE)
    values = {"degrees": -degrees, "translate_x": dx / 26, "translate_y": dy / 21, "scale": scale, "shear_x": sx, "shear_y": sy}
    for name, value in values.items():
        low, high = pipeline[0]._fixed[name].span()
        assert low - 0.5 / 21 <= value <= high + 0.5 / 21  # whole pixels may round beyond
        record = record.with_param(0, name, torch.full_like(record.params[0][name], value))
    wanted = tv.functional.affine(IMAGE, degrees, [dx, dy], scale, [sx, sy], interpolation=tv.InterpolationMode.BILINEAR)
    assert (pipeline.apply(IMAGE, record) - wanted).abs().max() < 1e-5  # whose grid is in single precision


@pytest.mark.parametrize("degrees", [-33.0, 10.0, 90.0])
def test_rotations_turn_the_other_way_from_affines(tv, degrees):
    for center in (None, [11.0, 8.5]):
        same(tv.RandomRotation((degrees, degrees), interpolation="bilinear", center=center), 1e-5, covered=True)
        same(tv.RandomAffine((degrees, degrees), interpolation="bilinear", center=center), 1e-5, covered=True)
    assert from_torchvision(tv.RandomRotation((0, 30)))[0].degrees == (0.0, 30.0)
    assert from_torchvision(tv.RandomAffine((0, 30)))[0].degrees == (-30.0, 0.0)


def test_affine_and_rotation_are_sampled_nearest_by_default(tv):
    assert from_torchvision(tv.RandomAffine(5))[0].interpolation == "nearest"
    assert from_torchvision(tv.RandomRotation(5))[0].interpolation == "nearest"
    assert from_torchvision({"name": "RandomAffine", "degrees": 5})[0].interpolation == "nearest"
    assert from_torchvision(tv.RandomPerspective())[0].interpolation == "bilinear"


@pytest.mark.parametrize("seed", range(6))
def test_jitter_with_the_values_and_the_order_that_were_drawn(tv, seed):
    theirs = tv.ColorJitter(0.4, (0.5, 1.2), 0.6, 0.2)
    torch.manual_seed(seed)
    drawn = theirs.make_params([IMAGE])
    pipeline = from_torchvision(theirs)
    record = pipeline.draw(IMAGE)
    names = ("brightness", "contrast", "saturation", "hue")
    for name in names:
        low, high = pipeline[0]._fixed[name].span()
        assert low <= drawn[f"{name}_factor"] <= high
        record = record.with_param(0, name, torch.full_like(record.params[0][name], float(drawn[f"{name}_factor"])))
    order = torch.as_tensor(drawn["fn_idx"])[None].to(record.params[0]["order"].dtype)
    record = record.with_param(0, "order", order)
    wanted = theirs.transform(IMAGE, drawn)
    assert (pipeline.apply(IMAGE, record) - wanted).abs().max() < 1e-6


CERTAIN = {
    "flip": lambda tv: tv.RandomHorizontalFlip(p=1.0),
    "vertical flip": lambda tv: tv.RandomVerticalFlip(p=1.0),
    "resize": lambda tv: tv.Resize((13, 40)),
    "shorter side": lambda tv: tv.Resize(15),
    "longest side": lambda tv: tv.Resize(None, max_size=15),
    "resize bicubic": lambda tv: tv.Resize((13, 15), interpolation=tv.InterpolationMode.BICUBIC),
    "resize nearest": lambda tv: tv.Resize((42, 13), interpolation=tv.InterpolationMode.NEAREST_EXACT, antialias=None),
    "center crop": lambda tv: tv.CenterCrop((10, 30)),
    "pad": lambda tv: tv.Pad((1, 2, 3, 4), fill=0.3),
    "pad edge": lambda tv: tv.Pad([3, 2], padding_mode="edge"),
    "pad reflect": lambda tv: tv.Pad(5, padding_mode="reflect"),
    "pad symmetric": lambda tv: tv.Pad(5, padding_mode="symmetric"),
    "crop of all": lambda tv: tv.RandomCrop((27, 32), padding=3, padding_mode="reflect"),
    "contrast": lambda tv: tv.ColorJitter(contrast=(0.6, 0.6)),
    "invert": lambda tv: tv.RandomInvert(p=1.0),
    "solarize": lambda tv: tv.RandomSolarize(0.4, p=1.0),
    "sharpness": lambda tv: tv.RandomAdjustSharpness(2.5, p=1.0),
    "autocontrast": lambda tv: tv.RandomAutocontrast(p=1.0),
    "blur": lambda tv: tv.GaussianBlur((3, 9), sigma=(1.4, 1.4)),  # (horizontal, vertical)
    "linear": lambda tv: tv.LinearTransformation(*MATRIX),
    "normalize": lambda tv: tv.Normalize([0.4, 0.5, 0.6], [0.1, 0.2, 0.3]),
    "compose": lambda tv: tv.Compose(
        [tv.Resize(15), tv.Compose([tv.RandomVerticalFlip(p=1.0)]), tv.Normalize([0.5] * 3, [0.25] * 3)]
    ),
    "apply": lambda tv: tv.RandomApply([tv.RandomInvert(p=1.0), tv.RandomHorizontalFlip(p=1.0)], p=1.0),
    "choice": lambda tv: tv.RandomChoice([tv.RandomInvert(p=1.0), tv.RandomHorizontalFlip(p=1.0)], p=[0.0, 1.0]),
    "order": lambda tv: tv.RandomOrder([tv.RandomInvert(p=1.0), tv.RandomHorizontalFlip(p=1.0)]),
}


@pytest.mark.parametrize("name", CERTAIN)
def test_what_is_certain_is_the_same(tv, name):
    same(CERTAIN[name](tv), 2e-6)


def test_gray_within_the_digits_of_the_weights(tv):
    """0.2989 there, 0.299 here."""
    same(tv.Grayscale(3), 1.001e-4)


def test_gray_pictures_that_get_three_channels_there_are_told(tv):
    found, gray = read_torchvision(tv.Grayscale(3)), torch.rand(2, 1, 8, 9)
    assert found.pipeline(gray).shape[1] == 1
    assert tv.Grayscale(3)(gray).shape[1] == 3
    assert any("a picture of one channel keeps it" in note for note in found.notes)


def test_objects_whose_canvas_grows_keep_a_center_that_does_nothing(tv):
    for center in (None, [11.0, 8.5]):
        found = read_torchvision(tv.RandomRotation((20, 20), expand=True, center=center))
        assert not found.missing
        assert found.pipeline[0].expand
        assert found.pipeline[0].center is None


@pytest.mark.parametrize("size", [(18, 25), (25, 18), (10, 40), (31, 17), (20, 20), (12, 13)])
def test_resizes_with_a_longest_side_differ_by_a_pixel_at_most_and_say_so(tv, size):
    """A side is cut there before the other is computed from it."""
    picture = torch.rand(1, 3, *size)
    for options in ({"size": 16, "max_size": 22}, {"size": None, "max_size": 23}):
        found, theirs = read_torchvision(tv.Resize(**options)), tv.Resize(**options)(picture)
        ours = found.pipeline(picture)
        assert max(ours.shape[2:]) <= options["max_size"]
        assert all(abs(a - b) <= 1 for a, b in zip(ours.shape, theirs.shape, strict=True))
        assert any("whole pixels" in note and "Resize" in note for note in found.notes)
    refused(Unsupported, "max_size=22", from_torchvision, tv.Resize(16, max_size=22), match="exact")


BYTES = {
    "posterize": lambda tv: tv.RandomPosterize(3, p=1.0),
    "solarize": lambda tv: tv.RandomSolarize(100, p=1.0),
    "equalize": lambda tv: tv.RandomEqualize(p=1.0),
    "jpeg": lambda tv: tv.JPEG(40),
    "to tensor": lambda tv: tv.Compose([tv.ToImage(), tv.ToDtype(torch.float32, scale=True), tv.Normalize([0.5] * 3, [0.5] * 3)]),
    "floats": lambda tv: tv.ToDtype(torch.float32, scale=True),
    "fill": lambda tv: tv.Pad(3, fill=(10, 20, 30)),
}


@pytest.mark.parametrize("name", BYTES)
def test_bytes(tv, name):
    theirs = BYTES[name](tv)
    image = (IMAGE * 255).round().to(torch.uint8)
    if name == "jpeg":
        pytest.importorskip("torchvision.io.image", reason="torchvision without its codecs")
        try:
            theirs(image)
        except (RuntimeError, AttributeError):
            pytest.skip("torchvision's codecs are not built for this torch")
    same(theirs, 2e-6, image)
    assert from_torchvision(theirs)(image).dtype == theirs(image).dtype


def test_the_first_version_too(tv):
    from torchvision import transforms as v1

    steps = [v1.RandomResizedCrop(14), v1.RandomAffine((0, 20)), v1.RandomApply([v1.ColorJitter(0.4)], p=0.8), v1.ToTensor()]
    pipeline = from_torchvision(v1.Compose(steps))  # whose children() is empty
    assert [type(one).__name__ for one in pipeline] == ["RandomResizedCrop", "RandomAffine", "Apply"]
    assert pipeline[1].degrees == (-20.0, 0.0)
    assert pipeline.options.dtype == torch.float32


def test_published_policies(tv):
    from pellucid.policy import AutoAugment, RandAugment, TrivialAugmentWide

    assert from_torchvision(tv.TrivialAugmentWide())[0] == TrivialAugmentWide()
    assert from_torchvision(tv.RandAugment(3, 11))[0] == RandAugment(3, 11)
    assert from_torchvision(tv.AutoAugment(tv.AutoAugmentPolicy.SVHN))[0] == AutoAugment("svhn")


def test_augmix_and_elastic(tv):
    assert from_torchvision(tv.AugMix(severity=2, mixture_width=4, chain_depth=1))[0] == AugMix(
        "torchvision", severity=2, width=4, depth=1
    )
    assert from_torchvision(tv.AugMix())[0] == AugMix("torchvision")
    refused(Unsupported, "all_ops=False", from_torchvision, tv.AugMix(all_ops=False), match="exact")
    assert from_torchvision(tv.ElasticTransform(40.0, 6.0))[0] == P.RandomElastic.from_alpha_sigma(40.0, 6.0)
    refused(Unsupported, "alike along both axes", from_torchvision, tv.ElasticTransform([40.0, 20.0]), match="exact")


def test_what_has_no_equal_is_listed_with_place_option_reason_and_what_is_nearest():
    source = {
        "name": "Compose",
        "transforms": [
            {"name": "RandomRotation", "degrees": 10, "expand": True},
            {"name": "RandomApply", "p": 0.5, "transforms": [{"name": "FiveCrop"}, {"name": "RandomInvert"}]},
            {"name": "Resize", "size": 9, "shape": 3},
            {"name": "Resize", "size": -1},
            {"name": "RandomErasing", "value": "random"},
        ],
    }
    with pytest.raises(Unsupported) as caught:
        from_torchvision(source, match="exact")
    found = [(one.where, one.name, one.option) for one in caught.value.missing]
    assert found == [
        ("pipeline.transforms[0]", "RandomRotation", "expand=True"),
        ("pipeline.transforms[1].transforms[0]", "FiveCrop", ""),
        ("pipeline.transforms[2]", "Resize", "shape=3"),
        ("pipeline.transforms[3]", "Resize", ""),
        ("pipeline.transforms[4]", "RandomErasing", "value='random'"),
    ]
    assert "Nearest: RandomRotation(expand=True)." in str(caught.value)
    rest = read_torchvision(source, match="exact")
    assert rest.total == 6
    assert rest.pipeline.transforms == (P.Apply([P.RandomInvert()], p=0.5),)


def test_a_function_of_the_users_own_is_listed(tv):
    found = read_torchvision(tv.Compose([tv.Lambda(lambda x: x), torch.nn.ReLU(), tv.RandomInvert()]))
    assert [one.name for one in found.missing] == ["Lambda", "ReLU"]
    assert isinstance(found.pipeline, Pipeline)
    with pytest.raises(TypeError, match="a table with the name of a transform"):
        from_torchvision({"name": "Compose", "transforms": ["RandomInvert"]})
