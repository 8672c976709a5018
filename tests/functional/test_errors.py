"""Bad input is refused at the edge, from shapes and dtypes alone, in words that say what to do."""

import inspect

import numpy as np
import pytest
import torch

from pellucid import Key
from pellucid import functional as PF
from pellucid.errors import InvalidArgument, InvalidType
from tests.refusals import refused

IMAGE = torch.rand(2, 3, 5, 6)
EYE = torch.eye(3)
POINTS = torch.rand(4, 2)

# What each function takes after its image.
REST = {
    "warp": ((EYE,), {"size": (4, 4)}),
    "warp_affine": ((EYE[:2], (4, 4)), {}),
    "warp_perspective": ((EYE, (4, 4)), {}),
    "remap": ((torch.zeros(4, 4), torch.zeros(4, 4)), {}),
    "resize": (((4, 4),), {}),
    "crop": ((0, 0, 4, 4), {}),
    "pad": ((1,), {}),
    "gaussian_blur": ((3, 1.0), {}),
    "normalize": ((0.5, 0.5), {}),
    "denormalize": ((0.5, 0.5), {}),
    "erase": (((0, 0, 2, 2),), {}),
    "rotate": ((10.0,), {}),
    "jpeg": ((50,), {}),
    "center_crop": ((4,), {}),
    "five_crop": ((4,), {}),
    "ten_crop": ((4,), {}),
    "resized_crop": ((0, 0, 4, 4, 3), {}),
    "perspective": (([(0, 0), (4, 0), (4, 4), (0, 4)], [(0, 0), (4, 1), (4, 4), (0, 3)]), {}),
    "permute_channels": (((2, 0, 1),), {}),
    "posterize": ((3,), {}),
    "box_blur": ((3,), {}),
    "motion_blur": ((5, 2.0, 30.0), {}),
    "defocus_blur": ((5, 1.5), {}),
    "median_blur": ((3,), {}),
    **{
        name: ((), {"key": Key(0)})
        for name in (
            *("gaussian_noise", "poisson_gaussian_noise", "shot_noise", "salt_and_pepper"),
            *("plasma_fog", "plasma_brightness", "plasma_shadow", "rain", "snow"),
        )
    },
    "color_temperature": ((4000.0,), {}),
    "fisheye": ((30.0,), {}),
    "wave": ((0.05, 32.0), {}),
    "elastic": ((torch.zeros(1, 5, 6, 2),), {}),
    "thin_plate_spline": ((torch.zeros(2, 3, 3),), {}),
    "grid_distortion": (([1.0, 2.0], [1.0, 2.0]), {}),
    "zoom_blur": ((1.2,), {}),
    **{name: ((8,), {}) for name in ("letterbox", "longest_max_size", "pad_if_needed")},
    "channel_dropout": (([0],), {}),
    "coarse_dropout": (([0.3], [0.4]), {}),
    "solarize": ((0.5,), {}),
    **{f"adjust_{name}": ((0.5,), {}) for name in ("brightness", "contrast", "saturation", "hue", "gamma", "sharpness")},
}
ON_IMAGES = [name for name in PF.__all__ if next(iter(inspect.signature(getattr(PF, name)).parameters)) == "image"]


def _call(name: str, image: object) -> torch.Tensor:
    arguments, options = REST.get(name, ((), {}))
    return getattr(PF, name)(image, *arguments, **options)


@pytest.mark.parametrize("name", ON_IMAGES)
def test_images_that_are_none(name):
    with pytest.raises(InvalidType, match=r"image: expected .*\. .*tensor|image: expected a tensor"):
        _call(name, np.zeros((3, 5, 6), dtype=np.float32))
    for shape in ((5, 6), (2, 2, 3, 5, 6), (6,), ()):
        refused(InvalidArgument, "image: expected", _call, name, torch.zeros(shape))
    for shape in ((2, 3, 0, 6), (2, 3, 5, 0), (2, 0, 5, 6)):
        refused(InvalidArgument, "image: expected", _call, name, torch.zeros(shape))
    refused(InvalidType, "image: expected", _call, name, torch.zeros(3, 5, 6, dtype=torch.complex64))


