"""Volumes: the compiled kernel against the reference, both against scipy, gradients by finite differences."""

import math

import numpy as np
import pytest
import torch
from scipy.interpolate import BSpline
from scipy.ndimage import affine_transform, map_coordinates
from torch.autograd import gradcheck, gradgradcheck

from pellucid import InvalidArgument, InvalidType, Pipeline, RandomHorizontalFlip
from pellucid.functional import warp3
from tests.compare import grads_close, within_budget


def numbers(*shape, seed, low=0.0, high=1.0):
    return low + (high - low) * torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def leaves(rows=2, bends=True):
    matrix = torch.tensor(
        [[0.93, 0.11, -0.08, 0.31], [-0.07, 1.04, 0.12, -0.43], [0.06, -0.13, 0.97, 0.77], [0, 0, 0, 1]], dtype=torch.float64
    )
    control = numbers(rows, 3, 5, 4, 6, seed=1, low=-0.8, high=0.8) if bends else None
    return numbers(2, 3, 9, 11, 13, seed=0), matrix.expand(rows, 4, 4).clone(), control


def by_scipy(volume, matrix, control, size, **options):
    """Sample by sample: a tensor product of scipy's B-splines, and map_coordinates."""
    z, y, x = np.mgrid[: size[0], : size[1], : size[2]].astype(float)
    out = np.empty((*volume.shape[:2], *size))
    for b in range(len(volume)):
        places = np.stack((x, y, z))
        if control is not None:
            grid = control[b % len(control)].numpy()
            bases = [
                BSpline.design_matrix(np.linspace(0, g - 3, n), np.arange(-3.0, g + 1), 3).toarray()
                for n, g in zip(size, grid.shape[1:], strict=True)
            ]
            places = places + np.einsum("cijk,zi,yj,xk->czyx", grid, *bases)
        m = matrix[b % len(matrix)].numpy()
        at = np.tensordot(m[:3, :3], places, 1) + m[:3, 3, None, None, None]
        for c in range(volume.shape[1]):
            out[b, c] = map_coordinates(volume[b, c].numpy(), at[::-1], order=1, **options)
    return torch.from_numpy(out)


@pytest.mark.parametrize("impl", ["reference", "cpu"])
@pytest.mark.parametrize(("padding", "mode"), [("border", "nearest"), ("zeros", "grid-constant")])
@pytest.mark.parametrize("size", [(9, 11, 13), (6, 14, 5)])
def test_values_are_scipys(size, padding, mode, impl):
    volume, matrix, control = leaves()
    for field in (control, control[:1], None):
        found = warp3(volume, matrix, control=field, size=size, padding_mode=padding, impl=impl)
        assert (found - by_scipy(volume, matrix, field, size, mode=mode, cval=0.0)).abs().max() < 1e-12


@pytest.mark.parametrize("impl", ["reference", "cpu"])
def test_float32_volumes_are_read_where_scipy_reads_them_in_float64(impl):
    volume, matrix, control = numbers(1, 1, 9, 11, 160, seed=4), leaves(1)[1], leaves(1)[2]
    for field in (control, None):
        found = warp3(volume.float(), matrix, control=field, impl=impl)
        assert (found - by_scipy(volume, matrix, field, (9, 11, 160), mode="grid-constant", cval=0.0)).abs().max() < 5e-7


