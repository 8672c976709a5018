"""What torch may do with every compiled resample: threads, workers, operators, mapping, second derivatives, one graph."""

import multiprocessing
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple
from unittest import mock

import pytest
import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd

import pellucid
from pellucid.core import compilers
from pellucid.errors import ImplementationError
from pellucid.kernels.warp import Link
from pellucid.kernels.warp.footprint import stretches, weight_table
from pellucid.kernels.warp.packing import pack
from pellucid.segments.chain import ClipStage, HueStage
from tests.compare import grads_close

from . import test_canvases as canvases
from . import test_footprint as footprints
from . import test_resize_contract as resizes
from . import test_warp_contract as warps
from . import test_warp_everywhere as narrow
from . import test_warp_fields as fields
from .primitives import bits_by_threads, leaves_of, mapped_is_looped
from .warps import operands, warp

HALF, BRAIN, SINGLE, DOUBLE = torch.float16, torch.bfloat16, torch.float32, torch.float64
CANVASES = ("zeros", "border")
MAPPED = ((0,), (1,), (0, 1))


class Row(NamedTuple):
    """A resample as a function of its tensors, these of few pixels and of many, and which of them are mapped together."""

    call: Callable[..., torch.Tensor]
    few: Callable[[torch.dtype], tuple[torch.Tensor, ...]]
    many: Callable[[], tuple[torch.Tensor, ...]]
    lanes: tuple[tuple[int, ...], ...]


