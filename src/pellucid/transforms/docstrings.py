"""Text that the docstrings of transforms share: options that many have, and the sections that a docstring leaves out.

Owns: these texts, and the sections made of a transform's own declarations.
Must not: state for a section what is wrong for a transform that leaves it out.
Read next: ``base.py``.
"""

from __future__ import annotations

import re
from dataclasses import fields

from pellucid.core.docstrings import completed
from pellucid.transforms.base import Transform

__all__ = ["tell"]

_OPTIONS = {
    "interpolation": "``bilinear``, ``nearest`` or ``bicubic`` (Keys, a = -0.5).",
    "padding_mode": "``zeros``, ``constant`` (both show ``fill``), ``border`` (NumPy's ``edge``), ``reflection`` (``symmetric``: "
    "the edge pixel is repeated) or ``reflect_101`` (NumPy's and torchvision's ``reflect``: it is not).",
    "fill": "the value beyond the border under ``zeros`` and ``constant``: a number, or one per channel, in the image's units.",
    "center": "(x, y) in pixels; default the image's centre.",
    "antialias": "low-pass when shrinking.",
    "clip": "``end`` clips the result to [0, 1], ``none`` does not.",
    "p": "probability.",
    "same_on_batch": "one draw for the whole batch.",
    "mask_fill": "the masks' value where the picture shows its fill; None for the pipeline's ``mask_fill``.",
}


def tell(kind: type[Transform]) -> None:
    """Complete the docstring of a transform."""
    options = {field.name: _OPTIONS[field.name] for field in fields(kind) if field.name in _OPTIONS}  # type: ignore[arg-type]
    if kind.keyed and "same_on_batch" in options:
        options["same_on_batch"] = "one draw for the whole batch, and so one random field."
    takes = " or ".join(map(str, kind.channels))
    last = f"an unknown option, or other than {takes} channels" if takes else "or an unknown option"
    sections = {
        "Gradient": _slopes(kind),
        "On each target": "image only.",
        "Identity at": "p = 0.",
        "Errors": f"InvalidArgument for a number out of its range, a reversed pair, {last}.",
    }
    kind.__doc__ = completed(kind.__doc__, options, sections)


def _slopes(kind: type[Transform]) -> str:
    """The gradients that the class declares, one sentence for each kind."""
    options, sentences = {field.name for field in fields(kind)}, []  # type: ignore[arg-type]
    for how in dict.fromkeys(kind.gradients.values()):
        names = dict.fromkeys(re.sub("_[xyz]$", "", name) for name, one in kind.gradients.items() if one == how)
        words = how.replace("_", " ")
        if how == "almost_everywhere" and "interpolation" in options:
            words += ", or surrogate under ``nearest``"
        if how == "almost_everywhere" and "clip" in options:
            words += " (kinks of the clip)"
        sentences.append(f"{', '.join(names)}: {words}.")
    return " ".join(sentences)
