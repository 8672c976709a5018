"""Read a user's batch (a tensor, a dict of targets, torchvision's tensor classes), and give results in the same form.

Owns: finding the kind of each entry, checking shapes, flattening to one batch axis and restoring.
Must not: compute anything on pixels.
Read next: ``../pipeline/records.py``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from pellucid.boxes.degrees import DEGREES, from_degrees, to_degrees
from pellucid.core.arguments import is_number
from pellucid.core.axes import check_axes
from pellucid.core.constants import constant, wide_dtype
from pellucid.engine.plan import Plan
from pellucid.errors import invalid, wrong_type
from pellucid.geometry.polygons import as_rows
from pellucid.targets.arrays import as_tensor, given_as, is_array
from pellucid.targets.containers import Form, opened
from pellucid.targets.kinds import BOXES, IMAGE, IMAGES, KINDS, VALID, VOLUME, Entry, TargetKind
from pellucid.targets.options import FORMATS, Options, kind_in
from pellucid.targets.torchvision import box_format_of, canvas_of, is_clip, is_picture, wrap_like
from pellucid.types import DEEP, FLOATING, Size

__all__ = ["Parsed", "Sorted", "batch_of", "flatten", "is_rows", "parse", "parse_sorted", "sort", "unflatten"]

_STALE = "Areas change with the boxes: leave it out, or pass passthrough=('area',) to keep the old numbers."
_AXES = ", or Pipeline(channels_last=True); channels_last=False takes the axes as they stand"


@dataclass(frozen=True)
class Parsed:
    """A batch after reading.

    Args:
        entries: the entries to transform, in the batch's order.
        untouched: labels and passthrough entries.
        lead: how many leading axes are batch axes: 0 (one sample), 1 (batch), 2 (video).
        form: of the input.
    """

    entries: tuple[Entry, ...]
    untouched: dict[str, Any]
    lead: int
    form: Form


class Sorted(NamedTuple):
    """A batch, divided into entries to transform, flags, and the rest.

    Args:
        values: the entries to transform, by key.
        kinds: their kinds, by key.
        flags: validity of boxes and keypoints, by their key.
        untouched: labels and passthrough entries.
        form: of the batch.
    """

    values: dict[str, Any]
    kinds: dict[str, TargetKind]
    flags: dict[str, Any]
    untouched: dict[str, Any]
    form: Form


def sort(batch: object, options: Options) -> Sorted:
    """Find the kind of each entry of a batch."""
    batch, form = opened(batch)
    if isinstance(batch, Tensor | list | tuple) or is_array(batch):
        said = KINDS[options.targets.get("image", "image")]
        bare = said if type(batch) is Tensor or said.space else kind_in("image", batch, _BARE) or IMAGE
        return Sorted({"image": batch}, {"image": bare}, {}, {}, form)
    if not isinstance(batch, Mapping):
        fix = "pellucid.data.decode(path) reads a file." if isinstance(batch, str | bytes | os.PathLike) else ""
        expected = "a tensor, an array, a PIL image, a list of them, a dict of targets, or (image, target)"
        raise wrong_type("batch", expected=expected, got=type(batch).__name__, fix=fix)
    named = Sorted({}, {}, {}, {}, form)
    for key, value in batch.items():
        if not isinstance(key, str):
            raise wrong_type("batch", expected="keys that are text, named after their kind", got=repr(key))
        kind = kind_in(key, value, options)
        if key in options.passthrough or (kind is not None and not kind.axes):
            named.untouched[key] = value
        elif kind is not None:
            named.values[key], named.kinds[key] = value, kind
        elif key.endswith(f"_{VALID}") and key[: -len(VALID) - 1] in batch:
            named.flags[key[: -len(VALID) - 1]] = value
        else:
            expected = f"a key named after its kind ({', '.join(KINDS)}; also mask_left, image2, ...)"
            raise invalid(f"batch[{key!r}]", expected=expected, got=repr(key), fix=_STALE if key == "area" else _fix(key, value))
    return named


_BARE = Options()  # for a picture alone, which has no key


_WORDS = (
    ("quads", "quad quadrilateral"),
    ("", "path file filename fname url meta metadata info caption text prompt"),
    ("extrinsics", "extrinsic pose"),
    ("lens", "distortion dist distcoeff coeff"),
    ("intrinsics", "intrinsic camera cam k calib calibration"),
    ("labels", "label class classe category categorie cls score y"),
    ("", "name id idx index size shape time timestamp"),
    ("boxes", "box boxe bbox bboxe bndbox detection roi rect"),
    ("polylines", "polyline lane line linestring road"),
    ("polygons", "polygon contour outline"),
    ("keypoints", "keypoint kpt kp landmark joint point pt"),
    ("mask", "mask seg segmentation segm semantic panoptic instance annotation matte trimap"),
    ("disparity", "disparity disp"),
    ("depth", "depth"),
    ("flow", "flow"),
    ("normals", "normal"),
    ("heatmap", "heatmap heat"),
    ("image", "image img picture photo rgb frame video clip pixel view input x"),
)
"""Kinds and the words in other data sets' keys that suggest them (without a plural's s); the first match counts."""


def _fix(key: str, value: object) -> str:
    """Suggest a fix for an unknown key: the kind that its words suggest, or else its numbers, or passthrough."""
    words = {word.removesuffix("s").rstrip("0123456789") for word in re.sub(r"([a-z])([A-Z])", r"\1_\2", key).lower().split("_")}
    found = next((kind for kind, known in _WORDS if words & set(known.split())), None)
    alone = f"passthrough=({key!r},) to leave it alone"
    kind = _likely(value) if found is None else found
    kind = "polygons" if kind == "mask" and isinstance(value, list) and value and isinstance(value[0], list) else kind  # COCO's
    return f"Pass targets={{{key!r}: {kind!r}}} if that is what it is, or {alone}." if kind else f"Pass {alone}."


def _likely(value: object) -> str:
    """Guess a kind from a value's shape and dtype; "" for anything but numbers."""
    value = next(iter(value), None) if isinstance(value, list | tuple) else value
    shape = tuple(getattr(value, "shape", ()))
    whole = "float" not in str(getattr(value, "dtype", "float"))
    if isinstance(value, int | float) or len(shape) == 1 or (hasattr(value, "dtype") and not shape):
        return "labels"
    if len(shape) > 1 and shape[-1] in (2, 3, 4, 5) and len(shape) < 4 and max(shape[:-1]) < _MANY:
        return "boxes" if shape[-1] > 3 else "keypoints"
    if len(shape) > 1:
        return "mask" if whole and not {1, 3} & {shape[-1], shape[-3:][0]} else "image"
    return ""


