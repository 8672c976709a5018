"""What an audited call may not do to the machine: leave processes, run for ever, print without end; and calls that return None."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from pellucid.audit import audit, watch_training

X = torch.rand(2, 8)
FEW = {"quick": True, "modes": False, "degenerate": False}


def _left(marker):
    """The processes that still hold a file."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            found += [process.name for fd in (process / "fd").iterdir() if str(fd.readlink()) == str(marker)]
        except OSError:
            continue
    return [pid for pid in found if int(pid) != os.getpid()]


needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="looks for processes in /proc")


@needs_proc
def test_a_call_that_forks_is_audited_once_and_leaves_no_process(tmp_path):
    with (tmp_path / "held").open("w") as held:

        def forks(x):
            os.fork()
            return x.sin()

        report = audit(forks, X, **FEW)
        assert report.measures["x"].gradient == "exact", str(report)
        assert not _left(held.name)


@needs_proc
def test_what_a_call_starts_ends_with_the_audit(tmp_path):
    with (tmp_path / "held").open("w") as held:

        def starts(x):
            subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], pass_fds=[held.fileno()])
            return x.sin()

        audit(starts, X, timeout=20, **FEW)
        time.sleep(0.05)
        assert not _left(held.name)


def test_the_whole_audit_has_a_limit():
    def slow(x):
        time.sleep(0.05)
        return x.sin()

    report = audit(slow, X, limit=0.3, **FEW)
    (found,) = report.of("crash")
    assert "0.3 s" in found.message
    assert report.exit_code == 2


def test_what_is_printed_is_bounded_and_told(capfd):
    def prints(x):
        print("y" * 50_000)
        os.write(1, b"z" * 10_000)
        return x.sin()

    report = audit(prints, X, **FEW)
    out, err = capfd.readouterr()
    assert not out
    assert 0 < len(err) <= 70_000
    (found,) = report.of("printed")
    assert found.evidence["bytes"] > 300_000
    assert report.exit_code == 0


def test_a_call_that_asks_for_input_is_told():
    assert audit(lambda x: x * float(input()), X, **FEW).of("raises")


def test_a_call_that_returns_none_is_an_error():
    report = audit(lambda x: print(x.sum(), end=""), X, **FEW)
    assert report.exit_code == 2
    assert "returns None" in report.findings[0].message
    assert audit(lambda x: x.argmax(), X, **FEW).exit_code == 0


def test_a_training_prints_nothing_without_end(capfd):
    net = torch.nn.Linear(3, 1)
    sgd = torch.optim.SGD(net.parameters(), lr=0.1)

    def step():
        print("y" * 50_000)
        sgd.zero_grad()
        net(torch.ones(2, 3)).square().mean().backward()
        sgd.step()

    assert watch_training(step, 3).exit_code == 0
    assert not capfd.readouterr().out
