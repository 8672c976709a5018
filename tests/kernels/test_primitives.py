"""What every small compiled primitive is held to, whatever it computes and whoever computes it."""

import pytest
import torch

from pellucid.errors import ImplementationError
from pellucid.kernels import explicit
from tests.features.test_patches_kernel import PATCHES

from .primitives import (
    agree,
    bits_by_threads,
    both,
    gradients,
    leaves_of,
    mapped_is_looped,
    operators_kept,
    placed,
    second_derivatives,
)
from .test_codec import CODEC
from .test_color_steps import STEPS
from .test_convolve import BLUR, MEDIAN, SHARPEN, SQUARE
from .test_coverage import COVERAGE
from .test_curves import POWER, STRETCH
from .test_layers import LAYERS
from .test_noise import CLIPPED, NOISE
from .test_shift_hsv import SHIFT

KERNELS = {
    "color steps": STEPS,
    "shift in HSV": SHIFT,
    "power": POWER,
    "stretch": STRETCH,
    "blur": BLUR,
    "square filter": SQUARE,
    "3x3 filter": SHARPEN,
    "median": MEDIAN,
    "noise": NOISE,
    "clipped noise": CLIPPED,
    "coverage": COVERAGE,
    "layers": LAYERS,
    "patches": PATCHES,
    "codec": CODEC,
}
BY_TRITON = ("color steps", "blur", "clipped noise")
EVERY = [*((name, "cpu") for name in KERNELS), *((name, "triton") for name in BY_TRITON)]
CODED = [pair for pair in EVERY if pair[0] != "codec"]  # whose gradient to its quality, and whose tangents, are tensor code

every = pytest.mark.parametrize(("name", "by"), EVERY, indirect=["by"], ids="-".join)
coded = pytest.mark.parametrize(("name", "by"), CODED, indirect=["by"], ids="-".join)
on_cpu = pytest.mark.parametrize("name", [name for name, by in CODED if by == "cpu"])


@every
def test_single_precision_is_as_precise_as_the_reference(name, by):
    kernel, eps = KERNELS[name], torch.finfo(torch.float32).eps
    for seed in (0, 1):
        tensors = kernel.example(size=(40, 50) if by == "cpu" else (8, 9), dtype=torch.float32, seed=seed)
        wide = [t.double() if t.is_floating_point() else t for t in placed(tensors, by)]
        truth = gradients(kernel.function, wide, impl="reference")
        for (mine, other), true in zip(both(kernel.function, tensors, by), truth, strict=True):
            error, allowed = (mine.double() - true).abs().max(), (other.double() - true).abs().max()
            assert error <= 2 * allowed + 16 * eps * (1 + true.abs().max())


@pytest.mark.parametrize("name", KERNELS)
def test_same_bits_for_any_number_of_threads(name):
    bits_by_threads(KERNELS[name].function, KERNELS[name].example(batch=3, size=(120, 130), dtype=torch.float32))


@pytest.mark.parametrize(("name", "by"), [pair for pair in EVERY if pair[1] == "triton"], indirect=["by"], ids="-".join)
def test_same_bits_in_every_run(name, by):
    function, given = KERNELS[name].function, placed(KERNELS[name].example(), by)
    assert all(map(torch.equal, *(gradients(function, given, impl=by) for _ in range(2))))


def operands(kernel, by):
    """The tensors as the operator takes them: recorded, because the function may prepare them."""
    seen = []
    original = explicit._Now.forward

    def spy(ctx, primitive, static, compute, *tensors):
        seen.append([t.detach() for t in tensors if t is not None])
        return original(ctx, primitive, static, compute, *tensors)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(explicit._Now, "forward", staticmethod(spy))
        kernel.function(*leaves_of(placed(kernel.example(), by)), impl=by)
    return seen[0]


@every
def test_opcheck(name, by):
    kernel = KERNELS[name]
    forward, backward = (getattr(torch.ops.pellucid, f"{by}_{kernel.operator}{end}").default for end in ("", "_backward"))
    tensors = operands(kernel, by)
    torch.library.opcheck(forward, (*tensors, *kernel.numbers))
    grad = torch.rand_like(forward(*tensors, *kernel.numbers))
    needs = [t.is_floating_point() for t in tensors]
    for wanted in filter(any, (needs, [True, *[False] * (len(needs) - 1)], [False, *needs[1:]])):
        torch.library.opcheck(backward, (grad, *tensors, *kernel.numbers, wanted))


