"""The callable under audit as a function of named tensors, with randomness and state rewound before every run.

Owns: naming inputs and parameters, running at a chosen point and precision, reverse-mode gradients with fixed weights.
Must not: judge a result.
Read next: ``checks/agreement.py``.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import _engine_run_backward

from pellucid.audit.reach import held_leaves
from pellucid.audit.replay import Replay
from pellucid.audit.tree import floats, leaves, rebuild
from pellucid.errors import invalid, wrong_type

__all__ = ["Point", "Refused", "Subject"]

Point = Mapping[str, Tensor]


class Refused(RuntimeError):  # noqa: N818 - it says what happened
    """``torch.autograd.grad`` was refused; the next attempt goes through ``backward()``."""


class Subject:
    """A callable, its arguments, and the named floating-point tensors a gradient may be asked for.

    Args:
        fn: Any callable; an ``nn.Module`` or bound method brings its parameters; an object with ``draw`` and ``apply`` is
            audited with its draws replayed.
        inputs: A tensor, a tuple or list of positional arguments, or a dict of keyword arguments (one dict argument for
            objects with ``draw`` and ``apply``).
        params: Further leaf tensors the callable reads, by name.
        seed: Every generator starts from it in each run.
    """

    def __init__(self, fn: Any, inputs: Any, params: Mapping[str, Tensor] | None = None, *, seed: int = 0) -> None:
        if not callable(fn) and not _is_pipeline(fn):
            raise wrong_type("fn", expected="a callable or an object with draw and apply", got=type(fn).__name__)
        self.fn = fn
        self.replay = Replay(fn, seed)
        self.args, self.kwargs = _arguments(fn, inputs)
        self.module = _module(fn)
        self.params: dict[str, Tensor] = dict(params or {})
        self.unnamed: dict[str, Tensor] = {}
        if params is None:
            own = dict(self.module.named_parameters()) if self.module is not None else {}
            self.params.update({n: p for n, p in own.items() if p.is_floating_point()})
            owned = {id(t) for t in [*own.values(), *leaves(inputs).values()]}
            self.unnamed = {n: p for n, p in held_leaves(fn).items() if id(p) not in owned and n not in self.params}
            self.params.update(self.unnamed)
        self._buffers = [(b, b.detach().clone()) for b in self.module.buffers()] if self.module is not None else []
        named = leaves((_names(fn, self.args), self.kwargs))
        self.inputs = {_title(k): v for k, v in named.items() if v.is_floating_point()}
        self.others = {_title(k): v for k, v in named.items() if not v.is_floating_point()}
        if not self.inputs and not self.params:
            raise invalid("inputs", expected="at least one floating-point tensor among inputs and parameters", got="none")
        self.base: dict[str, Tensor] = {k: v.detach().clone() for k, v in {**self.inputs, **self.params}.items()}
        self._call = _replayed(fn, self.args, self.kwargs, self.replay)
        self.modes: list[AbstractContextManager[Any]] = []  # entered around every call
        self.lift: AbstractContextManager[Any] | None = None  # entered last around float64 calls, to see torch calls first
        self.returned: type | None = None  # the type of the last result
        self._wide = False
        self._plain_grad = True
        self._layout: Callable[[Tensor], Tensor] = lambda value: value

    @property
    def name(self) -> str:
        """The subject's name in a report."""
        fn = self.fn.func if isinstance(self.fn, functools.partial) else self.fn
        qualified = str(getattr(fn, "__qualname__", None) or getattr(fn, "__name__", None) or type(fn).__name__)
        return qualified.removeprefix("_VariableFunctionsClass.")

    @property
    def judged(self) -> list[str]:
        """The leaves whose gradients are judged: inputs, and parameters that require one."""
        return [k for k in self.base if k not in self.params or self.params[k].requires_grad]

    @property
    def native(self) -> torch.dtype:
        """The widest dtype among the leaves as they were given."""
        return max((t.dtype for t in self.base.values()), key=lambda d: torch.finfo(d).bits)

    def arguments(self, values: Mapping[str, Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the call's arguments with the named inputs replaced."""
        names = _names(self.fn, self.args)
        built = rebuild((names, self.kwargs), lambda k, t: values.get(_title(k), self.others.get(_title(k), t)))
        return tuple(built[0].values()), dict(built[1])

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Rewind randomness and buffers, and run the callable on these arguments."""
        self.rewind()
        process = os.getpid()
        with self.within():
            result = self._call(*args, **kwargs)
        if os.getpid() != process:
            os._exit(0)  # the call forked: only the original process goes on
        self.returned = type(result)
        return result

    def within(self) -> ExitStack:
        """Enter all modes under which the callable runs."""
        stack = ExitStack()
        for mode in self.modes:
            stack.enter_context(mode)
        if self.lift is not None and self._wide:
            stack.enter_context(self.lift)
        return stack

    @contextmanager
    def under(self, mode: AbstractContextManager[Any]) -> Iterator[None]:
        """Run every call inside under one more mode."""
        self.modes.insert(0, mode)
        try:
            yield
        finally:
            self.modes.remove(mode)

    @contextmanager
    def _having(self, name: str, value: Any) -> Iterator[None]:
        """Give an attribute another value inside a ``with`` block."""
        kept = getattr(self, name)
        setattr(self, name, value)
        try:
            yield
        finally:
            setattr(self, name, kept)

    def calling(self, call: Callable[..., Any]) -> AbstractContextManager[None]:
        """Replace the callable inside a ``with`` block."""
        return self._having("_call", call)

    def lifted(self, lift: AbstractContextManager[Any] | None) -> AbstractContextManager[None]:
        """Use this lift for calls at float64 points inside a ``with`` block."""
        return self._having("lift", lift)

    def laid_out(self, layout: Callable[[Tensor], Tensor]) -> AbstractContextManager[None]:
        """Pass inputs in another memory layout inside a ``with`` block."""
        return self._having("_layout", layout)

    def altered(self, others: Mapping[str, Tensor]) -> AbstractContextManager[None]:
        """Pass other integer or boolean inputs inside a ``with`` block."""
        return self._having("others", dict(others))

    def by_backward(self) -> AbstractContextManager[None]:
        """Differentiate by ``backward()`` inside a ``with`` block, as training does: also through graphs of earlier calls."""
        return self._having("_plain_grad", False)

    def bare(self, *args: Any, **kwargs: Any) -> Any:
        """Run the callable without rewinding anything."""
        return self._call(*args, **kwargs)

    def rewind(self) -> None:
        """Set generators and buffers to the state in which every run starts."""
        self.replay.rewind()
        self._reset()

    def _reset(self) -> None:
        with torch.no_grad():
            for buffer, start in self._buffers:
                buffer.copy_(start)

    def restore(self) -> None:
        """Restore the original values of parameters and buffers."""
        self._reset()
        with torch.no_grad():
            for name, parameter in self.params.items():
                parameter.copy_(self.base[name])

    def run(self, point: Point) -> list[Tensor]:
        """Return the floating-point outputs at a point. The callable gets clones of the inputs."""
        with self.placed(point), torch.enable_grad():
            args, kwargs = self.arguments(self.handed(point)[1])
            return [t.detach().clone() for t in floats(self.call(*args, **kwargs))]

    def graph(self, point: Point, *, asked: Collection[str] | None = None) -> tuple[list[Tensor], dict[str, Tensor]]:
        """Return outputs with their graph, and the leaves to differentiate with respect to. Call inside :meth:`placed`."""
        with torch.enable_grad():
            roots, handed = self.handed(point, asked)
            args, kwargs = self.arguments(handed)
            outs = floats(self.call(*args, **kwargs))
        return outs, {**roots, **self.params}

    def handed(self, point: Point, asked: Collection[str] | None = None) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Return the inputs as leaves (those in ``asked`` require a gradient), and clones that the callable may write to."""
        roots = {k: point[k].detach().clone().requires_grad_(asked is None or k in asked) for k in self.inputs if k in point}
        return roots, {k: self._layout(v.clone()) for k, v in roots.items()}

    def gradient(
        self,
        point: Point,
        weights: Sequence[Tensor | None] | None = None,
        *,
        between: Callable[[], object] | None = None,
        asked: Collection[str] | None = None,
    ) -> tuple[list[Tensor], dict[str, Tensor | None]]:
        """Return outputs and the gradient of their weighted sum to every leaf, None where autograd has no path.

        ``weights`` replaces the fixed weights (None leaves an output out); ``between`` is called between forward and backward;
        only the leaves in ``asked`` require a gradient, by default all.
        """
        try:
            return self._gradient(point, weights, between, asked)
        except Refused:
            return self._gradient(point, weights, between, asked)

    def _gradient(
        self,
        point: Point,
        weights: Sequence[Tensor | None] | None,
        between: Callable[[], object] | None,
        asked: Collection[str] | None,
    ) -> tuple[list[Tensor], dict[str, Tensor | None]]:
        with self.placed(point), self._frozen(asked):
            outs, roots = self.graph(point, asked=asked)
            pairs = zip(outs, self.weights(outs) if weights is None else weights, strict=True)
            live = [(o, w) for o, w in pairs if o.requires_grad and w is not None]
            wanted = {k: r for k, r in roots.items() if r.requires_grad}
            grads: dict[str, Tensor | None] = dict.fromkeys(roots)
            if between is not None:
                between()
            if live and wanted:
                grads.update(self.reverse([o for o, _ in live], wanted, [w for _, w in live]))
            return [o.detach() for o in outs], grads

    @contextmanager
    def _frozen(self, asked: Collection[str] | None) -> Iterator[None]:
        """Freeze the parameters that are not in ``asked``."""
        frozen = [] if asked is None else [p for k, p in self.params.items() if k not in asked and p.requires_grad]
        for p in frozen:
            p.requires_grad_(False)
        try:
            yield
        finally:
            for p in frozen:
                p.requires_grad_()

    def again(self, point: Point) -> None:
        """Call once more without rewinding buffers, as a training step with two forward passes does."""
        args, kwargs = self.arguments(self.handed(point)[1])
        with torch.enable_grad(), self.within():
            self._call(*args, **kwargs)

    def reverse(self, live: list[Tensor], wanted: Mapping[str, Tensor], weights: list[Tensor]) -> dict[str, Tensor | None]:
        """Return the gradient to every wanted leaf, through ``backward()`` where ``torch.autograd.grad`` is refused.

        Reentrant checkpoints refuse it: then :class:`Refused` is raised once, and the caller starts again. The ``grad`` fields
        of the leaves are restored. The engine is called directly, because torch.autograd.grad switches the modes off, which then
        would not see the operations that backward recomputes.
        """
        with self.within():
            if self._plain_grad:
                try:
                    to, options = tuple(wanted.values()), {"allow_unreachable": True, "accumulate_grad": False}
                    slopes = _engine_run_backward(tuple(live), tuple(weights), False, False, to, **options)
                    return {k: None if g is None else g.detach() for k, g in zip(wanted, slopes, strict=True)}
                except RuntimeError as error:
                    if "incompatible with .grad()" not in str(error):
                        raise
                    self._plain_grad = False
                    raise Refused(str(error)) from None  # part of the graph is freed already
            kept = {k: t.grad for k, t in wanted.items()}
            for t in wanted.values():
                t.grad = None
            try:
                _engine_run_backward(tuple(live), tuple(weights), False, False, (), allow_unreachable=True, accumulate_grad=True)
                return {k: None if t.grad is None else t.grad.detach() for k, t in wanted.items()}
            finally:
                for k, t in wanted.items():
                    t.grad = kept[k]

    def weights(self, outs: list[Tensor]) -> list[Tensor]:
        """Return fixed, normally distributed weights for the outputs, zero where an output is not finite."""
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
        wide, self._wide = self._wide, dtype == torch.float64
        try:
            for name, p in self.params.items():
                if name in point:
                    p.data = point[name].detach().clone()
            for buffer, data in buffers:
                buffer.data = data.to(dtype) if dtype != data.dtype else data
            yield
        finally:
            self._wide = wide
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
    """Return the function to call: the callable itself or, for a pipeline, ``apply`` with one fixed draw.

    A pipeline with parameters draws anew in every call, because parameters may act through the draw; if ``draw`` takes a ``key``,
    it gets the first record's. An object that does not follow this protocol is called as it is.
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
