"""``pellucid gallery``: a page that shows every transform on a photograph of yours or of scikit-image's.

Owns: the command, the pictures of a transform, and the page around them.
Must not: list transforms; `ALL` does.
Read next: ``draw.py``.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pellucid.cli.errors import need

if TYPE_CHECKING:
    from jaxtyping import Float, UInt8
    from PIL.Image import Image
    from torch import Tensor

    from pellucid.pipeline.records import Record
    from pellucid.transforms.base import Transform

__all__ = ["Entry", "contents", "entries", "example", "facts", "fragment", "gallery", "photograph", "summary"]

SIZE = 160
"""Height and width of the photograph in the gallery, in pixels."""
_DRAWS, _STEPS = 3, 5

# For fields without a default, by the field's name: values whose effect is visible on a photograph of this size.
_REQUIRED: Mapping[str, Any] = {
    "size": (112, 128),
    "sizes": (96, 128),
    "degrees": 30,
    "shear": 20,
    "padding": 24,
    "mean": (0.5, 0.5, 0.5),
    "std": (0.25, 0.25, 0.25),
}
# Options for transforms whose defaults have no visible effect.
_SHOWN: Mapping[str, Mapping[str, Any]] = {
    "ColorJitter": {"brightness": 0.4, "contrast": 0.4, "saturation": 0.6, "hue": 0.1},
    "RandomAffine": {"degrees": 20, "translate": (0.1, 0.1), "scale": (0.8, 1.2), "shear": 10},
    "RandomResizedCrop": {"scale": (0.2, 0.8)},
    "RandomHue": {"hue": 0.3},
    "RandomSharpness": {"sharpness": (0.0, 6.0)},
    "RandomGaussianBlur": {"sigma": (0.1, 4.0)},
    "PadIfNeeded": {"size": (180, 220)},
    "Denormalize": {"mean": (0.3, 0.3, 0.3), "std": (0.5, 0.5, 0.5)},
    "LongestMaxSize": {"size": 96},
    "GridShuffle": {"grid": 4},
    "CopyPaste": {"share": 1.0},
}


@dataclass(frozen=True)
class Entry:
    """The gallery's pictures of one transform.

    Args:
        transform: the transform with the options of the example.
        draws: (caption, picture) of the original, the draws, and the gradient.
        swept: (caption, picture) for several values of one drawn number; empty if nothing can be swept.
    """

    transform: Transform
    draws: Sequence[tuple[str, Image]]
    swept: Sequence[tuple[str, Image]]


def gallery(
    image: Annotated[Path | None, typer.Argument(metavar="IMAGE", help="A picture of yours; default a photograph.")] = None,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for the page.")] = Path("gallery"),
    seed: Annotated[int, typer.Option(help="Seed of the draws.")] = 0,
) -> None:
    r"""Show every transform: before, three draws, its magnitude swept, its gradient; write index.html.

    Without IMAGE, needs scikit-image for its photograph: pip install 'pellucid\[demo]'.
    """
    from rich.console import Console
    from rich.progress import track

    from pellucid.cli.files import page, write_bytes
    from pellucid.transforms import ALL

    if image is None:
        need("demo", "skimage")
    console = Console()
    batch = photograph(image)
    shown = list(track(entries(batch, seed=seed), "Drawing", total=len(ALL), console=console))
    sections = [f"<section>{_heading(entry)}{fragment(entry, output)}</section>" for entry in shown]
    parts = {"contents": contents(shown, "#{}".format), "sections": "\n".join(sections)}
    content = page("gallery", count=len(sections), seed=seed, **parts)
    write_bytes(output / "index.html", content)
    console.print(f"Wrote {output / 'index.html'}.", highlight=False, markup=False, soft_wrap=True)


def photograph(path: Path | None = None) -> dict[str, Tensor]:
    """Return a batch of two square pictures with targets: the first is shown, the second is for transforms that mix pictures.

    Each object's mask is the ellipse in its box; in a picture of yours, the box is the central half.
    """
    import torch

    from pellucid.cli.annotations import ANNOTATIONS
    from pellucid.cli.files import read_image
    from pellucid.cli.photographs import load_batch
    from pellucid.pipeline import Pipeline
    from pellucid.transforms.crop import CenterCrop
    from pellucid.transforms.resize import Resize

    if path is None:
        batch = load_batch(ANNOTATIONS[:2], SIZE)  # transforms that mix pictures need a second one
        return {**batch, "masks": _ellipses(batch["boxes"])}
    image = read_image(path)
    prepare = Pipeline([CenterCrop(min(image.shape[-2:])), Resize((SIZE, SIZE))])
    low, high = SIZE / 4, 3 * SIZE / 4
    boxes = torch.tensor([[[low, low, high, high]]] * 2)
    return {
        "image": prepare(torch.stack((image, image.flip(-1).flip(-2)))),
        "boxes": boxes,
        "masks": _ellipses(boxes),
        "boxes_valid": torch.ones((2, 1), dtype=torch.bool),
        "keypoints": torch.tensor([[[low, low], [high, low], [high, high], [low, high]]] * 2) - 0.5,
        "keypoints_valid": torch.ones((2, 4), dtype=torch.bool),
    }


def _ellipses(boxes: Float[Tensor, "b n 4"]) -> UInt8[Tensor, "b n h w"]:
    import torch

    place = torch.arange(SIZE) + 0.5
    middle, half = (boxes[..., :2] + boxes[..., 2:]) / 2, (boxes[..., 2:] - boxes[..., :2]) / 2
    across, down = (((place - middle[..., i, None]) / half[..., i, None].clamp(min=1e-6)) ** 2 for i in (0, 1))
    return (across[..., None, :] + down[..., :, None] < 1.0).to(torch.uint8)


def entries(batch: Mapping[str, Tensor], *, seed: int = 0) -> Iterator[Entry]:
    """Yield the gallery's entry for each transform of `ALL`, shown on the first picture of a batch."""
    from pellucid.transforms import ALL

    for kind in ALL:
        yield _entry(example(kind), batch, seed)


