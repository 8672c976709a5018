"""Values that change over the frames of a clip: smoothly, or independently in each frame.

Owns: `Smooth` and the curve through its knots; `PerFrame`.
Must not: fix the number of frames: a record serves clips of any length.
Read next: ``fields.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from pellucid.core.arguments import whole_number
from pellucid.errors import invalid, wrong_type
from pellucid.random.distribution import Distribution, Each
from pellucid.random.numbers import Raw
from pellucid.random.patterns import field_words
from pellucid.random.philox import uniforms

__all__ = ["PerFrame", "Smooth", "at_frames"]


@dataclass(frozen=True)
class Smooth(Each):
    """One number per frame of a clip, on a smooth curve through independent draws at a few knots.

    Knots lie at equal distances, the first at the first frame and the last at the last frame. Between knots the curve is a monotone
    cubic, so it stays within the range of its knots, and every bound of a field holds in every frame. A single picture gets the
    value of the first knot, which is a plain draw of the distribution ``of``.

    Args:
        of: the distribution of each knot: one number, reparameterised, such as `Uniform` or `Normal`; it may learn.
        knots: how many, from 2 to 64.

    Records hold the knots, (B, knots); ``record.frames(count)`` has a value for each frame.

    Gradient:
        numbers of the distribution: exact through the knots. knots: almost everywhere (the curve's slope at a knot is a
        harmonic mean, with kinks where neighbouring knots are equal).

    Errors:
        InvalidType for anything but a distribution of one number; InvalidArgument for one whose draws are choices or learn by their
        loss, and for a number of knots out of range.

    Source:
        Fritsch and Butland, "A method for constructing local monotone piecewise cubic interpolants", 1984 (oracle:
        ``scipy.interpolate.PchipInterpolator``).

    Example:
        >>> sway = pellucid.RandomRotation(pellucid.Smooth(pellucid.Uniform(-10.0, 10.0), knots=4))
        >>> record = pellucid.Pipeline([sway], seed=0).draw(torch.zeros(2, 9, 3, 8, 8))
        >>> record.params[0]["degrees"].shape, record.frames(9).params[0]["degrees"].shape
        (torch.Size([2, 4]), torch.Size([18]))
    """

    of: Distribution
    knots: int = 4

    axes: ClassVar[int] = 2
    """The number of axes of a value in a record of whole clips."""

    def __post_init__(self) -> None:
        inner = self.of
        if not isinstance(inner, Distribution) or inner.vector or inner.words != 1:
            fix = "For example Smooth(Uniform(-10.0, 10.0))."
            raise wrong_type("Smooth.of", expected="a distribution of one number", got=repr(inner), fix=fix)
        if inner.estimator != "reparameterised":
            raise invalid("Smooth.of", expected="a reparameterised distribution, not a choice", got=repr(inner))
        object.__setattr__(self, "knots", whole_number("Smooth.knots", self.knots, 2, 64))

    @property
    def words(self) -> int:  # type: ignore[override]
        """One for each knot."""
        return self.knots

    def sample(self, u: Float[Tensor, "b n"], raw: Raw) -> Float[Tensor, "b n"]:
        return torch.stack([self.of.sample(one, raw) for one in u.unbind(-1)], -1)

    def each(self, knots: Float[Tensor, "b n"], count: int) -> Float[Tensor, "b_t"]:
        """Return the value of every frame of clips.

        Args:
            knots: the values in a record, a row for each clip.
            count: the number of frames of a clip.

        Returns:
            The frames of all clips, one clip after the other.

        Gradient:
            knots: almost everywhere.

        Example:
            >>> pellucid.Smooth(pellucid.Uniform(0.0, 1.0), knots=2).each(torch.tensor([[0.0, 1.0]]), 3)
            tensor([0.0000, 0.5000, 1.0000])
        """
        return at_frames(knots, count).flatten()


@dataclass(frozen=True)
class PerFrame(Each):
    """An independent draw for each frame. Internal: `Pipeline(per_frame=)` wraps the draws of a transform in it.

    A record holds two random words. A frame's draw is a function of these and of the frame's number, so clips may have any length.
    """

    of: Distribution

    words: ClassVar[int] = 2
    vector: ClassVar[bool] = True
    axes: ClassVar[int] = 3

    def sample(self, u: Float[Tensor, "b 2"], raw: Raw) -> Int64[Tensor, "b 1 2"]:
        return (u * 2.0**32).to(torch.int64)[:, None]

    def each(self, words: Int64[Tensor, "b 1 2"], count: int) -> Tensor:
        """Return the value of every frame of all clips."""
        own = -(-self.of.words // 4)  # hashes for each frame
        drawn = uniforms(field_words(words[:, 0], (count, own, 4)))  # b n 4
        u = drawn.reshape(len(words) * count, 4 * own)
        return self.of.sample(u[:, : self.of.words] if self.of.vector or self.of.words > 1 else u[:, 0], {})


def at_frames(knots: Float[Tensor, "b n"], count: int) -> Float[Tensor, "b t"]:
    """Evaluate the curve through the knots at the frames of a clip; the first and last frame are the first and last knot.

    Gradient:
        knots: almost everywhere.
    """
    places = knots.shape[1] - 1
    at = torch.arange(count, dtype=knots.dtype, device=knots.device) * (places / max(count - 1, 1))  # t
    rise = knots.diff(dim=1)  # b n-1, over a distance of 1
    slope = torch.cat((_end(rise), _middle(rise), _end(rise.flip(1))), 1)  # b n
    left = torch.minimum(torch.floor(at), at.new_tensor(places - 1)).long()
    s = at - left
    low, high = knots[:, left], knots[:, left + 1]
    begin, end = slope[:, left], slope[:, left + 1]
    eased = s * s * (3.0 - 2.0 * s)
    inside = low + eased * (high - low) + s * (1.0 - s) * ((1.0 - s) * begin - s * end)
    return torch.where(s == 0.0, low, torch.where(s == 1.0, high, inside))  # at a knot exactly its value, without rounding


def _middle(rise: Float[Tensor, "b m"]) -> Float[Tensor, "b k"]:
    """Slopes at inner knots: the harmonic mean of the slopes on both sides, 0 if their signs differ."""
    before, after = rise[:, :-1], rise[:, 1:]
    agree = before * after > 0
    return torch.where(agree, 2.0 * before * after / torch.where(agree, before + after, 1.0), 0.0)


def _end(rise: Float[Tensor, "b m"]) -> Float[Tensor, "b 1"]:
    """The slope at the first knot: that of the parabola through three knots, limited so that the curve stays monotone."""
    first = rise[:, :1]
    if rise.shape[1] == 1:
        return first
    second = rise[:, 1:2]
    slope = 1.5 * first - 0.5 * second
    steep = (first * second < 0) & (slope.abs() > 3.0 * first.abs())
    return torch.where(slope * first <= 0, 0.0, torch.where(steep, 3.0 * first, slope))
