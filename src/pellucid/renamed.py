"""What other libraries' names are called here.

Owns: the table, and the error for a name that is not here.
Must not: import anything of the package.
Read next: ``interop/torchvision.py``.
"""

from __future__ import annotations

__all__ = ["RENAMED", "missing"]

_NOTHING = "nothing: a pipeline takes PIL images, arrays and bytes as they are"

RENAMED: dict[str, str] = {
    "Affine": "RandomAffine",
    "AugmentationSequential": "Pipeline",
    "ColorJiggle": "ColorJitter",
    "Compose": "Pipeline",
    "ConvertImageDtype": _NOTHING,
    "ElasticTransform": "RandomElastic",
    "Equalize": "RandomEqualize",
    "GaussianBlur": "RandomGaussianBlur",
    "Grayscale": "RandomGrayscale",
    "HorizontalFlip": "RandomHorizontalFlip",
    "ImageSequential": "Pipeline",
    "PILToTensor": _NOTHING,
    "Perspective": "RandomPerspective",
    "RandomApply": "Apply",
    "RandomChoice": "OneOf",
    "RandomElasticTransform": "RandomElastic",
    "RandomOrder": "Shuffle",
    "ReplayCompose": "Pipeline",
    "Rotate": "RandomRotation",
    "Sequential": "Pipeline",
    "ShiftScaleRotate": "RandomAffine",
    "ToDtype": _NOTHING,
    "ToGray": "RandomGrayscale",
    "ToImage": _NOTHING,
    "ToTensor": _NOTHING,
    "ToTensorV2": _NOTHING,
    "VerticalFlip": "RandomVerticalFlip",
}
"""torchvision's, albumentations' and kornia's names, and ours."""


def missing(module: str, name: str) -> AttributeError:
    """The error for a name that the package lacks; it says what another library's is called here."""
    text = f"module {module!r} has no attribute {name!r}"
    if name in RENAMED:
        text += f"; here that is {RENAMED[name]}. pellucid.interop imports whole pipelines of other libraries."
    return AttributeError(text, name=name)
