"""What the recipes minimise, against closed forms and scipy."""

import copy
import itertools
import math
from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy import integrate, optimize
from torch import nn

import pellucid as P
from pellucid import CenteredUniform, Key, Learnable, Pipeline
from pellucid.learn import augerino_objective, follow, gradient_penalty, teach_losses
from pellucid.learn.augerino import HeldStatistics
from pellucid.learn.demo import optimal_width
from pellucid.learn.ranges import numbers_of


@pytest.mark.slow
def test_the_entropy_reward_finds_the_width_of_the_closed_form():
    """The mean of a u^2 / 2 with u ~ U(-w, w) is a w^2 / 6, so minus c log(2 w) has its minimum at w = sqrt(3 c / a)."""
    a, reward = 5.0, 0.02
    augment = Pipeline([P.RandomBrightness(CenteredUniform(1.0, Learnable(0.4, low=0.0, high=1.0)), clip="none")])
    x = 0.5 * torch.ones(256, 1, 1, 1)
    optimizer = torch.optim.Adam(augment.parameters(), lr=0.03)
    widths = []
    for step in range(400):
        objective, loss = augerino_objective(
            augment, lambda out: 0.5 * a * (2.0 * out.mean((1, 2, 3)) - 1.0).square(), x, entropy=reward, key=Key(0, step)
        )
        optimizer.zero_grad()
        objective.backward()
        optimizer.step()
        widths.append(augment.ranges()["0.brightness"]["half_width"].item())
    assert not loss.requires_grad
    assert np.mean(widths[200:]) == pytest.approx(math.sqrt(3 * reward / a), rel=0.02)
    # And what the range costs in the end is half of the reward, whatever a is.
    assert a * np.mean(np.square(widths[200:])) / 6 == pytest.approx(reward / 2, rel=0.04)


def test_widths_that_a_module_predicts_are_paid_by_their_mean_entropy():
    """A uniform draw of half width w has entropy log 2 w: with each picture's own width, the mean of the logarithms."""
    shade = torch.tensor([0.1, 0.4, 0.9])
    widths = Learnable(by=lambda images: torch.logit(images.mean((1, 2, 3))), low=0.0, high=10.0)
    augment = Pipeline([P.RandomRotation(widths)], seed=0)
    images = shade[:, None, None, None].expand(3, 1, 4, 4)
    objective, loss = augerino_objective(augment, lambda out: out.mean((1, 2, 3)), images, entropy=0.5)
    assert objective.item() == pytest.approx(loss.item() - 0.5 * np.log(2 * 10.0 * shade.numpy()).mean(), rel=1e-5)
    assert numbers_of(augment) == {}


@pytest.mark.parametrize(("theta", "reward"), [(45.0, 0.02), (30.0, 0.05), (60.0, 0.02)])
def test_the_optimal_width_is_the_minimum_of_the_numerical_objective(theta, reward):
    """Bayes' rule on the densities of a sum of two uniforms, integrated by scipy; nothing of the closed form is used."""

    def density(angle, width):
        low, high = max(angle - width, -theta), min(angle + width, theta)
        return max(0.0, high - low) / (4 * theta * width)

    def objective(width):
        def conditional_entropy(angle):
            p, q = density(angle, width) / 2, density(180.0 - angle, width) / 2
            return 0.0 if min(p, q) <= 0 else -(p * math.log(p / (p + q)) + q * math.log(q / (p + q)))

        edge = max(0.0, theta + width - 90.0)
        # Two intervals, at +90 and -90 degrees, alike.
        loss = 2 * integrate.quad(conditional_entropy, 90.0 - edge, 90.0 + edge)[0] if edge else 0.0
        return loss - reward * math.log(width)

    found = optimize.minimize_scalar(
        objective, bounds=(91.0 - theta - 0.99, 110.0 - theta), method="bounded", options={"xatol": 1e-6}
    )
    assert optimal_width(theta, reward) == pytest.approx(found.x, abs=2e-3)


