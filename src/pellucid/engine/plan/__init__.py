"""The plan: what is fused with what, decided from shapes alone.

Owns: the order steps run in, grouping them into runs, and where each draw finds its random words.
Must not: hold tensors or look at values; a plan is a pure function of transforms, image kind and options.
Read next: ``values.py``.
"""

from pellucid.engine.plan.make import Plans, ends_of, for_size, layout_of, make_plan
from pellucid.engine.plan.partners import keeps_partners, sources
from pellucid.engine.plan.values import CANVAS_RULES, Canvas, Draw, Group, Kind, Part, Plan, Run, Single, Space

__all__ = [
    "CANVAS_RULES", "Canvas", "Draw", "Group", "Kind", "Part", "Plan", "Plans", "Run", "Single", "Space", "ends_of", "for_size",
    "keeps_partners", "layout_of", "make_plan", "sources",
]  # fmt: skip
