"""Import MONAI's and TorchIO's transforms of volumes, from objects or plain data.

Owns: the translation of their commonest transforms and options.
Must not: import either library.
Read next: ``reading.py``.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from functools import partial
from typing import Any

from pellucid import transforms
from pellucid.core.arguments import is_number, plain
from pellucid.errors import invalid
from pellucid.interop.nearest import Build, Near, asis, made, near, spread
from pellucid.interop.reading import NEAR, Cannot, Given, Imported, Made, Match, Reader, Table, gated, whole
from pellucid.pipeline import Pipeline
from pellucid.random import LogUniform

__all__ = ["from_monai", "from_torchio", "read_monai", "read_torchio"]

ours: Any = transforms  # untyped: options are known only at run time

_AXES = "xyz"  # their axes 0, 1, 2, for arrays that nibabel reads


def from_monai(source: Any, *, match: Match = "nearest") -> Pipeline:
    """Import the commonest of MONAI's transforms of volumes.

    Args:
        source: a ``Compose`` or a transform, of arrays or of dicts, or the same as plain data,
            ``{"name": "RandFlipd", "prob": 0.5, "spatial_axis": 0}``, for which MONAI need not be installed.

    Their axes 0, 1 and 2 are x, y and z here, as in arrays that nibabel reads, and sizes are reversed. Steps that read, orient,
    resample or standardise volumes before the first draw are left out, and a note says so.

    Returns:
        A pipeline of volumes.

    Example:
        >>> from pellucid.interop import from_monai
        >>> from_monai({"name": "RandFlipd", "prob": 0.5, "spatial_axis": 0})[0]
        RandomFlip3(axis='x', p=0.5, same_on_batch=False)
    """
    return whole(read_monai(source, match=match))


def read_monai(source: Any, *, match: Match = "nearest") -> Imported:
    """Return what :func:`from_monai` imports, with notes, and with a list of missing operations instead of an error.

    Args:
        source: as for :func:`from_monai`.

    Example:
        >>> from pellucid.interop import read_monai
        >>> read_monai([{"name": "RandFlipd"}, {"name": "RandGibbsNoised"}]).missing[0].name
        'RandGibbsNoise'
    """
    return _read(source, "monai", _MONAI, _NEAR_MONAI, match)


def from_torchio(source: Any, *, match: Match = "nearest") -> Pipeline:
    """Import the commonest of TorchIO's transforms.

    Args:
        source: a ``Compose`` or a transform, or the same as plain data, ``{"name": "RandomBiasField", "coefficients": 0.5}``, for
            which TorchIO need not be installed.

    Returns:
        A pipeline of volumes; axes, sizes and left-out steps are as for :func:`from_monai`.

    Example:
        >>> from pellucid.interop import from_torchio
        >>> from_torchio({"name": "RandomBiasField", "coefficients": 0.3, "p": 0.5})[0].coefficients
        (-0.3, 0.3)
    """
    return whole(read_torchio(source, match=match))


def read_torchio(source: Any, *, match: Match = "nearest") -> Imported:
    """Return what :func:`from_torchio` imports, with notes, and with a list of missing operations instead of an error.

    Args:
        source: as for :func:`from_torchio`.

    Example:
        >>> from pellucid.interop import read_torchio
        >>> read_torchio([{"name": "ToCanonical"}, {"name": "RandomFlip"}]).notes
        ('Nearest: ToCanonical: it comes before all draws, and is left to the reader of files',)
    """
    return _read(source, "torchio", _TORCHIO, _NEAR_TORCHIO, match)


def _read(source: Any, library: str, table: Table, nears: Mapping[str, Near], match: Match) -> Imported:
    reader = Reader(table, {name: (one.reason, one.nearest) for name, one in nears.items()}, match=match)
    reader.near = {**table, **{name: partial(_noted, one) for name, one in nears.items()}}
    return reader.imported(_described(source, library))


def _noted(one: Near, given: Given, reader: Reader, where: str) -> Made:
    given.near("", one.reason, one.nearest)
    return one.build(given, reader, where)


def _described(source: Any, library: str) -> Any:
    """Describe a transform as plain data; options with their default value are left out."""
    if isinstance(source, list | tuple):
        return {"name": "Compose", "transforms": [_described(one, library) for one in source]}
    if isinstance(source, Mapping):
        inner = source.get("transforms")
        own = {key: value for key, value in source.items() if key not in _FRAME}
        name = _bare(str(source.get("name")), library)
        return own | {"name": name} | ({} if inner is None else {"transforms": [_described(one, library) for one in inner]})
    name = _bare(type(source).__name__, library)
    if name in ("Compose", "OneOf"):
        odds = getattr(source, "transforms_dict", None)  # TorchIO's
        inner = list(odds or source.transforms)
        weights = list(odds.values()) if odds else list(getattr(source, "weights", None) or ())
        odd = {"weights": weights} if len(set(weights)) > 1 else {}
        return {"name": name, "transforms": [_described(one, library) for one in inner], **odd}
    found: dict[str, Any] = {"name": name}
    known = inspect.signature(type(source).__init__).parameters
    for option in (*known, *(("pos_ratio",) if "pos" in known else ())):
        value = _kept(source, option, library)
        given = any(one is not None for one in value) if isinstance(value, tuple) else value is not None
        if option not in _FRAME and given and (option not in known or value != known[option].default):
            found[option] = value
    chance = getattr(source, "probability", None)  # TorchIO keeps p under this name
    return found if chance in (None, 1) else found | {"p": chance}


def _bare(name: str, library: str) -> str:
    return name[:-1] if library == "monai" and name.endswith("d") and name not in ("Rand", "SpatialPad") else name


def _kept(source: Any, option: str, library: str) -> Any:
    """Find an argument in an object, or in one of the library's objects inside it."""
    for holder in (source, *(one for one in vars(source).values() if type(one).__module__.startswith(library))):
        inside = [
            holder,
            *(one for one in vars(holder).values() if holder is not source and type(one).__module__.startswith(library)),
        ]
        for name in (f"{option}_range", f"{option}_ranges", option):
            for one in inside:
                value = getattr(one, name, None)
                if value is not None and not callable(value):
                    value = plain(value)
                    value = tuple(getattr(part, "value", part) for part in value) if isinstance(value, tuple) else value
                    return getattr(value, "value", value)
    return None


