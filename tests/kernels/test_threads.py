"""The pool of threads: every part is done once, also where no thread can be started."""

import threading

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
