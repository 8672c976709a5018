"""Compiling before anybody waits: some calls like those to come, and counting what they compile.

Owns: `compiled_ahead`.
Must not: know which kernels there are; it calls pipelines as their users do.
Read next: ``kept.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as tree

__all__ = ["compiled_ahead"]

_DRAWS = 16  # a gate of one half stays closed in all of them once in 65,536 times


def compiled_ahead(call: Callable[[Any, int], Any], batch: Any, *, learned: Sequence[Tensor] = (), gradients: bool = True) -> int:
    """Call with a batch and one step after the other, forward and backward, and return how many functions were compiled.

    Gradients go to the batch's floating-point images and to `learned`, and nowhere: no ``.grad`` changes.
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
    """The names of what Python calls and Numba compiles meanwhile; what it calls in turn is not counted."""
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
