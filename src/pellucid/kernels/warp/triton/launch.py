"""Launching the kernels: block shapes, strides and compile-time options from tensors, without a look at their values.

Owns: how work is cut into programs (fixed by shapes alone, so sums keep their order), and the scratch memory of a backward.
Must not: synchronise with the device, or be imported where Triton is not.
Read next: ``forward.py``, ``gradients.py``, ``gather.py``, ``retrace.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from pellucid.kernels.stages.chain import CLIP, FIRST_MIX, GROUND, HUE, LAST_MIX, LEVELS, MATRIX, SECOND_MIX, SHARP, place
from pellucid.kernels.warp.footprint import PHASES
from pellucid.kernels.warp.layout import BENDS, CANVASES, LINK
from pellucid.kernels.warp.triton.axes import NUMBERS_EACH, spread
from pellucid.kernels.warp.triton.blocks import LANES
from pellucid.kernels.warp.triton.collect import collect
from pellucid.kernels.warp.triton.folded import add_folded, add_weighted
from pellucid.kernels.warp.triton.footprint import BOUNDS, bounds
from pellucid.kernels.warp.triton.forward import copy_labels, forward
from pellucid.kernels.warp.triton.gather import gather
from pellucid.kernels.warp.triton.gradients import gradients
from pellucid.kernels.warp.triton.retrace import ROWS, add_knots, retrace
from pellucid.kernels.warp.triton.tabled import add_tabled

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
"""Of a thread that sums for knots: a program goes through all knots that its pixels read, and few tiles share one then."""
_BENDS = tuple(CANVASES[kind] for kind in BENDS)
_FARTHEST = 256
"""No pixel of an antialiased homography or field spans more to a side; shapes say themselves how much it is."""
_REGISTERS = {} if torch.version.hip else {"maxnreg": 116}
"""For sums of everything: the compiler would keep all numbers of a sample and take 131 to 163 registers, which leaves a scheduler
three warps where it needs more than four (``benchmarks/gpu_counts.py``).
"""
_OPTIONS = {"enable_fp_fusion": False}  # coordinates must round as the reference's do
_FLOATS = {torch.float32: tl.float32, torch.float64: tl.float64}
_SIZES = {torch.float32: 1.0e-6, torch.float64: 2.0e-15}  # room for rounding: some 8 epsilons


def _blocks(size: tuple[int, int], threads: int = 0, each: int = 0) -> tuple[dict[str, int], int, int]:
    """(the shape of a block, blocks across, blocks down) for a plane of (height, width) and so many threads and pixels of each."""
    height, width = size
    threads, each = threads or _THREADS, each or _EACH
    rows = min(triton.next_power_of_2(height), _WARP_ROWS if threads == _ALONE else 2 * _WARP_ROWS)
    columns = min(triton.next_power_of_2(width), threads // rows)
    rows = min(triton.next_power_of_2(height), threads // columns)
    columns = threads // rows
    narrow = min(32 // min(_WARP_ROWS, rows), columns)
    shape = {"BW": columns, "WW": narrow, "P": threads * each, "num_warps": threads // LANES}
    return shape, triton.cdiv(width, columns), triton.cdiv(height, rows * each)


def _parts(batch: int, planes: int) -> Iterator[tuple[int, int]]:
    """(first sample, planes of the samples from there) of each launch: a grid's third side has 65,535 places."""
    most = max(65535 // planes, 1)
    return ((first, planes * min(most, batch - first)) for first in range(0, batch, most))


def _on(tensor: Tensor) -> Any:
    return torch.cuda.device(tensor.device) if tensor.is_cuda else nullcontext()


def _step(rows: Tensor | None) -> int:
    """Elements from one sample's row to the next; 0 where all share one."""
    return 0 if rows is None or rows.shape[0] == 1 else rows.shape[1]


def _field_strides(field: Tensor | None) -> tuple[int, ...]:
    """Elements from one sample, axis, row and column to the next; a sample's is 0 where all share one field."""
    if field is None:
        return (0, 0, 0, 0)
    return (0 if field.shape[0] == 1 else field.stride(0), *field.stride()[1:])


def _near(image: Tensor) -> int:
    """What lies side by side: 1, the pixels of a row; 2, channels and then pixels; 0, neither. One variant of a kernel for each."""
    _, channels, _, width = image.shape
    _, across, _, along = image.stride()
    if along == 1 or width == 1:
        return 1
    return 2 if across == 1 and along == channels else 0


def _index(*tensors: Tensor | None, most: int = 0) -> Any:
    """The integer that holds every offset within a sample, in these, contiguous tensors of their shapes and those of ``most``."""
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
        size: list[int],
        options: list[int],
        cubic: float,
        links: Tensor | None = None,
        spans: bool = False,  # a crop or resize
        weights: Tensor | None = None,  # of an antialiased warp: of `weight_table` or `stretches`
    ) -> None:
        taps, mode, flags, out_channels, *canvases = options
        self.levels = bool(flags & LEVELS)
        self.image, self.mapping, self.params = image, mapping.contiguous(), params.contiguous()
        self.window = self.mapping if window is None else window.contiguous()  # any pointer will do where there is none
        self.steps = (_step(mapping), _step(window), _step(params))
        field = field if links is None or field is None else field.contiguous()
        self.field = self.mapping if field is None else field
        # Beside links the field holds the knots of the one that displaces points.
        self.links = self.mapping if links is None else links.contiguous()
        link_step = 0 if links is None or links.shape[0] == 1 else links.shape[1] * LINK
        self.knots = (link_step, *((0, 0) if links is None or field is None else field.shape[2:]))
        grounds, self.canvases = bool(flags & GROUND), canvases
        self.chain = {
            "LINKS": len(canvases),
            "KINDS": sum(kind << 3 * k for k, kind in enumerate(canvases)),
            "SOFT": CANVASES["zeros"] in canvases,
            "GROUNDS": place(GROUND, flags, image.shape[1], out_channels) if grounds else -1,
        }
        self.planes = 2 if not self.chain["SOFT"] else 3 + len(canvases) * grounds
        self.field_strides = _field_strides(field)
        self.batch, self.channels, *plane = image.shape
        self.plane, self.size = (plane[0], plane[1]), (size[0], size[1])
        # Where nothing mixes channels, a program takes four at most.
        mixing = flags & (MATRIX | HUE | SECOND_MIX | LAST_MIX)
        read, written = (self.channels, out_channels) if mixing else (min(self.channels, 4),) * 2
        self.groups = triton.cdiv(self.channels, read)
        # Scratch memory has as many planes as picture or result, whichever has more; shapes have seven, a chain its own.
        shapes = 7 if weights is not None and weights.ndim == 3 else self.planes
        scratch = max(self.channels, out_channels, shapes) * max(self.plane[0] * self.plane[1], self.size[0] * self.size[1])
        self.options = {
            "C": self.channels,
            "OC": out_channels,
            "GROUPS": self.groups,
            "TAPS": taps,
            "MODE": mode,
            "WINDOW": window is not None,
            "FIELD": field is not None or links is not None,  # nothing bounds who reads a pixel
            "PROJECTIVE": mapping.shape[1] == 9,
            "CUBIC": cubic,
            "FLAGS": flags,
            "SLOTS": tuple(place(stage, flags, self.channels, out_channels) for stage in (FIRST_MIX, HUE, SECOND_MIX, LAST_MIX)),
            "K": read,
            "N": written,
            "F": _FLOATS[mapping.dtype],
            "INDEX": _index(shown, image, field, most=scratch),
            **_OPTIONS,
        }
        self.span, sharp = 0 if weights is None else 3 if weights.ndim == 3 else 2, bool(flags & SHARP)
        self.table, self.tabled = self.mapping, (0, 0, 0)  # (elements of a sample, rows, columns)
        if spans:
            self.span, self.table = 1, _spread(self, sharp)
        elif weights is not None:
            self.table, self.tabled = _weights(weights)
        if self.span:
            self.tabled = (0 if self.table.shape[0] == 1 < self.batch else self.table[0].numel(), *self.tabled[1:])
        self.spanned = {"SPAN": self.span, "SHARP": sharp}

    def reading(self) -> dict[str, Any]:
        window, field, projective = (self.options[name] for name in ("WINDOW", "FIELD", "PROJECTIVE"))
        return {
            "UNIT": 1 / 255 if self.image.dtype == torch.uint8 and not self.levels else 1.0,
            "RAW": self.options["MODE"] == 0 and not (window or field or projective or self.span),
            "NEAR": _near(self.image),
            **self.chain,
            **self.spanned,
        }

    def shapes(self) -> tuple[int, ...]:
        return (*self.plane, *self.size)


