"""Apply one segment as a pass of its own, to the samples that it changes.

Owns: which kernel computes a segment, its gate, and its numbers in the image's dtype.
Must not: know of plans, or of the passes before and after.
Read next: ``../kernels/blend/__init__.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, reduce
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from pellucid.core.constants import compute_dtype
from pellucid.core.slabs import by_slabs
from pellucid.core.tape import is_plain_eager
from pellucid.kernels import blend, codec, color, convolve, curve
from pellucid.kernels.blend.grain import OF_BYTES, grained
from pellucid.kernels.called import called
from pellucid.kernels.conversion import as_bytes, as_colors
from pellucid.kernels.derivatives import needs_grad
from pellucid.kernels.explicit import implementation
from pellucid.kernels.pixels import in_planes
from pellucid.segments import (
    Call,
    Codec,
    ColorSteps,
    Convolve,
    Curve,
    Filter,
    Grain,
    Hsv,
    Median,
    Noise,
    Patch,
    Segment,
    SegmentSpec,
    Sharpen,
    Tone,
)

__all__ = [
    "apply_alone", "apply_open", "apply_single", "bend_of", "compute_dtype", "heavy_taps", "in_units", "look_up", "mixed", "paint",
    "patch_value", "reads_bytes",
]  # fmt: skip

_LEVELS = 256  # the number of byte levels: for more pixels, a table of all levels is less work
_FAINT = 2.0**-30  # of weights whose sum is 1: on fractions of 255, what lighter taps add is too small for float32 to show
_LARGE = 65536  # bytes of a sample: from here on, stacking whole samples takes less time than `index_copy`


def in_units(image: Tensor) -> Tensor:
    """Return images in the dtype of the arithmetic, bytes as fractions of 255."""
    return as_colors(image, compute_dtype(image.dtype))


def reads_bytes(segment: Segment, image: Tensor, impl: str) -> bool:
    """Return whether a segment's kernel maps bytes to bytes directly, with the same result as by way of floating-point numbers."""
    known = isinstance(segment, Codec | Filter | Median | Sharpen) or (isinstance(segment, Grain) and segment.law in OF_BYTES)
    known |= (isinstance(segment, Convolve) and segment.amount is None) or (isinstance(segment, Hsv) and image.shape[1] == 3)
    return known and implementation(impl, image.device) == "cpu" and _whole(getattr(segment, "gate", None))


def _whole(gate: Tensor | None) -> bool:
    """Return whether every gate is 0 or 1."""
    return gate is None or bool(((gate == 0) | (gate == 1)).all())


def look_up(
    segment: Segment, spec: SegmentSpec | None, image: Tensor, scale: float, impl: str, dtype: torch.dtype
) -> Tensor | None:
    """Apply a segment to bytes by a lookup table, with a result in uint8 or float32; None if the segment is no table."""
    if impl == "reference" or image.dtype != torch.uint8 or dtype not in (torch.uint8, torch.float32):
        return None
    bend = bend_of(segment)
    if bend is not None:
        return curve.tone_of_bytes(image, bend, dtype)
    if not getattr(spec, "tabled", False) or image.shape[2] * image.shape[3] <= _LEVELS:
        return None
    return curve.tabled(image, lambda levels: as_bytes(apply_open(segment, in_units(levels), scale, impl), dtype))


def bend_of(segment: Segment) -> curve.Bend | None:
    """Return a segment as a curve of levels; None if it is not one."""
    if isinstance(segment, Curve):
        return curve.bend_of("power", segment.exponent, None, segment.gain, clip=segment.clip)
    return curve.bend_of(segment.name, segment.amount, segment.gate) if isinstance(segment, Tone) else None


def apply_alone(
    segment: Segment, image: Tensor, scale: float, impl: str, dtype: torch.dtype, depth: int = 0, *, taped: bool = True
) -> Tensor:
    """Apply one segment as a pass; the result has this dtype. ``taped``: no gradient is needed and nothing traces."""
    image = in_planes(image)
    if taped and image.dtype == dtype == torch.uint8 and reads_bytes(segment, image, impl):
        return apply_open(segment, image, scale, impl)
    if taped and dtype == torch.uint8 and isinstance(segment, Convolve | Grain):
        segment = segment._replace(clip=False)  # rounding to bytes clips to [0, 1] anyway
    return as_bytes(apply_open(segment, in_units(image), scale, impl, depth), dtype)


def apply_open(segment: Segment, image: Tensor, scale: float, impl: str, depth: int = 0) -> Tensor:
    """Apply one segment to the samples that it changes only, if gates can be read cheaply and the others need no gradient.

    The slices of volumes (``depth`` of them) lie one below another.
    """
    segment = _wide_open(segment) if is_plain_eager() else segment
    active = _active(segment, image) if is_plain_eager() else None
    if active is None or not active.is_cpu or len(active) != len(image):
        return apply_single(segment, image, scale, impl, depth)
    rows = active.nonzero().squeeze(1)
    if len(rows) == len(image):
        return apply_single(segment, image, scale, impl, depth)
    if not len(rows):
        return image.clone()
    chosen = _wide_open(type(segment)(*(_rows(part, rows) for part in segment)))
    return _with_rows(image, rows, apply_single(chosen, image.index_select(0, rows), scale, impl, depth))


