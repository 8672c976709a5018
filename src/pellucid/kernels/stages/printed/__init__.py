"""Stages printed for Numba by ``../printing.py``; a test holds them to it.

Owns: nothing itself.
Must not: be edited.
Read next: ``../printing.py``.
"""
