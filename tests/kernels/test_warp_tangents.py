"""Forward mode of the compiled warp: the reference's tangents, reverse mode's products, and who computes."""

from collections import Counter
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from torch.func import grad, jacfwd, jacrev, jvp, vjp, vmap
from torch.utils._python_dispatch import TorchDispatchMode

import pellucid as P
from pellucid.errors import ImplementationError
from pellucid.kernels.warp import reference as reference_warp
from pellucid.segments.chain import AffineStage, ClipStage, HueStage
from tests.refusals import refused

from .warps import INTERPOLATIONS, PADDINGS, Call, calls, warp


def refuse(*_, **__):
    raise AssertionError("the reference was asked")


def along_draws(drawn, image, change, by, *, picture_too):
    """Of a pipeline, how its result changes while drawn values do by ``by``, and the picture by ``change`` or not."""
    values = floating(drawn)

    def run(pipeline, x, values):
        params = tuple({n: values.get((at, n), v) for n, v in one.items()} for at, one in enumerate(drawn.params))
        return pipeline.apply(x, replace(drawn, params=params))

    def along(pipeline):
        if picture_too:
            return jvp(lambda x, values: run(pipeline, x, values), (image, values), (change, by))[1]
        return jvp(lambda values: run(pipeline, image, values), (values,), (by,))[1]

    return along


def floating(drawn):
    """The drawn numbers, by step and name."""
    return {(at, n): v for at, one in enumerate(drawn.params) for n, v in one.items() if v.is_floating_point()}


class Counting(TorchDispatchMode):
    """Which of Pellucid's operators run, and gathers, which the reference reads by."""

    def __init__(self):
        super().__init__()
        self.seen = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = str(func).removesuffix(".default")
        if name.startswith("pellucid") or "gather" in name:
            self.seen[name] += 1
        return func(*args, **(kwargs or {}))


def example(dtype=torch.float64):
    generator = torch.Generator().manual_seed(5)
    noise = torch.randn(2, 3, 3, dtype=dtype, generator=generator)
    strength = torch.tensor([[0.1, 0.1, 2.0], [0.1, 0.1, 2.0], [1e-3, 1e-3, 0.0]], dtype=dtype)
    return torch.rand(2, 3, 13, 12, dtype=dtype, generator=generator), torch.eye(3, dtype=dtype) + noise * strength


def through(call, impl):
    """The call as a function of its tensors, by name."""
    return lambda tensors: Call(tensors, call.options, call.stages, call.layout).run(
        lambda *given, **options: warp(*given, **options, impl=impl)
    )


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(calls(fields=True))
def test_tangents_are_those_of_the_reference_and_of_reverse_mode(call):
    if any(not torch.isfinite(t).all() for t in call.tensors.values()):
        return
    generator = torch.Generator().manual_seed(1)
    tangents = {n: torch.randn(t.shape, dtype=t.dtype, generator=generator) for n, t in call.tensors.items()}
    found, expected = (jvp(through(call, impl), (call.tensors,), (tangents,))[1] for impl in ("cpu", "reference"))
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    out, back = vjp(through(call, "cpu"), call.tensors)
    weights = torch.randn(out.shape, dtype=out.dtype, generator=generator)
    product = sum((g * tangents[n]).sum() for n, g in back(weights)[0].items())
    torch.testing.assert_close((weights * found).sum(), product, rtol=1e-9, atol=1e-8)


@pytest.mark.parametrize("padding_mode", PADDINGS)
@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
def test_every_tangent_alone(interpolation, padding_mode):
    image, src_from_dst = example()
    generator = torch.Generator().manual_seed(2)
    tensors = {
        "image": image,
        "src_from_dst": src_from_dst,
        "window": torch.tensor([[1.3, 2.2, 8.4, 9.1]], dtype=image.dtype),
        "field": torch.randn(2, 2, 9, 10, dtype=image.dtype, generator=generator),
        "matrix": torch.randn(1, 3, 3, dtype=image.dtype, generator=generator),
        "offset": torch.randn(2, 3, dtype=image.dtype, generator=generator),
        "fill": torch.randn(2, 3, dtype=image.dtype, generator=generator),
    }

    def function(name, impl):
        def of(value):
            given = {**tensors, name: value}
            picture, mapping = given.pop("image"), given.pop("src_from_dst")
            return warp(picture, mapping, size=(9, 10), interpolation=interpolation, padding_mode=padding_mode, impl=impl, **given)

        return of

    for name, value in tensors.items():
        tangent = torch.randn(value.shape, dtype=value.dtype, generator=generator)
        found, expected = (jvp(function(name, impl), (value,), (tangent,))[1] for impl in ("cpu", "reference"))
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize(
    "moving",
    ["image", "map", "both"],
)
def test_one_pass_gives_the_result_and_its_tangent(moving):
    image, src_from_dst = example(torch.float32)
    with torch.autograd.forward_ad.dual_level(), Counting() as counting:
        picture = torch.autograd.forward_ad.make_dual(image, torch.ones_like(image)) if moving != "map" else image
        mapping = torch.autograd.forward_ad.make_dual(src_from_dst, image.new_ones(2, 3, 3)) if moving != "image" else src_from_dst
        out = warp(picture, mapping, size=(9, 10))
        assert torch.autograd.forward_ad.unpack_dual(out).tangent.any()
    assert counting.seen == {"pellucid.cpu_warp_dual": 1}