@pytest.mark.parametrize("padding", ["border", "zeros"])
@pytest.mark.parametrize("shape", [(4, 5, 1), (4, 1, 6), (1, 5, 6), (1, 1, 1)])
def test_an_axis_may_have_one_voxel(shape, padding):
    volume, matrix, control = numbers(2, 2, *shape, seed=6), leaves()[1], numbers(2, 3, 4, 4, 4, seed=7, low=-0.4, high=0.4)
    found = []
    for impl in ("cpu", "reference"):
        given = [one.clone().requires_grad_() for one in (volume, matrix, control)]
        around = torch.full((3 * volume.numel(),), math.nan, dtype=volume.dtype)  # what lies behind a volume is read by nobody
        given[0] = around[volume.numel() : -volume.numel()].view_as(volume).copy_(volume).requires_grad_()
        out = warp3(given[0], given[1], control=given[2], size=(3, 4, 5), padding_mode=padding, impl=impl)
        found.append((out.detach(), *torch.autograd.grad((out * numbers(*out.shape, seed=8)).sum(), given)))
    torch.testing.assert_close(*found, rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("padding", ["border", "zeros"])
@pytest.mark.parametrize("kind", [torch.float32, torch.uint8, torch.int64])
def test_whole_shifts_and_mirrors_are_copies(kind, padding):
    volume = (200 * numbers(2, 2, 4, 5, 13, seed=9)).to(kind)
    generator = torch.Generator().manual_seed(10)
    for _ in range(20):
        maps = torch.eye(4, dtype=torch.float64).repeat(2, 1, 1)
        for one in maps:
            signs = 1.0 - 2.0 * torch.randint(2, (3,), generator=generator).double()
            one[:3, :3] *= signs
            one[:3, 3] = torch.randint(-15, 16, (3,), generator=generator).double()
        options = {"size": (5, 4, 11), "padding_mode": padding, "interpolation": "nearest" if kind == torch.int64 else "trilinear"}
        assert torch.equal(warp3(volume, maps, **options), warp3(volume, maps, impl="reference", **options))


@pytest.mark.parametrize("impl", ["reference", "cpu"])
def test_an_affine_map_is_scipys_affine_transform(impl):
    volume, matrix, _ = leaves(bends=False)
    flip = np.eye(3)[::-1]  # scipy's axes are z, y, x
    m = matrix[0].numpy()
    expected = affine_transform(volume[0, 0].numpy(), flip @ m[:3, :3] @ flip, flip @ m[:3, 3], order=1, mode="nearest")
    found = warp3(volume, matrix[:1], padding_mode="border", impl=impl)[0, 0]
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border"])
def test_the_compiled_kernel_is_the_reference(padding, shared):
    def results(impl, dtype):
        volume, matrix, control = leaves(1 if shared else 2)
        given = [one.to(dtype).requires_grad_() for one in (volume, matrix, control)]
        out = warp3(*given[:2], control=given[2], size=(8, 9, 10), padding_mode=padding, impl=impl)
        totals = [(out * numbers(*out.shape, seed=5 + k).to(dtype)).sum() for k in range(6)]
        found = [torch.autograd.grad(total, given, retain_graph=True) for total in totals]
        return out.detach(), [torch.stack(parts) for parts in zip(*found, strict=True)]

    truth, slopes = results("reference", torch.float64)
    exact, found = results("cpu", torch.float64)
    assert (exact - truth).abs().max() < 1e-12
    for mine, theirs in zip(found, slopes, strict=True):
        assert grads_close(mine, theirs, 1e-12)
    low, lows = results("reference", torch.float32)
    fast, found = results("cpu", torch.float32)
    for mine, theirs, right in zip((fast, *found), (low, *lows), (truth, *slopes), strict=True):
        assert within_budget(mine, theirs, right)


@pytest.mark.parametrize("impl", ["reference", "cpu"])
@pytest.mark.parametrize("padding", ["zeros", "border"])
def test_gradients(padding, impl):
    volume, matrix, control = numbers(1, 2, 3, 4, 4, seed=2), leaves(1)[1], numbers(1, 3, 4, 4, 4, seed=3, low=-0.3, high=0.3)

    def warped(v, m, c):
        return warp3(v, m, control=c, padding_mode=padding, impl=impl)

    given = tuple(one.requires_grad_() for one in (volume, matrix, control))
    assert gradcheck(warped, given, check_batched_grad=impl == "cpu")
    assert gradgradcheck(warped, given, fast_mode=True)


def test_labels_stay_labels():
    volume, matrix, control = leaves()
    labels = (volume * 9).long()
    compiled, reference = (
        warp3(labels, matrix, control=control, interpolation="nearest", impl=impl) for impl in ("cpu", "reference")
    )
    assert compiled.dtype == torch.int64
    assert torch.equal(compiled, reference)
    assert set(compiled.unique().tolist()) <= set(labels.unique().tolist()) | {0}
    whole = torch.eye(4, dtype=torch.float64)
    whole[:3, 3] = torch.tensor([2.0, -1.0, 1.0])
    moved = warp3(labels, whole, interpolation="nearest")
    assert torch.equal(moved[:, :, :-1, 1:, :-2], labels[:, :, 1:, :-1, 2:])


@pytest.mark.parametrize("impl", ["reference", "cpu"])
@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int16, torch.int32, torch.int64])
def test_labels_of_every_kind_keep_their_bits(dtype, impl):
    top = 1 if dtype == torch.bool else torch.iinfo(dtype).max  # of 64 bits: more than a float64 holds
    labels = torch.tensor([[[[top, 0, top - 1]]]]).to(dtype)
    matrix = torch.eye(4)[:3].clone().requires_grad_()
    moved = warp3(labels, matrix, interpolation="nearest", impl=impl)
    assert moved.dtype == dtype
    assert torch.equal(moved, labels)
    assert not moved.requires_grad
    shift = torch.eye(4)
    shift[0, 3] = 0.5  # rounds half up
    assert torch.equal(warp3(labels, shift, interpolation="nearest", impl=impl)[..., :2], labels[..., 1:])
    assert not warp3(labels, shift, interpolation="nearest", impl=impl)[..., 2].any()
    held = warp3(labels, shift, interpolation="nearest", padding_mode="border", impl=impl)
    assert torch.equal(held[..., 2], labels[..., 2])


