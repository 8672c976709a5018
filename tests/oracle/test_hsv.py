"""HSV against Python's colorsys, and grey against PIL and OpenCV."""

import colorsys

import numpy as np
import torch
from PIL import Image

from pellucid import functional as PF
from tests.peers import cv_image, opencv


def _colors() -> torch.Tensor:
    """Random colours, and the corners and greys where the formulas branch."""
    special = torch.tensor([[r, g, b] for r in (0, 0.5, 1) for g in (0, 0.5, 1) for b in (0, 0.5, 1)], dtype=torch.float64)
    return torch.cat((torch.rand(500, 3, dtype=torch.float64), special)).T[:, None]


def test_rgb_to_hsv_and_back():
    colors = _colors()
    wanted = torch.tensor([colorsys.rgb_to_hsv(*color) for color in colors[:, 0].T.tolist()], dtype=torch.float64)
    hsv = PF.rgb_to_hsv(colors)
    assert (hsv[:, 0].T - wanted).abs().max() < 1e-14
    assert (PF.hsv_to_rgb(hsv) - colors).abs().max() < 1e-14


def test_hsv_to_rgb():
    colors = _colors()
    wanted = torch.tensor([colorsys.hsv_to_rgb(*color) for color in colors[:, 0].T.tolist()], dtype=torch.float64)
    assert (PF.hsv_to_rgb(colors)[:, 0].T - wanted).abs().max() < 1e-14


def test_hue_and_saturation_by_way_of_colorsys():
    colors = _colors()
    turned = []
    for red, green, blue in colors[:, 0].T.tolist():
        hue, saturation, value = colorsys.rgb_to_hsv(red, green, blue)
        turned.append(colorsys.hsv_to_rgb((hue + 0.15) % 1.0, saturation, value))
    assert (PF.adjust_hue(colors, 0.15)[:, 0].T - torch.tensor(turned, dtype=torch.float64)).abs().max() < 1e-14


def test_gradients_are_finite_at_grey_and_black():
    grey = torch.tensor([0.0, 0.5, 1.0], dtype=torch.float64).expand(3, 3)[:, None].clone().requires_grad_()
    for function in (PF.rgb_to_hsv, lambda x: PF.adjust_hue(x, 0.2), lambda x: PF.adjust_gamma(x, 0.4)):
        (gradient,) = torch.autograd.grad(function(grey).sum(), grey)
        assert gradient.isfinite().all()


def test_grey_is_opencv_s_and_pil_s():
    image = torch.rand(3, 9, 11)
    wanted = opencv().cvtColor(cv_image(image), opencv().COLOR_RGB2GRAY)
    assert np.abs(PF.rgb_to_grayscale(image)[0].numpy() - wanted).max() < 1e-6
    eight = (image * 255).round().to(torch.uint8)
    pil = np.asarray(Image.fromarray(cv_image(eight)).convert("L")).astype(int)
    assert np.abs(PF.rgb_to_grayscale(eight)[0].numpy().astype(int) - pil).max() <= 1  # PIL rounds its fixed-point weights
    assert torch.equal(PF.rgb_to_grayscale(image, num_output_channels=3)[2], PF.rgb_to_grayscale(image)[0])
