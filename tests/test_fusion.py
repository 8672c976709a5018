"""A composed run is exact: against step by step, against the formula, bit for bit where it must be."""

import pytest
import torch

import pellucid as P
from pellucid.engine import execution
from pellucid.engine.plan import make_plan
from pellucid.kernels import dispatch
from pellucid.pipeline.explanation import explain
from pellucid.types import ImageSpec

pytestmark = pytest.mark.usefixtures("shapes_checked")
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SPEC = ImageSpec(3, 16, 16)


def stepwise(augment, x, record):
    """The chain of one-transform pipelines with the same values."""
    for i in range(len(augment.transforms)):
        x = P.Pipeline([augment.transforms[i]]).apply(x, record.step(i))
    return x


def middle(batch=3):
    return 0.4 + 0.2 * torch.rand(batch, 3, 16, 16, dtype=torch.float64)


@pytest.mark.parametrize(
    "transforms",
    [
        [P.ColorJitter(0.2, 0.2, saturation=0.2), P.RandomAffine(20, fill=0.25)],
        [P.RandomAffine(20, fill=0.25), P.ColorJitter(0.2, 0.0, saturation=0.2)],
        [P.ColorJitter(0.2, 0.2, saturation=0.2, hue=0.1), P.RandomAffine(20, fill=0.25)],
        [P.RandomAffine(20, fill=0.25), P.ColorJitter(0.2, 0.0, saturation=0.2, hue=0.1), P.Normalize(MEAN, STD)],
        [P.RandomInvert(p=1.0), P.RandomRotation(20, fill=(0.1, 0.2, 0.3)), P.Normalize(MEAN, STD)],
        [P.Normalize(MEAN, STD), P.RandomRotation(20, fill=0.7)],
        [P.RandomRotation(20, fill=0.7), P.RandomBrightness(0.2), P.RandomHorizontalFlip(p=1.0)],
        [P.RandomRotation(20, fill=0.7), P.RandomHue(0.2), P.RandomVerticalFlip(p=1.0), P.RandomSaturation(0.3)],
        [P.RandomBrightness(0.2), P.RandomHue(0.2), P.RandomRotation(20, fill=0.6), P.RandomHue(0.1), P.RandomBrightness(0.1)],
        [P.RandomResizedCrop((12, 20)), P.RandomHorizontalFlip(p=1.0), P.ColorJitter(0.2, 0.0, saturation=0.2, hue=0.1)],
        [P.RandomAffine(20, fill=0.25), P.RandomGamma((0.5, 2.0)), P.Normalize(MEAN, STD)],
        [
            P.ColorJitter(0.2, 0.2, saturation=0.2),
            P.RandomAffine(20),
            P.RandomGamma((0.5, 2.0), gain=(0.8, 1.2)),
            P.RandomHue(0.2),
            P.RandomGamma(),
        ],
        [P.RandomResizedCrop((12, 20)), P.RandomGamma((0.5, 2.0), p=0.5), P.Normalize(MEAN, STD)],
        [
            P.Resize((6, 5)),
            P.RandomGamma((0.5, 2.0)),
            P.RandomInvert(p=1.0),
            P.RandomGamma((0.5, 2.0), clip="none"),
            P.RandomHue(0.2),
        ],
        [P.RandomBrightness(0.2), P.RandomGamma((0.5, 2.0)), P.ColorJitter(0.2)],
        [P.RandomAffine(20, fill=0.25), P.RandomSolarize(0.6, p=0.5), P.Normalize(MEAN, STD)],
        [
            P.RandomResizedCrop((12, 20)),
            P.RandomBrightness(0.2),
            P.RandomPosterize((1, 6), p=0.7),
            P.RandomSolarize(),
            P.RandomHue(0.2),
        ],
        [P.RandomHorizontalFlip(p=1.0), P.RandomVerticalFlip(p=1.0), P.RandomResizedCrop((12, 20))],
        [P.RandomCrop((12, 12)), P.RandomHorizontalFlip(p=1.0), P.RandomRotation90()],
        [P.Resize((9, 7)), P.RandomHorizontalFlip(p=1.0), P.CenterCrop((5, 5))],
    ],
    ids=lambda ts: "+".join(type(t).__name__ for t in ts),
)
def test_one_interpolation_equals_step_by_step(transforms):
    """Runs with a single interpolating warp: composed, unfused and chained agree to float64 rounding.

    Contrast after a warp is not among them: by convention its pivot is the source's mean, not the warped image's.
    """
    x = middle()
    fused, unfused = P.Pipeline(transforms, seed=4), P.Pipeline(transforms, seed=4, fuse=False)
    assert len(fused.plan(SPEC).groups) == 1
    out, record = fused(x, return_record=True)
    assert (unfused(x) - out).abs().max() < 1e-12
    if not any(type(t).__name__ == "RandomRotation90" for t in transforms):
        assert (stepwise(fused, x, record) - out).abs().max() < 1e-12


