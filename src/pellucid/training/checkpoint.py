"""Write and read checkpoints atomically: a checkpoint is either complete or absent.

Owns: `TrainState`, the content of a checkpoint; its layout on disk, and writing it so that a kill at any moment loses at most the
    steps since the last one.
Must not: decide when to save.
Read next: ``loop.py``.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import warnings
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from pellucid._version import __version__
from pellucid.core.files import flush
from pellucid.errors import InvalidArgument, invalid, needs

__all__ = ["DamagedCheckpoint", "TrainState", "latest_checkpoint", "load_checkpoint", "resume_from", "save_checkpoint"]


class Stateful(Protocol):
    """An object with a state: an optimiser, a schedule, a scaler, a running average."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state."""

    def load_state_dict(self, state_dict: dict[str, Any], /) -> Any:
        """Restore a state."""


@dataclass(frozen=True)
class TrainState:
    """The objects that change from step to step, which a checkpoint saves.

    Args:
        modules: by name; their weights and buffers go to ``weights.safetensors`` as ``<name>.<key>``.
        others: optimisers, schedules, gradient scalers, baselines; they go to ``state.pt``.

    Example:
        >>> import torch
        >>> from pellucid.training import TrainState
        >>> model = torch.nn.Linear(2, 1)
        >>> state = TrainState({"model": model}, {"optimizer": torch.optim.SGD(model.parameters(), 0.1)})
        >>> list(state.modules), list(state.others)
        (['model'], ['optimizer'])
    """

    modules: Mapping[str, nn.Module]
    others: Mapping[str, Stateful] = field(default_factory=dict)


_NAME = re.compile(r"step-(\d{8})")
_LEFTOVER = re.compile(r"\.(?P<what>writing|removing)-(?P<pid>\d+)(-.*)?")


class DamagedCheckpoint(InvalidArgument):
    """A file of a checkpoint is missing, cut short or unreadable."""


def save_checkpoint(directory: str | os.PathLike[str], step: int, state: TrainState, *, keep: int = 2, **notes: Any) -> Path:
    """Write ``directory/step-00000123/`` with the weights (safetensors), the other states and ``meta.json``.

    The folder is filled under another name, flushed to the disk and then renamed, so a reader never sees an incomplete one.

    Args:
        directory: the folder of the run's checkpoints.
        step: how many steps are done.
        state: the objects to save.
        keep: how many of the newest checkpoints stay.
        notes: JSON-ready facts for ``meta.json``; the loop refuses to resume if its own facts differ from them.

    Returns:
        The folder.

    Errors:
        ImportError without safetensors.

    Example:
        >>> import tempfile, torch
        >>> from pellucid.training import TrainState, save_checkpoint
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = save_checkpoint(folder, 10, TrainState({"model": torch.nn.Linear(2, 1)}), epoch=1)
        ...     sorted(file.name for file in path.iterdir())
        ['meta.json', 'state.pt', 'weights.safetensors']
    """
    with needs("A checkpoint", "'pellucid[train]'"):
        from safetensors.torch import save_file

    parent = Path(directory)
    parent.mkdir(parents=True, exist_ok=True)
    final, draft = parent / f"step-{step:08d}", parent / f".writing-{os.getpid()}"
    _sweep(parent)
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir()
    save_file(_weights(state), draft / "weights.safetensors")
    torch.save({name: other.state_dict() for name, other in state.others.items()}, draft / "state.pt")
    meta = {"step": step, "pellucid": __version__, "torch": torch.__version__, **notes}
    (draft / "meta.json").write_text(json.dumps(meta, indent=2, sort_keys=True) + "\n")
    for path in draft.iterdir():
        flush(path)
    _remove(final)
    draft.replace(final)
    flush(parent)
    for old in _all(parent)[:-keep]:
        _remove(old)
    return final


def latest_checkpoint(directory: str | os.PathLike[str]) -> Path | None:
    """Return the checkpoint with the most steps, or None.

    Args:
        directory: the folder of the run's checkpoints.

    Example:
        >>> import tempfile
        >>> from pellucid.training import TrainState, latest_checkpoint, save_checkpoint
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = [save_checkpoint(folder, step, TrainState({})) for step in (10, 20)]
        ...     latest_checkpoint(folder).name
        'step-00000020'
    """
    folders = _all(Path(directory))
    return folders[-1] if folders else None


