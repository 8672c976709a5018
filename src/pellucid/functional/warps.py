"""Warping images through matrices, with gradients to everything.

Owns: `warp`, `elastic`, `warp_affine`, `warp_perspective`.
Must not: interpolate; the kernels do.
Read next: ``remap.py``.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple, TypeAlias, TypedDict, Unpack, overload

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from pellucid.errors import invalid
from pellucid.functional.fills import Factor, FillValue, read_fill, read_numbers
from pellucid.functional.images import CHANNELS_LAST, Layout, close_image, compute_dtype, join_batch, open_image, read_dtype
from pellucid.functional.matrices import MatrixLike, guarded, guarded_inverse, read_matrix
from pellucid.functional.opencv import INTERPOLATIONS, read_border, read_dsize, read_interpolation
from pellucid.functional.reaching import reached
from pellucid.kernels import warp as kernel
from pellucid.kernels.warp.footprint import longer_axis, steps_of
from pellucid.kernels.warp.taps import PADDING_MODES
from pellucid.transforms.base import as_size, check_choice, padding_named
from pellucid.types import Size

__all__ = ["CvOptions", "Wanted", "elastic", "warp", "warp_affine", "warp_perspective", "warped"]


class CvOptions(TypedDict, total=False):
    """The options that `warp_affine`, `warp_perspective` and `remap` share, for type checkers."""

    interpolation: str | int
    border_mode: str | int
    border_value: FillValue
    channels_last: bool | None
    antialias: bool | int
    gradient_scale: Factor
    image_gradient: str
    impl: str


class _MapOptions(CvOptions, total=False):
    inverse_map: bool


class _WarpOptions(TypedDict, total=False):
    interpolation: str
    padding_mode: str
    fill: FillValue
    displacement: Float[Tensor, "*b 2 h2 w2"] | np.ndarray[Any, Any] | None
    channels_last: bool | None
    antialias: bool | int
    gradient_scale: Factor
    image_gradient: str
    impl: str


_Matrices: TypeAlias = Tensor | MatrixLike


@overload
def warp(
    image: Tensor, src_from_dst: _Matrices, *, size: Size, return_coverage: Literal[False] = ..., **options: Unpack[_WarpOptions]
) -> Tensor: ...
@overload
def warp(
    image: Tensor, src_from_dst: _Matrices, *, size: Size, return_coverage: Literal[True], **options: Unpack[_WarpOptions]
) -> tuple[Tensor, Tensor]: ...
def warp(
    image: Shaped[Tensor, "..."],
    src_from_dst: Float[Tensor, "*b 3 3"] | MatrixLike,
    *,
    size: Size,
    interpolation: str = "bilinear",
    padding_mode: str = "zeros",
    fill: FillValue = 0.0,
    displacement: Float[Tensor, "*b 2 h2 w2"] | np.ndarray[Any, Any] | None = None,
    channels_last: bool | None = None,
    antialias: bool | int = False,
    gradient_scale: Factor = 0.0,
    image_gradient: str = "exact",
    impl: str = "auto",
    return_coverage: bool = False,
) -> Shaped[Tensor, "..."] | tuple[Shaped[Tensor, "..."], Float[Tensor, "..."]]:
    """Resample each image through its own homography and displacement field, with one interpolation.

    Output pixel p takes the value of the input at ``src_from_dst @ p`` (homogeneous, divided by the last coordinate), moved by
    ``displacement[:, p]``.

    Args:
        image: as in :func:`warp_affine`. 8-bit images are computed in float32 and rounded; other integers need ``nearest``.
        src_from_dst: output pixel to input pixel (pixel centres, x before y): a tensor, array or nested list, 3x3 or 2x3, one for
            all images or one for each. One image and B matrices give B results.
        size: (height, width) of the result.
        interpolation: ``bilinear``, ``nearest`` (floor(x + 0.5)), ``bicubic`` (Keys, a = -0.5) or ``bicubic_opencv`` (a = -0.75).
        padding_mode: ``zeros``, ``constant`` (shows ``fill``), ``border``, ``reflection``, ``reflect_101`` or ``wrap``.
        displacement: in input pixels, x then y: (2, H2, W2) for all images or (B, 2, H2, W2); elastic deformation, optical flow.
        antialias: average over all that an output pixel spans, so that every input pixel in sight counts and gets a gradient: the
            kernel is stretched over the pixel's own parallelogram, as a resize stretches it along the axes. True reads the
            largest span off the map (at most 16 input pixels; this waits for the device, and raises under torch.compile and vmap);
            a number, 1 to 64, is the bound of the span. Without effect on ``nearest``, and where an output pixel spans one.
        gradient_scale: pixels, from 0 to 16, a number or a tensor () or (B,): slopes to matrix and displacement are read from the
            image blurred by a Gaussian of this standard deviation, so that they see further; values stay sharp. See :func:`anneal`.
        image_gradient: ``exact``, or ``widened``: blurred by a Gaussian of one pixel, which reaches pixels that were not read.
        return_coverage: the result is a pair with the coverage, (1, H2, W2) or (B, 1, H2, W2): the share of each pixel that comes
            from the image, the rest from ``fill``. It is 1 where no fill shows; bicubic weights overshoot a little at the border.

    Returns:
        The warped image, in the dtype of ``image``; unbatched when neither image nor matrix nor displacement has a batch axis.
        The coverage is in float32, or float64 with such images.

    Gradient:
        image, fill: exact (the adjoint of the forward map). src_from_dst, displacement, also of the coverage: almost everywhere;
        one-sided where a sampling point lies on a pixel centre; none for ``nearest``. With ``gradient_scale`` or ``widened``:
        surrogate (blurred slopes; blurred gradient). Second order: ``impl="reference"``. Deterministic: yes, on CPU and CUDA. A
        matrix with a NaN or infinite entry shows ``fill`` everywhere and has zero gradient, such a displacement at its own pixel.

    Source:
        ``cv2.warpPerspective(..., WARP_INVERSE_MAP)`` and, to 1e-12 in float64, ``scipy.ndimage.map_coordinates``.

    Example:
        >>> image = torch.arange(4.0).reshape(1, 1, 4)
        >>> warp(image, [[1.0, 0, 0.5], [0, 1, 0], [0, 0, 1]], size=(1, 3))
        tensor([[[0.5000, 1.5000, 2.5000]]])
    """
    check_choice("interpolation", interpolation, INTERPOLATIONS)
    padding_mode = padding_named(padding_mode)
    check_choice("padding_mode", padding_mode, PADDING_MODES)
    pixels, layout = open_image(image, channels_last=channels_last, option=CHANNELS_LAST)
    matrix, batched = read_matrix("src_from_dst", src_from_dst, rows=(3, 2), device=pixels.device)
    matrix = guarded(matrix, compute_dtype(pixels.dtype))
    pixels, layout = join_batch(pixels, layout, "src_from_dst", matrix.shape[0], batched)
    size, field = as_size("size", size), None
    if displacement is not None:
        field, batched = _read_displacement(displacement, size, pixels)
        pixels, layout = join_batch(pixels, layout, "displacement", field.shape[0], batched)
    how = antialias, gradient_scale, image_gradient, impl, return_coverage
    return warped(pixels, layout, matrix, size, Wanted(interpolation, padding_mode, fill, *how), field)


def _read_displacement(value: Tensor | np.ndarray[Any, Any], size: Size, pixels: Tensor) -> tuple[Float[Tensor, "b 2 h2 w2"], bool]:
    expected = f"numbers of shape (2, {size[0]}, {size[1]}) or (B, 2, {size[0]}, {size[1]})"
    field = read_numbers("displacement", value, device=pixels.device, expected=expected)
    if field.dim() not in (3, 4) or field.shape[-3:] != (2, *size):
        raise invalid("displacement", expected=expected, got=f"shape {tuple(field.shape)}")
    return field.to(compute_dtype(pixels.dtype))[None if field.dim() == 3 else ...], field.dim() == 4


def elastic(
    image: Shaped[Tensor, "..."],
    displacement: Float[Tensor, "b_or_1 h w 2"],
    *,
    interpolation: str = "bilinear",
    fill: FillValue = 0.0,
    channels_last: bool | None = None,
    gradient_scale: Factor = 0.0,
    image_gradient: str = "exact",
    impl: str = "auto",
) -> Shaped[Tensor, "..."]:
    """Move pixels by a field, in torchvision's words.

    Args:
        image: as in :func:`warp_affine`.
        displacement: (1, H, W, 2) for all images or (B, H, W, 2), x then y, in halves of the image's width and height.
        interpolation: as in :func:`warp`.
        fill: as in :func:`warp`; torchvision blends it in once more where a sample is cut.

    Returns:
        The moved image, in the dtype of ``image``.

    Gradient:
        As :func:`warp`, whose ``displacement`` is in pixels.

    Source:
        ``torchvision.transforms.v2.functional.elastic``. `RandomElastic` draws a smooth field and stores none.

    Example:
        >>> elastic(torch.arange(4.0).reshape(1, 1, 4), torch.full((1, 1, 4, 2), 0.5) * torch.tensor([1.0, 0.0]))
        tensor([[[1., 2., 3., 0.]]])
    """
    if not isinstance(displacement, Tensor) or displacement.dim() != 4 or displacement.shape[-1] != 2:
        got = tuple(displacement.shape) if isinstance(displacement, Tensor) else type(displacement).__name__
        raise invalid("displacement", expected="a tensor (1, H, W, 2) or (B, H, W, 2)", got=got)
    height, width = displacement.shape[1:3]
    half = torch.tensor([width / 2.0, height / 2.0], dtype=displacement.dtype, device=displacement.device)
    field = (displacement * half).movedim(-1, 1)
    moved = field[0] if len(field) == 1 else field
    mode = "zeros" if isinstance(fill, int | float) and fill == 0 else "constant"
    still = torch.eye(3, dtype=displacement.dtype, device=displacement.device)
    how: dict[str, Any] = {"interpolation": interpolation, "padding_mode": mode, "fill": fill, "channels_last": channels_last}
    slopes: dict[str, Any] = {"gradient_scale": gradient_scale, "image_gradient": image_gradient, "impl": impl}
    return warp(image, still, size=(height, width), displacement=moved, **how, **slopes)


@overload
def warp_affine(
    image: Tensor, M: _Matrices, dsize: tuple[int, int], *, return_coverage: Literal[False] = ..., **options: Unpack[_MapOptions]
) -> Tensor: ...
@overload
def warp_affine(
    image: Tensor, M: _Matrices, dsize: tuple[int, int], *, return_coverage: Literal[True], **options: Unpack[_MapOptions]
) -> tuple[Tensor, Tensor]: ...
def warp_affine(
    image: Shaped[Tensor, "..."],
    M: Float[Tensor, "*b 2 3"] | MatrixLike,
    dsize: tuple[int, int],
    *,
    interpolation: str | int = "bilinear",
    border_mode: str | int = "constant",
    border_value: FillValue = 0.0,
    inverse_map: bool = False,
    channels_last: bool | None = None,
    antialias: bool | int = False,
    gradient_scale: Factor = 0.0,
    image_gradient: str = "exact",
    impl: str = "auto",
    return_coverage: bool = False,
) -> Shaped[Tensor, "..."] | tuple[Shaped[Tensor, "..."], Float[Tensor, "..."]]:
    """Warp through an affine map, as ``cv2.warpAffine``, with gradients to the image, the matrix and the border value.

    Args:
        image: (C, H, W) or (B, C, H, W), or with ``channels_last`` (H, W, C) or (B, H, W, C). 8-bit images are computed in float32
            and rounded; other integers need ``nearest``.
        M: a tensor, array or nested list of numbers, 2x3 or 3x3 (used whole), one for all images or one for each. It sends input
            pixels to output pixels (pixel centres, x before y). One image and B matrices give B results.
        dsize: (width, height) of the result.
        interpolation: ``nearest`` (floor(x + 0.5)), ``bilinear`` or ``linear``, ``bicubic`` (Keys, a = -0.5), ``bicubic_opencv``
            (a = -0.75), or OpenCV's flags, of which WARP_INVERSE_MAP counts and INTER_CUBIC means ``bicubic_opencv``.
        border_mode: ``constant``, ``replicate``, ``reflect`` (edge pixel repeated), ``reflect_101``, ``wrap``, or OpenCV's flag.
        border_value: the value outside under ``constant``, and where the map has no finite value: a number, one per channel, or a
            tensor (), (C,) or (B, C), in the image's units.
        inverse_map: M sends output pixels to input pixels instead.
        channels_last: the layout of ``image`` and of the result. By default channels stand first, and shapes that look otherwise
            raise; False takes any shape as channels first.
        antialias: average over all that an output pixel spans, as in :func:`warp`; OpenCV does not.
        gradient_scale: pixels by which the image is blurred before slopes to M are read from it, as in :func:`warp`.
        image_gradient: ``exact`` or ``widened``, as in :func:`warp`.
        return_coverage: the result is a pair with the coverage, as in :func:`warp`: one channel, in the layout of the image.

    Returns:
        The warped image, in the dtype of ``image``; unbatched when neither image nor M has a batch axis.

    Gradient:
        image, border_value: exact. M: almost everywhere, through the inverse; one-sided where a sampling point lies on a pixel
        centre; none for ``nearest``. With ``gradient_scale`` or ``widened``: surrogate, as in :func:`warp`. Second order:
        ``impl="reference"``. Deterministic: yes. A singular M (unless ``inverse_map``)
        and one with a NaN or infinite entry show ``border_value`` everywhere, have zero gradient, and leave other samples alone.

    Source:
        ``cv2.warpAffine``, whose float32 results agree to 1e-5 of the range (OpenCV 5); ``nearest`` follows our rounding rule.

    Example:
        >>> image = torch.tensor([[[1.0, 2.0, 3.0]]])
        >>> warp_affine(image, [[1, 0, 1], [0, 1, 0]], (3, 1), border_value=9.0)
        tensor([[[9., 1., 2.]]])
    """
    mode, inverse = read_interpolation(interpolation)
    how = antialias, gradient_scale, image_gradient, impl, return_coverage, "border_value"
    wanted = Wanted(mode, read_border(border_mode), border_value, *how)
    return _through(image, M, (2, 3), read_dsize(dsize), inverse_map or inverse, channels_last, wanted)


@overload
def warp_perspective(
    image: Tensor, M: _Matrices, dsize: tuple[int, int], *, return_coverage: Literal[False] = ..., **options: Unpack[_MapOptions]
) -> Tensor: ...
@overload
def warp_perspective(
    image: Tensor, M: _Matrices, dsize: tuple[int, int], *, return_coverage: Literal[True], **options: Unpack[_MapOptions]
) -> tuple[Tensor, Tensor]: ...
def warp_perspective(
    image: Shaped[Tensor, "..."],
    M: Float[Tensor, "*b 3 3"] | MatrixLike,
    dsize: tuple[int, int],
    *,
    interpolation: str | int = "bilinear",
    border_mode: str | int = "constant",
    border_value: FillValue = 0.0,
    inverse_map: bool = False,
    channels_last: bool | None = None,
    antialias: bool | int = False,
    gradient_scale: Factor = 0.0,
    image_gradient: str = "exact",
    impl: str = "auto",
    return_coverage: bool = False,
) -> Shaped[Tensor, "..."] | tuple[Shaped[Tensor, "..."], Float[Tensor, "..."]]:
    """Warp through a homography, as ``cv2.warpPerspective``, with gradients to the image, the matrix and the border value.

    Args:
        image: as in :func:`warp_affine`.
        M: as in :func:`warp_affine`, 3x3; any multiple of it is the same map.
        dsize: (width, height) of the result.
        interpolation: as in :func:`warp_affine`.
        inverse_map: as in :func:`warp_affine`.
        antialias: as in :func:`warp`.
        return_coverage: as in :func:`warp_affine`.

    Returns:
        The warped image, in the dtype of ``image``.

    Gradient:
        as :func:`warp_affine`. Output pixels on the horizon of the map show ``border_value``.

    Source:
        ``cv2.warpPerspective``.

    Example:
        >>> image = torch.tensor([[[1.0, 2.0, 3.0]]])
        >>> warp_perspective(image, [[2, 0, 2], [0, 2, 0], [0, 0, 2]], (3, 1))
        tensor([[[0., 1., 2.]]])
    """
    mode, inverse = read_interpolation(interpolation)
    how = antialias, gradient_scale, image_gradient, impl, return_coverage, "border_value"
    wanted = Wanted(mode, read_border(border_mode), border_value, *how)
    return _through(image, M, (3,), read_dsize(dsize), inverse_map or inverse, channels_last, wanted)


class Wanted(NamedTuple):
    """The options of a warp, besides its map."""

    interpolation: str
    padding_mode: str
    fill: FillValue
    antialias: bool | int = False
    gradient_scale: Factor = 0.0
    image_gradient: str = "exact"
    impl: str = "auto"
    return_coverage: bool = False
    fill_name: str = "fill"


def _through(
    image: Tensor,
    M: Tensor | MatrixLike,
    rows: tuple[int, ...],
    size: Size,
    inverse: bool,
    channels_last: bool | None,
    wanted: Wanted,
) -> Tensor | tuple[Tensor, Tensor]:
    """Warp by a matrix that sends input pixels to output pixels, or with ``inverse`` output pixels to input pixels."""
    pixels, layout = open_image(image, channels_last=channels_last, option=CHANNELS_LAST)
    matrix, batched = read_matrix("M", M, rows=rows, device=pixels.device)
    src_from_dst = (guarded if inverse else guarded_inverse)(matrix, compute_dtype(pixels.dtype))
    pixels, layout = join_batch(pixels, layout, "M", matrix.shape[0], batched)
    return warped(pixels, layout, src_from_dst, size, wanted)


def warped(
    pixels: Shaped[Tensor, "b c h w"],
    layout: Layout,
    src_from_dst: Float[Tensor, "b_or_1 2_or_3 3"],
    size: Size,
    wanted: Wanted,
    field: Float[Tensor, "b_or_1 2 h2 w2"] | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """Run the kernel and return to the caller's layout, the end of every warp; the coverage is a warp of ones with fill 0."""
    pixels, layout, slopes = reached(pixels, layout, wanted.gradient_scale, wanted.image_gradient)
    footprint = read_antialias(wanted.antialias, src_from_dst, field, size, wanted.interpolation)

    def read(pixels: Tensor, layout: Layout, fill: FillValue) -> Tensor:
        dtype, like = read_dtype(pixels, wanted.interpolation)
        resample = kernel.pack(
            src_from_dst,
            size=size,
            interpolation=wanted.interpolation,
            padding_mode=wanted.padding_mode,
            fill=read_fill(wanted.fill_name, fill, channels=pixels.shape[1], batch=pixels.shape[0], like=like),
            field=field,
            footprint=footprint,
            dtype=dtype,
            levels=True,
            slopes=slopes,
        )
        return close_image(kernel.warp(pixels, resample, impl=wanted.impl), layout)

    out = read(pixels, layout, wanted.fill)
    if not wanted.return_coverage:
        return out
    ones = pixels.new_ones((1, 1, 1, 1), dtype=compute_dtype(pixels.dtype)).expand(len(pixels), 1, *pixels.shape[-2:])
    return out, read(ones, layout._replace(dtype=ones.dtype), 0.0)


