"""From the logits and boxes of a query-based detector to detections in pixels.

Owns: the RT-DETR-style post-processor, with static shapes and gradients to scores and boxes.
Must not: suppress, match, or read a value on the host; lists are made only on request.
Read next: ``suppression.py``.
"""

from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Num
from torch import Tensor, nn

from pellucid.boxes import BoxFormat, convert_boxes
from pellucid.detection.arithmetic import scale_boxes
from pellucid.errors import invalid, wrong_type

__all__ = ["DetectionDecoder", "Detections"]


class Detections(NamedTuple):
    """K detections per image, best first; entries that are not ``valid`` are padding (score 0, label -1, box 0, query 0).

    Args:
        scores: in [0, 1].
        labels: class numbers.
        boxes: in pixels, in the decoder's format.
        valid: which entries are detections.
        queries: from which query each comes.
    """

    scores: Float[Tensor, "b k"]
    labels: Int[Tensor, "b k"]
    boxes: Float[Tensor, "b k 4"]
    valid: Bool[Tensor, "b k"]
    queries: Int[Tensor, "b k"]

    def to_list(self) -> list[dict[str, Tensor]]:
        """Return one dict of ``scores``, ``labels`` and ``boxes`` per image without padding (waits for the device).

        Returns:
            Of each image ``scores`` (n,), ``labels`` (n,) and ``boxes`` (n, 4).

        Gradient:
            As of the fields.

        Example:
            >>> import torch
            >>> logits, boxes = torch.tensor([[[2.0, -2.0]]]), torch.tensor([[[0.5, 0.5, 1.0, 1.0]]])
            >>> DetectionDecoder(1)(logits, boxes, torch.tensor([[10, 20]])).to_list()[0]["boxes"]
            tensor([[ 0.,  0., 20., 10.]])
        """
        fields = {"scores": self.scores, "labels": self.labels, "boxes": self.boxes}
        return [{name: value[i][keep] for name, value in fields.items()} for i, keep in enumerate(self.valid)]


