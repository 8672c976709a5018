"""The operators of ``../operators.py`` on the CPU.

Owns: their CPU kernels.
Must not: know about gradients (``../../explicit.py``) or import Numba before an operator runs.
Read next: ``sweep.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from pellucid.core.compilers.alike import alike
from pellucid.kernels.color.cpu import by_levels, stays_apart
from pellucid.kernels.pages import in_large_pages
from pellucid.kernels.pixels import HALVES, cells_of, empty_like, in_planes, planes_of, splitter, turns_of
from pellucid.kernels.several import Pictures
from pellucid.kernels.sources import Sources, own_memory, sources_of
from pellucid.kernels.stages.chain import FIRST_MIX, of_levels
from pellucid.kernels.stages.strip import laid
from pellucid.kernels.threads import elements, memory, run_loop, run_split, scratch, written
from pellucid.kernels.warp.cpu import layout
from pellucid.kernels.warp.cpu.call import BLOCK, Asked, Pass, spline_of
from pellucid.kernels.warp.cpu.shifts import Shifts, may_shift, shifts, undone, whole
from pellucid.kernels.warp.layout import LINK
from pellucid.kernels.warp.operators import Gradients, define, define_dual, empty_gradients, no_gradients

__all__ = ["back", "backward", "copied", "direct", "dual", "forward", "labels", "prepared", "undoing"]

_PIXELS = 1 << 15  # the fewest pixels worth handing to another thread
_MOVED = 1 << 20  # the fewest bytes, where they are only moved
_MANY = 512  # from so many pixels on, bytes are looked up faster than computed


_STILL = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]  # the identity map


def _turns_or_scales(maps: Any) -> bool:
    """Whether no map moves whole pixels, judged by its first number: then interleaved pixels are read as they are."""
    return all(first % 1 for first in maps[:, 0].tolist())


def _keeps_size(asked: Asked) -> bool:
    """Whether a pass has only a map, and a result of the batch's size."""
    image, still = asked.image, asked.window is asked.field is asked.links is asked.table is None
    return still and isinstance(image, Tensor) and tuple(asked.size) == tuple(image.shape[2:])


def _may_stay(asked: Asked) -> bool:
    """Whether a pass may change colours alone, and its pictures have rows that follow one another in memory."""
    image = asked.image
    return isinstance(image, Tensor) and image.stride(2) == image.shape[3] * image.stride(3) and _keeps_size(asked)


def _moves_nothing(asked: Asked) -> bool:
    """Whether a pass does change colours alone: its maps are the identity."""
    return _may_stay(asked) and bool((asked.mapping.numpy() == _STILL[: asked.mapping.shape[1]]).all())


def direct(*given: Any) -> Tensor:
    """The operator's kernel, for pictures of several sizes, too."""
    *most, dtype = given
    asked = Asked(*most)
    image, mapping, window, _, *others, table, size, options, _ = asked
    if isinstance(image, Tensor) and _may_look_up(image, size, options) and _keeps_size(asked):
        colored = asked.params.numpy(), options[2], options[3]
        if stays_apart(mapping.numpy(), *colored):
            out = empty_like(image, size, dtype)
            by_levels(planes_of(image)[0], *colored, *reversed(planes_of(out)))
            return out
    sources = sources_of(image, apart=image.dtype != mapping.dtype)
    if dtype == image.dtype and {*map(type, (*others, table))} <= {type(None)}:
        maps = shifts(image.shape, sources.table, *_arrays(mapping, window, asked.params), size, options)
        if maps is not None:
            cells = cells_of(image) if isinstance(image, Tensor) else 1
            how = torch.channels_last if cells > 1 else torch.contiguous_format
            out = in_large_pages(torch.empty((*image.shape[:2], *size), dtype=dtype, device=image.device, memory_format=how))
            return _moved(sources, maps, size, out, cells)
    cells, still = cells_of(image) if isinstance(image, Tensor) else 1, _moves_nothing(asked)
    turns = len(turns_of(image, options[3], dtype) or (0,))
    lies = cells == 3 and table is None and _turns_or_scales(mapping.numpy())
    # Passes that copy whole pixels, or whose pixels span many, read planes.
    if isinstance(image, Tensor) and cells > 1 and not lies and (turns == 1 or not still):
        asked = asked._replace(image=in_planes(image, kept=True))
        sources = sources_of(asked.image, apart=image.dtype != mapping.dtype)
    call = Pass(asked, still=still, sources=sources)
    how = torch.channels_last if turns > 1 else torch.contiguous_format
    out = in_large_pages(torch.empty(call.out_shape, dtype=dtype, device=image.device, memory_format=how))
    if out.numel():
        flat = out.flatten(2).flatten(0, 1) if turns == 1 else out.movedim(1, -1).flatten(1)
        _sweep(call, call.arguments, turns, written(flat, levels=of_levels(options[2])))
    return out


