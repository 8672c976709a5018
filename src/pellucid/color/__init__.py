"""Colour maths on small tensors and on pixels: luma, HSV, affine colour maps.

Owns: the formulas and their safe gradients.
Must not: know of transforms or batches of targets.
Read next: ``luma.py``, ``maps.py``, ``hsv.py``.
"""
