"""Where gradients can be taken.

Owns: `check_recording`, the refusal of inference mode.
Must not: change any mode.
Read next: ``constants.py``.
"""

from __future__ import annotations

import torch

from pellucid.errors import invalid

__all__ = ["check_recording"]


def check_recording(name: str) -> None:
    """Raise in inference mode, where not even ``torch.enable_grad`` records what a descent needs.

    Raises:
        InvalidArgument: in ``torch.inference_mode()``; in ``torch.no_grad()`` a descent records its own gradients.
    """
    if torch.is_inference_mode_enabled():
        fix = "Use torch.no_grad() around it."
        raise invalid(name, expected="a call outside of torch.inference_mode(), as it takes gradients", got="one inside", fix=fix)