def example(kind: type[Transform]) -> Transform:
    """Make a transform of this class that changes every picture: its gate is open, and fields without a default get values."""
    from pellucid.transforms import PerChannel, RandomAffine, RandomBrightness, RandomGamma, RandomHue, RandomSharpness
    from pellucid.types import ImageSpec

    options: dict[str, Any] = {}
    for field in fields(kind):  # type: ignore[arg-type]
        if field.name == "p" and field.default is not None:
            options["p"] = 1.0
        elif field.name == "transforms" and kind is PerChannel:  # takes transforms of one channel that keep pixels in place
            options["transforms"] = (RandomBrightness(0.3), RandomGamma((0.5, 2.0)))
        elif field.name == "transforms":
            options["transforms"] = (RandomAffine(degrees=30), RandomHue(0.3), RandomSharpness(sharpness=(4.0, 6.0)))
        elif field.default is MISSING and field.default_factory is MISSING:
            options[field.name] = _REQUIRED[field.name]
    options |= _SHOWN.get(kind.__name__, {})
    if kind(**options).decides(ImageSpec(3, SIZE, SIZE)):  # it draws sizes, and a batch needs one size
        options["same_on_batch"] = True
    return kind(**options)


def _entry(transform: Transform, batch: Mapping[str, Tensor], seed: int) -> Entry:
    from pellucid.cli.draw import heat
    from pellucid.cli.gradients import arriving
    from pellucid.pipeline import Pipeline
    from pellucid.random import Key

    pipeline = Pipeline([transform], impl="reference")  # each kernel would be compiled for one use
    records = [pipeline.draw(batch, key=Key(seed=seed, step=step)) for step in range(_DRAWS)]
    draws = [("Before", _picture(batch))]
    if records[0].params[0] or len(records[0].params) > 1:
        draws += [(f"Draw {i + 1}", _picture(pipeline.apply(batch, record))) for i, record in enumerate(records)]
    else:  # nothing is drawn
        draws.append(("After", _picture(pipeline.apply(batch, records[0]))))
    draws.append(("Gradient", heat(arriving(pipeline, batch["image"], records[0]))))
    swept = [
        (f"{name} = {value:.3g}", _picture(pipeline.apply(batch, record))) for name, value, record in _sweep(transform, records[0])
    ]
    return Entry(transform, draws, swept)


def _picture(batch: Mapping[str, Tensor]) -> Image:
    from pellucid.cli.draw import draw_targets

    return draw_targets({key: value[0] for key, value in batch.items()})


