"""What scanners do to volumes, against numpy.fft, scipy and torch, and against TorchIO and batchgeneratorsv2 where they are."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy import ndimage, stats

import pellucid as P
from tests.volumes.cases import everything, voxels


def run(transform, volume, **values):
    """A transform on a volume, with some drawn values set."""
    augment = P.Pipeline([transform], targets={"image": "volume"}, seed=3)
    record = augment.draw({"volume": volume})
    for name, value in values.items():
        wanted = torch.as_tensor(value, dtype=record.params[0][name].dtype)
        record = record.with_param(0, name, wanted.expand(record.params[0][name].shape))
    return augment.apply({"volume": volume}, record)["volume"], {name: value.numpy() for name, value in record.params[0].items()}


def torchio():
    return pytest.importorskip("torchio", reason="TorchIO is not installed: it is the oracle of scanners' artefacts")


def of_torchio(transform, x, affine=None):
    """One (C, D, H, W) volume through TorchIO, whose axes are (C, x, y, z)."""
    tio = torchio()
    image = tio.ScalarImage(tensor=x.permute(0, 3, 2, 1).float(), affine=np.eye(4) if affine is None else affine)
    return transform(image).data.permute(0, 3, 2, 1)


def batchgenerators(module, name):
    return getattr(pytest.importorskip(f"batchgeneratorsv2.transforms.{module}", reason="batchgeneratorsv2 is not installed"), name)


@pytest.mark.parametrize("size", [(7, 9, 8), (8, 6, 9)])
@pytest.mark.parametrize("restore", [0.0, 0.6])
def test_ghosts_are_weak_planes_of_numpys_spectrum(size, restore):
    x = voxels(6, size, dtype=torch.float64)
    out, drawn = run(P.RandomGhosting((2, 4), restore=restore), x)
    for b in range(6):
        axis = 2 - int(drawn["axis"][b])
        spectrum = np.fft.fftshift(np.fft.fftn(x[b].numpy(), axes=(1, 2, 3)), axes=(1, 2, 3))
        plane, middle, half = np.arange(size[axis]), size[axis] // 2, round(restore * size[axis]) // 2
        weak = (plane % drawn["ghosts"][b] == 0) & (plane != middle) & ~((plane >= middle - half) & (plane < middle + half))
        factor = np.where(weak, 1 - drawn["intensity"][b], 1.0).reshape([-1 if i == axis + 1 else 1 for i in range(4)])
        expected = np.fft.ifftn(np.fft.ifftshift(spectrum * factor, axes=(1, 2, 3)), axes=(1, 2, 3)).real
        assert np.abs(out[b].numpy() - expected).max() < 1e-12
    assert set(drawn["axis"]) <= {0.0, 1.0, 2.0}


def test_ghosts_are_torchios():
    tio, x = torchio(), voxels(1, (7, 9, 8))
    for axis in range(3):
        out, _ = run(P.RandomGhosting(4), x, ghosts=3.0, axis=float(axis), intensity=0.7)
        theirs = of_torchio(tio.Ghosting(num_ghosts=3, axis=axis, intensity=0.7, restore=None), x[0])
        assert (out[0] - theirs).abs().max() < 1e-5


def test_spikes_are_points_of_numpys_spectrum():
    x = voxels(3, (7, 8, 9), dtype=torch.float64) - 0.5
    out, drawn = run(P.RandomSpike((0, 3), intensity=(-2.0, 2.0)), x)
    for b in range(3):
        for c in range(2):
            spectrum = np.fft.fftshift(np.fft.fftn(x[b, c].numpy()))
            peak = np.abs(spectrum).max()
            for k in range(int(drawn["spikes"][b])):
                place = np.floor(drawn["places"][b][3 * k : 3 * k + 3] * (9, 8, 7)).astype(int)
                spectrum[place[2], place[1], place[0]] += drawn["intensity"][b] * peak
            assert np.abs(out[b, c].numpy() - np.fft.ifftn(np.fft.ifftshift(spectrum)).real).max() < 1e-12


def test_spikes_are_torchios():
    tio, x, places = torchio(), voxels(1, (7, 8, 9)), np.array([[0.3, 0.2, 0.6], [0.1, 0.9, 0.5]])
    out, _ = run(P.RandomSpike(2), x, places=places.flatten(), intensity=0.5)
    assert (out[0] - of_torchio(tio.Spike(spikes_positions=places, intensity=0.5), x[0])).abs().max() < 1e-5


def test_bias_fields_are_exponentials_of_polynomials():
    x = voxels(2, (5, 6, 7), dtype=torch.float64)
    out, drawn = run(P.RandomBiasField(0.4, order=2), x)
    z, y, x_ = np.meshgrid(*(np.linspace(-1, 1, n) for n in (5, 6, 7)), indexing="ij")
    terms = [(i, j, k) for i in range(3) for j in range(3) for k in range(3) if i + j + k <= 2]
    assert drawn["coefficients"].shape == (2, len(terms)) == (2, 10)
    for b in range(2):
        log = sum(c * x_**i * y**j * z**k for c, (i, j, k) in zip(drawn["coefficients"][b], terms, strict=True))
        assert np.abs(out[b].numpy() - x[b].numpy() * np.exp(log)).max() < 1e-12


def test_bias_fields_are_torchios():
    tio, x = torchio(), voxels(1, (6, 8, 4))
    out, drawn = run(P.RandomBiasField(0.5), x)
    theirs = of_torchio(tio.BiasField(coefficients=list(drawn["coefficients"][0]), order=3), x[0])
    assert (out[0] - theirs).abs().max() < 1e-5


def test_motion_takes_stretches_of_numpys_spectra():
    x = torch.zeros(1, 1, 12, 12, 12, dtype=torch.float64)
    x[..., 3:9, 4:9, 3:8] = voxels(1, (6, 5, 5), channels=1, dtype=torch.float64)
    out, drawn = run(P.RandomMotion(12.0, 2.0, axis="z"), x)
    moved = [x[0, 0].numpy()]
    for k in range(2):
        turn = P.Pipeline([P.RandomAffine3(12)])
        record = turn.draw(x)
        for at, name in enumerate("xyz"):
            record = record.with_param(0, f"degrees_{name}", torch.tensor([drawn["degrees"][0][3 * k + at]]))
            record = record.with_param(0, f"translate_{name}", torch.tensor([drawn["translation"][0][3 * k + at] / 12]))
        back = record.src_from_dst[0].numpy()
        moved.append(ndimage.affine_transform(moved[0], back[2::-1, 2::-1], back[2::-1, 3], order=1, mode="grid-constant"))
    times = drawn["times"][0] + np.array([1.0, 2.0]) / 3
    bounds, spectrum = [0, *np.floor(12 * times).astype(int), 12], np.zeros((12, 12, 12), complex)
    central = int((times <= 0.5).sum())
    order = list(range(3))
    order[0], order[central] = order[central], order[0]
    for part, which in enumerate(order):
        rows = slice(bounds[part], bounds[part + 1])
        spectrum[rows] = np.fft.fftshift(np.fft.fftn(moved[which]))[rows]
    assert np.abs(out[0, 0].numpy() - np.fft.ifftn(np.fft.ifftshift(spectrum)).real).max() < 1e-12


def test_motion_is_torchios():
    tio = torchio()
    x = torch.zeros(1, 1, 12, 12, 12)
    x[..., 3:9, 4:9, 3:8] = voxels(1, (6, 5, 5), channels=1)
    affine = np.diag([1.0, 1.0, 1.0, 1.0])
    affine[:3, 3] = -5.5  # TorchIO turns about the origin of the world
    times, sign = np.array([0.4, 0.7]), np.array([1.0, 1.0, -1.0])  # its movements are in a world with x and y the other way round
    turns, shifts = np.array([[9.0, 0.0, 0.0], [0.0, 0.0, -7.0]]), np.array([[1.5, 0.0, 0.0], [0.0, -1.0, 2.0]])
    for degrees, shift in ((turns, 0.0 * shifts), (0.0 * turns, shifts)):
        theirs = of_torchio(tio.Motion(degrees=degrees, translation=shift, times=times, image_interpolation="linear"), x[0], affine)
        ours, _ = run(
            P.RandomMotion(12.0, 2.0),
            x,
            degrees=(-sign * degrees).flatten(),
            translation=(sign * shift).flatten(),
            times=times - np.array([1.0, 2.0]) / 3,
        )
        assert (ours[0] - theirs).abs().max() < 1e-4


@pytest.mark.parametrize("axes", ["xyz", "xy"])
def test_low_resolution_is_torchs(axes):
    x = voxels(4, (7, 10, 9), dtype=torch.float64)
    out, drawn = run(P.RandomLowResolution((0.4, 1.0), axes=axes), x)
    for b in range(4):
        wanted = [round(n * s) if a in axes else n for a, n, s in zip("zyx", (7, 10, 9), [drawn["scale"][b]] * 3, strict=True)]
        small = F.interpolate(x[b : b + 1], wanted, mode="nearest-exact")
        assert (out[b] - F.interpolate(small, (7, 10, 9), mode="trilinear")[0]).abs().max() < 1e-12
    flat = torch.rand(1, 2, 10, 9)
    half = F.interpolate(F.interpolate(flat, (5, 4), mode="nearest-exact"), (10, 9), mode="bilinear")
    assert (P.RandomLowResolution(0.5)(flat) - half).abs().max() < 1e-6


def test_values_in_range_are_batchgenerators():
    gamma, contrast = (
        batchgenerators("intensity.gamma", "GammaTransform"),
        batchgenerators("intensity.contrast", "ContrastTransform"),
    )
    x = 3.0 * voxels(1, (7, 9, 8)) - 1.0
    for invert in (False, True):
        for retain in (False, True):
            theirs = gamma(1.4, float(invert), False, 1.0, float(retain))(image=x[0].clone())["image"]
            assert (run(P.RandomGammaInRange(1.4, invert=invert, retain_stats=retain), x)[0][0] - theirs).abs().max() < 1e-5
    theirs = contrast(1.3, True, False)(image=x[0].clone())["image"]
    assert (run(P.RandomContrastInRange(1.3), x)[0][0] - theirs).abs().max() < 1e-5


def test_gamma_in_range_is_numpys():
    x = 3.0 * voxels(2, dtype=torch.float64) - 1.0
    out = run(P.RandomGammaInRange(1.7), x)[0].numpy()
    for b in range(2):
        for c in range(2):
            one = x[b, c].numpy()
            found = ((one - one.min()) / np.ptp(one)) ** 1.7 * np.ptp(one) + one.min()
            found = (found - found.mean()) * one.std(ddof=1) / found.std(ddof=1) + one.mean()
            assert np.abs(out[b, c] - found).max() < 1e-12


def test_rician_noise_has_scipys_distribution():
    out, _ = run(P.RicianNoise(0.2), torch.full((1, 1, 20, 20, 20), 0.3))
    assert stats.kstest(out.flatten().double().numpy(), stats.rice(0.3 / 0.2, scale=0.2).cdf).pvalue > 0.01


def test_blurs_with_a_sigma_per_axis_are_scipys():
    x = voxels(2, (9, 8, 7), dtype=torch.float64)
    out, drawn = run(P.RandomGaussianBlur(sigma=((0.4, 0.9), 0.7, (0.5, 0.6))), x)
    taps = 2 * 3 + 1
    for b in range(2):
        expected = x[b].numpy()
        for axis, name in zip((3, 2, 1), "xyz", strict=True):
            bell = np.exp(-0.5 * (np.arange(taps) - taps // 2) ** 2 / drawn[f"sigma_{name}"][b] ** 2)
            expected = ndimage.correlate1d(expected, bell / bell.sum(), axis, mode="mirror")
        assert np.abs(out[b].numpy() - expected).max() < 1e-12


def test_labels_become_scans():
    labels = torch.randint(0, 4, (3, 12, 16, 16), generator=torch.Generator().manual_seed(0))
    paint = P.Pipeline([P.RandomLabelsToImage(4)], seed=1)
    batch = {"volume": labels[:, None].double(), "labelmap": labels}
    out, record = paint(batch, return_record=True)
    assert torch.equal(out["labelmap"], labels)
    mean, sigma = record.params[0]["mean"], record.params[0]["sigma"]
    for b in range(3):
        for label in range(4):
            here = out["volume"][b, 0][labels[b] == label].numpy()
            assert stats.kstest(here, stats.norm(mean[b, label], sigma[b, label]).cdf).pvalue > 1e-3
    of_bytes = paint.apply({"volume": labels[:, None].to(torch.uint8)}, record)["volume"]
    assert (of_bytes / 255.0 - out["volume"].clamp(0, 1)).abs().max() < 0.5 / 255 + 1e-6
    means = mean.clone().requires_grad_()
    total = paint.apply(batch, record.with_param(0, "mean", means))["volume"].sum()
    counts = torch.stack([(labels == label).sum((1, 2, 3)) for label in range(4)], 1)
    assert torch.equal(torch.autograd.grad(total, means)[0], counts.double())


def test_labels_have_ranges_of_their_own():
    paint = P.RandomLabelsToImage(3, mean=((0.0, 0.0), (0.3, 0.4), (0.8, 0.9)), sigma=0.0)
    out = paint({"volume": torch.tensor([0.0, 1.0, 2.0, 7.0]).expand(50, 1, 1, 1, 4)})["volume"].reshape(50, 4)
    for column, (low, high) in enumerate(((0.0, 0.0), (0.3, 0.4), (0.8, 0.9), (0.8, 0.9))):
        assert low <= out[:, column].min() <= out[:, column].max() <= high
    with pytest.raises(P.InvalidArgument, match=r"RandomLabelsToImage\.mean: expected one range for all labels, or 4"):
        P.RandomLabelsToImage(4, mean=((0, 1),) * 3)


def test_crops_show_the_foreground():
    """A third of the windows must show something; of the others some do by chance, as often as scipy's windows do."""
    labels = torch.zeros(3000, 10, 12, 14, dtype=torch.uint8)
    labels[:, 7, 2, 11], labels[:, 1, 9, 3], labels[:, 1, 9, 4] = 1, 2, 2
    batch = {"volume": torch.zeros(3000, 1, 10, 12, 14), "labelmap": labels}

    def shown(**options):
        found = P.Pipeline([P.RandomCrop3((3, 4, 5), **options)], seed=1)(batch)["labelmap"].flatten(1)
        return [(found == label).any(1).float().mean().item() for label in (1, 2)]

    def by_chance(label):
        there = ndimage.maximum_filter((labels[0] == label).numpy(), (3, 4, 5), origin=(0, 0, 0))[1:-1, 2:-1, 2:-2]
        return there.mean()

    alone = [by_chance(label) for label in (1, 2)]
    assert np.allclose(shown(), alone, atol=0.02)
    both = shown(foreground=1.0)
    assert sum(both) >= 1.0
    assert np.allclose(both, [1 / 3, 2 / 3], atol=0.04)  # each voxel is as likely
    assert np.allclose(shown(foreground=1.0, labels=(1, 2)), 0.5, atol=0.04)  # each label is
    assert np.allclose(shown(foreground=0.3, labels=(2,)), [0.7 * alone[0], 0.3 + 0.7 * alone[1]], atol=0.03)
    assert np.allclose(shown(foreground=1.0, labels=(5,)), alone, atol=0.02)  # where there is none, anywhere


