"""``pellucid equivariance``: measure how far a model is from commuting with transforms; write tables, curves and pictures.

Owns: the command, and its output files.
Must not: measure; ``pellucid.equivariance`` does.
Read next: ``../equivariance.py``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pellucid.core.files import written

if TYPE_CHECKING:
    from torch import Tensor

    from pellucid.equivariance import EquivarianceReport

__all__ = ["equivariance"]

_PICTURES = {".png", ".jpg", ".jpeg", ".bmp", ".webp", ".tif", ".tiff"}


def equivariance(
    model: Annotated[str, typer.Argument(help="module:function, module:Class(arguments), file.py:function, or a .pt2 file.")],
    pipeline: Annotated[str, typer.Option("--pipeline", metavar="FILE", help="Written by Pipeline.save, or a preset's name.")],
    data: Annotated[Path, typer.Option("--data", metavar="DIR", exists=True, file_okay=False, help="A folder of pictures.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for tables and pictures.")] = Path(
        "equivariance"
    ),
    size: Annotated[int, typer.Option(min=1, help="Pictures are cut to squares of this size.")] = 224,
    count: Annotated[int, typer.Option(min=1, help="How many pictures, in the order of their names.")] = 16,
    draws: Annotated[int, typer.Option(min=1, help="Draws of each picture and strength.")] = 4,
    pairs: Annotated[bool, typer.Option("--pairs", help="Also measure every two transforms together.")] = False,
    worst: Annotated[bool, typer.Option("--worst", help="Also search the worst draw of each transform.")] = False,
) -> None:
    """Compare a model's answer to transformed pictures with its transformed answer, by transform and strength."""
    from pellucid import presets
    from pellucid.cli.errors import need
    from pellucid.cli.waiting import waiting
    from pellucid.equivariance import measure_equivariance
    from pellucid.pipeline import Pipeline

    need("train", "matplotlib")
    loaded = Pipeline.load(pipeline) if Path(pipeline).suffix in (".toml", ".json") else presets.load(pipeline)
    network, images = _model(model), _pictures(data, size, count)
    with waiting(f"Measuring on {len(images)} pictures"):
        report = measure_equivariance(network, loaded, images, draws=draws, pairs=pairs, worst=worst)
    output.mkdir(parents=True, exist_ok=True)
    report.save(output / "equivariance.json")
    (output / "equivariance.md").write_text(f"{report}\n")
    _curves(report, output / "curves.png")
    if report.worst:
        _worst(report, images, output / "worst.png")
    typer.echo(report)
    typer.echo(f"wrote {output}")


def _model(name: str) -> Any:
    """Load a model by its name or from its file, and put it in evaluation mode if it is a module."""
    import inspect

    import torch

    from pellucid.audit.spec import resolve
    from pellucid.errors import invalid

    found = torch.export.load(name).module() if name.endswith(".pt2") else resolve(name)
    if inspect.isclass(found) or (inspect.isfunction(found) and not inspect.signature(found).parameters):
        raise invalid("model", expected="a callable that takes a batch of pictures", got=name, fix=f"Call it first: '{name}()'.")
    return found.eval() if isinstance(found, torch.nn.Module) and not name.endswith(".pt2") else found


def _pictures(folder: Path, size: int, count: int) -> Tensor:
    import torch

    from pellucid.cli.files import read_image
    from pellucid.errors import invalid
    from pellucid.pipeline import Pipeline
    from pellucid.transforms import CenterCrop, Resize

    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in _PICTURES)[:count]
    if not files:
        raise invalid("data", expected=f"a folder with pictures ({', '.join(sorted(_PICTURES))})", got=str(folder))
    pictures = map(read_image, files)
    return torch.stack([Pipeline([CenterCrop(min(one.shape[-2:])), Resize((size, size))])(one) for one in pictures])


def _figure(width: float, height: float) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    return FigureCanvasAgg(Figure(figsize=(width, height), layout="constrained")).figure


def _curves(report: EquivarianceReport, path: Path) -> None:
    """Plot each transform's error over its strength, with the interval, and the error of resampling alone."""
    names = list(dict.fromkeys((row.transform, row.output) for row in report.rows))
    across = min(3, len(names))
    down = -(-len(names) // across)
    figure = _figure(4.2 * across, 3.0 * down)
    for i, (transform, output) in enumerate(names):
        rows = [row for row in report.rows if (row.transform, row.output) == (transform, output)]
        axes = figure.add_subplot(down, across, i + 1)
        at = [row.strength for row in rows]
        low, high = [row.error - row.margin for row in rows], [row.error + row.margin for row in rows]
        axes.fill_between(at, low, high, alpha=0.25, linewidth=0)
        axes.errorbar(at[-1:], [rows[-1].error], yerr=[rows[-1].margin], color="C0", capsize=3)  # a flip has this point alone
        axes.set_xlim(0, 1.05)
        axes.plot(at, [row.error for row in rows], marker="o", markersize=3, label="error, with its 95 % interval")
        axes.plot(at, [row.resampling for row in rows], linestyle=":", color="0.4", label="of resampling alone")
        axes.set_title(f"{transform}: {output}" if output else transform, fontsize=9)
        axes.set_xlabel("strength", fontsize=8)
        axes.set_ylim(bottom=0)
        axes.tick_params(labelsize=7)
        axes.grid(visible=True, alpha=0.25)
        if not i:
            axes.legend(fontsize=7, frameon=False)
    written(path, lambda draft: figure.savefig(draft, dpi=110, format="png"))


def _worst(report: EquivarianceReport, images: Tensor, path: Path) -> None:
    """Show, for each transform, the three pictures with the largest worst error, before and after the worst draw."""
    columns = min(3, len(images))
    figure = _figure(2.2 * 2 * columns, 2.4 * len(report.worst))
    for i, one in enumerate(report.worst):
        for j, at in enumerate(one.error.argsort(descending=True)[:columns].tolist()):
            for k, picture in enumerate((images[at], one.images[at])):
                axes = figure.add_subplot(len(report.worst), 2 * columns, i * 2 * columns + 2 * j + k + 1)
                axes.imshow(picture.clamp(0, 1).movedim(0, -1).cpu().numpy(), cmap="gray")
                axes.set_title(f"{one.transform}\nerror {one.error[at]:.2f}" if k else "picture", fontsize=8)
                axes.axis("off")
    written(path, lambda draft: figure.savefig(draft, dpi=110, format="png"))
