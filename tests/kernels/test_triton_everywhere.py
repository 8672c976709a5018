"""The Triton warp with displacement fields, and with every kind of number in and out, against the reference."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from .interpreted import DEVICE, at_length, runs  # noqa: F401
from .test_triton_agreement import COMMON, check_values_and_gradients, on_device, settings
from .warps import INTERPOLATIONS, PADDINGS, Call, calls, reference
from .warps import triton as kernels

HALVES = (torch.float16, torch.bfloat16)


def field_for(call, draw):
    """Displacements over more than the image, some of them not finite, in any layout."""
    batch, size = call.tensors["image"].shape[0], call.options["size"]
    rows = draw(st.sampled_from((1, batch)))
    field = torch.randn(rows, 2, *size, dtype=torch.float64) * draw(st.sampled_from((0.3, 3.0, 30.0)))
    for value in draw(st.sampled_from(((), (torch.nan,), (torch.inf, -torch.inf)))):
        flat = field.view(-1)
        flat[draw(st.integers(0, flat.numel() - 1))] = value
    if draw(st.booleans()):  # x and y side by side, as grids of other libraries come
        field = field.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
    return field


@st.composite
def displaced(draw, **options):
    call = draw(calls(**options))
    call.tensors["field"] = field_for(call, draw)
    if draw(st.booleans()):  # reading at given coordinates
        call.tensors["src_from_dst"] = torch.zeros_like(call.tensors["src_from_dst"])
        call.tensors["src_from_dst"][:, 2:, 2:] = 1.0
    return call


@pytest.mark.slow
@settings(COMMON, max_examples=8)
@given(displaced(interpolations=("bilinear", "nearest")))
def test_fields_equal_the_reference_in_double(call):
    check_values_and_gradients(call)


@pytest.mark.parametrize("interpolation", ["nearest", "bicubic"])
@pytest.mark.parametrize("padding_mode", ["zeros", "border", "wrap"])
@pytest.mark.parametrize("windowed", [False, True])
def test_every_way_to_read_with_a_field(interpolation, padding_mode, windowed):
    src_from_dst = torch.tensor([[[1.3, 0.4, -2.0], [-0.3, 1.1, 1.0], [0.01, 0.02, 1.0]]], dtype=torch.float64)
    tensors = {"image": torch.rand(1, 2, 5, 6, dtype=torch.float64), "src_from_dst": src_from_dst}
    tensors["field"] = torch.randn(1, 2, 6, 5, dtype=torch.float64)
    tensors["fill"] = torch.rand(1, 2, dtype=torch.float64)
    if windowed:  # partly outside of the image
        tensors["window"] = torch.tensor([[-1.7, 0.4, 3.1, 5.5]], dtype=torch.float64)
    check_values_and_gradients(Call(tensors, {"size": (6, 5), "interpolation": interpolation, "padding_mode": padding_mode}))


@pytest.mark.slow
@settings(COMMON, max_examples=at_length(150))
@given(displaced())
def test_fields_equal_the_reference_in_double_at_length(call):
    check_values_and_gradients(call)


def ulp(x, dtype):
    """The spacing of a dtype's numbers at x; of steps of 1 / 255 for 8 bits."""
    if dtype == torch.uint8:
        return torch.full_like(x, 1 / 255)
    info = torch.finfo(dtype)
    return torch.clamp(torch.exp2(torch.floor(torch.log2(x.abs().clamp(min=info.tiny)))), min=info.tiny) * info.eps


def off_by_more_than_rounding(found, exact, allowed):
    """Whether something differs by more than half a unit of its dtype beyond what is allowed."""
    value = found.double() / 255 if found.dtype == torch.uint8 else found.double()
    exact = exact.clamp(0, 1) if found.dtype == torch.uint8 else exact
    return ((value - exact).abs() > 0.5 * ulp(exact, found.dtype) + allowed).any()


