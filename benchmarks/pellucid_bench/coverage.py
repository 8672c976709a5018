"""What other libraries' transforms are called here, and why some are not; ``main`` writes docs/coverage.md.

Owns: the names on both sides, and the badges of README.md. Installed libraries list their classes; one that has no entry here is
reported as such.
Must not: claim a name that Pellucid has not; a test reads the table.
Read next: ``peers/__init__.py``.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
from pathlib import Path
from typing import Any

import pellucid
from pellucid import functional
from pellucid.core.foreign_names import names_here
from pellucid_bench.nearest import NAMES as MEASURED
from pellucid_bench.peers.torchvision_import import torchvision_v2

__all__ = ["FUNCTIONS", "MISSING", "OURS", "badges", "classes_of", "functions_of", "how_imported", "main", "page"]

COMING = Path(__file__).parents[2] / "docs" / "coming-from.md"
TARGET = Path(__file__).parents[2] / "docs" / "coverage.md"
README = Path(__file__).parents[2] / "README.md"
START, END = "<!-- imported -->", "<!-- /imported -->"

LIBRARIES = ("torchvision", "kornia", "albumentations")

_BASES = (
    "BasicTransform", "DualTransform", "ImageOnlyTransform", "Transform3D", "Transform", "AugmentationBase2D", "AugmentationBase3D",
    "GeometricAugmentationBase2D", "IntensityAugmentationBase2D", "RigidAffineAugmentationBase2D", "GeometricAugmentationBase3D",
    "IntensityAugmentationBase3D", "RigidAffineAugmentationBase3D", "MixAugmentationBaseV2", "AutoAugmentPolicy",
    "InterpolationMode",
)  # fmt: skip

OURS: dict[str, str] = {
    **{name: here for name, here in names_here(pellucid.ALL).items() if not here.startswith("nothing")},
    "PadTo": "CenterCrop, PadIfNeeded",
    "ConvertBoundingBoxFormat": "boxes.convert_boxes",
    "ClampBoundingBoxes": "boxes.clip_boxes",
    "FiveCrop": "functional.five_crop",
    "TenCrop": "functional.ten_crop",
    **dict.fromkeys(("RGB", "ToRGB"), "functional.grayscale_to_rgb"),
    "UniformTemporalSubsample": "functional.uniform_temporal_subsample",
}
"""Under which name Pellucid has a transform of theirs, where it is another name."""

_REASONS: dict[str, tuple[str, ...]] = {
    "theirs breaks where cells meet; `RandomElastic`, `RandomThinPlateSpline` and `GridDistortion` do not": (
        "GridElasticDeform",
    ),
    "containers for several inputs; a `Pipeline` takes transforms that mix as they are": (
        "ManyToManyAugmentationDispather", "ManyToOneAugmentationDispather",
    ),
    "not yet: patches of other pictures": ("PatchMix",),
    "pictures from outside of the batch; within it: `CopyPaste`": ("OverlayElements",),
    "drawn decoration; ImageNet-C's weather is in `corruptions` and `RandomPlasmaFog`, `RandomRain`, `RandomSnow`": (
        "RandomGravel", "Spatter",
    ),
    "not yet: crops that look at boxes and masks are `RandomIoUCrop`, `RandomBoxSafeCrop` and `RandomMaskCrop`": (
        "RandomCropNearBBox", "ConstrainedCoarseDropout",
    ),
    "volumes have [transforms of their own](volumes.md), the commonest of these among them": (
        "CenterCrop3D", "CoarseDropout3D", "CubicSymmetry", "Pad3D", "PadIfNeeded3D", "RandomCrop3D", "ToTensor3D",
        "RandomAffine3D", "RandomDepthicalFlip3D", "RandomEqualize3D", "RandomHorizontalFlip3D", "RandomMotionBlur3D",
        "RandomPerspective3D", "RandomRotation3D", "RandomTransplantation3D", "RandomVerticalFlip3D",
    ),
    "not yet": (
        "ChromaticAberration", "RingingOvershoot", "Morphological", "Superpixels", "HEStain",
    ),
    "reads other pictures, text or networks; no gradient could pass": (
        "FDA", "HistogramMatching", "PixelDistributionAdaptation", "TextImage", "RandomDissolving",
    ),
    "audio": ("FrequencyMasking", "TimeMasking", "TimeReverse"),
    "done by the pipeline: dtypes, layouts, validity of targets": (
        "ToDtype", "ToImage", "ToPILImage", "ToPureTensor", "ToTensor", "PILToTensor", "ConvertImageDtype", "ToFloat",
        "FromFloat", "ToTensorV2", "SanitizeBoundingBoxes", "SanitizeKeyPoints", "ClampKeyPoints", "SetClampingMode",
    ),
    "does nothing: an empty list": ("NoOp", "Identity"),
}  # fmt: skip

MISSING: dict[str, str] = {name: reason for reason, names in _REASONS.items() for name in names}
"""Why Pellucid has none of a transform of theirs."""


FUNCTIONS: dict[str, str] = {
    "hflip": "`functional.horizontal_flip`",
    "vflip": "`functional.vertical_flip`",
    "to_grayscale": "`functional.rgb_to_grayscale`",
    "convert_image_dtype": "`functional.to_dtype`",
    "convert_bounding_box_format": "`boxes.convert_boxes`",
    "clamp_bounding_boxes": "`boxes.clip_boxes`",
    "sanitize_bounding_boxes": "`boxes.visible`",
    **dict.fromkeys(("clamp_keypoints", "sanitize_keypoints"), "done by the pipeline: keypoints come with `keypoints_valid`"),
    **dict.fromkeys(
        ("get_dimensions", "get_image_num_channels", "get_image_size", "get_num_channels", "get_num_frames", "get_size"),
        "a tensor's `.shape`",
    ),
    **dict.fromkeys(
        ("pil_to_tensor", "to_tensor", "to_image", "to_pil_image"),
        "a `Pipeline` and `data.decode` take pictures and arrays as they are; for one alone: torchvision's, or NumPy",
    ),
    "elastic_transform": "`functional.elastic`",
    "is_pure_tensor": "a question about torchvision's classes",
    "register_kernel": "a kind of target of your own (docs/own-targets.md)",
}
"""torchvision's functions that have another name here, or none, with the reason."""


