"""Kinds of targets. Each is one value: its name, shapes, dtypes, and its interpolation or the function that moves its rows.

Owns: the table of kinds, how a key names a kind, an entry of a batch, and how boxes and keypoints move from canvas to canvas.
Must not: draw, plan, or resample.
Read next: ``options.py``, ``parsing.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, cast, get_args

import torch
from torch import Tensor

from pellucid.boxes import BoxFormat, box_area, clip_boxes, visible
from pellucid.boxes.canvases import across, carried
from pellucid.core.arguments import check_choice
from pellucid.core.constants import wide_dtype
from pellucid.errors import invalid, wrong_type
from pellucid.geometry.bends import BentMap
from pellucid.geometry.cameras import camera_along, turn_boxes3d, turn_lens, turn_map
from pellucid.geometry.clipping import along
from pellucid.geometry.paths import Path, follow
from pellucid.geometry.points import pixel_centers, slopes_of, transform_points
from pellucid.geometry.polygons import extents
from pellucid.geometry.space import follow3, inverse4
from pellucid.geometry.vectors import turn_disparity, turn_distance, turn_flow, turn_normals
from pellucid.targets.torchvision import canvas_of, class_of
from pellucid.types import DEEP, Interpolation, Size

__all__ = [
    "BOXES", "IMAGE", "IMAGES", "KINDS", "OURS", "VALID", "VOLUME", "Entry", "TargetKind", "classes_in", "kind_of", "turned_along",
]  # fmt: skip

VALID = "valid"

Turn: TypeAlias = Callable[[Tensor, Tensor], Tensor]

Move: TypeAlias = "Callable[[Tensor, Path, Entry, Limits], tuple[Tensor, Tensor]]"


class Limits(Protocol):
    """What a `move` reads of the pipeline's `Options`."""

    @property
    def cameras(self) -> str:
        """Where a picture's rotation goes."""

    @property
    def min_area(self) -> float:
        """The least visible area, in square pixels."""

    @property
    def min_visibility(self) -> float:
        """The least visible share."""

    @property
    def least(self) -> dict[str, Any]:
        """All thresholds at which a box stays valid, as options of `visible`."""


@dataclass(frozen=True)
class TargetKind:
    """A kind of target. `pellucid.register` adds one of your own.

    Args:
        name: keys of batches begin with it: ``name``, ``name2``, ``name_left``.
        shapes: its shapes in words, for errors.
        axes: the numbers of axes that an entry of one sample may have.
        last: the sizes that its last axis may have; empty for any.
        integers: the integer dtypes it may hold besides floating-point numbers; None for any dtype.
        interpolation: for pictures: the default interpolation. Only geometry changes such a target, colours do not.
        channels: for pictures: the required number of channels; None for any.
        turn: for pictures of vectors, resampled with the picture: (values (b, c, h, w), src_from_dst (b, 3, 3)) -> the values,
            turned and stretched by the map. Under a displacement field it gets each pixel by itself, with the map's derivative.
        reaches: the vectors end at points of a picture, and under a field follow these points. In a clip these are points of the
            next frame; for the last frame, of the same one.
        move: for rows of coordinates, (b, n, k) in float64 if the device has it: (values, path, entry, options) -> the moved
            values, and which of them are still visible, (b, n). `follow` maps points along a path. If the last hop's size is None,
            the path leads back to the input, where nothing is cut off.
        whole: the rows belong to the picture as a whole, like a camera's matrix: they have no validity flags, and steps that show
            several pictures in one raise.
        scene: for targets of the scene before a camera: (values, rotation (b, 3, 3)) -> the values after the camera turned or was
            mirrored, for ``Pipeline(cameras="pose")``.
        follows: the maps under which ``scene`` is possible: ``perspective`` (and affine ones), ``affine``, or ``axes``.
        space: the kind belongs to volumes: entries end in (D, H, W) unless they are rows, maps are (b, 4, 4), and points (x, y, z).
        corners: each row is corners (v, 2) in pixel-edge coordinates: ``polygon`` with any number of them, where a row of NaN ends
            a ring; ``line``, the same but not closed; ``quad`` with four corners, never clipped. Lists of such rows are accepted.

    A kind with neither interpolation nor move passes through unchanged, as labels do.

    Errors:
        InvalidArgument for a name that no key can begin with, an interpolation that does not exist, and pictures or rows without
        ``axes``; InvalidType for a ``move`` that cannot be called.

    Example:
        >>> import torch, pellucid
        >>> uncertainty = pellucid.register(pellucid.TargetKind("doubt", "(B, 1, H, W)", axes=(3,), interpolation="bilinear"))
        >>> batch = {"image": torch.zeros(1, 3, 1, 3), "doubt": torch.tensor([[[[1.0, 2.0, 3.0]]]])}
        >>> pellucid.Pipeline([pellucid.RandomHorizontalFlip(p=1.0)])(batch)["doubt"]
        tensor([[[[3., 2., 1.]]]])
    """

    name: str
    shapes: str = "any"
    axes: tuple[int, ...] = ()
    last: tuple[int, ...] = ()
    integers: tuple[torch.dtype, ...] | None = ()
    interpolation: Interpolation | None = None
    channels: int | None = None
    turn: Turn | None = None
    reaches: bool = False
    move: Move | None = None
    whole: bool = False
    scene: Turn | None = None
    follows: str = "affine"
    space: bool = False
    corners: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.isidentifier() or self.name.endswith(f"_{VALID}"):
            raise invalid("TargetKind.name", expected="a word that keys of batches can begin with", got=repr(self.name))
        if self.move is not None and not callable(self.move):
            raise wrong_type("TargetKind.move", expected="a function of (values, path, entry, options)", got=repr(self.move))
        check_choice("TargetKind.corners", self.corners, ("", "polygon", "line", "quad"))
        check_choice("TargetKind.interpolation", self.interpolation, (None, *get_args(Interpolation)))
        if (self.move or self.interpolation) and not self.axes:
            raise invalid("TargetKind.axes", expected="how many axes a sample may have, such as (2,)", got=self.axes)


