"""Compiling ahead of time: sample calls that trigger every compilation, and moving the compiled files to other machines.

Owns: `compiled_ahead`; `exported` and `imported`, which move files of compiled code.
Must not: know which kernels there are; it calls pipelines as their users do.
Read next: ``kept.py``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as tree

from pellucid.core.compilers.kept import COMPILED

__all__ = ["compiled_ahead", "exported", "imported"]

_DRAWS = 16  # a gate with p = 0.5 stays closed in all 16 calls only once in 65,536 times


def compiled_ahead(call: Callable[[Any, int], Any], batch: Any, *, learned: Sequence[Tensor] = (), gradients: bool = True) -> int:
    """Call with the batch for several steps, forward and backward, and return how many functions Numba compiled meanwhile.

    Gradients of the batch's floating-point images and of `learned` are computed and thrown away: no ``.grad`` changes.
    """
    with _counted() as names:
        for step in range(_DRAWS):
            with torch.no_grad():
                call(batch, step)
            if gradients:
                with torch.enable_grad():
                    _forth_and_back(call, batch, step, learned)
    return len(names)


def _forth_and_back(call: Callable[[Any, int], Any], batch: Any, step: int, learned: Sequence[Tensor]) -> None:
    asked: list[Tensor] = [number for number in learned if number.requires_grad]

    def ask(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor) or not leaf.is_floating_point() or leaf.dim() < 3:
            return leaf
        asked.append(leaf.detach().requires_grad_())
        return asked[-1]

    results = [leaf for leaf in tree.tree_leaves(call(tree.tree_map(ask, batch), step)) if isinstance(leaf, Tensor)]
    found = [result.sum() for result in results if result.requires_grad]
    if found and asked:
        torch.autograd.grad(found, asked, allow_unused=True)


@contextmanager
def _counted() -> Iterator[list[str]]:
    """Collect the names of the functions that Numba compiles inside; functions that these call in turn are not counted."""
    from numba.core import event

    names: list[str] = []

    class Listener(event.Listener):  # type: ignore[misc]
        depth = 0

        def on_start(self, started: Any) -> None:
            if not self.depth:
                names.append(started.data["dispatcher"].py_func.__name__)
            self.depth += 1

        def on_end(self, ended: Any) -> None:
            del ended
            self.depth -= 1

    with event.install_listener("numba:compile", Listener()):
        yield names


def exported(folder: Path, arguments: Sequence[str], *, processor: str | None) -> int:
    """Run ``pellucid warmup`` with these arguments in a new process, and put all compiled files into a folder.

    Args:
        folder: where the files go; files that are already in it stay.
        arguments: of the command.
        processor: the level of `LEVELS` to compile for; None compiles for this very processor.

    Returns:
        The number of files from this run.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder) as drafts:
        only = {"NUMBA_CPU_NAME": processor, "NUMBA_CPU_FEATURES": ""} if processor else {}
        variables = {**os.environ, **only, "NUMBA_CACHE_DIR": drafts, "PELLUCID_KERNELS": "off"}
        subprocess.run([sys.executable, "-m", "pellucid.cli", "warmup", *arguments], env=variables, check=True)
        made = list(Path(drafts).rglob("*.nbc"))
        for file in made:
            file.replace(folder / file.name)
    return len(made)


def imported(folder: Path) -> int:
    """Copy a folder's compiled files to where the package looks for them, and return their number."""
    files = sorted(folder.glob("*.nbc"))
    COMPILED.mkdir(exist_ok=True)
    for file in files:
        draft = COMPILED / f".{file.name}.{os.getpid()}"
        try:
            shutil.copyfile(file, draft)
            draft.replace(COMPILED / file.name)
        finally:
            draft.unlink(missing_ok=True)
    return len(files)