def forward_warp(out: Tensor, call_arguments: tuple[Any, ...]) -> None:
    """Write the warped image into the contiguous ``out``, of any floating dtype or uint8 (1 is 255, unless there are levels)."""
    with _on(out):
        call = _Call(out, *call_arguments)
        block, *tiles = _blocks(call.size)
        for sample, planes in _parts(call.batch, call.groups):
            forward[(*tiles, planes)](
                call.image, call.mapping, call.window, call.params, call.field, call.links, call.table, out,
                *call.image.stride(), *call.field_strides, *call.shapes(),
                sample, *call.steps, *call.knots, *call.tabled, **block, **call.options, **call.reading(),
            )  # fmt: skip


def copy(out: Tensor, image: Tensor, mapping: Tensor, window: Tensor | None, fill: Tensor, field: Tensor | None, mode: int) -> None:
    """Write the nearest pixels of an integer image into the contiguous ``out``."""
    size = (out.shape[2], out.shape[3])
    block, *tiles = _blocks(size)
    mapping, fill = mapping.contiguous(), fill.contiguous()
    frame = mapping if window is None else window.contiguous()
    with _on(out):
        for sample, planes in _parts(*out.shape[:2]):
            copy_labels[(*tiles, planes)](
                image, mapping, frame, fill, mapping if field is None else field, out, *image.stride(), *_field_strides(field),
                *image.shape[2:], *size, sample, _step(mapping), _step(window), _step(fill),
                C=out.shape[1], MODE=mode, WINDOW=window is not None, FIELD=field is not None, PROJECTIVE=mapping.shape[1] == 9,
                **block, F=_FLOATS[mapping.dtype], INDEX=_index(out, image, field), **_OPTIONS,
            )  # fmt: skip


