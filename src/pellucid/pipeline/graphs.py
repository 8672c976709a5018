"""Export pipelines as graphs of standard operators (``torch.export``, ONNX): evaluation for any size, random draws for one size.

Owns: `evaluation_graph`, `export_pipeline`; computing sizes in integers, which a graph can do.
Must not: use an operator of Pellucid's own.
Read next: ``../transforms/resize.py``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from jaxtyping import Float, Shaped
from torch import Tensor

from pellucid.core.arguments import check_choice
from pellucid.core.graphs import save_graph
from pellucid.errors import invalid, wrong_type
from pellucid.geometry.matrices import inverse
from pellucid.pipeline.interface import PipelineLike
from pellucid.pipeline.records import Record
from pellucid.pipeline.settling import decides
from pellucid.random.key import Key
from pellucid.transforms.base import Transform, as_padding, as_size
from pellucid.transforms.color import Denormalize, Normalize
from pellucid.transforms.crop import CenterCrop
from pellucid.transforms.resize import Letterbox, LongestMaxSize, Pad, PadIfNeeded, Resize
from pellucid.types import Fill, ImageSpec, Interpolation, PaddingMode, Size

__all__ = ["evaluation_graph", "export_pipeline", "maps_to_picture", "to_onnx"]

Axis: TypeAlias = tuple[Tensor, Tensor]
"""The map (scale, shift) of one axis: input = scale * output + shift, in pixels."""

Moved: TypeAlias = tuple[Tensor, Axis, Axis]
"""A picture (b, c, h, w), and the maps of its rows and of its columns to those of the step's input."""


def export_pipeline(
    pipeline: PipelineLike,
    path: str | os.PathLike[str],
    *,
    dtype: torch.dtype = torch.uint8,
    channels: int = 3,
    size: int | Size | None = None,
    draws: str = "key",
    ten_crop: int | Size | None = None,
) -> Path:
    """Write a pipeline as a graph that runs without Pellucid: ``.onnx`` (opset 20), or ``.pt2`` for a ``torch.export`` program.

    Its first input is ``image`` (B, C, H, W) with any B. Its outputs are ``pixels``, the pipeline's result, and ``src_from_dst``,
    the map from the result's pixels to the original's, by which boxes, points and masks that a network finds go back
    (`maps_to_picture`). The map is (3, 3) for evaluation and (B, 3, 3) with a ``size``; with displacement fields there is none.

    Args:
        pipeline: without ``size``, of Resize, LongestMaxSize, Letterbox, CenterCrop, Pad, PadIfNeeded, Normalize and Denormalize.
        path: of the file.
        dtype: of the pictures: torch.uint8, or torch.float32 in [0, 1].
        channels: of the pictures.
        size: height and width of all pictures, in pixels. Then the pipeline may draw. None: any height and width.
        draws: ``key``: the inputs ``seed`` (), ``step`` () and ``index`` (B,), int64, decide the draw in the graph, as a
            `pellucid.Key` of them does. ``values``: each drawn value is an input, named by its transform's place and its name,
            such as ``0.degrees``.
        ten_crop: as in `evaluation_graph`; without ``size``.

    Returns:
        The path.

    Errors:
        InvalidArgument for a step that has no such graph, for draws that decide sizes, and for another ending. ImportError for
        ``.onnx`` if ONNX is not installed.
    Source:
        ``onnxruntime`` and the pipeline agree to 1e-5, bytes within a level: ``tests/test_export.py``.

    Example:
        >>> import tempfile, pellucid
        >>> from pellucid.export import export_pipeline
        >>> evaluate = pellucid.Pipeline([pellucid.Resize(256), pellucid.CenterCrop(224), pellucid.Normalize((0.5,), (0.5,))])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     export_pipeline(evaluate, f"{folder}/evaluate.pt2").name
        'evaluate.pt2'
    """
    if dtype not in (torch.uint8, torch.float32):
        raise invalid("dtype", expected="torch.uint8 or torch.float32", got=dtype)
    check_choice("draws", draws, ("key", "values"))
    if size is not None and ten_crop is not None:
        raise invalid("ten_crop", expected="None with a size", got=ten_crop, fix="Views are cut of evaluation alone.")
    example = torch.zeros((2, channels, *((61, 83) if size is None else as_size("size", size))), dtype=dtype)
    dynamic = torch.export.Dim.DYNAMIC
    graph: torch.nn.Module = evaluation_graph(pipeline, ten_crop=ten_crop) if size is None else _Drawn(pipeline, example, draws)
    given: dict[str, Tensor] = {} if size is None else graph.given  # type: ignore[assignment]
    shapes = [
        dict.fromkeys((0, 2, 3) if size is None else (0,), dynamic),
        tuple({0: dynamic} if one.dim() else {} for one in given.values()),
    ]
    return save_graph(
        lambda: torch.export.export(graph, (example, *given.values()), dynamic_shapes=tuple(shapes[: 1 if size is None else 2])),
        path,
        inputs=["image", *given],
        outputs=["pixels", "src_from_dst"],
    )


