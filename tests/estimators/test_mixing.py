"""Losses that mix the samples are found out, and what the message recommends is unbiased."""

import copy
import itertools
import pickle
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import pellucid as P
from pellucid import Bernoulli, Categorical, Key, Learnable, Pipeline, Uniform
from tests.refusals import refused

L, F64 = Learnable, torch.float64


def images(samples=4):
    return torch.rand(samples, 3, 5, 6, generator=torch.Generator().manual_seed(1), dtype=F64)


def info_nce(out):
    """(B,) losses of a contrastive objective: every sample is a negative of every other."""
    features = F.normalize(out.flatten(1) - 0.5, dim=1)
    pairs = F.normalize(images(out.shape[0]).flatten(1) - 0.5, dim=1) @ features.T
    return F.cross_entropy(8.0 * pairs, torch.arange(out.shape[0]), reduction="none")


def of_pairs(offset, out):
    """Each loss looks at one other sample only."""
    means = out[:, 0, 0, 0]
    return means * means.roll(offset)


def own(out):
    return (out * torch.linspace(0.1, 1.0, 6, dtype=out.dtype)).square().mean((1, 2, 3))


LOSS_BASED = {
    "exact": P.RandomHorizontalFlip(p=L(0.3)),
    "arm": P.RandomInvert(p=Bernoulli(L(0.3), estimator="arm")),
    "reinforce": P.RandomInvert(p=Bernoulli(L(0.3), estimator="reinforce")),
    "choice": P.RandomRotation(Categorical((-9.0, 0.0, 9.0), (L(1.0), L(1.0), L(2.0)))),
    "boundary": P.RandomRotation(Uniform(L(-9.0), L(9.0), estimator="boundary")),
}


@pytest.mark.parametrize("name", LOSS_BASED)
def test_losses_that_mix_are_refused_and_the_sentence_says_what_to_do(name):
    augment = Pipeline([LOSS_BASED[name]], seed=1)
    refused(P.InvalidArgument, r"own sample alone.*same_on_batch=True.*scalar", augment.expected, info_nce, images())
    augment.expected(own, images()).backward()