def backward_warp(grad: Tensor, call_arguments: tuple[Any, ...], needs: list[bool]) -> tuple[Tensor, ...]:
    """The gradients of image (its dtype), map, window, params (float64, one row per sample), field, links (float64), and table: of
    shapes with field and map, of knots with links and map; empty where not needed.

    ``needs``: those of image, all that says where to read, params, field, knots.
    """
    to_map, to_window, to_params, to_links = (grad.new_empty((0,), dtype=torch.float64) for _ in range(4))
    source = grad
    with _on(grad):
        call = _Call(grad, *call_arguments)
        chained = needs[1] and bool(call.chain["LINKS"])
        summed = needs[1] and (call.options["WINDOW"] or not chained)
        needs = [needs[0], summed, needs[2], chained or (needs[3] and call.options["FIELD"]), *needs[4:]]
        linear = not call.options["FLAGS"] & (HUE | CLIP)
        to_field, to_table = (call.mapping.new_empty((0,)) for _ in range(2))
        if any(needs[1:]) or (needs[0] and not linear):
            sums, colors, collected, to_field, to_table = _sums(grad, call, needs, linear)
            if needs[1]:
                to_map = sums[..., : call.mapping.shape[1]].sum((1, 2), dtype=torch.float64)
                if call.options["WINDOW"]:
                    to_window = sums[..., 9:].sum((1, 2), dtype=torch.float64)
            if needs[2]:
                to_params = colors.sum(1, dtype=torch.float64)
            if needs[3]:
                to_field = to_field[:, 0] if call.groups == 1 else to_field.sum(1)
            if chained:
                to_map, to_links, to_table = _along_chain(to_field, call, knots=needs[4])
                to_field = to_field.new_empty((0,))
            elif call.span == 2 and needs[1]:
                to_table = _tabled(collected, to_table, sums[..., 9], call)
            elif to_table.numel():
                to_table = to_table[:, 0] if call.groups == 1 else to_table.sum(1)
            source = grad if linear else collected
        to_image = _image_gradient(source, call, linear) if needs[0] else grad.new_empty((0,), dtype=call.image.dtype)
    return to_image, to_map, to_window, to_params, to_field, to_links, to_table


