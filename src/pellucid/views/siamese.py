"""One draw for several batches.

Owns: `same_draw`.
Must not: draw by itself.
Read next: ``tta.py``.
"""

from __future__ import annotations

from typing import Any

from pellucid.errors import invalid
from pellucid.pipeline import Pipeline
from pellucid.random import Key

__all__ = ["same_draw"]


def same_draw(pipeline: Pipeline, *batches: Any, key: Key | None = None) -> tuple[Any, ...]:
    """Augment several batches alike: sample i of every batch gets the same draw; with ``same_on_batch`` all samples do.

    Batches may differ in content, and in the number and size of their pictures; the draw of a crop depends on the size.

    Args:
        pipeline: the transforms to draw.
        batches: as in its call.
        key: as in its call; by default all batches take one step of its stream.

    Returns:
        The augmented batches, in their order.

    Gradient:
        as of a call, to every batch.

    Errors:
        InvalidArgument for no batch, and as a call.

    Source:
        Zhao and Bilen, "Dataset condensation with differentiable siamese augmentation", ICML 2021.

    Example:
        >>> import torch, pellucid
        >>> augment = pellucid.Pipeline([pellucid.RandomHorizontalFlip()], seed=0, same_on_batch=True)
        >>> real, made = same_draw(augment, torch.rand(5, 1, 2, 2), torch.arange(4.0).reshape(1, 1, 2, 2))
        >>> real.shape, made.shape
        (torch.Size([5, 1, 2, 2]), torch.Size([1, 1, 2, 2]))
    """
    if not batches:
        raise invalid("same_draw", expected="at least one batch", got="none")
    drawn = pipeline.key_of(batches[0], key)
    one = Key(drawn.seed, drawn.step, None if key is None else key.index)
    return tuple(pipeline(batch, key=one) for batch in batches)
