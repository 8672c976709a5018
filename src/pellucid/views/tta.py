"""Predict on several views of each picture, map the predictions back to the picture, and merge them there.

Owns: `TTA`, and `Seen`: one view, the model's prediction for it, and how that is mapped back.
Must not: know how predictions are merged.
Read next: ``merge.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from pellucid.core.arguments import check_choice, check_flag, finite_number, whole_number
from pellucid.errors import invalid, wrong_type
from pellucid.geometry.polygons import as_rows, hulls, of_one_length
from pellucid.pipeline import Pipeline
from pellucid.pipeline.records import Record
from pellucid.random import Key
from pellucid.targets.kinds import KINDS, TargetKind, kind_of
from pellucid.types import Size
from pellucid.views.merge import merged_boxes, merged_maps, merged_masks, merged_points, merged_scores, padded

__all__ = ["TTA"]


class Seen:
    """A view, and the model's prediction for it."""

    def __init__(self, pipeline: Pipeline, record: Record, prediction: Any) -> None:
        self.pipeline, self.record, self.prediction = pipeline, record, prediction

    def size_before(self, maps: Tensor) -> Size:
        """The size of the whole picture, measured in cells of the view's map."""
        before, after = self.record.size_in, self.record.size_out
        height, width = (round(whole * part / seen) for whole, part, seen in zip(before, maps.shape[-2:], after, strict=True))
        return (height, width)

    def is_of(self, name: str, *kinds: str) -> bool:
        """Whether a prediction's name says one of these kinds."""
        return getattr(self._kind(name), "name", None) in kinds

    def corners(self, name: str) -> str:
        """What the corners of a row make: ``polygon``, ``line`` or ``quad``; empty for predictions without corners."""
        return getattr(self._kind(name), "corners", "")

    def turned(self, name: str) -> str:
        """The kind of a prediction whose values turn with the picture, or with its pose; empty for others."""
        found = self._kind(name)
        return found.name if found is not None and (found.turn or (found.interpolation and self._posed(found))) else ""

    def _kind(self, name: str) -> TargetKind | None:
        return kind_of(name, self.pipeline.options.targets)

    def _posed(self, kind: TargetKind) -> bool:
        return kind.scene is not None and self.pipeline.options.cameras == "pose"

    def pairs(self, name: str, kind: str) -> Sequence[tuple[int, int]]:
        """The left-right pairs that the pipeline has for the prediction's name, or for its kind if it has no name."""
        return self.pipeline.options.pairs.get(name or kind, ())

    def back(self, kind: str, values: Tensor, name: str = "") -> Tensor:
        """Map rows of coordinates, or a camera, back to the picture."""
        return self._undone({kind: values}, self.record, self.pairs(name, kind))[kind]

    def places(self, values: Tensor) -> Tensor:
        """Map corners (B, N, V, 2) back to the picture, one by one."""
        return (self.back("keypoints", values.flatten(1, 2) - 0.5) + 0.5).reshape(values.shape)

    def map(self, name: str, maps: Tensor, size: Size, kind: str = "heatmap") -> tuple[Tensor, Tensor]:
        """Bring a map back to the picture, 0 where the view shows nothing, with the share of each pixel that the view shows."""
        found = self._undone({kind: maps}, self._at(maps, size), self.pairs(name, kind), return_valid=True)
        return found[kind], found["valid"].to(maps.dtype)

    def labels(self, name: str, mask: Tensor, size: Size) -> tuple[Tensor, Tensor]:
        """Bring a mask back to the picture, with the pixels that the view shows."""
        both = {"mask": mask, "mask_seen": torch.ones_like(mask)}
        found = self._undone(both, self._at(mask, size), self.pairs(name, "mask"))
        return found["mask"], found["mask_seen"]

    def rows(self, name: str, values: Tensor) -> Tensor:
        """Bring values with a row for every box (B, N, ...) back: masks, keypoints and corners move, other numbers stay."""
        if name == "masks":
            layers = values.reshape(*values.shape[:2], *values.shape[-2:])
            if 0 in layers.shape:
                return values.new_zeros(*values.shape[:-2], *self.size_before(values))
            at = self._at(layers, self.size_before(layers))
            kind = "heatmap" if layers.is_floating_point() else "mask"
            return self._undone({kind: layers}, at, ())[kind].unflatten(1, values.shape[1:-2])
        named = self._kind(name)
        if named is not None and (named.corners or (self.is_of(name, "boxes3d") and self._posed(named))):
            return self.back(named.name, values)
        if values.dim() == 4 and self.is_of(name, "keypoints"):
            return self.back("keypoints", values.flatten(0, 1), name).unflatten(0, values.shape[:2])
        return values

    def _undone(
        self, values: dict[str, Tensor], record: Record, pairs: Sequence[tuple[int, int]], *, return_valid: bool = False
    ) -> dict[str, Tensor]:
        """Apply `Pipeline.inverse` to predictions: boxes in the model's format, masks by nearest neighbour, because they vote."""
        options = self.pipeline.options
        kind = next(iter(values))
        if self._posed(KINDS[kind]):  # turns and mirrors of any camera with square pixels
            first = values[kind]
            values = values | {"intrinsics": torch.eye(3, dtype=first.dtype, device=first.device).expand(len(first), 3, 3)}
        modes = {kind: options.interpolation[kind]} if kind != "mask" and kind in options.interpolation else {}
        undo = Pipeline([], pairs={kind: pairs} if pairs else {}, interpolation=modes, impl=options.impl, cameras=options.cameras)
        found: dict[str, Tensor] = undo.inverse(values, record, return_valid=return_valid)
        return found

    def _at(self, maps: Tensor, size: Size) -> Record:
        height, width = maps.shape[-2:]
        return self.record.at(size, out=(height, width))


