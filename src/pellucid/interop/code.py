"""Write a pipeline as Python code.

Owns: `as_code`.
Must not: run anything.
Read next: ``source.py``.
"""

from __future__ import annotations

from dataclasses import MISSING, fields, is_dataclass
from typing import Any, cast

import torch

from pellucid.pipeline import Pipeline
from pellucid.transforms.base import Transform

__all__ = ["as_code"]


def as_code(pipeline: Pipeline) -> str:
    """Return the Python expression that makes a pipeline; options with their default value are left out.

    Args:
        pipeline: the pipeline; functions in a `Lambda` have no code.

    Example:
        >>> from pellucid import Pipeline, RandomInvert, RandomRotation
        >>> from pellucid.interop import as_code
        >>> print(as_code(Pipeline([RandomRotation(20.0), RandomInvert(p=0.3)], seed=7, min_area=2.0)))
        Pipeline(
            [
                RandomRotation(20.0),
                RandomInvert(0.3),
            ],
            seed=7,
            min_area=2.0,
        )
    """
    steps = "".join(f"        {_of(one)},\n" for one in pipeline.transforms)
    seed = [("seed", str(int(pipeline._seed)))] if pipeline._named else []
    more = "".join(f"    {name}={value},\n" for name, value in [*seed, *_changed(pipeline.options)])
    return f"Pipeline(\n    [\n{steps}    ],\n{more})"


def _changed(value: Any) -> list[tuple[str, str]]:
    """Return (name, code) of the fields that differ from their defaults."""
    found = []
    for one in fields(value):
        usual = one.default_factory() if one.default_factory is not MISSING else one.default
        now = getattr(value, one.name)
        if one.name == "interpolation" and isinstance(now, dict):  # only the kinds that differ
            now = {kind: mode for kind, mode in now.items() if type(value)().interpolation.get(kind) != mode}
        if not (type(now) is type(usual) and now == usual) and not (isinstance(now, int | float) and now == usual):
            found.append((one.name, _of(now)))
    return found


def _of(value: Any) -> str:
    if isinstance(value, Transform):
        parts, described = _changed(value), cast("Any", value)
        first = fields(described)[0]
        plain = parts[:1] and parts[0][0] == first.name and not first.kw_only  # the first field needs no name
        words = [text if plain and i == 0 else f"{name}={text}" for i, (name, text) in enumerate(parts)]
        return f"{type(value).__name__}({', '.join(words)})"
    if isinstance(value, torch.dtype):
        return repr(value)
    if isinstance(value, tuple):
        several = ", ".join(map(_of, value))
        nested = any(isinstance(one, Transform | tuple) for one in value)
        return f"[{several}]" if nested else f"({several}{',' * (len(value) == 1)})"
    if is_dataclass(value):
        return f"{type(value).__name__}({', '.join(f'{name}={text}' for name, text in _changed(value))})"
    return repr(value)
