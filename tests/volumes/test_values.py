"""Transforms of pictures that work value by value take volumes: statistics are those of the whole volume."""

import numpy as np
import pytest
import torch
from scipy import ndimage

import pellucid as P
from tests.volumes.cases import everything, voxels

BOTH = [kind for kind in P.ALL if 3 in kind.dimensions]


def of(transform, volume):
    return P.Pipeline([transform], targets={"image": "volume"})(volume)


def test_which_take_volumes():
    names = {kind.__name__ for kind in BOTH}
    assert {"RandomGamma", "RandomContrast", "RandomBrightness", "RandomGaussianNoise", "Normalize", "RandomInvert"} <= names
    assert not names & {"RandomAffine", "RandomCLAHE", "RandomJPEG", "RandomErasing", "CutMix", "RandomMotionBlur"}


@pytest.mark.parametrize(
    ("transform", "expected"),
    [
        (P.RandomGamma((1.7, 1.7)), lambda x: x**1.7),
        (P.RandomBrightness((0.6, 0.6)), lambda x: 0.6 * x),
        (P.RandomContrast((0.5, 0.5)), lambda x: x.mean(axis=(1, 2, 3, 4), keepdims=True) * 0.5 + 0.5 * x),
        (P.RandomBrightnessContrast((0.1, 0.1), (-0.2, -0.2), p=1.0), lambda x: 0.8 * x + 0.1),
        (P.RandomInvert(p=1.0), lambda x: 1.0 - x),
        (P.Normalize((0.4,), (0.2,)), lambda x: (x - 0.4) / 0.2),
        (P.RandomAutoContrast(p=1.0), lambda x: (x - x.min((1, 2, 3, 4), keepdims=True)) / np.ptp(x, (1, 2, 3, 4), keepdims=True)),
        (P.RandomSolarize((0.5, 0.5), p=1.0), lambda x: np.where(x < 0.5, x, 1.0 - x)),
    ],
    ids=lambda one: type(one).__name__,
)
def test_values_are_those_of_the_formula(transform, expected):
    x = voxels(2, channels=1, dtype=torch.float64)
    assert np.abs(of(transform, x).numpy() - expected(x.numpy())).max() < 1e-12


@pytest.mark.parametrize("size", [(7, 9, 8), (3, 9, 8)])
def test_blurs_are_scipys_in_space(size):
    x = voxels(2, size, dtype=torch.float64)
    out = of(P.RandomGaussianBlur(sigma=(0.8, 0.8)), x)
    box = of(P.RandomBoxBlur(3.0), x)
    for b in range(2):
        for c in range(2):
            one = x[b, c].numpy()
            reach = np.arange(-3.0, 4.0)
            bell = np.exp(-0.5 * (reach / 0.8) ** 2)
            expected = one
            for axis in range(3):
                expected = ndimage.correlate1d(expected, bell / bell.sum(), axis, mode="mirror")
            assert np.abs(out[b, c].numpy() - expected).max() < 1e-12
            assert np.abs(box[b, c].numpy() - ndimage.uniform_filter(one, 3, mode="mirror")).max() < 1e-12


def test_noise_is_independent_between_slices():
    out = of(P.RandomGaussianNoise(sigma=1.0, clip="none"), torch.zeros(1, 1, 8, 40, 40))[0, 0]
    correlation = np.corrcoef(out.reshape(8, -1).numpy())
    assert abs(out.std() - 1) < 0.03
    assert np.abs(correlation - np.eye(8)).max() < 4 / 40


@pytest.mark.parametrize("kind", BOTH, ids=lambda kind: kind.__name__)
def test_all_of_them_leave_geometry_alone_and_replay(kind):
    from tests.cases import CASES

    case = next(case for case in CASES if type(case.transform) is kind)
    batch = everything(2) | {"volume": voxels(2, channels=3)}
    augment = P.Pipeline([P.RandomFlip3("x"), case.transform, P.RandomFlip3("y")], seed=1)
    out, record = augment(batch, return_record=True)
    assert all(torch.equal(augment.apply(batch, record)[key], out[key]) for key in out)
    flips = P.Pipeline([P.RandomFlip3("x"), P.RandomFlip3("y")]).draw(batch)
    flips = flips.with_param(0, "gate", record.params[0]["gate"]).with_param(1, "gate", record.params[-1]["gate"])
    moved = P.Pipeline([P.RandomFlip3("x"), P.RandomFlip3("y")]).apply(batch, flips)
    assert all(torch.equal(out[key], moved[key]) for key in ("labelmap", "points3", "cuboids", "affine"))
    alone = augment({key: value[1] for key, value in batch.items()}, key=P.Key(1, index=torch.tensor([1])))
    again = augment(batch, key=P.Key(1))
    close = 0.0 if case.batch_exact and not case.jumps else 1e-6
    assert (alone["volume"] - again["volume"][1]).abs().max() <= close


def test_colours_between_maps_and_bytes():
    x = (voxels(2) * 255).to(torch.uint8)
    steps = [P.RandomAffine3(20), P.RandomGamma((1.5, 1.5)), P.RandomGaussianBlur(3), P.RandomFlip3("z", p=1.0)]
    augment = P.Pipeline(steps, seed=0)
    out, record = augment(x, return_record=True)
    assert out.dtype == torch.uint8
    assert str(record.plan) == "Warp3[0] -> Curve[1] -> Convolve[2] -> Warp3[3]"
    expected = augment.apply(x.float() / 255, record) * 255
    assert (out.float() - expected).abs().max() <= 0.5 + 1e-3


def test_choices_hold_both():
    either = P.OneOf([P.RandomAffine3(30, p=1.0), P.RandomElastic3(3, 0.3), P.RandomGamma((2.0, 2.0), p=1.0)])
    batch = everything(12)
    augment = P.Pipeline([either], seed=4)
    out, record = augment(batch, return_record=True)
    assert torch.equal(augment.apply(batch, record)["volume"], out["volume"])
    same = (out["points3"] - batch["points3"]).abs().amax((1, 2)) < 1e-12
    gamma = torch.tensor([torch.allclose(one, x**2, atol=1e-6) for one, x in zip(out["volume"], batch["volume"], strict=True)])
    assert torch.equal(same, gamma)
    assert 0 < gamma.sum() < 12
    with pytest.raises(P.InvalidArgument, match="inside"):
        P.Pipeline([P.OneOf([P.RandomCrop3(2), P.RandomFlip3("x")])])(batch)


def test_a_range_learns_from_volumes():
    augment = P.Pipeline([P.RandomAffine3(P.Learnable(10.0)), P.RandomGamma(P.Learnable(0.3))], seed=0)
    loss = augment(voxels(4)).square().mean()
    loss.backward()
    grads = [parameter.grad for parameter in augment.learned.parameters()]
    assert len(grads) == 4
    assert all(grad is not None and torch.isfinite(grad).all() and grad != 0 for grad in grads)