class TTA(nn.Module):
    """Predict on several views of every picture and merge the predictions in the picture's own frame.

    Args:
        pipeline: one pipeline, from which `views` views are drawn, or a sequence of pipelines, one for each view
            (``[Pipeline([]), Pipeline([RandomHorizontalFlip(p=1.0)])]``).
        model: takes a batch of pictures. Returns a map of logits (B, K, h, w) of any stride, scores (B, K), a mask of whole numbers
            (B, h, w), or a dict of such, which may also hold ``keypoints`` (B, N, 2 or 3, the third a score) and ``boxes``
            (B, N, 4) with ``scores`` (B, N) and, if there are classes, ``labels`` (B, N); both in the view's pixels. Beside boxes,
            ``masks`` (B, N, h, w) or (B, N, 1, h, w), ``keypoints`` (B, N, K, 2 or 3) and numbers (B, N, K) have a row for each box
            and stay with it, and so do ``polygons``, ``polylines`` and ``quads`` (B, N, V, 2). Without boxes, polygons or
            quadrilaterals that have ``scores`` are merged by the boxes around them; outlines without scores are averaged over
            views, corner by corner. A list of dicts, one for each picture, as torchvision's detectors return, comes back as a list.
        merge: ``mean``, ``max``, or ``vote``. Masks of whole numbers always vote.
        merge_boxes: how to merge the boxes of one object: ``nms`` keeps the best, ``soft_nms`` lowers the scores of the others,
            ``fusion`` takes their mean; see `pellucid.detection`.
        views: how many are drawn from one pipeline.
        key: of the draws. All pictures get one draw per view, so that a prediction does not depend on the rest of the batch.
        iou_threshold: boxes that overlap by more count as one object.
        return_valid: also return which pixels some view shows: dicts gain ``NAME_seen``, a bare map or mask becomes a pair.

    Maps and masks come back at the model's stride in the picture's frame. A map is weighed by the share of each pixel that its view
    shows; where none does, it is 0. A prediction whose name is that of a kind, such as ``flow``, ``normals``, ``disparity`` or
    ``intrinsics``, comes back as that kind does: vectors turn, cameras move. Left and right change places where a view mirrors, as
    its pipeline's ``pairs`` say of the prediction's name; a bare map is ``heatmap``, a bare mask ``mask``.

    Gradient:
        exact to the model and through it, for ``mean``; none for votes, masks and which boxes are kept.
    Errors:
        InvalidArgument for predictions of other shapes, and for strides that differ between views.

    Example:
        >>> import torch, pellucid
        >>> flips = [pellucid.Pipeline([]), pellucid.Pipeline([pellucid.RandomHorizontalFlip(p=1.0)])]
        >>> predict = TTA(flips, torch.nn.Conv2d(3, 2, 1))
        >>> predict(torch.rand(4, 3, 8, 6)).shape
        torch.Size([4, 2, 8, 6])
    """

    def __init__(
        self,
        pipeline: Pipeline | Sequence[Pipeline],
        model: Callable[[Tensor], Any],
        merge: str = "mean",
        *,
        views: int = 8,
        key: Key | None = None,
        merge_boxes: str = "nms",
        iou_threshold: float = 0.5,
        return_valid: bool = False,
    ) -> None:
        super().__init__()
        drawn = isinstance(pipeline, Pipeline)
        given: Any = pipeline if isinstance(pipeline, Iterable) else ()
        pipelines = [pipeline] * whole_number("views", views, 1, 1 << 16) if isinstance(pipeline, Pipeline) else list(given)
        if not pipelines or not all(isinstance(one, Pipeline) for one in pipelines):
            raise wrong_type("pipeline", expected="a Pipeline, or a sequence of at least one", got=repr(pipeline))
        if not callable(model):
            raise wrong_type("model", expected="a module or function of a batch of pictures", got=repr(model))
        check_choice("merge", merge, ("mean", "max", "vote"))
        check_choice("merge_boxes", merge_boxes, ("nms", "soft_nms", "fusion"))
        check_flag("return_valid", return_valid)
        self.pipelines = nn.ModuleList(pipelines[:1] if drawn else pipelines)
        self.count, self.model, self.merge, self.return_valid = len(pipelines), model, merge, return_valid
        self.merge_boxes, self.iou_threshold = merge_boxes, finite_number("iou_threshold", iou_threshold)
        self.key = Key(0, 0) if key is None else key

    def forward(self, images: Tensor) -> Any:
        """Predict for a batch of pictures (B, C, H, W)."""
        if not isinstance(images, Tensor) or images.dim() != 4:
            got = tuple(images.shape) if isinstance(images, Tensor) else type(images).__name__
            raise invalid("images", expected="a batch (B, C, H, W)", got=got)
        views: list[Seen] = []
        for view in range(self.count):
            pipeline = self.pipelines[view % len(self.pipelines)]
            assert isinstance(pipeline, Pipeline)
            record = pipeline.draw(images[:1], key=Key(self.key.seed, self.key.step + view, torch.tensor([0])))
            views.append(Seen(pipeline, record, self.model(pipeline.apply(images, record))))
        first = views[0].prediction
        if isinstance(first, Mapping):
            return self._of_dicts(views)
        if isinstance(first, list | tuple):
            return self._of_lists(views, len(images))
        out, seen = _merged(_Column("", views, [view.prediction for view in views]), self.merge)
        return out if seen is None or not self.return_valid else (out, seen)

    def _of_lists(self, views: list[Seen], samples: int) -> list[dict[str, Any]]:
        """A dict for each picture, as torchvision's detectors return them."""
        rows = [Seen(view.pipeline, view.record, as_batch(view, samples)) for view in views]
        merged = self._of_dicts(rows)
        valid = merged.pop(f"{_anchor(views[0], rows[0].prediction)}_valid")
        return [{name: value[i][flags] for name, value in merged.items()} for i, flags in enumerate(valid)]

    def _of_dicts(self, views: list[Seen]) -> dict[str, Any]:
        """Merge what belongs to boxes by the boxes, and every other prediction by itself."""
        first = views[0].prediction
        columns = {name: _Column(name, views, [view.prediction[name] for view in views]) for name in first}
        anchor = _anchor(views[0], first)
        of_boxes = [name for name in columns if anchor and _is_of_boxes(views[0], name, first, anchor)]
        result = self._of_boxes(columns, of_boxes, anchor) if of_boxes else {}
        for name, column in columns.items():
            if name not in of_boxes:
                result[name], seen = _merged(column, self.merge)
                if seen is not None and self.return_valid:
                    result[f"{name}_seen"] = seen
        return result

    def _of_boxes(self, columns: dict[str, _Column], names: list[str], anchor: str) -> dict[str, Tensor]:
        """Merge boxes (or outlines, by the boxes around them) and all predictions that have a row for each box."""
        if "scores" not in columns:
            raise invalid("prediction", expected="scores (B, N) beside boxes", got=sorted(columns))
        scores = columns["scores"]
        rows: dict[str, Sequence[Tensor]] = {}
        for name in names:
            if name not in ("boxes", "scores", f"{anchor}_valid"):
                found = [view.rows(name, one) for view, one in columns[name].pairs]
                rows[name] = of_one_length(found) if scores.views[0].corners(name) else found
        if anchor == "boxes":
            boxes = [view.back("boxes", one) for view, one in columns["boxes"].pairs]
        else:
            boxes = [hulls(one) for one in rows[anchor]]
        flags = columns.get(f"{anchor}_valid")
        merged = merged_boxes(
            boxes,
            scores.values,
            flags.values if flags is not None else [torch.ones_like(one[..., 0], dtype=torch.bool) for one in boxes],
            rows,
            size=scores.views[0].record.size_in,
            how=self.merge_boxes,
            iou_threshold=self.iou_threshold,
        )
        if anchor != "boxes":
            merged[f"{anchor}_valid"] = merged.pop("boxes_valid")
            del merged["boxes"]
        return merged