@dataclass(frozen=True)
class Entry:
    """One entry of the batch: its key, kind, tensor (channels first), and the flags that came with it.

    Args:
        box_format: the format in which boxes are computed.
        degrees: torchvision's format of rotated boxes, if they have one; they are computed as ``cxcywhr``.
        channels_last: the caller's picture has its channels last.
        fractions: the caller's boxes are fractions of the picture's width and height.
        depth: the dtype of a 16-bit picture, which is computed in float32 with 1 for the dtype's largest value.
        given: the form of the result, for `as_given`.
        points: the number of keypoints of each object, if they came as (N, K, 2); the tensor is then (N K, 2).
    """

    key: str
    kind: TargetKind
    tensor: Tensor
    valid: Tensor | None = None
    box_format: BoxFormat = "xyxy"
    degrees: str | None = None
    channels_last: bool = False
    fractions: bool = False
    depth: torch.dtype | None = None
    given: str = ""
    points: int = 0

    @property
    def size(self) -> Size | None:
        """(height, width) of the picture, or (depth, height, width); of rows the canvas of torchvision's class, or None."""
        if self.kind.move is not None:
            return canvas_of(self.tensor)
        return cast(Size, tuple(self.tensor.shape[-3 if self.kind.space else -2 :]))


def kind_of(key: str, named: Mapping[str, str]) -> TargetKind | None:
    """Return the kind of a dict key: as declared, or by the key's name up to an underscore or number; None if no kind fits."""
    if key in named or key in _TYPED:
        return KINDS[named.get(key) or _TYPED[key]]
    for name, kind in KINDS.items():
        rest = key[len(name) :]
        if key.startswith(name) and (not rest or rest.isdigit() or (rest.startswith("_") and not rest.endswith(f"_{VALID}"))):
            return kind
    return None


def classes_in(value: object) -> set[tuple[str, str] | None]:
    """Return the results of `class_of` for a value, or for each value of a list; empty if none has a class of torchvision's."""
    if type(value) is Tensor or value is None:
        return set()
    found = {class_of(one) for one in value} if isinstance(value, list | tuple) else {class_of(value)}
    return set() if found == {None} else found