class DetectionDecoder(nn.Module):
    """Decode the output of a query-based detector (DETR, RT-DETR and kin).

    ``sigmoid``: every (query, class) pair is a candidate, and one query may appear under several labels. ``softmax``: the last
    class means "no object", and each query is a candidate under its best other class. The ``top_k`` best candidates become
    detections.

    Args:
        top_k: number of detections per image, padded where there are fewer candidates.
        activation: ``sigmoid`` or ``softmax``.
        threshold: detections with a score not above it are marked invalid. The shape does not change.
        box_format: format of the boxes that come out, in pixels.

    Returns:
        ``decoder(logits, boxes, sizes)`` gives :class:`Detections`. ``logits`` (B, Q, C); ``boxes`` (B, Q, 4) as ``cxcywh`` in
        units of the image; ``sizes`` (B, 2), the (height, width) of each original image, which may all differ. Scores come in the
        dtype of ``logits``, boxes at least in float32 (float16 steps by 2 beyond 2048 pixels).

    Gradient:
        logits, boxes: exact for the detections that come out valid (their choice has no gradient), zero for all others.
        A NaN logit counts as the lowest and gets no gradient. Second order: yes. Deterministic: on CPU; on CUDA as ``gather``'s
        backward, which sums in any order where one query appears under several labels.

    Errors:
        ``InvalidArgument`` for shapes and options; ``InvalidType`` for integer logits or boxes.

    Source:
        Zhao et al., "DETRs beat YOLOs on real-time object detection" (RT-DETR), CVPR 2024; equals a per-image loop in the tests.

    Example:
        >>> decoder = DetectionDecoder(top_k=2, threshold=0.5)
        >>> logits = torch.tensor([[[3.0, -3.0], [-3.0, -3.0]]])
        >>> boxes = torch.tensor([[[0.5, 0.5, 0.5, 0.5], [0.1, 0.1, 0.1, 0.1]]])
        >>> found = decoder(logits, boxes, torch.tensor([[100, 200]]))
        >>> found.to_list()
        [{'scores': tensor([0.9526]), 'labels': tensor([0]), 'boxes': tensor([[ 50.,  25., 150.,  75.]])}]
    """

    def __init__(
        self,
        top_k: int = 300,
        *,
        activation: Literal["sigmoid", "softmax"] = "sigmoid",
        threshold: float = 0.0,
        box_format: BoxFormat = "xyxy",
    ) -> None:
        super().__init__()
        if top_k < 1:
            raise invalid("top_k", expected="at least 1", got=top_k)
        if activation not in ("sigmoid", "softmax"):
            raise invalid("activation", expected="'sigmoid' or 'softmax'", got=repr(activation))
        if box_format not in ("xyxy", "xywh", "cxcywh"):
            raise invalid("box_format", expected="'xyxy', 'xywh' or 'cxcywh'", got=repr(box_format))
        self.top_k = top_k
        self.activation = activation
        self.threshold = threshold
        self.box_format: BoxFormat = box_format

    def forward(self, logits: Float[Tensor, "b q c"], boxes: Float[Tensor, "b q 4"], sizes: Num[Tensor, "b 2"]) -> Detections:
        """Decode one batch; see the class."""
        self._check(logits, boxes, sizes)
        lowest = torch.finfo(logits.dtype).min
        logits = logits.nan_to_num(nan=lowest)  # infinities become the largest numbers, so neither activation makes a NaN
        scores, queries, labels = self._best(logits)
        pixels = scale_boxes(boxes.gather(1, queries[..., None].expand(-1, -1, 4)), sizes)
        pixels = convert_boxes(pixels, "cxcywh", self.box_format)
        valid = (scores > self.threshold) & pixels.isfinite().all(dim=-1)
        detections = Detections(
            torch.where(valid, scores, 0.0),
            torch.where(valid, labels, -1),
            torch.where(valid[..., None], pixels, 0.0),
            valid,
            torch.where(valid, queries, 0),
        )
        return _pad(detections, self.top_k - scores.shape[1])

    def extra_repr(self) -> str:
        """Show the options in ``print(decoder)``."""
        return f"top_k={self.top_k}, activation={self.activation!r}, threshold={self.threshold}, box_format={self.box_format!r}"

    def _best(self, logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        classes = logits.shape[2]
        if self.activation == "sigmoid":
            every = logits.sigmoid().flatten(1)
            scores, picked = every.topk(min(self.top_k, every.shape[1]), dim=1)
            return scores, picked // classes, picked % classes
        best = logits.softmax(dim=-1)[..., :-1].max(dim=-1)
        scores, queries = best.values.topk(min(self.top_k, best.values.shape[1]), dim=1)
        return scores, queries, best.indices.gather(1, queries)

    def _check(self, logits: Tensor, boxes: Tensor, sizes: Tensor) -> None:
        for name, value in (("logits", logits), ("boxes", boxes)):
            if not isinstance(value, Tensor) or not value.is_floating_point():
                got = value.dtype if isinstance(value, Tensor) else type(value).__name__
                raise wrong_type(name, expected="a floating-point tensor", got=got)
        fewest = 2 if self.activation == "softmax" else 1
        if logits.ndim != 3 or logits.shape[2] < fewest:
            raise invalid("logits", expected=f"(B, Q, C) with C at least {fewest}", got=tuple(logits.shape))
        if tuple(boxes.shape) != (*logits.shape[:2], 4):
            raise invalid("boxes", expected=f"(B, Q, 4) = {(*logits.shape[:2], 4)}", got=tuple(boxes.shape))
        if not isinstance(sizes, Tensor) or tuple(sizes.shape) != (logits.shape[0], 2):
            expected = f"(height, width) per image, shape ({logits.shape[0]}, 2)"
            raise invalid("sizes", expected=expected, got=tuple(sizes.shape) if isinstance(sizes, Tensor) else type(sizes).__name__)


def _pad(detections: Detections, missing: int) -> Detections:
    if missing == 0:
        return detections
    fill = {"labels": -1}

    def padded(name: str, value: Tensor) -> Tensor:
        return torch.cat([value, value.new_full((value.shape[0], missing, *value.shape[2:]), fill.get(name, 0))], dim=1)

    return Detections(**{name: padded(name, value) for name, value in detections._asdict().items()})
