"""The order of arguments in other libraries' transforms, for calls with positional arguments.

Owns: the first arguments of each transform; transforms that are not listed take only named arguments.
Must not: import another library.
Read next: ``source.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["SIGNATURES", "call_of", "order_of"]


def _table(text: str) -> dict[str, tuple[str, ...]]:
    """Parse lines ``Name, Name: first second``."""
    found: dict[str, tuple[str, ...]] = {}
    for line in text.strip().splitlines():
        names, _, order = line.partition(":")
        found |= dict.fromkeys(map(str.strip, names.split(",")), tuple(order.split()))
    return found


_ALBUMENTATIONS = """
Compose, ReplayCompose: transforms bbox_params keypoint_params additional_targets p
BboxParams, KeypointParams: format label_fields
OneOf, Sequential: transforms p
SomeOf: transforms n replace p
OneOrOther: first second transforms p
HorizontalFlip, VerticalFlip, Flip, Transpose, RandomRotate90, InvertImg, ToSepia, ChannelShuffle, NoOp, D4, SquareSymmetry: p
Resize, RandomCrop, CenterCrop, CropNonEmptyMaskIfExists, AtLeastOneBBoxRandomCrop, RandomSizedBBoxSafeCrop: height width
PadIfNeeded: min_height min_width
LongestMaxSize, SmallestMaxSize: max_size
RandomResizedCrop: size scale ratio
RandomSizedCrop: min_max_height size
RandomScale: scale_limit
Crop: x_min y_min x_max y_max
CropAndPad: px percent
RandomCropFromBorders: crop_left crop_right crop_top crop_bottom
Rotate, SafeRotate: limit interpolation border_mode
ShiftScaleRotate: shift_limit scale_limit rotate_limit interpolation border_mode
Affine: scale translate_percent translate_px rotate shear
Perspective: scale keep_size
ElasticTransform: alpha sigma
GridDistortion: num_steps distort_limit interpolation
OpticalDistortion: distort_limit
PiecewiseAffine: scale nb_rows nb_cols
RandomBrightnessContrast: brightness_limit contrast_limit brightness_by_max
RandomBrightness, RandomContrast: limit
HueSaturationValue: hue_shift_limit sat_shift_limit val_shift_limit
RGBShift: r_shift_limit g_shift_limit b_shift_limit
ColorJitter: brightness contrast saturation hue
RandomGamma: gamma_limit
CLAHE: clip_limit tile_grid_size
Posterize: num_bits
Solarize: threshold_range
Blur, MotionBlur, MedianBlur, GaussianBlur, AdvancedBlur: blur_limit
GaussNoise: std_range
ISONoise: color_shift intensity
MultiplicativeNoise: multiplier
Sharpen: alpha lightness
CoarseDropout: num_holes_range hole_height_range hole_width_range
Cutout: num_holes max_h_size max_w_size
GridDropout: ratio
Downscale: scale_range
Normalize: mean std max_pixel_value
ToFloat: max_value
FromFloat: dtype max_value
ToGray: num_output_channels
"""

_TORCHVISION = """
Compose, RandomOrder: transforms
RandomApply, RandomChoice: transforms p
RandomHorizontalFlip, RandomVerticalFlip, RandomGrayscale, RandomInvert, RandomAutocontrast, RandomEqualize: p
Resize: size interpolation max_size antialias
RandomResizedCrop, RandomSizedCrop: size scale ratio interpolation antialias
CenterCrop, FiveCrop, TenCrop: size
RandomCrop: size padding pad_if_needed fill padding_mode
Pad: padding fill padding_mode
RandomRotation: degrees interpolation expand center fill
RandomAffine: degrees translate scale shear interpolation fill center
RandomPerspective: distortion_scale p interpolation fill
ColorJitter: brightness contrast saturation hue
RandomPhotometricDistort: brightness contrast saturation hue p
GaussianBlur: kernel_size sigma
GaussianNoise: mean sigma clip
RandomAdjustSharpness: sharpness_factor p
RandomPosterize: bits p
RandomSolarize: threshold p
RandomErasing: p scale ratio value inplace
ElasticTransform: alpha sigma interpolation fill
Grayscale: num_output_channels
Normalize: mean std inplace
ToDtype, ConvertImageDtype: dtype scale
AutoAugment: policy interpolation fill
RandAugment: num_ops magnitude num_magnitude_bins interpolation fill
TrivialAugmentWide: num_magnitude_bins interpolation fill
AugMix: severity mixture_width chain_depth alpha all_ops
JPEG: quality
RandomZoomOut: fill side_range p
RandomIoUCrop: min_scale max_scale min_aspect_ratio max_aspect_ratio sampler_options trials
ScaleJitter: target_size scale_range
RandomShortestSize: min_size max_size
RandomResize: min_size max_size
SanitizeBoundingBoxes: min_size min_area labels_getter
ConvertBoundingBoxFormat: format
LinearTransformation: transformation_matrix mean_vector
Lambda: lambd
"""

_KORNIA = """
RandomHorizontalFlip, RandomVerticalFlip, RandomInvert, RandomEqualize, RandomGrayscale, RandomChannelShuffle: p
RandomAutoContrast: clip_output same_on_batch p
RandomAffine: degrees translate scale shear
RandomRotation: degrees
RandomCrop: size padding pad_if_needed fill padding_mode
CenterCrop, Resize: size
RandomResizedCrop: size scale ratio
ColorJitter, ColorJiggle: brightness contrast saturation hue
RandomBrightness: brightness
RandomContrast: contrast
RandomHue: hue
RandomSaturation: saturation
RandomGamma: gamma gain
RandomGaussianBlur: kernel_size sigma
RandomGaussianNoise: mean std
RandomErasing: scale ratio value
RandomSolarize: thresholds additions
RandomPosterize: bits
RandomSharpness: sharpness
RandomPerspective: distortion_scale
RandomElasticTransform: kernel_size sigma alpha
RandomMotionBlur: kernel_size angle direction
RandomLinearCornerIllumination, RandomLinearIllumination: gain sign
Normalize, Denormalize: mean std
"""

SIGNATURES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "albumentations": _table(_ALBUMENTATIONS),
    "torchvision": _table(_TORCHVISION),
    "kornia": _table(_KORNIA),
}
"""The order of arguments, by library and name."""

_OLD = _table("""
RandomResizedCrop: height width scale ratio
RandomSizedCrop: min_max_height height width
CoarseDropout: max_holes max_height max_width min_holes min_height min_width
GaussNoise: var_limit
OpticalDistortion: distort_limit shift_limit
ElasticTransform: alpha sigma alpha_affine
ImageCompression, JpegCompression: quality_lower quality_upper
Downscale: scale_min scale_max
Solarize: threshold
""")


def order_of(library: str, name: str, first: object) -> tuple[str, ...]:
    """Return the names of a call's arguments in order; if versions differ, a first argument that is no pair means the old order."""
    order = SIGNATURES[library].get(name, ())
    single = not isinstance(first, list | tuple)
    return _OLD[name] if library == "albumentations" and name in _OLD and single else order


def call_of(library: str, name: str, places: Sequence[Any], words: Mapping[str, Any]) -> dict[str, Any]:
    """Return a call's arguments by name; positions beyond the known order are named ``argument 7``, which readers refuse."""
    order = order_of(library, name, places[0] if places else None)
    extra = {f"argument {i + 1}": value for i, value in enumerate(places[len(order) :], len(order))}
    return {**dict(zip(order, places, strict=False)), **extra, **words}
