"""Processors that one machine code is for: the levels of x86-64 that compilers know by name, and what each needs.

Owns: which levels a key of Numba's admits.
Must not: ask the processor itself; Numba has, or was told otherwise.
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
"""By LLVM's name, the best first: the architecture, and the features that code for it may use."""


def level_keys(key: Any) -> list[Any]:
    """The keys under which code for a level of this key's processor is kept, the best first.

    A key is (signature, (triple, processor, features), hashes); features are written ``+avx2,-sse4a``.
    """
    signature, (triple, _, features), *rest = key
    able = {feature[1:] for feature in features.split(",") if feature.startswith("+")}
    fitting = (name for name, (machine, needed) in LEVELS.items() if triple.startswith(machine) and needed <= able)
    return [(signature, (triple, name, ""), *rest) for name in fitting]


def levels_here() -> list[str]:
    """The levels that this processor has, the best first."""
    target = importlib.import_module("numba.core.registry").cpu_target.target_context
    return [key[1][1] for key in level_keys((None, target.codegen().magic_tuple()))]
