"""Executing a plan: Params in, pixels, boxes and points out.

Owns: lowering, the order of passes, and what each kind of target goes through.
Must not: draw, parse user input, or decide what is fused (the plan did).
Read next: ``targets.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.color.maps import apply_to_vector
from pellucid.constants import constant, wide_dtype
from pellucid.kernels import blend, color, convolve, curve
from pellucid.kernels.nearest import nearest
from pellucid.kernels.resize import resize
from pellucid.kernels.warp import warp
from pellucid.plan import Plan, Run
from pellucid.segments import Color, ColorSteps, Convolve, Curve, Noise, Patch, Segment, Sharpen, Tone, Warp
from pellucid.segments.chain import Chain, Stage
from pellucid.segments.specs import ColorSpec
from pellucid.types import Fill

__all__ = ["Lowered", "apply_field", "apply_image", "compute_dtype", "lower", "total_src_from_dst"]


class Lowered(NamedTuple):
    """A plan with its values: every transform's segment, and the composed map of every run that has one."""

    segments: tuple[Segment, ...]
    maps: dict[int, Tensor]  # by the run's first index: src_from_dst (b or 1, 3, 3)


def compute_dtype(dtype: torch.dtype) -> torch.dtype:
    """Coordinates and colours are computed in float32, in float64 for float64 images."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def lower(plan: Plan, params: Sequence[Mapping[str, Tensor]], device: torch.device) -> Lowered:
    """Turn drawn values into segments, and compose the geometry of each run."""
    like = torch.zeros((), dtype=wide_dtype(device), device=device)
    segments = tuple(t.lower(p, s, like) for t, p, s in zip(plan.transforms, params, plan.specs[:-1], strict=True))
    maps: dict[int, Tensor] = {}
    for group in plan.groups:
        if isinstance(group, Run) and group.warps:
            total: Tensor | None = None
            for index in group.warps:
                mid_from_dst = _warp(segments[index]).src_from_dst
                total = mid_from_dst if total is None else total @ mid_from_dst
            assert total is not None
            maps[group.indices[0]] = total
    return Lowered(segments, maps)


def _warp(segment: Segment) -> Warp:
    assert isinstance(segment, Warp)
    return segment


def total_src_from_dst(plan: Plan, lowered: Lowered) -> Float[Tensor, "b 3 3"] | None:
    """Output pixel to input pixel across the whole plan; None where nothing moves."""
    total: Tensor | None = None
    for group in plan.groups:
        matrix = lowered.maps.get(group.indices[0]) if isinstance(group, Run) else None
        if matrix is not None:
            total = matrix if total is None else total @ matrix
    return total


def apply_image(
    plan: Plan, lowered: Lowered, image: Float[Tensor, "b c h w"], *, scale: float, impl: str
) -> Float[Tensor, "b c2 h2 w2"]:
    """Send images through every pass.

    Args:
        plan, lowered: the plan and its values.
        image: float32 or float64, in [0, 1] units.
        scale: the image's own units per unit (255 for 8-bit input): fills are given in those.
        impl: who computes.
    """
    for group in plan.groups:
        if isinstance(group, Run):
            image = _apply_run(group, plan, lowered, image, scale, impl)
        else:
            image = _apply_single(lowered.segments[group.index], image, scale)
    return image


def _apply_run(run: Run, plan: Plan, lowered: Lowered, image: Tensor, scale: float, impl: str) -> Tensor:
    dtype = image.dtype
    chain = Chain(image.mean((-2, -1)).to(wide_dtype(image.device)) if run.pivot else None)
    for index in run.indices:
        segment = lowered.segments[index]
        if isinstance(segment, Color):
            spec = plan.segments[index]
            assert isinstance(spec, ColorSpec)
            chain.add(segment, spec.clip)
        if index == run.fill_at:
            chain.mark_fill()
        if index == run.resample_at:
            chain.mark_resample()
    chain.finish()
    image = color.stages(image, chain.prologue)
    matrix, offset = (None if part is None else part.to(dtype) for part in chain.fused or (None, None))
    if run.warps:
        fill = _fill(run, chain, image, scale)
        return _resample(run, lowered, image, fill, matrix, offset, chain.epilogue, impl)
    if matrix is not None:
        image = color.affine(image, matrix, offset)
    return color.stages(image, chain.epilogue)


def _fill(run: Run, chain: Chain, image: Tensor, scale: float) -> Tensor | None:
    """The fill as the resample must show it: the last exposing warp's, with the colour maps that follow it."""
    if run.fill_at is None or run.padding_mode not in ("zeros", "constant"):
        return None
    plain = run.padding_mode == "zeros" and run.fill in (0, 0.0)
    if plain and not chain.fill_stages and (chain.fill_map is None or chain.fill_map[1] is None):
        return None
    fill = _fill_vector(run.fill, image.shape[1], image.device) / scale
    if chain.fill_stages:
        fill = color.stages(fill[:, :, None, None], chain.fill_stages)[:, :, 0, 0]
    return apply_to_vector(chain.fill_map, fill).to(image.dtype)


