"""Alignment: normal equations against autograd, maps that are known, and pairs that cannot be aligned."""

import math

import pytest
import torch
from torch.autograd.functional import jacobian

from pellucid.errors import InvalidArgument, InvalidType
from pellucid.functional import gaussian_blur, get_perspective_transform, remap, resize, warp
from pellucid.registration import LOSSES, align, align_volumes, refine_matches
from pellucid.registration.bending import slopes_of
from pellucid.registration.evidence import evidence_of
from pellucid.registration.losses import distance, robust
from pellucid.registration.maps import MODELS, basis, changed, corner_distance, frame, spline_field
from pellucid.registration.newton import Pair, equations
from tests.refusals import refused

SIDE = 64


def picture(side=96, seed=0):
    """Blobs of three sizes, in [0, 1]."""
    random = torch.Generator().manual_seed(seed)
    layers = [gaussian_blur(torch.randn(1, 1, side, side, generator=random), 8 * s + 1, float(s)) for s in (1, 2, 4)]
    layers = [layer / layer.std() for layer in layers]
    return 0.5 + 0.1 * sum(layers, torch.zeros(()))


WHOLE = picture()
WINDOW = torch.tensor([[1.0, 0, 16], [0, 1, 16], [0, 0, 1]])


def pair(matrix, whole=WHOLE, gain=1.2, offset=0.05, noise=0.005):
    """A window of a picture, and the same through a map that is known."""
    moving = warp(whole, WINDOW, size=(SIDE, SIDE))
    fixed = gain * warp(whole, WINDOW @ matrix, size=(SIDE, SIDE), interpolation="bicubic") + offset
    return fixed + noise * torch.randn(fixed.shape, generator=torch.Generator().manual_seed(5)), moving


def about(degrees, scale=1.0, shift=(0.0, 0.0), bend=(0.0, 0.0)):
    c, s = scale * math.cos(math.radians(degrees)), scale * math.sin(math.radians(degrees))
    middle = torch.tensor([[1.0, 0, (SIDE - 1) / 2], [0, 1, (SIDE - 1) / 2], [0, 0, 1]])
    return middle @ torch.tensor([[c, s, shift[0]], [-s, c, shift[1]], [*bend, 1.0]]) @ torch.linalg.inv(middle)


KNOWN = {
    "translation": about(0, shift=(3.3, -4.7)),
    "similarity": about(12, 1.1, (3.0, 2.0)),
    "affine": about(5, 0.95, (-3.0, 2.0)) @ torch.tensor([[1.0, 0.06, 0], [0, 1.05, 0], [0, 0, 1]]),
    "homography": about(6, 1.05, (2.0, -3.0), (6e-4, -5e-4)),
}


@pytest.mark.parametrize("model", MODELS)
def test_known_maps_are_found(model):
    found = align(*pair(KNOWN[model]), model=model)
    assert found.reason == ("converged",)
    assert float(corner_distance(found.matrix, KNOWN[model][None], (SIDE, SIDE))) < 0.15
    assert abs(float(found.brightness[0, 0]) - 1.2) < 0.03
    assert abs(float(found.brightness[0, 1]) - 0.05) < 0.02
    variances = torch.diagonal(found.covariance[0])
    assert len(variances) == len(basis(model, WHOLE))
    assert bool((variances > 0).all())
    warped = found.warped(pair(KNOWN[model])[1], (SIDE, SIDE))
    assert warped.shape == (1, 1, SIDE, SIDE)


def test_corners_moved_by_a_fifth_of_the_side_are_found():
    """Homographies that one start, and simpler maps on coarse levels, do not lead to."""
    whole, side, pairs = picture(140), 96, []
    window = torch.tensor([[1.0, 0, 22], [0, 1, 22], [0, 0, 1]])
    for seed in (2, 5, 7):
        turn = 2 * math.pi * torch.rand(4, generator=torch.Generator().manual_seed(seed))
        square = torch.tensor([[0.0, 0.0], [95, 0], [95, 95], [0, 95]])
        matrix = get_perspective_transform(square, square + 20 * torch.stack((turn.cos(), turn.sin()), 1)).float().reshape(3, 3)
        views = [warp(whole[0], m, size=(side, side), interpolation="bicubic") for m in (window @ matrix, window)]
        pairs.append((*views, matrix))
    fixed, moving, truth = (torch.stack([pair[i] for pair in pairs]) for i in range(3))
    found = align(fixed, moving)
    assert found.reason == ("converged",) * 3
    assert float(corner_distance(found.matrix, truth, (side, side)).max()) < 0.1


