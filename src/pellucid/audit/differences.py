"""Finite differences along a line, and the reason why they disagree with autograd.

Owns: the step ladder and the verdicts agree, wrong, kink, jump, unsettled. Pure arithmetic on a function of one number.
Must not: know about tensors, autograd or subjects.
Read next: ``checks/agreement.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Slope", "slope", "step_for", "tolerance_for"]

_SHRINK = 4.0


@dataclass(frozen=True)
class Slope:
    """A directional derivative measured three ways.

    ``verdict`` is ``agree``, ``wrong`` (two step sizes agree with one another and not with autograd), ``kink`` (the two
    one-sided derivatives settle on different values), ``jump`` (the function's change does not shrink with the step) or
    ``unsettled`` (the two step sizes disagree: nothing can be said).
    """

    autograd: float
    central: float
    coarse: float
    forward: float
    backward: float
    step: float
    scale: float
    noise: float
    verdict: str

    @property
    def moves(self) -> bool:
        """Whether the function changes at the finer step by more than rounding explains."""
        return max(abs(self.central), abs(self.forward)) > 4 * self.noise

    @property
    def error(self) -> float:
        """Disagreement relative to the size of the derivative."""
        return abs(self.autograd - self.central) / max(abs(self.autograd), abs(self.central), self.scale, 1e-300)


def step_for(eps: float) -> float:
    """Return the step (in units of the input's size) that balances truncation and rounding for a central difference.

    The cube root of the rounding unit is the textbook balance for a smooth function; three times less crosses fewer kinks.
    """
    return eps ** (1.0 / 3.0) / 3.0


def tolerance_for(eps: float) -> float:
    """Return the largest relative error that rounding and truncation explain: about 2e-5 in float64, 1.5e-2 in float32."""
    return min(0.3, 3.0 * eps**0.33) if eps > 1e-10 else 2e-5


def slope(f: Callable[[float], float], expected: float, *, step: float, scale: float, rounding: float, tolerance: float) -> Slope:
    """Compare ``expected`` with the derivative of ``f`` at 0.

    Args:
        f: The function along the line.
        expected: The slope by autograd.
        step: The larger of the two steps; the other is four times smaller.
        scale: The size of a typical directional derivative, for relative comparison.
        rounding: The absolute rounding error of one value of ``f``.
        tolerance: Relative disagreement to accept.
    """
    fine = step / _SHRINK
    middle, up, down, up_fine, down_fine = f(0.0), f(step), f(-step), f(fine), f(-fine)
    coarse, central = (up - down) / (2 * step), (up_fine - down_fine) / (2 * fine)
    forward, backward = (up_fine - middle) / fine, (middle - down_fine) / fine
    size = max(scale, abs(expected), abs(central))
    noise = 2.0 * rounding / fine
    verdict = "agree"
    if not all(map(math.isfinite, (middle, up, down, up_fine, down_fine, expected))):
        verdict = "unsettled"
    elif abs(expected - central) > tolerance * size + noise and abs(expected - coarse) > tolerance * size + noise / _SHRINK:
        sides = ((up - middle) / step, forward, (middle - down) / step, backward)
        verdict = _explain(abs(expected - central), abs(coarse - central), sides, noise + tolerance * size)
    if verdict == "wrong" and _rough(f, fine, up_fine - middle, middle - down_fine) > 0.1 * abs(expected - central):
        verdict = "unsettled"
    return Slope(expected, central, coarse, forward, backward, fine, size, noise, verdict)


def _rough(f: Callable[[float], float], step: float, up: float, down: float) -> float:
    """Return how far nearby steps are from a straight line, as a slope: large if hidden rounding turns the line into stairs."""
    middle = f(0.0)
    residuals = [f(1.3 * step) - middle - 1.3 * up, middle - f(-1.3 * step) - 1.3 * down]
    return max(abs(r) for r in residuals) / step if all(map(math.isfinite, residuals)) else math.inf


def _explain(error: float, spread: float, sides: tuple[float, float, float, float], noise: float) -> str:
    """Return the verdict on a disagreement, from the change of the one-sided slopes when the step shrinks fourfold."""
    right, right_fine, left, left_fine = sides
    steepest = max(abs(right_fine), abs(left_fine))
    if steepest > 2.5 * max(abs(right), abs(left), noise) and steepest > 10 * noise:
        return "jump"  # the slope grows fourfold: the function's change does not shrink
    bend, bend_fine = abs(right - left), abs(right_fine - left_fine)
    if bend_fine > max(4 * noise, 0.02 * error) and bend_fine > 0.6 * bend:
        return "kink"  # in a smooth function, the difference of the sides shrinks fourfold
    return "unsettled" if spread > max(0.3 * error, noise) else "wrong"
