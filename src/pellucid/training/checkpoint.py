"""Checkpoints that are either whole or absent.

Owns: their layout on disk, and writing them so that a kill at any moment loses at most the steps since the last one.
Must not: decide when to save.
Read next: ``loop.py``.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pellucid._version import __version__
from pellucid.errors import invalid
from pellucid.training.state import TrainState

__all__ = ["latest_checkpoint", "load_checkpoint", "save_checkpoint"]

_NAME = re.compile(r"step-(\d{8})")


def save_checkpoint(directory: str | os.PathLike[str], step: int, state: TrainState, *, keep: int = 2, **notes: Any) -> Path:
    """Write ``directory/step-00000123/`` with the weights (safetensors), the other states and ``meta.json``.

    The folder is filled under another name, flushed to the disk and then renamed, so a reader never sees half of one.

    Args:
        directory: where the run keeps its checkpoints.
        step: how many steps are done.
        state: what to remember.
        keep: how many of the newest checkpoints stay.
        notes: JSON-ready facts for ``meta.json``; those the loop finds there on resuming must agree.

    Returns:
        The folder.
    """
    from safetensors.torch import save_file

    parent = Path(directory)
    parent.mkdir(parents=True, exist_ok=True)
    final, draft = parent / f"step-{step:08d}", parent / f".writing-{os.getpid()}"
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir()
    save_file(_weights(state), draft / "weights.safetensors")
    torch.save({name: other.state_dict() for name, other in state.others.items()}, draft / "state.pt")
    meta = {"step": step, "pellucid": __version__, "torch": torch.__version__, **notes}
    (draft / "meta.json").write_text(json.dumps(meta, indent=2, sort_keys=True) + "\n")
    for path in draft.iterdir():
        _flush(path)
    shutil.rmtree(final, ignore_errors=True)
    draft.replace(final)
    _flush(parent)
    for old in _all(parent)[:-keep]:
        shutil.rmtree(old)
    return final


def latest_checkpoint(directory: str | os.PathLike[str]) -> Path | None:
    """The checkpoint with the most steps, or None."""
    found = _all(Path(directory))
    return found[-1] if found else None


def load_checkpoint(path: str | os.PathLike[str], state: TrainState) -> dict[str, Any]:
    """Load a checkpoint into the modules and the others of ``state``, all of it or none.

    Returns:
        What ``meta.json`` says, ``step`` among it.

    Errors:
        ``InvalidArgument`` where names or shapes differ from what the run holds.
    """
    from safetensors.torch import load_file

    folder = Path(path)
    meta: dict[str, Any] = json.loads((folder / "meta.json").read_text())
    found = load_file(folder / "weights.safetensors")
    _agree(found, _weights(state), folder)
    others = torch.load(folder / "state.pt", weights_only=True)
    if others.keys() != state.others.keys():
        raise invalid(
            str(folder), expected=f"states of {sorted(state.others)}", got=sorted(others), fix="Resume with the same settings."
        )
    for name, module in state.modules.items():
        start = len(name) + 1
        module.load_state_dict({key[start:]: tensor for key, tensor in found.items() if key.startswith(f"{name}.")})
    for name, other in state.others.items():
        other.load_state_dict(others[name])
    return meta


def _weights(state: TrainState) -> dict[str, Tensor]:
    """Each tensor on its own memory: safetensors refuses shared storage, and a step must not change what is being written."""
    return {
        f"{name}.{key}": tensor.detach().cpu().clone().contiguous()
        for name, module in state.modules.items()
        for key, tensor in module.state_dict().items()
    }


def _agree(found: dict[str, Tensor], wanted: dict[str, Tensor], folder: Path) -> None:
    shapes = {key: tuple(tensor.shape) for key, tensor in found.items()}
    expected = {key: tuple(tensor.shape) for key, tensor in wanted.items()}
    wrong = sorted(key for key in shapes.keys() | expected.keys() if shapes.get(key) != expected.get(key))
    if wrong:
        key = wrong[0]
        raise invalid(
            f"{folder}: {key}",
            expected=f"shape {expected.get(key, 'none: the run has no such weight')}",
            got=shapes.get(key, "nothing"),
            fix=f"{len(wrong)} weights differ. Resume with the settings the run was started with.",
        )


def _all(parent: Path) -> list[Path]:
    if not parent.is_dir():
        return []
    return sorted(path for path in parent.iterdir() if _NAME.fullmatch(path.name) and (path / "meta.json").exists())


def _flush(path: Path) -> None:
    """Push a file (or a folder's list of names) to the disk before anything relies on it."""
    if os.name == "nt" and path.is_dir():
        return  # Windows cannot open a folder
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
