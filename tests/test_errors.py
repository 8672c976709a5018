"""Bad input is explained: what, expected, got, what to do."""

import math

import pytest
import torch

import pellucid as P
from pellucid import ImplementationError, InvalidArgument, InvalidType, Pipeline, RandomAffine, RandomRotation, Uniform
from tests.refusals import refused


@pytest.mark.parametrize(
    "build",
    [
        lambda: RandomAffine(degrees=-5),
        lambda: RandomAffine(degrees=(10, -10)),
        lambda: RandomAffine(degrees="10"),
        lambda: RandomAffine(degrees=(1, 2, 3)),
        lambda: RandomAffine(10, translate=0.1),
        lambda: RandomAffine(10, translate=(10, 10)),
        lambda: RandomAffine(10, translate=(0.1, (-2.0, 0.0))),
        lambda: P.RandomTranslate((0.1, P.Learnable(16.0))),
        lambda: RandomAffine(10, scale=0.1),
        lambda: P.RandomScale(1.2),
        lambda: P.RandomScale(-1.0),
        lambda: RandomAffine(10, scale=(0.0, 1.0)),
        lambda: RandomAffine(10, scale=(-1.0, 1.0)),
        lambda: RandomAffine(10, scale=(1.2, 0.8)),
        lambda: RandomAffine(10, interpolation="lanczos"),
        lambda: RandomAffine(10, padding_mode="wrap"),
        lambda: RandomAffine(10, p=1.5),
        lambda: RandomAffine(10, p="often"),
        lambda: P.RandomPerspective(distortion_scale=1.5),
        lambda: P.RandomHorizontalFlip(p=-0.1),
        lambda: P.RandomRotation90(times=()),
        lambda: P.RandomRotation90(times=(1.5,)),
        lambda: P.RandomCrop(0),
        lambda: P.RandomCrop((4, 4, 4)),
        lambda: P.RandomCrop(4, padding=-1),
        lambda: P.RandomResizedCrop(8, scale=(0.5, 1.5)),
        lambda: P.RandomResizedCrop(8, ratio=(2.0, 0.5)),
        lambda: P.Resize("large"),
        lambda: P.Pad((1, 2, 3)),
        lambda: P.ColorJitter(brightness=-0.1),
        lambda: P.ColorJitter(hue=0.7),
        lambda: P.ColorJitter(clip="sometimes"),
        lambda: P.RandomGamma(gamma=0.0),
        lambda: P.RandomGaussianBlur(4),
        lambda: P.RandomGaussianBlur(5, sigma=0.0),
        lambda: P.RandomGaussianNoise(sigma=-0.1),
        lambda: P.RandomErasing(scale=(0.5, 2.0)),
        lambda: P.RandomErasing(fill="noise"),
        lambda: P.Normalize((0.5,), (0.0,)),
        lambda: P.Normalize((0.5,), (0.1, 0.2)),
        lambda: P.Normalize(torch.ones(2, 2), torch.ones(2, 2)),
        lambda: Pipeline([torch.nn.ReLU()]),
        lambda: Pipeline([], seed=-1),
        lambda: Pipeline([], impl="fast"),
        lambda: Pipeline([], box_format="yxyx"),
        lambda: Pipeline([], targets={"left": "picture"}),
        lambda: Pipeline([], interpolation={"mask": "soft"}),
        lambda: Pipeline.from_dict({"pellucid": 99, "transforms": []}),
        lambda: Pipeline.from_dict({"pellucid": 1, "transforms": [{"name": "RandomMagic"}]}),
        lambda: Pipeline.from_dict({"pellucid": 1, "transforms": [{"name": "RandomRotation", "degree": 3}]}),
        lambda: Pipeline.from_dict({"pellucid": 1, "sead": 1, "transforms": []}),
        lambda: Pipeline.from_dict(
            {"pellucid": 1, "dtype": "float", "transforms": [{"name": "Resize", "size": {"distribution": "Cauchy"}}]}
        ),
    ],
)
def test_constructors_explain(build):
    with pytest.raises((InvalidArgument, InvalidType)) as caught:
        build()
    assert "expected" in str(caught.value)
    assert "got" in str(caught.value)


@pytest.mark.parametrize(
    ("transform", "shape"),
    [
        (P.RandomCrop(9), (1, 3, 4, 5)),
        (P.ColorJitter(saturation=0.2), (1, 4, 4, 4)),
        (P.RandomGrayscale(), (1, 2, 4, 4)),
        (P.Normalize((0.1, 0.2), (1.0, 1.0)), (1, 3, 4, 4)),
        (P.RandomErasing(fill=(0.1, 0.2)), (1, 3, 4, 4)),
        (RandomRotation(10, fill=(0.1, 0.2)), (1, 3, 4, 4)),
    ],
)
def test_images_a_transform_cannot_handle(transform, shape):
    refused(InvalidArgument, "expected", Pipeline([transform]), torch.rand(shape))