_FRAME = ("self", "args", "kwargs", "keys", "label_key", "image_key", "fg_indices_key", "bg_indices_key", "indices_key", "label",
          "image", "allow_missing_keys", "dtype", "meta_keys", "meta_key_postfix", "lazy", "device", "cache_grid", "include",
          "exclude", "copy", "keep", "parse_input", "label_keys", "image_threshold", "allow_smaller", "map_items",
          "unpack_items")  # fmt: skip
"""Arguments that choose the entries and devices of a transform; they are ignored."""


def _each(value: Any, count: int = 3) -> tuple[Any, ...]:
    """Return a value for each axis; missing ones are 0."""
    several = value if isinstance(value, tuple) else (value,)
    return (*several, *(0.0 for _ in range(count - len(several))))[:count]


def _around(value: Any, by: float = 1.0, middle: float = 0.0) -> tuple[float, float]:
    low, high = (-value, value) if is_number(value) else value
    return middle + by * low, middle + by * high


def _reversed(value: Any) -> tuple[int, int, int]:
    size = (value,) * 3 if is_number(value) else tuple(value)
    if len(size) != 3:
        raise invalid("size", expected="three numbers", got=repr(value))
    return (int(size[2]), int(size[1]), int(size[0]))


def _sequence(given: Given, reader: Reader, where: str) -> Made:
    return [one for branch in reader.each(given("transforms"), f"{where}.transforms") for one in branch]


def _one_of(given: Given, reader: Reader, where: str) -> Made:
    branches = [branch for branch in reader.each(given("transforms"), f"{where}.transforms") if branch]
    return gated(ours.OneOf(branches, weights=given("weights")), given("p", 1.0))


def _before(given: Given, reader: Reader, where: str) -> Made:
    reader.note(f"{NEAR}{given.name}: it comes before all draws, and is left to the reader of files")
    given.unused = set()
    return None


