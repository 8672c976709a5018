"""Read and write NIfTI volumes, and augment folders of them.

Owns: the order of axes in files, and which label volume belongs to which scan.
Must not: import nibabel before a file is read or written.
Read next: ``folders.py``.
"""

from __future__ import annotations

import gzip
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pellucid.core.files import written
from pellucid.data.samples import index_of
from pellucid.errors import InvalidArgument, InvalidType, invalid
from pellucid.pipeline import Pipeline
from pellucid.pipeline.blocks import Blocks
from pellucid.random.key import Key

__all__ = ["augment_volumes", "read_volume", "volumes_in", "write_volume"]

_ENDINGS = (".nii.gz", ".nii")
_HEADER = 352
"""Bytes of a NIfTI file before its voxels."""


def read_volume(path: str | os.PathLike[str], *, labels: bool = False) -> tuple[Tensor, Tensor]:
    """Read a NIfTI file as a volume, and the matrix from its voxels (x, y, z) to the world.

    Args:
        path: a file ``.nii`` or ``.nii.gz``.
        labels: read whole numbers, int32, (D, H, W); default float32, (C, D, H, W).

    Returns:
        The volume, in the file's units, with axes z, y and x; and the matrix, (4, 4), float64, from voxels to the file's unit of
        length, mostly millimetres.

    Errors:
        InvalidArgument for another kind of file (such as DICOM), for a broken file, and for a volume that has neither three axes
        nor four with channels;
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
    scan = _Scan(file, labels=labels)
    found = torch.from_numpy(np.ascontiguousarray(scan[(slice(None),) * 3]))
    return found, scan.affine


class _Scan:
    """A NIfTI file, (C, D, H, W) or labels (D, H, W); indexing it reads only the voxels that the index selects."""

    def __init__(self, file: Path, *, labels: bool) -> None:
        self._file, self.dtype = file, np.dtype(np.int32 if labels else np.float32)
        with self._reading():
            image = _nibabel().load(file)
        self._voxels, shape = image.dataobj, image.shape
        still = len(shape) == 5 and shape[3] == 1  # NIfTI's fourth axis is time
        if len(shape) not in (3, 4) and not still:
            raise invalid(str(file), expected="three axes, or four with channels", got=f"shape {shape}")
        channels = 0 if labels else slice(None)
        self._rest = (0, channels) if still else (channels,) * (len(shape) - 3)
        self.shape = (*(() if labels else (shape[-1] if len(shape) > 3 else 1,)), *reversed(shape[:3]))
        self.affine = torch.from_numpy(np.array(image.affine, dtype=np.float64))

    def __getitem__(self, place: tuple[Any, ...]) -> Any:
        with self._reading():
            voxels = np.asarray(self._voxels[(*reversed(place[-3:]), *self._rest)]).T.astype(self.dtype)  # c z y x
        return voxels if voxels.ndim == len(self.shape) else voxels[None]

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # nibabel raises many kinds
            if not self._file.exists() or isinstance(error, ModuleNotFoundError):
                raise
            raise invalid("path", expected="a NIfTI file that nibabel reads", got=f"{self._file}: {error}") from error


def write_volume(path: str | os.PathLike[str], volume: Tensor, affine: Tensor) -> None:
    """Write a volume (D, H, W) or (C, D, H, W) and its matrix to a NIfTI file, atomically: no reader sees half a file.

    Args:
        path: a file ``.nii`` or ``.nii.gz``, in a folder that exists.
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


def _write_blocks(file: Path, blocks: Blocks, source: _Scan) -> None:
    """Write a result block by block, for volumes larger than memory, into an uncompressed file."""
    dtype, affine = source.dtype, blocks.others["affine"].cpu().numpy()
    shape = (*blocks.size[::-1], *source.shape[:-3])
    shape = shape[:3] if shape[3:] == (1,) else shape

    def write(draft: Path) -> None:
        header = _nibabel().Nifti1Image(np.broadcast_to(np.zeros((), dtype), shape), affine).header
        header["vox_offset"] = _HEADER
        draft.write_bytes(header.binaryblock.ljust(_HEADER, b"\0"))
        os.truncate(draft, _HEADER + math.prod(shape) * dtype.itemsize)
        for place, part in blocks:
            entry = part["labelmap" if "labelmap" in part else "volume"]
            into = np.memmap(draft, dtype, "r+", _HEADER, shape, order="F")  # opened anew, so that only this block is in memory
            into.T[(..., *place)] = entry.numpy()

    written(file, write)


