"""Learning really learns: every field that may be `Learnable` moves its next draw after an optimiser step."""

import pytest
import torch

import pellucid as P
from pellucid import CenteredUniform, Key, Learnable, LogUniform, Normal, Pipeline, Uniform
from tests.refusals import refused

L = Learnable
FIELDS = {
    "flip.p": P.RandomHorizontalFlip(p=L(0.4)),
    "vertical.p": P.RandomVerticalFlip(p=L(0.4)),
    "rotation90.p": P.RandomRotation90(p=L(0.4)),
    "affine.degrees": P.RandomAffine(degrees=Uniform(L(-10.0), L(10.0))),
    "affine.degrees magnitude": P.RandomAffine(degrees=L(10.0)),
    "affine.translate": P.RandomAffine(degrees=1, translate=(L(0.1), L(0.2))),
    "affine.scale": P.RandomAffine(degrees=1, scale=(L(0.8), L(1.2))),
    "affine.scale log": P.RandomAffine(degrees=1, scale=LogUniform(L(0.8), L(1.2))),
    "affine.shear": P.RandomAffine(degrees=1, shear=(Normal(0.0, L(3.0)), CenteredUniform(0.0, L(2.0)))),
    "affine.p": P.RandomAffine(degrees=10, p=L(0.4)),
    "rotation.degrees": P.RandomRotation((L(-10.0), L(10.0))),
    "translate": P.RandomTranslate((L(0.1), Normal(0.0, L(0.1)))),
    "shear": P.RandomShear(L(5.0)),
    "scale": P.RandomScale(Uniform(L(0.8, low=0.5), L(1.2, high=2.0))),
    "perspective.distortion_scale": P.RandomPerspective(L(0.3), p=1.0),
    "resized_crop.scale": P.RandomResizedCrop(8, scale=(L(0.3, low=0.1), L(0.9, high=1.0))),
    "resized_crop.ratio": P.RandomResizedCrop(8, ratio=(L(0.8), L(1.2))),
    "jitter": P.ColorJitter(L(0.2), L(0.2), saturation=L(0.2), hue=L(0.1)),
    "jitter ranges": P.ColorJitter((L(0.8), L(1.2)), (L(0.8), L(1.2)), saturation=(L(0.8), L(1.2)), hue=(L(-0.1), L(0.1))),
    "jitter.p": P.ColorJitter(0.2, p=L(0.4)),
    "brightness": P.RandomBrightness(L(0.2)),
    "contrast": P.RandomContrast(L(0.2)),
    "saturation": P.RandomSaturation(L(0.2)),
    "hue": P.RandomHue(L(0.1)),
    "grayscale.p": P.RandomGrayscale(p=L(0.4)),
    "invert.p": P.RandomInvert(p=L(0.4)),
    "gamma": P.RandomGamma((L(0.7), L(1.5)), gain=L(1.0)),
    "shuffle.p": P.RandomChannelShuffle(p=L(0.4)),
    "blur.sigma": P.RandomGaussianBlur(5, sigma=(L(0.5, low=0.1), L(1.5))),
    "sharpness": P.RandomSharpness(L(0.5), p=1.0),
    "noise": P.RandomGaussianNoise(mean=Normal(L(0.0), 0.1), sigma=(L(0.05, low=0.0), L(0.2)), clip="none"),
    "erasing": P.RandomErasing(p=1.0, scale=(L(0.1, low=0.01), L(0.3, high=1.0)), ratio=(L(0.5), L(2.0)), fill=0.3),
    "erasing.p": P.RandomErasing(p=L(0.4), fill=0.3),
    "posterize.bits": P.RandomPosterize((L(2.0), L(6.0)), p=1.0),
    "posterize.p": P.RandomPosterize(2, p=L(0.4)),
    "solarize.threshold": P.RandomSolarize((L(0.4), L(0.6)), p=1.0),
    "autocontrast.p": P.RandomAutoContrast(p=L(0.4)),
    "nearest": P.RandomAffine(degrees=L(10.0), translate=(L(0.1), L(0.1)), interpolation="nearest"),
    "lie": P.RandomLieAffine(P.MultivariateNormal.learned_from((0.05, 0.05, 0.1, 0.1, 0.05, 0.05))),
}


@pytest.mark.parametrize("name", FIELDS)
def test_a_step_changes_the_next_draw(name):
    augment = Pipeline([FIELDS[name]])
    parameters = list(augment.parameters())
    assert parameters
    generator = torch.Generator().manual_seed(1)
    # Values stay clear of [0, 1]'s ends, so that no clip hides an effect.
    x = 0.3 + 0.4 * torch.rand(256, 3, 8, 8, generator=generator)
    weights = torch.rand(256, 3, 8, 8, generator=generator)
    key = Key(0, 0)
    before, record = augment(x, key=key, return_record=True)
    (before * weights).sum().backward()
    for parameter_name, parameter in augment.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert parameter.grad.abs() > 0, parameter_name
    torch.optim.SGD(parameters, lr=0.5 / max(float(p.grad.abs()) for p in parameters)).step()
    _, later = augment(x, key=key, return_record=True)
    changed = [
        n for (values, new) in zip(record.params, later.params, strict=True) for n in values if not torch.equal(values[n], new[n])
    ]
    assert changed
    assert not torch.equal(augment(x, key=key), before)


