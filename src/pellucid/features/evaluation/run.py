"""Measure methods on sequences, and average the results.

Owns: the loops over sequences, pairs and methods, and the averages.
Must not: print or draw.
Read next: ``table.py``, ``pictures.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from pellucid._version import __version__
from pellucid.errors import invalid
from pellucid.features.data.sequences import PlanarSequence
from pellucid.features.evaluation.methods import Method, SiftView, detect_view
from pellucid.features.evaluation.metrics import area_under_accuracy
from pellucid.features.evaluation.protocol import Described, PairResult, Protocol, measure_pair

__all__ = ["Report", "Row", "evaluate_methods"]

OnPair = Callable[[str, str, int, tuple[SiftView, SiftView], tuple[Described, Described], PairResult], None]


@dataclass(frozen=True)
class Row:
    """The averages of one method over all pairs; every pair counts the same.

    Args:
        method: its name.
        mean_average_precision: the mean over pairs with at least one correct match to find.
        matching_accuracy: mean matching accuracy (MMA), by threshold.
        repeatability: mean repeatability, by threshold.
        homography: area under the homography's accuracy, by threshold.
        keypoints, matches, correct, inliers: means per pair; keypoints per image.
        pairs: the measurements on each pair, by ``sequence/1-k``.
    """

    method: str
    mean_average_precision: float
    matching_accuracy: dict[str, float]
    repeatability: dict[str, float]
    homography: dict[str, float]
    keypoints: float
    matches: float
    correct: float
    inliers: float
    pairs: dict[str, dict[str, float]] = field(repr=False)


@dataclass(frozen=True)
class Report:
    """A table of rows with the protocol they were measured under."""

    protocol: Protocol
    sequences: tuple[str, ...]
    rows: tuple[Row, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dict; numbers that are not finite become None."""
        whole: dict[str, Any] = _plain({"pellucid": __version__, **asdict(self)})
        return whole


def evaluate_methods(
    sequences: Iterable[PlanarSequence],
    methods: Mapping[str, Method],
    protocol: Protocol | None = None,
    *,
    on_pair: OnPair | None = None,
    refine: bool = False,
    agreeing: bool = False,
) -> Report:
    """Measure every method on the pairs (1, k) of every sequence.

    Args:
        sequences: read one at a time.
        methods: by name, in the order of the rows.
        protocol: the default is that of docs/features.md.
        on_pair: called after each pair with sequence, method, k, the two views, their descriptions and the result.
        refine: move the second point of each match to where the pictures agree, before errors are measured.
        agreeing: with ``refine``, keep only matches around which the pictures agree.

    Errors:
        ``InvalidArgument`` without sequences or methods, and for ``agreeing`` without ``refine``.
    """
    protocol = protocol or Protocol()
    if agreeing and not refine:
        raise invalid("agreeing", expected="refine=True beside it, which finds where pictures agree", got="refine=False")
    if not methods:
        raise invalid("methods", expected="at least one method to measure", got="none")
    results_of: dict[str, dict[str, PairResult]] = {name: {} for name in methods}
    counts: dict[str, list[int]] = {name: [] for name in methods}
    names = []
    for sequence in sequences:
        names.append(sequence.name)
        views = [detect_view(image, protocol) for image in sequence.views]
        for name, method in methods.items():
            described = [method(view) for view in views]
            counts[name] += [len(one.points) for one in described]
            for k in range(1, len(views)):
                images = (views[0].image, views[k].image) if refine else None
                result = measure_pair(
                    described[0], described[k], sequence.view_from_first[k], protocol, images=images, agreeing=agreeing
                )
                results_of[name][f"{sequence.name}/1-{k + 1}"] = result
                if on_pair is not None:
                    on_pair(sequence.name, name, k, (views[0], views[k]), (described[0], described[k]), result)
    if not names:
        raise invalid("sequences", expected="at least one sequence", got="none")
    rows = tuple(_row(name, results, counts[name], protocol) for name, results in results_of.items())
    return Report(protocol, tuple(names), rows)


def _row(name: str, results: Mapping[str, PairResult], counts: list[int], protocol: Protocol) -> Row:
    pairs = list(results.values())
    corner_errors = [pair.corner_error for pair in pairs]
    return Row(
        name,
        _mean(pair.average_precision for pair in pairs if not math.isnan(pair.average_precision)),
        _by_threshold([pair.matching_accuracy for pair in pairs], protocol),
        _by_threshold([pair.repeatability for pair in pairs], protocol),
        {f"{limit:g}": area_under_accuracy(corner_errors, limit) for limit in protocol.homography},
        _mean(counts),
        _mean(pair.matches for pair in pairs),
        _mean(pair.correct for pair in pairs),
        _mean(pair.inliers for pair in pairs),
        {key: _numbers(pair, protocol) for key, pair in results.items()},
    )


def _numbers(pair: PairResult, protocol: Protocol) -> dict[str, float]:
    at = {f"accuracy@{limit:g}": value for limit, value in zip(protocol.thresholds, pair.matching_accuracy, strict=True)}
    return {
        "average_precision": pair.average_precision,
        "matches": pair.matches,
        "correct": pair.correct,
        "inliers": pair.inliers,
        "corner_error": pair.corner_error,
        **at,
    }


def _by_threshold(lists: list[list[float]], protocol: Protocol) -> dict[str, float]:
    return {f"{limit:g}": _mean(values[i] for values in lists) for i, limit in enumerate(protocol.thresholds)}


def _mean(values: Iterable[float]) -> float:
    collected = list(values)
    return sum(collected) / len(collected) if collected else float("nan")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
