"""Training and evaluation pipelines that other projects publish, by name.

Owns: the files beside it, one for each preset, and how options go into them.
Must not: run code from a file; a file has only tables of steps and names of published policies.
Read next: ``torchvision/classification-train.toml``.
"""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from pellucid import policy
from pellucid.errors import invalid
from pellucid.pipeline import Pipeline
from pellucid.pipeline.serialization import transforms_from_list
from pellucid.targets.options import dtype_named
from pellucid.transforms.base import Transform

__all__ = ["Preset", "about", "load", "names", "nnunet"]

_FOLDER = Path(__file__).parent


class Preset(NamedTuple):
    """The content of a preset's file."""

    source: str
    """Whose pipeline it is, and where it is published."""
    options: Mapping[str, Any]
    """The options that :func:`load` takes, with the defaults of the source."""
    differs: tuple[str, ...]
    """A sentence for each difference from the source."""
    pipeline: Mapping[str, Any]
    """Options and transforms of the pipeline; ``"$size"`` stands for the option ``size``, and ``{range = [1, 4]}`` for 1, 2, 3."""


@cache
def names() -> tuple[str, ...]:
    """Return the names of all presets.

    Example:
        >>> from pellucid import presets
        >>> presets.names()[:2]
        ('nnunet/volumes-train', 'timm/classification-eval')
    """
    return tuple(sorted(path.relative_to(_FOLDER).with_suffix("").as_posix() for path in _FOLDER.rglob("*.toml")))


@cache
def about(name: str) -> Preset:
    """Return the source of a preset, its options, and the differences.

    Args:
        name: one of :func:`names`.

    Errors:
        InvalidArgument for another name.

    Example:
        >>> from pellucid import presets
        >>> presets.about("torchvision/segmentation-eval").options["size"]
        520
    """
    if name not in names():
        raise invalid("name", expected=f"one of {', '.join(names())}", got=repr(name))
    found = tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    return Preset(found["source"], found["options"], tuple(found.get("differs", ())), found["pipeline"])


def load(name: str, **options: Any) -> Pipeline:
    """Build a published pipeline.

    Args:
        name: one of :func:`names`.
        options: those of the preset, and those of `Pipeline`, such as ``seed``. The option ``policy``, where a preset has it, is
            a transform or a list of them, and takes the place of the source's automatic augmentation.

    Returns:
        A pipeline. A step whose probability is 0 is left out of it.

    Errors:
        InvalidArgument for another name or option, and whatever the transforms say of values.

    Example:
        >>> from pellucid import policy, presets
        >>> augment = presets.load("torchvision/classification-train", size=176, policy=policy.TrivialAugmentWide(), erase=0.1)
        >>> [type(step).__name__ for step in augment]
        ['RandomResizedCrop', 'RandomHorizontalFlip', 'OneOf', 'Normalize', 'RandomErasing']
    """
    preset = about(name)
    known = {*preset.options, *(inspect.unwrap(Pipeline.__init__).__kwdefaults__ or ())}
    for option in options:
        if option not in known:
            raise invalid(option, expected=f"an option of {name}, {', '.join(preset.options)}, or of Pipeline", got=repr(option))
    given = {option: options.pop(option, default) for option, default in preset.options.items()}
    settings = {**preset.pipeline, **options}
    steps = [one for item in settings.pop("transforms") for one in _steps(_filled(item, given))]
    if isinstance(settings.get("dtype"), str):
        settings["dtype"] = dtype_named(settings["dtype"])
    return Pipeline(steps, **settings)


def nnunet(patch_size: Sequence[int], **options: Any) -> Pipeline:
    """Build nnU-Net's training pipeline of volumes for a size of patches: ``nnunet/volumes-train``.

    Slices count as thick if the patch has more than three times as many rows or columns as slices. As in nnU-Net, such volumes turn
    about z alone, by any angle, and lose no resolution along z.

    Args:
        patch_size: (depth, height, width).
        options: as :func:`load` takes them. A trainer's dict of volumes (B, C, D, H, W) needs
            ``targets={"data": "volume", "target": "labelmap"}``; `pellucid.interop.as_batchgenerators` is for nnU-Net's own.

    Returns:
        A pipeline. It takes volumes (B, C, D, H, W), standardised scans and whole-numbered labels, and gives back
        patches of them, (B, C, depth, height, width), in the same units.

    Errors:
        InvalidArgument for other than three numbers, and whatever :func:`load` says.

    Example:
        >>> import torch
        >>> from pellucid import presets
        >>> augment = presets.nnunet((16, 24, 24), seed=0, targets={"data": "volume", "target": "labelmap"})
        >>> out = augment({"data": torch.randn(2, 1, 20, 40, 40), "target": torch.ones(2, 1, 20, 40, 40, dtype=torch.int16)})
        >>> out["data"].shape, out["target"].dtype
        (torch.Size([2, 1, 16, 24, 24]), torch.int16)
    """
    size = tuple(patch_size) if isinstance(patch_size, Sequence) else ()
    if len(size) != 3:
        raise invalid("patch_size", expected="(depth, height, width)", got=repr(patch_size))
    thick = max(size) > 3 * size[0]
    flat = {"degrees": (0, 0, 180), "scale": ((0.7, 1.4), (0.7, 1.4), 1.0), "axes": "xy"} if thick else {}
    return load("nnunet/volumes-train", **{"size": size, **flat, **options})


def _filled(item: Any, given: Mapping[str, Any]) -> Any:
    """An item of a preset's file, with the options' values filled in."""
    if isinstance(item, str) and item.startswith("$"):
        return given[item[1:]]
    if isinstance(item, dict) and "range" in item:
        return list(range(*_filled(item["range"], given)))
    if isinstance(item, dict):
        return {key: _filled(value, given) for key, value in item.items()}
    return [_filled(value, given) for value in item] if isinstance(item, list) else item


def _steps(item: Any) -> Sequence[Transform]:
    """The transforms of a step: a table with a name or a policy, a transform, or a list of such."""
    if isinstance(item, list | tuple):
        return [one for each in item for one in _steps(each)]
    if isinstance(item, Mapping) and item.get("p") == 0:
        return ()
    if isinstance(item, Mapping) and "policy" in item:
        return (getattr(policy, item["policy"])(**{key: value for key, value in item.items() if key != "policy"}),)
    return (item,) if isinstance(item, Transform) else transforms_from_list([item])
