"""Pipelines on Triton: the same pictures, in one pass over them."""

import pytest
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

import pellucid
from pellucid import Key, Pipeline
from pellucid.kernels import warp as warps
from tests.cases import MEAN, STD

from .interpreted import DEVICE, anywhere, runs  # noqa: F401

MOVING = (pellucid.RandomAffine(degrees=20, translate=(0.1, 0.1)), pellucid.RandomHorizontalFlip())
COLOURS = (pellucid.ColorJitter(brightness=0.2, saturation=0.2, hue=0.1), pellucid.Normalize(mean=MEAN, std=STD))


@pytest.mark.parametrize("given", [torch.uint8, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("wanted", [torch.float16, torch.float32])
@pytest.mark.parametrize("transforms", [MOVING + COLOURS, COLOURS], ids=["moving", "colours"])
def test_pictures_are_those_of_the_reference(given, wanted, transforms):
    images = torch.rand(2, 9, 11, 3, generator=torch.Generator().manual_seed(0)).permute(0, 3, 1, 2).to(DEVICE)
    images = (images * 255).to(torch.uint8) if given == torch.uint8 else images.to(given)
    found = [Pipeline(transforms, impl=impl, dtype=wanted).to(DEVICE)(images, key=Key(seed=1)) for impl in ("triton", "reference")]
    assert found[0].dtype == wanted
    torch.testing.assert_close(
        *found, rtol=2e-3 if wanted == torch.float16 else 1e-4, atol=2e-3 if wanted == torch.float16 else 2e-5
    )


class Large(TorchDispatchMode):
    """Names of the operations whose results are as large as the images."""

    def __init__(self, numbers):
        super().__init__()
        self.numbers, self.names = numbers, []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        made = [x for x in pytree.tree_leaves(result) if isinstance(x, torch.Tensor)]
        if any(x.numel() >= self.numbers for x in made) and not function.is_view:
            self.names.append(str(function))
        return result


@pytest.mark.parametrize("transforms", [MOVING + COLOURS, COLOURS], ids=["moving", "colours"])
@pytest.mark.parametrize("given", [torch.uint8, torch.bfloat16])
def test_an_accelerator_sees_one_pass(transforms, given):
    # The meta device takes an accelerator's paths.
    images = torch.empty(2, 64, 64, 3, dtype=given, device="meta").permute(0, 3, 1, 2)
    pipeline = Pipeline(transforms, impl="triton", dtype=torch.bfloat16).to("meta")
    with Large(images.numel()) as large:
        assert pipeline(images).dtype == torch.bfloat16
    assert large.names == ["pellucid.triton_warp.default"]


FIELDS = {
    "elastic": lambda: pellucid.RandomElastic(6, magnitude=pellucid.Learnable(0.25, low=0.0, high=0.45)),
    "lens": lambda: pellucid.LensDistortion(k1=pellucid.Learnable(0.1, low=-0.2, high=0.4)),
    "thin plate": lambda: pellucid.RandomThinPlateSpline(3, magnitude=pellucid.Learnable(0.1, low=0.0, high=0.15)),
    "fisheye": lambda: pellucid.RandomFisheye(pellucid.Learnable(35.0, low=5.0, high=50.0)),
    "rolling shutter": lambda: pellucid.RollingShutter(pan=pellucid.Learnable(0.08, low=0.0, high=0.2)),
    "grid": lambda: pellucid.GridDistortion(3, magnitude=pellucid.Learnable(0.2, low=0.0, high=0.3)),
    "wave": lambda: pellucid.RandomWave(pellucid.Learnable(0.04, low=0.0, high=0.08), period=(16.0, 24.0)),
}
AROUND = (
    pellucid.RandomAffine(9, translate=(0.05, 0.05)),
    pellucid.RandomCrop(9),
    pellucid.ColorJitter(brightness=0.2, contrast=0.2, saturation=0.2, hue=0.1),
)


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] if n != "elastic" else []) for n in FIELDS])
def test_fields_and_what_they_learn_are_those_of_the_reference(name, monkeypatch):
    """A field, a rotation, a crop and jitter: one pass, canvas and all, with gradients to picture and magnitude."""
    monkeypatch.setattr(warps, "_across", None)
    images = torch.rand(2, 3, 12, 15, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    found = []
    for impl, dtype in (("triton", torch.float32), ("reference", torch.float32), ("reference", torch.float64)):
        pipeline = Pipeline([FIELDS[name](), *AROUND], impl=impl).to(DEVICE)
        leaf = images.to(dtype).requires_grad_()
        out = pipeline(leaf, key=Key(seed=3))
        weights = torch.linspace(0.0, 1.0, out.numel(), dtype=dtype, device=DEVICE).view_as(out)
        (learned,) = pipeline.parameters()
        found.append((out.detach(), *torch.autograd.grad((out * weights).sum(), (leaf, learned))))
        if impl == "triton":
            passes = [line for line in pipeline.explain(images).splitlines() if line.startswith("pass")]
            assert len(passes) == 1
            assert passes[0].endswith("the field of [0], by triton)")
    for mine, single, exact in zip(*found, strict=True):
        assert exact.any()
        assert (mine - exact).abs().max() <= 3 * (single - exact).abs().max() + 1e-5 * exact.abs().max()


SMALL = pellucid.RandomElastic(6)
PLANS = {
    "field": [SMALL],
    "canvas, field, canvas": [MOVING[0], SMALL, pellucid.RandomCrop(20), MOVING[0]],
    "crop, field": [pellucid.RandomResizedCrop(24, antialias=False), SMALL, *COLOURS],
    "resize's canvas behind the field": [pellucid.Resize(24, antialias=False), SMALL, MOVING[0]],
    "resize's canvas before the field": [SMALL, pellucid.Resize(24, antialias=False), MOVING[0]],
    "padded crop, field": [pellucid.RandomCrop(30, padding=4), pellucid.Resize(24, antialias=False), SMALL],
    "nearest field": [pellucid.RandomElastic(6, interpolation="nearest")],
    "nearest canvas": [pellucid.RandomAffine(9, interpolation="nearest"), pellucid.RandomRotation(9, interpolation="nearest")],
}


@pytest.mark.parametrize("name", PLANS)
def test_explain_says_whose_places_pytorch_computes(name, monkeypatch):
    calls, across = [], warps._across
    monkeypatch.setattr(warps, "_across", lambda *given: calls.append(1) or across(*given))
    images = torch.empty(2, 3, 32, 32, device="meta")
    pipeline = Pipeline(PLANS[name], impl="triton").to("meta")
    pipeline(images)
    assert ("places by PyTorch" in pipeline.explain(images)) == bool(calls)
