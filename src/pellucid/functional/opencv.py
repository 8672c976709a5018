"""OpenCV's words for borders and interpolation, as names and as its integer flags.

Owns: the translation into the kernels' words.
Must not: import cv2; the numbers are part of its stable interface.
Read next: ``warps.py``.
"""

from __future__ import annotations

from pellucid.errors import invalid, wrong_type
from pellucid.types import Size

__all__ = ["BORDER_MODES", "INTERPOLATIONS", "read_border", "read_dsize", "read_interpolation", "read_relative"]

BORDER_MODES = {
    "constant": "constant",
    "replicate": "border",
    "reflect": "reflection",
    "reflect_101": "reflect_101",
    "wrap": "wrap",
}
INTERPOLATIONS = ("nearest", "bilinear", "bicubic", "bicubic_opencv")

_BORDER_FLAGS = {0: "constant", 1: "replicate", 2: "reflect", 3: "wrap", 4: "reflect_101"}
# INTER_CUBIC is OpenCV's own kernel; the name "bicubic" is Keys' (a = -0.5), which is exact on ramps.
_INTERPOLATION_FLAGS = {0: "nearest", 1: "bilinear", 2: "bicubic_opencv", 5: "bilinear", 6: "nearest"}
_ALIASES = {"linear": "bilinear", "cubic": "bicubic"}
_INTER_MAX, _FILL_OUTLIERS, _INVERSE_MAP, _RELATIVE_MAP = 7, 8, 16, 32


def read_border(value: str | int) -> str:
    """The kernels' padding mode for OpenCV's border mode."""
    name = _BORDER_FLAGS.get(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(name, str) or name not in BORDER_MODES:
        flags = ", ".join(f"{flag} ({border})" for flag, border in _BORDER_FLAGS.items())
        raise invalid("border_mode", expected=f"one of {tuple(BORDER_MODES)}, or OpenCV's flag {flags}", got=repr(value))
    return BORDER_MODES[name]


def read_interpolation(value: str | int) -> tuple[str, bool]:
    """The kernels' interpolation, and whether the flags ask for the inverse map."""
    if isinstance(value, int) and not isinstance(value, bool):
        rest = value & ~(_INTER_MAX | _FILL_OUTLIERS | _INVERSE_MAP)
        name = _INTERPOLATION_FLAGS.get(value & _INTER_MAX)
        if name is None or rest:
            fix = "OpenCV itself warps with INTER_LINEAR when asked for INTER_AREA; resize(antialias=True) averages areas."
            raise invalid("interpolation", expected="flags of INTER_NEAREST, INTER_LINEAR or INTER_CUBIC", got=value, fix=fix)
        return name, bool(value & _INVERSE_MAP)
    name = _ALIASES.get(value, value) if isinstance(value, str) else None
    if name not in INTERPOLATIONS:
        raise invalid("interpolation", expected=f"one of {INTERPOLATIONS}, or OpenCV's flags", got=repr(value))
    return name, False


def read_relative(value: str | int) -> tuple[str | int, bool]:
    """The interpolation of ``remap`` without WARP_RELATIVE_MAP, and whether the flags held it."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value & ~_RELATIVE_MAP, bool(value & _RELATIVE_MAP)
    return value, False


def read_dsize(dsize: tuple[int, int]) -> Size:
    """OpenCV's (width, height) as (height, width)."""
    if not isinstance(dsize, tuple | list) or len(dsize) != 2 or not all(_whole(part) for part in dsize):
        raise wrong_type("dsize", expected="(width, height), two whole numbers", got=repr(dsize))
    if min(dsize) < 1:
        raise invalid("dsize", expected="a width and a height of at least 1", got=tuple(dsize))
    return (dsize[1], dsize[0])


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