def resume_from(directory: str | os.PathLike[str], state: TrainState) -> tuple[Path, dict[str, Any]] | None:
    """Load the newest checkpoint that is not damaged; warn of newer ones that are, with the file's name.

    Returns:
        The folder and the content of its ``meta.json``, or None if there is no checkpoint.

    Errors:
        As :func:`load_checkpoint`; if every checkpoint is damaged, the error of the newest.
    """
    damaged: list[DamagedCheckpoint] = []
    for folder in reversed(_all(Path(directory))):
        try:
            meta = load_checkpoint(folder, state)
        except DamagedCheckpoint as error:
            damaged.append(error)
            continue
        for each in damaged:
            warnings.warn(f"{each} Going on from {folder} instead.", stacklevel=2)
        return folder, meta
    if damaged:
        raise damaged[0]
    return None


def load_checkpoint(path: str | os.PathLike[str], state: TrainState) -> dict[str, Any]:
    """Load a checkpoint into the modules and the other objects of ``state``; after an error, none of them is changed.

    Args:
        path: the folder of a checkpoint.
        state: objects with the names and shapes of the saved ones; changed in place.

    Returns:
        The content of ``meta.json``, which includes ``step``.

    Errors:
        ``InvalidArgument`` if names or shapes differ from the run's; its subclass `DamagedCheckpoint`, with the file's name, if a
        file is missing, cut short or unreadable.

    Example:
        >>> import tempfile, torch
        >>> from pellucid.training import TrainState, load_checkpoint, save_checkpoint
        >>> state = TrainState({"model": torch.nn.Linear(2, 1)})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     load_checkpoint(save_checkpoint(folder, 10, state), state)["step"]
        10
    """
    with needs("A checkpoint", "'pellucid[train]'"):
        from safetensors.torch import load_file

    folder = Path(path)
    meta: dict[str, Any] = _read(folder / "meta.json", lambda file: json.loads(file.read_bytes()))
    weights: dict[str, Tensor] = _read(folder / "weights.safetensors", load_file)
    others: dict[str, Any] = _read(folder / "state.pt", lambda file: torch.load(file, weights_only=True))
    _agree(weights, _weights(state), folder)
    if others.keys() != state.others.keys():
        fix = "Resume with the same settings."
        raise invalid(str(folder), expected=f"states of {sorted(state.others)}", got=sorted(others), fix=fix)
    _load_others(state.others, others, folder / "state.pt")
    for name, module in state.modules.items():
        start = len(name) + 1
        module.load_state_dict({key[start:]: tensor for key, tensor in weights.items() if key.startswith(f"{name}.")})
    return meta


def _load_others(into: Mapping[str, Stateful], states: Mapping[str, Any], file: Path) -> None:
    """Load all states; after an error, restore those that were loaded."""
    before = {name: deepcopy(other.state_dict()) for name, other in into.items()}
    for name, other in into.items():
        try:
            other.load_state_dict(states[name])
        except Exception as error:  # optimisers raise errors of many kinds for a wrong state
            for known, one in into.items():
                one.load_state_dict(before[known])
            raise DamagedCheckpoint(f"{file}: expected a state of {name}, got {type(error).__name__}: {error}.") from error


def _read(file: Path, how: Callable[[Path], Any]) -> Any:
    """Read the table in one of a checkpoint's files."""
    try:
        content = how(file)
    except (PermissionError, MemoryError):
        raise
    except Exception as error:  # a damaged file may raise anything
        first = (str(error).splitlines() or [""])[0][:200].rstrip(".")
        raise DamagedCheckpoint(f"{file}: expected a whole file, got {type(error).__name__}: {first}.") from error
    if not isinstance(content, dict):
        raise DamagedCheckpoint(f"{file}: expected a table, got a {type(content).__name__}.")
    return content


def _weights(state: TrainState) -> dict[str, Tensor]:
    """Return copies of the weights by name: safetensors refuses shared storage, and no step may change what is being saved."""
    return {
        f"{name}.{key}": tensor.detach().cpu().clone().contiguous()
        for name, module in state.modules.items()
        for key, tensor in module.state_dict().items()
    }


def _agree(weights: dict[str, Tensor], wanted: dict[str, Tensor], folder: Path) -> None:
    shapes = {key: tuple(tensor.shape) for key, tensor in weights.items()}
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


def _sweep(parent: Path) -> None:
    """Remove the leftovers of killed runs: drafts of processes that have ended, and half-deleted checkpoints."""
    for path in parent.iterdir():
        name = _LEFTOVER.fullmatch(path.name)
        if name and (name["what"] == "removing" or not _runs(int(name["pid"]))):
            shutil.rmtree(path, ignore_errors=True)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:  # another user's process, so it runs
        return True
    except (OSError, OverflowError):
        return False
    return True


def _remove(folder: Path) -> None:
    """Delete a checkpoint: rename it first, so that a kill in between leaves no incomplete checkpoint."""
    if folder.exists():
        leaving = folder.with_name(f".removing-{os.getpid()}-{folder.name}")
        folder.replace(leaving)
        shutil.rmtree(leaving, ignore_errors=True)
