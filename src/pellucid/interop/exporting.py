"""Export pipelines to torchvision, albumentations, Hugging Face or Ultralytics, if both do the same.

Owns: the translation of each of Pellucid's transforms.
Must not: export a transform whose results would only be similar.
Read next: ``torchvision.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

from pellucid import transforms as ours
from pellucid.core.arguments import check_choice, is_number
from pellucid.errors import invalid
from pellucid.interop.reading import Cannot, Missing, Unsupported
from pellucid.pipeline import Pipeline
from pellucid.random import Constant, Uniform
from pellucid.transforms.base import Transform, as_padding, as_size

__all__ = ["to_albumentations", "to_huggingface", "to_torchvision", "to_ultralytics"]

Described = dict[str, Any]


def to_torchvision(pipeline: Pipeline | Sequence[Transform], *, plain: bool = False) -> Any:
    """Return a pipeline as a ``torchvision.transforms.v2.Compose``.

    Args:
        pipeline: or a list of transforms.
        plain: return the description that :func:`pellucid.interop.from_torchvision` reads; torchvision need not be installed.

    Returns:
        The ``Compose``, or its description under ``plain``.

    Errors:
        Unsupported, with a list of steps without an equal: learned ranges, interpolated warps (torchvision blends fills twice), ...

    Example:
        >>> import pellucid
        >>> from pellucid.interop import to_torchvision
        >>> to_torchvision([pellucid.RandomCrop(8, padding=1)], plain=True)["transforms"][0]["name"]
        'RandomCrop'
    """
    found = {"name": "Compose", "transforms": _exported(pipeline, "torchvision", _TABLE)}
    return found if plain else _built(found)


def to_albumentations(pipeline: Pipeline | Sequence[Transform], *, plain: bool = False) -> Any:
    """Return a pipeline as a ``Compose`` of albumentations, version 2.

    Args:
        pipeline: or a list of transforms.
        plain: return the dictionary that ``A.to_dict`` would write; albumentations need not be installed.

    Returns:
        ``A.Compose``, or the dictionary. On bytes, results for the same drawn values agree within one grey level.

    Errors:
        Unsupported, with a list of steps without an equal: warps (OpenCV rounds coordinates), learned ranges, and more.

    Example:
        >>> import pellucid
        >>> from pellucid.interop import to_albumentations
        >>> to_albumentations([pellucid.RandomGamma((0.5, 1.5))], plain=True)["transform"]["transforms"][0]["gamma_limit"]
        [50.0, 150.0]
    """
    steps = _exported(pipeline, "albumentations", _ALBUMENTATIONS)
    found = {"__version__": "2.0.8", "transform": _called({"name": "Compose", "transforms": steps, "p": 1.0})}
    if plain:
        return found
    import albumentations

    return albumentations.from_dict(found)


def to_huggingface(pipeline: Pipeline | Sequence[Transform]) -> dict[str, Any]:
    """Return an evaluation pipeline as the contents of a ``preprocessor_config.json``, which ``AutoImageProcessor`` reads.

    Args:
        pipeline: Resize, CenterCrop and Normalize, in this order; each may be absent. Or a list of them.

    Returns:
        A dictionary to write by ``json.dump`` beside a model's ``config.json``. Its class is ``CLIPImageProcessor``, which knows
        these steps. Pillow rounds and clips to bytes after each axis, Pellucid only at the end. If the margins of a crop are odd,
        theirs begins half a pixel before the middle, Pellucid's at the even one of the two places.

    Errors:
        Unsupported for other steps, another order, a fill, and resizing that is not antialiased.

    Source:
        ``transformers``, within 1.13 levels of bytes where bicubic does not leave their range
        (``tests/interop/test_huggingface.py``).

    Example:
        >>> import pellucid
        >>> from pellucid.interop import to_huggingface
        >>> to_huggingface([pellucid.Resize(256), pellucid.CenterCrop(224)])["crop_size"]
        {'height': 224, 'width': 224}
    """
    found = _exported(pipeline, "huggingface", _HUGGINGFACE)
    order = [next(iter(one)) for one in found]
    if order != sorted(set(order), key=list(_HUGGINGFACE_OFF).index):
        reason = "it takes each step once, in this order: resize, crop, normalize"
        raise Unsupported([Missing("pipeline", ", ".join(order), "", reason, "")])
    always = {"image_processor_type": "CLIPImageProcessor", "do_convert_rgb": True, "do_rescale": True}
    return reduce(or_, found, always | _HUGGINGFACE_OFF)


def to_ultralytics(
    pipeline: Pipeline | Sequence[Transform], *, names: Sequence[str], task: str = "detect", stride: int = 32
) -> dict[str, str]:
    """Return the metadata of a network's ONNX file with which ``ultralytics`` prepares pictures as the pipeline does.

    Args:
        pipeline: ``Letterbox(size, fill=114 / 255, antialias=False)`` alone, 114 for bytes. Or a list of it.
        names: the names of the classes, in order.
        task: ``detect``, ``segment``, ``pose`` or ``obb``.
        stride: the network's stride, which must divide both sides.

    Returns:
        Metadata to write into the file by ``onnx.helper.set_model_props``. The network takes float32 in [0, 1].

    Errors:
        Unsupported for other steps and options. InvalidArgument for an unknown task or a size that ``stride`` does not divide.

    Source:
        ``ultralytics``, whose resize of bytes is within a level (``tests/interop/test_ultralytics.py``).

    Example:
        >>> import pellucid
        >>> from pellucid.interop import to_ultralytics
        >>> letterbox = pellucid.Letterbox((480, 640), fill=114 / 255, antialias=False)
        >>> to_ultralytics([letterbox], names=["cat", "dog"])["imgsz"]
        '[480, 640]'
    """
    check_choice("task", task, ("detect", "segment", "pose", "obb"))
    found = _exported(pipeline, "ultralytics", {"Letterbox": _letterbox_there})
    if len(found) != 1:
        raise Unsupported([Missing("pipeline", f"{len(found)} steps", "", "it letterboxes once", "")])
    if any(side % stride for side in found[0]["imgsz"]):
        raise invalid("pipeline", expected=f"sides that {stride} divides", got=found[0]["imgsz"])
    rest = {"names": dict(enumerate(names)), "task": task, "stride": stride, "batch": 1, "channels": 3, "args": {"dynamic": False}}
    return {key: str(value) for key, value in {**found[0], **rest}.items()}


class _Export(NamedTuple):
    """One export: the library, its table of translations, the list of missing steps, and the pipeline's fill of masks."""

    library: str
    table: Mapping[str, Callable[..., Described]]
    missing: list[Missing]
    mask_fill: float


