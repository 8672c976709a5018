"""Non-maximum suppression, called from torchvision where that is installed.

Owns: the call, and a clear complaint where it cannot be made.
Must not: reimplement what torchvision does well, or import it before it is needed.
Read next: ``decoder.py``.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pellucid.boxes import BoxFormat, convert_boxes
from pellucid.boxes.formats import check_boxes
from pellucid.errors import ImplementationError, invalid

__all__ = ["nms"]


def nms(
    boxes: Float[Tensor, "n 4"],
    scores: Float[Tensor, "n"],
    *,
    iou_threshold: float = 0.5,
    labels: Int[Tensor, "n"] | None = None,
    format: BoxFormat = "xyxy",  # noqa: A002 - the word users know
) -> Int[Tensor, "kept"]:
    """Return the indices of the boxes that survive non-maximum suppression, best score first.

    Index ``boxes`` and ``scores`` with the result to keep their gradients. The number of survivors depends on values, so this step
    stays outside compiled graphs; detectors with one query per object (see :class:`DetectionDecoder`) do without it.

    Args:
        boxes: N upright boxes.
        scores: one per box.
        iou_threshold: boxes that overlap a better one by more are dropped.
        labels: suppress only among boxes of one label.
        format: how the boxes are written.

    Returns:
        Indices into ``boxes``.

    Gradient:
        None: a choice.

    Errors:
        ``ImplementationError`` where torchvision is missing or its compiled operators do not load; ``InvalidArgument`` for shapes.

    Source:
        ``torchvision.ops.nms`` and ``torchvision.ops.batched_nms``.

    Example:
        >>> import torch
        >>> nms(torch.zeros(2, 4), torch.zeros(3))
        Traceback (most recent call last):
        pellucid.errors.InvalidArgument: scores: expected one per box, shape (2,), got (3,).
    """
    check_boxes(boxes, format)
    if boxes.ndim != 2:
        raise invalid("boxes", expected="(N, 4): one image", got=tuple(boxes.shape))
    for name, value in (("scores", scores), ("labels", labels)):
        if value is not None and tuple(value.shape) != (boxes.shape[0],):
            raise invalid(name, expected=f"one per box, shape ({boxes.shape[0]},)", got=tuple(value.shape))
    dtype = torch.promote_types(torch.promote_types(boxes.dtype, scores.dtype), torch.float32)
    corners = convert_boxes(boxes.detach().to(dtype), format, "xyxy")
    scores = scores.detach().to(dtype)
    # RuntimeError and AttributeError: torchvision built against another torch fails to register or find its operators.
    try:
        from torchvision import ops

        if labels is None:
            return ops.nms(corners, scores, iou_threshold)
        return ops.batched_nms(corners, scores.detach(), labels, iou_threshold)
    except (ImportError, RuntimeError, AttributeError) as error:
        raise ImplementationError(
            f"nms: expected torchvision with compiled operators that match this torch, got {type(error).__name__}: {error}. "
            "Install the torchvision release that belongs to your torch, or use DetectionDecoder, which needs no suppression."
        ) from error
