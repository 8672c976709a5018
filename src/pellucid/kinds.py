"""Kinds of targets: their names, and how a key names one.

Owns: the kinds there are.
Must not: look at tensors.
Read next: ``options.py``.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["KINDS", "VALID", "kind_of"]

KINDS = ("image", "mask", "boxes", "keypoints", "heatmap", "depth", "labels")
VALID = "valid"


def kind_of(key: str, named: Mapping[str, str]) -> str | None:
    """The kind of a dict key: as declared, or its own name, or its name up to an underscore or number."""
    if key in named:
        return named[key]
    for kind in KINDS:
        rest = key[len(kind) :]
        if key.startswith(kind) and (not rest or rest.isdigit() or (rest.startswith("_") and rest != f"_{VALID}")):
            return kind
    return None
