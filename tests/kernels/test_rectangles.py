"""Rectangles painted by the compiled pass, in place and out of place, against the tensor code."""

import pytest
import torch

from pellucid import ColorJitter, Key, Normalize, Pipeline, RandomAffine, RandomErasing, RandomHorizontalFlip, RandomResizedCrop
from pellucid.kernels import blend
from pellucid.kernels.conversion import as_bytes, as_colors
from tests.compare import within_budget

SIZE = 11, 13


def boxes(count, *, whole, dtype, rows=3):
    generator = torch.Generator().manual_seed(count)
    corner = torch.rand(rows, count, 2, dtype=torch.float64, generator=generator) * 14 - 2
    corners = torch.cat((corner, corner + torch.rand(rows, count, 2, dtype=torch.float64, generator=generator) * 9), -1)
    return (corners.round() if whole else corners).to(dtype)


def values(kind, dtype):
    shape = {"shared": (1, 2), "own": (3, 2), "picture": (3, 2, *SIZE)}[kind]
    return torch.rand(shape, dtype=dtype, generator=torch.Generator().manual_seed(5))


def pictures(dtype):
    return torch.rand(3, 2, *SIZE, dtype=dtype, generator=torch.Generator().manual_seed(7))


@pytest.mark.parametrize("kind", ["shared", "own", "picture"])
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("count", [1, 3])
def test_the_compiled_pass_agrees_with_the_reference(count, whole, kind):
    found = {}
    for impl, dtype in (("cpu", torch.float32), ("reference", torch.float32), ("reference", torch.float64)):
        given = pictures(torch.float32).to(dtype), boxes(count, whole=whole, dtype=torch.float32).to(dtype)
        leaves = [part.requires_grad_() for part in (*given, values(kind, torch.float32).to(dtype))]
        out = blend.patch(*leaves, impl=impl)
        weight = torch.rand(out.shape, generator=torch.Generator().manual_seed(9)).to(dtype)
        found[impl, dtype] = (out.detach(), *torch.autograd.grad((out * weight).sum(), leaves))
    truth = found["reference", torch.float64]
    for fast, reference, exact in zip(found["cpu", torch.float32], found["reference", torch.float32], truth, strict=True):
        assert within_budget(fast, reference, exact)


def test_one_number_stands_for_all_channels():
    image, box = pictures(torch.float64), boxes(2, whole=False, dtype=torch.float64)
    one = torch.tensor([[0.3]], dtype=torch.float64, requires_grad=True)
    each = torch.tensor([[0.3, 0.3]], dtype=torch.float64, requires_grad=True)
    outs = [blend.patch(image, box, value, impl="cpu") for value in (one, each)]
    assert torch.equal(*outs)
    to_one, to_each = (torch.autograd.grad(out.square().sum(), value)[0] for out, value in zip(outs, (one, each), strict=True))
    torch.testing.assert_close(to_one[0, 0], to_each.sum())


@pytest.mark.parametrize("count", [1, 3])
def test_gradients_are_those_of_finite_differences(count):
    box = boxes(count, whole=False, dtype=torch.float64) / 2.2
    leaves = [part.requires_grad_() for part in (pictures(torch.float64)[:, :, :5, :6], box, values("own", torch.float64))]
    assert torch.autograd.gradcheck(lambda *parts: blend.patch(*parts, impl="cpu"), leaves)


def test_second_derivatives_go_through_the_reference():
    leaves = [pictures(torch.float64)[:1, :1, :3, :4], torch.tensor([[[0.3, 0.4, 2.2, 1.7]]], dtype=torch.float64)]
    leaves = [part.requires_grad_() for part in leaves]
    value = torch.full((1, 1), 0.25, dtype=torch.float64)
    assert torch.autograd.gradgradcheck(lambda image, box: blend.patch(image, box, value, impl="cpu"), leaves)


@pytest.mark.parametrize("impl", ["cpu", "reference"])
def test_what_is_outside_is_left_as_it_is_and_what_is_covered_is_not_read(impl):
    image = torch.tensor([[[[float("inf"), float("nan"), float("nan"), 1.0]]]])
    out = blend.patch(image, torch.tensor([[[2.0, 0.0, 3.0, 1.0]]]), torch.zeros(1, 1), impl=impl)
    torch.testing.assert_close(out, torch.tensor([[[[float("inf"), float("nan"), 0.0, 1.0]]]]), rtol=0, atol=0, equal_nan=True)


