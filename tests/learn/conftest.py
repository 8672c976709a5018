"""One thread: pictures of 16 x 16 gain nothing from a second."""

import pytest


@pytest.fixture(autouse=True)
def _alone(one_thread):
    pass
