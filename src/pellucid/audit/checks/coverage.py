"""Which elements receive a gradient, and whether the others affect the output, so that they should.

Owns: the fraction covered, the class of every element, and the test by perturbation.
Must not: judge the size of a gradient.
Read next: ``stale`` in ``agreement.py``, then ``degenerate.py``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pellucid.audit.blame import blamed, blamed_hook
from pellucid.audit.context import Context
from pellucid.audit.finding import Category, Evidence, Finding, Measure, Severity, Sink
from pellucid.audit.probing import directions, measure_slope, takes_part
from pellucid.audit.reachable import reachable

__all__ = ["cover"]

_SINGLES = 32
_AWAY, _PLATEAU, _LIVE, _DEFECT = 0, 1, 2, 3


def cover(context: Context, sink: Sink, name: str, value: Tensor, grad: Tensor | None, measure: Measure) -> None:
    """Measure coverage and the class of every element; report zero gradients on elements that change the output smoothly."""
    magnitude = torch.zeros_like(value) if grad is None else grad.abs()
    zero = magnitude == 0
    dead = int(zero.sum())
    measure.coverage = 1.0 - dead / value.numel()
    measure.seen = value.numel() - dead
    measure.reachable, measure.antialiased = reachable(context, name, ~zero)
    measure.magnitude = magnitude.double().cpu().numpy()
    state = torch.where(zero, _AWAY, _LIVE)
    if dead:
        state = _classify(context, sink, name, value, grad, zero, measure)
    measure.state = state.to(torch.uint8).cpu().numpy()


def _classify(
    context: Context, sink: Sink, name: str, value: Tensor, grad: Tensor | None, zero: Tensor, measure: Measure
) -> Tensor:
    """Classify elements by perturbing those without gradient: all at once, then a sample of them one by one."""
    dense = directions(value, 1)[0]
    group = measure_slope(context, context.generic, name, grad, dense * zero)
    smooth = group.moves and group.verdict == "wrong"
    part = smooth or takes_part(context, context.generic, name, zero)
    kind = _DEFECT if smooth else _PLATEAU if part else _AWAY
    state = torch.where(zero, kind, _LIVE)
    counts = dict.fromkeys((_AWAY, _PLATEAU, _DEFECT), 0)
    picks = torch.nonzero(zero.flatten()).flatten()
    chosen = picks[torch.linspace(0, len(picks) - 1, min(_SINGLES, len(picks))).long()] if part else picks[:0]
    flat = state.flatten()
    for index in chosen.tolist():
        one = torch.zeros_like(zero).flatten()
        one[index] = True
        mask = one.reshape(zero.shape)
        alone = measure_slope(context, context.generic, name, grad, dense * mask) if smooth else None
        if alone is not None and alone.moves and alone.verdict == "wrong":
            flat[index] = _DEFECT
        else:
            flat[index] = _PLATEAU if takes_part(context, context.generic, name, mask) else _AWAY
        counts[int(flat[index])] += 1
    numbers: dict[str, Evidence] = {
        "without_gradient": 1.0 - measure.coverage,
        "sampled": len(chosen),
        "take_part_smoothly": counts[_DEFECT],
        "on_a_plateau": counts[_PLATEAU],
        "take_no_part": counts[_AWAY] if part else int(zero.sum()),
    }
    guess = [dense * zero] if smooth else []
    _report(context, sink, name, numbers, kind, measure, group.central, guess)
    return flat.reshape(zero.shape)


def _report(
    context: Context,
    sink: Sink,
    name: str,
    numbers: dict[str, Evidence],
    kind: int,
    measure: Measure,
    slope: float,
    along: list[Tensor],
) -> None:
    share = f"{100 * (1 - measure.coverage):.0f} %"
    reported = any(f.subject == name and f.severity == Severity.ERROR for f in sink.findings)
    known = any(f.subject == name and f.category == Category.COVERAGE for f in sink.findings)
    if kind == _DEFECT:
        if reported:
            return
        measure.gradient = "wrong"
        text = f"{share} of {name} receives no gradient although moving it changes the output smoothly."
        cuts = blamed(context, name, context.run[1][name], along)
        place = cuts[0].place if cuts else blamed_hook(context, name, along) or context.custom_place
        advice = "Let the gradient of these elements through: look for a mask, a detach or an overwritten slice."
        evidence = {**numbers, "finite_difference": slope}
        sink.emit(Finding(Category.COVERAGE, Severity.ERROR, name, text, evidence, place, advice))
    elif measure.coverage < 1.0 and measure.gradient != "none" and not known:
        how = "takes no part in the output" if kind == _AWAY else "sits on a plateau (saturated, clipped or not selected)"
        text = f"{share} of {name} receives no gradient: it {how}, so this is inherent."
        sink.emit(Finding(Category.COVERAGE, Severity.NOTE, name, text, numbers))
