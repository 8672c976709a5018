"""Levels of processors that share machine code, such as x86-64-v3, and the features that each level needs.

Owns: which levels fit the processor in a key of Numba's cache.
Must not: ask the processor itself: Numba's key says what it compiles for, which may be another processor.
Read next: ``kept.py``.
"""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["LEVELS", "level_keys", "levels_here"]

_THIRD = (
    *("avx", "avx2", "bmi", "bmi2", "cx16", "f16c", "fma", "lzcnt", "movbe", "popcnt"),
    *("sahf", "sse3", "sse4.1", "sse4.2", "ssse3", "xsave"),
)
LEVELS = {
    "x86-64-v4": ("x86_64", frozenset((*_THIRD, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"))),
    "x86-64-v3": ("x86_64", frozenset(_THIRD)),
    "generic": ("aarch64", frozenset(("neon",))),
}
"""By LLVM's name of the level, the best first: the architecture, and the features that its code may use."""


def level_keys(key: Any) -> list[Any]:
    """Return the cache keys of code for the levels that this key's processor has, the best first.

    A key is (signature, (triple, processor, features), hashes); features are written ``+avx2,-sse4a``.
    """
    signature, (triple, _, features), *rest = key
    able = {feature[1:] for feature in features.split(",") if feature.startswith("+")}
    fitting = (name for name, (machine, needed) in LEVELS.items() if triple.startswith(machine) and needed <= able)
    return [(signature, (triple, name, ""), *rest) for name in fitting]


def levels_here() -> list[str]:
    """Return the levels that this processor has, the best first."""
    target = importlib.import_module("numba.core.registry").cpu_target.target_context
    return [key[1][1] for key in level_keys((None, target.codegen().magic_tuple()))]
