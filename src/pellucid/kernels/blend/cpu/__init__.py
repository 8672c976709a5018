"""Noise compiled for the CPU: hashed, mapped to normal numbers and added strip by strip; neither direction stores a field.

Owns: the operators `NOISE`, with its gradients, and `FIELD`, on contiguous memory of one dtype; and, without gradients,
`poisson_counts`, `blocks`, `fallen`, `lit`, `replaced` and `snowed`.
Must not: know about autograd, or import Numba before an operator runs.
Read next: ``sweep.py``.
"""

from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pellucid.kernels.explicit import add_up, register
from pellucid.kernels.pages import in_large_pages
from pellucid.kernels.threads import run_loop
from pellucid.random.normals import series

__all__ = ["FIELD", "NOISE", "add_noise", "blocks", "fallen", "lit", "poisson_counts", "replaced", "snowed"]

_BLOCKS = 256  # of four numbers each: a strip, whose intermediate rows stay in the closest cache
_PIXELS = 1 << 17  # of passes that only read and write, the fewest worth handing to another thread
_STRIP = 4096  # pixels of a strip in those passes
_STRIPS = 16  # of noise, the fewest worth handing to another thread


def _fill(out: Tensor, image: Tensor, words: Tensor, mean: Tensor, sigma: Tensor, clip: int) -> None:
    _sweep(out.flatten(1).numpy(), image.contiguous().flatten(1).numpy(), words, mean, sigma, clip=clip != 0)


def _sweep(into: Any, images: Any, *numbers: Tensor, clip: bool = False) -> None:
    """Write noisy images; without images, the field alone."""
    add_noise(into, images, *_arrays(*numbers), clip=clip)


def add_noise(into: Any, images: Any, *numbers: Any, clip: bool) -> None:
    """Do so for arrays: (samples, count) of results and images; words, mean and sigma."""
    from pellucid.kernels.blend.cpu.sweep import forward

    given = images, *numbers, _series(into.dtype), clip, _BLOCKS, into
    run_loop(forward, len(into) * _strips(into.shape[1]), _STRIPS, *given, room=_room(into.dtype))


def _back(
    found: list[Tensor], grad: Tensor, image: Tensor, words: Tensor, mean: Tensor, sigma: Tensor, clip: int, needs: list[bool]
) -> None:
    from pellucid.kernels.blend.cpu.sweep import backward

    if needs[0] and not clip and not (needs[2] or needs[3]):
        found[0].copy_(grad)
        return
    pixels, upstream = (part.contiguous().flatten(1).numpy() for part in (image, grad))
    into = found[0].flatten(1).numpy() if needs[0] else np.empty((0, 0), upstream.dtype)
    sums = np.empty((len(upstream) * _strips(upstream.shape[1]), 2))
    given = upstream, pixels, *_arrays(words, mean, sigma), _series(upstream.dtype), clip != 0, _BLOCKS, into, sums
    run_loop(backward, len(sums), _STRIPS, *given, room=_room(upstream.dtype))
    for place in (2, 3):
        add_up(sums[:, place - 2], found[place])


NOISE = register("cpu_noise", "Tensor image, Tensor words, Tensor mean, Tensor sigma, int clip", _fill, _back)
"""See :func:`pellucid.kernels.blend.reference.noise`; image, mean and sigma of one dtype, float32 or float64."""


def _arrays(*tensors: Tensor) -> list[Any]:
    return [tensor.contiguous().numpy() for tensor in tensors]


@cache
def _series(work: Any) -> tuple[Any, ...]:
    return tuple(np.array(numbers, work) for numbers in series(torch.float64 if work == np.float64 else torch.float32))


