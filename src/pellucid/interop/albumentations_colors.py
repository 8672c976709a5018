"""The translation of albumentations' transforms of colour and tone.

Owns: `COLORS`, a part of the importer's table.
Must not: import albumentations.
Read next: ``albumentations.py``.
"""

from __future__ import annotations

from typing import Any

from pellucid import transforms
from pellucid.core.arguments import is_number, plain
from pellucid.interop.nearest import half_turn, made, spread, whole
from pellucid.interop.reading import Given, Made, Reader, Table, fractions, pair

__all__ = ["COLORS"]

ours: Any = transforms  # untyped: options are known only at run time


def _brightness_contrast(given: Given, reader: Reader, where: str) -> Made:
    """Brightness is added, and contrast scales about black."""
    given.only("brightness_by_max", True, default=True, reason="it scales by each image's mean", nearest="brightness_by_max=True")
    given.only("ensure_safe_range", False, default=False, reason="images do not change ranges", nearest="RandomBrightnessContrast")
    sums = [pair(given(f"{name}_limit", 0.2), f"{name}_limit", around=0.0) for name in ("brightness", "contrast")]
    return ours.RandomBrightnessContrast(*sums, p=given("p", 0.5))


def _scaled(value: Any, option: str, by: float) -> tuple[float, float]:
    low, high = pair(value, option, around=0.0)
    return (low / by, high / by)


def _hsv(given: Given, reader: Reader, where: str) -> Made:
    """Limits are read as for 8-bit images: hue in steps of two degrees, the others as parts of 255."""
    reader.note("HueSaturationValue, RGBShift: limits are read as those of 8-bit images")
    names = {
        "hue": ("hue_shift_limit", 20, 180.0),
        "saturation": ("sat_shift_limit", 30, 255.0),
        "value": ("val_shift_limit", 20, 255.0),
    }
    shifts = {one: _scaled(given(name, default), name, by) for one, (name, default, by) in names.items()}
    return ours.HueSaturationValue(**shifts | {"hue": half_turn(given, shifts["hue"])}, p=given("p", 0.5))


def _rgb(given: Given, reader: Reader, where: str) -> Made:
    reader.note("HueSaturationValue, RGBShift: limits are read as those of 8-bit images")
    given.idle("it concerns only noise that varies across the picture", "approximation")
    if given.has("noise_params"):  # version 2 writes this
        for name, value in (("noise_type", "uniform"), ("spatial_mode", "constant")):
            given.only(name, value, default=value, reason="one shift of each channel", nearest="RGBShift")
        given.idle("noise_params says the same", *(f"{c}_shift_limit" for c in "rgb"))
        red, green, blue = (pair(plain(one), "noise_params") for one in given("noise_params")["ranges"])
    else:
        red, green, blue = (_scaled(given(f"{c}_shift_limit", 20), f"{c}_shift_limit", 255.0) for c in "rgb")
    return ours.RGBShift(red=red, green=green, blue=blue, p=given("p", 0.5))


def _jitter(given: Given, reader: Reader, where: str) -> Made:
    names = ("brightness", "contrast", "saturation")
    factors = {name: given(name, 0.2) for name in names}
    hue = half_turn(given, given("hue", 0.2 if reader.version < 2 else 0.5))
    return ours.ColorJitter(**factors, hue=hue, clip="each", p=given("p", 0.5))


def _gamma(given: Given, reader: Reader, where: str) -> Made:
    given.idle("it keeps a power of 0 finite", "eps")
    low, high = pair(given("gamma_limit", (80, 120)), "gamma_limit", around=100.0)
    return ours.RandomGamma((low / 100.0, high / 100.0), p=given("p", 0.5))


def _gray(given: Given, reader: Reader, where: str) -> Made:
    given.only("num_output_channels", 3, default=3, reason="the number of channels stays", nearest="RandomGrayscale")
    given.only("method", "weighted_average", default="weighted_average", reason="one kind of luma", nearest="weighted_average")
    return ours.RandomGrayscale(p=given("p", 0.5))


def _solarize(given: Given, reader: Reader, where: str) -> Made:
    value = given("threshold_range")
    if value is None:
        low, high = (given("threshold", 128),) * 2 if is_number(given("threshold", 128)) else given("threshold")
        value = (low / 255.0, high / 255.0)
    return ours.RandomSolarize(pair(value, "threshold_range"), p=given("p", 0.5))


COLORS: Table = {
    "RandomBrightnessContrast": _brightness_contrast,
    "RandomBrightness": made("RandomBrightnessContrast", 0.5, {"contrast": 0.0}, brightness=spread("limit", 0.2, 0.0)),
    "RandomContrast": made("RandomBrightnessContrast", 0.5, {"brightness": 0.0}, contrast=spread("limit", 0.2, 0.0)),
    "HueSaturationValue": _hsv,
    "RGBShift": _rgb,
    "ColorJitter": _jitter,
    "RandomGamma": _gamma,
    "ToGray": _gray,
    "Emboss": made("RandomEmboss", share=spread("alpha", (0.2, 0.5)), strength=spread("strength", (0.2, 0.7))),
    "ChannelDropout": made("ChannelDropout", count=whole("channel_drop_range", (1, 1)), fill=("fill|fill_value", 0, fractions)),
    "Solarize": _solarize,
    "Posterize": made("RandomPosterize", bits=whole("num_bits", 4)),
}
"""Builders by albumentations' names."""
