"""The old path of `pellucid.targets`; importing from it works, with a warning.

Owns: that warning.
Must not: be imported by the package.
Read next: ``targets/kinds.py``.
"""

from __future__ import annotations

import warnings
from typing import Any

from pellucid import targets

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    if name not in targets.__all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(f"pellucid.kinds has moved: write `from pellucid.targets import {name}`.", DeprecationWarning, stacklevel=2)
    return getattr(targets, name)
