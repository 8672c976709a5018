"""The chain of clipped colour steps on blocks of pixels, every sample in its own order.

Owns: one step forward and backward, without branches (the order is a number in memory), and the sums for factors and pivot.
Must not: add across programs.
Read next: ``launch.py``.
"""

import triton
import triton.language as tl

from pellucid.kernels.launching import NUMBERS
from pellucid.kernels.stages.printed.blocks import clip, hue, hue_backward
from pellucid.kernels.warp.triton.blocks import load_channels, store_channels, zeros

__all__ = ["backward", "forward", "luma_sums"]

_CONTRAST, _SATURATION, _HUE = tl.constexpr(1), tl.constexpr(2), tl.constexpr(3)


@triton.jit
def _luma(x, WEIGHTS: tl.constexpr, C: tl.constexpr):  # type: ignore[no-untyped-def]
    grey = x[0] * WEIGHTS[0]
    for c in tl.static_range(1, C):
        grey += x[c] * WEIGHTS[c]
    return grey


@triton.jit
def _kind(place):  # type: ignore[no-untyped-def]
    """The number of a step, 0 to 3; 4, which takes no part, where something else stands."""
    which = tl.load(place)
    return tl.where((which < 0) | (which > 3), 4, which).to(tl.int32)


@triton.jit
def _level(x, kind, pivot, WEIGHTS: tl.constexpr, C: tl.constexpr):  # type: ignore[no-untyped-def]
    """What a step blends with: the pivot, the pixel's own luma, or black."""
    grey = tl.where(kind == _SATURATION, _luma(x, WEIGHTS, C), 0.0)
    return tl.where(kind == _CONTRAST, grey * 0.0 + pivot, grey)


@triton.jit
def _step(x, kind, factor, pivot, WEIGHTS: tl.constexpr, PRESENT: tl.constexpr, C: tl.constexpr):  # type: ignore[no-untyped-def]
    """(the step's result before its clip, whether it takes part)."""
    level = _level(x, kind, pivot, WEIGHTS, C)
    mixed = ()
    for c in tl.static_range(C):
        mixed = mixed + (factor * x[c] + (1.0 - factor) * level,)
    if C == 3 and PRESENT & 8:
        turned = hue(factor, x)
        chosen = ()
        for c in tl.static_range(C):
            chosen = chosen + (tl.where(kind == _HUE, turned[c], mixed[c]),)
        mixed = chosen
    return mixed, ((PRESENT >> kind) & 1) == 1


@triton.jit
def _after(x, mixed, takes_part, C: tl.constexpr):  # type: ignore[no-untyped-def]
    """The next step's input."""
    following = ()
    for c in tl.static_range(C):
        following = following + (tl.where(takes_part, clip((mixed[c],))[0], x[c]),)
    return following


