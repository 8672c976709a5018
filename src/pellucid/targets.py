"""What users hand in and get back: tensors, dicts of targets, torchvision's tensor classes.

Owns: naming the kind of each entry, checking shapes, flattening to one batch axis and restoring.
Must not: compute anything on pixels.
Read next: ``record.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pellucid.errors import invalid, wrong_type

__all__ = ["KINDS", "Entry", "Parsed", "batch_of", "flatten", "kind_of", "parse", "unflatten"]

KINDS = ("image", "mask", "boxes", "keypoints", "heatmap", "depth", "labels")
VALID = "valid"

_INNER_DIMS = {"image": (3,), "mask": (2, 3), "boxes": (2,), "keypoints": (2,), "heatmap": (2, 3), "depth": (2, 3)}
_SHAPES = {
    "image": "(B, C, H, W), (C, H, W) or (B, T, C, H, W)",
    "mask": "(B, H, W) or (B, C, H, W)",
    "heatmap": "(B, C, H, W)",
    "depth": "(B, H, W) or (B, 1, H, W)",
    "boxes": "(B, N, 4), or (B, N, 5) for cxcywhr",
    "keypoints": "(B, N, 2), or (B, N, 3) with visibility",
}
_FLOAT_KINDS = ("boxes", "keypoints", "heatmap", "depth")


@dataclass(frozen=True)
class Entry:
    """One entry of the batch: its key, kind, tensor, and the flags that came with it."""

    key: str
    kind: str
    tensor: Tensor
    valid: Tensor | None = None


@dataclass(frozen=True)
class Parsed:
    """A batch, understood.

    Args:
        entries: what is transformed, in the order given.
        untouched: labels and passthrough entries.
        lead: how many leading axes are batch axes: 0 (one sample), 1 (batch), 2 (video).
        bare: the input was a tensor, not a dict.
    """

    entries: tuple[Entry, ...]
    untouched: dict[str, Any]
    lead: int
    bare: bool


def kind_of(key: str, named: Mapping[str, str]) -> str | None:
    """The kind of a dict key: as declared, or its own name, or its name up to an underscore or number."""
    if key in named:
        return named[key]
    for kind in KINDS:
        rest = key[len(kind) :]
        if key.startswith(kind) and (not rest or rest.isdigit() or (rest.startswith("_") and rest != f"_{VALID}")):
            return kind
    return None


def parse(batch: object, *, named: Mapping[str, str], passthrough: tuple[str, ...], lead: int | None = None) -> Parsed:
    """Check a batch and name its parts. ``lead`` is what a record knows of batches without images."""
    if isinstance(batch, Tensor):
        return _parse_entries({"image": batch}, {}, {}, lead, bare=True)
    if not isinstance(batch, Mapping):
        raise wrong_type(
            "batch",
            expected="a tensor or a dict of targets",
            got=type(batch).__name__,
            fix="Arrays and PIL images: convert with torch.from_numpy.",
        )
    tensors: dict[str, Any] = {}
    kinds: dict[str, str] = {}
    flags: dict[str, Tensor] = {}
    untouched: dict[str, Any] = {}
    for key, value in batch.items():
        if not isinstance(key, str):
            raise wrong_type("batch", expected="keys that are text, named after their kind", got=repr(key))
        kind = kind_of(key, named)
        if key in passthrough or kind == "labels":
            untouched[key] = value
        elif kind is not None:
            tensors[key], kinds[key] = value, kind
        elif key.endswith(f"_{VALID}") and key[: -len(VALID) - 1] in batch:
            flags[key[: -len(VALID) - 1]] = value
        else:
            raise invalid(
                f"batch[{key!r}]",
                expected=f"a key named after its kind ({', '.join(KINDS)}; also mask_left, image2, ...)",
                got=repr(key),
                fix=f"Pass targets={{{key!r}: 'mask'}} to say what it is, or passthrough=({key!r},) to leave it alone.",
            )
    return _parse_entries(tensors, kinds, flags, lead, bare=False, untouched=untouched)


def _parse_entries(
    tensors: Mapping[str, Any],
    kinds: Mapping[str, str],
    flags: Mapping[str, Tensor],
    lead: int | None,
    *,
    bare: bool,
    untouched: dict[str, Any] | None = None,
) -> Parsed:
    entries = []
    for key, tensor in tensors.items():
        kind = kinds.get(key, "image")
        _check_tensor(key, kind, tensor)
        entries.append(Entry(key, kind, tensor, flags.get(key)))
    images = [entry for entry in entries if entry.kind == "image"]
    if images:
        lead = images[0].tensor.dim() - 3
    elif entries:
        lead = _lead_without_image(entries, lead)
    lead = lead or 0
    for entry in entries:
        inner = entry.tensor.dim() - lead
        if inner not in _INNER_DIMS[entry.kind]:
            raise invalid(
                f"batch[{entry.key!r}]" if not bare else "image",
                expected=f"{_SHAPES[entry.kind]}, with the leading axes of the image" if not bare else _SHAPES[entry.kind],
                got=f"shape {tuple(entry.tensor.shape)}",
            )
    _check_agreement(entries, lead)
    return Parsed(tuple(entries), untouched or {}, lead, bare)


def _check_tensor(key: str, kind: str, tensor: object) -> None:
    name = f"batch[{key!r}]"
    if not isinstance(tensor, Tensor):
        raise wrong_type(name, expected="a tensor", got=type(tensor).__name__, fix="Convert with torch.as_tensor.")
    if tensor.is_nested or tensor.is_quantized or tensor.layout is not torch.strided:
        raise wrong_type(name, expected="an ordinary, dense tensor", got=f"one of layout {tensor.layout}, {tensor.dtype}")
    if tensor.is_complex() or (kind in _FLOAT_KINDS and not tensor.is_floating_point()):
        raise wrong_type(name, expected="a floating-point tensor", got=tensor.dtype, fix="Use .float().")
    if kind == "image" and not (tensor.is_floating_point() or tensor.dtype == torch.uint8):
        raise wrong_type(
            name, expected="uint8 or a floating-point tensor", got=tensor.dtype, fix="Use .float() and scale to [0, 1]."
        )
    if kind == "image" and not 3 <= tensor.dim() <= 5:
        raise invalid(name, expected=_SHAPES["image"], got=f"shape {tuple(tensor.shape)}")
    if kind == "boxes" and tensor.dim() and tensor.shape[-1] not in (4, 5):
        raise invalid(name, expected=_SHAPES["boxes"], got=f"shape {tuple(tensor.shape)}")
    if kind == "keypoints" and tensor.dim() and tensor.shape[-1] not in (2, 3):
        raise invalid(name, expected=_SHAPES["keypoints"], got=f"shape {tuple(tensor.shape)}")


def _lead_without_image(entries: list[Entry], recorded: int | None) -> int:
    for entry in entries:
        possible = [entry.tensor.dim() - inner for inner in _INNER_DIMS[entry.kind]]
        if recorded in possible:
            assert recorded is not None
            return recorded
        if len(possible) == 1:
            return possible[0]
    # Only fields that may or may not have a channel axis: a batch is likelier than a video.
    possible = [entries[0].tensor.dim() - inner for inner in _INNER_DIMS[entries[0].kind]]
    return 1 if 1 in possible else max(possible)


def _check_agreement(entries: list[Entry], lead: int) -> None:
    """Leading axes and picture sizes agree across targets."""
    if not entries:
        return
    first = entries[0]
    size: tuple[int, ...] | None = None
    for entry in entries:
        if entry.tensor.shape[:lead] != first.tensor.shape[:lead]:
            raise invalid(
                f"batch[{entry.key!r}]",
                expected=f"the leading axes of batch[{first.key!r}], {tuple(first.tensor.shape[:lead])}",
                got=f"shape {tuple(entry.tensor.shape)}",
            )
        if entry.kind in ("image", "mask", "heatmap", "depth"):
            here = tuple(entry.tensor.shape[-2:])
            if size is not None and here != size:
                raise invalid(
                    f"batch[{entry.key!r}]",
                    expected=f"height and width {size}, like the other pictures of the batch",
                    got=here,
                    fix="Resize it to the image's size; matrices are in the image's pixels.",
                )
            size = here
        if entry.valid is not None and entry.valid.shape != entry.tensor.shape[:-1]:
            raise invalid(
                f"batch[{entry.key + '_valid'!r}]", expected=f"shape {tuple(entry.tensor.shape[:-1])}", got=tuple(entry.valid.shape)
            )


def batch_of(parsed: Parsed) -> tuple[int, int]:
    """(samples, frames per sample) of a parsed batch."""
    if not parsed.entries or not parsed.lead:
        return 1, 1
    shape = parsed.entries[0].tensor.shape
    return shape[0], shape[1] if parsed.lead == 2 else 1


def flatten(entry: Entry, lead: int) -> Tensor:
    """The entry with exactly one batch axis; two-dimensional fields get a channel axis."""
    tensor = entry.tensor if type(entry.tensor) in (Tensor, torch.nn.Parameter) else entry.tensor.as_subclass(Tensor)
    inner = tensor.dim() - lead
    tensor = tensor[None] if lead == 0 else tensor.flatten(0, lead - 1)
    return tensor[:, None] if inner == 2 and entry.kind in ("mask", "heatmap", "depth") else tensor


def unflatten(result: Tensor, entry: Entry, lead: int) -> Tensor:
    """Undo :func:`flatten` on a result."""
    inner = entry.tensor.dim() - lead
    if inner == 2 and entry.kind in ("mask", "heatmap", "depth"):
        result = result[:, 0]
    return result[0] if lead == 0 else result.unflatten(0, entry.tensor.shape[:lead])