def turned_along(kind: TargetKind, values: Tensor, to_source: Path, from_source: Path) -> Tensor:
    """Turn the vectors of a picture that a displacement field has warped.

    Args:
        kind: their kind, which has a ``turn``.
        values: (b, c, h, w), resampled with the picture, but not turned.
        to_source: from the output's pixels to their sources in the input.
        from_source: from the input to the output's pixels.
    """
    assert kind.turn is not None
    wide = wide_dtype(values.device)
    pixels = pixel_centers((values.shape[2], values.shape[3]), wide, values.device).expand(len(values), -1, 2)
    points, slopes = pixels, torch.eye(2, dtype=wide, device=values.device)
    for step, _ in to_source:
        if isinstance(step, BentMap):
            points, here = step.linearised(points)
        else:
            points, here = transform_points(points, step), slopes_of(step, points)
        slopes = here @ slopes
    vectors = values.to(wide).flatten(2).mT  # b n c
    if kind.reaches:
        found = follow(points + vectors, from_source)[0] - pixels
    else:
        known = torch.isfinite(slopes).all(-1).all(-1)[..., None, None]
        slopes = torch.where(known, slopes, torch.eye(2, dtype=wide, device=values.device)).flatten(0, 1)
        maps = torch.nn.functional.pad(slopes, (0, 1, 0, 1))
        maps = maps + torch.nn.functional.pad(torch.ones_like(maps[:, :1, :1]), (2, 0, 2, 0))
        found = kind.turn(vectors.flatten(0, 1)[..., None, None], maps).reshape(vectors.shape)
    return torch.where(torch.isfinite(found), found, 0.0).mT.reshape(values.shape).to(values.dtype)


def _keypoints(values: Tensor, path: Path, entry: Entry, options: Limits) -> tuple[Tensor, Tensor]:
    del entry, options
    points, inside = follow(values[..., :2], path)
    if values.shape[-1] == 2:
        return points, inside
    seen = values[..., 2:] * inside[..., None] if path[-1][1] is not None else values[..., 2:]
    return torch.cat((points, seen), -1), inside & (values[..., 2] > 0)


def _camera(values: Tensor, path: Path, entry: Entry, options: Limits) -> tuple[Tensor, Tensor]:
    moved = camera_along(f"batch[{entry.key!r}]", values, [step for step, _ in path], bends=options.cameras == "residual")
    return moved, torch.ones_like(moved[..., 0], dtype=torch.bool)


def _still(values: Tensor, path: Path, entry: Entry, options: Limits) -> tuple[Tensor, Tensor]:
    """Leave targets of the scene unchanged: no warp of the picture moves them."""
    del path, entry, options
    return values, torch.ones_like(values[..., 0], dtype=torch.bool)


def _boxes(values: Tensor, path: Path, entry: Entry, options: Limits) -> tuple[Tensor, Tensor]:
    form = entry.box_format
    moved = carried(values, [step for step, _ in path], form)
    size = path[-1][1]
    if size is None:
        return moved, torch.isfinite(moved).all(-1)
    left, inside = across(values, path, form) if len(path) > 1 else (moved, None)
    clipped = clip_boxes(left, size, form)
    sized = box_area(values, form) > 0  # an inverted or empty row is padding, whatever the hull of its corners is
    valid = visible(moved, clipped, **options.least, format=form) & sized
    # A box that is gone, or was padding, still needs finite numbers for the code that follows.
    known = torch.isfinite(clipped).all(-1) & sized
    return torch.where(known[..., None], clipped, 0.0), valid if inside is None else valid & inside


def _turn_pose(values: Tensor, rotation: Tensor) -> Tensor:
    """Return the world-to-camera matrix after the camera turned."""
    return torch.cat((rotation @ values[:, :3], values[:, 3:]), 1)


def _unturned(values: Tensor, rotation: Tensor) -> Tensor:
    """Leave numbers unchanged that are symmetric about the optical axis."""
    del rotation
    return values


_ALONG = 5


def _points3(values: Tensor, path: Path, entry: Entry, options: Limits) -> tuple[Tensor, Tensor]:
    del entry, options
    return follow3(values, path)  # type: ignore[arg-type] # of maps in space


