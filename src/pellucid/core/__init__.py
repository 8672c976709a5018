"""Tools that every package here uses and that have nothing to do with images.

Owns: the order of axes, small constants, bounded caches, atomic file writes, kernel compilers, tapes, and other libraries' names.
Must not: know a transform or a picture.
Read next: ``constants.py``.
"""
