"""Values that several checks share, computed once per audit: the widest working precision, a generic point, gradients, a trace.

Owns: computing and keeping these values for the checks of one process; finding the user's line that draws random numbers.
Must not: emit findings.
Read next: ``checks/agreement.py``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cached_property, partial
from types import FrameType
from typing import Any

import torch
from torch import Tensor

from pellucid.audit.backward import Step, watched
from pellucid.audit.causes import Applied, Draws, disagrees
from pellucid.audit.lift import Lifted
from pellucid.audit.place import backward_place, custom_nodes, is_users, node_name, short, walk
from pellucid.audit.replay import Replay
from pellucid.audit.settings import Settings
from pellucid.audit.subject import Point, Subject
from pellucid.audit.trace import Tracer
from pellucid.audit.tree import floats

__all__ = ["Context", "size_of"]


class Context:
    """Shared, lazily computed facts about one subject."""

    def __init__(self, subject: Subject, settings: Settings) -> None:
        self.subject = subject
        self.settings = settings
        self.announce: Callable[[str], None] | None = None
        self.spent = 0.0  # processor seconds that further conditions took

    @cached_property
    def first(self) -> tuple[list[Step], dict[str, Tensor | None]]:
        """The watched backward pass at the given inputs in the given dtype.

        It runs before anything else: when a parameter changes its dtype, autograd forgets graphs that were built on it earlier,
        such as the copy that a stale sampler took at construction.
        """
        return watched(self.subject, self.subject.point(), self.announce)

    @cached_property
    def native(self) -> list[Tensor]:
        """The outputs of the first call: at the given inputs, before a float64 run leaves anything behind."""
        return self.subject.run(self.subject.point())

    @cached_property
    def dtype(self) -> torch.dtype:
        """float64 if the subject runs in it, perhaps with its casts lifted; else the dtype it was given."""
        wide = self.subject.point(torch.float64)
        if self._reaches(wide):
            return torch.float64
        lift = Lifted()
        with self.subject.lifted(lift):
            reached = self._reaches(wide) and self._same_function(wide)
        if reached:
            self.subject.lift = lift
            return torch.float64
        try:
            self.subject.gradient(wide)
        except Exception:
            return self.subject.native
        return torch.float64

    def _reaches(self, wide: dict[str, Tensor]) -> bool:
        """Whether a run at a float64 point computes in float64 from end to end."""
        try:
            outs, _ = self.subject.gradient(wide)
            return all(o.dtype == torch.float64 for o in outs) and self._watch(wide)[0].bits == 64
        except Exception:
            return False

    def _same_function(self, wide: dict[str, Tensor]) -> bool:
        """Whether the lifted call returns the same as the original call, to within the latter's precision."""
        lifted = self.subject.run(wide)
        with self.subject.lifted(None):
            plain = self.subject.run(self.subject.point())
        sizes = [float(p.double().nan_to_num().abs().max()) if p.numel() else 0.0 for p in plain]
        return len(plain) == len(lifted) and all(
            a.shape == b.shape and torch.allclose(a, b.double(), 0.0, 0.05 * size + 1e-30, equal_nan=True)
            for a, b, size in zip(lifted, plain, sizes, strict=True)
        )

    @property
    def precision(self) -> str:
        """The precision of the checks, in words."""
        bits = {2.3e-16: "float64", 1.2e-7: "float32", 1e-3: "float16", 8e-3: "bfloat16"}[self.eps]
        return f"{bits}, casts lifted" if self.subject.lift is not None else bits

    @cached_property
    def eps(self) -> float:
        """The rounding unit of the narrowest float on the way from inputs to outputs."""
        widths = [torch.finfo(o.dtype).bits for o in self.outs] + [self.trace.bits]
        narrow = self.dtype == torch.bfloat16 or any(e.node == "bfloat16" for e in self.trace.of("narrow"))
        return {64: 2.3e-16, 32: 1.2e-7}.get(min(widths), 8e-3 if narrow else 1e-3)

    @cached_property
    def given(self) -> dict[str, Tensor]:
        """The point the user gave, in the working precision."""
        return self.subject.point(self.dtype)

    @cached_property
    def generic(self) -> dict[str, Tensor]:
        """A point next to the given one, away from the kinks and ties that hand-made inputs have."""
        generator = torch.Generator().manual_seed(40_013)
        moved = {}
        for name, value in self.given.items():
            noise = torch.randn(value.shape, generator=generator, dtype=torch.float64).to(value.device, value.dtype)
            moved[name] = value + 1e-3 * size_of(value) * noise
        try:
            outs = self.subject.run(moved)
        except Exception:
            return self.given
        spoilt = any(not torch.isfinite(o).all() for o in outs)
        return self.given if spoilt else moved

    @cached_property
    def run(self) -> tuple[list[Tensor], dict[str, Tensor | None]]:
        """Outputs and gradients at the generic point."""
        return self.subject.gradient(self.generic)

    @property
    def outs(self) -> list[Tensor]:
        """Outputs at the generic point."""
        return self.run[0]

    @cached_property
    def weights(self) -> list[Tensor]:
        """The fixed output weights of the scalar that is differentiated."""
        return self.subject.weights(self.outs)

    @cached_property
    def trace(self) -> Tracer:
        """The events of one watched run at the generic point."""
        return self.watch(self.generic)

    def watch(self, point: Point) -> Tracer:
        """Run once under the tracer, and keep the custom nodes and the leaves of its graph."""
        tracer, nodes, roots = self._watch(point)
        self._custom = custom_nodes(nodes)
        self._reachable = {id(n.variable) for n in walk(nodes) if hasattr(n, "variable")}
        self._roots: dict[str, Any] = roots
        return tracer

    def look(self, point: Point) -> Tracer:
        """Return the events of a run at another point."""
        return self._watch(point)[0]

    def _watch(self, point: Point) -> tuple[Tracer, list[Any], dict[str, Tensor]]:
        """Run once under the tracer; return it, the graph's last nodes and its leaves."""
        subject = self.subject
        with subject.placed(point), torch.enable_grad():
            roots, handed = subject.handed(point)
            args, kwargs = subject.arguments(handed)
            tracer = Tracer({**roots, **subject.params}, handed)
            with torch.autograd.set_detect_anomaly(True, check_nan=False):
                subject.replay.rewind()
                with tracer:
                    result = subject.call(*args, **kwargs)
        return tracer, [o.grad_fn for o in floats(result)], {**roots, **subject.params}

    @cached_property
    def redrawn(self) -> tuple[list[str], str | None]:
        """The generators whose state a backward pass changes, and the line that draws from them."""
        states: list[dict[str, str]] = []

        def note() -> None:
            states.append(self.subject.replay.states())

        self._backward(note)
        before, after = states
        moved = [k for k in before if before[k] != after[k]]
        if not moved:
            return [], None
        place: list[str | None] = []
        self._backward(lambda: None, lambda run: place.append(drawing_line(self.subject.replay, run)))
        return moved, place[0]

    @cached_property
    def drawn_in_backward(self) -> list[str | None]:
        """The lines that draw random numbers during a backward pass, from any generator."""
        draws = Draws()

        def run(backward: Callable[[], object]) -> None:
            with draws:
                backward()

        self._backward(lambda: None, run)
        return draws.places

    def _backward(self, note: Callable[[], None], around: Callable[[Callable[[], object]], object] | None = None) -> None:
        """Run forward, then backward with ``note`` called before and after it, optionally inside ``around``."""
        subject = self.subject
        with subject.placed(self.generic):
            outs, roots = subject.graph(self.generic)
            live = [o for o in outs if o.requires_grad]
            wanted = {k: r for k, r in roots.items() if r.requires_grad}
            note()
            if live and wanted:
                weights = [torch.ones_like(o) for o in live]
                run = partial(subject.reverse, live, wanted, weights)
                run() if around is None else around(run)
            note()

    @cached_property
    def random(self) -> bool:
        """Whether a run changes the state of any generator."""
        self.subject.rewind()
        before = self.subject.replay.states()
        self.subject.run(self.generic)  # rewinds first
        return self.subject.replay.states() != before

    @cached_property
    def repeatable(self) -> bool:
        """Whether two runs agree closely enough for finite differences to be meaningful."""
        first, second = self.subject.run(self.generic), self.subject.run(self.generic)
        return all(
            a.shape == b.shape and torch.allclose(a, b, 1e-9, 0.0, equal_nan=True) for a, b in zip(first, second, strict=True)
        )

    @property
    def suspects(self) -> list[tuple[str, str | None]]:
        """Name and line of the backward nodes that are user code; nodes whose backward is not the derivative come first."""
        nodes = sorted(self._nodes, key=lambda n: getattr(type(n), "_forward_cls", None) not in self._liars)
        return [(node_name(n), backward_place(n)) for n in nodes]

    @property
    def custom_place(self) -> str | None:
        """The line of the first custom backward, those that are wrong by themselves before the others."""
        return self.suspects[0][1] if self.suspects else None

    @property
    def guilty(self) -> list[tuple[str, str | None]]:
        """Name and line of the nodes whose own backward disagrees with finite differences of their own forward."""
        nodes = [n for n in self._nodes if getattr(type(n), "_forward_cls", None) in self._liars]
        return [(node_name(n), backward_place(n)) for n in nodes]

    @property
    def _nodes(self) -> list[Any]:
        assert self.trace is not None
        return self._custom

    @cached_property
    def _liars(self) -> set[Any]:
        """The custom functions whose backward is not the derivative of their forward."""
        if not self._nodes:
            return set()
        with self.subject.placed(self.generic):
            with Applied() as applied:
                self.subject.graph(self.generic)
            return {cls for cls, args, kwargs in applied.calls if disagrees(cls, args, kwargs, self.subject.rewind, self.eps)}

    def reachable(self, name: str) -> bool:
        """Whether the graph contains a leaf, even if no gradient arrives there."""
        assert self.trace is not None
        return id(self._roots[name]) in self._reachable


def size_of(value: Tensor) -> float:
    """Return the root mean square of a tensor, or 1 if that is 0 or not finite."""
    if value.numel() == 0:
        return 1.0
    rms = float(value.detach().double().square().mean().sqrt())
    return rms if 0 < rms < float("inf") else 1.0


def drawing_line(replay: Replay, call: Callable[[], object]) -> str | None:
    """Run ``call`` and return the first user line after which any generator's state has changed."""
    state = replay.states()
    last: tuple[str, int] | None = None
    lines: list[str] = []

    def settle() -> None:
        nonlocal state
        if last is not None and not lines:
            now = replay.states()
            if now != state:
                lines.append(short(*last))
            state = now

    def watch(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal last
        if lines or not is_users(frame.f_code.co_filename):
            return None
        if event in {"line", "return", "exception"}:
            settle()
        if event == "line":
            last = (frame.f_code.co_filename, frame.f_lineno)
        return watch

    before = sys.gettrace()
    sys.settrace(watch)
    try:
        call()
    finally:
        sys.settrace(before)
    settle()
    return lines[0] if lines else None
