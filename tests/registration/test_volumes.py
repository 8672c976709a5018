"""Volumes that scipy moved, and pairs that cannot be aligned."""

import math

import numpy as np
import pytest
import torch
from scipy.ndimage import affine_transform, gaussian_filter, map_coordinates
from scipy.spatial.transform import Rotation

from pellucid.errors import InvalidArgument, InvalidType
from pellucid.registration import LOSSES, align_volumes
from pellucid.registration.bending import slopes_of
from pellucid.registration.descent import roughness
from pellucid.registration.losses import distance
from pellucid.registration.maps import spline_field
from pellucid.registration.voxels import Blocks, doubled, moved_by, places, read_voxels, volume_equations
from tests.refusals import refused

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


@pytest.mark.parametrize("method", ["auto", "adam"])
@pytest.mark.parametrize("model", KNOWN)
def test_known_maps_are_found(model, method):
    whole = volume()
    found = align_volumes(1.2 * tensor(moved(KNOWN[model], whole)) + 0.05, tensor(whole), model=model, method=method, steps=60)
    assert found.reason == ("converged",)
    assert gap(found.matrix[0], KNOWN[model]) < 0.1
    if model == "rigid":
        turn = found.matrix[0, :3, :3]
        assert torch.allclose(turn @ turn.mT, torch.eye(3), atol=1e-5)
    assert len(found.history) == 60 * 2 if method == "adam" else len(found.history) < 40
    if method == "auto":
        assert found.brightness[0].numpy() == pytest.approx([1.2, 0.05], abs=0.05)


