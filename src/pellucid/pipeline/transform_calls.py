"""Calls of a transform alone: they run a pipeline of one.

Owns: which pipeline that is.
Must not: be imported by other modules than the package: importing it makes transforms callable.
Read next: ``__init__.py``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch

from pellucid.errors import invalid
from pellucid.pipeline import Pipeline
from pellucid.transforms.base import Transform, set_runner

__all__ = ["solo"]


@lru_cache(maxsize=256)
def solo(transform: Transform) -> Pipeline:
    """Return the pipeline of one transform; equal transforms share it and its stream."""
    return Pipeline([transform])


def _run_alone(transform: Transform, batch: Any, **options: Any) -> Any:
    """Call a transform by its pipeline of one."""
    if not torch.compiler.is_compiling():
        pipeline = solo(transform)
    elif options.get("key") is None:  # the stream's counter would be a constant of the graph
        fix = "Compile Pipeline([...]), or pass key=."
        raise invalid("key", expected="a Key where a transform is compiled on its own", got=None, fix=fix)
    else:
        pipeline = Pipeline([transform], seed=0)
    if pipeline.learned.distributions:
        fix = f"Write pipeline = Pipeline([{type(transform).__name__}(...)]) and call that."
        expected = "numbers in a transform that is called on its own"
        raise invalid(type(transform).__name__, expected=expected, got="a Learnable, whose parameter nobody would hold", fix=fix)
    return pipeline(batch, **options)


set_runner(_run_alone)
