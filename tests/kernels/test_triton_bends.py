"""A cubic spline's displacements inside the Triton pass: values and gradients of picture and colours against the reference."""

import pytest
import torch

from pellucid.kernels import warp as warps
from pellucid.kernels.warp.packing import Link
from pellucid.segments.chain import ClipStage, HueStage

from .interpreted import DEVICE, runs  # noqa: F401
from .warps import reference
from .warps import triton as kernels

OUTER = [[0.93, 0.11, 0.31], [-0.07, 1.04, 0.23], [0.001, 0.0003, 1.0]]
INNER = [[1.03, -0.13, 0.37], [0.08, 0.91, 0.29], [0.004, 0.001, 1.0]]
CASES = {
    "colours": {"padding_mode": "constant", "colours": True},
    "hue and clip": {"padding_mode": "constant", "colours": True, "stages": True},
    "border, bicubic": {"padding_mode": "border", "interpolation": "bicubic"},
    "affine": {"padding_mode": "reflection", "rows": 2},
    "a map that sees nothing": {"padding_mode": "constant", "colours": True, "stages": True, "nowhere": True},
}


def results(call, dtype, kind, rows=3, colours=False, stages=False, nowhere=False, **options):
    """The result, and the gradients to picture and colours."""
    random = torch.Generator().manual_seed(0)
    draw = lambda *shape: torch.rand(shape, generator=random, dtype=torch.float64)  # noqa: E731
    image, control = draw(2, 3, 8, 9), (draw(1 if colours else 2, 2, 5, 6) - 0.5) * 3
    inner = torch.tensor([INNER], dtype=torch.float64).repeat(2, 1, 1)
    if nowhere:
        inner[0, 2] = 0.0
    used = [image, *([draw(2, 3, 3), draw(2, 3), draw(2, 3)] if colours else [])]
    image, *mixes = used = [one.to(DEVICE, dtype).requires_grad_() for one in used]
    to = {"device": DEVICE, "dtype": dtype}
    grid = torch.tensor([[0.3, -0.5, 3.0, 2.5]], **to)
    options |= {"links": [Link(kind, inner.to(**to), grid, control=control.to(**to))]}
    options |= dict(zip(("matrix", "offset", "fill"), mixes, strict=False))
    if stages:
        options |= {"epilogue": [HueStage(torch.tensor([0.1, -0.2], **to)), ClipStage()]}
    out = call(image, torch.tensor([OUTER], **to)[:, :rows], size=(9, 10), **options)
    upstream = torch.randn(out.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(**to)
    return out.detach(), *torch.autograd.grad(out, used, upstream)


@pytest.mark.parametrize("kind", ["bend", "kink"])
@pytest.mark.parametrize("name", CASES)
def test_displacements_within_the_pass_are_the_references(name, kind, monkeypatch):
    monkeypatch.setattr(warps, "_across", None)
    truth, found = (results(call, torch.float64, kind, **CASES[name]) for call in (reference.warp, kernels.warp))
    for mine, theirs in zip(found, truth, strict=True):
        assert (mine - theirs).abs().max() <= 1e-10 * (1 + theirs.abs().max())


def test_single_precision_is_as_precise_as_the_reference(monkeypatch):
    monkeypatch.setattr(warps, "_across", None)
    truth = results(reference.warp, torch.float64, "bend", **CASES["colours"])
    single, found = (results(call, torch.float32, "bend", **CASES["colours"]) for call in (reference.warp, kernels.warp))
    for mine, theirs, exact in zip(found, single, truth, strict=True):
        assert (mine - exact).abs().max() <= 3 * (theirs - exact).abs().max() + 1e-6


def test_gradients_to_places_go_the_long_way(monkeypatch):
    calls = []
    across = warps._across
    monkeypatch.setattr(warps, "_across", lambda *given: calls.append(1) or across(*given))
    grid, still = torch.tensor([[0.3, -0.5, 3.0, 2.5]], device=DEVICE), torch.eye(3, device=DEVICE)[None]
    found = []
    for call in (kernels.warp, reference.warp):
        control = torch.linspace(-1, 1, 60, device=DEVICE).view(1, 2, 5, 6).requires_grad_()
        image = torch.linspace(0, 1, 72, device=DEVICE).view(1, 1, 8, 9)
        out = call(image, still[:, :2], size=(8, 9), links=[Link("bend", still, grid, control=control)])
        found.append(torch.autograd.grad(out.square().sum(), control)[0])
    assert calls
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)
