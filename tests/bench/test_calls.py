"""The budget of Python calls: deterministic, so a regression of the eager overhead fails here."""

import json
import subprocess
import sys

import pytest

from pellucid_bench.calls import count_calls
from pellucid_bench.overhead import KORNIA_CALLS, SHARE

BUDGET = int(KORNIA_CALLS * SHARE)

COUNT = """
import json
from pellucid_bench.overhead import count_ours
print(json.dumps([vars(count_ours(impl="reference")) for _ in range(2)]))
"""


def leaf():
    return None


def three():
    leaf()
    leaf()
    len(())


def test_what_counts_as_a_call():
    count = count_calls(three)
    assert count.python == 3  # three, leaf, leaf
    assert count.total == 5  # and len, and the profiler's own disable


def test_a_profiler_that_was_set_is_put_back():
    def other(frame, event, argument):
        return None

    sys.setprofile(other)
    try:
        count_calls(leaf)
        assert sys.getprofile() is other
    finally:
        sys.setprofile(None)


@pytest.fixture(scope="module")
def ours():
    """Counted in a process of its own: run-time shape checks, on in tests, are calls too."""
    done = subprocess.run([sys.executable, "-c", COUNT], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def test_budget_is_671_calls():
    assert BUDGET == 671


@pytest.mark.slow
def test_calls_of_the_flagship_stay_in_budget(ours):
    assert ours[0]["total"] <= BUDGET, f"{ours[0]} calls; a quarter of kornia's {KORNIA_CALLS} is {BUDGET}"


def test_python_calls_of_the_flagship_stay_in_budget(ours):
    assert ours[0]["python"] <= 264, "a quarter of the 1,055 functions written in Python that kornia 0.9.0 calls"


def test_counting_is_deterministic(ours):
    assert ours[0] == ours[1]
