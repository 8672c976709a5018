"""How a wheel is built: as it stands for every platform, or with machine code for one.

With ``PELLUCID_KERNELS`` naming a folder that ``pellucid warmup --export`` wrote, its files go into the wheel. That wheel is for
this Python on Linux and this architecture; pip takes it where it fits, and the other one elsewhere.
"""

import os
import platform
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class KernelsHook(BuildHookInterface):
    """Adds the files, and says for which platform the wheel is."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Change what is built, where there is something to add."""
        named = os.environ.get("PELLUCID_KERNELS")
        if version == "editable" or not named or named == "off":
            return
        files = sorted(Path(named).glob("*.nbc"))
        if not files:
            raise ValueError(f"PELLUCID_KERNELS: expected a folder that `pellucid warmup --export` wrote, got {named!r}.")
        build_data["force_include"].update({str(file.resolve()): f"pellucid/compiled/{file.name}" for file in files})
        python = f"cp{sys.version_info.major}{sys.version_info.minor}"
        build_data["pure_python"] = False
        build_data["tag"] = f"{python}-none-manylinux_2_17_{platform.machine()}"
