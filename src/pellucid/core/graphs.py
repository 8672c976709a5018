"""Write computation graphs to files: as a ``torch.export`` program or as ONNX.

Owns: `save_graph`.
Must not: know what the graph computes.
Read next: ``files.py``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from pellucid.core.files import written
from pellucid.errors import invalid, needs

__all__ = ["ENDINGS", "OPSET", "save_graph"]

OPSET = 20
"""The ONNX operator set of the files."""
ENDINGS = {"onnx": ".onnx", "torch": ".pt2", "stablehlo": ".stablehlo"}
"""The file name's ending for each format. This package writes no StableHLO, but names its ending."""


def save_graph(program: Callable[[], Any], path: str | os.PathLike[str], *, inputs: Sequence[str], outputs: Sequence[str]) -> Path:
    """Write a graph atomically: ONNX with its weights for a name ending in ``.onnx``, a ``torch.export`` program for ``.pt2``.

    Args:
        program: makes the exported program; called after the path is checked.
        path: of the file; its folder is made.
        inputs, outputs: their names in ONNX.

    Errors:
        InvalidArgument for another ending. ImportError for ``.onnx`` if ONNX is not installed.
    """
    path = Path(path)
    if path.suffix not in (".onnx", ".pt2"):
        fix = "StableHLO: pip install torch_xla, write .pt2, and give it to torch_xla.stablehlo.exported_program_to_stablehlo."
        raise invalid("path", expected="a file name ending in .onnx or .pt2", got=str(path), fix=fix)
    if path.suffix == ".onnx":
        with needs("ONNX export", "'pellucid[onnx]'"):
            import onnxscript  # noqa: F401
    made = program()

    def save(draft: Path) -> None:
        if path.suffix == ".onnx":
            options = {"input_names": list(inputs), "output_names": list(outputs), "opset_version": OPSET}
            aten = torch.ops.aten
            table: Any = {aten.sort.stable: _sorted, aten.hypot.default: _hypotenuse, aten.copysign.Tensor: _signed_as}
            try:
                model: Any = torch.onnx.export(made, dynamo=True, verbose=False, custom_translation_table=table, **options)  # type: ignore[arg-type]
            except torch.onnx.OnnxExporterError as error:
                named = re.search(r"op='([\w.]+)'", str(error))
                got = named[1] if named else str(error).splitlines()[0]
                raise invalid(
                    "path", expected=f"what ONNX has operators for (opset {OPSET})", got=got, fix="Write .pt2."
                ) from error
            model.save(str(draft), external_data=False)
        else:
            with draft.open("wb") as file:  # an open file: given a path, torch insists on the ending .pt2
                torch.export.save(made, file)

    return written(path, save)


def _hypotenuse(this: Any, other: Any) -> Any:
    from onnxscript import opset20 as op

    return op.Sqrt(op.Add(op.Mul(this, this), op.Mul(other, other)))


def _signed_as(this: Any, other: Any) -> Any:
    from onnxscript import opset20 as op

    size = op.Abs(this)
    return op.Where(op.Less(other, op.CastLike(0.0, other)), op.Neg(size), size)


def _sorted(this: Any, stable: bool | None = None, dim: int = -1, descending: bool = False) -> Any:
    """Translate a stable sort to ONNX, which torch cannot: ONNX's TopK keeps the order of equal values."""
    from onnxscript import opset20 as op

    del stable
    count = op.Reshape(op.Gather(op.Shape(this), dim), op.Constant(value_ints=[1]))
    return op.TopK(this, count, axis=dim, largest=int(descending), sorted=1)
