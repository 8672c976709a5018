"""Run the study's parts in order.

Owns: the sizes of the full and the quick study, the photographs, and the clock.
Must not: print or write files.
Read next: ``report.py``.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pellucid.features.data import BUNDLED, bundled_photographs
from pellucid.features.patches_snr import GradientSignal, keypoint_gradient_signal
from pellucid.random import Key
from pellucid_bench.detach.drift import Drift, measure_drift
from pellucid_bench.detach.gradients import Exactness, measure_exactness
from pellucid_bench.detach.subject import make_subject
from pellucid_bench.detach.training import Trained, TrainingPlan, train_both_ways

__all__ = ["FOOTPRINTS", "StudyResult", "run_study"]

FOOTPRINTS: Final = (32, 64, 128)
_LOOKED_AT: Final = ("camera", "coffee", "astronaut")
_TRAINED_ON: Final = ("chelsea", "grass", "gravel", "rocket", "retina", "text", "clock", "brick")


@dataclass(frozen=True)
class StudyResult:
    """All results of the study."""

    exactness: list[Exactness]
    signal: dict[tuple[int, bool], GradientSignal]
    """By footprint in pixels, and whether patches were antialiased."""
    trained: list[Trained]
    drift: list[Drift]
    keypoints: int
    plan: TrainingPlan
    seconds: float
    """Processor time of this process."""


def run_study(*, quick: bool = False, seed: int = 0, say: Callable[[str], None] = lambda _: None) -> StudyResult:
    """Measure; the quick study has the same parts, too small to conclude anything from.

    Args:
        quick: for tests.
        seed: of noise, weights and draws.
        say: called with a line before every part.
    """
    begun = time.process_time()
    pictures = bundled_photographs(longest=320)
    looked_at = [pictures[name] for name in _LOOKED_AT]
    subjects = [make_subject(p, count=6 if quick else 16, seed=seed + i) for i, p in enumerate(looked_at[: 1 if quick else None])]
    say("gradients against finite differences")
    exactness = measure_exactness(subjects, seed=seed)
    say("drift of a learnable brightness")
    drift = measure_drift(subjects, seeds=1 if quick else 3, steps=3 if quick else 20)
    say("signal-to-noise ratio of the keypoint gradient")
    # All of them, as taken: shrinking would have blurred them already, and how much there is to gain depends on the texture.
    sharp = list(bundled_photographs(_LOOKED_AT if quick else BUNDLED, longest=None).values())
    signal = {
        (footprint, antialias): keypoint_gradient_signal(
            sharp, float(footprint), antialias=antialias, draws=4 if quick else 48, key=Key(seed)
        )
        for footprint in FOOTPRINTS
        for antialias in (False, True)
    }
    say("a detector trained through patches, both ways")
    plan = TrainingPlan(1, 1, 1, 1, 64, 2) if quick else TrainingPlan(3, 40, 20, 2, 80, 24)
    trained = train_both_ways([pictures[name] for name in _TRAINED_ON], looked_at, plan)
    count = sum(s.frames.shape[1] for s in subjects)
    return StudyResult(exactness, signal, trained, drift, count, plan, time.process_time() - begun)
