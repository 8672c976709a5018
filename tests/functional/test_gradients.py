"""Every gradient against finite differences, in slow mode and float64, to the image and to every continuous argument.

Images are noise and parameters off round numbers, so no sample lies on a kink (a pixel centre, a clip, a tie between channels).
"""

import pytest
import torch
from torch.autograd import forward_ad, gradcheck, gradgradcheck

from pellucid import Key
from pellucid import functional as PF


def _noise(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _tensor(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


IMAGE = _noise(2, 3, 4, 4)
MATRIX = torch.tensor([[0.913, 0.217, 0.331], [-0.173, 1.071, 0.219]], dtype=torch.float64)
HOMOGRAPHY = torch.cat((MATRIX, _tensor(0.0131, -0.0173, 1.0)[None]))
QUAD = torch.tensor([[0.1, 0.2], [3.3, -0.3], [3.9, 2.4], [0.4, 2.8]], dtype=torch.float64)
MAP_X, MAP_Y = _noise(2, 4, 3, seed=1) * 6 - 0.7, _noise(2, 4, 3, seed=2) * 5 - 0.6
FILL = _noise(2, 3, seed=3)
# Values away from 0 and 1, so that no adjustment clips; channels far from ties.
SOFT = 0.35 + 0.3 * IMAGE

# Numbers stand for tensors of them.
CASES = {
    "warp": (lambda x, m, f: PF.warp(x, m, size=(4, 5), padding_mode="constant", fill=f), IMAGE, HOMOGRAPHY, FILL),
    "warp displaced": (
        lambda x, m, d: PF.warp(x, m, size=(4, 3), padding_mode="border", displacement=d),
        IMAGE,
        MATRIX,
        torch.stack((MAP_X, MAP_Y), 1) - 1.5,
    ),
    "warp_affine": (
        lambda x, m, f: PF.warp_affine(x, m, (5, 4), border_value=f),
        IMAGE,
        torch.stack((MATRIX, MATRIX * 1.01)),
        FILL,
    ),
    "warp_affine inverse": (lambda x, m: PF.warp_affine(x, m, (5, 4), inverse_map=True, interpolation="bicubic"), IMAGE, MATRIX),
    "warp_perspective": (lambda x, m, f: PF.warp_perspective(x, m, (5, 4), border_value=f), IMAGE, HOMOGRAPHY, FILL),
    "remap": (lambda x, u, v, f: PF.remap(x, u, v, border_value=f), IMAGE, MAP_X, MAP_Y, FILL[0]),
    "remap relative": (lambda x, u, v: PF.remap(x, u, v, relative=True), IMAGE, MAP_X[0] - 1.5, MAP_Y[0] - 1.5),
    "resize": (lambda x: PF.resize(x, (3, 4)), IMAGE),
    "resize plain": (lambda x: PF.resize(x, (3, 9), antialias=False), IMAGE),
    "resize bicubic": (lambda x: PF.resize(x, (3, 4), interpolation="bicubic"), IMAGE),
    "crop": (lambda x, f: PF.crop(x, -1, 2, 4, 6, fill=f), IMAGE, FILL),
    "pad": (lambda x: PF.pad(x, (2, 1), padding_mode="reflection"), IMAGE),
    "pad constant": (lambda x, f: PF.pad(x, (2, 1), fill=f), IMAGE, FILL[0]),
    "get_rotation_matrix2d": (PF.get_rotation_matrix2d, (2.1, 3.3), 31.0, 1.2),
    "get_perspective_transform": (PF.get_perspective_transform, QUAD, QUAD + 0.4 * _noise(4, 2)),
    "get_affine_transform": (PF.get_affine_transform, QUAD[:3], QUAD[:3] + _noise(3, 2)),
    "invert_affine_transform": (PF.invert_affine_transform, MATRIX),
    "rasterize": (lambda p: PF.rasterize(p, (4, 5)), torch.stack((QUAD, QUAD.flip(0) * 0.7 + 0.13))),
    "polygon_areas": (PF.polygon_areas, QUAD[None]),
    "polygon_boxes": (PF.polygon_boxes, QUAD),
    "transform_points": (PF.transform_points, 5 * _noise(3, 2), HOMOGRAPHY),
    "transform_boxes": (PF.transform_boxes, _tensor(0.3, 0.4, 3.1, 2.2)[None], HOMOGRAPHY),
    "transform_boxes rotated": (
        lambda b, m: PF.transform_boxes(b, m, format="cxcywhr"),
        _tensor(2.3, 2.4, 3.1, 1.2, 0.3)[None],
        HOMOGRAPHY,
    ),
    "adjust_brightness": (PF.adjust_brightness, SOFT, (0.8, 1.1)),
    "adjust_contrast": (PF.adjust_contrast, SOFT, (0.8, 1.1)),
    "adjust_saturation": (PF.adjust_saturation, SOFT, (0.8, 1.1)),
    "adjust_hue": (PF.adjust_hue, SOFT, (0.117, -0.231)),
    "adjust_gamma": (lambda x, g, a: PF.adjust_gamma(x, g, gain=a), SOFT, (0.6, 1.7), (0.9, 1.1)),
    "adjust_sharpness": (PF.adjust_sharpness, SOFT, (0.3, 1.6)),
    "gaussian_blur": (lambda x, s: PF.gaussian_blur(x, (3, 5), s), IMAGE, (0.7, 1.3)),
    "gaussian_blur by axis": (lambda x, s, t: PF.gaussian_blur(x, 3, (s, t)), IMAGE, 0.7, 1.3),
    "box_blur": (lambda x, w: PF.box_blur(x, 5, w), IMAGE, (2.3, 3.7)),
    "motion_blur": (lambda x, d, a: PF.motion_blur(x, 7, d, a), IMAGE, (2.3, 3.7), 17.0),
    "defocus_blur": (lambda x, r: PF.defocus_blur(x, 5, r), IMAGE, (1.3, 1.7)),
    "median_blur": (lambda x: PF.median_blur(x, 3), IMAGE),
    "gaussian_noise": (lambda x, m, s: PF.gaussian_noise(x, m, s, clip=False, key=Key(5)), IMAGE, (0.1, 0.2), 0.3),
    "poisson_gaussian_noise": (lambda x, g, s: PF.poisson_gaussian_noise(x, g, s, clip=False, key=Key(5)), IMAGE, (0.1, 0.2), 0.3),
    "salt_and_pepper": (lambda x: PF.salt_and_pepper(x, 0.3, key=Key(5)), IMAGE),
    "plasma_fog": (lambda x, s, d: PF.plasma_fog(x, s, d, clip=False, key=Key(5)), IMAGE, (0.7, 1.2), 1.7),
    "plasma_brightness": (lambda x, s, d: PF.plasma_brightness(x, s, d, clip=False, key=Key(5)), IMAGE, (0.7, 0.2), 1.7),
    "plasma_shadow": (lambda x, s, a, d: PF.plasma_shadow(x, s, a, decay=d, clip=False, key=Key(5)), IMAGE, (0.7, 0.2), 0.53, 1.7),
    "shift_hsv": (lambda x, h, s, v: PF.shift_hsv(x, hue=h, saturation=s, value=v), IMAGE, (0.1, 0.31), 0.03, -0.02),
    "color_temperature": (lambda x, t: PF.color_temperature(0.4 * x, 1000 * t), IMAGE, (3.3, 8.7)),
    "erase several": (
        lambda x, b: PF.erase(x, b, fill=0.3),
        IMAGE,
        torch.tensor([[[0.3, 0.2, 1.6, 1.7], [2.1, 1.1, 3.4, 2.8]]], dtype=torch.float64).expand(2, 2, 4).clone(),
    ),
    "lens_distortion": (lambda x, a, b, c, d, e: PF.lens_distortion(x, a, k2=b, k3=c, p1=d, p2=e), IMAGE, *(0.1 * _noise(5, 2))),
    "fisheye": (PF.fisheye, IMAGE, (31.0, 47.0)),
    "rolling_shutter": (lambda x, a, b, c: PF.rolling_shutter(x, a, b, acceleration=c), IMAGE, (0.13, -0.21), 0.07, 0.3),
    "wave": (PF.wave, IMAGE, (0.04, 0.07), 17.0, 0.13),
    "thin_plate_spline": (PF.thin_plate_spline, IMAGE, 0.7 * _noise(2, 3, 3)),
    "grid_distortion": (PF.grid_distortion, IMAGE, 1.0 + 0.2 * _noise(3), 1.0 + 0.2 * _noise(4)),
    "zoom_blur": (lambda x, f: PF.zoom_blur(x, f, zooms=3), IMAGE, (1.23, 1.41)),
    "letterbox": (lambda x, f: PF.letterbox(x, (5, 9), fill=f), IMAGE, FILL),
    "longest_max_size": (lambda x: PF.longest_max_size(x, 3), IMAGE),
    "pad_if_needed": (lambda x, f: PF.pad_if_needed(x, 7, fill=f), IMAGE, FILL),
    "rgb_shift": (lambda x, r, g, b: PF.rgb_shift(x, red=r, green=g, blue=b, clip=False), IMAGE, (0.1, 0.2), 0.1, -0.1),
    "channel_dropout": (lambda x, f: PF.channel_dropout(x, [1], fill=f), IMAGE, FILL),
    "coarse_dropout": (
        lambda x, a, b, h, w: PF.coarse_dropout(x, a, b, height=h, width=w, fill=0.3),
        IMAGE,
        (0.13, 0.71),
        (0.21, 0.83),
        (0.31, 0.37),
        0.23,
    ),
    "grid_dropout": (lambda x, c, r, a, b: PF.grid_dropout(x, c, r, x=a, y=b, fill=0.3), IMAGE, (1.3, 1.7), 0.41, 0.13, 0.27),
    "rain": (
        lambda x, s, d, n, a: PF.rain(x, s, d, length=n, slant=a, kernel_size=9, key=Key(5)),
        IMAGE,
        (0.4, 0.7),
        0.31,
        3.3,
        17.0,
    ),
    "snow": (lambda x, s: PF.snow(x, s, severity=1, clip=False, key=Key(5)), SOFT, (0.4, 0.7)),
    "elastic": (lambda x, d: PF.elastic(x, d, fill=0.3), IMAGE, 0.2 * _noise(1, *IMAGE.shape[-2:], 2)),
    "to_dtype": (lambda x: PF.to_dtype(x, torch.float64), IMAGE),
    "uniform_temporal_subsample": (lambda x: PF.uniform_temporal_subsample(x[:, None], 3), IMAGE),
    "rotate expanded": (lambda x, f: PF.rotate(x, 23.0, expand=True, fill=f), IMAGE, FILL),
    "center_crop": (lambda x, f: PF.center_crop(x, (3, 6), fill=f), IMAGE, FILL),
    "five_crop": (lambda x: PF.five_crop(x, (3, 2)), IMAGE),
    "ten_crop": (lambda x: PF.ten_crop(x, (3, 2), vertical_flip=True), IMAGE),
    "resized_crop": (lambda x: PF.resized_crop(x, 1, 0, 3, 3, (2, 5)), IMAGE),
    "perspective": (lambda x, s, e, f: PF.perspective(x, s, e, fill=f), IMAGE, QUAD, QUAD + 0.4 * _noise(4, 2), FILL),
    "permute_channels": (lambda x: PF.permute_channels(x, (2, 0, 1)), IMAGE),
    "grayscale_to_rgb": (PF.grayscale_to_rgb, IMAGE[:, :1]),
    "solarize": (lambda x: PF.solarize(x, 0.47), IMAGE),
    "autocontrast": (PF.autocontrast, IMAGE),
    "rgb_to_grayscale": (PF.rgb_to_grayscale, IMAGE),
    "rgb_to_hsv": (PF.rgb_to_hsv, IMAGE),
    "hsv_to_rgb": (PF.hsv_to_rgb, IMAGE),
    "invert": (PF.invert, IMAGE),
    "normalize": (PF.normalize, IMAGE, FILL, 0.5 + FILL),
    "denormalize": (PF.denormalize, IMAGE, FILL[0], 0.5 + FILL[0]),
    "erase": (lambda x, b, v: PF.erase(x, b, fill=v), IMAGE, (0.7, 1.4, 3.2, 3.9), FILL),
    "erase by image": (lambda x, b, v: PF.erase(x, b, fill=v), IMAGE, (0.7, 1.4, 3.2, 3.9), _noise(3, 4, 4, seed=5)),
    "warp3": (
        lambda v, m, c: PF.warp3(v, m, control=c, size=(2, 4, 3)),
        _noise(2, 3, 4, 4)[None],
        _tensor(0.9, 0.1, -0.05, 0.31, -0.1, 0.95, 0.07, 0.23, 0.05, -0.06, 0.8, 0.17, 0.0, 0.0, 0.0, 1.0).unflatten(0, (4, 4)),
        0.1 * _noise(3, 4, 4, 4, seed=7),
    ),
    "horizontal_flip": (PF.horizontal_flip, IMAGE),
    "vertical_flip": (PF.vertical_flip, IMAGE),
    "rotate": (lambda x, a, c: PF.rotate(x, a, center=c), IMAGE, (17.3, -31.1), (2.7, 1.9)),
    "affine": (
        lambda x, a, t, s, h, c: PF.affine(x, a, t, scale=s, shear=h, center=c, padding_mode="border"),
        IMAGE,
        (17.3, -31.1),
        (0.41, -0.37),
        1.13,
        (7.1, -3.3),
        (2.7, 1.9),
    ),
}
CASES = {
    name: (function, *(one if isinstance(one, torch.Tensor) else _tensor(one).flatten() for one in rest))
    for name, (function, *rest) in CASES.items()
}


def test_every_function_has_a_case():
    # Declared slopes, held by tests/oracle (test_jpeg.py, test_catalogue.py) and tests/estimators/test_discrete.py; plain numbers;
    # and cameras, which tests/contract/test_cameras.py differentiates.
    others = {"jpeg", "posterize", "equalize", "clahe", "shot_noise", "anneal", "split_camera"}
    assert {name.split()[0] for name in CASES} == set(PF.__all__) - others


def _leaves(tensors):
    return tuple(tensor.clone().requires_grad_() for tensor in tensors)


@pytest.mark.parametrize("name", CASES)
def test_first_order(name):
    function, *arguments = CASES[name]
    assert gradcheck(function, _leaves(arguments), fast_mode=False)


@pytest.mark.parametrize("name", CASES)
def test_every_argument_matters(name):
    """A gradient of zero would pass a check on a function that ignores its argument; none of these does."""
    function, *arguments = CASES[name]
    leaves = _leaves(arguments)
    out = function(*leaves)
    for gradient in torch.autograd.grad((out * _noise(*out.shape, seed=9)).sum(), leaves):
        assert (gradient != 0).any()


@pytest.mark.parametrize("name", CASES)
def test_forward_mode(name):
    """Forward-mode derivatives are those of the backward pass, never a silent zero."""
    function, *arguments = CASES[name]
    tangents = [_noise(*a.shape, seed=i) - 0.5 for i, a in enumerate(arguments)]
    with forward_ad.dual_level():
        out = function(*(forward_ad.make_dual(a, t) for a, t in zip(arguments, tangents, strict=True)))
        tangent = forward_ad.unpack_dual(out).tangent
    leaves = _leaves(arguments)
    out = function(*leaves)
    weights = _noise(*out.shape, seed=9)
    gradients = torch.autograd.grad((out * weights).sum(), leaves)
    backward = sum((g * t).sum() for g, t in zip(gradients, tangents, strict=True))
    assert tangent is not None
    assert torch.allclose((tangent * weights).sum(), backward, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("border", ["constant", "replicate", "reflect", "reflect_101", "wrap"])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "bicubic_opencv"])
def test_every_border_and_interpolation(border, mode):
    def function(x, u, v):
        return PF.remap(x, u, v, interpolation=mode, border_mode=border, border_value=0.3)

    assert gradcheck(function, _leaves((IMAGE[:1, :1], MAP_X[:1] * 2 - 3, MAP_Y[:1] * 2 - 3)), fast_mode=False)


SECOND = {
    "warp": lambda x, m, f: PF.warp(x, m, size=(3, 4), padding_mode="constant", fill=f),
    "warp_affine": lambda x, m, f: PF.warp_affine(x, m[:2], (4, 3), interpolation="bicubic", border_value=f),
    "warp_perspective": lambda x, m, f: PF.warp_perspective(x, m, (4, 3), border_value=f),
    "remap": lambda x, m, f: PF.remap(x, 1.9 * m + 0.07, 2.7 * m.mT + 0.05, border_value=f),
}


@pytest.mark.parametrize("name", SECOND)
def test_second_order(name):
    image, fill = IMAGE[:1, :1, :3, :3].contiguous(), FILL[0, :1]
    assert gradgradcheck(SECOND[name], _leaves((image, HOMOGRAPHY, fill)), fast_mode=False)


def test_nearest_has_a_gradient_to_the_image_and_none_to_the_matrix():
    image, matrix = _leaves((IMAGE, MATRIX))
    out = PF.warp_affine(image, matrix, (5, 4), interpolation="nearest")
    by_image, by_matrix = torch.autograd.grad(out.sum(), (image, matrix), allow_unused=True)
    assert (by_image != 0).any()
    assert by_matrix is None or (by_matrix == 0).all()