def to_onnx(self: Any, path: str | os.PathLike[str], **options: Any) -> Path:
    """Write this pipeline as a graph that runs without Pellucid: `pellucid.export.export_pipeline` with this one.

    Args:
        path: of the file; ``.pt2`` for a ``torch.export`` program instead of ``.onnx``.
        options: of `export_pipeline`: ``dtype``, ``channels``, ``size``, ``draws``, ``ten_crop``.

    Returns:
        The path.

    Errors:
        As `export_pipeline`.

    Example:
        >>> import tempfile, pellucid
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     pellucid.Pipeline([pellucid.RandomHorizontalFlip()]).to_onnx(f"{folder}/flip.pt2", size=(8, 6)).name
        'flip.pt2'
    """
    return export_pipeline(self, path, **options)


def maps_to_picture(
    maps: Float[Tensor, "b k h w"], src_from_dst: Float[Tensor, "*b 3 3"], picture: Shaped[Tensor, "b c h2 w2"]
) -> Float[Tensor, "b k h2 w2"]:
    """Bring maps that a network made of a graph's pixels, such as logits or masks, to the pixels of the picture.

    It consists of torch's own operators, so it can be part of a graph, for any sizes. Boxes go back by
    ``functional.transform_boxes(boxes, src_from_dst)`` and points by ``functional.transform_points``, also in a graph.

    Args:
        maps: of the size of the graph's pixels; resize maps of another stride first, for example by ``F.interpolate``.
        src_from_dst: of the graph.
        picture: gives the result's height and width; its values do not matter.

    Returns:
        Interpolated between the maps' pixels; 0 in parts of the picture that the maps do not show.

    Gradient:
        maps: exact. src_from_dst: almost everywhere.

    Source:
        `Pipeline.inverse` does the same: ``tests/test_export.py``.

    Example:
        >>> import torch, pellucid
        >>> from pellucid.export import evaluation_graph, maps_to_picture
        >>> picture = torch.rand(1, 3, 6, 8)
        >>> pixels, src_from_dst = evaluation_graph(pellucid.Pipeline([pellucid.CenterCrop(4)]))(picture)
        >>> torch.allclose(maps_to_picture(pixels, src_from_dst, picture)[..., 1:5, 2:6], pixels)
        True
    """
    y, x = (torch.arange(count, dtype=torch.float64, device=maps.device) for count in picture.shape[-2:])
    points = torch.stack(torch.broadcast_tensors(x, y[:, None], _still(x)[0]), -1)  # h2 w2 3
    x, y, depth = (points @ inverse(src_from_dst.to(torch.float64)).mT[..., None, :, :]).unbind(-1)
    pairs = zip((x, y), (maps.shape[-1], maps.shape[-2]), strict=True)
    grid = torch.stack([(2.0 * place / depth + 1.0) / _number(count, maps) - 1.0 for place, count in pairs], -1)
    return F.grid_sample(maps, grid.to(maps.dtype).expand(maps.shape[0], -1, -1, -1), align_corners=False)


