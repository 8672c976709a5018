"""Volumes in NIfTI files: read, written, and folders of them through a pipeline.

Owns: the order of axes in files, and which label volume belongs to which scan.
Must not: import nibabel before a file is read or written.
Read next: ``folders.py``.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pellucid.core.files import written
from pellucid.data.samples import index_of
from pellucid.errors import invalid
from pellucid.pipeline import Pipeline
from pellucid.random.key import Key

__all__ = ["augment_volumes", "read_volume", "volumes_in", "write_volume"]

_ENDINGS = (".nii.gz", ".nii")


def read_volume(path: str | os.PathLike[str], *, labels: bool = False) -> tuple[Tensor, Tensor]:
    """Read a NIfTI file as a volume, and the matrix from its voxels (x, y, z) to the world.

    Args:
        path: of a file ``.nii`` or ``.nii.gz``.
        labels: whole numbers, int32, (D, H, W); default float32, (C, D, H, W).

    Returns:
        The volume, in the file's units, its axes z, y and x; and the matrix, (4, 4), float64, from voxels to the file's unit of
        length, mostly millimetres.

    Errors:
        InvalidArgument for another kind of file, DICOM among them, for a broken one, and for one with other than three
        axes, or four with channels;
        ModuleNotFoundError where nibabel is not installed.

    Example:
        >>> from pellucid.data import read_volume
        >>> volume, affine = read_volume("scan.nii.gz")  # doctest: +SKIP
    """
    file = Path(path)
    if not file.name.lower().endswith(_ENDINGS):
        series = file.is_dir() or file.suffix.lower() in (".dcm", ".dicom", ".ima", "")
        fix = "Convert a DICOM series by dcm2niix, or read it by SimpleITK.ImageSeriesReader and pass its array." if series else ""
        raise invalid("path", expected="a NIfTI file, .nii or .nii.gz", got=str(file), fix=fix or "Pass its voxels as an array.")
    nibabel = _nibabel()
    try:
        image = nibabel.load(file)
        voxels = np.asarray(image.dataobj)
    except (nibabel.filebasedimages.ImageFileError, EOFError, OSError) as error:
        if not file.exists():
            raise
        raise invalid("path", expected="a NIfTI file that nibabel reads", got=f"{file}: {error}") from error
    if voxels.ndim == 5 and voxels.shape[3] == 1:  # NIfTI's fourth axis is time
        voxels = voxels[:, :, :, 0]
    if voxels.ndim not in (3, 4):
        raise invalid(str(file), expected="three axes, or four with channels", got=f"shape {voxels.shape}")
    turned = np.ascontiguousarray(voxels.T).astype(np.int32 if labels else np.float32)  # c z y x
    found = torch.from_numpy(turned if turned.ndim == 4 or labels else turned[None])
    return (found[0] if labels and found.dim() == 4 else found), torch.from_numpy(np.array(image.affine, dtype=np.float64))


def write_volume(path: str | os.PathLike[str], volume: Tensor, affine: Tensor) -> None:
    """Write a volume (D, H, W) or (C, D, H, W) and its matrix to a NIfTI file, at once: a reader sees all of it or none.

    Args:
        path: of a file ``.nii`` or ``.nii.gz``, in a folder that is there.
        volume: of any dtype that NIfTI has; one channel needs no axis.
        affine: (4, 4), from voxels (x, y, z) to the world.

    Errors:
        InvalidArgument for another kind of file; ModuleNotFoundError where nibabel is not installed.

    Example:
        >>> from pellucid.data import read_volume, write_volume
        >>> write_volume("copy.nii.gz", *read_volume("scan.nii.gz"))  # doctest: +SKIP
    """
    file = Path(path)
    if not file.name.lower().endswith(_ENDINGS):
        raise invalid("path", expected="a file name ending in .nii or .nii.gz", got=str(file))
    voxels = volume.detach().cpu().numpy()
    voxels = voxels[0] if voxels.ndim == 4 and len(voxels) == 1 else voxels
    content: bytes = _nibabel().Nifti1Image(voxels.T, affine.cpu().numpy()).to_bytes()
    packed = gzip.compress(content, 6, mtime=0) if file.name.lower().endswith(".gz") else content
    written(file, lambda draft: draft.write_bytes(packed))


def volumes_in(folder: Path, *, without: Sequence[Path] = ()) -> list[Path]:
    """The NIfTI files in a folder and its folders, but for those of some, relative to it, in order."""
    found = (path for path in folder.rglob("*") if path.name.lower().endswith(_ENDINGS))
    left = [path.resolve() for path in without]
    return sorted(path.relative_to(folder) for path in found if not any(path.resolve().is_relative_to(one) for one in left))


def augment_volumes(
    scans: Sequence[Path],
    source: Path,
    out: Path,
    pipeline: Pipeline,
    *,
    labels: Path | None = None,
    copies: int = 1,
    seed: int = 0,
) -> Iterator[tuple[Path, int]]:
    """Write copies of scans, and of their labels, to ``out/images`` and ``out/labels``; what is there stays.

    Args:
        scans: relative to ``source``.
        source, out: folders.
        pipeline: of transforms that take volumes.
        labels: a folder with label volumes of the scans' names, or with nnU-Net's, which end before ``_0000``.
        copies: of each scan; copy c is the draw of step c.
        seed: of the draws; the index is that of the scan's relative path.

    Returns:
        Each scan, and how many copies of it were written.

    Errors:
        InvalidArgument for a scan without labels in the folder of them, before any is read, and for labels of other voxels.
    """
    running = Pipeline(pipeline.transforms, seed=seed, **{**pipeline.options.settings(), "targets": {}})
    stems = [scan.name[: -len(next(end for end in _ENDINGS if scan.name.lower().endswith(end)))] for scan in scans]
    marked = [labels and _labels_of(labels, scan.parent, stem) for scan, stem in zip(scans, stems, strict=True)]
    for scan, stem, marks in zip(scans, stems, marked, strict=True):
        ending = scan.name[len(stem) :]
        wanted = [scan.with_name(f"{stem}_{copy}{ending}") for copy in range(copies)]
        kinds = ("images",) if marks is None else ("images", "labels")
        missing = [copy for copy, name in enumerate(wanted) if not all((out / kind / name).exists() for kind in kinds)]
        if missing:
            volume, affine = read_volume(source / scan)
            batch: dict[str, Any] = {"volume": volume, "affine": affine}
            if marks is not None:
                batch["labelmap"], place = read_volume(marks, labels=True)
                if batch["labelmap"].shape != volume.shape[1:] or (place - affine).abs().max() > 1e-2:
                    expected = f"{tuple(volume.shape[1:])} voxels at the places of {source / scan}"
                    got = f"{tuple(batch['labelmap'].shape)}, and a matrix that differs by {(place - affine).abs().max():.3g}"
                    raise invalid(str(marks), expected=expected, got=got, fix="Resample the labels to the scan.")
        for copy in missing:
            key = Key(seed, copy, torch.tensor([index_of(os.fsencode(scan.as_posix()))]))
            with torch.no_grad():
                found = running(batch, key=key)
            for kind, entry in zip(reversed(kinds), reversed(("volume", "labelmap")[: len(kinds)]), strict=True):
                (out / kind / scan.parent).mkdir(parents=True, exist_ok=True)
                write_volume(out / kind / wanted[copy], found[entry], found["affine"])
        yield scan, len(missing)


def _labels_of(folder: Path, parent: Path, stem: str) -> Path:
    names = (stem, stem.removesuffix("_0000"))
    found = next((path for name in names for end in _ENDINGS if (path := folder / parent / f"{name}{end}").exists()), None)
    if found is None:
        raise invalid("--masks", expected=f"{names[-1]}.nii.gz, the labels of {parent / stem}", got=f"none in {folder}")
    return found


def _nibabel() -> Any:
    try:
        import nibabel
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("NIfTI files need nibabel: pip install 'pellucid[volumes]'.", name="nibabel") from error
    return nibabel