_MANY = 1024  # one picture hardly has so many boxes or points


def parse(batch: object, options: Options, *, lead: int | None = None) -> Parsed:
    """Read and check a batch. ``lead`` is the number of batch axes in the record, for batches without images."""
    return parse_sorted(sort(batch, options), options, lead=lead)


def parse_sorted(named: Sorted, options: Options, *, lead: int | None) -> Parsed:
    """Read and check a batch that `sort` has divided."""
    bare = named.form.bare
    entries = []
    for key, tensor in named.values.items():
        entries.append(_entry(key, named.kinds[key], tensor, named.flags.get(key), options))
    images = [entry for entry in entries if entry.kind in IMAGES]
    _check_one_space(entries)
    if images:
        lead = images[0].tensor.dim() - images[0].kind.axes[0]
    elif entries:
        lead = _lead_without_image(entries, lead)
    lead = lead or 0
    if len(entries) > 1:
        entries = [_in_one_row(_channels_first(entry, named.values[entry.key], images), lead) for entry in entries]
    elif not images:
        entries = [_in_one_row(entry, lead) for entry in entries]
    for entry in entries:
        inner, wanted = entry.tensor.dim() - lead, entry.kind.channels
        if inner not in entry.kind.axes or (wanted and entry.tensor.shape[-3] != wanted):
            expected = f"{entry.kind.shapes}, with the leading axes of the image" if not bare else entry.kind.shapes
            got = f"shape {tuple(entry.tensor.shape)}"
            raise invalid(f"batch[{entry.key!r}]" if not bare else "image", expected=expected, got=got)
    _check_agreement(entries, lead)
    return Parsed(tuple(entries), named.untouched, lead, named.form)


def _channels_first(entry: Entry, value: object, images: list[Entry]) -> Entry:
    """Move the channels of an array (H, W, C) first, if a picture of that size is in the batch; the result is (H, W, C) again."""
    shape = tuple(entry.tensor.shape)
    if len(shape) < 3 or not images or entry.kind.move or entry.kind in IMAGES or not is_array(value):
        return entry
    if images[0].size in (shape[-2:], None) or images[0].size != shape[-3:-1]:
        return entry
    return replace(entry, tensor=entry.tensor.movedim(-1, -3), given=entry.given and "image")