@pytest.mark.parametrize("name", ON_IMAGES)
def test_shapes_dtypes_purity_and_empty_batches(name):
    image = IMAGE.clone()
    arguments = REST.get(name, ((), {}))[0]
    versions = [a._version for a in arguments if isinstance(a, torch.Tensor)]
    state = torch.get_rng_state()
    batch = _call(name, image)
    single = _call(name, image[1])
    if name == "adjust_gamma":  # torch's pow rounds the tail of a vector differently from its body
        assert (single - batch[1]).abs().max() <= 2 * torch.finfo(single.dtype).eps
    elif "key" in REST.get(name, ((), {}))[1]:  # of the first index here, of the second in the batch
        assert torch.equal(single, _call(name, image[1:])[0])
    else:
        assert torch.equal(single, batch[1])
    assert _call(name, image[:0]).shape == (0, *batch.shape[1:])
    assert torch.equal(image, IMAGE)
    assert image._version == 0
    assert versions == [a._version for a in arguments if isinstance(a, torch.Tensor)]
    assert torch.equal(state, torch.get_rng_state())
    assert batch.untyped_storage().data_ptr() != image.untyped_storage().data_ptr()
    for dtype in (torch.float64, torch.float16, torch.bfloat16) if name != "to_dtype" else ():
        out = _call(name, image.to(dtype))
        assert out.dtype == dtype
        # Only the result is rounded to the dtype: half precision never computes coordinates or colours.
        assert torch.equal(out, _call(name, image.to(dtype).to(torch.float32)).to(dtype)) or dtype == torch.float64


@pytest.mark.parametrize("name", ["adjust_saturation", "adjust_hue", "rgb_to_grayscale", "rgb_to_hsv", "hsv_to_rgb"])
def test_channels(name):
    refused(InvalidArgument, r"image: expected .*3.* channels .*, got 4 channels", _call, name, torch.rand(4, 5, 6))


@pytest.mark.parametrize("name", ["adjust_saturation", "adjust_hue", "adjust_contrast", "rgb_to_grayscale"])
def test_grey_images(name):
    assert _call(name, torch.rand(1, 5, 6)).shape == (1, 5, 6)
    refused(InvalidType, "uint8", _call, name, torch.zeros(1, 5, 6, dtype=torch.int64))


