"""One thread, and no warnings as errors from the subjects under audit."""

import pytest


@pytest.fixture(autouse=True)
def _alone(one_thread):
    pass
