"""Crop windows that are chosen by the boxes or masks inside them.

Owns: `IoUWindow`, `SafeWindow`, `MaskWindow`.
Must not: move boxes: they come as they are at the transform's place in the pipeline.
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
    """A crop window (left, top, right, bottom) of whole pixels that overlaps a box well. Internal: `RandomIoUCrop` uses it.

    Forty windows are proposed. Each option is a least overlap (IoU) of a window with some box whose centre lies in it. The options
    are tried in random order: at the first one that a proposal meets, the first such proposal is taken. An option of 1 or more
    stands for the whole picture, and so does failing all options, for example without any box in the picture. If the sample has no
    boxes as a target, the whole picture counts as its box.

    Args:
        size: (height, width) of the pictures.
        scale: range of the window's sides, relative to the picture's.
        ratio: range of width / height; proposals outside of it do not count.
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
        """Four words for each proposal, one for each option."""
        return 4 * self.proposals + len(self.options)

    def sample(self, u: Float[Tensor, "b n"], raw: Raw) -> Float[Tensor, "b 4"]:
        """Choose the window of each sample.

        Args:
            u: in (0, 1).
            raw: ``boxes`` (b, n, 4), upright and in pixels, and ``valid`` (b, n), above 0 for real boxes; or empty.
        """
        whole = u.new_tensor((0, 0, self.size[1], self.size[0]))
        boxes, valid = (raw["boxes"], raw["valid"] > 0) if raw else (whole.expand(len(u), 1, 4), u[:, :1] > 0)  # b n 4, b n
        window, shaped = self._proposed(u[:, : 4 * self.proposals].unflatten(1, (self.proposals, 4)))  # b k 4, b k
        shown = torch.where(shaped, _overlap(window, boxes, valid), -1.0)  # b k
        options = u.new_tensor(self.options)[torch.argsort(u[:, 4 * self.proposals :], dim=-1, stable=True)]  # b o
        met = shown[:, None] >= options[..., None]  # b o k
        as_is = options >= 1.0
        stop = met.any(-1) | as_is  # b o
        first = stop.to(torch.int8).argmax(1, keepdim=True)  # the first of several maxima
        taken = met.gather(1, first[..., None].expand(-1, -1, self.proposals))[:, 0].to(torch.int8).argmax(1)
        chosen = window.gather(1, taken[:, None, None].expand(-1, 1, 4))[:, 0]
        everything = ~stop.any(1, keepdim=True) | as_is.gather(1, first)
        return torch.where(everything, whole, chosen)

    def _proposed(self, u: Float[Tensor, "b k 4"]) -> tuple[Float[Tensor, "b k 4"], Tensor]:
        """Return windows of whole pixels, and whether each has an allowed shape."""
        length = u.new_tensor((self.size[1], self.size[0]))
        side = torch.floor(length * (self.scale[0] + (self.scale[1] - self.scale[0]) * u[..., :2]))
        start = torch.floor((length - side) * u[..., 2:])
        width, height = side.unbind(-1)
        shaped = (width > 0) & (height > 0) & (width >= self.ratio[0] * height) & (width <= self.ratio[1] * height)
        return torch.cat((start, start + side), -1), shaped


def _overlap(window: Float[Tensor, "b k 4"], boxes: Float[Tensor, "b n 4"], valid: Tensor) -> Float[Tensor, "b k"]:
    """Return each window's largest intersection over union with the boxes whose centre lies in it; -1 without such a box."""
    low, high = (part[:, :, None] for part in window.split(2, -1))  # b k 1 2
    first, last = (part[:, None] for part in boxes.split(2, -1))  # b 1 n 2
    middle = 0.5 * (first + last)
    inside = ((low < middle) & (middle < high)).all(-1) & valid[:, None]  # b k n
    common = torch.relu(torch.minimum(high, last) - torch.maximum(low, first)).prod(-1)
    union = (high - low).prod(-1) + (last - first).prod(-1) - common
    found = torch.where(inside, common / torch.where(inside, union, 1.0), -1.0)
    return torch.cat((found, torch.full_like(window[..., :1], -1.0)), -1).amax(-1)  # a picture may have no boxes


