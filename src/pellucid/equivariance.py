"""Measure equivariance: the distance between a model's answer to a transformed picture and its transformed answer.

Owns: the error by transform and strength, the part of it due to resampling alone, and the worst draw of each transform.
Must not: train; ``losses.equivariance`` is the loss for that.
Read next: ``docs/equivariance.md``.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from pellucid.core.arguments import check_flag, finite_number, whole_number
from pellucid.core.files import written
from pellucid.detection import box_iou
from pellucid.errors import invalid, wrong_type
from pellucid.pipeline import Pipeline
from pellucid.pipeline.records import Record
from pellucid.pipeline.strengths import draw_at_strength, has_strength
from pellucid.pipeline.worst_search import untouched
from pellucid.random import Key
from pellucid.targets.kinds import kind_of
from pellucid.types import Size

__all__ = ["EquivarianceReport", "Response", "WorstResponse", "measure_equivariance"]

_SEEN = 0.999
"""The share of a cell that a view must show for the cell to count."""


@dataclass(frozen=True)
class Response:
    """A model's answer under one transform at one strength.

    Args:
        transform: the name of its class, or two names joined by `` + ``.
        strength: the distance of its numbers from the middle of their ranges, 0 to 1.
        output: name of the prediction; empty if the model returns a tensor.
        error: mean over pictures. For maps, scores and embeddings: the distance between the answer to the transformed picture and
            the transformed answer, relative to the distance of answers from their mean. For keypoints: pixels. For boxes: 1 - IoU.
            For integer masks: the share of cells that differ.
        margin: half of the 95 % interval of that mean, over pictures.
        resampling: the same error between the answers to the picture and to the picture transformed and brought back: the effect
            of interpolation on this model.
        agreement: share of pictures, or of cells, with the same largest channel; None for a single channel.
        samples: the number of pictures times draws.

    Example:
        >>> Response("RandomRotation", 1.0, "", error=0.5, margin=0.1, resampling=0.02, agreement=None, samples=8).error
        0.5
    """

    transform: str
    strength: float
    output: str
    error: float
    margin: float
    resampling: float
    agreement: float | None
    samples: int


@dataclass(frozen=True, eq=False)
class WorstResponse:
    """The draw of one transform, within its ranges, with the largest error of each picture that a search finds.

    Args:
        transform: as in `Response`.
        error: of each picture, (B,).
        images: the views.

    Example:
        >>> import torch
        >>> WorstResponse("RandomRotation", torch.tensor([0.5]), torch.zeros(1, 3, 8, 8)).error
        tensor([0.5000])
    """

    transform: str
    error: Float[Tensor, "b"]
    images: Float[Tensor, "b c h w"]


@dataclass(frozen=True, eq=False)
class EquivarianceReport:
    """The answers of a model under every transform; ``str(report)`` is a table.

    Args:
        rows: in the order of transforms, strengths and outputs.
        worst: one for each transform, with ``worst=True``.
    """

    rows: tuple[Response, ...]
    worst: tuple[WorstResponse, ...] = ()

    def __str__(self) -> str:
        """A table in Markdown."""
        head = ["transform", "strength", "output", "error", "±", "of resampling", "agreement"]
        lines = [head, ["---"] * len(head)]
        for row in self.rows:
            agreed = "" if row.agreement is None else f"{100 * row.agreement:.1f} %"
            numbers = [f"{value:.3g}" for value in (row.error, row.margin, row.resampling)]
            lines.append([row.transform, f"{row.strength:g}", row.output, *numbers, agreed])
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the rows as JSON, atomically.

        Args:
            path: of the file.

        Returns:
            The path.

        Errors:
            OSError if it cannot be written.

        Example:
            >>> from tempfile import mkdtemp
            >>> EquivarianceReport(()).save(mkdtemp() + "/report.json").read_text()
            '[]'
        """
        text = json.dumps([asdict(row) for row in self.rows], indent=1)
        return written(path, lambda draft: draft.write_text(text))