def test_eight_bit_images_that_end_up_normalised_come_back_as_float32():
    x = torch.zeros(1, 3, 4, 4, dtype=torch.uint8)
    normalize, back = P.Normalize((0.5,), (0.5,)), P.Denormalize((0.5,), (0.5,))
    for transforms in ([normalize], [normalize, P.RandomHorizontalFlip()], [back, normalize]):
        assert Pipeline(transforms)(x).dtype == torch.float32
    assert torch.equal(Pipeline([normalize])(x), torch.full((1, 3, 4, 4), -1.0))
    assert Pipeline([normalize], dtype=torch.float16, impl="reference")(x).dtype == torch.float16
    assert torch.equal(Pipeline([normalize, back])(x), x)
    refused(InvalidArgument, "dtype: expected a floating-point dtype", Pipeline([normalize], dtype=torch.uint8), x)


DTYPES = ("float16", "bfloat16", "float32", "float64", "uint8")


@pytest.mark.parametrize("name", sorted({str(d) for d in vars(torch).values() if isinstance(d, torch.dtype)}))
def test_pipelines_return_floating_point_or_bytes(name, tmp_path):
    """200 in bytes came back as 16201 in uint16, and as 0 in int32; from files, too."""
    name, dtype = name.removeprefix("torch."), getattr(torch, name.removeprefix("torch."))
    path = tmp_path / "pipeline.toml"
    path.write_text(f'pellucid = 1\ndtype = "{name}"\ntransforms = []\n')
    for make in (lambda: Pipeline([], dtype=dtype), lambda: Pipeline.load(path)):
        if name in DTYPES:
            assert make()(torch.zeros(1, 3, 4, 4)).dtype == dtype
        else:
            refused(InvalidArgument, r"dtype: expected torch\.float32", make)


def test_a_dtype_by_name_is_no_dtype():
    refused(InvalidType, r"dtype: expected torch\.float32", Pipeline, [P.RandomHorizontalFlip()], dtype="float32")


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
def test_numbers_that_torch_only_stores(name):
    x = torch.zeros(1, 3, 4, 4).to(getattr(torch, name))
    for call in (P.RandomHorizontalFlip(), Pipeline([P.RandomRotation(10)]), P.functional.horizontal_flip):
        with pytest.raises(InvalidType, match="expected float16, bfloat16, float32") as raised:
            call(x)
        assert ".float()" in str(raised.value)
    refused(InvalidType, "mask", Pipeline([P.RandomRotation(10)]), {"image": x.float(), "mask": x})


def test_an_explicit_implementation_never_falls_back():
    refused(ImplementationError, "triton", Pipeline([RandomRotation(10)], impl="triton"), torch.rand(1, 3, 4, 4))


def test_replaying_the_wrong_batch():
    augment = Pipeline([RandomRotation(10)])
    record = augment.draw(torch.rand(2, 3, 8, 8))
    refused(InvalidArgument, "samples", augment.apply, torch.rand(3, 3, 8, 8), record)
    refused(InvalidArgument, "height and width", augment.apply, torch.rand(2, 3, 9, 8), record)
    refused(InvalidArgument, "drawn values", record.with_param, 0, "angle", torch.zeros(2))
    refused(InvalidArgument, "shape", record.with_param, 0, "degrees", torch.zeros(3))
    refused(InvalidArgument, "floating-point numbers", record.with_param, 0, "degrees", torch.zeros(2, dtype=torch.int64))
    refused(InvalidType, "record", augment.apply, torch.rand(2, 3, 8, 8))
    with pytest.raises(IndexError):
        record[2]


def test_a_non_finite_or_singular_matrix_shows_fill_and_harms_nothing():
    augment = Pipeline([P.RandomScale((0.5, 2.0), fill=0.25)])
    x = torch.rand(3, 3, 6, 6, requires_grad=True)
    record = augment.draw(x)
    clean = augment.apply(x, record)
    for bad in (math.nan, math.inf, 0.0):
        scale = record.params[0]["scale"].clone()
        scale[1] = bad
        poisoned = record.with_param(0, "scale", scale)
        out = augment.apply({"image": x, "boxes": torch.rand(3, 1, 4), "keypoints": torch.rand(3, 1, 2)}, poisoned)
        assert torch.equal(out["image"][[0, 2]], clean[[0, 2]])
        assert bool(torch.isfinite(out["image"]).all())
        if bad != math.inf:
            assert bool((out["image"][1] == 0.25).all())
            assert not bool(out["boxes_valid"][1].any())
            assert not bool(out["keypoints_valid"][1].any())
        (gradient,) = torch.autograd.grad(out["image"].sum(), x)
        assert bool(torch.isfinite(gradient).all())
        assert bool((gradient[1] == 0).all()) or bad == math.inf


def test_nan_pixels_stay_where_they_are():
    x = torch.rand(1, 1, 9, 9)
    x[0, 0, 4, 4] = math.nan
    out = Pipeline([RandomRotation((37.0, 37.0))])(x)
    assert 1 <= int(torch.isnan(out).sum()) <= 9


