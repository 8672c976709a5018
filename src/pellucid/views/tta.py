"""Predictions over several views of each picture, brought back to it and merged where they were made.

Owns: `TTA`.
Must not: know how kinds are merged (``merge.py``) or how a view is undone (the pipeline).
Read next: ``merge.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from pellucid.errors import invalid, wrong_type
from pellucid.pipeline import Pipeline
from pellucid.pipeline.records import Record
from pellucid.random import Key
from pellucid.random.arguments import check_choice, check_flag, finite_number, whole_number
from pellucid.targets.kinds import kind_of
from pellucid.types import Size
from pellucid.views.merge import merged_boxes, merged_maps, merged_masks, merged_points, merged_scores

__all__ = ["TTA"]

_OF_BOXES = ("boxes", "scores", "labels", "boxes_valid")


class TTA(nn.Module):
    """Predict on several views of every picture and merge the predictions in the picture's own frame.

    Args:
        pipeline: one pipeline, from which `views` views are drawn, or a sequence of pipelines, one for each view
            (``[Pipeline([]), Pipeline([RandomHorizontalFlip(p=1.0)])]``).
        model: takes a batch of pictures. Returns a map of logits (B, K, h, w) of any stride, scores (B, K), a mask of whole numbers
            (B, h, w), or a dict of such, which may also hold ``keypoints`` (B, N, 2 or 3, the third a score) and ``boxes``
            (B, N, 4) with ``scores`` (B, N) and, if there are classes, ``labels`` (B, N); both in the view's pixels.
        merge: ``mean``, ``max``, or ``vote``. Masks always vote, boxes go through `pellucid.detection.nms`.
        views: how many are drawn from one pipeline.
        key: of the draws. All pictures get one draw per view, so that a prediction does not depend on the rest of the batch.
        iou_threshold: of boxes that overlap a better one.
        return_valid: dicts gain ``NAME_seen``, and a bare map or mask becomes a pair with it: which pixels any view had shown.

    Maps and masks come back at the model's stride in the picture's frame. A map is weighed by the share of each pixel that its view
    shows; where none does, it is 0. Left and right change places where a view mirrors, as its pipeline's ``pairs`` say of the
    prediction's name; a bare map is ``heatmap``, a bare mask ``mask``.

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
        iou_threshold: float = 0.5,
        return_valid: bool = False,
    ) -> None:
        super().__init__()
        drawn = isinstance(pipeline, Pipeline)
        pipelines = [pipeline] * whole_number("views", views, 1, 1 << 16) if isinstance(pipeline, Pipeline) else list(pipeline)
        if not pipelines or not all(isinstance(one, Pipeline) for one in pipelines):
            raise wrong_type("pipeline", expected="a Pipeline, or a sequence of at least one", got=repr(pipeline))
        if not callable(model):
            raise wrong_type("model", expected="a module or function of a batch of pictures", got=repr(model))
        check_choice("merge", merge, ("mean", "max", "vote"))
        check_flag("return_valid", return_valid)
        self.pipelines = nn.ModuleList(pipelines[:1] if drawn else pipelines)
        self.count, self.model, self.merge, self.return_valid = len(pipelines), model, merge, return_valid
        self.iou_threshold = finite_number("iou_threshold", iou_threshold)
        self.key = Key(0, 0) if key is None else key

    def forward(self, images: Tensor) -> Any:
        """Predict for a batch of pictures (B, C, H, W)."""
        if not isinstance(images, Tensor) or images.dim() != 4:
            got = tuple(images.shape) if isinstance(images, Tensor) else type(images).__name__
            raise invalid("images", expected="a batch (B, C, H, W)", got=got)
        views: list[_Seen] = []
        for view in range(self.count):
            pipeline = self.pipelines[view % len(self.pipelines)]
            assert isinstance(pipeline, Pipeline)
            record = pipeline.draw(images[:1], key=Key(self.key.seed, self.key.step + view, torch.tensor([0])))
            views.append(_Seen(pipeline, record, self.model(pipeline.apply(images, record))))
        first = views[0].prediction
        if isinstance(first, Mapping):
            return self._of_dicts(views, first)
        out, seen = self._of_one("", views, [view.prediction for view in views])
        return out if seen is None or not self.return_valid else (out, seen)

    def _of_dicts(self, views: list[_Seen], first: Mapping[str, Any]) -> dict[str, Any]:
        columns = {name: [view.prediction[name] for view in views] for name in first}
        result: dict[str, Any] = {}
        if "boxes" in columns:
            result |= self._boxes(views, columns)
        for name, column in columns.items():
            if name in _OF_BOXES and "boxes" in columns:
                continue
            if views[0].is_of(name, "keypoints"):
                back = [view.back(name, "keypoints", points) for view, points in zip(views, column, strict=True)]
                result[name] = merged_points(back, self.merge)
                continue
            result[name], seen = self._of_one(name, views, column)
            if seen is not None and self.return_valid:
                result[f"{name}_seen"] = seen
        return result

    def _of_one(self, name: str, views: list[_Seen], column: list[Tensor]) -> tuple[Tensor, Tensor | None]:
        """A map, a mask or scores, and which pixels are seen; without a name of the only prediction."""
        first, key, name = column[0], name, name or "prediction"
        if not isinstance(first, Tensor):
            raise wrong_type(name, expected="a tensor", got=type(first).__name__)
        if first.dim() == 2 and first.is_floating_point():
            return merged_scores(column, self.merge), None
        whole = not first.is_floating_point() and first.dim() in (3, 4)
        if not whole and first.dim() != 4:
            expected = "a map (B, K, h, w), scores (B, K), or a mask of whole numbers (B, h, w)"
            raise invalid(name, expected=expected, got=f"{first.dtype} {tuple(first.shape)}")
        size = views[0].size_before(first)
        for view, one in zip(views, column, strict=True):
            if view.size_before(one) != size:
                raise invalid(name, expected=f"one stride in all views, maps that go back to {size}", got=view.size_before(one))
        if whole:
            pairs = [view.labels(key, mask, size) for view, mask in zip(views, column, strict=True)]
            return merged_masks([mask for mask, _ in pairs], [seen for _, seen in pairs])
        anchor = first[..., :1, :1][:, _alike([view.pairs(key, "heatmap") for view in views], first.shape[1])]
        found = [view.map(key, one - anchor, size) for view, one in zip(views, column, strict=True)]
        return merged_maps([one for one, _ in found], [known for _, known in found], anchor, self.merge)

    def _boxes(self, views: list[_Seen], columns: dict[str, list[Tensor]]) -> dict[str, Tensor]:
        if "scores" not in columns:
            raise invalid("prediction", expected="scores (B, N) beside boxes", got=sorted(columns))
        boxes = [view.back("boxes", "boxes", one) for view, one in zip(views, columns["boxes"], strict=True)]
        ones = [torch.ones_like(one[..., 0], dtype=torch.bool) for one in columns["boxes"]]
        return merged_boxes(
            boxes,
            columns["scores"],
            columns.get("labels"),
            columns.get("boxes_valid", ones),
            size=views[0].record.size_in,
            iou_threshold=self.iou_threshold,
        )