def _flips(axes: Any, p: Any, each: float) -> Made:
    axes = range(3) if axes is None else axes if isinstance(axes, tuple) else (axes,)
    flips = [ours.RandomFlip3(_AXES[axis], p=each) for axis in axes]
    return ours.RandomFlip3(flips[0].axis, p=p) if len(flips) == 1 and each == 1.0 else gated(flips, p)


def _quarter_turn(given: Given, reader: Reader, where: str) -> Made:
    (axis,) = {0, 1, 2} - {axis % 3 for axis in given("spatial_axes", (0, 1))}
    return ours.RandomQuarterTurn3(_AXES[axis], tuple(range(1, given("max_k", 3) + 1)), p=given("prob", 0.1))


def _monai_affine(given: Given, reader: Reader, where: str) -> Made:
    for option in ("shear_range", "translate_range", "spatial_size"):
        if given.has(option):
            given.near(option, "shears, and options in voxels, are not imported", "none")
            given(option)
    outside = given("padding_mode", "reflection")
    if (outside[0] if isinstance(outside, tuple) else outside) != "border":
        given.near("padding_mode", "outside of a volume is the nearest voxel, or the fill, here", "border")
    degrees = tuple(_around(one, math.degrees(1.0)) for one in _each(given("rotate_range", 0.0)))
    scale = tuple(_around(one, middle=1.0) for one in _each(given("scale_range", 0.0)))
    mode = given("mode", "bilinear")
    order = mode[0] if isinstance(mode, tuple) else mode
    how = "nearest" if order == "nearest" else "trilinear"
    return ours.RandomAffine3(degrees, scale=scale, shrinks=True, interpolation=how, padding_mode="border", p=given("prob", 0.1))


def _monai_crop(foreground: Any, size: str) -> Build:
    def read(given: Given, reader: Reader, where: str) -> Made:
        share, pos, neg = given("pos_ratio"), given("pos", 1.0), given("neg", 1.0)
        if given("num_samples", 1) != 1:
            given.near("num_samples", "one window of each volume", "1")
        given.only("random_size", False, default=False, reason="windows have one size", nearest="False")
        given.idle("windows have one size and random places", "random_center", "max_roi_size")
        part = foreground if foreground is not None else share if share is not None else pos / (pos + neg)
        return ours.RandomCrop3(_reversed(given(size)), foreground=part)

    return read


def _size(name: str, option: str, **always: Any) -> Build:
    return lambda given, reader, where: getattr(ours, name)(_reversed(given(option)), **always)


def _noise(name: str) -> Build:
    def read(given: Given, reader: Reader, where: str) -> Made:
        std, mean = given("std", 0.1), given("mean", 0.0)
        sigma = (0.0, std) if given("sample_std", True) else std
        given.only("relative", False, default=False, reason="of the picture's own deviation", nearest="False")
        given.only("channel_wise", False, default=False, reason="one deviation for all channels", nearest="False")
        options = {"mean": mean, "clip": "none"} if name == "RandomGaussianNoise" else {}
        return getattr(ours, name)(sigma=sigma, p=given("prob", 0.1), **options)

    return read


def _smooth(given: Given, reader: Reader, where: str) -> Made:
    given.only("approx", "erf", default="erf", reason="the Gaussian is read at voxels", nearest="erf")
    return ours.RandomGaussianBlur(sigma=tuple(given(f"sigma_{axis}", (0.25, 1.5)) for axis in _AXES), p=given("prob", 0.1))


def _prob(name: str, p: float = 0.1, always: Mapping[str, Any] | None = None, /, **options: Any) -> Build:
    """Return a builder of one transform, whose probability is called ``prob`` there."""
    build = made(name, p, always, **options)

    def read(given: Given, reader: Reader, where: str) -> Made:
        given.options.update(p=given("prob", p))
        given.only("channel_wise", False, default=False, reason="one draw for all channels", nearest="PerChannel")
        return build(given, reader, where)

    return read


_FACTORS = ("factors", 0.0, partial(_around, middle=1.0))
_EARLY = ("LoadImage", "EnsureChannelFirst", "EnsureType", "ToTensor", "Orientation", "Spacing", "NormalizeIntensity",
          "ScaleIntensity", "ScaleIntensityRange", "CropForeground", "ToCanonical", "Resample", "ZNormalization",
          "RescaleIntensity", "HistogramStandardization", "ConvertToMultiChannelBasedOnBratsClasses")  # fmt: skip
