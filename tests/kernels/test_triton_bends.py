"""Chains of canvases and displacements inside the Triton pass: values and every gradient against the reference."""

import pytest
import torch

from pellucid.color.curves import Curved
from pellucid.kernels import warp as warps
from pellucid.kernels.warp.packing import Link, pack
from pellucid.segments.chain import AffineStage, ClipStage, CurveStage, HueStage
from tests.compare import grads_close

from .interpreted import DEVICE, runs  # noqa: F401
from .warps import operands, reference
from .warps import triton as kernels

OUTER = [[0.93, 0.11, 0.31], [-0.07, 1.04, 0.23], [0.001, 0.0003, 1.0]]
INNER = [[1.03, -0.13, 0.37], [0.08, 0.91, 0.29], [0.004, 0.001, 1.0]]
CASES = {
    "field": {"kinds": ["bend"], "colours": True},
    "field, hue and clip": {"kinds": ["bend"], "colours": True, "stages": True},
    "linear field, border, bicubic": {"kinds": ["kink"], "padding_mode": "border", "interpolation": "bicubic"},
    "linear field, hue and clip": {"kinds": ["kink"], "colours": True, "stages": True},
    "field between affine maps": {"kinds": ["bend"], "padding_mode": "reflection", "rows": 2},
    "field that sees nothing": {"kinds": ["bend"], "colours": True, "stages": True, "nowhere": True},
    "canvas": {"kinds": ["zeros"], "colours": True},
    "canvas before the field": {"kinds": ["zeros", "bend"], "colours": True, "grounds": True},
    "canvas after the field": {"kinds": ["bend", "zeros"], "colours": True, "grounds": True, "stages": True},
    "canvas after the field, no fill": {"kinds": ["bend", "zeros"], "padding_mode": "border"},
    "field between canvases": {"kinds": ["border", "bend", "hard", "reflection"], "grounds": True, "rows": 2},
    "canvases on either side of a linear field": {"kinds": ["reflection", "kink", "border"], "interpolation": "bicubic"},
    "canvas that sees nothing": {"kinds": ["bend", "zeros", "hard"], "grounds": True, "nowhere": True, "stages": True},
    "field within a crop": {"kinds": ["zeros", "bend"], "grounds": True, "padding_mode": "border", "window": True},
    "canvases within a crop, nearest": {"kinds": ["hard", "border"], "interpolation": "nearest", "grounds": True, "window": True},
    "canvas and a curve": {"kinds": ["bend", "zeros"], "colours": True, "grounds": True, "curve": True},
    "six channels": {"kinds": ["zeros", "bend", "zeros"], "channels": 6, "grounds": True},
}


def leaves(kinds, colours=False, grounds=False, nowhere=False, window=False, channels=3, rows=3, **rest):
    """All that has a gradient, by name; float64."""
    del rest
    random = torch.Generator().manual_seed(0)
    draw = lambda *shape: torch.rand(shape, generator=random, dtype=torch.float64)  # noqa: E731
    made = {"image": draw(2, channels, 8, 9), "map": torch.tensor([OUTER], dtype=torch.float64)[:, :rows]}
    if colours:
        made |= {"matrix": draw(2, channels, channels), "offset": draw(2, channels), "fill": draw(2, channels)}
    if window:
        made["window"] = torch.tensor([[1.2, 0.7, 6.9, 6.1]], dtype=torch.float64)
    for k, kind in enumerate(kinds):
        at = torch.tensor(INNER, dtype=torch.float64).repeat(2, 1, 1) + 0.01 * k
        if nowhere and k == len(kinds) - 1:
            at[0, 2] = 0.0
        made[f"link {k}"] = at
        if kind in ("bend", "kink"):
            made[f"control {k}"] = (draw(1 if colours else 2, 2, 5, 6) - 0.5) * 3
            made[f"window {k}"] = torch.tensor([[0.3, -0.5, 3.0, 2.5]], dtype=torch.float64)
            continue
        cut = [0.0, 0.0, 7.0, 7.0] if kind == "reflection" else [0.4, 1.1, 6.7, 6.3]
        made[f"window {k}"] = torch.tensor([cut], dtype=torch.float64)
        if grounds and kind in ("zeros", "hard"):
            made[f"ground {k}"] = draw(2, channels)
    return made


