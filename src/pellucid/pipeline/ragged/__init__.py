"""Lists of pictures of different sizes.

Owns: the names that the pipeline uses.
Must not: be imported by anything below the pipeline.
Read next: ``record.py``.
"""

from pellucid.pipeline.ragged.calls import (
    applied_list,
    apply_lists,
    draw_lists,
    forward_lists,
    invert_lists,
    key_of_list,
    planned_list,
    recorded_list,
    valid_masks,
)
from pellucid.pipeline.ragged.reading import is_ragged
from pellucid.pipeline.ragged.record import RaggedRecord, scattered

__all__ = [
    "RaggedRecord", "applied_list", "apply_lists", "draw_lists", "forward_lists", "invert_lists", "is_ragged", "key_of_list",
    "planned_list", "recorded_list", "scattered", "valid_masks",
]  # fmt: skip
