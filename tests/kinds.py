"""One row per kind of target, with values whose way through a transform and back is known: for ``contract/test_every_way.py``."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

Size = tuple[int, ...]


@dataclass(frozen=True)
class Row:
    """A kind in one of the forms that batches hold it in.

    Args:
        name: of the row.
        key: under which it stands in a batch.
        make: (count, size) -> (count, ...), float64 where the kind lets it.
        beside: what goes with it, by key.
        back: how far, in the units of the values, inverse may be from what went in; None where a row of its own decides.
    """

    name: str
    key: str
    make: Callable[[int, Size], torch.Tensor]
    beside: dict[str, Callable[[int, Size], torch.Tensor]] = field(default_factory=dict)
    back: float | None = 0.35


def _ramp(channels: int, slope: float = 1.0) -> Callable[[int, Size], torch.Tensor]:
    """Channels that rise along x, along y, along both; a little more in each sample. Resampling has nothing to round off."""

    def make(count: int, size: Size) -> torch.Tensor:
        axes = torch.meshgrid(*[torch.arange(float(side), dtype=torch.float64) for side in size], indexing="ij")
        rises = (axes[-1], axes[-2], axes[-1] + axes[-2])
        field_of = torch.stack([rises[i % 3] for i in range(channels)]) if channels else axes[-1] + axes[-2]
        shift = torch.arange(float(count), dtype=torch.float64).reshape(-1, *[1] * field_of.dim())
        return slope * field_of + 1.0 + shift

    return make


def _constant(*numbers: float) -> Callable[[int, Size], torch.Tensor]:
    def make(count: int, size: Size) -> torch.Tensor:
        one = torch.tensor(numbers, dtype=torch.float64).reshape(-1, *[1] * len(size))
        return one.expand(count, -1, *size).clone()

    return make


def _labels_of_pixels(*lead: int) -> Callable[[int, Size], torch.Tensor]:
    def make(count: int, size: Size) -> torch.Tensor:
        rows, columns = torch.arange(size[-2]), torch.arange(size[-1])
        halves = 1 + 2 * (rows[:, None] >= size[-2] // 2) + (columns >= size[-1] // 2).long()
        return halves.expand(count, *lead, *size).clone()

    return make


def objects(count: int, size: Size) -> torch.Tensor:
    rows, columns = torch.arange(size[0]), torch.arange(size[1])
    first = (rows[:, None] < size[0] - 1) & (columns < size[1] // 2)
    second = (rows[:, None] > 0) & (columns >= size[1] // 3)
    return torch.stack((first, second)).expand(count, -1, -1, -1).clone()


def _boxes(count: int, size: Size) -> torch.Tensor:
    height, width = size
    shares = torch.tensor([[0.1, 0.1, 0.6, 0.5], [0.4, 0.3, 0.9, 0.9]], dtype=torch.float64)
    shifts = torch.arange(count, dtype=torch.float64)[:, None, None] * 0.02
    return (shares + shifts) * torch.tensor([width, height, width, height], dtype=torch.float64)


def _rotated(count: int, size: Size) -> torch.Tensor:
    low, high = _boxes(count, size).split(2, -1)
    angle = torch.full_like(low[..., :1], 0.3)
    return torch.cat(((low + high) / 2, (high - low) * 0.7, angle), -1)


def _points(*lead: int, seen: bool = False) -> Callable[[int, Size], torch.Tensor]:
    def make(count: int, size: Size) -> torch.Tensor:
        ends = torch.tensor([side - 1.0 for side in reversed(size)], dtype=torch.float64)
        total = count * math.prod(lead)
        shares = torch.frac(torch.arange(1.0, 1.0 + total * len(size), dtype=torch.float64) * 0.6180339887).reshape(
            count, *lead, -1
        )
        flags = torch.ones_like(shares[..., :1]) * 2
        return torch.cat((shares * ends, flags), -1) if seen else shares * ends

    return make


def _polygons(count: int, size: Size) -> torch.Tensor:
    height, width = size
    around = torch.linspace(0, 2 * math.pi, 8, dtype=torch.float64)[:-1]
    ring = torch.stack((around.cos() * width / 4, around.sin() * height / 4), -1)
    centres = torch.tensor([[0.35, 0.4], [0.6, 0.5]], dtype=torch.float64) * torch.tensor([width, height], dtype=torch.float64)
    return (centres[:, None] + ring).expand(count, -1, -1, -1).clone()


def _camera(columns: int) -> Callable[[int, Size], torch.Tensor]:
    def make(count: int, size: Size) -> torch.Tensor:
        camera = torch.zeros(count, 3, columns, dtype=torch.float64)
        camera[:, 0, 0], camera[:, 1, 1], camera[:, 2, 2] = 50.0, 55.0, 1.0
        camera[:, 0, 2], camera[:, 1, 2] = size[1] / 2, size[0] / 2
        if columns == 4:
            camera[:, :, 3] = torch.tensor([3.0, -2.0, 0.5])
        return camera

    return make


def _eye(count: int, size: Size) -> torch.Tensor:
    return torch.eye(4, dtype=torch.float64).expand(count, 4, 4).clone()


def _numbers(*shape: int) -> Callable[[int, Size], torch.Tensor]:
    """Numbers from 0 to 1 that are no row's twice."""

    def make(count: int, size: Size) -> torch.Tensor:
        return torch.frac(torch.arange(1.0, 1.0 + count * math.prod(shape), dtype=torch.float64) * 0.6180339887).reshape(
            count, *shape
        )

    return make


