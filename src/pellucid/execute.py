"""Executing a plan: Params in, pixels, boxes and points out.

Owns: the order of passes, and what each kind of target goes through.
Must not: draw, parse user input, or decide what is fused (the plan did).
Read next: ``targets.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from pellucid.constants import constant
from pellucid.kernels import blend, canvases, color, convolve, curve
from pellucid.kernels.derivatives import needs_grad
from pellucid.kernels.nearest import nearest
from pellucid.kernels.resize import implementation as resize_implementation
from pellucid.kernels.resize import resize, resize_packed
from pellucid.kernels.warp import implementation, packs, warp, warp_packed
from pellucid.kernels.warp.dtypes import rounded, to_colors
from pellucid.kernels.warp.packing import Packed
from pellucid.lowering import Composed, Lowered
from pellucid.lowering.compose import Geometry, Link, unmoved
from pellucid.plan import Canvas, Group, Run
from pellucid.segments import ColorSteps, Convolve, Curve, Noise, Patch, Segment, Sharpen, Tone, Warp
from pellucid.types import Size

__all__ = ["apply_field", "apply_image", "compute_dtype", "hops", "total_src_from_dst"]


def compute_dtype(dtype: torch.dtype) -> torch.dtype:
    """Coordinates and colours are computed in float32, in float64 for float64 images."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def hops(lowered: Lowered) -> list[tuple[Float[Tensor, "b_or_1 3 3"], Size]]:
    """From canvas to canvas across the whole plan: the map to the one from the next, and the next one's (height, width).

    Canvases that no later step can leave are none: whatever the plan composes, the same ones remain.
    """
    plan = lowered.plan
    if len(plan.hops) == 1:
        total = total_src_from_dst(lowered)
        assert total is not None
        return [(total, plan.size_out)]
    found: list[tuple[Tensor, Size]] = []
    for indices in plan.hops:
        total = None
        for index in indices:
            segment = lowered.segment(index)
            assert isinstance(segment, Warp)
            total = segment.src_from_dst if total is None else total @ segment.src_from_dst
        assert total is not None
        found.append((total, plan.specs[indices[-1] + 1].size))
    return found


def total_src_from_dst(lowered: Lowered) -> Float[Tensor, "b 3 3"] | None:
    """Output pixel to input pixel across the whole plan; None where nothing moves."""
    total: Tensor | None = None
    for group in lowered.plan.groups:
        matrix = lowered.geometry(group).total if isinstance(group, Run) else None
        if matrix is not None:
            total = matrix if total is None else total @ matrix
    return total


def apply_image(
    lowered: Lowered, image: Shaped[Tensor, "b c h w"], *, impl: str, dtype: torch.dtype
) -> Shaped[Tensor, "b c2 h2 w2"]:
    """Send images through every pass.

    Args:
        lowered: the plan and its values.
        image: floating point in [0, 1] units, or uint8: fills are given in its own units.
        impl: who computes.
        dtype: of the result: floating, or uint8, to which [0, 1] is clipped and rounded.
    """
    scale = 255.0 if image.dtype == torch.uint8 else 1.0
    *before, last = lowered.plan.groups or (None,)
    for group in before:
        image = _apply_group(group, lowered, image, scale, impl, compute_dtype(image.dtype))
    return rounded(_in_units(image), dtype) if last is None else _apply_group(last, lowered, image, scale, impl, dtype)


def _apply_group(group: Group, lowered: Lowered, image: Tensor, scale: float, impl: str, dtype: torch.dtype) -> Tensor:
    """One pass, from whatever the image is to this dtype."""
    if isinstance(group, Run):
        return _apply_run(group, lowered, image, scale, impl, dtype)
    return rounded(_apply_single(lowered.segment(group.index), _in_units(image), scale, impl), dtype)


def _in_units(image: Tensor) -> Tensor:
    """Images in the dtype of the arithmetic, 8-bit ones as fractions of 255."""
    return to_colors(image, compute_dtype(image.dtype))


def _apply_run(run: Run, lowered: Lowered, image: Tensor, scale: float, impl: str, dtype: torch.dtype) -> Tensor:
    computed = compute_dtype(image.dtype)
    wanted = None if dtype == computed else dtype
    if run.pivot and image.requires_grad:  # gradients of the mean and of the pass are added up before they are rounded
        image = _in_units(image)
    whole, mean = color.with_mean(image) if run.pivot else (image, None)
    chosen = "reference"
    if run.warps and run.separable:
        packed = None
        if resize_implementation(impl, image.device) == "cpu":
            packed = lowered.packed(run, mean, scale, computed)
        if packed is not None:  # which reads 8-bit images as they are
            return resize_packed(whole if whole.dtype == torch.uint8 else _in_units(whole), packed.returning(wanted))
    elif not run.canvases:  # which take more than one step
        chosen = implementation(impl, image.device, image.dtype, run.interpolation, run.footprint, dtype)
        packed = _packed(run, lowered, image, mean, scale) if chosen != "reference" else None
        if packed is not None and packs(chosen, image, packed):  # which reads and writes narrower numbers as they are
            return warp_packed(whole, packed.returning(wanted), chosen=chosen)
    image = _in_units(image)
    composed = lowered.composed(run, mean, scale, computed)
    image = color.stages(image, composed.prologue)
    if run.warps:
        return _resample(run, composed, image, impl, dtype)
    if chosen != "reference":  # colour alone, as a warp that moves nothing: one pass
        return _resample(run, composed._replace(src_from_dst=unmoved(computed, image.device)), image, impl, dtype)
    if composed.matrix is not None:
        image = color.affine(image, composed.matrix, composed.offset)
    return rounded(color.stages(image, composed.epilogue), dtype)


