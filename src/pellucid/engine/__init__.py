"""From a pipeline's transforms and a key to pixels.

Owns: the plan (what is fused with what), drawing, lowering drawn values to small tensors, and executing the plan.
Must not: know kinds of targets, records, or the module that users call.
Read next: ``plan/make.py``.
"""
