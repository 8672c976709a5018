"""Colour stages that a pass does not hold: passes that move nothing give what plain PyTorch gives, and its gradients."""

import pytest
import torch

from pellucid.color.curves import Curved
from pellucid.kernels import warp
from pellucid.kernels.warp.around import by_torch
from pellucid.segments.chain import AffineStage, ClipStage, CurveStage, HueStage
from tests.compare import within_budget

ORDERS = ["a", "c", "h", "ac", "ca", "ha", "hac", "aca", "acac", "hcah", "aach", "cc", "p", "cpca", "hacpa", "pp", "cph"]
ORDERS += ["o", "s", "acoa", "hcsa", "oso", "psa"]


def stages(order, numbers):
    """One stage for each letter, of numbers that a gradient may be asked of."""
    matrix, offset, shift, *own = numbers
    rows = torch.stack([*own, 0.1 * torch.ones_like(own[0])], 1)
    bits = torch.stack([3.0 + own[0], *own[1:], 0.0 * own[0] + 1.0], 1)
    curves = {
        "p": CurveStage(rows, Curved("power")),
        "o": CurveStage(bits, Curved("posterize", "soft", "secant", 255.0)),
        "s": CurveStage(rows, Curved("solarize", "none", "secant", 1.0)),
    }
    made = {"a": AffineStage(matrix, offset), "c": ClipStage(), "h": HueStage(shift), **curves}
    return tuple(made[letter] for letter in order)


def numbers(rows=3):
    generator = torch.Generator().manual_seed(3)
    shapes = ((rows, 3, 3), (rows, 3), (rows,), (rows,), (rows,), (rows,))
    drawn = [torch.rand(shape, generator=generator, dtype=torch.float64) for shape in shapes]
    colours = [torch.eye(3, dtype=torch.float64) + 0.6 * (drawn[0] - 0.5), 0.4 * (drawn[1] - 0.5), drawn[2] - 0.5]
    return [*colours, 0.5 + drawn[3], 0.5 + drawn[4], drawn[5]]


def pictures():
    return torch.rand((3, 3, 7, 9), generator=torch.Generator().manual_seed(4), dtype=torch.float64)


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("order", ORDERS)
def test_numbers_and_gradients_are_those_of_plain_torch(order, rows):
    found = []
    for run in (by_torch, warp.stages_by("cpu")):
        given = [part.requires_grad_() for part in (pictures(), *numbers(rows))]
        out = run(given[0], stages(order, given[1:]), torch.float64, False)
        weights = torch.linspace(-1, 1, out.numel(), dtype=torch.float64).view_as(out)
        slopes = torch.autograd.grad((out * weights).sum(), given, allow_unused=True, materialize_grads=True)
        found.append((out.detach(), *slopes))
    for theirs, ours in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("levels", [False, True])
@pytest.mark.parametrize("order", ["a", "c", "ac", "hac", "acpca"])
def test_bytes_are_read_as_they_are(order, levels):
    image = (255 * pictures()).to(torch.uint8)
    some = stages(order, [part.float().double() for part in numbers()])
    found = warp.stages_by("cpu")(image, some, torch.float32, levels)
    exact = by_torch(image, some, torch.float64, levels)
    assert found.dtype == torch.float32
    assert within_budget(found, by_torch(image, some, torch.float32, levels), exact)


def test_no_stage_leaves_the_picture_as_it_is():
    image = pictures()
    assert warp.stages_by("cpu")(image, (), torch.float64, False) is image
