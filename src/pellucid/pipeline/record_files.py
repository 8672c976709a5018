"""Write and read files of records.

Owns: the format, and the checks of a file's content.
Must not: run code that a file names.
Read next: ``records.py``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pellucid.core.arguments import check_choice
from pellucid.core.files import parsed, whole
from pellucid.engine.drawing import params_of
from pellucid.engine.plan import CANVAS_RULES, Plan, make_plan
from pellucid.errors import invalid
from pellucid.pipeline.serialization import transforms_from_list, transforms_to_list
from pellucid.types import ImageSpec

__all__ = ["read_parts", "write_parts"]

_VERSION = 1


def write_parts(path: str | os.PathLike[str], plan: Plan, params: Sequence[Mapping[str, Tensor]], samples: int, lead: int) -> None:
    """Write the arguments of `Record`; see `Record.save`."""
    target = Path(path)
    if target.suffix == ".safetensors":
        raise invalid("path", expected="a name for a PyTorch file, such as record.pt", got=target.name)
    spec = plan.specs[0]
    state: dict[str, Any] = {
        "pellucid_record": _VERSION,
        "transforms": transforms_to_list(plan.transforms),
        "image": [spec.channels, *spec.extent],
        "fuse": plan.fuse,
        "canvas": plan.canvas,
        "per_frame": list(plan.per_frame),
        "samples": samples,
        "lead": lead,
        "params": [{name: value.detach().cpu() for name, value in values.items()} for values in params],
    }
    with whole(target) as draft, draft.open("wb") as file:
        torch.save(state, file)


def read_parts(path: str | os.PathLike[str], allow: Sequence[str]) -> tuple[Plan, tuple[Mapping[str, Tensor], ...], int, int]:
    """Read a file, and return the arguments of `Record`; see `Record.load`."""
    whole_one = "a whole record, as Record.save writes it"
    state = parsed(path, partial(torch.load, map_location="cpu", weights_only=True), expected=whole_one)
    if not isinstance(state, dict) or state.get("pellucid_record") != _VERSION:
        got = state.get("pellucid_record") if isinstance(state, dict) else f"a {type(state).__name__}"
        raise invalid(str(path), expected=f"a record of version {_VERSION}", got=got)
    missing = [name for name in _FIELDS if name not in state]
    if missing:
        raise invalid(str(path), expected=f"a record with {', '.join(_FIELDS)}", got=f"none of {', '.join(missing)}")
    image = state["image"]
    channels, *extent = _whole_numbers(path, "image", image, 4 if isinstance(image, list) and len(image) == 4 else 3)
    (samples,) = _whole_numbers(path, "samples", [state["samples"]], 1)
    rule = state.get("canvas", "image")  # the only rule when records did not yet have this field
    check_choice(f"{path}: canvas", rule, CANVAS_RULES)
    transforms = transforms_from_list(state["transforms"], allow=allow)
    places = state.get("per_frame", [])
    per_frame = tuple(_whole_numbers(path, "per_frame", places, len(places) if isinstance(places, list) else 0))
    spec = ImageSpec.of(channels, tuple(extent))
    plan = make_plan(transforms, spec, fuse=bool(state["fuse"]), canvas=rule, per_frame=per_frame)
    _check_params(path, plan, state["params"], samples)
    if state["lead"] not in (0, 1, 2):
        raise invalid(f"{path}: lead", expected="0, 1 or 2", got=state["lead"])
    return plan, tuple(state["params"]), samples, state["lead"]


_FIELDS = ("transforms", "image", "fuse", "samples", "lead", "params")


def _whole_numbers(path: str | os.PathLike[str], name: str, values: Any, count: int) -> list[int]:
    if not isinstance(values, list) or len(values) != count or any(type(value) is not int or value < 0 for value in values):
        raise invalid(f"{path}: {name}", expected=f"{count} whole number{'s' * (count > 1)}", got=values)
    return values


def _check_params(path: str | os.PathLike[str], plan: Plan, params: Any, samples: int) -> None:
    """Raise unless the file has every drawn value of the plan, with a row per sample, of the right shape and kind of number."""
    if not isinstance(params, list) or len(params) != len(plan.steps):
        raise invalid(f"{path}: params", expected=f"a list of {len(plan.steps)} tables", got=type(params).__name__)
    start = {
        (draw.transform, draw.name): {raw: torch.as_tensor(number) for raw, number in draw.distribution.start().items()}
        for draw in plan.draws
    }
    drawn = params_of(plan, torch.full((1, 4 * len(plan.slots)), 0.5, dtype=torch.float64), start)
    moving: dict[tuple[int, str], Any] = {(draw.transform, draw.name): draw.distribution for draw in plan.smooth}
    for i, values in enumerate(params):
        wanted = {draw.name for draw in plan.draws if draw.transform == i}
        if not isinstance(values, dict) or values.keys() != wanted:
            got = sorted(map(str, values)) if isinstance(values, dict) else type(values).__name__
            raise invalid(f"{path}: params[{i}]", expected=f"the drawn values {sorted(wanted)}", got=got)
        for name, value in values.items():
            here = drawn[i][name]
            if (i, name) in moving and isinstance(value, Tensor) and value.dim() != here.dim():  # one frame's value
                here = moving[i, name].each(here, 1)
            kind, shape = "real" if here.is_floating_point() else "whole", (samples, *here.shape[1:])
            if (
                not isinstance(value, Tensor)
                or tuple(value.shape) != shape
                or value.is_floating_point() != here.is_floating_point()
                or value.dtype in (torch.bool, torch.complex64, torch.complex128)
            ):
                got = f"{value.dtype} of shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
                raise invalid(f"{path}: params[{i}].{name}", expected=f"{kind} numbers of shape {shape}", got=got)
