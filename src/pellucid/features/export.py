"""Export descriptors for use without Pellucid, as ONNX or torch.export programs.

Owns: the example input, the sizes that may change, and checking the file against the network.
Must not: be imported unless a descriptor is exported: ONNX is an extra.
Read next: ``weights.py``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from pellucid.core.graphs import save_graph
from pellucid.features.hardnet import HardNet

__all__ = ["export_descriptor"]


def export_descriptor(network: HardNet, path: str | os.PathLike[str]) -> Path:
    """Write ``path``: ONNX for a name ending in ``.onnx``, a ``torch.export`` program for ``.pt2``.

    The input is ``patches`` (N, 1, 32, 32), not normalised, for any N; the output is ``descriptors`` (N, D), of unit length.

    Args:
        network: in evaluation mode while it is exported.
        path: of the file.

    Returns:
        The path.

    Errors:
        ``InvalidArgument`` for another ending. ImportError where ONNX is wanted and not installed.

    Example:
        >>> import tempfile
        >>> from pellucid.features import HardNet, export_descriptor
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     export_descriptor(HardNet(width=4).eval(), f"{folder}/descriptor.pt2").name
        'descriptor.pt2'
    """
    return save_graph(lambda: _program(network), path, inputs=["patches"], outputs=["descriptors"])


def _program(network: HardNet) -> Any:
    was_training = network.training
    try:
        example = torch.zeros(2, 1, HardNet.patch_size, HardNet.patch_size, device=next(network.parameters()).device)
        many = torch.export.Dim("patches", min=1)
        return torch.export.export(network.eval(), (example,), dynamic_shapes=({0: many},))
    finally:
        network.train(was_training)
