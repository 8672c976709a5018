"""At whole pixels the slope of an interpolation is one-sided; every implementation takes the one from the right."""

import pytest
import torch

from pellucid import functional as F

MAPS = {
    "identity": [[1.0, 0, 0], [0, 1, 0], [0, 0, 1]],
    "shift": [[1.0, 0, 2], [0, 1, -1], [0, 0, 1]],
    "outside": [[1.0, 0, -3], [0, 1, 2], [0, 0, 1]],
    "flip": [[-1.0, 0, 13], [0, 1, 0], [0, 0, 1]],
    "turn": [[0.0, 1, 0], [-1, 0, 11], [0, 0, 1]],
}


@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("rows", [2, 3])
@pytest.mark.parametrize("name", MAPS)
def test_slopes_of_maps_onto_whole_pixels_agree(name, rows, padding_mode):
    image, upstream = torch.rand(2, 3, 12, 14, dtype=torch.float64), torch.rand(2, 3, 12, 14, dtype=torch.float64)
    found = {}
    for impl in ("cpu", "reference"):
        matrix = torch.tensor(MAPS[name], dtype=torch.float64)[:rows].repeat(2, 1, 1).requires_grad_()
        out = F.warp(image, matrix, size=(12, 14), padding_mode=padding_mode, impl=impl)
        (found[impl],) = torch.autograd.grad((out * upstream).sum(), matrix)
    torch.testing.assert_close(found["cpu"], found["reference"], rtol=1e-12, atol=1e-10)


def test_the_slope_is_the_one_from_the_right():
    image = torch.tensor([[[[1.0, 4.0, 9.0]]]], dtype=torch.float64)
    for at, slope in ((-1.0, 1.0), (0.0, 3.0), (1.0, 5.0), (2.0, -9.0), (3.0, 0.0)):
        matrix = torch.tensor([[[0.0, 0, at], [0, 0, 0]]], dtype=torch.float64).requires_grad_()
        (gradient,) = torch.autograd.grad(F.warp(image, matrix, size=(1, 1)).sum(), matrix)
        assert gradient[0, 0, 2].item() == pytest.approx(slope)