def _strips(count: int) -> int:
    return -(-count // (4 * _BLOCKS))


def _room(work: Any) -> Any:
    return lambda: (np.empty(4 * _BLOCKS, np.int32), np.empty(18 * _BLOCKS, work))


def _field(out: Tensor, words: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    del shape, dtype
    _sweep(out.flatten(1).numpy(), None, words, words, words)  # without images, nothing else is read


FIELD = register(
    "cpu_gaussian_field",
    "Tensor words, SymInt[] shape, ScalarType dtype",
    _field,
    empty=lambda words, shape, dtype: words.new_empty((words.shape[0], *shape), dtype=dtype),
)
"""See :func:`pellucid.kernels.blend.reference.gaussian_field`; float32 or float64."""


def poisson_counts(rate: Tensor, level: Tensor, terms: int) -> Tensor:
    """The smallest count below ``terms`` whose cumulative probability reaches a level; float32 or float64, without gradients."""
    from pellucid.kernels.blend.cpu.sweep import counts

    out = in_large_pages(torch.empty_like(rate, memory_format=torch.contiguous_format))
    arrays = [part.contiguous().view(-1).numpy() for part in (rate, torch.exp(-rate), level.expand_as(rate), out)]
    run_loop(counts, out.numel(), 4 * _BLOCKS * _STRIPS, *arrays[:3], terms, arrays[3])
    return out


def blocks(image: Tensor, counts: Tensor) -> Tensor:
    """See :func:`pellucid.kernels.blend.grain.blocks`; of bytes, float32 or float64, without gradients."""
    from pellucid.kernels.blend.cpu.means import blocks as loop

    out = in_large_pages(torch.empty_like(image, memory_format=torch.contiguous_format))
    if out.numel():
        planes, into = (part.view(-1, *image.shape[2:]).numpy() for part in (image.contiguous(), out))
        numbers, width, levels = counts.contiguous().numpy(), image.shape[3], image.dtype == torch.uint8

        def room() -> tuple[Any, ...]:
            places = np.empty((2, width), np.int32)
            return np.empty(6 * width + 3, numbers.dtype), places, np.empty(width, np.uint8) if levels else None

        given = planes, numbers, image.shape[1], numbers.dtype.type(1.0 / 255.0 if levels else 1.0), into
        run_loop(loop, len(planes), _PIXELS // planes[0].size + 1, *given, room=room)
    return out


def lit(image: Tensor, gain: Tensor, offset: Tensor) -> Tensor:
    """Multiply bytes, as fractions, by ``gain`` and add ``offset``, both float32 and per pixel; returns bytes."""
    from pellucid.kernels.blend.cpu.light import lit as loop

    out = in_large_pages(torch.empty_like(image, memory_format=torch.contiguous_format))
    if out.numel():
        numbers = [part.expand(*part.shape[:2], *image.shape[2:]).contiguous().flatten(2).numpy() for part in (gain, offset)]
        planes, into = (part.view(-1, image[0, 0].numel()).numpy() for part in (image.contiguous(), out))
        run_loop(
            loop, len(planes) * -(-planes.shape[1] // _STRIP), _PIXELS // _STRIP, planes, *numbers, image.shape[1], _STRIP, into
        )
    return out


def replaced(image: Tensor, field: Tensor, share: Tensor, white: Tensor) -> Tensor:
    """The bytes, but 255 where the field is below ``white``, else 0 where it is below ``share``."""
    from pellucid.kernels.blend.cpu.light import replaced as loop

    out = in_large_pages(torch.empty_like(image, memory_format=torch.contiguous_format))
    if out.numel():
        pictures, into, fields = (part.flatten(1).numpy() for part in (image.contiguous(), out, field))
        numbers = _arrays(share.flatten(), white.flatten())
        run_loop(loop, len(pictures), _PIXELS // pictures.shape[1] + 1, pictures, fields, *numbers, into)
    return out


def snowed(image: Tensor, layer: Tensor, weights: Tensor, strength: Tensor, kept: float) -> Tensor:
    """See :func:`pellucid.kernels.blend.weather.snow`; for bytes, with float32 numbers."""
    from pellucid.kernels.blend.cpu.light import snowed as loop

    out = in_large_pages(torch.empty_like(image, memory_format=torch.contiguous_format))
    if out.numel():
        pictures, into, layers = (part.flatten(-2).numpy() for part in (image.contiguous(), out, layer))
        given = pictures, layers, *_arrays(weights, strength), np.float32(kept), _STRIP, into
        strips = len(pictures) * -(-pictures.shape[2] // _STRIP)
        run_loop(loop, strips, _PIXELS // _STRIP, *given, room=lambda: (np.empty(_STRIP, np.float32),))
    return out


def fallen(field: Tensor, density: Tensor, streak: Tensor) -> Tensor:
    """Streaks of light (b, 1, h, w) from a field (b, 1, h + k - 1, w + k - 1); see :func:`pellucid.kernels.blend.weather.rain`."""
    from pellucid.kernels.blend.cpu.light import fallen as loop

    around = streak.shape[-1] - 1
    out = field.new_empty((len(field), 1, field.shape[2] - around, field.shape[3] - around))
    given = field[:, 0].numpy(), *_arrays(density, streak), out[:, 0].numpy()
    run_loop(
        loop,
        len(out),
        _PIXELS // (field.shape[2] * field.shape[3]) + 1,
        *given,
        room=lambda: (np.empty((around + 1, 2), np.int64),),
    )
    return out
