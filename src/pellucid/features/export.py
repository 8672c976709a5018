"""Descriptors for programs that have no Pellucid: ONNX, and torch.export's programs.

Owns: the example input, which sizes may change, and checking that the file still says what the network says.
Must not: be imported where neither is wanted: ONNX is an extra.
Read next: ``weights.py``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from pellucid.core.files import written
from pellucid.errors import invalid
from pellucid.features.hardnet import HardNet

__all__ = ["export_descriptor", "export_onnx", "export_program"]


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
    suffix = Path(path).suffix
    if suffix == ".onnx":
        return export_onnx(network, path)
    if suffix == ".pt2":
        return export_program(network, path)
    raise invalid("output", expected="a file name ending in .onnx or .pt2", got=str(path))


def export_program(network: HardNet, path: str | os.PathLike[str]) -> Path:
    """Write a program that ``torch.export.load(path).module()`` runs without Pellucid, on PyTorch alone.

    Args:
        network: exported as in evaluation; it is left as it is.
        path: ending in ``.pt2``.
    """
    program = _program(network)

    def save(draft: Path) -> None:
        with draft.open("wb") as file:  # by its name, torch expects another ending than a draft's
            torch.export.save(program, file)

    return written(path, save)


def export_onnx(network: HardNet, path: str | os.PathLike[str]) -> Path:
    """Write an ONNX model, weights inside.

    Args:
        network: exported as in evaluation; it is left as it is.
        path: ending in ``.onnx``.

    Source:
        ``onnxruntime`` gives the network's descriptors to 1e-5, ``tests/features/test_export.py``.
    """
    try:
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise ImportError('ONNX export needs onnx and onnxscript: pip install "pellucid[onnx]".') from error
    model: Any = torch.onnx.export(
        _program(network), dynamo=True, input_names=["patches"], output_names=["descriptors"], verbose=False
    )
    return written(path, lambda draft: model.save(str(draft), external_data=False))


def _program(network: HardNet) -> Any:
    was_training = network.training
    try:
        example = torch.zeros(2, 1, HardNet.patch_size, HardNet.patch_size, device=next(network.parameters()).device)
        many = torch.export.Dim("patches", min=1)
        return torch.export.export(network.eval(), (example,), dynamic_shapes=({0: many},))
    finally:
        network.train(was_training)