class _Column(NamedTuple):
    """The predictions of all views under one name; a prediction that is no dict has an empty name."""

    name: str
    views: list[Seen]
    values: list[Tensor]

    @property
    def pairs(self) -> list[tuple[Seen, Tensor]]:
        """Each view with its prediction."""
        return list(zip(self.views, self.values, strict=True))


def _merged(column: _Column, merge: str) -> tuple[Tensor, Tensor | None]:
    """Merge one prediction as its kind asks, and tell for maps and masks which pixels a view shows."""
    name, first, view = column.name, column.values[0], column.views[0]
    if view.is_of(name, "keypoints"):
        return merged_points([view.back("keypoints", one, name) for view, one in column.pairs], merge), None
    if view.corners(name):
        return _merged_outlines(column, merge), None
    if view.is_of(name, "intrinsics", "projection"):
        back = [view.back("intrinsics" if one.shape[-1] == 3 else "projection", one) for view, one in column.pairs]
        return torch.stack(back).mean(0), None
    called = name or "prediction"
    if not isinstance(first, Tensor):
        raise wrong_type(called, expected="a tensor", got=type(first).__name__)
    if first.is_floating_point() and first.dim() == 2:
        return merged_scores(column.values, merge), None
    if first.is_floating_point() and first.dim() == 4:
        return _merged_maps(column, _size_of(column, called), merge)
    if not first.is_floating_point() and first.dim() in (3, 4):
        size = _size_of(column, called)
        labels, seen = zip(*(view.labels(name, mask, size) for view, mask in column.pairs), strict=True)
        return merged_masks(labels, seen)
    expected = "a map (B, K, h, w), scores (B, K), or a mask of whole numbers (B, h, w)"
    raise invalid(called, expected=expected, got=f"{first.dtype} {tuple(first.shape)}")


