"""Turn the arguments of the command line into callables and tensors.

Owns: ``module:name`` and ``module:name(arguments)`` targets, and input specifications such as ``x=2x3x16x16,angle=scalar``.
Must not: evaluate anything but literals.
Read next: ``subject.py``.
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pellucid.errors import InvalidArgument, invalid

__all__ = ["parse_inputs", "resolve"]

_SHAPE = re.compile(r"^\d+(x\d+)*$")
_DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32, "float64": torch.float64}
_DEFAULT = "2x3x16x16"


def resolve(target: str) -> Any:
    """Return the object ``module:name``, or the result of ``module:name(literals)``; an ``nn.Module`` class is instantiated.

    ``path/to/file.py:name`` works too.
    """
    where, _, expression = target.partition(":")
    if not where or not expression:
        raise invalid("target", expected="module:function, module:Class(arguments) or file.py:function", got=repr(target))
    if where.endswith(".py"):
        sys.path.insert(0, str(Path(where).parent.resolve()))
        where = Path(where).stem
    elif "" not in sys.path:
        sys.path.insert(0, "")
    try:
        module = importlib.import_module(where)
        value = _evaluate(ast.parse(expression, mode="eval").body, module, target)
        return value() if isinstance(value, type) and issubclass(value, nn.Module) else value
    except InvalidArgument:
        raise
    except Exception as error:  # importing and calling the user's code may raise anything
        raise invalid("target", expected="a name that can be imported", got=f"{target!r}: {_what(error)}") from error


def _what(error: Exception) -> str:
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}".rstrip(".: ")


def parse_inputs(text: str | None, seed: int = 0) -> Any:
    """Return inputs for :func:`pellucid.audit.audit` from a specification.

    Items are separated by commas, each ``[name=]SHAPE[:KIND][:DTYPE]`` or a plain number. ``SHAPE`` is ``2x3x16x16`` or ``scalar``;
    ``KIND`` is ``rand`` (default), ``normal``, ``zeros``, ``ones`` or ``eye``; ``DTYPE`` is ``float32`` (default), ``float64``,
    ``float16``, ``bfloat16``. ``@module:function`` calls a function that returns the inputs.
    """
    if text is not None and text.startswith("@"):
        return resolve(text[1:])()
    generator = torch.Generator().manual_seed(seed)
    items = [item.strip() for item in (text or _DEFAULT).split(",") if item.strip()]
    named = [item.partition("=")[::2] if "=" in item else ("", item) for item in items]
    try:
        values = [_value(spec.strip(), generator) for _, spec in named]
    except (RuntimeError, TypeError, OverflowError, MemoryError) as error:
        raise invalid("inputs", expected="shapes that tensors can have", got=f"{text!r}: {_what(error)}") from error
    names = [name.strip() for name, _ in named]
    if all(names):
        return dict(zip(names, values, strict=True))
    if any(names):
        raise invalid("inputs", expected="either all items named or none", got=repr(text))
    return tuple(values)


def _value(spec: str, generator: torch.Generator) -> Tensor | float | int:
    shape_word, *rest = spec.split(":")
    if shape_word != "scalar" and not _SHAPE.match(shape_word):
        try:
            return ast.literal_eval(spec)
        except (ValueError, SyntaxError):
            raise invalid("inputs", expected="SHAPE[:KIND][:DTYPE] such as 2x3x16x16:normal, or a number", got=repr(spec)) from None
    if shape_word.isdigit() and not rest and "x" not in shape_word:
        return int(shape_word)
    shape = () if shape_word == "scalar" else tuple(map(int, shape_word.split("x")))
    dtype = next((_DTYPES[r] for r in rest if r in _DTYPES), torch.float32)
    kind = next((r for r in rest if r not in _DTYPES), "rand")
    if kind == "eye":
        return torch.eye(*shape[-2:]).expand(shape).clone().to(dtype)
    makers = {"rand": torch.rand, "normal": torch.randn}
    if kind in makers:
        return makers[kind](shape, generator=generator).to(dtype)
    if kind in {"zeros", "ones"}:
        return torch.full(shape, float(kind == "ones"), dtype=dtype)
    raise invalid("inputs", expected="rand, normal, zeros, ones or eye after the shape", got=repr(kind))


def _evaluate(node: ast.expr, module: Any, target: str) -> Any:
    if isinstance(node, ast.Name):
        return getattr(module, node.id)
    if isinstance(node, ast.Attribute):
        return getattr(_evaluate(node.value, module, target), node.attr)
    if isinstance(node, ast.Call):
        args = [ast.literal_eval(a) for a in node.args]
        return _evaluate(node.func, module, target)(*args, **{k.arg or "": ast.literal_eval(k.value) for k in node.keywords})
    raise invalid("target", expected="names, attributes and calls with literal arguments after the colon", got=repr(target))
