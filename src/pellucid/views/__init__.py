"""Several views of pictures: one draw for several batches, many crops of one picture, predictions merged in the picture's frame.

Owns: the public names.
Must not: draw or resample; the pipeline does.
Read next: ``tta.py``, ``docs/views.md``.
"""

from pellucid.pipeline.maps import ViewMap
from pellucid.pipeline.view_draws import View
from pellucid.views.cutouts import cutouts
from pellucid.views.siamese import same_draw
from pellucid.views.tta import TTA

__all__ = ["TTA", "View", "ViewMap", "cutouts", "same_draw"]
