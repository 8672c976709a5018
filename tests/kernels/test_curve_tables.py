"""Tone curves of bytes are looked up: the numbers of the tensor code, bit for bit."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from llvmlite import binding

from pellucid.kernels import curve
from pellucid.kernels.curve import cpu
from pellucid.kernels.curve.layout import KINDS
from pellucid.kernels.warp.dtypes import rounded, to_colors
from tests.peers import torchvision_functional

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
def test_equalizing_is_torchvisions(layout):
    vision = torchvision_functional()
    image = pictures()
    ours = curve.tone_of_bytes(image.contiguous(memory_format=layout), curve.bend_of("equalize", None, None), torch.uint8)
    assert torch.equal(ours, vision.equalize(image))


def of_numpy(image, tables):
    return torch.from_numpy(
        np.stack([[t[x] for x, t in zip(*each, strict=True)] for each in zip(image.numpy(), tables, strict=True)])
    )


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("length", [1, 31, 32, 33, 63, 64, 65, 127, 128, 129, 1000])
def test_tables_are_looked_up_as_numpy_does(length, dtype):
    random = np.random.default_rng(length)
    image = torch.from_numpy(random.integers(0, 256, (2, 3, 1, length), dtype=np.uint8))
    tables = random.integers(0, 256, (2, 3, 256)).astype(dtype)
    assert torch.equal(cpu.look_up(image, torch.from_numpy(tables)), of_numpy(image, tables))


@pytest.mark.parametrize("odd", [None, 0, 1, 128, 254, 255])
def test_tables_that_turn_and_keep_bits_are_told_from_those_that_do_not_quite(odd):
    random, levels = np.random.default_rng(0), np.arange(256, dtype=np.uint8)
    tables = np.stack([(levels & kept) ^ turned for kept, turned in random.integers(0, 256, (40, 2), dtype=np.uint8)])[None]
    if odd is not None:
        tables[..., odd] ^= 4
    image = torch.from_numpy(random.permutation(np.resize(levels, 40 * 300)).reshape(1, 40, 1, 300))
    assert torch.equal(cpu.look_up(image, torch.from_numpy(tables)), of_numpy(image, tables))


EVERY_LEVEL = """
import numpy as np, torch
from pellucid.kernels.curve import cpu
image = torch.arange(300, dtype=torch.int64).to(torch.uint8).flip(0).view(1, 1, 1, 300)
table = torch.from_numpy(np.random.default_rng(0).permutation(256).astype(np.uint8)).view(1, 1, 256)
assert torch.equal(cpu.look_up(image, table)[0, 0, 0], table[0, 0][image[0, 0, 0].long()])
"""


@pytest.mark.skipif(not binding.get_host_cpu_features().get("avx2", False), reason="needs a processor with AVX2")
@pytest.mark.parametrize("name", ["x86-64", "x86-64-v3"])
def test_processors_with_fewer_instructions_find_the_same(name, tmp_path):
    variables = {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": "", "NUMBA_CACHE_DIR": str(tmp_path), "PELLUCID_KERNELS": "off"}
    subprocess.run([sys.executable, "-c", EVERY_LEVEL], env={**os.environ, **variables}, check=True)