def measure_equivariance(
    model: Callable[[Tensor], Any],
    pipeline: Pipeline,
    images: Float[Tensor, "b c h w"],
    *,
    strengths: Sequence[float] = (0.25, 0.5, 0.75, 1.0),
    draws: int = 4,
    pairs: bool = False,
    worst: bool = False,
    key: Key | None = None,
) -> EquivarianceReport:
    """Compare a model's answer to transformed pictures with its transformed answer.

    Each transform of the pipeline is measured by itself, with probability 1. Maps, masks, keypoints and boxes should move with the
    picture; scores and embeddings should not change. Cells that a view does not show completely are left out.

    Args:
        model: takes a batch of pictures. Returns a map (B, K, h, w) of any stride, an integer mask (B, h, w), scores or
            embeddings (B, K), or a dict of these, which may also contain ``keypoints`` (B, N, 2) and ``boxes`` (B, N, 4). Put it
            into eval mode; its buffers and torch's generator stay unchanged.
        pipeline: gives the transforms and options.
        images: floating point.
        strengths: distances of drawn numbers from the middle of their ranges; see `Response`. Transforms without such a number,
            such as a flip, are measured at strength 1.
        draws: the number of draws for each picture and strength; they differ in the side of the middle, in choices and the like.
        pairs: also measure every pair of transforms, one after the other.
        worst: also search the worst draw of each transform, for bare maps and scores.
        key: of the draws.

    Returns:
        An `EquivarianceReport`.

    Gradient:
        none: the results are numbers.

    Errors:
        InvalidType for anything but a pipeline; InvalidArgument for pictures, strengths and predictions of other shapes.

    Source:
        Lenc and Vedaldi, "Understanding image representations by measuring their equivariance and equivalence", CVPR 2015; Gruver
        et al., "The Lie derivative for measuring learned equivariance", ICLR 2023, also separates the effect of resampling.

    Example:
        >>> import torch, pellucid
        >>> flips = pellucid.Pipeline([pellucid.RandomHorizontalFlip()])
        >>> report = measure_equivariance(torch.nn.AvgPool2d(2), flips, torch.rand(4, 3, 8, 8), strengths=[1.0], draws=1)
        >>> report.rows[0].transform, round(report.rows[0].error, 5)
        ('RandomHorizontalFlip', 0.0)
    """
    if not isinstance(pipeline, Pipeline):
        raise wrong_type("pipeline", expected="a Pipeline", got=repr(pipeline))
    if not isinstance(images, Tensor) or images.dim() != 4 or not images.is_floating_point() or 0 in images.shape:
        got = f"{images.dtype} {tuple(images.shape)}" if isinstance(images, Tensor) else type(images).__name__
        raise invalid("images", expected="a floating-point batch (B, C, H, W)", got=got)
    check_flag("pairs", pairs)
    check_flag("worst", worst)
    levels = [finite_number("strengths", strength) for strength in strengths]
    if not levels or min(levels) < 0 or max(levels) > 1:
        raise invalid("strengths", expected="numbers from 0 to 1", got=list(strengths))
    key = Key(0, 0) if key is None else key
    count = whole_number("draws", draws, 1, 1 << 16)
    rows: list[Response] = []
    found: list[WorstResponse] = []
    with torch.no_grad(), untouched(images.device):
        base = _named(model(images))
        for name, alone in _subjects(pipeline, pairs=pairs):
            for strength in levels if has_strength(alone, images) else [1.0]:
                records = [
                    draw_at_strength(alone, images, strength, key=Key(key.seed, key.step + k, key.index)) for k in range(count)
                ]
                rows += _rows(_Asked(model, alone, images, base), records, name, strength)
            if worst:
                found.append(_worst(_Asked(model, alone, images, base), name, key))
    return EquivarianceReport(tuple(rows), tuple(found))


def _named(prediction: Any) -> dict[str, Tensor]:
    return dict(prediction) if isinstance(prediction, Mapping) else {"": prediction}


