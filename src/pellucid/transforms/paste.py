"""Objects of one picture on another.

Owns: CopyPaste.
Must not: see masks; it says which share of objects is pasted, and ``../targets/instances.py`` finds them.
Read next: ``../targets/instances.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from pellucid.errors import invalid
from pellucid.random.fields import Chance, Range, interval
from pellucid.segments import Layers, LayerSpec
from pellucid.transforms.base import Names, Params, Transform, drawn, gated
from pellucid.types import ImageSpec, Pairing

__all__ = ["CopyPaste"]

_WIDEST = 10.0


@dataclass(frozen=True)
class CopyPaste(Transform):
    """Paste some objects of the partner into each picture, cut out by their masks, with probability p.

    The batch has ``masks`` (B, N, H, W), one channel per object, not 0 where it is; in floating point they are opacities, and what
    is above 1/2 belongs to it. A batch without masks stays as it is. Place it after transforms that scale and crop.

    Args:
        share: probability of each object to be pasted: a number, a pair, a `Learnable` or a distribution, in [0, 1]; drawn for each
            picture. A half makes all subsets equally likely.
        sigma: standard deviation in pixels, 0 to 10, of the Gaussian that softens the edges of pasted objects; 0 softens none.
        pairing: as in `MixUp`.
        same_on_batch: one share, and the same places among the objects, for the whole batch.

    Gradient:
        image: exact, to both pictures. gate: exact. share, words: none.
    On each target:
        masks: the picture's own, less the covered parts, and then the partner's; those that are not pasted are empty. boxes
        beside them: likewise; a box that is covered in part becomes the hull of the rest of its mask, within the former box. A box
        is invalid if nothing, or less than the pipeline's ``min_visibility``, is left, or if its object is not pasted. labels of
        objects: those of both. keypoints: those seen. other masks: of the picture on top. heatmap, depth: as the picture.
    Identity at:
        p = 0, or share = 0.
    Errors:
        InvalidArgument for a share or a sigma outside of its range, for boxes without masks, and for boxes and masks of different
        numbers.
    Source:
        Ghiasi and others, Simple Copy-Paste (2021): I1 a + I2 (1 - a).

    Example:
        >>> pictures = torch.tensor([1.0, 2.0]).reshape(2, 1, 1, 1).expand(2, 1, 1, 4)
        >>> masks = torch.tensor([[1, 1, 0, 0], [0, 1, 1, 0]]).reshape(2, 1, 1, 4)
        >>> out = pellucid.CopyPaste(share=1.0, p=1.0)({"image": pictures, "masks": masks})
        >>> out["image"][0], out["masks"][0, :, 0]
        (tensor([[[1., 2., 2., 1.]]]), tensor([[1, 0, 0, 0],
                [0, 1, 1, 0]]))
    """

    share: Range = field(default=0.5, metadata=drawn(interval, low=0.0, high=1.0))
    sigma: float = 0.0
    _: KW_ONLY
    pairing: Pairing = "xor"
    p: Chance = 1.0
    same_on_batch: bool = False

    keyed: ClassVar[bool] = True
    like: ClassVar[Names] = {"kornia": "RandomTransplantation"}
    gradients: ClassVar[Mapping[str, str]] = {"image": "exact", "share": "none", "gate": "exact", "words": "none"}

    def check(self) -> None:
        if not 0.0 <= self.sigma <= _WIDEST:
            raise invalid("CopyPaste.sigma", expected=f"a number of pixels from 0 to {_WIDEST:g}", got=self.sigma)

    def segment(self, spec: ImageSpec) -> LayerSpec:
        return LayerSpec((0, 1), self.pairing, pastes=True)

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Layers:
        whole = torch.ones_like(values["share"])
        shows = gated(values, whole, 0.0)
        return Layers(torch.stack((whole, shows), 1), objects=(values["words"], values["share"]), sigma=self.sigma)
