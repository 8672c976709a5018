"""Random calls of the warp kernel, for tests that compare implementations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
from hypothesis import strategies as st

from pellucid.color.curves import Curved
from pellucid.kernels import resize as resizes
from pellucid.kernels import warp as warps
from pellucid.kernels.warp import operators
from pellucid.segments.chain import AffineStage, ClipStage, CurveStage, HueStage


def warp(image, src_from_dst, *, impl="auto", **given):
    """The warp kernel as a function of what :func:`pellucid.kernels.warp.pack` takes."""
    return warps.warp(image, warps.pack(src_from_dst, **given), impl=impl)


def _by(name) -> Callable[..., torch.Tensor]:
    """The same by one implementation, wherever the tensors are: Triton's interpreter takes those of the CPU."""
    return lambda image, src_from_dst, **given: warps.compute(name, image, warps.pack(src_from_dst, **given))


def resize(image, src_from_dst, *, filled, impl="auto", **given):
    """The resize kernel likewise."""
    packed = warps.pack(src_from_dst, padding_mode="constant" if filled else "border", **given)
    return resizes.compute(impl, image, packed) if impl == "triton" else resizes.resize(image, packed, impl=impl)


def sample(image, x, y, *, impl="auto", **given):
    """The warp that reads at given coordinates."""
    still = x.new_zeros((1, 2, 3))
    return warp(image, still, size=x.shape[-2:], field=torch.stack((x, y), 1), impl=impl, **given)


def operands(image, resample) -> tuple[Any, ...]:
    """What the warp's operators take."""
    recipe, *tensors = resample[:7]
    return image, *tensors, *operators.arguments(image, resample.mapping, recipe)


cpu = SimpleNamespace(warp=_by("cpu"), resize=partial(resize, impl="cpu"))
triton = SimpleNamespace(warp=_by("triton"), resize=partial(resize, impl="triton"))
reference = SimpleNamespace(
    warp=_by("reference"), resize=partial(resize, impl="reference"), sample=partial(sample, impl="reference")
)

PADDINGS = ("zeros", "constant", "border", "reflection", "reflect_101", "wrap")
INTERPOLATIONS = ("bilinear", "nearest", "bicubic", "bicubic_opencv")


@dataclass
class Call:
    """One call: ``tensors`` by name (all float64), options, and the names of the epilogue's stages."""

    tensors: dict[str, torch.Tensor]
    options: dict[str, Any]
    stages: tuple[str, ...] = field(default=())
    layout: str = "contiguous"

    def to(self, dtype: torch.dtype, *, requires_grad: bool = False) -> Call:
        tensors = {name: tensor.detach().to(dtype).requires_grad_(requires_grad) for name, tensor in self.tensors.items()}
        return Call(tensors, self.options, self.stages, self.layout)

    def run(self, function: Any) -> torch.Tensor:
        given = dict(self.tensors)
        epilogue: list[Any] = []
        for number, stage in enumerate(self.stages):
            if stage == "hue":
                epilogue.append(HueStage(given.pop("turns")))
            elif stage == "clip":
                epilogue.append(ClipStage())
            elif stage == "power":
                exponent, gain = given.pop("exponent"), given.pop("gain")
                row = torch.broadcast_tensors(exponent, gain, torch.ones_like(gain), torch.ones_like(gain))
                epilogue.append(CurveStage(torch.stack(row, 1), Curved("power")))
            elif stage == "solarize":
                epilogue.append(CurveStage(given.pop("numbers"), Curved("solarize", surrogate="straight_through")))
            else:
                epilogue.append(AffineStage(given.pop(f"stage_matrix_{number}"), given.pop(f"stage_offset_{number}", None)))
        image = laid_out(given.pop("image"), self.layout)
        return function(image, given.pop("src_from_dst"), **given, **self.options, epilogue=epilogue)


def laid_out(image: torch.Tensor, layout: str) -> torch.Tensor:
    if layout == "channels_last":
        return image.contiguous(memory_format=torch.channels_last)
    if layout == "transposed":
        return image.mT.contiguous().mT
    if layout == "expanded":
        return image[:1].expand_as(image)
    if layout == "cropped":
        wide = torch.cat((image, image), -1)
        return wide[..., : image.shape[-1]]
    return image


STAGES = (
    (),
    ("clip",),
    ("hue", "clip"),
    ("hue", "affine", "clip", "affine"),
    ("clip", "affine"),
    ("affine",),
    ("power", "affine"),
    ("clip", "solarize", "affine"),
    ("hue", "affine", "clip", "power", "clip", "affine"),
)


def draw_colors(draw: Any, tensors: dict[str, torch.Tensor], channels: int, batch: int) -> tuple[str, ...]:
    """Add a matrix, an offset, a fill and the numbers of stages to a call's tensors, each or none; return the stages."""
    out_channels = channels
    if draw(st.booleans()):
        out_channels = draw(st.sampled_from((channels, channels, 2)))
        tensors["matrix"] = torch.randn(draw(st.sampled_from((1, batch))), out_channels, channels, dtype=torch.float64)
    for name in ("offset", "fill"):
        if draw(st.booleans()):
            tensors[name] = torch.randn(draw(st.sampled_from((1, batch))), out_channels, dtype=torch.float64)
    stages = tuple(s for s in draw(st.sampled_from(STAGES)) if s != "hue" or out_channels == 3)
    for number, stage in enumerate(stages):
        if stage == "hue":
            tensors["turns"] = torch.rand(batch, dtype=torch.float64) - 0.5
        elif stage == "power":
            tensors["exponent"] = torch.rand(batch, dtype=torch.float64) + 0.5
            tensors["gain"] = torch.rand(draw(st.sampled_from((1, batch))), dtype=torch.float64) + 0.5
        elif stage == "solarize":
            tensors["numbers"] = torch.rand(batch, 4, dtype=torch.float64)
        elif stage == "affine":
            tensors[f"stage_matrix_{number}"] = torch.randn(batch, out_channels, out_channels, dtype=torch.float64)
            if draw(st.booleans()):
                tensors[f"stage_offset_{number}"] = torch.randn(1, out_channels, dtype=torch.float64)
    return stages


