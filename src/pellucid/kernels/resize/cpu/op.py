"""The registered operators: what torch sees of the compiled resize.

Owns: their schemas, fake kernels, batching rules and CPU kernels; and `settled`, past them.
Must not: know about gradients, or import Numba before an operator runs.
Read next: ``sweep.py``.
"""

import math
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Self, TypeAlias

import numpy as np
import torch
from torch import Tensor

from pellucid.core.compilers.alike import alike
from pellucid.kernels.explicit import operator
from pellucid.kernels.pages import in_large_pages
from pellucid.kernels.pixels import turns_of
from pellucid.kernels.resize.cpu import layout
from pellucid.kernels.several import Pictures
from pellucid.kernels.sources import Sources, gradient_of, sources_of
from pellucid.kernels.stages.chain import colors_of, has_curve, is_sharp, of_levels
from pellucid.kernels.stages.strip import laid
from pellucid.kernels.threads import elements, memory, run_loop, run_split, scratch, written
from pellucid.kernels.warp.layout import MODES
from pellucid.kernels.warp.operators import STATIC, define_pass, empty_gradients, empty_result, no_gradients
from pellucid.kernels.warp.packing import Recipe
from pellucid.kernels.within import InMemory

__all__ = ["back", "backward", "direct", "dual", "forward", "prepared", "settled", "settled_in_memory", "unsettled"]

_Array: TypeAlias = np.ndarray[Any, Any]

_TENSORS = "Tensor image, Tensor mapping, Tensor window, Tensor params"
_CHANGING = (
    "Tensor image, Tensor? by_image, Tensor mapping, Tensor window, Tensor params, Tensor others, Tensor? by_mapping, "
    f"Tensor? by_window, {STATIC}"
)
_STRIP = 1024  # pixels that go through all colour stages together: few enough for a close cache, enough to forget the calls
_PIXELS = 1 << 15  # the fewest pixels worth handing to another thread


_KEPT = 1 << 20  # bytes of the memory of a pass that a thread keeps


class _Own(threading.local):
    """The memory of a thread's last passes, by what made it."""

    def __init__(self) -> None:
        self.made: dict[str, tuple[Any, Any]] = {}


_own = _Own()


def _bytes(value: Any) -> int:
    """Add up the bytes of the arrays in a nesting of tuples."""
    return value.nbytes if isinstance(value, np.ndarray) else sum(map(_bytes, value)) if isinstance(value, tuple) else 0


