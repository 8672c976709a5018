"""Read pipelines from Python source text: its syntax tree is read, and nothing is run.

Owns: finding a file's pipelines, and evaluating the numbers that it spells out.
Must not: execute or import what it reads.
Read next: ``signatures.py``.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pellucid.core.arguments import is_number
from pellucid.errors import InvalidArgument, InvalidType, invalid
from pellucid.interop.albumentations import read_albumentations
from pellucid.interop.kornia import read_kornia
from pellucid.interop.reading import Imported, Match, Missing, Unread
from pellucid.interop.signatures import call_of
from pellucid.interop.torchvision import read_torchvision
from pellucid.pipeline import Pipeline

__all__ = ["Sourced", "from_source"]

_READERS = {"albumentations": read_albumentations, "torchvision": read_torchvision, "kornia": read_kornia}
_WHOLE = ("Compose", "ReplayCompose", "AugmentationSequential", "ImageSequential", "PatchSequential", "Sequential")
_LONGEST, _DEEPEST, _MOST = 2_000_000, 60, 64


class Sourced(NamedTuple):
    r"""A pipeline that a file spells out.

    Args:
        name: the name that it is assigned to, or that of the function around it; empty if there is neither.
        line: its first line, counted from 1.
        library: albumentations, torchvision or kornia.
        imported: the pipeline, its notes and the missing operations.

    Example:
        >>> from pellucid.interop import from_source
        >>> found = from_source("import torchvision.transforms as T\nflips = T.Compose([T.RandomHorizontalFlip()])")
        >>> found[0].name, found[0].line, found[0].library
        ('flips', 2, 'torchvision')
    """

    name: str
    line: int
    library: str
    imported: Imported


def from_source(text: str, *, match: Match = "nearest", names: Mapping[str, Any] | None = None) -> tuple[Sourced, ...]:
    r"""Import every pipeline of albumentations, torchvision and kornia that a Python file spells out.

    Args:
        text: the file's text. It is parsed and never run: constants, names for constants, defaults of arguments, and arithmetic
            are evaluated; any other expression is listed as missing.
        match: as for `read_albumentations`.
        names: values of names that the file does not define, such as ``{"image_size": 224}``.

    Returns:
        The file's outermost pipelines, in order.

    Errors:
        InvalidArgument for text that is not Python.

    Example:
        >>> from pellucid.interop import from_source
        >>> from_source("import albumentations as A\nt = A.Compose([A.Rotate(20, p=1)])")[0].imported.pipeline[0].degrees
        (-20.0, 20.0)
    """
    tree = _parsed(text)
    found = _Finder(dict(names or {}))
    try:
        found.visit(tree)
        return tuple(found.read(one, match) for one in found.wholes)
    except RecursionError:
        raise invalid("source", expected="Python that is nested less deeply", got="too many levels") from None


def _parsed(text: str) -> ast.Module:
    if len(text) > _LONGEST:
        raise invalid("source", expected=f"at most {_LONGEST} characters", got=str(len(text)))
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise invalid("source", expected="Python", got=f"text that does not parse ({error})") from None


class _Whole(NamedTuple):
    call: ast.Call
    library: str
    scopes: tuple[dict[str, Any], ...]
    name: str


class _Finder(ast.NodeVisitor):
    """Collects a file's imports and assignments, by scope, and the outermost calls that make pipelines."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.given = given
        self.wholes: list[_Whole] = []
        self.scopes: tuple[dict[str, Any], ...] = ({},)
        self.within = self.star = ""
        self.functions: dict[str, tuple[ast.FunctionDef, dict[str, Any]]] = {}

    # ---- what names mean

    def visit_Import(self, node: ast.Import) -> None:
        for one in node.names:
            self.scopes[0][one.asname or one.name.partition(".")[0]] = one.name if one.asname else one.name.partition(".")[0]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for one in node.names:
            if one.name == "*" and str(node.module).partition(".")[0] in _READERS:
                self.star = str(node.module).partition(".")[0]
            self.scopes[0][one.asname or one.name] = f"{node.module}.{one.name}"

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self._bind(target, node.value)
        self._named(node.targets[0], node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._bind(node.target, node.value)
            self._named(node.target, node.value)

    def _named(self, target: ast.expr, value: ast.expr) -> None:
        before, self.within = self.within, ast.unparse(target)
        self.visit(value)
        self.within = before

    def _bind(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple | ast.List):
            for one, each in zip(target.elts, value.elts, strict=False):
                self._bind(one, each)
        elif isinstance(target, ast.Name):
            self.scopes[-1].setdefault(f"={target.id}", []).append((target.lineno, value))
        elif isinstance(target, ast.Attribute):
            holder = self.scopes[-2] if len(self.scopes) > 1 else self.scopes[-1]  # the class around a method
            holder.setdefault(f"={ast.unparse(target)}", []).append((0, value))

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.op, ast.Add):
            self._grow(node.target, node.value, node.lineno)
        self.generic_visit(node)

    def _grow(self, target: ast.expr, value: ast.expr, line: int) -> None:
        """Record an addition to a list; additions under an ``if`` count as well."""
        if isinstance(target, ast.Name) and (known := self.scopes[-1].get(f"={target.id}")):
            known.append((line, ast.BinOp(known[-1][1], ast.Add(), value)))

    def _scope(self, node: Any, own: dict[str, Any], within: str) -> None:
        before = self.scopes, self.within
        self.scopes, self.within = (*self.scopes, own), within
        for one in node.body:
            self.visit(one)
        self.scopes, self.within = before

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        usual = node.args.defaults
        named = zip((node.args.posonlyargs + node.args.args)[-len(usual) :] if usual else [], usual, strict=False)
        pairs = [*named, *((one, value) for one, value in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if value)]
        own: dict[str, Any] = {f"={one.arg}": None for one in (*node.args.args, *node.args.kwonlyargs)}
        own |= {f"={one.arg}": [(0, value)] for one, value in pairs}
        self.functions[node.name] = node, own
        self._scope(node, own, node.name)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        own: dict[str, Any] = {}
        self.scopes[-1].setdefault(f"={node.name}", []).append((node.lineno, own))
        self._scope(node, own, node.name)

    def visit_Call(self, node: ast.Call) -> None:
        library, name = self.made_by(node)
        if library and name in _WHOLE:
            self.wholes.append(_Whole(node, library, self.scopes, self.within))
            return
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("append", "extend") and node.args:
            one = node.args[0]
            self._grow(node.func.value, ast.List([one], ast.Load()) if node.func.attr == "append" else one, node.lineno)
        self.generic_visit(node)

    # ---- what is read

    def made_by(self, call: ast.Call) -> tuple[str, str]:
        """Return the library and name of the transform that a call makes; both empty for any other call."""
        first, _, rest = ast.unparse(call.func).partition(".") if isinstance(call.func, ast.Name | ast.Attribute) else ("", "", "")
        path = self.scopes[0].get(first)
        whole = f"{path}.{rest}" if rest else str(path)
        top = whole.partition(".")[0] if isinstance(path, str) else ""
        if top in _READERS:
            return top, whole.rpartition(".")[2]
        if whole == "torch.nn.Sequential":  # a list of transforms, not a network
            inner = {self.made_by(one)[0] if isinstance(one, ast.Call) else "" for one in call.args}
            return (inner.pop(), "Sequential") if len(inner) == 1 else ("", "")
        if path in ("transforms", ".transforms") and rest:  # torchvision's reference scripts have their own file
            return "torchvision", rest
        known = path or any(f"={first}" in scope for scope in self.scopes)
        return (self.star, first) if self.star and first[:1].isupper() and not known and not rest else ("", "")

    def read(self, one: _Whole, match: Match) -> Sourced:
        described = _Values(self, one).of(one.call)
        try:
            imported = _READERS[one.library](described, match=match)
        except (InvalidArgument, InvalidType) as error:
            missing = Missing("pipeline", ast.unparse(one.call.func), "", str(error).rstrip("."), "")
            imported = Imported(Pipeline([]), (), (missing,), 1)
        return Sourced(one.name, one.call.lineno, one.library, imported)