def passed(call, given, kinds, stages=False, curve=False, **options):
    """The pass, for numbers by name."""
    links = [
        Link(kind, *(given.get(f"{name} {k}") for name in ("link", "window", "ground", "control"))) for k, kind in enumerate(kinds)
    ]
    like = given["image"]
    if stages:
        mixed = AffineStage(torch.eye(3).to(like)[None] * 0.7 + 0.1, torch.full((1, 3), -0.1).to(like))
        options |= {"epilogue": [HueStage(torch.tensor([0.1, -0.2]).to(like)), mixed, ClipStage()]}
    if curve:
        options |= {"epilogue": [CurveStage(torch.tensor([[0.8, 1.1, 1.0, 1.0]]).to(like), Curved("power"))]}
    kept = {name: options[name] for name in ("interpolation", "padding_mode", "epilogue") if name in options}
    kept |= {name: given[name] for name in ("matrix", "offset", "fill", "window") if name in given}
    return call(like, given["map"], size=(9, 10), links=links, **kept)


def results(call, dtype, scale=1.0, **options):
    """The result, and the gradients to all that it depends on, by name."""
    given = {name: one.to(DEVICE, dtype).requires_grad_() for name, one in leaves(**options).items()}
    out = passed(call, given, **options)
    upstream = scale * torch.randn(out.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(out)
    found = torch.autograd.grad(out, list(given.values()), upstream, allow_unused=True, materialize_grads=True)
    return {"result": out.detach(), **dict(zip(given, found, strict=True))}


@pytest.mark.parametrize("name", CASES)
def test_chains_within_the_pass_are_the_references(name, monkeypatch):
    monkeypatch.setattr(warps, "_across", None)
    truth, found = (results(call, torch.float64, **CASES[name]) for call in (reference.warp, kernels.warp))
    for one, theirs in truth.items():
        assert (found[one] - theirs).abs().max() <= 1e-10 * (1 + theirs.abs().max()), one
        assert grads_close(found[one], theirs, 1e-10), one


@pytest.mark.parametrize("name", ["field", "canvas after the field"])
def test_single_precision_is_as_precise_as_the_reference(name, monkeypatch):
    monkeypatch.setattr(warps, "_across", None)
    truth = results(reference.warp, torch.float64, **CASES[name])
    single, found = (results(call, torch.float32, **CASES[name]) for call in (reference.warp, kernels.warp))
    for one, exact in truth.items():
        assert (found[one] - exact).abs().max() <= 3 * (single[one] - exact).abs().max() + 1e-6, one


BEYOND = {
    "nearest": ({"interpolation": "nearest"}, ["bend"]),
    "a filled crop": ({"padding_mode": "zeros", "window": True}, ["bend"]),
    "a canvas that ends with its pixels": ({}, ["hard", "bend"]),
    "five mixed channels": ({"channels": 5, "colours": True}, ["zeros", "bend"]),
}


@pytest.mark.parametrize("name", BEYOND)
def test_hard_edges_of_displaced_points_are_where_the_reference_has_them(name, monkeypatch):
    options, kinds = BEYOND[name]
    calls, across = [], warps._across
    monkeypatch.setattr(warps, "_across", lambda *given: calls.append(1) or across(*given))
    truth, found = (results(call, torch.float64, kinds=kinds, **options) for call in (reference.warp, kernels.warp))
    assert calls
    for one, theirs in truth.items():
        assert (found[one] - theirs).abs().max() <= 1e-10 * (1 + theirs.abs().max()), one


def test_same_bits_in_every_run():
    first, second = (results(kernels.warp, torch.float32, **CASES["canvas after the field"]) for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_tiles_that_share_knots_add_up():
    """All pixels of several tiles lie on one knot."""
    grid, still = torch.tensor([[2.0, 2.0, 4.0, 4.0]], device=DEVICE), torch.eye(3, device=DEVICE)[None]
    at = torch.zeros(1, 3, 3, device=DEVICE)
    at[:, :2, 2], at[:, 2, 2] = 2.0, 1.0
    image = torch.rand(1, 1, 5, 5, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    upstream, found = torch.randn(1, 1, 33, 40, generator=torch.Generator().manual_seed(1)).to(DEVICE), []
    for call in (kernels.warp, reference.warp):
        control = torch.full((1, 2, 4, 4), 0.25, device=DEVICE, requires_grad=True)
        out = call(image, still[:, :2], size=(33, 40), links=[Link("bend", at, grid, control=control)])
        found.append(torch.autograd.grad(out, control, upstream)[0])
    assert found[0].count_nonzero() == 2 * 9
    torch.testing.assert_close(*found, rtol=1e-5, atol=1e-5)


def test_a_gradient_that_is_not_finite_stays_with_its_sample():
    given = {name: one.to(DEVICE, torch.float32) for name, one in leaves(["bend"]).items()}
    control, found = given["control 0"].requires_grad_(), []
    for worst in (0.0, torch.nan, torch.inf):
        out = passed(kernels.warp, given, ["bend"])
        upstream = torch.ones_like(out)
        upstream[0, 0, 4, 4] += worst
        found.append(torch.autograd.grad(out, control, upstream)[0])
    for other in found[1:]:
        assert torch.equal(other[1], found[0][1])
        assert not torch.isfinite(other[0]).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_floats_are_rounded_once(dtype):
    given = {name: one.to(DEVICE, torch.float32) for name, one in leaves(["bend", "zeros"], grounds=True).items()}
    given["image"] = given["image"].to(dtype)
    given["control 0"].requires_grad_()
    links = [Link("bend", *(given[f"{name} 0"] for name in ("link", "window")), control=given["control 0"])]
    links.append(Link("zeros", *(given[f"{name} 1"] for name in ("link", "window", "ground"))))
    outs = [call(given["image"], given["map"], size=(9, 10), links=links, dtype=dtype) for call in (kernels.warp, reference.warp)]
    assert outs[0].dtype == dtype
    assert (outs[0].float() - outs[1].float()).abs().max() <= torch.finfo(dtype).eps * 2
    found = [torch.autograd.grad(out.float().square().sum(), given["control 0"])[0] for out in outs]
    assert grads_close(*found, 8 * torch.finfo(dtype).eps)


def packed(kinds, **options):
    """What the operators take."""
    given = {name: one.to(DEVICE) for name, one in leaves(kinds, **options).items()}
    return passed(lambda image, at, **rest: operands(image, pack(at, **rest)), given, kinds)


@pytest.mark.parametrize("kinds", [("bend", "zeros"), ("zeros", "border")], ids="+".join)
def test_opcheck(kinds):
    given = packed(kinds, grounds=True)
    tests = {"test_utils": ("test_schema", "test_faketensor")}
    torch.library.opcheck(torch.ops.pellucid.triton_warp.default, given, **tests)
    grad = torch.rand(2, 3, 9, 10, dtype=torch.float64, device=DEVICE)
    for needs in ([True, True, False, True, False, True, False], [*[False] * 5, True, False], [*[False] * 6, True]):
        torch.library.opcheck(torch.ops.pellucid.triton_warp_backward.default, (grad, *given, needs), **tests)


def test_vmap_and_its_gradients():
    kinds, made = ("bend", "zeros"), leaves(("bend", "zeros"), grounds=True)
    given = {name: one.to(DEVICE) for name, one in made.items()}
    names = ["image", "control 0", "ground 1"]

    def loss(*some):
        return passed(kernels.warp, given | dict(zip(names, some, strict=True)), kinds).square().sum()

    lanes = [torch.stack((given[name], given[name] * 1.01)) for name in names]
    mapped = torch.func.vmap(torch.func.grad(loss, argnums=(0, 1, 2)), in_dims=(0, 0, None))(*lanes[:2], given[names[2]])
    for lane in range(2):
        single = torch.func.grad(loss, argnums=(0, 1, 2))(lanes[0][lane], lanes[1][lane], given[names[2]])
        assert all(torch.equal(many[lane], one) for many, one in zip(mapped, single, strict=True))


def test_second_derivatives_go_through_the_reference():
    kinds, found = ("bend", "zeros"), []
    for call in (kernels.warp, reference.warp):
        given = {name: one.to(DEVICE).requires_grad_() for name, one in leaves(kinds, grounds=True).items()}
        first = torch.autograd.grad(passed(call, given, kinds).square().sum(), list(given.values()), create_graph=True)
        found.append(torch.autograd.grad(sum(g.square().sum() for g in first), list(given.values())))
    for ours, theirs in zip(*found, strict=True):
        assert grads_close(ours, theirs, 1e-9)


def test_a_canvas_whose_edge_is_not_a_number_shows_it():
    given = {name: one.to(DEVICE) for name, one in leaves(["zeros"], grounds=True).items()}
    given["window 0"][0, 2] = torch.nan
    found, theirs = (passed(call, given, ["zeros"]) for call in (kernels.warp, reference.warp))
    assert theirs.isnan().any()
    torch.testing.assert_close(found, theirs, rtol=1e-10, atol=1e-10, equal_nan=True)