def volumes_in(folder: Path, *, without: Sequence[Path] = ()) -> list[Path]:
    """The relative paths of all NIfTI files in a folder, sorted; ``without`` names folders inside it that are left out."""
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
    block: int | None = None,
) -> Iterator[tuple[Path, int, str]]:
    """Write augmented copies of scans and their labels to ``out/images`` and ``out/labels``; existing files are kept.

    Args:
        scans: paths relative to ``source``.
        source, out: folders.
        pipeline: a pipeline of transforms that take volumes.
        labels: a folder of label volumes, named like the scans, or as for nnU-Net without the scans' ``_0000``.
        copies: how many of each scan; copy c is the draw of step c.
        seed: the seed of the draws; a scan's index is `index_of` its relative path.
        block: read and write so many voxels along each axis at a time (:meth:`pellucid.Pipeline.blocks`); default all of a volume.

    Returns:
        For each scan: its path, how many copies were written, and the error, if any, such as a broken file or labels of another
        shape. A faulty scan does not stop the others.

    Errors:
        InvalidArgument for a scan whose label volume is missing, before any file is read.
    """
    running = Pipeline(pipeline.transforms, seed=seed, **{**pipeline.options.settings(), "targets": {}})
    stems = [scan.name[: -len(next(end for end in _ENDINGS if scan.name.lower().endswith(end)))] for scan in scans]
    marked = [labels and _labels_of(labels, scan.parent, stem) for scan, stem in zip(scans, stems, strict=True)]
    for scan, stem, marks in zip(scans, stems, marked, strict=True):
        ending = scan.name[len(stem) :]
        wanted = [scan.with_name(f"{stem}_{copy}{ending}") for copy in range(copies)]
        kinds = ("images",) if marks is None else ("images", "labels")
        missing = [copy for copy, name in enumerate(wanted) if not all((out / kind / name).exists() for kind in kinds)]
        try:
            sources = _sources(source / scan, marks, block is not None) if missing else {}
            for copy in missing:
                key = Key(seed, copy, torch.tensor([index_of(os.fsencode(scan.as_posix()))]))
                into = [out / kind / wanted[copy] for kind in kinds]
                with torch.no_grad():
                    _augment(running, sources, key, into, block)
        except (InvalidArgument, InvalidType) as error:
            yield scan, 0, str(error)
        else:
            yield scan, len(missing), ""


def _sources(scan: Path, marks: Path | None, by_block: bool) -> dict[str, _Scan]:
    """Open a scan and its labels, labels first; raise unless both have the same shape and place."""
    for path in (scan, marks) if by_block else ():
        if path is not None and path.name.lower().endswith(".gz"):
            raise invalid(str(path), expected="an uncompressed file, .nii, for --block", got=path.name, fix="Unpack it by gunzip.")
    found = _Scan(scan, labels=False)
    if marks is None:
        return {"volume": found}
    labels = _Scan(marks, labels=True)
    away = (labels.affine - found.affine).abs().max()
    if labels.shape != found.shape[1:] or away > 1e-2:
        expected = f"{found.shape[1:]} voxels and the matrix of {scan}"
        got = f"{labels.shape}, and a matrix that differs by {away:.3g}"
        raise invalid(str(marks), expected=expected, got=got, fix="Resample the labels to the scan.")
    return {"labelmap": labels, "volume": found}


def _augment(running: Pipeline, sources: Mapping[str, _Scan], key: Key, into: Sequence[Path], block: int | None) -> None:
    """Write one copy; the scan is written last, so an existing scan means that its labels exist too."""
    for path in into:
        path.parent.mkdir(parents=True, exist_ok=True)
    affine = {"affine": sources["volume"].affine}
    if block is not None:
        record = running.blocks({**sources, **affine}, block, key=key).record
        for path, (kind, scan) in zip(reversed(into), sources.items(), strict=True):
            _write_blocks(path, running.blocks({kind: scan, **affine}, block, record=record), scan)
        return
    volumes = {kind: torch.from_numpy(np.ascontiguousarray(scan[(slice(None),) * 3])) for kind, scan in sources.items()}
    found = running({**volumes, **affine}, key=key)
    for path, kind in zip(reversed(into), sources, strict=True):
        write_volume(path, found[kind], found["affine"])


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
