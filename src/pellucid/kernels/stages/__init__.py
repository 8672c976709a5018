"""Stages written once: a reference is recorded, differentiated by declared conventions, and printed for Numba and Triton.

Owns: nothing itself, so that importing printed code does not import the printer.
Must not: import an implementation.
Read next: ``colour.py``, ``../../../../docs/adr/0056-stages-written-once.md``.
"""