BAD = {
    "M of another shape": (lambda: PF.warp_affine(IMAGE, torch.rand(2, 2), (4, 4)), "M: expected numbers of shape"),
    "M with rows missing": (lambda: PF.warp_perspective(IMAGE, EYE[:2], (4, 4)), "use warp_affine"),
    "M ragged": (lambda: PF.warp_affine(IMAGE, [[1, 0, 0], [0, 1]], (4, 4)), "rows of different lengths"),
    "M of words": (lambda: PF.warp_affine(IMAGE, "identity", (4, 4)), "M: expected"),
    "M of None": (lambda: PF.warp_affine(IMAGE, None, (4, 4)), "M: expected"),
    "M complex": (lambda: PF.warp_affine(IMAGE, EYE[:2] * 1j, (4, 4)), "M: expected"),
    "M an object array": (lambda: PF.warp_affine(IMAGE, np.full((2, 3), None), (4, 4)), "an array of object"),
    "M for other images": (lambda: PF.warp_affine(IMAGE, EYE.expand(3, 3, 3), (4, 4)), "1 or 2 of them, as there are 2 images"),
    "dsize of floats": (lambda: PF.warp_affine(IMAGE, EYE, (4.0, 4)), "dsize: expected"),
    "dsize empty": (lambda: PF.warp_affine(IMAGE, EYE, (0, 4)), "dsize: expected"),
    "size empty": (lambda: PF.warp(IMAGE, EYE, size=(0, 4)), "size: expected"),
    "interpolation": (lambda: PF.warp_affine(IMAGE, EYE, (4, 4), interpolation="lanczos"), "interpolation: expected one of"),
    "interpolation area": (lambda: PF.warp_affine(IMAGE, EYE, (4, 4), interpolation=3), "resize"),
    "border_mode": (lambda: PF.warp_affine(IMAGE, EYE, (4, 4), border_mode="zeros"), "border_mode: expected one of"),
    "border_mode transparent": (lambda: PF.warp_affine(IMAGE, EYE, (4, 4), border_mode=5), "border_mode: expected one of"),
    "padding_mode": (lambda: PF.warp(IMAGE, EYE, size=(4, 4), padding_mode="replicate"), "padding_mode: expected one of"),
    "border_value": (lambda: PF.warp_affine(IMAGE, EYE, (4, 4), border_value=(1, 2)), r"3 numbers \(one per channel\)"),
    "border_value batch": (lambda: PF.warp_affine(IMAGE, EYE, (4, 4), border_value=torch.zeros(5, 3)), "1 or 2 colours"),
    "impl": (lambda: PF.warp_affine(IMAGE, EYE, (4, 4), impl="fast"), "impl: expected one of"),
    "integers bilinear": (lambda: PF.warp_affine(IMAGE.long(), EYE, (4, 4)), "interpolation='nearest'"),
    "maps of two shapes": (lambda: PF.remap(IMAGE, torch.zeros(4, 4), torch.zeros(4, 5)), "map_x, map_y: expected"),
    "maps empty": (lambda: PF.remap(IMAGE, torch.zeros(0, 4), torch.zeros(0, 4)), "map_x, map_y: expected"),
    "maps inverse": (lambda: PF.remap(IMAGE, torch.zeros(4, 4), torch.zeros(4, 4), interpolation=17), "WARP_INVERSE_MAP"),
    "displacement": (lambda: PF.warp(IMAGE, EYE, size=(4, 4), displacement=torch.zeros(2, 4, 5)), r"displacement: expected .*4, 4"),
    "displacements": (
        lambda: PF.warp(IMAGE, EYE, size=(4, 4), displacement=torch.zeros(3, 2, 4, 4)),
        "displacement: expected 1 or 2 of them",
    ),
    "resize": (lambda: PF.resize(IMAGE, (4, 4), interpolation="area"), "interpolation: expected one of"),
    "resize to nothing": (lambda: PF.resize(IMAGE, 0), "size: expected"),
    "crop by parts": (lambda: PF.crop(IMAGE, 0.5, 0, 4, 4), "warp moves by parts of a pixel"),
    "crop to nothing": (lambda: PF.crop(IMAGE, 0, 0, 0, 4), "height, width: expected"),
    "negative padding": (lambda: PF.pad(IMAGE, -1), "Use a crop"),
    "negative factor": (lambda: PF.adjust_brightness(IMAGE, -0.1), "brightness_factor: expected a number >= 0"),
    "hue in degrees": (lambda: PF.adjust_hue(IMAGE, 180), "180 degrees are 0.5"),
    "factors for other images": (lambda: PF.adjust_contrast(IMAGE, torch.ones(3)), "contrast_factor: expected 1 or 2"),
    "factor of a shape": (lambda: PF.adjust_contrast(IMAGE, torch.ones(2, 1)), "contrast_factor: expected"),
    "even kernel": (lambda: PF.gaussian_blur(IMAGE, 4), "kernel_size: expected an odd"),
    "sigma": (lambda: PF.gaussian_blur(IMAGE, 3, 0.0), "sigma: expected a number > 0"),
    "std": (lambda: PF.normalize(IMAGE, (0.5,) * 3, (0.5, 0, 0.5)), "std: expected numbers > 0"),
    "mean": (lambda: PF.normalize(IMAGE, (0.5,) * 4, 0.5), "mean: expected a number, 3 numbers"),
    "normalize integers": (lambda: PF.normalize((IMAGE * 255).byte(), 0.5, 0.5), "image / 255"),
    "hsv integers": (lambda: PF.rgb_to_hsv((IMAGE * 255).byte()), "image / 255"),
    "grey channels": (lambda: PF.rgb_to_grayscale(IMAGE, num_output_channels=2), "num_output_channels: expected 1 or 3"),
    "box": (lambda: PF.erase(IMAGE, (0, 0, 2)), "box: expected"),
    "fill of erase": (lambda: PF.erase(IMAGE, (0, 0, 2, 2), fill=torch.zeros(3, 4, 4)), "fill: expected"),
    "scale 0": (lambda: PF.affine(IMAGE, scale=0), "scale: expected"),
    "translate": (lambda: PF.affine(IMAGE, translate=3), "translate: expected"),
    "center": (lambda: PF.get_rotation_matrix2d((1, 2, 3), 0, 1), "center: expected"),
    "batches": (lambda: PF.get_rotation_matrix2d(torch.zeros(2, 2), torch.zeros(3), 1), "batches of one length"),
    "three points": (lambda: PF.get_perspective_transform(POINTS[:3], POINTS), r"src: expected 4 points"),
    "integer points": (lambda: PF.transform_points(POINTS.long(), EYE), "points: expected a floating-point tensor"),
    "points in space": (lambda: PF.transform_points(torch.rand(4, 3), EYE), r"points: expected shape \(N, 2\)"),
    "points of other batches": (lambda: PF.transform_points(POINTS.expand(2, 4, 2), EYE.expand(3, 3, 3)), "1 or 2 matrices"),
    "box format": (lambda: PF.transform_boxes(torch.rand(3, 4), EYE, format="yxyx"), "format"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments(name):
    call, words = BAD[name]
    refused((InvalidArgument, InvalidType), words, call)


def test_options_are_keyword_only():
    positional = {"get_rotation_matrix2d", "get_perspective_transform", "get_affine_transform"}
    for name in set(PF.__all__) - positional:
        for parameter in inspect.signature(getattr(PF, name)).parameters.values():
            option = isinstance(parameter.default, str | bool)
            assert not option or parameter.kind is parameter.KEYWORD_ONLY, (name, parameter.name)


def test_what_the_newer_ones_refuse():
    refused(InvalidArgument, "kernel_size", PF.box_blur, IMAGE, 4)
    refused(InvalidArgument, "width", PF.box_blur, IMAGE, 3, 0.5)
    refused(InvalidArgument, "length", PF.motion_blur, IMAGE, 3, -1.0, 0.0)
    refused(InvalidArgument, "radius", PF.defocus_blur, IMAGE, 3, -1.0)
    refused(InvalidArgument, "kernel_size", PF.median_blur, IMAGE, (3, 2))
    refused(InvalidType, "key", PF.gaussian_noise, IMAGE, key=3)
    refused(InvalidArgument, "sigma", PF.gaussian_noise, IMAGE, sigma=-1.0, key=Key(0))
    refused(InvalidArgument, r"Key\.index", PF.gaussian_noise, IMAGE, key=Key(0, 0, torch.arange(3)))
    refused(InvalidArgument, "clip_limit", PF.clahe, IMAGE, 0.0)
    refused(InvalidArgument, "dtype", PF.to_dtype, IMAGE, torch.int16)
    refused(InvalidArgument, "video", PF.uniform_temporal_subsample, IMAGE[0], 2)
    refused(InvalidArgument, "num_samples", PF.uniform_temporal_subsample, IMAGE[None], 0)
    refused(InvalidType, "video", PF.uniform_temporal_subsample, [1], 2)
    refused(InvalidArgument, "expand", PF.rotate, IMAGE, 9.0, expand=True, center=(0, 0))
    refused(InvalidArgument, "expand", PF.rotate, IMAGE, torch.tensor(9.0), expand=True)
