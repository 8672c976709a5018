"""``python -m pellucid.cli``.

Owns: nothing.
Must not: grow.
Read next: ``__init__.py``.
"""

from pellucid.cli import main

if __name__ == "__main__":
    main()
