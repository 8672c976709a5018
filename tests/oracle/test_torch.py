"""torch's own resampling, and NumPy's padding.

``F.interpolate`` in float32 agrees to 1e-5: its weights and ours differ by the rounding of a coordinate below 100, some 4e-6.
``F.grid_sample`` runs in float64 here, through coordinates normalised by a division and back: 1e-12.
"""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from pellucid import functional as PF

SIZES = [(7, 11), (33, 20), (13, 64), (50, 90), (1, 1), (31, 47)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_antialiased_resize(mode, size):
    image = torch.rand(2, 3, 31, 47)
    wanted = F.interpolate(image, size, mode=mode, antialias=True, align_corners=False)
    assert (PF.resize(image, size, interpolation=mode) - wanted).abs().max() < 1e-5
    single = PF.resize(image[0].double(), size, interpolation=mode)
    assert (single - F.interpolate(image.double(), size, mode=mode, antialias=True, align_corners=False)[0]).abs().max() < 1e-12


@pytest.mark.parametrize("size", SIZES)
def test_plain_resize(size):
    image = torch.rand(2, 3, 31, 47)
    wanted = F.interpolate(image, size, mode="bilinear", align_corners=False)
    assert (PF.resize(image, size, antialias=False) - wanted).abs().max() < 1e-5
    nearest = F.interpolate(image.double(), size, mode="nearest-exact")
    assert torch.equal(PF.resize(image.double(), size, interpolation="nearest"), nearest)
    labels = (image * 1000).long()
    assert torch.equal(
        PF.resize(labels, size, interpolation="nearest"), F.interpolate(labels.double(), size, mode="nearest-exact").long()
    )


def test_plain_bicubic_resize_is_keys_not_torch_s():
    ramp = torch.arange(20.0, dtype=torch.float64).expand(1, 1, 20, 20)
    out = PF.resize(ramp, (20, 50), interpolation="bicubic", antialias=False)[0, 0, 0]
    centres = (torch.arange(50, dtype=torch.float64) + 0.5) * 0.4 - 0.5
    assert (out - centres)[5:-5].abs().max() < 1e-12
    theirs = F.interpolate(ramp, (20, 50), mode="bicubic", align_corners=False)[0, 0, 0]
    assert (theirs - centres)[5:-5].abs().max() > 0.01


def test_resize_to_the_shorter_side():
    image = torch.rand(3, 30, 47)
    assert PF.resize(image, 10).shape == (3, 10, 15)
    assert PF.resize(image.mT, 10).shape == (3, 15, 10)
    same = PF.resize(image, 30)
    assert torch.equal(same, image)
    assert same.data_ptr() != image.data_ptr()


def test_grid_sample_in_the_interior():
    image = torch.rand(2, 3, 17, 21, dtype=torch.float64)
    x = torch.rand(2, 15, 16, dtype=torch.float64) * 20
    y = torch.rand(2, 15, 16, dtype=torch.float64) * 16
    grid = torch.stack(((2 * x + 1) / 21 - 1, (2 * y + 1) / 17 - 1), -1)
    wanted = F.grid_sample(image, grid, mode="bilinear", padding_mode="zeros", align_corners=False)
    assert (PF.remap(image, x, y) - wanted).abs().max() < 1e-12
    x, y = x * 0.8 + 2, y * 0.7 + 2  # all sixteen neighbours inside
    grid = torch.stack(((2 * x + 1) / 21 - 1, (2 * y + 1) / 17 - 1), -1)
    wanted = F.grid_sample(image, grid, mode="bicubic", padding_mode="zeros", align_corners=False)
    assert (PF.remap(image, x, y, interpolation="bicubic_opencv") - wanted).abs().max() < 1e-12


@pytest.mark.parametrize("padding_mode", ["border", "reflection"])
def test_grid_sample_outside(padding_mode):
    image = torch.rand(2, 3, 17, 21, dtype=torch.float64)
    x, y = torch.rand(2, 15, 16, dtype=torch.float64) * 60 - 20, torch.rand(2, 15, 16, dtype=torch.float64) * 50 - 15
    grid = torch.stack(((2 * x + 1) / 21 - 1, (2 * y + 1) / 17 - 1), -1)
    wanted = F.grid_sample(image, grid, mode="bilinear", padding_mode=padding_mode, align_corners=False)
    ours = PF.remap(image, x, y, border_mode={"border": "replicate", "reflection": "reflect"}[padding_mode])
    assert (ours - wanted).abs().max() < 1e-12


NUMPY = {"border": "edge", "reflection": "symmetric", "reflect_101": "reflect", "wrap": "wrap", "constant": "constant"}


@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8, torch.int64, torch.bool])
@pytest.mark.parametrize("padding_mode", NUMPY)
@pytest.mark.parametrize("padding", [(1, 2, 3, 4), (11, 9), 0])
def test_pad(padding, padding_mode, dtype):
    image = (torch.rand(2, 5, 6) * 7).to(dtype)
    left, top, right, bottom = (padding * 2) if isinstance(padding, tuple) and len(padding) == 2 else padding or (0, 0, 0, 0)
    options = {"constant_values": 1} if padding_mode == "constant" else {}
    wanted = np.pad(image.numpy(), ((0, 0), (top, bottom), (left, right)), mode=NUMPY[padding_mode], **options)
    ours = PF.pad(image, padding, padding_mode=padding_mode, fill=1)
    assert ours.dtype == dtype
    assert np.array_equal(ours.numpy(), wanted)
