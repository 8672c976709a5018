"""The printer of stages: from a reference in plain torch to its text for Numba and Triton, forward and backward.

Owns: programs, their derivatives, and both printers. ``python -m printer.printing`` writes ``src/pellucid/kernels/stages/printed``.
Must not: be shipped, or be needed where the package runs.
Read next: ``recorded.py``, ``printing.py``.
"""
