"""What refining matches changes, rule by rule, and how far a sequence's published homographies can be believed.

Prints the tables of docs/registration.md: ``python benchmarks/refinement.py coffee,chelsea,rocket``, and of a real sequence
``python benchmarks/refinement.py --sequence FOLDER``.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from pellucid.features.data.photographs import bundled_photographs
from pellucid.features.data.sequences import PlanarSequence, read_sequence, warped_sequences
from pellucid.features.evaluation.methods import baselines
from pellucid.features.evaluation.metrics import mutual_nearest
from pellucid.features.evaluation.protocol import Protocol, corner_error, estimate_homography
from pellucid.features.evaluation.run import detect_view
from pellucid.geometry.points import transform_points
from pellucid.registration import points, refine_matches

RULES = {
    "none": None,
    "correlation 0.7": (0.7, math.inf, math.inf),
    "correlation 0.9 and half": (0.9, 0.5, math.inf),
    "correlation 0.9, half, deviation 0.1 px": (0.9, 0.5, 0.1),
}
"""The least correlation, the most of what it lacked that may be left, the largest deviation; None refines nothing."""
_REACH = 3.0
ORACLE = f"all within {_REACH:g} px exact"
"""What no refinement can surpass that moves points by so much at most: further matches are wrong ones, and stay."""


class Matches(NamedTuple):
    """Matches of a pair by RootSIFT: both points, where the truth sends the first, and the second one refined by every rule."""

    first: Tensor
    second: Tensor
    truth: Tensor
    homography: Tensor
    size: tuple[int, int]
    refined: dict[str, tuple[Tensor, Tensor]]


def matched(sequence: PlanarSequence) -> Iterator[Matches]:
    """Yield the pairs (1, k)."""
    method = baselines("rootsift")["rootsift"]
    views = [detect_view(image, Protocol()) for image in sequence.views]
    described = [method(view) for view in views]
    for k in range(1, len(views)):
        pairs = mutual_nearest(described[0].descriptors, described[k].descriptors).pairs
        first, second = described[0].points[pairs[:, 0]], described[k].points[pairs[:, 1]]
        frames = [described[i].frames for i in (0, k)]
        assert frames[0] is not None
        assert frames[1] is not None
        given = views[0].image, views[k].image, frames[0][pairs[:, 0]], frames[1][pairs[:, 1]]
        refined = {}
        for name, rule in RULES.items():
            if rule is None:
                refined[name] = second, torch.zeros(len(second), dtype=torch.bool)
            else:
                points._LEAST_CORRELATION, points._LEAST_GAIN, points._MOST_DEVIATION = rule
                refined[name] = refine_matches(*given, reach=_REACH)
        truth = transform_points(first.double(), sequence.view_from_first[k])
        near = (truth - second.double()).norm(dim=1) <= _REACH
        refined[ORACLE] = torch.where(near[:, None], truth.to(second), second), near
        yield Matches(first, second, truth, sequence.view_from_first[k], described[0].size, refined)


def area(errors: list[float], limit: float) -> float:
    """The area under the share of errors below a threshold, from 0 to the limit."""
    return sum(max(0.0, 1.0 - error / limit) for error in errors) / len(errors)


def corners(pair: Matches, second: Tensor, pick: Tensor | slice = slice(None)) -> float:
    """The corner error of the homography that these matches give."""
    return corner_error(estimate_homography(pair.first[pick], second[pick])[0], pair.homography, pair.size)


def table(pairs: list[Matches]) -> None:
    """Print what each rule makes of all pairs."""
    last = list(RULES)[-1]
    for name, alone in (*((name, False) for name in RULES), (last, True), (ORACLE, False)):
        within, median, worse, kept, ends = [], [], [], [], []
        for pair in pairs:
            second, agrees = pair.refined[name]
            pick = agrees if alone else torch.ones_like(agrees)
            before = (pair.truth - pair.second.double()).norm(dim=1)
            after = (pair.truth - second.double()).norm(dim=1)
            near = pick & (before <= _REACH)
            within.append(float((after[pick] <= 1).double().mean()))
            median.append(float(after[near].median()))
            worse.append(float((after > before + 0.25)[near].double().mean()))
            kept.append(float((after[pick] <= 1).sum() / (after <= 1).sum()))
            ends.append(corners(pair, second, pick))
        means = [sum(numbers) / len(numbers) for numbers in (within, median, worse, kept)]
        print(f"{name + ', no others' * alone:53s} MMA@1 {means[0]:.3f}  median {means[1]:.3f} px  worse {means[2]:.3f}  ", end="")
        print(f"of the right ones {means[3]:.2f}  AUC@1 {area(ends, 1):.3f}  AUC@3 {area(ends, 3):.3f}")


def doubts(pairs: list[Matches], draws: int = 23) -> None:
    """Print how AUC@1 scatters when matches are drawn again, and what smooth corrections of the homographies explain."""
    last = list(RULES)[-1]
    for name in ("none", last):
        random, areas = torch.Generator().manual_seed(0), []
        for _ in range(draws):
            picks = [torch.randint(len(pair.first), (len(pair.first),), generator=random) for pair in pairs]
            areas.append(area([corners(pair, pair.refined[name][0], pick) for pair, pick in zip(pairs, picks, strict=True)], 1))
        scatter = torch.tensor(areas)
        print(f"{name}: AUC@1 of matches drawn again {float(scatter.mean()):.3f} +- {float(scatter.std()):.3f}")
    for k, pair in enumerate(pairs):
        places, good = pair.refined[last]
        apart = places.double() - pair.truth
        good = good & (apart.norm(dim=1) <= 2)
        if int(good.sum()) >= 40:
            found = [unexplained(pair.first.double()[good], apart[good], degree) for degree in range(6)]
            print(
                f"pair {k + 1}: {float(apart[good].norm(dim=1).median()):.3f} px; left by degrees 0 to 5:",
                [round(f, 3) for f in found],
            )


def unexplained(place: Tensor, apart: Tensor, degree: int) -> float:
    """The median of what a polynomial in the place leaves of displacements, fitted to their absolute values."""
    x, y = ((place - place.mean(0)) / place.std()).unbind(1)
    columns = torch.stack([x**p * y**q for p in range(degree + 1) for q in range(degree + 1 - p)], 1)
    weight = torch.ones_like(columns[:, :1])
    for _ in range(20):
        left = apart - columns @ torch.linalg.lstsq(columns * weight, apart * weight).solution
        weight = (1 / (left.norm(dim=1, keepdim=True) + 0.05)).sqrt()
    return float(left.norm(dim=1).median())


def main() -> None:
    """Read the arguments, and print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("photographs", nargs="?", default="coffee,chelsea,rocket")
    parser.add_argument("--sequence", type=Path)
    given = parser.parse_args()
    names = given.photographs.split(",")
    sequences = [read_sequence(given.sequence)] if given.sequence else warped_sequences(bundled_photographs(names), seed=0)
    pairs = [pair for sequence in sequences for pair in matched(sequence)]
    table(pairs)
    doubts(pairs)


if __name__ == "__main__":
    main()
