"""The libraries measured, each behind one module with the same functions.

Owns: finding out which are installed, and collecting their subjects for a case.
Must not: import a peer before it is asked for.
Read next: ``ours.py``.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from types import ModuleType

from pellucid_bench.subject import Subject

__all__ = ["MODULES", "subjects"]

MODULES = {
    "pellucid": "ours",
    "torch": "plain_torch",
    "opencv": "opencv",
    "kornia": "kornia",
    "torchvision": "torchvision",
    "albumentations": "albumentations",
    "monai": "monai",
    "fuse-augmentations": "fuse_augmentations",
}
"""The name on the command line, and the module here. A module has a function for each case it takes part in."""


def subjects(case: str, *, only: Iterable[str] = (), impl: str = "auto") -> tuple[list[Subject], dict[str, str]]:
    """Everyone's version of a case.

    Args:
        case: a key of ``settings.CASES``.
        only: names of libraries; default all.
        impl: which implementation of Pellucid's own runs.

    Returns:
        The subjects, Pellucid's first, and why each library that is missing is missing.
    """
    present: list[Subject] = []
    missing: dict[str, str] = {}
    for name, file in MODULES.items():
        if only and name not in only:
            continue
        try:
            module = importlib.import_module(f"{__name__}.{file}")
        except ImportError as error:
            missing[name] = f"not installed ({_first_line(error)})"
            continue
        present.extend(_versions(module, case, impl))
    return present, missing


def _versions(module: ModuleType, case: str, impl: str) -> list[Subject]:
    make = getattr(module, case, None)
    if make is None:
        return []
    made: list[Subject] = make(impl=impl) if module.__name__.endswith(".ours") else make()
    return made


def _first_line(error: ImportError) -> str:
    return str(error).partition("\n")[0][:80]
