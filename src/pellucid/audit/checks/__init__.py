"""The checks of an audit: each module measures one family of defects and emits findings.

Owns: the order in which they run.
Must not: hold logic.
Read next: ``smoke.py``, then in the order of ``ALL``.
"""
