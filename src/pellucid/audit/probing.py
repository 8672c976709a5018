"""Perturbations of one leaf: slopes along lines, and whether its elements affect the output at all.

Owns: the steps and directions in which a leaf is moved, and the comparison of outputs.
Must not: emit findings.
Read next: ``checks/agreement.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from pellucid.audit.context import Context, size_of
from pellucid.audit.differences import Slope, slope, step_for, tolerance_for
from pellucid.audit.subject import Point

__all__ = ["directions", "joint_directions", "joint_slope", "large_changes", "measure_slope", "moved", "singles", "takes_part"]


def directions(value: Tensor, count: int = 4) -> list[Tensor]:
    """Return random directions of the leaf's own size: the first two are dense, the others move an eighth of the elements."""
    generator = torch.Generator().manual_seed(30_011)
    vectors = []
    for index in range(count):
        normal = torch.randn(value.shape, generator=generator, dtype=torch.float64)
        if index >= 2 and value.numel() >= 32:
            normal = normal * (torch.rand(value.shape, generator=generator, dtype=torch.float64) < 0.125)
        vectors.append((normal * size_of(value)).to(value.device, value.dtype))
    return vectors


def singles(value: Tensor, count: int) -> list[Tensor]:
    """Return directions that move one element each, at random places in the leaf."""
    generator = torch.Generator().manual_seed(30_029)
    vectors = []
    for index in torch.randperm(value.numel(), generator=generator)[:count].tolist():
        one = torch.zeros(value.numel(), dtype=value.dtype, device=value.device)
        one[index] = size_of(value)
        vectors.append(one.reshape(value.shape))
    return vectors


def joint_directions(point: Point, gradients: Mapping[str, Tensor | None], names: list[str]) -> list[dict[str, Tensor]]:
    """Return two random directions through several leaves, each of its leaf's size, scaled so that no leaf dominates the slope."""
    generator = torch.Generator().manual_seed(60_013)
    shares = {k: 0.0 if (g := gradients[k]) is None else float(g.double().norm()) * size_of(point[k]) for k in names}
    middle = sorted(shares.values())[len(shares) // 2]
    factors = {k: size_of(point[k]) * (min(1.0, middle / s) if s > 0 and middle > 0 else 1.0) for k, s in shares.items()}
    return [
        {k: (factors[k] * torch.randn(point[k].shape, generator=generator, dtype=torch.float64)).to(point[k]) for k in names}
        for _ in range(2)
    ]


def measure_slope(
    context: Context, point: Point, name: str, gradient: Tensor | None, direction: Tensor, *, eps: float | None = None
) -> Slope:
    """Measure the derivative of the weighted output along a direction of one leaf, and compare it with autograd's.

    ``eps`` is the rounding unit to expect; by default the context's.
    """
    return joint_slope(context, point, {name: gradient}, {name: direction}, eps=eps)


def joint_slope(
    context: Context,
    point: Point,
    gradients: Mapping[str, Tensor | None],
    along_leaves: Mapping[str, Tensor],
    *,
    eps: float | None = None,
) -> Slope:
    """Measure the derivative of the weighted output along one direction through several leaves; compare it with autograd's."""
    subject, weights = context.subject, context.weights
    eps = context.eps if eps is None else eps
    base = subject.run(point)
    total = sum(float((o.double() * w.double()).nan_to_num(0, 0, 0).abs().sum()) for o, w in zip(base, weights, strict=True))

    def along(t: float) -> float:
        try:
            outs = subject.run({**point, **{k: point[k] + t * v for k, v in along_leaves.items()}})
        except Exception:
            return float("nan")
        if [o.shape for o in outs] != [o.shape for o in base]:
            return float("nan")
        # Sum the differences instead of subtracting the sums: elements that do not change then add no rounding error.
        pairs = zip(outs, base, weights, strict=True)
        return sum(float(((o.double() - b.double()) * w.double()).where(w != 0, 0.0).sum()) for o, b, w in pairs)

    expected, scale = 0.0, 0.0
    for name, direction in along_leaves.items():
        gradient = gradients[name]
        if gradient is not None and gradient.numel():
            expected += float((gradient.double() * direction.double()).sum())
            scale += (float(gradient.double().norm()) * float(direction.double().norm())) ** 2 / gradient.numel()
    scale = scale**0.5
    rounding = eps * total / max(1.0, sum(w.numel() for w in weights)) ** 0.5 * 4
    return slope(along, expected, step=step_for(eps), scale=scale, rounding=rounding, tolerance=tolerance_for(eps))


def takes_part(context: Context, point: Point, name: str, mask: Tensor | None = None, *, beyond: float = 0.0) -> bool:
    """Whether a large change of a leaf's (masked) elements changes any output, by more than the share ``beyond`` of its size."""
    base = context.subject.run(point)
    for other in large_changes(point[name], mask):
        try:
            outs = context.subject.run({**point, name: other})
        except Exception:
            continue
        if moved(base, outs, beyond):
            return True
    return False


def moved(before: list[Tensor], after: list[Tensor], beyond: float = 0.0) -> bool:
    """Whether two runs differ in any bit (NaN equals NaN) or, with ``beyond``, by more than this share of their size."""
    if [o.shape for o in before] != [o.shape for o in after]:
        return True
    if beyond:
        pairs = [(a.double().nan_to_num(), b.double().nan_to_num()) for a, b in zip(before, after, strict=True) if a.numel()]
        return any(float((a - b).abs().max()) > beyond * float(a.abs().max()) for a, b in pairs)
    return any(not torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(before, after, strict=True))


def large_changes(value: Tensor, mask: Tensor | None) -> Iterator[Tensor]:
    """Yield values far from the given one: steps of a fraction of its size, and values that stay within its range."""
    noise = directions(value, 1)[0]
    flat = value.flatten()
    candidates = [
        value + 0.3 * noise,
        value - 0.1 * noise,
        value.min() + value.max() - value if value.numel() > 1 else 1.0 - value,
        flat.roll(1).reshape(value.shape),
        value + 2.0 * noise,
        value - 2.0 * noise,
    ]
    if float(value.min()) >= 0.0 and float(value.max()) <= 1.0:
        candidates += [torch.zeros_like(value), torch.ones_like(value)]
    for other in candidates:
        yield other if mask is None else torch.where(mask, other, value)