def _in_one_row(entry: Entry, lead: int) -> Entry:
    """Flatten keypoints of several objects (N, K, 2) to (N K, 2), and note K."""
    rows = entry.tensor
    if entry.kind.name != "keypoints" or rows.dim() - lead != 3:
        return entry
    flags = entry.valid
    _check_flags(entry)
    flat = wrap_like(rows.flatten(-3, -2), rows, canvas_of(rows) or (0, 0))
    return replace(entry, tensor=flat, valid=None if flags is None else flags.flatten(-2), points=rows.shape[-2])


def _check_one_space(entries: list[Entry]) -> None:
    """Raise if a batch mixes kinds of volumes and kinds of pictures."""
    for entry in entries:
        if entry.kind.space != entries[0].kind.space:
            names = [kind.name for kind in KINDS.values() if kind.space == entries[0].kind.space]
            fix = f"targets={{{entry.key!r}: ...}} says what a key is; passthrough=({entry.key!r},) leaves it alone."
            expected = f"a kind that goes with {entries[0].kind.name}: {', '.join(names)}"
            raise invalid(f"batch[{entry.key!r}]", expected=expected, got=entry.kind.name, fix=fix)


def _entry(key: str, kind: TargetKind, tensor: object, valid: Tensor | None, options: Options) -> Entry:
    """Convert and check one entry."""
    name = f"batch[{key!r}]"
    array = is_array(tensor)
    given = given_as(tensor, kind.name, options.out)
    if isinstance(tensor, list | tuple) and kind.corners:
        tensor = as_rows(name, tensor, kind.corners)
    elif isinstance(tensor, list | tuple) and (kind.move or kind.integers is None):
        tensor = (
            _rows(name, kind, tensor) if kind.move and kind.axes != (1,) else torch.stack([torch.as_tensor(one) for one in tensor])
        )
    if array:
        tensor = as_tensor(name, kind.name, tensor)
    if not isinstance(tensor, Tensor):
        fix = "" if kind in IMAGES else "Convert with torch.as_tensor."
        raise wrong_type(name, expected="a tensor, an array or a PIL image", got=type(tensor).__name__, fix=fix)
    _check_tensor(name, kind, tensor)
    if not torch.compiler.is_compiling() and tensor.is_neg():  # compiled kernels read memory, and would miss the negation bit
        tensor = wrap_like(tensor.resolve_neg(), tensor, canvas_of(tensor) or (0, 0))
    if type(tensor) is not Tensor and is_clip(tensor) and tensor.dim() == 4 and not options.same_on_batch:
        fix = "One alone is video[None]; same_on_batch=True takes its frames as a batch with one draw."
        raise invalid(name, expected="videos (B, T, C, H, W)", got=f"a Video of shape {tuple(tensor.shape)}", fix=fix)
    depth = tensor.dtype if kind is IMAGE and tensor.dtype in DEEP else None
    tensor = tensor if depth is None else tensor.to(torch.float32) / DEEP[depth]
    depth = depth if options.dtype is None else None
    if kind is IMAGE and array:
        given = "" if given and options.channels_last else given
        return Entry(key, kind, tensor, valid, channels_last=bool(options.channels_last), depth=depth, given=given)
    if kind is IMAGE:
        # torchvision's own pictures always have their channels first.
        last = bool(options.channels_last) and not is_picture(tensor)
        if options.channels_last is None:
            check_axes(name, tensor.shape, option=_AXES)
        tensor = tensor.movedim(-1, -3) if last else tensor
        return Entry(key, kind, tensor, valid, channels_last=last, depth=depth, given="array" if given and last else given)
    if kind is BOXES:
        return replace(_boxes(key, tensor, valid, options), given=given)
    return Entry(key, kind, tensor, valid, given=given)


def is_rows(value: object) -> bool:
    """Return whether this is a list of rows of numbers: the boxes or points of one picture, not a list of pictures."""
    if not isinstance(value, list | tuple):
        return False
    return all(isinstance(row, list | tuple) and row and all(map(is_number, row)) for row in value)