def smaller(image):
    return tuple(9 * length // 10 for length in image.shape[-2:])


def warped(image, at, impl="cpu"):
    return warps.jittered(image, at, size=smaller(image), impl=impl)


def resized(image, at, window, impl="cpu"):
    return resizes.jittered(image, at, window, size=smaller(image), impl=impl)


def narrowed(image, at, field, impl="cpu"):
    return warp(image, at, size=(30, 60), field=field, dtype=image.dtype, impl=impl)


def antialiased(image, at, impl="cpu"):
    return warp(image, at, size=(12, 11) if image.shape[-1] < 60 else (120, 130), footprint=(3, 3), impl=impl)


def shrunk(dtype, many=False):
    sizes = ((200, 200), (120, 130)) if many else ((48, 56), (12, 11))
    image, at = footprints.smooth(sizes[0], 3), footprints.turned(2.3, 1.6, -31.0, *sizes)
    return image.to(dtype).repeat(4, 1, 1, 1), at.to(dtype).repeat(4, 1, 1)


def framed(dtype):
    return torch.rand(4, 3, 8, 10, dtype=dtype), *canvases.chain(CANVASES, 3, dtype)


ROWS = {
    "warp": Row(warped, lambda dtype: warps.example(3, dtype), lambda: warps.example(5, size=(120, 130)), MAPPED),
    "resize": Row(resized, lambda dtype: resizes.example(3, dtype), lambda: resizes.example(5, size=(120, 130)), MAPPED),
    "field": Row(
        fields.jittered,
        lambda dtype: fields.example(2, dtype),
        lambda: fields.example(3, SINGLE, (70, 80), (90, 120)),
        ((2,), (0, 2), (0, 1), (0, 1, 2)),
    ),
    "canvases": Row(
        lambda *given, impl="cpu": canvases.passed(impl, CANVASES, *given),
        framed,
        lambda: framed(SINGLE),
        ((0, 1, 3), (1, 2)),
    ),
    "antialiased": Row(antialiased, shrunk, lambda: shrunk(SINGLE, many=True), MAPPED),
}
HALVES = {
    str(dtype): Row(narrowed, lambda dtype=dtype: narrow.example(dtype), lambda dtype=dtype: narrow.example(dtype), ((0,), (0, 2)))
    for dtype in (HALF, BRAIN)
}


EXAMPLES = {"warp": warps.example, "resize": resizes.example}
plain = pytest.mark.parametrize("name", EXAMPLES)


@pytest.mark.parametrize("name", [*ROWS, *HALVES])
def test_same_bits_for_any_number_of_threads(name):
    row = (ROWS | HALVES)[name]
    bits_by_threads(row.call, row.many())


@plain
def test_four_python_threads_at_once(name):
    given = EXAMPLES[name](8, size=(64, 64))
    expected = ROWS[name].call(*given)
    with ThreadPoolExecutor(4) as pool:
        outs = list(pool.map(lambda _: ROWS[name].call(*given), range(16)))
    assert all(torch.equal(out, expected) for out in outs)


class Resampled(torch.utils.data.Dataset):
    """Resamples in the worker process."""

    def __init__(self, name):
        self.name = name

    def __len__(self):
        return 4

    def __getitem__(self, index):
        # torch's own threads (OpenMP) would hang in a forked worker; ours must not, so only we are told of two.
        with mock.patch.object(torch, "get_num_threads", return_value=2):
            return ROWS[self.name].call(*EXAMPLES[self.name](4, size=(96, 96)))


@pytest.mark.slow
@pytest.mark.parametrize("start", sorted(set(multiprocessing.get_all_start_methods()) & {"fork", "spawn"}))
@plain
def test_data_loading_workers(name, start):
    expected = Resampled(name)[0]  # and the pool exists in the parent before it forks
    loader = torch.utils.data.DataLoader(Resampled(name), num_workers=1, multiprocessing_context=start, batch_size=None)
    assert all(torch.equal(out, expected) for out in loader)


@plain
def test_without_numba_auto_is_the_reference_and_says_so_once(name, monkeypatch):
    monkeypatch.setattr(compilers, "_numba", None)
    monkeypatch.setitem(sys.modules, "numba", None)
    given, call = EXAMPLES[name](), ROWS[name].call
    with pytest.warns(UserWarning, match="Numba cannot be imported"):
        out = call(*given, impl="auto")
    assert torch.equal(out, call(*given, impl="reference"))
    assert torch.equal(out, call(*given, impl="auto"))  # a second warning would be an error
    with pytest.raises(ImplementationError, match="Numba"):
        call(*given, impl="cpu")


@plain
def test_nothing_but_inputs_is_saved(name):
    image, *maps = EXAMPLES[name](2, size=(64, 64))
    image.requires_grad_()
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        ROWS[name].call(image, *maps)
    assert sum(t.numel() for t in saved if t.data_ptr() != image.data_ptr()) < 1000


@pytest.mark.parametrize(("name", "place"), [("warp", pellucid.RandomAffine(15)), ("resize", pellucid.RandomResizedCrop((16, 18)))])
def test_a_pipeline_compiles_to_one_graph_that_keeps_the_operator(name, place):
    names = []

    def keep(graph, _):
        names.extend(str(node.target) for node in graph.graph.nodes)
        return make_boxed_func(graph.forward)

    transforms = [place, pellucid.ColorJitter(0.2, 0.2, saturation=0.2, hue=0.05), pellucid.Normalize((0.5,) * 3, (0.25,) * 3)]
    pipeline = pellucid.Pipeline(transforms, seed=0)
    images = torch.rand(2, 3, 20, 22, requires_grad=True)
    key = pellucid.Key(1, 2)
    eager = pipeline(images, key=key)
    torch._dynamo.reset()
    backend = aot_autograd(fw_compiler=keep, bw_compiler=keep)
    compiled = torch.compile(pipeline, fullgraph=True, backend=backend)(images, key=key)
    torch.testing.assert_close(compiled, eager)
    grads = [torch.autograd.grad(out.square().sum(), images)[0] for out in (compiled, eager)]
    torch.testing.assert_close(*grads)
    operator = f"pellucid.cpu_{name}"
    assert [name for name in names if operator in name] == [f"{operator}.default", f"{operator}_backward.default"]
    assert not any("gather" in name or "grid_sample" in name for name in names)


@pytest.mark.parametrize(("name", "dtype"), [*((name, dtype) for name in ROWS for dtype in (SINGLE, DOUBLE)), (str(BRAIN), BRAIN)])
def test_mapping_is_the_loop_and_so_are_its_gradients(name, dtype):
    row = (ROWS | HALVES)[name]
    one = row.few(dtype)
    other = [one[0].flip(-1), *(tensor * 1.01 for tensor in one[1:])]
    for lanes in row.lanes:
        mapped_is_looped(row.call, one, other, lanes, rtol=0.0)


@pytest.mark.parametrize("name", ROWS)
def test_second_derivatives_go_through_the_reference(name):
    found, given = [], ROWS[name].few(DOUBLE)
    for impl in ("cpu", "reference"):
        leaves = leaves_of(given)
        first = torch.autograd.grad(ROWS[name].call(*leaves, impl=impl).square().sum(), leaves, create_graph=True)
        found.append(torch.autograd.grad(sum(f.sin().sum() for f in first), leaves))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs)
        assert grads_close(ours, theirs, 1e-9)


