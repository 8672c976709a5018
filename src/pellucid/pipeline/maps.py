"""Maps between views of the same pictures: from the pixels of one view to those of another.

Owns: `ViewMap`, what a record offers to maps, and mapping points by a record, `forth` and `back`.
Must not: touch pixels or draw.
Read next: ``records.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pellucid.core.constants import wide_dtype
from pellucid.engine.execution import forwards, hops
from pellucid.engine.lowering import Lowered
from pellucid.engine.plan import Plan
from pellucid.errors import invalid
from pellucid.geometry.paths import expanded, follow, inside
from pellucid.geometry.space import follow3
from pellucid.transforms.base import as_size
from pellucid.types import Size

__all__ = ["RecordLike", "ViewMap", "back", "forth"]


class RecordLike(Protocol):
    """What a map reads of a `Record`."""

    @property
    def plan(self) -> Plan:
        """The plan of its call."""

    @property
    def samples(self) -> int:
        """The number of samples."""

    @property
    def size_in(self) -> Size:
        """(height, width) of the input."""

    @property
    def size_out(self) -> Size:
        """(height, width) of the output."""

    @property
    def device(self) -> torch.device:
        """The device of the drawn values."""

    @property
    def src_from_dst(self) -> Float[Tensor, "b 3 3"]:
        """The maps from output pixels to input pixels."""

    @property
    def matrix(self) -> Float[Tensor, "b 3 3"]:
        """The maps from input pixels to output pixels."""

    def _lowered(self) -> Lowered:
        """Return the values in the form from which maps are computed."""


@dataclass(frozen=True, eq=False)
class ViewMap:
    """The map from the pixels of one view to those of another view of the same pictures, as `Record.map_to` returns it.

    Coordinates are pixel centres, x before y, in the pixels of each record's output. For a feature map of stride s take the records
    of that resolution: ``a.at(size).map_to(b.at(size))``.

    Args:
        a: the record of the view that contains the points.
        b: the record of the view to which they are mapped.

    Gradient:
        To points and to the drawn values of both records: exact.

    Errors:
        InvalidArgument for records of pictures of different sizes, or of different numbers of them.

    Example:
        >>> augment = pellucid.Pipeline([pellucid.RandomHorizontalFlip(p=1.0)])
        >>> (x, a), (y, b) = augment.views(torch.rand(2, 3, 4, 8))
        >>> a.map_to(b).samples, torch.equal(a.map_to(b).matrix[0], torch.eye(3, dtype=torch.float64))  # both are mirrored
        (2, True)
        >>> a.map_to(b).points(torch.tensor([[1.0, 3.0]]))[0], a.map_to(b).visible(torch.tensor([[1.0, 9.0]]))[0]
        (tensor([[1., 3.]]), tensor([False]))
    """

    a: RecordLike
    b: RecordLike

    def __post_init__(self) -> None:
        a, b = self.a, self.b
        if a.size_in != b.size_in:
            fix = "Bring one record to the other's pictures: record.at(size)."
            raise invalid("map_to", expected=f"a record for pictures of {a.size_in}, as this one", got=b.size_in, fix=fix)
        if a.samples != b.samples and 1 not in (a.samples, b.samples):
            raise invalid("map_to", expected=f"a record of {a.samples} samples, or of 1", got=b.samples)

    @property
    def samples(self) -> int:
        """The number of samples, the larger one of the two records."""
        return max(self.a.samples, self.b.samples)

    @property
    def matrix(self) -> Float[Tensor, "b 3 3"]:
        """``b_from_a``, float64.

        Gradient:
            drawn values of both records: exact.

        Errors:
            InvalidArgument if a field displaces pixels, or samples are mixed.
        """
        return self.b.matrix @ self.a.src_from_dst

    def points(self, xy: Float[Tensor, "*b n 2"]) -> Float[Tensor, "b n 2"]:
        """Map points of view a to view b, whether they lie inside of it or not.

        Args:
            xy: (B, N, 2), or (N, 2) for all samples.

        Returns:
            In the dtype of ``xy``; NaN for points without an image in view b.

        Gradient:
            xy, drawn values of both records: exact.

        Errors:
            InvalidArgument for points of another shape, and if samples are mixed.
        """
        return self._sent(xy)[0]

    def visible(self, xy: Float[Tensor, "*b n 2"]) -> Bool[Tensor, "b n"]:
        """Return which points of view a show the picture, and are visible in view b, too: no crop on either way cuts them off.

        Args:
            xy: as in :meth:`points`.

        Returns:
            True for points that both views show.

        Errors:
            As :meth:`points`.
        """
        return self._sent(xy)[1]

    def grid(self, size: Size | None = None) -> Float[Tensor, "b h w 2"]:
        """Return the positions of the centres of view a's cells in view b's pixels, float64.

        Args:
            size: (height, width), the numbers of cells into which view a is divided; default its pixels.

        Returns:
            (x, y) for each cell.

        Errors:
            InvalidType or InvalidArgument for anything but a size, and as :meth:`points`.

        Example:
            >>> a = pellucid.Pipeline([]).draw(torch.rand(1, 3, 8, 8))
            >>> a.map_to(a).grid((2, 2))[0, 0]  # the upper two of four cells
            tensor([[1.5000, 1.5000],
                    [5.5000, 1.5000]], dtype=torch.float64)
        """
        size = self._cells(size)
        return self.points(self._centres(size)).unflatten(1, size)

    def valid(self, size: Size | None = None) -> Bool[Tensor, "b h w"]:
        """Return which centres of view a's cells are `visible`.

        Args:
            size: as in :meth:`grid`.

        Returns:
            (B, h, w).

        Errors:
            As :meth:`grid`.

        Example:
            >>> images = torch.rand(1, 3, 8, 8)
            >>> whole, middle = (pellucid.Pipeline(steps).draw(images) for steps in ([], [pellucid.CenterCrop(4)]))
            >>> whole.map_to(middle).valid((4, 4)).sum()
            tensor(4)
        """
        size = self._cells(size)
        return self.visible(self._centres(size)).unflatten(1, size)

    def _sent(self, xy: Tensor) -> tuple[Tensor, Tensor]:
        if xy.dim() not in (2, 3) or xy.shape[-1] != 2 or (xy.dim() == 3 and xy.shape[0] not in (1, self.samples)):
            raise invalid("xy", expected=f"points (N, 2) or ({self.samples}, N, 2)", got=tuple(xy.shape))
        wide = wide_dtype(self.a.device)
        points = xy.to(self.a.device, wide).expand(self.samples, -1, 2)
        source, left = back(self.a, points)
        moved, arrived = forth(self.b, source)
        return moved.to(xy.dtype if xy.is_floating_point() else wide), left & arrived

    def _cells(self, size: Size | None) -> Size:
        return self.a.size_out if size is None else as_size("size", size)

    def _centres(self, size: Size) -> Float[Tensor, "n 2"]:
        return _centres(size, self.a.size_out, wide_dtype(self.a.device), self.a.device)


def _centres(size: Size, of: Size, dtype: torch.dtype, device: torch.device) -> Float[Tensor, "n 2"]:
    """Return the centres of (height, width) equal cells in the pixels of a picture, row by row."""
    y, x = (
        (torch.arange(count, dtype=dtype, device=device) + 0.5) * (whole / count) - 0.5
        for count, whole in zip(size, of, strict=True)
    )
    return torch.stack((x.expand(len(y), -1), y[:, None].expand(-1, len(x))), -1).flatten(0, 1)


def forth(record: RecordLike, points: Float[Tensor, "b n 2"]) -> tuple[Tensor, Tensor]:
    """Map points of the picture to the view, and return which are visible there."""
    path = forwards(hops(record._lowered()))
    if record.plan.volumes:
        return follow3(points, cast(Any, path))
    if not path:
        return points, inside(points, record.size_out)
    return follow(points, [(expanded(step, len(points)), size) for step, size in path])


def back(record: RecordLike, points: Float[Tensor, "b n 2"]) -> tuple[Tensor, Tensor]:
    """Map points of the view to the picture, and return which of them show it."""
    way = hops(record._lowered())
    seen = inside(points, record.size_out)
    for (step, _), size in zip(reversed(way), [size for _, size in way[-2::-1]] + [record.size_in] * bool(way), strict=True):
        points, here = follow(points, [(expanded(step, len(points)), size)])
        seen = seen & here
    return points, seen
