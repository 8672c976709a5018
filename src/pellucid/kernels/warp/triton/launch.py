"""Launching the kernels: block shapes, strides and compile-time options from tensors, without a look at their values.

Owns: how work is cut into programs (fixed by shapes alone, so sums keep their order), and the scratch memory of a backward.
Must not: synchronise with the device, or be imported where Triton is not.
Read next: ``forward.py``, ``gradients.py``, ``gather.py``, ``links.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from pellucid.kernels.launching import LANES, fixed, on, stride
from pellucid.kernels.stages.chain import CLIP, FIRST_MIX, GROUND, HUE, LAST_MIX, LEVELS, MATRIX, SECOND_MIX, SHARP, place
from pellucid.kernels.warp.footprint import PHASES
from pellucid.kernels.warp.layout import BENDS, CANVASES, LINK
from pellucid.kernels.warp.triton.axes import NUMBERS_EACH, spread
from pellucid.kernels.warp.triton.folded import add_folded, add_weighted
from pellucid.kernels.warp.triton.footprint import BOUNDS, bounds
from pellucid.kernels.warp.triton.forward import copy_labels, forward
from pellucid.kernels.warp.triton.gather import collect, gather
from pellucid.kernels.warp.triton.gradients import gradients
from pellucid.kernels.warp.triton.links import ROWS, add_knots, retrace
from pellucid.kernels.warp.triton.spans import add_tabled

__all__ = ["backward_warp", "copy", "forward_warp"]

_THREADS, _ALONE, _EACH, _STEPS = 4 * LANES, LANES, 2, 16
"""Threads of a program; of one that collects or sums, whose threads then agree without shared memory; pixels of a thread where
nothing is summed, which share what their column and their sample have in common; the most tiles that a program of sums adds up.

A thread's pixels are rows apart: neighbours would want other layouts for loads and stores than for the rest, and values would cross
shared memory.
"""
_WARP_ROWS = 2
"""The rows that the 32 pixels of a warp come from. One row is read in the fewest pieces of memory where nothing is turned, and in
up to eight times as many where it is; two rows of 16 cost as much there and half as much here (``benchmarks/gpu_sectors.py``).
"""
_PIXELS = 8
"""Pixels of a thread that sums for knots: a program visits all knots that its pixels read, and few tiles share one then."""
_BENDS = tuple(CANVASES[kind] for kind in BENDS)
_FARTHEST = 256
"""The most pixels to a side that one of an antialiased homography or field spans; its shape says how many it does."""
_REGISTERS = 0 if torch.version.hip else 116
"""For sums of everything: the compiler would keep all numbers of a sample and take 131 to 163 registers, which leaves a scheduler
three warps where it needs more than four (``benchmarks/gpu_counts.py``).
"""
_OPTIONS = {"enable_fp_fusion": False}  # coordinates must round as the reference's do
_FLOATS = {torch.float32: tl.float32, torch.float64: tl.float64}
_SIZES = {torch.float32: 1.0e-6, torch.float64: 2.0e-15}  # room for rounding: some 8 epsilons


def _blocks(size: Sequence[int], threads: int = 0, each: int = 0) -> tuple[dict[str, int], int, int]:
    """(the shape of a block, blocks across, blocks down) for a plane of (height, width) and so many threads and pixels of each."""
    height, width = size
    threads, each = threads or _THREADS, each or _EACH
    rows = min(triton.next_power_of_2(height), _WARP_ROWS if threads == _ALONE else 2 * _WARP_ROWS)
    columns = min(triton.next_power_of_2(width), threads // rows)
    rows = min(triton.next_power_of_2(height), threads // columns)
    columns = threads // rows
    narrow = min(32 // min(_WARP_ROWS, rows), columns)
    return {"BW": columns, "WW": narrow, "P": threads * each}, triton.cdiv(width, columns), triton.cdiv(height, rows * each)


def _chunks(size: Sequence[int]) -> tuple[int, int]:
    """(tiles that a program of sums adds up, how many such programs) for a plane of (height, width)."""
    _, across, down = _blocks(size, _ALONE, 1)
    steps = min(_STEPS, triton.next_power_of_2(down))
    return steps, across * triton.cdiv(down, steps)


def _near(image: Tensor) -> int:
    """What is adjacent in memory: 1, the pixels of a row; 2, channels and then pixels; 0, neither. Each has a kernel's variant."""
    _, channels, _, width = image.shape
    _, across, _, along = image.stride()
    if along == 1 or width == 1:
        return 1
    return 2 if across == 1 and along == channels else 0