def _power(base: Any, power: Any) -> Any:
    if abs(base) > _LONGEST or abs(power) > _MOST:
        raise ValueError
    return base**power


_OPERATORS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
}
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    **{kind.__name__: kind for kind in (int, float, bool, str, tuple, list, dict, round, abs, min, max, len)},
    **dict.fromkeys(
        ("np.array", "np.asarray", "numpy.array", "torch.tensor", "torch.as_tensor", "torch.Tensor", "torch.FloatTensor"),
        lambda value, **_: list(value) if isinstance(value, list | tuple) else value,
    ),
}
_CONSTANTS: Mapping[str, Any] = {
    **{f"BORDER_{name}": value for name, value in zip(("CONSTANT", "REPLICATE", "REFLECT", "WRAP"), range(4), strict=True)},
    **dict.fromkeys(("BORDER_REFLECT_101", "BORDER_REFLECT101", "BORDER_DEFAULT"), 4),
    **{f"INTER_{name}": value for value, name in enumerate(("NEAREST", "LINEAR", "CUBIC", "AREA", "LANCZOS4", "LINEAR_EXACT"))},
    "INTER_NEAREST_EXACT": 6,
    **{name: name.lower().replace("_", "-") for name in ("NEAREST", "BILINEAR", "BICUBIC", "BOX", "HAMMING", "LANCZOS")},
    "NEAREST_EXACT": "nearest-exact",
    "ANTIALIAS": "lanczos",
    **{name: name.lower() for name in ("IMAGENET", "CIFAR10", "SVHN", "REFLECT", "CONSTANT")},
    **{name: name for name in ("float32", "float16", "float64", "bfloat16", "uint8", "int64", "long", "XYXY", "XYWH", "CXCYWH")},
    **{name: name for name in ("Image", "Mask", "BoundingBoxes", "Video")},
    "float": "float32",
    "pi": 3.141592653589793,
}
"""Constants of OpenCV, Pillow, torch and torchvision by their last name."""


