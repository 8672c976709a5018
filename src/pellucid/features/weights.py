"""Descriptors on disk: what training leaves behind, and checkpoints others published.

Owns: the file of a trained descriptor, and telling its size from its weights.
Must not: know how it was trained; checkpoints to resume from are ``pellucid.training``'s.
Read next: ``hardnet.py``.
"""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from pellucid.errors import invalid
from pellucid.features.hardnet import HardNet

__all__ = ["DESCRIPTOR_FILE", "load_descriptor", "read_weights", "save_descriptor"]

DESCRIPTOR_FILE: Final = "descriptor.safetensors"
"""Its name in the folder of a run."""


def save_descriptor(network: HardNet, path: str | os.PathLike[str], **notes: Any) -> Path:
    """Write the weights (safetensors, the names of the published checkpoints), at once or not at all.

    Args:
        network: its weights and running statistics are written.
        path: the file.
        notes: JSON-ready facts kept in the file's header.
    """
    from safetensors.torch import save_file

    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".writing-{os.getpid()}-{target.name}")
    weights = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in network.state_dict().items()}
    save_file(weights, draft, metadata={"pellucid": json.dumps({"kind": "HardNet", **notes}, sort_keys=True)})
    draft.replace(target)
    return target


def load_descriptor(path: str | os.PathLike[str]) -> HardNet:
    """Load a descriptor, in evaluation mode.

    Args:
        path: the folder of a run, a ``.safetensors`` file of :func:`save_descriptor`, or a PyTorch checkpoint of a HardNet (the
            state dict, or a dict that has it under ``state_dict``). Nothing in a file is ever executed.

    Errors:
        ``InvalidArgument`` for a file that is no HardNet's.
    """
    weights = read_weights(path)
    first, last = weights.get("features.0.weight"), weights.get("features.19.weight")
    if first is None or last is None or first.dim() != 4 or last.dim() != 4:
        raise invalid(str(path), expected="the weights of a HardNet (features.0.weight ...)", got=f"{sorted(weights)[:3]} ...")
    network = HardNet(width=first.shape[0] / 32, dimensions=last.shape[0])
    try:
        network.load_state_dict(weights)
    except RuntimeError as error:
        raise invalid(str(path), expected="the weights of a HardNet", got=str(error).splitlines()[-1].strip()) from error
    return network.eval()


def read_weights(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """The tensors of a safetensors file or a PyTorch checkpoint by name; of a run's folder, those of its descriptor."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    file = Path(path)
    if file.is_dir():
        if not (file / DESCRIPTOR_FILE).exists():
            fix = "A run writes it when it ends; resume the run to finish it."
            raise invalid(str(path), expected=f"the folder of a finished run, with {DESCRIPTOR_FILE}", got="none", fix=fix)
        file = file / DESCRIPTOR_FILE
    if not file.exists():
        raise invalid("weights", expected="an existing file or the folder of a run", got=str(path))
    try:
        if file.suffix == ".safetensors":
            loaded: Any = load_file(file)
        else:
            loaded = torch.load(file, map_location="cpu", weights_only=True)
    except (SafetensorError, pickle.UnpicklingError, RuntimeError, EOFError) as error:
        raise invalid(str(path), expected="a safetensors file or a PyTorch checkpoint of tensors", got=str(error)[:200]) from error
    if isinstance(loaded, Mapping) and isinstance(loaded.get("state_dict"), Mapping):
        loaded = loaded["state_dict"]
    if not isinstance(loaded, Mapping) or not all(isinstance(value, Tensor) for value in loaded.values()):
        raise invalid(str(path), expected="a state dict", got=type(loaded).__name__)
    return dict(loaded)
