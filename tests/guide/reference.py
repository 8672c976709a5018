"""Which sections the docstring of a public name must have, and which it has.

Owns: the rules of the reference's coverage.
Must not: run examples; ``tests/test_docs.py`` runs those of every module.
Read next: ``test_reference.py``.

The rules:

* **Args** names every parameter; what a base class or a field's own docstring says counts.
* **Returns** stands where something other than None is returned. Where that is no tensor, a first sentence that begins with
  "Return" will do; a property's first sentence always says it.
* **Errors** (or Raises) stands where the code raises, or calls functions of the library or methods of ``self`` that do, up to four
  calls deep; a base class may say it.
* **Gradient** stands where tensors that may hold fractions go in and come out.
* **Example** has a line that runs. A method's or property's may be its class's that reads it; a result's (a named tuple, a frozen
  dataclass) may be that of a public function or method that returns it.
* What ``forward`` or ``__call__`` says counts for the class. What overrides a base class's method is documented there.
"""

from __future__ import annotations

import ast
import enum
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, is_dataclass
from functools import cache
from importlib import import_module
from itertools import pairwise
from types import FunctionType, ModuleType
from typing import Any

from pellucid_bench.site.pages import PACKAGES, names

__all__ = ["Entry", "entries", "missing"]

_BUILT_BY = ("__init__", "__post_init__", "__new__", "check", "forward", "__call__")
_FRACTIONS = re.compile(r"\bTensor\b|\bFloat\[")
_NO_FRACTIONS = re.compile(r"\b(?:Bool|Int|Integer|UInt8|Int64)\[Tensor, [^\]]*\]")


@dataclass(frozen=True)
class Entry:
    """A public name of the reference: a function, a class, or what a class defines."""

    name: str
    value: Any
    owner: type | None = None

    @property
    def functions(self) -> tuple[FunctionType, ...]:
        """The code behind the name."""
        if inspect.isclass(self.value):
            own = (vars(base).get(name) for base in self.value.__mro__ if _ours(base) for name in _BUILT_BY)
            return tuple(function for function in own if isinstance(function, FunctionType) and _ours(function))
        code = self.value.fget if isinstance(self.value, property) else inspect.unwrap(getattr(self.value, "__func__", self.value))
        return (code,) if isinstance(code, FunctionType) else ()

    @property
    def text(self) -> str:
        """The docstring; a class's with that of what it is called for."""
        texts = [_clean(self.value.__doc__)]
        if inspect.isclass(self.value):
            texts += [
                _clean(vars(self.value)[name].__doc__) for name in ("__init__", "forward", "__call__") if name in vars(self.value)
            ]
        return "\n\n".join(texts)

    @property
    def signature(self) -> inspect.Signature:
        """The parameters, without ``self``."""
        if isinstance(self.value, property):
            return inspect.Signature(return_annotation=inspect.signature(self.value.fget).return_annotation)
        if _is_error(self.value):
            return inspect.Signature()
        value = self.value.__func__ if isinstance(self.value, (classmethod, staticmethod)) else self.value
        signature = inspect.signature(value)
        bound = self.owner is not None and not isinstance(self.value, staticmethod)
        return signature.replace(parameters=list(signature.parameters.values())[bound:])


def entries() -> Iterator[Entry]:
    """Every public name once."""
    seen: set[Any] = set()
    for page, (package, _) in PACKAGES.items():
        for name in names(page):
            value = getattr(import_module(package), name)
            if not (inspect.isclass(value) or inspect.isroutine(value)) or value in seen:
                continue
            seen.add(value)
            entry = Entry(f"{package}.{name}", value)
            yield entry
            if inspect.isclass(value):
                yield from _members(entry)


def missing(entry: Entry) -> tuple[str, ...]:
    """The sections that the docstring of the name should have and has not."""
    text, written = entry.text, _sections(entry.text)
    lacks = []
    parameters = [p.name for p in entry.signature.parameters.values() if not p.name.startswith("_")]
    told = written.get("Args", "") + written.get("Attributes", "") + _told_elsewhere(entry)
    if unnamed := [name for name in parameters if not re.search(rf"\b{name}\b", told)]:
        lacks.append(f"Args ({', '.join(unnamed)})" if told else "Args")
    returns = str(entry.signature.return_annotation)
    said = bool({"Returns", "Yields"} & set(written)) or (text.startswith("Return") and "Tensor" not in returns)
    if not (said or inspect.isclass(entry.value) or isinstance(entry.value, property) or returns in ("None", "NoReturn")):
        lacks.append("Returns")
    bases = [set(_sections(_clean(base.__doc__))) for base in entry.value.__mro__] if inspect.isclass(entry.value) else []
    warned = any({"Errors", "Raises"} & titles for titles in (set(written), *bases))
    owner = entry.value if inspect.isclass(entry.value) else entry.owner
    if not warned and any(_raises(function, owner) for function in entry.functions):
        lacks.append("Errors")
    if _differentiable(entry) and "Gradient" not in written:
        lacks.append("Gradient")
    if not (_is_error(entry.value) or _example(entry, text) or entry.value in _shown()):
        lacks.append("Example")
    return tuple(lacks) if text.strip() else ("a docstring",)