def test_painting_in_place_gives_the_same_bits():
    for kind in ("shared", "own", "picture"):
        image, box, value = pictures(torch.float32), boxes(3, whole=False, dtype=torch.float32), values(kind, torch.float32)
        kept = image.clone()
        out = blend.patch(image, box, value, impl="cpu")
        assert torch.equal(image, kept)
        blend.paint(image, box, value)
        assert torch.equal(image, out)


def test_rectangles_under_vmap_and_one_for_all():
    image, box = pictures(torch.float32), boxes(2, whole=False, dtype=torch.float32, rows=1)
    value = values("shared", torch.float32)
    wanted = blend.patch(image, box.expand(3, -1, -1), value, impl="reference")
    lanes = torch.vmap(lambda one: blend.patch(one[None], box, value, impl="cpu")[0])(image)
    torch.testing.assert_close(lanes, wanted)


PIPELINES = {
    "resized": [RandomResizedCrop(24), RandomHorizontalFlip(), Normalize((0.5,) * 3, (0.2,) * 3), RandomErasing(p=0.5)],
    "turned": [RandomAffine(20), RandomErasing(p=0.5, fill=(0.1, 0.2, 0.3))],
    "noise": [ColorJitter(0.2), RandomErasing(p=0.5, fill="random")],
    "alone": [RandomErasing(p=0.5)],
    "chosen": [RandomHorizontalFlip(), RandomErasing(p=0.0)],
}


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float16])
@pytest.mark.parametrize("name", PIPELINES)
def test_erasing_at_the_end_of_a_pass_changes_no_result_and_no_input(name, dtype):
    pixels = torch.randint(0, 256, (6, 3, 30, 36), dtype=torch.uint8, generator=torch.Generator().manual_seed(3))
    image = pixels if dtype == torch.uint8 else (pixels / 255.0).to(dtype)
    kept, augment = image.clone(), Pipeline(PIPELINES[name], seed=1)
    for step in range(4):
        out, record = augment(image, key=Key(2, step), return_record=True)
        assert torch.equal(image, kept)
        wanted = Pipeline(PIPELINES[name], seed=1, impl="reference")(image, key=Key(2, step))
        assert out.dtype == wanted.dtype
        torch.testing.assert_close(out, wanted, rtol=0, atol={torch.uint8: 1, torch.float32: 2e-5, torch.float16: 4e-3}[out.dtype])
        assert torch.equal(augment.apply(image, record), out)
        graph = augment(image.float().div(255.0) if dtype == torch.uint8 else image, key=Key(2, step))
        assert graph.shape == out.shape


def test_a_gradient_through_an_erased_pass_is_that_of_the_reference():
    image = torch.rand(4, 3, 20, 22, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    found = []
    for impl in ("cpu", "reference"):
        augment = Pipeline([RandomAffine(20), RandomErasing(p=0.7)], seed=1, impl=impl)
        out = augment(image)
        found.append((out, torch.autograd.grad(out.square().sum(), image)[0]))
    torch.testing.assert_close(found[0], found[1], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("value", [0.0, (0.2, 0.5, 1.0), "random"])
@pytest.mark.parametrize(
    ("before", "exact"),
    [((), True), ((RandomHorizontalFlip(),), True), ((RandomAffine(20),), False)],
    ids=["alone", "flipped", "turned"],
)
def test_bytes_that_nothing_rounds_are_painted_over_as_what_they_stand_for(before, exact, value, monkeypatch):
    painted, paint = [], blend.paint
    monkeypatch.setattr(blend, "paint", lambda out, *rest: (painted.append(out.dtype), paint(out, *rest))[1])
    image = torch.randint(0, 256, (6, 3, 41, 52), dtype=torch.uint8).transpose(2, 3)
    kept, pipeline = image.clone(), Pipeline([*before, RandomErasing(p=0.7, fill=value)], seed=2)
    result, record = pipeline(image, return_record=True)
    assert painted == ([torch.uint8] if exact else [])
    assert torch.equal(image, kept)
    assert torch.equal(result, as_bytes(pipeline.apply(as_colors(image, torch.float32), record), torch.uint8))
