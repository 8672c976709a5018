"""Our pipelines as torchvision's, where both do the same.

Owns: what each of our transforms is called there.
Must not: export what would only look alike.
Read next: ``torchvision.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pellucid import transforms as ours
from pellucid.interop.reading import Cannot, Missing, Unsupported
from pellucid.pipeline import Pipeline
from pellucid.random.arguments import is_number
from pellucid.transforms.base import Transform, as_padding

__all__ = ["to_torchvision"]

Described = dict[str, Any]


def to_torchvision(pipeline: Pipeline | Sequence[Transform], *, plain: bool = False) -> Any:
    """Return a pipeline as a ``torchvision.transforms.v2.Compose``.

    Args:
        pipeline: or a list of transforms.
        plain: give the description that :func:`pellucid.interop.from_torchvision` reads instead; torchvision need not be installed.

    Returns:
        The ``Compose``, or its description under ``plain``.

    Errors:
        Unsupported, with a list of what has no equal there: learned ranges, interpolated warps (it mixes fills in twice), and more.

    Example:
        >>> import pellucid
        >>> from pellucid.interop import to_torchvision
        >>> to_torchvision([pellucid.RandomCrop(8, padding=1)], plain=True)["transforms"][0]["name"]
        'RandomCrop'
    """
    missing: list[Missing] = []
    found = {"name": "Compose", "transforms": _row(tuple(pipeline), "pipeline", missing)}
    if missing:
        raise Unsupported(missing)
    return found if plain else _built(found)


def _row(transforms: Sequence[Transform], where: str, missing: list[Missing]) -> list[Described]:
    found = []
    for i, one in enumerate(transforms):
        name = type(one).__name__
        try:
            if name not in _TABLE:
                raise Cannot("", "torchvision has nothing that does the same")
            if getattr(one, "same_on_batch", False):
                raise Cannot("same_on_batch=True", "torchvision draws for each picture")
            found.append(_TABLE[name](one, f"{where}[{i}]", missing))
        except Cannot as error:
            missing.append(Missing(f"{where}[{i}]", name, error.option, error.reason, error.nearest))
    return found


def _built(described: Described) -> Any:
    from torchvision.transforms import v2

    options = {key: value for key, value in described.items() if key != "name"}
    if "transforms" in options:
        options["transforms"] = [_built(one) for one in options["transforms"]]
    if isinstance(options.get("interpolation"), str):
        options["interpolation"] = v2.InterpolationMode(options["interpolation"])
    return getattr(v2, described["name"])(**options)


def _number(one: Any, name: str) -> Any:
    """A plain number or pair of numbers."""
    value = getattr(one, name)
    if is_number(value) or (isinstance(value, tuple) and all(map(is_number, value))):
        return value
    raise Cannot(f"{name}={value!r}", "torchvision takes numbers alone", "Pipeline.frozen()")


def _gate(one: Any, described: Described) -> Described:
    """With the probability of ours, for what has none there."""
    return described if one.p == 1.0 else {"name": "RandomApply", "transforms": [described], "p": _number(one, "p")}


def _alone(name: str) -> Callable[..., Described]:
    return lambda one, where, missing: {"name": name, "p": _number(one, "p")}


_PADDINGS = {"zeros": "constant", "constant": "constant", "border": "edge", "reflection": "symmetric", "reflect_101": "reflect"}


def _fill(one: Any) -> Any:
    return list(one.fill) if isinstance(one.fill, tuple) else one.fill


def _nearest(one: Any) -> None:
    if one.interpolation != "nearest" or one.padding_mode not in ("zeros", "constant"):
        raise Cannot("interpolation", "torchvision mixes fills in twice, and knows no other border", "nearest")


def _center(one: Any) -> Any:
    return None if one.center is None else [one.center[0] + 0.5, one.center[1] + 0.5]


def _rotation(one: Any, where: str, missing: list[Missing]) -> Described:
    _nearest(one)
    if getattr(one, "expand", False):
        raise Cannot("expand=True", "each angle has a canvas of its own there")
    options = {"degrees": _number(one, "degrees"), "interpolation": "nearest", "fill": _fill(one), "center": _center(one)}
    return _gate(one, {"name": "RandomRotation", **options})


def _crop(one: Any, where: str, missing: list[Missing]) -> Described:
    left_top_right_bottom = None if one.padding is None else list(as_padding("padding", one.padding))
    options = {"size": one.size, "padding": left_top_right_bottom, "pad_if_needed": one.pad_if_needed, "fill": _fill(one)}
    if one.p != 1.0:
        raise Cannot(f"p={one.p}", "sizes differ from picture to picture")
    return {"name": "RandomCrop", **options, "padding_mode": _PADDINGS[one.padding_mode]}


def _pad(one: Any, where: str, missing: list[Missing]) -> Described:
    return {
        "name": "Pad",
        "padding": list(as_padding("padding", one.padding)),
        "fill": _fill(one),
        "padding_mode": _PADDINGS[one.padding_mode],
    }


def _resize(one: Any, where: str, missing: list[Missing]) -> Described:
    if one.interpolation == "bicubic" and not one.antialias:
        raise Cannot("antialias=False", "its bicubic has a = -0.75 then, ours a = -0.5", "antialias=True")
    mode = "nearest-exact" if one.interpolation == "nearest" else one.interpolation
    size = [one.size] if isinstance(one.size, int) else list(one.size)
    return {"name": "Resize", "size": size, "interpolation": mode, "antialias": one.antialias}


def _center_crop(one: Any, where: str, missing: list[Missing]) -> Described:
    if one.fill != 0:
        raise Cannot(f"fill={one.fill}", "it pads with 0")
    return {"name": "CenterCrop", "size": one.size}


def _jitter(one: Any, where: str, missing: list[Missing]) -> Described:
    if one.clip != "each":
        raise Cannot(f"clip={one.clip!r}", "it clips after every step", "clip='each'")
    parts = {name: _number(one, name) for name in ("brightness", "contrast", "saturation", "hue")}
    return _gate(one, {"name": "ColorJitter", **parts})


def _normalize(one: Any, where: str, missing: list[Missing]) -> Described:
    return {"name": "Normalize", "mean": list(one.mean), "std": list(one.std)}


def _apply(one: Any, where: str, missing: list[Missing]) -> Described:
    inner = [_row(branch, f"{where}.transforms", missing) for branch in one.branches]
    return {"name": "RandomApply", "transforms": inner[0], "p": _number(one, "p")}


def _branches(one: Any, where: str, missing: list[Missing]) -> list[Described]:
    rows = [_row(branch, f"{where}.transforms[{i}]", missing) for i, branch in enumerate(one.branches)]
    return [row[0] if len(row) == 1 else {"name": "Compose", "transforms": row or [{"name": "Identity"}]} for row in rows]


def _choice(one: Any, where: str, missing: list[Missing]) -> Described:
    weights = None if one.weights is None else list(_number(one, "weights"))
    return {"name": "RandomChoice", "transforms": _branches(one, where, missing), "p": weights}


def _order(one: Any, where: str, missing: list[Missing]) -> Described:
    return {"name": "RandomOrder", "transforms": _branches(one, where, missing)}


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
    ours.Shuffle.__name__: _order,
}
