"""What of the stages is printed, and where: ``printed/``, which this module writes and a test holds to it.

Owns: the list of printed functions, one module for each stage, and `write`.
Must not: be imported by a kernel: those import what was printed.
Read next: ``../../../../docs/adr/0056-stages-written-once.md``.
"""

from __future__ import annotations

from pathlib import Path

from pellucid.kernels.stages.colour import STAGES
from pellucid.kernels.stages.derived import vjp
from pellucid.kernels.stages.rows import Rows, printed

__all__ = ["FOLDER", "modules", "write"]

FOLDER = Path(__file__).parent / "printed"
_OWNS = '''"""{name} over rows of pixels.

Owns: what ``python -m pellucid.kernels.stages.printing`` printed of ``{reference}``.
Must not: be edited: change the reference, and print it again.
Read next: ``../colour.py``.
"""

import numpy as np

from pellucid.kernels.jit import {flags}, noinline, pick, sign, wide

__all__ = [{names}]


'''


def _forward(name: str) -> Rows:
    stage = STAGES[name]
    groups = {"source": stage.pixels}
    return Rows(name, stage.program, groups, {"target": range(len(stage.program.results))}, "Target = the stage of the source.")


def _backward(name: str, *, over: bool) -> Rows:
    """The gradients of the pixels take the place of those of the result where they go ``over`` them."""
    stage = STAGES[name]
    program = vjp(stage.program)
    pixels, results = len(stage.pixels), len(stage.program.results)
    groups = {"source": stage.pixels, "grad": [f"grad{k}" for k in range(results)]}
    targets = {"along": range(pixels, len(program.results)), "grad" if over else "into": range(pixels)}
    how = "Replace the gradients of the result by those of the source" if over else "Write the gradients of the source"
    return Rows(f"{name}_backward", program, groups, targets, f"{how}, and along those of each number.")


def modules() -> dict[str, str]:
    """The text of each printed module, by name."""
    listed = {
        "hue": [_backward("hue", over=True)],
        "hsv": [_forward("hsv"), _backward("gated_hsv", over=False)],
    }
    return {name: _module(name, functions) for name, functions in listed.items()}


def _module(name: str, functions: list[Rows]) -> str:
    reference = STAGES[name].reference
    texts = [printed(function) for function in functions]
    flags = ", ".join(sorted({function.flags for function in functions}))
    names = ", ".join(f'"{function.name}"' for function in sorted(functions))
    head = _OWNS.format(name=name.capitalize(), reference=f"{reference.__module__}.{reference.__name__}", flags=flags, names=names)
    return head + "\n\n".join(texts)


def write() -> None:
    """Print all modules."""
    for name, text in modules().items():
        (FOLDER / f"{name}.py").write_text(text)


if __name__ == "__main__":
    write()
