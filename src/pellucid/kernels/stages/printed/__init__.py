"""Stages printed for Numba and Triton by ``python -m printer.printing``; a test compares them with its output.

Owns: nothing itself.
Must not: be edited.
Read next: ``../colour.py``.
"""
