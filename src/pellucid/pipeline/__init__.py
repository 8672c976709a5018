"""The pipeline that users call, and what comes out of a call.

Owns: the module, its records, views and worst draws, lists of pictures, learned numbers, and files of pipelines.
Must not: decide what is fused or compute on pixels.
Read next: ``module.py``.
"""

from pellucid.pipeline.module import Pipeline

__all__ = ["Pipeline"]
