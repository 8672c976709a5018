"""Fields against scipy: values, maps around them, points back, and where folding begins."""

import math

import numpy as np
import pytest
import torch
from scipy.interpolate import BSpline
from scipy.ndimage import map_coordinates
from torch.autograd import gradcheck, gradgradcheck

import pellucid as P
from pellucid.engine.plan import Run
from pellucid.geometry import bends
from pellucid.geometry.bends import FOLDS, Bend, displaced, inverted
from pellucid.kernels.warp import pack, warp
from pellucid.kernels.warp.packing import Link
from tests.refusals import refused


def random_bend(rows=3, gh=7, gw=9, spacing=(8.0, 5.0), reach=0.45, seed=0):
    """Displacements of up to ``reach`` of the spacing, in float64."""
    control = torch.rand((rows, 2, gh, gw), generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 2 - 1
    grid = torch.tensor([[0.5, -1.0, *spacing]], dtype=torch.float64)
    return Bend(control * reach * torch.tensor(spacing, dtype=torch.float64)[:, None, None], grid)


def by_scipy(bend, x, y):
    """Displacements of points, sample by sample: a tensor product of scipy's B-splines."""
    found = []
    for sample in range(len(x)):
        control, (x0, y0, sx, sy) = bend.control[min(sample, len(bend.control) - 1)].numpy(), bend.grid[0].tolist()
        gh, gw = control.shape[1:]
        u = np.clip((x[sample].numpy() - x0) / sx, 0, gw - 3)
        v = np.clip((y[sample].numpy() - y0) / sy, 0, gh - 3)
        # Control i belongs to the basis function centred on knot i - 1.
        across = BSpline.design_matrix(u, np.arange(-3.0, gw + 1), 3).toarray()
        down = BSpline.design_matrix(v, np.arange(-3.0, gh + 1), 3).toarray()
        found.append(np.einsum("nj,ni,cji->cn", down, across, control))
    return torch.from_numpy(np.stack(found))


def test_displacements_are_those_of_scipy():
    bend = random_bend()
    points = torch.rand(3, 2, 500, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * 70 - 12
    x, y = points.unbind(1)
    moved = torch.stack(displaced(x, y, bend), 1) - points
    assert (moved - by_scipy(bend, x, y)).abs().max() < 1e-12


@pytest.mark.parametrize("impl", ["reference", "cpu"])
def test_a_field_between_two_maps_is_one_read(impl):
    bend, height, width = random_bend(), 30, 37
    image = torch.rand(3, 2, 33, 41, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    outer = torch.tensor([[0.9, 0.2, 1.5], [-0.1, 1.1, 2.0], [0.0, 0.0, 1.0]], dtype=torch.float64)
    inner = torch.tensor([[1.05, -0.15, 2.0], [0.1, 0.9, 1.0], [0.001, 0.0, 1.0]], dtype=torch.float64)
    link = Link("bend", inner[None], bend.grid, control=bend.control)
    found = warp(image, pack(outer[None, :2], size=(height, width), padding_mode="border", links=[link]), impl=impl)
    v, u = np.mgrid[:height, :width].astype(float)
    q = np.tensordot(inner.numpy(), np.stack((u, v, np.ones_like(u))), 1)
    q = torch.from_numpy(q[:2] / q[2]).flatten(1)[:, None].expand(2, 3, -1)  # 2 b n
    moved = q + by_scipy(bend, *q).transpose(0, 1)
    x, y = (outer[i, 0] * moved[0] + outer[i, 1] * moved[1] + outer[i, 2] for i in (0, 1))
    for sample in range(3):
        for channel in range(2):
            expected = map_coordinates(image[sample, channel], [y[sample], x[sample]], order=1, mode="nearest")
            assert np.abs(found[sample, channel].numpy().ravel() - expected).max() < 1e-11


def test_points_come_back_where_nothing_folds():
    bend = random_bend(rows=40, reach=FOLDS)
    q = torch.rand(40, 300, 2, generator=torch.Generator().manual_seed(3), dtype=torch.float64) * 50 - 5
    moved = torch.stack(displaced(q[..., 0], q[..., 1], bend), -1)
    assert (inverted(moved, bend) - q).abs().max() < 1e-9


@pytest.mark.parametrize("reach", [FOLDS, 0.489])
def test_an_adversary_folds_beyond_the_bound_and_not_within(reach):
    """Steps against the determinant at its lowest of many points, on twenty grids at once."""
    control = random_bend(rows=20, gh=5, gw=5, spacing=(1.0, 1.0), reach=reach).control
    q = torch.rand(20, 200, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 2
    lowest = math.inf
    for _ in range(40):
        control.requires_grad_()
        found = determinants(q, control).amin(1)
        lowest = min(lowest, float(found.detach().min()))
        (slope,) = torch.autograd.grad(found.sum(), control)
        control = (control - 0.2 * slope.sign()).clamp(-reach, reach).detach()
    assert (lowest > 0) == (reach == FOLDS)


def determinants(q, control):
    """Of q + d(q), by autograd."""
    q = q.clone().requires_grad_()
    x, y = displaced(q[..., 0], q[..., 1], Bend(control, torch.tensor([[0.0, 0.0, 1.0, 1.0]], dtype=torch.float64)))
    (dx,) = torch.autograd.grad(x.sum(), q, create_graph=True)
    (dy,) = torch.autograd.grad(y.sum(), q, create_graph=True)
    return dx[..., 0] * dy[..., 1] - dx[..., 1] * dy[..., 0]


def test_first_and_second_derivatives_of_the_way_back():
    bend = random_bend(rows=1, gh=4, gw=4, reach=0.4)
    control = bend.control.requires_grad_()
    points = torch.tensor([[[6.3, 4.1]]], dtype=torch.float64, requires_grad=True)

    def back(points, control):
        return inverted(points, Bend(control, bend.grid))

    assert gradcheck(back, (points, control))
    assert gradgradcheck(back, (points, control), fast_mode=True)


def test_every_gradient_of_a_bent_pass():
    bend = random_bend(rows=1, gh=4, gw=4, spacing=(4.0, 3.0))
    image = torch.rand(1, 1, 4, 5, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    outer = torch.tensor([[[0.93, 0.11, 0.31], [-0.07, 1.04, 0.23], [0.01, 0.003, 1.0]]], dtype=torch.float64)
    inner = torch.tensor([[[1.03, -0.13, 0.37], [0.08, 0.91, 0.29], [0.004, 0.01, 1.0]]], dtype=torch.float64)
    canvas = torch.tensor([[0.0, 0.0, 3.0, 2.0]], dtype=torch.float64)
    leaves = [part.requires_grad_() for part in (image, outer, bend.control, inner)]

    def bent(image, outer, control, inner):
        links = [Link("bend", inner, bend.grid, control=control), Link("zeros", inner, canvas)]
        return warp(image, pack(outer, size=(3, 4), links=links))

    assert gradcheck(bent, leaves, check_forward_ad=True)
    assert gradgradcheck(bent, leaves, fast_mode=True)


def test_a_run_with_a_field_is_one_pass_and_means_its_steps():
    steps = [
        P.RandomAffine(15),
        P.RandomElastic(9, magnitude=0.4),
        P.RandomHorizontalFlip(p=1.0),
        P.RandomCrop(20),
        P.ColorJitter(0.2),
    ]
    v, u = torch.meshgrid(torch.linspace(0, 3, 60), torch.linspace(0, 2, 70), indexing="ij")
    image = torch.stack((u.sin(), v.cos(), (u * v).cos()))[None].repeat(4, 1, 1, 1).double() * 0.3 + 0.5
    one = P.Pipeline(steps, seed=3)
    out, record = one(image, return_record=True)
    (run,) = record.plan.groups
    assert isinstance(run, Run)
    assert run.bends
    apart = P.Pipeline(steps, seed=3, fuse=False)(image)
    # Interpolated once instead of twice; where the border is in view its two ramps differ.
    assert (out - apart).abs().flatten().quantile(0.95) < 2e-3
    assert str(P.Pipeline([steps[1], steps[1]]).draw(image).plan) == "Warp[0] -> Warp[1]"


def test_a_field_among_choices_rests_where_another_branch_is_taken():
    image = torch.rand(12, 1, 20, 22, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    pipeline = P.Pipeline([P.OneOf([P.RandomElastic(8, magnitude=0.4), P.RandomHorizontalFlip(p=1.0)])], seed=0)
    out, record = pipeline(image, return_record=True)
    assert str(record.plan) == "Warp[1,2]"
    flipped = (out - image.flip(-1)).abs().amax((1, 2, 3)) == 0
    bent = record.flow()[:, 1].abs().amax((1, 2)) > 0
    assert torch.equal(flipped, ~bent)
    assert 0 < int(bent.sum()) < 12


@pytest.mark.parametrize("border", ["free", "locked"])
def test_a_locked_border_stays(border):
    record = P.Pipeline([P.RandomElastic(8, magnitude=0.45, border=border)], seed=0).draw(
        torch.zeros(5, 1, 41, 50, dtype=torch.float64)
    )
    flow = record.flow()
    edges = torch.cat((flow[..., 0, :], flow[..., -1, :], flow[..., :, 0], flow[..., :, -1]), -1)
    assert (edges.abs().max() < 1e-12) == (border == "locked")
    assert flow.abs().max() > 0.5


def test_magnitudes_are_fractions_of_the_spacing_and_bounded():
    refused(P.InvalidArgument, "allow_folding=True", P.RandomElastic, 16, magnitude=0.5)
    refused(P.InvalidArgument, "allow_folding=True", P.RandomElastic, 16, magnitude=(0.1, 0.49))
    P.RandomElastic(16, magnitude=0.9, allow_folding=True)
    refused(P.InvalidArgument, "spacing", P.RandomElastic, 1.5)
    learned = P.RandomElastic(16, magnitude=P.Learnable(0.2))
    assert learned.draws(None)["magnitude"].span() == (0.0, FOLDS)
    wide = P.Pipeline([P.RandomElastic(10, magnitude=0.3)], seed=0).draw(torch.zeros(200, 1, 31, 41, dtype=torch.float64)).flow()
    assert 2.0 < wide.abs().max() <= 3.0


@pytest.mark.parametrize("library", ["torchvision", "albumentations"])
def test_alpha_and_sigma_give_the_same_deviation(library):
    """Theirs by their own recipe: uniform noise under a Gaussian, times alpha pixels, or half of it."""
    from scipy.ndimage import gaussian_filter

    alpha, sigma = (120.0, 7.0) if library == "torchvision" else (60.0, 7.0)
    noise = np.random.default_rng(0).uniform(-1, 1, (6, 200, 200))
    theirs = np.stack([gaussian_filter(one, sigma, mode="wrap") for one in noise]) * (
        alpha / 2 if library == "torchvision" else alpha
    )
    elastic = P.RandomElastic.from_alpha_sigma(alpha, sigma, library=library)
    ours = P.Pipeline([elastic], seed=0).draw(torch.zeros(6, 1, 200, 200)).flow().numpy()
    assert abs(ours.std() / theirs.std() - 1) < 0.1
    # And the same smoothness: the standard deviation of the slope in units of that of the field.
    slope = [np.diff(part, axis=-1).std() / part.std() for part in (ours, theirs)]
    assert abs(slope[0] / slope[1] - 1) < 0.1


def test_a_fields_matrix_is_refused_with_what_to_do():
    record = P.Pipeline([P.RandomElastic(8)], seed=0).draw(torch.zeros(2, 1, 20, 20))
    for name in ("matrix", "src_from_dst"):
        refused(P.InvalidArgument, r"RandomElastic.*record\.map_points.*record\.flow", getattr, record, name)


def test_an_inverse_of_several_targets_is_solved_once(monkeypatch):
    solved = []
    monkeypatch.setattr(bends, "inverted", lambda *given, solve=bends.inverted: solved.append(given) or solve(*given))
    augment = P.Pipeline([P.RandomElastic(p=1.0), P.RandomRotation(10, p=1.0)], seed=0)
    batch = {"image": torch.rand(2, 3, 16, 16), "mask": torch.ones(2, 1, 16, 16), "heatmap": torch.rand(2, 1, 16, 16)}
    out, record = augment(batch, return_record=True)
    alone = {name: augment.inverse({"image": out["image"], name: each}, record)[name] for name, each in out.items()}
    solved.clear()
    back = augment.inverse(out, record, return_valid=True)
    assert len(solved) == 1
    assert all(torch.equal(back[name], each) for name, each in alone.items())


def test_an_inverse_puts_pictures_back():
    v, u = torch.meshgrid(torch.linspace(0, 3, 64), torch.linspace(0, 2, 64), indexing="ij")
    image = torch.stack((u.sin(), v.cos()))[None].repeat(3, 1, 1, 1).double()
    pipeline = P.Pipeline([P.RandomElastic(16, magnitude=0.4), P.RandomAffine(8)], seed=1)
    out, record = pipeline(image, return_record=True)
    back = pipeline.inverse(out, record)
    assert (back - image)[..., 20:-20, 20:-20].abs().max() < 2e-3


def test_what_folds_is_not_a_number_and_invalid():
    bend = random_bend(rows=1, reach=3.0)
    found = inverted(torch.rand(1, 400, 2, dtype=torch.float64) * 30, bend)
    assert 0 < torch.isnan(found).any(-1).sum() < 400
    image, points = torch.rand(4, 1, 40, 40), torch.rand(4, 200, 2) * 39
    pipeline = P.Pipeline([P.RandomElastic(5, magnitude=4.0, allow_folding=True)], seed=0)
    out, record = pipeline({"image": image, "keypoints": points}, return_record=True)
    lost = torch.isnan(out["keypoints"]).any(-1)
    assert lost.any()
    assert not out["keypoints_valid"][lost].any()
    del record


@pytest.mark.parametrize("form", ["xyxy", "cxcywhr"])
def test_boxes_are_hulls_of_their_outlines(form):
    """Against two hundred points an edge, at displacements of 0.4 of the spacing."""
    box = [40.0, 30.0, 90.0, 70.0] if form == "xyxy" else [64.0, 50.0, 60.0, 24.0, 0.5]
    batch = {"image": torch.rand(8, 1, 128, 128), "boxes": torch.tensor(box, dtype=torch.float64).expand(8, 1, -1)}
    pipeline = P.Pipeline([P.RandomElastic(32, magnitude=0.4)], seed=2, box_format=form)
    out, record = pipeline(batch, return_record=True)
    from pellucid.boxes.formats import corners

    start = corners(batch["boxes"], form)
    share = torch.linspace(0, 1, 200, dtype=torch.float64)[:, None]
    edges = (start[..., None, :] + share * (start.roll(-1, -2) - start)[..., None, :]).flatten(1, 3)
    moved = record.map_points(edges - 0.5) + 0.5
    if form == "xyxy":
        hull = torch.cat((moved.amin(1), moved.amax(1)), -1)
        error = (out["boxes"][:, 0] - hull).abs()
        assert error.mean() < 0.02
        assert error.max() < 0.1
        return
    cv2 = pytest.importorskip("cv2")
    for found, points in zip(out["boxes"][:, 0], moved, strict=True):
        _, (width, height), _ = cv2.minAreaRect(points.float().numpy())
        assert float(found[2] * found[3]) < width * height * 1.005
        inside = corners(found, form)
        assert cv2.pointPolygonTest(inside.float().numpy(), points.float().mean(0).tolist(), True) > 0
        away = min(cv2.pointPolygonTest(inside.float().numpy(), point.tolist(), True) for point in points.float())
        assert away > -0.1
