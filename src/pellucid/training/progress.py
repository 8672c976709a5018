"""The progress bar of a run: loss, rate and time left.

Owns: how it looks on a terminal and in a file.
Must not: slow the run down; it is told a few times a second at most.
Read next: ``loop.py``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from pellucid.errors import needs

__all__ = ["Reporter", "progress_bar", "silence"]


class Reporter(Protocol):
    """What the loop tells after each step."""

    def __call__(self, done: int, text: str | None = None) -> None:
        """``done`` steps of the total are done; ``text`` shows the newest numbers."""


@contextmanager
def silence(total: int, title: str) -> Iterator[Reporter]:
    """Show nothing: for ranks other than the first, and for tests."""
    del total, title

    def tell(done: int, text: str | None = None) -> None:
        del done, text

    yield tell


@contextmanager
def progress_bar(total: int, title: str) -> Iterator[Reporter]:
    """A bar with rate and time left; where there is no terminal, a plain line every half minute."""
    with needs("A progress bar", "rich"):
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    console = Console(highlight=False)
    if not console.is_terminal:
        yield _plain_lines(console.print, total, title)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[text]}"),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(title, total=total, text="", rate="")
        started: tuple[float, int] | None = None

        def tell(done: int, text: str | None = None) -> None:
            nonlocal started
            now = time.perf_counter()
            started = started or (now, done)
            seconds, steps = now - started[0], done - started[1]
            rate = f"{steps / seconds:.1f} steps/s" if steps and seconds else ""
            bar.update(task, completed=done, rate=rate)
            if text is not None:
                bar.update(task, text=text)

        yield tell


def _plain_lines(say: object, total: int, title: str) -> Reporter:
    assert callable(say)
    last = time.perf_counter()
    first: tuple[float, int] | None = None
    latest = ""

    def tell(done: int, text: str | None = None) -> None:
        nonlocal last, first, latest
        now = time.perf_counter()
        first = first or (now, done)
        latest = latest if text is None else text
        if now - last < 30 and done < total:
            return
        last = now
        rate = (done - first[1]) / max(now - first[0], 1e-9)
        left = f", {(total - done) / rate:.0f} s left" if rate and done < total else ""
        say(f"{title}: {done}/{total} steps, {rate:.1f} steps/s{left}  {latest}")

    return tell
