"""Print the stages to ``printed/``; a test compares the files there with this module's output.

Owns: the list of printed functions, one module for each stage, and `write`.
Must not: be imported by the package, which imports the printed files and is shipped without this.
Read next: ``../docs/adr/0056-stages-written-once.md``.
"""

from pathlib import Path

from pellucid.kernels.stages.colour import BENT, STAGES
from printer import blocks, rows
from printer.derived import vjp
from printer.program import Writer
from printer.recorded import program_of
from printer.rows import Rows

__all__ = ["FOLDER", "module_of_blocks", "modules", "there_and_back", "write"]

FOLDER = Path(__file__).parents[1] / "src/pellucid/kernels/stages/printed"
_OWNS = '''"""{name} over rows of pixels.

Owns: the functions that ``python -m printer.printing`` printed from ``{reference}``.
Must not: be edited: change the reference, and print it again.
Read next: ``../colour.py``.
"""

import numpy as np

from pellucid.kernels.jit import {flags}, pick, sign

__all__ = [{names}]


'''


_OWNS_BLOCKS = '''"""Stages on blocks of pixels, for Triton: each takes numbers, then tuples of channels, and returns such tuples.

Owns: the functions that ``python -m printer.printing`` printed from the references in ``../colour.py``.
Must not: be edited: change the reference, and print it again.
Read next: ``../colour.py``.
"""

import triton
import triton.language as tl

from pellucid.kernels.lanes import {lanes}

__all__ = [
{names}]  # fmt: skip


'''


_ON_DEVICES = ["clip", "hue", "gated_hsv", "power", *BENT]
"""What Triton computes."""


def _forward(name: str) -> Rows:
    """The function of a stage."""
    program = program_of(name)
    return Rows(
        name, program, {"source": STAGES[name].pixels}, {"target": range(len(program.results))}, "Apply the stage to the source."
    )


def _backward(name: str, *, over: bool) -> Rows:
    """The gradients of the pixels take the place of those of the result where they go ``over`` them."""
    stage, there = STAGES[name], program_of(name)
    program = vjp(there)
    pixels, results = len(stage.pixels), len(there.results)
    groups = {"source": stage.pixels, "grad": [f"grad{k}" for k in range(results)]}
    targets = {"along": range(pixels, len(program.results)), "grad" if over else "into": range(pixels)}
    replaced = "Replace the gradients of the result by those of the source; ``along``: those of each number."
    written = "Compute the gradients of the source, and in ``along`` those of each number."
    return Rows(f"{name}_backward", program, groups, targets, replaced if over else written)


def there_and_back(name: str) -> tuple[Rows, Rows]:
    """Both functions of a stage from one program: what both compute has one text, which a compiler computes once."""
    there, back, writer = _forward(name), _backward(name, over=False), Writer()
    given = [writer.given(given) for given in back.program.given]
    values = writer.add(there.program, given[: len(there.program.given)]), writer.add(back.program, given)
    programs = there.program, back.program
    results = [made[place] for made, program in zip(values, programs, strict=True) for place in program.results]
    program, first = writer.program(results), len(there.program.results)
    targets = {target: [first + place for place in places] for target, places in back.targets.items()}
    return there._replace(program=program, others=back.groups["grad"]), back._replace(program=program, targets=targets)


def modules() -> dict[str, str]:
    """The text of each printed module, by name."""
    listed = {
        "hue": [_backward("hue", over=True)],
        "hsv": [_forward("hsv"), _backward("gated_hsv", over=False)],
    }
    return {name: _module(name, functions) for name, functions in listed.items()} | {"blocks": _blocks(_ON_DEVICES)}


def _module(name: str, functions: list[Rows]) -> str:
    reference = STAGES[name].reference
    texts = [rows.printed(function) for function in functions]
    flags = ", ".join(sorted({function.flags for function in functions}))
    names = ", ".join(f'"{function.name}"' for function in sorted(functions))
    head = _OWNS.format(name=name.capitalize(), reference=f"{reference.__module__}.{reference.__name__}", flags=flags, names=names)
    return head + "\n\n".join(texts)


def _blocks(names: list[str]) -> str:
    functions = [function for name in names for function in there_and_back(name)]
    return module_of_blocks([blocks.printed(function) for function in functions], sorted(function.name for function in functions))


def module_of_blocks(texts: list[str], names: list[str]) -> str:
    """The text of a module of functions for Triton."""
    body = "\n\n".join(texts)
    lanes = ", ".join(name for name in ("greater", "lesser", "over", "raised") if f"{name}(" in body)
    listed = (", ".join(f'"{name}"' for name in some) for some in (names[k : k + 5] for k in range(0, len(names), 5)))
    return _OWNS_BLOCKS.format(lanes=lanes, names="".join(f"    {some},\n" for some in listed)) + body


def write() -> None:
    """Print all modules."""
    for name, text in modules().items():
        (FOLDER / f"{name}.py").write_text(text)


if __name__ == "__main__":
    write()
