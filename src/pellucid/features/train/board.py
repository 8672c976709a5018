"""The log for TensorBoard, where that is installed.

Owns: whether there is one, and writing to it.
Must not: be needed: the CSV has the same numbers.
Read next: ``../../training/log.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["board"]


@contextmanager
def board(directory: Path, *, wanted: bool) -> Iterator[Callable[[int, Mapping[str, float]], None]]:
    """Give a function that writes a row of numbers; without TensorBoard, or where ``wanted`` is False, it does nothing."""
    writer = _writer(directory) if wanted else None
    if writer is None:
        yield _ignore
        return

    def write(step: int, row: Mapping[str, float]) -> None:
        for name, number in row.items():
            writer.add_scalar(name, number, step)

    try:
        yield write
    finally:
        writer.close()


def _writer(directory: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:  # not installed, or without what it needs itself
        return None
    return SummaryWriter(str(directory / "tensorboard"))


def _ignore(step: int, row: Mapping[str, float]) -> None:
    del step, row