def test_shifts_agree_with_phase_correlation():
    """Of scikit-image, to a hundredth of a pixel, on a picture that wraps around."""
    skimage = pytest.importorskip("skimage.registration")
    y, x = torch.meshgrid(torch.arange(64.0), torch.arange(64.0), indexing="ij")
    waves = [(3, 1, 0.3), (1, 4, 1.1), (5, -2, 2.0), (2, 2, 0.7), (-4, 3, 1.9)]

    def at(dx, dy):
        terms = [torch.cos(2 * math.pi * (a * (x + dx) + b * (y + dy)) / 64 + c) for a, b, c in waves]
        return (0.5 + 0.1 * sum(terms, torch.zeros(())))[None]

    fixed, moving = at(0.0, 0.0), at(-1.6, 2.3)
    (down, across), *_ = skimage.phase_cross_correlation(fixed[0].numpy(), moving[0].numpy(), upsample_factor=100)
    found = align(fixed, moving, model="translation").matrix[0, :2, 2]
    assert torch.allclose(found, torch.tensor([-across, -down], dtype=torch.float32), atol=0.02)


@pytest.mark.parametrize("photometric", ["none", "gain_bias", "gain_bias_gamma"])
@pytest.mark.parametrize("model", MODELS)
def test_normal_equations_are_those_of_autograd(model, photometric):
    """In float64: J' W r and J' W J from a Jacobian by autograd through matrix, warp and brightness."""
    random = torch.Generator().manual_seed(1)
    fixed, moving = 0.3 + 0.4 * torch.rand(2, 2, 2, 9, 11, generator=random, dtype=torch.float64)
    mask = torch.rand(2, 1, 9, 11, generator=random, dtype=torch.float64)
    matrix = torch.tensor([[0.94, 0.11, 0.63], [-0.08, 0.97, 0.71], [0.004, -0.003, 1.0]], dtype=torch.float64).repeat(2, 1, 1)
    power = torch.tensor([0.9, 1.3], dtype=torch.float64)
    fixed = 0.2 * fixed + 0.7 * warp(moving, matrix, size=(9, 11), padding_mode="border")
    found = equations(Pair(fixed, moving, mask), matrix, model, photometric=photometric, exponent=power)
    pixels, spanned = frame((9, 11), fixed), basis(model, fixed)
    gamma = photometric == "gain_bias_gamma"
    gain, offset = found.brightness[:, 0], found.brightness[:, 1]
    count = len(spanned) + {"none": 0, "gain_bias": 2, "gain_bias_gamma": 3}[photometric]

    def residual(change):
        here = changed(matrix, change[:, : len(spanned)], spanned, pixels)
        value = warp(moving, here, size=(9, 11), interpolation="bicubic", padding_mode="border")
        if photometric == "none":
            return value - fixed
        more = change[:, len(spanned) :]
        value = value ** (power + more[:, 2])[:, None, None, None] if gamma else value
        return (gain + more[:, 0])[:, None, None, None] * value + (offset + more[:, 1])[:, None, None, None] - fixed

    zero = torch.zeros(2, count, dtype=torch.float64)
    rows = torch.stack([jacobian(residual, zero)[i, :, :, :, i] for i in range(2)])  # b c h w n
    ends = matrix @ torch.stack(
        [*torch.meshgrid(torch.arange(11.0).double(), torch.arange(9.0).double(), indexing="xy"), torch.ones(9, 11)]
    ).flatten(1)
    x, y = ends[:, 0] / ends[:, 2], ends[:, 1] / ends[:, 2]
    weight = mask[:, 0] * ((x >= 0) & (x <= 10) & (y >= 0) & (y <= 8)).unflatten(1, (9, 11))
    weight = weight / (2 * weight.sum((1, 2), keepdim=True))
    r = residual(zero)
    assert torch.allclose(found.left, torch.einsum("bchwi,bhw,bchwj->bij", rows, weight, rows), rtol=1e-9, atol=1e-12)
    assert torch.allclose(found.right, torch.einsum("bchwi,bhw,bchw->bi", rows, weight, r), rtol=1e-9, atol=1e-12)
    assert torch.allclose(found.loss, torch.einsum("bhw,bchw->b", weight, r.square()))
    if photometric != "none":  # gain and offset are at their optimum
        assert float(found.right[:, len(spanned) : len(spanned) + 2].abs().max()) < 1e-12


