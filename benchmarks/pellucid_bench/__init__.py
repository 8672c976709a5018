"""Side-by-side timings against the peers, in one process, with equal parameters.

Owns: the order of the package: subjects, checks, measurements, reports.
Must not: be imported by the library itself; peers are optional and imported when they are measured.
Read next: ``subject.py``.
"""
