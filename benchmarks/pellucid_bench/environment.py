"""Where and with what a measurement was made.

Owns: the metadata of every report.
Must not: fail; what cannot be found out is left out.
Read next: ``report.py``.
"""

from __future__ import annotations

import datetime as dt
import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

import pellucid

__all__ = ["commit", "cpu_name", "environment"]

_PACKAGES = (
    "numpy",
    "numba",
    "triton",
    "kornia",
    "torchvision",
    "albumentations",
    "opencv-python-headless",
    "opencv-python",
    "fuse-augmentations",
    "SimpleITK",
)


def environment() -> dict[str, Any]:
    """Versions, processor, threads, date and commit."""
    facts: dict[str, Any] = {
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "pellucid": pellucid.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        **{name: fact for name in _PACKAGES if (fact := _version(name)) is not None},
        "cpu": cpu_name(),
        "cpus": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "system": platform.platform(),
    }
    if hasattr(os, "getloadavg"):
        facts["load"] = round(os.getloadavg()[0], 2)
    if torch.cuda.is_available():
        facts["gpu"] = torch.cuda.get_device_name()
        facts["cuda"] = torch.version.cuda
        if (fact := _driver()) is not None:
            facts["driver"] = fact
    if (fact := commit()) is not None:
        facts["commit"] = fact
    return facts


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def cpu_name() -> str:
    """The processor's name."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _driver() -> str | None:
    """The GPU's driver, and the clocks of its processors and memory now and at most."""
    asked = "driver_version,clocks.sm,clocks.max.sm,clocks.mem,power.limit"
    try:
        process = subprocess.run(
            ["nvidia-smi", f"--query-gpu={asked}", "--format=csv,noheader", "--id=0"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return process.stdout.strip() or None


def commit() -> str | None:
    """The short hash of the source's commit, with ``+`` where files differ from it; None outside a repository."""
    folder = Path(__file__).parent
    try:
        process = subprocess.run(
            ["git", "-C", str(folder), "describe", "--always", "--dirty=+", "--abbrev=9"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return process.stdout.strip() or None