@every
def test_mapping_is_the_loop_and_so_are_its_gradients(name, by):
    kernel = KERNELS[name]
    one, other = (placed(kernel.example(seed=seed), by) for seed in (1, 2))
    for lanes in filter(len, (range(len(one)), [0], range(1, len(one)))):
        mapped_is_looped(kernel.function, one, other, lanes, rtol=kernel.mapped, by=by)


@coded
def test_second_derivatives_go_through_the_reference(name, by):
    kernel = KERNELS[name]
    given = placed(kernel.example(), by)
    found = (second_derivatives(lambda *t, impl=impl: kernel.function(*t, impl=impl), given) for impl in (by, "reference"))
    torch.testing.assert_close(*found)


@on_cpu
def test_forward_mode_and_nested_transforms_name_the_way_out(name):
    function, (image, *rest) = KERNELS[name].function, KERNELS[name].example()
    with torch.autograd.forward_ad.dual_level():
        duals = [
            torch.autograd.forward_ad.make_dual(part, torch.ones_like(part)) if part.is_floating_point() else part
            for part in (image, *rest)
        ]
        tangents = [torch.autograd.forward_ad.unpack_dual(function(*duals, impl=i)).tangent for i in ("auto", "reference")]
        torch.testing.assert_close(*tangents)
        assert tangents[0].any()
        with pytest.raises(ImplementationError, match="impl='reference'"):
            function(*duals, impl="cpu")
    with pytest.raises(ImplementationError, match="impl='reference'"):
        torch.func.grad(lambda x: torch.func.grad(lambda y: function(y, *rest, impl="cpu").pow(3).sum())(x).sum())(image)


@every
def test_only_inputs_are_saved(name, by):
    leaves = leaves_of(placed(KERNELS[name].example(dtype=torch.float32), by))
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        KERNELS[name].function(*leaves, impl=by)
    large = {t.data_ptr() for t in saved if t.numel() >= leaves[0].numel()}
    assert large <= {leaves[0].data_ptr()}


@on_cpu
def test_one_graph_keeps_the_operator(name):
    kernel = KERNELS[name]
    own = f"cpu_{kernel.operator}"
    kept = operators_kept(lambda *tensors: kernel.function(*tensors, impl="auto"), leaves_of(kernel.example()), own)
    assert kept == [f"pellucid.{own}.default", f"pellucid.{own}_backward.default"]


SMALL = {
    "color steps": {"size": (3, 4), "low": 0.2},
    "shift in HSV": {"size": (3, 4), "low": 0.2},
    "power": {"size": (3, 4), "low": 0.2},
    "stretch": {"size": (3, 4)},
    "coverage": {"batch": 2, "corners": 5},
    "layers": {"batch": 2, "size": (3, 4), "reads": 2},
    "noise": {"size": (3, 4)},
    "clipped noise": {"size": (3, 4)},
    **{name: {"size": (4, 5)} for name in ("blur", "square filter", "3x3 filter", "median")},
}


@pytest.mark.parametrize("name", SMALL)
def test_gradients_are_those_of_finite_differences(name):
    """In float64, every element."""
    leaves = leaves_of(KERNELS[name].example(**SMALL[name]))
    assert torch.autograd.gradcheck(lambda *t: KERNELS[name].function(*t, impl="cpu"), leaves, fast_mode=False)


@every
def test_of_no_pictures_there_are_none(name, by):
    function, tensors = KERNELS[name].function, placed(KERNELS[name].example(), by)
    none = [t[:0] for t in tensors]
    assert function(*none, impl=by).shape == (0, *function(*tensors, impl=by).shape[1:])


@every
def test_layouts_in_memory_change_nothing(name, by):
    function, tensors = KERNELS[name].function, placed(KERNELS[name].example(dtype=torch.float32), by)
    spread = [t.mT.contiguous().mT if t.dim() > 1 else torch.stack((t, t), -1)[..., 0] for t in tensors]
    last = [t.contiguous(memory_format=torch.channels_last) if t.dim() == 4 else t for t in tensors]
    for others in (spread, last):
        for one, other in zip(*(gradients(function, given, impl=by) for given in (tensors, others)), strict=True):
            assert torch.equal(one, other)


@every
def test_values_and_gradients_equal_the_reference_in_double(name, by):
    agree(KERNELS[name].function, KERNELS[name].example(batch=3, size=(5, 7)), by, close=1e-11)
