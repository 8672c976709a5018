"""The chain of clipped colour steps on blocks of pixels, every sample in its own order.

Owns: one step forward and backward, without branches (the order is a number in memory), and the sums for factors and pivot.
Must not: add across programs, synchronise with the device, or be imported where Triton is not.
Read next: ``../../launching.py``.
"""

from functools import partial

import torch
import triton
import triton.language as tl
from torch import Tensor

from pellucid.color.luma import LUMA_TORCHVISION
from pellucid.kernels.launching import NUMBERS, cut, on, options, stride
from pellucid.kernels.stages.printed.blocks import clip, hue, hue_backward
from pellucid.kernels.warp.triton.blocks import load_channels, store_channels, zeros

__all__ = ["backward", "forward", "gradients", "luma_sums", "steps"]

_CONTRAST, _SATURATION, _HUE = tl.constexpr(1), tl.constexpr(2), tl.constexpr(3)


@triton.jit
def _luma(x, S):  # type: ignore[no-untyped-def]
    grey = x[0] * S.WEIGHTS[0]
    for c in tl.static_range(1, S.C):
        grey += x[c] * S.WEIGHTS[c]
    return grey


@triton.jit
def _kind(place):  # type: ignore[no-untyped-def]
    """Read the number of a step, 0 to 3; any other number becomes 4, which takes no part."""
    which = tl.load(place)
    return tl.where((which < 0) | (which > 3), 4, which).to(tl.int32)


@triton.jit
def _level(x, kind, pivot, S):  # type: ignore[no-untyped-def]
    """What a step blends with: the pivot, the pixel's own luma, or black."""
    grey = tl.where(kind == _SATURATION, _luma(x, S), 0.0)
    return tl.where(kind == _CONTRAST, grey * 0.0 + pivot, grey)


@triton.jit
def _step(x, kind, factor, pivot, S):  # type: ignore[no-untyped-def]
    """(the step's result before its clip, whether it takes part)."""
    level = _level(x, kind, pivot, S)
    mixed = ()
    for c in tl.static_range(S.C):
        mixed = mixed + (factor * x[c] + (1.0 - factor) * level,)
    if S.C == 3 and S.PRESENT & 8:
        turned = hue(factor, x)
        chosen = ()
        for c in tl.static_range(S.C):
            chosen = chosen + (tl.where(kind == _HUE, turned[c], mixed[c]),)
        mixed = chosen
    return mixed, ((S.PRESENT >> kind) & 1) == 1


@triton.jit
def _after(x, mixed, takes_part, S):  # type: ignore[no-untyped-def]
    """The next step's input."""
    following = ()
    for c in tl.static_range(S.C):
        following = following + (tl.where(takes_part, clip((mixed[c],))[0], x[c]),)
    return following