def _packed(run: Run, lowered: Lowered, image: Tensor, mean: Tensor | None, scale: float) -> Packed | None:
    """The run as arguments of a compiled warp; None where there is more to do."""
    packed = lowered.packed(run, mean, scale, compute_dtype(image.dtype))
    # Nearest warps have a gradient to their maps that kernels know nothing of.
    moved = packed is not None and run.interpolation == "nearest" and needs_grad(packed.mapping)
    return None if moved else packed


def _resample(run: Run, composed: Composed, image: Tensor, impl: str, dtype: torch.dtype) -> Tensor:
    src_from_dst, window, fill, matrix, offset, _, epilogue, links = composed
    assert src_from_dst is not None
    if links:
        colors: dict[str, Any] = {"fill": fill, "matrix": matrix, "offset": offset}
        hard = run.interpolation == "nearest"
        sample = partial(nearest, epilogue=()) if hard else partial(warp, interpolation=run.interpolation)
        found = _through(run, src_from_dst, links, image, sample, hard=hard, window=window, impl=impl, **colors)
        chosen = implementation(impl, found.device, found.dtype, run.interpolation, None, dtype)
        if chosen == "reference" or not epilogue:
            return rounded(color.stages(found, epilogue), dtype)
        still = unmoved(found.dtype, found.device)[:, :2]  # colour alone, as a warp that moves nothing: one pass
        return warp(found, still, size=run.size_out, dtype=dtype, epilogue=epilogue, impl=impl)
    if run.separable:
        assert window is not None
        found = resize(
            image,
            src_from_dst,
            size=run.size_out,
            window=window,
            filled=run.padding_mode in ("zeros", "constant"),
            interpolation=run.interpolation,
            antialias=run.footprint is not None,
            fill=fill,
            matrix=matrix,
            offset=offset,
            epilogue=epilogue,
            impl=impl,
        )
        return rounded(found, dtype)
    if run.interpolation == "nearest":
        found = nearest(
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
        return rounded(found, dtype)
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
        dtype=dtype,
        epilogue=epilogue,
        impl=impl,
    )


def _through(
    run: Run,
    src_from_dst: Tensor,
    links: tuple[Link, ...],
    image: Tensor,
    sample: Callable[..., Tensor],
    *,
    hard: bool,
    padding_mode: str | None = None,
    impl: str,
    **options: Any,
) -> Tensor:
    """A resample across canvases: the source where the chain of maps reads it, laid over the fills of what they leave uncovered.

    Args:
        sample: the warp kernel, with its interpolation.
        hard: whether that shows whole pixels.
        padding_mode: for everything that exposes; None is what the run says.
        options: as in the warp kernel.
    """
    modes = [padding_mode if padding_mode and canvas.exposes else canvas.padding_mode for canvas in run.canvases]
    chained = canvases.through(
        *_stacked(run.canvases, src_from_dst, links),
        size=run.size_out,
        modes=modes,
        hard=[canvas.hard or hard for canvas in run.canvases],
        impl=impl,
    )
    found = sample(
        image,
        src_from_dst.new_zeros((1, 2, 3)),
        size=run.size_out,
        padding_mode=(padding_mode if run.fill_at is not None else None) or run.padding_mode,
        field=chained.places,
        impl=impl,
        **options,
    )
    return canvases.laid_over(found, chained.share, chained.ground, impl=impl)


def _stacked(
    between: tuple[Canvas, ...], src_from_dst: Tensor, links: tuple[Link, ...]
) -> tuple[Float[Tensor, "#b k1 3 3"], Float[Tensor, "#b k 4"], Float[Tensor, "#b k c"] | None]:
    """The chain as three tensors: maps, rectangles, and fills if there are any."""
    like = src_from_dst
    whole = [constant((0.0, 0.0, c.size[1] - 1.0, c.size[0] - 1.0), like.dtype, like.device)[None] for c in between]
    windows = [full if link.window is None else link.window for full, link in zip(whole, links, strict=True)]
    fills = [link.fill for link in links]
    given = next((fill for fill in fills if fill is not None), None)
    maps = [src_from_dst, *(link.mid_from_dst for link in links)]
    return (
        _together(maps),
        _together(windows),
        None if given is None else _together([given.new_zeros((1, given.shape[1])) if fill is None else fill for fill in fills]),
    )


def _together(parts: list[Tensor]) -> Tensor:
    rows = next((part.shape[0] for part in parts if part.shape[0] != 1), 1)
    return torch.stack([part.expand(rows, *part.shape[1:]) for part in parts], 1)


