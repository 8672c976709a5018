"""Transforms: frozen values that say what may happen to an image.

Owns: the table of all transforms by name, from each module's own list.
Must not: draw, execute, or know which implementation runs.
Read next: ``base.py``.
"""
# ruff: noqa: I001 - the order of the documentation: geometry, then colour, then the rest, then choices

from pellucid.transforms.flip import *
from pellucid.transforms.affine import *
from pellucid.transforms.lie import *
from pellucid.transforms.perspective import *
from pellucid.transforms.plasma import *
from pellucid.transforms.light import *
from pellucid.transforms.elastic import *
from pellucid.transforms.waves import *
from pellucid.transforms.grid import *
from pellucid.transforms.lens import *
from pellucid.transforms.crop import *
from pellucid.transforms.resize import *
from pellucid.transforms.zoom import *
from pellucid.transforms.intensities import *
from pellucid.transforms.jitter import *
from pellucid.transforms.channels import *
from pellucid.transforms.hsv import *
from pellucid.transforms.color import *
from pellucid.transforms.tone import *
from pellucid.transforms.discrete import *
from pellucid.transforms.blur import *
from pellucid.transforms.filters import *
from pellucid.transforms.collage import *
from pellucid.transforms.noise import *
from pellucid.transforms.scans import *
from pellucid.transforms.weather import *
from pellucid.transforms.holes import *
from pellucid.transforms.codec import *
from pellucid.transforms.mix import *
from pellucid.transforms.paste import *
from pellucid.transforms.choices import *
from pellucid.transforms.mixture import *
from pellucid.transforms.function import *
from pellucid.transforms.space import *
from pellucid.transforms.space_sizes import *
from pellucid.transforms.space_elastic import *
from pellucid.transforms.base import Transform
from pellucid.transforms.docstrings import tell
from pellucid.transforms.formerly import take_old_calls
from pellucid.transforms.function import Lambda

ALL: tuple[type[Transform], ...] = tuple(
    kind
    for kind in tuple(globals().values())
    if isinstance(kind, type) and issubclass(kind, Transform) and kind not in (Transform, Lambda) and 2 in kind.dimensions
)
"""Every transform of pictures that a file can name; serialisation, tests and documentation read this."""

VOLUMES: tuple[type[Transform], ...] = tuple(
    kind for kind in tuple(globals().values()) if isinstance(kind, type) and issubclass(kind, Transform) and kind.dimensions == (3,)
)
"""Every transform for volumes alone. Those in `ALL` whose ``dimensions`` hold 3 take volumes, too."""

GROUPS: dict[str, tuple[type[Transform], ...]] = {
    name: tuple(kind for kind in ALL if kind.__module__.rpartition(".")[2] in modules.split())
    for name, modules in {
        "Geometry": "flip affine lie perspective",
        "Fields and lenses": "elastic waves grid lens",
        "Crops and sizes": "crop resize zoom",
        "Colour": "jitter channels hsv color",
        "Light": "plasma light",
        "Tone": "tone discrete",
        "Blur and sharpness": "blur filters",
        "Noise": "noise",
        "Scanners": "scans intensities",
        "Weather": "weather",
        "Dropout": "holes",
        "Collages and zoom": "collage",
        "Codecs": "codec",
        "Mixing": "mix paste",
        "Choices": "choices mixture",
    }.items()
}
"""The transforms of `ALL`, grouped by what they do."""

for _kind in (*ALL, *VOLUMES):
    tell(_kind)
for _kind in (*ALL, Lambda):
    take_old_calls(_kind)

vars()["__all__"] = [
    *(kind.__name__ for kind in (*ALL, *VOLUMES)),
    "Lambda",
]  # not assigned: type checkers follow the stars above, and cannot read a list that is computed
