"""Hypergradients against closed forms on a quadratic, and against finite differences through a real augmentation."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

import pellucid as P
from pellucid import CenteredUniform, Key, Learnable, Pipeline
from pellucid.errors import InvalidArgument
from pellucid.learn import implicit_hypergradient, unrolled_hypergradient
from pellucid.learn.bilevel import BilevelSettings, bilevel
from pellucid.learn.data import load_pictures, small_task
from pellucid.training import World

N, M = 5, 3


@pytest.fixture
def quadratic():
    """inner = t'At/2 - t'Bp, outer = |t - c|^2/2 + d'p, as functions of the weights {a, b} that split t."""
    generator = torch.Generator().manual_seed(0)
    draw = torch.randn(N, N, generator=generator, dtype=torch.float64)
    A = draw @ draw.T / N + torch.eye(N, dtype=torch.float64)
    B, c, d = (torch.randn(*size, generator=generator, dtype=torch.float64) for size in ((N, M), (N,), (M,)))
    phi = torch.randn(M, generator=generator, dtype=torch.float64, requires_grad=True)
    return A, B, c, d, phi


def flat(weights):
    return torch.cat([weights["a"], weights["b"]])


def split(theta):
    return {"a": theta[:2].clone().requires_grad_(), "b": theta[2:].clone().requires_grad_()}


def losses(A, B, c, d, phi):
    def inner(weights):
        t = flat(weights)
        return 0.5 * t @ A @ t - t @ B @ phi

    def outer(weights):
        return 0.5 * (flat(weights) - c).square().sum() + d @ phi

    return inner, outer


def test_one_unrolled_step(quadratic):
    A, B, c, d, phi = quadratic
    inner, outer = losses(*quadratic)
    theta, rate = torch.ones(N, dtype=torch.float64), 0.07
    (got,) = unrolled_hypergradient(inner, outer, split(theta), [phi], rate=rate)
    after = theta - rate * (A @ theta - B @ phi.detach())
    torch.testing.assert_close(got, rate * B.T @ (after - c) + d, rtol=1e-6, atol=1e-12)


def test_several_unrolled_steps(quadratic):
    A, B, c, d, phi = quadratic
    inner, outer = losses(*quadratic)
    theta, rate, steps = torch.ones(N, dtype=torch.float64), 0.07, 4
    (got,) = unrolled_hypergradient([inner] * steps, outer, split(theta), [phi], rate=rate)
    shrink, after, slope = torch.eye(N, dtype=torch.float64) - rate * A, theta, torch.zeros(N, M, dtype=torch.float64)
    for _ in range(steps):
        after, slope = shrink @ after + rate * B @ phi.detach(), shrink @ slope + rate * B
    torch.testing.assert_close(got, slope.T @ (after - c) + d, rtol=1e-6, atol=1e-12)


