"""Flips, rotations, and affine maps given by their parameters.

Owns: `horizontal_flip`, `vertical_flip`, `rotate`, `affine`.
Must not: build matrices by hand; ``geometry.matrices`` does.
Read next: ``colors.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from pellucid.core.arguments import is_number
from pellucid.core.constants import wide_dtype
from pellucid.core.formerly import formerly
from pellucid.errors import invalid
from pellucid.functional.fills import Factor, FillValue, read_factor, read_numbers
from pellucid.functional.images import CHANNELS_LAST, close_image, compute_dtype, join_batch, open_image
from pellucid.functional.matrices import guarded
from pellucid.functional.opencv import INTERPOLATIONS
from pellucid.functional.warps import Wanted, warped
from pellucid.geometry.matrices import affine_src_from_dst, from_rows
from pellucid.kernels.warp.dtypes import as_before, as_signed
from pellucid.kernels.warp.taps import PADDING_MODES
from pellucid.transforms.affine import grown
from pellucid.transforms.base import check_choice, padding_named

__all__ = ["affine", "horizontal_flip", "rotate", "vertical_flip"]


def horizontal_flip(image: Shaped[Tensor, "*b c h w"]) -> Shaped[Tensor, "*b c h w"]:
    """Mirror left and right, bit for bit.

    Args:
        image: (C, H, W) or (B, C, H, W), any dtype.

    Source:
        ``torchvision.transforms.v2.functional.horizontal_flip``.

    Example:
        >>> horizontal_flip(torch.tensor([[[1, 2, 3]]]))
        tensor([[[3, 2, 1]]])
    """
    pixels, layout = open_image(image)
    return close_image(as_before(as_signed(pixels).flip(-1), pixels.dtype), layout)


def vertical_flip(image: Shaped[Tensor, "*b c h w"]) -> Shaped[Tensor, "*b c h w"]:
    """Mirror top and bottom, bit for bit.

    Args:
        image: (C, H, W) or (B, C, H, W), any dtype.

    Source:
        ``torchvision.transforms.v2.functional.vertical_flip``.

    Example:
        >>> vertical_flip(torch.tensor([[[1], [2], [3]]]))[0, :, 0]
        tensor([3, 2, 1])
    """
    pixels, layout = open_image(image)
    return close_image(as_before(as_signed(pixels).flip(-2), pixels.dtype), layout)


@formerly(angle="degrees")
def rotate(
    image: Shaped[Tensor, "*b c h w"],
    degrees: Factor,
    *,
    interpolation: str = "bilinear",
    padding_mode: str = "zeros",
    fill: FillValue = 0.0,
    center: Sequence[float] | Tensor | None = None,
    expand: bool = False,
    channels_last: bool | None = None,
    gradient_scale: Factor = 0.0,
    image_gradient: str = "exact",
    impl: str = "auto",
) -> Shaped[Tensor, "*b c h w"]:
    """Rotate about a centre, on the same canvas or one that holds all of the image.

    Args:
        image: as in `affine`.
        degrees: counter-clockwise on screen: a number or a tensor () or (B,).
        expand: enlarge the canvas about its middle. Needs ``center=None`` and plain degrees.
        interpolation: as in `affine`.
        padding_mode: as in `affine`.
        fill: as in `affine`.
        center: as in `affine`.

    Gradient:
        image, fill: exact. degrees, center: almost everywhere. Surrogates as in `warp`.

    Source:
        ``torchvision.transforms.v2.functional.rotate``, whose ``center`` counts from the corner of the first pixel.

    Example:
        >>> rotate(torch.arange(4.0).reshape(1, 2, 2), 90)
        tensor([[[1., 3.],
                 [0., 2.]]])
    """
    if expand and (center is not None or not is_number(degrees)):
        raise invalid("expand", expected="a plain number for degrees, and center=None, with it", got=f"{degrees!r} and {center!r}")
    numbers = {"degrees": degrees, "scale": 1.0, "translate": (0.0, 0.0), "shear": (0.0, 0.0), "center": center}
    wanted = Wanted(interpolation, padding_mode, fill, False, gradient_scale, image_gradient, impl)
    return _affine_warp(image, numbers, channels_last, wanted, expand)


@formerly("scale", "shear", angle="degrees")
def affine(
    image: Shaped[Tensor, "*b c h w"],
    degrees: Factor = 0.0,
    translate: Sequence[Factor] | Tensor = (0.0, 0.0),
    *,
    scale: Factor = 1.0,
    shear: Sequence[Factor] | Tensor = (0.0, 0.0),
    interpolation: str = "bilinear",
    padding_mode: str = "zeros",
    fill: FillValue = 0.0,
    center: Sequence[float] | Tensor | None = None,
    channels_last: bool | None = None,
    gradient_scale: Factor = 0.0,
    image_gradient: str = "exact",
    impl: str = "auto",
) -> Shaped[Tensor, "*b c h w"]:
    """Rotate, shear, scale and shift about a centre: translate . centre . rotate . shear . scale . -centre.

    Args:
        image: (C, H, W) or (B, C, H, W), or with ``channels_last`` (H, W, C) or (B, H, W, C). 8-bit images are computed in float32
            and rounded; other integers need ``nearest``.
        degrees: counter-clockwise on screen: a number or a tensor () or (B,).
        translate: (x, y) in pixels, each a number or a tensor () or (B,); or a tensor (2,) or (B, 2).
        scale: a factor other than 0, likewise.
        shear: (x, y) in degrees, likewise, with torchvision's signs.
        interpolation: ``bilinear``, ``nearest``, ``bicubic`` (Keys, a = -0.5) or ``bicubic_opencv`` (a = -0.75).
        padding_mode: ``zeros``, ``constant`` (both show ``fill``), ``border``, ``reflection``, ``reflect_101`` or ``wrap``.
        center: (x, y), pixel centres, or a tensor (2,) or (B, 2); default the image's centre.
        channels_last: the layout of ``image`` and of the result. By default channels stand first, and shapes that look otherwise
            raise; False takes every shape as channels first.

    Returns:
        The warped image, in the dtype of ``image``; batched if the image or any parameter is.

    Gradient:
        image, fill: exact. degrees, translate, scale, shear, center: almost everywhere. Surrogates as in `warp`. A sample with a
        parameter that is not finite, or a scale of 0, shows ``fill`` everywhere and has zero gradient.

    Source:
        ``cv2.getRotationMatrix2D``; ``torchvision.transforms.v2.functional.affine``, whose angle turns the other way.

    Example:
        >>> affine(torch.tensor([[[1.0, 2.0, 3.0]]]), translate=(1, 0))
        tensor([[[0., 1., 2.]]])
    """
    numbers = {"degrees": degrees, "scale": scale, "translate": translate, "shear": shear, "center": center}
    wanted = Wanted(interpolation, padding_mode, fill, False, gradient_scale, image_gradient, impl)
    return _affine_warp(image, numbers, channels_last, wanted)


def _affine_warp(
    image: Tensor, numbers: Mapping[str, Any], channels_last: bool | None, wanted: Wanted, expand: bool = False
) -> Tensor:
    """Warp the image by the affine map with these numbers; ``expand`` enlarges the canvas to hold all of the rotated image."""
    check_choice("interpolation", wanted.interpolation, INTERPOLATIONS)
    wanted = wanted._replace(padding_mode=padding_named(wanted.padding_mode))
    check_choice("padding_mode", wanted.padding_mode, PADDING_MODES)
    pixels, layout = open_image(image, channels_last=channels_last, option=CHANNELS_LAST)
    height, width = pixels.shape[-2:]
    degrees, scale, translate, shear, center = numbers.values()
    if isinstance(scale, int | float) and scale == 0:
        raise invalid("scale", expected="a factor other than 0", got=scale)
    device = pixels.device
    factors: dict[str, tuple[Tensor, bool]] = {
        "degrees": read_factor("degrees", degrees, device=device),
        "scale": read_factor("scale", scale, device=device),
        **_pair("translate", translate, device),
        **_pair("shear", shear, device),
        **_pair("center", ((width - 1) / 2, (height - 1) / 2) if center is None else center, device),
    }
    for name, (value, batched) in factors.items():
        pixels, layout = join_batch(pixels, layout, name, value.shape[0], batched)
    values = {name: value.to(torch.promote_types(value.dtype, wide_dtype(device))) for name, (value, _) in factors.items()}
    src_from_dst, size = _src_from_dst(values), (height, width)
    if expand:
        down, across = grown(height, width, float(degrees), float(degrees)), grown(width, height, float(degrees), float(degrees))
        shift = src_from_dst[:, :, 0] * (across / 2) + src_from_dst[:, :, 1] * (down / 2)
        src_from_dst = torch.cat((src_from_dst[:, :, :2], src_from_dst[:, :, 2:] - shift[..., None]), -1)
        size = (height + down, width + across)
    out = warped(pixels, layout, guarded(src_from_dst, compute_dtype(pixels.dtype)), size, wanted)
    assert isinstance(out, Tensor)
    return out


def _pair(name: str, value: Any, device: torch.device) -> dict[str, tuple[Tensor, bool]]:
    """(x, y) given as two factors, or as a tensor whose last axis holds them."""
    expected = "(x, y), each a number or a tensor () or (B,); or a tensor (2,) or (B, 2)"
    if isinstance(value, Tensor):
        value = read_numbers(name, value, device=device, expected=expected)
        if value.dim() not in (1, 2) or value.shape[-1] != 2:
            raise invalid(name, expected=expected, got=f"shape {tuple(value.shape)}")
        value = value.unbind(-1)
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != 2:
        raise invalid(name, expected=expected, got=repr(value))
    return {
        f"{name}_{axis}": read_factor(f"{name}[{i}]", part, device=device)
        for i, (axis, part) in enumerate(zip("xy", value, strict=True))
    }


def _src_from_dst(values: Mapping[str, Float[Tensor, "b_or_1"]]) -> Float[Tensor, "b 2 3"]:
    """The matrix of each sample, all NaN with zero gradient where a parameter is not finite or the scale is 0."""
    names, columns = list(values), torch.broadcast_tensors(*values.values())
    usable = torch.isfinite(torch.stack(columns)).all(0) & (columns[names.index("scale")] != 0)  # b
    v = {name: torch.where(usable, column, 1.0 if name == "scale" else 0.0) for name, column in zip(names, columns, strict=True)}
    linear = affine_src_from_dst(
        center=(0.0, 0.0),
        degrees=v["degrees"],
        translate=(v["translate_x"], v["translate_y"]),
        shear=(v["shear_x"], v["shear_y"]),
        scale=v["scale"],
    )
    # The centre goes in here and not above, so that it may be a tensor: c + A (p - c).
    (a, b, shift_x), (c, d, shift_y) = (row.unbind(-1) for row in linear[:, :2].unbind(-2))
    x, y = v["center_x"], v["center_y"]
    matrix = from_rows(a, b, shift_x + (x - (a * x + b * y)), c, d, shift_y + (y - (c * x + d * y)))[:, :2]
    return torch.where(usable[:, None, None], matrix, torch.nan)
