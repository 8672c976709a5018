"""Boxes and points that keep the same row in all frames of a clip.

Owns: `as_tracks`.
Must not: move anything; a pipeline does.
Read next: ``clip.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from pellucid.errors import invalid

__all__ = ["Tracks", "as_tracks"]


class Tracks(NamedTuple):
    """Boxes or points of a clip, with the same row for the same object in every frame.

    Args:
        rows: (T, N, ...), zero for an object that is not in the frame.
        valid: (T, N), whether the object is in the frame.
        ids: (N,), in rising order.
    """

    rows: Tensor
    valid: Tensor
    ids: Tensor


def as_tracks(rows: Sequence[Tensor], ids: Sequence[Tensor]) -> Tracks:
    """Give each object of a clip the same row in all frames.

    Args:
        rows: for each frame (n, ...) boxes or points of the objects in it.
        ids: for each frame (n,) whole numbers: the object of each row.

    Returns:
        `Tracks`, whose ``rows`` and ``valid`` are a clip's boxes and ``boxes_valid``. Back to lists: ``rows[t][valid[t]]``.

    Gradient:
        rows: exact.

    Errors:
        InvalidArgument if rows and ids of a frame differ in count, for an id twice in a frame, and for no frames.

    Example:
        >>> import torch
        >>> from pellucid.boxes import as_tracks
        >>> first, second = torch.tensor([[0.0, 0.0, 4.0, 4.0]]), torch.tensor([[9.0, 9.0, 12.0, 12.0], [1.0, 0.0, 5.0, 4.0]])
        >>> tracks = as_tracks([first, second], [torch.tensor([7]), torch.tensor([8, 7])])
        >>> tracks.ids, tracks.valid.tolist(), tracks.rows[1, 0]
        (tensor([7, 8]), [[True, False], [True, True]], tensor([1., 0., 5., 4.]))
    """
    counts = [len(one) for one in rows]
    if not counts or [len(one) for one in ids] != counts:
        raise invalid("ids", expected=f"a number for every row, {counts} in the frames", got=[len(one) for one in ids])
    known, place = torch.unique(torch.cat(list(ids)), return_inverse=True)
    frame = torch.repeat_interleave(torch.arange(len(counts), device=place.device), torch.tensor(counts, device=place.device))
    for t, one in enumerate(ids):
        if len(one.unique()) < len(one):
            raise invalid(f"ids[{t}]", expected="each number once", got=one.tolist())
    every = torch.cat(list(rows))
    empty = every.new_zeros((len(counts), len(known), *every.shape[1:]))
    flags = torch.zeros(empty.shape[:2], dtype=torch.bool, device=place.device)
    return Tracks(empty.index_put((frame, place), every), flags.index_put((frame, place), torch.ones_like(frame) > 0), known)
