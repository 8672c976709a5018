"""Watch one run of the subject call by call: where a path is cut, a tensor is written, a value is read on the host.

Owns: tracking through the subject's own torch calls which leaves every tensor depends on, and the line of each event.
Must not: judge; an event is only evidence for a check that has measured a defect.
Read next: ``checks/agreement.py`` (who uses the cuts), ``checks/hazards.py`` (who uses the rest).
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode, resolve_name

from pellucid.audit.place import attached_leaves, code_place, in_custom_forward, live_place, node_name
from pellucid.audit.tree import leaves

__all__ = ["NEW_LEAF", "RANDOM", "Event", "Tracer", "pretty"]

NEW_LEAF = "a new leaf (nn.Parameter or requires_grad_)"

_QUIET = {
    "dim", "size", "stride", "numel", "__len__", "_set_grad_enabled", "is_contiguous", "is_floating_point", "is_complex", "type",
    "element_size", "storage_offset", "data_ptr", "untyped_storage", "get_device", "ndimension", "__repr__", "__format__",
    "__hash__", "has_names", "is_cuda", "requires_grad_", "is_signed", "is_inference", "nelement", "can_cast",
}  # fmt: skip
_READS = {"item", "tolist", "__bool__", "__float__", "__int__", "__index__", "__complex__", "equal", "allclose", "is_nonzero"}
_ARRAYS = {"numpy", "__array__"}
RANDOM = {
    "rand", "randn", "randint", "rand_like", "randn_like", "randint_like", "randperm", "bernoulli", "multinomial", "normal",
    "poisson", "bernoulli_", "uniform_", "normal_", "random_", "exponential_", "geometric_", "cauchy_", "log_normal_",
}  # fmt: skip
_COMPARE = {"lt", "le", "gt", "ge", "eq", "ne", "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "isclose"}
_DETACH = {"detach", "detach_", "data.__get__"}
_REBUILD = {"tensor", "as_tensor", "new_tensor", "asarray"}
_LIKE_FIRST = {"to", "type_as", "expand_as", "view_as", "reshape_as"}  # of the second tensor they read only dtype or shape
_FROM_NUMBERS = {"tensor", "as_tensor", "asarray", "scalar_tensor", "full"}
_INTEGERS = {"long", "int", "short", "char", "byte", "to", "type_as"}


@dataclass(frozen=True)
class Event:
    """One thing a torch call of the subject did.

    ``kind`` is one of ``detach``, ``no-grad``, ``host``, ``rebuild``, ``to-integer``, ``compare``, ``hard-sample``, ``index``
    (all of them may cut the path), ``host-read``, ``write``, ``data-write``, ``stride-0``, ``draw``, ``hook``, ``narrow`` or
    ``widen`` (``node`` is then the resulting dtype). A ``late`` event lies behind another cut, and would cut the path if that one
    did not; ``block`` is the line that switched gradients off for a ``no-grad`` event.
    """

    kind: str
    op: str
    place: str | None
    sources: frozenset[str]
    node: str = ""
    late: bool = False
    block: str | None = None

    @property
    def cuts(self) -> bool:
        """Whether the event ends an autograd path."""
        return self.kind in {"detach", "no-grad", "host", "rebuild", "to-integer", "compare", "hard-sample", "index"}


class Tracer(TorchFunctionMode):
    """Records the events of one run. Enter it around the call; the leaves are the tensors handed to the call."""

    def __init__(self, roots: Mapping[str, Tensor], handed: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.events: list[Event] = []
        self._names = {id(t): name for name, t in roots.items()}
        self._sources: dict[int, frozenset[str]] = {}
        self._marks: dict[str, set[int]] = {"data": set(), "expanded": set(), "random": set()}
        self._inputs: dict[int, str] = {}
        self._kept: list[Any] = []
        self.bits = 64
        self._block: str | None = None
        self.writes: list[str | None] = []
        for name, tensor in {**roots, **handed}.items():
            self._taint(tensor, frozenset({name}))
            self._inputs[_store(tensor)] = name

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        op = _op(func)
        if op == "_set_grad_enabled":
            self._block = live_place()
        if op in _QUIET or (op.endswith(".__get__") and op != "data.__get__"):
            return func(*args, **kwargs)
        if op == "register_hook":
            self._note("hook", func, self._of(args[0]), code_place(args[1]) or "")
        inputs = list(leaves((list(args), dict(kwargs))).values())
        before = [_version(t) for t in inputs]
        if kwargs.get("out") is None and "out" in kwargs:
            kwargs = {k: v for k, v in kwargs.items() if k != "out"}
        out = func(*args, **kwargs)
        # Tensors without storage or version (fake, functorch) are not tracked.
        with contextlib.suppress(RuntimeError, NotImplementedError):
            self._look(func, op, inputs, before, out, kwargs)
        return out

    def cuts(self, name: str, *, late: bool = False) -> list[Event]:
        """Return the events that end a path from one leaf; with ``late``, those behind another cut that would end it."""
        return [e for e in self.events if e.cuts and name in e.sources and e.late == late]

    def of(self, kind: str) -> list[Event]:
        """Return the events of one kind."""
        return [e for e in self.events if e.kind == kind]

    def _look(self, func: Any, op: str, inputs: list[Tensor], before: list[int], out: Any, kwargs: Mapping[str, Any]) -> None:
        values = _read_values(op, inputs, kwargs)
        sources = frozenset[str]().union(*(self._of(t) for t in values))
        outs = list(leaves(out if isinstance(out, Tensor | list | tuple | dict) else ()).values())
        random = op in RANDOM
        if random:
            self._note("draw", func, sources, "generator" if kwargs.get("generator") is not None else "")
        for tensor, version in zip(inputs, before, strict=True):
            if _version(tensor) != version:
                self._wrote(func, tensor, sources)
        if op == "data.__set__":
            self._note("data-write", func, self._of(inputs[0]))
        if sources and not isinstance(out, Tensor) and (op in _READS or op in _ARRAYS):
            self._read(func, op, inputs, sources)
        for tensor in inputs:
            new = tensor.is_leaf and tensor.requires_grad and id(tensor) not in self._names and bool(self._of(tensor))
            if new and not in_custom_forward():  # there, the inputs are leaves themselves
                self._note("detach", NEW_LEAF, self._of(tensor))
        attached = [t for t in values if t.requires_grad and self._of(t)]
        for tensor in outs:
            own = sources if not (random and not attached) else frozenset[str]()
            self._taint(tensor, own)
            self._inherit(tensor, inputs, op, random)
            if attached and (not tensor.requires_grad):
                self._cut(func, op, tensor, attached, inputs)
            elif attached and op in {"bernoulli", "multinomial", "poisson"}:
                self._note("hard-sample", func, sources, attached[0])
            elif own and tensor.is_floating_point() and (op in _REBUILD | _DETACH or not torch.is_grad_enabled()):
                self._cut(func, op, tensor, [t for t in values if self._of(t)], inputs, late=True)
            self._width(func, tensor, inputs, sources)
            if op in _FROM_NUMBERS and not inputs and tensor.is_floating_point() and (reads := self.of("host")):
                self.bits = min(self.bits, torch.finfo(tensor.dtype).bits)  # its numbers may come from a value that Python has read
                self._note("rebuild", func, frozenset[str]().union(*(e.sources for e in reads)), late=True)

    def _cut(self, func: Any, op: str, out: Tensor, attached: list[Tensor], inputs: list[Tensor], *, late: bool = False) -> None:
        sources = frozenset[str]().union(*(self._of(t) for t in attached))
        if in_custom_forward():
            return  # its backward answers for the path
        if op in _DETACH:
            kind = "detach"
        elif op in _REBUILD:
            kind = "rebuild"
        elif out.is_floating_point() and not torch.is_grad_enabled():
            kind = "no-grad"
        elif op in _COMPARE:
            kind = "hard-sample" if any(_store(t) in self._marks["random"] for t in inputs) else "compare"
        elif op in {"bernoulli", "multinomial", "poisson"}:
            kind = "hard-sample"
        elif not out.is_floating_point() and op in _INTEGERS and out.dtype != torch.bool:
            kind = "to-integer"
        else:
            kind = "index" if not out.is_floating_point() else "detach"
        self._note(kind, func, sources, attached[0], late=late)

    def _read(self, func: Any, op: str, inputs: list[Tensor], sources: frozenset[str]) -> None:
        if op in _READS:
            self._note("host-read", func, sources, inputs[0])
        self._note("host", func, sources, inputs[0])

    def _wrote(self, func: Any, tensor: Tensor, sources: frozenset[str]) -> None:
        target = self._of(tensor)
        store = _store(tensor)
        self._taint(tensor, sources)
        self.writes.append(live_place())
        if store in self._inputs:
            self._note("write", func, frozenset({self._inputs[store]}))
        if id(tensor) in self._marks["data"] and (target or tensor.requires_grad):
            self._note("data-write", func, target)
        if id(tensor) in self._marks["expanded"] or _expanded(tensor):
            self._note("stride-0", func, target or sources)

    def _inherit(self, out: Tensor, inputs: list[Tensor], op: str, random: bool) -> None:
        """Copy the marks of an argument to its views."""
        viewed = [t for t in inputs if _store(t) == _store(out)]
        if op in {"data.__get__", "detach"} or any(id(t) in self._marks["data"] for t in viewed):
            self._mark("data", out, id(out))
        if _expanded(out) or any(id(t) in self._marks["expanded"] or _expanded(t) for t in viewed):
            self._mark("expanded", out, id(out))
        if random or (any(_store(t) in self._marks["random"] for t in inputs) and not self._of(out)):
            self._mark("random", out, _store(out))

    def _width(self, func: Any, out: Tensor, inputs: list[Tensor], sources: frozenset[str]) -> None:
        widths = [torch.finfo(t.dtype).bits for t in inputs if t.is_floating_point() and self._of(t)]
        if not widths or not out.is_floating_point() or not sources:
            return
        bits = torch.finfo(out.dtype).bits
        self.bits = min(self.bits, bits)
        if bits != max(widths):
            self._note("narrow" if bits < max(widths) else "widen", func, sources, str(out.dtype).removeprefix("torch."))

    def _note(self, kind: str, func: Any, sources: frozenset[str], node: Tensor | str = "", *, late: bool = False) -> None:
        if isinstance(node, Tensor):
            node = node_name(node.grad_fn) if node.grad_fn is not None else "a leaf" if node.requires_grad else ""
        block = self._block if kind == "no-grad" else None
        event = Event(kind, func if isinstance(func, str) else pretty(func), live_place(), sources, node, late, block)
        if event not in self.events:
            self.events.append(event)

    def _of(self, tensor: Tensor) -> frozenset[str]:
        """Return the leaves a tensor depends on; for unknown tensors (made by user backward code), read them from its graph."""
        try:
            known = self._sources.get(_store(tensor))
        except (RuntimeError, NotImplementedError):
            return frozenset()
        if known is None:
            known = frozenset[str]()
            if tensor.grad_fn is not None:
                known = frozenset(self._names[i] for i in attached_leaves(tensor.grad_fn) if i in self._names)
            self._taint(tensor, known)
        return known

    def _taint(self, tensor: Tensor, sources: frozenset[str]) -> None:
        store = _store(tensor)
        self._sources[store] = self._sources.get(store, frozenset()) | sources
        self._kept.append(tensor)

    def _mark(self, mark: str, tensor: Tensor, key: int) -> None:
        self._marks[mark].add(key)
        self._kept.append(tensor)


def _op(func: Any) -> str:
    name = str(getattr(func, "__name__", func))
    if name in {"__get__", "__set__"}:
        return f"{getattr(getattr(func, '__self__', None), '__name__', '?')}.{name}"
    return name


def pretty(func: Any) -> str:
    """Return an operation's name as users write it."""
    public_name = resolve_name(func)
    return str(public_name or _op(func)).replace(".__get__", "").replace("torch._C.TensorBase", "torch.Tensor")


def _read_values(op: str, inputs: list[Tensor], kwargs: Mapping[str, Any]) -> list[Tensor]:
    """Return the tensors whose values an operation reads; of the others it reads only shape, dtype or device."""
    if op in _LIKE_FIRST:
        return inputs[:1]
    if op.endswith("_like") or (op.startswith("new_") and op != "new_tensor"):
        first = [kwargs["input"]] if "input" in kwargs else inputs[:1]
        return [t for t in inputs if not any(t is f for f in first)]
    return inputs


def _store(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _version(tensor: Tensor) -> int:
    try:
        return int(tensor._version)
    except RuntimeError:
        return -1


def _expanded(tensor: Tensor) -> bool:
    return any(s == 0 and n > 1 for s, n in zip(tensor.stride(), tensor.shape, strict=True))
