"""What each test function costs: ``make seconds`` runs all but the slow tests with this plugin and writes ``tests/seconds.json``.

A row has the function's cases, their CPU seconds (of the process and its children, from setup to teardown, without what Numba
compiles), and the CPU seconds of Numba's compiler. The first test that needs a kernel compiles it, and none does where it is
cached: ``make seconds`` begins without a cache, and the last number is for what no function before this one needed. Under xdist
every worker measures and the controller writes. Rows of files that were not run stay.
"""

import json
import os
import resource
import time
from collections import defaultdict
from pathlib import Path

import pytest

from tests.sampled import function_of

SECONDS = Path(__file__).parent / "seconds.json"
WORTH_TELLING = 0.25  # functions cheaper than this are not listed, but for those that make Numba compile for a second

_costs: dict[str, list[tuple[float, float]]] = defaultdict(list)


class _Compiling:
    """CPU seconds spent in Numba's compiler so far; the outermost of nested compilations counts."""

    def __init__(self) -> None:
        from numba.core import event

        self.seconds, self._starts = 0.0, []
        listener = type("Listener", (event.Listener,), {"on_start": self._start, "on_end": self._end})
        event.register("numba:compile", listener())

    def _start(self, *_):
        self._starts.append(time.process_time())

    def _end(self, *_):
        started = self._starts.pop()
        if not self._starts:
            self.seconds += time.process_time() - started


def _spent() -> tuple[float, float]:
    """CPU seconds so far, and those of the compiler, which the first does not count."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime - _compiling.seconds, _compiling.seconds


_compiling = _Compiling()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    item.stash["started"] = _spent()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if call.when == "teardown":
        spent = [now - then for now, then in zip(_spent(), item.stash["started"], strict=True)]
        report.user_properties.append(("spent", (function_of(item), spent)))
    return report


def pytest_runtest_logreport(report):
    if report.when == "teardown" and "PYTEST_XDIST_WORKER" not in os.environ:
        name, spent = dict(report.user_properties)["spent"]
        _costs[name].append(spent)


def pytest_sessionfinish(session):
    if "PYTEST_XDIST_WORKER" in os.environ or not _costs:
        return
    files = {name.partition("::")[0] for name in _costs}
    rows = {name: row for name, row in json.loads(SECONDS.read_text()).items() if name.partition("::")[0] not in files}
    sums = {name: [len(costs), *(round(sum(part), 2) for part in zip(*costs, strict=True))] for name, costs in _costs.items()}
    rows |= {name: row for name, row in sums.items() if row[1] >= WORTH_TELLING or row[2] >= 1.0}
    text = ",\n".join(f" {json.dumps(name)}: {json.dumps(row)}" for name, row in sorted(rows.items()))
    SECONDS.write_text("{\n" + text + "\n}\n")
    cpu, compiling = (sum(row[which] for row in sums.values()) for which in (1, 2))
    print(f"\n{len(sums)} functions took {cpu:.0f} s of CPU, the compiler {compiling:.0f} s; {len(rows)} are in {SECONDS}")
