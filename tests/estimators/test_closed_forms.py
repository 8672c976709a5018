"""Estimators against closed forms: unbiased ones within three standard errors at 2e5 draws, exact ones without any."""

import math

import pytest
import torch

import pellucid as P
from pellucid import Bernoulli, Categorical, CenteredUniform, Key, Learnable, LogUniform, Normal, Pipeline, Uniform

N = 200_000
F64 = torch.float64


def gate_loss(gate):
    y = 2.0 * gate - 0.5
    return torch.sin(3.0 * y) + y**2


def smooth(x):
    return torch.sin(3.0 * x) + x**3


def stairs(x):
    return torch.floor(4.0 * x) ** 2


GATE_ORACLE = math.sin(4.5) + 1.5**2 - math.sin(-1.5) - 0.5**2  # f(1) - f(0) = 2.020


def per_sample(starts):
    """A predictor whose output is a leaf, one row per sample: its gradient is the estimator's, sample by sample."""
    leaf = torch.tensor(starts, dtype=F64).expand(N, len(starts)).clone().requires_grad_()
    return leaf, (lambda images: leaf)


def estimate(transform, leaf, loss, start=0.0):
    augment = Pipeline([transform], seed=1)
    x = torch.full((N, 1, 1, 1), start, dtype=F64)
    value = augment.expected(lambda out: loss(out[:, 0, 0, 0]), x, key=Key(7, 0))
    (gradient,) = torch.autograd.grad(value, leaf)
    return gradient * N  # N columns


def within(gradient, oracle):
    mean, error = gradient.mean(), gradient.std() / N**0.5
    assert abs(mean - oracle) <= 3.0 * error + 1e-12, f"{mean} against {oracle}, standard error {error}"
    assert error < 0.05 * max(1.0, abs(oracle))  # an estimator too noisy to say anything would pass the line above


def gate(estimator, temperature=None):
    p = torch.logit(torch.tensor(0.3, dtype=F64))
    leaf, by = per_sample([float(p)])
    transform = P.RandomInvert(p=Bernoulli(Learnable(by=by), estimator=estimator, temperature=temperature))
    return estimate(transform, leaf, gate_loss)[:, 0] / (0.3 * 0.7)  # the chain rule through the sigmoid


@pytest.mark.parametrize("estimator", ["exact", "arm", "reinforce"])
def test_gates_find_the_difference_of_the_branches(estimator):
    assert pytest.approx(2.020, abs=5e-4) == GATE_ORACLE
    within(gate(estimator), GATE_ORACLE)


def test_the_exact_gate_has_no_variance():
    gradient = gate("exact")
    assert gradient.std() < 1e-12
    assert gradient.mean().item() == pytest.approx(GATE_ORACLE, abs=1e-12)


def test_what_is_called_biased_is():
    assert abs(gate("straight_through").mean() - GATE_ORACLE) > 0.5
    relaxed = gate("relaxed", temperature=0.1)
    assert relaxed.std() > 5.0


def test_a_relaxed_gate_is_open_with_its_probability():
    for p in (0.1, 0.3, 0.8):
        relaxed = Bernoulli(p, estimator="relaxed", temperature=0.7)
        u = (torch.arange(N, dtype=F64) + 0.5) / N
        assert (relaxed.sample(u, {}) > 0.5).to(F64).mean().item() == pytest.approx(p, abs=1e-5)


def noise(mean):
    """A transform whose output is its drawn value, on an image of zeros."""
    return P.RandomGaussianNoise(mean=mean, sigma=0.0, clip="none")


def ends(estimator, loss):
    """Gradients to (low, high) of U(-0.4, 0.9), from those to the centre and the softplus width that train."""
    width = 1.3
    leaf, by = per_sample([0.25, width + math.log(-math.expm1(-width))])
    uniform = Uniform(Learnable(by=by), Learnable(by=by, column=1), estimator=estimator)
    center, half = estimate(noise(uniform), leaf, loss).unbind(1)
    half = 2.0 * half / (1.0 - math.exp(-width))  # d width / d raw = 1 - e^-width, and half the width each way
    return (center - half) / 2.0, (center + half) / 2.0


def uniform_oracle(q, mean):
    low, high = -0.4, 0.9
    return (mean - q(low)) / (high - low), (q(high) - mean) / (high - low)


def test_both_ways_to_the_ends_of_a_smooth_range():
    low, high = -0.4, 0.9

    def antiderivative(x):
        return -math.cos(3.0 * x) / 3.0 + x**4 / 4.0

    mean = (antiderivative(high) - antiderivative(low)) / (high - low)
    oracle = uniform_oracle(lambda x: math.sin(3.0 * x) + x**3, mean)
    for estimator in ("reparameterised", "boundary"):
        for gradient, wanted in zip(ends(estimator, smooth), oracle, strict=True):
            within(gradient, wanted)