@pytest.mark.parametrize("first", [P.RandomAffine(20, fill=0.25), P.RandomResizedCrop((12, 20)), P.RandomBrightness(0.2)])
@pytest.mark.parametrize(
    "curve",
    [
        P.RandomGamma((P.Learnable(0.5), P.Learnable(2.0)), gain=(0.8, P.Learnable(1.2))),
        P.RandomPosterize((P.Learnable(2.0), 5.0), p=0.7, image_gradient="soft"),
        P.RandomSolarize((P.Learnable(0.3), P.Learnable(0.7)), p=0.7),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_curve_has_the_gradients_in_a_pass_that_it_has_alone(first, curve):
    transforms = [first, curve, P.Normalize(MEAN, STD)]
    found, images = [], middle()
    for fuse in (True, False):
        augment, x = P.Pipeline(transforms, seed=4, fuse=fuse), images.clone().requires_grad_()
        assert len(augment.plan(SPEC).groups) == (1 if fuse else 3)
        out = augment(x)
        weights = torch.linspace(-1, 1, out.numel(), dtype=x.dtype).view_as(out)
        found.append(torch.autograd.grad((out * weights).sum(), [x, *augment.parameters()]))
    assert len(found[0]) > 1
    torch.testing.assert_close(*found, rtol=1e-9, atol=1e-12)


def test_contrast_after_a_warp_pivots_on_the_source():
    x = middle()
    augment = P.Pipeline([P.RandomRotation(30, fill=0.9), P.ColorJitter(0.0, (0.5, 0.5))])
    out, record = augment(x, return_record=True)
    grey = (x * torch.tensor((0.299, 0.587, 0.114), dtype=x.dtype)[:, None, None]).sum(1).mean((1, 2))[:, None, None, None]
    warped = P.Pipeline([augment.transforms[0]]).apply(x, record.step(0))
    assert (out - (0.5 * warped + 0.5 * grey)).abs().max() < 1e-12


def test_geometry_composes_as_matrices():
    transforms = [P.RandomAffine(20, scale=(0.9, 1.2)), P.RandomPerspective(0.3, p=1.0), P.RandomTranslate((0.1, 0.1))]
    augment = P.Pipeline(transforms, seed=1)
    record = augment.draw(middle())
    product = torch.eye(3, dtype=torch.float64)
    for i in range(3):
        product = record.step(i).matrix @ product
    scale = (product / product[:, 2:, 2:]), (record.matrix / record.matrix[:, 2:, 2:])
    assert torch.allclose(*scale, rtol=0, atol=1e-10)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.uint8])
def test_exact_maps_stay_bit_exact_in_composition(dtype):
    x = torch.rand(4, 3, 9, 9, dtype=torch.float64)
    x = (x * 255).to(dtype) if dtype == torch.uint8 else x.to(dtype)
    still = P.RandomAffine(degrees=0, translate=(0.0, 0.0), scale=(1.0, 1.0), shear=0)
    quarter = P.RandomRotation((90.0, 90.0))
    shift = P.RandomTranslate(((1 / 9, 1 / 9), (-2 / 9, -2 / 9)))
    assert torch.equal(P.Pipeline([still])(x), x)
    assert torch.equal(P.Pipeline([P.RandomHorizontalFlip(p=1.0), still, P.RandomVerticalFlip(p=1.0)])(x), x.flip(-1, -2))
    assert torch.equal(P.Pipeline([quarter, still])(x), torch.rot90(x, 1, (-2, -1)))
    assert torch.equal(P.Pipeline([P.RandomRotation90(times=(1,)), P.RandomRotation90(times=(3,))])(x), x)
    moved = P.Pipeline([shift])(x)
    assert (moved[..., :-2, 1:].double() - x[..., 2:, :-1].double()).abs().max() <= (0 if dtype == torch.uint8 else 1e-6)


def test_fill_is_mixed_once():
    ones = torch.ones(1, 3, 16, 16, dtype=torch.float64)
    assert torch.allclose(P.RandomRotation((33.0, 33.0), fill=1.0)(ones), ones, rtol=0, atol=1e-14)


def test_uint8_units_of_fill():
    x = torch.full((1, 3, 8, 8), 100, dtype=torch.uint8)
    out = P.RandomTranslate(((0.5, 0.5), (0.0, 0.0)), fill=(10, 20, 30))(x)
    assert out[0, :, 0, 0].tolist() == [10, 20, 30]
    assert out[0, :, 0, 7].tolist() == [100, 100, 100]


