"""What a call starts on an accelerator: kernels, small operations, and nothing that waits for the host or for the device."""

import pytest
import torch

from tests.scripts import BENCHMARKS, loaded

pytest.importorskip("triton", reason="Triton is not installed")

MOST = {
    "affine": (2, 74),
    "affine, forward + backward": (4, 74),
    "flagship": (2, 126),
    "flagship, uint8 HWC to bfloat16": (2, 127),
    "flagship, forward + backward": (5, 137),
    "flagship with learned degrees, and back to image and parameters": (5, 182),
    "crop to 24 x 24, flip, jitter, normalise": (4, 104),
    "the same, forward + backward": (9, 114),
}
"""By call: launches of our kernels, and the most operations of PyTorch's that write memory; docs/cuda.md has the table."""


@pytest.fixture
def script():
    return loaded(BENCHMARKS / "gpu_launches.py")


def test_calls_start_what_they_do(script):
    rows = script.table()
    assert set(rows) == set(MOST)
    for name, (ours, others) in MOST.items():
        row = rows[name]
        assert (row["ours"], row["copies"], row["reads"]) == (ours, 0, 0), name
        assert row["torch"] <= others, name


def test_the_counter_sees_what_it_should(script):
    def make():
        numbers = torch.empty(4, device="meta")
        return lambda: numbers.view(2, 2) + torch.tensor([1.0, 2.0]).to("meta")

    seen = script.counted(make)
    assert seen["host", "aten.view.default"] == 1
    assert seen["torch", "aten.add.Tensor"] == 1
    assert seen["copies", "aten._to_copy.default"] == 1