def evaluation_graph(pipeline: PipelineLike, *, ten_crop: int | Size | None = None) -> torch.nn.Module:
    """Return an evaluation pipeline as a module of torch's own operators, for pictures of any size.

    It takes (B, C, H, W) and returns the pixels and ``src_from_dst`` (3, 3). `torch.export.export` takes it, alone or in a model.

    Args:
        pipeline: as in `export_pipeline`.
        ten_crop: size of the views that are cut from the result: four corners, the middle, and these five mirrored, as by
            `functional.ten_crop`. The pixels are then (B, 10, C, h, w) and the maps (10, 3, 3).

    Errors:
        InvalidArgument for a step that draws or that has no such graph.

    Example:
        >>> import torch, pellucid
        >>> from pellucid.export import evaluation_graph
        >>> pixels, src_from_dst = evaluation_graph(pellucid.Pipeline([pellucid.LongestMaxSize(4)]))(torch.zeros(1, 3, 6, 8))
        >>> pixels.shape, src_from_dst[0]
        (torch.Size([1, 3, 3, 4]), tensor([2.0000, 0.0000, 0.5000]))
    """
    if not hasattr(pipeline, "transforms"):
        raise wrong_type("pipeline", expected="a Pipeline", got=repr(pipeline))
    found = [_step_of(transform) for transform in pipeline.transforms]
    if sum(step.resamples for step in found) > 1:
        fix = "Leave one out, or export for one size: export_pipeline(..., size=(height, width))."
        got = f"{sum(step.resamples for step in found)}, which the pipeline makes one of"
        raise invalid("pipeline", expected="one step that resizes", got=got, fix=fix)
    return _Graph(found, pipeline.options.dtype, None if ten_crop is None else as_size("ten_crop", ten_crop))


class _Drawn(torch.nn.Module):
    """A pipeline for pictures of one size whose draws are inputs of the graph: a key, or each drawn value by itself."""

    def __init__(self, pipeline: PipelineLike, example: Tensor, draws: str) -> None:
        super().__init__()
        if decides(pipeline.transforms, ImageSpec.of(example.shape[1], (example.shape[2], example.shape[3]))):
            fix = "Resize and crop to one size first, or export a pipeline for each size."
            raise invalid("pipeline", expected="draws that decide no size", got=repr(list(pipeline.transforms)), fix=fix)
        drawn = pipeline.draw(example, key=Key())
        self.pipeline = pipeline
        self.plan, self.keyed = drawn.plan, draws == "key"
        self.given: dict[str, Tensor] = {f"{k}.{name}": one for k, some in enumerate(drawn.params) for name, one in some.items()}
        self.names = [tuple(name.split(".")) for name in self.given]
        if self.given and self.keyed:
            self.given = {"seed": torch.tensor(0), "step": torch.tensor(0), "index": torch.arange(len(example))}

    def forward(self, image: Tensor, *given: Tensor) -> tuple[Tensor, ...]:
        if self.keyed:
            record = self.pipeline.draw(image, key=Key(*given))
        else:
            params: tuple[dict[str, Tensor], ...] = tuple({} for _ in self.plan.steps)
            for (k, name), value in zip(self.names, given, strict=True):
                params[int(k)][name] = value
            record = Record(self.plan, params, image.shape[0])
        pixels = self.pipeline.apply(image, record)
        return (pixels,) if self.plan.bends else (pixels, record.src_from_dst.to(torch.float32))