def _exported(pipeline: Pipeline | Sequence[Transform], library: str, table: Mapping[str, Callable[..., Described]]) -> Any:
    options = getattr(pipeline, "options", None)
    export = _Export(library, table, [], 0.0 if options is None else options.mask_fill)
    found = _row(tuple(pipeline), "pipeline", export)
    if export.missing:
        raise Unsupported(export.missing)
    return found


def _called(described: Described) -> Described:
    """Rename a description's ``name`` to ``__class_fullname__``, as ``A.to_dict`` has it."""
    inner = {"transforms": [_called(one) for one in described["transforms"]]} if "transforms" in described else {}
    return {"__class_fullname__": described["name"], **{k: v for k, v in described.items() if k != "name"}, **inner}


def _row(transforms: Sequence[Transform], where: str, export: _Export) -> list[Described]:
    found = []
    for i, one in enumerate(transforms):
        name = type(one).__name__
        try:
            if name not in export.table:
                raise Cannot("", f"{export.library} has no equal of it")
            if getattr(one, "same_on_batch", False):
                raise Cannot("same_on_batch=True", f"{export.library} draws for each picture")
            found.append(export.table[name](one, f"{where}[{i}]", export))
        except Cannot as error:
            export.missing.append(Missing(f"{where}[{i}]", name, error.option, error.reason, error.nearest))
    return found