class _Seen:
    """A view, and what the model said of it."""

    def __init__(self, pipeline: Pipeline, record: Record, prediction: Any) -> None:
        self.pipeline, self.record, self.prediction = pipeline, record, prediction

    def size_before(self, maps: Tensor) -> Size:
        """The size of the whole picture in the cells of a map of the view."""
        before, after = self.record.size_in, self.record.size_out
        height, width = (round(whole * part / seen) for whole, part, seen in zip(before, maps.shape[-2:], after, strict=True))
        return (height, width)

    def is_of(self, name: str, kind: str) -> bool:
        """Whether a prediction's name says this kind."""
        found = kind_of(name, self.pipeline.options.targets)
        return found is not None and found.name == kind

    def pairs(self, name: str, kind: str) -> Sequence[tuple[int, int]]:
        """Left and right of a prediction: what the pipeline says of its name, without one of its kind."""
        return self.pipeline.options.pairs.get(name or kind, ())

    def back(self, name: str, kind: str, values: Tensor) -> Tensor:
        """Rows of coordinates in the picture."""
        return self._undone({kind: values}, self.record, self.pairs(name, kind))[kind]

    def map(self, name: str, maps: Tensor, size: Size) -> tuple[Tensor, Tensor]:
        """A map in the picture, 0 where the view shows nothing, and which share of each pixel it shows."""
        found = self._undone({"heatmap": maps}, self._at(maps, size), self.pairs(name, "heatmap"), return_valid=True)
        return found["heatmap"], found["valid"].to(maps.dtype)

    def labels(self, name: str, mask: Tensor, size: Size) -> tuple[Tensor, Tensor]:
        """A mask in the picture, and which pixels the view shows."""
        both = {"mask": mask, "mask_seen": torch.ones_like(mask)}
        found = self._undone(both, self._at(mask, size), self.pairs(name, "mask"))
        return found["mask"], found["mask_seen"]

    def _undone(
        self, values: dict[str, Tensor], record: Record, pairs: Sequence[tuple[int, int]], *, return_valid: bool = False
    ) -> dict[str, Tensor]:
        """What `Pipeline.inverse` makes of predictions; boxes are as the model gives them, and masks nearest, as they vote."""
        options = self.pipeline.options
        modes = {"heatmap": options.interpolation["heatmap"]}
        undo = Pipeline([], pairs={next(iter(values)): pairs} if pairs else {}, interpolation=modes, impl=options.impl)
        found: dict[str, Tensor] = undo.inverse(values, record, return_valid=return_valid)
        return found

    def _at(self, maps: Tensor, size: Size) -> Record:
        height, width = maps.shape[-2:]
        return self.record.at(size, out=(height, width))


def _alike(pairs: Sequence[Sequence[tuple[int, int]]], count: int) -> list[int]:
    """For each channel the one whose anchor it takes: those that change places share one."""
    places = sorted({place for view in pairs for pair in view for place in pair})
    return [places[0] if channel in places else channel for channel in range(count)]