def test_the_gradient_of_nearest_voxels_is_the_references():
    volume, matrix, control = leaves()
    found = []
    for impl in ("cpu", "reference"):
        given = volume.clone().requires_grad_(), matrix.clone().requires_grad_()
        out = warp3(*given, control=control, interpolation="nearest", impl=impl)
        gradient = torch.autograd.grad((out * numbers(*out.shape, seed=7)).sum(), given, allow_unused=True)
        assert gradient[1] is None or not gradient[1].any()
        found.append((out.detach(), gradient[0]))
    assert torch.equal(found[0][0], found[1][0])
    assert (found[0][1] - found[1][1]).abs().max() < 1e-14


@pytest.mark.parametrize("impl", ["reference", "cpu"])
def test_rest_changes_no_bit_and_points_that_are_nowhere_show_nothing(impl):
    volume, matrix, control = leaves()
    volume = volume.float()
    assert torch.equal(warp3(volume, torch.eye(4), control=0.0 * control, impl=impl), volume)
    matrix[1, 0, 0] = torch.nan
    leaf = volume.double().requires_grad_()
    out = warp3(leaf, matrix, impl=impl)
    assert not out[1].any()
    (gradient,) = torch.autograd.grad(out.sum(), leaf)
    assert gradient[0].any()
    assert not gradient[1].any()
    far = torch.eye(4, dtype=torch.float64)
    far[0, 3] = 1e300
    assert not warp3(leaf, far, impl=impl).any()


def test_bits_do_not_depend_on_threads_and_vmap_is_the_loop():
    volume, matrix, control = leaves()
    results = []
    for count in (1, 3):
        torch.set_num_threads(count)
        leaf = volume.clone().requires_grad_()
        out = warp3(leaf, matrix, control=control)
        results.append((out.detach(), torch.autograd.grad(out.square().sum(), leaf)[0]))
    assert torch.equal(results[0][0], results[1][0])
    assert torch.equal(results[0][1], results[1][1])
    mapped = torch.vmap(lambda v, m: warp3(v, m))(volume, matrix)
    assert torch.equal(mapped, warp3(volume, matrix))


def test_one_volume_and_many_maps():
    volume, matrix, control = leaves()
    assert torch.equal(warp3(volume[0], matrix)[1], warp3(volume[:1], matrix[1:])[0])
    assert warp3(volume[0], matrix[0]).shape == (3, 9, 11, 13)
    assert warp3(volume[0, :1].to(torch.uint8) * 0 + 7, torch.eye(4)).unique().tolist() == [7]
    assert warp3(volume[0], matrix[0].tolist(), control=control[0]).shape == (3, 9, 11, 13)


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"volume": torch.zeros(3, 4, 4)}, InvalidArgument, "volume"),
        ({"volume": np.zeros((3, 4, 4, 4))}, InvalidType, "volume"),
        ({"volume": torch.zeros(1, 2, 4, 4, 4, dtype=torch.int64)}, InvalidType, "nearest"),
        ({"src_from_dst": torch.eye(3)}, InvalidArgument, "src_from_dst"),
        ({"src_from_dst": torch.eye(4).expand(3, 4, 4)}, InvalidArgument, "src_from_dst"),
        ({"control": torch.zeros(2, 4, 4, 4)}, InvalidArgument, "control"),
        ({"control": torch.zeros(3, 3, 4, 4)}, InvalidArgument, "control"),
        ({"size": (4, 4)}, InvalidArgument, "size"),
        ({"size": (4, 0, 4)}, InvalidArgument, "size"),
        ({"padding_mode": "wrap"}, InvalidArgument, "padding_mode"),
        ({"interpolation": "cubic"}, InvalidArgument, "interpolation"),
    ],
)
def test_what_does_not_fit_is_refused(change, error, match):
    arguments = {"volume": torch.zeros(2, 2, 4, 5, 6), "src_from_dst": torch.eye(4), **change}
    with pytest.raises(error, match=match):
        warp3(**arguments)


def test_a_volume_is_not_read_as_a_video():
    with pytest.raises(InvalidArgument, match=r"A volume \(B, 1, D, H, W\): pass \{'volume'"):
        Pipeline([RandomHorizontalFlip()])(torch.zeros(2, 1, 16, 16, 16))
