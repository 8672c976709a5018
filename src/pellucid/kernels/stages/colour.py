"""The stages of colour: each is its reference, and the names of its inputs.

Owns: `STAGES`. A tool of the repository prints each of its rows, forward and backward, to ``printed/``.
Must not: compute anything itself: the references are the specification.
Read next: ``chain.py``, ``../../../../docs/adr/0056-stages-written-once.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import torch
from torch import Tensor

from pellucid.color.curves import Curved, power
from pellucid.color.hsv import shift_hsv, shift_hue
from pellucid.kernels.color.reference import clip, compose, jitter_steps
from pellucid.kernels.jumps import curved

__all__ = ["BENT", "STAGES", "Stage"]

RGB = ("red", "green", "blue")


class Stage(NamedTuple):
    """A pointwise stage.

    Args:
        reference: of an image (b, c, h, w) and of numbers, (b,) or (b, n) each.
        pixels: names of the channels that it reads.
        numbers: names of its numbers, and how many each is.
    """

    reference: Callable[..., Tensor]
    pixels: tuple[str, ...]
    numbers: Mapping[str, int] = MappingProxyType({})


def mixed(image: Tensor, matrix: Tensor, offset: Tensor, fill: Tensor) -> Tensor:
    """Matrix @ colour + offset * coverage + fill * (1 - coverage)."""
    total, covered = image.flatten(2).split((3, 1), 1)
    return compose(total, covered, fill, matrix.unflatten(1, (3, 3)), offset)[..., None]


def gated_hsv(image: Tensor, hue: Tensor, saturation: Tensor, value: Tensor, gate: Tensor) -> Tensor:
    """Add to hue, saturation and value; mix the result in by the gate."""
    return _gated(shift_hsv(image, hue, saturation, value), image, gate)


def gated(image: Tensor, gate: Tensor) -> Tensor:
    """Mix a result and its input, stacked as channels, by the gate."""
    made, before = image.chunk(2, 1)
    return _gated(made, before, gate)


def _gated(made: Tensor, before: Tensor, gate: Tensor) -> Tensor:
    gate = gate[:, None, None, None]
    return gate * made + (1.0 - gate) * before


def saturated(image: Tensor, factor: Tensor) -> Tensor:
    """One step of torchvision's chain: away from the luma, and clipped."""
    return jitter_steps(image, None, {"saturation": factor})


def bent(how: Curved) -> Stage:
    """A curve that jumps, with its surrogates and its gate."""
    numbers = dict.fromkeys(("amount", "gain", "gate", "reach"), 1)
    return Stage(lambda image, *numbers: curved(image, torch.stack(numbers, 1), how), ("x",), numbers)


BENT: Mapping[str, Curved] = {
    "solarize": Curved("solarize", "none", "secant", 1.0),
    "solarize_bytes": Curved("solarize", "none", "straight_through", 255.0),
    "posterize": Curved("posterize", "soft", "secant", 1.0),
    "posterize_bytes": Curved("posterize", "straight_through", "straight_through", 255.0),
}
"""Curves that jump, by name."""

STAGES: Mapping[str, Stage] = {
    "mix": Stage(mixed, (*RGB, "cover"), {"matrix": 9, "offset": 3, "fill": 3}),
    "hue": Stage(shift_hue, RGB, {"hue_shift": 1}),
    "hsv": Stage(shift_hsv, RGB, {"hue": 1, "saturation": 1, "value": 1}),
    "gated_hsv": Stage(gated_hsv, RGB, {"hue": 1, "saturation": 1, "value": 1, "gate": 1}),
    "saturation": Stage(saturated, RGB, {"factor": 1}),
    "gate": Stage(gated, ("made", "before"), {"gate": 1}),
    "clip": Stage(clip, ("x",)),
    "power": Stage(power, ("x",), {"exponent": 1, "gain": 1}),
    **{name: bent(how) for name, how in BENT.items()},
}
"""By name. The law test runs on every row."""