def _sweep(transform: Transform, record: Record) -> Iterator[tuple[str, float, Record]]:
    """Yield (name, value, record) over the range of the first drawn value, or half to double of a fixed one; others stay mid."""
    import math

    import torch

    from pellucid.random import Categorical

    spec = record.plan.specs[0]
    drawn = {n: d for n, d in transform.draws(spec).items() if not n.endswith("gate") and not d.vector}
    spans = {name: one.span() for name, one in drawn.items() if all(map(math.isfinite, one.span()))}
    swept = next((name for name, (low, high) in spans.items() if low < high), None)
    swept = next((name for name, (low, _) in spans.items() if low), None) if swept is None else swept
    if swept is None:
        return
    for name, (low, high) in spans.items():
        if record.params[0][name].is_floating_point():
            record = record.with_param(0, name, torch.full_like(record.params[0][name], (low + high) / 2))
    low, high = spans[swept]
    whole = isinstance(drawn[swept], Categorical) or (low == high and float(low).is_integer())
    ends = (low, high) if low < high else (low / 2, low * 2)
    values = [ends[0] + (ends[1] - ends[0]) * i / (_STEPS - 1) for i in range(_STEPS)]
    for value in dict.fromkeys(round(value) for value in values) if whole else values:
        yield swept, value, record.with_param(0, swept, torch.full_like(record.params[0][swept], value))


def contents(shown: Sequence[Entry], link: Callable[[str], str], note: Callable[[str], str] = lambda _: "") -> str:
    """Thumbnails by group, as HTML; each links to ``link(name)`` of its transform and carries ``note(name)``."""
    from pellucid.transforms import GROUPS

    parts = []
    for group, kinds in GROUPS.items():
        cells = []
        for entry in (entry for entry in shown if type(entry.transform) in kinds):
            kind, (width, height) = type(entry.transform), entry.draws[1][1].size
            name = kind.__name__
            picture = f'<img src="{name}-draws-1.webp" width="{width}" height="{height}" loading="lazy" alt="">'
            cells.append(f'<a href="{link(name)}">{picture}<b>{name}</b><span>{escape(summary(kind))}</span>{note(name)}</a>')
        if cells:
            parts.append(f'<p class="group">{group}</p><div class="thumbnails">{"".join(cells)}</div>')
    return "\n".join(parts)


def summary(kind: type[Transform]) -> str:
    """The first line of a transform's docstring."""
    return (kind.__doc__ or "").strip().split("\n")[0].replace("``", "")


def fragment(entry: Entry, folder: Path) -> str:
    """Write the pictures of an entry into the folder, and return the HTML that shows them."""
    from pellucid.cli.files import write_bytes

    name = type(entry.transform).__name__
    rows = []
    for title, pictures in (("draws", entry.draws), ("sweep", entry.swept)):
        cells = []
        for i, (caption, picture) in enumerate(pictures):
            file = f"{name}-{title}-{i}.webp"
            buffer = io.BytesIO()
            picture.save(buffer, format="WEBP", quality=85)
            write_bytes(folder / file, buffer.getvalue())
            size = f'width="{picture.width}" height="{picture.height}"'
            if title == "draws" and picture.size != (SIZE, SIZE):  # all pictures of a sweep have one size
                caption += f" ({picture.height} x {picture.width})"
            alternative = f"{name}: {caption}"
            cells.append(
                f'<figure><img src="{file}" {size} loading="lazy" alt="{escape(alternative)}">'
                f"<figcaption>{escape(caption)}</figcaption></figure>"
            )
        if cells:
            rows.append(f'<div class="pictures">{"".join(cells)}</div>')
    return "".join(rows)


def facts(entry: Entry) -> tuple[str, str]:
    """The code that makes the transform, and the gradients that it declares."""
    transform, given = entry.transform, []
    for field in fields(transform):  # type: ignore[arg-type]
        value = getattr(transform, field.name)
        if field.default is MISSING or value != field.default:
            shown = ", ".join(map(repr, value)) if field.name == "transforms" else repr(value)
            given.append(f"{field.name}=[{shown}]" if field.name == "transforms" else f"{field.name}={shown}")
    kinds: dict[str, list[str]] = {}
    for name, kind in transform.gradients.items():
        kinds.setdefault(kind.replace("_", " "), []).append(name)
    declared = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in kinds.items())
    return f"{type(transform).__name__}({', '.join(given)})", declared


def _heading(entry: Entry) -> str:
    code, declared = facts(entry)
    name = type(entry.transform).__name__
    return f'<h2 id="{name}">{name}</h2><p><code>{escape(code)}</code><br>Gradients: {escape(declared)}</p>'
