"""Whole pipelines against their peers, with the values the record says were drawn."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import pellucid
from pellucid import Pipeline
from tests.peers import cv_warp, torchvision_functional

COLOR, RESAMPLED = 1e-6, 1e-5


def _run(*transforms, image=None, seed=0, **options):
    image = torch.rand(4, 3, 29, 37) if image is None else image
    out, record = Pipeline(list(transforms), seed=seed, **options)(image, return_record=True)
    return image, out, record


def _values(record, sample: int, transform: int = 0) -> dict:
    return {name: value[sample].tolist() for name, value in record.params[transform].items()}


def _torchvision_jitter(image: torch.Tensor, values: dict) -> torch.Tensor:
    peer = torchvision_functional()
    steps = [peer.adjust_brightness, peer.adjust_contrast, peer.adjust_saturation, peer.adjust_hue]
    names = ["brightness", "contrast", "saturation", "hue"]
    for number in values.get("order", range(4)):
        if names[number] in values:
            image = steps[number](image, values[names[number]])
    return image


@pytest.mark.parametrize("names", [("brightness", "contrast", "saturation"), ("contrast",), ("saturation", "brightness")])
def test_color_jitter_step_by_step(names):
    image, out, record = _run(pellucid.ColorJitter(**dict.fromkeys(names, 0.6), clip="each"))
    for sample in range(len(image)):
        assert (out[sample] - _torchvision_jitter(image[sample], _values(record, sample))).abs().max() < COLOR


def test_color_jitter_with_hue_step_by_step():
    # torchvision's hue is a float32 computation with an error of up to 1e-6 (see test_torchvision), which the steps after it
    # multiply by their factors, at most 1.3 * 1.3 here; so the comparison with double precision may be off by twice that.
    image, out, record = _run(
        pellucid.ColorJitter(0.3, 0.3, saturation=0.3, hue=0.3, clip="each"), image=torch.rand(12, 3, 29, 37).double()
    )
    orders = {tuple(order) for order in record.params[0]["order"].tolist()}
    assert len(orders) > 5
    for sample in range(len(image)):
        assert (out[sample] - _torchvision_jitter(image[sample], _values(record, sample))).abs().max() < 2 * COLOR


def test_color_jitter_clipped_at_the_end_is_the_same_where_nothing_clips():
    image = 0.4 + 0.2 * torch.rand(4, 3, 29, 37, dtype=torch.float64)
    ours = [_run(pellucid.ColorJitter(0.2, 0.2, saturation=0.2, clip=clip), image=image)[1] for clip in ("end", "each")]
    # The two differ by torchvision's rounding of a luma weight, 1e-4 of the values.
    assert (ours[0] - ours[1]).abs().max() < 1e-4


@pytest.mark.parametrize("fill", [0.0, (0.1, 0.5, 0.9)])
@pytest.mark.parametrize("mode", [("bilinear", 1), ("nearest", 0)])
def test_random_affine(mode, fill):
    transform = pellucid.RandomAffine(
        30, (0.2, 0.1), scale=(0.7, 1.4), shear=10, interpolation=mode[0], padding_mode="constant", fill=fill
    )
    image, out, record = _run(transform)
    value = fill if isinstance(fill, tuple) else (fill,) * 3
    for sample, matrix in enumerate(record.matrix.numpy()):
        wanted = cv_warp("warpAffine", image[sample], matrix[:2], (37, 29), mode[1], "constant", value)
        assert (out[sample] - wanted).abs().max() < RESAMPLED


@pytest.mark.parametrize("scale", [(0.7, 1.4, 0.5, 2.0), (pellucid.Uniform(0.7, 1.4), pellucid.Uniform(0.5, 2.0))])
def test_a_scale_for_each_axis_is_opencvs_rotation_of_a_stretched_picture(scale):
    cv2 = pytest.importorskip("cv2")
    _, _, record = _run(pellucid.RandomAffine(30, scale=scale))
    values = {name: value.double().numpy() for name, value in record.params[0].items()}
    assert np.abs(values["scale_x"] - values["scale_y"]).min() > 1e-3
    for sample, matrix in enumerate(record.matrix.double().numpy()):
        x, y = values["scale_x"][sample], values["scale_y"][sample]
        stretch = np.array([[x, 0, 18 * (1 - x)], [0, y, 14 * (1 - y)], [0, 0, 1]])
        turn = cv2.getRotationMatrix2D((18, 14), float(values["degrees"][sample]), 1.0)
        np.testing.assert_allclose(matrix[:2], turn @ stretch, rtol=0, atol=1e-4)


@pytest.mark.parametrize("kind", [pellucid.RandomTranslate, lambda t, **o: pellucid.RandomAffine(0, t, **o)])
def test_whole_pixels_are_moved_as_numpy_moves_them(kind):
    image, out, record = _run(kind((0.4, 0.3), whole_pixels=True))
    moves = record.matrix[:, :2, 2].numpy()
    assert (moves == np.round(moves)).all()
    assert len(np.unique(moves, axis=0)) > 2
    for sample, (x, y) in enumerate(moves.astype(int)):
        padded = np.pad(image[sample], ((0, 0), (29, 29), (37, 37)))
        assert (out[sample] == padded[:, 29 - y : 58 - y, 37 - x : 74 - x]).all()


def test_cutout_is_cut_by_the_border():
    """DeVries and Taylor's mask: a square about a pixel anywhere, clipped."""
    image, side, size = torch.ones(40, 1, 20, 24), 8, (20, 24)
    pipeline = pellucid.Pipeline([pellucid.CoarseDropout(1, height=side / 20, width=side / 24, p=1.0, inside=False)], seed=0)
    record = pipeline.draw(image)
    centres = {name: torch.round(record.params[0][name] * n) for name, n in (("x", 24), ("y", 20))}
    for name, n in (("x", 24), ("y", 20)):
        record = record.with_param(0, name, centres[name] / n)
    out, cut = pipeline.apply(image, record), 0
    for sample in range(len(image)):
        x, y = (int(centres[name][sample, 0]) for name in "xy")
        mask = np.ones(size, np.float32)
        mask[max(0, y - side // 2) : min(20, y + side // 2), max(0, x - side // 2) : min(24, x + side // 2)] = 0
        cut += int((1 - mask).sum() < side**2)
        np.testing.assert_allclose(out[sample, 0].numpy(), mask, rtol=0, atol=1e-5)
    assert 5 < cut < 35
    erased = pellucid.Pipeline([pellucid.RandomErasing(p=1.0, scale=(0.2, 0.2), inside=False)], seed=0)(image)
    assert float((erased == 0).float().mean((1, 2, 3)).min()) < 0.1


@pytest.mark.parametrize("border", [("border", "replicate"), ("reflection", "reflect")])
def test_random_perspective(border):
    image, out, record = _run(pellucid.RandomPerspective(0.4, p=1.0, padding_mode=border[0]))
    for sample, matrix in enumerate(record.matrix.numpy()):
        wanted = cv_warp("warpPerspective", image[sample], matrix, (37, 29), 1, border[1], 0)
        assert (out[sample] - wanted).abs().max() < RESAMPLED


def test_a_fused_run_is_one_opencv_warp():
    warps = pellucid.RandomAffine(20), pellucid.RandomHorizontalFlip(0.5), pellucid.RandomPerspective(0.3, p=0.5)
    image, out, record = _run(*warps, canvas="image")  # one matrix for all: nothing is cut off between
    for sample, matrix in enumerate(record.matrix.numpy()):
        wanted = cv_warp("warpPerspective", image[sample], matrix, (37, 29), 1, "constant", 0)
        assert (out[sample] - wanted).abs().max() < RESAMPLED


def test_random_rotation_turns_as_torchvision_s_rotate_does():
    image, out, record = _run(pellucid.RandomRotation(60))
    for sample in range(len(image)):
        wanted = torchvision_functional().rotate(
            image[sample], _values(record, sample)["degrees"], interpolation=torchvision_functional().InterpolationMode.BILINEAR
        )
        assert (out[sample] - wanted).abs().max() < 2e-4  # its coordinates are normalised ones, in float32


@pytest.mark.parametrize("size", [(16, 16), (9, 30), (40, 50)])
def test_random_resized_crop_of_whole_pixels(size):
    image = torch.rand(3, 3, 40, 56)
    pipeline = Pipeline([pellucid.RandomResizedCrop(size)], seed=0)
    _, record = pipeline(image, return_record=True)
    crops = [(0, 0, 40, 56), (3, 11, 20, 24), (7, 2, 33, 17)]
    wanted = []
    values: dict[str, list[float]] = {"scale": [], "ratio": [], "x": [], "y": []}
    for index, (top, left, height, width) in enumerate(crops):
        values["scale"].append(height * width / (40 * 56))
        values["ratio"].append(width / height)
        values["x"].append(left / (56 - width) if width < 56 else 0.0)
        values["y"].append(top / (40 - height) if height < 40 else 0.0)
        crop = image[index : index + 1, :, top : top + height, left : left + width]
        wanted.append(F.interpolate(crop, size, mode="bilinear", antialias=True, align_corners=False))
    for name, numbers in values.items():
        record = record.with_param(0, name, torch.tensor(numbers, dtype=record.params[0][name].dtype))
    assert (pipeline.apply(image, record) - torch.cat(wanted)).abs().max() < RESAMPLED


@pytest.mark.parametrize("size", [(7, 11), (50, 20)])
def test_resize(size):
    image, out, _ = _run(pellucid.Resize(size))
    assert (out - F.interpolate(image, size, mode="bilinear", antialias=True, align_corners=False)).abs().max() < RESAMPLED


@pytest.mark.parametrize(("mode", "theirs"), [("constant", "constant"), ("border", "edge"), ("reflection", "symmetric")])
def test_pad_is_exact(mode, theirs):
    image, out, _ = _run(pellucid.Pad((2, 3, 4, 1), padding_mode=mode, fill=0.3))
    options = {"constant_values": np.float32(0.3)} if mode == "constant" else {}
    assert np.array_equal(out.numpy(), np.pad(image.numpy(), ((0, 0), (0, 0), (3, 1), (2, 4)), mode=theirs, **options))


def test_blur_sharpness_gamma_and_normalize():
    peer = torchvision_functional()
    cases = [
        (pellucid.RandomGaussianBlur(5, p=1.0), lambda x, v: peer.gaussian_blur(x, 5, v["sigma"])),
        (pellucid.RandomSharpness(0.8, p=1.0), lambda x, v: peer.adjust_sharpness(x, v["sharpness"])),
        (pellucid.RandomGamma(p=1.0), lambda x, v: peer.adjust_gamma(x, v["gamma"])),
        (pellucid.Normalize((0.4, 0.5, 0.6), (0.2, 0.3, 0.25)), lambda x, v: peer.normalize(x, [0.4, 0.5, 0.6], [0.2, 0.3, 0.25])),
    ]
    for transform, wanted in cases:
        image, out, record = _run(transform)
        for sample in range(len(image)):
            # Normalised values reach 4, and so does the rounding.
            assert (out[sample] - wanted(image[sample], _values(record, sample))).abs().max() < 4 * COLOR, transform


def _high_frequencies(size: int, above: float) -> torch.Tensor:
    """Noise whose every component lies above a frequency, in cycles per pixel."""
    spectrum = torch.fft.fft2(torch.randn(1, 1, size, size, dtype=torch.float64))
    frequency = torch.fft.fftfreq(size, dtype=torch.float64)
    radius = torch.hypot(frequency[:, None], frequency)
    return torch.fft.ifft2(spectrum * (radius > above)).real


@pytest.mark.parametrize("shrink", [2.0, 4.0])
@pytest.mark.parametrize("degrees", [0.0, 27.0, 45.0])
def test_a_rotated_downscale_aliases_no_more_than_supersampling(degrees, shrink):
    """All of this image lies above the output's Nyquist frequency, so all that comes through is alias."""
    size, samples = 96, 4
    image = _high_frequencies(size, 0.5 / shrink)
    energy = {}
    for antialias in (True, False):
        transform = pellucid.RandomAffine((degrees, degrees), scale=(1 / shrink, 1 / shrink), antialias=antialias)
        _, out, record = _run(transform, image=image)
        energy[antialias] = _middle(out, shrink).square().mean()
    fine = _mean_of_subpixels(image, record.src_from_dst[0], samples)
    energy["supersampled"] = _middle(fine, shrink).square().mean()
    assert energy[True] <= energy["supersampled"]
    assert energy[True] < 0.25 * energy[False]  # and plain sampling does alias


@pytest.mark.parametrize("degrees", [0.0, 27.0])
def test_and_what_the_output_can_hold_comes_through(degrees):
    wave = torch.sin(2 * torch.pi * 0.125 / 4 * torch.arange(96, dtype=torch.float64)).expand(1, 1, 96, 96)  # a quarter of Nyquist
    transform = pellucid.RandomAffine((degrees, degrees), scale=(0.25, 0.25), antialias=True)
    _, out, _ = _run(transform, image=wave)
    assert _middle(out, 4.0).square().mean() > 0.8 * wave.square().mean()


def _middle(image: torch.Tensor, shrink: float) -> torch.Tensor:
    """What the rotated picture surely covers."""
    size = image.shape[-1]
    reach = int(size / shrink / 2 / 1.5)
    return image[..., size // 2 - reach : size // 2 + reach, size // 2 - reach : size // 2 + reach]


def _mean_of_subpixels(image: torch.Tensor, src_from_dst: torch.Tensor, samples: int) -> torch.Tensor:
    size = image.shape[-1]
    step = 1.0 / samples
    dst_from_fine = torch.tensor([[step, 0, step / 2 - 0.5], [0, step, step / 2 - 0.5], [0, 0, 1]], dtype=torch.float64)
    fine = pellucid.functional.warp(image, src_from_dst @ dst_from_fine, size=(size * samples, size * samples))
    return F.avg_pool2d(fine, samples)
