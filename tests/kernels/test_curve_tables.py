"""Tone curves of bytes are looked up: the numbers of the tensor code, bit for bit."""

import numpy as np
import pytest
import torch

from pellucid.kernels import curve
from pellucid.kernels.curve import cpu
from pellucid.kernels.curve.layout import KINDS
from pellucid.kernels.warp.dtypes import rounded, to_colors

TABLED = [name for name in KINDS if name != "power"]
AMOUNTS = {"posterize": (1.0, 3.4, 8.0, 0.0), "solarize": (0.0, 0.3, 1.0, 0.5)}


def pictures():
    generator = torch.Generator().manual_seed(1)
    image = torch.randint(0, 256, (4, 3, 21, 34), generator=generator, dtype=torch.uint8)
    image[1] = image[1] // 5 + 60
    image[2, 0] = 7  # flat
    image[3, :, 1:] = 200  # fewer than 255 pixels below the brightest
    return image


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize("gate", [None, (1.0, 0.0, 1.0, 0.25)])
@pytest.mark.parametrize("name", TABLED)
def test_a_table_holds_what_the_reference_computes(name, gate, dtype):
    image = pictures()
    amount = torch.tensor(AMOUNTS[name]) if name in AMOUNTS else None
    gate = None if gate is None else torch.tensor(gate)
    reference = curve.tone(
        to_colors(image, torch.float32),
        name,
        amount,
        gate,
        image_gradient="none",
        surrogate="none",
        h=1.0,
        scale=255.0,
        impl="reference",
    )
    assert torch.equal(curve.tone_of_bytes(image, curve.bend_of(name, amount, gate), dtype), rounded(reference, dtype))


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_histograms_are_numpys(layout):
    image = pictures().contiguous(memory_format=layout)
    found = cpu.histograms(image)
    for b in range(4):
        for c in range(3):
            assert np.array_equal(found[b, c].numpy(), np.bincount(image[b, c].flatten().numpy(), minlength=256))