def _merged_outlines(column: _Column, merge: str) -> Tensor:
    """Average outlines corner by corner; a corner that the first view lacks stays NaN."""
    first = column.values[0]
    mean = merged_points([view.places(one).flatten(1, 2) for view, one in column.pairs], merge).reshape(first.shape)
    return torch.where(first.isfinite(), mean, torch.nan)


def _size_of(column: _Column, called: str) -> Size:
    """Return the size of the picture in cells of the model's maps, which all views share."""
    size = column.views[0].size_before(column.values[0])
    for view, one in column.pairs:
        if view.size_before(one) != size:
            raise invalid(called, expected=f"one stride in all views, maps that go back to {size}", got=view.size_before(one))
    return size


def _merged_maps(column: _Column, size: Size, merge: str) -> tuple[Tensor, Tensor]:
    """Merge maps as differences from the first view's value in a corner, so that equal predictions come out bit for bit."""
    name, first, view = column.name, column.values[0], column.views[0]
    kind = view.turned(name)
    anchor = first[..., :1, :1][:, _alike([view.pairs(name, "heatmap") for view in column.views], first.shape[1])]
    anchor = torch.zeros_like(anchor) if kind else anchor  # a vector that turns has no value that all views share
    maps, known = zip(*(view.map(name, one - anchor, size, kind or "heatmap") for view, one in column.pairs), strict=True)
    return merged_maps(maps, known, anchor, merge)