def _index(*tensors: Tensor | None, most: int = 0) -> Any:
    """The dtype for offsets within a sample of these tensors, of contiguous ones of their shapes, and of ``most`` elements."""
    for tensor in tensors:
        if tensor is not None:
            # Taps may lie three pixels outside.
            reach = sum((n + 3) * abs(s) for n, s in zip(tensor.shape[1:], tensor.stride()[1:], strict=True))
            most = max(most, reach, tensor.shape[1:].numel())
    return tl.int64 if most >= 2**31 else tl.int32


class _Call:
    """What all kernels of one call share."""

    def __init__(
        self,
        shown: Tensor,  # the result, or its gradient
        image: Tensor,
        mapping: Tensor,
        window: Tensor | None,
        params: Tensor,
        field: Tensor | None,
        links: Tensor | None,
        table: Tensor | None,  # of an antialiased warp: of `weight_table` or `stretches`; beside links their knots
        size: Sequence[int],
        options: list[int],
        cubic: float,
        spans: bool = False,  # a crop or resize
    ) -> None:
        taps, mode, flags, out_channels, *self.canvases = options
        self.batch, channels, *plane = image.shape
        self.image, self.mapping, self.params, self.plane, self.size = image, mapping.contiguous(), params.contiguous(), plane, size
        window = None if window is None else window.contiguous()
        if links is not None:
            field, table = None if table is None else table.contiguous(), links.contiguous()
        grounds, soft = bool(flags & GROUND), CANVASES["zeros"] in self.canvases
        span = 1 if spans else 0 if links is not None or table is None else 3 if table.ndim == 3 else 2
        planes = 2 if not soft else 3 + len(self.canvases) * grounds
        # Where nothing mixes channels, a program takes four at most.
        mixing = flags & (MATRIX | HUE | SECOND_MIX | LAST_MIX)
        read, written = (channels, out_channels) if mixing else (min(channels, 4),) * 2
        self.groups = triton.cdiv(channels, read)
        # Scratch memory has as many planes as picture or result, whichever has more; shapes have seven, a chain its own.
        scratch = max(channels, out_channels, 7 if span == 3 else planes) * max(plane[0] * plane[1], size[0] * size[1])
        moved = field is not None or links is not None  # nothing bounds who reads a pixel
        self.fixed: dict[str, Any] = {
            "C": channels,
            "OC": out_channels,
            "GROUPS": self.groups,
            "K": read,
            "N": written,
            "F": _FLOATS[mapping.dtype],
            "INDEX": _index(shown, image, field, most=scratch),
            "STEPS": 1,
            "TAPS": taps,
            "MODE": mode,
            "EDGE": mode if window is None else 1,
            "CUBIC": cubic,
            "WINDOW": window is not None,
            "FIELD": moved,
            "PROJECTIVE": mapping.shape[1] == 9,
            "RAW": mode == 0 and window is None and not (moved or mapping.shape[1] == 9 or span),
            "LINKS": len(self.canvases),
            "KINDS": tuple(self.canvases),
            "SOFT": soft,
            "GROUNDS": place(GROUND, flags, channels, out_channels) if grounds else -1,
            "PLANES": planes,
            "SPAN": span,
            "SHARP": bool(flags & SHARP),
            "FLAGS": flags,
            "SLOTS": tuple(place(stage, flags, channels, out_channels) for stage in (FIRST_MIX, HUE, SECOND_MIX, LAST_MIX)),
            "UNIT": 1 / 255 if image.dtype == torch.uint8 and not flags & LEVELS else 1.0,
            "NEAR": _near(image),
            "EPS": _SIZES[mapping.dtype],
        }
        self.tabled = (0, 0)
        if span == 1:
            assert window is not None
            table = _spread(self, window)
        elif span and table is not None:
            table, self.tabled = _weights(table)
        elif links is not None and field is not None:
            self.tabled = (field.shape[2], field.shape[3])
        # An absent tensor may be any pointer.
        pointers = (mapping if tensor is None else tensor for tensor in (window, self.params, field, table))
        # Elements from one sample, axis, row and column of the field to the next; a sample's is 0 where all share one.
        steps = (0, 0, 0, 0) if field is None else (0 if field.shape[0] == 1 else field.stride(0), *field.stride()[1:])
        rows = (stride(tensor) for tensor in (mapping, window, params, table))
        self.shared = (self.mapping, *pointers, *steps, *plane, *size, *rows, *self.tabled)

    def run(
        self, kernel: Any, *own: Any, names: str = "", size: Sequence[int] = (), threads: int = 0, each: int = 0, groups: int = 0,
        registers: int = 0, **changed: Any,
    ) -> None:  # fmt: skip
        """Launch a kernel with its ``own`` arguments, for tiles of a plane (the result's, unless ``size``) and groups of channels.

        ``names``: the constants that it depends on, all if none are named; it is compiled for each. ``changed``: others of them.
        """
        block, across, down = _blocks(size or self.size, threads, each)
        kept = {name: self.fixed[name] for name in names.split()} if names else self.fixed
        constants = fixed(**kept | block | changed)
        groups = groups or self.groups
        options = _OPTIONS | ({"maxnreg": registers} if registers else {})
        most = max(65535 // groups, 1)  # samples of a launch: a grid's third side has 65,535 places
        for sample in range(0, self.batch, most):
            grid = (across, triton.cdiv(down, changed.get("STEPS", 1)), groups * min(most, self.batch - sample))
            kernel[grid](*own, *self.shared, sample, S=constants, num_warps=(threads or _THREADS) // LANES, **options)


def forward_warp(out: Tensor, call_arguments: tuple[Any, ...]) -> None:
    """Write the warped image into the contiguous ``out``, of any floating dtype or uint8 (1 is 255, unless there are levels)."""
    with on(out):
        call = _Call(out, *call_arguments)
        call.run(forward, call.image, *call.image.stride(), out)


def copy(out: Tensor, image: Tensor, mapping: Tensor, window: Tensor | None, fill: Tensor, field: Tensor | None, mode: int) -> None:
    """Write the nearest pixels of an integer image into the contiguous ``out``."""
    channels = out.shape[1]
    with on(out):
        call = _Call(out, image, mapping, window, fill, field, None, None, out.shape[2:], [1, mode, 0, channels], 0.0)
        names = "C MODE EDGE WINDOW FIELD PROJECTIVE LINKS F INDEX"
        call.run(copy_labels, image, *image.stride(), out, names=names, groups=channels, GROUPS=channels, K=1, RAW=False, STEPS=1)


def backward_warp(grad: Tensor, call_arguments: tuple[Any, ...], needs: list[bool]) -> tuple[Tensor, ...]:
    """The gradients of image (its dtype), map, window, params (float64, one row per sample), field, links (float64), and table: of
    shapes with field and map, of knots with links and map; empty where not needed.

    ``needs``: which of image, all tensors that say where to read, params, field and knots.
    """
    to_map, to_window, to_params, to_links = (grad.new_empty((0,), dtype=torch.float64) for _ in range(4))
    source = grad
    with on(grad):
        call = _Call(grad, *call_arguments)
        chained = needs[1] and call.fixed["LINKS"] > 0
        summed = needs[1] and (call.fixed["WINDOW"] or not chained)
        needs = [needs[0], summed, needs[2], chained or (needs[3] and call.fixed["FIELD"]), *needs[4:]]
        linear = not call.fixed["FLAGS"] & (HUE | CLIP)
        to_field, to_table = (call.mapping.new_empty((0,)) for _ in range(2))
        if any(needs[1:]) or (needs[0] and not linear):
            sums, colors, collected, to_field, to_table = _sums(grad, call, needs, linear)
            if needs[1]:
                to_map = sums[..., : call.mapping.shape[1]].sum((1, 2), dtype=torch.float64)
                if call.fixed["WINDOW"]:
                    to_window = sums[..., 9:].sum((1, 2), dtype=torch.float64)
            if needs[2]:
                to_params = colors.sum(1, dtype=torch.float64)
            if needs[3]:
                to_field = to_field[:, 0] if call.groups == 1 else to_field.sum(1)
            if chained:
                to_map, to_links, to_table = _along_chain(to_field, call, knots=needs[4])
                to_field = to_field.new_empty((0,))
            elif call.fixed["SPAN"] == 2 and needs[1]:
                to_table = _tabled(collected, to_table, sums[..., 9], call)
            elif to_table.numel():
                to_table = to_table[:, 0] if call.groups == 1 else to_table.sum(1)
            source = grad if linear else collected
        to_image = _image_gradient(source, call, linear) if needs[0] else grad.new_empty((0,), dtype=call.image.dtype)
    return to_image, to_map, to_window, to_params, to_field, to_links, to_table


def _sums(grad: Tensor, call: _Call, needs: list[bool], linear: bool) -> tuple[Tensor, ...]:
    """(partial sums for map and window, for the parameters; per output pixel the source's gradient, the field's, the shapes')."""
    span, planes, count = call.fixed["SPAN"], call.fixed["PLANES"], call.params.shape[1]
    summed = needs[1] or needs[2]
    steps, chunks = _chunks(call.size) if summed else (1, 1)
    like = call.mapping  # the dtype in which everything is computed, whatever the gradient comes in
    sums = like.new_zeros((call.batch, chunks, call.groups, 13) if needs[1] else (0,))
    colors = like.new_zeros((call.batch, chunks, count) if needs[2] else (0,))
    tabled = span == 2 and needs[1]
    write = (needs[0] and not linear) or tabled
    source = like.new_empty((call.batch, call.image.shape[1], *call.size) if write else (0,))
    to_field = like.new_empty((call.batch, call.groups, planes, *call.size) if needs[3] else (0,))
    each = 1 if tabled else 7 if span == 3 and (needs[1] or needs[3]) else 0
    to_table = like.new_empty((call.batch, call.groups, each, call.size[0] * call.size[1]) if each else (0,))
    everything = needs[1] and needs[2] and not span and call.fixed["FLAGS"] & LAST_MIX
    call.run(
        gradients, grad, *grad.stride(), call.image, *call.image.stride(), sums, colors, source, to_field, to_table, count,
        threads=_ALONE if summed else 0, each=int(summed), registers=_REGISTERS if everything else 0,
        TO_MAP=needs[1], TO_PARAMS=needs[2], TO_SOURCE=write, TO_FIELD=needs[3], STEPS=steps,
    )  # fmt: skip
    return sums, colors, source, to_field, to_table


def _image_gradient(source: Tensor, call: _Call, linear: bool) -> Tensor:
    """Collect the gradient of the output (or, where colour is not linear, of the source) at every pixel of the image."""
    # Mixes are undone after collecting; where the source's own gradient is collected, there is none left.
    flags = call.fixed["FLAGS"] & (MATRIX | FIRST_MIX | SECOND_MIX | LAST_MIX) if linear else 0
    count = call.fixed["N"] if linear else call.fixed["K"]
    changed = {"FLAGS": flags, "OC": source.shape[1], "N": count, "NEAR": int(_near(source) == 1)}
    to_image = source.new_empty((call.batch, call.image.shape[1], *call.plane), dtype=call.image.dtype)
    if call.fixed["SPAN"] == 1:
        names = "C GROUPS K F INDEX STEPS TAPS MODE SHARP PROJECTIVE SLOTS EPS"
        call.run(collect, source, *source.stride(), to_image, names=names, size=call.plane, threads=_ALONE, **changed | {"NEAR": 0})
        return to_image
    reach = {1: 0.5, 2: 1.0, 4: 2.0}[call.fixed["TAPS"]]  # of a tap on one axis, in pixels of the image
    folded, unfold, inverse = source, source, call.mapping
    # With a field, or antialiased, everything is in fixed point.
    everything = call.fixed["FIELD"] or call.fixed["SPAN"] > 0
    if call.fixed["MODE"] != 0 or everything:
        folded, unfold = _fold(source, call, count, linear=linear)
    side = 1 if everything or count > 4 or call.fixed["TAPS"] == 1 else 2
    if not everything:
        inverse = _bounds(call, reach + 0.5 * (side - 1))
    plane = triton.cdiv(call.plane[0], side), triton.cdiv(call.plane[1], side)
    call.run(
        gather, source, *source.stride(), inverse, folded, unfold, to_image, size=plane, threads=_ALONE, each=_EACH // side,
        names="C GROUPS K F INDEX STEPS TAPS MODE CUBIC WINDOW PROJECTIVE SLOTS EPS", FIELD=everything, REACH=reach, SIDE=side,
        **changed,
    )  # fmt: skip
    return to_image


def _spread(call: _Call, window: Tensor) -> Tensor:
    """Where the columns and rows of a crop or resize lie, and what their weights sum to."""
    table = call.mapping.new_empty((call.batch, NUMBERS_EACH.value, sum(call.size)))
    constants = fixed(P=128, **{name: call.fixed[name] for name in ("TAPS", "MODE", "SHARP", "F")})
    spread[(call.batch, 2, triton.cdiv(max(call.size), 128))](
        call.mapping, window, table, *call.plane, *call.size, stride(call.mapping), stride(window), S=constants,
        num_warps=128 // LANES, **_OPTIONS,
    )  # fmt: skip
    return table


def _weights(weights: Tensor) -> tuple[Tensor, tuple[int, int]]:
    """(a row for each sample, (rows, columns of a table)); a table's row begins with how many pixels around a point it weighs."""
    if weights.ndim == 3:
        return weights.contiguous(), (2 * _FARTHEST, 0)
    rows, columns = weights.shape[2], weights.shape[4]
    place = torch.arange(rows, device=weights.device)
    far = torch.maximum(place - (rows // 2 - 1), rows // 2 - place)
    some = (weights != 0).any(1).any(2)  # b rows columns
    some = torch.stack((some.any(2), some.any(1)[:, :rows]), 1)  # b 2 rows
    most = (some * far).amax((1, 2))[:, None].to(weights.dtype)
    return torch.cat((most, weights.flatten(1)), 1), (rows, columns)


def _bounds(call: _Call, reach: float) -> Tensor:
    """The numbers of every sample's inverse map that the gather reads."""
    inverse = call.mapping.new_empty((call.batch, BOUNDS))
    constants = fixed(P=32, REACH=reach, **{name: call.fixed[name] for name in ("PROJECTIVE", "EPS", "F")})
    bounds[(triton.cdiv(call.batch, 32),)](
        call.mapping, inverse, *call.plane, *call.size, call.batch, stride(call.mapping), S=constants, num_warps=1, **_OPTIONS
    )
    return inverse


def _along_chain(slopes: Tensor, call: _Call, *, knots: bool) -> tuple[Tensor, Tensor, Tensor]:
    """(to the map, the links, the knots of the one that has any) from `gradients`'s planes, of which two are written over."""
    steps, chunks = _chunks(call.size)
    links, rows = len(call.canvases), ROWS.value
    sums = slopes.new_empty((call.batch, chunks, rows + links * LINK))
    alone: dict[str, Any] = {"names": "LINKS KINDS PLANES PROJECTIVE F INDEX", "threads": _ALONE, "groups": 1, "GROUPS": 1, "K": 1}
    call.run(retrace, slopes, sums, each=1, STEPS=steps, **alone)
    to_map = sums[..., : call.mapping.shape[1]].sum(1, dtype=torch.float64)
    to_links = sums[..., rows:].sum(1, dtype=torch.float64).unflatten(1, (links, LINK))
    at = next((k for k, code in enumerate(call.canvases) if code in _BENDS), None)
    if at is None:
        return to_map, to_links, slopes.new_empty((0,))
    shape = call.batch, 2, *call.tabled
    if not knots:
        return to_map, to_links, slopes.new_zeros(shape)
    folded = slopes.new_zeros(shape, dtype=torch.int64)
    units, halves = _units(torch.linalg.vector_norm(slopes[:, :2], torch.inf, dim=(1, 2, 3)), call, 1)
    call.run(add_knots, slopes, units, folded, each=_PIXELS, AT=at, STEPS=1, **alone)
    first, rest = torch.exp2(-halves)[:, :, None, None, None].unbind(1)
    return to_map, to_links, torch.where(folded == 0, 0.0, folded * first * rest).to(slopes.dtype)


_MOVES = "GROUPS F INDEX STEPS TAPS MODE EDGE CUBIC WINDOW FIELD PROJECTIVE RAW LINKS KINDS SPAN"
"""Constants of kernels that add pixels' shares to the places that they read."""


def _fold(source: Tensor, call: _Call, count: int, *, linear: bool) -> tuple[Tensor, Tensor]:
    """The part that the gather leaves out: (sums in fixed point, two powers of two per sample whose product is their unit)."""
    folded = source.new_zeros((call.batch, source.shape[1], *call.plane), dtype=torch.int64)
    units, halves = _units(torch.linalg.vector_norm(source, torch.inf, dim=(1, 2, 3)), call, 1)
    call.run(
        add_weighted if call.fixed["SPAN"] else add_folded, source, *source.stride(), units, folded, names=_MOVES, each=1,
        OC=source.shape[1], K=count, N=count, SOFT=linear and call.fixed["SOFT"],
    )  # fmt: skip
    return folded, torch.exp2(-halves).to(call.mapping.dtype)


def _units(largest: Tensor, call: _Call, shares: int) -> tuple[Tensor, Tensor]:
    """Two powers of two for each sample, whose product is the number of units in 1, and their exponents; NaN where not finite.

    ``largest`` is at least half of what an output pixel gives, ``shares`` times, to one place.
    """
    # So many bits above the largest are kept free. (A pixel of a picture gets less than twice an output pixel's gradient.)
    free = (2 * shares * call.size[0] * call.size[1]).bit_length()
    largest = largest.double()
    finite = torch.isfinite(largest)
    exponent = (60 - free - torch.frexp(largest.where(finite, 1.0)).exponent).clamp(-1000, 1000)
    halves = torch.stack((exponent // 2, exponent - exponent // 2), 1).double().masked_fill(~finite[:, None], torch.nan)
    return torch.exp2(halves).to(call.mapping.dtype), halves


def _tabled(source: Tensor, covers: Tensor, largest: Tensor, call: _Call) -> Tensor:
    """The gradient of an affine map's table: every pixel has a share in its numbers, so shares are added in fixed point."""
    rows, columns = call.tabled
    folded = torch.zeros((call.batch, PHASES + 1, rows, PHASES + 1, columns), dtype=torch.int64, device=source.device)
    units, halves = _units(largest.amax((1, 2)), call, call.groups)
    given = (source, covers, units, folded, call.image, *call.image.stride())
    call.run(add_tabled, *given, names=_MOVES + " C K UNIT", each=1)
    one, other = torch.exp2(-halves).to(call.mapping.dtype)[..., None, None, None, None].unbind(1)
    return folded.to(call.mapping.dtype) * one * other