@triton.jit(do_not_specialize=NUMBERS)
def luma_sums(  # type: ignore[no-untyped-def]
    image, order, factors, sums, count, chunks, order_step, factor_step,
    WEIGHTS: tl.constexpr, PRESENT: tl.constexpr, C: tl.constexpr, STEPS: tl.constexpr, P: tl.constexpr, F: tl.constexpr,
):  # fmt: skip
    """Program (sample, chunk of STEPS blocks): the sum of the luma that the contrast is given."""
    program = tl.program_id(0)
    chunk, b = (program % chunks).to(tl.int64), (program // chunks).to(tl.int64)
    total = tl.zeros((P,), F)
    none = tl.zeros((P,), tl.int32)
    for step in range(STEPS):
        at = (chunk * STEPS + step) * P + tl.arange(0, P)
        there = at < count
        x = load_channels(image + b * C * count + at, count + b * 0, there, 0, C, 1, C, F)
        waiting = none == 0
        for turn in tl.static_range(4):
            which = _kind(order + b * order_step + turn)
            factor = tl.load(factors + b * factor_step + tl.minimum(which, 3))
            kind = none + which
            total += tl.where(there & waiting & (kind == _CONTRAST), _luma(x, WEIGHTS, C), 0.0)
            waiting = waiting & (kind != _CONTRAST)
            mixed, takes_part = _step(x, kind, factor, 0.0, WEIGHTS, PRESENT, C)
            x = _after(x, mixed, takes_part, C)
    tl.store(sums + b * chunks + chunk, tl.sum(total, 0))


@triton.jit(do_not_specialize=NUMBERS)
def forward(  # type: ignore[no-untyped-def]
    image, order, factors, pivots, out, count, blocks, order_step, factor_step,
    WEIGHTS: tl.constexpr, PRESENT: tl.constexpr, C: tl.constexpr, P: tl.constexpr, F: tl.constexpr,
):  # fmt: skip
    """Program (sample, block): all steps."""
    program = tl.program_id(0)
    block, b = (program % blocks).to(tl.int64), (program // blocks).to(tl.int64)
    at = block * P + tl.arange(0, P)
    there = at < count
    none = tl.zeros((P,), tl.int32)
    pivot = tl.load(pivots + b)
    x = load_channels(image + b * C * count + at, count + b * 0, there, 0, C, 1, C, F)
    for turn in tl.static_range(4):
        which = _kind(order + b * order_step + turn)
        factor = tl.load(factors + b * factor_step + tl.minimum(which, 3))
        mixed, takes_part = _step(x, none + which, factor, pivot, WEIGHTS, PRESENT, C)
        x = _after(x, mixed, takes_part, C)
    store_channels(out + b * C * count + at, count + b * 0, there, 0, x, C, 1)


@triton.jit
def _step_backward(  # type: ignore[no-untyped-def]
    x, mixed, takes_part, g, kind, factor, pivot, spread, WEIGHTS: tl.constexpr, PRESENT: tl.constexpr, C: tl.constexpr
):
    """(gradient of the step's input, of its factor, of the pivot), each per pixel."""
    passed, whole = (), g[0] * 0.0
    for c in tl.static_range(C):
        held = takes_part & ((mixed[c] < 0.0) | (mixed[c] > 1.0))
        passed = passed + (tl.where(held, 0.0, g[c]),)
        whole += passed[c]
    level = _level(x, kind, pivot, WEIGHTS, C)
    rest = 1.0 - factor
    # The luma's gradient goes to the pixel's own channels; the pivot's is spread over all pixels.
    share = tl.where(kind == _SATURATION, whole * rest, 0.0)
    share = tl.where(kind == _CONTRAST, share + spread, share)
    along, passed_on = whole * 0.0, ()
    for c in tl.static_range(C):
        along += passed[c] * (x[c] - level)
        passed_on = passed_on + (factor * passed[c] + share * WEIGHTS[c],)
    if C == 3 and PRESENT & 8:
        along_hue, turned = hue_backward(factor, x, passed)
        along = tl.where(kind == _HUE, along_hue[0], along)
        chosen = ()
        for c in tl.static_range(C):
            chosen = chosen + (tl.where(kind == _HUE, turned[c], passed_on[c]),)
        passed_on = chosen
    kept = ()
    for c in tl.static_range(C):
        kept = kept + (tl.where(takes_part, passed_on[c], g[c]),)
    to_pivot = tl.where(takes_part & (kind == _CONTRAST), whole * rest, 0.0)
    return kept, tl.where(takes_part, along, 0.0), to_pivot


@triton.jit(do_not_specialize=NUMBERS)
def backward(  # type: ignore[no-untyped-def]
    grad, image, order, factors, pivots, spreads, to_image, sums, count, chunks, order_step, factor_step,
    TO_PIVOT: tl.constexpr, WEIGHTS: tl.constexpr, PRESENT: tl.constexpr, C: tl.constexpr, STEPS: tl.constexpr,
    P: tl.constexpr, F: tl.constexpr,
):  # fmt: skip
    """Program (sample, chunk of STEPS blocks).

    TO_PIVOT: sums (sample, chunk), the gradient of the pivot. Otherwise ``spreads`` holds that, over the number of pixels; sums
    (sample, chunk, 4) those of the factors.
    """
    program = tl.program_id(0)
    chunk, b = (program % chunks).to(tl.int64), (program // chunks).to(tl.int64)
    none = tl.zeros((P,), tl.int32)
    pivot, spread = tl.load(pivots + b), 0.0
    if not TO_PIVOT:
        spread = tl.load(spreads + b)
    which, kinds, scales = (), (), ()
    for turn in tl.static_range(4):
        kind = _kind(order + b * order_step + turn)
        which, kinds = which + (kind,), kinds + (none + kind,)
        scales = scales + (tl.load(factors + b * factor_step + tl.minimum(kind, 3)),)
    totals = zeros(4, P, F)
    level = tl.zeros((P,), F)
    for step in range(STEPS):
        at = (chunk * STEPS + step) * P + tl.arange(0, P)
        there = at < count
        x = load_channels(image + b * C * count + at, count + b * 0, there, 0, C, 1, C, F)
        before, mixes, takes, along, to_pivots = (), (), (), (), ()
        for turn in tl.static_range(4):
            mixed, takes_part = _step(x, kinds[turn], scales[turn], pivot, WEIGHTS, PRESENT, C)
            before, mixes, takes = before + (x,), mixes + (mixed,), takes + (takes_part,)
            x = _after(x, mixed, takes_part, C)
        g = load_channels(grad + b * C * count + at, count + b * 0, there, 0, C, 1, C, F)
        for back in tl.static_range(4):
            g, to_factor, to_pivot = _step_backward(
                before[3 - back], mixes[3 - back], takes[3 - back], g, kinds[3 - back], scales[3 - back], pivot, spread,
                WEIGHTS, PRESENT, C,
            )  # fmt: skip
            along, to_pivots = (to_factor,) + along, (to_pivot,) + to_pivots
        if TO_PIVOT:
            level += tl.where(there, to_pivots[0] + to_pivots[1] + to_pivots[2] + to_pivots[3], 0.0)  # type: ignore[misc]
        else:
            store_channels(to_image + b * C * count + at, count + b * 0, there, 0, g, C, 1)
            added = ()
            for turn in tl.static_range(4):
                added = added + (totals[turn] + tl.where(there, along[turn], 0.0),)
            totals = added
    if TO_PIVOT:
        tl.store(sums + b * chunks + chunk, tl.sum(level, 0))
    else:
        # A step that stands twice in the order gets both gradients, one that is missing none.
        for kind in tl.static_range(4):
            shares = ()
            for turn in tl.static_range(4):
                shares = shares + (tl.where(which[turn] == kind, tl.sum(totals[turn], 0), 0.0),)
            total = shares[0] + shares[1] + (shares[2] + shares[3])  # type: ignore[misc]
            tl.store(sums + (b * chunks + chunk) * 4 + kind, total)
