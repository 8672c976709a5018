"""What is learned can be logged, regularised, averaged, saved, and frozen."""

import copy
import warnings

import numpy as np
import pytest
import torch
from scipy import integrate, special, stats
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import pellucid as P
from pellucid.pipeline.estimators import entropy, kl_divergence
from tests.draws.test_learning import FIELDS
from tests.refusals import refused

L, F64 = P.Learnable, torch.float64


def moved(augment, seed=0):
    """The same pipeline after some rough training."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in augment.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=generator)
    return augment


@pytest.mark.parametrize("name", FIELDS)
def test_frozen_draws_what_the_learned_pipeline_draws_now(name, tmp_path):
    augment = moved(P.Pipeline([FIELDS[name]], seed=4, return_valid=True))
    frozen = augment.frozen()
    assert not list(frozen.parameters())
    assert frozen.options == augment.options
    x = torch.rand(16, 3, 8, 8)
    ours, theirs = augment.draw(x, key=P.Key(1, 2)), frozen.draw(x, key=P.Key(1, 2))
    for drawn, plain in zip(ours.params, theirs.params, strict=True):
        for value in drawn:
            assert torch.allclose(drawn[value].detach().to(F64), plain[value].to(F64), rtol=1e-5, atol=1e-6), value
    frozen.save(tmp_path / "plain.toml")
    assert P.Pipeline.load(tmp_path / "plain.toml").transforms == frozen.transforms
    assert augment.numbers().keys() != set()


def test_frozen_keeps_seed_step_and_mode():
    augment = P.Pipeline([P.RandomRotation(L(3.0))], seed=9).eval()
    augment(torch.rand(1, 3, 4, 4))
    frozen = augment.frozen()
    assert (frozen.step, int(frozen._seed), frozen.training) == (1, 9, False)
    plain = P.Pipeline([P.RandomRotation(3.0), P.RandomHorizontalFlip()])
    assert plain.frozen().transforms == plain.transforms


def test_frozen_takes_parameters_and_full_covariances():
    own = torch.nn.Parameter(torch.tensor(7.0))
    augment = moved(P.Pipeline([P.RandomRotation(own), P.RandomLieAffine(P.MultivariateNormal.learned_from((0.05,) * 6))]))
    x = torch.rand(8, 3, 8, 8)
    ours, theirs = augment.draw(x, key=P.Key(0, 0)), augment.frozen().draw(x, key=P.Key(0, 0))
    assert torch.allclose(ours.params[0]["degrees"], theirs.params[0]["degrees"])
    assert torch.allclose(ours.params[1]["generators"], theirs.params[1]["generators"], atol=1e-6)
    assert augment.frozen().transforms[0].degrees == pytest.approx(own.item())


def test_logs_are_plain():
    augment = P.Pipeline([P.RandomAffine(degrees=P.Uniform(L(-10.0), L(10.0)), p=L(0.5)), P.RandomHorizontalFlip()])
    numbers = augment.numbers()
    assert numbers == pytest.approx({"0.gate.p": 0.5, "0.degrees.low": -10.0, "0.degrees.high": 10.0})
    assert all(type(value) is float for value in numbers.values())
    assert augment.ranges_text() == "0.gate  p 0.5\n0.degrees  low -10  high 10"


def test_an_exponential_moving_average_of_a_policy_draws():
    augment = P.Pipeline([P.RandomRotation(P.Uniform(L(-10.0), L(10.0))), P.RandomInvert(p=L(0.5))])
    average = AveragedModel(augment, multi_avg_fn=get_ema_multi_avg_fn(0.5))
    average.update_parameters(augment)
    start = augment.numbers()
    with torch.no_grad():
        for parameter in augment.parameters():
            parameter += 1.0
    average.update_parameters(augment)
    middle, end = average.module.numbers(), augment.numbers()
    for name in start:
        assert min(start[name], end[name]) < middle[name] < max(start[name], end[name]), name
    x = torch.rand(4, 3, 6, 6)
    assert torch.equal(average(x, key=P.Key(0, 0)), average.module.frozen()(x, key=P.Key(0, 0))) or torch.allclose(
        average(x, key=P.Key(0, 0)), average.module.frozen()(x, key=P.Key(0, 0)), atol=1e-5
    )


def test_state_dict_and_copies_carry_everything_learned(tmp_path):
    head = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 36, 1))

    def build():
        return P.Pipeline(
            [P.RandomRotation(L(5.0, by=copy.deepcopy(head))), P.RandomInvert(p=L(0.3)), P.RandomTranslate((L(0.1), 0.1))]
        )

    augment = moved(build())
    augment(torch.rand(2, 3, 6, 6))
    torch.save(augment.state_dict(), tmp_path / "policy.pt")
    again = build()
    again.load_state_dict(torch.load(tmp_path / "policy.pt"))
    x = torch.rand(4, 3, 6, 6)
    for other in (again, copy.deepcopy(augment)):
        assert other.numbers(x) == augment.numbers(x)
        assert torch.equal(other(x, key=P.Key(1, 1)), augment(x, key=P.Key(1, 1)))
        assert other.step == augment.step


def uniform(low, high):
    return stats.uniform(low, high - low)


# The distribution, and scipy's with the same numbers.
LEARNED = [
    (P.Uniform(L(-1.0), L(2.0)), lambda low, high: uniform(low, high)),
    (P.CenteredUniform(L(0.5), L(2.0)), lambda center, half_width: uniform(center - half_width, center + half_width)),
    (P.LogUniform(L(0.5), L(4.0)), lambda low, high: stats.loguniform(low, high)),
    (P.Normal(L(0.3), L(2.0)), lambda mean, std: stats.norm(mean, std)),
    (P.Bernoulli(L(0.3)), lambda p: stats.bernoulli(p)),
    (P.Categorical((1.0, 4.0, 5.0), (L(1.0), L(2.0), L(3.0))), lambda *shares: stats.multinomial(1, shares)),
    (
        P.MultivariateNormal((L(0.0), 1.0), ((L(0.5),), (L(0.2), L(0.4)))),
        lambda m, n, a, b, c: stats.multivariate_normal((m, n), np.array(((a, 0), (b, c))) @ np.array(((a, b), (0, c)))),
    ),
]


@pytest.mark.parametrize(("distribution", "oracle"), LEARNED, ids=lambda v: type(v).__name__)
def test_entropy_is_scipys_and_has_its_slope(distribution, oracle):
    raw = {name: torch.tensor(v, dtype=F64, requires_grad=True) for name, v in distribution.start().items()}
    with torch.no_grad():
        expected = oracle(*map(float, distribution.current(raw).values())).entropy()
    assert entropy(distribution, raw).item() == pytest.approx(expected, rel=1e-9)
    torch.autograd.gradcheck(lambda *tensors: entropy(distribution, dict(zip(raw, tensors, strict=True))), tuple(raw.values()))


def test_what_does_not_spread_has_no_entropy():
    refused(ValueError, "spreads", entropy, P.Constant(1.0), {})
    assert entropy(P.Bernoulli(0.0), {}).item() == pytest.approx(0.0, abs=1e-12)
    assert entropy(P.Categorical((1.0, 2.0), (0.0, 1.0)), {}).item() == pytest.approx(0.0, abs=1e-12)


PAIRS = [
    (P.Uniform(0.0, 1.0), P.Uniform(-1.0, 3.0), uniform(0.0, 1.0), uniform(-1.0, 3.0)),
    (P.Uniform(0.0, 1.0), P.CenteredUniform(1.0, 2.0), uniform(0.0, 1.0), uniform(-1.0, 3.0)),
    (P.Uniform(0.0, 4.0), P.Normal(1.0, 2.0), uniform(0.0, 4.0), stats.norm(1.0, 2.0)),
    (P.Normal(0.0, 1.5), P.Normal(1.0, 2.0), stats.norm(0.0, 1.5), stats.norm(1.0, 2.0)),
    (P.LogUniform(1.0, 2.0), P.LogUniform(0.5, 4.0), stats.loguniform(1.0, 2.0), stats.loguniform(0.5, 4.0)),
]


@pytest.mark.parametrize(("p", "q", "oracle_p", "oracle_q"), PAIRS, ids=lambda v: type(v).__name__)
def test_divergence_is_the_integral(p, q, oracle_p, oracle_q):
    low, high = oracle_p.ppf(1e-14), oracle_p.ppf(1.0 - 1e-14)
    integral = integrate.quad(lambda x: oracle_p.pdf(x) * (oracle_p.logpdf(x) - oracle_q.logpdf(x)), low, high)[0]
    assert kl_divergence(p, {}, q).item() == pytest.approx(integral, rel=1e-9)


DISCRETE = [
    (P.Bernoulli(0.3), P.Bernoulli(0.6), (0.7, 0.3), (0.4, 0.6)),
    (P.Bernoulli(1.0), P.Bernoulli(0.6), (0.0, 1.0), (0.4, 0.6)),
    (P.Categorical((1.0, 2.0), (1.0, 3.0)), P.Categorical((5.0, 6.0), (2.0, 2.0)), (0.25, 0.75), (0.5, 0.5)),
]


@pytest.mark.parametrize(("p", "q", "shares", "shares_q"), DISCRETE, ids=lambda v: type(v).__name__)
def test_divergence_of_choices_is_scipys(p, q, shares, shares_q):
    assert kl_divergence(p, {}, q).item() == pytest.approx(special.rel_entr(shares, shares_q).sum(), rel=1e-9)


def test_divergence_of_correlated_normals_is_the_mean_of_the_logarithm():
    p, q = (((0.0, 1.0), ((0.5,), (0.2, 0.4))), ((0.3, 0.0), ((1.0,), (-0.2, 0.8))))
    lower = [np.array(((a, 0.0), (b, c))) for _, ((a,), (b, c)) in (p, q)]
    one, two = (stats.multivariate_normal(mean, factor @ factor.T) for (mean, _), factor in zip((p, q), lower, strict=True))
    # A polynomial of degree two: this rule of three points a side is exact.
    points, weights = np.polynomial.hermite_e.hermegauss(3)
    z = np.stack(np.meshgrid(points, points), -1).reshape(-1, 2)
    x = np.array(p[0]) + z @ lower[0].T
    expected = (np.outer(weights, weights).ravel() / weights.sum() ** 2 * (one.logpdf(x) - two.logpdf(x))).sum()
    assert kl_divergence(P.MultivariateNormal(*p), {}, P.MultivariateNormal(*q)).item() == pytest.approx(expected, rel=1e-9)


def test_divergence_has_a_slope_and_none_where_it_is_infinite():
    p, q = P.Uniform(L(-0.5), L(0.75)), P.Uniform(L(-1.0), L(2.0))
    raw, raw_q = ({name: torch.tensor(v, dtype=F64, requires_grad=True) for name, v in each.start().items()} for each in (p, q))

    def divergence(*tensors):
        return kl_divergence(p, dict(zip(raw, tensors[:2], strict=True)), q, dict(zip(raw_q, tensors[2:], strict=True)))

    torch.autograd.gradcheck(divergence, (*raw.values(), *raw_q.values()))
    outside = kl_divergence(q, raw_q, p, raw)
    assert outside.item() == float("inf")
    assert all(float(slope) == 0.0 for slope in torch.autograd.grad(outside, (*raw.values(), *raw_q.values())))


def test_strangers_have_no_divergence():
    for p, q in (
        (P.Normal(), P.Uniform(0.0, 1.0)),
        (P.Bernoulli(0.5), P.Categorical((1.0, 2.0))),
        (P.Uniform(1.0, 2.0), P.LogUniform(1.0, 2.0)),
        (P.Categorical((1.0, 2.0)), P.Categorical((1.0, 2.0, 3.0))),
        (P.MultivariateNormal.learned_from((1.0,)), P.MultivariateNormal((0.0, 0.0), ((1.0,), (0.0, 1.0)))),
    ):
        raw = {name: torch.tensor(v) for name, v in p.start().items()}
        refused(ValueError, "one kind", kl_divergence, p, raw, q)


def test_regularisers_move_the_ranges():
    augment = P.Pipeline([P.RandomRotation(P.Uniform(L(-10.0), L(10.0))), P.RandomInvert(p=L(0.2)), P.RandomBrightness(0.2)])
    assert set(augment.entropy()) == {"0.degrees", "1.gate"}
    optimiser = torch.optim.Adam(augment.parameters(), lr=0.2)
    for _ in range(600):
        optimiser.zero_grad()
        (-augment.entropy()["1.gate"] + augment.kl({"0.degrees": P.Normal(5.0, 1.0)})["0.degrees"]).backward()
        optimiser.step()
    now = augment.numbers()
    assert now["1.gate.p"] == pytest.approx(0.5, abs=0.02)
    assert (now["0.degrees.low"] + now["0.degrees.high"]) / 2 == pytest.approx(5.0, abs=0.1)
    # The uniform closest to a normal has its variance: width sqrt(12) sigma.
    assert now["0.degrees.high"] - now["0.degrees.low"] == pytest.approx(12**0.5, rel=0.02)
    refused(ValueError, "names among", augment.kl, {"2.brightness": P.Normal()})


OTHER_BOUNDS = {
    "sigmoid": (P.RandomRotation(L(10.0, low=0.0, high=20.0)), P.RandomRotation(L(10.0, low=0.0, high=180.0))),
    "none and sigmoid": (P.RandomRotation(L(10.0)), P.RandomRotation(L(10.0, low=0.0, high=180.0))),
    "a fixed other end": (P.RandomRotation((-5.0, L(10.0))), P.RandomRotation((-50.0, L(10.0)))),
    "joint and alone": (P.RandomRotation((L(-5.0), L(10.0))), P.RandomRotation((L(-5.0, low=-9.0), L(10.0)))),
    "a probability": (P.RandomInvert(p=L(0.3)), P.RandomInvert(p=L(0.3, high=0.5))),
    "predicted": (P.RandomInvert(p=L(0.3, by=torch.nn.Flatten())), P.RandomInvert(p=L(0.4, by=torch.nn.Flatten()))),
}


@pytest.mark.parametrize("name", OTHER_BOUNDS)
@pytest.mark.parametrize("strict", [True, False])
def test_a_state_of_other_bounds_is_refused(name, strict):
    """The same unbounded parameter is another number there: 10 of 20 degrees would become 90 of 180."""
    ours, other = (P.Pipeline([transform]) for transform in OTHER_BOUNDS[name])
    target = other if set(ours.learned.state_dict()) == set(other.learned.state_dict()) else None
    before = {k: v.clone() for k, v in other.learned.state_dict().items()}
    if target is None:  # other parameters altogether: torch's own complaint, in strict mode
        with pytest.raises((ValueError, RuntimeError)):
            other.load_state_dict(ours.state_dict())
        return
    with pytest.raises(P.InvalidArgument, match=r"state_dict of 0\.\w+: expected .*same bounds"):
        other.load_state_dict(ours.state_dict(), strict=strict)
    assert all(torch.equal(v, before[k]) for k, v in other.learned.state_dict().items())


@pytest.mark.parametrize("name", FIELDS)
def test_states_load_where_only_the_start_differs(name):
    augment = moved(P.Pipeline([FIELDS[name]]), seed=1)
    again = P.Pipeline([FIELDS[name]])
    again.load_state_dict(augment.state_dict())
    for ours, theirs in zip(augment.state_dict().values(), again.state_dict().values(), strict=True):
        assert torch.equal(ours, theirs)
    half = {k: v.to(torch.bfloat16) if v.is_floating_point() else v for k, v in augment.state_dict().items()}
    P.Pipeline([FIELDS[name]]).load_state_dict(half)
    assert all(isinstance(value, torch.Tensor) for value in augment.state_dict().values())  # as safetensors wants them


def test_states_without_a_word_on_bounds_load():
    augment = moved(P.Pipeline([P.RandomRotation(L(10.0, low=0.0, high=20.0)), P.RandomInvert(p=L(0.5))]))
    old = {name: value for name, value in augment.state_dict().items() if not name.endswith("_extra_state")}
    assert len(old) < len(augment.state_dict())
    again = P.Pipeline([P.RandomRotation(L(3.0, low=0.0, high=20.0)), P.RandomInvert(p=L(0.1))])
    again.load_state_dict(old)
    assert again.numbers() == augment.numbers()
    again.load_state_dict(augment.state_dict())
    assert not any(name.endswith("_extra_state") for name in P.Pipeline([P.RandomRotation(3.0)]).state_dict())
    fewer = P.Pipeline([P.RandomRotation(L(3.0, low=0.0, high=20.0))])
    fewer.load_state_dict(augment.state_dict(), strict=False)
    assert fewer.numbers()["0.degrees.half_width"] == augment.numbers()["0.degrees.half_width"]


def hints(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(one.message) for one in caught if "biased gradient" in str(one.message)]


def test_a_plain_call_that_trains_a_gate_points_to_expected_once():
    x = torch.rand(2, 3, 5, 5)
    augment = P.Pipeline([P.RandomInvert(p=L(0.3)), P.RandomRotation(P.Uniform(L(-9.0), L(9.0), "boundary"))])
    with torch.no_grad():
        assert not hints(lambda: augment(x))
    (said,) = hints(lambda: augment(x))
    assert "0.gate (exact) by the straight-through" in said
    assert "1.degrees (boundary) by the reparameterised" in said
    assert "pipeline.expected(loss_fn, batch)" in said
    assert not hints(lambda: augment(x))


@pytest.mark.parametrize("estimator", ["relaxed", "straight_through"])
def test_no_hint_where_the_surrogate_is_meant_or_nothing_trains(estimator):
    x = torch.rand(2, 3, 5, 5)
    for augment in (
        P.Pipeline([P.RandomInvert(p=P.Bernoulli(L(0.3), estimator=estimator)), P.RandomRotation(L(9.0))]),
        P.Pipeline([P.RandomInvert(p=L(0.3))]).requires_grad_(False),
        P.Pipeline([P.RandomInvert(p=0.3)]),
    ):
        assert not hints(lambda augment=augment: augment(x))
    loss = P.Pipeline([P.RandomInvert(p=L(0.3))])
    assert not hints(lambda: loss.expected(lambda out: out.mean((1, 2, 3)), x))


def test_what_draws_raises_is_heard():
    class Unmade(P.RandomRotation):
        def __post_init__(self):
            """Skip the constructor's own look at the draws."""

        def draws(self, spec):
            raise P.InvalidArgument("no images of this kind")

    refused(P.InvalidArgument, "no images of this kind", P.Pipeline, [Unmade(L(3.0))])


def test_images_refused_by_segment_leave_learning_alone():
    class Small(P.RandomRotation):
        def segment(self, spec):
            if spec.height > 64:
                raise P.InvalidArgument("too large")
            return super().segment(spec)

    augment = P.Pipeline([Small(L(3.0))])
    assert len(list(augment.parameters())) == 1
    refused(P.InvalidArgument, "too large", augment, torch.rand(1, 3, 65, 65))
