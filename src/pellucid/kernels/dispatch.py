"""Which implementation runs: a pure function of Python facts, printable and tested as a table.

Owns: the meaning of ``impl=``.
Must not: look at tensor values, or fall back from an explicit choice.
Read next: ``warp/__init__.py``.
"""

import torch

from pellucid.core.compilers import numba_works, triton_works
from pellucid.errors import ImplementationError, invalid

__all__ = ["IMPLEMENTATIONS", "choose"]

IMPLEMENTATIONS = ("reference", "cpu", "triton")


def choose(impl: str, *, available: tuple[str, ...], device: str, unsupported: str = "") -> str:
    """Resolve ``impl`` to the name of an implementation, or raise.

    Args:
        impl: ``auto`` or an explicit name.
        available: the names that exist for this primitive, fastest first.
        device: the device type of the data (``cpu``, ``cuda``, ...).
        unsupported: what in this call only the reference can do; empty when the others can do it too.
    """
    if impl == "auto" and torch.compiler.is_exporting():
        return "reference"  # a graph of standard operators, which run elsewhere
    if impl == "auto":
        return next(
            name for name in available if name == "reference" or (_runs_on(name, device) and not unsupported and _installed(name))
        )
    if impl not in IMPLEMENTATIONS:
        raise invalid("impl", expected=f"one of {('auto', *IMPLEMENTATIONS)}", got=repr(impl))
    if impl not in available:
        raise ImplementationError(f"impl={impl!r} does not exist for this primitive (there is {available}). Use impl='auto'.")
    if not _runs_on(impl, device):
        raise ImplementationError(f"impl={impl!r} does not run on {device!r} tensors. Use impl='auto', or move the batch.")
    if impl != "reference" and unsupported:
        raise ImplementationError(f"impl={impl!r} cannot do {unsupported}. Use impl='reference', or impl='auto', which picks it.")
    if not _installed(impl):
        needed = {"cpu": "Numba", "triton": "Triton"}[impl]
        raise ImplementationError(
            f"impl={impl!r} needs {needed}, which does not work here. Install {needed.lower()}, or use impl='reference'."
        )
    return impl


def _runs_on(name: str, device: str) -> bool:
    return name == "reference" or {"cpu": "cpu", "triton": "cuda"}[name] == device


def _installed(name: str) -> bool:
    return name == "reference" or {"cpu": numba_works, "triton": triton_works}[name]()
