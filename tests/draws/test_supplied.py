"""Numbers supplied by others: parameters of the user's own, and modules that predict them per sample."""

import copy

import pytest
import torch
from torch import nn

import pellucid as P
from pellucid import Bernoulli, CenteredUniform, Constant, Key, Learnable, LogUniform, Normal, Pipeline, Uniform
from tests.refusals import refused


class Head(nn.Module):
    """Predicts from the mean brightness; starts at 0."""

    def __init__(self, outputs, seen=None):
        super().__init__()
        self.linear = nn.Linear(1, outputs)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)
        self.calls = 0

    def forward(self, images):
        self.calls += 1
        return self.linear(images.flatten(1).mean(1, keepdim=True))


def x_of(batch=64):
    generator = torch.Generator().manual_seed(2)
    return 0.3 + 0.4 * torch.rand(batch, 3, 8, 8, generator=generator)


def test_a_plain_parameter_is_the_number_itself():
    magnitude = nn.Parameter(torch.tensor(12.0))
    augment = Pipeline([P.RandomRotation(magnitude)])
    assert any(parameter is magnitude for parameter in augment.parameters())
    degrees = augment.draw(torch.zeros(4000, 1, 4, 4)).params[0]["degrees"]
    assert 11.9 < degrees.detach().abs().max() <= 12.0
    (gradient,) = torch.autograd.grad(degrees.pow(2).mean(), magnitude)
    assert gradient.item() == pytest.approx(2 * 12.0 / 3, rel=0.05)
    with torch.no_grad():
        magnitude.fill_(3.0)
    assert augment.draw(torch.zeros(4000, 1, 4, 4)).params[0]["degrees"].detach().abs().max() <= 3.0


PARAMETER_FIELDS = {
    "flip.p": lambda p: P.RandomHorizontalFlip(p=p(0.4)),
    "affine.degrees": lambda p: P.RandomAffine(degrees=(p(-10.0), p(10.0))),
    "affine.translate": lambda p: P.RandomAffine(degrees=1, translate=(p(0.1), p(0.2))),
    "affine.scale": lambda p: P.RandomAffine(degrees=1, scale=(p(0.8), p(1.2))),
    "affine.shear": lambda p: P.RandomAffine(degrees=1, shear=(Normal(0.0, p(3.0)), CenteredUniform(0.0, p(2.0)))),
    "perspective": lambda p: P.RandomPerspective(p(0.3), p=1.0),
    "crop": lambda p: P.RandomResizedCrop((8, 8), scale=(p(0.5), p(0.9))),
    "jitter": lambda p: P.ColorJitter(p(0.2), p(0.2), saturation=p(0.2), hue=p(0.1)),
    "gamma": lambda p: P.RandomGamma((p(0.7), p(1.5)), gain=p(1.0)),
    "blur": lambda p: P.RandomGaussianBlur(5, sigma=(p(0.5), p(1.5))),
    "sharpness": lambda p: P.RandomSharpness(p(0.5), p=1.0),
    "noise": lambda p: P.RandomGaussianNoise(sigma=(p(0.05), p(0.2)), clip="none"),
    "erasing": lambda p: P.RandomErasing(p=1.0, scale=(p(0.1), p(0.3)), fill=0.3),
    "posterize": lambda p: P.RandomPosterize((p(2.0), p(6.0)), p=1.0),
    "solarize": lambda p: P.RandomSolarize((p(0.4), p(0.6)), p=1.0),
    "equalize.p": lambda p: P.RandomEqualize(p=p(0.4)),
    "lie": lambda p: P.RandomLieAffine(P.MultivariateNormal((p(0.0),) * 6, tuple((0.0,) * i + (p(0.1),) for i in range(6)))),
}


@pytest.mark.parametrize("name", PARAMETER_FIELDS)
@pytest.mark.parametrize("kind", ["parameter", "learnable by a module", "module"])
def test_every_continuous_field_takes_every_kind(name, kind):
    counter = iter(range(100))
    head = Head(40)

    def supply(value):
        if kind == "parameter":
            return nn.Parameter(torch.tensor(value))
        if kind == "module":
            column = next(counter)
            return lambda images: head(images)[:, column]
        return Learnable(value, by=head, column=next(counter))

    augment = Pipeline([PARAMETER_FIELDS[name](supply)])
    x = torch.nn.functional.interpolate(x_of(), size=(20, 20), mode="bilinear") if name.startswith("equalize") else x_of()
    record = augment.draw(x, key=Key(0, 0))
    weights = torch.rand(x.shape, generator=torch.Generator().manual_seed(3))[..., :8, :8]
    out = augment.apply(x, record)
    assert torch.isfinite(out).all()
    loss = augment.expected(lambda o: (o[..., :8, :8] * weights).sum((1, 2, 3)), x, key=Key(0, 0))
    parameters = list(augment.parameters()) if kind != "module" else list(head.parameters())
    loss.backward()
    for parameter in parameters:
        assert parameter.grad is not None
        assert parameter.grad.abs().max() > 0
        assert torch.isfinite(parameter.grad).all()


