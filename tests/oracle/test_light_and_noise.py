"""Uneven light, noise by a formula, and blurs by a formula: against albumentations, OpenCV and the formulas in numpy."""

import os

import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter

import pellucid as P
from pellucid import Pipeline
from tests.peers import torchvision_functional

os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")
IMAGE = 0.2 + 0.5 * torch.rand(1, 3, 24, 36, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
PIXELS = IMAGE[0].permute(1, 2, 0).numpy()


def shown(transform):
    return transform(IMAGE)[0].permute(1, 2, 0).numpy()


def theirs():
    pytest.importorskip("albumentations")
    from albumentations.augmentations.pixel import functional

    return functional


@pytest.mark.parametrize("degrees", [0.0, 90.0, 180.0])
@pytest.mark.parametrize("intensity", [0.3, -0.2])
def test_light_grows_as_albumentations_has_it_along_the_axes(degrees, intensity):
    image = PIXELS.astype(np.float32)
    wanted = theirs().apply_linear_illumination(image, intensity, -degrees % 360)  # theirs turn clockwise
    ours = shown(P.RandomLinearIllumination(intensity, (degrees, degrees), p=1.0))
    length = 36 if degrees % 180 == 0 else 24
    assert np.abs(ours - wanted).max() < 0.31 * 0.7 / length + 1e-6  # their ends lie on the outermost pixels


@pytest.mark.parametrize("corner", [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0)])
def test_light_out_of_a_corner_is_kornias(corner):
    """Its generator draws the corner; one of its fields has its light in ours."""
    kornia = pytest.importorskip("kornia", reason="kornia is not installed")
    augmentation = kornia.augmentation.RandomLinearCornerIllumination(gain=0.2, sign=-1.0, p=1.0)
    fields = {}
    for seed in range(40):
        torch.manual_seed(seed)
        field = augmentation.generate_parameters(IMAGE.shape)["gradient"][0, 0]
        lit = int(field.abs().argmax())
        fields[lit % 36 / 35, lit // 36 / 23] = field
    assert len(fields) == 4
    ours = P.RandomCornerIllumination(0.2, sign=-1.0, x=corner[0], y=corner[1], p=1.0)(IMAGE) - IMAGE
    np.testing.assert_allclose(ours[0, 0].numpy(), fields[corner].numpy(), atol=2e-6)


def test_a_spot_is_albumentations():
    wanted = theirs().apply_gaussian_illumination(PIXELS.astype(np.float32), 0.25, ((9 + 0.0) / 36, 6 / 24), 0.3)
    ours = shown(P.RandomSpotIllumination(0.25, x=9.5 / 36, y=6.5 / 24, sigma=0.3, p=1.0))  # theirs count pixels from 0
    np.testing.assert_allclose(ours, wanted, atol=1e-6)


@pytest.mark.parametrize("vibrance", [0.8, -0.6])
def test_vibrance_is_saturation_by_less_where_there_is_more(vibrance):
    peer = torchvision_functional()
    hue = torch.rand(1, 1, 24, 36, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for chroma in (0.1, 0.5):
        image = torch.cat((torch.zeros_like(hue), hue, torch.ones_like(hue)), 1)[:, [2, 0, 1]] * chroma + 0.25
        wanted = peer.adjust_saturation(image, 1.0 + vibrance * (1.0 - chroma))
        assert (P.RandomVibrance(vibrance, p=1.0)(image) - wanted).abs().max() < 2e-4  # their luma is rounded to four places


def test_the_tone_curve_is_albumentations():
    levels = np.arange(256, dtype=np.uint8).reshape(16, 16, 1).repeat(3, 2)
    wanted = theirs().move_tone_curve(levels, 0.15, 0.8)
    ours = P.RandomToneCurve(0.15, 0.8, p=1.0)(torch.from_numpy(levels).permute(2, 0, 1).double() / 255)
    assert np.abs(ours.permute(1, 2, 0).numpy() * 255 - wanted).max() <= 0.5 + 1e-6


def test_uneven_contrast_is_kornias_of_the_same_cloud():
    cloud = (P.RandomPlasmaBrightness(0.5, 1.7, clip="none", p=1.0),)
    field = Pipeline(cloud, seed=2)(torch.zeros_like(IMAGE)) + 0.5  # 0.5 * (2 cloud - 1) + 0.5
    of_another = Pipeline([P.RandomPlasmaContrast(1.0, 1.7, clip="none", p=1.0)], seed=2)
    record = of_another.draw(IMAGE).with_param(0, "words", Pipeline(cloud, seed=2).draw(IMAGE).params[0]["words"])
    torch.testing.assert_close(of_another.apply(IMAGE, record), (IMAGE - 0.5) * 4 * field + 0.5)


def test_downscaled_blocks_are_opencvs():
    cv2 = pytest.importorskip("cv2")
    for scale, size in ((0.5, (18, 12)), (0.25, (9, 6)), (1 / 3, (12, 8))):
        small = cv2.resize(PIXELS, size, interpolation=cv2.INTER_AREA)
        wanted = cv2.resize(small, (36, 24), interpolation=cv2.INTER_NEAREST)
        np.testing.assert_allclose(shown(P.RandomDownscale(scale, p=1.0)), wanted, atol=1e-6)


def test_a_bell_at_an_angle_is_the_published_kernel():
    along, across, degrees, beta = 2.0, 0.7, 30.0, 0.8
    dot = torch.zeros(1, 1, 27, 27, dtype=torch.float64)
    dot[0, 0, 13, 13] = 1.0
    ours = P.RandomAnisotropicBlur(along, across, degrees=(degrees, degrees), beta=beta, p=1.0)(dot)[0, 0, 7:-7, 7:-7].numpy()
    turn = np.deg2rad(-degrees)  # y points down
    axes = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    inverse = np.linalg.inv(axes @ np.diag([along**2, across**2]) @ axes.T)
    grid = np.stack(np.meshgrid(np.arange(-6.0, 7.0), np.arange(-6.0, 7.0)), -1)
    kernel = np.exp(-0.5 * ((grid @ inverse) * grid).sum(-1) ** beta)
    np.testing.assert_allclose(ours, kernel / kernel.sum(), atol=1e-12)


def test_colours_move_along_imagenets_axes():
    variances, axes = np.array([0.2175, 0.0188, 0.0045]), P.transforms.channels._PRINCIPAL
    np.testing.assert_allclose(np.array(axes).T @ np.array(axes), np.eye(3), atol=2e-3)
    pipeline = Pipeline([P.FancyPCA(0.3, clip="none", p=1.0)], seed=1)
    out, record = pipeline(IMAGE, return_record=True)
    drawn = np.array([float(record.params[0][f"alpha_{k}"]) for k in range(3)])
    np.testing.assert_allclose((out - IMAGE)[0, :, 4, 7].numpy(), np.array(axes) @ (drawn * variances), atol=1e-12)
    many = pipeline.draw(IMAGE.expand(3000, -1, -1, -1)).params[0]["alpha_1"]
    assert abs(float(many.std()) - 0.3) < 0.02


def test_factors_of_noise_are_uniform_and_their_own():
    from scipy import stats

    ones = torch.full((1, 3, 40, 50), 0.5, dtype=torch.float64)
    factors = P.MultiplicativeNoise(0.4, p=1.0)(ones) / ones
    assert stats.kstest(factors.flatten().numpy(), stats.uniform(0.6, 0.8).cdf).pvalue > 1e-3
    assert abs(np.corrcoef(factors[0, 0].flatten(), factors[0, 1].flatten())[0, 1]) < 0.1


def test_iso_noise_changes_hue_and_light_as_it_says():
    import colorsys

    out = shown(P.ISONoise(0.04, 0.5, clip="none", p=1.0))
    before = np.array([colorsys.rgb_to_hls(*pixel) for pixel in PIXELS.reshape(-1, 3)])
    after = np.array([colorsys.rgb_to_hls(*pixel) for pixel in out.reshape(-1, 3)])
    np.testing.assert_allclose(after[:, 2], before[:, 2], atol=1e-9)  # saturation
    turned = (after[:, 0] - before[:, 0] + 0.5) % 1.0 - 0.5
    assert abs(turned.std() - 0.04 * 0.5) < 0.002
    counted = (after[:, 1] - before[:, 1]) / (1.0 - before[:, 1]) / 0.5
    rate = 0.5 * before[:, 1].std()
    assert abs(counted.mean() - rate) < 0.05
    assert abs(counted.std() - rate**0.5) < 0.02


def test_glass_shows_pixels_that_are_near():
    rows, columns = torch.meshgrid(torch.arange(30.0), torch.arange(40.0), indexing="ij")
    places = torch.stack((rows / 30, columns / 40))[None].double()
    seen = P.RandomGlassBlur(0.1, 3, p=1.0)(places)  # next to no blur
    moved = (seen - places) * torch.tensor([30.0, 40.0])[:, None, None]
    inner = moved[..., 3:-3, 3:-3].round()
    assert torch.allclose(inner, moved[..., 3:-3, 3:-3], atol=1e-9)
    assert set(inner.flatten().tolist()) == set(range(-3, 4))
    blurred = P.RandomGlassBlur(1.5, 0, p=1.0)(IMAGE)
    twice = IMAGE.numpy()
    for _ in range(2):
        twice = gaussian_filter(twice, (0, 0, 1.5, 1.5), mode="mirror", truncate=4)
    np.testing.assert_allclose(blurred.numpy(), twice, atol=1e-12)


def test_shadows_and_flares_are_their_formulas():
    ones = torch.ones(1, 1, 30, 40, dtype=torch.float64)
    y, x = np.mgrid[:30, :40] + 0.5
    dark = P.RandomShadow(0.6, x=0.4, width=0.3, degrees=(20.0, 20.0), p=1.0)(ones)[0, 0].numpy()
    turn = np.deg2rad(20.0)
    beside = (x - 16) * np.cos(turn) - (y - 15) * np.sin(turn)
    np.testing.assert_allclose(dark, 1 - 0.6 / (1 + np.exp(-2 * (6 - np.abs(beside)))), atol=1e-12)
    flare = P.RandomSunFlare(0.8, x=0.25, y=0.2, radius=0.1, p=1.0)(0 * ones)[0, 0].numpy()
    light = np.exp(-((x - 10) ** 2 + (y - 6) ** 2) / (2 * 4.0**2))
    assert (flare >= 0.8 * light - 1e-12).all()
    assert flare[int(15 + 0.7 * 9), int(20 + 0.7 * 10)] > 0.1  # the last reflection, beyond the middle


@pytest.mark.parametrize(
    "kind", [P.RandomLinearIllumination, P.RandomCornerIllumination, P.RandomSpotIllumination, P.RandomShadow, P.RandomSunFlare]
)
def test_light_is_the_same_to_the_bit_for_a_picture_alone(kind):
    """Torch's sigmoid differs in its last bit with where a number lies in memory."""
    batch, augment = torch.rand(3, 1, 5, 5), P.Pipeline([kind(p=0.6)])
    for step in range(20):
        together = augment(batch, key=P.Key(1, step))
        alone = torch.cat([augment(batch[i : i + 1], key=P.Key(1, step, torch.tensor([i]))) for i in range(3)])
        assert torch.equal(together, alone)
