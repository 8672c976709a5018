"""Decode pictures from files and bytes to tensors (C, H, W) of 8 or 16 bits.

Owns: the choice of a decoder, orientation, and decoding at a fraction of the size.
Must not: know of pipelines.
Read next: ``collate.py``.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pellucid.core.arguments import check_choice
from pellucid.errors import ImplementationError, InvalidArgument, invalid, needs
from pellucid.targets.arrays import pixels_of_pillow
from pellucid.types import Size

__all__ = ["BACKENDS", "Enough", "Source", "decode", "decode_labels", "opened"]

Source = str | os.PathLike[str] | bytes
Enough = Callable[[Size], Size | None]
"""A function from a picture's (height, width) to the smallest one that is enough; None where full size is needed."""

BACKENDS = ("pillow", "opencv", "torchvision")
_TURNED = (5, 6, 7, 8)
"""EXIF orientations that exchange rows and columns."""


def decode(source: Source, *, backend: str = "pillow", gray: bool = False, least: Size | Enough | None = None) -> Tensor:
    """Decode a picture as three channels (3, H, W), or as one with ``gray``: uint8, or uint16 where the file has 16 bits a channel.

    Args:
        source: a path, or the file's content.
        backend: ``pillow``, ``opencv`` or ``torchvision``. Their JPEG decoders differ by a few levels.
        gray: one channel.
        least: a (height, width) that is enough, or a function that returns it for the picture's own: ``pillow`` and ``opencv`` then
            decode a JPEG at 1/2, 1/4 or 1/8 of its size if that is at least so large; ``torchvision`` decodes at full size.

    The camera's orientation (EXIF) is applied; an alpha channel is dropped. Pillow reads 16 bits only of gray pictures, OpenCV also
    of colour pictures. A TIFF of signed numbers becomes int16. Other depths, such as 10 bits, are refused.

    Returns:
        uint8, uint16 or int16, (3, H, W) or (1, H, W).

    Errors:
        InvalidArgument, with the file's name, for a file that is no picture, is broken, or has another depth. ImplementationError
        for a backend that is not installed.

    Example:
        >>> import io
        >>> from PIL import Image
        >>> from pellucid.data import decode
        >>> file = io.BytesIO()
        >>> Image.new("RGB", (3, 2), (255, 0, 9)).save(file, "png")
        >>> decode(file.getvalue())[:, 1, 2]
        tensor([255,   0,   9], dtype=torch.uint8)
    """
    check_choice("backend", backend, BACKENDS)
    if backend == "pillow":
        picture = _pillow(source, gray, least)
        pixels = pixels_of_pillow(picture)
        if pixels.dtype == torch.int32:  # 16 bits of a PGM, or of a TIFF with signs
            pixels = pixels.to(torch.int16 if picture.format == "TIFF" else torch.uint16)
        pixels = pixels[None] if pixels.dim() == 2 else pixels.permute(2, 0, 1)
        return pixels if gray or len(pixels) == 3 else pixels.expand(3, -1, -1).clone()
    if not _installed(backend):
        raise ImplementationError(f"backend={backend!r}: it cannot be imported; 'pillow' always can.")
    content = source if isinstance(source, bytes) else Path(source).read_bytes()
    return _opencv(source, content, gray, least) if backend == "opencv" else _torchvision(source, content, gray)


def decode_labels(source: Source) -> Tensor:
    """Decode a mask as it is stored, (H, W): the indices of a palette are class numbers and are not turned into colours.

    Errors:
        InvalidArgument for a file that is no picture, is broken, or has colours.
    """
    picture = opened(source, most=32)
    if picture.mode not in ("L", "P", "1", "I", "I;16"):
        raise invalid(_name(source), expected="a mask of class numbers (one channel or a palette)", got=f"mode {picture.mode}")
    values = np.array(picture)
    return torch.from_numpy(values.astype(np.int32) if values.dtype == np.uint16 else values)


@cache
def _installed(backend: str) -> bool:
    try:
        import_module("torchvision.io" if backend == "torchvision" else "cv2")
    except (ImportError, RuntimeError, OSError):  # a build for another torch raises any of these
        return False
    return backend == "opencv" or hasattr(torch.ops.image, "decode_image")  # torchvision may import without its decoders


def _name(source: Source) -> str:
    return f"a picture of {len(source)} bytes" if isinstance(source, bytes) else os.fspath(source)


def _broken(source: Source, why: object) -> Exception:
    return invalid(_name(source), expected="a whole picture", got=f"a file that cannot be decoded: {str(why).rstrip('.')}")


def _too_deep(source: Source, bits: int) -> Exception:
    return invalid(
        _name(source),
        expected="a picture of 8 bits a channel, or of 16 if the backend reads them all",
        got=f"one of {bits} bits",
        fix="Pass backend='opencv', which reads colours of 16 bits, or write the picture with 8 or 16 bits.",
    )


_GRAY = ("L", "P", "1", "I", "F", "I;16", "I;16B", "I;16L", "I;16N")
"""Pillow's modes of one channel."""


def opened(source: Source, least: Size | Enough | None = None, *, most: int = 16) -> Any:
    """Load a picture with Pillow and turn it upright; if it has one channel, 16 bits or, with ``most=32``, any depth may do."""
    with needs("Decoding pictures", "pillow"):
        from PIL import Image, ImageOps, UnidentifiedImageError

    if not isinstance(source, bytes) and not Path(source).is_file():
        raise FileNotFoundError(2, "No such file", os.fspath(source))
    try:
        with Image.open(io.BytesIO(source) if isinstance(source, bytes) else source) as picture:
            bits, turn = _bits(picture), _drafted(picture, least)
            if bits > 8 and not (picture.mode in _GRAY and (bits == 16 if most == 16 else bits <= most)):
                raise _too_deep(source, bits)
            picture.load()
            if turn != 1:
                ImageOps.exif_transpose(picture, in_place=True)
            return picture
    except InvalidArgument:
        raise
    except (UnidentifiedImageError, SyntaxError, ValueError, Image.DecompressionBombError, OSError) as error:
        raise _broken(source, "no picture of a known kind" if isinstance(error, UnidentifiedImageError) else error) from error


