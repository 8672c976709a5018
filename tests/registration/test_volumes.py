"""Volumes that scipy moved, and pairs that cannot be aligned."""

import numpy as np
import pytest
import torch
from scipy.ndimage import affine_transform, gaussian_filter, map_coordinates
from scipy.spatial.transform import Rotation

from pellucid.errors import InvalidArgument, InvalidType
from pellucid.registration import LOSSES, align_volumes

SIDE = 20


def volume(seed=0, side=SIDE):
    noise = gaussian_filter(np.random.default_rng(seed).standard_normal((side, side, side)), 2.5, mode="wrap")
    return 0.5 + 0.15 * noise / noise.std()


def moved(matrix, whole):
    """What lies at ``matrix @ (x, y, z)``, by scipy's cubic splines; its axes are z, y, x."""
    flip = np.eye(4)[[2, 1, 0, 3]]
    return affine_transform(whole, flip @ matrix @ flip, order=3, mode="mirror")


def about(turn=None, shift=(0.0, 0.0, 0.0)):
    matrix, middle = np.eye(4), np.full(3, (SIDE - 1) / 2)
    matrix[:3, :3] = np.eye(3) if turn is None else turn
    matrix[:3, 3] = middle - matrix[:3, :3] @ middle + np.array(shift)
    return matrix


KNOWN = {
    "translation": about(shift=(1.7, -2.3, 0.9)),
    "rigid": about(Rotation.from_euler("xyz", (6, -8, 5), degrees=True).as_matrix(), (1.0, 0.5, -1.2)),
    "affine": about(
        Rotation.from_euler("z", 6, degrees=True).as_matrix() @ np.array([[1.05, 0.04, 0], [0, 0.96, 0], [0, 0, 1]]), (0.8, 0, 1)
    ),
}


def tensor(value):
    return torch.from_numpy(value).float()[None, None]


def gap(found, wanted):
    """Mean distance of the corners of the inner half, in voxels."""
    ends = np.stack(np.meshgrid(*[[5.0, 14.0]] * 3), -1).reshape(-1, 3)
    ends = np.concatenate((ends, np.ones((8, 1))), 1).T
    return float(np.linalg.norm((found.double().numpy() @ ends - wanted @ ends)[:3], axis=0).mean())


@pytest.mark.parametrize("model", KNOWN)
def test_known_maps_are_found(model):
    whole = volume()
    found = align_volumes(1.2 * tensor(moved(KNOWN[model], whole)) + 0.05, tensor(whole), model=model, steps=60)
    assert found.reason == ("converged",)
    assert gap(found.matrix[0], KNOWN[model]) < 0.15
    if model == "rigid":
        turn = found.matrix[0, :3, :3]
        assert torch.allclose(turn @ turn.mT, torch.eye(3), atol=1e-5)
    assert len(found.history) == 60 * 2


def test_what_is_warped_agrees_with_scipy():
    whole, wanted = volume(), KNOWN["affine"]
    found = align_volumes(tensor(moved(wanted, whole)), tensor(whole), model="affine", start=torch.tensor(wanted), steps=1)
    exact = found.__class__(torch.tensor(wanted)[None], *(getattr(found, name) for name in list(found.__dict__)[1:]))
    out = exact.warped(torch.from_numpy(whole)[None, None], (SIDE, SIDE, SIDE))[0, 0].numpy()
    flip = np.eye(4)[[2, 1, 0, 3]]
    theirs = affine_transform(whole, flip @ wanted @ flip, order=1, mode="grid-constant")
    assert np.abs(out - theirs).max() < 1e-9


@pytest.mark.parametrize("model", ["bspline", pytest.param("translation+bspline", marks=pytest.mark.slow)])
def test_splines_undo_a_deformation(model):
    whole = volume()
    z, y, x = np.meshgrid(*[np.arange(float(SIDE))] * 3, indexing="ij")
    shift = np.array([1.5, 0.0, -1.0] if "+" in model else [0.0] * 3)
    field = np.stack([1.2 * np.sin(2 * np.pi * (axis + 3 * k) / 24) for k, axis in enumerate((y, z, x))])
    field += shift[:, None, None, None]
    fixed = map_coordinates(whole, [z + field[2], y + field[1], x + field[0]], order=3, mode="mirror")
    found = align_volumes(tensor(fixed), tensor(whole), model=model, spacing=6.0, steps=60)
    total = found.field[0].numpy() + found.matrix[0, :3, 3].numpy()[:, None, None, None]
    inner = (slice(None), *[slice(4, -4)] * 3)
    before, after = (float(np.linalg.norm((part - field)[inner], axis=0).mean()) for part in (0 * field, total))
    assert found.converged.all()
    assert after < 0.2 * before


@pytest.mark.parametrize("loss", [pytest.param(loss, marks=[pytest.mark.slow] * (loss not in ("ssd", "ncc"))) for loss in LOSSES])
def test_every_loss_finds_a_shift(loss):
    whole = volume()
    fixed = tensor(moved(KNOWN["translation"], whole))
    found = align_volumes(fixed, tensor(whole), model="translation", loss=loss)
    assert found.reason == ("converged",)
    assert gap(found.matrix[0], KNOWN["translation"]) < 0.3


def test_pairs_that_cannot_be_aligned_say_why_and_leave_the_others_alone():
    whole = volume()
    fixed, moving = tensor(moved(KNOWN["translation"], whole)), tensor(whole)
    broken = moving.clone()
    broken[..., 3, 3, 3] = float("nan")
    fixeds = torch.cat([fixed, torch.full_like(fixed, 0.5), fixed, fixed])
    movings = torch.cat([moving, moving, broken, tensor(volume(9))])
    found = align_volumes(fixeds, movings, model="translation", steps=40)
    words = ("converged", "the fixed volume is constant", "the moving volume has voxels that are not finite", "do not agree")
    assert all(word in reason for word, reason in zip(words, found.reason, strict=True)), found.reason
    assert found.converged.tolist() == [True, False, False, False]
    assert torch.equal(found.matrix[1:3], torch.eye(4).repeat(2, 1, 1))
    alone = align_volumes(fixed, moving, model="translation", steps=40)
    assert torch.allclose(alone.matrix, found.matrix[:1], atol=1e-3)
    far = torch.eye(4)
    far[0, 3] = 300.0
    nowhere = align_volumes(fixed, moving, model="translation", start=far, steps=2)
    assert "overlap" in nowhere.reason[0]


def test_masks_leave_out_what_is_covered():
    whole = volume()
    fixed = tensor(moved(KNOWN["translation"], whole))
    fixed[..., 4:12, 4:12, 4:12] = 4.0
    mask = torch.ones(1, SIDE, SIDE, SIDE)
    mask[:, 3:13, 3:13, 3:13] = 0.0
    found = align_volumes(fixed, tensor(whole), model="translation", mask=mask, levels=1)
    assert gap(found.matrix[0], KNOWN["translation"]) < 0.15


def test_mistakes():
    some = torch.rand(1, 8, 8, 8)
    for options in ({"model": "homography"}, {"model": "rigid+affine"}, {"loss": "l2"}, {"photometric": "gain_bias_gamma"}):
        with pytest.raises(InvalidArgument):
            align_volumes(some, some, **options)
    with pytest.raises(InvalidArgument, match="moving"):
        align_volumes(some, some[0])
    with pytest.raises(InvalidType, match="fixed"):
        align_volumes(some.to(torch.uint8), some)
