"""Pictures of gradients as PNG bytes and inline SVG, drawn without a plotting library.

Owns: laying a tensor out as tiles, colouring it, and the plot of finite differences against autograd.
Must not: know about findings or pages.
Read next: ``html.py``.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["STATES", "agreement_plot", "data_uri", "heat", "states"]

Array = np.ndarray[Any, Any]

STATES: tuple[tuple[str, tuple[int, int, int]], ...] = (
    ("takes no part", (225, 228, 232)),
    ("plateau", (240, 178, 50)),
    ("live", (38, 112, 196)),
    ("defect", (206, 34, 50)),
)
_RAMP = np.array([(240, 246, 255), (158, 202, 235), (66, 146, 208), (16, 84, 160), (5, 32, 84)], dtype=np.float64)
_ZERO = np.array([235, 235, 235], dtype=np.float64)
_TILES = 4


def heat(values: Array) -> bytes:
    """Return a PNG of magnitudes on a logarithmic ramp over four decades; exact zeros are grey."""
    tiles = _tiled(values)
    top = float(tiles.max()) if tiles.size else 0.0
    safe = np.where(tiles > 0, tiles, 1.0) / (top if top > 0 else 1.0)
    level = np.clip(1.0 + np.log10(np.where(tiles > 0, safe, 1e-4)) / 4.0, 0.0, 1.0) * (len(_RAMP) - 1)
    low = np.clip(level.astype(int), 0, len(_RAMP) - 2)
    part = (level - low)[..., None]
    colour = _RAMP[low] * (1 - part) + _RAMP[low + 1] * part
    return _png(np.where((tiles > 0)[..., None], colour, _ZERO).round().astype(np.uint8))


def states(values: Array) -> bytes:
    """Return a PNG of element classes in the colours of :data:`STATES`."""
    palette = np.array([c for _, c in STATES], dtype=np.uint8)
    return _png(palette[_tiled(values).astype(int)])


def data_uri(png: bytes) -> str:
    """Return a PNG file as a data URL."""
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")


def agreement_plot(pairs: Sequence[tuple[float, float]]) -> str:
    """Return an SVG of finite differences over autograd: points on the diagonal agree, red ones do not."""
    clean = [(a, d) for a, d in pairs if math.isfinite(a) and math.isfinite(d)]
    top = max((max(abs(a), abs(d)) for a, d in clean), default=0.0) or 1.0
    tolerance, size, margin = 2e-3, 260, 34
    inner = size - 48

    def x_of(v: float) -> float:
        return margin + (v / top + 1) / 2 * inner

    def y_of(v: float) -> float:
        return 8 + (1 - v / top) / 2 * inner

    parts = [f'<svg class="plot" viewBox="0 0 {size} {size}" width="{size}" height="{size}" role="img">']
    parts.append(f'<rect x="{margin}" y="8" width="{inner}" height="{inner}" class="frame"/>')
    parts.append(f'<line x1="{x_of(-top)}" y1="{y_of(-top)}" x2="{x_of(top)}" y2="{y_of(top)}" class="diagonal"/>')
    for a, d in clean:
        bad = abs(a - d) > tolerance * top
        parts.append(f'<circle cx="{x_of(a):.1f}" cy="{y_of(d):.1f}" r="4" class="{"bad" if bad else "good"}"/>')
    parts.append(f'<text x="{margin + inner / 2}" y="{size - 8}" class="axis">autograd (±{top:.3g})</text>')
    middle = 8 + inner / 2
    parts.append(f'<text x="14" y="{middle}" class="axis" transform="rotate(-90 14 {middle})">finite difference</text></svg>')
    return "".join(parts)


def _tiled(values: Array) -> Array:
    """Lay out samples side by side and channels below one another, at most four of each."""
    array = np.asarray(values, dtype=np.float64)
    while array.ndim < 2:
        array = array[None]
    while array.ndim > 4:
        array = array.reshape(-1, *array.shape[2:])
    if array.ndim == 2:
        return array
    array = array[:, None] if array.ndim == 3 else array
    array = array[:_TILES, :_TILES]
    rows = [np.concatenate(list(array[:, channel]), axis=-1) for channel in range(array.shape[1])]
    return np.concatenate(rows, axis=-2)


def _png(pixels: Array) -> bytes:
    """Encode an (H, W, 3) array of bytes."""
    from PIL import Image

    with io.BytesIO() as file:
        Image.fromarray(pixels).save(file, "PNG")
        return file.getvalue()