def _built(described: Described) -> Any:
    from torchvision.transforms import v2

    options = {key: value for key, value in described.items() if key != "name"}
    if "transforms" in options:
        options["transforms"] = [_built(one) for one in options["transforms"]]
    if isinstance(options.get("interpolation"), str):
        options["interpolation"] = v2.InterpolationMode(options["interpolation"])
    if isinstance(options.get("fill"), dict):
        from torchvision.tv_tensors import Mask

        options["fill"] = {Mask if kind == "Mask" else kind: number for kind, number in options["fill"].items()}
    return getattr(v2, described["name"])(**options)


def _number(one: Any, name: str) -> Any:
    """Return an option that is a plain number or a tuple of numbers; refuse any other."""
    value = getattr(one, name)
    if is_number(value) or (isinstance(value, tuple) and all(map(is_number, value))):
        return value
    raise Cannot(f"{name}={value!r}", "it takes only numbers", "Pipeline.frozen()")


def _gate(one: Any, described: Described) -> Described:
    """Wrap a description in RandomApply with the transform's probability, unless that is 1."""
    return described if one.p == 1.0 else {"name": "RandomApply", "transforms": [described], "p": _number(one, "p")}


def _alone(name: str) -> Callable[..., Described]:
    return lambda one, where, export: {"name": name, "p": _number(one, "p")}


_PADDINGS = {"zeros": "constant", "constant": "constant", "border": "edge", "reflection": "symmetric", "reflect_101": "reflect"}


def _fill(one: Any, export: _Export) -> Any:
    """Return the fill for torchvision, where a plain fill counts for masks, too."""
    fill, mask = list(one.fill) if isinstance(one.fill, tuple) else one.fill, one.mask_fill
    mask = export.mask_fill if mask is None else mask
    return fill if fill == mask or one.padding_mode not in ("zeros", "constant") else {"Mask": mask, "others": fill}


def _nearest(one: Any) -> None:
    if one.interpolation != "nearest" or one.padding_mode not in ("zeros", "constant"):
        raise Cannot("interpolation", "torchvision blends fills twice, and has no other borders", "nearest")


def _center(one: Any) -> Any:
    return None if one.center is None else [one.center[0] + 0.5, one.center[1] + 0.5]


def _rotation(one: Any, where: str, export: _Export) -> Described:
    _nearest(one)
    if getattr(one, "expand", False):
        raise Cannot("expand=True", "each angle has a canvas of its own there")
    options = {"degrees": _number(one, "degrees"), "interpolation": "nearest", "fill": _fill(one, export), "center": _center(one)}
    return _gate(one, {"name": "RandomRotation", **options})


def _crop(one: Any, where: str, export: _Export) -> Described:
    left_top_right_bottom = None if one.padding is None else list(as_padding("padding", one.padding))
    options = {"size": one.size, "padding": left_top_right_bottom, "pad_if_needed": one.pad_if_needed, "fill": _fill(one, export)}
    if one.p != 1.0:
        raise Cannot(f"p={one.p}", "sizes differ from picture to picture")
    return {"name": "RandomCrop", **options, "padding_mode": _PADDINGS[one.padding_mode]}


def _pad(one: Any, where: str, export: _Export) -> Described:
    return {
        "name": "Pad",
        "padding": list(as_padding("padding", one.padding)),
        "fill": _fill(one, export),
        "padding_mode": _PADDINGS[one.padding_mode],
    }


def _resize(one: Any, where: str, export: _Export) -> Described:
    if one.interpolation == "bicubic" and not one.antialias:
        raise Cannot("antialias=False", "its bicubic has a = -0.75 then, ours a = -0.5", "antialias=True")
    mode = "nearest-exact" if one.interpolation == "nearest" else one.interpolation
    size = [one.size] if isinstance(one.size, int) else list(one.size)
    return {"name": "Resize", "size": size, "interpolation": mode, "antialias": one.antialias}


_HUGGINGFACE_OFF = {"do_resize": False, "do_center_crop": False, "do_normalize": False}


def _sides(size: int | tuple[int, int]) -> dict[str, int]:
    height, width = as_size("size", size)
    return {"height": height, "width": width}