def _sums(grad: Tensor, call: _Call, needs: list[bool], linear: bool) -> tuple[Tensor, ...]:
    """(partial sums for map and window, for the parameters; per output pixel the source's gradient, the field's, the shapes')."""
    summed = needs[1] or needs[2]
    block, *tiles = _blocks(call.size, _ALONE, 1) if summed else _blocks(call.size)
    steps = min(_STEPS, triton.next_power_of_2(tiles[1])) if summed else 1
    chunked = tiles[0], triton.cdiv(tiles[1], steps)
    chunks = chunked[0] * chunked[1]
    count = call.params.shape[1]
    like = call.mapping  # the dtype in which everything is computed, whatever the gradient comes in
    sums = like.new_zeros((call.batch, chunks, call.groups, 13) if needs[1] else (0,))
    colors = like.new_zeros((call.batch, chunks, count) if needs[2] else (0,))
    tabled = call.span == 2 and needs[1]
    write = (needs[0] and not linear) or tabled
    source = like.new_empty((call.batch, call.channels, *call.size) if write else (0,))
    to_field = like.new_empty((call.batch, call.groups, call.planes, *call.size) if needs[3] else (0,))
    each = 1 if tabled else 7 if call.span == 3 and (needs[1] or needs[3]) else 0
    to_table = like.new_empty((call.batch, call.groups, each, call.size[0] * call.size[1]) if each else (0,))
    everything = needs[1] and needs[2] and not call.span and call.options["FLAGS"] & LAST_MIX
    for sample, planes in _parts(call.batch, call.groups):
        gradients[(*chunked, planes)](
            grad, call.image, call.mapping, call.window, call.params, call.field, call.links, call.table,
            sums, colors, source, to_field, to_table, *grad.stride(),
            *call.image.stride(), *call.field_strides, *call.shapes(), sample, *call.steps, *call.knots, *call.tabled,
            count,
            TO_MAP=needs[1], TO_PARAMS=needs[2], TO_SOURCE=write, TO_FIELD=needs[3], PLANES=call.planes, STEPS=steps,
            **block, **call.options, **call.reading(), **(_REGISTERS if everything else {}),
        )  # fmt: skip
    return sums, colors, source, to_field, to_table


