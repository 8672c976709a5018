"""Transforms that other libraries have, against those libraries' definitions in numpy, scipy, OpenCV and torchvision."""

import colorsys

import numpy as np
import pytest
import torch

import pellucid as P
from pellucid import functional as PF
from pellucid.color.temperature import chromaticity_of, gains_of
from tests.peers import ndimage, opencv, torchvision_functional


def pictures(*shape: int, low: float = 0.0, high: float = 1.0, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return low + (high - low) * torch.rand(shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize(
    ("kelvin", "x", "y"), [(2856, 0.44757, 0.40745), (5000, 0.34510, 0.35161), (6500, 0.31352, 0.32363), (10000, 0.28063, 0.28828)]
)
def test_black_bodies_have_the_published_chromaticity(kelvin, x, y):
    found = chromaticity_of(torch.tensor([kelvin], dtype=torch.float64))
    assert float((torch.stack(found)[:, 0] - torch.tensor([x, y])).abs().max()) < 6e-4  # the fit's own error


def test_colder_light_is_bluer_and_6500_kelvin_almost_white():
    gains = gains_of(torch.linspace(2000, 25000, 200, dtype=torch.float64))
    assert bool((gains[1:, 0] < gains[:-1, 0]).all())
    assert bool((gains[1:, 2] > gains[:-1, 2]).all())
    assert float((gains_of(torch.tensor([6500.0])) - 1).abs().max()) < 0.08


def test_brightness_and_contrast_are_albumentations_formula():
    x = pictures(4, 3, 6, 7, low=-0.2, high=1.2)
    out, record = P.Pipeline([P.RandomBrightnessContrast(0.3, 0.4, p=0.5)], seed=1)(x, return_record=True)
    gate, beta, alpha = (record.params[0][name].numpy()[:, None, None, None] for name in ("gate", "brightness", "contrast"))
    wanted = np.where(gate > 0, np.clip((1 + alpha) * x.numpy() + beta, 0, 1), np.clip(x.numpy(), 0, 1))
    np.testing.assert_allclose(out.numpy(), wanted, atol=1e-12)


def test_hsv_is_changed_as_colorsys_has_it():
    x = pictures(3, 3, 5, 6)
    x[:, :, 0, 0], x[:, :, 0, 1] = 0.4, 0.0  # grey stays grey, black may turn grey
    out, record = P.Pipeline([P.HueSaturationValue(hue=0.4, saturation=0.6, value=0.5, p=1.0)], seed=3)(x, return_record=True)
    values = record.params[0]
    for b in range(3):
        for pixel, found in zip(x[b].flatten(1).T.tolist(), out[b].flatten(1).T.tolist(), strict=True):
            hue, saturation, value = colorsys.rgb_to_hsv(*pixel)
            saturation = saturation and min(max(saturation + float(values["saturation"][b]), 0.0), 1.0)
            value = min(max(value + float(values["value"][b]), 0.0), 1.0)
            wanted = colorsys.hsv_to_rgb((hue + float(values["hue"][b])) % 1.0, saturation, value)
            np.testing.assert_allclose(found, wanted, atol=1e-12)


def test_photometric_distortion_is_torchvisions_where_nothing_clips():
    functional = torchvision_functional()
    x = pictures(8, 3, 9, 10, low=0.45, high=0.55)
    out, record = P.Pipeline([P.RandomPhotometricDistort(p=0.5)], seed=5)(x, return_record=True)
    values = record.params[0]
    for b, image in enumerate(x):
        wanted = image
        for name in ("brightness", "contrast", "saturation", "hue"):
            if values[f"{name}_gate"][b]:
                wanted = getattr(functional, f"adjust_{name}")(wanted, float(values[name][b]))
        if values["shuffle_gate"][b]:
            wanted = functional.permute_channels(wanted, values["order"][b].tolist())
        torch.testing.assert_close(out[b], wanted, rtol=0, atol=2e-4)  # its luma weights have four digits


def test_whole_channels_are_dropped_and_parts_mixed():
    x = pictures(64, 3, 4, 4, low=0.1)
    counts = P.Categorical((1.0, 2.0))
    out, record = P.Pipeline([P.ChannelDropout(counts, fill=0.7, p=0.5)], seed=5)(x, return_record=True)
    dropped = (out == 0.7).all(-1).all(-1)
    assert bool((dropped | (out == x).all(-1).all(-1)).all())
    assert torch.equal(dropped.sum(1).double(), record.params[0]["gate"] * record.params[0]["count"])
    assert dropped.any(0).all()
    part = P.ChannelDropout(0.25, fill=0.7, p=1.0)(x)
    mixed = 0.75 * x + 0.25 * 0.7
    assert torch.equal((part - x).abs().amax((-2, -1)).gt(0).sum(1), torch.ones(64, dtype=torch.int64))
    assert bool(((part - x).abs().lt(1e-12) | (part - mixed).abs().lt(1e-12)).all())


def test_these_join_a_resample():
    steps = [P.RandomRotation(10), P.RGBShift(), P.PlanckianJitter(), P.ChannelDropout(), P.RandomBrightnessContrast()]
    assert str(P.Pipeline(steps).plan(P.types.ImageSpec(3, 32, 32))) == "Warp[0] + Color[1,2,3,4]"


def test_holes_cover_whole_pixels_exactly_once():
    from pellucid.kernels.blend import patch

    x = pictures(2, 3, 12, 15)
    boxes = torch.tensor([[[1, 2, 6, 5], [4, 3, 9, 11], [0, 0, 0, 0]], [[0, 0, 3, 3], [14, 11, 15, 12], [2, 2, 4, 9]]])
    wanted = x.clone()
    for b in range(2):
        for x0, y0, x1, y1 in boxes[b].tolist():
            wanted[b, :, y0:y1, x0:x1] = 0.25
    assert torch.equal(patch(x, boxes.double(), torch.full((1, 3), 0.25, dtype=torch.float64)), wanted)


def test_as_many_holes_as_were_drawn():
    x = torch.ones(40, 1, 32, 32, dtype=torch.float64)
    holes = P.CoarseDropout((0.0, 3.0), height=(0.25, 0.25), width=(0.125, 0.125), p=1.0)
    out, record = P.Pipeline([holes], seed=1)(x, return_record=True)
    count = record.params[0]["count"]
    covered = (1 - out).sum((1, 2, 3)) / (8 * 4)
    assert bool((covered <= count + 1e-9).all())
    alone = count <= 1
    assert alone.any()
    torch.testing.assert_close(covered[alone], count[alone])
    assert float((covered - count).abs().median()) < 1e-9  # most do not meet


def test_a_grid_covers_the_square_of_its_ratio():
    x = torch.ones(3, 1, 60, 40, dtype=torch.float64)
    out, record = P.Pipeline([P.GridDropout((4.0, 4.0), (0.2, 0.8), p=1.0)], seed=1)(x, return_record=True)
    torch.testing.assert_close(1 - out.mean((1, 2, 3)), record.params[0]["ratio"] ** 2)
    torch.testing.assert_close(out[..., 15:, :], out[..., :45, :])  # a period of 15 rows


def test_counts_are_scipys_poisson_quantiles():
    from scipy.stats import poisson

    from pellucid.kernels.blend import poisson_quantile

    rate = torch.linspace(0, 60, 200, dtype=torch.float64)[:, None].expand(-1, 257)
    field = (torch.arange(257, dtype=torch.float64) + 0.5) / 257
    found = poisson_quantile(rate, field.expand_as(rate), 60.0)
    np.testing.assert_array_equal(found.numpy(), np.maximum(poisson.ppf(field.numpy()[None], rate.numpy()), 0.0))
    last = torch.tensor(1 - 2.0**-25, dtype=torch.float64).expand(200)
    np.testing.assert_array_equal(poisson_quantile(rate[:, 0], last, 60.0).numpy(), np.maximum(poisson.ppf(last, rate[:, 0]), 0))


@pytest.mark.parametrize(
    ("transform", "mean", "variance"),
    [
        (P.PoissonGaussianNoise(0.01, 0.05, clip="none"), 0.3, 0.01 * 0.3 + 0.05**2),
        (P.ShotNoise(20.0, p=1.0), 0.3, 0.3 / 20),
        (P.SaltAndPepper(0.2, 0.25, p=1.0), 0.8 * 0.3 + 0.2 * 0.25, 0.8 * 0.09 + 0.05 - 0.29**2),
    ],
)
def test_noise_has_the_moments_of_its_law(transform, mean, variance):
    noisy = P.Pipeline([transform], seed=4)(torch.full((4, 3, 200, 200), 0.3, dtype=torch.float64))
    n = noisy.numel()
    assert abs(float(noisy.mean()) - mean) < 5 * (variance / n) ** 0.5
    assert abs(float(noisy.var()) - variance) < 0.01 * variance


def test_surrogates_of_noise_are_the_slopes_of_the_mean():
    x = torch.full((1, 1, 400, 400), 0.3, dtype=torch.float64)
    for transform, slopes in (
        (P.SaltAndPepper(P.Learnable(0.2), P.Learnable(0.25), p=1.0), (0.25 - 0.3, 0.2)),
        (P.ShotNoise(P.Learnable(20.0), p=1.0), (0.0,)),
    ):
        augment = P.Pipeline([transform], seed=1)
        record = augment.draw(x).requires_grad_()
        names = [name for name in record.params[0] if name not in ("gate", "words")]
        found = torch.autograd.grad(augment.apply(x, record).mean(), [record.params[0][name] for name in names])
        assert all(abs(float(a) - b) < 1e-3 for a, b in zip(found, slopes, strict=True))


@pytest.mark.parametrize("width", [1, 3, 5, 7])
def test_boxes_of_odd_width_are_opencvs(width):
    cv2 = opencv()
    x = pictures(1, 3, 12, 15)
    wanted = cv2.blur(x[0].permute(1, 2, 0).numpy(), (width, width), borderType=cv2.BORDER_REFLECT_101)
    found = P.RandomBoxBlur(float(width))(x)
    np.testing.assert_allclose(found[0].permute(1, 2, 0).numpy(), wanted, atol=1e-12)


def test_reliefs_and_prints_are_opencvs_of_their_kernels():
    cv2 = opencv()
    x = pictures(2, 3, 9, 11)
    depth, share = 0.6, 0.3
    relief = np.array([[-1 - depth, -depth, 0], [-depth, 1, depth], [0, depth, 1 + depth]])
    kernel = share * relief + (1 - share) * np.diag([0, 1, 0]) * np.eye(3)
    print_ = np.array([[0.393, 0.769, 0.189], [0.349, 0.686, 0.168], [0.272, 0.534, 0.131]])
    embossed, brown = P.RandomEmboss(share, depth, p=1.0)(x), P.RandomSepia(0.7, p=1.0)(x)
    for b in range(2):
        rows = np.ascontiguousarray(x[b].permute(1, 2, 0).numpy())
        wanted = np.clip(cv2.filter2D(rows, -1, kernel), 0, 1)  # its border is the mirrored one
        np.testing.assert_allclose(embossed[b].permute(1, 2, 0), wanted, atol=1e-12)
        wanted = np.clip(cv2.transform(rows, 0.7 * print_ + 0.3 * np.eye(3)), 0, 1)
        np.testing.assert_allclose(brown[b].permute(1, 2, 0), wanted, atol=1e-6)


def test_an_unsharp_mask_adds_what_scipys_blur_takes_away():
    scipy = ndimage()
    x = pictures(2, 1, 20, 24)
    out, record = P.Pipeline([P.RandomUnsharpMask((0.5, 1.5), (0.3, 2.0), clip="none", p=1.0)], seed=3)(x, return_record=True)
    for b in range(2):
        sigma, amount = (float(record.params[0][name][b]) for name in ("sigma", "amount"))
        plain = x[b, 0].numpy()
        blurred = scipy.gaussian_filter(plain, sigma, mode="mirror", radius=5)
        np.testing.assert_allclose(out[b, 0], plain + amount * (plain - blurred), atol=1e-12)


def test_motion_is_the_mean_of_shifted_pictures():
    scipy = ndimage()
    x = pictures(1, 1, 20, 24)
    augment = P.Pipeline([P.RandomMotionBlur((3.0, 9.0), 90.0)], seed=2)
    out, record = augment(x, return_record=True)
    length, angle = float(record.params[0]["length"]), float(torch.deg2rad(record.params[0]["degrees"]))
    total = np.zeros((20, 24))
    for t in (np.arange(64) + 0.5) / 64 - 0.5:
        step = (t * length * np.sin(angle), -t * length * np.cos(angle))
        total += scipy.shift(x[0, 0].numpy(), step, order=1, mode="mirror") / 64
    np.testing.assert_allclose(out[0, 0].numpy(), total, atol=1e-12)


def test_defocus_is_scipys_correlation_with_a_disk():
    scipy = ndimage()
    x = pictures(1, 1, 20, 24)
    rows, columns = np.mgrid[-4:5, -4:5]
    kernel = np.clip(3.2 + 0.5 - np.hypot(rows, columns), 0, 1)
    wanted = scipy.correlate(x[0, 0].numpy(), kernel / kernel.sum(), mode="mirror")
    np.testing.assert_allclose(P.RandomDefocusBlur(3.2)(x)[0, 0].numpy(), wanted, atol=1e-12)


@pytest.mark.parametrize("taps", [(3, 3), (5, 5), (1, 3), (3, 7)])
def test_medians_are_scipys_and_opencvs(taps):
    scipy, cv2 = ndimage(), opencv()
    x = pictures(1, 2, 12, 15)
    found = P.RandomMedianBlur(taps)(x)
    for plane, wanted in zip(found[0].numpy(), x[0].numpy(), strict=True):
        np.testing.assert_array_equal(plane, scipy.median_filter(wanted, size=taps, mode="nearest"))
    if taps[0] == taps[1]:
        single = x[0, 0].float().numpy()
        np.testing.assert_array_equal(found[0, 0].float().numpy(), cv2.medianBlur(single, taps[0]))


@pytest.mark.parametrize("size", [(64, 64), (61, 83), (64, 70), (16, 16)])
@pytest.mark.parametrize("limit", [0.5, 2.0, 4.0, 40.0])
@pytest.mark.parametrize("tiles", [(8, 8), (2, 3), (1, 1)])
def test_tiles_are_flattened_as_opencv_does(size, limit, tiles):
    cv2 = opencv()
    rows, columns = np.mgrid[: size[0], : size[1]]
    noise = np.random.default_rng(0).integers(0, 40, size)
    image = np.clip(noise + 60 + 50 * np.sin(rows / 9) * np.cos(columns / 13), 0, 255).astype(np.uint8)
    wanted = cv2.createCLAHE(limit, tiles[::-1]).apply(image)
    found = P.RandomCLAHE((limit, limit), tiles=tiles, p=1.0)(torch.tensor(image)[None, None])
    np.testing.assert_array_equal(found[0, 0].numpy(), wanted)


@pytest.mark.parametrize(("size", "longest"), [((12, 16), 8), ((17, 5), 9), ((3, 100), 10), ((5, 7), 14)])
def test_the_longer_side_gets_its_length(size, longest):
    x = pictures(1, 2, *size)
    found = P.LongestMaxSize(longest)(x)
    wanted = tuple(max(1, int(n * longest / max(size) + 0.5)) for n in size)
    assert found.shape[-2:] == wanted
    torch.testing.assert_close(found, P.Resize(wanted)(x), rtol=0, atol=0)


def test_padding_is_numpys_where_needed():
    x = pictures(1, 2, 5, 6)
    wanted = np.pad(x.numpy(), ((0, 0), (0, 0), (2, 2), (0, 0)), constant_values=0.5)
    np.testing.assert_array_equal(P.PadIfNeeded((9, 4), fill=0.5)(x).numpy(), wanted)
    wanted = np.pad(x.numpy(), ((0, 0), (0, 0), (1, 2), (1, 1)), mode="symmetric")
    np.testing.assert_array_equal(P.PadIfNeeded(8, padding_mode="reflection")(x).numpy(), wanted)


def test_zooming_out_is_padding_and_resizing():
    x = pictures(1, 3, 12, 16)
    augment = P.Pipeline([P.RandomZoomOut((2.0, 2.0), fill=0.25, p=1.0)])
    record = augment.draw(x)
    for name, value in (("x", 0.25), ("y", 0.5)):
        record = record.with_param(0, name, torch.full((1,), value, dtype=torch.float64))
    padded = torch.nn.functional.pad(x, (4, 12, 6, 6), value=0.25)
    wanted = torch.nn.functional.interpolate(padded, (12, 16), mode="bilinear", antialias=True)
    inside = augment.apply(x, record)[..., 4:8, 3:9]  # an antialiased edge is clamped here, and mixed with the canvas there
    torch.testing.assert_close(inside, wanted[..., 4:8, 3:9], rtol=0, atol=1e-12)


def test_scale_jitter_is_resizing_and_cutting_or_padding():
    x = pictures(1, 3, 12, 16)
    for scale, size in ((0.5, (6, 8)), (2.0, (24, 32))):
        augment = P.Pipeline([P.ScaleJitter((12, 16), (scale, scale), fill=0.25)])
        record = augment.draw(x)
        for name in ("x", "y"):
            record = record.with_param(0, name, torch.full((1,), 0.5, dtype=torch.float64))
        resized = torch.nn.functional.interpolate(x, size, mode="bilinear", antialias=True)
        wanted = P.Pipeline([P.CenterCrop((12, 16), fill=0.25)])(resized)
        torch.testing.assert_close(augment.apply(x, record)[..., 4:8, 5:11], wanted[..., 4:8, 5:11], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("center_crop", (4,)),
        ("center_crop", ((9, 30),)),
        ("resized_crop", (2, 3, 9, 8, (5, 6))),
        ("permute_channels", ([2, 0, 1],)),
        ("posterize", (3,)),
        ("equalize", ()),
        ("autocontrast", ()),
    ],
)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_functions_are_torchvisions_of_the_same_name(name, arguments, dtype):
    x = pictures(2, 3, 20, 24)
    x = (x * 255).round().to(dtype) if dtype == torch.uint8 else x.to(dtype)
    found, wanted = (getattr(module, name)(x, *arguments) for module in (PF, torchvision_functional()))
    if name == "posterize" and dtype != torch.uint8:  # torchvision's floats have other levels than its bytes
        wanted = torchvision_functional().posterize((x * 255 + 1e-3).to(torch.uint8), *arguments) / 255
    level = 1 if name in ("resized_crop", "autocontrast") else 0  # rounded here, cut off there
    torch.testing.assert_close(found, wanted, rtol=0, atol=level if dtype == torch.uint8 else 1e-6)


def test_solarized_and_cut_in_five_and_ten_as_torchvision_does():
    theirs = torchvision_functional()
    x = pictures(2, 3, 11, 12)
    assert torch.equal(PF.solarize(x, 0.4), theirs.solarize(x, 0.4))
    assert torch.equal(PF.five_crop(x, (5, 4)), torch.stack(theirs.five_crop(x, (5, 4)), 1))
    for flip in (False, True):
        assert torch.equal(PF.ten_crop(x, 5, vertical_flip=flip), torch.stack(theirs.ten_crop(x, 5, vertical_flip=flip), 1))
    assert torch.equal(PF.grayscale_to_rgb(x[:, :1]), theirs.grayscale_to_rgb(x[:, :1]))


def test_perspective_is_opencvs():
    cv2 = opencv()
    x = pictures(1, 1, 20, 24)
    start = np.array([[1, 2], [20, 3], [21, 17], [2, 15]], np.float32)
    end = start + np.array([[1, 1], [-2, 0], [1, -2], [0, 2]], np.float32)
    matrix = cv2.getPerspectiveTransform(end, start)
    rows, columns = np.mgrid[:20, :24]
    places = np.stack((columns, rows, np.ones_like(rows)), -1) @ matrix.T
    wanted = ndimage().map_coordinates(x[0, 0].numpy(), (places / places[..., 2:])[..., [1, 0]].transpose(2, 0, 1), order=1)
    found = PF.perspective(x, start.tolist(), end.tolist())[0, 0].numpy()
    np.testing.assert_allclose(found[4:15, 5:18], wanted[4:15, 5:18], atol=1e-12)


def test_a_choice_opens_one_of_them():
    x = pictures(12, 3, 16, 18)
    branches = [
        P.CoarseDropout(1, fill=9.0, p=1.0),
        P.RandomMedianBlur(3),
        P.RandomPhotometricDistort(p=1.0),
        P.ShotNoise(9.0, p=1.0),
    ]
    out, _record = P.Pipeline([P.OneOf(branches)], seed=3)(x, return_record=True)
    blurred = branches[1](x)
    assert not any(torch.equal(out[i], x[i]) for i in range(12))
    medians = [i for i in range(12) if torch.allclose(out[i], blurred[i], rtol=0, atol=1e-9)]  # to the rounding of a hue at rest
    assert 0 < len(medians) < 12
    assert 0 < int((out == 9.0).any(-1).any(-1).any(-1).sum()) < 12


def test_blurs_by_function_are_opencvs_scipys_and_the_transforms():
    x = pictures(2, 3, 15, 17, seed=4)
    cv2, nd = opencv(), ndimage()
    bytes_ = (x * 255).to(torch.uint8)
    for b in range(2):
        plain = x[b].permute(1, 2, 0).numpy()
        np.testing.assert_allclose(PF.box_blur(x, 5)[b].permute(1, 2, 0), cv2.blur(plain, (5, 5)), atol=1e-12)
        rows = bytes_[b].permute(1, 2, 0).numpy()
        assert np.array_equal(PF.median_blur(bytes_, 5)[b].permute(1, 2, 0), cv2.medianBlur(rows, 5))
        assert np.array_equal(
            PF.clahe(bytes_, 2.0, (2, 3))[b, 1].numpy(), cv2.createCLAHE(2.0, (3, 2)).apply(np.ascontiguousarray(rows[..., 1]))
        )
        reach = np.arange(-4, 5)
        kernel = np.clip(3.2 + 0.5 - np.hypot(reach[:, None], reach), 0, 1)
        kernel /= kernel.sum()
        wanted = nd.correlate(x[b, 0].numpy(), kernel, mode="mirror")
        np.testing.assert_allclose(PF.defocus_blur(x, 9, 3.2)[b, 0], wanted, atol=1e-12)
    moved = P.RandomMotionBlur((5.0, 5.0), (33.0, 33.0))(x)
    torch.testing.assert_close(PF.motion_blur(x, 7, 5.0, torch.tensor([33.0, 33.0])), moved, atol=1e-6, rtol=0)
