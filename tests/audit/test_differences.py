"""Finite differences on functions of one number whose derivative is known."""

import math

import pytest

from pellucid.audit.differences import slope, step_for, tolerance_for

EPS = 2.3e-16


def judge(f, expected, scale=1.0):
    return slope(f, expected, step=step_for(EPS), scale=scale, rounding=EPS, tolerance=tolerance_for(EPS)).verdict


@pytest.mark.parametrize(
    ("f", "derivative"),
    [(math.sin, 1.0), (math.exp, 1.0), (lambda t: 3 * t, 3.0), (lambda t: t * t, 0.0), (lambda t: math.tanh(50 * t) / 50, 1.0)],
)
def test_right_derivatives_agree_and_wrong_ones_do_not(f, derivative):
    assert judge(f, derivative) == "agree"
    assert judge(f, derivative + 1e-3) == "wrong"
    assert judge(f, -derivative - 1.0) == "wrong"


@pytest.mark.parametrize("choice", [-1.0, 1.0, 0.5])
def test_a_kink_is_told_from_an_error(choice):
    assert judge(abs, choice) == "kink"
    assert judge(abs, 0.0) == "agree"  # the central difference is a subgradient too


def test_a_jump_is_told_from_an_error():
    assert judge(lambda t: 1.0 if t > 0 else 0.0, 0.0) == "jump"
    assert judge(lambda t: t + (0.5 if t >= 0 else 0.0), 1.0) == "jump"


def test_a_step_that_does_not_move_agrees_with_zero():
    found = slope(lambda _: 4.0, 0.0, step=1e-5, scale=0.0, rounding=EPS, tolerance=1e-5)
    assert found.verdict == "agree"
    assert not found.moves


def test_a_function_that_is_not_finite_is_left_unjudged():
    assert judge(lambda t: math.nan if t else 0.0, 1.0) == "unsettled"


def test_noise_is_not_called_an_error():
    noisy = slope(lambda t: t + 1e-3 * math.sin(1e9 * t), 5.0, step=1e-5, scale=1.0, rounding=1e-3, tolerance=1e-5)
    assert noisy.verdict != "wrong"