def test_implicit_at_the_minimum(quadratic):
    A, B, c, d, phi = quadratic
    inner, outer = losses(*quadratic)
    theta = torch.linalg.solve(A, B @ phi.detach())
    rate = 1.0 / torch.linalg.eigvalsh(A).max().item()
    (got,) = implicit_hypergradient(inner, outer, split(theta), [phi], rate=rate, terms=400)
    torch.testing.assert_close(got, B.T @ torch.linalg.solve(A, theta - c) + d, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("terms", [1, 2, 7])
def test_a_cut_off_series_is_that_series(quadratic, terms):
    A, B, c, d, phi = quadratic
    inner, outer = losses(*quadratic)
    theta, rate = torch.linalg.solve(A, B @ phi.detach()), 0.1
    (got,) = implicit_hypergradient(inner, outer, split(theta), [phi], rate=rate, terms=terms)
    shrink = torch.eye(N, dtype=torch.float64) - rate * A
    inverse = rate * sum(torch.linalg.matrix_power(shrink, j) for j in range(terms))
    torch.testing.assert_close(got, B.T @ inverse @ (theta - c) + d, rtol=1e-6, atol=1e-12)
    if terms == 1:  # the unrolled step taken at the minimum
        (unrolled,) = unrolled_hypergradient(inner, outer, split(theta), [phi], rate=rate)
        torch.testing.assert_close(got, unrolled, rtol=1e-9, atol=1e-12)


def test_a_hyperparameter_without_influence_gets_zero(quadratic):
    inner, outer = losses(*quadratic)
    idle = torch.ones(2, dtype=torch.float64, requires_grad=True)
    weights = split(torch.ones(N, dtype=torch.float64))
    for got in (
        unrolled_hypergradient(inner, outer, weights, [quadratic[-1], idle], rate=0.1)[1],
        implicit_hypergradient(inner, outer, weights, [quadratic[-1], idle], rate=0.1, terms=3)[1],
    ):
        assert torch.equal(got, torch.zeros(2, dtype=torch.float64))
    with pytest.raises(InvalidArgument, match="terms"):
        implicit_hypergradient(inner, outer, weights, [idle], rate=0.1, terms=0)


@pytest.fixture
def augmented():
    """A softmax regression on warped and coloured pictures, float64."""
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(6, 1, 7, 7, generator=generator, dtype=torch.float64)
    held = torch.rand(6, 1, 7, 7, generator=generator, dtype=torch.float64)
    y = torch.tensor([0, 1, 2, 0, 1, 2])
    augment = Pipeline(
        [
            P.RandomAffine(
                degrees=Learnable(20.0, low=0.0, high=90.0), scale=CenteredUniform(1.0, Learnable(0.2, low=0.0, high=0.5))
            ),
            P.RandomGamma((Learnable(0.7, low=0.2), 1.3)),
        ]
    ).double()
    weights = {"w": 0.3 * torch.randn(49, 3, generator=generator, dtype=torch.float64)}
    weights["w"].requires_grad_()

    def inner(at):
        return F.cross_entropy(augment(x, key=Key(0, 0)).flatten(1) @ at["w"], y)

    def outer(at):
        return F.cross_entropy(held.flatten(1) @ at["w"], y)

    return augment, weights, inner, outer


def test_through_a_pipeline_it_agrees_with_finite_differences(augmented):
    augment, weights, inner, outer = augmented
    hyper = list(augment.parameters())
    got = unrolled_hypergradient(inner, outer, weights, hyper, rate=0.5)

    def after():
        (slope,) = torch.autograd.grad(inner(weights), [weights["w"]])
        return outer({"w": weights["w"] - 0.5 * slope}).item()

    step = 1e-5
    for parameter, gradient in zip(hyper, got, strict=True):
        assert gradient != 0
        values = []
        for change in (step, -2 * step, step):
            with torch.no_grad():
                parameter += change
            values.append(after())
        above, below, _ = values
        assert gradient.item() == pytest.approx((above - below) / (2 * step), rel=1e-5)


def test_the_warp_itself_can_be_differentiated_twice():
    """Where the outer loss needs it: d/d hyper of the image gradient that an inner step took."""
    augment = Pipeline([P.RandomRotation(Learnable(20.0, low=0.0, high=90.0))]).double()
    x = torch.rand(3, 1, 6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1), requires_grad=True)
    (raw,) = augment.parameters()

    def slope(create_graph=False):
        value = augment(x, key=Key(0, 0)).pow(3).sum()
        return torch.autograd.grad(value, x, create_graph=create_graph)[0].square().sum()

    (got,) = torch.autograd.grad(slope(create_graph=True), raw)
    step = 1e-5
    with torch.no_grad():
        raw += step
    above = slope().item()
    with torch.no_grad():
        raw -= 2 * step
    below = slope().item()
    assert got.item() == pytest.approx((above - below) / (2 * step), rel=1e-5)


@pytest.mark.slow
def test_turned_held_out_images_widen_the_rotation():
    """Upright digits to train on, turned ones to be judged on: the range grows, and less so where those are upright too."""
    pictures = load_pictures()
    upright = small_task(pictures, 200, held=200)
    turned = replace(upright, x_held=Pipeline([P.RandomRotation(30.0)], seed=3)(upright.x_held))
    found = {}
    for name, task in (("upright", upright), ("turned", turned)):
        augment = Pipeline([P.RandomRotation(CenteredUniform(0.0, Learnable(5.0, low=0.0, high=180.0)))])
        learning = bilevel(task, augment, BilevelSettings(steps=50), World())
        for step in range(50):
            found[name] = learning.step(step)["0.RandomRotation.degrees.high"]
    assert found["turned"] > 7.0
    assert found["turned"] > 2.0 * found["upright"]
