"""The pool of threads: every part is done once, also where no thread can be started."""

import itertools
import threading

import numpy as np
import pytest
import torch

from pellucid.kernels import threads


def done():
    seen = []
    threads.run_split(lambda first, last: seen.append((first, last)), 1000, 1)
    return sorted(i for part in seen for i in range(*part))


@pytest.mark.parametrize("allowed", [0, 1, 2])
def test_what_cannot_be_started_is_done_by_those_there_are(allowed, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 6)
    monkeypatch.setattr(threads, "_pools", {})
    start, started = threading.Thread.start, []

    def refused(thread):
        if len(started) == allowed:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    for _ in range(3):
        started.clear()
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refused)
            assert done() == list(range(1000))
        assert allowed or not threads._pools
    assert done() == list(range(1000))  # and again, where they can be
    assert threads._pools


def test_every_item_is_done_once_in_parts_of_half_a_grain_and_more(monkeypatch):
    monkeypatch.setattr(threads.torch, "get_num_threads", lambda: 3)
    for total, grain in itertools.product((1, 2, 7, 50, 1000), (1, 3, 10, 400)):
        done, parts = np.zeros(total, int), []

        def task(start, stop, done=done, parts=parts):
            done[start:stop] += 1
            parts.append(stop - start)

        threads.run_split(task, total, grain)
        assert (done == 1).all()
        assert len(parts) == 1 or min(parts) >= grain // 2


def test_nobody_waits_for_a_thread_that_has_not_begun(monkeypatch):
    monkeypatch.setattr(threads.torch, "get_num_threads", lambda: 2)
    release, done = threading.Event(), []
    monkeypatch.setattr(threads, "_pools", {})
    busy = threads._pool(1).submit(release.wait, 60)
    try:
        threads.run_split(lambda start, stop: done.append((start, stop)), 8, 1)
        assert not busy.done()
        assert sum(stop - start for start, stop in done) == 8
    finally:
        release.set()
        busy.result()