def functions_of() -> list[str]:
    """The names of torchvision's functions; those for one class of tensors are the same function once more."""
    module: Any = importlib.import_module("torchvision.transforms.v2.functional") if torchvision_v2() else None
    for_classes = ("_image", "_video", "_mask", "_bounding_boxes", "_keypoints", "_cvcuda")
    whole = ("to_image", "to_pil_image", "clamp_bounding_boxes", "sanitize_bounding_boxes", "clamp_keypoints", "sanitize_keypoints")
    found = [name for name, one in vars(module).items() if inspect.isfunction(one) and not name.startswith("_")]
    return sorted(name for name in found if name in whole or not name.endswith(for_classes))


def classes_of(library: str) -> list[str]:
    """The names of a library's transforms."""
    if library == "torchvision":
        module: Any = torchvision_v2()
        found = [name for name, kind in vars(module).items() if inspect.isclass(kind)]
    elif library == "kornia":
        module = importlib.import_module("kornia.augmentation")
        found = [name for name, kind in vars(module).items() if inspect.isclass(kind)]
    else:
        os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")  # it would ask the network on import
        module = importlib.import_module("albumentations")
        found = [name for name, kind in vars(module).items() if inspect.isclass(kind) and issubclass(kind, module.BasicTransform)]
    return sorted(name for name in found if name not in _BASES and not name.startswith("_"))


def ours_of(name: str) -> str | None:
    """What Pellucid has instead, or None."""
    if name in OURS:
        return OURS[name]
    return name if hasattr(pellucid, name) else None


def how_imported(library: str, name: str) -> str:
    """How ``pellucid.interop`` takes a transform of theirs: ``exact``, ``nearest``, or not at all."""
    module: Any = importlib.import_module(f"pellucid.interop.{library}")
    return "exact" if name in module._TABLE else "nearest" if name in module.NEAR else ""


