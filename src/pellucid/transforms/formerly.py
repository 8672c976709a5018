"""Calls of earlier versions: the order and the names that options of transforms had.

Owns: `take_old_calls`, `renamed`.
Must not: know a transform that is younger than 0.2.
Read next: ``../core/formerly.py``.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from pellucid.core.formerly import formerly
from pellucid.transforms.base import Transform

__all__ = ["renamed", "take_old_calls"]

_SURROGATE = {"magnitude": "surrogate"}
_FILL = {"value": "fill", "mask_value": "mask_fill"}
_NAMES: Mapping[str, Mapping[str, str]] = {
    **dict.fromkeys(("RandomCLAHE", "RandomPosterize", "RandomSolarize"), _SURROGATE),
    **dict.fromkeys(("CoarseDropout", "GridDropout", "RandomErasing"), _FILL),
}
_PLACES = {
    "CoarseDropout": "count height width fill p same_on_batch inside mask_fill hides",
    "CopyPaste": "share sigma p pairing same_on_batch",
    "CutMix": "lam num_classes p pairing edge same_on_batch",
    "GridDistortion": "cells magnitude interpolation padding_mode fill p same_on_batch mask_fill",
    "GridDropout": "cells ratio fill p same_on_batch mask_fill hides",
    "LensDistortion": "k1 k2 k3 p1 p2 interpolation padding_mode fill p same_on_batch mask_fill",
    "MixUp": "lam num_classes p pairing same_on_batch",
    "Mosaic": "center scale fill num_classes p pairing same_on_batch",
    "OneOf": "transforms weights estimator temperature same_on_batch rounded",
    "RandomAffine": "degrees translate scale shear interpolation padding_mode fill center antialias p same_on_batch whole_pixels "
    "mask_fill",
    "RandomCLAHE": "clip_limit tiles p image_gradient surrogate h same_on_batch",
    "RandomCrop": "size padding pad_if_needed fill padding_mode p same_on_batch mask_fill",
    "RandomElastic": "spacing magnitude border allow_folding interpolation padding_mode fill p same_on_batch mask_fill",
    "RandomEqualize": "p image_gradient same_on_batch",
    "RandomErasing": "p scale ratio fill same_on_batch inside mask_fill hides",
    "RandomFisheye": "angle interpolation padding_mode fill p same_on_batch mask_fill",
    "RandomJPEG": "quality subsampling p image_gradient h same_on_batch",
    "RandomLieAffine": "generators interpolation padding_mode fill p same_on_batch mask_fill",
    "RandomPerspective": "distortion_scale p interpolation padding_mode fill same_on_batch mask_fill",
    "RandomPosterize": "bits p image_gradient surrogate h same_on_batch",
    "RandomRotation": "degrees interpolation padding_mode fill center expand p same_on_batch mask_fill",
    "RandomSafeRotation": "degrees interpolation padding_mode fill p same_on_batch mask_fill",
    "RandomScale": "scale interpolation padding_mode fill center antialias p same_on_batch mask_fill",
    "RandomShear": "shear interpolation padding_mode fill center p same_on_batch mask_fill",
    "RandomSolarize": "threshold p surrogate h same_on_batch",
    "RandomThinPlateSpline": "points magnitude interpolation padding_mode fill p same_on_batch mask_fill",
    "RandomTranslate": "translate interpolation padding_mode fill p same_on_batch pixels whole_pixels mask_fill",
    "RandomWave": "amplitude period phase interpolation padding_mode fill p same_on_batch mask_fill",
    "RandomZoomOut": "side fill interpolation antialias p same_on_batch mask_fill",
    "RollingShutter": "pan tilt acceleration interpolation padding_mode fill p same_on_batch mask_fill",
    "ScaleJitter": "size scale fill interpolation antialias same_on_batch mask_fill",
    "SomeOf": "transforms n replace weights estimator temperature same_on_batch rounded",
}
"""The former order of options, by their present names, where it is not the order of the fields."""


def renamed(kind: type[Transform]) -> Mapping[str, str]:
    """The present names of fields, by their former names."""
    return _NAMES.get(kind.__name__, {})


def take_old_calls(kind: type[Transform]) -> None:
    """Accept a transform's former calls, and its fields' former names, with a warning."""
    order = _PLACES[kind.__name__].split() if kind.__name__ in _PLACES else [one.name for one in fields(kind)]  # type: ignore[arg-type]
    free = {one.name for one in fields(kind) if not one.kw_only}  # type: ignore[arg-type]
    kind.__init__ = formerly(*(one for one in order if one not in free), **renamed(kind))(kind.__init__)  # type: ignore[method-assign]
    for old, now in renamed(kind).items():
        setattr(kind, old, _Old(kind.__name__, old, now))


class _Old:
    """A field under its old name; no property, which documentation would show."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def __get__(self, transform: Transform | None, owner: type[Transform]) -> Any:
        if transform is None:
            return self
        name, old, now = self._names
        warnings.warn(f"Write `.{now}` for the `.{old}` of {name}.", DeprecationWarning, stacklevel=2)
        return getattr(transform, now)
