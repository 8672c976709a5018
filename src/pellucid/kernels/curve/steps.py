"""Curves on floats, with a choice of implementation, and on bytes, by tables of 256 levels.

Owns: `power` and `tone`, and their numbers as rows; `tone_of_bytes` and `tone_of_memory`; `tabled`, for other functions.
Must not: compute on pixels, or ask bytes for gradients.
Read next: ``surrogate.py``, ``cpu/sweep.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Shaped, UInt8
from torch import Tensor

from pellucid.color.curves import Curved
from pellucid.core.tape import Rows
from pellucid.kernels.color.passes import staged
from pellucid.kernels.curve import clahe, cpu, reference
from pellucid.kernels.curve.layout import AMOUNT, GAIN, GATE, KINDS, SLOPES
from pellucid.kernels.curve.surrogate import tone as by_surrogate
from pellucid.kernels.explicit import dtypes, implementation, run
from pellucid.kernels.pixels import empty_like
from pellucid.kernels.primitive import Primitive
from pellucid.kernels.stages.colour import BENT
from pellucid.types import Size

__all__ = ["Bend", "bend_of", "power", "rows_of", "tabled", "tone", "tone_of_bytes", "tone_of_memory"]


def power(
    image: Float[Tensor, "b c h w"],
    exponent: Float[Tensor, "#b"],
    gain: Float[Tensor, "#b"],
    *,
    clip: bool = False,
    impl: str = "auto",
) -> Float[Tensor, "b c h w"]:
    """See :func:`pellucid.kernels.curve.reference.power`; with ``clip``, clipped to [0, 1]. ``impl`` says who computes it."""
    who = _who(impl, image)
    if who != "cpu":
        computed = staged("power", image, exponent, gain) if who == "triton" else reference.power(image, exponent, gain)
        return _clipped(computed, clip)
    return _run(image, Curved("power"), exponent, gain, None, clip=clip)


def tone(
    image: Float[Tensor, "b c h w"],
    name: str,
    amount: Float[Tensor, "#b"] | None,
    gate: Float[Tensor, "#b"] | None,
    *,
    image_gradient: str,
    surrogate: str,
    h: float,
    scale: float,
    tiles: Size = (1, 1),
    impl: str = "auto",
) -> Float[Tensor, "b c h w"]:
    """See :func:`pellucid.kernels.curve.surrogate.tone`; ``impl`` says who computes it."""
    who = _who(impl, image)
    how = Curved(name, image_gradient, surrogate, scale)
    stage = _STAGES.get(how)
    if who == "triton" and stage is not None and amount is not None:
        one = amount.new_ones((1,))
        return staged(stage, image, amount, one, one if gate is None else gate, one * h)
    if name not in KINDS or who != "cpu":
        tiled = clahe.clahe if name in KINDS or who != "cpu" else cpu.clahe
        return by_surrogate(image, how, amount, gate, h, partial(tiled, tiles=tiles))
    return _run(image, how, amount, None, gate, h=h)


def rows_of(
    amount: Tensor | None, gain: Tensor | None, gate: Tensor | None, dtype: torch.dtype, device: torch.device
) -> Float[Tensor, "b 3"]:
    """A sample's numbers, as ``layout.py`` has them; an absent gain or gate is 1."""
    one = torch.ones((1,), dtype=dtype, device=device)
    given = (one if part is None else part.to(dtype) for part in (amount, gain, gate))
    return torch.stack(torch.broadcast_tensors(*given), 1)


def _who(impl: str, image: Tensor) -> str:
    return implementation(impl, image.device, ("cpu", "triton", "reference"))


def _run(
    image: Tensor,
    how: Curved,
    amount: Tensor | None,
    gain: Tensor | None,
    gate: Tensor | None,
    *,
    clip: bool = False,
    h: float = 1.0,
) -> Tensor:
    work, result = dtypes(image, amount, gain, gate)
    static = [KINDS[how.name], SLOPES[how.image_gradient], SLOPES[how.surrogate], int(clip)], how.scale, h
    return run(_CURVES, static, image.to(work), rows_of(amount, gain, gate, work, image.device)).to(result)


def _again(image: Tensor, numbers: Tensor, options: list[int], scale: float, h: float) -> Tensor:
    kind, slope, surrogate, clip = options
    amount = numbers[:, AMOUNT]
    if kind == KINDS["power"]:
        return _clipped(reference.power(image, amount, numbers[:, GAIN]), bool(clip))
    name = next(name for name, number in KINDS.items() if number == kind)
    slopes = ("none", "straight_through", "soft")[slope], ("none", "straight_through", "secant")[surrogate]
    return by_surrogate(image, Curved(name, *slopes, scale), amount, numbers[:, GATE], h)


def _clipped(image: Tensor, clip: bool) -> Tensor:
    return torch.clamp(image, 0.0, 1.0) if clip else image


_STAGES = {how: name for name, how in BENT.items()}
"""The printed stage that Triton runs for a curve with these surrogates and scale; others go to the reference."""

_CURVES = Primitive("a tone curve", _again, *cpu.TONE)


class Bend(NamedTuple):
    """One curve for some samples: its kind, their numbers (``layout.py`` has both), and whether it clips."""

    kind: int
    numbers: Float[Tensor, "#n 3"]
    clip: bool = False


def bend_of(
    name: str, amount: Tensor | None, gate: Tensor | None, gain: Tensor | None = None, *, clip: bool = False
) -> Bend | None:
    """The curve of this name, in float32; None for a name that is not in `KINDS`."""
    device = next((part.device for part in (amount, gain, gate) if part is not None), torch.device("cpu"))
    return Bend(KINDS[name], rows_of(amount, gain, gate, torch.float32, device), clip) if name in KINDS else None


def tone_of_bytes(image: UInt8[Tensor, "b c h w"], bend: Bend, dtype: torch.dtype) -> Shaped[Tensor, "b c h w"]:
    """See :func:`pellucid.kernels.curve.tone`, of bytes on the CPU; the same numbers as of the image in float32.

    Args:
        image: bytes.
        bend: a curve for every sample.
        dtype: of the result: bytes again, or float32.
    """
    out = empty_like(image, image.shape[2:], dtype)
    return cpu.by_levels(image, bend.numbers, [bend.kind, 0, 0, int(bend.clip)], out)


def tone_of_memory(
    image: UInt8[Tensor, "b c h w"], bend: Bend, dtype: torch.dtype
) -> Callable[[Rows, Sequence[Rows | None]], Rows] | None:
    """`tone_of_bytes` for pictures laid out as this one and curves of this kind: (memory, float32 amounts, gains and gates) ->
    memory of the result. None if the pictures' memory has gaps.
    """
    sweep = cpu.levels_of_memory(image, [bend.kind, 0, 0, int(bend.clip)], dtype)
    if sweep is None:
        return None

    def call(flat: Rows, columns: Sequence[Rows | None]) -> Rows:
        numbers = np.ones((max(1 if part is None else len(part) for part in columns), 3), np.float32)
        for k, part in enumerate(columns):
            if part is not None:
                numbers[:, k] = part
        return sweep(flat, numbers)

    return call


def tabled(
    image: UInt8[Tensor, "b c h w"], function: Callable[[UInt8[Tensor, "b c 1 256"]], Shaped[Tensor, "b c 1 256"]]
) -> Shaped[Tensor, "b c h w"]:
    """Apply a pointwise function to bytes: compute it once for each of 256 levels, and look the results up."""
    levels = torch.arange(256, dtype=torch.uint8, device="cpu").expand(*image.shape[:2], 1, 256)
    return cpu.look_up(image, function(levels))
