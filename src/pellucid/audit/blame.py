"""The causal tests of ``causes.py`` applied to one leaf of a subject.

Owns: which lines, hooks and casts are candidates, and what counts as an explanation.
Must not: emit findings.
Read next: ``checks/agreement.py``.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch
from torch import Tensor

from pellucid.audit.causes import Frozen, Unhooked, hooks, smallest
from pellucid.audit.context import Context
from pellucid.audit.probing import measure_slope, moved, takes_part
from pellucid.audit.trace import Event

__all__ = ["blamed", "blamed_hook", "takes_part_without"]


def blamed(context: Context, name: str, grad: Tensor | None, along: list[Tensor]) -> list[Event]:
    """Return the smallest set of cuts of one leaf that explains why autograd's gradient differs along these directions."""
    cuts = [e for e in context.trace.cuts(name) if _faithful(context, e)]

    def explains(events: list[Event]) -> bool:
        with context.subject.under(_frozen(context, events)):
            context.subject.run(context.generic)  # the first entry records
            return all(measure_slope(context, context.generic, name, grad, v).verdict in {"agree", "kink"} for v in along)

    return smallest(cuts, explains)


def blamed_hook(context: Context, name: str, along: list[Tensor]) -> str | None:
    """Return the place of the backward hook without which the gradient agrees with finite differences."""
    for place, without in _hooks(context):
        with without:
            grad = context.subject.gradient(context.generic)[1][name]
        if all(measure_slope(context, context.generic, name, grad, v).verdict == "agree" for v in along):
            return place
    return None


def takes_part_without(context: Context, name: str, event: Event) -> bool:
    """Whether a leaf still takes part when one line's result is held at its recorded value."""
    with context.subject.under(_frozen(context, [event])):
        context.subject.run(context.generic)
        return takes_part(context, context.generic, name)


def _frozen(context: Context, events: list[Event]) -> Frozen:
    return Frozen(events, {id(p) for p in context.subject.params.values()})


def _faithful(context: Context, event: Event) -> bool:
    """Whether holding a line's result leaves the output as it is: not so where it is an alias that is written to."""
    frozen = _frozen(context, [event])
    try:
        with context.subject.under(frozen):
            first = context.subject.run(context.generic)
            second = context.subject.run(context.generic)
    except Exception:
        return False
    return not moved(first, context.outs) and not moved(second, context.outs)


def _hooks(context: Context) -> list[tuple[str | None, AbstractContextManager[None]]]:
    """Return every backward hook in reach: where it is written, and a context without it."""
    subject = context.subject
    modules = list(subject.module.modules()) if isinstance(subject.module, torch.nn.Module) else []
    registered = hooks(modules, list(subject.params.values()))
    events = context.trace.of("hook")
    return registered + [(e.node or e.place, subject.under(Unhooked(e.place))) for e in events]
