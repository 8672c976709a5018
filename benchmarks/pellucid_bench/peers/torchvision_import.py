"""Importing torchvision beside a torch build that its compiled operators do not match.

Owns: `torchvision_v2`.
Must not: leave torch changed.
Read next: ``torchvision.py``.
"""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["torchvision_v2"]


def torchvision_v2() -> Any:
    """Import ``torchvision.transforms.v2``.

    A wheel built for CUDA finds no compiled operators beside a CPU torch, and fails while it describes them to the compiler. The
    transforms need none of those operators, so the descriptions are skipped during the import.
    """
    register = torch.library.register_fake

    def skipping(op: Any, *arguments: Any, **options: Any) -> Any:
        if isinstance(op, str) and op.startswith("torchvision::"):
            return lambda function: function
        return register(op, *arguments, **options)

    torch.library.register_fake = skipping
    try:
        from torchvision.transforms import v2
    except (RuntimeError, OSError) as error:
        raise ImportError(f"torchvision does not match this torch: {error}") from error
    finally:
        torch.library.register_fake = register
    return v2
