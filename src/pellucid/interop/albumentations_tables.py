"""albumentations' pipelines as plain data, and what comes nearest to those of its transforms that have no equal.

Owns: reading names, versions and options of targets, and the reasons for what is refused as a whole.
Must not: import albumentations.
Read next: ``albumentations.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pellucid.interop.reading import Reader

__all__ = ["NEAREST", "chance_of", "described", "read_targets"]


def described(source: Any) -> tuple[int, Any]:
    """The major version, and a pipeline as plain data."""
    if not isinstance(source, Mapping):
        source = source.to_dict() if hasattr(source, "to_dict") else {"__class_fullname__": type(source).__name__}
    version = int(str(source.get("__version__", "2")).partition(".")[0] or 2)
    return max(version, 1), _named(source.get("transform", source))


def _named(table: Any) -> Any:
    if not isinstance(table, Mapping):
        return table
    found: dict[str, Any] = {"name": str(table.get("__class_fullname__", table.get("name"))).rpartition(".")[2]}
    found |= {key: value for key, value in table.items() if key not in ("__class_fullname__", "name", "always_apply")}
    if table.get("always_apply") is True:
        found["p"] = 1.0
    if isinstance(table.get("transforms"), list | tuple):
        found["transforms"] = [_named(one) for one in table["transforms"]]
    return found


NEAREST = {
    "Equalize": ("its levels are up to 3 away from Pillow's", "RandomEqualize"),
    **dict.fromkeys(("ImageCompression", "JpegCompression"), ("what it decodes is not what Pillow reads", "RandomJPEG")),
    "GridDistortion": ("its grid is a pixel off at rest", ""),
    "OpticalDistortion": ("a lens has other parameters here", ""),
    "MotionBlur": ("its lines are drawn with whole pixels", "RandomMotionBlur"),
    "CLAHE": ("it equalises lightness alone", "RandomCLAHE"),
    "Sharpen": ("its kernel is another one", "RandomSharpness"),
    "Perspective": ("its corners move by a normal distribution", "RandomPerspective"),
    "SafeRotate": ("it shrinks so that all is seen", "RandomRotation"),
    "RandomScale": ("its size is drawn, and a batch keeps one", "RandomScale, on the same canvas"),
    "RandomSizedCrop": ("its crops are of drawn heights in pixels", "RandomResizedCrop"),
    "Cutout": ("holes are fractions of the size here", "CoarseDropout"),
    "GridDropout": ("its grid is in pixels", "GridDropout"),
    "ISONoise": ("its noise is of hue and lightness", "PoissonGaussianNoise"),
    "MultiplicativeNoise": ("noise is added here", "ShotNoise"),
    "Downscale": ("it shrinks and enlarges", "Resize, twice"),
    "IAAAdditiveGaussianNoise": ("imgaug's transforms left albumentations", "RandomGaussianNoise"),
    "IAASharpen": ("imgaug's transforms left albumentations", "RandomSharpness"),
    "IAAPerspective": ("imgaug's transforms left albumentations", "RandomPerspective"),
    "PiecewiseAffine": ("a mesh of its own", ""),
    "Lambda": ("a function of your own is not read", "a frozen dataclass, docs/own-transforms.md"),
}

_CERTAIN = (
    *("Resize", "RandomCrop", "CenterCrop", "RandomResizedCrop", "LongestMaxSize", "SmallestMaxSize", "PadIfNeeded"),
    *("Normalize", "ToFloat", "ToTensorV2", "SomeOf"),
)
"""What is applied for certain by default."""


def chance_of(name: Any) -> float:
    """The probability that a transform has by default."""
    return 1.0 if name in _CERTAIN else 0.5


def read_targets(name: str, options: Mapping[str, Any], reader: Reader) -> None:
    """Set what a pipeline's options say of boxes and keypoints."""
    form = options.get("format", options.get("coord_format", "pascal_voc"))
    if name == "bbox_params":
        reader.set(box_format=form, min_area=options.get("min_area") or 0.0, min_visibility=options.get("min_visibility") or 0.0)
        reader.set(drop_invalid=True)
        for one in ("min_width", "min_height", "clip"):
            if options.get(one):
                reader.note(f"bbox_params.{one} is not imported: boxes are clipped, and told by area and visibility here")
    elif form not in ("xy", "xyz"):
        reader.note(f"keypoint_params: keypoints are (x, y) here, not {form}")
