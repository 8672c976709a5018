"""Pictures mixed with those of other samples.

Owns: MixUp, CutMix.
Must not: know which samples meet; a read is a distance in the batch.
Read next: ``../segments/values.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from pellucid.core.constants import constant
from pellucid.errors import invalid
from pellucid.geometry.rectangles import covered_along
from pellucid.random.beta import Beta
from pellucid.random.distributions import Distribution, Uniform
from pellucid.random.fields import Chance, Range, interval, no_lone_number
from pellucid.segments import Layers, LayerSpec
from pellucid.transforms.base import Names, Params, Transform, by_options, drawn, gated, keep_learned
from pellucid.types import ImageSpec, Pairing

__all__ = ["CutMix", "MixUp"]

_MOST_CLASSES = 2**31 - 1


def _weight(name: str, value: Range) -> Distribution:
    no_lone_number(name, value, lambda weight: (weight, 1.0), "For the concentration of the papers write Beta({}).")
    return interval(name, value, low=0.0, high=1.0)


def everywhere(spec: ImageSpec, edge: float, like: Tensor) -> Tensor:
    """A rectangle that does not fade within the picture, (1, 4)."""
    return constant((-edge, -edge, spec.width + edge, spec.height + edge), like.dtype, like.device)[None]


def check_classes(name: str, num_classes: object) -> None:
    """Raise for anything but a number of classes."""
    if num_classes is None:
        return
    if not isinstance(num_classes, int) or isinstance(num_classes, bool) or not 1 <= num_classes <= _MOST_CLASSES:
        raise invalid(name, expected=f"a whole number from 1 to {_MOST_CLASSES}, or None", got=repr(num_classes))


@dataclass(frozen=True)
class MixUp(Transform):
    """Show each picture as a weighted mean of itself and its partner, and its labels likewise.

    Args:
        lam: the picture's own weight: a distribution, a pair or a `Learnable`. A single number other than 1 raises: it could mean
            the concentration of a `Beta`, which is ``Beta(0.2)``.
        num_classes: of labels that are class numbers; they come back as shares, (B, num_classes). Numbers below 0 are of no class.
        pairing: ``xor`` joins samples 0 and 1, 2 and 3, and so on, so that a batch that begins like another draws and shows the
            same; a last sample without partner is joined with itself. ``roll`` joins each with the one before it, the first
            with the last.
        same_on_batch: one weight for the whole batch.

    Gradient:
        image: exact, to both pictures. lam, gate: exact.
    On each target:
        image, heatmap, depth, masks in floating point: mixed. masks of whole numbers: those of the heavier picture. boxes,
        keypoints: those of both, one after the other. labels: shares of classes; labels of boxes and keypoints go with these.
    Identity at:
        lam = 1.
    Errors:
        InvalidArgument for a weight outside of [0, 1], for class numbers without ``num_classes``, and on the CPU for numbers from
        ``num_classes`` on; on a device and in a compiled graph their shares are NaN.
    Source:
        Zhang and others, mixup (2018); ``torchvision.transforms.v2.MixUp`` for its draws.

    Example:
        >>> pictures = torch.tensor([0.0, 1.0]).reshape(2, 1, 1, 1)
        >>> mixed = pellucid.MixUp((0.75, 0.75), num_classes=2)({"image": pictures, "labels": torch.tensor([0, 1])})
        >>> mixed["image"].flatten(), mixed["labels"]
        (tensor([0.2500, 0.7500]), tensor([[0.7500, 0.2500],
                [0.2500, 0.7500]]))
    """

    lam: Range = field(default=Beta(1.0), metadata=drawn(_weight))
    _: KW_ONLY
    num_classes: int | None = None
    pairing: Pairing = "xor"
    p: Chance = 1.0
    same_on_batch: bool = False

    like: ClassVar[Names] = {"kornia": "RandomMixUpV2"}
    gradients: ClassVar[Mapping[str, str]] = {"image": "exact", "lam": "exact", "gate": "exact"}

    def check(self) -> None:
        check_classes("MixUp.num_classes", self.num_classes)
        keep_learned(self, "lam")

    def segment(self, spec: ImageSpec) -> LayerSpec:
        return LayerSpec((0, 1), self.pairing, num_classes=self.num_classes)

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Layers:
        other = gated(values, 1.0 - values["lam"], 0.0)
        return Layers(torch.stack((torch.ones_like(other), other), 1), share=torch.stack((1.0 - other, other), 1))


@dataclass(frozen=True)
class CutMix(Transform):
    """Show a rectangle of the partner in each picture, and its labels by the areas that are seen.

    The rectangle has the area 1 - lam, the picture's own shape and a middle anywhere in it; its part outside the picture is cut
    off, and labels are mixed by the area that is left.

    Args:
        lam: the share of the picture that stays: as in `MixUp`.
        num_classes, pairing: as in `MixUp`.
        edge: over how many pixels the rectangle fades out. 0: it is of whole pixels, as in torchvision, and has no gradient.
        same_on_batch: one rectangle for the whole batch.

    Gradient:
        image: exact, to both pictures. lam, x, y: none, or almost everywhere with an ``edge``. gate: exact.
    On each target:
        image, heatmap, depth, masks in floating point: as the picture. masks of whole numbers: of the one that shows more. boxes:
        the picture's own, less what is covered from side to side, and the partner's, cut at the rectangle. keypoints: those seen.
        labels: shares of classes; labels of boxes and keypoints go with these.
    Identity at:
        lam = 1.
    Errors:
        As `MixUp`; InvalidArgument for an edge below 0.
    Source:
        Yun and others, CutMix (2019); ``torchvision.transforms.v2.CutMix`` for its draws.

    Example:
        >>> pictures = torch.tensor([0.0, 1.0]).reshape(2, 1, 1, 1).expand(2, 1, 8, 8)
        >>> mixed = pellucid.CutMix((0.5, 0.5), num_classes=2)({"image": pictures, "labels": torch.tensor([0, 1])})
        >>> torch.equal(mixed["image"].mean((1, 2, 3)), mixed["labels"][:, 1])
        True
    """

    lam: Range = field(default=Beta(1.0), metadata=drawn(_weight))
    _: KW_ONLY
    num_classes: int | None = None
    pairing: Pairing = "xor"
    edge: float = 0.0
    p: Chance = 1.0
    same_on_batch: bool = False

    like: ClassVar[Names] = {"kornia": "RandomCutMixV2"}

    @by_options
    def gradients(self) -> Mapping[str, str]:
        kind = "almost_everywhere" if self.edge > 0 else "none"
        return {"image": "exact", "lam": kind, "x": kind, "y": kind, "gate": "exact"}

    def check(self) -> None:
        check_classes("CutMix.num_classes", self.num_classes)
        if not self.edge >= 0:
            raise invalid("CutMix.edge", expected="a number of pixels >= 0", got=self.edge)
        keep_learned(self, "lam")

    def segment(self, spec: ImageSpec) -> LayerSpec:
        return LayerSpec((0, 1), self.pairing, num_classes=self.num_classes)

    def draws(self, spec: ImageSpec) -> dict[str, Distribution]:
        return {**super().draws(spec), "x": Uniform(0.0, 1.0), "y": Uniform(0.0, 1.0)}

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Layers:
        share = gate = gated(values, torch.ones_like(values["lam"]), 0.0)
        low, high = [], []
        with nullcontext() if self.edge > 0 else torch.no_grad():  # whole pixels have no gradient, not one of 0
            half = torch.sqrt(torch.where(values["lam"] < 1.0, 1.0 - values["lam"], 0.0)) / 2.0
            for middle, length in ((values["x"], spec.width), (values["y"], spec.height)):
                at, reach = middle * length, half * length
                if self.edge == 0.0:
                    at, reach = torch.floor(at), torch.floor(reach)
                low.append(at - reach)
                high.append(at + reach)
        for start, end, length in zip(low, high, (spec.width, spec.height), strict=True):
            share = share * covered_along(start, end, length, self.edge).mean(1)
        box = torch.stack((*low, *high), 1)
        whole = everywhere(spec, self.edge, box).expand_as(box)
        return Layers(
            torch.stack((torch.ones_like(gate), gate), 1),
            box=torch.stack((whole, box), 1),
            share=torch.stack((1.0 - share, share), 1),
            edge=self.edge,
        )