_MOST = 64
_LOOKED_UP = 16  # the bound under True: at the horizon of a homography the span of a pixel has none


def read_antialias(
    value: bool | int,
    src_from_dst: Float[Tensor, "#b _ 3"],
    field: Float[Tensor, "#b 2 h2 w2"] | None,
    size: Size,
    interpolation: str,
) -> Size | None:
    """``antialias`` as the bound of a footprint, vertical and horizontal; None where every output pixel spans one pixel at most.

    Args:
        value: True looks at the map's numbers, which ends a trace; a number is the bound itself.
        src_from_dst, field: where output pixels lie in the input.
        size: (height, width) of the output.
        interpolation: nearest is never antialiased.

    Errors:
        ``InvalidArgument`` for another value, and for True where a trace or a ``vmap`` hides the numbers.
    """
    if not isinstance(value, int) or not 0 <= value <= _MOST:
        bound = f"a bound, whole input pixels per output pixel from 1 to {_MOST}"
        raise invalid("antialias", expected=f"True, False, or {bound}", got=repr(value))
    if value is False or interpolation == "nearest":
        return None
    if value is True:
        if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
            expected = "a bound under torch.compile and vmap, which hide the map's numbers"
            fix = "With antialias=4, for instance, an output pixel spans at most four input pixels along an axis."
            raise invalid("antialias", expected=expected, got="True", fix=fix)
        with torch.no_grad():
            lengths = longer_axis(steps_of(src_from_dst, field, size))
            longest = float(lengths.amax()) if lengths.numel() else 1.0
        value = min(math.ceil(longest - 1e-6), _LOOKED_UP)
    return (value, value) if value > 1 else None
