"""Ray Data: augment a data set of pictures on many machines.

Owns: `augment`, and the function that runs on a block.
Must not: be imported by the rest of the package, or import Ray before `augment` is called.
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
    """A callable that augments a block of rows; each worker makes one and keeps it.

    Args:
        pipeline: the result of `Pipeline.to_dict`, which every machine can read.
        seed, epoch: the seed and step of the draws.
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
        """Return the block with augmented pictures, (H, W, C)."""
        for column in (self.image, self.path):
            if column not in block:
                fix = "read_images(..., include_paths=True)."
                raise invalid("block", expected=f"a column {column!r}", got=sorted(block), fix=fix)
        numbers = torch.tensor([index_of(str(name)) for name in block[self.path]])
        with torch.no_grad():
            out = self.pipeline([np.asarray(picture) for picture in block[self.image]], key=Key(self.seed, self.epoch, numbers))
        pictures = [np.ascontiguousarray(picture.permute(1, 2, 0).numpy()) for picture in out]
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
        dataset: the data set, such as ``ray.data.read_images(folder, include_paths=True)``.
        pipeline: a `Pipeline` without learned parameters.
        seed, epoch: decide each picture's draw, together with the hash of its name; the number of workers and the blocks do not
            matter.
        image, path: the columns' names.
        allow: modules that workers may import for transforms of your own.
        workers: how many processes augment, each on one processor, or (fewest, most). Reading needs processors too: if workers take
            all of them, Ray waits for ever.
        batch_size: rows in a call; None passes whole blocks.

    Returns:
        A lazy data set with the same columns and augmented pictures.
    """
    settings = {"seed": seed, "epoch": epoch, "image": image, "path": path, "allow": allow}
    from ray.data import ActorPoolStrategy

    least, most = workers if isinstance(workers, tuple) else (workers, workers)
    options = {"compute": ActorPoolStrategy(min_size=least, max_size=most), "batch_size": batch_size, "batch_format": "numpy"}
    return dataset.map_batches(Blocks, fn_constructor_args=(pipeline.to_dict(),), fn_constructor_kwargs=settings, **options)
