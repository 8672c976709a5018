"""Find the line that makes a gradient disagree with finite differences: every candidate is tested by running the call again.

A line that cuts the path makes autograd treat its result as a constant. So the call is run again with that result held at its
recorded value: if finite differences of *that* function agree with autograd, the line explains the whole disagreement. The
smallest set of lines that explains it is blamed. A hook is blamed if the gradient without it agrees; a custom backward if it
disagrees with finite differences of its own forward.

Owns: these three tests.
Must not: word findings.
Read next: ``checks/agreement.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import _SingleLevelFunction
from torch.overrides import TorchFunctionMode

from pellucid.audit.differences import slope, step_for, tolerance_for
from pellucid.audit.place import code_place, live_place
from pellucid.audit.trace import NEW_LEAF, RANDOM, Event, pretty
from pellucid.audit.tree import floats, leaves, rebuild

__all__ = ["Applied", "Draws", "Frozen", "Unhooked", "disagrees", "hooks", "smallest"]

_Key = tuple[str, str | None]
_ORDER = ["rebuild", "detach", "no-grad", "host", "hard-sample", "to-integer", "compare", "index"]
_MOST = 16


def key_of(event: Event) -> _Key:
    """Return the operation and line of an event, which identify it in another run."""
    return event.op, event.place


def ranked(cuts: list[Event]) -> list[Event]:
    """Sort cuts: those of an attached tensor first, whole-tensor cuts before comparisons and indices."""
    return sorted(cuts, key=lambda e: (not e.node, _ORDER.index(e.kind)))


def smallest(cuts: list[Event], explains: Callable[[list[Event]], bool]) -> list[Event]:
    """Return a minimal set of cuts that explains a disagreement, most likely first; empty if all together do not explain it."""
    kept = ranked(cuts)[:_MOST]
    if not kept or not explains(kept):
        return []
    for event in reversed(list(kept)):
        rest = [e for e in kept if e is not event]
        if rest and explains(rest):
            kept = rest
    return kept


class Frozen(TorchFunctionMode):
    """Holds the results of some lines at recorded values: the first ``with`` block records them, later ones return them."""

    def __init__(self, events: list[Event], known: set[int]) -> None:
        super().__init__()
        self._keys = {key_of(e) for e in events}
        self._ops = {op for op, _ in self._keys}
        self._known = known  # ids of the audited leaves, which the call did not make
        self._values: dict[_Key, list[Any]] = {k: [] for k in self._keys}
        self._used: dict[_Key, int] | None = None

    def __enter__(self) -> Frozen:
        self._used = None if self._used is None else dict.fromkeys(self._keys, 0)
        super().__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._used = {} if self._used is None else self._used
        super().__exit__(*error)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if NEW_LEAF in self._ops:
            args, kwargs = self._leafless(args, kwargs)
        op = pretty(func)
        if op not in self._ops:
            return func(*args, **kwargs)
        key = op, live_place()
        if key not in self._keys:
            return func(*args, **kwargs)
        return self._held(key, lambda: func(*args, **kwargs))

    def _held(self, key: _Key, compute: Callable[[], Any]) -> Any:
        if self._used is None:
            out = compute()
            self._values[key].append(_copy(out))
            return out
        index = self._used[key]
        self._used[key] += 1
        return _copy(self._values[key][index]) if index < len(self._values[key]) else compute()

    def _leafless(self, args: Any, kwargs: Any) -> tuple[list[Any], dict[str, Any]]:
        """Hold the leaves that the call made for itself."""
        key = NEW_LEAF, live_place()
        if key not in self._keys:
            return args, kwargs

        def held(_: str, tensor: Tensor) -> Tensor:
            new = tensor.is_leaf and tensor.requires_grad and id(tensor) not in self._known
            return self._held(key, lambda: tensor) if new else tensor

        built = rebuild((list(args), dict(kwargs)), held)
        return built[0], built[1]


def _copy(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.copy()
    return rebuild(value, lambda _, t: t.detach().clone()) if isinstance(value, Tensor | tuple | list) else value


class Draws(TorchFunctionMode):
    """Records the lines that draw random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.places: list[str | None] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in RANDOM:
            self.places.append(live_place())
        return func(*args, **(kwargs or {}))


