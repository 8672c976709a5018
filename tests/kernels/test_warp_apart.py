"""Pictures that shrink by so much that what a strip reads is not staged: the bits of the stage, and the reference's gradients."""

import pytest
import torch

from .test_warp_layouts import layouts
from .warps import INTERPOLATIONS, PADDINGS, cpu, reference

FACTORS = (1.0, 3.0, 4.125, 9.25, 17.0, 40.0)
HEIGHT, WIDTH = 110, 130
WINDOW = torch.tensor([[11.0, 7.0, 111.0, 90.0]])


def shrinking(factor, turn=0.0):
    """A map whose coordinates are exact in float32, around the picture's middle, and an output that also sees outside."""
    size = (min(int(HEIGHT / factor) + 5, 40), min(int(WIDTH / factor) + 5, 40))
    across, down = WIDTH / 2 + 0.375 - factor * (size[1] // 2), HEIGHT / 2 - 0.625 - factor * (size[0] // 2)
    return torch.tensor([[[factor, turn * factor, across], [-turn * factor, factor, down]]]), size


def one_by_one(image, step, size, **given):
    """Every output pixel by a call of its own: what one pixel reads is always staged."""
    rows, columns = (torch.arange(float(n)) for n in size)
    places = torch.cartesian_prod(columns, rows, torch.ones(1)).view(*reversed(size), 3).transpose(0, 1).reshape(-1, 3, 1)
    moved = torch.cat((step[:, :, :2].expand(len(places), 2, 2), step @ places), 2)
    out = cpu.warp(image.expand(len(places), *image.shape[1:]), moved, size=(1, 1), **given)
    return out.view(*size, -1).permute(2, 0, 1)[None]


@pytest.mark.parametrize("padding_mode", PADDINGS)
@pytest.mark.parametrize("interpolation", INTERPOLATIONS[:3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8])
def test_the_bits_do_not_depend_on_what_is_staged(interpolation, padding_mode, dtype):
    image = torch.rand(1, 5, HEIGHT, WIDTH)
    image = (255 * image).to(torch.uint8) if dtype == torch.uint8 else image
    options = {"interpolation": interpolation, "padding_mode": padding_mode, "dtype": torch.float32}
    for factor in FACTORS:
        for turn, window in ((0.0, None), (0.5, None), (0.0, WINDOW)):
            step, size = shrinking(factor, turn)
            given = {**options, "window": window}
            expected = one_by_one(image, step, size, **given)
            for layout, picture in layouts(image).items():
                if turn or layout == "planar":
                    assert torch.equal(cpu.warp(picture, step, size=size, **given), expected), (factor, turn, layout)


@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("interpolation", INTERPOLATIONS[:3])
def test_values_and_gradients_are_the_references(interpolation, padding_mode):
    torch.manual_seed(0)
    given = {"interpolation": interpolation, "padding_mode": padding_mode}
    for factor in (3.0, 7.3, 21.7):
        for window in (None, WINDOW.double()):
            step, size = shrinking(factor, 0.3)
            leaves = [torch.rand(2, 4, HEIGHT, WIDTH, dtype=torch.float64), (step.double() + 1e-3 * torch.rand(2, 2, 3))]
            outs, weights = [], torch.rand(2, 4, *size, dtype=torch.float64)
            for function in (cpu.warp, reference.warp):
                image, matrix = (leaf.clone().requires_grad_() for leaf in leaves)
                out = function(image, matrix, size=size, window=window, **given)
                used = (image,) if interpolation == "nearest" else (image, matrix)
                outs.append((out.detach(), *torch.autograd.grad(out, used, weights)))
            torch.testing.assert_close(*outs, rtol=1e-9, atol=1e-9)


def test_one_picture_is_staged_in_parts():
    """A perspective whose far rows read much, and whose near rows read little."""
    image = torch.rand(1, 3, 400, 500, dtype=torch.float64)
    far = torch.tensor([[[1.0, 0.4, 40.0], [0.0, 1.5, 0.0], [0.0, -0.0145, 1.0]]], dtype=torch.float64)
    weights = torch.rand(1, 3, 64, 300, dtype=torch.float64)
    outs = []
    for function in (cpu.warp, reference.warp):
        leaves = image.clone().requires_grad_(), far.clone().requires_grad_()
        out = function(*leaves, size=(64, 300))
        outs.append((out.detach(), *torch.autograd.grad(out, leaves, weights)))
    torch.testing.assert_close(*outs, rtol=1e-8, atol=1e-8)
