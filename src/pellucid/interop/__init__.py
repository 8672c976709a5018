"""Pipelines of other libraries, in and out: torchvision, albumentations, kornia.

Owns: the public importers, and `Unsupported`, the list of what has no equal here.
Must not: import another library, or run what it reads.
Read next: ``reading.py``.
"""

from pellucid.interop.reading import Imported, Missing, Unsupported
from pellucid.interop.torchvision import from_torchvision, read_torchvision

__all__ = ["Imported", "Missing", "Unsupported", "from_torchvision", "read_torchvision"]