def _members(entry: Entry) -> Iterator[Entry]:
    for name, member in vars(entry.value).items():
        if name.startswith("_") or name == "forward" or not isinstance(member, (FunctionType, property, classmethod, staticmethod)):
            continue
        if not any(name in vars(base) for base in entry.value.__mro__[1:]):
            yield Entry(f"{entry.name}.{name}", member, entry.value)


def _told_elsewhere(entry: Entry) -> str:
    """What base classes and the fields' own docstrings say of a class's parameters."""
    if not inspect.isclass(entry.value):
        return ""
    return "\n".join(_told_by(base) for base in entry.value.__mro__ if _ours(base))


@cache
def _told_by(kind: type) -> str:
    body = _body(sys.modules[kind.__module__])[kind.__qualname__]
    fields = [ast.unparse(a) for a, b in pairwise(body) if isinstance(a, ast.AnnAssign) and isinstance(b, ast.Expr)]
    return "\n".join((_sections(_clean(kind.__doc__)).get("Args", ""), *fields))


@cache
def _body(module: ModuleType) -> dict[str, list[ast.stmt]]:
    """What each class of a module consists of."""
    return {node.name: node.body for node in ast.parse(inspect.getsource(module)).body if isinstance(node, ast.ClassDef)}


@cache
def _shown() -> frozenset[Any]:
    """Results that the Example of a function which returns them shows."""
    listed = list(entries())
    returned = " ".join(
        str(e.signature.return_annotation)
        for e in listed
        if not inspect.isclass(e.value) and not isinstance(e.value, property) and _example(e, e.text)
    )
    plain = [e for e in listed if inspect.isclass(e.value) and (hasattr(e.value, "_fields") or is_dataclass(e.value))]
    return frozenset(e.value for e in plain if re.search(rf"\b{e.value.__name__}\b", returned))


def _example(entry: Entry, text: str) -> bool:
    if ">>> " in text:
        return True
    if entry.owner is None:
        return False
    name = entry.name.rsplit(".", 1)[1]
    return bool(re.search(rf"(?:>>>|\.\.\.) .*\.{name}\b", _clean(entry.owner.__doc__)))


def _differentiable(entry: Entry) -> bool:
    signatures = [entry.signature]
    if inspect.isclass(entry.value):
        calls = [vars(entry.value).get(name) for name in ("forward", "__call__")]
        signatures = [inspect.signature(call) for call in calls if isinstance(call, FunctionType)]
    return any(
        _fractions(s.return_annotation)
        and (isinstance(entry.value, property) or any(_fractions(p.annotation) for p in s.parameters.values()))
        for s in signatures
    )


def _fractions(annotation: object) -> bool:
    text = annotation if isinstance(annotation, str) else repr(annotation)
    return bool(_FRACTIONS.search(_NO_FRACTIONS.sub("", text)))


def _sections(text: str) -> dict[str, str]:
    parts = re.split(r"^([A-Z][A-Za-z ]*):\n(?=[ \t]+\S)", text, flags=re.MULTILINE)
    told: dict[str, str] = {}
    for title, body in zip(parts[1::2], parts[2::2], strict=True):
        told[title] = told.get(title, "") + body
    return told


@cache
def _raises(function: FunctionType, owner: type | None, deep: int = 4) -> bool:
    """Whether the function raises, or what it calls by name, or of ``self``, up to ``deep`` calls further."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError, TypeError):
        return False
    if any(isinstance(node, ast.Raise) and "NotImplemented" not in ast.dump(node) for node in ast.walk(tree)):
        return True
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    named = [(function.__globals__.get(call.id), None) for call in calls if isinstance(call, ast.Name)]
    own = [call.attr for call in calls if isinstance(call, ast.Attribute) and ast.unparse(call.value) == "self"]
    callees = [*named, *((inspect.getattr_static(owner, name, None), owner) for name in own if owner is not None)]
    return deep > 0 and any(
        isinstance(callee := inspect.unwrap(value) if callable(value) else None, FunctionType)
        and _ours(callee)
        and _raises(callee, of, deep - 1)
        for value, of in callees
    )


def _ours(value: Any) -> bool:
    return getattr(value, "__module__", "").split(".")[0] == "pellucid"


def _is_error(value: object) -> bool:
    return inspect.isclass(value) and issubclass(value, (BaseException, enum.Enum))


def _clean(doc: str | None) -> str:
    return inspect.cleandoc(doc or "")
