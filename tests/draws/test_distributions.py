"""Distributions against scipy's, their gradients against closed forms, learnables against their promises."""

import math

import pytest
import torch

from pellucid import Bernoulli, Categorical, CenteredUniform, Constant, Learnable, LogUniform, Normal, Uniform
from tests.refusals import refused

U = (torch.arange(20001, dtype=torch.float64) + 0.5) / 20001


def raw_of(distribution):
    return {name: torch.tensor(v, dtype=torch.float64, requires_grad=True) for name, v in distribution.start().items()}


@pytest.mark.parametrize(
    ("distribution", "oracle"),
    [
        (Uniform(-2.0, 3.0), lambda s: s.uniform(-2, 5)),
        (CenteredUniform(1.0, 0.5), lambda s: s.uniform(0.5, 1.0)),
        (LogUniform(0.5, 4.0), lambda s: s.loguniform(0.5, 4.0)),
        (Normal(1.0, 2.0), lambda s: s.norm(1, 2)),
    ],
)
def test_quantiles_are_scipys(distribution, oracle):
    stats = pytest.importorskip("scipy.stats")
    expected = torch.from_numpy(oracle(stats).ppf(U.numpy()))
    assert torch.allclose(distribution.sample(U, {}), expected, rtol=1e-12, atol=1e-11)


def test_discrete_frequencies():
    assert Bernoulli(0.3).sample(U, {}).mean().item() == pytest.approx(0.3, abs=1e-4)
    values = Categorical((1.0, 5.0, 9.0), weights=(1.0, 2.0, 1.0)).sample(U, {})
    assert (values == 5.0).double().mean().item() == pytest.approx(0.5, abs=1e-4)
    relaxed = Bernoulli(0.3, temperature=0.5).sample(U, {})
    assert (relaxed > 0.5).double().mean().item() == pytest.approx(0.3, abs=1e-4)
    assert bool(((relaxed > 0) & (relaxed < 1)).all())


STARTS = [
    Uniform(Learnable(-1.0), Learnable(2.0)),
    Uniform(Learnable(-1.0), 2.0),
    Uniform(-1.0, Learnable(2.0)),
    Uniform(Learnable(-1.0, low=-3.0, high=0.0), Learnable(0.5, low=0.0, high=1.0)),
    Uniform(Learnable(0.2, low=0.0), Learnable(0.4, high=1.0)),
    Uniform(Learnable(0.2, low=0.0), Learnable(0.4, low=0.3)),
    CenteredUniform(0.0, Learnable(2.0)),
    CenteredUniform(Learnable(0.5), Learnable(0.3, high=0.4)),
    LogUniform(Learnable(0.5), Learnable(4.0)),
    LogUniform(Learnable(0.5, low=0.1), 4.0),
    Normal(Learnable(1.0), Learnable(2.0)),
    Constant(Learnable(0.5, low=0.0, high=1.0)),
    Bernoulli(Learnable(0.3)),
    Bernoulli(Learnable(0.3), temperature=0.7),
    Categorical((1.0, 5.0), weights=(Learnable(1.0), Learnable(3.0))),
]


@pytest.mark.parametrize("distribution", STARTS, ids=str)
def test_learnables_start_where_they_say(distribution):
    raw = raw_of(distribution)
    assert raw
    with torch.no_grad():
        now = {name: float(value) for name, value in distribution.current(raw).items()}
    for name, value in now.items():
        if name.startswith("weight_"):
            assert value == pytest.approx({"weight_0": 0.25, "weight_1": 0.75}[name])
        else:
            declared = getattr(distribution, name)
            assert value == pytest.approx(declared.value if isinstance(declared, Learnable) else declared)


@pytest.mark.parametrize("distribution", STARTS, ids=str)
def test_every_learnable_gets_a_gradient(distribution):
    raw = raw_of(distribution)
    loss = (distribution.sample(U, raw) * (1 + U)).sum()
    for gradient in torch.autograd.grad(loss, list(raw.values())):
        assert gradient.abs() > 0


@pytest.mark.parametrize("distribution", [d for d in STARTS if not isinstance(d, Bernoulli | Categorical)], ids=str)
def test_draws_are_reparameterised(distribution):
    raw = raw_of(distribution)
    names = list(raw)
    u = U[::2000]
    assert torch.autograd.gradcheck(lambda *v: distribution.sample(u, dict(zip(names, v, strict=True))), tuple(raw.values()))


@pytest.mark.parametrize("distribution", [d for d in STARTS if isinstance(d, Uniform | LogUniform)], ids=str)
def test_ranges_stay_ordered_under_rough_training(distribution):
    generator = torch.Generator().manual_seed(0)
    raw = {name: v.detach() for name, v in raw_of(distribution).items()}
    low, high = distribution.span()
    for _ in range(10000):
        raw = {name: v + 0.3 * torch.randn((), generator=generator, dtype=torch.float64) for name, v in raw.items()}
        now = distribution.current(raw)
        assert float(now["low"]) <= float(now["high"])
        assert low <= float(now["low"])
        assert float(now["high"]) <= high


def test_straight_through_gate_is_a_declared_surrogate():
    p = torch.tensor(0.3, dtype=torch.float64)
    distribution = Bernoulli(Learnable(0.3))
    raw = {"p": torch.logit(p).requires_grad_()}
    gate = distribution.sample(U, raw)
    assert set(gate.tolist()) == {0.0, 1.0}
    (gradient,) = torch.autograd.grad((2.0 * gate).mean(), raw["p"])
    assert gradient.item() == pytest.approx(2.0 * 0.3 * 0.7)  # the chain rule through sigmoid alone


def test_optimum_of_the_closed_form():
    """loss = a u^2 / 2 - lambda w with u ~ U(-w/2, w/2) is least at w = 12 lambda / a."""
    a, weight = 3.0, 0.5
    distribution = Uniform(Learnable(-0.4), Learnable(0.4))
    raw = {name: torch.nn.Parameter(torch.tensor(v, dtype=torch.float64)) for name, v in distribution.start().items()}
    optimiser = torch.optim.SGD(raw.values(), lr=0.5)
    for _ in range(600):
        optimiser.zero_grad()
        u = distribution.sample(U[::20], raw)
        now = distribution.current(raw)
        (0.5 * a * u.pow(2).mean() - weight * (now["high"] - now["low"])).backward()
        optimiser.step()
    now = distribution.current(raw)
    assert (now["high"] - now["low"]).item() == pytest.approx(12 * weight / a, rel=0.01)


def test_bad_distributions_are_explained():
    refused(ValueError, "expected", Uniform, 2.0, 1.0)
    refused(ValueError, "expected", Uniform, Learnable(1.0), 1.0)
    refused(ValueError, "expected", LogUniform, 0.0, 1.0)
    refused(ValueError, "expected", LogUniform, 2.0, 1.0)
    refused(ValueError, "expected", Normal, 0.0, -1.0)
    refused(ValueError, "expected", Bernoulli, 1.5)
    refused(ValueError, "expected", Bernoulli, 0.5, temperature=0.0)
    refused(ValueError, "expected", Categorical, ())
    refused(ValueError, "expected", Categorical, (1.0, 2.0), weights=(1.0,))
    refused(ValueError, "expected", Categorical, (1.0, 2.0), weights=(0.0, 0.0))
    refused(ValueError, "expected", CenteredUniform, 0.0, -1.0)
    refused(ValueError, "expected", Learnable, 0.0, low=0.0, high=1.0)
    refused(ValueError, "expected", Learnable, 0.5, low=1.0, high=0.0)
    refused(ValueError, "expected", Learnable, math.nan)
