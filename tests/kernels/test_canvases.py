"""Canvases inside a pass: compiled against the reference, and the reference against first principles."""

from functools import partial

import pytest
import torch

from pellucid.kernels.warp import Link, compute, pack
from pellucid.kernels.warp.chain import follow, laid_over

KINDS = [("zeros",), ("hard", "border"), ("reflection", "zeros"), ("border", "zeros", "hard", "reflection")]
SIZE = (9, 11)


def chain(kinds, channels, dtype=torch.float64, batch=4):
    """Maps (first that of the source), links and fills."""
    k = len(kinds)
    spread = torch.tensor([[0.2, 0.2, 2.0], [0.2, 0.2, 2.0], [0.01, 0.01, 0.05]], dtype=dtype)
    maps = torch.eye(3, dtype=dtype).repeat(batch, k + 1, 1, 1) + torch.randn(batch, k + 1, 3, 3, dtype=dtype) * spread
    maps[0, 1:] = torch.eye(3, dtype=dtype)  # a sample whose gates are closed
    windows = torch.tensor([0.0, 0.0, SIZE[1] - 1.0, SIZE[0] - 1.0], dtype=dtype).repeat(batch, k, 1)
    if "border" in kinds:
        windows[1:, kinds.index("border")] += torch.tensor([1.2, 0.7, -0.8, -1.3], dtype=dtype)
    return maps, windows, torch.randn(batch, k, channels, dtype=dtype) if channels else None


def passed(name, kinds, image, maps, windows, *fills, **options):
    """The pass by one implementation."""
    shown = fills[0].unbind(1) if fills else [None] * len(kinds)
    links = [Link(*given) for given in zip(kinds, maps[:, 1:].unbind(1), windows.unbind(1), shown, strict=True)]
    return compute(name, image, pack(maps[:, 0], size=SIZE, links=links, **options))


@pytest.mark.parametrize("padding_mode", ["zeros", "border"])
@pytest.mark.parametrize("channels", [0, 3])
@pytest.mark.parametrize("kinds", KINDS, ids="+".join)
def test_compiled_agrees_with_the_reference(kinds, channels, padding_mode):
    torch.manual_seed(len(kinds) + channels)
    given = [part for part in (torch.rand(4, 3, 8, 10, dtype=torch.float64), *chain(kinds, channels)) if part is not None]
    weights, found = torch.randn(4, 3, *SIZE, dtype=torch.float64), []
    for name in ("cpu", "reference"):
        leaves = [part.clone().requires_grad_() for part in given]
        out = passed(name, kinds, *leaves, padding_mode=padding_mode)
        found.append((out.detach(), *torch.autograd.grad(out, leaves, weights)))
    for ours, theirs in zip(*found, strict=True):
        assert (ours - theirs).norm() <= 1e-9 * theirs.norm() + 1e-12


@pytest.mark.parametrize("kinds", [("zeros", "border"), ("border",), ("reflection", "hard")], ids="+".join)
def test_canvases_that_cut_some_strips_only(kinds):
    torch.manual_seed(7)
    size, k = (60, 290), len(kinds)
    turn = torch.tensor([[[0.95, 0.12, -14.0], [-0.12, 0.95, 11.0], [0, 0, 1]], [[0.4, 0, 80.0], [0, 0.4, 12.0], [0, 0, 1]]])
    maps = turn.double()[:, None].repeat(1, k + 1, 1, 1)
    maps[:, 1] = torch.eye(3, dtype=torch.float64)  # points on the very ends
    windows = torch.tensor([0.0, 0.0, size[1] - 1.0, size[0] - 1.0], dtype=torch.float64).repeat(2, k, 1)
    fills = torch.rand(2, k, 3, dtype=torch.float64)
    image, weights, found = torch.rand(2, 3, *size, dtype=torch.float64), torch.randn(2, 3, *size, dtype=torch.float64), []
    for name in ("cpu", "reference"):
        leaves = [part.clone().requires_grad_() for part in (image, maps, windows, fills)]
        given = zip(kinds, leaves[1][:, 1:].unbind(1), leaves[2].unbind(1), leaves[3].unbind(1), strict=True)
        out = compute(name, leaves[0], pack(leaves[1][:, 0], size=size, links=[Link(*link) for link in given]))
        slopes = torch.autograd.grad(out, leaves, weights, allow_unused=True, materialize_grads=True)  # a border shows no fill
        found.append((out.detach(), *slopes))
    for ours, theirs in zip(*found, strict=True):
        assert (ours - theirs).norm() <= 1e-9 * theirs.norm() + 1e-12


