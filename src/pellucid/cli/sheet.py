"""A sheet of pictures: a grid with row and column titles.

Owns: the layout and its fonts.
Must not: know what the pictures show.
Read next: ``draw.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["contact_sheet"]

_MARGIN, _GAP = 28, 10
_INK, _QUIET, _PAPER = (24, 28, 33), (96, 104, 114), (255, 255, 255)


def contact_sheet(
    rows: Sequence[Sequence[Image]], *, columns: Sequence[str], labels: Sequence[str], title: str, note: str = ""
) -> Image:
    """Lay out rows of pictures.

    Args:
        rows: pictures; a smaller one is centred in its cell.
        columns: one heading per column.
        labels: one name per row, set above its first picture.
        title, note: one line each, above the grid.
    """
    from PIL import Image, ImageDraw

    widths = [max(row[i].width for row in rows) for i in range(len(columns))]
    heights = [max(picture.height for picture in row) for row in rows]
    title_font, head_font, text_font = _font(22), _font(15), _font(13)
    inner = sum(widths) + _GAP * (len(widths) - 1)
    title, note = _fit(title, title_font, inner), _fit(note, text_font, inner)
    top = _MARGIN + 34 + (24 if note else 0) + 14
    label_height = 24
    width = 2 * _MARGIN + inner
    height = top + 24 + sum(h + label_height + _GAP for h in heights) - _GAP + _MARGIN
    sheet = Image.new("RGB", (width, height), _PAPER)
    pen = ImageDraw.Draw(sheet)
    pen.text((_MARGIN, _MARGIN - 4), title, font=title_font, fill=_INK)
    if note:
        pen.text((_MARGIN, _MARGIN + 30), note, font=text_font, fill=_QUIET)
    lefts = [_MARGIN + sum(widths[:i]) + _GAP * i for i in range(len(widths))]
    for left, cell, heading in zip(lefts, widths, columns, strict=True):
        pen.text((left, top), _fit(heading, head_font, cell), font=head_font, fill=_INK)
    y = top + 24
    for row, cell_height, label in zip(rows, heights, labels, strict=True):
        pen.text((_MARGIN, y + 3), _fit(label, text_font, widths[0]), font=text_font, fill=_QUIET)
        y += label_height
        for left, cell, picture in zip(lefts, widths, row, strict=True):
            sheet.paste(picture, (left + (cell - picture.width) // 2, y + (cell_height - picture.height) // 2))
        y += cell_height + _GAP
    return sheet


def _font(size: int) -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(size)


def _fit(text: str, font: Any, width: float) -> str:
    """Shorten a text in the middle if it is too wide."""
    if font.getlength(text) <= width:
        return text
    keep = len(text)
    while keep > 2 and font.getlength(_shortened(text, keep)) > width:
        keep -= 1
    return _shortened(text, keep)


def _shortened(text: str, keep: int) -> str:
    head = (keep + 1) // 2
    return f"{text[:head]}...{text[len(text) - (keep - head) :]}"
