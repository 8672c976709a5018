"""Pipelines of other libraries: torchvision, albumentations, kornia, MONAI, TorchIO.

Owns: the public importers and adapters, and `Unsupported`, which lists operations without an equal.
Must not: import another library, or run what it reads.
Read next: ``reading.py``.
"""

import inspect

from pellucid.core.docstrings import completed
from pellucid.interop.adapters import as_albumentations, as_batchgenerators, as_detectron2, as_kornia, as_torchvision
from pellucid.interop.albumentations import from_albumentations, read_albumentations
from pellucid.interop.code import as_code
from pellucid.interop.exporting import to_albumentations, to_huggingface, to_torchvision, to_ultralytics
from pellucid.interop.kornia import from_kornia, read_kornia
from pellucid.interop.reading import Imported, Missing, Unsupported
from pellucid.interop.scans import from_monai, from_torchio, read_monai, read_torchio
from pellucid.interop.source import Sourced, from_source
from pellucid.interop.torchvision import from_torchvision, read_torchvision

__all__ = [
    "Imported", "Missing", "Sourced", "Unsupported", "as_albumentations", "as_batchgenerators", "as_code", "as_detectron2",
    "as_kornia", "as_torchvision", "from_albumentations", "from_kornia", "from_monai", "from_source", "from_torchio",
    "from_torchvision", "read_albumentations", "read_kornia", "read_monai", "read_torchio", "read_torchvision", "to_albumentations",
    "to_huggingface", "to_torchvision", "to_ultralytics",
]  # fmt: skip

_OPTIONS = {
    "match": "``nearest`` replaces an operation without an equal by the nearest one, and a warning says how they differ; ``exact`` "
    "accepts only operations with the same results for the same drawn values.",
    "unknown": "``refuse`` operations without any substitute, or ``wrap`` each in a `Lambda`, if it changes only pictures and "
    "its library is installed.",
}
"""Descriptions of options that all importers share; they are added to the importers' docstrings."""

for _one in (globals()[name] for name in __all__ if name.startswith(("from_", "read_")) and name != "from_source"):
    _invalid = "InvalidArgument for another word than these, InvalidType for anything but a description of transforms."
    _refused = "Unsupported, with a list of every transform and option that has no equal."
    _shared = {name: _OPTIONS[name] for name in inspect.signature(_one).parameters if name in _OPTIONS}
    _one.__doc__ = completed(_one.__doc__, _shared, {"Errors": _refused if _one.__name__.startswith("from_") else _invalid})
