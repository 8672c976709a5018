"""``pellucid register``: find the map between two pictures or volumes, and show it.

Owns: the command and its files.
Must not: align; ``pellucid.registration`` does.
Read next: ``../registration/align.py``.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pellucid.core.files import parsed
from pellucid.errors import invalid

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["register"]


def register(
    fixed: Annotated[Path, typer.Argument(metavar="A", help="The picture that stays; a volume as an .npy file, (D, H, W).")],
    moving: Annotated[Path, typer.Argument(metavar="B", help="The picture or volume that is aligned with A.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for the results.")] = Path("registered"),
    model: Annotated[
        str | None,
        typer.Option(
            help="translation, similarity, affine, homography (default), lens, bspline, or a sum such as affine+bspline; "
            "for volumes translation, rigid, affine (default), bspline, rigid+bspline"
        ),
    ] = None,
    loss: Annotated[str, typer.Option(help="ssd, ncc, charbonnier, barron, local_ncc or mutual_information")] = "ssd",
    photometric: Annotated[str, typer.Option(help="none, gain_bias, or for pictures gain_bias_gamma or local")] = "gain_bias",
    spacing: Annotated[float | None, typer.Option(help="of a B-spline's control points; default 16 pixels or 8 voxels")] = None,
    mask: Annotated[
        Path | None, typer.Option(help="The part of A that counts: a picture of A's size, white where it counts, or an .npy file.")
    ] = None,
    moving_mask: Annotated[Path | None, typer.Option(help="The part of B that counts.")] = None,
) -> None:
    """Align B with A: write the map, B in A's frame, a checkerboard and the differences. Exit code 1: not converged."""
    import json

    from pellucid.cli.files import png_bytes, read_image, to_picture, write_bytes
    from pellucid.cli.waiting import waiting
    from pellucid.registration import Alignment, align, align_volumes
    from pellucid.registration.pictures import before_and_after, slices_before_and_after

    solid = fixed.suffix.lower() == ".npy"
    for path in (moving, mask, moving_mask):
        if path is not None and (path.suffix.lower() == ".npy") != solid:
            raise invalid("B and masks", expected="files of A's kind: all pictures or all .npy", got=str(path))
    read = _volume if solid else lambda path: read_image(path, gray=True)
    a, b = read(fixed), read(moving)
    options: dict[str, Any] = {"model": model, "spacing": spacing, "mask": mask and read(mask)}
    options |= {"moving_mask": moving_mask and read(moving_mask), "loss": loss, "photometric": photometric}
    options = {name: value for name, value in options.items() if value is not None}
    with waiting(f"Aligning {moving.name} with {fixed.name}"):
        found = align_volumes(a, b, **options) if solid else align(a, b, **options)
    losses = [step.loss for step in found.history] if isinstance(found, Alignment) else found.history
    numbers = {
        "model": model or ("affine" if solid else "homography"),
        "loss": loss,
        "converged": bool(found.converged[0]),
        "reason": found.reason[0],
        "moving_from_fixed": found.matrix[0].tolist(),
        "correlation": float(found.correlation[0]),
        "overlap": float(found.overlap[0]),
        "brightness": found.brightness[0].tolist(),
        "covariance": None if found.covariance is None else found.covariance[0].tolist(),
        "losses": [float(each[0]) for each in losses],
    }
    write_bytes(output / "alignment.json", (json.dumps(numbers, indent=1) + "\n").encode())
    if isinstance(found, Alignment):
        warped = found.warped(read_image(moving)[None], (a.shape[-2], a.shape[-1]))[0]
        write_bytes(output / "warped.png", png_bytes(to_picture(warped)))
        shown = before_and_after(a, b, found)
    else:
        write_bytes(output / "warped.npy", _npy_bytes(found.warped(b, (a.shape[1], a.shape[2], a.shape[3]))[0, 0]))
        shown = slices_before_and_after(a, b, found)
    write_bytes(output / "before-and-after.png", png_bytes(to_picture(shown)))
    typer.echo(
        f"{found.reason[0]}: correlation {numbers['correlation']:.3f}, overlap {100 * float(found.overlap[0]):.0f} %; {output}"
    )
    if not numbers["converged"]:
        raise typer.Exit(1)


def _volume(path: Path) -> Tensor:
    """Read a volume (D, H, W) from an .npy file as (1, D, H, W), float32."""
    import numpy as np
    import torch

    if not path.is_file():
        raise invalid("VOLUME", expected="an .npy file", got=f"{path}, which is no file")
    load, expected = partial(np.load, allow_pickle=False), "an .npy file of numbers, as numpy.save writes it"
    values = parsed(path, load, expected=expected, name="VOLUME")
    if not isinstance(values, np.ndarray):
        raise invalid("VOLUME", expected="an .npy file of one array", got=f"an archive, {path}")
    if values.ndim != 3 or values.dtype.kind not in "buif":
        raise invalid("VOLUME", expected="numbers of shape (D, H, W)", got=f"{values.dtype} of shape {values.shape} in {path}")
    return torch.from_numpy(values.astype("float32"))[None]


def _npy_bytes(volume: Tensor) -> bytes:
    import io

    import numpy as np

    buffer = io.BytesIO()
    np.save(buffer, volume.numpy())
    return buffer.getvalue()
