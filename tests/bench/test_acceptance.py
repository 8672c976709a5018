"""What the fused passes promise about cost, as figures that hold on a busy machine: memory and passes."""

from pathlib import Path

import pytest

from pellucid import Pipeline
from pellucid.engine.plan import Run, make_plan
from pellucid.types import ImageSpec
from pellucid_bench.memory import peak_extra_bytes
from pellucid_bench.peers import ours
from pellucid_bench.settings import CHAIN


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux's high-water mark")
def test_forward_and_backward_need_at_most_three_images_of_memory():
    batch, size = 8, 224
    image = batch * 3 * size * size * 4
    peak = peak_extra_bytes("flagship", "pellucid", "pellucid", ["image", "image+parameters"], batch=batch, size=size)
    # The result, its gradient to the image and little else; results are counted, the upstream gradient is not.
    assert 1.9 * image <= peak["image"] <= 3 * image
    assert 1.9 * image <= peak["image+parameters"] <= 3 * image


def chain(length):
    (subject,) = ours.chain(length)
    pipeline = subject.forward
    assert isinstance(pipeline, Pipeline)
    return pipeline


def test_any_number_of_operations_is_one_pass():
    for length in range(1, len(CHAIN) + 1):
        plan = make_plan(chain(length).transforms, ImageSpec(3, 224, 224))
        assert len(plan.groups) == 1
        assert isinstance(plan.groups[0], Run)
