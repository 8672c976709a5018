"""Windows that are chosen by the boxes or masks that they show.

Owns: `IoUWindow`, `SafeWindow`, `MaskWindow`.
Must not: move boxes; they are those that the transform sees.
Read next: ``internal.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from pellucid.random.distribution import Distribution
from pellucid.random.numbers import Raw

__all__ = ["IoUWindow", "MaskWindow", "SafeWindow"]


@dataclass(frozen=True)
class IoUWindow(Distribution):
    """A window (left, top, right, bottom) of whole pixels that shows a box well. Internal: `RandomIoUCrop` uses it.

    Forty windows are proposed. The options, least overlaps of a window with some box whose centre lies in it, are tried in a random
    order; of the first that a proposal meets, its first such proposal is taken. One of 1 or more means the whole picture, and so
    does an order in which no option is met, as of a picture without boxes. Where nothing is said of boxes, the picture is one.

    Args:
        size: (height, width) of the pictures.
        scale: of the window's sides, relative to the picture's.
        ratio: width / height; proposals outside of it do not count.
        options: least overlaps.

    Gradient:
        none (whole pixels, chosen).
    Source:
        Liu et al., SSD, ECCV 2016 (oracle: ``torchvision.transforms.v2.RandomIoUCrop``, proposal by proposal).
    """

    size: tuple[int, int]
    scale: tuple[float, float]
    ratio: tuple[float, float]
    options: tuple[float, ...]

    vector: ClassVar[bool] = True
    boxes: ClassVar[bool] = True
    proposals: ClassVar[int] = 40

    @property
    def words(self) -> int:  # type: ignore[override]
        """Four for each proposal, one for each option."""
        return 4 * self.proposals + len(self.options)

    def sample(self, u: Float[Tensor, "b n"], raw: Raw) -> Float[Tensor, "b 4"]:
        """Choose the window of each sample.

        Args:
            u: in (0, 1).
            raw: ``boxes`` (b, n, 4), upright and in pixels, and ``valid`` (b, n), above 0 where there is one; or nothing.
        """
        whole = u.new_tensor((0, 0, self.size[1], self.size[0]))
        boxes, valid = (raw["boxes"], raw["valid"] > 0) if raw else (whole.expand(len(u), 1, 4), u[:, :1] > 0)  # b n 4, b n
        window, shaped = self._proposed(u[:, : 4 * self.proposals].unflatten(1, (self.proposals, 4)))  # b k 4, b k
        shown = torch.where(shaped, _overlap(window, boxes, valid), -1.0)  # b k
        options = u.new_tensor(self.options)[torch.argsort(u[:, 4 * self.proposals :], dim=-1, stable=True)]  # b o
        met = shown[:, None] >= options[..., None]  # b o k
        as_is = options >= 1.0
        stop = met.any(-1) | as_is  # b o
        first = stop.to(torch.int8).argmax(1, keepdim=True)  # of equal numbers the first
        taken = met.gather(1, first[..., None].expand(-1, -1, self.proposals))[:, 0].to(torch.int8).argmax(1)
        chosen = window.gather(1, taken[:, None, None].expand(-1, 1, 4))[:, 0]
        everything = ~stop.any(1, keepdim=True) | as_is.gather(1, first)
        return torch.where(everything, whole, chosen)

    def _proposed(self, u: Float[Tensor, "b k 4"]) -> tuple[Float[Tensor, "b k 4"], Tensor]:
        """Windows of whole pixels, and which have a shape that counts."""
        length = u.new_tensor((self.size[1], self.size[0]))
        side = torch.floor(length * (self.scale[0] + (self.scale[1] - self.scale[0]) * u[..., :2]))
        start = torch.floor((length - side) * u[..., 2:])
        width, height = side.unbind(-1)
        shaped = (width > 0) & (height > 0) & (width >= self.ratio[0] * height) & (width <= self.ratio[1] * height)
        return torch.cat((start, start + side), -1), shaped


def _overlap(window: Float[Tensor, "b k 4"], boxes: Float[Tensor, "b n 4"], valid: Tensor) -> Float[Tensor, "b k"]:
    """The largest intersection over union of each window with the boxes whose centre lies in it; -1 where there is none."""
    low, high = (part[:, :, None] for part in window.split(2, -1))  # b k 1 2
    first, last = (part[:, None] for part in boxes.split(2, -1))  # b 1 n 2
    middle = 0.5 * (first + last)
    inside = ((low < middle) & (middle < high)).all(-1) & valid[:, None]  # b k n
    common = torch.relu(torch.minimum(high, last) - torch.maximum(low, first)).prod(-1)
    union = (high - low).prod(-1) + (last - first).prod(-1) - common
    found = torch.where(inside, common / torch.where(inside, union, 1.0), -1.0)
    return torch.cat((found, torch.full_like(window[..., :1], -1.0)), -1).amax(-1)  # a picture may have no boxes


def _length(u: Tensor, size: tuple[int, ...]) -> Float[Tensor, "b n"]:
    """(width, height), of volumes with the depth, for each sample: a tape has them as numbers, and serves every size."""
    return torch.cat([torch.full_like(u[:, :1], side) for side in reversed(size)], -1)


@dataclass(frozen=True)
class SafeWindow(Distribution):
    """A window (left, top, right, bottom) of whole pixels that shows all boxes. Internal: `RandomBoxSafeCrop` uses it.

    Each edge is uniform between the picture's border and the rectangle that holds all boxes. A picture without boxes shows a part
    of its own proportions, from 1 - erosion of its height on.

    Args:
        size: (height, width) of the pictures.
        erosion: by which share of its width and height each side of a box may be cut off.

    Gradient:
        none (whole pixels, chosen).
    """

    size: tuple[int, int]
    erosion: float

    vector: ClassVar[bool] = True
    boxes: ClassVar[bool] = True
    words: ClassVar[int] = 4

    def sample(self, u: Float[Tensor, "b 4"], raw: Raw) -> Float[Tensor, "b 4"]:
        """Choose the window of each sample; ``raw`` as `IoUWindow` reads it."""
        length = _length(u, self.size)
        side = length * (1.0 - self.erosion * u[:, :1])
        start = (length - side) * u[:, 1:3]
        window = torch.cat((torch.floor(start), torch.ceil(start + side)), -1)
        if not raw:
            return window
        boxes, valid = raw["boxes"], raw["valid"][..., None] > 0
        low, high = boxes.split(2, -1)
        cut = self.erosion * (high - low)
        first = torch.where(valid, low + cut, length[:, None]).amin(1)  # without boxes, reversed
        last = torch.where(valid, high - cut, 0.0).amax(1)
        first, last = torch.minimum(torch.relu(first), length), torch.minimum(torch.relu(last), length)
        safe = torch.cat((torch.floor(first * u[:, :2]), torch.ceil(last + (length - last) * u[:, 2:])), -1)
        return torch.where(valid.any(1), safe, window)


@dataclass(frozen=True)
class MaskWindow(Distribution):
    """The place (left, top, or left, top, front) of a window that shows something of the masks. Internal: crops use it.

    Of the pixels at which masks are not 0, or that have the label, each is as likely, and so is each place of it in the window, as
    far as the picture reaches. Where there are none, or no masks, every place is as likely. Along an axis of a picture smaller than
    the window, the picture lies in its middle.

    Args:
        size: (height, width) of the pictures, or (depth, height, width).
        window: of the window.
        share: of the windows that are to show something.
        labels: of which one is drawn first, of those that are there; empty for all that is not 0.

    Gradient:
        none (whole pixels, chosen).
    """

    size: tuple[int, ...]
    window: tuple[int, ...]
    share: float = 1.0
    labels: tuple[int, ...] = ()

    vector: ClassVar[bool] = True
    masks: ClassVar[bool] = True

    @property
    def words(self) -> int:  # type: ignore[override]
        """One for each axis, and for the pixel, the share, and the label of volumes."""
        return 2 * len(self.size)

    def sample(self, u: Float[Tensor, "b w"], raw: Raw) -> Float[Tensor, "b n"]:
        """Choose the place of each sample.

        Args:
            u: in (0, 1).
            raw: ``mask`` (b, l, h, w) or (b, l, d, h, w), above 0 where there is something, for each label; or nothing.
        """
        axes = len(self.size)
        sides = u.new_tensor(tuple(reversed(self.window)))
        room = _length(u, self.size) - sides
        middle = -torch.floor(-0.5 * room)  # of what is too small
        anywhere = torch.where(room < 0.0, middle, torch.floor((room + 1.0) * u[:, :axes]))
        if not raw:
            return anywhere
        there = (raw["mask"] > 0).flatten(2)  # b l n
        if there.shape[1] > 1:
            there = there.gather(1, _nth(there.any(2), u[:, -1])[..., None].expand(-1, -1, there.shape[2]))
        pixel, place = _nth(there[:, 0], u[:, axes]), []
        for length in reversed(self.size):
            place.append(pixel % length)
            pixel = pixel // length
        start = torch.minimum(torch.relu(torch.cat(place, 1) - torch.floor(sides * u[:, :axes])), room)
        shows = there.flatten(1).any(1, keepdim=True) & (u[:, axes + 1 : axes + 2] < self.share)
        return torch.where(shows & (room >= 0.0), start, anywhere)


def _nth(there: Bool[Tensor, "b n"], u: Float[Tensor, "b"]) -> Int64[Tensor, "b 1"]:
    """One of the places that are there, each as likely."""
    count = there.to(torch.int64).cumsum(1)
    wanted = torch.floor(u * count[:, -1]).to(torch.int64)[:, None] + 1
    return torch.searchsorted(count, wanted).clamp(max=count.shape[1] - 1)  # the first that is counted so far