def _classes(*lead: int) -> Callable[[int, Size], torch.Tensor]:
    return lambda count, size: torch.arange(count * math.prod(lead)).reshape(count, *lead) % 3


def _cuboids(count: int, size: Size) -> torch.Tensor:
    ends = torch.tensor(tuple(reversed(size)), dtype=torch.float64)
    low = torch.tensor([[0.1, 0.2, 0.1], [0.4, 0.3, 0.4]], dtype=torch.float64) * ends
    return torch.cat((low, low + 0.4 * ends), -1).expand(count, -1, -1).clone()


def _affine(count: int, size: Size) -> torch.Tensor:
    affine = torch.diag(torch.tensor([1.0, 1.0, 2.5, 1.0], dtype=torch.float64))
    affine[:3, 3] = torch.tensor([-10.0, 4.0, 7.0])
    return affine.expand(count, 4, 4).clone()


FLAT = (
    Row("image", "image2", lambda count, size: (0.1 + 0.02 * _ramp(3)(count, size)).clamp(0, 1), back=None),
    Row("mask", "mask", _labels_of_pixels()),
    Row("mask", "masks", objects, {"boxes": _boxes}, back=None),
    Row("boxes", "boxes", _boxes, back=None),
    Row("boxes", "boxes_turned", _rotated, back=None),
    Row("keypoints", "keypoints", _points(5), {"keypoint_labels": _classes(5)}, back=1e-9),
    Row("keypoints", "keypoints_seen", _points(5, seen=True), back=None),
    Row("keypoints", "keypoints_persons", _points(2, 3, seen=True), back=None),
    Row("polygons", "polygons", _polygons, back=None),
    Row("polylines", "polylines", lambda count, size: _polygons(count, size)[:, :, :4], back=None),
    Row("quads", "quads", lambda count, size: _polygons(count, size)[:, :, ::2], back=None),
    Row("heatmap", "heatmap", _ramp(2)),
    Row("depth", "depth", _ramp(0)),
    Row("flow", "flow", _constant(0.6, -0.4)),
    Row("normals", "normals", _constant(0.6, 0.0, -0.8), back=0.15),
    Row("disparity", "disparity", _constant(1.5), back=None),  # which a turn divides by its cosine: a quarter leaves nothing
    Row("distance", "distance", _constant(2.0), back=0.5),
    Row("pointmap", "pointmap", _ramp(3)),
    Row("rays", "rays", _ramp(3, 0.1)),
    Row("uv", "uv", _ramp(2)),
    Row("intrinsics", "intrinsics", _camera(3), back=1e-6),
    Row("projection", "projection", _camera(4), back=1e-6),
    Row("extrinsics", "extrinsics", _eye, {"intrinsics": _camera(3)}, back=1e-6),
    Row(
        "lens", "lens", lambda count, size: torch.tensor([[0.1, 0.0, 0.01, 0.02]], dtype=torch.float64).repeat(count, 1), back=1e-6
    ),
    Row("fisheye", "fisheye", _numbers(4), back=1e-6),
    Row("boxes3d", "boxes3d", _numbers(1, 7), back=1e-6),
    Row("labels", "labels", _classes(2), {"boxes": _boxes}, back=0.0),
    Row("keypoint_labels", "keypoint_labels", _classes(5), {"keypoints": _points(5)}, back=0.0),
)
"""Kinds that go with pictures."""

SPACE = (
    Row("volume", "volume2", _ramp(2, 0.02), back=None),
    Row("labelmap", "labelmap", _labels_of_pixels()),
    Row("points3", "points3", _points(5), back=1e-6),
    Row("cuboids", "cuboids", _cuboids, back=None),
    Row("affine", "affine", _affine, back=1e-6),
    Row("labels", "labels", _classes(), back=0.0),
)
"""Kinds that go with volumes."""