def _apply_single(segment: Segment, image: Tensor, scale: float, impl: str) -> Tensor:
    dtype = image.dtype
    if isinstance(segment, ColorSteps):
        factors = {name: factor.to(dtype) for name, factor in segment.factors.items()}
        return color.jitter_steps(image, segment.order, factors, impl=impl)
    if isinstance(segment, Convolve):
        return convolve.separable(image, segment.vertical.to(dtype), segment.horizontal.to(dtype), impl=impl)
    if isinstance(segment, Sharpen):
        return convolve.interior(image, segment.kernel.to(dtype), clip=segment.clip, impl=impl)
    if isinstance(segment, Tone):
        amount, gate = (None if part is None else part.to(dtype) for part in (segment.amount, segment.gate))
        how = segment.image_gradient, segment.magnitude
        return curve.tone(image, segment.name, amount, gate, image_gradient=how[0], magnitude=how[1], h=segment.h, scale=scale)
    if isinstance(segment, Curve):
        image, clip = curve.power(image, segment.exponent.to(dtype), segment.gain.to(dtype)), segment.clip
        return color.clip(image) if clip else image
    if isinstance(segment, Noise):
        mean, sigma = segment.mean.to(dtype), segment.sigma.to(dtype)
        return blend.noise(image, segment.words, mean, sigma, clip=segment.clip, impl=impl)
    assert isinstance(segment, Patch)
    return blend.patch(image, segment.box.to(dtype), _patch_value(segment, image, impl))


def _patch_value(segment: Patch, image: Tensor, impl: str) -> Tensor:
    if segment.value is not None:
        return segment.value.to(image.dtype)
    assert segment.words is not None
    return blend.gaussian_field(segment.words, (image.shape[1], image.shape[2], image.shape[3]), image.dtype, impl=impl)


def apply_field(
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
        lowered: the plan and its values.
        field: floating point, or integers with ``nearest``.
        interpolation: as in the warp kernel.
        padding_mode: None follows the run (with ``fill`` where the image shows fill); a name overrides it.
        fill: what lies outside.
        impl: who computes.

    Gradient:
        field: exact. drawn values: almost everywhere; a surrogate (secant over one pixel) for ``nearest``, as for images, and none
        for integers, which carry no gradient.
    """
    for group in lowered.plan.groups:
        if not isinstance(group, Run) or not group.warps:
            continue
        field = _warped_field(group, lowered.geometry(group), field, interpolation, padding_mode, fill, impl)
    return field


def _warped_field(
    run: Run, geometry: Geometry, field: Tensor, interpolation: str, padding_mode: str | None, fill: float, impl: str
) -> Tensor:
    coordinates = compute_dtype(field.dtype)
    geometry = geometry.to(coordinates)
    assert geometry.src_from_dst is not None
    outside = constant((fill,) * field.shape[1], coordinates, field.device)[None] if fill else None
    # Floating-point labels have a gradient to their maps that kernels know nothing of.
    followed = interpolation == "nearest" and field.is_floating_point()
    sample: Callable[..., Tensor] = (
        partial(nearest, matrix=None, offset=None, epilogue=()) if followed else partial(warp, interpolation=interpolation)
    )
    if not geometry.links:
        return sample(
            field,
            geometry.src_from_dst if run.projective else geometry.src_from_dst[:, :2],
            size=run.size_out,
            padding_mode=padding_mode or run.padding_mode,
            fill=outside,
            window=geometry.window,
            impl=impl,
        )
    filled = ("zeros", "constant")
    links = tuple(
        link._replace(fill=outside if canvas.exposes and (padding_mode or canvas.padding_mode) in filled else None)
        for link, canvas in zip(geometry.links, run.canvases, strict=True)
    )
    return _through(
        run,
        geometry.src_from_dst,
        links,
        field,
        sample,
        hard=interpolation == "nearest",
        padding_mode=padding_mode,
        window=geometry.window,
        fill=outside,
        impl=impl,
    )


def unwarp(image: Tensor, back: list[Tensor], canvases_of: list[Size], *, size: Size, **options: Any) -> Tensor:
    """Resample back through canvases: where any of them had cut a pixel off, the result is zero.

    Args:
        image: the end of the path.
        back: the maps to each canvas from the one before, first canvas first; their points are read the other way.
        canvases_of: (height, width) of those between.
        size: (height, width) of the path's beginning.
        options: as in the warp kernel.
    """
    if not canvases_of:
        return warp(image, back[0], size=size, padding_mode="zeros", **options)
    between = tuple(Canvas(0, canvas, "zeros") for canvas in reversed(canvases_of))
    maps = back[::-1]
    # Hard edges: what a canvas shows ends with its pixels, half a pixel beyond their centres.
    chained = canvases.through(
        *_stacked(between, maps[0], tuple(map(Link, maps[1:]))),
        size=size,
        modes=[c.padding_mode for c in between],
        hard=[True] * len(between),
    )
    still = maps[0].new_zeros((1, 2, 3))
    found = warp(image, still, size=size, padding_mode="zeros", field=chained.places, **options)
    return canvases.laid_over(found, chained.share, None)