def test_only_the_boundary_sees_a_staircase():
    found = ends("boundary", stairs)
    for gradient, wanted in zip(found, (-1.036, 4.882), strict=True):
        assert gradient.mean().item() == pytest.approx(wanted, rel=0.01)
    # floor(4 x)^2 on (-0.4, 0.9): (4 * 0.15 + 1 * 0.25 + 0 + 1 * 0.25 + 4 * 0.25 + 9 * 0.15) / 1.3
    mean = (4 * 0.15 + 0.25 + 0.25 + 4 * 0.25 + 9 * 0.15) / 1.3
    oracle = uniform_oracle(lambda x: math.floor(4.0 * x) ** 2, mean)
    for gradient, wanted in zip(found, oracle, strict=True):
        within(gradient, wanted)
    assert all(float(gradient.abs().max()) == 0.0 for gradient in ends("reparameterised", stairs))


@pytest.mark.parametrize("estimator", ["reparameterised", "boundary"])
def test_other_spellings_of_a_range(estimator):
    leaf, by = per_sample([0.3, 0.2])
    centered = CenteredUniform(Learnable(by=by), Learnable(by=by, column=1), estimator=estimator)
    gradient = estimate(noise(centered), leaf, lambda x: x**3)
    half = math.log1p(math.exp(0.2))
    # E (c + h v)^3 = c^3 + c h^2 with v uniform on (-1, 1)
    within(gradient[:, 0], 3 * 0.3**2 + half**2)
    within(gradient[:, 1] / torch.sigmoid(torch.tensor(0.2, dtype=F64)), 2 * 0.3 * half)
    leaf, by = per_sample([0.1, 0.2])
    logarithmic = LogUniform(Learnable(by=by), Learnable(by=by, column=1), estimator=estimator)
    gradient = estimate(noise(logarithmic), leaf, lambda x: x**2)
    center, width = torch.tensor(0.1, dtype=F64).requires_grad_(), torch.tensor(0.2, dtype=F64).requires_grad_()
    span = torch.nn.functional.softplus(width)
    mean = (torch.exp(2 * center + span) - torch.exp(2 * center - span)) / (2 * span)
    for column, wanted in enumerate(torch.autograd.grad(mean, (center, width))):
        within(gradient[:, column], wanted.item())


@pytest.mark.parametrize("estimator", ["exact", "reinforce"])
def test_choices(estimator):
    leaf, by = per_sample([0.2, -0.3, 0.5])
    weights = tuple(Learnable(by=by, column=i) for i in range(3))
    gradient = estimate(noise(Categorical((-0.4, 0.1, 0.9), weights, estimator=estimator)), leaf, smooth)
    raw = torch.tensor([0.2, -0.3, 0.5], dtype=F64, requires_grad=True)
    shares = torch.nn.functional.softplus(raw)
    expectation = (shares / shares.sum() * smooth(torch.tensor([-0.4, 0.1, 0.9], dtype=F64))).sum()
    (oracle,) = torch.autograd.grad(expectation, raw)
    for column in range(3):
        if estimator == "exact":
            # The value drawn is the origin of the differences, which only adds the same to every share's credit.
            assert gradient[:, column].std() < 1e-12
            assert gradient[:, column].mean().item() == pytest.approx(oracle[column].item(), abs=1e-12)
        else:
            within(gradient[:, column], oracle[column].item())


def test_the_normal_is_reparameterised():
    leaf, by = per_sample([0.1, 0.2])
    gradient = estimate(noise(Normal(Learnable(by=by), Learnable(by=by, column=1))), leaf, lambda x: x**3)
    std = math.log1p(math.exp(0.2))
    within(gradient[:, 0], 3 * 0.1**2 + 3 * std**2)  # E x^3 = m^3 + 3 m s^2
    within(gradient[:, 1] / torch.sigmoid(torch.tensor(0.2, dtype=F64)), 6 * 0.1 * std)


@pytest.mark.parametrize("estimator", ["exact", "arm", "reinforce"])
def test_several_gates_of_one_run(estimator):
    """Two gates whose effects multiply: each gets the other's expectation, not only its draw."""
    starts = [-0.5, 0.4]
    leaf, by = per_sample(starts)
    probabilities = torch.sigmoid(torch.tensor(starts, dtype=F64))
    gates = [Bernoulli(Learnable(by=by, column=i), estimator=estimator) for i in range(2)]
    augment = Pipeline([P.RandomInvert(p=g) for g in gates], seed=1)
    x = torch.full((N, 1, 1, 1), 0.2, dtype=F64)
    value = augment.expected(lambda out: out[:, 0, 0, 0] ** 2, x, key=Key(3, 0))
    (gradient,) = torch.autograd.grad(value, leaf)
    # Inverting twice is nothing: 0.8 with one gate open, 0.2 with none or both.
    for i in range(2):
        p, other = probabilities[i], probabilities[1 - i]
        within(gradient[:, i] * N, float(p * (1 - p) * (0.8**2 - 0.2**2) * (1 - 2 * other)))
    assert augment.evaluations() == {"exact": 3, "arm": 2, "reinforce": 1}[estimator]
