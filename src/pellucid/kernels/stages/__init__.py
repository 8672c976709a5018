"""Stages written once: a reference is recorded, differentiated by declared conventions, and printed for who computes it.

Owns: nothing itself: importing compiled code that was printed imports none of what printed it.
Must not: import an implementation.
Read next: ``colour.py``, ``../../../../docs/adr/0056-stages-written-once.md``.
"""
