"""Search for the worst draw of each sample in the unit cube of uniforms.

Owns: starts, signed steps, keeping the best point, and leaving the model unchanged.
Must not: apply transforms, or know batches: the losses are a function of uniforms here.
Read next: ``module.py``, ``docs/worst-case.md``.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook

from pellucid.core.arguments import check_choice, whole_number
from pellucid.core.recording import check_recording
from pellucid.engine.plan import Draw
from pellucid.errors import invalid
from pellucid.random.distributions import Bernoulli, Categorical
from pellucid.random.internal import Bits, Permutation

__all__ = ["Found", "Search", "axes_of", "ends_of", "read_losses", "search_cube", "untouched"]

Losses: TypeAlias = Callable[[Float[Tensor, "b words"]], Float[Tensor, "b"]]
"""Maps uniforms to one loss for each sample."""

Draws: TypeAlias = Mapping[str, Draw]
"""The draws by step and name, such as ``0.degrees``."""

SEARCHES = ("random", "grid", "gradient")
_TAIL, _END = 1e-3, 1e-9  # the search's distance from 0 and 1, for distributions without and with finite ends
_FIRST_STEP, _LAST_STEP = 0.2, 0.01  # lengths in the unit interval
_MOST = 1 << 20


@dataclass(frozen=True)
class Search:
    """The settings of a search; `worst_draw` explains them."""

    draws: int | Mapping[str, int] = 16
    steps: int = 8
    method: str = "gradient"
    restarts: int = 2

    def __post_init__(self) -> None:
        check_choice("search", self.method, SEARCHES)
        if isinstance(self.draws, Mapping):
            for name, count in self.draws.items():
                whole_number(f"draws[{name!r}]", count, 1, _MOST)
            if self.method == "random":
                raise invalid("draws", expected="a whole number for a random search", got=dict(self.draws))
        else:
            whole_number("draws", self.draws, 1, _MOST)
        whole_number("steps", self.steps, 0, _MOST)
        whole_number("restarts", self.restarts, 1, _MOST)


@dataclass(frozen=True)
class Found:
    """The largest losses that a search has found.

    Args:
        at: the uniforms of each sample, (B, words).
        losses: at these uniforms, (B,).
        start: the losses of the plain draw, (B,).
        evaluations: how often the losses of the batch were computed.
    """

    at: Float[Tensor, "b words"]
    losses: Float[Tensor, "b"]
    start: Float[Tensor, "b"]
    evaluations: int


def search_cube(
    draws: Draws, losses: Losses, drawn: Callable[[int], Float[Tensor, "b words"]], how: Search, *, whole: bool, check: bool
) -> Found:
    """Search for the largest loss of each sample.

    Args:
        draws: the draws that the words belong to.
        losses: maps uniforms to the losses of the batch.
        drawn: returns the uniforms of the k-th draw; number 0 is the plain one.
        how: the settings.
        whole: all samples share their draws, so that the mean loss is maximised.
        check: test with one more evaluation whether the losses mix the samples.
    """
    if how.method == "gradient" and how.steps:
        check_recording("Pipeline.worst")
    low, high = ends_of({} if how.method == "random" else draws, drawn(0))
    starts = _starts(draws, drawn, how, low, high)
    seen: list[Tensor] = []
    count = 0

    def ask(at: Tensor) -> Tensor:
        nonlocal count
        count += 1
        found = read_losses(losses(at), len(at))
        return found.mean().expand(len(at)) if whole else found

    with torch.no_grad():
        seen = [ask(at) for at in starts]
        if check and not whole:
            count += _check_separate(losses, starts, seen)
    every, points = torch.stack(seen), torch.stack(starts)  # n b, n b words
    ranked = torch.where(every.isnan(), -torch.inf, every).argsort(dim=0, descending=True, stable=True)
    rows = torch.arange(every.shape[1], device=every.device)
    best, at = every[ranked[0], rows], points[ranked[0], rows]
    for restart in range(min(how.restarts, len(starts)) if how.method == "gradient" and how.steps else 0):
        here = points[ranked[restart], rows]
        for step in range(how.steps):
            with torch.enable_grad():
                leaf = here.detach().requires_grad_()
                now = ask(leaf)
                slope = _slope(now.sum(), leaf)
            now = now.detach()
            slope = slope.sum(0, keepdim=True) if whole else slope
            if step:
                best, at = _better(best, at, now, here)
            length = _FIRST_STEP * (_LAST_STEP / _FIRST_STEP) ** (step / max(how.steps - 1, 1))
            here = (here + length * torch.nan_to_num(slope).sign()).clamp(low, high)
        with torch.no_grad():
            best, at = _better(best, at, ask(here), here)
    return Found(at, best, seen[0], count)


def _slope(loss: Tensor, leaf: Tensor) -> Tensor:
    """Return the gradient of the loss to the uniforms; 0 if there is none, as with gates and choices alone."""
    found = torch.autograd.grad(loss, [leaf], allow_unused=True)[0] if loss.requires_grad else None
    return torch.zeros_like(leaf) if found is None else found


def _better(best: Tensor, at: Tensor, now: Tensor, here: Tensor) -> tuple[Tensor, Tensor]:
    """Return for each sample the larger loss, and its uniforms."""
    more = now > best
    return torch.where(more, now, best), torch.where(more[:, None], here, at)


def ends_of(draws: Draws, like: Tensor) -> tuple[Tensor, Tensor]:
    """Return the lowest and the highest uniform that the search may use for each word."""
    near = torch.full((like.shape[1],), _END, dtype=like.dtype)
    for draw in draws.values():
        if not all(map(math.isfinite, draw.distribution.span())):
            near[draw.word : draw.word + draw.distribution.words] = _TAIL
    near = near.to(like.device)
    return near, 1.0 - near


def _starts(draws: Draws, drawn: Callable[[int], Tensor], how: Search, low: Tensor, high: Tensor) -> list[Tensor]:
    """Return the starts: the plain draw, a grid if the method has one, and further random draws."""
    levels = {} if how.method == "random" else _levels(axes_of(draws), how.draws)
    points = itertools.product(*([i / (count - 1) for i in range(count)] for count in levels.values())) if levels else []
    words = torch.tensor(list(levels), dtype=torch.int64, device=low.device)
    grid: list[Tensor] = []
    for k, places in enumerate(points, 1):  # draws without an axis of the grid are random at each point
        point = low[words] + (high - low)[words] * torch.tensor(places, dtype=low.dtype, device=low.device)
        here = drawn(k)
        grid.append(here.index_copy(1, words, point.expand(len(here), -1)))
    rest = how.draws - len(grid) if isinstance(how.draws, int) else 1
    return [drawn(0), *grid, *(drawn(len(grid) + k) for k in range(1, rest))]


def axes_of(draws: Draws) -> dict[str, int]:
    """Return the word of each number on a scale, by step and name, except for numbers with a single value."""
    return {
        label: draw.word
        for label, draw in draws.items()
        if not isinstance(draw.distribution, Bernoulli | Categorical | Bits | Permutation)
        and not draw.distribution.vector
        and draw.distribution.words == 1
        and len(set(draw.distribution.span())) == 2
    }


def _levels(axes: Mapping[str, int], draws: int | Mapping[str, int]) -> dict[int, int]:
    """Return the number of grid points for each word with two or more; the ends are among them."""
    if isinstance(draws, int):
        counts = dict.fromkeys(axes.values(), 1)
        for word in itertools.cycle(counts):
            more = {**counts, word: counts[word] + 1}
            if math.prod(more.values()) > draws - 1:
                break
            counts = more
        return {word: count for word, count in counts.items() if count > 1}
    found: dict[int, int] = {}
    for name, count in draws.items():
        words = [word for axis, word in axes.items() if f".{axis}".endswith(f".{name}")]
        if not words:
            raise invalid("draws", expected=f"numbers on a scale, such as {sorted(axes)[:8]}", got=repr(name))
        found |= dict.fromkeys(words, count)
    return {word: count for word, count in sorted(found.items()) if count > 1}


def read_losses(losses: object, samples: int) -> Tensor:
    """Check that there is one loss for each sample, and return the losses."""
    if not isinstance(losses, Tensor) or tuple(losses.shape) != (samples,):
        got = tuple(losses.shape) if isinstance(losses, Tensor) else type(losses).__name__
        fix = "Use reduction='none', and average each sample's loss over its own pixels."
        raise invalid("loss_fn", expected=f"({samples},) losses, one per sample", got=got, fix=fix)
    return losses


def _check_separate(losses: Losses, starts: Sequence[Tensor], seen: Sequence[Tensor]) -> int:
    """Give every other sample another draw, and raise if the losses of the rest change; return the number of evaluations."""
    samples = len(seen[0])
    if len(starts) < 2 or samples < 2:
        return 0
    moved = torch.arange(samples, device=seen[0].device) % 2 == 1
    now = losses(torch.where(moved[:, None], starts[1], starts[0]))
    scale = seen[0].abs() + 1e-3
    if bool(((now - seen[0]).abs() > 1e-3 * scale)[~moved].any()) and bool(
        ((losses(starts[0]) - seen[0]).abs() <= 1e-3 * scale).all()
    ):
        fix = "Put the model into eval mode: batch statistics mix the samples. Or share the draw by same_on_batch=True."
        expected = "losses that depend on their own sample's draw alone"
        raise invalid("loss_fn", expected=expected, got="losses of some samples that change with the draws of others", fix=fix)
    return 1


@contextmanager
def untouched(device: torch.device) -> Iterator[None]:
    """Restore afterwards what evaluations change: torch's generator, and the buffers of every module called in this thread."""
    kept: dict[int, tuple[nn.Module, dict[str, Tensor]]] = {}
    thread = threading.get_ident()

    def keep(module: nn.Module, inputs: Any) -> None:
        del inputs
        if threading.get_ident() == thread and id(module) not in kept:
            buffers = {name: buffer.clone() for name, buffer in module.named_buffers(recurse=False) if buffer is not None}
            kept[id(module)] = module, buffers

    hook = register_module_forward_pre_hook(keep)
    try:
        with torch.random.fork_rng([] if device.type != "cuda" else [device]):
            yield
    finally:
        hook.remove()
        with torch.no_grad():
            for module, buffers in kept.values():
                for name, buffer in buffers.items():
                    module.get_buffer(name).copy_(buffer)