def _sweep(call: Pass, arguments: Sequence[Any], turns: int, planes: Any) -> None:
    """Run a pass, and write the rows of its result; ``turns``: how many channels are interleaved, or 1."""
    from pellucid.kernels.warp.cpu.sweep import forward

    rows, total = layout.forward_rows(*call.colored, call.canvases), call.out_shape[0] * call.strips

    def room() -> tuple[Any, ...]:
        found = call.scratch(rows, gradients=False)
        if turns == 1:
            return *found, None
        read = scratch("read by turns", turns * call.strip, arguments[0].dtype)
        made = scratch("made by turns", turns * call.strip, planes.dtype)
        return *found, ((0,) * turns, read, made.reshape(turns, call.strip))

    run_loop(call.loop or forward, total, _PIXELS // call.strip + 1, *arguments, planes, room=room)


def _may_look_up(image: Tensor | Pictures, size: Sequence[int], options: Sequence[int]) -> bool:
    """Whether there are more pixels of bytes than levels, and as many channels as before."""
    return size[0] * size[1] >= _MANY and image.shape[0] > 0 and image.dtype == torch.uint8 and options[3] == image.shape[1]


def _moved(sources: Sources, maps: Shifts, size: Sequence[int], out: Tensor, cells: int = 1) -> Tensor:
    """Write to ``out`` the pictures that ``maps`` move by whole pixels; ``cells`` numbers of a pixel lie side by side in both."""
    if out.numel():
        _mover(sources.table, out.shape[1], size, cells, out.itemsize)(sources.flat, maps, elements(out))
    return out


def _mover(
    table: Any, channels: int, size: Sequence[int], cells: int, item: int, *, again: bool = False
) -> Callable[[Any, Shifts, Any], None]:
    """`_moved` as a function of memory, which is called once, or with ``again`` many times."""
    from pellucid.kernels.warp.cpu.moves import move

    loop = alike(move) if again else move
    bits, row, one, width = f"u{item}", size[0] * size[1] * cells, (0,) * cells, size[1]
    grain, channels = _MOVED // (row * item) + 1, channels // cells

    def moving(flat: Any, maps: Shifts, out: Any) -> None:
        planes = out.view(bits).reshape(-1, row)
        run_loop(loop, len(planes), grain, flat.view(bits), table, channels, maps, width, one, planes)

    return moving


def _arrays(mapping: Tensor, window: Tensor | None, params: Tensor) -> tuple[Any, Any, Any]:
    return mapping.contiguous().numpy(), None if window is None else window.contiguous().numpy(), params.numpy()


class _Reading(NamedTuple):
    """A pass that is called again and again, and what copies interleaved pictures to planes for it; None if it reads them as they
    are.
    """

    call: Pass
    split: Callable[[Any, Any], None] | None = None


class _Prepared:
    """A pass over pictures laid out as one, called again and again: it makes once what the numbers of a call do not decide.

    They do decide how pixels are read, so each way of reading has a step of its own; the first that applies is the cheapest.
    """

    def __init__(self, image: Tensor, given: Sequence[Any]) -> None:
        from pellucid.kernels.warp.cpu.moves import whole_shifts

        *tensors, size, options, _, dtype = given
        asked, cells = Asked(image, *tensors, *given[6:9]), cells_of(image)
        self.layout, self.static, self.size = (image.shape, image.stride()), given[6:], size
        _, self.mode, self.flags, self.channels, *_ = options
        self.colored = options[2] & FIRST_MIX  # offset and fill, which change nothing if they are black
        self.table, self.tell, self.move = sources_of(image).table, alike(whole_shifts), None
        if dtype == image.dtype and may_shift(image.shape, options):
            self.move = _mover(self.table, image.shape[1], size, cells, image.itemsize, again=True)
        self.turns = cells if self.channels == cells else 1
        self.moving, self.resting, self.parting = self._readings(image, asked)
        self.still = asked.mapping.numpy().dtype.type(_STILL[: asked.mapping.shape[1]]).tobytes()
        dense = (image.movedim(1, -1) if cells > 1 else image).is_contiguous()
        self.looks_up = _may_look_up(image, size, options) and dense
        self.narrow = size[1] <= 2 * BLOCK  # strips are cut the same for all maps
        self.rows = image.shape[0] * self.channels // self.turns, size[0] * size[1] * self.turns
        made = torch.empty(0, dtype=dtype, device="cpu").numpy().dtype
        self.made = np.dtype(np.int8) if of_levels(self.flags) and dtype == torch.uint8 else made

    def _readings(self, image: Tensor, asked: Asked) -> tuple[_Reading, _Reading | None, _Reading | None]:
        """The passes that move pixels, that move none, and that move interleaved ones by parts of pixels."""
        from pellucid.kernels.warp.cpu.sweep import forward

        cells = cells_of(image)

        def reading(*, whole: bool, still: bool = False) -> _Reading:
            call = Pass(asked if whole else asked._replace(image=in_planes(image)), still=still)
            call.image, call.arguments, call.loop = asked.mapping, call.arguments[1:], alike(forward)  # it keeps no picture
            return _Reading(call, None if whole else splitter(image))

        rests = reading(whole=self.turns == cells, still=True) if _may_stay(asked) else None
        return reading(whole=cells == 1), rests, reading(whole=True) if cells == 3 else None

    def __call__(self, flat: Any, arrays: Sequence[Any]) -> Any:
        """(Memory, arrays for the tensors) -> memory of the result."""
        maps, windows, params, *_ = arrays
        if self.move is not None and not (self.colored and params.any()):
            shifts = whole(self.table, maps, windows, self.mode, self.size, self.tell)
            if shifts is not None:  # it only moves whole pixels
                out = np.empty(math.prod((*self.layout[0][:2], *self.size)), flat.dtype)
                self.move(flat, shifts, out)
                return out
        stays = self.resting is not None and maps.tobytes() == self.still * len(maps)
        if stays and self.looks_up and stays_apart(maps, params, self.flags, self.channels):
            return self._looked_up(flat, params)
        if not (stays or self.narrow):
            pictures = torch.from_numpy(flat).as_strided(*self.layout)
            return elements(direct(pictures, *(None if part is None else torch.from_numpy(part) for part in arrays), *self.static))
        return self._swept(flat, self._reading_of(maps, stays), maps, windows, params)

    def _looked_up(self, flat: Any, params: Any) -> Any:
        """The result of a pass that only exchanges the levels of bytes."""
        out = np.empty(self.rows, self.made)
        by_levels(flat.reshape(len(out), -1), params, self.flags, self.channels, (0,) * self.turns, out)
        return out.reshape(-1)

    def _reading_of(self, maps: Any, stays: bool) -> _Reading:
        if stays and self.resting is not None:
            return self.resting
        return self.parting if self.parting is not None and _turns_or_scales(maps) else self.moving

    def _swept(self, flat: Any, reading: _Reading, maps: Any, windows: Any, params: Any) -> Any:
        """The result of any pass, strip by strip."""
        call, split = reading
        if split is not None:
            planes = scratch("planes", self.layout[0].numel(), flat.dtype)
            split(flat, planes)
            flat = planes
        numbers, rows, *others = call.arguments
        rows = rows._replace(maps=maps, params=params, **({} if windows is None else {"windows": windows}))
        out = np.empty(self.rows, self.made)
        _sweep(call, (flat, numbers, rows, *others), self.turns, out)
        return out.reshape(-1).view(np.uint8) if self.made == np.int8 else out.reshape(-1)


def prepared(image: Tensor, *given: Any) -> Callable[[Any, Sequence[Any]], Any] | None:
    """`direct` for pictures laid out as this one, with other numbers: (memory, arrays for the tensors) -> memory of the result.
    None for passes with a field, canvases or a table, and for 16-bit floats.
    """
    *tensors, size, _, _, dtype = given
    beyond = {image.dtype, dtype} & HALVES or any(part is not None for part in tensors[3:]) or 0 in (*image.shape, *size)
    return None if beyond else _Prepared(image, given)


def undoing(image: Tensor, *given: Any) -> Callable[[Any, Tensor, Sequence[Any]], Any] | None:
    """Return the backward of `prepared` where that moves whole pixels, as `InMemory.back`; None for other passes."""
    from pellucid.kernels.warp.cpu.moves import whole_shifts

    *tensors, size, options, _, dtype = given
    if dtype != image.dtype or not may_shift(image.shape, options) or any(part is not None for part in tensors[3:]):
        return None
    shape, table, count = (*image.shape[:2], *size), sources_of(image).table, image.numel()
    dense = sources_of(torch.empty(shape, dtype=dtype, device="cpu")).table
    moving, tell = _mover(dense, shape[1], image.shape[2:], 1, image.itemsize, again=True), alike(whole_shifts)

    def call(flat: Any, image: Tensor, arrays: Sequence[Any]) -> Any:
        del image
        maps, windows, params, *_ = arrays
        found = None if options[2] & FIRST_MIX and params.any() else whole(table, maps, windows, options[1], size, tell)
        if found is None:
            return None
        out = np.empty(count, flat.dtype)
        moving(flat, undone(found), out)
        return out

    return call


def back(grad: Tensor, *given: Any) -> Gradients:
    """The backward operator's kernel, for pictures of several sizes, too: their gradients follow one another, part after part."""
    *most, _, needs = given
    asked = Asked(*most)
    image, mapping, window, _, *others, size, options, _ = asked
    alone = needs[0] and not any(needs[1:]) and grad.dtype == image.dtype
    if alone and grad.numel() and all(part is None for part in others) and isinstance(image, Tensor):
        maps = shifts(image.shape, sources_of(image).table, *_arrays(mapping, window, asked.params), size, options)
        if maps is not None:
            results = empty_gradients(asked[:7], needs)
            _moved(sources_of(grad), undone(maps), image.shape[2:], results[0])
            return results
    from pellucid.kernels.warp.cpu.adjoint import backward, round_into
    from pellucid.kernels.warp.cpu.bends import from_polynomials

    links, table = asked.links, asked.table
    shares = needs[0], needs[1] or needs[2] or needs[5] or needs[6], needs[3], needs[4]
    call = Pass(asked, still=not (shares[1] or shares[3]) and _moves_nothing(asked))
    if not grad.numel():
        return no_gradients(asked[:7], needs)
    results = empty_gradients(asked[:7], needs)
    for gradient in (*results[1:4], *results[5:]):
        if gradient.numel():
            gradient.zero_()
    planes = memory(grad.contiguous().view(image.shape[0] * options[3], -1))
    sums = [found.view(-1, found.shape[-1] if found.numel() else 1).numpy() for found in results[1:4]]
    if needs[4] and not shares[1]:  # a window's part is taken off the field's gradient, into sums that nobody reads
        sums[1] = np.zeros((image.shape[0], 4))
    to_field = results[4].view(-1, size[0] * size[1]).numpy()
    to_links = results[5].view(-1, 1 if links is None else links.shape[1], LINK).numpy()
    to_table, bends = results[6], links is not None and table is not None and results[6].numel() > 0
    tables = to_table.view(-1, to_table[0].numel() if to_table.numel() else 1).numpy()
    if bends:
        tables = np.zeros((image.shape[0], (to_table.shape[2] - 3) * 8 * to_table.shape[3]))
    traces = shares[1] or (shares[2] and call.colors.grounds > 0)
    rows = layout.backward_rows(*call.colored, call.canvases, traces=traces)
    to_image, apart = memory(results[0]).reshape(-1), needs[0] and image.dtype != mapping.dtype
    ends = own_memory(image) if apart else []  # summed in full precision, rounded once

    def task(start: int, stop: int) -> None:
        into = to_image if needs[0] else np.empty(0, call.work)
        for first in range(start, stop, 1 if apart else stop - start):
            last = first + 1 if apart else stop
            if apart:
                into = scratch("gradient", ends[first].stop - ends[first].start, call.work)
            found = layout.Sums(into, sums[0], sums[1], sums[2], to_field, to_links, tables)
            backward(planes, *call.arguments, shares, found, *call.scratch(rows, gradients=True), first, last)
            if apart:
                round_into(into, to_image[ends[first]])

    run_split(task, image.shape[0], _PIXELS // (size[0] * size[1]) + 1)
    if bends:
        from_polynomials(tables, spline_of(options[4:]), to_table.numpy())
    return results


def _dual(*given: Any) -> tuple[Tensor, Tensor]:
    image, by_image, mapping, window, params, differences, field, by_mapping, by_window, by_field, *sizes, dtype = given
    size, options, cubic = sizes
    from pellucid.kernels.warp.cpu.tangent import tangent

    if by_image is not None and by_image.stride() != image.stride():
        image, by_image = image.contiguous(), by_image.contiguous()
    call, batch = Pass(Asked(image, mapping, window, params, field, None, None, size, options, cubic)), image.shape[0]
    out, along = (in_large_pages(torch.empty(call.out_shape, dtype=dtype, device=image.device)) for _ in range(2))
    if out.numel():
        edges, pixels = mapping.new_zeros((1, 4 if window is not None else 0)), size[0] * size[1]
        still = all(part is None for part in (by_mapping, by_window, by_field))
        rows = (
            (like.new_zeros((1, 1)) if by is None else by).expand(0 if still else batch, like.shape[1]).contiguous().numpy()
            for by, like in ((by_mapping, mapping), (by_window, edges))
        )
        bends = np.empty((1, 0), call.work)
        if by_field is not None:
            bends = by_field.expand(batch, -1, -1, -1).contiguous().view(-1, pixels).numpy()
        img, numbers, rows_of, fields, *_ = call.arguments
        wide = max(call.colors.channels, call.colors.outputs)
        lay = laid(layout.DualRows, 2, 1, wide, wide, wide, wide, 0, after=layout.SHARED)
        change, moves = img[:0] if by_image is None else elements(by_image), (*rows, bends)
        others, planes = differences.contiguous().numpy(), (memory(out.view(-1, pixels)), memory(along.view(-1, pixels)))

        def task(start: int, stop: int) -> None:
            room, cubics, _ = call.scratch(lay, gradients=by_image is not None)
            tangent(img, change, numbers, rows_of, others, fields, moves, *planes, room, cubics, start, stop)

        run_split(task, batch * call.strips, _PIXELS // call.strip + 1)
    return out, along


_UNSIGNED = {1: torch.uint8, 2: torch.uint16, 4: torch.uint32, 8: torch.uint64}


def copied(image: Tensor | Pictures, *given: Any) -> Tensor:
    """The labels' kernel, for pictures of several sizes, too."""
    from pellucid.kernels.warp.cpu.labels import copy_labels

    mapping, window, fills, field, links, size, options = given
    bits = _UNSIGNED[image.dtype.itemsize]
    numbers = [1, options[0], 0, image.shape[1], *options[1:]]
    field, control = (field, None) if links is None else (None, field)
    call = Pass(Asked(image.view(bits), mapping, window, fills.view(bits), field, links, control, size, numbers, 0.0))
    out = in_large_pages(torch.empty(call.out_shape, dtype=image.dtype, device=image.device))
    pixels, numbers_of, rows_of, fields, chain, *_ = call.arguments
    fields = np.empty((1, 0), call.work) if fields is None else fields  # compiled either way

    def task(start: int, stop: int) -> None:
        floats, index = scratch("floats", 10 * size[1], call.work), scratch("labels", size[1], np.int64)
        cells = scratch("index", size[1] * max(1, min(16, BLOCK * 64 // max(size[1], 1))), np.int32)
        copy_labels(pixels, numbers_of, rows_of, fields, chain, rows, floats, index, cells, start, stop)

    if out.numel():
        rows = out.view(bits).view(-1, size[1]).numpy()
        run_split(task, image.shape[0] * size[0], _PIXELS // size[1] + 1)
    return out


forward, backward, labels = define("cpu", lambda *given: direct(*given).contiguous(), back, copied)
dual = define_dual("cpu", _dual)