def _with_rows(image: Tensor, rows: Int64[Tensor, "n"], changed: Tensor) -> Tensor:
    """Replace some samples by others. `index_copy` moves number by number, which is slow where samples are large."""
    if image[0].nbytes < _LARGE:
        return image.index_copy(0, rows, changed)
    samples = list(image.unbind())
    for row, sample in zip(rows.tolist(), changed.unbind(), strict=True):
        samples[row] = sample
    return torch.stack(samples)


def _wide_open(segment: Segment) -> Segment:
    """Drop a gate that is 1 for all samples and needs no gradient: mixing would read the image once more."""
    gate: Tensor | None = getattr(segment, "gate", None)
    if gate is None or not gate.is_cpu or needs_grad(gate) or not bool((gate == 1).all()):
        return segment
    return segment._replace(gate=None)  # type: ignore[call-arg]  # a segment that has one


def _active(segment: Segment, image: Tensor) -> Tensor | None:
    """Return which samples a segment changes; None if that is not known, or if the deciding numbers need a gradient."""
    clips = isinstance(segment, Noise | Grain) and segment.clip and image.dtype != torch.uint8  # clips closed samples, too
    if isinstance(segment, Call) or clips:
        return None
    if isinstance(segment, Patch | Median) or (isinstance(segment, Tone) and segment.name in curve.KINDS):  # their kernels check
        return None
    gate: Tensor | None = getattr(segment, "gate", None)
    asked, active = [] if gate is None else [gate], gate
    if isinstance(segment, Noise):
        asked, active = [segment.mean, segment.sigma], (segment.mean != 0) | (segment.sigma != 0)
    elif isinstance(segment, Convolve) and segment.amount is None:
        asked = [kernel for kernel in (segment.vertical, segment.horizontal, segment.through) if kernel is not None]
        active = reduce(torch.logical_or, map(_spreads, asked))
    return None if any(part.requires_grad for part in asked) else active


def _spreads(kernel: Float[Tensor, "b k"]) -> Tensor:
    """Return whether a convolution kernel is other than the identity."""
    middle = kernel.shape[1] // 2
    return (kernel[:, middle] != 1) | (kernel.count_nonzero(1) > 1)


def _rows(part: Any, rows: Tensor) -> Any:
    """Select a segment's numbers for some samples; numbers that all samples share, and other values, stay unchanged."""
    if isinstance(part, tuple):
        return tuple(_rows(each, rows) for each in part)
    return part[rows] if isinstance(part, Tensor) and len(part) > 1 else part


class _How(NamedTuple):
    """How a segment is applied, besides its own numbers.

    Args:
        dtype: of the arithmetic.
        gate: of each sample, in that dtype; None if the segment has none.
        scale: 255 for images that were bytes, or that the kernel reads as bytes.
        impl: which implementation computes.
        depth: the number of slices of a volume, which lie one below another; 0 for pictures.
    """

    dtype: torch.dtype
    gate: Tensor | None
    scale: float
    impl: str
    depth: int


def apply_single(segment: Segment, image: Tensor, scale: float, impl: str, depth: int = 0) -> Tensor:
    """Apply one segment to all samples by the function that `_APPLY` has for its kind; ``scale`` and ``depth`` as in `_How`."""
    dtype = compute_dtype(image.dtype)
    gate: Tensor | None = getattr(segment, "gate", None)
    return _APPLY[type(segment)](segment, image, _How(dtype, None if gate is None else gate.to(dtype), scale, impl, depth))


def _jittered(segment: ColorSteps, image: Tensor, how: _How) -> Tensor:
    factors = {name: factor.to(how.dtype) for name, factor in segment.factors.items()}
    return color.jitter_steps(image, segment.order, factors, impl=how.impl)


def _convolved(segment: Convolve, image: Tensor, how: _How) -> Tensor:
    """Blur, or add to the image what a blur takes away from it."""
    blurred = _blurred(segment, image, how)
    if segment.amount is None:
        return blurred
    result = image + segment.amount.to(how.dtype)[:, None, None, None] * (image - blurred)
    return color.clip(result) if segment.clip else result


def _filtered(segment: Filter, image: Tensor, how: _How) -> Tensor:
    result = convolve.dense(image, segment.kernel.to(how.dtype), impl=how.impl)
    return color.clip(result) if segment.clip and result.dtype == how.dtype else result


def _smoothed(segment: Median, image: Tensor, how: _How) -> Tensor:
    return convolve.median(image, segment.taps, how.gate, impl=how.impl)


def _sharpened(segment: Sharpen, image: Tensor, how: _How) -> Tensor:
    return convolve.interior(image, segment.kernel.to(how.dtype), clip=segment.clip, impl=how.impl)


def _toned(segment: Tone, image: Tensor, how: _How) -> Tensor:
    amount = None if segment.amount is None else segment.amount.to(how.dtype)
    slopes: dict[str, Any] = {"image_gradient": segment.image_gradient, "surrogate": segment.surrogate, "h": segment.h}
    options: dict[str, Any] = {"scale": how.scale, "tiles": segment.tiles, "impl": how.impl}
    return curve.tone(image, segment.name, amount, how.gate, **options, **slopes)