def _subjects(pipeline: Pipeline, *, pairs: bool) -> Iterable[tuple[str, Pipeline]]:
    """Yield each transform alone, and each pair, always applied, with its name."""
    options = pipeline.options.settings()
    every: list[Any] = list(pipeline.transforms)
    always = [replace(one, p=1.0) if any(field.name == "p" for field in fields(one)) else one for one in every]
    sets = [(one,) for one in always] + (list(combinations(always, 2)) if pairs else [])
    for some in sets:
        yield " + ".join(type(one).__name__ for one in some), Pipeline(list(some), seed=0, **options)


@dataclass(frozen=True)
class _Asked:
    """A model, its answers to the pictures, and the transforms to measure."""

    model: Callable[[Tensor], Any]
    pipeline: Pipeline
    images: Tensor
    base: dict[str, Tensor]

    def kind(self, name: str) -> str:
        """Return the kind of a prediction: ``map``, ``mask``, ``scores``, ``boxes`` or ``keypoints``."""
        value, known = self.base[name], kind_of(name, self.pipeline.options.targets) if name else None
        if known is not None and known.name in ("boxes", "keypoints"):
            return known.name
        if isinstance(value, Tensor) and value.is_floating_point() and value.dim() in (2, 4):
            return "map" if value.dim() == 4 else "scores"
        if isinstance(value, Tensor) and not value.is_floating_point() and value.dim() == 3:
            return "mask"
        expected = "a map (B, K, h, w), scores (B, K), a mask of whole numbers (B, h, w), keypoints or boxes"
        got = f"{value.dtype} {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
        raise invalid(f"prediction {name}".strip(), expected=expected, got=got)

    def moved(self, name: str, record: Record, size: Size) -> tuple[Tensor, Tensor]:
        """Return the transformed answer, and a mask of the cells or rows that count, for a view whose map has this size."""
        value, kind = self.base[name], self.kind(name)
        if kind == "scores":
            return value, torch.ones_like(value[:, 0], dtype=torch.bool)
        if kind in ("boxes", "keypoints"):
            out = self.pipeline.apply({kind: value}, record)
            return out[kind], out[f"{kind}_valid"]
        at = record.at((value.shape[-2], value.shape[-1]), out=(size[0], size[1]))
        pairs = self.pipeline.options.pairs.get(name or kind, ())
        key = "mask" if kind == "mask" else "heatmap"
        move = Pipeline([], pairs={key: pairs} if pairs else {}, impl=self.pipeline.options.impl)
        return move.apply({key: value}, at)[key], move.valid_mask(at)[:, 0] > _SEEN


def _rows(asked: _Asked, records: Sequence[Record], name: str, strength: float) -> list[Response]:
    """Return one row for each output, the mean over the draws."""
    errors: dict[str, list[Tensor]] = {output: [] for output in asked.base}
    shares: dict[str, list[Tensor]] = {output: [] for output in asked.base}
    agreed: dict[str, list[Tensor]] = {output: [] for output in asked.base}
    for record in records:
        answers = _named(asked.model(asked.pipeline.apply(asked.images, record)))
        again = _named(asked.model(_round_trip(asked, record)))
        for output, answer in answers.items():
            kind = asked.kind(output)
            size = (answer.shape[-2], answer.shape[-1])
            wanted, valid = asked.moved(output, record, size)
            errors[output].append(_error(kind, answer, wanted, valid))
            whole = torch.ones_like(_error_cells(kind, asked.base[output]), dtype=torch.bool)
            shares[output].append(_error(kind, again[output], asked.base[output], whole))
            if kind in ("map", "scores") and answer.shape[1] > 1:
                agreed[output].append(_agreement(answer, wanted, valid))
    rows = []
    for output, found in errors.items():
        by_picture = torch.stack(found).nanmean(0)
        by_picture = by_picture[torch.isfinite(by_picture)]
        spread = float(by_picture.std()) if len(by_picture) > 1 else math.nan
        rows.append(
            Response(
                name,
                strength,
                output,
                float(by_picture.mean()),
                1.96 * spread / math.sqrt(max(len(by_picture), 1)),
                float(torch.stack(shares[output]).nanmean()),
                float(torch.stack(agreed[output]).nanmean()) if agreed[output] else None,
                len(records) * len(asked.images),
            )
        )
    return rows


