"""Use Pellucid's pipelines inside other libraries: one function for each library's way to call an augmentation.

Owns: the functions that make adapters.
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
    """Return a pipeline as one ``A.DualTransform`` of albumentations 2, for ``A.Compose`` and programs that take its transforms.

    Such programs are Ultralytics (``model.train(augmentations=[...])``), MMDetection (``Albu``) and RF-DETR. ``A.to_dict`` writes
    the whole pipeline, as Ultralytics' checkpoints need; ``A.from_dict`` reads it back after this module was imported.
    Images are arrays (H, W, C) or (H, W) of uint8 or float32, and keep dtype and layout; masks, boxes and keypoints move by the
    same draw. Boxes that leave the picture are removed, together with their labels from ``bbox_params``.

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

    It takes the same arguments as those: one sample, or several arguments, in any nesting. PIL images and torchvision's tensor
    classes (``Image``, ``Video``, ``Mask``, ``BoundingBoxes``, ``KeyPoints``) go through the pipeline with one draw, and keep their
    class; without a picture among them, the first plain tensor is the picture. Other values are returned unchanged; under
    ``drop_invalid=True``, entries ``labels`` and ``iscrowd`` lose the rows of dropped boxes. PIL images come back as PIL images if
    they are still bytes.

    Args:
        pipeline: or a list of transforms.

    Gradient:
        as the pipeline's.

    Errors:
        InvalidType for anything but a pipeline; errors of the pipeline.

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
        data_keys: the kinds of the arguments, in order: ``input`` or ``image`` (B, C, H, W), ``mask`` (B, C, H, W), ``bbox``
            (B, N, 4, 2), corners in pixel centres, ``bbox_xyxy`` and ``bbox_xywh`` (B, N, 4), pixel edges as everywhere in
            Pellucid (kornia's own flip shifts ``bbox_xyxy`` by a pixel), ``keypoints`` (B, N, 2), and ``class`` and
            ``label``, which are returned unchanged. None for dicts, whose keys begin with one of these names; other
            entries are returned unchanged, as torchgeo's data modules need. Boxes, points and masks may be lists with an item for
            each picture of the batch, and come back as lists.

    Gradient:
        as the pipeline's.

    Errors:
        InvalidArgument for an unknown key or a wrong number of arguments; InvalidType for anything but a pipeline.

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
        pipeline: or a list of transforms. Each picture gets one draw, which also moves its boxes, masks, polygons and keypoints.

    Errors:
        ModuleNotFoundError where Detectron2 is not installed; InvalidType for anything but a pipeline.

    Example:
        >>> from pellucid.interop import as_detectron2
        >>> DatasetMapper(cfg, augmentations=[as_detectron2(pipeline)])  # doctest: +SKIP
    """
    return _module("detectron2").PipelineAugmentation(_read(pipeline))


def as_batchgenerators(pipeline: Given) -> Any:
    """Return a pipeline as a transform of batchgeneratorsv2, for nnU-Net's trainers; it is called with a sample's entries.

    ``image`` (C, H, W) or (C, D, H, W) goes through the pipeline; ``segmentation`` of the same size follows as labels,
    ``regression_target`` (C, H, W) with bilinear interpolation; other entries, and None, are returned unchanged. Tensors keep their
    dtype. nnU-Net standardises pictures first, so pass ``clip="none"`` to transforms that clip at 1, and ``mask_fill=-1`` to the
    `Pipeline` if the trainer removes that label.

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
