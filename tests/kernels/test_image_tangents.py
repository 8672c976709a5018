"""Tangents of pictures alone through passes that are linear in them: the reference's, by one more compiled call."""

from functools import partial

import pytest
import torch
from torch.func import jacfwd, jvp, vmap

import pellucid as P
from pellucid.kernels import blend, convolve, patches, resize, warp

F64 = torch.float64
RUNS = {
    "resize": [P.Resize((7, 9))],
    "crop": [P.RandomResizedCrop((8, 8)), P.Normalize(0.5, 0.2)],
    "enlarged, bicubic": [P.Resize((17, 19), interpolation="bicubic")],
    "antialiased": [P.RandomAffine(30, scale=(0.4, 0.6), antialias=True, fill=0.3)],
    "perspective": [P.RandomPerspective(0.5, p=1.0, fill=0.3)],
    "canvases": [P.Pad(2, fill=0.4), P.RandomRotation(30), P.CenterCrop(9), P.RandomRotation(30, fill=0.2), P.Normalize(0.5, 0.2)],
    "field": [P.RandomElastic(p=1.0)],
    "blur": [P.RandomGaussianBlur(5, (0.5, 1.5), p=1.0)],
    "motion": [P.RandomMotionBlur()],
    "noise": [P.RandomGaussianNoise(0.1, clip="none", p=1.0)],
}
PRIMITIVES = {
    "warp": (warp._PRIMITIVES, "cpu"),
    "separable": (convolve._SEPARABLE, "cpu"),
    "dense": (vars(convolve), "_DENSE"),
    "noise": (blend._NOISE, "cpu"),
    "resize": (resize._PRIMITIVES, "cpu"),
    "patches": (vars(patches), "_PATCHES"),
}


def refuse(*_, **__):
    raise AssertionError("the reference was asked")


@pytest.fixture
def no_reference(monkeypatch):
    for table, name in PRIMITIVES.values():
        monkeypatch.setitem(table, name, table[name]._replace(reference=refuse))


def pictures():
    return torch.rand(2, 2, 3, 12, 13, dtype=F64, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", RUNS)
def test_the_tangent_is_the_references(name, no_reference):
    x, by = pictures()
    slow, fast = (P.Pipeline(RUNS[name], impl=impl) for impl in ("reference", "cpu"))
    wanted = jvp(lambda x: slow(x, key=P.Key(3, 4)), (x,), (by,))
    found = jvp(lambda x: fast(x, key=P.Key(3, 4)), (x,), (by,))
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-10)
    assert wanted[1].abs().max() > 0.1


@pytest.mark.parametrize("count", [1, 3], ids=["image", "pyramid"])
def test_patches_have_it_too(count, no_reference):
    x, by = pictures()
    frames = torch.tensor([[3.0, 0.5, 6.0], [-0.4, 2.5, 5.0]], dtype=F64).expand(2, 4, 2, 3)
    span = torch.full((2, 4), 3.0, dtype=F64)

    def read(impl, x):
        return patches.patches(x, frames, span, size=(4, 4), levels=count, impl=impl)

    torch.testing.assert_close(*(jvp(lambda x, impl=impl: read(impl, x), (x,), (by,)) for impl in ("cpu", "reference")))


def shrink(x, impl="cpu"):
    return P.Pipeline([P.RandomRotation(20), P.Resize((2, 3))], impl=impl)(x, key=P.Key(0, 0))


def test_columns_of_a_batch(no_reference):
    x = pictures()[0, :1, :1, :4, :5]
    torch.testing.assert_close(jacfwd(shrink)(x), jacfwd(partial(shrink, impl="reference"))(x))


def test_tangents_of_mapped_pictures():
    many, by = pictures()[:, :, None]
    wanted = jvp(vmap(partial(shrink, impl="reference")), (many,), (by,))
    torch.testing.assert_close(jvp(vmap(partial(shrink, impl="auto")), (many,), (by,)), wanted)


def test_what_moves_beside_the_picture_goes_through_the_reference():
    x, by = pictures()
    size, half = (6, 6), torch.tensor(0.7, dtype=F64)
    frames = torch.tensor([[3.0, 0.5, 6.0], [-0.4, 2.5, 5.0]], dtype=F64).expand(2, 1, 2, 3)
    span = torch.ones(2, 1, dtype=F64)

    def read(impl):
        return lambda x, s: patches.patches(x, s * frames, span, size=size, levels=1, impl=impl)

    wanted = jvp(read("reference"), (x, half), (by, torch.ones_like(half)))
    torch.testing.assert_close(jvp(read("auto"), (x, half), (by, torch.ones_like(half))), wanted)
