"""The pipeline that users call, and its records.

Owns: the module, its records, views and worst draws, lists of pictures, learned numbers, and files of pipelines.
Must not: decide which steps are fused, or compute on pixels.
Read next: ``module.py``.
"""

from pellucid.core.docstrings import introduce
from pellucid.pipeline.blocks import Blocks
from pellucid.pipeline.maps import ViewMap
from pellucid.pipeline.module import Pipeline
from pellucid.pipeline.ragged import RaggedRecord
from pellucid.pipeline.records import Record

__all__ = ["Pipeline"]

introduce(Blocks, Pipeline, RaggedRecord, Record, ViewMap)
