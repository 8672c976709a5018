"""What torch may do with the compiled warp: compile, map, differentiate, run in threads and workers; always the same bits."""

import multiprocessing
import sys
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import pytest
import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd

import pellucid
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


def jittered(image, src_from_dst, **options):
    count, dtype = image.shape[0], image.dtype
    turns = torch.linspace(-0.2, 0.3, count, dtype=dtype)
    mixing = torch.eye(3, dtype=dtype).repeat(count, 1, 1) * 0.7 + 0.1
    epilogue = [HueStage(turns), ClipStage(), AffineStage(mixing, torch.full((1, 3), -0.5, dtype=dtype))]
    return warp(image, src_from_dst, matrix=mixing, fill=torch.ones(1, 3, dtype=dtype), epilogue=epilogue, **options)


@pytest.mark.parametrize(
    ("impl", "device", "dtype", "interpolation", "footprint", "expected"),
    [
        ("auto", "cpu", torch.float32, "bilinear", None, "cpu"),
        ("auto", "cpu", torch.float64, "bilinear", None, "cpu"),
        ("auto", "cpu", torch.bfloat16, "bilinear", None, "cpu"),
        ("auto", "cpu", torch.uint8, "bilinear", None, "reference"),
        ("auto", "cpu", torch.float32, "bilinear", (2, 2), "cpu"),
        ("auto", "cpu", torch.uint8, "nearest", None, "cpu"),
        ("cpu", "cpu", torch.int64, "nearest", None, "cpu"),
        ("auto", "cuda", torch.float32, "bilinear", None, "triton"),
        ("auto", "cuda", torch.bfloat16, "bicubic", None, "triton"),
        ("auto", "cuda", torch.uint8, "nearest", None, "triton"),
        ("auto", "cuda", torch.uint8, "bilinear", None, "reference"),
        ("auto", "cuda", torch.float32, "bilinear", (2, 2), "triton"),
        ("auto", "mps", torch.float32, "bilinear", None, "reference"),
        ("reference", "cpu", torch.float32, "bilinear", None, "reference"),
        ("reference", "cuda", torch.float32, "bilinear", (2, 2), "reference"),
        ("cpu", "cpu", torch.float32, "bilinear", None, "cpu"),
        ("cpu", "cpu", torch.uint8, "bilinear", None, ImplementationError),
        ("cpu", "cpu", torch.float32, "bilinear", (2, 2), "cpu"),
        ("cpu", "cuda", torch.float32, "bilinear", None, ImplementationError),
        ("triton", "cuda", torch.float32, "bilinear", None, "triton"),
        ("triton", "cuda", torch.float32, "bilinear", (2, 2), "triton"),
        ("triton", "cpu", torch.float32, "bilinear", None, ImplementationError),
    ],
)
def test_choice_table(impl, device, dtype, interpolation, footprint, expected, monkeypatch):
    monkeypatch.setattr(compilers, "_triton", True)  # installed or not

    def resolve():
        what = unsupported(dtype, interpolation, footprint)
        return choose(impl, available=AVAILABLE, device=device, unsupported=what)

    if isinstance(expected, str):
        assert resolve() == expected
    else:
        with pytest.raises(expected, match="impl="):
            resolve()


def test_explicit_choice_names_the_way_out():
    image, src_from_dst = example()
    with pytest.raises(ImplementationError, match=r"sub-samples.*impl='reference'"):
        warp(image, src_from_dst, size=(4, 4), footprint=(2, 2), weights="box", impl="cpu")


def test_without_numba_auto_is_the_reference_and_says_so_once(monkeypatch):
    monkeypatch.setattr(compilers, "_numba", None)
    monkeypatch.setitem(sys.modules, "numba", None)
    image, src_from_dst = example()
    with pytest.warns(UserWarning, match="Numba cannot be imported"):
        out = warp(image, src_from_dst, size=(4, 4))
    assert torch.equal(out, warp(image, src_from_dst, size=(4, 4), impl="reference"))
    assert torch.equal(out, warp(image, src_from_dst, size=(4, 4)))  # a second warning would be an error
    with pytest.raises(ImplementationError, match="Numba"):
        warp(image, src_from_dst, size=(4, 4), impl="cpu")


def test_four_python_threads_at_once():
    image, src_from_dst = example(8, size=(64, 64))
    expected = jittered(image, src_from_dst, size=(64, 64), impl="cpu")
    with ThreadPoolExecutor(4) as pool:
        outs = list(pool.map(lambda _: jittered(image, src_from_dst, size=(64, 64), impl="cpu"), range(16)))
    assert all(torch.equal(out, expected) for out in outs)


class Warped(torch.utils.data.Dataset):
    """Warps in the worker process."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        image, src_from_dst = example(4, size=(96, 96))
        # torch's own threads (OpenMP) would hang in a forked worker; ours must not, so only we are told of two.
        with mock.patch.object(torch, "get_num_threads", return_value=2):
            return jittered(image, src_from_dst, size=(96, 96), impl="cpu")


@pytest.mark.slow
@pytest.mark.parametrize("start", sorted(set(multiprocessing.get_all_start_methods()) & {"fork", "spawn"}))
def test_data_loading_workers(start):
    expected = Warped()[0]  # and the pool exists in the parent before it forks
    loader = torch.utils.data.DataLoader(Warped(), num_workers=1, multiprocessing_context=start, batch_size=None)
    assert all(torch.equal(out, expected) for out in loader)


def test_second_derivatives_of_functions_raise():
    image, src_from_dst = example()
    with pytest.raises(ImplementationError, match="impl='reference'"):
        torch.func.grad(lambda x: torch.func.grad(lambda y: warp(y, src_from_dst, size=(5, 5), impl="cpu").pow(3).sum())(x).sum())(
            image
        )


def test_nothing_but_inputs_is_saved():
    image, src_from_dst = example(2, size=(64, 64))
    image.requires_grad_()
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        jittered(image, src_from_dst, size=(64, 64), impl="cpu")
    assert sum(t.numel() for t in saved if t.data_ptr() != image.data_ptr()) < 1000


def test_only_what_is_needed_is_computed():
    image, src_from_dst = example()
    src_from_dst.requires_grad_()
    jittered(image, src_from_dst, size=(5, 5), impl="cpu").sum().backward()
    assert image.grad is None
    assert src_from_dst.grad is not None


@pytest.mark.slow
def test_pipeline_compiles_to_one_graph_that_keeps_the_operator():
    names = []

    def keep(graph, _):
        names.extend(str(node.target) for node in graph.graph.nodes)
        return make_boxed_func(graph.forward)

    backend = aot_autograd(fw_compiler=keep, bw_compiler=keep)
    transforms = [
        pellucid.RandomAffine(degrees=15),
        pellucid.ColorJitter(0.2, 0.2, 0.2, 0.05),
        pellucid.Normalize((0.5,) * 3, (0.25,) * 3),
    ]
    pipeline = pellucid.Pipeline(transforms, seed=0)
    images = torch.rand(2, 3, 20, 22, requires_grad=True)
    key = pellucid.Key(1, 2)
    eager = pipeline(images, key=key)
    torch._dynamo.reset()
    compiled = torch.compile(pipeline, fullgraph=True, backend=backend)(images, key=key)
    torch.testing.assert_close(compiled, eager)
    grads = [torch.autograd.grad(out.square().sum(), images)[0] for out in (compiled, eager)]
    torch.testing.assert_close(*grads)
    assert [name for name in names if "cpu_warp" in name] == ["pellucid.cpu_warp.default", "pellucid.cpu_warp_backward.default"]
    assert not any("gather" in name or "grid_sample" in name for name in names)
