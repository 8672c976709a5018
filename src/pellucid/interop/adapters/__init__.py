"""Our pipelines inside of other libraries: one function for each library's way to call an augmentation.

Owns: the functions, and what every adapter does with pictures that are arrays.
Must not: import another library before its function is called, or draw by itself.
Read next: ``albumentations.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pellucid.errors import wrong_type
from pellucid.pipeline import Pipeline
from pellucid.transforms.base import Transform

if TYPE_CHECKING:
    from torch import nn

__all__ = ["as_albumentations", "as_batchgenerators", "as_detectron2", "as_kornia", "as_torchvision"]

Given = Pipeline | Sequence[Transform]


def as_albumentations(pipeline: Given, *, p: float = 1.0) -> Any:
    """Return a pipeline as one ``A.DualTransform`` of albumentations 2, for ``A.Compose`` and all that takes its transforms.

    So it goes into Ultralytics' ``model.train(augmentations=[...])``, MMDetection's ``Albu`` and RF-DETR. ``A.to_dict`` writes the
    pipeline into the description, as Ultralytics' checkpoints need, and ``A.from_dict`` reads it once this module is imported.
    Images are arrays (H, W, C) or (H, W) of uint8 or float32, and keep dtype and layout; masks, boxes and keypoints move by the
    same draw. A box that left the picture is gone, and the labels that stand beside it in ``bbox_params`` go with it.

    Args:
        pipeline: or a list of transforms.
        p: the probability with which albumentations calls it.

    Gradient:
        none: arrays carry none.

    Errors:
        ModuleNotFoundError where albumentations is not installed; InvalidType for anything but a pipeline.

    Example:
        >>> from pellucid.interop import as_albumentations
        >>> A.Compose([as_albumentations(pipeline), A.CLAHE()])  # doctest: +SKIP
    """
    return _module("albumentations").PipelineTransform(_read(pipeline), p=p)


def as_torchvision(pipeline: Given) -> nn.Module:
    """Return a pipeline as a transform of ``torchvision.transforms.v2``.

    It takes what those take: one sample, or several arguments, nested as you like. PIL images and torchvision's tensor classes
    (``Image``, ``Video``, ``Mask``, ``BoundingBoxes``, ``KeyPoints``) go through the pipeline with one draw, and keep their class;
    without a picture among them the first plain tensor is the picture. All else is left as it is; under ``drop_invalid=True`` the
    entries ``labels`` and ``iscrowd`` beside boxes follow these. PIL images come back as PIL images while they are bytes.

    Args:
        pipeline: or a list of transforms.

    Gradient:
        as the pipeline's.

    Errors:
        InvalidType for anything but a pipeline; whatever the pipeline says of its targets.

    Example:
        >>> import torch, pellucid
        >>> from pellucid.interop import as_torchvision
        >>> flip = as_torchvision([pellucid.RandomHorizontalFlip(p=1.0)])
        >>> flip(torch.tensor([[[1.0, 2.0, 3.0]]]), {"label": 7})
        (tensor([[[3., 2., 1.]]]), {'label': 7})
    """
    module: nn.Module = _module("torchvision").PipelineTransform(_read(pipeline))
    return module


def as_kornia(pipeline: Given, *, data_keys: Sequence[str] | None = ("input",)) -> nn.Module:
    """Return a pipeline as a module that is called as ``kornia.augmentation.AugmentationSequential`` is.

    Args:
        pipeline: or a list of transforms.
        data_keys: what the arguments are, in order: ``input`` or ``image`` (B, C, H, W), ``mask`` (B, C, H, W), ``bbox``
            (B, N, 4, 2), corners in pixel centres, ``bbox_xyxy`` and ``bbox_xywh`` (B, N, 4), edges of pixels as everywhere
            here (a mirrored ``bbox_xyxy`` of kornia's lies a pixel off), ``keypoints`` (B, N, 2), ``class`` and
            ``label``, which are left as they are. None for dicts, whose keys begin with one of these names; entries under
            other keys are left as they are, as torchgeo's data modules need. Boxes, points and masks may be lists, one for each
            picture of the batch, and come back as lists.

    Gradient:
        as the pipeline's.

    Errors:
        InvalidArgument for a key that is not in the list, or another number of arguments; InvalidType for anything but a pipeline.

    Example:
        >>> import torch, pellucid
        >>> from pellucid.interop import as_kornia
        >>> flip = as_kornia([pellucid.RandomHorizontalFlip(p=1.0)], data_keys=["input", "keypoints"])
        >>> flip(torch.zeros(1, 1, 4, 4), torch.tensor([[[0.0, 1.0]]]))[1]
        tensor([[[3., 1.]]])
    """
    module: nn.Module = _module("kornia").PipelineTransform(_read(pipeline), data_keys)
    return module


def as_detectron2(pipeline: Given) -> Any:
    """Return a pipeline as an ``Augmentation`` of Detectron2, for ``DatasetMapper(augmentations=[...])``.

    Args:
        pipeline: or a list of transforms. Each picture is drawn for once; its boxes, masks, polygons and keypoints follow.

    Errors:
        ModuleNotFoundError where Detectron2 is not installed; InvalidType for anything but a pipeline.

    Example:
        >>> from pellucid.interop import as_detectron2
        >>> DatasetMapper(cfg, augmentations=[as_detectron2(pipeline)])  # doctest: +SKIP
    """
    return _module("detectron2").PipelineAugmentation(_read(pipeline))


def as_batchgenerators(pipeline: Given) -> Any:
    """Return a pipeline as a transform of batchgeneratorsv2, which nnU-Net's trainers compose: called with a sample's entries.

    ``image`` (C, H, W) or (C, D, H, W) goes through the pipeline, ``segmentation`` of the same size follows as labels,
    ``regression_target`` (C, H, W) bilinearly; other entries, and those that are None, are left as they are. Tensors keep their
    dtype. nnU-Net standardises pictures first: give transforms that take 1 for white ``clip="none"``, and `Pipeline`
    ``mask_fill=-1`` where a trainer removes that label.

    Args:
        pipeline: or a list of transforms, such as ``presets.nnunet(patch_size)``.

    Errors:
        InvalidType for anything but a pipeline; InvalidArgument for a regression target beside volumes.

    Example:
        >>> import torch, pellucid
        >>> from pellucid.interop import as_batchgenerators
        >>> flip = as_batchgenerators([pellucid.RandomHorizontalFlip(p=1.0)])
        >>> flip(image=torch.tensor([[[1.0, 2.0]]]), segmentation=torch.tensor([[[0, 1]]]))["segmentation"]
        tensor([[[1, 0]]])
    """
    return _module("batchgenerators").PipelineTransform(_read(pipeline))


def _module(name: str) -> Any:
    return import_module(f"{__name__}.{name}")


def _read(pipeline: object) -> Pipeline:
    if isinstance(pipeline, Pipeline):
        return pipeline
    if isinstance(pipeline, Sequence) and all(isinstance(one, Transform) for one in pipeline):
        return Pipeline(list(pipeline))
    raise wrong_type("pipeline", expected="a Pipeline or a list of transforms", got=repr(pipeline))
