"""``pellucid register``: the map between two pictures, and what it looks like.

Owns: the command and its files.
Must not: align; ``pellucid.registration`` does.
Read next: ``../registration/align.py``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["register"]


def register(
    fixed: Annotated[Path, typer.Argument(metavar="A", help="The picture that stays.")],
    moving: Annotated[Path, typer.Argument(metavar="B", help="The picture that is brought onto it.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for what is written.")] = Path("registered"),
    model: Annotated[str, typer.Option(help="translation, similarity, affine, homography or bspline")] = "homography",
    loss: Annotated[str, typer.Option(help="ssd, ncc, charbonnier, barron, local_ncc or mutual_information")] = "ssd",
    photometric: Annotated[str, typer.Option(help="none, gain_bias or gain_bias_gamma")] = "gain_bias",
    spacing: Annotated[float, typer.Option(help="pixels between a B-spline's control points")] = 16.0,
) -> None:
    """Bring picture B onto picture A: its map, the warped picture, a checkerboard and the differences. Exit 1: not converged."""
    import json

    from pellucid.cli.files import png_bytes, read_image, to_picture, write_bytes
    from pellucid.cli.waiting import waiting
    from pellucid.registration import align
    from pellucid.registration.pictures import before_and_after

    grey = [read_image(path, gray=True) for path in (fixed, moving)]
    with waiting(f"Aligning {moving.name} with {fixed.name}"):
        found = align(*grey, model=model, loss=loss, photometric=photometric, spacing=spacing)
    numbers = {
        "model": model,
        "loss": loss,
        "converged": bool(found.converged[0]),
        "reason": found.reason[0],
        "moving_from_fixed": found.matrix[0].tolist(),
        "correlation": float(found.correlation[0]),
        "overlap": float(found.overlap[0]),
        "brightness": found.brightness[0].tolist(),
        "covariance": None if found.covariance is None else found.covariance[0].tolist(),
        "losses": [float(step.loss[0]) for step in found.history],
    }
    size = (grey[0].shape[-2], grey[0].shape[-1])
    write_bytes(output / "alignment.json", (json.dumps(numbers, indent=1) + "\n").encode())
    write_bytes(output / "warped.png", png_bytes(to_picture(found.warped(read_image(moving)[None], size)[0])))
    write_bytes(output / "before-and-after.png", png_bytes(to_picture(before_and_after(grey[0], grey[1], found))))
    typer.echo(
        f"{found.reason[0]}: correlation {numbers['correlation']:.3f}, overlap {100 * float(found.overlap[0]):.0f} %; {output}"
    )
    if not numbers["converged"]:
        raise typer.Exit(1)