def _resize_there(one: Any, where: str, export: _Export) -> Described:
    if not one.antialias or one.interpolation == "nearest":
        raise Cannot("antialias", "Pillow always shrinks by means", "antialias=True")
    size = {"shortest_edge": one.size} if isinstance(one.size, int) else _sides(one.size)
    return {"do_resize": True, "size": size, "resample": {"bilinear": 2, "bicubic": 3}[one.interpolation]}


def _center_crop_there(one: Any, where: str, export: _Export) -> Described:
    if one.fill != 0.0:
        raise Cannot(f"fill={one.fill}", "it pads small pictures with zeros", "fill=0.0")
    return {"do_center_crop": True, "crop_size": _sides(one.size)}


_HUGGINGFACE: dict[str, Callable[..., Described]] = {
    "Resize": _resize_there,
    "CenterCrop": _center_crop_there,
    "Normalize": lambda one, where, export: {"do_normalize": True, "image_mean": list(one.mean), "image_std": list(one.std)},
}


def _letterbox_there(one: Any, where: str, export: _Export) -> Described:
    if one.fill not in (114, 114 / 255) or one.antialias or one.interpolation != "bilinear":
        raise Cannot("options", "bars are 114 there, and shrinking skips pixels", "fill=114 / 255, antialias=False")
    return {"imgsz": list(as_size("Letterbox.size", one.size))}


def _center_crop(one: Any, where: str, export: _Export) -> Described:
    mask = export.mask_fill if one.mask_fill is None else one.mask_fill
    if one.fill != 0 or mask != 0:
        raise Cannot(f"fill={one.fill}, mask_fill={mask}", "it pads with 0")
    return {"name": "CenterCrop", "size": one.size}


def _jitter(one: Any, where: str, export: _Export) -> Described:
    if one.clip != "each":
        raise Cannot(f"clip={one.clip!r}", "it clips after every step", "clip='each'")
    parts = {name: _number(one, name) for name in ("brightness", "contrast", "saturation", "hue")}
    return _gate(one, {"name": "ColorJitter", **parts})


def _normalize(one: Any, where: str, export: _Export) -> Described:
    return {"name": "Normalize", "mean": list(one.mean), "std": list(one.std)}


def _apply(one: Any, where: str, export: _Export) -> Described:
    inner = [_row(branch, f"{where}.transforms", export) for branch in one.branches]
    return {"name": "RandomApply", "transforms": inner[0], "p": _number(one, "p")}


def _branches(one: Any, where: str, export: _Export) -> list[Described]:
    rows = [_row(branch, f"{where}.transforms[{i}]", export) for i, branch in enumerate(one.branches)]
    return [row[0] if len(row) == 1 else {"name": "Compose", "transforms": row or [{"name": "Identity"}]} for row in rows]


def _choice(one: Any, where: str, export: _Export) -> Described:
    weights = None if one.weights is None else list(_number(one, "weights"))
    return {"name": "RandomChoice", "transforms": _branches(one, where, export), "p": weights}


_TABLE: Mapping[str, Callable[..., Described]] = {
    ours.RandomHorizontalFlip.__name__: _alone("RandomHorizontalFlip"),
    ours.RandomVerticalFlip.__name__: _alone("RandomVerticalFlip"),
    ours.RandomInvert.__name__: _alone("RandomInvert"),
    ours.RandomAutoContrast.__name__: _alone("RandomAutocontrast"),
    ours.RandomEqualize.__name__: _alone("RandomEqualize"),
    ours.RandomRotation.__name__: _rotation,
    ours.RandomCrop.__name__: _crop,
    ours.CenterCrop.__name__: _center_crop,
    ours.Pad.__name__: _pad,
    ours.Resize.__name__: _resize,
    ours.ColorJitter.__name__: _jitter,
    ours.Normalize.__name__: _normalize,
    ours.Apply.__name__: _apply,
    ours.OneOf.__name__: _choice,
    ours.Shuffle.__name__: lambda one, where, export: {"name": "RandomOrder", "transforms": _branches(one, where, export)},
}


