"""Displacement fields in the compiled warp: what they mean, and all that torch may do with them."""

import pytest
import torch

from pellucid.kernels.warp.chain import coordinates
from pellucid.kernels.warp.packing import pack
from pellucid.segments.chain import ClipStage, HueStage

from .warps import PADDINGS, cpu, reference, sample, warp


def example(batch=2, dtype=torch.float64, size=(9, 11), out=(7, 8)):
    generator = torch.Generator().manual_seed(5)
    image = torch.rand(batch, 3, *size, dtype=dtype, generator=generator)
    noise = torch.randn(batch, 3, 3, dtype=dtype, generator=generator)
    src_from_dst = torch.eye(3, dtype=dtype) + noise * torch.tensor([[0.1, 0.1, 2], [0.1, 0.1, 2], [0.01, 0.01, 0]], dtype=dtype)
    return image, src_from_dst, torch.randn(batch, 2, *out, dtype=dtype, generator=generator) * 2


def jittered(image, src_from_dst, field, impl="cpu", **options):
    dtype = image.dtype
    mixing = torch.eye(3, dtype=dtype)[None] * 0.7 + 0.1
    epilogue = [HueStage(torch.tensor([0.1], dtype=dtype)), ClipStage()]
    fill = torch.tensor([[0.9, 0.2, 0.4]], dtype=dtype)
    size = tuple(field.shape[-2:])
    return warp(image, src_from_dst, size=size, field=field, matrix=mixing, fill=fill, epilogue=epilogue, impl=impl, **options)


@pytest.mark.parametrize("padding_mode", PADDINGS)
def test_a_constant_field_is_a_shift_and_a_map_of_zeros_reads_at_the_field(padding_mode):
    image, src_from_dst, _ = example()
    shift = torch.tensor([1.25, -2.5], dtype=torch.float64)
    field = shift[None, :, None, None].expand(1, 2, 7, 8)
    shifted = torch.eye(3, dtype=torch.float64)
    shifted[:2, 2] = shift
    options = {"size": (7, 8), "padding_mode": padding_mode}
    expected = cpu.warp(image, shifted @ src_from_dst, **options)
    torch.testing.assert_close(cpu.warp(image, src_from_dst, field=field, **options), expected)
    x, y = coordinates(src_from_dst, (7, 8))
    torch.testing.assert_close(sample(image, x, y, padding_mode=padding_mode, impl="cpu"), cpu.warp(image, src_from_dst, **options))


@pytest.mark.parametrize("padding_mode", PADDINGS)
def test_what_is_not_finite_shows_fill_and_has_no_gradient(padding_mode):
    image, src_from_dst, field = example()
    field[0, 0, 2, 3], field[0, 1, 4, 1], field[1, :, 0, 0] = torch.nan, torch.inf, -torch.inf
    nowhere = ~torch.isfinite(field).all(1)
    fill = torch.tensor([[0.25, 0.5, 0.75]], dtype=torch.float64)
    leaves = image.requires_grad_(), src_from_dst.requires_grad_(), field.requires_grad_()
    outs = [w(*leaves[:2], size=(7, 8), field=leaves[2], padding_mode=padding_mode, fill=fill) for w in (cpu.warp, reference.warp)]
    assert torch.equal(outs[0].movedim(1, -1)[nowhere], fill.expand(3, 3))
    found, expected = (torch.autograd.grad(out.sin().sum(), leaves) for out in outs)
    assert not found[2].movedim(1, -1)[nowhere].any()
    torch.testing.assert_close(found, expected)


def test_layouts_of_the_field():
    image, src_from_dst, field = example(3)
    expected = jittered(image, src_from_dst, field)
    last = field.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
    assert torch.equal(jittered(image, src_from_dst, last), expected)
    one = field[:1]
    for shared in (one, one.expand(3, -1, -1, -1)):
        assert torch.equal(jittered(image, src_from_dst, shared), jittered(image, src_from_dst, one.repeat(3, 1, 1, 1)))
    leaf = one.clone().requires_grad_()
    many = one.repeat(3, 1, 1, 1).requires_grad_()
    (shared,) = torch.autograd.grad(jittered(image, src_from_dst, leaf).square().sum(), leaf)
    (each,) = torch.autograd.grad(jittered(image, src_from_dst, many).square().sum(), many)
    torch.testing.assert_close(shared[0], each.sum(0))


def test_only_what_is_needed_is_computed():
    image, src_from_dst, field = example()
    field.requires_grad_()
    jittered(image, src_from_dst, field).sum().backward()
    assert field.grad.any()
    assert image.grad is None


def test_the_fields_gradient_alone_within_a_window():
    image, src_from_dst, field = example()
    window = torch.tensor([[1.5, 1.0, 6.0, 7.5]], dtype=torch.float64)
    leaf = field.requires_grad_()
    found = [
        torch.autograd.grad(jittered(image, src_from_dst, leaf, impl, window=window, padding_mode="border").sin().sum(), leaf)[0]
        for impl in ("cpu", "reference")
    ]
    torch.testing.assert_close(*found)


@pytest.mark.slow
def test_opcheck_of_labels():
    image, src_from_dst, field = example()
    labels = torch.randint(0, 9, image.shape, dtype=torch.uint8)
    window, fill = torch.tensor([[1.0, 1.0, 7.0, 8.0]], dtype=torch.float64), torch.zeros(1, 3, dtype=torch.uint8)
    mapping = pack(src_from_dst, size=(7, 8), window=window, field=field).mapping
    torch.library.opcheck(torch.ops.pellucid.cpu_labels.default, (labels, mapping, window, fill, field, None, [7, 8], [0]))


def test_forward_mode_is_never_silently_zero():
    image, src_from_dst, field = example()
    tangent = torch.ones_like(field)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(field, tangent)
        found = [
            torch.autograd.forward_ad.unpack_dual(warp(image, src_from_dst, size=(7, 8), field=dual, impl=impl)).tangent
            for impl in ("cpu", "reference")
        ]
    assert found[1].any()
    torch.testing.assert_close(*found)


@pytest.mark.slow
@pytest.mark.parametrize("padding_mode", PADDINGS)
@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
@pytest.mark.parametrize("windowed", [False, True])
def test_gradcheck(interpolation, padding_mode, windowed):
    image, src_from_dst, field = example(1, size=(5, 6), out=(3, 4))
    window = torch.tensor([[0.6, 0.7, 4.1, 3.2]], dtype=torch.float64) if windowed else None
    leaves = image, src_from_dst, field, *([window] if windowed else [])

    def function(x, m, f, w=None):
        return cpu.warp(x, m, size=(3, 4), field=f, window=w, interpolation=interpolation, padding_mode=padding_mode)

    assert torch.autograd.gradcheck(function, [leaf.requires_grad_() for leaf in leaves], eps=1e-7, atol=1e-5, rtol=1e-4)