_MONAI: Table = {
    **dict.fromkeys(_EARLY, _before),
    "Compose": _sequence,
    "OneOf": _one_of,
    "RandFlip": lambda given, reader, where: _flips(given("spatial_axis"), given("prob", 0.1), 1.0),
    "RandAxisFlip": lambda given, reader, where: gated(ours.OneOf([ours.RandomFlip3(a, p=1.0) for a in _AXES]), given("prob", 0.1)),
    "RandRotate90": _quarter_turn,
    "RandSpatialCrop": _monai_crop(0.0, "roi_size"),
    "CenterSpatialCrop": _size("CenterCrop3", "roi_size"),
    "RandGaussianNoise": _noise("RandomGaussianNoise"),
    "RandRicianNoise": _noise("RicianNoise"),
    "RandScaleIntensity": _prob("RandomBrightness", 0.1, {"clip": "none"}, brightness=_FACTORS),
    "RandShiftIntensity": _prob(
        "RandomBrightnessContrast", 0.1, {"contrast": 0.0, "clip": "none"}, brightness=spread("offsets", 0.0, 0.0)
    ),
}
_NEAR_MONAI: Mapping[str, Near] = {
    "RandAffine": Near("it rotates about the axes in another order", "RandomAffine3", _monai_affine),
    "RandCropByPosNegLabel": Near(
        "its foreground voxel is the window's centre", "RandomCrop3(foreground=...)", _monai_crop(None, "spatial_size")
    ),
    "RandCropByLabelClasses": Near(
        "its foreground voxel is the window's centre", "RandomCrop3(foreground=1)", _monai_crop(1.0, "spatial_size")
    ),
    "RandGaussianSmooth": Near("its kernels are wider, and it pads with zeros", "RandomGaussianBlur", _smooth),
    "RandAdjustContrast": Near(
        "it uses statistics of all channels",
        "RandomGammaInRange",
        _prob(
            "RandomGammaInRange",
            gamma=("gamma", (0.5, 4.5), asis),
            invert=("invert_image", False, asis),
            retain_stats=("retain_stats", False, asis),
        ),
    ),
    "RandBiasField": Near(
        "it uses Legendre polynomials", "RandomBiasField",
        _prob("RandomBiasField", coefficients=("coeff_range", (0.0, 0.1), asis), order=("degree", 3, asis)),
    ),
    "RandSimulateLowResolution": Near(
        "it takes the first of equally near voxels", "RandomLowResolution",
        _prob("RandomLowResolution", scale=("zoom_range", (0.5, 1.0), asis))
    ),
    "Resize": Near("averaging on shrinking is an option", "Resize3", _size("Resize3", "spatial_size")),
}  # fmt: skip


