"""Networks on disk: the weights of finished runs, and checkpoints that others published.

Owns: the files of trained networks, and reading a network's size from its file.
Must not: know how it was trained; checkpoints to resume from are ``pellucid.training``'s.
Read next: ``hardnet.py``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, Final, TypeVar

import torch
from torch import Tensor, nn

from pellucid.core.files import parsed, written
from pellucid.errors import invalid
from pellucid.features.hardnet import HardNet, width_of
from pellucid.features.keypoint_net import KeypointNet

__all__ = [
    "DESCRIPTOR_FILE", "DETECTOR_FILE", "load_descriptor", "load_detector", "read_weights", "save_descriptor", "save_detector",
]  # fmt: skip

N = TypeVar("N", bound=nn.Module)

DESCRIPTOR_FILE: Final = "descriptor.safetensors"
DETECTOR_FILE: Final = "detector.safetensors"
"""Names of the files of weights in the folder of a run."""


def save_descriptor(network: HardNet, path: str | os.PathLike[str], **notes: Any) -> Path:
    """Write the weights (safetensors, with the published checkpoints' names) atomically.

    Args:
        network: its weights and running statistics are written.
        path: the file.
        notes: JSON-ready facts kept in the file's header.

    Returns:
        The path.

    Errors:
        TypeError for notes that JSON cannot hold; OSError where the disk takes no file. An old file stays then.

    Example:
        >>> import tempfile
        >>> from pellucid.features import HardNet, save_descriptor
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_descriptor(HardNet(width=4), f"{folder}/descriptor.safetensors", trained_on="nothing").name
        'descriptor.safetensors'
    """
    return _write(network, path, {"kind": "HardNet", **notes})


def save_detector(network: KeypointNet, path: str | os.PathLike[str], **notes: Any) -> Path:
    """Write a keypoint network as :func:`save_descriptor` writes a descriptor; its shape goes into the header.

    Args:
        network: its weights and running statistics are written.
        path: the file.
        notes: JSON-ready facts kept in the file's header.

    Returns:
        The path.

    Errors:
        TypeError for notes that JSON cannot hold; OSError where the disk takes no file. An old file stays then.

    Example:
        >>> import tempfile
        >>> from pellucid.features import KeypointNet, save_detector
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_detector(KeypointNet(), f"{folder}/detector.safetensors").name
        'detector.safetensors'
    """
    heads = {"orientation": network.direction is not None, "scale": network.log_scale is not None}
    widths = [part.out_channels for part in network.body if isinstance(part, nn.Conv2d)]
    shape = {"levels": network.levels, "channels": widths, "sigma": network.sigma, **heads}
    return _write(network, path, {"kind": "KeypointNet", "shape": shape, **notes})


def _write(network: nn.Module, path: str | os.PathLike[str], notes: Mapping[str, Any]) -> Path:
    from safetensors.torch import save_file

    weights = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in network.state_dict().items()}
    header = {"pellucid": json.dumps(notes, sort_keys=True)}
    return written(path, lambda draft: save_file(weights, draft, metadata=header))


def load_descriptor(path: str | os.PathLike[str]) -> HardNet:
    """Load a descriptor, in evaluation mode.

    Args:
        path: the folder of a run, a ``.safetensors`` file of :func:`save_descriptor`, or a PyTorch checkpoint of a HardNet (the
            state dict, or a dict that has it under ``state_dict``). Nothing in a file is ever executed.

    Returns:
        The network, on the CPU.

    Errors:
        ``InvalidArgument`` for a file that is no HardNet's, or whose weights are not finite.

    Example:
        >>> import tempfile
        >>> from pellucid.features import HardNet, load_descriptor, save_descriptor
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = save_descriptor(HardNet(width=4), f"{folder}/descriptor.safetensors")
        ...     load_descriptor(path).training
        False
    """
    weights = read_weights(path)
    layers = [weights.get(f"features.{i}.weight") for i in (0, 3, 6, 9, 12, 15, 19)]
    if any(layer is None or layer.dim() != 4 for layer in layers):
        raise invalid(str(path), expected="the weights of a HardNet (features.0.weight ...)", got=f"{sorted(weights)[:3]} ...")
    network = HardNet(width=width_of(weights), dimensions=weights["features.19.weight"].shape[0])
    return _filled(network, weights, path).eval()


def load_detector(path: str | os.PathLike[str]) -> KeypointNet:
    """Load a keypoint network written by :func:`save_detector`, or that of a run's folder, in evaluation mode.

    Args:
        path: the file, or the folder of a run.

    Returns:
        The network, on the CPU.

    Errors:
        ``InvalidArgument`` for a file that is no such network's, or whose weights are not finite.

    Example:
        >>> import tempfile
        >>> from pellucid.features import KeypointNet, load_detector, save_detector
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     load_detector(save_detector(KeypointNet(), f"{folder}/detector.safetensors")).training
        False
    """
    notes = detector_notes(path)
    if notes.get("kind") != "KeypointNet":
        raise invalid(str(path), expected="the weights of a KeypointNet", got=notes.get("kind", "another file"))
    shape = notes["shape"]
    network = KeypointNet(**{**shape, "channels": tuple(shape["channels"])})
    return _filled(network, read_weights(_detector_file(path)), path).eval()


def _filled(network: N, weights: Mapping[str, Tensor], path: str | os.PathLike[str]) -> N:
    """Put weights from a file into a network; raise if they do not fit, or are not finite."""
    kind = type(network).__name__
    try:
        network.load_state_dict(weights)
    except RuntimeError as error:
        raise invalid(str(path), expected=f"the weights of a {kind}", got=str(error).splitlines()[-1].strip()) from error
    for name, tensor in weights.items():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            fix = "Its training diverged; use an earlier checkpoint."
            raise invalid(str(path), expected=f"finite weights of a {kind}", got=f"NaN or infinite numbers in {name}", fix=fix)
    return network


def detector_notes(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the notes in a detector's file: its shape, and the settings of its training."""
    from safetensors import safe_open

    def notes_of(_: BytesIO) -> Any:
        with safe_open(file, framework="pt") as opened:
            return json.loads((opened.metadata() or {}).get("pellucid", "{}"))

    file = _detector_file(path)
    notes = parsed(file, notes_of, expected="a safetensors file")
    if not isinstance(notes, dict):
        raise invalid(str(path), expected="a safetensors file whose notes are a table", got=type(notes).__name__)
    return notes


def _detector_file(path: str | os.PathLike[str]) -> Path:
    file = Path(path) / DETECTOR_FILE if Path(path).is_dir() else Path(path)
    if not file.exists():
        raise invalid("detector", expected=f"a file of weights, or a run's folder with {DETECTOR_FILE}", got=str(path))
    return file


def read_weights(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """Return the tensors of a safetensors file or a PyTorch checkpoint by name; for a run's folder, its descriptor's."""
    from safetensors.torch import load

    file = Path(path)
    if file.is_dir():
        if not (file / DESCRIPTOR_FILE).exists():
            fix = "A run writes it when it ends; resume the run to finish it."
            raise invalid(str(path), expected=f"the folder of a finished run, with {DESCRIPTOR_FILE}", got="none", fix=fix)
        file = file / DESCRIPTOR_FILE
    if not file.exists():
        raise invalid("weights", expected="an existing file or the folder of a run", got=str(path))

    def tensors(content: BytesIO) -> Any:
        if file.suffix == ".safetensors":
            return load(content.read())
        return torch.load(content, map_location="cpu", weights_only=True)

    loaded = parsed(file, tensors, expected="a safetensors file or a PyTorch checkpoint of tensors")
    if isinstance(loaded, Mapping) and isinstance(loaded.get("state_dict"), Mapping):
        loaded = loaded["state_dict"]
    if not isinstance(loaded, Mapping) or not all(isinstance(value, Tensor) for value in loaded.values()):
        raise invalid(str(path), expected="a state dict", got=type(loaded).__name__)
    return dict(loaded)
