"""A plan as text.

Owns: the wording of ``pipeline.explain()``.
Must not: decide anything.
Read next: ``module.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

import torch

from pellucid.core.constants import wide_dtype
from pellucid.engine.plan import Plan, Run, Single, Space
from pellucid.kernels import blend, codec, convolve, explicit, resize, volume, warp
from pellucid.kernels.dispatch import choose
from pellucid.segments import BlendSpec, CodecSpec, ColorSpec, ConvolveSpec, CurveSpec, LayerSpec, SegmentSpec, Warp3Spec
from pellucid.transforms.choices import Choice
from pellucid.types import ImageSpec

__all__ = ["explain", "lacking"]

_AVAILABLE: Mapping[SegmentSpec, tuple[str, ...]] = {
    ConvolveSpec(): convolve.SEPARABLE,
    ConvolveSpec("interior"): convolve.AVAILABLE,
    ConvolveSpec("dense"): convolve.AVAILABLE,
    ConvolveSpec("median"): convolve.AVAILABLE,
    BlendSpec(noise=True): blend.AVAILABLE,
    CodecSpec(): codec.AVAILABLE,
}


def explain(plan: Plan, *, impl: str, device: str) -> str:
    """Describe the passes, the steps that each composes, and the draws."""
    spec, result = plan.specs[0], plan.specs[-1]
    lines = [
        f"{plan}",
        f"input  {_extent(spec)}, output {_extent(result)}",
        f"impl   {impl} -> {_all(plan, impl, device)} on {device}",
    ]
    lines += [f"lacks  {lacking(plan, device)}, so this does not run on {device}"] * bool(lacking(plan, device))
    bytewise = " -> ".join(str(group) for part in plan.parts for group in part.groups)
    lines += [f"bytes  {bytewise}, rounded after each pass of a choice that rounds"] * bool(bytewise)
    lines += [f"choice [{i}] {_choice(plan, i)}" for i, segment in enumerate(plan.segments) if segment is None]
    for number, group in enumerate(plan.groups, 1):
        who = _alone(plan, group, impl, device) if isinstance(group, Single) else ""
        how = _how(plan, group, impl, device) if isinstance(group, Run) else f"by {who}" if who else ""
        how = _how_in_space(plan, group, impl, device) if isinstance(group, Space) else how
        lines.append(f"pass {number}: {group}" + (f"  ({how})" if how else ""))
        for index in group.indices:
            branches = "".join(f"  in [{gate.choice}].{gate.branch}" for gate in plan.steps[index].gates[-1:])
            lines.append(f"    [{index}] {plan.steps[index].transform}{_drawn(plan, index)}{branches}")
    return "\n".join(lines)


def lacking(plan: Plan, device: str) -> str:
    """List the operators that torch lacks on a device, with the transforms that need them."""
    kinds = {device, *(["narrow"] if wide_dtype(torch.device(device)) is torch.float32 else [])}
    found = [(step.transform, getattr(step.transform, "absent", {})) for step in plan.steps]
    rows = [f"torch.{absent[kind]} (of {type(one).__name__})" for one, absent in found for kind in kinds & absent.keys()]
    return ", ".join(dict.fromkeys(rows))


def _extent(spec: ImageSpec) -> str:
    return " x ".join(map(str, (spec.channels, *spec.extent)))


def _drawn(plan: Plan, index: int) -> str:
    drawn = [d.name for d in plan.draws if d.transform == index]
    return f"  draws {', '.join(drawn)}" if drawn else ""


def _choice(plan: Plan, index: int) -> str:
    """Describe a choice and its options, without its branches, which are listed with their passes."""
    choice, _, _ = plan.steps[index]
    assert isinstance(choice, Choice)
    options = [f"{f.name}={getattr(choice, f.name)!r}" for f in fields(choice) if f.name != "transforms"]  # type: ignore[arg-type]
    count = f"{len(choice.branches)} branch{'es' * (len(choice.branches) > 1)}"
    return f"{type(choice).__name__}({', '.join([count, *options])}){_drawn(plan, index)}"


def _all(plan: Plan, impl: str, device: str) -> str:
    """Name the implementations, with the passes of each if they differ; passes with a single implementation count as reference."""
    passes: dict[str, list[str]] = {}
    for number, group in enumerate(plan.groups, 1):
        name = _alone(plan, group, impl, device) or "reference" if isinstance(group, Single) else _who(group, impl, device)
        passes.setdefault(name, []).append(str(number))
    if len(passes) < 2:
        return next(iter(passes), choose(impl, available=warp.AVAILABLE, device=device))
    return ", ".join(f"{name} (pass {' '.join(numbers)})" for name, numbers in passes.items())


def _how(plan: Plan, run: Run, impl: str, device: str) -> str:
    by = f"by {_who(run, impl, device)}"
    if by == "by triton":
        by += "".join(f", {part} by PyTorch" for part in _beside_triton(plan, run))
    if not run.warps:
        return f"pointwise, {by}"
    parts = ["one resample" if len(run.warps) > 1 or run.colors else "resample", run.interpolation]
    parts.append("homography" if run.projective else "scale and shift" if run.along_axes else "affine")
    parts.append(f"padding {run.padding_mode}" if run.fills else "never outside")
    if run.footprint is not None:
        parts.append("antialiased")
    if run.windows:
        parts.append(f"within the crop {'of' if run.windows[0].windowed else 'before'} [{run.windows[0].at}]")
    pictures = [f"[{canvas.at}] ({canvas.padding_mode})" for canvas in run.canvases if not canvas.bends]
    if pictures:
        parts.append(f"canvases before {', '.join(pictures)}")
    parts += [f"the field of [{canvas.at}]" for canvas in run.canvases if canvas.bends]
    return ", ".join([*parts, by])


def _beside_triton(plan: Plan, run: Run) -> list[str]:
    """List the parts of a run that Triton's passes leave to PyTorch."""
    field = next((k for k, canvas in enumerate(run.canvases) if canvas.bends), None)
    cut = run.clamped and run.padding_mode in ("zeros", "constant")
    ends = field is not None and any(canvas.hard for canvas in run.canvases[:field])
    hard = field is not None and (cut or ends or run.interpolation == "nearest")
    parts = ["places"] * bool(hard or (run.canvases and run.colors and plan.specs[0].channels > 4))
    return parts + ["stages of colour but the first"] * any(isinstance(plan.segments[i], CurveSpec) for i in run.colors)