@pytest.mark.parametrize("name", ["cpu", "reference"])
def test_derivatives_are_those_of_finite_differences(name):
    torch.manual_seed(2)
    kinds = ("zeros", "border")
    maps, windows, fills = chain(kinds, 3, batch=2)
    windows = windows + torch.tensor([0.3, 0.2, -0.3, -0.2], dtype=torch.float64)
    maps = maps * 0.9 + 0.013  # off the closed gates, where slopes are one-sided
    inputs = [part.requires_grad_() for part in (torch.rand(2, 3, 8, 10, dtype=torch.float64), maps, windows, fills)]
    function = partial(passed, name, kinds)
    assert torch.autograd.gradcheck(function, inputs, eps=1e-7, atol=1e-4)


@pytest.mark.parametrize("name", ["cpu", "reference"])
def test_labels_are_copied_across_canvases(name):
    torch.manual_seed(3)
    kinds = ("hard", "border", "hard")
    maps, windows, fills = chain(kinds, 2, torch.float32)
    labels = torch.randint(-(2**20), 2**20, (4, 2, 8, 10))
    fills = (fills * 1000).round()
    links = [Link(*given) for given in zip(kinds, maps[:, 1:].unbind(1), windows.unbind(1), fills.unbind(1), strict=True)]
    still = [link._replace(fill=None) if link.kind == "border" else link for link in links]
    ours = compute(name, labels, pack(maps[:, 0], size=SIZE, links=still, interpolation="nearest"))
    wide = compute("reference", labels.float(), pack(maps[:, 0], size=SIZE, links=still, interpolation="nearest"))
    assert ours.dtype == labels.dtype
    assert torch.equal(ours, wide.long())


@pytest.mark.parametrize("name", ["cpu", "reference"])
def test_a_canvas_shows_what_it_covers(name):
    """One row of four pixels, read half a pixel to the right of each and beyond; the source shows a ramp."""
    shift = torch.tensor([[[1.0, 0.0, -1.5], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]], dtype=torch.float64)
    eye, ramp = torch.eye(3, dtype=torch.float64)[None], torch.arange(4.0, dtype=torch.float64).reshape(1, 1, 1, 4)
    window, fill = torch.tensor([[0.0, 0.0, 3.0, 0.0]], dtype=torch.float64), torch.tensor([[20.0]], dtype=torch.float64)

    def shown(image, kind, fill=None):
        options = {"size": (1, 7), "padding_mode": "border", "links": [Link(kind, shift, window, fill)]}
        return compute(name, image, pack(eye, **options)).flatten().tolist()

    assert shown(torch.ones_like(ramp), "zeros") == [0.0, 0.5, 1.0, 1.0, 1.0, 0.5, 0.0]
    assert shown(torch.zeros_like(ramp), "zeros", fill) == [20.0, 10.0, 0.0, 0.0, 0.0, 10.0, 20.0]
    assert shown(torch.ones_like(ramp), "hard") == [0.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0]
    assert shown(ramp, "border") == [0.0, 0.0, 0.5, 1.5, 2.5, 3.0, 3.0]
    assert shown(ramp, "reflection") == [0.5, 0.0, 0.5, 1.5, 2.5, 3.0, 2.5]


def test_what_is_not_a_number_stays_where_it_is_seen():
    found = torch.tensor([float("nan"), 1.0, 2.0]).reshape(1, 1, 1, 3)
    share = torch.tensor([0.0, 0.5, 1.0]).reshape(1, 1, 1, 3)
    ground = torch.tensor([3.0, 4.0, 0.0]).reshape(1, 1, 1, 3)
    assert laid_over(found.clone(), share, ground).flatten().tolist() == [3.0, 4.5, 2.0]
    assert laid_over(found.clone(), share, None).flatten().tolist() == [0.0, 0.5, 2.0]


@pytest.mark.parametrize("name", ["cpu", "reference"])
def test_a_map_without_a_point_shows_fill(name):
    maps = torch.eye(3, dtype=torch.float64).repeat(1, 2, 1, 1)
    maps[:, 1, 2] = torch.tensor([1.0, 0.0, -2.0], dtype=torch.float64)  # the horizon runs through column 2
    maps.requires_grad_()
    window = torch.tensor([[[0.0, 0.0, 10.0, 8.0]]], dtype=torch.float64)
    fills, image = torch.ones(1, 1, 1, dtype=torch.float64), torch.zeros(1, 1, 9, 11, dtype=torch.float64)
    found = passed(name, ("zeros",), image, maps, window, fills)
    assert bool((found[..., 2] == 1).all())
    (gradient,) = torch.autograd.grad(found.sum(), maps)
    assert bool(torch.isfinite(gradient).all())
    chained = follow(maps[:, 0].detach(), torch.cat((maps[:, 1:].flatten(2).detach(), window), 2), None, ("zeros",), SIZE)
    assert bool((chained.share[..., 2] == 0).all())