def test_learned_ranges_cannot_be_inverted():
    refused(InvalidArgument, "Swap", Uniform, 3.0, 2.0)


def test_translations_are_fractions_and_scales_are_ranges():
    with pytest.raises(
        InvalidArgument, match=r"RandomAffine.translate\[1\]: expected a fraction of the height, at most 1, got 10.*10 / 224"
    ):
        RandomAffine(10, translate=(1.0, 10))
    refused(InvalidArgument, r"RandomAffine.scale: .*got 0.1.*\(0.9, 1.1\).*\(0.1, 0.1\)", RandomAffine, 10, scale=0.1)
    refused(InvalidArgument, r"\(1, 1.25\).*\(1.25, 1.25\)", P.RandomScale, 1.25)
    refused(InvalidArgument, r"RandomResizedCrop.scale: .*got 0.5.*\(0.5, 1\).*\(0.5, 0.5\)", P.RandomResizedCrop, 8, scale=0.5)
    refused(InvalidArgument, r"RandomResizedCrop.ratio: .*got 2.*\(0.5, 2\).*\(2, 2\)", P.RandomResizedCrop, 8, ratio=2)
    refused(InvalidArgument, r"RandomErasing.scale: .*got 0.1.*\(0, 0.1\).*\(0.1, 0.1\)", P.RandomErasing, scale=0.1)
    P.RandomErasing(scale=0, ratio=1), P.RandomResizedCrop(8, scale=1, ratio=1.0)
    assert RandomAffine(10, translate=(1, (-1.0, 1.0)), scale=1).translate == (1, (-1.0, 1.0))
    # A learned factor is one number too, and stays one when it is frozen.
    cut = P.RandomResizedCrop(8, scale=P.Learnable(0.5), ratio=P.Learnable(1.5, low=0.5, high=2.0))
    learned = Pipeline([P.RandomScale(P.Learnable(1.5)), RandomAffine(0, scale=P.Learnable(0.5)), cut], seed=3)
    x, key = torch.rand(1, 3, 8, 8), P.Key(3, 1)
    assert set(learned.numbers()) == {"0.scale.value", "1.scale.value", "2.scale.value", "2.ratio.value"}
    assert torch.allclose(learned.frozen()(x, key=key), learned(x, key=key).detach())
    assert torch.equal(Pipeline.from_dict(learned.frozen().to_dict())(x, key=key), learned.frozen()(x, key=key))


BRIGHT = [
    (P.ColorJitter(brightness=0.2), "ColorJitter"),
    (P.RandomHue(0.1), "RandomHue"),
    (P.RandomGamma((0.9, 1.1)), "RandomGamma"),
    (P.RandomSolarize(), "RandomSolarize"),
    (P.RandomInvert(), "RandomInvert"),
    (P.RandomSharpness(), "RandomSharpness"),
    (P.RandomGaussianNoise(0.1), "RandomGaussianNoise"),
    (P.RandomJPEG(), "RandomJPEG"),
]


@pytest.mark.parametrize(("transform", "name"), BRIGHT, ids=[name for _, name in BRIGHT])
def test_floats_up_to_255_are_warned_of_once(transform, name):
    levels = torch.rand(4, 3, 32, 40).mul(255).round()
    augment = Pipeline([P.RandomHorizontalFlip(), transform])
    with pytest.warns(UserWarning, match=f"{name} takes 1 for white.*by 255.*uint8"):
        augment(levels)
    augment(levels)  # warnings are errors here
    for fine in (levels / 255, levels.to(torch.uint8), levels[:0], torch.full((1, 3, 4, 4), math.nan)):
        Pipeline([transform])(fine)
    black = torch.zeros(2, 3, 64, 64)
    black[:, :, 20:44, 20:44] = 255.0  # a picture with a wide frame, not contiguous
    with pytest.warns(UserWarning, match=name):
        Pipeline([transform])(black.contiguous(memory_format=torch.channels_last))


def test_other_units_are_nobodys_business():
    levels = torch.rand(4, 3, 8, 8) * 255
    statistics = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
    for transforms in (
        [P.RandomAffine(10), P.RandomGaussianBlur(3)],
        [P.ColorJitter(0.2, clip="none")],
        [P.Normalize((123.7, 116.3, 103.5), (58.4, 57.1, 57.4)), P.RandomBrightness(0.1)],
        [P.RandomGrayscale(p=1.0)],
    ):
        Pipeline(transforms)(levels)
    Pipeline([P.Denormalize(**statistics), P.ColorJitter(0.2), P.Normalize(**statistics)])(torch.randn(4, 3, 8, 8) * 2)


@pytest.mark.parametrize("place", [2, -3, "0"])
def test_a_record_has_no_step_outside_of_its_plan(place):
    record = Pipeline([RandomRotation(10), P.RandomInvert()]).draw(torch.zeros(2, 3, 8, 8))
    refused(InvalidArgument, "one of 2 transforms", record.step, place)
    assert record.step(-1).plan.transforms == (P.RandomInvert(),)
