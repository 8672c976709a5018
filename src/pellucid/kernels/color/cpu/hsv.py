"""Hue, saturation and value changed by addition, strip by strip, forward and backward.

Owns: the strips that go through the printed stage, its gate, and the sums that make the gradients of its numbers.
Must not: know of tensors; everything comes as contiguous arrays.
Read next: ``../passes.py``.
"""

from pellucid.kernels.curve.cpu.rows import mixed
from pellucid.kernels.jit import entry, fused
from pellucid.kernels.levels import units
from pellucid.kernels.narrow import steps
from pellucid.kernels.stages.printed.hsv import gated_hsv_backward
from pellucid.kernels.stages.printed.hsv import hsv as shift
from pellucid.kernels.stages.sums import copy, row_sum

__all__ = ["hsv", "hsv_backward"]


@fused
def _strip(image, first, length):  # type: ignore[no-untyped-def]
    """The channels of a strip, each known to be contiguous."""
    last = min(first + length, image.shape[1])
    return image[0, first:last], image[1, first:last], image[2, first:last]


@entry
def hsv(images, numbers, length, unit, out, room, start, stop):  # type: ignore[no-untyped-def]
    """Strips of ``length`` pixels; strip s belongs to sample s // (strips per sample).

    Args:
        images, out: (batch, 3, pixels), numbers or bytes.
        numbers: (batch or 1, 3 or 4): added to hue, saturation and value; and the gate, where there is one.
        unit: 1 / 255 for bytes, 1 for others.
        room: scratch (2, 3, length): the strip before and after.
    """
    pixels = images.shape[2]
    strips = (pixels + length - 1) // length
    for s in range(start, stop):
        i = s // strips
        first, row = (s - i * strips) * length, numbers[i % len(numbers)]
        x, y = _strip(images[i], first, length), _strip(out[i], first, length)
        before, after = _strip(room[0], 0, len(y[0])), _strip(room[1], 0, len(y[0]))
        for c in range(3):
            units(x[c], unit, before[c])
        shift(row[0], row[1], row[2], before, after)
        for c in range(3):
            if len(row) == 4:
                mixed(row[3], before[c], after[c])
            copy(after[c], steps(y[c]))


@entry
def hsv_backward(grad, images, numbers, length, into, sums, scratch, start, stop):  # type: ignore[no-untyped-def]
    """Gradients of strips, and of their numbers: (strips, 4) float64. scratch: (4, length)."""
    pixels = images.shape[2]
    strips = (pixels + length - 1) // length
    for s in range(start, stop):
        i = s // strips
        first, row = (s - i * strips) * length, numbers[i % len(numbers)]
        g, x, y = _strip(grad[i], first, length), _strip(images[i], first, length), _strip(into[i], first, length)
        n = len(x[0])
        gate = row[3] if len(row) == 4 else images.dtype.type(1.0)
        along = scratch[0, :n], scratch[1, :n], scratch[2, :n], scratch[3, :n]
        gated_hsv_backward(row[0], row[1], row[2], gate, x, g, along, y)
        for k in range(4):
            sums[s, k] = row_sum(scratch[k, :n])