def _ends(one: Any, name: str, scale: float = 1.0) -> list[float]:
    """Return the ends of an option's uniform range, or a constant twice; refuse any other distribution."""
    distribution = one._fixed.get(name)
    if type(distribution) not in (Uniform, Constant) or distribution.learned():
        raise Cannot(f"{name}={getattr(one, name)!r}", "it draws numbers uniformly", "Pipeline.frozen()")
    return [end * scale for end in distribution.span()]


def _clipped(one: Any) -> None:
    if one.clip != "end":
        raise Cannot(f"clip={one.clip!r}", "it clips bytes", "clip='end'")


def _ranges(name: str, **limits: tuple[str, float]) -> Callable[..., Described]:
    """Export a transform whose options are ranges; ``limits`` maps each name to albumentations' name and a scale."""

    def described(one: Any, where: str, export: _Export) -> Described:
        if hasattr(one, "clip"):
            _clipped(one)
        ends = {theirs: _ends(one, ours_, scale) for ours_, (theirs, scale) in limits.items()}
        return {"name": name, **ends, "p": _number(one, "p")}

    return described


def _gamma(one: Any, where: str, export: _Export) -> Described:
    _clipped(one)
    if _ends(one, "gain") != [1.0, 1.0]:
        raise Cannot(f"gain={one.gain}", "it has no gain", "gain=1")
    return {"name": "RandomGamma", "gamma_limit": _ends(one, "gamma", 100.0), "p": _number(one, "p")}


def _whole_crop(one: Any, where: str, export: _Export) -> Described:
    if one.padding is not None or one.pad_if_needed or one.p != 1.0:
        raise Cannot("padding", "its padding is placed differently", "Pad before it")
    return {"name": "RandomCrop", **_sides(one.size), "p": 1.0}


def _fixed_crop(one: Any, where: str, export: _Export) -> Described:
    height, width = as_size("size", one.size)
    if min(one.top, one.left) < 0:
        raise Cannot(f"top={one.top}, left={one.left}", "it shows nothing outside of the picture", "Pad before it")
    return {"name": "Crop", "x_min": one.left, "y_min": one.top, "x_max": one.left + width, "y_max": one.top + height, "p": 1.0}


def _weighed(one: Any, where: str, export: _Export) -> Described:
    """Export OneOf: there the branches' probabilities are the weights, and the chosen branch is always applied."""
    weights = [1.0] * len(one.branches) if one.weights is None else list(_number(one, "weights"))
    branches = []
    for weight, row in zip(weights, (_row(branch, f"{where}.transforms", export) for branch in one.branches), strict=True):
        sure = row[0] if len(row) == 1 and row[0]["p"] == 1.0 else {"name": "Sequential", "transforms": row}
        branches.append({**sure, "p": weight / sum(weights)})
    return {"name": "OneOf", "transforms": branches, "p": 1.0}


_ALBUMENTATIONS: Mapping[str, Callable[..., Described]] = {
    ours.RandomHorizontalFlip.__name__: _alone("HorizontalFlip"),
    ours.RandomVerticalFlip.__name__: _alone("VerticalFlip"),
    ours.RandomInvert.__name__: _alone("InvertImg"),
    ours.RandomGrayscale.__name__: _alone("ToGray"),
    ours.RandomBrightnessContrast.__name__: _ranges(
        "RandomBrightnessContrast", brightness=("brightness_limit", 1.0), contrast=("contrast_limit", 1.0)
    ),
    ours.RGBShift.__name__: _ranges(
        "RGBShift", red=("r_shift_limit", 255.0), green=("g_shift_limit", 255.0), blue=("b_shift_limit", 255.0)
    ),
    ours.RandomSolarize.__name__: _ranges("Solarize", threshold=("threshold_range", 1.0)),
    ours.RandomGamma.__name__: _gamma,
    ours.RandomCrop.__name__: _whole_crop,
    ours.Crop.__name__: _fixed_crop,
    ours.Normalize.__name__: lambda one, where, export: {**_normalize(one, where, export), "p": 1.0},
    ours.Apply.__name__: lambda one, where, export: {**_apply(one, where, export), "name": "Sequential"},
    ours.OneOf.__name__: _weighed,
}