def staged(example, dtype=DOUBLE, **options):
    image, at, *window = example(dtype=DOUBLE)
    window = window[0] if window else torch.tensor([[1.0, 1.0, 7.0, 8.0]], dtype=DOUBLE)
    stages = (HueStage(torch.zeros(2, dtype=DOUBLE)), ClipStage())
    resample = pack(at, size=(7, 8), matrix=torch.eye(3, dtype=DOUBLE)[None], window=window, epilogue=stages, **options)
    return operands(image, resample.returning(dtype))


def footprint(projective):
    maps = footprints.turned(2.2, 1.7, 25.0)
    maps = torch.cat((maps, torch.tensor([[[0.004, 0.0, 1.0]]], dtype=DOUBLE)), 1) if projective else maps
    table = stretches(maps, None, (12, 11), (3, 3), "bilinear") if projective else weight_table(maps, (3, 3))
    return operands(footprints.smooth(), pack(maps, size=(12, 11), footprint=(3, 3))._replace(table=table))


def framed_operands():
    image, maps, windows, fills = framed(DOUBLE)
    links = [Link(*given) for given in zip(CANVASES, maps[:, 1:].unbind(1), windows.unbind(1), fills.unbind(1), strict=True)]
    return operands(image, pack(maps[:, 0], size=canvases.SIZE, links=links))


def field_operands():
    image, at, field = fields.example()
    window = torch.tensor([[1.0, 1.0, 7.0, 8.0]], dtype=DOUBLE)
    return operands(image, pack(at, size=(7, 8), window=window, epilogue=(ClipStage(),), field=field))


def narrow_operands():
    image, at, field = narrow.example(BRAIN, 2, (9, 8))
    return operands(image, pack(at, size=(30, 60), field=field[:2], dtype=BRAIN))


def of_resize(dtype):
    given = staged(resizes.example, dtype)
    return *given[:4], *given[7:]


OPERANDS = {
    "warp": ("cpu_warp", lambda: staged(warps.example), ["0123"]),
    "field": ("cpu_warp", field_operands, ["01234", "4"]),
    "canvases": ("cpu_warp", framed_operands, ["0135", "5"]),
    "affine footprint": ("cpu_warp", lambda: footprint(False), ["016", "6"]),
    "homography's footprint": ("cpu_warp", lambda: footprint(True), ["016", "6"]),
    "bfloat16": ("cpu_warp", narrow_operands, ["01234"]),
    "resize": ("cpu_resize", lambda: of_resize(DOUBLE), ["0123"]),
    "resize to float16": ("cpu_resize", lambda: of_resize(HALF), []),
    "resize to bytes": ("cpu_resize", lambda: of_resize(torch.uint8), ["0123"]),
}
"""The operator, what it takes, and to which tensors gradients are asked for."""


@pytest.mark.parametrize("name", OPERANDS)
def test_opcheck(name):
    operator, make, wanted = OPERANDS[name]
    given = make()
    forward, backward = (getattr(torch.ops.pellucid, operator + end).default for end in ("", "_backward"))
    torch.library.opcheck(forward, given)
    out = forward(*given)
    grad = torch.rand(out.shape, dtype=given[0].dtype)
    for places in wanted:
        needs = [str(place) in places for place in range(4 if operator == "cpu_resize" else 7)]
        torch.library.opcheck(backward, (grad, *given, needs))
