"""What a call costs beside its pixels: small images, eager, against kornia.

Owns: the configuration of the overhead budget, and whether it is met.
Must not: print.
Read next: ``report.py``.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

import pellucid as P
from pellucid_bench.calls import CallCount, count_calls
from pellucid_bench.measure import Timing, interleave, on_threads
from pellucid_bench.peers.ours import flagship_pipeline
from pellucid_bench.settings import photographs

__all__ = ["KORNIA_CALLS", "SHARE", "Overhead", "count_ours", "measure_overhead", "one_picture"]

SHARE = 0.25
"""At most this share of kornia's time and calls."""

KORNIA_CALLS = 2686
"""Calls kornia 0.9.0 makes for these four transforms, as cProfile counts them: what the tests hold ours to."""

_SHAPE = (8, 64)
_SMALL = (8, 32)
_TINY = (8, 4)


@dataclass(frozen=True)
class Overhead:
    """One run.

    Args:
        time: median and quartiles of each subject.
        small: the same on 8x3x32x32.
        tiny: the same on 8x3x4x4, where next to nothing is left but the overhead.
        calls: calls of each subject.
        missing: why kornia is missing, if it is.
        pictures: what one picture of 3x16x16 bytes takes, by subject.
    """

    time: dict[str, Timing]
    small: dict[str, Timing]
    tiny: dict[str, Timing]
    calls: dict[str, CallCount]
    missing: str | None = None
    pictures: dict[str, Timing] = field(default_factory=dict)

    def shares(self) -> dict[str, float]:
        """Pellucid's time and calls, divided by kornia's; none without kornia."""
        if self.missing is not None:
            return {}
        ours = self.calls["pellucid"]
        theirs = self.calls["kornia"]
        return {
            "time": self.time["pellucid"].median / self.time["kornia"].median,
            "time without pixels": self.tiny["pellucid"].median / self.tiny["kornia"].median,
            "calls": ours.total / theirs.total,
            "python calls": ours.python / theirs.python,
        }

    def met(self) -> bool:
        """Whether time and calls both keep the budget."""
        shares = self.shares()
        return all(shares[name] <= SHARE for name in ("time", "calls") if name in shares)

    def verdict(self) -> str:
        """``met``, ``missed``, or ``unknown`` where there was nothing to compare with."""
        return "unknown" if self.missing is not None else "met" if self.met() else "missed"


def _calls_of(impl: str, shape: tuple[int, int]) -> tuple[dict[str, Any], str | None]:
    images = photographs(*shape)
    ours = flagship_pipeline(impl=impl)
    calls: dict[str, Any] = {"pellucid": lambda: ours(images)}
    try:
        from pellucid_bench.peers import kornia
    except ImportError as error:
        return calls, str(error)
    peer = kornia.flagship()[0]
    chained = torch.nn.Sequential(*kornia.flagship_transforms())
    calls["kornia"] = lambda: peer.forward(images)
    calls["kornia in nn.Sequential"] = lambda: chained(images)
    return calls, None


def measure_overhead(*, impl: str = "auto", budget: float = 2.0, rounds: int = 200) -> Overhead:
    """Measure Pellucid and kornia on small images, each drawing per sample.

    On one thread: waiting for another is a number of calls that nobody knows beforehand.
    """
    with on_threads(1):
        return _measure(impl, budget, rounds)


def _measure(impl: str, budget: float, rounds: int) -> Overhead:
    calls, missing = _calls_of(impl, _SHAPE)
    counts = {name: count_calls(call) for name, call in calls.items()}
    time = interleave(calls, budget=budget, rounds=rounds, warmup=5)
    small, tiny = (interleave(_calls_of(impl, shape)[0], budget=budget, rounds=rounds, warmup=5) for shape in (_SMALL, _TINY))
    pictures = interleave(one_picture(impl=impl), budget=budget, rounds=rounds, warmup=20)
    return Overhead(time, small, tiny, counts, missing, pictures)


def one_picture(*, impl: str = "auto") -> dict[str, Any]:
    """A flip, and crop, flip, jitter and normalise, of one picture of bytes: ours, with a record, with a gradient, and peers'."""
    image = (photographs(1, 16)[0] * 255).to(torch.uint8)
    array, learns, out = image.permute(1, 2, 0).contiguous().numpy(), (image / 255.0).requires_grad_(), torch.ones(3, 16, 16)
    calls: dict[str, Any] = {}
    named: dict[str, list[P.Transform]] = {
        "flip": [P.RandomHorizontalFlip()],
        "four": [
            P.RandomResizedCrop(16),
            P.RandomHorizontalFlip(),
            P.ColorJitter(0.4, 0.4, saturation=0.4, hue=0.1),
            P.Normalize((0.5,), (0.2,)),
        ],
    }
    for name, transforms in named.items():
        ours = P.Pipeline(transforms, seed=0, impl=impl)
        calls[f"{name}: pellucid"] = partial(ours, image)
        calls[f"{name}: pellucid, array"] = partial(ours, array)
        calls[f"{name}: pellucid, with its record"] = partial(ours, image, return_record=True)
        calls[f"{name}: pellucid, forward + backward"] = lambda ours=ours: torch.autograd.grad(ours(learns), learns, out)
        for peer, picture in (("albumentations", array), ("torchvision", image)):
            try:
                made = importlib.import_module(f"pellucid_bench.peers.{peer}").one_picture()[name]
            except ImportError:
                continue
            calls[f"{name}: {peer}"] = partial(made, picture)
    return calls


def count_ours(*, impl: str = "auto") -> CallCount:
    """Pellucid's calls alone."""
    ours, images = flagship_pipeline(impl=impl), photographs(*_SHAPE)
    with on_threads(1):
        return count_calls(lambda: ours(images))
