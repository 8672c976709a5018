"""Compiled layers against the reference: values, every gradient, threads, and copies that change no bit."""

import pytest
import torch

from pellucid.kernels.layers import layers

from .primitives import Kernel, agree

DOUBLE = torch.float64


def tables(batch=3, size=(9, 11), dtype=DOUBLE, seed=0, reads=3, edge=2.5):
    """Reads through maps, within rectangles that fade, and a plane that cuts the last of them out."""
    generator = torch.Generator().manual_seed(seed)

    def rand(*shape):
        return torch.rand(*shape, generator=generator, dtype=DOUBLE)

    height, width = size
    offset = torch.randint(0, batch, (batch, reads), generator=generator) - torch.arange(batch)[:, None]
    ends = rand(batch, reads, 2, 2) * torch.tensor([[width * 0.5, height * 0.5]], dtype=DOUBLE)
    box = torch.cat((ends[:, :, 0], ends[:, :, 1] + ends[:, :, 0] + 0.4 * torch.tensor([width, height])), 2)
    maps = torch.eye(2, 3, dtype=DOUBLE) + 0.3 * (rand(batch, reads, 2, 3) - 0.5)
    maps[..., 2] *= 10
    image, opacity = rand(batch, 3, height, width), 0.05 + 0.9 * rand(batch, reads)
    plane = rand(batch, height, width)
    return image.to(dtype), offset, opacity.to(dtype), box.to(dtype), maps.to(dtype), plane.to(dtype)


def laid(image, offset, opacity, box, maps, plane=None, *, impl="auto", **options):
    given = {"ground": (0.3, -0.2, 0.7), "edge": 2.5, "dtype": image.dtype, **options}
    return layers(image, offset, opacity, box, maps, plane, impl=impl, **given)


LAYERS = Kernel(laid, tables, "layers", ([0.3, -0.2, 0.7], False, 2.5, DOUBLE))


@pytest.mark.parametrize("covers", [False, True])
@pytest.mark.parametrize("edge", [0.0, 1.5])
@pytest.mark.parametrize("through", [(0, 1), (0,), (1,), (), (2,), (0, 1, 2)])
def test_every_kind_of_table_equals_the_reference_in_double(covers, edge, through):
    image, offset, opacity, *rest = tables(batch=4, size=(7, 13), seed=3, reads=4)
    opacity[:2] = opacity[:2].round()  # some are opaque, some are not there
    box, maps, plane = (part if k in through else None for k, part in enumerate(rest))
    if plane is not None:
        plane[:, 2:5] = plane[:, 2:5].round()  # rows with holes, and rows of nothing
        plane[:, 4], plane[:, 5, 3:9] = 1.0, 0.0

    def call(image, opacity, *floating, impl):
        left = iter(floating)
        numbers = [next(left) if part is not None else None for part in (box, maps, plane)]
        return laid(image, offset, opacity, *numbers, impl=impl, edge=edge, covers=covers)

    agree(call, [image, opacity, *(part for part in (box, maps, plane) if part is not None)])


def whole(batch, maps=True, generator=None):
    places = torch.eye(2, 3, dtype=DOUBLE).repeat(batch, 4, 1, 1)
    places[..., 2] = torch.randint(-15, 15, (batch, 4, 2), generator=generator).double()
    return places if maps else None


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.uint8])
@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize("cuts", [False, True])
def test_what_is_copied_keeps_every_bit(dtype, moves, cuts):
    generator = torch.Generator().manual_seed(2)
    image, offset, opacity, box, _, plane = tables(batch=4, size=(12, 17), reads=4)
    plane = plane.round() if cuts else None
    image = (image * 255).to(dtype) if dtype == torch.uint8 else (image - 0.5).to(dtype)
    maps = whole(4, moves, generator)
    options = {"edge": 0.0, "ground": (0.0, 0.0, 0.0), "covers": True}
    out = laid(image, offset, opacity.round(), box, maps, plane, impl="cpu", **options)
    # torch gathers integers alone, whose reads are laid where they count for more than half
    bits = image.view({1: torch.uint8, 2: torch.int16, 4: torch.int32}[image.element_size()])
    asked = {"ground": (0.0,) * 3, "covers": True, "interpolation": "nearest", "impl": "reference"}
    expected = layers(bits, offset, opacity.round(), box, maps, plane, **asked)
    assert torch.equal(out.view(expected.dtype), expected)


def test_bytes_are_rounded_once_and_other_dtypes_may_be_asked_for():
    image, *table = tables(size=(12, 17))
    steps = (image * 255).round().to(torch.uint8)
    truth = laid(steps.double() / 255, *table, dtype=DOUBLE, impl="reference")
    for dtype, error in ((torch.uint8, 0.5 / 255), (torch.float32, 0), (torch.float16, 2e-3)):
        out = laid(steps, *(t.float() if t.is_floating_point() else t for t in table), dtype=dtype, impl="cpu")
        assert out.dtype == dtype
        found = out.double() / (255 if dtype == torch.uint8 else 1)
        assert (found - truth.clamp(0, 1) if dtype == torch.uint8 else found - truth).abs().max() < error + 2e-6
    for dtype in (torch.float16, torch.bfloat16):
        half = image.to(dtype).requires_grad_()
        laid(half, *table, impl="cpu").sum().backward()
        assert half.grad.dtype == dtype


def test_nothing_spreads_from_what_is_covered_or_outside():
    image, _, opacity, _, maps, _ = tables(batch=2, size=(8, 8), reads=2)
    image[0], offset = torch.nan, torch.tensor([[0, 1], [-1, 0]])
    whole_picture = torch.tensor([-9.0, -9.0, 20.0, 20.0], dtype=DOUBLE).expand(2, 2, 4)
    leaf = image.clone().requires_grad_()
    out = laid(leaf, offset, torch.ones_like(opacity), whole_picture, None, impl="cpu", edge=1.0)
    assert torch.equal(out[0], image[1])
    assert torch.autograd.grad(out.sum(), leaf)[0].isfinite().all()
    maps = maps.clone()
    maps[..., 2] = torch.nan
    maps[1, :, :, 2] = 1e30
    out = laid(image, offset, opacity, None, maps, impl="cpu", covers=True)
    assert torch.equal(out, torch.tensor([0.3, -0.2, 0.7], dtype=DOUBLE)[None, :, None, None].expand_as(out))


@pytest.mark.parametrize("shape", [(0, 3, 4, 5), (2, 3, 0, 5), (2, 0, 4, 5)])
def test_nothing_comes_of_nothing(shape):
    image = torch.zeros(shape, requires_grad=True)
    opacity = torch.ones(shape[0], 1, requires_grad=True)
    out = layers(
        image, torch.zeros(shape[0], 1, dtype=torch.int64), opacity, None, None, ground=(0.0,) * shape[1], dtype=torch.float32
    )
    assert out.shape == shape
    assert all(not g.any() for g in torch.autograd.grad(out.sum(), (image, opacity)))
