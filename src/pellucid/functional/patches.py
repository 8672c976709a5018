"""Patches: a small picture for every frame, with gradients to the image and to the frames.

Owns: `extract_patches` and `patch_coverage`: checks, how far each frame blurs, frames that are not finite, and padding.
Must not: interpolate; the kernels do.
Read next: ``../kernels/patches/reference.py``.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.core.constants import constant
from pellucid.errors import invalid, wrong_type
from pellucid.functional.fills import Factor
from pellucid.functional.reaching import read_scale
from pellucid.kernels.patches import patches as kernel
from pellucid.kernels.patches.layout import most_levels
from pellucid.transforms.base import as_size, check_choice
from pellucid.types import Size

__all__ = ["BLUR", "check_frames", "extract_patches", "patch_coverage"]

BLUR = 0.8
"""Standard deviation of the antialiasing blur, in distances between samples."""

_FAR = 1e18  # beyond this the square of a number overflows float32


def extract_patches(
    image: Float[Tensor, "b c h w"],
    frames: Float[Tensor, "b n 2 3"],
    size: int | Size = 32,
    *,
    antialias: bool = True,
    blur: float = BLUR,
    padding_mode: str = "border",
    gradient_scale: Factor = 0.0,
    impl: str = "auto",
) -> Float[Tensor, "b n c h2 w2"]:
    """Cut a patch out of the image for every local affine frame.

    Cell (i, j) of a patch shows the image at ``frame @ (u_j, v_i, 1)``, with u_k = (2 k + 1) / n - 1. Where samples are more than
    one pixel apart the image is blurred first, from a pyramid whose levels are blended smoothly: neither the value nor its
    derivative jumps when a frame grows.

    Args:
        image: floating point.
        frames: where the patches lie, see ``../features/frames.py``; N may be 0.
        size: a patch's (height, width), or its side.
        antialias: False reads the image itself, however far apart the samples are.
        blur: standard deviation of the antialiasing blur where samples are many pixels apart, in distances between samples. The
            distance is the root mean square over the frame's two directions: exact for a similarity, 12 % above the geometric mean
            for a tilt of 2.
        padding_mode: outside the image ``border`` repeats its border pixels, ``zeros`` fades to zero over one sample.
        gradient_scale: pixels of the image, from 0 to 16, a number or a tensor () or (B,): slopes to frames are read from the image
            blurred by a Gaussian of this standard deviation.
        impl: ``auto``, ``reference`` or ``cpu``.

    Returns:
        Patches in the dtype of ``image``. A frame with an entry that is not finite gives a patch of zeros.
        :func:`frames_inside` tells which patches lie in the image, :func:`patch_coverage` how much of each sample does.

    Gradient:
        image: exact. frames: almost everywhere, one-sided where a sample lies on a pixel centre of its level; it includes how the
        blur changes with the scale. With ``gradient_scale``: surrogate (blurred slopes). A frame that is not
        finite has zero gradient and leaves the others alone. Second order: ``impl="reference"``. Deterministic: yes.

    Errors:
        ``InvalidArgument`` and ``InvalidType`` for shapes, dtypes and options that do not fit.

    Source:
        ``scipy.ndimage.correlate1d`` and ``map_coordinates`` level by level, to 1e-12; how close that is to a Gaussian is in
        docs/patches.md.

    Example:
        >>> from pellucid.features import extract_patches, frames_from_xy
        >>> image = torch.arange(64.0).reshape(1, 1, 8, 8)
        >>> extract_patches(image, frames_from_xy(torch.tensor([[[3.5, 2.5]]]), 1.0), 2)
        tensor([[[[[19., 20.],
                   [27., 28.]]]]])
    """
    _check(image, frames, blur)
    check_choice("padding_mode", padding_mode, ("border", "zeros"))
    height, width = as_size("size", size)
    dtype = torch.promote_types(torch.promote_types(image.dtype, frames.dtype), torch.float32)
    usable = (frames.abs() < _FAR).all(-1).all(-1)  # b n; False for NaN
    away = frames.new_zeros(2, 3)
    frames = torch.where(usable[..., None, None], frames, away).to(dtype)
    span = _span(frames, (height, width), blur if antialias else 0.0)
    levels = most_levels(image.shape[-2], image.shape[-1]) if antialias and blur > 0 else 1
    slopes, _ = read_scale(gradient_scale, image.device)
    if slopes is not None and slopes.shape[0] not in (1, image.shape[0]):
        raise invalid("gradient_scale", expected=f"1 or {image.shape[0]} of them, as there are images", got=slopes.shape[0])
    out = kernel(image.to(dtype), frames, span, size=(height, width), levels=levels, slopes=slopes, impl=impl)
    if padding_mode == "zeros":
        out = out * _coverage(frames, span, (image.shape[-2], image.shape[-1]), (height, width))
    return torch.where(usable[..., None, None, None], out, 0.0).to(image.dtype)


def patch_coverage(
    frames: Float[Tensor, "*b 2 3"], image_size: Size, size: int | Size = 32, *, blur: float = BLUR
) -> Float[Tensor, "*b 1 h2 w2"]:
    """How much of each sample of a patch the image covers, 0 to 1; its mean is the share of the patch that is inside.

    Args:
        frames: image_from_patch.
        image_size: (height, width) of the image.
        size: a patch's (height, width), or its side.
        blur: as for :func:`extract_patches`: it sets how gently the border fades for large frames.

    Returns:
        Coverage; ``extract_patches(..., padding_mode="zeros")`` is the ``border`` patch times this. 0 for frames that are not
        finite.
    Gradient:
        frames: exact almost everywhere.

    Errors:
        InvalidArgument for frames of another shape; InvalidType for sizes that are none.

    Example:
        >>> from pellucid.features import frames_from_xy, patch_coverage
        >>> patch_coverage(frames_from_xy(torch.tensor([[-0.5, 16.0]]), 8.0), (32, 32), 8).mean()  # half of it is outside
        tensor(0.5000)
    """
    check_frames("frames", frames)
    size = as_size("size", size)
    usable = (frames.abs() < _FAR).all(-1).all(-1)[..., None, None]
    frames = torch.where(usable, frames, 0.0)
    return torch.where(
        usable[..., None], _coverage(frames, _span(frames, size, blur), as_size("image_size", image_size), size), 0.0
    )


def check_frames(name: str, frames: object) -> None:
    """Raise unless this is a floating-point tensor of frames."""
    if not isinstance(frames, Tensor):
        raise wrong_type(name, expected="a tensor of frames", got=type(frames).__name__, fix="frames_from_xy() makes one.")
    if frames.dim() < 2 or frames.shape[-2:] != (2, 3):
        raise invalid(name, expected="shape (..., 2, 3)", got=tuple(frames.shape), fix="frames_from_xy() makes frames from points.")
    if not frames.dtype.is_floating_point:
        raise wrong_type(name, expected="floating-point numbers", got=frames.dtype)


def _span(frames: Float[Tensor, "*b 2 3"], size: Size, blur: float) -> Float[Tensor, "*b"]:
    """The ``span`` of each frame, at least 1: the pyramid blurs by a variance of (span - 1) / 3, here blur^2 (distance^2 - 1).

    distance^2 is the mean of the frame's two squared distances between samples, a polynomial: the only kink is at distance 1.
    """
    steps = frames[..., :2].square().sum(-2) * constant(
        (4.0 / size[1] ** 2, 4.0 / size[0] ** 2), frames.dtype, frames.device
    )  # *b 2
    beyond = steps.mean(-1) - 1.0
    return 1.0 + 3.0 * blur**2 * torch.where(beyond > 0, beyond, 0.0)


def _coverage(frames: Tensor, span: Tensor, image_size: Size, size: Size) -> Float[Tensor, "*b 1 h2 w2"]:
    """The product of a ramp at each edge of the image, as wide as a pixel of the blurred image, and one half at the edge."""
    ramp = torch.sqrt(span)[..., None, None]
    v, u = ((2.0 * torch.arange(n, dtype=frames.dtype, device=frames.device) + 1.0) / n - 1.0 for n in size)
    m = frames[..., None, None]  # *b 2 3 1 1
    total: Tensor | None = None
    for axis, length in ((0, image_size[1]), (1, image_size[0])):
        at = m[..., axis, 0, :, :] * u + (m[..., axis, 1, :, :] * v[:, None] + m[..., axis, 2, :, :])  # *b h2 w2
        for distance in (at + 0.5, length - 0.5 - at):
            part = distance / ramp + 0.5
            part = torch.where(part > 0, torch.where(part < 1, part, 1.0), 0.0)
            total = part if total is None else total * part
    assert total is not None
    return total.unsqueeze(-3)


def _check(image: object, frames: object, blur: float) -> None:
    if not isinstance(image, Tensor):
        raise wrong_type("image", expected="a tensor", got=type(image).__name__)
    if image.dim() != 4 or min(image.shape[1:]) < 1:
        raise invalid("image", expected="(B, C, H, W)", got=tuple(image.shape), fix="A single picture is image[None].")
    if not image.dtype.is_floating_point:
        raise wrong_type("image", expected="floating-point pixels", got=image.dtype, fix="image / 255 makes them of 8-bit ones.")
    check_frames("frames", frames)
    assert isinstance(frames, Tensor)
    if frames.dim() != 4 or frames.shape[0] != image.shape[0]:
        expected = f"(B, N, 2, 3) with B = {image.shape[0]}, as there are {image.shape[0]} images"
        raise invalid("frames", expected=expected, got=tuple(frames.shape))
    if frames.device != image.device:
        raise invalid("frames", expected=f"a tensor on {image.device}, as the image", got=str(frames.device))
    if not 0 <= blur < float("inf"):
        raise invalid("blur", expected="a number of sample distances, not negative", got=blur)
