"""A choice among pipelines: the right branch, the right frequency, and gradients for everybody."""

import itertools
import math

import pytest
import torch

import pellucid as P
from pellucid import Key, Learnable
from pellucid.errors import InvalidArgument
from pellucid.pipeline import Pipeline
from pellucid.policy import RandomChoice, rand_augment, searchable, trivial_augment
from tests.refusals import refused

BRANCHES = (
    [P.RandomRotation(20.0), P.RandomBrightness(0.3)],
    [P.RandomHorizontalFlip(p=1.0)],
    [P.RandomErasing(p=1.0, scale=(0.2, 0.3))],
)


def shares(choice, n, key=None, name="choice"):
    """What is drawn, from pictures that nobody needs."""
    return choice.draw(torch.zeros(n, 3, 12, 12), key=key).params[0][name]


def images(n=64, channels=3):
    return torch.rand(n, channels, 12, 12, generator=torch.Generator().manual_seed(3))


def test_each_sample_gets_its_branch_and_nothing_else():
    choice, x, key = RandomChoice(BRANCHES, seed=5), images(), Key(5, 2)
    out, record = choice(x, key=key, return_record=True)
    chosen = shares(choice, 64, key).argmax(1)
    assert set(chosen.tolist()) == {0, 1, 2}
    start = 1
    for branch, transforms in enumerate(BRANCHES):
        mine = chosen == branch
        alone = Pipeline(transforms)
        drawn = alone.draw(x[mine])
        for i in range(len(transforms)):
            for name in drawn.params[i]:
                drawn = drawn.with_param(i, name, record[mine].params[start + i][name])
        torch.testing.assert_close(out[mine], alone.apply(x[mine], drawn), rtol=0, atol=2e-6)
        start += len(transforms)


def test_branches_come_as_often_as_their_weights_say():
    weights, n = (1.0, 2.0, 5.0), 20_000
    counts = shares(RandomChoice(BRANCHES, weights=weights), n, Key(1, 0)).sum(0)
    for count, weight in zip(counts.tolist(), weights, strict=True):
        p = weight / 8
        assert abs(count - n * p) < 4 * (n * p * (1 - p)) ** 0.5


def test_the_largest_relaxed_share_falls_on_each_branch_with_its_weight():
    weights, n = (1.0, 2.0, 5.0), 20_000
    drawn = shares(RandomChoice(BRANCHES, weights=weights, temperature=0.5), n, Key(1, 0))
    torch.testing.assert_close(drawn.sum(1), torch.ones(n, dtype=torch.float64))
    counts = torch.bincount(drawn.argmax(1), minlength=3)
    for count, weight in zip(counts.tolist(), weights, strict=True):
        p = weight / 8
        assert abs(count - n * p) < 4 * (n * p * (1 - p)) ** 0.5


def test_a_draw_depends_on_the_sample_alone():
    choice, x = RandomChoice(BRANCHES, seed=5), images(8)
    state = torch.random.get_rng_state()
    whole = choice(x, key=Key(5, 2))
    assert torch.equal(choice(x[:3], key=Key(5, 2)), whole[:3])
    assert torch.equal(choice(x[3:], key=Key(5, 2, torch.arange(3, 8))), whole[3:])
    assert torch.equal(torch.random.get_rng_state(), state)
    first, second = choice(x), choice(x)
    assert not torch.equal(first, second)  # the counter moves
    assert torch.equal(RandomChoice(BRANCHES, seed=5)(x), first)


def test_every_learnable_takes_part_in_every_call():
    choice = RandomChoice([[P.RandomRotation(Learnable(5.0))], [P.RandomTranslate((Learnable(0.1), 0.0))]], learn=True)
    for step in range(6):  # a single sample: one branch is never chosen
        choice.zero_grad()
        choice(images(1), key=Key(0, step)).square().sum().backward()
        assert all(parameter.grad is not None for parameter in choice.parameters())
        touched = [bool(p.grad != 0) for name, p in choice.named_parameters() if "choice" not in name]
        assert sum(touched) == 1


def test_relaxed_weights_have_the_gradient_of_finite_differences():
    choice = RandomChoice(
        [[P.RandomBrightness((0.5, 0.6))], [P.RandomBrightness((1.4, 1.5))]], learn=True, temperature=1.0
    ).double()
    x = images(32).double() * 0.5

    weights = list(choice.parameters())

    def mean(at):
        with torch.no_grad():
            for weight, value in zip(weights, at, strict=True):
                weight.copy_(value)
        return choice(x, key=Key(0, 0)).mean()

    start = torch.tensor([0.3, -0.2], dtype=torch.float64)
    mean(start).backward()
    for i in range(2):
        bump = torch.zeros(2, dtype=torch.float64)
        bump[i] = 1e-5
        numeric = (mean(start + bump) - mean(start - bump)).item() / 2e-5
        assert weights[i].grad.item() == pytest.approx(numeric, rel=1e-6)


