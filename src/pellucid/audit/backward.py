"""A backward pass watched node by node: where a gradient first turns NaN, infinite or zero.

Owns: hooks on every node of a graph, and the search for the first node that spoils a gradient.
Must not: decide whether an observation is a defect.
Read next: ``checks/degenerate.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from pellucid.audit.place import node_name, node_place, walk
from pellucid.audit.subject import Point, Refused, Subject

__all__ = ["Step", "first_dead", "first_non_finite", "watched"]


@dataclass(frozen=True)
class Step:
    """The effect of one node of the graph on the gradient that passed through it."""

    node: str
    place: str | None
    came_finite: bool
    left_finite: bool
    came_live: bool
    left_live: bool
    growth: float  # norm of what left over norm of what came


def watched(
    subject: Subject, point: Point, announce: Callable[[str], None] | None = None
) -> tuple[list[Step], dict[str, Tensor | None]]:
    """Run forward and backward at a point; return every node in the order it ran, and the gradients.

    ``announce`` is called with each node before it runs, so that a crash can be blamed on that node.
    """
    try:
        return _watched(subject, point, announce)
    except Refused:
        return _watched(subject, point, announce)


def _watched(subject: Subject, point: Point, announce: Callable[[str], None] | None) -> tuple[list[Step], dict[str, Tensor | None]]:
    steps: list[Step] = []
    with subject.placed(point):
        with torch.autograd.set_detect_anomaly(True, check_nan=False):
            outs, roots = subject.graph(point)
        live = [o for o in outs if o.requires_grad]
        wanted = {k: r for k, r in roots.items() if r.requires_grad}
        if not live:
            return steps, dict.fromkeys(roots)
        handles = []
        for node in walk(o.grad_fn for o in live):
            if hasattr(node, "variable"):
                continue
            where = node_place(node)
            if announce is not None:
                handles.append(node.register_prehook(partial(_before, announce, node_name(node), where)))
            handles.append(node.register_hook(partial(_after, steps, node_name(node), where)))
        weights = [w for o, w in zip(outs, subject.weights(outs), strict=True) if o.requires_grad]
        try:
            slopes = subject.reverse(live, wanted, weights)
        finally:
            for handle in handles:
                handle.remove()
    return steps, {**dict.fromkeys(roots), **slopes}


def first_non_finite(steps: list[Step]) -> Step | None:
    """Return the first node that was handed a finite gradient and passed on one that is not."""
    return next((s for s in steps if s.came_finite and not s.left_finite), None)


def first_dead(steps: list[Step]) -> Step | None:
    """Return the first node that was handed a non-zero gradient and passed on zeros or nothing."""
    return next((s for s in steps if s.came_live and not s.left_live), None)


def _before(announce: Callable[[str], None], name: str, where: str | None, _grads: Any) -> None:
    announce(f"{name}|{where or ''}")


def _after(steps: list[Step], name: str, where: str | None, left: Any, came: Any) -> None:
    steps.append(Step(name, where, _finite(came), _finite(left), _live(came), _live(left), _norm(left) / max(_norm(came), 1e-300)))


def _finite(grads: Any) -> bool:
    return all(bool(torch.isfinite(g).all()) for g in grads if isinstance(g, Tensor) and (g.is_floating_point() or g.is_complex()))


def _norm(grads: Any) -> float:
    return max((float(g.double().norm()) for g in grads if isinstance(g, Tensor) and g.is_floating_point()), default=0.0)


def _live(grads: Any) -> bool:
    return any(bool((g != 0).any()) for g in grads if isinstance(g, Tensor))