def _three(value: Any, around: float | None = None) -> tuple[Any, Any, Any]:
    """Return a range for each axis from TorchIO's forms: a number, a pair, three numbers, or the two ends of each axis."""
    parts = value if isinstance(value, tuple) else (value,)
    if len(parts) == 6:
        return tuple((parts[2 * i], parts[2 * i + 1]) for i in range(3))  # type: ignore[return-value]
    if len(parts) == 2:
        return (parts,) * 3
    each = parts * (3 // len(parts))
    return tuple(_around(one, middle=around or 0.0) if around is not None else (0.0, one) for one in each)  # type: ignore[return-value]


def _tio_affine(given: Given, reader: Reader, where: str) -> Made:
    scales = _three(given("scales", 0.1), around=1.0)
    if given.has("translation") and any(any(pair) for pair in _three(given("translation"), around=0.0)):
        given.near("translation", "it is in millimetres", "none")
    given.only("center", "image", default="image", reason="turns are about the middle", nearest="image")
    if given("default_pad_value", "minimum") not in (0, 0.0):
        given.near("default_pad_value", "one number for all volumes", "0")
    given.idle("labels take the nearest voxel", "label_interpolation", "check_shape")
    given.only("image_interpolation", "linear", default="linear", reason="trilinear or nearest", nearest="trilinear")
    scale = scales[0] if given("isotropic", False) else scales
    return ours.RandomAffine3(_three(given("degrees", 10.0), around=0.0), scale=scale, p=given("p", 1.0))


def _tio_gamma(given: Given, reader: Reader, where: str) -> Made:
    low, high = _around(given("log_gamma", 0.3))
    return ours.RandomGammaInRange(LogUniform(math.exp(low), math.exp(high)), retain_stats=False, p=given("p", 1.0))


def _tio_anisotropy(given: Given, reader: Reader, where: str) -> Made:
    low, high = _around(given("downsampling", (1.5, 5.0)))
    axes = given("axes", (0, 1, 2))
    each = [
        ours.RandomLowResolution((1.0 / high, 1.0 / low), axes=_AXES[a]) for a in (axes if isinstance(axes, tuple) else (axes,))
    ]
    given.idle("lines are drawn between voxels", "image_interpolation", "scalars_only")
    return gated(ours.OneOf(each), given("p", 1.0))


def _tio_ghosts(given: Given, reader: Reader, where: str) -> Made:
    ghosts, axes, restore = given("num_ghosts", (4, 10)), given("axes", (0, 1, 2)), given("restore")
    if isinstance(restore, tuple):
        given.near("restore", "one share for all", "its middle")
        restore = sum(restore) / 2
    least = (0, ghosts) if is_number(ghosts) else ghosts
    named = "".join(_AXES[axis] for axis in (axes if isinstance(axes, tuple) else (axes,)))
    intensity = given("intensity", (0.5, 1.0))
    strength = (0.0, intensity) if is_number(intensity) else intensity
    return ours.RandomGhosting(tuple(map(int, least)), axes=named, intensity=strength, restore=restore or 0.0, p=given("p", 1.0))


def _tio_elastic(given: Given, reader: Reader, where: str) -> Made:
    raise Cannot("", "its displacements are in millimetres, on a number of knots", "RandomElastic3, in voxels between knots")


_TORCHIO: Table = {
    **dict.fromkeys(_EARLY, _before),
    "Compose": _sequence,
    "OneOf": _one_of,
    "RandomFlip": lambda given, reader, where: _flips(given("axes", 0), given("p", 1.0), given("flip_probability", 0.5)),
    "RandomNoise": made(
        "RandomGaussianNoise", 1.0, {"clip": "none"}, mean=spread("mean", 0.0, 0.0),
        sigma=("std", (0.0, 0.25), lambda std: (0.0, std) if is_number(std) else std),
    ),
    "RandomBiasField": made("RandomBiasField", 1.0, coefficients=spread("coefficients", 0.5, 0.0), order=("order", 3, asis)),
    "RandomGhosting": _tio_ghosts,
    "RandomSpike": made(
        "RandomSpike", 1.0, num_spikes=("num_spikes", (1, 1), lambda n: tuple(map(int, n)) if isinstance(n, tuple) else (0, n)),
        intensity=spread("intensity", (1.0, 3.0), 0.0),
    ),
    "CropOrPad": _size("CenterCrop3", "target_shape", pad_if_needed=True),
    "RandomElasticDeformation": _tio_elastic,
}  # fmt: skip
_NEAR_TORCHIO: Mapping[str, Near] = {
    "RandomAffine": Near("it rotates about the axes in another order", "RandomAffine3", _tio_affine),
    "RandomBlur": near(
        "it is in millimetres", "RandomGaussianBlur", 1.0,
        sigma=("std", 2.0, lambda std: tuple((max(low, 1e-3), max(high, 1e-3)) for low, high in _three(std))),
    ),
    "RandomGamma": Near("it raises positive and negative values separately", "RandomGammaInRange", _tio_gamma),
    "RandomAnisotropy": Near("its resampling differs", "RandomLowResolution", _tio_anisotropy),
    "RandomMotion": near(
        "it rotates about the axes in another order", "RandomMotion", 1.0,
        degrees=spread("degrees", 10.0, 0.0), translation=spread("translation", 10.0, 0.0), moves=("num_transforms", 2, asis),
    ),
}  # fmt: skip