def traps(library: str) -> dict[str, str]:
    """What differs where one does not look for it: the importer's reasons, and those of the lines in docs/coming-from.md."""
    module: Any = importlib.import_module(f"pellucid.interop.{library}")
    told: dict[str, str] = {}
    section = COMING.read_text(encoding="utf-8").partition(f"\n### {library}\n")[2].partition("\n### ")[0].partition("\n## ")[0]
    for name, why in re.findall(r"^\| `(\w+)\(.*\)` \| .* \| ([^|`]+) \|$", section, flags=re.MULTILINE):
        told.setdefault(name, why.strip())
    near = {name: getattr(one, "reason", "") for name, one in module.NEAR.items() if name not in module._TABLE}
    return {name: why for name, why in (told | near).items() if why}


def _tested(name: str, how: str) -> str:
    return {"exact": "options", "nearest": "distribution" if name in MEASURED else "runs"}.get(how, "")


def badges(text: str) -> str:
    """A row of badges with the counts that the headings of the page say."""
    counts = re.findall(r"^## (\w+) [\d.]+: (\d+) of (\d+)", text, flags=re.MULTILINE)
    address = "https://github.com/pellucid-vision/pellucid/blob/main/docs/coverage.md"
    row = []
    for library, found, of in counts:
        picture = f"https://img.shields.io/badge/imports_{library}-{found}_of_{of}-blue"
        row.append(f"[![{found} of {of} transforms of {library} imported]({picture})]({address})")
    return " ".join(row)


def page() -> str:
    """The table as Markdown."""
    parts = [
        "# What other libraries have",
        "",
        "Look up a transform of torchvision v2, kornia or albumentations: its name here, or the reason why there is none.",
        "[`pellucid.interop`](coming-from.md) imports most of them: `exact` gives the same results for the same draws, and",
        "`nearest` takes the operation that comes closest.",
        "Equal names do not mean equal defaults: each docstring's *Source* says whose definition it follows.",
        "",
        "*Traps* are differences that you may not expect; [Coming from](coming-from.md) shows many beside a line of code.",
        "*Tested* says how. `options`: the importer uses, refuses or notes every option, except those without effect in the other",
        "library (tests/interop/test_options.py). `distribution`: its results are measured beside theirs (Coming from). `runs`: it",
        "runs with a note, and every option is read or named (tests/interop/test_nearest.py).",
        "",
        "Written by `python -m pellucid_bench.coverage`.",
    ]
    for library in LIBRARIES:
        names = classes_of(library)
        how = {name: how_imported(library, name) for name in names}
        taken, exact = (sum(map(test, how.values())) for test in (bool, "exact".__eq__))
        version = importlib.import_module(library).__version__.partition("+")[0]
        parts += ["", f"## {library} {version}: {taken} of {len(names)} imported, {exact} of them exactly", ""]
        parts += ["| theirs | ours | traps | tested | imported |", "|---|---|---|---|---|"]
        known = traps(library)
        parts += [
            f"| {name} | {_cell(name)} | {known.get(name, '')} | {_tested(name, how[name])} | {how[name]} |" for name in names
        ]
    names = functions_of()
    have = [name for name in names if hasattr(functional, name)]
    parts += ["", f"## torchvision's functions: {len(have)} of {len(names)} by their name", "", "| theirs | here |", "|---|---|"]
    parts += [f"| {name} | {_function(name)} |" for name in names]
    return "\n".join(parts) + "\n"


def _function(name: str) -> str:
    if hasattr(functional, name):
        return f"`functional.{name}`"
    return FUNCTIONS.get(name, "not looked at")


def _cell(name: str) -> str:
    found = ours_of(name)
    if found:
        return ", ".join(f"`{one}`" for one in found.split(", "))
    return MISSING.get(name, "not looked at")


def main() -> None:
    """Write the page, and the badges."""
    text = page()
    TARGET.write_text(text, encoding="utf-8")
    head, _, rest = README.read_text(encoding="utf-8").partition(START)
    _, _, tail = rest.partition(END)
    README.write_text(f"{head}{START}\n{badges(text)}\n{END}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()