class Unhooked(TorchFunctionMode):
    """Skips the registration of hooks at one place."""

    def __init__(self, place: str | None) -> None:
        super().__init__()
        self._place = place

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") == "register_hook" and live_place() == self._place:
            return _NoHandle()
        return func(*args, **(kwargs or {}))


class _NoHandle:
    def remove(self) -> None:
        """Nothing was registered."""


def hooks(modules: list[torch.nn.Module], params: list[Tensor]) -> list[tuple[str | None, AbstractContextManager[None]]]:
    """Return the backward hooks of modules and parameters: where each is written, and a context manager that disables it."""
    pairs: list[tuple[str | None, AbstractContextManager[None]]] = []
    for owner in [*modules, *params]:
        for name in ("_backward_hooks", "_backward_pre_hooks"):
            table = getattr(owner, name, None) or {}
            pairs += [(code_place(hook), _without(table, key)) for key, hook in table.items()]
    return pairs


@contextmanager
def _without(table: dict[Any, Any], key: Any) -> Iterator[None]:
    kept = table.pop(key)
    try:
        yield
    finally:
        table[key] = kept


class Applied:
    """Records the custom functions a run applies, with their arguments."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []

    def __enter__(self) -> Applied:
        calls = self.calls

        def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
            calls.append((cls, args, kwargs))
            return super(_SingleLevelFunction, cls).apply(*args, **kwargs)  # type: ignore[misc]

        _SingleLevelFunction.apply = classmethod(apply)  # type: ignore[attr-defined]
        return self

    def __exit__(self, *error: object) -> None:
        del _SingleLevelFunction.apply  # type: ignore[attr-defined]


def disagrees(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any], rewind: Callable[[], None], eps: float) -> bool:
    """Whether a custom function's backward is not the derivative of its own forward."""
    generator = torch.Generator().manual_seed(50_021)
    start = {k: t.detach().clone() for k, t in leaves((list(args), kwargs)).items()}
    moving = {
        k: torch.randn(t.shape, generator=generator, dtype=torch.float64).to(t)
        for k, t in leaves((list(args), kwargs)).items()
        if t.is_floating_point() and t.requires_grad
    }

    def run(t: float, roots: dict[str, Tensor] | None = None) -> list[Tensor]:
        rewind()
        values = {k: v + t * moving[k] if k in moving else v.clone() for k, v in start.items()}
        if roots is not None:
            roots.update({k: values[k].detach().requires_grad_() for k in moving})
            values.update(roots)
        built = rebuild((list(args), dict(kwargs)), lambda k, old: values.get(k, old))
        return floats(cls.apply(*built[0], **built[1]))

    roots: dict[str, Tensor] = {}
    try:
        outs = run(0.0, roots)
        weights = [torch.randn(o.shape, generator=generator, dtype=torch.float64).to(o) for o in outs]
        live = [(o, w) for o, w in zip(outs, weights, strict=True) if o.requires_grad]
        rewind()
        slopes = torch.autograd.grad([o for o, _ in live], list(roots.values()), [w for _, w in live], allow_unused=True)
        expected = sum(float((g.double() * moving[k].double()).sum()) for k, g in zip(roots, slopes, strict=True) if g is not None)

        def along(t: float) -> float:
            with torch.no_grad():
                pairs = zip(run(t), outs, weights, strict=True)
                return sum(float(((o - b).double() * w.double()).sum()) for o, b, w in pairs)

        total = sum(float((o.detach() * w).double().abs().sum()) for o, w in zip(outs, weights, strict=True))
        count = max(1.0, sum(w.numel() for w in weights))
        found_slope = slope(
            along, expected, step=step_for(eps), scale=0.0, rounding=4 * eps * total / count**0.5, tolerance=tolerance_for(eps)
        )
    except Exception:
        return True
    return found_slope.verdict == "wrong"
