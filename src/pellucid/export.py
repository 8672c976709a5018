"""Evaluation pipelines as graphs of standard operators, for pictures of any size: ``torch.export`` programs and ONNX.

Owns: `evaluation_graph`, `export_pipeline`; the arithmetic of sizes in whole numbers, which a graph can do.
Must not: draw, or use an operator of Pellucid's.
Read next: ``transforms/resize.py``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.core.graphs import save_graph
from pellucid.errors import invalid, wrong_type
from pellucid.transforms.base import Transform, as_padding, as_size
from pellucid.transforms.color import Denormalize, Normalize
from pellucid.transforms.crop import CenterCrop
from pellucid.transforms.resize import Letterbox, LongestMaxSize, Pad, PadIfNeeded, Resize
from pellucid.types import Fill, Interpolation, PaddingMode, Size

if TYPE_CHECKING:
    from pellucid.pipeline.module import Pipeline

__all__ = ["evaluation_graph", "export_pipeline"]

Axis: TypeAlias = tuple[Tensor, Tensor]
"""Along one axis, input = first * output + second, in pixels."""

Moved: TypeAlias = tuple[Tensor, Axis, Axis]
"""A picture (b, c, h, w), and where its rows and columns come from."""


def export_pipeline(
    pipeline: Pipeline, path: str | os.PathLike[str], *, dtype: torch.dtype = torch.uint8, channels: int = 3
) -> Path:
    """Write an evaluation pipeline as a graph that runs without Pellucid: ``.onnx``, or ``.pt2`` for a ``torch.export`` program.

    Its input is ``image`` (B, C, H, W), with any B, H and W. Its outputs are ``pixels``, what the pipeline makes of them, and
    ``src_from_dst`` (3, 3), the map from the result's pixels to the original's: boxes and points that a network finds go back
    through it.

    Args:
        pipeline: of Resize, LongestMaxSize, Letterbox, CenterCrop, Pad, PadIfNeeded, Normalize and Denormalize.
        path: of the file.
        dtype: of the pictures: torch.uint8, or torch.float32 in [0, 1].
        channels: of the pictures.

    Returns:
        The path.

    Errors:
        InvalidArgument for a step that draws or that has no such graph, and for another ending. ImportError where ONNX is wanted
        and not installed.
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
    graph = evaluation_graph(pipeline)
    example = torch.zeros((2, channels, 61, 83), dtype=dtype)
    sizes = dict.fromkeys((0, 2, 3), torch.export.Dim.DYNAMIC)
    return save_graph(
        lambda: torch.export.export(graph, (example,), dynamic_shapes=(sizes,)),
        path,
        inputs=["image"],
        outputs=["pixels", "src_from_dst"],
    )