def _image_gradient(source: Tensor, call: _Call, linear: bool) -> Tensor:
    """Collect the gradient of the output (or, where colour is not linear, of the source) at every pixel of the image."""
    options = dict(call.options)
    flags = options["FLAGS"]
    # Mixes are undone after collecting; where the source's own gradient is collected, there is none left.
    mixes = flags & (MATRIX | FIRST_MIX | SECOND_MIX | LAST_MIX) if linear else 0
    options |= {"FLAGS": mixes, "OC": source.shape[1], "N": options["N"] if linear else options["K"]}
    if call.span == 1:
        return _collected(source, call, options)
    reach = {1: 0.5, 2: 1.0, 4: 2.0}[options["TAPS"]]  # of a tap on one axis, in pixels of the image
    folded, unfold, inverse = source, source, call.mapping
    if options["MODE"] != 0 or options["FIELD"] or call.span:
        folded, unfold = _fold(source, call, options, linear=linear)
    options["FIELD"] = options["FIELD"] or call.span > 0  # everything is in fixed point
    side = 1 if options["FIELD"] or options["N"] > 4 or options["TAPS"] == 1 else 2
    if not options["FIELD"]:
        inverse = _bounds(call, reach + 0.5 * (side - 1))
    to_image = source.new_empty((call.batch, call.channels, *call.plane), dtype=call.image.dtype)
    plane = triton.cdiv(call.plane[0], side), triton.cdiv(call.plane[1], side)
    block, *tiles = _blocks(plane, _ALONE, each=_EACH // side)
    for sample, planes in _parts(call.batch, call.groups):
        gather[(*tiles, planes)](
            source, call.mapping, call.window, inverse, call.params, folded, unfold, to_image, *source.stride(), *call.shapes(),
            sample, *call.steps, **block, REACH=reach, EPS=_SIZES[call.mapping.dtype], SIDE=side, NEAR=_near(source) == 1,
            **options,
        )  # fmt: skip
    return to_image


def _spread(call: _Call, sharp: bool) -> Tensor:
    """Where the columns and rows of a crop or resize lie, and what their weights sum to."""
    table = call.mapping.new_empty((call.batch, NUMBERS_EACH.value, sum(call.size)))
    spread[(call.batch, 2, triton.cdiv(max(call.size), 128))](
        call.mapping, call.window, table, *call.shapes(), *call.steps[:2], TAPS=call.options["TAPS"], MODE=call.options["MODE"],
        SHARP=sharp, P=128, F=call.options["F"], num_warps=128 // LANES, **_OPTIONS,
    )  # fmt: skip
    return table


def _weights(weights: Tensor) -> tuple[Tensor, tuple[int, int, int]]:
    """(a row for each sample, (0, rows, columns of a table)): of a table behind how many pixels around a point it weighs."""
    if weights.ndim == 3:
        return weights.contiguous(), (0, 2 * _FARTHEST, 0)
    rows, columns = weights.shape[2], weights.shape[4]
    place = torch.arange(rows, device=weights.device)
    far = torch.maximum(place - (rows // 2 - 1), rows // 2 - place)
    some = (weights != 0).any(1).any(2)  # b rows columns
    some = torch.stack((some.any(2), some.any(1)[:, :rows]), 1)  # b 2 rows
    most = (some * far).amax((1, 2))[:, None].to(weights.dtype)
    return torch.cat((most, weights.flatten(1)), 1), (0, rows, columns)


def _collected(source: Tensor, call: _Call, options: dict[str, Any]) -> Tensor:
    """What the pixels of the image get from the outputs of a crop or resize that span them."""
    to_image = source.new_empty((call.batch, call.channels, *call.plane), dtype=call.image.dtype)
    block, *tiles = _blocks(call.plane, _ALONE)
    kept = {name: value for name, value in options.items() if name not in ("WINDOW", "FIELD", "PROJECTIVE", "CUBIC")}
    for sample, planes in _parts(call.batch, call.groups):
        collect[(*tiles, planes)](
            source, call.mapping, call.window, call.table, call.params, to_image, *source.stride(), *call.shapes(), sample,
            *call.steps, call.tabled[0], SHARP=call.spanned["SHARP"], EPS=_SIZES[call.mapping.dtype], **block, **kept,
        )  # fmt: skip
    return to_image


def _bounds(call: _Call, reach: float) -> Tensor:
    """What the gather must know of every sample's inverse map."""
    mapping = call.mapping
    inverse = mapping.new_empty((call.batch, BOUNDS))
    bounds[(triton.cdiv(call.batch, 32),)](
        mapping, inverse, *call.shapes(), call.batch, call.steps[0], PROJECTIVE=mapping.shape[1] == 9, REACH=reach, P=32,
        EPS=_SIZES[mapping.dtype], F=_FLOATS[mapping.dtype], num_warps=1, enable_fp_fusion=False,
    )  # fmt: skip
    return inverse


def _along_chain(slopes: Tensor, call: _Call, *, knots: bool) -> tuple[Tensor, Tensor, Tensor]:
    """(to the map, the links, the knots of the one that has any) from `gradients`'s planes, of which two are written over."""
    block, *tiles = _blocks(call.size, _ALONE, 1)
    steps = min(_STEPS, triton.next_power_of_2(tiles[1]))
    chunked = tiles[0], triton.cdiv(tiles[1], steps)
    links, rows = len(call.canvases), ROWS.value
    sums = slopes.new_empty((call.batch, chunked[0] * chunked[1], rows + links * LINK))
    shared = {**{name: call.chain[name] for name in ("LINKS", "KINDS")}, "PLANES": call.planes}
    shared |= {name: call.options[name] for name in ("F", "INDEX")} | _OPTIONS
    steps_of = (call.steps[0], call.knots[0], call.field_strides[0])
    for sample, planes in _parts(call.batch, 1):
        retrace[(*chunked, planes)](
            slopes, call.mapping, call.links, call.field, sums, *call.size, sample, *steps_of, *call.knots[1:],
            PROJECTIVE=call.options["PROJECTIVE"], STEPS=steps, **block, **shared,
        )  # fmt: skip
    to_map = sums[..., : call.mapping.shape[1]].sum(1, dtype=torch.float64)
    to_links = sums[..., rows:].sum(1, dtype=torch.float64).unflatten(1, (links, LINK))
    at = next((k for k, code in enumerate(call.canvases) if code in _BENDS), None)
    if at is None:
        return to_map, to_links, slopes.new_empty((0,))
    shape = call.batch, 2, *call.knots[1:]
    if not knots:
        return to_map, to_links, slopes.new_zeros(shape)
    folded = slopes.new_zeros(shape, dtype=torch.int64)
    units, halves = _units(torch.linalg.vector_norm(slopes[:, :2], torch.inf, dim=(1, 2, 3)), call, 1)
    block, *tiles = _blocks(call.size, _ALONE, _PIXELS)
    for sample, planes in _parts(call.batch, 1):
        add_knots[(*tiles, planes)](
            slopes, call.links, call.field, units, folded, *call.size, sample, *steps_of[1:], *call.knots[1:], AT=at, **block,
            **shared,
        )  # fmt: skip
    first, rest = torch.exp2(-halves)[:, :, None, None, None].unbind(1)
    return to_map, to_links, torch.where(folded == 0, 0.0, folded * first * rest).to(slopes.dtype)


def _fold(source: Tensor, call: _Call, options: dict[str, Any], *, linear: bool) -> tuple[Tensor, Tensor]:
    """What the gather leaves out: (sums in fixed point, two powers of two per sample whose product is their unit)."""
    folded = source.new_zeros((call.batch, source.shape[1], *call.plane), dtype=torch.int64)
    units, halves = _units(torch.linalg.vector_norm(source, torch.inf, dim=(1, 2, 3)), call, 1)
    block, *tiles = _blocks(call.size, each=1)
    kept = {name: value for name, value in options.items() if name not in ("C", "K", "FLAGS", "SLOTS")}
    chain = {name: call.chain[name] for name in ("LINKS", "KINDS")} | {"SOFT": linear and call.chain["SOFT"]}
    for sample, planes in _parts(call.batch, call.groups):
        if call.span:
            kept.pop("WINDOW", None)
            add_weighted[(*tiles, planes)](
                source, call.mapping, units, call.field, call.table, folded, *source.stride(), *call.field_strides, *call.shapes(),
                sample, call.steps[0], *call.tabled, SPAN=call.span, **block, **kept,
            )  # fmt: skip
            continue
        add_folded[(*tiles, planes)](
            source, call.mapping, call.window, units, call.field, call.links, folded,
            *source.stride(), *call.field_strides, *call.shapes(),
            sample, *call.steps[:2], *call.knots, **chain, **block, **kept,
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
    """What the numbers of an affine map's table get: every pixel has a share in them, so these are added in fixed point."""
    _, rows, columns = call.tabled
    folded = torch.zeros((call.batch, PHASES + 1, rows, PHASES + 1, columns), dtype=torch.int64, device=source.device)
    units, halves = _units(largest.amax((1, 2)), call, call.groups)
    block, *tiles = _blocks(call.size, each=1)
    kept = {name: call.options[name] for name in ("C", "GROUPS", "TAPS", "MODE", "K", "F", "INDEX", *_OPTIONS)}
    for sample, planes in _parts(call.batch, call.groups):
        add_tabled[(*tiles, planes)](
            call.image, call.mapping, units, call.table, source, covers, folded, *call.image.stride(), *call.shapes(), sample,
            call.steps[0], *call.tabled, UNIT=call.reading()["UNIT"], **block, **kept,
        )  # fmt: skip
    one, other = torch.exp2(-halves).to(call.mapping.dtype)[..., None, None, None, None].unbind(1)
    return folded.to(call.mapping.dtype) * one * other