class _Values:
    """Evaluates expressions that a file spells out."""

    def __init__(self, finder: _Finder, whole: _Whole) -> None:
        self.finder, self.scopes, self.library, self.line = finder, whole.scopes, whole.library, whole.call.lineno
        self.depth = self.calls = 0

    def of(self, node: ast.expr) -> Any:
        """Return an expression's value, or `Unread`."""
        self.depth += 1
        reader = getattr(self, f"_{type(node).__name__}", None)
        try:
            return Unread(ast.unparse(node)) if reader is None or self.depth > _DEEPEST else reader(node)
        except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError):
            return Unread(ast.unparse(node))
        finally:
            self.depth -= 1

    def _Constant(self, node: ast.Constant) -> Any:
        return node.value

    def _several(self, nodes: Sequence[ast.expr]) -> list[Any]:
        found: list[Any] = []
        for one in nodes:
            value = self.of(one.value if isinstance(one, ast.Starred) else one)
            found += value if isinstance(one, ast.Starred) and isinstance(value, list | tuple) else [value]
        return found

    def _List(self, node: ast.List) -> Any:
        return self._several(node.elts)

    def _Tuple(self, node: ast.Tuple) -> Any:
        return tuple(self._several(node.elts))

    def _Dict(self, node: ast.Dict) -> Any:
        found: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            found |= self.of(value) if key is None else {self.of(key): self.of(value)}
        return found

    def _UnaryOp(self, node: ast.UnaryOp) -> Any:
        value = self.of(node.operand)
        return -value if isinstance(node.op, ast.USub) else (not value) if isinstance(node.op, ast.Not) else +value

    def _BinOp(self, node: ast.BinOp) -> Any:
        left, right = self.of(node.left), self.of(node.right)
        if isinstance(node.op, ast.Add) and isinstance(left, list) and isinstance(right, Unread):
            return [*left, right]
        numbers = is_number(left) and is_number(right)
        if not numbers and not (isinstance(left, list | tuple) and isinstance(right, list | tuple | int)):
            raise TypeError
        if not numbers and isinstance(right, int) and len(left) * right > _MOST:
            raise ValueError
        return _OPERATORS[type(node.op)](left, right)

    def _IfExp(self, node: ast.IfExp) -> Any:
        test = self.of(node.test)
        return Unread(ast.unparse(node)) if isinstance(test, Unread) else self.of(node.body if test else node.orelse)

    def _Subscript(self, node: ast.Subscript) -> Any:
        return self.of(node.value)[self.of(node.slice)]

    def _Name(self, node: ast.Name) -> Any:
        return self._called(node.id)

    def _Attribute(self, node: ast.Attribute) -> Any:
        text = ast.unparse(node)
        if any(f"={text}" in scope for scope in self.scopes) or text in self.finder.given:
            return self._called(text)
        if isinstance(node.value, ast.Name):
            for scope in reversed(self.scopes):
                if isinstance(held := (scope.get(f"={node.value.id}") or [(0, None)])[-1][1], dict):
                    return self.of(held[f"={node.attr}"][-1][1])
        return _CONSTANTS[node.attr] if node.attr in _CONSTANTS else Unread(text)

    def _called(self, name: str) -> Any:
        """Return the value of a name: the given one, or the last one before this line in the innermost scope that has it."""
        if name in self.finder.given:
            return self.finder.given[name]
        for scope in reversed(self.scopes):
            if f"={name}" in scope:
                known = scope[f"={name}"] or []
                before = [value for line, value in known if line < self.line or scope is not self.scopes[-1]]
                return self.of(before[-1]) if before else Unread(name)
        last = str(self.scopes[0].get(name, "")).rpartition(".")[2]
        return _CONSTANTS.get(last, Unread(name))

    def _Call(self, node: ast.Call) -> Any:
        library, name = self.finder.made_by(node)
        words = {one.arg: self.of(one.value) for one in node.keywords if one.arg is not None}
        for one in node.keywords:
            if one.arg is None and isinstance(value := self.of(one.value), dict):
                words |= value
        places = self._several(node.args)
        if name in ("BboxParams", "KeypointParams"):
            return call_of(library, name, places, words)
        if library:
            return self._transform(library, name, places, words)
        if isinstance(node.func, ast.Name) and node.func.id in self.finder.functions:
            return self._returned(*self.finder.functions[node.func.id], places, words)
        function = _FUNCTIONS[ast.unparse(node.func)]
        if any(isinstance(one, Unread) for one in places):
            raise ValueError
        return function(*places, **words)

    def _returned(self, function: ast.FunctionDef, own: dict[str, Any], places: list[Any], words: dict[str, Any]) -> Any:
        """Return the result of calling a function of the file that has exactly one ``return``."""
        self.calls += 1
        (end,) = (one for one in ast.walk(function) if isinstance(one, ast.Return) and self.calls < _MOST)
        given = {**dict(zip((one.arg for one in function.args.args), places, strict=False)), **words}
        before = self.scopes, self.line
        self.scopes = (*self.scopes[:1], own | {f"={name}": [(0, ast.Constant(value))] for name, value in given.items()})
        self.line = end.lineno
        try:
            return self.of(end.value) if end.value is not None else None
        finally:
            self.scopes, self.line = before

    def _transform(self, library: str, name: str, places: list[Any], words: dict[str, Any]) -> dict[str, Any]:
        if library != "albumentations" and name.endswith("Sequential"):
            words["transforms"], places = places, []
        found = {"name": name, **call_of(library, name, places, words)}
        if isinstance(found.get("transforms"), list | tuple):
            inner = found["transforms"]
            found["transforms"] = [self._step(one) for one in inner if one is not None]
        return found

    @staticmethod
    def _step(one: Any) -> Any:
        """Return a transform's description, or a Compose for a list of them; anything else becomes `Unread`."""
        if isinstance(one, list | tuple):
            return {"name": "Compose", "transforms": list(one)}
        return one if isinstance(one, dict) and "name" in one else Unread(str(one))
