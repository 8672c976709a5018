"""Fields inside the compiled warp: values and every gradient against the reference, any order of canvas and field."""

import pytest
import torch

from pellucid.kernels.warp import pack, warp
from pellucid.kernels.warp.packing import Link
from tests.compare import grads_close, within_budget


def numbers(*shape, seed, low=0.0, high=1.0):
    return low + (high - low) * torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def leaves(shared):
    """Image, outer map, displacements, inner map, canvas, its fill and the grid; one grid for all samples, or one each."""
    spacing = torch.tensor([8.0, 5.0], dtype=torch.float64)
    return [
        numbers(3, 3, 33, 41, seed=0),
        torch.tensor([[[0.93, 0.11, 0.31], [-0.07, 1.04, 0.23], [0.001, 0.0003, 1.0]]], dtype=torch.float64),
        numbers(1 if shared else 3, 2, 7, 9, seed=1, low=-0.45, high=0.45) * spacing[:, None, None],
        torch.tensor([[[1.03, -0.13, -3.37], [0.08, 0.91, 0.29], [0.0004, 0.001, 1.0]]], dtype=torch.float64),
        torch.tensor([[0.0, 0.0, 36.0, 30.0]], dtype=torch.float64),
        numbers(3, 3, seed=2),
    ], torch.tensor([[0.5, -1.0, 8.0, 5.0]], dtype=torch.float64)


DIRECTIONS = 8
"""Of the gradients that are compared. One alone may be a lucky draw of the reference's: its errors cancel, and nobody's need to."""


def results(impl, dtype, first, kind, shared, infinite=False, bend="bend"):
    """The result and its gradients to all of them, in several directions."""
    given, grid = leaves(shared)
    given = [one.to(dtype).requires_grad_() for one in given]
    image, outer, control, inner, canvas, fill = given
    if infinite:
        inner = inner * torch.tensor([[torch.nan, 1.0, 1.0]], dtype=dtype)[..., None].expand(3, 3, 1).where(
            torch.arange(3)[:, None, None] == 1, torch.ones((), dtype=dtype)
        )
    field = Link(bend, inner, grid.to(dtype), control=control)
    other = Link(kind, inner, canvas, fill if kind in ("zeros", "hard") else None)
    out = warp(image, pack(outer, size=(31, 37), links=[field, other] if first else [other, field]), impl=impl)
    used = given if kind in ("zeros", "hard") else given[:-1]
    totals = [(out * numbers(3, 3, 31, 37, seed=3 + k).to(dtype)).nan_to_num().sum() for k in range(DIRECTIONS)]
    found = [torch.autograd.grad(total, used, retain_graph=True) for total in totals]
    return out.detach(), [torch.stack(parts) for parts in zip(*found, strict=True)]


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("kind", ["zeros", "hard", "border"])
@pytest.mark.parametrize("first", [True, False], ids=["nearest-the-source", "nearest-the-result"])
@pytest.mark.parametrize("bend", ["bend", "kink"])
def test_compiled_fields_are_the_references(bend, first, kind, shared):
    truth, slopes = results("reference", torch.float64, first, kind, shared, bend=bend)
    exact, found = results("cpu", torch.float64, first, kind, shared, bend=bend)
    assert (exact - truth).abs().max() < 1e-12
    for mine, theirs in zip(found, slopes, strict=True):
        assert grads_close(mine, theirs, 1e-12)
    if kind == "hard":  # in single precision, a point on its edge may fall to either side
        return
    low, lows = results("reference", torch.float32, first, kind, shared, bend=bend)
    fast, found = results("cpu", torch.float32, first, kind, shared, bend=bend)
    for mine, theirs, exact in zip((fast, *found), (low, *lows), (truth, *slopes), strict=True):
        assert within_budget(mine, theirs, exact)


def test_a_sample_that_is_nowhere_leaves_the_others_alone():
    truth, slopes = results("reference", torch.float64, True, "zeros", False, infinite=True)
    exact, found = results("cpu", torch.float64, True, "zeros", False, infinite=True)
    assert (exact - truth).abs().max() < 1e-12
    assert grads_close(found[2], slopes[2], 1e-12)
    assert not found[2][:, 1].any()


def test_labels_follow_the_field():
    given, grid = leaves(False)
    image, outer, control, inner, canvas, _ = given
    links = [Link("bend", inner, grid, control=control), Link("hard", inner, canvas)]
    how = {"size": (31, 37), "interpolation": "nearest", "links": links}
    labels = torch.arange(image[0].numel()).expand(3, -1).reshape(image.shape)
    compiled, reference = (warp(labels, pack(outer, **how), impl=impl) for impl in ("cpu", "reference"))
    assert torch.equal(compiled, reference)


def test_a_field_at_rest_changes_no_bit():
    image = numbers(2, 3, 20, 24, seed=4).float()
    still, grid = torch.eye(3)[None], torch.tensor([[0.0, 0.0, 8.0, 8.0]])
    link = Link("bend", still, grid, control=torch.zeros(1, 2, 6, 6))
    assert torch.equal(warp(image, pack(still[:, :2], size=(20, 24), padding_mode="border", links=[link]), impl="cpu"), image)