def test_a_crop_that_looks_comes_first():
    batch = everything()
    with pytest.raises(P.InvalidArgument, match="RandomCrop3: expected a place before all that moves"):
        P.Pipeline([P.RandomFlip3("x"), P.RandomCrop3(3, foreground=0.5)])(batch)
    colours = P.Pipeline([P.RandomGamma(), P.RandomCrop3(3, foreground=1.0)], seed=0)(batch)
    assert (colours["labelmap"] != 0).flatten(1).any(1).all()
    assert P.Pipeline([P.RandomCrop3(3, foreground=1.0)])({"volume": batch["volume"]})["volume"].shape[2:] == (3, 3, 3)


def test_channels_by_themselves():
    x = voxels(4, channels=3, dtype=torch.float64)
    out, drawn = run(P.PerChannel([P.RandomBrightness((0.5, 1.5), clip="none", p=0.6)]), x)
    factor = np.where(drawn["0_gate"] == 1, drawn["0_brightness"], 1.0)
    assert np.abs(out.numpy() - x.numpy() * factor[..., None, None, None]).max() < 1e-12
    assert len(np.unique(drawn["0_brightness"])) == 12
    with pytest.raises(P.InvalidArgument, match=r"PerChannel\.transforms: expected transforms that leave pixels"):
        run(P.PerChannel([P.RandomFlip3("x")]), x)
    ours = P.PerChannel([P.RandomGaussianBlur(sigma=((0.5, 1.0),) * 3, p=0.5)])
    one = P.Pipeline([ours], seed=1, targets={"image": "volume"})(x)
    assert one.shape == x.shape


