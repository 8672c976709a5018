"""What the level-set form promises, and that the published forms do not: the claims of docs/losses.md and ADR 0006."""

import pytest
import torch

from pellucid.losses import hausdorff_distance_loss, hausdorff_erosion_loss, hausdorff_level_loss

SIZE, RADIUS = 64, 7.0
SHIFTS = range(0, 41, 2)


def disc(shift, sharpness, peak=1.0):
    y, x = torch.meshgrid(torch.arange(SIZE, dtype=torch.float64), torch.arange(SIZE, dtype=torch.float64), indexing="ij")
    distance = ((x - 12 - shift).square() + (y - SIZE // 2).square() + 1e-12).sqrt()
    return peak * torch.sigmoid(sharpness * (RADIUS - distance))[None, None]


TARGET = (disc(0, 50.0) > 0.5).double()


def curve(loss, **options):
    return torch.stack([loss(disc(s, **options), TARGET) for s in SHIFTS])


@pytest.mark.parametrize(
    "options",
    [
        {"sharpness": 50.0},
        {"sharpness": 1.0},
        {"sharpness": 0.4},
        {"sharpness": 50.0, "peak": 0.25},
        {"sharpness": 1.0, "peak": 0.6},
    ],
)
def test_level_form_is_monotone_under_shift(options):
    assert (curve(hausdorff_level_loss, **options).diff() > 0).all()


def test_level_form_is_convex_in_the_shift_of_a_convex_shape():
    assert (curve(hausdorff_level_loss, sharpness=50.0).diff(n=2) > 0).all()


@pytest.mark.parametrize("sharpness", [50.0, 1.0, 0.4])
def test_distance_form_is_monotone_too(sharpness):
    assert (curve(hausdorff_distance_loss, sharpness=sharpness).diff() > 0).all()


def test_erosion_form_saturates_and_prefers_a_wrong_place_for_a_faint_shape():
    crisp = curve(hausdorff_erosion_loss, sharpness=50.0)
    apart = [i for i, s in enumerate(SHIFTS) if s > 2 * RADIUS + 2]
    assert (crisp[apart] - crisp[apart[0]]).abs().max() < 1e-9
    faint = curve(hausdorff_erosion_loss, sharpness=50.0, peak=0.25)
    assert faint[0] > 50 * hausdorff_erosion_loss(disc(1, sharpness=50.0, peak=0.25), TARGET)


def gradient(loss, prediction, target):
    q = prediction.clone().requires_grad_()
    return torch.autograd.grad(loss(q, target), q)[0] * q.numel()


NEAR_UNIFORM = {
    "one half": torch.full_like(TARGET, 0.5),
    "low": torch.full_like(TARGET, 0.02),
    "high": torch.full_like(TARGET, 0.98),
    "noise": 0.5 + 0.01 * torch.rand(TARGET.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64),
    "soft": disc(6, 0.02),
}


@pytest.mark.parametrize("name", NEAR_UNIFORM)
@pytest.mark.parametrize("target", [TARGET, 0 * TARGET, 0 * TARGET + 1], ids=["disc", "empty", "full"])
def test_level_form_has_no_dead_zone(name, target):
    g = gradient(hausdorff_level_loss, NEAR_UNIFORM[name], target)
    inside = target > 0.5
    assert (g[inside] <= -1 + 1e-9).all()
    assert (g[~inside] >= 1 - 1e-9).all()


@pytest.mark.parametrize("level", [0.3, 0.5, 0.7])
def test_erosion_form_is_dead_while_all_errors_are_below_the_root_of_one_half(level):
    for target in (TARGET, 0 * TARGET):
        assert (gradient(hausdorff_erosion_loss, torch.full_like(TARGET, level), target) == 0).all()
    assert (gradient(hausdorff_erosion_loss, torch.full_like(TARGET, 0.72), 0 * TARGET) != 0).any()


def test_distance_form_is_alive_when_undecided_but_dead_for_an_empty_target():
    assert (gradient(hausdorff_distance_loss, NEAR_UNIFORM["one half"], TARGET) != 0).all()
    assert (gradient(hausdorff_distance_loss, NEAR_UNIFORM["low"], 0 * TARGET) == 0).all()


def jump(loss, at):
    """Relative change of the loss when one pixel far from the target passes a level that no other pixel reaches."""
    below, above = (torch.full_like(TARGET, at - 1e-9) for _ in range(2))
    above[..., 60, 60] += 2e-9
    return abs(loss(above, TARGET) / loss(below, TARGET) - 1)


def test_distance_form_flips_at_one_half_and_the_level_form_hardly_anywhere():
    assert jump(hausdorff_distance_loss, 0.5) > 1
    assert jump(hausdorff_level_loss, 0.5) < 1e-6
    assert jump(hausdorff_level_loss, 0.4375) < 0.05  # the middle of a slice, its worst place


def test_second_derivative_of_the_level_form_is_zero():
    q = NEAR_UNIFORM["noise"]
    step = 1e-6 * torch.rand(TARGET.shape, dtype=torch.float64)
    assert torch.equal(gradient(hausdorff_level_loss, q + step, TARGET), gradient(hausdorff_level_loss, q, TARGET))


@pytest.mark.slow
@pytest.mark.parametrize("start", ["one half", "noise", "soft"])
def test_descent_on_the_level_form_arrives(start):
    logits = torch.logit(NEAR_UNIFORM[start]).float().requires_grad_()
    optimiser = torch.optim.Adam([logits], lr=0.3)
    for _ in range(80):
        optimiser.zero_grad()
        hausdorff_level_loss(logits.sigmoid(), TARGET.float()).backward()
        optimiser.step()
    assert torch.equal(logits.detach() > 0, TARGET > 0.5)


def test_the_right_answer_is_the_minimum():
    assert hausdorff_level_loss(TARGET, TARGET) == 0
    wrong = TARGET.clone()
    wrong[..., 40, 40] = 1
    assert hausdorff_level_loss(wrong, TARGET) > 0
    assert hausdorff_level_loss(0.999 * TARGET, TARGET) > 0