def check_numbers(call, given_dtype, wanted):
    """Read and written in one pass: one rounding away from the reference in single precision, forwards and backwards."""
    call = on_device(call).to(torch.float32)
    image = call.tensors["image"]
    image = (image * 255).to(torch.uint8) if given_dtype == torch.uint8 else image.to(given_dtype)
    floating = torch.uint8 not in (given_dtype, wanted)
    results = []
    for function, dtype in ((kernels.warp, torch.float32), (reference.warp, torch.float32), (reference.warp, torch.float64)):
        narrow = function is kernels.warp
        leaves = {name: tensor.detach().to(dtype) for name, tensor in call.tensors.items()}
        leaves["image"] = image if narrow or image.dtype == torch.uint8 else image.to(dtype)
        for leaf in leaves.values():
            leaf.requires_grad_(leaf.is_floating_point())
        out = Call(leaves, {**call.options, "dtype": wanted if narrow else dtype}, call.stages, call.layout).run(function)
        grads = {}
        if floating and call.layout != "expanded":  # whose samples' gradients torch adds, already rounded
            upstream = torch.randn(out.shape, generator=torch.Generator().manual_seed(0)).to(DEVICE, wanted)
            wrt = [name for name in ("image", "src_from_dst", "field") if name in leaves]
            found = torch.autograd.grad(out, [leaves[n] for n in wrt], upstream.to(out.dtype), allow_unused=True)
            grads = dict(zip(wrt, found, strict=True))
        results.append((out.detach(), grads))
    (ours, mine), (single, theirs), (truth, exact) = results
    assert ours.dtype == wanted
    eps = torch.finfo(torch.float32).eps
    # The reference itself may land beyond a hard edge or a grey; then it says where we must.
    spread = (single.double() - truth).abs().max()
    assert not off_by_more_than_rounding(ours, single.double(), 2 * spread + 16 * eps * (1 + truth.abs().max()))
    for name, gradient in mine.items():
        if gradient is None:
            assert exact[name] is None or not exact[name].any()
            continue
        assert gradient.dtype == (given_dtype if name == "image" else torch.float32)
        goal = theirs[name].double() if theirs[name] is not None else torch.zeros_like(gradient).double()
        best = exact[name] if exact[name] is not None else goal
        if torch.finfo(gradient.dtype).max < goal.abs().max():
            continue
        room = 3 * (goal - best).abs().max() + 64 * eps * (1 + goal.abs().max())
        assert not off_by_more_than_rounding(gradient, goal, room), name


@settings(COMMON, max_examples=8)
@given(
    st.one_of(calls(), displaced()),
    st.sampled_from((torch.uint8, *HALVES, torch.float32)),
    st.sampled_from((torch.uint8, *HALVES, torch.float32)),
)
def test_numbers_are_rounded_once(call, given_dtype, wanted):
    check_numbers(call, given_dtype, wanted)


@pytest.mark.slow
@settings(COMMON, max_examples=at_length(150))
@given(
    st.one_of(calls(), displaced()),
    st.sampled_from((torch.uint8, *HALVES, torch.float32)),
    st.sampled_from((torch.uint8, *HALVES, torch.float32)),
)
def test_numbers_are_rounded_once_at_length(call, given_dtype, wanted):
    check_numbers(call, given_dtype, wanted)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_floats_pass_unchanged(dtype):
    bits = torch.arange(0, 65536, 13)[:5041].to(torch.int16).view(dtype).reshape(1, 1, 71, 71).to(DEVICE)
    eye = torch.eye(3, device=DEVICE)[None, :2]
    leaf = bits.clone().requires_grad_()
    out = kernels.warp(leaf, eye, size=(71, 71), interpolation="nearest", dtype=dtype)
    (back,) = torch.autograd.grad(out, leaf, bits)
    for found in (out, back):
        torch.testing.assert_close(found, bits, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.uint8])
def test_results_are_rounded_as_torch_rounds(dtype):
    ties = torch.cat(((torch.arange(256) + 0.5) / 255, 1 + (torch.arange(64) + 0.5) / 1024, torch.linspace(-0.1, 1.1, 171)))
    far = torch.tensor([-1.0, 2.0, 65519.0, 65520.0, 3e38, torch.inf, -torch.inf, torch.nan, 2.0**-24, 2.0**-25, 1e-40])
    image = torch.cat((ties, far, -far))[None, None, None].to(DEVICE)
    eye = torch.eye(3, device=DEVICE)[None, :2]
    found = kernels.warp(image, eye, size=tuple(image.shape[2:]), interpolation="nearest", dtype=dtype)
    expected = reference.warp(image, eye, size=tuple(image.shape[2:]), interpolation="nearest", dtype=dtype)
    torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