class _Call:
    """The arguments all compiled functions share, and the scratch memory of a thread."""

    def __init__(
        self, sources: Sources, channels: int, rows: Sequence[_Array], size: Sequence[int], options: Sequence[int]
    ) -> None:
        (pixels, pictures, height, width), (maps, windows, params) = sources, rows
        taps, mode, flags, outputs = options
        self.colors = colors_of(flags, channels, outputs)
        self.wide = max(channels, outputs)  # what a strip needs rows for
        self.bends = True if has_curve(flags) else None  # where it is None, they are not compiled
        self.rows, cubic = max(1, min(size[0], _STRIP // max(size[1], 1))), taps > 2
        self.strips = -(-size[0] // self.rows)
        work = self.work = maps.dtype.type
        self.given = layout.Given(pixels, pictures, maps, windows, params, self.colors)
        self.taps, self.step = _taps(maps, height, width, cubic), max(channels, 4)
        self.size, self.source, self.width = (size[0], size[1]), (height, width), width
        steps = int(len(maps) > 1), int(len(windows) > 1), int(len(params) > 1)
        kernel = cubic, mode == MODES["zeros"], is_sharp(flags)
        unit = work(1 / 255 if pixels.dtype == np.uint8 and not of_levels(flags) else 1)
        self.call = layout.Call(size[0], size[1], *kernel, *steps, self.rows, width + self.taps[0], unit)

    @classmethod
    def of(cls, image: Tensor | Pictures, *given: Any) -> Self:
        """Make a call of a pass's tensors, without copies."""
        *rows, size, options = given
        return cls(sources_of(image), image.shape[1], [part.contiguous().numpy() for part in rows], size, options)

    def holds(self, maps: _Array) -> bool:
        """Return whether the tables have room for these maps."""
        (across, down), per = self.taps, 4 if self.call.cubic else 2
        for row in maps.tolist():
            if not (per * abs(row[0]) <= across - 3 and per * abs(row[4]) <= down - 3):
                return self.taps == _taps(maps, *self.source, self.call.cubic)
        return True

    def _kept(self, rows: Any, make: Callable[[Any], Any]) -> Any:
        """Return memory for a pass with these rows of a strip: what this thread made for its last pass, if it fits."""
        key = rows, self.call, self.taps, self.width, self.colors.channels, self.given.params.shape[1], self.work
        last, made = _own.made.get(make.__name__, (None, None))
        if last != key:
            made = make(rows)
            if _bytes(made) < _KEPT:
                _own.made[make.__name__] = key, made
        return made

    def _room(self, rows: Any) -> layout.Room:
        (height, width), eights = self.size, -(-self.taps[0] // 8) * 8
        places = tuple([np.empty(n, np.int64) for n in (width, width, height, height)])
        sizes = self.taps[0] * width, width, self.taps[1] * height, height, eights * width
        tables = layout.Tables(*[np.empty(n, self.work) for n in (*sizes, self.taps[1], 4 * self.width + eights)])
        floats = scratch("floats", rows.height * self.rows * width, self.work)
        return layout.Room(rows, floats, np.empty((0, 0), self.work), places, np.empty(width, np.uint64), tables)

    def room(self, rows: Any, lines: _Array) -> layout.Room:
        """Return memory for a pass with these rows of a strip and these lines."""
        found: layout.Room = self._kept(rows, self._room)
        return found._replace(lines=lines)

    def settling(self) -> tuple[_Array, _Array, _Array, layout.Room]:
        """Return memory for a sample's pixels, for the sums of its lines and for its colours, and memory for a pass."""
        own, sums, colors, room = self._kept(layout.ForwardRows(0, 0, 1, 1, 1 + self.wide), self._settling)
        return own, sums, colors, room._replace(lines=self.lines())

    def _settling(self, rows: layout.ForwardRows) -> tuple[_Array, _Array, _Array, layout.Room]:
        (height, width), colors = self.size, self.given.params.shape[1]
        own = scratch("resized", self.strips * self.wide * self.rows * width, self.work)[None]
        return own, np.empty((1, self.colors.channels, height)), np.empty(colors, self.work), self._room(rows)

    def lines(self, count: int = 1) -> _Array:
        """So many lines of zeros."""
        return np.zeros((count, self.step * self.call.line + 7), self.work)

    def turns(self, turns: Any, out: _Array) -> Any:
        """For an interleaved ``out``: a tuple with an entry for each channel, and scratch for a strip in planes. Else None."""
        n = self.rows * self.size[1]
        return turns and (turns, scratch("made by turns", len(turns) * n, out.dtype).reshape(len(turns), n))

    def backwards(self) -> tuple[layout.Call, layout.Room, layout.Backwards]:
        """The numbers of a backward pass, which keeps all lines of a strip and two more, and its memory."""
        colors, later = self.colors, max(len(self.colors.steps) - 1, 0)
        mixed, scratched = colors.outputs if colors.mixes else 0, 4 if self.bends else 1
        gradients = 1, 1, colors.channels, colors.outputs, colors.outputs, scratched
        found: tuple[layout.Call, layout.Room, layout.Backwards] = self._kept(
            laid(layout.BackwardRows, *gradients, colors.channels, mixed, later * colors.outputs), self._backwards
        )
        return found

    def _backwards(self, rows: layout.BackwardRows) -> tuple[layout.Call, layout.Room, layout.Backwards]:
        width = self.size[1]
        call = self.call._replace(line=max(self.call.line, 2 * width + 4))  # a row, and as many taps again
        lines = np.empty((self.rows + 2, self.step * call.line + 7), self.work)
        table = np.empty(4 * (self.taps[0] * width + self.width), self.work)
        low, high, index = np.empty(self.width, np.int64), np.empty(self.width, np.int64), np.empty(self.width, np.uint64)
        sums = np.empty(self.taps[0] * width), np.empty(self.taps[1] * self.size[0])
        return call, self._room(rows)._replace(lines=lines), layout.Backwards(low, high, index, table, *sums)


def _taps(maps: _Array, height: int, width: int, cubic: bool) -> tuple[int, int]:
    """How many taps the widest output pixel of a batch may need along x and y, rounded up as the tables want it."""
    found, scales = [], maps.tolist()
    for place, length in ((0, width), (4, height)):
        widest = 1.0
        for row in scales:
            widest = size if widest < (size := abs(row[place])) < math.inf else widest
        taps = min(length, math.ceil((4 if cubic else 2) * widest) + 3) if widest < length else length
        found.append(-(-max(taps, 2) // 4) * 4)
    return found[0], found[1]


def direct(*given: Any) -> Tensor:
    """The operator's kernel, for pictures of several sizes, too."""
    image, mapping, window, params, size, options, _, dtype = given
    return _resized(image, partial(_Call.of, image, mapping, window, params, size, options), size, options, dtype)


def _resized(
    image: Tensor | Pictures, made: Callable[[], _Call], size: Sequence[int], options: Sequence[int], dtype: torch.dtype
) -> Tensor:
    """Run a call on pictures laid out as these."""
    from pellucid.kernels.resize.cpu.sweep import forward

    out, turns, rows = _written(image, (image.shape[0], options[3], *size), dtype, levels=of_levels(options[2]))
    if out.numel():
        call = made()
        lay, grain = laid(layout.ForwardRows, 1, 1, call.wide, call.wide), _PIXELS // (call.rows * size[1]) + 1
        given = call.given, call.call, call.bends, rows
        room = lambda: (call.turns(turns, rows), call.room(lay, call.lines()))  # noqa: E731
        run_loop(forward, image.shape[0] * call.strips, grain, *given, room=room)
    return out


def _written(image: Tensor | Pictures, shape: Sequence[int], dtype: torch.dtype, *, levels: bool) -> tuple[Tensor, Any, _Array]:
    """A result, laid out as its pictures are; an entry for each channel if it is interleaved; its memory as kernels write to it."""
    turns = turns_of(image, shape[1], dtype)
    how = torch.contiguous_format if turns is None else torch.channels_last
    out = in_large_pages(torch.empty(shape, dtype=dtype, device="cpu", memory_format=how))
    flat = out.view(-1, shape[2] * shape[3]) if turns is None else out.movedim(1, -1).flatten(1)
    return out, turns, written(flat, levels=levels)


def prepared(image: Tensor, *given: Any) -> Callable[[_Array, Sequence[_Array]], _Array] | None:
    """`direct` for pictures laid out as this one: (memory, arrays for the tensors) -> memory of the result. None for floats that
    would have to be converted.
    """
    mapping, *_, size, options, _, dtype = given
    if image.dtype not in (torch.uint8, mapping.dtype) or dtype in (torch.float16, torch.bfloat16):
        return None
    (_, channels, height, width), table = image.shape, sources_of(image).table
    like = torch.empty_strided(image.shape, image.stride(), dtype=image.dtype, device="cpu")

    def call(flat: _Array, arrays: Sequence[_Array]) -> _Array:
        made = partial(_Call, Sources(flat, table, height, width), channels, arrays[:3], size, options)
        return elements(_resized(like, made, size, options, dtype))

    return call


def settled(image: Tensor | Pictures, mapping: Tensor, window: Tensor, numbers: Tensor, slopes: Tensor, *static: Any) -> Tensor:
    """Resize the samples, and apply the colours that their own means decide.

    Args:
        image: float32, float64 or uint8, any strides; of several sizes, too.
        mapping, window: in the dtype in which everything is computed.
        numbers, slopes: colours at a mean of zero, and what each channel of the mean adds to them, in float64.
        static: the `Recipe`, and the dtype of the result.
    """
    from pellucid.kernels.resize.cpu.means import settle

    recipe, dtype = static
    size, options, _ = recipe.options(image.shape[1])
    out, turns, rows = _written(image, (image.shape[0], options[3], *size), dtype, levels=False)
    if out.numel():
        call = _Call.of(image, mapping, window, numbers, size, options)
        _settle(settle, call, call.given, slopes.numpy(), rows, turns)
    return out


def unsettled(grad: Tensor, image: Tensor | Pictures, *given: Any) -> tuple[Tensor, ...]:
    """Compute the gradient of `settled` to its pictures, which alone may be needed. Arguments and results are as of `back`."""
    from pellucid.kernels.resize.cpu.means import unsettle

    mapping, window, numbers, slopes, recipe, _, _ = given
    size, options, _ = recipe.options(image.shape[1])
    found, none = in_large_pages(gradient_of(image)), mapping.new_empty((0,))
    if grad.numel():
        call = _Call.of(image, mapping, window, numbers, size, options)
        planes = grad.to(mapping.dtype).contiguous().view(len(slopes) * options[3], -1).numpy()
        _unsettle(unsettle, call, call.given, slopes.numpy(), planes, found.view(-1).numpy())
    return (found if grad.numel() else found.zero_(), *[none] * 4)


def _unsettle(loop: Callable[..., None], call: _Call, given: layout.Given, slopes: _Array, grad: _Array, image: _Array) -> None:
    """Write the gradient."""
    (height, width), channels = call.size, call.colors.channels

    def task(start: int, stop: int) -> None:
        numbers, *room = call.backwards()
        kept = scratch("resized", 2 * channels * height * width, call.work).reshape(2, -1)
        sums, colors = np.empty((channels, height)), slopes.shape[1]
        made = image, kept, sums, np.empty(colors, call.work), np.empty(colors)
        loop(grad, given, numbers, slopes, call.bends, (True, False, False), *made, *room, start, stop)

    run_split(task, len(slopes), _PIXELS // (height * width) + 1)


def settled_in_memory(image: Tensor, recipe: Recipe, dtype: torch.dtype) -> InMemory:
    """Return `settled` and its backward for the memory of pictures laid out as this one, and arrays for the other tensors."""
    from pellucid.kernels.resize.cpu.means import settle, unsettle

    (batch, channels, height, width), table = image.shape, sources_of(image).table
    size, options, _ = recipe.options(channels)
    turns, kind = turns_of(image, options[3], dtype), torch.empty(0, dtype=dtype, device="cpu").numpy().dtype
    shape = (batch * options[3], size[0] * size[1]) if turns is None else (batch, size[0] * size[1] * options[3])
    loop, back_loop = alike(settle), alike(unsettle)
    last: _Call | None = None

    def called(flat: _Array, arrays: Sequence[_Array]) -> tuple[_Call, layout.Given]:
        nonlocal last
        one, (maps, windows, params) = last, arrays[:3]
        if one is None or not one.holds(maps):
            one = last = _Call(Sources(flat[:0], table, height, width), channels, arrays[:3], size, options)
        return one, layout.Given(flat, table, maps, windows, params, one.colors)

    def forth(flat: _Array, arrays: Sequence[_Array]) -> _Array:
        made = np.empty(shape, kind)
        _settle(loop, *called(flat, arrays), arrays[3], made, turns)
        return made

    def back(grad: _Array, image: Tensor, arrays: Sequence[_Array]) -> _Array:
        found = np.empty(batch * channels * height * width, kind)
        _unsettle(back_loop, *called(elements(image), arrays), arrays[3], grad.reshape(shape), found)
        return found

    return InMemory(forth, back, (batch, options[3], *size))


def _settle(loop: Callable[..., None], call: _Call, given: layout.Given, slopes: _Array, out: _Array, turns: Any) -> None:
    """Write the result."""
    (height, width), batch, numbers = call.size, len(slopes), (given, call.call, slopes, call.bends, out)

    def room(what: int, kept: _Array | None = None, sums: _Array | None = None) -> tuple[Any, ...]:
        own, line_sums, colors, memory = call.settling()
        shared = (own, line_sums) if kept is None else (kept, sums)
        return *shared, colors, what, call.turns(turns, out), memory

    grain = _PIXELS // (height * width) + 1
    if batch < 2 * grain or batch >= 2 * torch.get_num_threads():
        run_loop(loop, batch, grain, *numbers, room=partial(room, layout.ALL))
        return
    own, sums, *_ = call.settling()  # threads share every sample
    shared = np.empty((batch, own.shape[1]), call.work), np.empty((batch, *sums.shape[1:]))
    for what in (layout.PIXELS, layout.COLORS):
        grain = _PIXELS // (call.rows * width) + 1
        run_loop(loop, batch * call.strips, grain, *numbers, room=partial(room, what, *shared))


def back(grad: Tensor, *given: Any) -> tuple[Tensor, ...]:
    """The backward operator's kernel, for pictures of several sizes, too: their gradients follow one another, part after part."""
    from pellucid.kernels.resize.cpu.sweep import backward

    image, mapping, window, params, size, options, _, _, needs = given
    if grad.numel() == 0:
        return no_gradients(given[:4], needs)
    results = empty_gradients(given[:4], needs)
    shares = needs[0], needs[1] or needs[2], needs[3]
    for sums in results[1:]:
        sums.zero_()
    call = _Call.of(image, mapping, window, params, size, options)
    planes = grad.to(mapping.dtype).contiguous().view(image.shape[0] * options[3], -1).numpy()
    to_image = results[0].view(-1).numpy()
    others = [sums.view(-1, sums.shape[-1]).numpy() if sums.numel() else np.zeros((1, 1)) for sums in results[1:]]

    def task(start: int, stop: int) -> None:
        numbers, *room = call.backwards()
        backward(planes, call.given, numbers, call.bends, shares, layout.Sums(to_image, *others), *room, start, stop)

    run_split(task, image.shape[0], _PIXELS // (size[0] * size[1]) + 1)
    return results


def _dual(*given: Any) -> tuple[Tensor, Tensor]:
    image, by_image, mapping, window, params, others, by_mapping, by_window, *static = given
    size, options, *_ = static
    from pellucid.kernels.resize.cpu.sweep import dual

    if by_image is not None and by_image.stride() != image.stride():
        image, by_image = image.contiguous(), by_image.contiguous()
    out, along = (in_large_pages(empty_result(image, *static)) for _ in range(2))
    if out.numel() == 0:
        return out, along
    call = _Call.of(image, mapping, window, params, size, options)
    samples = 0 if by_mapping is None and by_window is None else image.shape[0]
    moves = tuple(
        (like.new_zeros((1, 1)) if by is None else by).expand(samples, like.shape[1]).contiguous().numpy()
        for by, like in ((by_mapping, mapping), (by_window, window))
    )
    img, colors = call.given.img, others.contiguous().numpy()
    change = img[:0] if by_image is None else elements(by_image)
    planes = tuple(memory(found.view(-1, size[0] * size[1])) for found in (out, along))
    lay = laid(layout.DualRows, 1, 0, call.wide, call.wide, 1, *(3 * [call.wide]))

    def room() -> tuple[Any, ...]:
        found = call.room(lay, call.lines(3))
        return found, tuple(np.empty_like(found.tables[k]) for k in (0, 2, 4))

    grain = _PIXELS // (call.rows * size[1]) + 1
    run_loop(dual, image.shape[0] * call.strips, grain, call.given, change, call.call, colors, moves, *planes, room=room)
    return out, along


forward, backward = define_pass("cpu_resize", _TENSORS, lambda *given: direct(*given).contiguous(), back)
"""(image, mapping, window, params, size, (taps, mode, flags, out_channels), cubic, dtype) -> the output.

* image: float32, float64 or uint8, any strides.
* mapping: (b or 1, 6 or 9); the scales and shifts of both axes are read.
* window: (b or 1, 4).
* params: (b or 1, n); like the two before of the dtype in which everything is computed.
* size, options, dtype: as the warp's; ``../../warp/layout.py`` and ``../../stages/chain.py`` say what options and parameters mean.

The backward takes the output's gradient before them, and behind them ``needs``, one for each tensor. It returns the gradients of
image, mapping, window and params; the last three in float64 and one row per sample, whatever the arguments had. A gradient that is
not needed has no elements.
"""

dual = operator(
    *("cpu_resize_dual", f"({_CHANGING}) -> (Tensor, Tensor)", _dual),
    lambda *given: tuple(empty_result(given[0], *given[8:]) for _ in range(2)),
    8,
)
"""(image, its change or None, mapping, window, params, the same of which the matrix alone counts, the changes of mapping and window
or None, and the rest) -> the output and its change."""
