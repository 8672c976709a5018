"""Find the line of the user's source where something happened: frames, forward tracebacks of graph nodes, graph walks.

Owns: turning a live frame or a node's recorded traceback into ``file:line``, and naming nodes.
Must not: run the subject or judge its behaviour.
Read next: ``trace.py``.
"""

from __future__ import annotations

import dis
import os
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import torch

__all__ = [
    "attached_leaves", "backward_place", "code_place", "custom_nodes", "in_custom_forward", "is_users", "live_place", "node_name",
    "node_place", "short", "storing_place", "walk",
]  # fmt: skip

_TORCH = str(Path(torch.__file__).parent) + os.sep  # with the separator, or it would match torchvision
_HERE = str(Path(__file__).parent) + os.sep
_WATCHERS = {str(Path(_HERE) / name) for name in ("trace.py", "causes.py", "lift.py")}  # on the stack of every torch call
_STDLIB = sysconfig.get_path("stdlib")
_FORWARDS = ("torch/autograd/function.py", "torch/_library/", "torch/library.py")
_LINE = re.compile(r'File "([^"]+)", line (\d+)')


def live_place() -> str | None:
    """Return the innermost line of the subject's own source on the stack, or None if there is none."""
    return next((short(file, line) for file, line in _stack(sys._getframe(1)) if _judge(file) == "take"), None)


def in_custom_forward() -> bool:
    """Whether the stack is inside the forward of an ``autograd.Function`` or of a registered custom operator."""
    return any(part in file for file, _ in _stack(sys._getframe(1)) for part in _FORWARDS)


def _stack(frame: FrameType | None) -> Iterator[tuple[str, int]]:
    """File and line of a frame and of its callers, up to the audit itself."""
    while frame is not None and _judge(frame.f_code.co_filename) != "stop":
        yield frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back


def backward_place(node: Any) -> str | None:
    """Return the line where the backward of a custom node is written; if that is not known, the line that made the node."""
    return code_place(getattr(getattr(type(node), "_forward_cls", None), "backward", None)) or node_place(node)


def code_place(function: Any) -> str | None:
    """Return the first line of a function's body, or None if it is not the user's code."""
    code = getattr(function, "__code__", None)
    if code is None or _judge(code.co_filename) != "take":
        return None
    lines = [line for _, _, line in code.co_lines() if line is not None and line > code.co_firstlineno]
    return short(code.co_filename, min(lines, default=code.co_firstlineno))


def storing_place(function: Any, name: str | None = None) -> str | None:
    """Return the first line of a function that stores this attribute or, without a name, anything that outlives the call."""
    code = getattr(function, "__code__", None)
    if code is None or _judge(code.co_filename) != "take":
        return None
    outlives = {"STORE_ATTR", "STORE_SUBSCR", "STORE_GLOBAL"}
    line = code.co_firstlineno
    for step in dis.get_instructions(code):
        line = (step.positions.lineno if step.positions else None) or line
        if (step.argval == name and step.opname == "STORE_ATTR") if name else step.opname in outlives:
            return short(code.co_filename, line)
    return None


def node_place(node: Any) -> str | None:
    """Return the line that created a backward node, from the traceback that anomaly mode stored with it."""
    try:
        stored = node.metadata.get("traceback_", [])
    except (AttributeError, RuntimeError):
        return None
    return traceback_place("".join(stored))


def traceback_place(text: str) -> str | None:
    """Return the innermost line of the subject's own source in a formatted traceback (outermost frame first)."""
    for file, line in reversed(_LINE.findall(text)):
        verdict = _judge(file)
        if verdict == "stop":
            return None
        if verdict == "take":
            return short(file, int(line))
    return None


def short(file: str, line: int) -> str:
    """Shorten a path: relative to site-packages or to the working directory if it lies in one of them."""
    for marker in ("/site-packages/", "/dist-packages/"):
        if marker in file:
            return f"{file.split(marker, 1)[1]}:{line}"
    try:
        return f"{Path(file).relative_to(Path.cwd())}:{line}"
    except ValueError:
        return f"{file}:{line}"


def node_name(node: Any) -> str:
    """Name a node as torch prints it."""
    name = getattr(node, "name", None)
    return str(name()) if callable(name) else type(node).__name__


def walk(roots: Iterable[Any]) -> Iterator[Any]:
    """Yield every node of the graph below the roots once, outputs first."""
    seen: set[Any] = set()
    queue = [n for n in roots if n is not None]
    while queue:
        node = queue.pop(0)
        if node in seen:
            continue
        seen.add(node)
        yield node
        queue.extend(n for n, _ in node.next_functions if n is not None)


def custom_nodes(roots: Iterable[Any]) -> list[Any]:
    """Return the nodes whose backward is user code: ``autograd.Function`` and registered custom operators."""
    return [n for n in walk(roots) if isinstance(n, torch.autograd.function.BackwardCFunction)]


def attached_leaves(node: Any) -> set[int]:
    """Return the ids of the leaf tensors below a node."""
    return {id(n.variable) for n in walk([node]) if hasattr(n, "variable")}


def is_users(file: str) -> bool:
    """Whether a file belongs neither to torch, nor to the standard library, nor to the audit."""
    return _judge(file) == "take"


def _judge(file: str) -> str:
    """Classify a frame's file: ``skip`` torch and the audit's modes, ``stop`` at the audit itself, ``take`` anything else."""
    if file in _WATCHERS or file.startswith((_TORCH, "<")):
        return "skip"
    if file.startswith(_STDLIB) and "-packages" not in file:
        return "skip"
    return "stop" if file.startswith(_HERE) else "take"
