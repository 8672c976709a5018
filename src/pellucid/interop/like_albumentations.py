"""albumentations' names, for a script that was written with them: ``import pellucid.interop.like_albumentations as A``.

Calling a name that the importer knows returns the transform as plain data; ``Compose`` builds the pipeline.

Owns: turning calls into descriptions, and calling the pipeline with targets by name.
Must not: import albumentations, or know what its transforms do.
Read next: ``albumentations.py``.
"""

from __future__ import annotations

import sys
from functools import cached_property
from typing import Any

from pellucid.errors import wrong_type
from pellucid.interop.albumentations import KNOWN, from_albumentations
from pellucid.interop.signatures import call_of
from pellucid.pipeline import Pipeline

__all__ = ["Described"]

_WHOLE, _PARAMS = ("Compose", "ReplayCompose"), ("BboxParams", "KeypointParams")


class Described(dict[str, Any]):
    """A transform of albumentations as plain data; called, it does what the original does.

    Example:
        >>> import numpy as np, pellucid.interop.like_albumentations as A
        >>> augment = A.Compose([A.HorizontalFlip(p=1.0)], bbox_params=A.BboxParams("pascal_voc", label_fields=["names"]))
        >>> augment(image=np.zeros((8, 8, 3), np.uint8), bboxes=[[0.0, 1.0, 2.0, 3.0]], names=["cat"])["bboxes"]
        [[6.0, 1.0, 8.0, 3.0]]
    """

    @cached_property
    def pipeline(self) -> Pipeline:
        """The imported pipeline; a warning says what differs."""
        whole = self if self.get("name") in _WHOLE else {"name": "Compose", "transforms": [self]}
        return from_albumentations(whole)

    def __call__(self, *unnamed: Any, **targets: Any) -> Any:
        """Apply the pipeline to targets, which are passed by name."""
        if unnamed:
            raise wrong_type("call", expected="targets by name, as image=...", got=f"a {type(unnamed[0]).__name__} without one")
        return self.pipeline(**targets)


def _called(name: str, *places: Any, **options: Any) -> Described:
    given = call_of("albumentations", name, places, options)
    found = Described(given if name in _PARAMS else {"name": name, **given})
    if name in _WHOLE:
        _ = found.pipeline  # import now, so that an error names the script's line
    return found


def __getattr__(name: str) -> Any:
    if name == "pytorch":
        return sys.modules[__name__]
    if name not in KNOWN:
        raise AttributeError(f"albumentations has nothing called {name} that is read here")
    return lambda *places, **options: _called(name, *places, **options)