def test_straight_through_weights_move_towards_the_better_branch():
    choice = RandomChoice([[P.RandomBrightness((0.5, 0.5))], [P.RandomBrightness((1.5, 1.5))]], learn=True)
    optimizer = torch.optim.SGD(choice.parameters(), lr=5.0)
    for _ in range(30):
        optimizer.zero_grad()
        choice(0.5 * images(16)).mean().backward()  # darker is better
        optimizer.step()
    assert choice.numbers()["0.choice.weight_0"] > 0.9
    other = RandomChoice([[P.RandomBrightness((0.5, 0.5))], [P.RandomBrightness((1.5, 1.5))]], learn=True)
    other.load_state_dict(choice.state_dict())
    assert torch.equal(other(images(4)), choice(images(4)))


@pytest.mark.parametrize("times", [1, 2])
def test_learned_weights_have_the_exact_gradient(times):
    """The closed form: the sum over every sequence of branches of its chance times its loss; no part of it is drawn."""
    factors = (0.2, 1.5, 0.9)
    branches = [[P.RandomBrightness((factor, factor), clip="none")] for factor in factors]
    choice = RandomChoice(branches, weights=(1.0, 2.0, 0.5), learn=True, times=times).double()
    x = torch.full((512, 1, 1, 1), 0.5, dtype=torch.float64)
    found = []
    for step in range(8 if times > 1 else 1):
        choice.zero_grad()
        choice.expected(lambda out: (out[:, 0, 0, 0] - 0.2).square(), x, key=Key(3, step)).mean().backward()
        found.append(torch.stack([p.grad for p in choice.parameters()]))
    raw = torch.stack([p.detach() for p in choice.parameters()]).requires_grad_()
    chances = torch.nn.functional.softplus(raw)
    chances = chances / chances.sum()
    mean = 0.0
    for order in itertools.product(range(3), repeat=times):
        shown = 0.5 * math.prod(factors[i] for i in order)
        mean = mean + math.prod(chances[i] for i in order) * (shown - 0.2) ** 2
    (wanted,) = torch.autograd.grad(mean, [raw])
    grads = torch.stack(found)
    if times == 1:
        torch.testing.assert_close(grads[0], wanted, atol=1e-12, rtol=0)
    else:  # each draw is summed over, the other one held
        assert (grads.mean(0) - wanted).abs().max() < 5 * float(grads.std(0).max()) / len(grads) ** 0.5


def test_mistakes_are_named():
    refused(InvalidArgument, "before or after a choice", RandomChoice([[P.Normalize((0.5,), (0.5,))]]), images(1))
    refused(InvalidArgument, "at least one", RandomChoice, [])
    refused(InvalidArgument, "3 numbers", RandomChoice, BRANCHES, weights=(1.0, 2.0))
    refused(InvalidArgument, "cannot grow", RandomChoice, BRANCHES, weights=(0.0, 1.0, 1.0), learn=True)
    refused(InvalidArgument, "temperature", RandomChoice, BRANCHES, temperature=0.0)


@pytest.mark.parametrize("channels", [1, 3])
def test_presets_change_pictures_and_keep_their_shape(channels):
    x = images(16, channels)
    for policy in (trivial_augment(channels=channels), rand_augment(2, 0.5, channels=channels), searchable(channels=channels)):
        out = policy(x)
        assert out.shape == x.shape
        assert out.isfinite().all()
        assert (out != x).flatten(1).any(1).float().mean() > 0.5


def test_a_searchable_policy_learns_every_number():
    policy = searchable(channels=1, pairs=5)
    assert len(policy.transforms[0].branches) == 5
    weights = torch.rand(64, 1, 12, 12, generator=torch.Generator().manual_seed(1))
    (policy(images(64, 1)) * weights).sum().backward()
    for name, parameter in policy.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [None, 0.5])
def test_it_compiles_into_one_graph_and_learns_there(temperature):
    choice = RandomChoice(
        [[P.RandomRotation(Learnable(20.0))], [P.RandomBrightness(0.3), P.RandomHorizontalFlip()]],
        learn=True,
        temperature=temperature,
    )
    x = images(8)
    compiled = torch.compile(choice, fullgraph=True)
    for step in range(3):
        key = Key(torch.tensor(3), torch.tensor(step))
        choice.zero_grad()
        expected = choice(x, key=key)
        expected.square().mean().backward()
        eager = [p.grad.clone() for p in choice.parameters()]
        choice.zero_grad()
        out = compiled(x, key=key)
        out.square().mean().backward()
        torch.testing.assert_close(out, expected, rtol=0, atol=1e-5)
        for parameter, grad in zip(choice.parameters(), eager, strict=True):
            torch.testing.assert_close(parameter.grad, grad, rtol=1e-3, atol=1e-6)


def test_a_shared_draw_shares_the_branch():
    flips = RandomChoice([[P.RandomHorizontalFlip(p=1.0)], [P.RandomVerticalFlip(p=1.0)]], same_on_batch=True, seed=0)
    picture = torch.arange(4.0).reshape(1, 1, 2, 2).expand(16, 1, 2, 2)
    outcomes = set()
    for _ in range(12):
        rows = {tuple(row) for row in flips(picture).flatten(1).tolist()}
        assert len(rows) == 1
        outcomes |= rows
    assert len(outcomes) == 2