@pytest.mark.parametrize("samples", [2, 4, 6, 8, 16])
@pytest.mark.parametrize("offset", ["next", "half"])
def test_pairs_are_found_however_they_are_laid_out(samples, offset):
    augment = Pipeline([P.RandomInvert(p=L(0.3))])
    with pytest.raises(P.InvalidArgument, match="own sample alone"):
        augment.expected(partial(of_pairs, 1 if offset == "next" else samples // 2), images(samples))


def test_each_loss_is_looked_at_once():
    augment = Pipeline([P.RandomInvert(p=L(0.3))])
    calls = []

    def counted(scale):
        def loss(out):
            calls.append(out.requires_grad)
            return scale * own(out)

        return loss

    for step in range(3):
        augment.expected(counted(float(step)), images())
    assert len(calls) == 3 * augment.evaluations() + 2
    with torch.no_grad():
        augment.expected(lambda out: of_pairs(1, out), images())
    refused(P.InvalidArgument, "own sample alone", augment.expected, lambda out: of_pairs(1, out), images())


def test_nothing_is_looked_at_where_nothing_needs_it():
    for augment in (
        Pipeline([P.RandomRotation(L(9.0)), P.RandomHorizontalFlip()]),
        Pipeline([P.RandomInvert(p=L(0.3))], same_on_batch=True),
        Pipeline([P.RandomInvert(p=Bernoulli(L(0.3), temperature=0.5))]),
    ):
        augment.expected(info_nce, images()).backward()


def test_dropout_is_no_mixing_and_the_generator_is_left_where_a_loss_leaves_it():
    augment = Pipeline([P.RandomInvert(p=L(0.3))])
    net = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(90, 1)).double()
    torch.manual_seed(3)
    augment.expected(lambda out: net(out)[:, 0], images())
    found = torch.rand(1)
    torch.manual_seed(3)
    for _ in range(2):  # the draw and the other gate
        net(images())
    assert torch.equal(found, torch.rand(1))


def test_a_loss_that_is_never_the_same_twice_is_not_accused():
    augment = Pipeline([P.RandomInvert(p=L(0.3))])
    generator = torch.Generator().manual_seed(0)
    augment.expected(lambda out: own(out) * torch.rand(4, generator=generator), images()).backward()


def test_batch_statistics_mix_in_training_mode_only():
    augment = Pipeline([P.RandomInvert(p=L(0.3))])
    net = nn.Sequential(nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(90, 1)).double()
    with pytest.raises(P.InvalidArgument, match="batch normalisation belongs in evaluation mode"):
        augment.expected(lambda out: net(out)[:, 0], images())
    net.eval()
    augment.expected(lambda out: net(out)[:, 0].square(), images()).backward()


def test_what_the_message_recommends_is_unbiased():
    """Enumeration of all gates of three samples against the scalar under ARM and REINFORCE, and against a shared draw."""
    x = images(3)
    raw = torch.logit(torch.tensor(0.3, dtype=F64)).requires_grad_()
    p = torch.sigmoid(raw)
    expectation = 0.0
    for gates in itertools.product((0.0, 1.0), repeat=3):
        g = torch.tensor(gates, dtype=F64)
        chance = torch.where(g > 0, p, 1 - p).prod()
        expectation = expectation + chance * info_nce(torch.where(g[:, None, None, None] > 0, 1 - x, x)).mean()
    (oracle,) = torch.autograd.grad(expectation, raw)
    for estimator in ("arm", "reinforce"):
        augment = Pipeline([P.RandomInvert(p=Bernoulli(L(0.3), estimator=estimator))])
        found = torch.stack(
            [
                torch.autograd.grad(
                    augment.expected(lambda out: info_nce(out).mean(), x, key=Key(0, step)), list(augment.parameters())
                )[0]
                for step in range(300)
            ]
        )
        assert abs(found.mean() - oracle) <= 3 * found.std() / 300**0.5, estimator
    shared = Pipeline([P.RandomInvert(p=L(0.3))], same_on_batch=True)
    (slope,) = torch.autograd.grad(shared.expected(info_nce, x), list(shared.parameters()))
    assert torch.allclose(slope, (0.21 * (info_nce(1 - x) - info_nce(x)).mean()).float(), rtol=1e-5)


def test_the_error_for_scalars_does_not_recommend_what_is_biased():
    with pytest.raises(P.InvalidArgument, match=r"every sample's loss is its own.*mixes the samples.*same_on_batch"):
        Pipeline([P.RandomInvert(p=L(0.3))]).expected(lambda out: info_nce(out).mean(), images())


def test_a_pipeline_that_has_seen_a_loss_still_pickles_and_copies():
    augment = Pipeline([P.RandomInvert(p=L(0.3))])
    augment.expected(lambda out: own(out), images())
    for other in (pickle.loads(pickle.dumps(augment)), copy.deepcopy(augment)):
        assert other.numbers() == augment.numbers()


@pytest.mark.parametrize("estimator", ["arm", "reinforce"])
@pytest.mark.parametrize("value", [0.0, 1.0, -0.2, 1.3])
def test_a_probability_that_left_the_open_interval_is_refused(estimator, value):
    own_p = nn.Parameter(torch.tensor(0.4))
    augment = Pipeline([P.RandomInvert(p=Bernoulli(own_p, estimator=estimator))])
    augment.expected(own, images()).backward()
    assert own_p.grad != 0
    with torch.no_grad():
        own_p.fill_(value)
    refused(P.InvalidArgument, r"probability of 0\.gate.*strictly between 0 and 1.*Learnable", augment.expected, own, images())
    exact = Pipeline([P.RandomInvert(p=own_p)])  # this one is right everywhere
    exact.expected(own, images()).backward()


@pytest.mark.parametrize("estimator", ["arm", "reinforce"])
def test_where_values_cannot_be_looked_at_the_gradient_is_nan_rather_than_zero(estimator):
    torch._dynamo.reset()
    own_p = nn.Parameter(torch.tensor(1.0))
    augment = Pipeline([P.RandomInvert(p=Bernoulli(own_p, estimator=estimator))])
    compiled = torch.compile(lambda x: augment.expected(own, x, key=Key(0, 0)), backend="eager")
    compiled(images()).backward()
    assert own_p.grad.isnan()


def test_bounds_of_a_probability_stay_within_it():
    refused(P.InvalidArgument, r"Bernoulli\.p.*within \[0, 1\]", Bernoulli, L(0.5, low=-1.0, high=20.0))
