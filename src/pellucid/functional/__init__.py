"""Pure functions: image first, parameters with gradients, options by keyword.

Owns: the public names of the functional interface.
Must not: draw anything at random or keep state.
Read next: ``warps.py``.
"""

from pellucid.functional.blurs import box_blur, defocus_blur, median_blur, motion_blur
from pellucid.functional.codecs import jpeg
from pellucid.functional.colors import (
    adjust_brightness,
    adjust_contrast,
    adjust_gamma,
    adjust_hue,
    adjust_saturation,
    color_temperature,
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
from pellucid.functional.sizes import crop, pad, resize, uniform_temporal_subsample
from pellucid.functional.targets import transform_boxes, transform_points
from pellucid.functional.tones import autocontrast, clahe, equalize, posterize, solarize
from pellucid.functional.turns import affine, horizontal_flip, rotate, vertical_flip
from pellucid.functional.volumes import warp3
from pellucid.functional.warps import elastic, warp, warp_affine, warp_perspective

__all__ = [
    "adjust_brightness",
    "adjust_contrast",
    "adjust_gamma",
    "adjust_hue",
    "adjust_saturation",
    "adjust_sharpness",
    "affine",
    "anneal",
    "autocontrast",
    "box_blur",
    "center_crop",
    "clahe",
    "color_temperature",
    "crop",
    "defocus_blur",
    "denormalize",
    "elastic",
    "equalize",
    "erase",
    "fisheye",
    "five_crop",
    "gaussian_blur",
    "gaussian_noise",
    "get_affine_transform",
    "get_perspective_transform",
    "get_rotation_matrix2d",
    "grayscale_to_rgb",
    "horizontal_flip",
    "hsv_to_rgb",
    "invert",
    "invert_affine_transform",
    "jpeg",
    "lens_distortion",
    "median_blur",
    "motion_blur",
    "normalize",
    "pad",
    "permute_channels",
    "perspective",
    "plasma_brightness",
    "plasma_fog",
    "plasma_shadow",
    "poisson_gaussian_noise",
    "posterize",
    "rain",
    "remap",
    "resize",
    "resized_crop",
    "rgb_to_grayscale",
    "rgb_to_hsv",
    "rolling_shutter",
    "rotate",
    "salt_and_pepper",
    "shift_hsv",
    "shot_noise",
    "snow",
    "solarize",
    "ten_crop",
    "to_dtype",
    "transform_boxes",
    "transform_points",
    "uniform_temporal_subsample",
    "vertical_flip",
    "warp",
    "warp3",
    "warp_affine",
    "warp_perspective",
    "wave",
]