@pytest.mark.parametrize(
    ("transforms", "text"),
    [
        (
            [P.RandomAffine(9), P.RandomHorizontalFlip(), P.ColorJitter(0.1), P.Normalize(MEAN, STD), P.RandomGamma()],
            "Warp[0,1] + Color[2,3,4]",
        ),
        ([P.RandomAffine(9), P.RandomGamma(), P.RandomRotation(9)], "Warp[0] + Color[1] -> Warp[2]"),
        ([P.RandomResizedCrop(16), P.RandomSolarize(), P.Normalize(MEAN, STD)], "Warp[0] + Color[1,2]"),
        ([P.RandomAffine(9), P.RandomEqualize(), P.RandomPosterize()], "Warp[0] -> Curve[1] -> Curve[2]"),
        ([P.RandomAffine(9), P.OneOf([P.RandomPosterize(), P.RandomInvert()])], "Warp[0] + Color[3] -> Curve[2]"),
        (
            [P.RandomGamma(), P.RandomAffine(9), P.RandomGamma(), P.ColorJitter(0.1, 0.1)],
            "Curve[0] -> Warp[1] + Color[2] -> Color[3]",
        ),
        ([P.ColorJitter(0.1, 0.1, clip="each"), P.RandomAffine(9)], "Color[0] -> Warp[1]"),
        ([], "nothing"),
    ],
)
def test_plans_read_as_expected(transforms, text):
    assert str(make_plan(tuple(transforms), SPEC)) == text


@pytest.mark.parametrize(
    ("transforms", "text"),
    [
        ([P.RandomAffine(9), P.Normalize(MEAN, STD)], "by triton)"),
        ([P.RandomAffine(9), P.RandomGamma()], "by triton, stages of colour but the first by PyTorch)"),
        ([P.RandomResizedCrop(16), P.Normalize(MEAN, STD)], "within the crop of [0], by triton)"),
        ([P.RandomAffine(9, scale=(0.4, 0.6), antialias=True)], "antialiased, by triton)"),
        ([P.RandomElastic()], "the field of [0], by triton)"),
        ([P.RandomAffine(9), P.RandomElastic()], "the field of [1], by triton)"),
        ([P.RandomElastic(interpolation="nearest")], "the field of [0], by triton, places by PyTorch)"),
    ],
)
def test_explain_says_what_triton_leaves_to_torch(transforms, text, monkeypatch):
    monkeypatch.setattr(dispatch, "triton_works", lambda: True)
    assert text in explain(make_plan(tuple(transforms), SPEC), impl="auto", device="cuda")
    assert "by cpu)" in explain(make_plan(tuple(transforms), SPEC), impl="auto", device="cpu")


def test_empty_pipeline_returns_a_copy():
    x = torch.rand(1, 3, 4, 4)
    out = P.Pipeline([])(x)
    assert torch.equal(out, x)
    assert out.data_ptr() != x.data_ptr()


@pytest.mark.parametrize("steps", [[P.RandomBrightness(0.2), P.Pad(2)], [P.Normalize(0.5, 0.2), P.RandomRotation(9, fill=0.3)]])
@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8])
def test_an_empty_batch_goes_through_colour_and_fill_in_one_pass(steps, dtype):
    whole = P.Pipeline(steps)(torch.zeros(2, 3, 8, 9, dtype=dtype))
    empty = P.Pipeline(steps)(torch.zeros(0, 3, 8, 9, dtype=dtype))
    assert empty.shape == (0, *whole.shape[1:])
    assert empty.dtype == whole.dtype


@pytest.mark.parametrize(
    ("steps", "kept"), [([P.RandomCrop(20)], True), ([P.RandomCrop(20), P.Pad(3)], True), ([P.Pad(3, fill=0.3)], False)]
)
def test_bytes_that_are_only_moved_stay_bytes(steps, kept, monkeypatch):
    image = torch.randint(256, (3, 3, 32, 40), dtype=torch.uint8)
    pipeline = P.Pipeline([*steps, P.RandomRotation(20), P.RandomHorizontalFlip(), P.Normalize((0.5,) * 3, (0.2,) * 3)], seed=5)
    passes, passed = execution._apply_group, []

    def seen(group, lowered, image, scale, impl, dtype, **how):
        passed.append(dtype)
        return passes(group, lowered, image, scale, impl, dtype, **how)

    monkeypatch.setattr(execution, "_apply_group", seen)
    result = pipeline(image, key=P.Key(5, 1))
    assert set(passed[:-1]) == {torch.uint8 if kept else torch.float32}
    assert not kept or torch.equal(result, pipeline(image.float() * torch.tensor(1 / 255), key=P.Key(5, 1)))