class _Graph(torch.nn.Module):
    def __init__(self, steps: list[_Step], dtype: torch.dtype | None, ten_crop: Size | None) -> None:
        super().__init__()
        self.steps = torch.nn.ModuleList(steps)
        places = [partial(_corner, down, across, ten_crop) for down in (0, 1) for across in (0, 1)] if ten_crop else []
        self.crops = torch.nn.ModuleList(_Placed(place) for place in (*places, *([partial(_cut, ten_crop)] if ten_crop else ())))
        self.dtype = dtype
        self.normalises = any(isinstance(step, _Colours) and step.normalises for step in steps)

    def forward(self, image: Tensor) -> tuple[Tensor, Float[Tensor, "3 3"]]:
        pixels, most = (image.to(torch.float32), 255.0) if image.dtype == torch.uint8 else (image, 1.0)
        one, zero = _still(image)
        rows, columns = (one, zero), (one, zero)
        for step in self.steps:
            pixels, down, across = step(pixels, most)
            rows, columns = _after(rows, down), _after(columns, across)
        if image.dtype == torch.uint8 and not self.normalises and self.dtype in (None, torch.uint8):
            pixels = torch.round(pixels).clamp(0, 255).to(torch.uint8)
        elif not self.normalises:
            pixels = pixels / most
        pixels = pixels if self.dtype is None else pixels.to(self.dtype)
        if not self.crops:
            return pixels, _matrix(rows, columns)
        mirrored = _after(columns, (-one, _number(pixels.shape[-1] - 1, image)))
        found = [
            (view, _matrix(_after(rows, down), _after(seen, across)))
            for one_way, seen in ((pixels, columns), (pixels.flip(-1), mirrored))
            for view, down, across in (step(one_way, most) for step in self.crops)
        ]
        return torch.stack([view for view, _ in found], 1), torch.stack([matrix for _, matrix in found])


class _Step(torch.nn.Module):
    resamples = False

    def forward(self, pixels: Tensor, most: float) -> Moved:
        raise NotImplementedError


class _Colours(_Step):
    """Normalise, or undo it: a product and a sum for each channel."""

    def __init__(self, mean: tuple[float, ...], std: tuple[float, ...], *, normalises: bool) -> None:
        super().__init__()
        self.mean, self.std, self.normalises = mean, std, normalises

    def forward(self, pixels: Tensor, most: float) -> Moved:
        mean, std = (torch.tensor(one, dtype=pixels.dtype, device=pixels.device).reshape(-1, 1, 1) for one in (self.mean, self.std))
        still = _still(pixels)
        return (pixels / most - mean) / std if self.normalises else pixels * std + mean, still, still


class _Resized(_Step):
    """Resize to the size that ``size_of`` computes from (height, width), by one matrix product for each axis."""

    resamples = True

    def __init__(self, size_of: Callable[[int, int], tuple[int, int]], interpolation: Interpolation, *, antialias: bool) -> None:
        super().__init__()
        self.size_of, self.how, self.antialias = size_of, interpolation, antialias

    def forward(self, pixels: Tensor, most: float) -> Moved:
        del most
        sizes = pixels.shape[-2], pixels.shape[-1]
        (down, rows), (across, columns) = (
            self._weights(old, new, pixels) for old, new in zip(sizes, self.size_of(*sizes), strict=True)
        )
        return down @ pixels @ across.mT, rows, columns

    def _weights(self, old: int, new: int, like: Tensor) -> tuple[Float[Tensor, "new old"], Axis]:
        """Return the weight of each old pixel in each new one, and the map of this axis."""
        step = _number(old, like) / _number(new, like)
        center = (torch.arange(new, dtype=torch.float64, device=like.device) + 0.5) * step
        place = torch.arange(old, dtype=torch.float64, device=like.device) + 0.5
        if self.how == "nearest":
            share = (torch.floor(center)[:, None] == torch.floor(place)).to(torch.float64)
        else:
            width = torch.clamp(step, min=1.0) if self.antialias else torch.ones_like(step)
            center = center if self.antialias else torch.minimum(torch.clamp(center, min=0.5), _number(old, like) - 0.5)
            x = torch.abs(place - center[:, None]) / width
            share = torch.relu(1.0 - x) if self.how == "bilinear" else _cubic(x)
            share = share / share.sum(1, keepdim=True)
        return share.to(like.dtype), (step, 0.5 * step - 0.5)


