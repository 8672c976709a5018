"""Learned weights of choices: the gradient of the expected loss, against sums over every outcome written out by hand."""

import itertools

import pytest
import torch

import pellucid as P
from pellucid import Bernoulli, Key, Learnable, Pipeline
from pellucid.policy import RandomChoice

X = torch.full((512, 1, 1, 1), 0.5, dtype=torch.float64)


def times(factor):
    return P.RandomBrightness((factor, factor), clip="none")


def losses(images):
    return (images[:, 0, 0, 0] - 0.2).square()


def at(factor):
    return (0.5 * factor - 0.2) ** 2


def shares(raw):
    """The weights of a choice, of its parameters: softplus, normalised."""
    weights = torch.nn.functional.softplus(raw)
    return weights / weights.sum()


def parameters(augment):
    """Every parameter by its place in the tree, in the order of the tree."""
    return dict(augment.learned.named_parameters())


def gradients(augment, key):
    augment.zero_grad()
    augment.expected(losses, X, key=key).backward()
    return torch.stack([p.grad for p in augment.parameters()])


def truth(augment, mean_loss):
    """The gradient of a sum over outcomes, of the same parameters."""
    leaves = [p.detach().clone().requires_grad_() for p in augment.parameters()]
    return torch.stack(torch.autograd.grad(mean_loss(*leaves), leaves))


def three(estimator):
    return Pipeline([P.OneOf([times(0.2), times(1.5), []], weights=Learnable((1.0, 2.0, 0.5)), estimator=estimator)]).double()


def mean_of_three(*raw):
    w = shares(torch.stack(raw))
    return w[0] * at(0.2) + w[1] * at(1.5) + w[2] * at(1.0)


def nested(estimator):
    inner = P.OneOf([times(0.2), times(1.5), [times(2.0), times(0.8)]], weights=Learnable((1.0, 2.0, 1.0)), estimator=estimator)
    return Pipeline([P.OneOf([inner, times(0.6)], weights=(Learnable(1.0), Learnable(0.7)), estimator=estimator)]).double()


def mean_of_nested(*raw):
    outer, inner = shares(torch.stack(raw[:2])), shares(torch.stack(raw[2:]))
    return outer[0] * (inner[0] * at(0.2) + inner[1] * at(1.5) + inner[2] * at(1.6)) + outer[1] * at(0.6)


def with_gates(estimator):
    gate = Bernoulli(Learnable(0.3), estimator=estimator)
    invert = P.RandomBrightness((0.4, 0.4), clip="none", p=gate)
    branches = [[invert, times(1.3)], [], times(1.7)]
    choice = P.OneOf(branches, weights=Learnable((1.0, 2.0, 1.0)), estimator=estimator)
    return Pipeline([P.Apply([choice, times(0.9)], p=Bernoulli(Learnable(0.6), estimator=estimator))]).double()


def mean_with_gates(whole, a, b, c, gate):
    w, g, p = shares(torch.stack((a, b, c))), torch.sigmoid(gate), torch.sigmoid(whole)
    inside = w[0] * (g * at(0.4 * 1.3 * 0.9) + (1 - g) * at(1.3 * 0.9)) + w[1] * at(0.9) + w[2] * at(1.7 * 0.9)
    return p * inside + (1 - p) * at(1.0)


def twice(estimator):
    branches, weights = [times(0.5), times(1.4), []], Learnable((1.0, 2.0, 1.0))
    return Pipeline([P.SomeOf(branches, n=2, replace=True, weights=weights, estimator=estimator)]).double()


def mean_of_twice(*raw):
    w, factors = shares(torch.stack(raw)), (0.5, 1.4, 1.0)
    return sum(w[i] * w[j] * at(factors[i] * factors[j]) for i, j in itertools.product(range(3), repeat=2))


def test_exact_is_exact_in_every_draw():
    augment = three("exact")
    for step in range(3):
        torch.testing.assert_close(gradients(augment, Key(0, step)), truth(augment, mean_of_three), rtol=1e-9, atol=1e-12)
    assert augment.evaluations() == 3


@pytest.mark.parametrize("estimator", ["exact", "arm", "reinforce"])
@pytest.mark.parametrize(
    ("make", "mean"),
    [(three, mean_of_three), (nested, mean_of_nested), (with_gates, mean_with_gates), (twice, mean_of_twice)],
)
def test_learned_choices_are_unbiased(make, mean, estimator):
    augment, repeats = make(estimator), 60
    found = torch.stack([gradients(augment, Key(1, step)) for step in range(repeats)])
    expected = truth(augment, mean)
    off = (found.mean(0) - expected).abs()
    assert (off <= 4.5 * found.std(0) / repeats**0.5 + 1e-9).all(), (found.mean(0), expected)
    assert expected.norm() > 5 * found.std(0).norm() / repeats**0.5  # the test would see a gradient that is not there