def test_parameters_live_in_the_pipeline_and_its_state():
    augment = Pipeline([P.RandomAffine(degrees=Uniform(L(-10.0), L(10.0))), P.ColorJitter(L(0.3))])
    names = [name for name, _ in augment.named_parameters()]
    assert names == ["learned.0_degrees_center", "learned.0_degrees_width", "learned.1_brightness_half_width"]
    ranges = augment.ranges()
    assert ranges["0.degrees"]["low"].item() == pytest.approx(-10.0)
    assert ranges["1.brightness"]["half_width"].item() == pytest.approx(0.3)
    other = Pipeline([P.RandomAffine(degrees=Uniform(L(-1.0), L(1.0))), P.ColorJitter(L(0.1))])
    other.load_state_dict(augment.state_dict())
    assert other.ranges()["0.degrees"]["high"].item() == pytest.approx(10.0)


def test_the_optimum_through_a_pipeline():
    """The closed form again, through real draws: mean of a u^2 / 2 - lambda w over rotation angles in degrees."""
    a, weight = 2.0, 1.0
    augment = Pipeline([P.RandomRotation(Uniform(L(-1.0), L(1.0)))])
    x = torch.rand(512, 1, 2, 2)
    optimiser = torch.optim.SGD(augment.parameters(), lr=0.3)
    widths = []
    for _ in range(400):
        optimiser.zero_grad()
        degrees = augment.draw(x).params[0]["degrees"]
        now = augment.ranges()["0.degrees"]
        (0.5 * a * degrees.pow(2).mean() - weight * (now["high"] - now["low"])).backward()
        optimiser.step()
        widths.append(float((now["high"] - now["low"]).detach()))
    assert sum(widths[-200:]) / 200 == pytest.approx(12 * weight / a, rel=0.01)


def test_a_learnable_needs_a_pipeline_to_hold_it():
    refused(ValueError, "Pipeline", P.RandomRotation(L(3.0)), torch.rand(1, 3, 4, 4))


def test_learned_pipelines_serialise_their_starting_point(tmp_path):
    augment = Pipeline(list(FIELDS.values()))
    for suffix in ("toml", "json"):
        augment.save(tmp_path / f"p.{suffix}")
        assert Pipeline.load(tmp_path / f"p.{suffix}").transforms == augment.transforms


@pytest.mark.parametrize("tensor", [torch.tensor(3.0), torch.tensor(3.0, requires_grad=True), torch.tensor([3.0]), torch.tensor(3)])
def test_a_plain_tensor_is_no_number_and_the_sentence_says_what_to_write(tensor):
    for build in (lambda: P.RandomRotation(tensor), lambda: P.Uniform(0.0, tensor), lambda: P.RandomInvert(p=tensor)):
        with pytest.raises(P.InvalidType, match=r"float\(tensor\).*nn\.Parameter\(tensor\)"):
            P.Pipeline([build()])


@pytest.mark.parametrize(
    ("build", "field", "floor"),
    [
        (lambda learned: P.RandomGamma(learned), "gamma", "1e-06"),
        (lambda learned: P.RandomGamma((learned, P.Learnable(2.0))), "gamma", "1e-06"),
        (lambda learned: P.RandomGaussianBlur(sigma=learned), "sigma", "0.001"),
        (lambda learned: P.RandomGaussianBlur(sigma=(learned, P.Learnable(2.0))), "sigma", "0.001"),
    ],
)
def test_a_bound_beyond_its_field_names_the_one_to_write(build, field, floor):
    with pytest.raises(P.InvalidArgument, match=rf"{field}: expected values >= {floor}.*Learnable low={floor}, or no bound"):
        P.Pipeline([build(P.Learnable(0.5, low=0.0))])
    for learned in (P.Learnable(0.5), P.Learnable(0.5, low=float(floor))):
        P.Pipeline([build(learned)])(torch.rand(2, 3, 9, 9)).sum().backward()


def test_a_learned_range_is_read_once(monkeypatch):
    read, check = [], P.CenteredUniform.__post_init__
    monkeypatch.setattr(P.CenteredUniform, "__post_init__", lambda self: (read.append(self), check(self)))
    augment = Pipeline([P.RandomRotation(L(10.0))])
    augment(torch.rand(2, 3, 8, 8))
    assert len(read) == 1
    augment.frozen()
    assert len(read) == 2  # with a mark in the place of the learned number