class _Placed(_Step):
    """Put the picture on a canvas of another size, at an offset, and cut off what lies outside: a crop or a pad."""

    def __init__(
        self, place_of: Callable[[int, int], tuple[int, int, int, int]], fill: Fill = 0.0, mode: PaddingMode = "constant"
    ) -> None:
        super().__init__()
        self.place_of, self.fill, self.mode = place_of, fill, mode

    def forward(self, pixels: Tensor, most: float) -> Moved:
        del most
        height, width = pixels.shape[-2], pixels.shape[-1]
        top, left, new_height, new_width = self.place_of(height, width)
        y, rows = self._taken(top, height, new_height, pixels)
        x, columns = self._taken(left, width, new_width, pixels)
        out = pixels.index_select(-2, y.clamp(min=0).minimum(_number(height - 1, y, y.dtype))).index_select(
            -1, x.clamp(min=0).minimum(_number(width - 1, x, x.dtype))
        )
        if self.mode in ("constant", "zeros"):
            inside = ((y >= 0) & (y < height))[:, None] & ((x >= 0) & (x < width))
            fill = self.fill if self.mode == "constant" else 0.0
            out = torch.where(inside, out, torch.tensor(fill, dtype=out.dtype, device=out.device).reshape(-1, 1, 1))
        return out, rows, columns

    def _taken(self, offset: int, old: int, new: int, like: Tensor) -> tuple[Tensor, Axis]:
        """Return the old row that each new row shows (a row outside of the picture for padding), and the map of this axis."""
        index = torch.arange(new, device=like.device) - offset
        if self.mode == "reflection":
            index = torch.remainder(index, _number(2 * old, index, index.dtype))
            index = torch.minimum(index, 2 * old - 1 - index)
        elif self.mode == "reflect_101":
            index = torch.remainder(index, _number(torch.sym_max(2 * old - 2, 1), index, index.dtype))
            index = torch.minimum(index, 2 * old - 2 - index)
        still = _still(like)
        return index, (still[0], -_number(offset, like))


def _matrix(rows: Axis, columns: Axis) -> Float[Tensor, "3 3"]:
    one, zero = _still(rows[0])
    matrix = torch.stack((columns[0], zero, columns[1], zero, rows[0], rows[1], zero, zero, one))
    return matrix.reshape(3, 3).to(torch.float32)


def _after(first: Axis, second: Axis) -> Axis:
    """Compose the maps of one axis: from the second step's output to the first step's input."""
    return first[0] * second[0], first[0] * second[1] + first[1]


def _still(like: Tensor) -> Axis:
    return tuple(torch.full((), value, dtype=torch.float64, device=like.device) for value in (1.0, 0.0))  # type: ignore[return-value]


def _number(value: int, like: Tensor, dtype: torch.dtype = torch.float64) -> Tensor:
    """Return an integer as a tensor; in a graph it may be known only at run time."""
    return torch.scalar_tensor(value, dtype=dtype, device=like.device)


def _cubic(x: Tensor) -> Tensor:
    """Return Keys' cubic kernel with a = -1/2 at distances x."""
    near = (1.5 * x - 2.5) * x * x + 1.0
    far = ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0
    return torch.where(x < 1.0, near, torch.where(x < 2.0, far, 0.0))


def _rounded(a: int, b: int) -> int:
    """Return ``round(a / b)`` for a >= 0, with halves to the even number."""
    quotient, rest = (2 * a + b) // (2 * b), (2 * a + b) % (2 * b)
    return quotient - (1 - torch.sym_min(rest, 1)) * (quotient % 2)


