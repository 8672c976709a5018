"""The primitives' implementations: one reference each, which is the specification, and faster ones beside it.

Owns: arithmetic on image tensors, and the table that says which implementation runs.
Must not: know of transforms, plans or targets.
Read next: ``warp/reference.py``.
"""
