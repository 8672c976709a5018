"""The crops script: every timed call runs, and the table says what it should."""

import pytest

from pellucid_bench.measure import Timing
from tests.scripts import BENCHMARKS, loaded

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # peers warn as they like


@pytest.fixture(scope="module")
def script():
    return loaded(BENCHMARKS / "crops.py")


def test_every_timed_call_runs(script):
    calls, missing = script.calls_for(2, 14)
    assert len(calls) >= 5
    for name, call in calls.items():
        result = call()
        if "backward" in name:
            assert result[0].shape == (2, 3, 16, 20)
        elif "albumentations" in name:
            assert [array.shape for array in result] == [(14, 14, 3)] * 2
        else:
            assert result.shape == (2, 3, 14, 14)
    assert not set(missing) & set(calls)


def test_table(script):
    one, two = Timing(1e-3, 1e-3, 1e-3, 3, 1e-3), Timing(3e-3, 2e-3, 4e-3, 3, 2e-3)
    text = script.table({"pellucid": one, "kornia": two}, {"albumentations": "no module"})
    assert "| kornia | 3.0 | 2.0 to 4.0 | 3.00 |" in text
    assert "| albumentations | not installed: no module | | |" in text