def _shorter(size: int, height: int, width: int) -> tuple[int, int]:
    least = torch.sym_min(height, width)
    return torch.sym_max(1, size * height // least), torch.sym_max(1, size * width // least)


def _fitting(size: Size, height: int, width: int) -> tuple[int, int]:
    """Return the largest (height, width) of the same proportions that fits into ``size``, with halves rounded up."""
    down = torch.sym_min(size[0], (2 * height * size[1] + width) // (2 * width))
    across = torch.sym_min(size[1], (2 * width * size[0] + height) // (2 * height))
    return torch.sym_max(1, down), torch.sym_max(1, across)


def _inner(size: Size, height: int, width: int) -> tuple[int, int]:
    """Return the same as `_fitting` with halves rounded to the even number."""
    down = torch.sym_min(size[0], _rounded(height * size[1], width))
    across = torch.sym_min(size[1], _rounded(width * size[0], height))
    return torch.sym_max(1, down), torch.sym_max(1, across)


def _evenly(size: Size, height: int, width: int) -> tuple[int, int, int, int]:
    """Return the place of a picture in the middle of a larger canvas; of an odd margin, the smaller half comes first."""
    return (size[0] - height) // 2, (size[1] - width) // 2, *size


def _cut(size: Size, height: int, width: int) -> tuple[int, int, int, int]:
    """Return the place of a centred crop; a picture smaller than the crop is centred in it."""
    offsets = []
    for length, wanted in zip((height, width), size, strict=True):
        spare, missing = torch.sym_max(length - wanted, 0), torch.sym_max(wanted - length, 0)
        offsets.append(missing // 2 - _rounded(spare, 2))
    return offsets[0], offsets[1], *size


def _corner(down: int, across: int, size: Size, height: int, width: int) -> tuple[int, int, int, int]:
    return down * (size[0] - height), across * (size[1] - width), *size


def _needed(size: Size, height: int, width: int) -> tuple[int, int, int, int]:
    down, across = torch.sym_max(size[0], height), torch.sym_max(size[1], width)
    return (down - height) // 2, (across - width) // 2, down, across


def _padded(padding: tuple[int, int, int, int], height: int, width: int) -> tuple[int, int, int, int]:
    left, top, right, bottom = padding
    return top, left, height + top + bottom, width + left + right


class _Letterboxed(_Step):
    resamples = True

    def __init__(self, one: Letterbox) -> None:
        super().__init__()
        size = as_size("Letterbox.size", one.size)
        self.resized = _Resized(partial(_inner, size), one.interpolation, antialias=one.antialias)
        self.placed = _Placed(partial(_evenly, size), one.fill)

    def forward(self, pixels: Tensor, most: float) -> Moved:
        small, down, across = self.resized(pixels, most)
        out, top, left = self.placed(small, most)
        return out, _after(down, top), _after(across, left)


def _step_of(transform: Transform) -> _Step:
    name = type(transform).__name__
    resizes = isinstance(transform, Resize | LongestMaxSize | Letterbox)
    if resizes and getattr(transform, "interpolation", "") == "bicubic" and not getattr(transform, "antialias", True):
        raise invalid(f"{name}.antialias", expected="True with bicubic interpolation, to be exported", got=False)
    if isinstance(transform, Normalize | Denormalize):
        return _Colours(transform.mean, transform.std, normalises=isinstance(transform, Normalize))
    if isinstance(transform, Letterbox):
        return _Letterboxed(transform)
    if isinstance(transform, Resize | LongestMaxSize):
        size = transform.size
        rule: Callable[[int, int], tuple[int, int]] = partial(_fitting, as_size(name, size))
        if isinstance(transform, Resize):
            rule = partial(_shorter, size) if isinstance(size, int) else partial(_fixed, as_size(name, size))
        return _Resized(rule, transform.interpolation, antialias=transform.antialias)
    if isinstance(transform, CenterCrop):
        return _Placed(partial(_cut, as_size(name, transform.size)), transform.fill)
    if isinstance(transform, PadIfNeeded):
        return _Placed(partial(_needed, as_size(name, transform.size)), transform.fill, transform.padding_mode)
    if isinstance(transform, Pad):
        return _Placed(partial(_padded, as_padding(name, transform.padding)), transform.fill, transform.padding_mode)
    fix = "For pictures of one size all steps can be exported: export_pipeline(..., size=(height, width))."
    expected = "steps of evaluation: Resize, LongestMaxSize, Letterbox, CenterCrop, Pad, PadIfNeeded, Normalize, Denormalize"
    raise invalid("pipeline", expected=expected, got=name, fix=fix)


def _fixed(size: Size, height: int, width: int) -> tuple[int, int]:
    del height, width
    return size
