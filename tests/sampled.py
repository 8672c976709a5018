"""Parameters of which the default run takes a few, evenly spread; ``make test-all`` takes them all."""

from collections.abc import Iterable, Sequence

import pytest


def sampled(cases: Iterable, every: int, ids: Sequence[str] | None = None) -> list:
    """Mark all but each ``every``-th case as slow, from the first on."""
    cases = list(cases)
    names = ids or [getattr(case, "name", case) for case in cases]
    return [
        pytest.param(case, id=str(name), marks=[pytest.mark.slow] if n % every else [])
        for n, (case, name) in enumerate(zip(cases, names, strict=True))
    ]
