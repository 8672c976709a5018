"""What every small compiled primitive is held to, whatever it computes."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd

from pellucid.errors import ImplementationError


class Kernel(NamedTuple):
    """A primitive: its function, its example (by batch, size, dtype, seed), its operator and that one's numbers, and how far, as a
    share, a mapped gradient may lie from the loop's.
    """

    function: Callable[..., Any]
    example: Callable[..., Any]
    operator: str
    numbers: tuple[Any, ...] = ()
    mapped: float = 1e-14


def leaves_of(tensors):
    return [t.detach().clone().requires_grad_() if t.is_floating_point() else t for t in tensors]


def gradients(function, tensors, **options):
    """The result, and the gradients of a random weighting of it to every tensor that has one."""
    leaves = leaves_of(tensors)
    out = function(*leaves, **options)
    weights = torch.randn(out.shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64).to(out.dtype)
    wanted = [leaf for leaf in leaves if leaf.requires_grad]
    return out.detach(), *torch.autograd.grad(out, wanted, weights, materialize_grads=True)


def _run(kernel, *tensors, impl="cpu"):
    return kernel.function(*tensors, impl=impl)


def single_precision_is_as_precise_as_the_reference(kernel):
    for seed in (0, 1):
        tensors = kernel.example(size=(40, 50), dtype=torch.float32, seed=seed)
        wide = [t.double() if t.is_floating_point() else t for t in tensors]
        truth = gradients(kernel.function, wide, impl="reference")
        ours, theirs = (gradients(kernel.function, tensors, impl=impl) for impl in ("cpu", "reference"))
        eps = torch.finfo(torch.float32).eps
        for mine, other, true in zip(ours, theirs, truth, strict=True):
            error, allowed = (mine.double() - true).abs().max(), (other.double() - true).abs().max()
            assert error <= 2 * allowed + 16 * eps * (1 + true.abs().max())


def same_bits_for_any_number_of_threads(kernel):
    bits_by_threads(kernel.function, kernel.example(batch=3, size=(120, 130), dtype=torch.float32))


def bits_by_threads(function, tensors):
    results, before = [], torch.get_num_threads()
    try:
        for threads in (1, 2, 3, 1):
            torch.set_num_threads(threads)
            results.append(gradients(function, tensors, impl="cpu"))
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def passes_opcheck(kernel):
    forward = getattr(torch.ops.pellucid, kernel.operator.split("::")[1]).default
    backward = getattr(torch.ops.pellucid, kernel.operator.split("::")[1] + "_backward").default
    tensors = _operands(kernel)
    torch.library.opcheck(forward, (*tensors, *kernel.numbers))
    grad = torch.rand_like(forward(*tensors, *kernel.numbers))
    needs = [t.is_floating_point() for t in tensors]
    for wanted in filter(any, (needs, [True, *[False] * (len(needs) - 1)], [False, *needs[1:]])):
        torch.library.opcheck(backward, (grad, *tensors, *kernel.numbers, wanted))


def _operands(kernel):
    """The tensors as the operator takes them: recorded, because the function may prepare them."""
    from pellucid.kernels import explicit

    seen = []
    original = explicit._Now.forward

    def spy(ctx, primitive, static, compute, *tensors):
        seen.append([t.detach() for t in tensors if t is not None])
        return original(ctx, primitive, static, compute, *tensors)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(explicit._Now, "forward", staticmethod(spy))
        _run(kernel, *leaves_of(kernel.example()))
    return seen[0]


def can_be_mapped(kernel):
    one, other = kernel.example(seed=1), kernel.example(seed=2)
    for lanes in filter(len, (range(len(one)), [0], range(1, len(one)))):
        mapped_is_looped(kernel.function, one, other, lanes, rtol=kernel.mapped)


def mapped_is_looped(function, one, other, lanes, rtol):
    """Gradients of a loss, mapped over the tensors ``lanes`` of two calls, which share the first call's other tensors."""
    floating = tuple(i for i, t in enumerate(one) if t.is_floating_point())
    grad = torch.func.grad(lambda *tensors: function(*tensors, impl="cpu").square().sum(), argnums=floating)
    dims = tuple(0 if i in lanes else None for i in range(len(one)))
    given = [torch.stack(pair) if dim == 0 else pair[0] for pair, dim in zip(zip(one, other, strict=True), dims, strict=True)]
    found = torch.func.vmap(grad, in_dims=dims)(*given)
    for lane in range(2):
        expected = grad(*[g[lane] if d == 0 else g for g, d in zip(given, dims, strict=True)])
        for a, b in zip(found, expected, strict=True):
            torch.testing.assert_close(a[lane], b, atol=0, rtol=rtol)