def test_the_penalty_of_a_linear_critic():
    """|gradient| is |w| everywhere: the penalty is (|w| - 1)^2 and its gradient 2 (|w| - 1) w / |w|."""
    w = torch.randn(2, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    real, fake = torch.rand(2, 5, 2, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    real.requires_grad_()
    penalty = gradient_penalty(lambda x: (x * w).sum((1, 2, 3)), real, fake, torch.linspace(0.1, 0.9, 5, dtype=torch.float64))
    norm = w.detach().norm()
    torch.testing.assert_close(penalty, (norm - 1) ** 2)
    penalty.backward()
    torch.testing.assert_close(w.grad, 2 * (norm - 1) * w.detach() / norm)
    assert real.grad is None


def test_the_penalty_of_a_dead_critic_is_finite():
    w = torch.zeros(3, requires_grad=True)
    penalty = gradient_penalty(
        lambda x: (x * w[:, None, None]).sum((1, 2, 3)), torch.rand(2, 3, 4, 4), torch.rand(2, 3, 4, 4), torch.rand(2)
    )
    penalty.backward()
    assert w.grad.isfinite().all()


def test_the_penalty_judges_points_between_real_and_fake():
    real, fake = torch.zeros(3, 1, 1, 1), torch.ones(3, 1, 1, 1)
    seen = []
    gradient_penalty(lambda x: (seen.append(x.detach()), x.sum((1, 2, 3)))[1], real, fake, torch.tensor([0.0, 0.25, 1.0]))
    assert seen[0].flatten().tolist() == [1.0, 0.75, 0.0]


def test_the_augmenters_loss_is_its_formula():
    generator = torch.Generator().manual_seed(0)
    student, teacher = torch.randn(2, 7, 4, generator=generator, dtype=torch.float64).requires_grad_()
    labels = torch.tensor([0, 1, 2, 3, 0, 1, 2])
    p = torch.softmax(student, 1)[torch.arange(7), labels]
    expected = F.cross_entropy(teacher, labels, reduction="none") - torch.log(1 - p)
    torch.testing.assert_close(teach_losses(student, teacher, labels), expected)
    cautious = 3 * F.cross_entropy(teacher, labels, reduction="none") - torch.log(1 - p)
    torch.testing.assert_close(teach_losses(student, teacher, labels, caution=3.0), cautious)
    assert torch.autograd.gradcheck(lambda s, t: teach_losses(s, t, labels), (student, teacher))


def test_the_augmenters_loss_survives_a_certain_student():
    student = torch.tensor([[80.0, 0.0, 0.0]], requires_grad=True)  # 1 - p underflows
    loss = teach_losses(student, torch.zeros(1, 3), torch.tensor([0]))
    loss.sum().backward()
    assert loss.item() == pytest.approx(math.log(3) + 80 - math.log(2), rel=1e-6)
    assert student.grad.isfinite().all()


def test_the_teacher_is_a_running_average():
    student = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    teacher = copy.deepcopy(student)
    start = teacher[0].weight.clone()
    with torch.no_grad():
        student[0].weight += 1.0
        student[1].running_mean += 1.0
        student[1].num_batches_tracked += 3
    for _ in range(4):
        follow(teacher, student, 0.9)
    torch.testing.assert_close(teacher[0].weight.detach(), start.detach() + 1 - 0.9**4)
    torch.testing.assert_close(teacher[1].running_mean, torch.full((2,), 1 - 0.9**4))
    assert teacher[1].num_batches_tracked == 3


@pytest.mark.slow
def test_batch_statistics_are_held_while_gates_are_compared():
    """All 16 draws of four gates, by hand: the mean over draws of f(open) - f(shut), normalised by each draw's own statistics."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.BatchNorm2d(2), nn.Flatten(), nn.Tanh(), nn.Linear(2 * 9, 1)).double().train()
    x = torch.rand(4, 2, 3, 3, dtype=torch.float64) ** 2
    p, slopes, chances = 0.3, [], []
    for draw in range(16):
        gates = torch.tensor([draw >> i & 1 for i in range(4)], dtype=torch.float64)
        drawn = torch.where(gates[:, None, None, None] > 0, 1 - x, x)
        var, mean = torch.var_mean(drawn, (0, 2, 3), correction=0)

        def losses(images, mean=mean, var=var):
            normal = (images - mean[:, None, None]) / torch.sqrt(var + 1e-5)[:, None, None]
            return net[3](torch.tanh(normal.flatten(1)))[:, 0].square()

        slopes.append(float((losses(1 - x) - losses(x)).mean().detach()))
        chances.append(float(torch.where(gates > 0, p, 1 - p).prod()))
    oracle = float(np.dot(slopes, chances))

    judged = HeldStatistics(net)
    augment = Pipeline([P.RandomInvert(p=Learnable(p))])
    found = []
    for step in range(600):
        value = augment.expected(lambda out: judged(out)[:, 0].square(), x, key=Key(0, step))
        found.append(float(torch.autograd.grad(value, list(augment.parameters()))[0]) / (p * (1 - p)))
    assert abs(np.mean(found) - oracle) <= 3 * np.std(found) / 600**0.5
    assert np.std(found) / 600**0.5 < 0.05 * abs(oracle)
    assert net.training
    assert int(net[0].num_batches_tracked) == 600  # the further evaluations leave the running statistics alone


def test_a_flips_gate_has_the_gradient_of_enumeration_with_the_statistics_held():
    """Augerino's own network in training mode: all 16 draws of four flips, each judged by the statistics of its batch."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 9, 3)).double().train()
    x, labels = torch.rand(4, 1, 5, 5, dtype=torch.float64) ** 3, torch.tensor([0, 1, 2, 1])
    p = torch.tensor(0.3, dtype=torch.float64)

    def losses(images, statistics):
        normal = F.batch_norm(net[0](images), *statistics, net[1].weight, net[1].bias)
        return F.cross_entropy(net[4](F.relu(normal).flatten(1)), labels, reduction="none")

    judged = HeldStatistics(net)
    augment = Pipeline([P.RandomHorizontalFlip(p=Learnable(0.3))])
    wanted, found, mixed, left = 0.0, 0.0, 0.0, set(itertools.product((0.0, 1.0), repeat=4))
    for step in range(2000):
        key = Key(0, step)
        gates = augment.draw(x, key=key).params[0]["gate"].detach()
        if tuple(gates.tolist()) not in left:
            continue
        left.remove(tuple(gates.tolist()))
        with torch.no_grad():
            chance = torch.where(gates > 0, p, 1 - p).prod()
            drawn = torch.where(gates[:, None, None, None] > 0, x.flip(-1), x)
            statistics = [f(net[0](drawn), (0, 2, 3)) for f in (torch.mean, partial(torch.var, correction=0))]
            wanted += chance * (losses(x.flip(-1), statistics) - losses(x, statistics)).mean()
            mixed += chance * (F.cross_entropy(net(x.flip(-1)), labels) - F.cross_entropy(net(x), labels))
        value, _ = augerino_objective(
            augment, lambda out: F.cross_entropy(judged(out), labels, reduction="none"), x, entropy=0.0, key=key
        )
        (slope,) = torch.autograd.grad(value, list(augment.parameters()))
        found += chance * slope / (p * (1 - p))
    assert not left
    assert found.item() == pytest.approx(wanted.item(), rel=1e-6)
    assert abs(mixed - wanted) > 0.01 * abs(wanted)  # what batches of the other flips made of it


def test_held_statistics_change_nothing_where_a_gradient_is_asked_for():
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU())
    x, judged = torch.rand(3, 1, 6, 6), HeldStatistics(net)
    assert torch.equal(judged(x), net(x))
    drawn = judged(x)
    with torch.no_grad():
        assert torch.allclose(judged(x), drawn, atol=1e-6)
        assert torch.allclose(judged(x[:1]), drawn[:1], atol=1e-6)  # a batch of another size, the same statistics
    net.eval()
    assert torch.equal(judged(x), net(x))
