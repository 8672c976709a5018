"""Geometry on small tensors: matrices, homographies, points.

Owns: building, composing and inverting maps, in pixel-centre coordinates.
Must not: know images or boxes.
Read next: ``matrices.py``.
"""
