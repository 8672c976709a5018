"""Bicubic against the Keys kernel written out in NumPy, and against ramps, whose derivative it must keep.

SciPy's order 3 is a B-spline, another kernel, so the formula of Keys (1981) itself is the oracle.
"""

import numpy as np
import pytest
import torch

from pellucid import functional as PF

FOLDED = {"replicate": "edge", "reflect": "symmetric", "reflect_101": "reflect", "wrap": "wrap", "constant": "constant"}


def _keys(t: np.ndarray, a: float) -> np.ndarray:
    t = np.abs(t)
    near = (a + 2) * t**3 - (a + 3) * t**2 + 1
    far = a * t**3 - 5 * a * t**2 + 8 * a * t - 4 * a
    return np.where(t <= 1, near, np.where(t < 2, far, 0.0))


@pytest.mark.parametrize(("name", "a"), [("bicubic", -0.5), ("bicubic_opencv", -0.75)])
@pytest.mark.parametrize("border", FOLDED)
def test_remap_is_the_sum_over_the_kernel(border, name, a):
    generator = np.random.default_rng(0)
    image = generator.uniform(size=(9, 11))
    x, y = generator.uniform(-14, 24, (12, 13)), generator.uniform(-13, 21, (12, 13))
    margin = 20
    options = {"constant_values": 0.3} if border == "constant" else {}
    canvas = np.pad(image, margin, mode=FOLDED[border], **options)
    columns = _keys(x[..., None] - (np.arange(canvas.shape[1]) - margin), a)
    rows = _keys(y[..., None] - (np.arange(canvas.shape[0]) - margin), a)
    wanted = np.einsum("hwi,ij,hwj->hw", rows, canvas, columns)
    ours = PF.remap(torch.from_numpy(image)[None], x, y, interpolation=name, border_mode=border, border_value=0.3)
    assert np.abs(ours[0].numpy() - wanted).max() < 1e-12


def test_ramps_keep_their_values_and_slopes():
    y, x = torch.meshgrid(torch.arange(12.0, dtype=torch.float64), torch.arange(15.0, dtype=torch.float64), indexing="ij")
    ramp = (0.3 * x - 0.7 * y + 2)[None]
    u = (torch.rand(6, 7, dtype=torch.float64) * 11 + 1).requires_grad_()
    v = (torch.rand(6, 7, dtype=torch.float64) * 8 + 1).requires_grad_()
    out = PF.remap(ramp, u, v, interpolation="bicubic")
    assert (out[0] - (0.3 * u - 0.7 * v + 2)).abs().max() < 1e-12
    slope_u, slope_v = torch.autograd.grad(out.sum(), (u, v))
    assert (slope_u - 0.3).abs().max() < 1e-12
    assert (slope_v + 0.7).abs().max() < 1e-12


def test_opencv_s_kernel_does_not_keep_slopes_which_is_why_it_is_not_the_default():
    ramp = torch.arange(15.0, dtype=torch.float64).expand(1, 12, 15)
    u = (torch.rand(6, 7, dtype=torch.float64) * 11 + 1).requires_grad_()
    out = PF.remap(ramp, u, torch.full((6, 7), 5.5, dtype=torch.float64), interpolation="bicubic_opencv")
    (slope,) = torch.autograd.grad(out.sum(), u)
    assert (slope - 1).abs().max() > 0.2
