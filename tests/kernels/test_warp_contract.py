"""Who computes a warp, and what it computes of what is asked for. What torch may do with it: ``test_resampled.py``."""

import pytest
import torch

from pellucid.core import compilers
from pellucid.errors import ImplementationError
from pellucid.kernels.dispatch import choose
from pellucid.kernels.warp import AVAILABLE, unsupported
from pellucid.segments.chain import AffineStage, ClipStage, HueStage

from .warps import warp


def example(batch=2, dtype=torch.float32, size=(9, 11)):
    generator = torch.Generator().manual_seed(3)
    image = torch.rand(batch, 3, *size, dtype=dtype, generator=generator)
    noise = torch.randn(batch, 3, 3, dtype=dtype, generator=generator) * torch.tensor(
        [[0.1, 0.1, 2], [0.1, 0.1, 2], [0.001, 0.001, 0]], dtype=dtype
    )
    return image, torch.eye(3, dtype=dtype) + noise


def jittered(image, src_from_dst, *, function=warp, **options):
    count, like = image.shape[0], {"dtype": image.dtype, "device": image.device}
    mixing = torch.eye(3, **like).repeat(count, 1, 1) * 0.7 + 0.1
    turns = HueStage(torch.linspace(-0.2, 0.3, count, **like))
    epilogue = [turns, ClipStage(), AffineStage(mixing, torch.full((1, 3), -0.5, **like))]
    return function(image, src_from_dst, matrix=mixing, fill=torch.ones(1, 3, **like), epilogue=epilogue, **options)


@pytest.mark.parametrize(
    ("impl", "device", "dtype", "interpolation", "expected"),
    [
        ("auto", "cpu", torch.float32, "bilinear", "cpu"),
        ("auto", "cpu", torch.float64, "bilinear", "cpu"),
        ("auto", "cpu", torch.bfloat16, "bilinear", "cpu"),
        ("auto", "cpu", torch.uint8, "bilinear", "reference"),
        ("auto", "cpu", torch.uint8, "nearest", "cpu"),
        ("cpu", "cpu", torch.int64, "nearest", "cpu"),
        ("auto", "cuda", torch.float32, "bilinear", "triton"),
        ("auto", "cuda", torch.bfloat16, "bicubic", "triton"),
        ("auto", "cuda", torch.uint8, "nearest", "triton"),
        ("auto", "cuda", torch.uint8, "bilinear", "reference"),
        ("auto", "mps", torch.float32, "bilinear", "reference"),
        ("reference", "cpu", torch.float32, "bilinear", "reference"),
        ("cpu", "cpu", torch.float32, "bilinear", "cpu"),
        ("cpu", "cpu", torch.uint8, "bilinear", ImplementationError),
        ("cpu", "cuda", torch.float32, "bilinear", ImplementationError),
        ("triton", "cuda", torch.float32, "bilinear", "triton"),
        ("triton", "cpu", torch.float32, "bilinear", ImplementationError),
    ],
)
def test_choice_table(impl, device, dtype, interpolation, expected, monkeypatch):
    monkeypatch.setattr(compilers, "_triton", True)  # installed or not

    def resolve():
        what = unsupported(dtype, interpolation)
        return choose(impl, available=AVAILABLE, device=device, unsupported=what)

    if isinstance(expected, str):
        assert resolve() == expected
    else:
        with pytest.raises(expected, match="impl="):
            resolve()


def test_explicit_choice_names_the_way_out():
    image, src_from_dst = example()
    with pytest.raises(ImplementationError, match=r"bilinear on images of torch.int32.*impl='reference'"):
        warp((image * 255).int(), src_from_dst, size=(4, 4), impl="cpu")


def test_second_derivatives_of_functions_raise():
    image, src_from_dst = example()
    with pytest.raises(ImplementationError, match="impl='reference'"):
        torch.func.grad(lambda x: torch.func.grad(lambda y: warp(y, src_from_dst, size=(5, 5), impl="cpu").pow(3).sum())(x).sum())(
            image
        )


def test_only_what_is_needed_is_computed():
    image, src_from_dst = example()
    src_from_dst.requires_grad_()
    jittered(image, src_from_dst, size=(5, 5), impl="cpu").sum().backward()
    assert image.grad is None
    assert src_from_dst.grad is not None
