"""The plan: which steps are fused, decided from shapes alone.

Owns: the order of steps, grouping them into runs, and the random words of each draw.
Must not: hold tensors or read values: a plan is a pure function of transforms, image kind and options.
Read next: ``values.py``.
"""

from pellucid.engine.plan.make import Plans, ends_of, for_size, layout_of, make_plan
from pellucid.engine.plan.partners import keeps_partners, sources
from pellucid.engine.plan.values import CANVAS_RULES, Canvas, Draw, Group, Kind, Part, Plan, Run, Single, Space

__all__ = [
    "CANVAS_RULES", "Canvas", "Draw", "Group", "Kind", "Part", "Plan", "Plans", "Run", "Single", "Space", "ends_of", "for_size",
    "keeps_partners", "layout_of", "make_plan", "sources",
]  # fmt: skip
