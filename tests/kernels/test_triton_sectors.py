"""The sectors of 32 bytes that a warp's loads touch, by the addresses that the kernels form under the interpreter."""

import pytest

from tests.scripts import BENCHMARKS, loaded

from .interpreted import DEVICE, runs  # noqa: F401

MOST = {0: (4.8, 8.4), 15: (8.3, 11.5), 45: (12.7, 10.7), 90: (17.7, 19.1)}
"""By degrees: the most per load of the forward pass, and of the gather; what they are is in docs/cuda.md."""


@pytest.fixture
def script():
    if DEVICE == "cuda":
        pytest.skip("needs the interpreter")
    return loaded(BENCHMARKS / "gpu_sectors.py")


@pytest.mark.slow
@pytest.mark.parametrize("degrees", MOST)
def test_warps_touch_as_little_memory_as_they_do(script, degrees):
    forward, gather = script.sectors(degrees)
    assert 4 <= forward <= MOST[degrees][0]
    assert 4 <= gather <= MOST[degrees][1]


@pytest.mark.slow
def test_patches_of_two_rows_are_why(script, monkeypatch):
    """A row of 32 pixels touches more where it is turned: the count sees what a warp reads."""
    row = script.sectors(45)[0]
    monkeypatch.setattr(script.launch, "_WARP_ROWS", 1)
    assert script.sectors(45)[0] > 1.4 * row
