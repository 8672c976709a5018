"""Which implementation runs: a pure function of Python facts, printable and tested as a table.

Owns: the meaning of ``impl=``.
Must not: look at tensor values, or fall back from an explicit choice.
Read next: ``warp/__init__.py``.
"""

from __future__ import annotations

from pellucid.errors import ImplementationError, invalid

__all__ = ["IMPLEMENTATIONS", "choose"]

IMPLEMENTATIONS = ("reference", "cpu", "triton")


def choose(impl: str, *, available: tuple[str, ...], device: str) -> str:
    """Resolve ``impl`` to the name of an implementation, or raise.

    Args:
        impl: ``auto`` or an explicit name.
        available: the names that exist for this primitive, fastest first.
        device: the device type of the data (``cpu``, ``cuda``, ...).
    """
    if impl == "auto":
        return next(name for name in available if _runs_on(name, device))
    if impl not in IMPLEMENTATIONS:
        raise invalid("impl", expected=f"one of {('auto', *IMPLEMENTATIONS)}", got=repr(impl))
    if impl not in available:
        raise ImplementationError(f"impl={impl!r} does not exist for this primitive (there is {available}). Use impl='auto'.")
    if not _runs_on(impl, device):
        raise ImplementationError(f"impl={impl!r} does not run on {device!r} tensors. Use impl='auto', or move the batch.")
    return impl


def _runs_on(name: str, device: str) -> bool:
    return name == "reference" or {"cpu": "cpu", "triton": "cuda"}[name] == device
