"""Shapes in signatures hold for every call of the contract suite."""

import pytest


@pytest.fixture(autouse=True)
def _shapes_checked(shapes_checked):
    pass
