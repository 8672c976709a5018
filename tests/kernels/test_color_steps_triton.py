"""The chain of clipped colour steps in Triton computes what the reference computes."""

import itertools

import pytest
import torch

from pellucid.kernels import dispatch
from pellucid.kernels.color import jitter_steps

from .interpreted import DEVICE, runs  # noqa: F401
from .primitives import gradients
from .test_color_steps import NAMES, ORDERS, jitters, steps


@pytest.fixture(autouse=True)
def anywhere(monkeypatch):
    """Explicitly chosen, the kernels run on the tests' device."""
    monkeypatch.setattr(dispatch, "_runs_on", lambda name, device: True)


def both(tensors, **options):
    tensors = [t.to(DEVICE) for t in tensors]
    return zip(*(gradients(steps, tensors, impl=impl, **options) for impl in ("triton", "reference")), strict=True)


def test_many_orders_and_its_gradients_equal_the_reference_in_double():
    image, _, factors = jitters(batch=8, size=(3, 2))
    for ours, theirs in both((image, ORDERS[::3], factors)):
        torch.testing.assert_close(ours, theirs, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("count", [1, 2])
def test_some_of_the_steps(count):
    tensors = jitters(size=(9, 17))  # more pixels than a block
    for names in itertools.combinations(NAMES, count):
        for ours, theirs in both(tensors, names=names):
            torch.testing.assert_close(ours, theirs, atol=1e-12, rtol=1e-12)


def test_several_chunks_other_channels_and_layouts():
    image, order, factors = jitters(channels=2, size=(36, 40))
    image = image.contiguous(memory_format=torch.channels_last)
    for ours, theirs in both((image, order, factors), names=NAMES[:3]):
        torch.testing.assert_close(ours, theirs, atol=1e-12, rtol=1e-12)


def test_single_precision_is_as_precise_as_the_reference():
    tensors = jitters(size=(8, 9), dtype=torch.float32)
    truth = gradients(
        steps, [t.to(DEVICE, torch.float64) if t.is_floating_point() else t.to(DEVICE) for t in tensors], impl="reference"
    )
    eps = torch.finfo(torch.float32).eps
    for (ours, theirs), true in zip(both(tensors), truth, strict=True):
        error, allowed = (ours.double() - true).abs().max(), (theirs.double() - true).abs().max()
        assert error <= 2 * allowed + 16 * eps * (1 + true.abs().max())


def test_one_row_for_all_fixed_order_and_empty_batches():
    image, _, factors = (t.to(DEVICE) for t in jitters(batch=3, size=(4, 5)))
    rows = {name: factors[:1, i] for i, name in enumerate(NAMES)}
    a, b = (jitter_steps(image, None, rows, impl=impl) for impl in ("triton", "reference"))
    torch.testing.assert_close(a, b)
    assert jitter_steps(image[:0], None, rows, impl="triton").shape == (0, 3, 4, 5)


@pytest.mark.parametrize("order", [[0, 0, 2, 3], [2, 9, 2, 1], [-1, 1, 2**40, 3]])
def test_an_order_that_is_no_permutation(order):
    """A step that stands twice is done twice, and what is no step does nothing; no memory is read or left as it was."""
    image, _, factors = jitters(batch=2, size=(9, 17))
    for ours, theirs in both((image, torch.tensor([order] * 2), factors)):
        torch.testing.assert_close(ours, theirs, atol=1e-12, rtol=1e-12)


def test_operators():
    tensors = [t.to(DEVICE) for t in jitters(size=(3, 4))]
    torch.library.opcheck(torch.ops.pellucid.triton_jitter_steps.default, (*tensors, 15))
    backward = torch.ops.pellucid.triton_jitter_steps_backward.default
    torch.library.opcheck(backward, (tensors[0], *tensors, 15, [True, False, True]))
    torch.library.opcheck(backward, (tensors[0], *tensors, 5, [False, False, True]))
