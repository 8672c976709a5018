"""The documentation site: what is generated for it, and whether what was built holds together.

Owns: nothing; the modules do.
Must not: be needed by the library.
Read next: ``hooks.py``.
"""