@pytest.mark.parametrize("loss", ["ssd", "barron"])
@pytest.mark.parametrize("photometric", ["none", "gain_bias"])
def test_equations_of_control_points_are_those_of_autograd(photometric, loss):
    """In float64: products with J, its transpose, the diagonal, and the slope of the loss with gain and offset solved for."""
    random = torch.Generator().manual_seed(1)
    moving = picture(16)[0].double().expand(2, 2, 16, 16) + 0.05 * torch.rand(2, 2, 16, 16, generator=random, dtype=torch.float64)
    fixed = 0.8 * moving[..., 1:13, 1:15] + 0.1 * torch.rand(2, 2, 12, 14, generator=random, dtype=torch.float64)
    mask = torch.rand(2, 1, 12, 14, generator=random, dtype=torch.float64)
    matrix = torch.tensor([[1.02, 0.05, 0.8], [-0.04, 0.97, 1.1], [0.0, 0.0, 1.0]], dtype=torch.float64).repeat(2, 1, 1)
    given = Pair(fixed, moving, mask)
    control = 0.4 * torch.randn(2, 2, 6, 6, generator=random, dtype=torch.float64)
    weigh = None if loss == "ssd" else robust(-2.0, 0.1)
    found = slopes_of(given, matrix, control, spacing=5.0, stiffness=1e-3, photometric=photometric, weigh=weigh)

    def value(points):
        field = spline_field(points, (12, 14), 5.0)
        return warp(moving, matrix, size=(12, 14), interpolation="bicubic", padding_mode="border", displacement=field)

    change = torch.randn(control.shape, generator=random, dtype=torch.float64)
    moved = torch.autograd.functional.jvp(value, control, change)[1] * found.brightness[:, 0, None, None, None]
    for i in range(2):  # what gain and offset can undo, by least squares
        planes = torch.stack((value(control)[i], torch.ones_like(fixed[i])), -1).flatten(0, 2)
        root = found.weights[i].flatten()[:, None].sqrt()
        undone = torch.linalg.lstsq(root * planes, root * moved[i].flatten()[:, None]).solution
        rest = moved[i] - (planes @ undone).reshape(moved[i].shape) if photometric == "gain_bias" else moved[i]
        assert torch.allclose(found.forward(change)[i], rest.flatten(1), rtol=1e-8, atol=1e-10)
    other = found.forward(torch.randn(control.shape, generator=random, dtype=torch.float64))
    products = (found.weights * found.forward(change) * other).sum((1, 2)), (change * found.back(other)).sum((1, 2, 3))
    assert torch.allclose(*products, rtol=1e-9)
    rows = found.brightness[0, 0] * jacobian(value, control)[0][..., 0, :, :, :].flatten(1, 2)  # c n 2 m n, of the first pair
    diagonal = (rows.square() * found.weights[0, ..., None, None, None]).sum((0, 1))
    stiff = torch.stack(
        [found.stiffened(one)[0].flatten()[i] for i, one in enumerate(torch.eye(72).double().reshape(72, 1, 2, 6, 6))]
    )
    assert torch.allclose(found.diagonal()[0], diagonal + stiff.reshape(2, 6, 6), rtol=1e-8, atol=1e-12)
    points = control.clone().requires_grad_()
    weight = given.covered(matrix, spline_field(control, (12, 14), 5.0))
    each = distance(loss, value(points), fixed, weight, photometric=photometric, width=0.1)
    assert torch.allclose(found.loss, each, rtol=1e-9)
    each = each.log() + 1e-3 * sum(torch.diff(points, n=2, dim=dim).square().mean((1, 2, 3)) for dim in (-1, -2))
    assert torch.allclose(found.cost, each, rtol=1e-9)
    if loss == "ssd" or photometric == "none":  # where gain and offset are at the loss's own optimum
        (slope,) = torch.autograd.grad(each.sum(), points)
        assert torch.allclose(2 * (found.back(found.residual) + found.stiffened(control)), slope, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("exponent", [1.0, -2.0])
def test_robust_weights_are_the_slope_over_the_residual(exponent):
    residual = torch.linspace(-0.7, 0.7, 12, dtype=torch.float64, requires_grad=True)
    loss, weight = robust(exponent, 0.1)(residual)
    (slope,) = torch.autograd.grad(loss.sum(), residual)
    assert torch.allclose(slope, 2 * weight * residual)
    small, _ = robust(exponent, 0.1)(torch.tensor(1e-4, dtype=torch.float64))
    assert abs(float(small) / 1e-8 - 1) < 1e-5


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_finds_a_shift(loss):
    gain = 1.0 if loss in ("charbonnier", "barron") else 1.2
    found = align(*pair(KNOWN["translation"], gain=gain), model="translation", loss=loss, steps=12)
    assert found.reason == ("converged",)
    assert float(corner_distance(found.matrix, KNOWN["translation"][None], (SIDE, SIDE))) < 0.3


def test_robust_losses_ignore_what_is_covered():
    fixed, moving = pair(KNOWN["similarity"], gain=1.0, offset=0.0)
    fixed[..., 5:25, 30:55] = 1.0
    ends = {
        loss: float(
            corner_distance(align(fixed, moving, model="similarity", loss=loss).matrix, KNOWN["similarity"][None], (SIDE, SIDE))
        )
        for loss in ("ssd", "barron")
    }
    assert ends["barron"] < 0.3
    assert ends["barron"] < 0.5 * ends["ssd"]


def test_masks_leave_out_what_is_covered():
    fixed, moving = pair(KNOWN["similarity"])
    fixed[..., 5:25, 30:55] = 3.0
    mask = torch.ones(1, SIDE, SIDE)
    mask[:, 3:27, 28:57] = 0.0
    found = align(fixed, moving, model="similarity", mask=mask)
    assert float(corner_distance(found.matrix, KNOWN["similarity"][None], (SIDE, SIDE))) < 0.15
    fixed, moving = pair(KNOWN["translation"])
    moving[..., 20:40, 20:40] = 3.0
    covered = torch.ones(1, SIDE, SIDE)
    covered[:, 18:42, 18:42] = 0.0
    found = align(fixed, moving, model="translation", moving_mask=covered)
    assert float(corner_distance(found.matrix, KNOWN["translation"][None], (SIDE, SIDE))) < 0.15


def test_mutual_information_sees_through_another_modality():
    fixed, moving = pair(KNOWN["translation"], gain=1.0, offset=0.0)
    other = (2.5 * (fixed - 0.5)).square()  # neither rises nor falls with the first
    found = align(other, moving, model="translation", loss="mutual_information", steps=12)
    assert float(corner_distance(found.matrix, KNOWN["translation"][None], (SIDE, SIDE))) < 0.5


def test_gamma_is_found():
    fixed, moving = pair(KNOWN["similarity"], gain=1.0, offset=0.0)
    found = align(fixed.clamp(0.01, 1) ** 1.6, moving, model="similarity", photometric="gain_bias_gamma")
    assert float(corner_distance(found.matrix, KNOWN["similarity"][None], (SIDE, SIDE))) < 0.15
    assert abs(float(found.brightness[0, 2]) - 1.6) < 0.2


def test_maps_of_features_are_aligned_instead():
    fixed, moving = pair(KNOWN["similarity"])
    y, x = torch.meshgrid(torch.linspace(0, 1, SIDE), torch.linspace(0, 1, SIDE), indexing="ij")

    def edges(image):
        return torch.cat([torch.gradient(image, dim=dim)[0] for dim in (-1, -2)], 1)

    shaded = fixed + x * y  # a light from one side, which edges hardly see
    ends = [align(shaded, moving, model="similarity", features=f).matrix for f in (None, edges)]
    plain, seen = (float(corner_distance(end, KNOWN["similarity"][None], (SIDE, SIDE))) for end in ends)
    assert seen < 0.3
    assert seen < plain


def test_splines_undo_a_deformation():
    control = 1.5 * torch.randn(1, 2, 6, 6, generator=torch.Generator().manual_seed(2))
    field = spline_field(control, (SIDE, SIDE), 24.0)
    y, x = torch.meshgrid(torch.arange(float(SIDE)), torch.arange(float(SIDE)), indexing="ij")
    moving = warp(WHOLE, WINDOW, size=(SIDE, SIDE))
    fixed = remap(WHOLE, 16 + x + field[:, 0], 16 + y + field[:, 1])
    found = align(fixed, moving, model="bspline", spacing=16.0)
    inner = (slice(None), slice(None), slice(6, -6), slice(6, -6))
    before, after = (float((part - field)[inner].norm(dim=1).mean()) for part in (torch.zeros_like(field), found.field))
    assert found.reason == ("converged",)
    assert after < 0.15
    assert before > 5 * after


def test_splines_undo_a_deformation_that_adam_does_not():
    """Stronger and finer than before; Adam ends in folds."""
    control = 2.0 * torch.randn(1, 2, 7, 7, generator=torch.Generator().manual_seed(3))
    field = spline_field(control, (SIDE, SIDE), 16.0)
    moving = warp(WHOLE, WINDOW, size=(SIDE, SIDE))
    fixed = 1.2 * remap(WHOLE, 16 + GRID[0] + field[:, 0], 16 + GRID[1] + field[:, 1]) + 0.05
    errors = {}
    for method in ("auto", "adam"):
        found = align(fixed, moving, model="bspline", spacing=8.0, method=method)
        errors[method] = float((found.field - field)[..., 6:-6, 6:-6].norm(dim=1).mean())
    assert errors["auto"] < 0.1
    assert errors["adam"] > 1.0


def test_pairs_that_cannot_be_aligned_say_why_and_leave_the_others_alone():
    fixed, moving = pair(KNOWN["similarity"])
    broken = fixed.clone()
    broken[..., 3, 3] = float("nan")
    fixeds = torch.cat([fixed, torch.full_like(fixed, 0.5), broken, fixed, fixed])
    movings = torch.cat(
        [moving, moving, moving, torch.zeros_like(moving), torch.rand(moving.shape, generator=torch.Generator().manual_seed(1))]
    )
    found = align(fixeds, movings, model="similarity")
    words = (
        "converged",
        "the fixed picture is constant",
        "the fixed picture has pixels that are not finite",
        "the moving picture is constant",
        "do not agree",
    )
    assert all(word in reason for word, reason in zip(words, found.reason, strict=True)), found.reason
    assert found.converged.tolist() == [True, False, False, False, False]
    assert bool(torch.isfinite(found.matrix).all())
    assert all(torch.equal(found.matrix[i], torch.eye(3)) for i in (1, 2, 3))
    alone = align(fixed, moving, model="similarity")
    assert torch.allclose(alone.matrix, found.matrix[:1], atol=1e-4)
    far = torch.tensor([[1.0, 0, 500], [0, 1, 0], [0, 0, 1]])
    for method in ("gauss_newton", "adam"):
        nowhere = align(fixed, moving, model="translation", start=far, method=method, steps=3)
        assert not bool(nowhere.converged)
        assert "overlap" in nowhere.reason[0]
    assert align(fixed[:0], moving[:0]).reason == ()
    short = align(fixed, moving, model="homography", steps=1, levels=1)
    assert short.converged.tolist() == [False]
    empty = align(fixed, moving, mask=torch.zeros(1, SIDE, SIDE))
    assert empty.reason == ("the fixed picture's mask is empty",)


def test_pictures_in_too_large_a_unit_are_not_called_constant():
    fixed, moving = pair(KNOWN["similarity"])
    fixeds, movings = torch.cat([1e-5 * fixed, fixed, 0.5 + 1e-6 * fixed]), torch.cat([moving, 1e-5 * moving, moving])
    found = align(fixeds, movings, model="similarity")
    words = ("the fixed picture varies by", "the moving picture varies by", "the fixed picture is constant")
    assert all(word in reason for word, reason in zip(words, found.reason, strict=True)), found.reason
    assert "only: multiply it" in found.reason[0]


@pytest.mark.parametrize("method", ["auto", "adam"])
@pytest.mark.parametrize("units", [(1 / 255, 1.0), (1.0, 255.0), (1.0, 1 / 255), (1e-3, 1e-3)])
def test_pictures_may_have_units_of_their_own(units, method):
    """Bytes as numbers beside fractions of one: the best gain is 1/200."""
    fixed, moving = pair(KNOWN["similarity"])
    found = align(units[0] * fixed, units[1] * moving, model="similarity", method=method)
    assert found.reason == ("converged",)
    assert (found.matrix[0] - KNOWN["similarity"]).abs().max() < 0.02
    if method == "auto":
        assert torch.allclose(found.brightness[0, :1], torch.tensor([1.19 * units[0] / units[1]]), rtol=0.01)


@pytest.mark.parametrize("side", ["fixed", "moving"])
def test_pixels_that_are_not_finite_may_stand_where_a_mask_is_zero(side):
    fixed, moving = pair(KNOWN["similarity"])
    pictures = {"fixed": fixed.clone(), "moving": moving.clone()}
    mask = torch.ones_like(pictures[side])
    mask[..., 20:30, 15:25] = 0.0
    masks = {"mask" if side == "fixed" else "moving_mask": mask}
    wanted = align(**{**pictures, side: pictures[side] * mask}, **masks, model="similarity")
    pictures[side][..., 20:30, 15:25] = torch.tensor([torch.nan, torch.inf]).repeat(5)
    found = align(**pictures, **masks, model="similarity")
    assert found.reason == ("converged",)
    assert torch.equal(found.matrix, wanted.matrix)
    pictures[side][..., 40, 40] = torch.nan
    assert "not finite" in align(**pictures, **masks, model="similarity").reason[0]


def test_no_descent_is_made_in_inference_mode():
    fixed, moving = pair(KNOWN["translation"])
    with torch.inference_mode():
        refused(InvalidArgument, r"align: .*inference_mode.*torch.no_grad\(\)", align, fixed, moving)
        refused(InvalidArgument, "align_volumes: .*inference_mode", align_volumes, fixed[:, None], fixed[:, None])


def test_sizes_bytes_and_starts():
    fixed, moving = pair(KNOWN["similarity"])
    smaller = moving[..., :50, 4:]
    shifted = torch.tensor([[1.0, 0, -4], [0, 1, 0], [0, 0, 1]])
    wanted = (shifted @ KNOWN["similarity"])[None]
    found = align(
        (255 * fixed).clamp(0, 255).to(torch.uint8)[0], (255 * smaller).clamp(0, 255).to(torch.uint8)[0], model="similarity"
    )
    assert float(corner_distance(found.matrix, wanted, (SIDE, SIDE))) < 0.2
    begun = align(fixed, moving, model="similarity", start=KNOWN["similarity"], levels=1)
    assert float(corner_distance(begun.matrix, KNOWN["similarity"][None], (SIDE, SIDE))) < 0.15


SIZES = {
    "a window of it": ((120, 128), (56, 64), 1.0),
    "what lies around": ((56, 64), (120, 128), 1.0),
    "portrait on landscape": ((112, 72), (72, 112), 1.0),
    "twice as large": ((72, 88), (144, 176), 2.0),
    "half as large": ((144, 176), (72, 88), 0.5),
}


@pytest.mark.parametrize("case", SIZES)
def test_pictures_of_different_sizes_need_no_start(case):
    """Their middles lie on one another, or all of them is seen; a small turn beside."""
    fixed_size, moving_size, scale = SIZES[case]
    whole, pictures = picture(200, seed=4)[0], []

    def centred(size, zoom):
        return torch.tensor([[zoom, 0, 99.5 - zoom * (size[1] - 1) / 2], [0, zoom, 99.5 - zoom * (size[0] - 1) / 2], [0, 0, 1]])

    whole_from_fixed, whole_from_moving = (
        centred(fixed_size, max(1.0, scale)) @ about(4.0, 1.03),
        centred(moving_size, max(1.0, 1 / scale)),
    )
    for matrix, size in ((whole_from_fixed, fixed_size), (whole_from_moving, moving_size)):
        pictures.append(warp(whole, matrix, size=size, interpolation="bicubic", padding_mode="reflection", antialias=True))
    found = align(1.1 * pictures[0] + 0.02, pictures[1], model="similarity")
    assert found.reason == ("converged",)
    assert float(corner_distance(found.matrix, (torch.linalg.inv(whole_from_moving) @ whole_from_fixed)[None], fixed_size)) < 0.2


def test_what_agrees_in_its_coarse_parts_alone_is_not_converged():
    """Two pictures with one slow gradient of brightness and details of their own."""
    y, x = torch.meshgrid(torch.linspace(-1, 1, 96), torch.linspace(-1, 1, 96), indexing="ij")
    fixed, moving = (0.3 * picture(seed=seed) + 0.4 * x + 0.2 * y**2 for seed in (7, 8))
    found = align(fixed, moving, model="affine")
    assert float(found.correlation) > 0.8
    assert "do not agree: only at" in found.reason[0]
    assert align(fixed, fixed.roll(2, -1)).reason == ("converged",)


def test_photographs_that_do_not_belong_together_are_told_so():
    """Mirrored, or of something else: large bright and dark parts fit anywhere."""
    data = pytest.importorskip("skimage.data")
    shown = [torch.from_numpy(getattr(data, name)()) for name in ("astronaut", "chelsea", "coffee", "rocket")]
    batch = torch.stack([resize(each[..., :3].permute(2, 0, 1).float().mean(0, keepdim=True) / 255, (120, 120)) for each in shown])
    assert align(batch, batch.roll((2, 3), (-1, -2)), model="affine").reason == ("converged",) * 4
    for wrong in (batch.flip(-1), batch.roll(1, 0)):
        assert not bool(align(batch, wrong, model="affine").converged.any())


@pytest.mark.parametrize("model", ["homography", "affine+bspline"])
def test_light_that_differs_from_place_to_place(model):
    """A lamp from one side, a shadow with an edge: what one gain and one offset do not make up for.

    A field bends to make up for the edge, too, but little: three pixels of a hundred are off by more than one.
    """
    fixed, moving = pair(KNOWN["affine"], gain=1.0, offset=0.0)
    x = torch.linspace(0, 1, SIDE)
    lit = fixed * (0.3 + 1.4 * x) * torch.where(x > 0.6, 1.0, 0.5)
    found = align(lit, moving, model=model, photometric="local")
    places = torch.cartesian_prod(torch.arange(SIDE), torch.arange(SIDE)).flip(1).T.to(fixed)
    placed, right = ((matrix @ torch.cat((places, torch.ones_like(places[:1])))) for matrix in (found.matrix[0], KNOWN["affine"]))
    bent = 0.0 if found.field is None else found.field[0].flatten(1)
    off = (placed[:2] / placed[2:] + bent - right[:2] / right[2:]).norm(dim=0)
    assert bool(found.converged)
    assert float((off > 1).float().mean()) < 0.1
    assert float(corner_distance(found.matrix, KNOWN["affine"][None], (SIDE, SIDE))) < 0.5
    assert float(corner_distance(align(lit, moving, model="affine").matrix, KNOWN["affine"][None], (SIDE, SIDE))) > 1.0
    covered_up = lit.clone()
    covered_up[..., 20:36, 30:46] = 50.0
    mask = torch.ones(1, SIDE, SIDE)
    mask[:, 20:36, 30:46] = 0.0
    masked = align(covered_up, moving, model="affine", photometric="local", mask=mask)
    assert float(corner_distance(masked.matrix, KNOWN["affine"][None], (SIDE, SIDE))) < 0.5


def test_mistakes():
    image = torch.rand(1, 20, 20)
    for options in (
        {"model": "rigid"},
        {"loss": "l2"},
        {"photometric": "x"},
        {"start": torch.eye(2)},
        {"mask": torch.ones(20, 20)},
    ):
        with pytest.raises(InvalidArgument):
            align(image, image, **options)
    refused(InvalidArgument, "method", align, image, image, loss="mutual_information", method="gauss_newton")
    refused(InvalidArgument, "photometric", align, image, image, method="adam", photometric="gain_bias_gamma")
    refused(InvalidArgument, "moving", align, image, torch.rand(3, 20, 20))
    refused(InvalidType, "fixed: expected a tensor", align, image.numpy(), image)
    refused(InvalidType, "moving: expected", align, image, image.to(torch.int64))


def test_matches_are_refined_to_parts_of_a_pixel():
    """Points off by a pixel come back to where the known map has them; what looks like nothing stays."""
    matrix = KNOWN["similarity"]
    fixed, moving = pair(matrix)
    y, x = torch.meshgrid(torch.arange(24.0, 44.0, 5.0), torch.arange(24.0, 44.0, 5.0), indexing="ij")
    places = torch.stack((x.flatten(), y.flatten()), 1)
    ends = places @ matrix[:2, :2].T + matrix[:2, 2]
    random = torch.Generator().manual_seed(3)
    off = ends + 1.6 * torch.rand(ends.shape, generator=random) - 0.8
    frames = torch.cat((10.0 * torch.eye(2).expand(len(places), 2, 2), places[..., None]), 2)
    theirs = torch.cat((10.0 * matrix[:2, :2].expand(len(places), 2, 2), off[..., None]), 2)
    found, good = refine_matches(fixed[0], moving[0], frames, theirs)
    assert int(good.sum()) >= 14
    assert float((found - ends)[good].norm(dim=1).median()) < 0.1
    assert float((off - ends).norm(dim=1).median()) > 0.4
    flat, none = refine_matches(fixed[0], 0 * moving[0], frames, theirs)
    assert torch.equal(flat, off)
    assert not bool(none.any())
    theirs[0, 0, 0] = float("nan")
    kept, good = refine_matches(fixed[0], moving[0], frames, theirs)
    assert not bool(good[0])
    assert torch.equal(kept[0], off[0])
    assert torch.allclose(kept[1:], found[1:], atol=1e-4)
    assert refine_matches(fixed[0], moving[0], frames[:0], theirs[:0])[0].shape == (0, 2)


GRID = torch.stack(torch.meshgrid(torch.arange(float(SIDE)), torch.arange(float(SIDE)), indexing="xy"))


def bent_pair(matrix, lens=(0.0, 0.0), control=None, interpolation="bicubic"):
    """A window through a lens, a matrix and a B-spline, by hand: where each pixel is read, and the pictures."""
    middle, half = (SIDE - 1) / 2, SIDE / 2
    x, y = (GRID - middle) / half
    grow = 1 + lens[0] * (x**2 + y**2) + lens[1] * (x**2 + y**2) ** 2
    places = torch.stack((x * grow * half + middle, y * grow * half + middle, torch.ones_like(x))).flatten(1)
    ends = matrix @ places
    ends = (ends[:2] / ends[2]).unflatten(1, (SIDE, SIDE))
    if control is not None:
        ends = ends + spline_field(control, (SIDE, SIDE), 24.0)[0]
    fixed = 1.1 * remap(WHOLE, 16 + ends[0], 16 + ends[1], interpolation=interpolation) + 0.03
    return ends, fixed, warp(WHOLE, WINDOW, size=(SIDE, SIDE))


def reads(found):
    """Where an alignment reads each pixel of the fixed picture."""
    ends = found.matrix[0] @ torch.cat((GRID, torch.ones(1, SIDE, SIDE))).flatten(1)
    return (ends[:2] / ends[2]).unflatten(1, (SIDE, SIDE)) + found.field[0]


@pytest.mark.parametrize("model", ["affine+lens", "similarity+bspline", "lens"])
def test_compositions_are_found(model):
    lens = (0.06, -0.03) if "lens" in model else (0.0, 0.0)
    control = 1.5 * torch.randn(1, 2, 6, 6, generator=torch.Generator().manual_seed(2)) if "bspline" in model else None
    matrix = KNOWN["similarity"] if "+" in model else torch.eye(3)
    ends, fixed, moving = bent_pair(matrix, lens, control)
    found = align(fixed, moving, model=model)
    apart = (reads(found) - ends)[:, 6:-6, 6:-6].norm(dim=0).mean()
    alone = align(fixed, moving, model=model.split("+")[0]) if "+" in model else None
    assert found.reason == ("converged",)
    assert float(apart) < 0.15
    assert (found.lens is None) == ("lens" not in model)
    if found.lens is not None:  # at r = 1, of a pair that is read as `align` reads it
        _, same, moving = bent_pair(matrix, lens, control, "bilinear")
        assert abs(float(align(same, moving, model=model).lens.sum()) - sum(lens)) < 0.01
    if alone is not None:
        assert float(corner_distance(alone.matrix, matrix[None], (SIDE, SIDE))) > 2 * float(apart)


def test_variances_are_those_of_repeated_noise():
    """The maps found under 60 draws of noise scatter as the covariance says; least squares, the same picture."""
    random = torch.Generator().manual_seed(4)
    fixed, moving = pair(KNOWN["affine"], gain=1.0, offset=0.0, noise=0.0)
    clean = align(fixed, moving, model="affine", levels=1, start=KNOWN["affine"]).matrix
    noisy = fixed + 0.02 * torch.randn((60, 1, SIDE, SIDE), generator=random)
    found = align(noisy, moving.expand(60, -1, -1, -1), model="affine", levels=1, start=clean[0], tolerance=1e-5)
    pixels = frame((SIDE, SIDE), fixed)
    small = torch.linalg.inv(pixels) @ torch.linalg.inv(clean) @ found.matrix @ pixels - torch.eye(3)
    numbers = small.flatten(1) @ torch.linalg.pinv(basis("affine", fixed))
    scatter, told = numbers.var(0).sqrt(), torch.diagonal(found.covariance, dim1=1, dim2=2).mean(0).sqrt()
    assert bool((scatter / told > 0.7).all() & (scatter / told < 1.4).all()), scatter / told


@pytest.mark.parametrize("call", [align, align_volumes])
@pytest.mark.parametrize("numbers", [{"levels": 0}, {"steps": 0}, {"spacing": 0.0}, {"width": 0.0}, {"stiffness": -1.0}])
def test_numbers_that_mean_nothing_are_refused(call, numbers):
    some = torch.rand((1, 8, 8) if call is align else (1, 8, 8, 8))
    refused(InvalidArgument, next(iter(numbers)), call, some, some, **numbers)


@pytest.mark.parametrize("call", [align, align_volumes])
def test_a_picture_that_is_constant_under_its_mask_says_so(call):
    random = torch.Generator().manual_seed(0)
    some = torch.rand((1, 8, 8) if call is align else (1, 8, 8, 8), generator=random)
    flat, mask = some.clone(), torch.ones_like(some)
    flat[..., :4], mask[..., 4:] = 0.5, 0.0
    found = call(flat, some, mask=mask)
    assert "constant where its mask counts" in found.reason[0]
    assert not found.converged.any()


def _photographs(*names, side=128):
    data = pytest.importorskip("skimage.data")
    shown = [torch.from_numpy(getattr(data, name)()).float() for name in names]
    grey = [each[None] if each.dim() == 2 else each[..., :3].movedim(-1, 0).mean(0, keepdim=True) for each in shown]
    return torch.stack([resize(each / 255, (side, side)) for each in grey])


def _noisy(pictures, deviation):
    noise = deviation * torch.randn(2, *pictures.shape, generator=torch.Generator().manual_seed(0))
    return Pair(1.2 * pictures + 0.05 + noise[0], pictures + noise[1], torch.ones_like(pictures), None)


def _about_the_middle(scale=1.0, degrees=0.0, shift=0.0):
    c, s = scale * math.cos(math.radians(degrees)), scale * math.sin(math.radians(degrees))
    middle = torch.tensor([[1.0, 0, 63.5], [0, 1, 63.5], [0, 0, 1]])
    return (middle @ torch.tensor([[c, s, shift], [-s, c, 0.0], [0, 0, 1]]) @ torch.linalg.inv(middle))[None]


def test_evidence_is_for_the_right_map_and_against_wrong_ones():
    """Maps that are off everywhere, and such as are right in the middle alone."""
    pair = _noisy(_photographs("astronaut", "coffee", "coins"), 0.01)
    right = evidence_of(pair, _about_the_middle().expand(3, 3, 3), None, "homography")
    assert right.agreeing.min() > 0.97
    assert right.leverage.max() < 2.0
    for wrong in ({"shift": 4.0}, {"scale": 1.15}, {"degrees": 8.0}):
        found = evidence_of(pair, _about_the_middle(**wrong).expand(3, 3, 3), None, "homography")
        assert found.agreeing.max() < 0.7, wrong


def test_details_in_one_place_leave_a_homography_open():
    """One window shows something, the rest is noise: enough for a shift, too little for eight numbers."""
    seen = torch.full((1, 1, 128, 128), 0.5)
    seen[..., 50:82, 50:82] = _photographs("coffee")[..., 40:72, 40:72]
    pair, same = _noisy(seen, 0.05), _about_the_middle()
    shift, turn, plane = (
        float(evidence_of(pair, same, None, model).leverage) for model in ("translation", "similarity", "homography")
    )
    assert shift < 1.0
    assert shift < turn < plane
    assert plane > 6.0


@pytest.mark.slow
def test_no_wrong_map_is_called_converged():
    """30 pairs of photographs whose corners move by 40 px of 128: 11 maps are wrong, and 5 of these were said to have converged."""
    verdicts = pytest.importorskip("pellucid_bench.verdicts")
    found, errors = verdicts.aligned(verdicts.pairs(verdicts.SEEN, (0, 1, 2), 40.0))
    assert (errors > 3).sum() >= 5
    assert not (found.converged & (errors > 3)).any()
    assert found.converged[errors < 1].all()