def _round_trip(asked: _Asked, record: Record) -> Tensor:
    """Return the pictures after the transforms' geometry and its inverse; pixels that were not shown completely stay unchanged."""
    view = asked.pipeline.apply({"heatmap": asked.images}, record)["heatmap"]
    back = asked.pipeline.inverse({"heatmap": view}, record, return_valid=True)
    result: Tensor = torch.where(back["valid"] > _SEEN, back["heatmap"], asked.images)
    return result


def _error_cells(kind: str, value: Tensor) -> Tensor:
    """Return a tensor with one number for each cell, row or sample that may count."""
    if kind == "scores":
        return value[:, 0]
    return value[:, 0] if kind == "map" else value[..., 0] if kind in ("boxes", "keypoints") else value


def _error(kind: str, answer: Tensor, wanted: Tensor, valid: Bool[Tensor, "b *cells"]) -> Float[Tensor, "b"]:
    """Return the error of each picture; NaN if nothing of it counts."""
    if answer.shape != wanted.shape:
        expected = f"shape {tuple(wanted.shape)} for the view, as of the picture"
        raise invalid("prediction", expected=expected, got=tuple(answer.shape))
    if kind == "scores":
        length = (answer - wanted).square().sum(1)
        about = wanted - wanted.mean(0) if len(wanted) > 1 else wanted
        return (length / about.square().sum(1).mean().clamp(min=1e-30)).sqrt()
    if kind == "map":
        cells = valid[:, None].to(answer.dtype)
        count = cells.sum((2, 3), keepdim=True)
        mean = (wanted * cells).sum((2, 3), keepdim=True) / count
        about = ((wanted - mean).square() * cells).sum((1, 2, 3))
        return (((answer - wanted).square() * cells).sum((1, 2, 3)) / about.clamp(min=1e-30)).sqrt()
    if kind == "boxes":
        distance = 1 - box_iou(answer, wanted, pairwise=False)
    elif kind == "keypoints":
        distance = (answer[..., :2] - wanted[..., :2]).square().sum(-1).sqrt()
    else:
        distance = (answer != wanted).to(torch.get_default_dtype())
    rest = tuple(range(1, distance.dim()))
    return torch.where(valid, distance, 0.0).sum(rest) / valid.sum(rest)


def _agreement(answer: Tensor, wanted: Tensor, valid: Tensor) -> Float[Tensor, ""]:
    same = answer.argmax(1) == wanted.argmax(1)
    return (same & valid).sum() / valid.sum()


def _worst(asked: _Asked, name: str, key: Key) -> WorstResponse:
    """Search the worst draw; a map goes through the pipeline as a heatmap of the picture's size."""
    if set(asked.base) != {""} or asked.kind("") not in ("map", "scores"):
        expected = "a model that returns a bare map or bare scores"
        raise invalid("worst", expected=expected, got=", ".join(sorted(asked.base)) or "a mask")
    base, dense = asked.base[""], asked.kind("") == "map"
    batch = {"image": asked.images}
    if dense:
        batch["heatmap"] = F.interpolate(base, asked.images.shape[-2:], mode="nearest-exact")
    options = {**asked.pipeline.options.settings(), "return_valid": True}
    search = Pipeline(list(asked.pipeline.transforms), seed=0, **options)

    def loss(out: Mapping[str, Tensor]) -> Tensor:
        answer = asked.model(out["image"])
        if not dense:
            return _error("scores", answer, base, out["valid"])
        size = answer.shape[-2:]
        shown = F.adaptive_avg_pool2d(out["valid"].to(answer.dtype), size)[:, 0] > _SEEN
        return torch.nan_to_num(_error("map", answer, F.adaptive_avg_pool2d(out["heatmap"], size), shown))

    out, _, found = search.worst(loss, batch, key=key, return_found=True)
    return WorstResponse(name, found.losses, out["image"].detach())
