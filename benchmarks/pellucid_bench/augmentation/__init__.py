"""The study of learned augmentation: the same network and budget, augmented in several ways, few training images, several seeds.

Owns: the order of the package: the runs, then their page.
Must not: be imported by the library.
Read next: ``run.py``.
"""
