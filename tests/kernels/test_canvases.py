"""Chains of maps with canvases between them: compiled against the reference, and the reference against first principles."""

import pytest
import torch

from pellucid.kernels.canvases import cpu, laid_over, reference

MODES = [("zeros",), ("constant", "border"), ("reflection", "zeros"), ("border", "constant", "zeros", "reflection")]
SIZE = (9, 11)


def chain(modes, channels, dtype=torch.float64, batch=4):
    k = len(modes)
    spread = torch.tensor([[0.2, 0.2, 2.0], [0.2, 0.2, 2.0], [0.01, 0.01, 0.05]], dtype=dtype)
    maps = torch.eye(3, dtype=dtype).repeat(batch, k + 1, 1, 1) + torch.randn(batch, k + 1, 3, 3, dtype=dtype) * spread
    maps[0, 1:] = torch.eye(3, dtype=dtype)  # a sample whose gates are closed
    windows = torch.tensor([0.0, 0.0, SIZE[1] - 1.0, SIZE[0] - 1.0], dtype=dtype).repeat(batch, k, 1)
    if "border" in modes:
        windows[1:, modes.index("border")] += torch.tensor([1.2, 0.7, -0.8, -1.3], dtype=dtype)
    return maps, windows, torch.randn(batch, k, channels, dtype=dtype) if channels else None


@pytest.mark.parametrize("channels", [0, 3])
@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("modes", MODES, ids="+".join)
def test_compiled_agrees_with_the_reference(modes, hard, channels):
    given = chain(modes, channels)
    leaves = [[None if t is None else t.clone().requires_grad_() for t in given] for _ in range(2)]
    options = {"size": SIZE, "modes": modes, "hard": (hard,) * len(modes)}
    ours, theirs = cpu.through(*leaves[0], **options), reference.through(*leaves[1], **options)
    usable = torch.isfinite(theirs.places).all(1, keepdim=True) & (theirs.places.abs() < 1e3).all(1, keepdim=True)
    losses = [0.0, 0.0]
    for mine, wanted in zip(ours, theirs, strict=True):
        if wanted is None:
            assert mine is None
            continue
        assert torch.equal(torch.isfinite(mine), torch.isfinite(wanted))
        assert (mine - wanted)[usable.expand_as(wanted)].abs().max() < 1e-9
        weights = torch.randn_like(wanted)
        losses = [s + (weights * out)[usable.expand_as(out)].sum() for s, out in zip(losses, (mine, wanted), strict=True)]
    found = [torch.autograd.grad(s, [t for t in given if t is not None]) for s, given in zip(losses, leaves, strict=True)]
    for mine, wanted in zip(*found, strict=True):
        assert (mine - wanted).norm() <= 1e-9 * wanted.norm() + 1e-12


def test_derivatives_are_those_of_finite_differences():
    maps, windows, fills = chain(("constant", "border"), 2, batch=2)
    windows = windows + torch.tensor([0.3, 0.2, -0.3, -0.2], dtype=torch.float64)
    maps = maps + 0.013  # off the closed gates, where slopes are one-sided
    options = {"size": (4, 5), "modes": ("constant", "border"), "hard": (False, False)}
    inputs = [t.clone().requires_grad_() for t in (maps, windows, fills)]
    for compute in (cpu.through, reference.through):
        assert torch.autograd.gradcheck(lambda *t, f=compute: f(*t, **options), inputs, eps=1e-7, atol=1e-4)
    weights = [torch.rand_like(out) for out in reference.through(*inputs, **options)]

    def slopes(compute):
        loss = sum((w * out.square()).sum() for w, out in zip(weights, compute(*inputs, **options), strict=True))
        first = torch.autograd.grad(loss, inputs, create_graph=True)
        return torch.autograd.grad(sum(g.square().sum() for g in first), inputs)

    for mine, wanted in zip(slopes(cpu.through), slopes(reference.through), strict=True):
        assert (mine - wanted).norm() <= 1e-9 * wanted.norm()


def test_a_canvas_shows_what_it_covers():
    """One row of four pixels, read half a pixel to the right of each and beyond."""
    shift = torch.tensor([[1.0, 0.0, -1.5], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], dtype=torch.float64)
    maps = torch.stack((torch.eye(3, dtype=torch.float64), shift))[None]
    window = torch.tensor([[[0.0, 0.0, 3.0, 0.0]]], dtype=torch.float64)
    fills = torch.tensor([[[2.0]]], dtype=torch.float64)
    for compute in (cpu.through, reference.through):
        soft = compute(maps, window, fills, size=(1, 7), modes=("constant",), hard=(False,))
        assert soft.share.flatten().tolist() == [0.0, 0.5, 1.0, 1.0, 1.0, 0.5, 0.0]
        assert soft.ground.flatten().tolist() == [2.0, 1.0, 0.0, 0.0, 0.0, 1.0, 2.0]
        assert soft.places[0, 0, 0].tolist() == [0.0, 0.0, 0.5, 1.5, 2.5, 3.0, 3.0]
        hard = compute(maps, window, fills, size=(1, 7), modes=("constant",), hard=(True,))
        assert hard.share.flatten().tolist() == [0.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0]
        folded = compute(maps, window, None, size=(1, 7), modes=("reflection",), hard=(False,))
        assert folded.places[0, 0, 0].tolist() == [0.5, 0.0, 0.5, 1.5, 2.5, 3.0, 2.5]


@pytest.mark.parametrize("impl", ["cpu", "reference"])
def test_what_is_not_a_number_stays_where_it_is_seen(impl):
    found = torch.tensor([float("nan"), 1.0, 2.0]).reshape(1, 1, 1, 3)
    share = torch.tensor([0.0, 0.5, 1.0]).reshape(1, 1, 1, 3)
    ground = torch.tensor([3.0, 4.0, 0.0]).reshape(1, 1, 1, 3)
    assert laid_over(found.clone(), share, ground, impl=impl).flatten().tolist() == [3.0, 4.5, 2.0]
    assert laid_over(found.clone(), share, None, impl=impl).flatten().tolist() == [0.0, 0.5, 2.0]
    labels = torch.tensor([5, 6, 7]).reshape(1, 1, 1, 3)
    assert laid_over(labels, share.round(), ground.round(), impl=impl).flatten().tolist() == [3, 4, 7]


def test_a_map_without_a_point_shows_fill():
    maps = torch.eye(3, dtype=torch.float64).repeat(1, 2, 1, 1)
    maps[:, 1, 2] = torch.tensor([1.0, 0.0, -2.0], dtype=torch.float64)  # the horizon runs through column 2
    maps.requires_grad_()
    window = torch.tensor([[[0.0, 0.0, 4.0, 4.0]]], dtype=torch.float64)
    fills = torch.ones(1, 1, 1, dtype=torch.float64)
    for compute in (cpu.through, reference.through):
        found = compute(maps, window, fills, size=(5, 5), modes=("constant",), hard=(False,))
        assert bool((found.share[..., 2] == 0).all())
        assert bool((found.ground[..., 2] == 1).all())
        (gradient,) = torch.autograd.grad(found.share.sum() + found.ground.sum() + found.places.sum(), maps)
        assert bool(torch.isfinite(gradient).all())
