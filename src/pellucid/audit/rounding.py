"""Compare the gradient in a lower precision with the one in float64: is the difference larger than rounding explains?

Owns: a run in which every result is rounded to a dtype, the error bound from such runs, and the comparison.
Must not: emit findings.
Read next: ``checks/conditions.py``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from pellucid.audit.subject import Point, Subject

__all__ = ["Difference", "Rounded", "differences", "representable"]

_TRIES = ((3, 1.0), (12, 4.0))
"""(runs, units): rounded runs at neighbouring values, several because a single one may be right by luck. Before a finding, more of
them further away, which may lie on the other side of a kink."""
_SLACK = 16.0  # factor on the bound: the largest error of a few runs is below the worst possible one
_LEAST = 1e-300
_MOST = 0.6  # if rounding explains a larger relative difference than this, the leaf is not judged
_SMALL = 1e-2  # share of the largest gradient: smaller ones, as of a bias before a normalisation, may be mere rounding
_SUMS = re.compile(r"sum|mean|mm|mv|dot|conv|norm|var|std|grid_sampl|upsample|pool|linalg|lstm|gru|fft")


class Difference(NamedTuple):
    """The relative difference of a leaf's gradient, and the one that rounding explains."""

    relative: float
    explained: float


class _Errors(NamedTuple):
    """The largest relative error of the outputs, and the absolute error of each leaf's gradient."""

    outputs: float
    grads: dict[str, float]


class Rounded(TorchDispatchMode):
    """Rounds the result of every operation, backward included, to a dtype, and stores it as float64.

    The terms of a sum are also perturbed by up to half a rounding unit each. In float32 the whole sum is perturbed by up to as many
    half units as it has terms: a kernel rounds after every term, and equal terms in the same direction. Half sums in float32.
    """

    def __init__(self, dtype: torch.dtype, generator: torch.Generator) -> None:
        super().__init__()
        self._dtype, self._generator = dtype, generator

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if _SUMS.search(func._schema.name) and not func._schema.is_mutable:
            drift = _terms(args, out) * torch.finfo(self._dtype).eps if self._dtype == torch.float32 else 0.0
            factor = 1 + drift * (float(torch.rand((), generator=self._generator)) - 0.5)
            args = [factor * self.moved(a) if isinstance(a, Tensor) and a.dtype == torch.float64 else a for a in args]
            out = func(*args, **(kwargs or {}))
        aliases = [r.alias_info for r in func._schema.returns]
        for value, alias in zip(out if isinstance(out, tuple | list) else (out,), aliases, strict=False):
            new = isinstance(value, Tensor) and (alias is None or alias.is_write)
            if new and value.dtype == torch.float64 and value.layout == torch.strided:
                value.copy_(value.to(self._dtype))
        return out

    def moved(self, value: Tensor, units: float = 1.0) -> Tensor:
        """Return values perturbed at random by up to ``units`` halves of the rounding unit."""
        noise = torch.rand(value.shape, generator=self._generator, dtype=torch.float64).to(value.device) - 0.5
        return value * (1 + units * torch.finfo(self._dtype).eps * noise)


def _terms(args: Any, out: Any) -> float:
    """Return an estimate of how many elements each element of the result sums."""
    results = [t.numel() for t in (out if isinstance(out, tuple | list) else (out,)) if isinstance(t, Tensor) and t.numel()]
    return max(1.0, max((a.numel() for a in args if isinstance(a, Tensor)), default=0) / min(results, default=1))


def representable(point: Point, dtype: torch.dtype) -> dict[str, Tensor]:
    """Return the nearest float64 point whose values are exact in a dtype."""
    return {k: v.to(dtype).double() for k, v in point.items()}


def differences(
    subject: Subject, point: Point, dtype: torch.dtype, truth: Mapping[str, Tensor | None]
) -> dict[str, Difference] | None:
    """Compare the gradient in a dtype with ``truth``, the float64 gradient at the same values.

    The bound is the error of float64 runs in which every result is rounded to the dtype, at values perturbed by its rounding unit:
    the precision that the formula loses in this dtype. Return None if the outputs themselves differ by more than such a bound (by
    other random numbers or an overflow), or if the call refuses the dtype.
    """
    wanted = {k: grad for k, grad in truth.items() if grad is not None}
    try:
        low = {k: v.to(dtype) for k, v in point.items()}
        outs = subject.run(low)
        weights = subject.weights(outs)
        _, grads = subject.gradient(low, weights)
        wide = subject.run(point)
    except Exception:
        return None
    if len(outs) != len(wide) or not all(bool(torch.isfinite(t).all()) for t in outs):
        return None
    eps, errors = torch.finfo(dtype).eps, _errors(outs, grads, wide, wanted)
    floor = _SMALL * max(map(_norm, wanted.values()), default=0.0)
    sizes = {k: max(_norm(grad), floor, _LEAST) for k, grad in wanted.items()}
    if errors.outputs <= eps and all(errors.grads[k] <= eps * size for k, size in sizes.items()):
        return {k: Difference(errors.grads[k] / size, eps) for k, size in sizes.items()}
    for runs, units in _TRIES:
        try:
            rounding = _rounding(subject, point, dtype, weights, wide, wanted, runs, units)
        except Exception:
            return None
        same_function = errors.outputs <= _SLACK * (rounding.outputs + eps)
        found = {
            k: Difference(errors.grads[k] / size, _SLACK * (max(rounding.grads[k] / size, errors.outputs) + eps))
            for k, size in sizes.items()
        }
        if same_function and all(one.relative <= one.explained for one in found.values()):
            break
    judged = {k: one for k, one in found.items() if one.explained <= _MOST}
    return judged if judged and same_function else None


def _rounding(
    subject: Subject,
    point: Point,
    dtype: torch.dtype,
    weights: list[Tensor],
    wide: list[Tensor],
    truth: Mapping[str, Tensor],
    runs: int,
    units: float,
) -> _Errors:
    """Return the largest errors of rounded runs at neighbouring values."""
    worst = _Errors(0.0, dict.fromkeys(truth, 0.0))
    mode = Rounded(dtype, torch.Generator().manual_seed(50_021))
    for _ in range(runs):
        moved = representable({k: mode.moved(v, units) for k, v in point.items()}, dtype)
        with subject.under(mode):
            outs, grads = subject.gradient(moved, [w.double() for w in weights])
        errors = _errors(outs, grads, wide, truth)
        worst = _Errors(max(worst.outputs, errors.outputs), {k: max(most, errors.grads[k]) for k, most in worst.grads.items()})
    return worst


def _errors(outs: list[Tensor], grads: Mapping[str, Tensor | None], wide: list[Tensor], truth: Mapping[str, Tensor]) -> _Errors:
    """Compare a run's outputs and gradients with those of float64."""
    outputs = max((_gap(got, want) / max(_norm(want), _LEAST) for got, want in zip(outs, wide, strict=True)), default=0.0)
    return _Errors(outputs, {k: _gap(grads.get(k), want) for k, want in truth.items()})


def _gap(got: Tensor | None, want: Tensor) -> float:
    """Return the norm of a difference; the norm of ``want`` if ``got`` is None, infinity for other shapes or non-finite values."""
    if got is None:
        return _norm(want)
    if got.shape != want.shape or not bool(torch.isfinite(got).all()):
        return float("inf")
    return _norm(got.double() - want.double())


def _norm(value: Tensor) -> float:
    return float(value.double().norm())
