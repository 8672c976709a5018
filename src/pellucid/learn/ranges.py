"""Show learned ranges: as numbers in a log, as lines in a terminal, and as bands in a plot.

Owns: the names of ranges, which begin with their transforms.
Must not: change them.
Read next: ``run.py``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import nn

from pellucid.pipeline import Pipeline
from pellucid.training import read_log
from pellucid.training.log import plot_curves

__all__ = ["numbers_of", "plot_ranges", "readable", "unit_of"]

_SHORT = {"gate": "p"}
_UNITS = {
    "RandomErasing scale": "share of the area",
    "RandomErasing ratio": "width / height",
    "RandomResizedCrop scale": "share of the area",
    "RandomResizedCrop ratio": "width / height",
    "RandomGaussianBlur sigma": "pixels",
    "degrees": "degrees",
    "shear_x": "degrees",
    "shear_y": "degrees",
    "translate_x": "share of the width",
    "translate_y": "share of the height",
    "scale": "factor",
    "brightness": "factor",
    "contrast": "factor",
    "saturation": "factor",
    "hue": "turns of the colour circle",
    "p": "probability",
    "loss": "loss",
}
"""Units, by a panel's title or else by its last word."""


def numbers_of(augment: nn.Module) -> dict[str, float]:
    """Return the learned numbers by name, such as ``1.RandomAffine.degrees.low``; a range has its two ends.

    The result is empty for a pipeline that predicts some of them from its images.
    """
    numbers: dict[str, float] = {}
    with torch.no_grad():
        if isinstance(augment, Pipeline) and not augment.learned.predicts:
            for label, now in augment.ranges().items():
                index, name = label.split(".", 1)
                stem = f"{index}.{type(augment.steps[int(index)].transform).__name__}.{name}"
                plain = {field: float(value.mean()) for field, value in now.items()}
                if "half_width" in plain:
                    middle, half = plain.pop("center"), plain.pop("half_width")
                    plain |= {"low": middle - half, "high": middle + half}
                numbers |= {f"{stem}.{field}": value for field, value in plain.items()}
    return numbers


def readable(numbers: Mapping[str, float]) -> dict[str, str]:
    """Return the numbers as text, such as ``{"0 RandomAffine degrees": "-12.3 .. 12.3"}``."""
    lines: dict[str, str] = {}
    for stem, fields in _grouped(numbers).items():
        title = " ".join(_SHORT.get(part, part) for part in stem.split("."))
        if {"low", "high"} <= fields.keys():
            lines[title] = f"{numbers[fields['low']]:.3g} .. {numbers[fields['high']]:.3g}"
        else:
            lines[title] = ", ".join(f"{numbers[column]:.3g}" for column in fields.values())
    return lines


def plot_ranges(
    log: str | os.PathLike[str], picture: str | os.PathLike[str], *, losses: Sequence[str] = ("loss",), title: str = ""
) -> Path:
    """Plot losses and every learned range over the steps; transforms of the same class share a panel."""
    columns = read_log(log)
    panels: dict[str, list[str]] = {name: [name] for name in losses if name in columns}
    bands: dict[str, list[tuple[str, str]]] = {}
    for stem, fields in _grouped({name: 0.0 for name in columns if name.count(".") >= 2}).items():
        panel = " ".join(_SHORT.get(part, part) for part in stem.split(".")[1:])
        if {"low", "high"} <= fields.keys():
            bands.setdefault(panel, []).append((fields["low"], fields["high"]))
        else:
            panels.setdefault(panel, []).extend(fields.values())
    units = {panel: unit_of(panel) for panel in (*panels, *bands)}
    return plot_curves(columns, picture, panels=panels, bands=bands, units=units, title=title)


def unit_of(panel: str) -> str:
    """The unit of a panel's vertical axis, such as degrees for ``"RandomAffine degrees"``; empty if it is not known."""
    return _UNITS.get(panel, _UNITS.get(panel.split(" ")[-1], ""))


def _grouped(numbers: Mapping[str, float]) -> dict[str, dict[str, str]]:
    groups: dict[str, dict[str, str]] = {}
    for column in numbers:
        stem, field = column.rsplit(".", 1)
        groups.setdefault(stem, {})[field] = column
    return groups
