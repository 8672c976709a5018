"""What torch may do with the Triton warp: compile, map, differentiate; always the same bits; and who is told what."""

import subprocess
import sys
from functools import partial

import pytest
import torch

from pellucid.core import compilers
from pellucid.errors import ImplementationError
from pellucid.kernels import dispatch
from pellucid.kernels.warp.packing import pack
from pellucid.segments.chain import AffineStage, ClipStage, HueStage
from tests.refusals import refused

from . import test_warp_contract as warps
from .interpreted import DEVICE, runs  # noqa: F401
from .primitives import mapped_is_looped, operators_kept, placed, second_derivatives
from .warps import operands, reference, warp
from .warps import triton as kernels


def example(batch=2, dtype=torch.float32, size=(5, 6)):
    return placed(warps.example(batch, dtype, size), "triton")


def jittered(image, src_from_dst, *, function=kernels.warp, **options):
    return warps.jittered(image, src_from_dst, function=function, **options)


def test_importing_pellucid_does_not_import_triton():
    code = "import sys, pellucid; sys.exit('triton' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_explicit_choice_says_why_not(monkeypatch):
    image, src_from_dst = (tensor.cpu() for tensor in example())
    refused(ImplementationError, "does not run on 'cpu' tensors", warp, image, src_from_dst, size=(4, 4), impl="triton")
    monkeypatch.setattr(compilers, "_triton", False)
    refused(ImplementationError, "needs Triton", dispatch.choose, "triton", available=("triton", "reference"), device="cuda")


def test_without_triton_auto_is_the_reference_and_says_so_once(monkeypatch):
    monkeypatch.setattr(compilers, "_triton", None)
    monkeypatch.setitem(sys.modules, "triton", None)
    with pytest.warns(UserWarning, match="Triton cannot be imported"):
        assert dispatch.choose("auto", available=("cpu", "triton", "reference"), device="cuda") == "reference"
    assert dispatch.choose("auto", available=("cpu", "triton", "reference"), device="cuda") == "reference"


@pytest.mark.parametrize("padding_mode", ["zeros", "border"])
def test_same_bits_in_every_run(padding_mode):
    image, src_from_dst = example()
    results = []
    for _ in range(100 if DEVICE == "cuda" else 3):
        leaves = image.clone().requires_grad_(), src_from_dst.clone().requires_grad_()
        out = jittered(*leaves, size=(5, 7), padding_mode=padding_mode)
        results.append((out.detach(), *torch.autograd.grad(out.square().sum(), leaves)))
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_a_samples_gradient_does_not_depend_on_the_batch():
    image, src_from_dst = example()
    both, one = image.clone().requires_grad_(), image[:1].clone().requires_grad_()
    kernels.warp(both, src_from_dst, size=(5, 7), padding_mode="border").square().sum().backward()
    kernels.warp(one, src_from_dst[:1], size=(5, 7), padding_mode="border").square().sum().backward()
    assert torch.equal(both.grad[:1], one.grad)


def arguments(*, field=None, dtype=torch.float64):
    image, src_from_dst = example(dtype=torch.float64)
    window = torch.tensor([[1.0, 0.5, 4.0, 4.0]], dtype=torch.float64, device=DEVICE)
    stages = [HueStage(torch.zeros(2, dtype=torch.float64, device=DEVICE)), ClipStage()]
    return operands(image, pack(src_from_dst, size=(4, 5), window=window, field=field, dtype=dtype, epilogue=stages))


@pytest.mark.parametrize("tests", [("test_schema", "test_faketensor"), pytest.param(None, marks=pytest.mark.slow)])
def test_opcheck(tests):
    tests = {} if tests is None else {"test_utils": tests}
    torch.library.opcheck(torch.ops.pellucid.triton_warp.default, arguments(), **tests)
    grad = torch.rand(2, 3, 4, 5, dtype=torch.float64, device=DEVICE)
    backward = torch.ops.pellucid.triton_warp_backward.default
    torch.library.opcheck(backward, (grad, *arguments(), [True, True, True, True, False, False, False]), **tests)
    torch.library.opcheck(backward, (grad, *arguments(), [False, False, False, True, False, False, False]), **tests)
    field = torch.randn(1, 2, 4, 5, dtype=torch.float64, device=DEVICE)
    torch.library.opcheck(torch.ops.pellucid.triton_warp.default, arguments(field=field, dtype=torch.bfloat16), **tests)
    torch.library.opcheck(backward, (grad.half(), *arguments(field=field), [*[True] * 5, False, False]), **tests)
    torch.library.opcheck(backward, (grad, *arguments(field=field), [False, False, False, False, True, False, False]), **tests)