@st.composite
def calls(draw: Any, interpolations: Any = INTERPOLATIONS, paddings: Any = PADDINGS, fields: bool = False) -> Call:
    torch.manual_seed(draw(st.integers(0, 2**31)))
    channels = draw(st.sampled_from((1, 2, 3, 3, 4, 5)))
    batch, height, width = draw(st.integers(1, 3)), draw(st.integers(1, 19)), draw(st.integers(1, 19))
    size = (draw(st.integers(1, 15)), draw(st.integers(1, 15)))
    rows = draw(st.sampled_from((1, batch)))
    projective = draw(st.booleans())
    strength = torch.tensor([[0.4, 0.4, 4.0], [0.4, 0.4, 4.0], [0.01, 0.01, 0.0]], dtype=torch.float64)
    src_from_dst = torch.eye(3, dtype=torch.float64) + torch.randn(rows, 3, 3, dtype=torch.float64) * strength
    tensors = {"image": torch.rand(batch, channels, height, width, dtype=torch.float64)}
    tensors["src_from_dst"] = src_from_dst if projective else src_from_dst[:, :2]
    if draw(st.booleans()):
        corners = torch.rand(1, 4, dtype=torch.float64).sort().values[:, [0, 1, 2, 3]]
        tensors["window"] = corners * torch.tensor([width, height, width, height]) - 0.4
    if fields and draw(st.booleans()):
        tensors["field"] = torch.randn(draw(st.sampled_from((1, batch))), 2, *size, dtype=torch.float64) * 3
        if draw(st.booleans()):  # somewhere it leads nowhere
            tensors["field"][0, draw(st.integers(0, 1)), -1, 0] = draw(st.sampled_from((torch.nan, torch.inf, -torch.inf)))
    stages = draw_colors(draw, tensors, channels, batch)
    options = {
        "size": size,
        "interpolation": draw(st.sampled_from(interpolations)),
        "padding_mode": draw(st.sampled_from(paddings)),
    }
    layout = draw(st.sampled_from(("contiguous", "channels_last", "transposed", "expanded", "cropped")))
    return Call(tensors, options, stages, layout)


def agree_in_double(call: Call, ours: Any, theirs: Any, *, values: float = 1e-11, slopes: float = 1e-9) -> None:
    """Two implementations compute the same, and the same gradient to all that a call takes; where one has none, the other has 0."""
    mine, other = call.to(torch.float64, requires_grad=True), call.to(torch.float64, requires_grad=True)
    a, b = mine.run(ours), other.run(theirs)
    assert (a - b).abs().max() <= values * (1 + b.abs().max())
    weights = torch.randn_like(b)
    a.backward(weights)
    b.backward(weights)
    for name, leaf in other.tensors.items():
        found = mine.tensors[name].grad
        if leaf.grad is None:  # nearest has no gradient to its coordinates
            assert found is None or not found.any(), name
        else:
            assert (found - leaf.grad).abs().max() <= slopes * (1 + leaf.grad.abs().max()), name


def as_precise(call: Call, ours: Any, theirs: Any, *, hard: bool) -> None:
    """In single precision one errs no more than twice what the reference does against itself in double, on the same numbers.

    At a ``hard`` edge (nearest, a window) single precision may fall on its other side; coordinates equal the reference's bit for
    bit, so it must fall where the reference's does.
    """
    single = call.to(torch.float32)
    truth = single.to(torch.float64).run(theirs)
    error, allowed = ((single.run(function).double() - truth).abs() for function in (ours, theirs))
    eps = torch.finfo(torch.float32).eps * (1 + truth.abs().max())
    if hard:
        jumped = allowed > 1e3 * eps
        assert not ((error > 1e3 * eps) & ~jumped).any()
        error, allowed = error.masked_fill(jumped, 0), allowed.masked_fill(jumped, 0)
    assert error.max() <= 2 * allowed.max() + 16 * eps


def is_adjoint(call: Call, function: Any, seed: int, *, layout: str = "contiguous", room: float = 1e-11) -> None:
    """<W x, y> = <x, W' y> for the linear part: without offset, fill or stages."""
    kept = {n: t for n, t in call.tensors.items() if n in ("image", "src_from_dst", "window", "field", "matrix")}
    linear = Call(kept, call.options, (), layout).to(torch.float64)
    x = linear.tensors["image"].requires_grad_()
    out = linear.run(function)
    y = torch.randn(out.shape, dtype=out.dtype, generator=torch.Generator().manual_seed(seed)).to(out.device)
    (back,) = torch.autograd.grad(out, x, y)
    assert ((out * y).sum() - (x * back).sum()).abs() <= room * (1 + out.abs().sum())
