"""The spaces of searches: what they consist of, and that their parameters move as sums over all outcomes say."""

import pytest
import torch

import pellucid as P
from pellucid import Key
from pellucid.errors import InvalidArgument
from pellucid.policy import searchable

GREY, TARGET = 0.3, 0.55
PICTURES = torch.full((256, 1, 1, 1), GREY, dtype=torch.float64)
NAMES = ["Brightness", "Invert", "Solarize"]
REPEATS, STEPS = 25, 25
SPACES = {
    "adversarial_autoaugment": {},
    "dada": {},
    "faster_autoaugment": {"pairs": 2},
}


def losses(images):
    return (images[:, 0, 0, 0] - TARGET).square()


def outcomes(transform, step, now, x):
    """What an operation makes of greys, (n,): all results and their probabilities, as functions of the learned numbers."""
    if isinstance(transform, P.RandomInvert):
        return [(1.0 - x, 1.0)]
    if isinstance(transform, P.RandomBrightness):
        drawn = now[f"{step}.brightness"]
        if "weight_0" in drawn:
            return list(zip([x * v for v in transform.brightness.values], drawn.values(), strict=True))
        grid = (torch.arange(64, dtype=x.dtype) + 0.5) / 32 - 1.0  # midpoints of a uniform draw
        return [(x * (1.0 + drawn["half_width"] * u), 1 / 64) for u in grid]
    drawn = now[f"{step}.threshold"]
    if "weight_0" in drawn:
        return [(torch.where(x >= v, 1.0 - x, x), w) for v, w in zip(transform.threshold.values, drawn.values(), strict=True)]
    below = ((x - drawn["low"]) / (1.0 - drawn["low"])).clamp(0.0, 1.0)  # the chance that the threshold lies below the grey
    return [(1.0 - x, below), (x, 1.0 - below)]


def expectation(policy):
    """The expected loss of hard draws, a sum over all outcomes; its graph ends in the policy's parameters."""
    now = policy.ranges()

    def walk(sequence, at, x, weight):
        for transform in sequence:
            if isinstance(transform, P.OneOf):
                branches, found = transform.branches, []
                shares = now.get(f"{at}.choice", dict.fromkeys(range(len(branches)), 1.0 / len(branches)))
                at += 1
                for share, branch in zip(shares.values(), branches, strict=True):
                    y, w, at = walk(branch, at, x, weight * share)
                    found.append((y, w))
            else:
                p = now[f"{at}.gate"]["p"] if f"{at}.gate" in now else 1.0
                found = [(y.clamp(0.0, 1.0), weight * p * w) for y, w in outcomes(transform, at, now, x)]
                found += [(x, weight * (1.0 - p))]
                at += 1
            weight = torch.cat([w.expand_as(y) for y, w in found])
            x = torch.cat([y for y, _ in found])
        return x, weight, at

    one = torch.ones(1, dtype=torch.float64)
    x, weight, _ = walk(policy.transforms, 0, GREY * one, one)
    torch.testing.assert_close(weight.sum(), one[0])
    return (weight * (x - TARGET).square()).sum()


def trained(policy, objective, steps, *, climb=False):
    """Its exact expected loss after so many steps of Adam on an objective."""
    optimizer = torch.optim.Adam(policy.parameters(), 0.1)
    for step in range(steps):
        loss = objective(policy, step)
        optimizer.zero_grad()
        (-loss if climb else loss).backward()
        optimizer.step()
    return expectation(policy).item()


def estimate(policy, step):
    return policy.expected(losses, PICTURES, key=Key(1, step))


@pytest.mark.parametrize("method", SPACES)
def test_the_oracle_is_the_mean_of_many_draws(method):
    policy = searchable(method, operations=NAMES, estimator="reinforce", **SPACES[method]).double()
    many = torch.cat([losses(policy(PICTURES, key=Key(0, step))) for step in range(20)]).detach()
    assert abs(many.mean() - expectation(policy)) < 4.5 * many.std() / len(many) ** 0.5 + 2e-4  # 2e-4: midpoints


@pytest.mark.parametrize("method", ["dada", *(pytest.param(name, marks=pytest.mark.slow) for name in SPACES if name != "dada")])
def test_scores_are_unbiased_for_every_choice_and_gate(method):
    """Of solarize's range, whose loss jumps, the draw knows nothing; its secant is a surrogate."""
    policy = searchable(method, operations=NAMES, estimator="reinforce", **SPACES[method]).double()
    exact = torch.autograd.grad(expectation(policy), list(policy.parameters()))
    found = []
    for step in range(REPEATS):
        policy.zero_grad()
        estimate(policy, step).backward()
        found.append(torch.stack([p.grad for p in policy.parameters()]))
    found, exact = torch.stack(found), torch.stack(exact)
    names = [name for name, _ in policy.learned.named_parameters()]
    smooth = torch.tensor(["threshold" not in name or "weight" in name for name in names])
    off = (found.mean(0) - exact).abs() <= 4.5 * found.std(0) / REPEATS**0.5 + 1e-4
    assert off[smooth].all(), names
    assert exact.norm() > 5 * found.std(0).norm() / REPEATS**0.5  # the test would see a gradient that is not there


@pytest.mark.parametrize(
    ("method", "share"),
    [("adversarial_autoaugment", 0.9), ("dada", 0.8), pytest.param("faster_autoaugment", 0.8, marks=pytest.mark.slow)],
)
def test_parameters_move_the_right_way(method, share):
    """A search by the method's own estimator gets most of what steps along the exact gradient get."""
    climb = method == "adversarial_autoaugment"
    ours, best = (searchable(method, operations=NAMES, **SPACES[method]).double() for _ in range(2))
    start = expectation(ours).item()
    reached = trained(best, lambda policy, _: expectation(policy), STEPS, climb=climb) - start
    moved = trained(ours, estimate, STEPS, climb=climb) - start
    assert (reached > 0) == climb
    assert moved / reached > share


def test_what_a_method_has_no_use_for_is_refused():
    for arguments, word in (
        ({"method": "fast"}, "dada"),
        ({"method": "pairs", "operations": ["Invert"]}, "operations"),
        ({"method": "pairs", "estimator": "arm"}, "estimator"),
        ({"method": "adversarial_autoaugment", "pairs": 3}, "pairs"),
        ({"method": "dada", "operations": ["Invert"]}, "at least two"),
        ({"method": "dada", "operations": ["Turn", "Invert"]}, "ShearX"),
        ({"method": "dada", "operations": "Invert"}, "ShearX"),
        ({"method": "faster_autoaugment", "estimator": "hope"}, "estimator"),
    ):
        with pytest.raises(InvalidArgument, match=word):
            searchable(**arguments)


def test_the_spaces_hold_what_the_papers_count():
    grey, coloured = searchable("dada"), searchable("dada", channels=3)
    assert (len(grey[0].transforms), len(coloured[0].transforms)) == (13 * 12 // 2, 14 * 13 // 2)
    faster = searchable("faster_autoaugment")
    assert [[len(stage.transforms) for stage in branch] for branch in faster[0].branches] == [[13, 13]] * 10
    assert [len(stage.transforms) for stage in searchable("adversarial_autoaugment", channels=3).transforms] == [14, 14]
