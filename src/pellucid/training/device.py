"""Where a run computes.

Owns: the choice behind "auto", and refusing an absent device before anything is read.
Must not: move anything.
Read next: ``loop.py``.
"""

from __future__ import annotations

import torch

from pellucid.errors import invalid

__all__ = ["pick_device"]


def pick_device(name: str) -> torch.device:
    """The device to train on: ``auto`` takes a GPU where there is one.

    Errors:
        ``InvalidArgument`` for a device that is not there.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise invalid("device", expected="auto, cpu or cuda", got=repr(name)) from error
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device.type not in ("cpu", "cuda") or (device.type == "cuda" and (device.index or 0) >= gpus):
        raise invalid("device", expected=f"auto, cpu, or cuda where there is a GPU ({gpus} here)", got=repr(name))
    return device
