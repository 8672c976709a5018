"""Compiled coverage against the reference: values, gradients, rings, and edges anywhere."""

import pytest
import torch

from pellucid.kernels.polygons import coverage, reference

from .primitives import Kernel, gradients

DOUBLE = torch.float64
SIZE = (9, 13)


def rings(batch=3, size=SIZE, dtype=DOUBLE, seed=0, corners=11):
    """Random rings, which cross themselves and lie in part outside."""
    generator = torch.Generator().manual_seed(seed)
    points = torch.rand(batch, corners, 2, generator=generator, dtype=DOUBLE) * 1.6 - 0.3
    return ((points * torch.tensor(size[::-1], dtype=DOUBLE)).to(dtype),)


def covered(points, *, impl="auto"):
    return coverage(points, size=SIZE, impl=impl)


COVERAGE = Kernel(covered, rings, "coverage", (list(SIZE),))


@pytest.mark.parametrize("impl", ["cpu", "reference"])
def test_gradients_in_slow_mode(impl):
    (points,) = rings(batch=1, corners=4, seed=2)
    assert torch.autograd.gradcheck(lambda p: covered(p, impl=impl), points.requires_grad_(), fast_mode=False)


@pytest.mark.parametrize("seed", range(6))
def test_rings_end_where_a_row_is_not_finite(seed):
    (points,) = rings(batch=4, corners=17, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    gone = torch.rand(4, 17, generator=generator) < 0.3
    points = torch.where(gone[..., None], torch.tensor([torch.nan, torch.inf])[seed % 2], points)
    ours, theirs = (gradients(covered, (points,), impl=impl) for impl in ("cpu", "reference"))
    torch.testing.assert_close(ours, theirs, atol=1e-12, rtol=1e-12)
    assert not ours[1][gone].any()
    whole = reference.winding(points, size=SIZE)
    apart = torch.zeros_like(whole)
    for i in range(4):
        ring = []
        for row in (*points[i], torch.full((2,), torch.nan)):
            if row.isfinite().all():
                ring.append(row)
            elif ring:
                apart[i], ring = apart[i] + reference.winding(torch.stack(ring)[None], size=SIZE)[0], []
    torch.testing.assert_close(whole, apart, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("impl", ["cpu", "reference"])
@pytest.mark.parametrize(
    ("corners", "area"),
    [
        ([[0, 0], [13, 0], [13, 9], [0, 9]], 117),  # along the border
        ([[2, 3], [7, 3], [7, 5], [2, 5]], 10),  # along the lines between pixels
        ([[-1e6, -1e6], [1e6, -1e6], [1e6, 1e6], [-1e6, 1e6]], 117),  # all around
        ([[-5, 2], [20, 2], [20, 2.5], [-5, 2.5]], 6.5),  # from side to side
        ([[-9, 1], [-1, 1], [-1, 8], [-9, 8]], 0),
        ([[14, 1], [19, 1], [19, 8]], 0),
        ([[3, -9], [9, -9], [9, -1]], 0),
        ([[3, 10], [9, 9.5], [9, 12]], 0),
        ([[4, 4], [4, 4], [4, 4]], 0),
        ([[4, 4], [9, 6]], 0),
        ([[1.25, 1.5], [1.75, 1.5], [1.75, 1.75]], 0.0625),  # within a pixel
    ],
)
def test_places_that_arithmetic_may_trip_over(corners, area, impl):
    points = torch.tensor([corners], dtype=DOUBLE)
    found = covered(points, impl=impl)
    assert found.sum().item() == pytest.approx(area, abs=1e-9)
    assert 0 <= found.min() <= found.max() <= 1
    assert found.isfinite().all()


@pytest.mark.parametrize("shape", [(0, 5, 2), (2, 0, 2)])
def test_nothing_comes_of_nothing(shape):
    points = torch.zeros(shape, requires_grad=True)
    for impl in ("cpu", "reference"):
        out = coverage(points, size=(3, 4), impl=impl)
        assert out.shape == (shape[0], 3, 4)
        assert not out.any()
        (gradient,) = torch.autograd.grad(out.sum(), points)
        assert gradient.shape == shape