def _curved(segment: Curve, image: Tensor, how: _How) -> Tensor:
    exponent, gain = segment.exponent.to(how.dtype), segment.gain.to(how.dtype)
    return curve.power(image, exponent, gain, clip=segment.clip, impl=how.impl)


def _called(segment: Call, image: Tensor, how: _How) -> Tensor:
    return mixed(called(segment.function, image, segment.image_gradient), image, how.gate)


def _shifted(segment: Hsv, image: Tensor, how: _How) -> Tensor:
    hue, saturation, value = (part.to(how.dtype) for part in segment[:3])
    return color.shift_hsv(image, hue, saturation, value, how.gate, impl=how.impl)


def _compressed(segment: Codec, image: Tensor, how: _How) -> Tensor:
    if image.dtype == torch.uint8:
        return codec.compress(image, segment.quality.to(how.dtype), segment.subsampling, how.impl)
    slopes: dict[str, Any] = {"image_gradient": segment.image_gradient, "h": segment.h, "surrogate": "secant"}
    return codec.jpeg(image, segment.quality, how.gate, subsampling=segment.subsampling, impl=how.impl, **slopes)


def _noisy(segment: Noise, image: Tensor, how: _How) -> Tensor:
    mean, sigma = segment.mean.to(how.dtype), segment.sigma.to(how.dtype)
    return blend.noise(image, segment.words, mean, sigma, clip=segment.clip, impl=how.impl)


def _grainy(segment: Grain, image: Tensor, how: _How) -> Tensor:
    result = grained(segment, image * how.scale if segment.law == "labels" else image, how.impl)
    if image.dtype == torch.uint8:
        return result
    result = mixed(result, image, how.gate)
    return color.clip(result) if segment.clip else result


def _patched(segment: Patch, image: Tensor, how: _How) -> Tensor:
    return blend.patch(image, segment.box.to(how.dtype), patch_value(segment, image, how.impl), impl=how.impl)


def _blurred(segment: Convolve, image: Tensor, how: _How) -> Tensor:
    """Blur pictures along both axes; volumes also through the slices, with a kernel of its own or that of the columns."""
    vertical, horizontal = (heavy_taps(part, how.scale).to(how.dtype) for part in (segment.vertical, segment.horizontal))
    blur = partial(convolve.separable, impl=how.impl)
    if not how.depth:
        return blur(image, vertical, horizontal)
    slices = image.unflatten(2, (how.depth, -1)).flatten(1, 2)  # as channels
    planes = blur(slices, vertical, horizontal).unflatten(1, (-1, how.depth)).transpose(2, 3)  # b c h d w
    through = vertical if segment.through is None else segment.through.to(how.dtype)

    def along(part: slice) -> Tensor:
        columns = planes[:, :, part].transpose(2, 3)
        blurred = blur(columns.flatten(3), through, vertical.new_ones(1, 1))
        return blurred.unflatten(3, columns.shape[3:]).transpose(2, 3)

    return by_slabs(along, planes, through, into=planes).transpose(2, 3).reshape(image.shape)


def heavy_taps(taps: Any, scale: float) -> Any:
    """Return a kernel without the taps that pictures of bytes do not show; a tensor, whose gradient is kept, or an array."""
    return taps if scale != 255.0 or (isinstance(taps, Tensor) and needs_grad(taps)) else taps * (abs(taps) >= _FAINT)


_APPLY: Mapping[type[Any], Callable[[Any, Tensor, _How], Tensor]] = {
    ColorSteps: _jittered,
    Convolve: _convolved,
    Filter: _filtered,
    Median: _smoothed,
    Sharpen: _sharpened,
    Tone: _toned,
    Curve: _curved,
    Call: _called,
    Hsv: _shifted,
    Codec: _compressed,
    Noise: _noisy,
    Grain: _grainy,
    Patch: _patched,
}
"""By kind of segment, what applies it to all samples, by its gate where it has one."""


def paint(patch: Patch, out: Tensor, impl: str) -> Tensor:
    """Paint rectangles over pictures in place, without a gradient; the caller owns the pictures."""
    if out.numel():
        blend.paint(out, patch.box.to(compute_dtype(out.dtype)), patch_value(patch, out, impl))
    return out


def mixed(result: Tensor, image: Tensor, gate: Tensor | None) -> Tensor:
    """Return the result for samples whose gate is open, and the image for the others."""
    if gate is None:
        return result
    gate = gate[:, None, None, None]
    return gate * result + (1.0 - gate) * image


def patch_value(segment: Patch, image: Tensor, impl: str) -> Tensor:
    """Return the content of rectangles: colours, or noise for every pixel."""
    dtype = compute_dtype(image.dtype)
    if segment.value is not None:
        return segment.value.to(dtype)
    assert segment.words is not None
    return blend.gaussian_field(segment.words, (image.shape[1], image.shape[2], image.shape[3]), dtype, impl=impl)