def test_vmap_and_its_gradients():
    def warped(*given, impl):
        return kernels.warp(*given, size=(4, 5))

    image, maps = example(1)
    for lanes in ((0, 1), (1,)):
        mapped_is_looped(warped, (image, maps), (image.flip(-1), maps * 1.01), lanes, rtol=0.0)


def test_vmap_over_fields():
    def displaced(picture, field, impl):
        return kernels.warp(picture, maps, size=(4, 5), field=field)

    image, maps = example(1)
    one, other = torch.randn(2, 1, 2, 4, 5, device=DEVICE)
    mapped_is_looped(displaced, (image, one), (image, other), (1,), rtol=0.0)


def same_second_derivatives(given, call):
    torch.testing.assert_close(*(second_derivatives(partial(call, by.warp), given) for by in (kernels, reference)))


def test_second_derivatives_with_a_field_go_through_the_reference():
    field = torch.randn(2, 2, 4, 5, dtype=torch.float64, device=DEVICE)
    given = *example(dtype=torch.float64), field
    same_second_derivatives(given, lambda function, x, at, field: function(x, at, size=(4, 5), field=field))


def test_8_bit_results_have_no_gradient():
    image, src_from_dst = example()
    out = kernels.warp(image.requires_grad_(), src_from_dst, size=(4, 5), dtype=torch.uint8)
    assert out.dtype == torch.uint8
    assert not out.requires_grad


def test_second_derivatives_go_through_the_reference():
    given = example(dtype=torch.float64)
    same_second_derivatives(given, lambda function, x, at: jittered(x, at, size=(4, 5), function=function))


def test_forward_mode_and_second_derivatives_of_functions_raise():
    image, src_from_dst = example()

    def cubed(x):
        return kernels.warp(x, src_from_dst, size=(4, 4)).pow(3).sum()

    refused(ImplementationError, "impl='reference'", torch.func.grad(lambda x: torch.func.grad(cubed)(x).sum()), image)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(src_from_dst, torch.ones_like(src_from_dst))
        refused(NotImplementedError, "jvp", kernels.warp, image, dual, size=(4, 4))


def test_nothing_but_inputs_is_saved():
    image, src_from_dst = example(2, size=(16, 16))
    image.requires_grad_()
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        jittered(image, src_from_dst, size=(16, 16))
    assert sum(t.numel() for t in saved if t.data_ptr() != image.data_ptr()) < 200


def test_only_what_is_needed_is_computed():
    image, src_from_dst = example()
    src_from_dst.requires_grad_()
    jittered(image, src_from_dst, size=(5, 5)).sum().backward()
    assert image.grad is None
    assert src_from_dst.grad is not None


def test_deterministic_algorithms_are_accepted():
    image, src_from_dst = example()
    image.requires_grad_()
    torch.use_deterministic_algorithms(True)
    try:
        kernels.warp(image, src_from_dst, size=(5, 5), padding_mode="reflection").sum().backward()
    finally:
        torch.use_deterministic_algorithms(True, warn_only=True)
    assert image.grad.any()


def test_empty_batches_and_images():
    eye = torch.eye(3, device=DEVICE)[None]
    image = torch.rand(0, 3, 4, 4, device=DEVICE, requires_grad=True)
    out = kernels.warp(image, eye, size=(5, 6))
    assert out.shape == (0, 3, 5, 6)
    out.sum().backward()
    assert image.grad.shape == (0, 3, 4, 4)


def test_one_graph_keeps_the_operator():
    image, src_from_dst = example()
    kept = operators_kept(lambda x: jittered(x, src_from_dst, size=(4, 5)), [image.requires_grad_()], "triton_warp")
    assert kept == ["pellucid.triton_warp.default", "pellucid.triton_warp_backward.default"]


def test_parameters_alone_have_the_gradients_that_they_have_beside_the_image():
    image, src_from_dst = example(dtype=torch.float64)
    turns = torch.tensor([0.1, -0.2], dtype=torch.float64, device=DEVICE)
    mixing = torch.eye(3, dtype=torch.float64, device=DEVICE)[None] * 0.7 + 0.1
    found = []
    for alone in (True, False):
        leaves = [tensor.clone().requires_grad_() for tensor in (src_from_dst, turns, mixing)]
        stages = [HueStage(leaves[1]), ClipStage(), AffineStage(leaves[2], torch.zeros(1, 3, dtype=torch.float64, device=DEVICE))]
        picture = image.clone().requires_grad_(not alone)
        out = kernels.warp(picture, leaves[0], size=(4, 5), epilogue=stages)
        found.append(torch.autograd.grad(out.square().sum(), leaves))
    for ours, theirs in zip(*found, strict=True):
        assert theirs.any()
        torch.testing.assert_close(ours, theirs)