def _cuboids(values: Tensor, path: Path, entry: Entry, options: Limits) -> tuple[Tensor, Tensor]:
    """Return the hulls of the mapped corners (under a field, of five points along each axis), clipped to the last volume. A cuboid
    that lay outside of some volume on the way is not valid.
    """
    del entry
    low, high = values.split(3, -1)
    sized = (high > low).all(-1)
    count = 2 if all(isinstance(step, Tensor) for step, _ in path) else _ALONG
    share = torch.cartesian_prod(*[torch.linspace(0.0, 1.0, count, dtype=values.dtype, device=values.device)] * 3)  # m 3
    moved = (low[:, :, None] + share * (high - low)[:, :, None]).flatten(1, 2) - 0.5  # b nm 3
    inside = sized
    for step, size in path:
        moved = follow3(moved, [(step, None)])[0]  # type: ignore[list-item] # of maps in space
        hull = _hull(moved + 0.5, count**3)
        if size is not None:
            edges = torch.tensor(tuple(reversed(size)), dtype=values.dtype, device=values.device)
            cut = torch.minimum(torch.relu(hull), torch.cat((edges, edges)))
            inside = inside & (cut[..., 3:] > cut[..., :3]).all(-1)
    known = torch.isfinite(hull).all(-1) & sized
    if path[-1][1] is None:
        return torch.where(known[..., None], hull, 0.0), known
    share = _bulk(cut) / torch.where(known, _bulk(hull), 1.0)
    inside = inside & known & (share >= options.min_visibility)
    return torch.where(known[..., None], cut, 0.0), inside


def _hull(corners: Tensor, each: int) -> Tensor:
    corners = corners.unflatten(1, (-1, each))
    return torch.cat((corners.amin(2), corners.amax(2)), -1)


def _bulk(cuboid: Tensor) -> Tensor:
    return (cuboid[..., 3:] - cuboid[..., :3]).prod(-1)


def _world(values: Tensor, path: Path, entry: Entry, options: Limits) -> tuple[Tensor, Tensor]:
    """Return the voxel-to-world matrix for the volume at the end of the path; displacement fields are left out."""
    del entry, options
    for step, _ in path:
        matrix = step if isinstance(step, Tensor) else cast(Any, step).matrix
        values = values @ inverse4(matrix)
    return values, torch.ones_like(values[..., 0], dtype=torch.bool)


def _outlines(values: Tensor, path: Path, entry: Entry, options: Limits) -> tuple[Tensor, Tensor]:
    """Map and clip polygons and lines. Quadrilaterals are not clipped, but valid only if enough of them is visible."""
    closed = entry.kind.corners != "line"
    cut, known = along(values, path, closed=closed)
    left = extents(cut, closed=closed)
    valid = known & (left > 0) & (left >= options.min_area * closed)
    if options.min_visibility > 0:
        whole = extents(along(values, [(step, None) for step, _ in path], closed=closed)[0], closed=closed)
        valid = valid & (left >= options.min_visibility * whole)
    if entry.kind.corners != "quad":
        return cut, valid
    moved = follow((values - 0.5).flatten(1, 2), [(step, None) for step, _ in path])[0].unflatten(1, (-1, 4)) + 0.5
    return torch.where(known[..., None, None] & torch.isfinite(moved), moved, 0.0), valid


_TYPED = {
    **dict.fromkeys(("pixel_values", "input"), "image"),
    **dict.fromkeys(("label", "image_id", "iscrowd", "class_labels", "category_ids"), "labels"),
    "masks": "mask",
    "bboxes": "boxes",
}
"""Keys that other libraries' data sets and models use. They match as a whole only: ``input_ids`` is no image."""

_INTEGERS = (torch.int32, torch.int64)  # wide enough for the coordinates of any picture; narrower ones would wrap

BOXES = TargetKind("boxes", "(B, N, 4), or (B, N, 5) for cxcywhr", (2,), integers=_INTEGERS, move=_boxes)
IMAGE = TargetKind("image", "(B, C, H, W), (C, H, W) or (B, T, C, H, W)", (3,), integers=(torch.uint8, *DEEP))

