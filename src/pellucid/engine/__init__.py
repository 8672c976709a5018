"""Compute a pipeline's pixels from its transforms and a key.

Owns: the plan (which transforms are fused), drawing, lowering drawn values to small tensors, and executing the plan.
Must not: know kinds of targets, records, or the module that users call.
Read next: ``plan/make.py``.
"""