def _rows(name: str, kind: TargetKind, rows: Sequence[Any]) -> Tensor:
    if not is_rows(rows) or len({len(row) for row in rows}) > 1:
        said = isinstance(rows, list | tuple) and any(isinstance(row, list | tuple) and not is_rows([row]) for row in rows)
        fix = _LABELLED if said and kind is BOXES else "Convert with torch.as_tensor."
        raise invalid(name, expected="rows of equally many numbers, or a tensor", got=repr(rows), fix=fix)
    numbers = len(rows[0]) if rows else (kind.last or (4,))[0]
    return torch.tensor(rows, dtype=torch.float32).reshape(len(rows), numbers)


_LABELLED = "Labels of boxes have a key of their own, class_labels."


def _boxes(key: str, tensor: Tensor, valid: Tensor | None, options: Options) -> Entry:
    """Read boxes, in the format of their torchvision class or else of the pipeline's ``box_format``."""
    name, numbers = f"batch[{key!r}]", tensor.shape[-1] if tensor.dim() else 0
    declared = box_format_of(tensor)
    form, fractions = (cast(Any, declared), False) if declared else FORMATS[options.box_format_of(key)]
    wanted = DEGREES.get(form, 4)
    if numbers != wanted:
        fix = f"Pass box_format={{{key!r}: 'cxcywhr'}} for rotated boxes (radians)." if numbers == 5 else ""
        fix = f"{fix} {_LABELLED}" if numbers > 4 else fix
        raise invalid(name, expected=f"{wanted} numbers per box ({form})", got=f"shape {tuple(tensor.shape)}", fix=fix)
    if wanted > 4 and not tensor.is_floating_point():
        raise wrong_type(name, expected="floating-point numbers: rotated boxes have an angle", got=tensor.dtype)
    if fractions and not tensor.is_floating_point():
        raise wrong_type(name, expected="floating-point numbers: fractions of the picture's size", got=tensor.dtype)
    degrees = form if declared in DEGREES else None
    return Entry(key, BOXES, tensor, valid, "cxcywhr" if degrees else form, degrees, fractions=fractions)


def _check_tensor(name: str, kind: TargetKind, tensor: Tensor) -> None:
    if tensor.is_nested or tensor.is_quantized or tensor.layout is not torch.strided:
        raise wrong_type(name, expected="an ordinary, dense tensor", got=f"one of layout {tensor.layout}, {tensor.dtype}")
    if tensor.is_floating_point() and tensor.dtype not in FLOATING:
        fix = "Use .float(): torch only stores these."
        raise wrong_type(name, expected="float16, bfloat16, float32 or float64", got=tensor.dtype, fix=fix)
    allowed = kind.integers
    if tensor.is_complex() or not (tensor.is_floating_point() or allowed is None or tensor.dtype in allowed):
        expected = " or ".join(filter(None, [", ".join(str(one)[6:] for one in allowed or ()), "a floating-point tensor"]))
        scale = " and scale to [0, 1]" if kind is IMAGE else ""
        raise wrong_type(name, expected=expected, got=tensor.dtype, fix=f"Use .float(){scale}.")
    if (
        (kind is VOLUME and not 4 <= tensor.dim() <= 5)
        or (kind is IMAGE and not 3 <= tensor.dim() <= 5)
        or (kind.last and tensor.dim() and tensor.shape[-1] not in kind.last)
        or (kind.corners == "quad" and tensor.shape[-2:-1] != (4,))
    ):
        raise invalid(name, expected=kind.shapes, got=f"shape {tuple(tensor.shape)}")


def _lead_without_image(entries: list[Entry], recorded: int | None) -> int:
    for entry in entries:
        possible = [entry.tensor.dim() - inner for inner in entry.kind.axes]
        if recorded in possible:
            assert recorded is not None
            return recorded
        if len(possible) == 1 or entry.kind.move:
            return possible[0]
    # Only entries whose channel axis is optional are left: a batch is more likely than a video.
    possible = [entries[0].tensor.dim() - inner for inner in entries[0].kind.axes]
    return 1 if 1 in possible else max(possible)


