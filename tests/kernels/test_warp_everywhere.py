"""The compiled warp against the reference over every kind of number in and out, in every layout, with and without a field.

The truth is the reference in float64 on the very same numbers; what is allowed is twice the reference's own error in the lower
precision. By default the pairs of dtypes people use run; ``slow`` runs all of them (every pair compiles a kernel).
"""

from unittest import mock

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pellucid import ColorJitter, Key, Normalize, Pipeline, RandomAffine, RandomHorizontalFlip
from pellucid.kernels.warp.dtypes import rounded
from tests.cases import MEAN, STD

from .warps import Call, calls, cpu, reference

BYTE, HALF, BRAIN, SINGLE, DOUBLE = torch.uint8, torch.float16, torch.bfloat16, torch.float32, torch.float64
DTYPES = (BYTE, HALF, BRAIN, SINGLE, DOUBLE)
USUAL = ((BYTE, BYTE), (BYTE, BRAIN), (HALF, HALF), (BRAIN, BRAIN), (BRAIN, SINGLE), (SINGLE, SINGLE))
CHECKS = [HealthCheck.too_slow, HealthCheck.filter_too_much]
COMMON = settings(max_examples=120, deadline=None, suppress_health_check=CHECKS, derandomize=True)


def cast(call, dtype, out):
    """The call on an image of this dtype, everything else in the dtype it is computed in; and the same numbers in float64."""
    work = DOUBLE if DOUBLE in (dtype, out) else SINGLE
    narrow, wide = call.to(work), call.to(work)
    image = call.tensors["image"]
    narrow.tensors["image"] = (image * 255).round().to(BYTE) if dtype == BYTE else image.to(dtype)
    wide.tensors["image"] = narrow.tensors["image"].double() / (255 if dtype == BYTE else 1)
    narrow.options = {**call.options, "dtype": out}
    return narrow, wide.to(DOUBLE)


def check_values(call, dtype, out):
    narrow, wide = cast(call, dtype, out)
    truth = wide.run(reference.warp)
    ours, theirs = narrow.run(cpu.warp), narrow.run(reference.warp)
    assert ours.dtype == theirs.dtype == out
    assert ours.shape == theirs.shape
    eps = torch.finfo(SINGLE).eps * (1 + truth.abs().max())
    if out == BYTE:
        truth, eps = truth.clamp(0, 1) * 255, 255 * eps + 0.5
    error, allowed = (ours.double() - truth).abs(), (theirs.double() - truth).abs()
    # At a hard edge single precision may fall on its other side; coordinates are the same bits, so it must fall where theirs does.
    hard = call.options["interpolation"] == "nearest" or "window" in call.tensors
    coarse = 0 if out == BYTE else torch.finfo(out).eps * truth.abs()
    if hard:
        jumped = allowed > 1e3 * eps + coarse
        assert not ((error > 1e3 * eps + coarse) & ~jumped).any()
        error, allowed = error.masked_fill(jumped, 0), allowed.masked_fill(jumped, 0)
    assert error.max() <= (1 if out == BYTE else 2) * allowed.max() + 16 * eps


@pytest.mark.slow
@COMMON
@given(calls(fields=True), st.sampled_from(USUAL))
def test_values(call, pair):
    check_values(call, *pair)


@pytest.mark.slow
@settings(COMMON, max_examples=1500)
@given(calls(fields=True), st.sampled_from([(dtype, out) for dtype in DTYPES for out in DTYPES]))
def test_values_of_every_pair(call, pair):
    check_values(call, *pair)