def _anchor(view: Seen, prediction: Mapping[str, Any]) -> str:
    """The prediction that decides which rows are one object: boxes, or polygons or quadrilaterals with scores; empty for none."""
    if "boxes" in prediction:
        return "boxes"
    return next((name for name in prediction if "scores" in prediction and view.corners(name) in ("polygon", "quad")), "")


def as_batch(view: Seen, samples: int) -> dict[str, Tensor]:
    """Predictions of single pictures as one batch, padded to the largest number of boxes."""
    predictions, expected = list(view.prediction), f"a dict with boxes and scores for each of {samples} pictures"
    anchor = _anchor(view, predictions[0]) if predictions and isinstance(predictions[0], Mapping) else ""
    if len(predictions) != samples or not all(isinstance(one, Mapping) and anchor and anchor in one for one in predictions):
        got = f"{len(predictions)} of {type(predictions[0]).__name__}" if predictions else "none"
        raise invalid("prediction", expected=expected, got=got)
    for name in filter(view.corners, predictions[0]):
        rows = [as_rows(name, one[name], view.corners(name)) for one in predictions]
        predictions = [{**one, name: row} for one, row in zip(predictions, of_one_length(rows), strict=True)]
    counts = [len(one[anchor]) for one in predictions]
    for one, count in zip(predictions, counts, strict=True):
        name = next(
            (name for name, rows in one.items() if not isinstance(rows, Tensor) or not rows.dim() or len(rows) != count), None
        )
        if name is not None:
            got = getattr(one[name], "shape", one[name])
            raise invalid(f"prediction[{name!r}]", expected=f"a row for each of {count} boxes", got=got)
    batch = {name: padded([one[name] for one in predictions], max(counts)) for name in predictions[0]}
    flags = [rows.new_ones(len(rows), dtype=torch.bool) for rows in (one[anchor] for one in predictions)]
    return batch | {f"{anchor}_valid": padded(flags, max(counts))}


_ROWS = ("boxes", "scores", "labels", "masks", "keypoints_scores")


def _is_of_boxes(view: Seen, name: str, prediction: Mapping[str, Any], anchor: str) -> bool:
    """Whether a prediction has a row for every box; points (B, N, 2) are the picture's, (B, N, K, 2) those of its boxes."""
    value, rows = prediction[name], prediction[anchor].shape[1]
    always = name in (*_ROWS, f"{anchor}_valid")
    if always or not isinstance(value, Tensor) or value.dim() < 3 or value.shape[1] != rows:
        return always
    if name.startswith("keypoints") or view.corners(name):
        return value.dim() == 4
    return value.dim() == 3 and value.is_floating_point()


def _alike(pairs: Sequence[Sequence[tuple[int, int]]], count: int) -> list[int]:
    """For each channel, the channel whose anchor it takes: channels that swap with others share one."""
    places = sorted({place for view in pairs for pair in view for place in pair})
    return [places[0] if channel in places else channel for channel in range(count)]
