"""Graphs in files: a ``torch.export`` program as it is, or as ONNX.

Owns: `save_graph`.
Must not: know what the graph computes.
Read next: ``files.py``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from pellucid.core.files import written
from pellucid.errors import invalid, needs

__all__ = ["save_graph"]


def save_graph(program: Callable[[], Any], path: str | os.PathLike[str], *, inputs: Sequence[str], outputs: Sequence[str]) -> Path:
    """Write ONNX, weights inside, for a name ending in ``.onnx``, and a ``torch.export`` program for ``.pt2``: whole or not at all.

    Args:
        program: makes the program, once the path is known to be good.
        path: of the file; its folder is made.
        inputs, outputs: their names in ONNX.

    Errors:
        InvalidArgument for another ending. ImportError where ONNX is wanted and not installed.
    """
    path = Path(path)
    if path.suffix not in (".onnx", ".pt2"):
        raise invalid("path", expected="a file name ending in .onnx or .pt2", got=str(path))
    if path.suffix == ".onnx":
        with needs("ONNX export", "'pellucid[onnx]'"):
            import onnxscript  # noqa: F401
    made = program()

    def save(draft: Path) -> None:
        if path.suffix == ".onnx":
            model: Any = torch.onnx.export(made, dynamo=True, verbose=False, input_names=list(inputs), output_names=list(outputs))
            model.save(str(draft), external_data=False)
        else:
            with draft.open("wb") as file:  # by its name, torch expects another ending than a draft's
                torch.export.save(made, file)

    return written(path, save)
