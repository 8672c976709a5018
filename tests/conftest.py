"""Ground rules for every test: deterministic algorithms, poisoned memory, two threads, seeds set, no global RNG leaks."""

import itertools
import os

import pytest
import torch

if not torch.cuda.is_available():  # Triton's kernels then run on CPU tensors; Triton reads this when it is imported
    os.environ.setdefault("TRITON_INTERPRET", "1")
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it torch warns on CUDA of every product of matrices

# One thread each when the suite itself runs in parallel.
torch.set_num_threads(1 if "PYTEST_XDIST_WORKER" in os.environ else min(2, os.cpu_count() or 1))
# Also fills torch.empty with NaN, so an output that nobody wrote shows.
torch.set_deterministic_debug_mode("warn")  # as torch.use_deterministic_algorithms, without an import of Inductor


@pytest.hookimpl(tryfirst=True)  # before pytest chooses by markers
def pytest_collection_modifyitems(items, config):
    from tests.sampled import mark_long

    mark_long(items, config)


@pytest.fixture(autouse=True)
def _seeded(monkeypatch):
    from pellucid.pipeline import transform_calls
    from pellucid.random import stream

    threads = torch.get_num_threads()
    torch.manual_seed(0)
    # What has no seed draws the same whatever ran before.
    monkeypatch.setattr(stream, "_made", itertools.count())
    transform_calls.solo.cache_clear()
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def one_thread(_seeded):
    """One thread, for small pictures, and for bits that do not depend on how sums are split; folders and files ask for it."""
    torch.set_num_threads(1)


@pytest.fixture
def shapes_checked():
    """Shapes in signatures hold for every call, or the call that breaks one raises; not where Dynamo traces."""
    from tests import shape_checks

    with shape_checks.shapes_checked():
        yield


@pytest.fixture(params=["cpu", "triton"])
def by(request, monkeypatch):
    """The name of each compiled implementation; Triton's kernels run wherever the tests' tensors are."""
    if request.param != "triton":
        yield request.param
        return
    from pellucid.kernels import dispatch
    from tests.kernels.interpreted import interpreting

    monkeypatch.setattr(dispatch, "_runs_on", lambda name, device: True)
    with interpreting(monkeypatch):
        yield request.param
