"""One thread: these tests ask whether the benchmark works, and two threads on a busy machine wait for one another."""

import pytest


@pytest.fixture(autouse=True)
def _alone(one_thread):
    pass