def evaluation_graph(pipeline: Pipeline) -> torch.nn.Module:
    """Return a module of torch's own operators that computes what an evaluation pipeline does, for pictures of any size.

    It takes (B, C, H, W) and gives the pixels and ``src_from_dst`` (3, 3); `torch.export.export` and `torch.jit.trace` take it.

    Args:
        pipeline: as in `export_pipeline`.

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
        raise invalid(
            "pipeline",
            expected="one step that resizes",
            got=f"{sum(step.resamples for step in found)}, which the pipeline makes one of",
            fix="Leave one out, or export for one size: torch.onnx.export(Pipeline(steps, impl='reference'), (images,), ...).",
        )
    return _Graph(found, pipeline.options.dtype)


class _Graph(torch.nn.Module):
    def __init__(self, steps: list[_Step], dtype: torch.dtype | None) -> None:
        super().__init__()
        self.steps = torch.nn.ModuleList(steps)
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
        matrix = torch.stack((columns[0], zero, columns[1], zero, rows[0], rows[1], zero, zero, one))
        return pixels, matrix.reshape(3, 3).to(torch.float32)


class _Step(torch.nn.Module):
    resamples = False

    def forward(self, pixels: Tensor, most: float) -> Moved:
        raise NotImplementedError


class _Colours(_Step):
    """A product and a sum for each channel."""

    def __init__(self, mean: tuple[float, ...], std: tuple[float, ...], *, normalises: bool) -> None:
        super().__init__()
        self.mean, self.std, self.normalises = mean, std, normalises

    def forward(self, pixels: Tensor, most: float) -> Moved:
        mean, std = (torch.tensor(one, dtype=pixels.dtype, device=pixels.device).reshape(-1, 1, 1) for one in (self.mean, self.std))
        still = _still(pixels)
        return (pixels / most - mean) / std if self.normalises else pixels * std + mean, still, still


class _Resized(_Step):
    """The size that comes of (height, width), reached by a product of matrices for each axis."""

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
        """What each new pixel takes of each old one, and where it lies."""
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
    """A canvas of another size on which the picture lies at a place, cut off where it is larger."""

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
        """Which old row each new one shows; one outside of the picture where it shows none."""
        index = torch.arange(new, device=like.device) - offset
        if self.mode == "reflection":
            index = torch.remainder(index, _number(2 * old, index, index.dtype))
            index = torch.minimum(index, 2 * old - 1 - index)
        elif self.mode == "reflect_101":
            index = torch.remainder(index, _number(torch.sym_max(2 * old - 2, 1), index, index.dtype))
            index = torch.minimum(index, 2 * old - 2 - index)
        still = _still(like)
        return index, (still[0], -_number(offset, like))


def _after(first: Axis, second: Axis) -> Axis:
    """From the result of a second step to what the first one read."""
    return first[0] * second[0], first[0] * second[1] + first[1]


def _still(like: Tensor) -> Axis:
    return tuple(torch.full((), value, dtype=torch.float64, device=like.device) for value in (1.0, 0.0))  # type: ignore[return-value]


def _number(value: int, like: Tensor, dtype: torch.dtype = torch.float64) -> Tensor:
    """A whole number that the graph knows only when it runs."""
    return torch.scalar_tensor(value, dtype=dtype, device=like.device)


def _cubic(x: Tensor) -> Tensor:
    """Keys' kernel with a = -1/2, of distances."""
    near = (1.5 * x - 2.5) * x * x + 1.0
    far = ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0
    return torch.where(x < 1.0, near, torch.where(x < 2.0, far, 0.0))


def _rounded(a: int, b: int) -> int:
    """``round(a / b)``, halves to the even number, of a >= 0."""
    quotient, rest = (2 * a + b) // (2 * b), (2 * a + b) % (2 * b)
    return quotient - (1 - torch.sym_min(rest, 1)) * (quotient % 2)


def _shorter(size: int, height: int, width: int) -> tuple[int, int]:
    least = torch.sym_min(height, width)
    return torch.sym_max(1, size * height // least), torch.sym_max(1, size * width // least)


def _fitting(size: Size, height: int, width: int) -> tuple[int, int]:
    """The largest size within this one, halves rounded up; the longer side, relative to it, decides."""
    down = torch.sym_min(size[0], (2 * height * size[1] + width) // (2 * width))
    across = torch.sym_min(size[1], (2 * width * size[0] + height) // (2 * height))
    return torch.sym_max(1, down), torch.sym_max(1, across)


def _inner(size: Size, height: int, width: int) -> tuple[int, int]:
    """The same with halves rounded to the even number."""
    down = torch.sym_min(size[0], _rounded(height * size[1], width))
    across = torch.sym_min(size[1], _rounded(width * size[0], height))
    return torch.sym_max(1, down), torch.sym_max(1, across)


def _evenly(size: Size, height: int, width: int) -> tuple[int, int, int, int]:
    """In the middle of a canvas that is large enough, the smaller half first."""
    return (size[0] - height) // 2, (size[1] - width) // 2, *size


def _cut(size: Size, height: int, width: int) -> tuple[int, int, int, int]:
    """The middle of the picture, or the picture in the middle."""
    offsets = []
    for length, wanted in zip((height, width), size, strict=True):
        spare, missing = torch.sym_max(length - wanted, 0), torch.sym_max(wanted - length, 0)
        offsets.append(missing // 2 - _rounded(spare, 2))
    return offsets[0], offsets[1], *size


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
    raise invalid(
        "pipeline",
        expected="steps of evaluation: Resize, LongestMaxSize, Letterbox, CenterCrop, Pad, PadIfNeeded, Normalize, Denormalize",
        got=name,
        fix="Without draws it can be exported for one size: torch.onnx.export(Pipeline(steps, impl='reference'), (images,), ...).",
    )


def _fixed(size: Size, height: int, width: int) -> tuple[int, int]:
    del height, width
    return size