def check_gradients(call, dtype, out):
    # Without kinks of colour: at those single precision may take the other side, one pixel at a time.
    smooth = Call({n: t for n, t in call.tensors.items() if not n.startswith(("stage", "turns", "window"))}, call.options)
    smooth.layout = call.layout
    narrow, wide = cast(smooth, dtype, out)
    weights = torch.randn(wide.run(reference.warp).shape, dtype=DOUBLE).to(out)
    found = []
    for some, function in ((narrow, cpu.warp), (narrow, reference.warp), (wide, reference.warp)):
        leaves = {n: t.detach().clone() for n, t in some.tensors.items()}
        for leaf in leaves.values():
            leaf.requires_grad_(leaf.dtype != BYTE)
        result = Call(leaves, some.options, (), some.layout).run(function)
        if result.requires_grad:  # nothing of a nearest warp of bytes does in the reference
            result.backward(weights.to(result.dtype))
        found.append({n: leaf.grad for n, leaf in leaves.items()})
    ours, theirs, truth = found
    for name, right in truth.items():
        if theirs[name] is None or right is None:  # bytes; nearest has no gradient to its coordinates
            assert ours[name] is None or not ours[name].any(), name
            continue
        assert ours[name].dtype == theirs[name].dtype, name
        usable = torch.isfinite(right)
        error, allowed = ((g.double() - right)[usable].norm() for g in (ours[name], theirs[name]))
        eps = torch.finfo(ours[name].dtype).eps if name == "image" else torch.finfo(SINGLE).eps
        assert error <= 2 * allowed + 64 * eps * (1 + right[usable].norm()), name


@pytest.mark.slow
@COMMON
@given(calls(("bilinear", "bicubic"), fields=True), st.sampled_from([(d, o) for d, o in USUAL if o != BYTE]))
def test_gradients(call, pair):
    check_gradients(call, *pair)


@pytest.mark.slow
@settings(COMMON, max_examples=400)
@given(calls(fields=True), st.sampled_from([(dtype, out) for dtype in DTYPES for out in DTYPES[1:]]))
def test_gradients_of_every_pair(call, pair):
    check_gradients(call, *pair)


def example(dtype, batch=3, size=(40, 50)):
    generator = torch.Generator().manual_seed(7)
    image = torch.rand(batch, 3, *size, generator=generator)
    image = (image * 255).byte() if dtype == BYTE else image.to(dtype)
    src_from_dst = torch.tensor([[[0.9, 0.1, 0.5], [-0.1, 0.8, 1.0]]])
    return image, src_from_dst, torch.randn(batch, 2, 30, 60, generator=generator)


@pytest.mark.parametrize("dtype", [HALF, BRAIN])
def test_whole_pixels_are_copied_bit_for_bit(dtype):
    image = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(dtype).reshape(1, 1, 256, 256)
    image = torch.where(torch.isfinite(image), image, 1.0)
    flip = torch.tensor([[[-1.0, 0.0, 255.0], [0.0, 1.0, 0.0]]])
    assert torch.equal(cpu.warp(image, flip, size=(256, 256), dtype=dtype).view(torch.int16), image.flip(-1).view(torch.int16))


@pytest.mark.parametrize(("dtype", "out"), [(BYTE, BYTE), (BYTE, BRAIN), (BRAIN, BRAIN), (HALF, HALF)])
@pytest.mark.parametrize("learned", [False, True])
def test_pipelines_convert_nothing_before_or_after_the_pass(dtype, out, learned):
    image, _, _ = example(dtype)
    transforms = [RandomAffine(20, scale=(0.8, 1.2)), RandomHorizontalFlip(), ColorJitter(0.3, 0.3, saturation=0.3, hue=0.1)]
    transforms += [] if out == BYTE else [Normalize(MEAN, STD)]
    pipeline, wide = Pipeline(transforms, dtype=out), Pipeline(transforms, dtype=SINGLE)
    record = pipeline.draw(image, key=Key(3, 4))
    record = record.requires_grad_() if learned else record
    expected = wide.apply(image, record)
    with (
        mock.patch("pellucid.engine.passes.as_colors", side_effect=AssertionError),
        mock.patch("pellucid.engine.execution.as_bytes") as rounds,
    ):
        found = pipeline.apply(image, record)
    assert not rounds.called
    assert found.dtype == out
    assert torch.equal(found, rounded(expected, out))
