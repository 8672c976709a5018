"""The order of a picture's axes: channels before rows and columns.

Owns: the check, from shapes alone, that refuses pictures with channels last, and volumes and videos with axes in another order.
Must not: move axes.
Read next: ``../targets/parsing.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

from pellucid.errors import invalid

__all__ = ["CHANNELS_FIRST", "check_axes"]

_COLORS = (1, 3, 4)
_PERMUTE = {3: "(2, 0, 1)", 4: "(0, 3, 1, 2)", 5: "(0, 1, 4, 2, 3)"}

CHANNELS_FIRST = "Arrays and PIL images are (H, W, C): torch.from_numpy(numpy.array(image)).permute(2, 0, 1) is (C, H, W)"
"""The advice in errors about an image that is not a tensor."""


def check_axes(name: str, shape: Sequence[int], *, option: str = "") -> None:
    """Raise if a shape is more likely (..., H, W, C) than (..., C, H, W), or a volume or (B, C, T, H, W) than (B, T, C, H, W).

    Pictures have 1, 3 or 4 channels. If the last axis has such a length and the channel axis has not, the channels come last. A
    square last pair passes: (64, 4, 4) is more likely a small feature map of 64 channels than a picture 4 pixels wide.

    Args:
        name: of the argument, for the error.
        shape: three axes or more.
        option: text for the error: another way to say which axes are meant, besides moving them.
    """
    frames, (channels, height, width) = shape[:-3], shape[-3:]
    if channels in _COLORS:
        return
    if width in _COLORS and width != height:
        fix = f"If the channels come last: .permute{_PERMUTE[len(shape)]}{option}."
        got = f"shape {tuple(shape)}, which reads as {channels} channels of {height} x {width} pixels"
        raise invalid(name, expected="channels before height and width", got=got, fix=fix)
    if len(frames) == 2 and frames[1] in _COLORS:
        raise invalid(
            name,
            expected="a video (B, T, C, H, W)",
            got=f"shape {tuple(shape)}, which reads as {frames[1]} frame{'s' * (frames[1] > 1)} of {channels} channels",
            fix="A video (B, C, T, H, W): .transpose(1, 2). A volume (B, 1, D, H, W): pass {'volume': ...}, or "
            "Pipeline(targets={'image': 'volume'}).",
        )