def _fill_vector(fill: Fill, channels: int, device: torch.device) -> Float[Tensor, "1 c"]:
    numbers = (float(fill),) if isinstance(fill, int | float) else tuple(float(f) for f in fill)
    return constant(numbers * (channels // len(numbers)), wide_dtype(device), device)[None]


def _resample(
    run: Run,
    lowered: Lowered,
    image: Tensor,
    fill: Tensor | None,
    matrix: Tensor | None,
    offset: Tensor | None,
    epilogue: Sequence[Stage],
    impl: str,
) -> Tensor:
    src_from_dst = lowered.maps[run.indices[0]].to(image.dtype)
    window = _window(run, lowered, image) if run.clamped else None
    if run.clamped and run.footprint is not None:
        assert window is not None
        image = resize(
            image,
            src_from_dst,
            size=run.size_out,
            window=window,
            filled=run.padding_mode in ("zeros", "constant"),
            interpolation=run.interpolation,
            fill=fill,
            matrix=matrix,
            offset=offset,
            impl=impl,
        )
        return color.stages(image, epilogue)
    if run.interpolation == "nearest":
        return nearest(
            image,
            src_from_dst if run.projective else src_from_dst[:, :2],
            size=run.size_out,
            padding_mode=run.padding_mode,
            fill=fill,
            matrix=matrix,
            offset=offset,
            window=window,
            epilogue=epilogue,
            impl=impl,
        )
    return warp(
        image,
        src_from_dst if run.projective else src_from_dst[:, :2],
        size=run.size_out,
        interpolation=run.interpolation,
        padding_mode=run.padding_mode,
        fill=fill,
        matrix=matrix,
        offset=offset,
        window=window,
        footprint=run.footprint,
        epilogue=epilogue,
        impl=impl,
    )


def _window(run: Run, lowered: Lowered, image: Tensor) -> Float[Tensor, "b 4"]:
    """The rectangle sampling may not leave, in pixel centres of the run's input: the crop's, else the whole image."""
    if run.window_at is None:
        return constant((0.0, 0.0, run.size_in[1] - 1.0, run.size_in[0] - 1.0), image.dtype, image.device)[None]
    window = _warp(lowered.segments[run.window_at]).window
    assert window is not None
    before: Tensor | None = None
    for index in run.warps[: run.warps.index(run.window_at)]:
        step = _warp(lowered.segments[index]).src_from_dst
        before = step if before is None else before @ step
    if before is not None:  # earlier flips and shifts: send the corners back to the input; they stay axis-aligned
        scale = torch.stack((before[:, 0, 0], before[:, 1, 1], before[:, 0, 0], before[:, 1, 1]), -1)
        shift = torch.stack((before[:, 0, 2], before[:, 1, 2], before[:, 0, 2], before[:, 1, 2]), -1)
        ends = window * scale + shift
        window = torch.cat((torch.minimum(ends[:, :2], ends[:, 2:]), torch.maximum(ends[:, :2], ends[:, 2:])), -1)
    return window.to(image.dtype)


def _apply_single(segment: Segment, image: Tensor, scale: float) -> Tensor:
    dtype = image.dtype
    if isinstance(segment, ColorSteps):
        return color.jitter_steps(image, segment.order, {name: factor.to(dtype) for name, factor in segment.factors.items()})
    if isinstance(segment, Convolve):
        return convolve.separable(image, segment.vertical.to(dtype), segment.horizontal.to(dtype))
    if isinstance(segment, Tone):
        amount, gate = (None if part is None else part.to(dtype) for part in (segment.amount, segment.gate))
        how = segment.image_gradient, segment.magnitude
        return curve.tone(image, segment.name, amount, gate, image_gradient=how[0], magnitude=how[1], h=segment.h, scale=scale)
    if isinstance(segment, Curve):
        image, clip = curve.power(image, segment.exponent.to(dtype), segment.gain.to(dtype)), segment.clip
    elif isinstance(segment, Sharpen):
        image, clip = convolve.interior(image, segment.kernel.to(dtype)), segment.clip
    elif isinstance(segment, Noise):
        image, clip = blend.noise(image, segment.words, segment.mean.to(dtype), segment.sigma.to(dtype)), segment.clip
    else:
        assert isinstance(segment, Patch)
        return blend.patch(image, segment.box.to(dtype), _patch_value(segment, image))
    return color.clip(image) if clip else image


def _patch_value(segment: Patch, image: Tensor) -> Tensor:
    if segment.value is not None:
        return segment.value.to(image.dtype)
    assert segment.words is not None
    return blend.gaussian_field(segment.words, (image.shape[1], image.shape[2], image.shape[3]), image.dtype)


def apply_field(
    plan: Plan,
    lowered: Lowered,
    field: Float[Tensor, "b c h w"],
    *,
    interpolation: str,
    padding_mode: str | None,
    fill: float,
    impl: str,
) -> Float[Tensor, "b c h2 w2"]:
    """Send masks, heatmaps or depth through the geometry alone.

    Args:
        plan, lowered: the plan and its values.
        field: floating point, or integers with ``nearest``.
        interpolation: as in the warp kernel.
        padding_mode: None follows the run (with ``fill`` where the image shows fill); a name overrides it.
        fill: what lies outside.
        impl: who computes.
    """
    for group in plan.groups:
        if not isinstance(group, Run) or not group.warps:
            continue
        coordinates = compute_dtype(field.dtype)
        src_from_dst = lowered.maps[group.indices[0]].to(coordinates)
        like = field if field.dtype == coordinates else torch.empty((), dtype=coordinates, device=field.device)
        fill_tensor = constant((fill,) * field.shape[1], coordinates, field.device)[None] if fill else None
        field = warp(
            field,
            src_from_dst if group.projective else src_from_dst[:, :2],
            size=group.size_out,
            interpolation=interpolation,
            padding_mode=padding_mode or group.padding_mode,
            fill=fill_tensor,
            window=_window(group, lowered, like) if group.clamped else None,
            impl=impl,
        )
    return field