def test_a_module_given_alone_starts_at_the_middle_of_its_field():
    augment = Pipeline([P.RandomInvert(p=Head(1))])
    assert augment.numbers(x_of())["0.gate.p"] == pytest.approx(0.5)
    augment = Pipeline([P.RandomRotation(Head(1))])
    assert augment.numbers(x_of())["0.degrees.half_width"] == pytest.approx(0.6931, abs=1e-4)  # softplus(0)


def test_predicted_numbers_differ_by_sample_and_train_their_module():
    head = Head(2)
    augment = Pipeline([P.RandomRotation(Uniform(Learnable(-10.0, by=head), Learnable(10.0, by=head, column=1)))])
    names = [name for name, _ in augment.named_parameters()]
    assert names == ["learned.predictors.0.linear.weight", "learned.predictors.0.linear.bias"]
    x = x_of()
    assert augment.ranges(x)["0.degrees"]["low"].shape == (64,)
    assert augment.numbers(x)["0.degrees.low"] == pytest.approx(-10.0)
    calls = head.calls
    loss = augment.expected(lambda out: out.mean((1, 2, 3)), x)
    assert head.calls == calls + 1  # once, for both numbers
    loss.backward()
    assert all(parameter.grad.abs().max() > 0 for parameter in head.parameters())
    with torch.no_grad():
        head.linear.weight[1] += 30.0
    high = augment.ranges(x)["0.degrees"]["high"]
    assert high.std() > 0.1


def test_input_conditional_policy_learns_what_depends_on_the_image():
    """Invert dark pictures only: the gate's probability follows the brightness."""
    head = Head(1)
    augment = Pipeline([P.RandomInvert(p=Learnable(0.5, by=head))])
    dark, bright = torch.full((32, 1, 4, 4), 0.1), torch.full((32, 1, 4, 4), 0.9)
    x = torch.cat((dark, bright))
    optimiser = torch.optim.Adam(head.parameters(), lr=0.3)
    for step in range(60):
        optimiser.zero_grad()
        augment.expected(lambda out: -out.mean((1, 2, 3)), x, key=Key(0, step)).backward()
        optimiser.step()
    p = augment.ranges(x)["0.gate"]["p"].detach()
    assert p[:32].min() > 0.9
    assert p[32:].max() < 0.1


def test_eight_bit_images_and_single_images_reach_the_module_as_floats_in_a_batch():
    seen = []

    def by(images):
        seen.append(images)
        return images.flatten(1).mean(1)

    augment = Pipeline([P.RandomRotation(Learnable(5.0, by=by))])
    augment(torch.full((3, 4, 4), 255, dtype=torch.uint8))
    assert seen[0].shape == (1, 3, 4, 4)
    assert seen[0].dtype == torch.float32
    assert seen[0].max() == 1.0
    augment(torch.rand(2, 3, 3, 4, 4))
    assert seen[1].shape == (2, 3, 3, 4, 4)


def test_the_same_parameter_twice_is_one():
    shared = nn.Parameter(torch.tensor(0.1))
    augment = Pipeline([P.RandomTranslate((shared, shared)), P.RandomBrightness(shared)])
    assert list(augment.parameters()) == [shared]
    other = copy.deepcopy(augment)
    assert len(list(other.parameters())) == 1
    with torch.no_grad():
        next(other.parameters()).fill_(0.3)
    assert other.numbers()["1.brightness.half_width"] == pytest.approx(0.3)
    assert augment.numbers()["1.brightness.half_width"] == pytest.approx(0.1)


def test_values_stay_values():
    head = Head(1)
    assert Learnable(1.0, by=head) == Learnable(1.0, by=head)
    assert Learnable(1.0, by=head) != Learnable(1.0, by=Head(1))
    assert hash(P.RandomRotation(Learnable(1.0, by=head))) == hash(P.RandomRotation(Learnable(1.0, by=head)))
    assert hash(P.RandomRotation(nn.Parameter(torch.tensor(1.0)))) is not None


def test_what_cannot_be_is_explained(tmp_path):
    head = Head(1)
    augment = Pipeline([P.RandomRotation(Learnable(5.0, by=head))])
    refused(ValueError, r"ranges\(batch\)", augment.ranges)
    refused(ValueError, "state_dict", augment.save, tmp_path / "p.toml")
    refused(ValueError, "one per sample", augment.frozen)
    refused(ValueError, "2 numbers per sample", Pipeline([P.RandomRotation(Learnable(5.0, by=head, column=1))]), x_of())
    refused(TypeError, r"nn\.Parameter", P.RandomRotation, nn.Parameter(torch.zeros(2)))
    refused(ValueError, "beside a value", Learnable, 1.0, by=nn.Parameter(torch.zeros(())))
    refused(ValueError, "start from", Learnable)
    refused(ValueError, "stays positive", LogUniform, nn.Parameter(torch.tensor(0.5)), 2.0)
    refused(ValueError, "Pipeline", P.RandomRotation(head), x_of())
    refused(TypeError, "expected", Constant, "much")
    refused(ValueError, "estimator", Bernoulli, 0.5, estimator="gumbel")
    refused(ValueError, "estimator", Uniform, 0.0, 1.0, estimator="exact")
