"""The table of other libraries' transforms: every name it claims exists, and every class of torchvision's is looked at."""

from functools import reduce

import pytest

from pellucid_bench.coverage import FUNCTIONS, MISSING, OURS, classes_of, functions_of, ours_of
from tests.peers import torchvision_functional


@pytest.mark.parametrize("names", sorted(set(OURS.values())))
def test_what_is_claimed_exists(names):
    import pellucid.boxes
    import pellucid.corruptions
    import pellucid.policy

    for name in names.split(", "):
        assert callable(reduce(getattr, name.split("."), pellucid)), name


def test_nothing_is_both_had_and_missing():
    assert [name for name in MISSING if ours_of(name)] == []


def test_every_transform_of_torchvisions_is_looked_at():
    torchvision_functional()  # skips where it is not installed
    assert [name for name in classes_of("torchvision") if not ours_of(name) and name not in MISSING] == []


def test_every_function_of_torchvisions_is_looked_at():
    torchvision_functional()
    from pellucid import functional

    names = functions_of()
    assert len(names) > 45
    assert [name for name in names if not hasattr(functional, name) and name not in FUNCTIONS] == []
    assert [name for name in FUNCTIONS if hasattr(functional, name) or name not in names] == []
