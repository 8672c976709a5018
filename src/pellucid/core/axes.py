"""How the axes of a picture are read: channels before rows and columns.

Owns: refusing pictures whose channels stand last, and volumes and videos in another order, from shapes alone.
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
"""What errors advise where the image is no tensor."""


def check_axes(name: str, shape: Sequence[int], *, option: str = "") -> None:
    """Raise where (..., C, H, W) more likely is (..., H, W, C), or (B, T, C, H, W) a volume or (B, C, T, H, W).

    Pictures have 1, 3 or 4 channels. Where the last axis has and the channel axis has not, the channels stand last; a square last
    pair passes: (64, 4, 4) is rather 64 channels of a small feature map than a picture as wide as it has channels.

    Args:
        name: of the argument.
        shape: three axes or more.
        option: how the caller can say which axes are meant, beside moving them.
    """
    frames, (channels, height, width) = shape[:-3], shape[-3:]
    if channels in _COLORS:
        return
    if width in _COLORS and width != height:
        fix = f"Channels that stand last: .permute{_PERMUTE[len(shape)]}{option}."
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