@triton.jit(do_not_specialize=NUMBERS)
def luma_sums(image, order, factors, sums, count, chunks, order_step, factor_step, S: tl.constexpr):  # type: ignore[no-untyped-def]
    """Program (sample, chunk of STEPS blocks): the sum of the luma of the contrast's input."""
    program = tl.program_id(0)
    chunk, b = (program % chunks).to(tl.int64), (program // chunks).to(tl.int64)
    total = tl.zeros((S.P,), S.F)
    none = tl.zeros((S.P,), tl.int32)
    for step in range(S.STEPS):
        at = (chunk * S.STEPS + step) * S.P + tl.arange(0, S.P)
        inside = at < count
        x = load_channels(image + b * S.C * count + at, count + b * 0, inside, 0, S.C, 1, S.C, S.F)
        waiting = none == 0
        for turn in tl.static_range(4):
            which = _kind(order + b * order_step + turn)
            factor = tl.load(factors + b * factor_step + tl.minimum(which, 3))
            kind = none + which
            total += tl.where(inside & waiting & (kind == _CONTRAST), _luma(x, S), 0.0)
            waiting = waiting & (kind != _CONTRAST)
            mixed, takes_part = _step(x, kind, factor, 0.0, S)
            x = _after(x, mixed, takes_part, S)
    tl.store(sums + b * chunks + chunk, tl.sum(total, 0))


@triton.jit(do_not_specialize=NUMBERS)
def forward(image, order, factors, pivots, out, count, blocks, order_step, factor_step, S: tl.constexpr):  # type: ignore[no-untyped-def]
    """Program (sample, block): all steps."""
    program = tl.program_id(0)
    block, b = (program % blocks).to(tl.int64), (program // blocks).to(tl.int64)
    at = block * S.P + tl.arange(0, S.P)
    inside = at < count
    none = tl.zeros((S.P,), tl.int32)
    pivot = tl.load(pivots + b)
    x = load_channels(image + b * S.C * count + at, count + b * 0, inside, 0, S.C, 1, S.C, S.F)
    for turn in tl.static_range(4):
        which = _kind(order + b * order_step + turn)
        factor = tl.load(factors + b * factor_step + tl.minimum(which, 3))
        mixed, takes_part = _step(x, none + which, factor, pivot, S)
        x = _after(x, mixed, takes_part, S)
    store_channels(out + b * S.C * count + at, count + b * 0, inside, 0, x, S.C, 1)


@triton.jit
def _step_backward(x, mixed, takes_part, g, kind, factor, pivot, spread, S):  # type: ignore[no-untyped-def]
    """(gradient of the step's input, of its factor, of the pivot), each per pixel."""
    passed, whole = (), g[0] * 0.0
    for c in tl.static_range(S.C):
        held = takes_part & ((mixed[c] < 0.0) | (mixed[c] > 1.0))
        passed = passed + (tl.where(held, 0.0, g[c]),)
        whole += passed[c]
    level = _level(x, kind, pivot, S)
    rest = 1.0 - factor
    # The luma's gradient goes to the pixel's own channels; the pivot's is spread over all pixels.
    share = tl.where(kind == _SATURATION, whole * rest, 0.0)
    share = tl.where(kind == _CONTRAST, share + spread, share)
    along, passed_on = whole * 0.0, ()
    for c in tl.static_range(S.C):
        along += passed[c] * (x[c] - level)
        passed_on = passed_on + (factor * passed[c] + share * S.WEIGHTS[c],)
    if S.C == 3 and S.PRESENT & 8:
        along_hue, turned = hue_backward(factor, x, passed)
        along = tl.where(kind == _HUE, along_hue[0], along)
        chosen = ()
        for c in tl.static_range(S.C):
            chosen = chosen + (tl.where(kind == _HUE, turned[c], passed_on[c]),)
        passed_on = chosen
    kept = ()
    for c in tl.static_range(S.C):
        kept = kept + (tl.where(takes_part, passed_on[c], g[c]),)
    to_pivot = tl.where(takes_part & (kind == _CONTRAST), whole * rest, 0.0)
    return kept, tl.where(takes_part, along, 0.0), to_pivot


@triton.jit(do_not_specialize=NUMBERS)
def backward(  # type: ignore[no-untyped-def]
    grad, image, order, factors, pivots, spreads, to_image, sums, count, chunks, order_step, factor_step, S: tl.constexpr
):
    """Program (sample, chunk of STEPS blocks).

    TO_PIVOT: sums (sample, chunk), the gradient of the pivot. Otherwise ``spreads`` holds that, over the number of pixels; sums
    (sample, chunk, 4) those of the factors.
    """
    program = tl.program_id(0)
    chunk, b = (program % chunks).to(tl.int64), (program // chunks).to(tl.int64)
    none = tl.zeros((S.P,), tl.int32)
    pivot, spread = tl.load(pivots + b), 0.0
    if not S.TO_PIVOT:
        spread = tl.load(spreads + b)
    which, kinds, scales = (), (), ()
    for turn in tl.static_range(4):
        kind = _kind(order + b * order_step + turn)
        which, kinds = which + (kind,), kinds + (none + kind,)
        scales = scales + (tl.load(factors + b * factor_step + tl.minimum(kind, 3)),)
    totals = zeros(4, S.P, S.F)
    level = tl.zeros((S.P,), S.F)
    for step in range(S.STEPS):
        at = (chunk * S.STEPS + step) * S.P + tl.arange(0, S.P)
        inside = at < count
        x = load_channels(image + b * S.C * count + at, count + b * 0, inside, 0, S.C, 1, S.C, S.F)
        before, mixes, takes, along, to_pivots = (), (), (), (), ()
        for turn in tl.static_range(4):
            mixed, takes_part = _step(x, kinds[turn], scales[turn], pivot, S)
            before, mixes, takes = before + (x,), mixes + (mixed,), takes + (takes_part,)
            x = _after(x, mixed, takes_part, S)
        g = load_channels(grad + b * S.C * count + at, count + b * 0, inside, 0, S.C, 1, S.C, S.F)
        for back in tl.static_range(4):
            g, to_factor, to_pivot = _step_backward(
                before[3 - back], mixes[3 - back], takes[3 - back], g, kinds[3 - back], scales[3 - back], pivot, spread, S
            )
            along, to_pivots = (to_factor,) + along, (to_pivot,) + to_pivots
        if S.TO_PIVOT:
            level += tl.where(inside, to_pivots[0] + to_pivots[1] + to_pivots[2] + to_pivots[3], 0.0)  # type: ignore[misc]
        else:
            store_channels(to_image + b * S.C * count + at, count + b * 0, inside, 0, g, S.C, 1)
            added = ()
            for turn in tl.static_range(4):
                added = added + (totals[turn] + tl.where(inside, along[turn], 0.0),)
            totals = added
    if S.TO_PIVOT:
        tl.store(sums + b * chunks + chunk, tl.sum(level, 0))
    else:
        # A step that stands twice in the order gets both gradients, one that is missing none.
        for kind in tl.static_range(4):
            shares = ()
            for turn in tl.static_range(4):
                shares = shares + (tl.where(which[turn] == kind, tl.sum(totals[turn], 0), 0.0),)
            total = shares[0] + shares[1] + (shares[2] + shares[3])  # type: ignore[misc]
            tl.store(sums + (b * chunks + chunk) * 4 + kind, total)


_PIXELS = 128


class _Call:
    """What all kernels of one call share."""

    def __init__(self, image: Tensor, order: Tensor, factors: Tensor, present: int) -> None:
        self.image, self.order, self.factors = image.contiguous(), order.contiguous(), factors.contiguous()
        self.batch, channels, height, width = image.shape
        self.count = height * width
        self.blocks, self.steps, self.chunks = cut(self.count, _PIXELS)
        self.rows = stride(order), stride(factors)
        self.pivotal = bool(present & 2)
        weights = LUMA_TORCHVISION if channels == 3 else (1.0 / channels,) * channels
        self.options = partial(options, image.dtype, _PIXELS, WEIGHTS=weights, PRESENT=present, C=channels)

    def mean(self, sums: Tensor) -> Tensor:
        """Chunks' sums over a sample's pixels, in the dtype of the computation."""
        return (sums.sum(1, dtype=torch.float64) / self.count).to(self.image.dtype)

    def pivots(self) -> Tensor:
        """(b,): the mean luma of the contrast's input."""
        if not self.pivotal:
            return self.image.new_zeros((self.batch,))
        sums = self.image.new_empty((self.batch, self.chunks))
        given = self.image, self.order, self.factors, sums, self.count, self.chunks, *self.rows
        luma_sums[(self.batch * self.chunks,)](*given, **self.options(STEPS=self.steps))
        return self.mean(sums)


def steps(out: Tensor, image: Tensor, order: Tensor, factors: Tensor, present: int) -> None:
    """Write the image after all steps into the contiguous ``out``."""
    call = _Call(image, order, factors, present)
    with on(out):
        given = call.image, call.order, call.factors, call.pivots(), out, call.count, call.blocks, *call.rows
        forward[(call.batch * call.blocks,)](*given, **call.options())


def gradients(grad: Tensor, image: Tensor, order: Tensor, factors: Tensor, present: int, to_image: Tensor) -> Tensor:
    """(b, 4) in float64: the gradients of the factors; writes the image's into the contiguous ``to_image``."""
    call = _Call(image, order, factors, present)
    grad = grad.contiguous()
    with on(image):
        pivots = call.pivots()
        spreads = pivots
        tensors = (grad, call.image, call.order, call.factors, pivots)
        rest = (call.count, call.chunks, *call.rows)
        grid = (call.batch * call.chunks,)
        if call.pivotal:
            sums = image.new_empty((call.batch, call.chunks))
            backward[grid](*tensors, spreads, to_image, sums, *rest, **call.options(TO_PIVOT=True, STEPS=call.steps))
            spreads = call.mean(sums)
        sums = image.new_empty((call.batch, call.chunks, 4))
        backward[grid](*tensors, spreads, to_image, sums, *rest, **call.options(TO_PIVOT=False, STEPS=call.steps))
    return sums.sum(1, dtype=torch.float64)
