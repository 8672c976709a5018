"""Data sets of small pictures: IDX files and NumPy archives.

Owns: both formats as tensors.
Must not: download, shuffle or normalise.
Read next: ``decoding.py``.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Final

import torch
from jaxtyping import Shaped
from torch import Tensor

from pellucid.core.files import parsed
from pellucid.errors import invalid

__all__ = ["read_arrays", "read_idx"]

# The third byte of an IDX file -> NumPy's name; numbers are big-endian.
_TYPES: Final = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def read_idx(path: str | os.PathLike[str]) -> Shaped[Tensor, "..."]:
    """Read an IDX file (the format of MNIST), plain or gzipped.

    Returns:
        The array with the file's type and shape: (60000, 28, 28) uint8 for MNIST's training pictures.

    Errors:
        ``InvalidArgument`` for a file that is not IDX, or is shorter or longer than its header says.
    """
    import numpy as np

    raw = Path(path).read_bytes()
    if raw[:2] == b"\x1f\x8b" or Path(path).suffix == ".gz":
        raw = parsed(path, lambda file: gzip.decompress(file.read()), expected="a complete gzip file")
    if len(raw) < 4 or raw[:2] != b"\0\0" or raw[2] not in _TYPES or len(raw) < 4 + 4 * raw[3]:
        raise invalid(str(path), expected="an IDX file: two zero bytes, a type, the number of axes", got=repr(raw[:4]))
    start = 4 + 4 * raw[3]
    shape = tuple(int.from_bytes(raw[at : at + 4], "big") for at in range(4, start, 4))
    kind = np.dtype(_TYPES[raw[2]])
    wanted = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    if len(raw) - start != wanted:
        raise invalid(str(path), expected=f"{wanted} bytes after the header, for shape {shape}", got=len(raw) - start)
    values = np.frombuffer(raw, dtype=kind, offset=start).reshape(shape)
    return torch.from_numpy(values.astype(kind.newbyteorder("=")))


def read_arrays(path: str | os.PathLike[str], names: Sequence[str] = ()) -> dict[str, Shaped[Tensor, "..."]]:
    """Read the arrays of an ``.npz`` archive by name, all of them or those of ``names``. Arrays of Python objects, which could run
    code, are refused.

    Errors:
        ``InvalidArgument`` for a file that is not an archive, lacks one of ``names``, or holds anything but numbers.
    """
    import numpy as np

    def arrays(file: BytesIO) -> dict[str, Tensor]:
        archive = np.load(file, allow_pickle=False)
        if isinstance(archive, np.ndarray):
            raise invalid(str(path), expected="an .npz archive of numbers", got="a single array", fix="numpy.savez(path, x=array)")
        if set(names) - set(archive.files):
            raise invalid(str(path), expected=f"the arrays {', '.join(names)}", got=", ".join(archive.files))
        found = {name: archive[name] for name in names or archive.files}
        texts = [f"{name} of {array.dtype}" for name, array in found.items() if array.dtype.kind not in "biufc"]
        if texts:
            raise invalid(str(path), expected="an .npz archive of numbers", got=", ".join(texts))
        return {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in found.items()}

    return parsed(path, arrays, expected="an .npz archive of numbers")