def _bits(picture: Any) -> int:
    """How many bits a channel has in the file, asked before loading: Pillow reduces colours to 8 bits without notice."""
    if picture.format == "PPM" and "I;16" in str(picture.tile):
        return 16
    if picture.format == "PPM" and isinstance(picture.tile[0].args, tuple):  # the raw mode, and the largest value
        return int(picture.tile[0].args[-1]).bit_length()
    if picture.format == "TIFF":
        return int(max(picture.tag_v2.get(258, (1,))))
    if picture.mode in ("I", "F"):
        return 32
    if picture.format in ("JPEG2000", "AVIF"):
        return _bits_in_head(picture.fp)
    return 16 if re.search(r";16[BLN]|SGI16", str(picture.tile)) or picture.mode.startswith("I;16") else 8


def _bits_in_head(file: Any) -> int:
    """Bits of a channel of JPEG 2000 (the first of three bytes for each channel in its SIZ marker) and AVIF (its pixi box)."""
    at = file.tell()
    file.seek(0)
    head = file.read(1 << 14)
    file.seek(at)
    siz, pixi = head.find(b"\xff\x51"), head.find(b"pixi")
    if pixi >= 0:
        return max(head[pixi + 9 :][: head[pixi + 8]])
    return max(byte & 0x7F for byte in head[siz + 40 :: 3][: head[siz + 39]]) + 1


def _drafted(picture: Any, least: Size | Enough | None) -> int:
    """Have Pillow load a JPEG at a fraction of its size where that is enough; return the picture's EXIF orientation."""
    turn: int = picture.getexif().get(0x0112, 1)
    if least is not None and picture.format == "JPEG":
        upright = picture.size if turn in _TURNED else picture.size[::-1]
        wanted = least(upright) if callable(least) else least
        if wanted is not None:
            picture.draft(None, wanted if turn in _TURNED else wanted[::-1])
    return turn


def _pillow(source: Source, gray: bool, least: Size | Enough | None) -> Any:
    picture = opened(source, least)
    if picture.mode in ("P", "PA", "LA"):
        picture = picture.convert("RGBA")
    mode = "L" if gray else "RGB"
    return picture if picture.mode in (mode, "I") or picture.mode.startswith("I;16") else picture.convert(mode)


def _opencv(source: Source, content: bytes, gray: bool, least: Size | Enough | None) -> Tensor:
    import cv2

    flags = (cv2.IMREAD_GRAYSCALE if gray else cv2.IMREAD_COLOR) | _REDUCED[_fraction(content, least)]
    raw, pixels = np.frombuffer(content, np.uint8), None
    for asked in (flags | cv2.IMREAD_ANYDEPTH, cv2.IMREAD_UNCHANGED) if content else ():  # None at first for colours of int32
        try:
            pixels = cv2.imdecode(raw, asked) if pixels is None else pixels
        except cv2.error as error:  # a size that it refuses, say; for most damage it returns None
            raise _broken(source, str(error).strip().rpartition("error: ")[2]) from error
    if pixels is None:
        raise _broken(source, "OpenCV finds no picture")
    if pixels.dtype != np.uint8:
        _check_deep(source, content, 8 * pixels.itemsize)
    if gray:
        return torch.from_numpy(pixels)[None]
    signed = pixels.dtype == np.int16  # cvtColor takes no int16
    return torch.from_numpy(pixels[..., ::-1].copy() if signed else cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB)).permute(2, 0, 1)


_REDUCED = {1: 0, 2: 16, 4: 32, 8: 64}
"""OpenCV's flags for a fraction of the size."""


def _fraction(content: bytes, least: Size | Enough | None) -> int:
    """The n of the fraction 1/n at which Pillow would decode a JPEG; reads only the file's header."""
    if least is None or content[:2] != b"\xff\xd8":
        return 1
    from PIL import Image

    try:
        with Image.open(io.BytesIO(content)) as picture:
            _drafted(picture, least)
            return int(next(iter(picture.decoderconfig), 1))
    except (SyntaxError, ValueError, Image.DecompressionBombError, OSError):  # left to OpenCV, which may read it
        return 1


def _torchvision(source: Source, content: bytes, gray: bool) -> Tensor:
    from torchvision.io import ImageReadMode, decode_image

    mode = ImageReadMode.GRAY if gray else ImageReadMode.RGB
    try:
        pixels: Tensor = decode_image(torch.frombuffer(bytearray(content), dtype=torch.uint8), mode, apply_exif_orientation=True)
    except (RuntimeError, ValueError) as error:
        raise _broken(source, str(error).partition("\n")[0]) from error
    if pixels.dtype != torch.uint8:
        _check_deep(source, content, 8 * pixels.itemsize)
    return pixels


def _check_deep(source: Source, content: bytes, bits: int) -> None:
    """Refuse a file of fewer bits that was decoded to 16, such as 10: its largest value is not 65535."""
    from PIL import Image

    if bits == 16:
        with suppress(SyntaxError, ValueError, Image.DecompressionBombError, OSError), Image.open(io.BytesIO(content)) as picture:
            bits = _bits(picture)
    if bits != 16:
        raise _too_deep(source, bits)
