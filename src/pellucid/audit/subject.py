"""The callable under audit as a function of named tensors, with randomness and state rewound before every run.

Owns: naming inputs and parameters, running at a chosen point and precision, reverse-mode gradients with fixed weights.
Must not: judge a result; every number here is raw.
Read next: ``checks/agreement.py``.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from pellucid.audit.replay import Replay
from pellucid.audit.tree import floats, leaves, rebuild
from pellucid.errors import invalid, wrong_type

__all__ = ["Point", "Subject"]

Point = Mapping[str, Tensor]


class Subject:
    """A callable, its arguments, and the named floating-point tensors a gradient may be asked for.

    Args:
        fn: Any callable; an ``nn.Module`` or bound method brings its parameters; an object with ``draw`` and ``apply`` is
            audited with its draws replayed.
        inputs: A tensor, a tuple or list of positional arguments, or a dict of keyword arguments (one dict argument for
            objects with ``draw`` and ``apply``).
        params: Further leaf tensors the callable reads, by name.
        seed: What the generators are set to before every run.
    """

    def __init__(self, fn: Any, inputs: Any, params: Mapping[str, Tensor] | None = None, *, seed: int = 0) -> None:
        if not callable(fn) and not _is_pipeline(fn):
            raise wrong_type("fn", expected="a callable or an object with draw and apply", got=type(fn).__name__)
        self.fn = fn
        self.replay = Replay(fn, seed)
        self.args, self.kwargs = _arguments(fn, inputs)
        self.module = _module(fn)
        self.params: dict[str, Tensor] = dict(params or {})
        if self.module is not None and params is None:
            self.params = {n: p for n, p in self.module.named_parameters() if p.is_floating_point()}
        self._buffers = [(b, b.detach().clone()) for b in self.module.buffers()] if self.module is not None else []
        named = leaves((_names(fn, self.args), self.kwargs))
        self.inputs = {_title(k): v for k, v in named.items() if v.is_floating_point()}
        self.others = {_title(k): v for k, v in named.items() if not v.is_floating_point()}
        if not self.inputs and not self.params:
            raise invalid("inputs", expected="at least one floating-point tensor among inputs and parameters", got="none")
        self.base: dict[str, Tensor] = {k: v.detach().clone() for k, v in {**self.inputs, **self.params}.items()}
        self._call = _replayed(fn, self.args, self.kwargs, self.replay)

    @property
    def name(self) -> str:
        """What to call the subject in a report."""
        fn = self.fn.func if isinstance(self.fn, functools.partial) else self.fn
        found = str(getattr(fn, "__qualname__", None) or getattr(fn, "__name__", None) or type(fn).__name__)
        return found.removeprefix("_VariableFunctionsClass.")

    @property
    def native(self) -> torch.dtype:
        """The widest dtype among the leaves as they were given."""
        return max((t.dtype for t in self.base.values()), key=lambda d: torch.finfo(d).bits)

    def arguments(self, values: Mapping[str, Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return call arguments with the named inputs replaced."""
        names = _names(self.fn, self.args)
        built = rebuild((names, self.kwargs), lambda k, t: values.get(_title(k), t))
        return tuple(built[0].values()), dict(built[1])

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Run the callable on these arguments with randomness and buffers rewound."""
        self.rewind()
        return self._call(*args, **kwargs)

    def bare(self, *args: Any, **kwargs: Any) -> Any:
        """Run the callable as it is, without rewinding anything."""
        return self._call(*args, **kwargs)

    def rewind(self) -> None:
        """Put generators and buffers back to where every run starts."""
        self.replay.rewind()
        with torch.no_grad():
            for buffer, start in self._buffers:
                buffer.copy_(start)

    def restore(self) -> None:
        """Give parameters and buffers the values they came with."""
        with torch.no_grad():
            for buffer, start in self._buffers:
                buffer.copy_(start)
            for name, parameter in self.params.items():
                parameter.copy_(self.base[name])

    def run(self, point: Point) -> list[Tensor]:
        """Return the floating-point outputs at a point. Inputs are handed over as clones."""
        with self.placed(point), torch.no_grad():
            values = {k: point[k].detach().clone() for k in self.inputs if k in point}
            args, kwargs = self.arguments(values)
        with self.placed(point), torch.enable_grad():
            return [t.detach().clone() for t in floats(self.call(*args, **kwargs))]

    def graph(self, point: Point) -> tuple[list[Tensor], dict[str, Tensor]]:
        """Return outputs with their graph, and the leaves to differentiate to. Call inside :meth:`placed`."""
        roots = {k: point[k].detach().clone().requires_grad_() for k in self.inputs}
        args, kwargs = self.arguments({k: v.clone() for k, v in roots.items()})
        with torch.enable_grad():
            outs = floats(self.call(*args, **kwargs))
        return outs, {**roots, **self.params}

    def gradient(self, point: Point) -> tuple[list[Tensor], dict[str, Tensor | None]]:
        """Return outputs and the gradient of their weighted sum to every leaf, None where autograd has no path."""
        with self.placed(point):
            outs, roots = self.graph(point)
            live = [o for o in outs if o.requires_grad]
            wanted = {k: r for k, r in roots.items() if r.requires_grad}
            grads: dict[str, Tensor | None] = dict.fromkeys(roots)
            if live and wanted:
                weights = [w for o, w in zip(outs, self.weights(outs), strict=True) if o.requires_grad]
                found = torch.autograd.grad(live, list(wanted.values()), weights, allow_unused=True)
                grads.update({k: None if g is None else g.detach() for k, g in zip(wanted, found, strict=True)})
            return [o.detach() for o in outs], grads

    def weights(self, outs: list[Tensor]) -> list[Tensor]:
        """Return fixed normal weights for the outputs, zero where the output is not finite."""
        generator = torch.Generator().manual_seed(20_011)
        drawn = [torch.randn(o.shape, generator=generator, dtype=torch.float64).to(o.device, o.dtype) for o in outs]
        return [torch.where(torch.isfinite(o.detach()), w, torch.zeros_like(w)) for o, w in zip(outs, drawn, strict=True)]

    def point(self, dtype: torch.dtype | None = None, **changes: Tensor) -> dict[str, Tensor]:
        """Return the given point, in another dtype and with some leaves replaced."""
        return {k: changes.get(k, v).to(dtype or v.dtype) for k, v in self.base.items()}

    @contextmanager
    def placed(self, point: Point) -> Iterator[None]:
        """Give the parameters (in place) and the floating buffers the values and precision of a point; undo it afterwards."""
        kept = {k: p.data for k, p in self.params.items()}
        buffers = [(b, b.data) for b, _ in self._buffers if b.is_floating_point()]
        dtype = next(iter(point.values())).dtype
        try:
            for name, p in self.params.items():
                if name in point:
                    p.data = point[name].detach().clone()
            for buffer, data in buffers:
                buffer.data = data.to(dtype) if dtype != data.dtype else data
            yield
        finally:
            for name, p in self.params.items():
                p.data = kept[name]
            for buffer, data in buffers:
                buffer.data = data


def _is_pipeline(fn: Any) -> bool:
    return callable(getattr(fn, "draw", None)) and callable(getattr(fn, "apply", None)) and not isinstance(fn, type)


def _module(fn: Any) -> nn.Module | None:
    """Return the module behind a callable: itself, the owner of a bound method, or the target of a partial."""
    if isinstance(fn, functools.partial):
        fn = fn.func
    owner = getattr(fn, "__self__", fn)
    return owner if isinstance(owner, nn.Module) else None


def _arguments(fn: Any, inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(inputs, dict) and not _is_pipeline(fn):
        return (), dict(inputs)
    return (tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)), {}


def _names(fn: Any, args: tuple[Any, ...]) -> dict[str, Any]:
    """Name positional arguments after the callable's signature where it has one."""
    target = fn.forward if isinstance(fn, nn.Module) else fn
    try:
        known = [
            p.name for p in inspect.signature(target).parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
    except (TypeError, ValueError):
        known = []
    generic = ["input"] if len(args) == 1 else []
    return {(known[i] if i < len(known) else generic[i] if i < len(generic) else f"input{i}"): a for i, a in enumerate(args)}


def _title(path: str) -> str:
    """Drop the marker of positional (0) or keyword (1) arguments from a dotted name."""
    return path.split(".", 1)[1]


def _replayed(fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any], replay: Replay) -> Callable[..., Any]:
    """Return what to call: the callable itself, or a pipeline's ``apply`` with its draw repeated.

    A pipeline with parameters draws anew in every call, from the first record's ``key`` where ``draw`` takes one: its parameters
    may act through the draw. Whatever does not fit this protocol is called as it is.
    """
    if not _is_pipeline(fn):
        return fn
    replay.rewind()
    try:
        record = fn.draw(*args, **kwargs)
        fn.apply(*args, record, **kwargs)
        keyed = getattr(record, "key", None) is not None and "key" in inspect.signature(fn.draw).parameters
    except Exception:
        if not callable(fn):
            raise
        return fn
    learns = isinstance(fn, nn.Module) and any(p.requires_grad for p in fn.parameters())
    if learns and keyed:
        return lambda *a, **k: fn.apply(*a, fn.draw(*a, **k, key=record.key), **k)
    if learns:
        return fn if callable(fn) else lambda *a, **k: fn.apply(*a, fn.draw(*a, **k), **k)
    return lambda *a, **k: fn.apply(*a, record, **k)
