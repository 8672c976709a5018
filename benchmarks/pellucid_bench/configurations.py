"""Pipelines of public repositories, as facts: which transforms with which options; ``main`` writes the shares that are imported.

Owns: the list, and the table in docs/coming-from.md.
Must not: hold anybody's text; names and numbers alone.
Read next: ``coverage.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pellucid.interop import Imported, read_albumentations, read_kornia, read_torchvision

__all__ = ["CONFIGURATIONS", "Configuration", "imported", "main", "table"]

TARGET = Path(__file__).parents[2] / "docs" / "coming-from.md"
START, END = "<!-- configurations -->", "<!-- /configurations -->"

IMAGENET = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}
HALF = {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}


class Configuration(NamedTuple):
    """One pipeline: the repository and file it was found in, the library, and its transforms in order."""

    source: str
    library: str
    transforms: Sequence[dict[str, Any]]
    options: dict[str, Any]


def _t(name: str, **options: Any) -> dict[str, Any]:
    return {"name": name, **options}


def _several(name: str, *transforms: dict[str, Any], **options: Any) -> dict[str, Any]:
    return {"name": name, "transforms": list(transforms), **options}


def _of(library: str) -> Callable[..., Configuration]:
    version = {"__version__": "1.3.1"} if library == "albumentations" else {}

    def configuration(source: str, *transforms: dict[str, Any], **options: Any) -> Configuration:
        return Configuration(source, library, transforms, {**version, **options})

    return configuration


A, T, K = _of("albumentations"), _of("torchvision"), _of("kornia")

_BLURS = _several("OneOf", _t("MotionBlur", p=0.2), _t("MedianBlur", blur_limit=3, p=0.1), _t("Blur", blur_limit=3, p=0.1), p=0.2)

CONFIGURATIONS: tuple[Configuration, ...] = (
    A(
        "cozyroom12/ms_ai_project, albu_test.py",
        _t("Resize", width=512, height=512),
        _t("HorizontalFlip", p=0.5),
        _t("VerticalFlip", p=0.5),
        _t("RandomRotate90", p=0.5),
        _t("Blur", p=0.3),
        _t("CLAHE", p=0.3),
        _t("ColorJitter", p=0.3),
        _t("CoarseDropout", max_holes=12, max_height=20, max_width=20, p=0.3),
        _t("Normalize", mean=[0.3199, 0.2240, 0.1609], std=[0.3020, 0.2183, 0.1741], max_pixel_value=255.0),
        _t("ToTensorV2"),
    ),
    A(
        "hung8110999/NeoPolyp, transforms.py",
        _t("Resize", height=1024, width=1024),
        _t("HorizontalFlip", p=0.5),
        _t("VerticalFlip", p=0.5),
        _t("RandomBrightnessContrast", p=0.3),
        _t("ShiftScaleRotate", shift_limit=0.05, scale_limit=0.05, rotate_limit=20, p=0.5),
        _t("GaussianBlur", p=0.2),
        _t("Normalize"),
        _t("ToTensorV2"),
    ),
    A(
        "PSRahul/CLIPtheCenter, data/augmentations.py",
        _t("RandomCrop", width=384, height=384),
        bbox_params={"format": "coco", "min_area": 1600, "min_visibility": 0.1, "label_fields": ["class_labels"]},
    ),
    A(
        "nanekja/pytorch_utils, albumentation.py",
        _t("Normalize", mean=[0.4914, 0.4822, 0.4465], std=[0.2470, 0.2435, 0.2616]),
        _t("HorizontalFlip"),
        _t("ShiftScaleRotate"),
        _t("CoarseDropout", max_holes=1, max_height=16, max_width=16, min_holes=1, min_height=16, min_width=16),
    ),
    A(
        "samir-dadah/Lane-detection-in-self-driving-cars-using-MobileNetV3, Segmentation.py",
        _t("IAAAdditiveGaussianNoise", p=0.2),
        _several("OneOf", _t("CLAHE", p=1), _t("RandomBrightness", p=1), _t("RandomGamma", p=1), p=0.6),
        _several("OneOf", _t("IAASharpen", p=1), _t("Blur", blur_limit=3, p=1), _t("MotionBlur", blur_limit=3, p=1), p=0.6),
        _several("OneOf", _t("RandomContrast", p=1), _t("HueSaturationValue", p=1), p=0.6),
    ),
    A(
        "aalto-intelligent-robotics/sivl, code/datasourcing/transformations.py",
        _t("Flip"),
        _t("Transpose"),
        _t("GaussNoise"),
        _BLURS,
        _t("ShiftScaleRotate", shift_limit=0.0625, scale_limit=0.2, rotate_limit=45, p=0.2),
        _several("OneOf", _t("OpticalDistortion", p=0.3), _t("GridDistortion", p=0.1), _t("PiecewiseAffine", p=0.3), p=0.2),
        _several("OneOf", _t("CLAHE", clip_limit=2), _t("Sharpen"), _t("Emboss"), _t("RandomBrightnessContrast"), p=0.3),
        _t("HueSaturationValue", p=0.3),
    ),
    A(
        "ireko8/Bengali, src/augment.py",
        _t("ShiftScaleRotate", rotate_limit=15, p=0.5),
        _several("OneOf", _t("OpticalDistortion", p=1), _t("GridDistortion", p=1), p=0.2),
    ),
    A(
        "omerferhatt/sign-lang-detect, utils/augmentation.py",
        _t("Rotate", limit=[-15, 15], always_apply=True),
        _t("HorizontalFlip", p=0.5),
        _several("OneOf", _t("IAAAdditiveGaussianNoise"), _t("GaussNoise"), p=0.2),
        _BLURS,
        _t("ShiftScaleRotate", shift_limit=0.0625, scale_limit=0.2, rotate_limit=10, p=0.2),
        _several("OneOf", _t("OpticalDistortion", p=0.3), _t("GridDistortion", p=0.1), _t("IAAPiecewiseAffine", p=0.3), p=0.2),
        _several("OneOf", _t("IAASharpen"), _t("IAAEmboss"), _t("RandomBrightnessContrast"), p=0.3),
        _t("HueSaturationValue", p=0.3),
        _t("ToFloat"),
    ),
    A(
        "implausibleDeniability/sartorius_instance_segmentation, src/augmentations.py",
        _t("HorizontalFlip", p=0.5),
        _t("VerticalFlip", p=0.5),
        _t("ShiftScaleRotate", border_mode=0, p=0.7, shift_limit=0.2, scale_limit=0.4),
        _t("Normalize", mean=[0.485], std=[0.229]),
        _t("ToTensorV2"),
        bbox_params={"format": "pascal_voc", "label_fields": ["category_ids"]},
    ),
    A(
        "ops-jaeha/wheat-head-detection, Faster_RCNN/transform.py",
        _t("LongestMaxSize", max_size=1024, p=1),
        _t("PadIfNeeded", min_height=1024, min_width=1024, p=1, border_mode=1, value=0),
        _t("Normalize", **IMAGENET),
        _t("ToTensorV2"),
        bbox_params={"format": "pascal_voc", "label_fields": ["class_labels"], "min_area": 20},
    ),
    T(
        "alidadsetan/SimCLR-VisDA, transformations.py",
        _t("RandomHorizontalFlip"),
        _t("RandomResizedCrop", size=96, scale=[0.25, 0.5]),
        _several("RandomApply", _t("ColorJitter", brightness=0.5, contrast=0.5, saturation=0.5, hue=0.1), p=0.8),
        _t("RandomGrayscale", p=0.2),
        _t("GaussianBlur", kernel_size=9),
        _t("ToTensor"),
        _t("Normalize", mean=[0.5], std=[0.5]),
    ),
    T(
        "LeoHsuProgrammingLab/2023-Fall-Deep_Learning_in_Computer_Vision, hw1/p2_code/data_aug.py",
        _t("Resize", size=[128, 128]),
        _t("RandomHorizontalFlip"),
        _t("RandomGrayscale", p=0.2),
        _t("RandomRotation", degrees=30),
        _t("ToTensor"),
        _t("Normalize", **IMAGENET),
    ),
    T(
        "khangt1k25/Contrastive-Bottleneck-Segmentation, utils.py",
        _t("RandomResizedCrop", size=32, scale=[0.2, 1.0]),
        _t("RandomHorizontalFlip"),
        _several("RandomApply", _t("ColorJitter", brightness=0.4, contrast=0.4, saturation=0.4, hue=0.1), p=0.8),
        _t("RandomGrayscale", p=0.2),
        _t("ToTensor"),
        _t("Normalize", mean=[0.4914, 0.4822, 0.4465], std=[0.2023, 0.1994, 0.2010]),
    ),
    T(
        "AmzadHossainrafis/Diffusion_model, src/Diffusion/components/data_transformation.py",
        _t("Resize", size=80),
        _t("RandomResizedCrop", size=64, scale=[0.8, 1.0]),
        _t("ToTensor"),
        _t("Normalize", **HALF),
    ),
    T(
        "alexydatascience/resnet20-pruning, transforms/transforms.py",
        _t("Pad", padding=4),
        _t("RandomCrop", size=32),
        _t("RandomHorizontalFlip"),
        _t("ToTensor"),
    ),
    T(
        "MikeLee31/ML, MyTransformer/CifarTrain.py",
        _t("RandomCrop", size=32, padding=4),
        _t("RandomHorizontalFlip"),
        _t("ToTensor"),
        _t("Normalize", **HALF),
    ),
    T(
        "alvarobartt/understanding-resnet, implementation/resnet_cifar10_transform.py",
        _t("Pad", padding=4),
        _t("RandomHorizontalFlip"),
        _t("RandomCrop", size=[32, 32]),
        _t("ToTensor"),
        _t("Normalize", **HALF),
    ),
    T(
        "da-the-dev/PMLDL-MLOps, src/datasets/transforms.py",
        _t("ToTensor"),
        _t("RandomHorizontalFlip"),
        _t("RandomCrop", size=32, padding=4),
        _t("ColorJitter", brightness=0.2, contrast=0.2, saturation=0.2, hue=0.1),
        _t("RandomRotation", degrees=15),
        _t("Normalize", mean=[0.5071, 0.4867, 0.4408], std=[0.2675, 0.2565, 0.2761]),
    ),
    K(
        "peterampazzo/dtu-02476, src/models/kornia_trans.py",
        _t("ColorJitter", brightness=0.5, contrast=0.5, saturation=0.5, hue=1.0, p=0.5),
        _t("RandomAffine", degrees=[-30, 30], p=0.5),
        _t("RandomElasticTransform", kernel_size=[63, 63], sigma=[32.0, 32.0], alpha=[1.0, 1.0], p=1),
        _t("RandomGaussianNoise", mean=0.0, std=0.2, p=0.1),
        _t("RandomThinPlateSpline", scale=0.2, p=0.1),
    ),
    K(
        "a file without its repository's name (`GPU_AUGMENTATIONS`)",
        _t("RandomHorizontalFlip", p=0.5),
        _t("RandomVerticalFlip", p=0.5),
        _t("RandomAffine", degrees=180, translate=[0.05, 0.05], scale=[0.9, 1.1], p=0.8),
        _t("ColorJiggle", brightness=0.2, contrast=0.2, saturation=0.2, hue=0.1, p=0.8),
        _t("RandomErasing", scale=[0.02, 0.25], ratio=[0.3, 3.3], p=0.4),
        _t("RandomGrayscale", p=0.1),
    ),
    K(
        "a file without its repository's name (`aug_kornia`)",
        _t("ColorJitter", brightness=0.4, contrast=0.4, saturation=0.4, hue=0.1, p=0.8),
        _t("RandomGrayscale", p=0.2),
        _t("RandomHorizontalFlip"),
        _t("Normalize", **IMAGENET),
    ),
    K(
        "a file without its repository's name (`get_augmentation_gpu`)",
        _t("ColorJiggle", brightness=0.1, contrast=0.1, hue=0.1, saturation=0.1, p=0.5),
        _t("RandomGaussianBlur", kernel_size=[3, 3], sigma=[1, 2], p=0.5),
    ),
    K(
        "a file without its repository's name (`SimpleAugmentation`)",
        _t("Denormalize", mean=0.5, std=0.5),
        _t("ColorJitter", p=0.8, brightness=0.2, contrast=0.3, hue=0.2),
        _t("RandomErasing", p=0.5),
        _t("Normalize", mean=0.5, std=0.5),
    ),
)


def imported(one: Configuration) -> Imported:
    """A configuration as the importer reads it."""
    if one.library == "albumentations":
        table = {key: value for key, value in one.options.items() if key != "__version__"}
        compose = {"name": "Compose", "transforms": list(one.transforms), **table}
        return read_albumentations({"__version__": one.options["__version__"], "transform": compose})
    read = {"torchvision": read_torchvision, "kornia": read_kornia}[one.library]
    name = {"torchvision": "Compose", "kornia": "Sequential"}[one.library]
    return read({"name": name, "transforms": list(one.transforms), **one.options})


def table() -> str:
    """The share of each, in Markdown."""
    lines = ["| configuration | library | imported | what is not |", "|---|---|---|---|"]
    done = {library: [0, 0] for library in ("torchvision", "albumentations", "kornia")}
    for one in CONFIGURATIONS:
        found = imported(one)
        read = found.total - len(found.missing)
        done[one.library][0] += read
        done[one.library][1] += found.total
        missing = ", ".join(f"`{name}`" for name in dict.fromkeys(each.name for each in found.missing))
        lines.append(f"| {one.source} | {one.library} | {read} of {found.total} | {missing} |")
    for library, (read, total) in done.items():
        lines.append(f"| **all of {library}** | | **{read} of {total}, {100 * read / total:.0f} %** | |")
    return "\n".join(lines)


def main() -> None:
    """Write the table into the page."""
    page = TARGET.read_text(encoding="utf-8")
    head, _, rest = page.partition(START)
    _, _, tail = rest.partition(END)
    TARGET.write_text(f"{head}{START}\n{table()}\n{END}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()