def second_derivatives_go_through_the_reference(kernel):
    found = []
    for impl in ("cpu", "reference"):
        leaves = leaves_of(kernel.example())
        wanted = [leaf for leaf in leaves if leaf.requires_grad]
        out = _run(kernel, *leaves, impl=impl).square().sum()
        first = torch.autograd.grad(out, wanted, create_graph=True)
        found.append(torch.autograd.grad(sum(f.sin().sum() for f in first), wanted, materialize_grads=True))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs)


def forward_mode_and_nested_transforms_name_the_way_out(kernel):
    image, *rest = kernel.example()
    with torch.autograd.forward_ad.dual_level():
        duals = [
            torch.autograd.forward_ad.make_dual(part, torch.ones_like(part)) if part.is_floating_point() else part
            for part in (image, *rest)
        ]
        tangents = [torch.autograd.forward_ad.unpack_dual(_run(kernel, *duals, impl=i)).tangent for i in ("auto", "reference")]
        torch.testing.assert_close(*tangents)
        assert tangents[0].any()
        with pytest.raises(ImplementationError, match="impl='reference'"):
            _run(kernel, *duals)
    with pytest.raises(ImplementationError, match="impl='reference'"):
        torch.func.grad(lambda x: torch.func.grad(lambda y: _run(kernel, y, *rest).pow(3).sum())(x).sum())(image)


def only_inputs_are_saved(kernel):
    leaves = leaves_of(kernel.example(dtype=torch.float32))
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        _run(kernel, *leaves)
    image = leaves[0]
    large = {t.data_ptr() for t in saved if t.numel() >= image.numel()}
    assert large <= {image.data_ptr()}


def compiles_to_one_graph_that_keeps_the_operator(kernel):
    names = []

    def keep(graph, _):
        names.extend(str(node.target) for node in graph.graph.nodes)
        return make_boxed_func(graph.forward)

    leaves = leaves_of(kernel.example())
    wanted = [leaf for leaf in leaves if leaf.requires_grad]
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda *tensors: _run(kernel, *tensors, impl="auto"),
        fullgraph=True,
        backend=aot_autograd(fw_compiler=keep, bw_compiler=keep),
    )
    outs = [compiled(*leaves), _run(kernel, *leaves)]
    torch.testing.assert_close(*outs)
    for one, other in zip(*(torch.autograd.grad(out.square().sum(), wanted) for out in outs), strict=True):
        torch.testing.assert_close(one, other)
    own = kernel.operator.replace("::", ".")
    assert [n for n in names if own in n] == [f"{own}.default", f"{own}_backward.default"]


contract = [
    single_precision_is_as_precise_as_the_reference,
    same_bits_for_any_number_of_threads,
    passes_opcheck,
    can_be_mapped,
    second_derivatives_go_through_the_reference,
    forward_mode_and_nested_transforms_name_the_way_out,
    only_inputs_are_saved,
    compiles_to_one_graph_that_keeps_the_operator,
]


def slow_gradients(kernel, **options):
    """Finite differences in float64, every element."""
    tensors = kernel.example(**options)
    leaves = leaves_of(tensors)
    assert torch.autograd.gradcheck(lambda *t: _run(kernel, *t), leaves, fast_mode=False)