def test_doubled_volumes_are_those_of_cubic_splines():
    some = torch.rand(1, 1, 5, 9, 20, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    at = np.meshgrid(*[np.arange(2 * side) / 2 - 0.25 for side in some.shape[2:]], indexing="ij")
    theirs = map_coordinates(some[0, 0].numpy(), at, order=3, mode="mirror")
    assert np.abs(doubled(some)[0, 0].numpy() - theirs).max() < 1e-6


def test_a_rigid_map_of_sides_that_are_no_multiples_stays_rigid():
    """Levels that shrink one axis more than another would leave a shear that no turn takes back."""
    whole = volume(1, 33)[:25, :, :29]
    turn = Rotation.from_euler("xyz", (5, -4, 6), degrees=True).as_matrix()
    middle, wanted = (np.array(whole.shape[::-1]) - 1) / 2, np.eye(4)
    wanted[:3, :3], wanted[:3, 3] = turn, middle - turn @ middle + (1.3, -0.8, 0.6)
    found = align_volumes(tensor(moved(wanted, whole)), tensor(whole), model="rigid")
    linear = found.matrix[0, :3, :3]
    assert torch.allclose(linear @ linear.mT, torch.eye(3), atol=1e-5)
    assert gap(found.matrix[0], wanted) < 0.01


def test_turns_by_25_degrees_are_found():
    wanted = about(Rotation.from_euler("y", 25, degrees=True).as_matrix(), (1.0, 0.0, 0.0))
    whole = volume(3)
    found = align_volumes(tensor(moved(wanted, whole)), tensor(whole), model="rigid")
    assert found.reason == ("converged",)
    assert gap(found.matrix[0], wanted) < 0.1


@pytest.mark.parametrize("photometric", ["none", "gain_bias"])
@pytest.mark.parametrize("model", KNOWN)
def test_normal_equations_are_those_of_autograd(model, photometric):
    some = [torch.from_numpy(volume(seed, 6))[None, None] for seed in range(4)]
    fixed, moving = torch.cat(some[:2], 1), torch.cat(some[2:], 1)
    mask = 0.2 + torch.rand(1, 1, 6, 6, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    start = torch.eye(4, dtype=torch.float64)[None].clone()
    start[0, :3] += 0.04 * torch.randn(3, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    pair = Blocks(fixed, moving, mask)
    found = volume_equations(pair, start, model, photometric=photometric)
    gain, offset = found.brightness[0, :2]
    seen = pair.weight(places(start, pair.sides, None))[0, 0]
    root = (seen / (2 * seen.sum())).sqrt()

    def residual(change, gain, offset):
        where = places(start @ moved_by(change[None], pair.sides), pair.sides, None)
        return (root * (gain * read_voxels(moving, where) + offset - fixed)[0]).flatten()

    given = torch.zeros(found.left.shape[1] - 2 * (photometric != "none"), dtype=torch.float64), gain, offset
    columns = torch.autograd.functional.jacobian(residual, given)
    slopes = torch.cat([part.reshape(len(root.flatten()) * 2, -1) for part in columns[: 1 if photometric == "none" else 3]], 1)
    assert torch.allclose(found.left[0], slopes.T @ slopes, rtol=1e-9, atol=1e-12)
    assert torch.allclose(found.right[0], slopes.T @ residual(*given), rtol=1e-9, atol=1e-12)
    assert torch.allclose(found.loss[0], residual(*given).square().sum())
    assert torch.autograd.gradcheck(residual, tuple(part.clone().requires_grad_() for part in given))


def test_covariance_is_the_scatter_under_noise():
    whole, random = tensor(volume()), torch.Generator().manual_seed(0)
    fixed = tensor(moved(about(shift=(0.6, -0.3, 0.4)), volume()))
    noisy = fixed + 0.04 * torch.randn(60, 1, SIDE, SIDE, SIDE, generator=random)
    found = align_volumes(noisy, whole.expand(60, -1, -1, -1, -1), model="translation", levels=1)
    scatter = found.matrix[:, :3, 3].std(0) / (SIDE / 2)
    said = torch.diagonal(found.covariance, dim1=1, dim2=2).mean(0).sqrt()
    assert bool(((scatter / said).log().abs() < math.log(1.4)).all()), (scatter, said)


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
    found = align_volumes(tensor(200.0 * fixed + 30.0), tensor(whole), model=model, spacing=6.0, steps=40)
    total = found.field[0].numpy() + found.matrix[0, :3, 3].numpy()[:, None, None, None]
    inner = (slice(None), *[slice(4, -4)] * 3)
    before, after = (float(np.linalg.norm((part - field)[inner], axis=0).mean()) for part in (0 * field, total))
    assert found.converged.all()
    assert after < 0.05 * before
    assert torch.allclose(found.brightness[0], torch.tensor([200.0, 30.0]), rtol=0.03)


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
    wrong = found.reason[3].replace("overlap by 1", words[3])  # other volumes may also be moved apart
    assert all(word in reason for word, reason in zip(words, (*found.reason[:3], wrong), strict=True)), found.reason
    assert found.converged.tolist() == [True, False, False, False]
    assert torch.equal(found.matrix[1:3], torch.eye(4).repeat(2, 1, 1))
    alone = align_volumes(fixed, moving, model="translation", steps=40)
    assert torch.allclose(alone.matrix, found.matrix[:1], atol=1e-3)
    far = torch.eye(4)
    far[0, 3] = 300.0
    nowhere = align_volumes(fixed, moving, model="translation", start=far, steps=2)
    assert "overlap" in nowhere.reason[0]


@pytest.mark.parametrize("method", ["auto", "adam"])
@pytest.mark.parametrize("side", ["fixed", "moving"])
def test_masks_leave_out_what_is_covered(side, method):
    whole = volume()
    pair = {"fixed": tensor(moved(KNOWN["translation"], whole)), "moving": tensor(whole)}
    pair[side][..., 4:12, 4:12, 4:12] = 4.0
    mask = torch.ones(1, SIDE, SIDE, SIDE)
    mask[:, 4:12, 4:12, 4:12] = 0.0
    masks = {"fixed": {"mask": mask}, "moving": {"moving_mask": mask}}[side]
    options = {"model": "translation", "method": method, "steps": 40}
    assert gap(align_volumes(**pair, **masks, **options).matrix[0], KNOWN["translation"]) < 0.15
    assert gap(align_volumes(**pair, **options).matrix[0], KNOWN["translation"]) > 0.3


def test_a_stack_of_a_photograph_is_aligned():
    """A volume of real texture: slices of a photograph that move on, as a scan's do, brighter and noisy."""
    data = pytest.importorskip("skimage.data")
    grey = gaussian_filter(data.camera().astype(float)[::4, ::4] / 255, 1.0)
    whole = np.stack([grey[2 * k : 2 * k + 48, 3 * k : 3 * k + 56] for k in range(20)])
    matrix, middle = np.eye(4), np.array([27.5, 23.5, 9.5])
    matrix[:3, :3] = Rotation.from_euler("zy", (7, 4), degrees=True).as_matrix() @ np.diag((1.05, 0.97, 1.0))
    matrix[:3, 3] = middle - matrix[:3, :3] @ middle + np.array((2.5, -1.5, 0.8))
    random = torch.Generator().manual_seed(0)
    fixed = 1.2 * tensor(moved(matrix, whole)) + 0.05
    fixed, moving = (part + 0.02 * torch.randn(part.shape, generator=random) for part in (fixed, tensor(whole)))
    found = align_volumes(fixed, moving)
    ends = torch.cartesian_prod(torch.tensor([8.0, 47.0]), torch.tensor([8.0, 39.0]), torch.tensor([4.0, 15.0]))
    ends = torch.cat((ends, torch.ones(8, 1)), 1).T
    off = ((found.matrix[0] - torch.from_numpy(matrix).float()) @ ends)[:3].norm(dim=0).mean()
    assert found.reason == ("converged",)
    assert off < 0.1


def test_mistakes():
    some = torch.rand(1, 8, 8, 8)
    for options in (
        {"model": "homography"},
        {"model": "rigid+affine"},
        {"loss": "l2"},
        {"photometric": "gain_bias_gamma"},
        {"method": "newton"},
    ):
        with pytest.raises(InvalidArgument):
            align_volumes(some, some, **options)
    refused(InvalidArgument, "moving", align_volumes, some, some[0])
    refused(InvalidType, "fixed", align_volumes, some.to(torch.uint8), some)
    refused(InvalidArgument, "method", align_volumes, some, some, method="gauss_newton", loss="local_ncc")
    refused(InvalidArgument, "moving_mask", align_volumes, some, some, moving_mask=torch.ones(8, 8, 8))
    refused(InvalidArgument, "start", align_volumes, some, some, start=torch.eye(3))
    refused(InvalidType, "mask", align_volumes, some, some, mask=[1.0])


def test_equations_of_control_points_are_those_of_autograd():
    """In float64, beside a matrix: the slope of the cost, and two products with J."""
    random = torch.Generator().manual_seed(1)
    moving, mask = (torch.rand(2, 1, 7, 8, 9, generator=random, dtype=torch.float64) for _ in range(2))
    fixed = 0.8 * moving + 0.2 * torch.rand(moving.shape, generator=random, dtype=torch.float64)
    matrix = torch.tensor(about(shift=(0.3, 0.2, -0.4))).repeat(2, 1, 1)
    control = 0.2 * torch.randn(2, 3, 5, 5, 5, generator=random, dtype=torch.float64)
    pair = Blocks(fixed, moving, mask)
    found = slopes_of(pair, matrix, control, spacing=5.0, stiffness=1e-2)
    points = control.clone().requires_grad_()
    where = places(matrix, (7, 8, 9), spline_field(points, (7, 8, 9), 5.0))
    each = distance(
        "ssd", read_voxels(moving, where), fixed, pair.weight(where.detach()), photometric="gain_bias", width=0.1
    ).log() + 1e-2 * roughness(points, (2, 3, 4))
    assert torch.allclose(found.cost, each, rtol=1e-9)
    (slope,) = torch.autograd.grad(each.sum(), points)
    assert torch.allclose(2 * (found.back(found.residual) + found.stiffened(control)), slope, rtol=1e-8, atol=1e-12)
    one, other = (torch.randn(control.shape, generator=random, dtype=torch.float64) for _ in range(2))
    a, b = found.forward(one), found.forward(other)
    assert torch.allclose((found.weights * a * b).sum((1, 2)), (one * found.back(b)).flatten(1).sum(1), rtol=1e-9)
