"""Ray Data: a data set of pictures through a pipeline, on as many machines as there are.

Owns: `augment`, and the function that runs on a block.
Must not: be needed; Ray is imported by the caller, who has a data set of it.
Read next: ``samples.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from pellucid.data.samples import index_of
from pellucid.errors import invalid
from pellucid.random.key import Key

__all__ = ["Blocks", "augment"]


class Blocks:
    """A block of rows in, the same rows augmented out; a worker makes one and keeps it.

    Args:
        pipeline: `Pipeline.to_dict` of one, which every machine can read.
        seed, epoch: of the draws.
        image, path: the columns with pictures (H, W, C) and with their names.
        allow: modules with transforms of your own.
    """

    def __init__(
        self,
        pipeline: Mapping[str, Any],
        *,
        seed: int = 0,
        epoch: int = 0,
        image: str = "image",
        path: str = "path",
        allow: tuple[str, ...] = (),
    ) -> None:
        from pellucid.pipeline import Pipeline

        self.pipeline = Pipeline.from_dict(pipeline, allow=allow)
        self.seed, self.epoch, self.image, self.path = seed, epoch, image, path

    def __call__(self, block: dict[str, Any]) -> dict[str, Any]:
        """The block with other pictures, (H, W, C)."""
        for column in (self.image, self.path):
            if column not in block:
                fix = "read_images(..., include_paths=True)."
                raise invalid("block", expected=f"a column {column!r}", got=sorted(block), fix=fix)
        numbers = torch.tensor([index_of(str(name)) for name in block[self.path]])
        with torch.no_grad():
            made = self.pipeline([np.asarray(picture) for picture in block[self.image]], key=Key(self.seed, self.epoch, numbers))
        pictures = [np.ascontiguousarray(picture.permute(1, 2, 0).numpy()) for picture in made]
        if len({picture.shape for picture in pictures}) == 1:
            return {**block, self.image: np.stack(pictures)}
        column_of = np.empty(len(pictures), dtype=object)
        column_of[:] = pictures
        return {**block, self.image: column_of}


def augment(
    dataset: Any,
    pipeline: Any,
    *,
    seed: int = 0,
    epoch: int = 0,
    image: str = "image",
    path: str = "path",
    allow: tuple[str, ...] = (),
    workers: int | tuple[int, int] = 1,
    batch_size: int | None = 64,
) -> Any:
    """Augment a ``ray.data.Dataset`` with a column of pictures and one of their names.

    Args:
        dataset: such as ``ray.data.read_images(folder, include_paths=True)`` gives.
        pipeline: a `Pipeline` of numbers.
        seed, epoch: with the hash of each picture's name, decide its draw: the same for any number of workers and any blocks.
        image, path: the columns' names.
        allow: modules that workers may import for transforms of your own.
        workers: how many keep a pipeline and a processor each, or the least and the most. Reading needs processors too: where all
            are taken, Ray waits for ever.
        batch_size: rows in a call; None takes a block.

    Returns:
        The data set, lazily: the same columns, other pictures.
    """
    settings = {"seed": seed, "epoch": epoch, "image": image, "path": path, "allow": allow}
    from ray.data import ActorPoolStrategy

    least, most = workers if isinstance(workers, tuple) else (workers, workers)
    options = {"compute": ActorPoolStrategy(min_size=least, max_size=most), "batch_size": batch_size, "batch_format": "numpy"}
    return dataset.map_batches(Blocks, fn_constructor_args=(pipeline.to_dict(),), fn_constructor_kwargs=settings, **options)