def _check_agreement(entries: list[Entry], lead: int) -> None:
    """Raise unless leading axes and picture sizes agree across targets."""
    if not entries:
        return
    first = entries[0]
    size: tuple[int, ...] | None = None
    for entry in entries:
        if entry.tensor.shape[:lead] != first.tensor.shape[:lead]:
            expected = f"the leading axes of batch[{first.key!r}], {tuple(first.tensor.shape[:lead])}"
            raise invalid(f"batch[{entry.key!r}]", expected=expected, got=f"shape {tuple(entry.tensor.shape)}")
        here = entry.size
        if here is not None:
            if size is not None and here != size:
                fix = "" if entry.kind.space else "Resize it to the image's size; matrices are in the image's pixels."
                fix = "Channels of a mask come first, (C, H, W)." if tuple(entry.tensor.shape[-3:-1]) == size else fix
                expected = f"{'depth, ' * entry.kind.space}height and width {size}, like the rest of the batch"
                got = f"{'canvas_size ' if entry.kind.move else ''}{here}"
                raise invalid(f"batch[{entry.key!r}]", expected=expected, got=got, fix=fix)
            size = here
        _check_flags(entry)


def _check_flags(entry: Entry) -> None:
    flags, wanted = entry.valid, entry.tensor.shape[: -2 if entry.kind.corners else -1]
    if flags is not None and flags.shape != wanted:
        raise invalid(f"batch[{entry.key + '_valid'!r}]", expected=f"shape {tuple(wanted)}", got=tuple(flags.shape))


def batch_of(parsed: Parsed) -> tuple[int, int]:
    """Return (samples, frames per sample) of a parsed batch."""
    if not parsed.entries or not parsed.lead:
        return 1, 1
    shape = parsed.entries[0].tensor.shape
    return shape[0], shape[1] if parsed.lead == 2 else 1


def flatten(entry: Entry, lead: int, size: Size) -> Tensor:
    """Return the entry's tensor in the form for computing, with exactly one batch axis; ``size`` is that of its picture.

    Fields (H, W) get a channel axis; torchvision's rotated boxes and rows of integers become float64 if the device has it.
    """
    tensor = entry.tensor
    if type(tensor) not in (Tensor, torch.nn.Parameter) and not _traced(tensor):
        tensor = tensor.as_subclass(Tensor)
    inner = tensor.dim() - lead
    tensor = tensor[None] if lead == 0 else tensor.flatten(0, lead - 1)
    if entry.degrees:
        return from_degrees(tensor.to(wide_dtype(tensor.device)), entry.degrees)
    if entry.kind.move and not tensor.is_floating_point():
        return tensor.to(wide_dtype(tensor.device))
    if entry.fractions:
        return tensor.to(wide_dtype(tensor.device)) * _sides(size, tensor.device)
    if entry.kind.space and not entry.kind.move:  # slices one below another
        return (tensor if inner == 4 else tensor[:, None]).flatten(2, 3)
    return tensor[:, None] if inner == 2 and entry.kind.interpolation else tensor


def _traced(tensor: Tensor) -> bool:
    """Return whether a tracer made the tensor's class: ``as_subclass`` would hide the tensor from torch.export."""
    return type(tensor).__torch_function__ is torch._C._disabled_torch_function_impl


def _sides(size: Size, device: torch.device) -> Tensor:
    """Return (width, height, width, height)."""
    return constant((size[1], size[0]) * 2, wide_dtype(device), device)


def unflatten(result: Tensor, entry: Entry, lead: int, size: Size, plan: Plan) -> Tensor:
    """Undo :func:`flatten` on a result; ``size`` is the new size of its picture.

    Rows of integers stay integers if the plan only moves whole pixels; otherwise they become float32.
    """
    inner = entry.tensor.dim() - lead
    if entry.kind.space and not entry.kind.move:
        result = result.unflatten(2, (size[0], size[1]))
        result = result if inner == 4 else result[:, 0]
    elif inner == 2 and entry.kind.interpolation:
        result = result[:, 0]
    if entry.kind.move:
        result = to_degrees(result, entry.degrees) if entry.degrees else result
        result = result / _sides(size, result.device) if entry.fractions else result
        dtype = entry.tensor.dtype
        if dtype.is_floating_point:
            result = result.to(dtype)
        elif plan.whole and entry.box_format in ("xyxy", "xywh"):  # other formats have centres, at half pixels
            result = torch.where(result.isfinite(), result, 0.0).round().to(dtype)
        else:
            result = result.to(torch.float32)
    result = result[0] if lead == 0 else result.unflatten(0, entry.tensor.shape[:lead])
    if entry.points:
        result = result.unflatten(-2, (-1, entry.points))
    if entry.depth is not None and not plan.ends_normalised:
        most = DEEP[entry.depth]
        result = (result * most).round().clamp(-most - 1 if entry.depth.is_signed else 0, most).to(entry.depth)
    return result.movedim(-3, -1) if entry.channels_last else result
