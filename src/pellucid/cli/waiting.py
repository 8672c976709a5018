"""What a terminal shows while a command works: a spinner, the current task, and the time.

Owns: the look of waiting.
Must not: write to standard output, or anywhere but to a terminal.
Read next: ``__init__.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["waiting"]


@contextmanager
def waiting(what: str) -> Iterator[Callable[[str], None]]:
    """Show a spinner with a text while the body runs; the yielded function replaces the text. Print results after the block."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True, highlight=False)
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    quiet = not console.is_terminal
    with Progress(
        *columns, console=console, transient=True, disable=quiet, redirect_stdout=False, redirect_stderr=False
    ) as progress:
        task = progress.add_task(what, total=None)
        yield lambda now: progress.update(task, description=now)
