"""Learning recipes: augmentation that trains with, or for, a model.

Owns: Augerino, hypergradients, density matching, TeachAugment, weakening.
Must not: be imported by the library below it.
Read next: ``augerino.py``, ``docs/learning.md``.
"""

from pellucid.core.docstrings import introduce
from pellucid.learn.augerino import AugerinoSettings, augerino_objective
from pellucid.learn.bilevel import BilevelSettings, implicit_hypergradient, unrolled_hypergradient
from pellucid.learn.density import DensitySettings, gradient_penalty
from pellucid.learn.run import RECIPES, learn
from pellucid.learn.settings import Learning, Settings
from pellucid.learn.teach import TeachSettings, follow, teach_losses
from pellucid.learn.weaken import Weakening

__all__ = [
    "RECIPES", "AugerinoSettings", "BilevelSettings", "DensitySettings", "Learning", "Settings", "TeachSettings",
    "Weakening", "augerino_objective", "follow", "gradient_penalty", "implicit_hypergradient", "learn", "teach_losses",
    "unrolled_hypergradient",
]  # fmt: skip

introduce(*map(globals().get, __all__))
