"""Peak memory of one call on a CPU: the resident set of a fresh process.

Owns: measuring it from outside (`peak_extra_bytes`) and the child's side (``python -m pellucid_bench.memory``).
Must not: use ``tracemalloc``, which does not see torch's memory.
Read next: ``compare.py``.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from pellucid_bench.modes import Mode, call_of
from pellucid_bench.peers import subjects
from pellucid_bench.settings import photographs
from pellucid_bench.subject import Subject

__all__ = ["peak_extra_bytes", "peak_of"]


def peak_extra_bytes(
    case: str, library: str, name: str, modes: Sequence[Mode], *, batch: int, size: int, impl: str = "auto", timeout: float = 300.0
) -> dict[Mode, int]:
    """Bytes needed on top of the input at the worst moment of one call, results included; empty where it cannot be measured.

    Measured in a child process that first runs the same call on a tiny batch, so that imports and compiled kernels are not
    counted, and that returns freed memory to the system at once, so that nothing is hidden in reused pages.
    """
    if not Path("/proc/self/clear_refs").exists():
        return {}
    spec = {"case": case, "library": library, "name": name, "modes": list(modes), "batch": batch, "size": size, "impl": impl}
    variables = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "0"}
    command = [sys.executable, "-W", "ignore", "-m", "pellucid_bench.memory", json.dumps(spec)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=True, env=variables)
        measured: dict[Mode, int] = json.loads(done.stdout.strip().splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return {}
    return measured


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise OSError(f"{field} is not in /proc/self/status")


def _measure(spec: dict[str, Any]) -> dict[str, int]:
    present, _ = subjects(spec["case"], only=(spec["library"],), impl=spec["impl"])
    subject = next(s for s in present if s.name == spec["name"])
    return {mode: _peak(subject, mode, spec["batch"], spec["size"]) for mode in spec["modes"]}


def _peak(subject: Subject, mode: Mode, batch: int, size: int) -> int:
    warm = call_of(subject, mode, photographs(2, 32))
    for _ in range(2):
        warm()
    return peak_of(call_of(subject, mode, photographs(batch, size)))


def peak_of(call: Callable[[], Any]) -> int:
    """Bytes beside what there is at the worst moment of a call, its results included; of a process that keeps no freed memory."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # resets the high-water mark
    before = _status("VmRSS")
    result = call()
    after = _status("VmHWM")
    del result
    return max(0, after - before)


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(_measure(json.loads(sys.argv[1]))))
