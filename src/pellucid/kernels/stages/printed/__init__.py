"""Stages printed for Numba and Triton by ``python -m printer.printing``; a test holds them to it.

Owns: nothing itself.
Must not: be edited.
Read next: ``../colour.py``.
"""
