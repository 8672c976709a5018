"""Targets of a scene under ``cameras="pose"`` and ``"residual"``: poses, lenses, boxes in space, and matrices of bent pictures.

Owns: which maps such targets can follow, moving a picture's rotation into the pose, and the displacements that a camera's matrix
cannot express.
Must not: know how each kind turns: the table of kinds does.
Read next: ``../geometry/cameras.py``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pellucid.core.constants import wide_dtype
from pellucid.engine.execution import backwards, forwards, hops
from pellucid.engine.lowering import Lowered
from pellucid.engine.plan import Plan
from pellucid.errors import invalid
from pellucid.geometry.cameras import camera_along, split_camera
from pellucid.geometry.paths import expanded, follow
from pellucid.geometry.points import pixel_centers
from pellucid.segments import SegmentSpec, WarpSpec
from pellucid.targets.kinds import Entry
from pellucid.targets.options import Options
from pellucid.targets.parsing import Parsed

__all__ = ["check_followed", "posed", "residuals", "turns"]

_FOLLOWS = {
    "perspective": "affine maps and perspectives",
    "affine": "affine maps",
    "axes": "crops, resizes and mirrors, under which an upright box stays upright",
}


def _stops(spec: SegmentSpec | None, follows: str) -> bool:
    """Return whether a target that ``follows`` such maps cannot follow this step."""
    if not isinstance(spec, WarpSpec):
        return False
    return spec.bends or (follows != "perspective" and spec.projective) or (follows == "axes" and not spec.along_axes)


def check_followed(plan: Plan, parsed: Parsed, options: Options) -> None:
    """Raise for a target of a scene that cannot follow some step, or whose camera is not in the batch."""
    for entry in parsed.entries:
        if entry.kind.scene is None or options.cameras != "pose":
            continue
        for step, spec in zip(plan.steps, plan.segments, strict=True):
            if _stops(spec, entry.kind.follows):
                fix = "Leave that step out, or pass Pipeline(cameras='matrix')."
                expected = f"{_FOLLOWS[entry.kind.follows]}: beside a pose, {entry.kind.name} can follow no others"
                raise invalid(f"batch[{entry.key!r}]", expected=expected, got=type(step.transform).__name__, fix=fix)
        _camera_of(entry, parsed)


def turns(entry: Entry, options: Options) -> bool:
    """Return whether a map changes an entry's values, besides moving them; a turn that the camera's pose takes does not count."""
    return entry.key in options.pairs or (entry.kind.turn is not None and not (entry.kind.scene and options.cameras == "pose"))


def _camera_of(entry: Entry, parsed: Parsed) -> str:
    """Return the key of an entry's camera: the intrinsics whose name has the same ending, or the only ones."""
    cameras = [one.key for one in parsed.entries if one.kind.name == "intrinsics"]
    same = [key for key in cameras if key.partition("_")[2] == entry.key.partition("_")[2]] or cameras
    if len(same) != 1:
        fix = "The picture's rotation goes into the pose, and is read off this matrix. Pass it, or Pipeline(cameras='matrix')."
        expected = "the intrinsics of its camera beside it"
        raise invalid(f"batch[{entry.key!r}]", expected=expected, got=f"{len(same)} of them", fix=fix)
    return same[0]


def posed(result: dict[str, Any], parsed: Parsed, options: Options) -> None:
    """Take the rotation out of the cameras' matrices, and apply it to the scene's other targets; changes ``result`` in place."""
    if options.cameras != "pose":
        return
    turns = {}
    for entry in parsed.entries:
        if entry.kind.name == "intrinsics":
            matrix = result[entry.key]
            plain, turns[entry.key] = split_camera(matrix.to(wide_dtype(matrix.device)))
            result[entry.key] = plain.to(matrix.dtype)
    for entry in parsed.entries:
        if entry.kind.scene is not None:
            value, turn = result[entry.key], turns[_camera_of(entry, parsed)]
            flat = value.to(turn.dtype).reshape(-1, *value.shape[parsed.lead :])
            result[entry.key] = entry.kind.scene(flat, turn.reshape(-1, 3, 3)).reshape(value.shape).to(value.dtype)


def residuals(lowered: Lowered, parsed: Parsed, options: Options) -> dict[str, Tensor]:
    """For each camera of a picture that a field bent, return the displacements (b, 2, h, w) that its matrix cannot express: from
    each pixel to where the matrix puts the point that the pixel shows.
    """
    plan = lowered.plan
    cameras = [entry for entry in parsed.entries if entry.kind.name == "intrinsics"]
    if options.cameras != "residual" or not plan.bends or not cameras:
        return {}
    wide, rows = wide_dtype(lowered.device), cameras[0].tensor.shape[: parsed.lead]
    pixels = pixel_centers(plan.size_out, wide, lowered.device).expand(rows.numel(), -1, 2)
    back, forth = (
        [(expanded(step.to(wide), len(pixels)), None) for step, _ in way] for way in (backwards(lowered), forwards(hops(lowered)))
    )
    source, _ = follow(pixels, back)
    eye = torch.eye(3, dtype=wide, device=lowered.device).expand(len(pixels), 3, 3)
    straight = camera_along("", eye, [step for step, _ in forth], bends=True)
    left = (follow(source, [(straight, None)])[0] - pixels).mT.reshape(*rows, 2, *plan.size_out)
    return {"residual" + "".join(one.key.partition("_")[1:]): left.to(one.tensor.dtype) for one in cameras}
