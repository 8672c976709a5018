"""The causal tests of ``causes.py`` applied to one leaf of a subject.

Owns: the choice of lines, hooks and casts to test, and the test for an explanation.
Must not: emit findings.
Read next: ``checks/agreement.py``.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch
from torch import Tensor

from pellucid.audit.causes import Frozen, Unhooked, hooks, ranked, smallest
from pellucid.audit.context import Context
from pellucid.audit.differences import tolerance_for
from pellucid.audit.probing import measure_slope, moved, takes_part
from pellucid.audit.trace import Event

__all__ = ["blamed", "blamed_hook", "carriers", "changing_hooks", "takes_part_without"]

_MOST = 16


def blamed(context: Context, name: str, grad: Tensor | None, along: list[Tensor]) -> list[Event]:
    """Return the smallest set of cuts of one leaf that explains why autograd's gradient differs along these directions."""
    cuts = [e for e in context.trace.cuts(name) if _faithful(context, [e])]

    def explains(events: list[Event]) -> bool:
        with context.subject.under(_frozen(context, events)):
            context.subject.run(context.generic)  # the first entry records
            return all(measure_slope(context, context.generic, name, grad, v).verdict in {"agree", "kink"} for v in along)

    return smallest(cuts, explains)


def carriers(context: Context, name: str, known: list[Event], along: Tensor) -> list[Event]:
    """Return further cuts that each remove a part of the derivative, even if the known ones were repaired.

    Autograd shows nothing of a line behind another cut. But if the leaf moves the output through that line, then holding the line's
    result at its recorded value changes the finite difference.
    """
    reported = {e.place for e in known} | {e.block for e in known if e.block}
    groups: dict[str, list[Event]] = {}
    for event in [*ranked(context.trace.cuts(name)), *context.trace.cuts(name, late=True)]:
        group = event.block or event.place
        if group and event.place not in reported and group not in reported:
            groups.setdefault(group, []).append(event)
    plain = measure_slope(context, context.generic, name, None, along) if groups else None
    found = []
    for events in list(groups.values())[:_MOST]:
        if plain is None or not _faithful(context, events):
            continue
        with context.subject.under(_frozen(context, events)):
            context.subject.run(context.generic)
            held = measure_slope(context, context.generic, name, None, along)
        size = max(abs(plain.central), abs(held.central))
        if abs(plain.central - held.central) > tolerance_for(context.eps) * size + plain.noise + held.noise:
            found.append(events[0])
    return found


def changing_hooks(context: Context, name: str, grad: Tensor | None) -> list[str]:
    """Return the places of the backward hooks that change one leaf's gradient."""
    found = []
    for place, without in _hooks(context):
        with without:
            other = context.subject.gradient(context.generic)[1][name]
        if place and grad is not None and other is not None and not torch.allclose(grad, other, 1e-6, 0.0, equal_nan=True):
            found.append(place)
    return found


def blamed_hook(context: Context, name: str, along: list[Tensor]) -> str | None:
    """Return the place of a backward hook if the gradient without it agrees with finite differences."""
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


def _faithful(context: Context, events: list[Event]) -> bool:
    """Whether the output stays the same when these lines' results are held; an alias that is written to changes it."""
    frozen = _frozen(context, events)
    try:
        with context.subject.under(frozen):
            first = context.subject.run(context.generic)
            second = context.subject.run(context.generic)
    except Exception:
        return False
    return not moved(first, context.outs) and not moved(second, context.outs)


def _hooks(context: Context) -> list[tuple[str | None, AbstractContextManager[None]]]:
    """Return every backward hook in reach: where it is written, and a context manager that disables it."""
    subject = context.subject
    modules = list(subject.module.modules()) if isinstance(subject.module, torch.nn.Module) else []
    registered = hooks(modules, list(subject.params.values()))
    events = context.trace.of("hook")
    return registered + [(e.node or e.place, subject.under(Unhooked(e.place))) for e in events]
