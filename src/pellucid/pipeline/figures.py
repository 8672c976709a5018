"""A pipeline's draws as a figure: pictures with their targets, before and after.

Owns: the figure of `Pipeline.show`.
Must not: be needed by anything else, or import matplotlib before a figure is drawn.
Read next: ``notebook.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from pellucid.boxes import convert_boxes
from pellucid.errors import ImplementationError, invalid
from pellucid.geometry.polygons import polygon_of, rings_of
from pellucid.random.key import Key
from pellucid.targets.kinds import KINDS
from pellucid.targets.options import kind_in
from pellucid.transforms.color import Denormalize, Normalize

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["displayable", "show"]

_COLOURS = ("#ffd60a", "#00aaff", "#ff4081", "#00d68f")


def show(self: Any, batch: Any, *, draws: int = 3, samples: int = 4, key: Key | None = None) -> Figure:
    """Draw this pipeline's results for a batch: a row for each sample, as it is and after some draws, with its targets.

    Args:
        batch: as in the call: tensors, lists of pictures, or a dict of targets; masks are tinted, boxes and keypoints drawn.
        draws: the number of columns after the first: what the next ``draws`` calls would return.
        samples: the largest number of rows; under ``share`` each picture of a sample has its own row.
        key: of the first draw; default the pipeline's seed and step, which do not advance.

    Returns:
        A ``matplotlib.figure.Figure``; a notebook shows it, and ``figure.savefig("draws.png")`` writes it.

    Gradient:
        None: it is for looking.

    Errors:
        ImplementationError without matplotlib; InvalidArgument for numbers below 1, and for a dict without an image.

    Example:
        >>> figure = pellucid.Pipeline([pellucid.RandomHorizontalFlip()], seed=0).show(torch.rand(2, 3, 8, 8), draws=2)
        >>> len(figure.axes)
        6
    """
    for name, number in (("draws", draws), ("samples", samples)):
        if not isinstance(number, int) or number < 1:
            raise invalid(name, expected="an integer >= 1", got=repr(number))
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImplementationError("show needs matplotlib. Install it with: pip install 'pellucid[demo]'") from error
    first = Key(seed=int(self._seed), step=int(self._step)) if key is None else key
    with torch.no_grad():
        keys = [Key(first.seed, first.step + i, first.index) for i in range(draws)]
        versions = [batch, *(self.apply(batch, self.draw(batch, key=one)) for one in keys)]
    names = [_rows(self, version) for version in versions]
    count = min(samples, len(names[0]))
    figure = Figure(figsize=(2.4 * len(versions), 2.5 * count), layout="constrained")
    axes = figure.subplots(count, len(versions), squeeze=False)
    for column, version in enumerate(names):
        for row in range(count):
            _draw(axes[row][column], version[row], () if column == 0 else self.transforms)
            axes[row][column].axis("off")
        axes[0][column].set_title("before" if column == 0 else f"draw {column}", fontsize=10)
    return figure


def displayable(transforms: Sequence[Any], image: Tensor) -> Tensor:
    """Return an image in [0, 1]: undo normalisation, and divide bytes by 255."""
    shown = image.detach().to("cpu", torch.float32) / (255.0 if image.dtype == torch.uint8 else 1.0)
    for transform in reversed(transforms):
        if isinstance(transform, Normalize):
            shown = Denormalize(mean=transform.mean, std=transform.std)(shown)
    return shown


def _rows(pipeline: Any, batch: Any) -> list[dict[str, tuple[str, Any]]]:
    """Return the content of each row: a sample, or one picture of a sample if each has its own draws."""
    parts = [batch] if pipeline._scene is None else pipeline._scene.parts(batch).each.values()
    return [row for rows in zip(*(_pictures(pipeline, part) for part in parts), strict=True) for row in rows]


def _pictures(pipeline: Any, batch: Any) -> list[dict[str, tuple[str, Any]]]:
    """Return for each sample (kind, value) by key; validity flags keep their own keys."""
    parts = batch if isinstance(batch, Mapping) else {"image": batch}
    kinds = {key: kind_in(key, value, pipeline.options) for key, value in parts.items()}
    image = next((key for key, kind in kinds.items() if kind is not None and kind.name == "image"), None)
    if image is None:
        named = ", ".join(f"{key} ({kind.name})" if kind else key for key, kind in kinds.items())
        raise invalid("batch", expected="an image, to draw on", got=f"a dict of {named}")
    values = parts[image]
    single = not isinstance(values, Sequence) and getattr(values, "ndim", 3) == 3  # PIL images have no ndim
    samples: list[dict[str, tuple[str, Any]]] = []
    for i in range(1 if single else len(values)):
        one: dict[str, tuple[str, Any]] = {}
        for key, value in parts.items():
            kind, mine = kinds[key], value if single else value[i]
            if kind is None and key.endswith("_valid"):
                one[key] = ("flag", mine)
            elif kind is not None and kind.axes:
                form = f":{pipeline.options.box_format_of(key)}" if kind.name == "boxes" else ""
                one[key] = (kind.name + form, mine)
        samples.append(one)
    return samples


def _draw(axes: Axes, sample: Mapping[str, tuple[str, Any]], transforms: Sequence[Any]) -> None:
    for key, (kind, value) in sample.items():
        valid = sample.get(f"{key}_valid", ("flag", None))[1]
        if kind == "image":
            axes.imshow(_array(value, transforms))
        elif kind == "mask":
            classes = torch.as_tensor(value).detach().cpu()
            classes = classes if classes.ndim == 2 else classes.amax(0)
            axes.imshow(
                classes.numpy(), alpha=(classes > 0).numpy() * 0.45, cmap="tab10", vmin=0, vmax=9, interpolation="nearest", zorder=1
            )
        elif kind.startswith("boxes"):
            _boxes(axes, torch.as_tensor(value), kind.removeprefix("boxes:"), valid)
        elif kind in ("polygons", "polylines", "quads"):
            _polygons(axes, value, KINDS[kind].corners)
        elif kind == "keypoints":
            points = torch.as_tensor(value).detach().cpu()[..., :2]
            points = points if valid is None else points[torch.as_tensor(valid).cpu()]
            axes.scatter(points[:, 0].numpy(), points[:, 1].numpy(), s=14, c="white", edgecolors="black", linewidths=0.8, zorder=3)


def _boxes(axes: Axes, boxes: Tensor, form: Any, valid: Any) -> None:
    from matplotlib.patches import Rectangle

    corners = convert_boxes(boxes.detach().cpu().to(torch.float32), form, "xyxy")
    keep = (corners[:, 2:] > corners[:, :2]).all(-1) if valid is None else torch.as_tensor(valid).cpu()
    for i, (left, top, right, bottom) in enumerate(corners.tolist()):
        if keep[i]:  # minus 0.5, because matplotlib has pixel centres at whole numbers
            colour = _COLOURS[i % len(_COLOURS)]
            axes.add_patch(
                Rectangle((left - 0.5, top - 0.5), right - left, bottom - top, fill=False, edgecolor=colour, linewidth=1.4)
            )


def _polygons(axes: Axes, value: Any, form: str) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    polygons = value if isinstance(value, Tensor | np.ndarray) else [polygon_of("polygons", one, form) for one in value]
    for i, polygon in enumerate(polygons):
        rings = [ring.detach().cpu().numpy() - 0.5 for ring in rings_of(torch.as_tensor(polygon))]
        colour = _COLOURS[i % len(_COLOURS)]
        for ring in rings if form != "polygon" else ():  # lines; a quadrilateral gets a dot at its first corner
            axes.plot(
                *(ring if form == "line" else np.concatenate((ring, ring[:1]))).T,
                color=colour,
                linewidth=1.8,
                scalex=False,
                scaley=False,
            )
            axes.plot(*(ring[:1] if form == "quad" else ring[:0]).T, "o", color=colour, markersize=4, scalex=False, scaley=False)
        if rings and form == "polygon":  # as one path, whose holes stay open
            closed = [np.concatenate((ring, ring[:1])) for ring in rings]
            path = Path.make_compound_path(*(Path(ring, closed=True) for ring in closed))
            axes.add_patch(PathPatch(path, facecolor=colour + "55", edgecolor=colour))


def _array(value: Any, transforms: Sequence[Any]) -> Any:
    """Return (H, W, 3) in [0, 1] from a tensor (C, H, W) or (T, C, H, W); arrays and PIL images stay unchanged."""
    if not isinstance(value, Tensor):
        return value
    frame = value if value.ndim == 3 else value[0]  # of a video, the first
    shown = displayable(transforms, frame).clamp(0.0, 1.0)
    return (shown if shown.shape[0] == 3 else shown[:1].expand(3, -1, -1)).permute(1, 2, 0).numpy()