def test_a_scale_that_shrinks():
    x = voxels(5, dtype=torch.float64)
    augment = P.Pipeline([P.RandomAffine3(20, scale=(0.6, 1.5), shrinks=True)], seed=0)
    record = augment.draw(x)
    size = torch.linalg.det(record.src_from_dst[:, :3, :3])
    assert torch.allclose(size, record.params[0]["scale"] ** 3)


def test_slabs_have_the_values_of_the_whole(monkeypatch):
    """Rows at a time, of several samples and channels, and labels through all maps at once."""
    from pellucid.core import slabs

    steps = [P.RandomGammaInRange(1.6), P.RandomContrastInRange(1.4), P.RandomLowResolution((0.4, 0.9))]
    steps.append(P.RandomGaussianBlur(3, sigma=(0.5, 1.0)))
    augment = P.Pipeline([P.RandomAffine3(20), *steps, P.RandomFlip3("x", p=1.0)], seed=0)
    batch = {"volume": voxels(3, (7, 6, 5), dtype=torch.float64), "labelmap": torch.randint(0, 9, (3, 7, 6, 5))}
    record = augment.draw(batch)
    assert [str(group) for group in record.plan.spaces] == ["Warp3[0,5]"]
    whole = augment.apply(batch, record)
    monkeypatch.setattr(slabs, "_VALUES", 40)
    apart = augment.apply(batch, record)
    assert (apart["volume"] - whole["volume"]).abs().max() < 1e-12
    alone = P.Pipeline([P.RandomAffine3(20), P.RandomFlip3("x", p=1.0)])
    bare = alone.draw(batch)
    for step, of in ((0, 0), (1, 5)):
        for name, value in record.params[of].items():
            bare = bare.with_param(step, name, value)
    assert torch.equal(apart["labelmap"], alone.apply(batch, bare)["labelmap"])
    leaf = batch["volume"].clone().requires_grad_()
    inside = augment.apply({"volume": leaf}, record)["volume"]
    assert torch.equal(inside, whole["volume"])