def test_stages_behind_the_pass_do_not_send_it_to_the_reference():
    image, src_from_dst = example()
    mix = AffineStage(torch.eye(3, dtype=image.dtype)[None] * 1.2, None)
    stages = HueStage(torch.tensor([0.1, -0.2], dtype=image.dtype)), ClipStage(), mix

    def run(x, impl):
        return warp(x, src_from_dst, size=(9, 10), epilogue=stages, impl=impl)

    expected = jvp(lambda x: run(x, "reference"), (image,), (image.flip(-1),))
    with torch.autograd.forward_ad.dual_level(), Counting() as counting:
        out = torch.autograd.forward_ad.unpack_dual(run(torch.autograd.forward_ad.make_dual(image, image.flip(-1)), "auto"))
    torch.testing.assert_close((out.primal, out.tangent), expected)
    assert counting.seen["pellucid.cpu_warp_dual"] == 1


CHAINS = {
    "canvases": [P.RandomRotation(30, fill=0.3), P.RandomPerspective(0.3, p=1.0, fill=(0.1, 0.2, 0.3)), P.CenterCrop((9, 8))],
    "canvases and colours": [
        P.RandomRotation(30),
        P.ColorJitter(0.4, 0.4, saturation=0.4, hue=0.1),
        P.RandomTranslate((0.2, 0.2), fill=0.4),
    ],
    "a border": [P.RandomRotation(30), P.RandomShear(20, padding_mode="border")],
    "a field": [P.RandomElastic(p=1.0), P.RandomRotation(30), P.RandomAffine(20)],
}


@pytest.mark.parametrize("steps", CHAINS.values(), ids=CHAINS)
@pytest.mark.parametrize("picture_too", [False, True])
def test_drawn_values_through_canvases(steps, picture_too, monkeypatch):
    image = example()[0]
    slow, fast = (P.Pipeline(steps, impl=impl) for impl in ("reference", "cpu"))
    drawn = slow.draw(image, key=P.Key(3, 4))
    generator = torch.Generator().manual_seed(2)
    by = {name: 0.1 * torch.randn(v.shape, dtype=v.dtype, generator=generator) for name, v in floating(drawn).items()}
    change = torch.randn(image.shape, dtype=image.dtype, generator=generator) if picture_too else torch.zeros_like(image)

    through_it = along_draws(drawn, image, change, by, picture_too=picture_too)
    expected = through_it(slow)
    monkeypatch.setattr(reference_warp, "warp", refuse)
    with Counting() as counting:
        found = through_it(fast)
    assert counting.seen["pellucid.cpu_warp_dual"]
    assert expected.abs().max() > 0.01
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


def test_columns_by_vmap():
    image, src_from_dst = example()
    found = jacfwd(lambda m: warp(image, m, size=(3, 4)))(src_from_dst)
    torch.testing.assert_close(found, jacrev(lambda m: warp(image, m, size=(3, 4)))(src_from_dst))
    pictures = torch.stack((image, image.flip(-1)))
    pairs = vmap(lambda x: jvp(lambda y: warp(y, src_from_dst, size=(3, 4)), (x,), (x.flip(-2),))[1])(pictures)
    torch.testing.assert_close(pairs, torch.stack([warp(x.flip(-2), src_from_dst, size=(3, 4)) for x in pictures]))


def test_what_is_differentiated_again_goes_through_the_reference():
    image, src_from_dst = example()

    def loss(m, impl):
        return warp(image, m, size=(5, 6), impl=impl).square().sum()

    for outer, inner in ((jacfwd, grad), (grad, lambda f: lambda m: jvp(f, (m,), (torch.ones_like(m),))[1]), (jacfwd, jacfwd)):
        found, expected = (outer(inner(lambda m, impl=impl: loss(m, impl)))(src_from_dst) for impl in ("auto", "reference"))
        torch.testing.assert_close(found, expected)
    refused(ImplementationError, "impl='reference'", jacfwd(grad(lambda m: loss(m, "cpu"))), src_from_dst)


def test_gradients_of_a_tangent_are_the_references_or_an_error():
    image, src_from_dst = example()
    found = []
    for impl in ("auto", "reference"):
        leaf = torch.full((), 1.1, dtype=image.dtype, requires_grad=True)
        mapping = src_from_dst * leaf
        out = jvp(lambda x, m=mapping, impl=impl: warp(x, m, size=(5, 6), impl=impl), (image,), (image,))[1]
        found.append(torch.autograd.grad(out.square().sum(), leaf)[0])
    torch.testing.assert_close(*found)
    # Nothing tells of a tangent before it comes: an error, never a silent zero.
    refused(ImplementationError, "impl='reference'", jvp, lambda x: warp(x, src_from_dst, size=(5, 6)), (image,), (image * leaf,))