def test_a_plain_call_takes_the_share_for_the_choice():
    augment = Pipeline([P.OneOf([times(0.2), times(1.5)], weights=Learnable((1.0, 2.0)), estimator="straight_through")]).double()
    out, record = augment(X, key=Key(0, 0), return_record=True)
    out.mean().backward()
    leaves = [p.detach().clone().requires_grad_() for p in augment.parameters()]
    dark, bright = record.params[0]["choice"].detach().unbind(1)
    w = shares(torch.stack(leaves))
    slopes = (-0.4 * (1 + 0.5 * bright)).mean(), (0.25 * (1 - 0.8 * dark)).mean()  # of 0.5 (1 - 0.8 dark) (1 + 0.5 bright)
    expected = torch.autograd.grad(w[0] * slopes[0] + w[1] * slopes[1], leaves)
    torch.testing.assert_close([p.grad for p in augment.parameters()], list(expected))


def test_choices_come_as_often_as_their_weights_say_under_every_estimator():
    n = 20_000
    for estimator in ("exact", "arm", "reinforce", "relaxed", "straight_through"):
        choice = P.OneOf([[], [], []], weights=(1.0, 2.0, 5.0), estimator=estimator)
        drawn = Pipeline([choice]).draw(torch.zeros(n, 1, 1, 1), key=Key(1, 0)).params[0]["choice"]
        torch.testing.assert_close(drawn.sum(1), torch.ones(n, dtype=torch.float64))
        for count, weight in zip(torch.bincount(drawn.argmax(1), minlength=3).tolist(), (1, 2, 5), strict=True):
            p = weight / 8
            assert abs(count - n * p) < 4 * (n * p * (1 - p)) ** 0.5, estimator


class PerPicture(torch.nn.Module):
    """Raw weights of three branches: a row that depends on the picture's brightness."""

    def __init__(self):
        super().__init__()
        self.slope = torch.nn.Parameter(torch.tensor([0.5, -0.2, 1.0]))

    def forward(self, images):
        return images.mean((1, 2, 3))[:, None] * self.slope


@pytest.mark.parametrize("form", ["module", "learnable", "random choice", "lists"])
@pytest.mark.parametrize("estimator", ["exact", "arm", "reinforce"])
def test_weights_predicted_from_each_picture_have_the_gradient_of_the_expectation(form, estimator):
    """The mean over pictures of sum_k softplus(net(x))_k / sum * f_k(x), by torch's autograd."""
    net, exact = PerPicture(), estimator == "exact"
    branches = [[P.RandomBrightness((s, s), clip="none")] for s in (0.2, 0.6, 1.0)]
    weights = P.Learnable(by=net) if form == "learnable" else net
    if form == "random choice":
        augment = RandomChoice(branches, weights=net, seed=0)
        estimator, exact = "exact", True
    else:
        augment = P.Pipeline([P.OneOf(branches, weights, estimator=estimator)], seed=0)
    count = 6 if exact else 6000
    x = (0.2 + 0.1 * (torch.arange(count) % 6)).reshape(-1, 1, 1, 1).expand(count, 3, 2, 2)
    batch = x if form != "lists" or not exact else [torch.full((3, 2 + i % 2, 2), float(0.2 + 0.1 * i)) for i in range(6)]

    def loss(out):
        return 50 * torch.stack([one.mean() for one in out]) ** 2

    augment.expected(loss, batch, key=P.Key(3)).backward()
    found = net.slope.grad.clone()
    brightness = x[:6, 0, 0, 0]
    shares = torch.nn.functional.softplus(net(x[:6]))
    values = 50 * (brightness[:, None] * torch.tensor([0.2, 0.6, 1.0])) ** 2
    (wanted,) = torch.autograd.grad((shares / shares.sum(1, keepdim=True) * values).sum(1).mean(), net.slope)
    assert torch.allclose(found, wanted, atol=1e-5 if exact else 0.15)
    assert wanted.abs().max() > 0.5
    shown = augment.ranges(batch if isinstance(batch, torch.Tensor) else x[:6])["0.choice"]
    assert shown["weight_0"].shape == (len(x[:6]) if not isinstance(batch, torch.Tensor) else count,)