def _alone(plan: Plan, single: Single, impl: str, device: str) -> str:
    """Return the implementation of a pass that is a single segment; "" if there is only one."""
    segment = plan.segments[single.index]
    assert segment is not None
    beside = isinstance(segment, LayerSpec | CurveSpec) or segment == ConvolveSpec("median")
    if impl == "triton" and beside:  # Triton's passes leave these to the reference
        impl = "reference"
    plain = isinstance(segment, ColorSpec | LayerSpec | CurveSpec)
    available = explicit.AVAILABLE if plain else _AVAILABLE.get(segment)
    return "" if available is None else choose(impl, available=available, device=device)


def _how_in_space(plan: Plan, run: Space, impl: str, device: str) -> str:
    spec = None if run.outside is None else plan.segments[run.outside]
    parts = ["one resample" if len(run.indices) > 1 else "resample", run.interpolation] if run.resamples else ["whole voxels"]
    parts.append(f"padding {spec.padding_mode}" if isinstance(spec, Warp3Spec) else "never outside")
    parts += [f"the field of [{i}]" for i in run.indices if i in plan.bends]
    return ", ".join([*parts, f"by {_who(run, impl, device)}"])


def _who(run: Run | Space, impl: str, device: str) -> str:
    """Return the implementation of the run's resample, for floating-point images."""
    if isinstance(run, Space):
        return choose(impl, available=volume.AVAILABLE, device=device)
    if run.separable:
        return choose(impl, available=resize.AVAILABLE, device=device)
    what = warp.unsupported(torch.float32, run.interpolation)
    return choose(impl, available=warp.AVAILABLE, device=device, unsupported=what)
