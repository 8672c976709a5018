"""Pure functions: image first, parameters with gradients, options by keyword.

Owns: the public names of the functional interface, and what their docstrings share.
Must not: draw anything at random or keep state.
Read next: ``warps.py``.
"""

import inspect

from pellucid.core.docstrings import completed
from pellucid.functional.blurs import box_blur, defocus_blur, median_blur, motion_blur, zoom_blur
from pellucid.functional.codecs import jpeg
from pellucid.functional.colors import (
    adjust_brightness,
    adjust_contrast,
    adjust_gamma,
    adjust_hue,
    adjust_saturation,
    channel_dropout,
    color_temperature,
    rgb_shift,
    shift_hsv,
)
from pellucid.functional.conversions import denormalize, hsv_to_rgb, invert, normalize, rgb_to_grayscale, rgb_to_hsv, to_dtype
from pellucid.functional.estimate import (
    get_affine_transform,
    get_perspective_transform,
    get_rotation_matrix2d,
    invert_affine_transform,
)
from pellucid.functional.filters import adjust_sharpness, erase, gaussian_blur
from pellucid.functional.holes import coarse_dropout, grid_dropout
from pellucid.functional.lenses import fisheye, lens_distortion, rolling_shutter, wave
from pellucid.functional.noises import (
    gaussian_noise,
    plasma_brightness,
    plasma_fog,
    plasma_shadow,
    poisson_gaussian_noise,
    rain,
    salt_and_pepper,
    shot_noise,
    snow,
)
from pellucid.functional.plates import grid_distortion, thin_plate_spline
from pellucid.functional.polygons import polygon_areas, polygon_boxes, rasterize
from pellucid.functional.reaching import anneal
from pellucid.functional.rectangles import (
    center_crop,
    five_crop,
    grayscale_to_rgb,
    permute_channels,
    perspective,
    resized_crop,
    ten_crop,
)
from pellucid.functional.remap import remap
from pellucid.functional.sizes import crop, letterbox, longest_max_size, pad, pad_if_needed, resize, uniform_temporal_subsample
from pellucid.functional.targets import transform_boxes, transform_points
from pellucid.functional.tones import autocontrast, clahe, equalize, posterize, solarize
from pellucid.functional.turns import affine, horizontal_flip, rotate, vertical_flip
from pellucid.functional.volumes import warp3
from pellucid.functional.warps import elastic, warp, warp_affine, warp_perspective
from pellucid.geometry.cameras import split_camera

__all__ = [
    "adjust_brightness", "adjust_contrast", "adjust_gamma", "adjust_hue", "adjust_saturation", "adjust_sharpness", "affine",
    "anneal", "autocontrast", "box_blur", "center_crop", "channel_dropout", "clahe", "coarse_dropout", "color_temperature",
    "crop", "defocus_blur", "denormalize", "elastic", "equalize", "erase", "fisheye", "five_crop", "gaussian_blur",
    "gaussian_noise", "get_affine_transform", "get_perspective_transform", "get_rotation_matrix2d", "grayscale_to_rgb",
    "grid_distortion", "grid_dropout", "horizontal_flip", "hsv_to_rgb", "invert", "invert_affine_transform", "jpeg",
    "lens_distortion", "letterbox", "longest_max_size", "median_blur", "motion_blur", "normalize", "pad", "pad_if_needed",
    "permute_channels", "perspective", "plasma_brightness", "plasma_fog", "plasma_shadow", "poisson_gaussian_noise",
    "polygon_areas", "polygon_boxes", "posterize", "rain", "rasterize", "remap", "resize", "resized_crop", "rgb_shift",
    "rgb_to_grayscale", "rgb_to_hsv", "rolling_shutter", "rotate", "salt_and_pepper", "shift_hsv", "shot_noise", "snow",
    "solarize", "split_camera", "ten_crop", "thin_plate_spline", "to_dtype", "transform_boxes", "transform_points",
    "uniform_temporal_subsample", "vertical_flip", "warp", "warp3", "warp_affine", "warp_perspective", "wave", "zoom_blur",
]  # fmt: skip

_OPTIONS = {
    "border_mode": "as in :func:`warp_affine`.",
    "border_value": "as in :func:`warp_affine`.",
    "fill": "a number, one per channel, or a tensor (), (C,) or (B, C), in the image's units.",
    "clip": "clip the result to [0, 1].",
    "key": "seed, step and one index per image.",
    "channels_last": "as in :func:`warp_affine`.",
    "gradient_scale": "as in :func:`warp`.",
    "image_gradient": "as in :func:`warp`.",
    "impl": "``auto``, ``reference``, ``cpu`` or ``triton``.",
    "options": "as in :func:`remap`.",
}
"""Options that the functions' docstrings need not describe."""

for _one in (globals()[name] for name in __all__):
    _names = list(inspect.signature(_one).parameters)
    _slopes = ", ".join(name for name in _names if name in ("image", "fill", "mean", "std"))
    _sections = {
        "Returns": "A new image, in the dtype of ``image``; 8-bit results are rounded.",
        **({"Gradient": f"{_slopes}: exact."} if _slopes else {}),
        "Errors": "``InvalidArgument`` and ``InvalidType`` for shapes, dtypes, numbers and options that do not fit.",
    }
    _options, _import = (
        {name: _OPTIONS[name] for name in _names if name in _OPTIONS},
        f"from pellucid.functional import {_one.__name__}",
    )
    _one.__doc__ = completed(_one.__doc__, _options, _sections, _import)
