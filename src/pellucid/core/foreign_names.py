"""Translate names of other libraries into the names here.

Owns: other libraries' names that no transform declares in ``like``, and the error for a name that the package lacks.
Must not: import anything of the package.
Read next: ``../interop/torchvision.py``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["missing", "names_here"]

_NOTHING = "nothing: a pipeline takes PIL images, arrays and bytes as they are"

_BOXES = "nothing: Pipeline(box_format=, drop_invalid=) says what boxes are, and all are cut at the picture's edge"

_OTHERS: dict[str, tuple[str, ...]] = {
    "OneOf": ("OneOrOther", "RandomChoice"),
    "RandomThinPlateSpline": ("PiecewiseAffine",),
    "RandomJPEG": ("JpegCompression",),
    "RandomPlasmaFog": ("RandomFog",),
    "SaltAndPepper": ("PixelDropout",),
    "CoarseDropout": ("MaskDropout", "XYMasking"),
    "RandomScale": ("CropAndPad",),
    "RandomBoxSafeCrop": ("AtLeastOneBBoxRandomCrop", "BBoxSafeRandomCrop"),
    "CenterCrop": ("PadTo",),
    "functional.five_crop": ("FiveCrop",),
    "functional.ten_crop": ("TenCrop",),
    "functional.uniform_temporal_subsample": ("UniformTemporalSubsample",),
    _BOXES: ("BboxParams", "ClampBoundingBoxes", "ConvertBoundingBoxFormat", "KeypointParams", "SanitizeBoundingBoxes"),
    "nn.LinearTransformation": ("LinearTransformation",),
    "nothing: its network paints the picture anew": ("RandomDissolving",),
    "nothing: importers with unknown='wrap' keep the original": ("HEStain", "Morphological", "Spatter", "Superpixels"),
    "RandomHorizontalFlip": ("Flip", "RandomFlip"),
    "Pipeline": ("AugmentationSequential", "Compose", "ImageSequential", "ReplayCompose", "Sequential", "VideoSequential"),
    _NOTHING: (
        *("ConvertImageDtype", "Identity", "NoOp", "PILToTensor", "ToDtype", "ToImage", "ToPILImage", "ToTensor", "ToTensorV2"),
    ),
    "nothing: Pipeline(dtype=) is the dtype that pictures end in": ("FromFloat", "ToFloat"),
    **{f"policy.{name}": (name,) for name in ("AugMix", "AutoAugment", "RandAugment")},
    "policy.TrivialAugmentWide": ("TrivialAugment", "TrivialAugmentWide"),
}


_PEERS = "torchvision", "kornia", "albumentations"


def names_here(kinds: Iterable[Any]) -> dict[str, str]:
    """Map other libraries' names to ours: those that transforms declare, and the table above.

    A name of a library for volumes is left out if a transform here has the same name.
    """
    declared = {kind.__name__: kind.like for kind in kinds}
    flat = {
        ours: [
            name
            for library, names in theirs.items()
            for name in ((names,) if isinstance(names, str) else names)
            if library in _PEERS or name not in declared
        ]
        for ours, theirs in declared.items()
    }
    return {name: ours for table in (flat, _OTHERS) for ours, names in table.items() for name in names}


def missing(module: str, name: str, here: dict[str, str]) -> AttributeError:
    """Return the error for a name that the package lacks; for another library's name it says what to use here."""
    text = f"module {module!r} has no attribute {name!r}"
    like = next((one for one in (*here, *here.values()) if one.lower() == name.lower()), "")
    if name in here:
        text += f"; here that is {here[name]}. pellucid.interop imports whole pipelines of other libraries."
    elif like:
        text += f"; did you mean {here.get(like, like)}?"
    return AttributeError(text, name=name)
