"""Gauss-Newton for mutual information: its slope is autograd's, and volumes of another contrast are found by it."""

import torch

from pellucid.registration import align_volumes
from pellucid.registration.losses import distance, information_step, sampled


def test_the_slope_is_autograds():
    generator = torch.Generator().manual_seed(0)
    random = lambda *size: torch.rand(size, generator=generator, dtype=torch.float64)  # noqa: E731
    value, target, weight, columns = random(2, 1, 9, 8, 7), random(2, 1, 9, 8, 7), random(2, 1, 9, 8, 7), random(2, 5, 504)
    change = torch.zeros(2, 5, dtype=torch.float64, requires_grad=True)
    moved = value + torch.einsum("bp,bpn->bn", change, columns).reshape(value.shape)
    loss = distance("mutual_information", moved, target, weight, photometric="none", width=0.1)
    (slope,) = torch.autograd.grad(loss.sum(), change)
    flat = [part.flatten(1) for part in (value, target, weight)]
    left, right, told = information_step(flat[0], flat[1], columns, flat[2], sampled(value))
    assert torch.allclose(right, slope, atol=1e-12)
    assert torch.allclose(told, loss, atol=1e-12)
    assert torch.linalg.eigvalsh(left).min() > -1e-12


def test_another_contrast_is_found_by_newton():
    z, y, x = torch.meshgrid(*[torch.arange(20.0)] * 3, indexing="ij")
    places = ((6, 7, 8), (12, 11, 6), (9, 5, 13))
    blobs = lambda at: sum(torch.exp(-((x - a - at) ** 2 + (y - b) ** 2 + (z - c) ** 2) / 18) for a, b, c in places)  # noqa: E731
    found = align_volumes((1.0 - blobs(0.0) ** 2)[None], blobs(1.5)[None], model="translation", loss="mutual_information")
    assert found.reason == ("converged",)
    assert (found.matrix[0, :3, 3] - torch.tensor((1.5, 0.0, 0.0))).abs().max() < 0.2