def _length(u: Tensor, size: tuple[int, ...]) -> Float[Tensor, "b n"]:
    """Return (width, height), for volumes also the depth, for each sample; as numbers of a tape, which then serves every size."""
    return torch.cat([torch.full_like(u[:, :1], side) for side in reversed(size)], -1)


@dataclass(frozen=True)
class SafeWindow(Distribution):
    """A crop window (left, top, right, bottom) of whole pixels that contains all boxes. Internal: `RandomBoxSafeCrop` uses it.

    Each edge is uniform between the picture's border and the rectangle around all boxes. Without boxes, the window has the
    picture's proportions, and at least 1 - erosion of its height.

    Args:
        size: (height, width) of the pictures.
        erosion: the share of its width and height by which each side of a box may be cut off.

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
        first = torch.where(valid, low + cut, length[:, None]).amin(1)  # without boxes, first > last, and the result is unused
        last = torch.where(valid, high - cut, 0.0).amax(1)
        first, last = torch.minimum(torch.relu(first), length), torch.minimum(torch.relu(last), length)
        safe = torch.cat((torch.floor(first * u[:, :2]), torch.ceil(last + (length - last) * u[:, 2:])), -1)
        return torch.where(valid.any(1), safe, window)


@dataclass(frozen=True)
class MaskWindow(Distribution):
    """The corner (left, top, or left, top, front) of a crop window that shows a pixel of the masks. Internal: crops use it.

    The pixel is drawn uniformly from those at which masks are not 0 (or that have the drawn label), and so is its position in the
    window, as far as the picture's edges allow. Without such pixels, or without masks, all corners are equally likely. Along an
    axis in which the picture is smaller than the window, the picture is centred.

    Args:
        size: (height, width) of the pictures, or (depth, height, width).
        window: the size of the window, likewise.
        share: the probability that a window has to show such a pixel.
        labels: one of those present in the sample is drawn first; empty for all pixels that are not 0.

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
        """One word for each axis, and words for the pixel, the share and, in volumes, the label."""
        return 2 * len(self.size)

    def sample(self, u: Float[Tensor, "b w"], raw: Raw) -> Float[Tensor, "b n"]:
        """Choose the place of each sample.

        Args:
            u: in (0, 1).
            raw: ``mask`` (b, l, h, w) or (b, l, d, h, w), above 0 at the pixels of each label; or empty.
        """
        axes = len(self.size)
        sides = u.new_tensor(tuple(reversed(self.window)))
        room = _length(u, self.size) - sides
        middle = -torch.floor(-0.5 * room)  # for pictures smaller than the window
        anywhere = torch.where(room < 0.0, middle, torch.floor((room + 1.0) * u[:, :axes]))
        if not raw:
            return anywhere
        labelled = (raw["mask"] > 0).flatten(2)  # b l n
        if labelled.shape[1] > 1:
            labelled = labelled.gather(1, _nth(labelled.any(2), u[:, -1])[..., None].expand(-1, -1, labelled.shape[2]))
        pixel, place = _nth(labelled[:, 0], u[:, axes]), []
        for length in reversed(self.size):
            place.append(pixel % length)
            pixel = pixel // length
        start = torch.minimum(torch.relu(torch.cat(place, 1) - torch.floor(sides * u[:, :axes])), room)
        shows = labelled.flatten(1).any(1, keepdim=True) & (u[:, axes + 1 : axes + 2] < self.share)
        return torch.where(shows & (room >= 0.0), start, anywhere)


def _nth(mask: Bool[Tensor, "b n"], u: Float[Tensor, "b"]) -> Int64[Tensor, "b 1"]:
    """Choose one of the True elements of each row with a uniform number, all equally likely, and return its index."""
    count = mask.to(torch.int64).cumsum(1)
    wanted = torch.floor(u * count[:, -1]).to(torch.int64)[:, None] + 1
    return torch.searchsorted(count, wanted).clamp(max=count.shape[1] - 1)  # where the count first reaches the wanted one