def test_a_field_that_is_not_finite_shows_fill_and_harms_nothing_else():
    image = torch.rand(2, 3, 6, 7, device=DEVICE, requires_grad=True)
    field = torch.zeros(2, 2, 6, 7, device=DEVICE)
    field[0, 0, 1, 2], field[0, 1, 3, 3], field[1, 1, 0, 0] = torch.nan, torch.inf, -torch.inf
    bad = ~torch.isfinite(field).all(1)
    field.requires_grad_()
    eye = torch.eye(3, device=DEVICE)[None, :2]
    fill = torch.tensor([[0.25, 0.5, 0.75]], device=DEVICE)
    for padding_mode in ("zeros", "reflection"):
        out = kernels.warp(image, eye, size=(6, 7), padding_mode=padding_mode, fill=fill, field=field)
        shown = out.movedim(1, -1)
        assert torch.equal(shown[bad], fill.expand(3, 3))
        assert torch.equal(shown[~bad], image.movedim(1, -1)[~bad])
        to_image, to_field = torch.autograd.grad(out.square().sum(), (image, field))
        assert torch.isfinite(to_image).all()
        assert torch.isfinite(to_field).all()
        assert not to_field.movedim(1, -1)[bad].any()


@pytest.mark.slow
@pytest.mark.parametrize("padding_mode", ["zeros", "border"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_same_bits_in_every_run_with_a_field(padding_mode, dtype):
    generator = torch.Generator().manual_seed(2)
    image = torch.rand(2, 3, 8, 9, generator=generator).to(DEVICE, dtype)
    field = (torch.randn(2, 2, 9, 8, generator=generator) * 4).to(DEVICE)
    maps = torch.eye(3, device=DEVICE).repeat(2, 1, 1)
    first = None
    for _ in range(100 if DEVICE == "cuda" else 3):
        leaves = image.clone().requires_grad_(), maps.clone().requires_grad_(), field.clone().requires_grad_()
        out = kernels.warp(leaves[0], leaves[1], size=(9, 8), padding_mode=padding_mode, field=leaves[2], dtype=dtype)
        found = (out.detach(), *torch.autograd.grad(out.float().square().sum(), leaves))
        first = first or found
        assert all(map(torch.equal, first, found))


def test_order_of_the_sum_does_not_matter():
    # Everything reads one pixel: the sum is of integers, so turning the gradient around keeps its bits.
    image = torch.rand(1, 1, 5, 5, device=DEVICE, requires_grad=True)
    field = torch.full((1, 2, 16, 16), 2.25, device=DEVICE)
    upstream = torch.randn(1, 1, 16, 16, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    zero = torch.zeros(1, 2, 3, device=DEVICE)
    found = [
        torch.autograd.grad(kernels.warp(image, zero, size=(16, 16), field=field), image, g)[0]
        for g in (upstream, upstream.flip(-1, -2), upstream.mT)
    ]
    assert found[0].count_nonzero() == 4
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


@pytest.mark.slow
@settings(COMMON, max_examples=4)
@given(displaced(), st.integers(0, 2**31))
def test_adjoint_with_a_field(call, seed):
    kept = {n: t for n, t in call.tensors.items() if n in ("image", "src_from_dst", "window", "matrix", "field")}
    ours = on_device(Call(kept, call.options)).to(torch.float64)
    x = ours.tensors["image"].requires_grad_()
    out = ours.run(kernels.warp)
    y = torch.randn(out.shape, dtype=out.dtype, generator=torch.Generator().manual_seed(seed)).to(DEVICE)
    (back,) = torch.autograd.grad(out, x, y)
    left, right = (out * y).sum(), (x * back).sum()
    assert (left - right).abs() <= 1e-11 * (1 + out.abs().sum())


@pytest.mark.parametrize("padding_mode", PADDINGS)
def test_labels_follow_a_field(padding_mode):
    image = torch.randint(-100, 100, (2, 2, 7, 9)).to(DEVICE, torch.int16)
    field = ((torch.randn(2, 2, 6, 11) * 24).round() / 8).to(DEVICE)  # an eighth of a pixel: no tie is decided by rounding
    field[0, 0, 0, 0] = torch.nan
    eye = torch.eye(3, device=DEVICE)[None]
    options = {"size": (6, 11), "interpolation": "nearest", "padding_mode": padding_mode, "field": field}
    a, b = (w(image, eye, **options, fill=torch.tensor([[3.0, 0.0]], device=DEVICE)) for w in (kernels.warp, reference.warp))
    assert a.dtype == torch.int16
    assert torch.equal(a, b)


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
def test_many_channels_share_one_field(interpolation):
    # Two groups of channels give the field's gradient together.
    tensors = {"image": torch.rand(1, 6, 5, 4, dtype=torch.float64), "src_from_dst": torch.eye(3, dtype=torch.float64)[None]}
    tensors |= {"field": torch.randn(1, 2, 4, 6, dtype=torch.float64), "fill": torch.rand(1, 6, dtype=torch.float64)}
    check_values_and_gradients(Call(tensors, {"size": (4, 6), "interpolation": interpolation}))
