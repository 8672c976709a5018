"""Send each sample of a batch only through the passes that change it.

Owns: `apply_sparsely`, and where samples lie between passes; `is_new`, whether memory is our own.
Must not: know how a pass computes.
Read next: ``lowering/openings.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from pellucid.engine.lowering import Lowered, Openings
from pellucid.engine.passes import compute_dtype, in_units
from pellucid.kernels.conversion import as_bytes
from pellucid.kernels.pixels import cells_of, copy_of
from pellucid.kernels.rows import put

__all__ = ["apply_sparsely", "is_new"]


def is_new(out: Tensor, image: Tensor) -> bool:
    """Return whether a result has memory of its own, contiguous and without a gradient, so that it may be painted on."""
    if out is image or out.requires_grad:
        return False
    lying = out.movedim(1, -1) if cells_of(out) > 1 else out
    return lying.is_contiguous() and out.untyped_storage().data_ptr() != image.untyped_storage().data_ptr()


def apply_sparsely(
    apply: Callable[..., Tensor], openings: Openings, lowered: Lowered, image: Tensor, impl: str, dtype: torch.dtype
) -> Tensor:
    """Send each sample of bytes only through the passes that change it, by `_apply_group` of ``execution.py``; the first pass of a
    sample reads bytes, the last one writes ``dtype``.
    """
    computed = compute_dtype(image.dtype)
    lies = [(image, row) for row in range(len(image))]  # in which tensor each sample lies, and where
    for group, rows, first, last in openings:
        places = [lies[row] for row in rows]
        part, some = _gathered(places), lowered if len(rows) == len(lies) else lowered.of(torch.tensor(rows, device="cpu"))
        owned = not first and is_new(part, image)
        made = apply(group, some, part, 255.0, impl, dtype if last else computed, owned=owned)
        if not _put_back(places, part, made, image):
            for place, row in enumerate(rows):
                lies[row] = made, place
    resting = [row for row, (held, _) in enumerate(lies) if held is image]
    if resting:
        still = _gathered([lies[row] for row in resting])
        if dtype != image.dtype:
            still = as_bytes(in_units(still), dtype)
        elif len(resting) == len(lies):
            still = copy_of(still)
        for place, row in enumerate(resting):
            lies[row] = still, place
    return _gathered(lies)


def _put_back(places: Sequence[tuple[Tensor, int]], part: Tensor, made: Tensor, image: Tensor) -> bool:
    """Write a pass's result back to where its samples lay among others, if that is one tensor of our own; return whether it is."""
    held = places[0][0]
    if len(places) == len(held) or made.dtype != held.dtype or made.shape[1:] != held.shape[1:]:
        return False
    if any(one is not held for one, _ in places) or not is_new(held, image):
        return False
    if made is not part or part.untyped_storage().data_ptr() != held.untyped_storage().data_ptr():
        put(held, [row for _, row in places], made)
    return True


def _gathered(lies: Sequence[tuple[Tensor, int]]) -> Tensor:
    """Return samples as one tensor: a part of the one that they lie in, or a copy."""
    (held, first), count = lies[0], len(lies)
    if all(one is held and row == first + place for place, (one, row) in enumerate(lies)):
        return held if count == len(held) else held[first : first + count]
    return torch.cat([one[row : row + 1] for one, row in lies])
