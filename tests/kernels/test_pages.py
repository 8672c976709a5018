"""Large results lie in memory that the system may back by large pages, or in shared memory where it is asked for."""

import mmap
import re
import threading
from pathlib import Path

import pytest
import torch

from pellucid import Normalize, Pipeline, RandomAffine, RandomHorizontalFlip, Resize
from pellucid.kernels import pages
from pellucid.kernels.pages import in_large_pages, in_shared_memory

MAPS = Path("/proc/self/smaps")
pytestmark = pytest.mark.skipif(
    not MAPS.exists() or "VmFlags" not in MAPS.read_text(), reason="the system does not tell of its pages"
)


def is_advised(tensor):
    """Whether the memory in the middle of a tensor is marked for large pages."""
    middle = tensor.data_ptr() + tensor.numel() * tensor.element_size() // 2
    inside = False
    for line in MAPS.read_text().splitlines():
        bounds = re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line)
        if bounds:
            inside = int(bounds[1], 16) <= middle < int(bounds[2], 16)
        elif inside and line.startswith("VmFlags"):
            return "hg" in line.split()
    raise AssertionError("the tensor lies in no mapping")


def test_large_memory_is_advised_and_stays_what_it_is():
    fresh = mmap.mmap(-1, 36 << 20)  # what the allocator gives may be memory that was advised before
    large = torch.frombuffer(fresh, dtype=torch.float32)
    assert not is_advised(large)
    assert in_large_pages(large) is large
    assert is_advised(large)
    large.fill_(3.0)
    assert (large == 3.0).all()


@pytest.mark.parametrize("tensor", [torch.empty(1 << 19), torch.empty(0), torch.empty(9 << 20, device="meta")])
def test_others_are_left_alone(tensor):
    assert in_large_pages(tensor) is tensor
    assert tensor.is_meta or not tensor.numel() or not is_advised(tensor)


@pytest.mark.parametrize(
    "steps",
    [[RandomAffine(20)], [Resize((208, 240))], [Normalize(0.5, 0.2)], [RandomHorizontalFlip()]],
    ids=["warp", "resize", "colour", "copies"],
)
def test_results_and_gradients_of_large_batches_are(steps):
    images = torch.ones(1, 1, 1, 1).expand(64, 3, 208, 240).contiguous().requires_grad_()
    out = Pipeline(steps, seed=0)(images)
    assert is_advised(out)
    (gradient,) = torch.autograd.grad(out, images, torch.ones_like(out))
    assert is_advised(gradient)


def test_results_lie_in_shared_memory_where_it_is_asked_for():
    images, augment = torch.rand(64, 3, 120, 130), Pipeline([RandomAffine(20), Normalize(0.5, 0.2)], seed=0)
    wanted = augment(images)
    augment.load_state_dict(Pipeline([RandomAffine(20), Normalize(0.5, 0.2)], seed=0).state_dict())
    elsewhere = []
    with in_shared_memory():
        out = augment(images)
        other = threading.Thread(target=lambda: elsewhere.append(in_large_pages(torch.empty(2 << 20)).is_shared()))
        other.start()
        other.join()
        assert not in_large_pages(torch.empty(1 << 10)).is_shared()
    assert out.is_shared()
    assert torch.equal(out, wanted)
    assert elsewhere == [False]
    assert not in_large_pages(torch.empty(2 << 20)).is_shared()


def test_results_stay_where_they_are_if_the_system_refuses(monkeypatch):
    monkeypatch.setattr(pages, "_advise", lambda: lambda *given: -1)
    large = torch.empty(2 << 20)
    with in_shared_memory():
        assert in_large_pages(large) is large