VOLUME = TargetKind("volume", "(B, C, D, H, W) or (C, D, H, W)", (4,), integers=(torch.uint8,), space=True)
IMAGES = (IMAGE, VOLUME)
"""The kinds that colour transforms change."""

_PERSONS = "(B, N, 2), (B, N, K, 2) for K of each object, or 3 numbers with visibility"
_POSE, _CUBES = "(B, 3, 4) or (B, 4, 4), world to camera", "(B, N, 7): x, y, z, length, height, width, yaw"
_MAP: dict[str, Any] = {"axes": (3,), "interpolation": "bilinear"}
_TURNED: dict[str, Any] = {"scene": turn_map, "follows": "perspective"}
_BESIDE: dict[str, Any] = {"move": _still, "whole": True}

KINDS: dict[str, TargetKind] = {
    kind.name: kind
    for kind in (
        IMAGE,
        TargetKind("mask", "(B, H, W) or (B, C, H, W)", (2, 3), integers=None, interpolation="nearest"),
        BOXES,
        TargetKind("keypoints", _PERSONS, (2, 3), (2, 3), _INTEGERS, move=_keypoints),
        TargetKind("polygons", "(B, N, V, 2), or lists of polygons", (3,), (2,), move=_outlines, corners="polygon"),
        TargetKind("polylines", "(B, N, V, 2), or lists of lines", (3,), (2,), move=_outlines, corners="line"),
        TargetKind("quads", "(B, N, 4, 2), or lists of four corners each", (3,), (2,), move=_outlines, corners="quad"),
        TargetKind("heatmap", "(B, C, H, W)", (2, 3), interpolation="bilinear"),
        TargetKind("depth", "(B, H, W) or (B, 1, H, W)", (2, 3), interpolation="bilinear"),
        TargetKind("flow", "(B, 2, H, W)", channels=2, turn=turn_flow, reaches=True, **_MAP),
        TargetKind("normals", "(B, 3, H, W)", channels=3, turn=turn_normals, **_TURNED, **_MAP),
        TargetKind("disparity", "(B, H, W) or (B, 1, H, W)", (2, 3), interpolation="bilinear", turn=turn_disparity),
        TargetKind("distance", "(B, H, W) or (B, 1, H, W)", (2, 3), interpolation="bilinear", turn=turn_distance),
        TargetKind("pointmap", "(B, 3, H, W)", channels=3, **_TURNED, **_MAP),
        TargetKind("rays", "(B, 3, H, W)", channels=3, **_TURNED, **_MAP),
        TargetKind("uv", "(B, 2, H, W)", channels=2, **_MAP),
        TargetKind("intrinsics", "(B, 3, 3)", (2,), (3,), move=_camera, whole=True),
        TargetKind("projection", "(B, 3, 4)", (2,), (4,), move=_camera, whole=True),
        TargetKind("extrinsics", _POSE, (2,), (4,), scene=_turn_pose, follows="perspective", **_BESIDE),
        TargetKind("lens", "(B, 4, 5, 8 or 12), as OpenCV's distCoeffs", (1,), (4, 5, 8, 12), scene=turn_lens, **_BESIDE),
        TargetKind("fisheye", "(B, 4), k1 to k4 of OpenCV's fisheye", (1,), (4,), scene=_unturned, **_BESIDE),
        TargetKind("boxes3d", _CUBES, (2,), (7,), move=_still, scene=turn_boxes3d, follows="axes"),
        VOLUME,
        TargetKind("labelmap", "(B, D, H, W) or (B, C, D, H, W)", (3, 4), integers=None, interpolation="nearest", space=True),
        TargetKind("points3", "(B, N, 3), in voxels (x, y, z)", (2,), (3,), _INTEGERS, move=_points3, space=True),
        TargetKind("cuboids", "(B, N, 6), edges (x0, y0, z0, x1, y1, z1)", (2,), (6,), _INTEGERS, move=_cuboids, space=True),
        TargetKind("affine", "(B, 4, 4), voxel (x, y, z) to world", (2,), (4,), move=_world, whole=True, space=True),
        TargetKind("labels", integers=None),
        TargetKind("residual", integers=None),
        TargetKind("keypoint_labels", integers=None),
    )
}
"""Every kind, by name."""

OURS = tuple(KINDS)
