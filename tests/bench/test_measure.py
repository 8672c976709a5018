"""Timing: turns, rotation, summaries."""

import gc

from pellucid_bench.measure import Timing, interleave
from tests.refusals import refused


def test_summary_is_median_and_quartiles():
    timing = Timing.of([5.0, 1.0, 2.0, 4.0, 3.0])
    assert (timing.low, timing.median, timing.high, timing.rounds, timing.least) == (2.0, 3.0, 4.0, 5, 1.0)


def test_one_measurement_is_its_own_summary():
    assert Timing.of([2.0]) == Timing(2.0, 2.0, 2.0, 1, 2.0)


def test_turns_rotate_after_warm_up():
    order = []
    interleave({name: lambda name=name: order.append(name) for name in "abc"}, warmup=1, rounds=3, budget=10.0)
    assert "".join(order) == "abc" + "aabbcc" + "bbccaa" + "ccaabb"  # every timed call in its own wake


def test_budget_ends_the_rounds_but_three_are_made():
    calls = []
    timings = interleave({"a": lambda: calls.append(1)}, warmup=0, rounds=1000, budget=0.0)
    assert timings["a"].rounds == 3
    assert len(calls) == 6


def test_collector_is_off_inside_and_back_on_after():
    seen = []
    assert gc.isenabled()
    interleave({"a": lambda: seen.append(gc.isenabled())}, warmup=0, rounds=3)
    assert seen == [False] * 6
    assert gc.isenabled()


def test_collector_is_back_on_after_an_error():
    def fails():
        raise RuntimeError("no")

    refused(RuntimeError, "no", interleave, {"a": fails}, warmup=0)
    assert gc.isenabled()
