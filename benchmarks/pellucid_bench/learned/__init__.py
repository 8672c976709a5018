"""``pellucid study learned``: ways to augment, fixed and learned, in one space, of one cost, on the same networks and seeds.

Owns: the order of the package: data, arms, runs, page.
Must not: be imported by the library.
Read next: ``arms.py``.
"""
