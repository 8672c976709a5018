"""Small compiled primitives beside their references, and what all of them are held to (``test_primitives.py``)."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd

from .interpreted import DEVICE


class Kernel(NamedTuple):
    """A primitive: its function, its example (by batch, size, dtype, seed), its operator and that one's numbers, and how far, as a
    share, a mapped gradient may lie from the loop's.
    """

    function: Callable[..., Any]
    example: Callable[..., Any]
    operator: str
    numbers: tuple[Any, ...] = ()
    mapped: float = 1e-14


def placed(tensors, by):
    """Tensors where an implementation takes them."""
    return [t.to(DEVICE) for t in tensors] if by == "triton" else list(tensors)


def leaves_of(tensors):
    return [t.detach().clone().requires_grad_() if t.is_floating_point() else t for t in tensors]


def gradients(function, tensors, **options):
    """The result, and the gradients of a random weighting of it to every tensor that has one."""
    leaves = leaves_of(tensors)
    out = function(*leaves, **options)
    weights = torch.randn(out.shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64).to(out)
    wanted = [leaf for leaf in leaves if leaf.requires_grad]
    return out.detach(), *torch.autograd.grad(out, wanted, weights, materialize_grads=True)


def both(function, tensors, by="cpu", **options):
    """Pairs: a result, and each gradient, by an implementation and by the reference."""
    given = placed(tensors, by)
    return zip(*(gradients(function, given, impl=impl, **options) for impl in (by, "reference")), strict=True)


def agree(function, tensors, by="cpu", close=1e-12, **options):
    """Values and gradients in float64 are the reference's."""
    for ours, theirs in both(function, tensors, by, **options):
        torch.testing.assert_close(ours, theirs, atol=close, rtol=close)


def second_derivatives(function, tensors):
    """Of a loss, to every tensor that has one."""
    leaves = leaves_of(tensors)
    wanted = [leaf for leaf in leaves if leaf.requires_grad]
    first = torch.autograd.grad(function(*leaves).square().sum(), wanted, create_graph=True)
    return torch.autograd.grad(sum(f.sin().sum() for f in first), wanted, materialize_grads=True)


def bits_by_threads(function, tensors):
    results = []
    for threads in (1, 2, 3, 1):
        torch.set_num_threads(threads)
        results.append(gradients(function, tensors, impl="cpu"))
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def mapped_is_looped(function, one, other, lanes, rtol, by="cpu"):
    """Gradients of a loss, mapped over the tensors ``lanes`` of two calls, which share the first call's other tensors."""
    floating = tuple(i for i, t in enumerate(one) if t.is_floating_point())
    grad = torch.func.grad(lambda *tensors: function(*tensors, impl=by).square().sum(), argnums=floating)
    dims = tuple(0 if i in lanes else None for i in range(len(one)))
    given = [torch.stack(pair) if dim == 0 else pair[0] for pair, dim in zip(zip(one, other, strict=True), dims, strict=True)]
    found = torch.func.vmap(grad, in_dims=dims)(*given)
    for lane in range(2):
        expected = grad(*[g[lane] if d == 0 else g for g, d in zip(given, dims, strict=True)])
        for a, b in zip(found, expected, strict=True):
            torch.testing.assert_close(a[lane], b, atol=0, rtol=rtol)


def operators_kept(function, leaves, operator):
    """Compile to one graph, which agrees with the eager call; the names in it of an operator and its backward."""
    names = []

    def keep(graph, _):
        names.extend(str(node.target) for node in graph.graph.nodes)
        return make_boxed_func(graph.forward)

    torch._dynamo.reset()
    compiled = torch.compile(function, fullgraph=True, backend=aot_autograd(fw_compiler=keep, bw_compiler=keep))
    outs = [compiled(*leaves), function(*leaves)]
    torch.testing.assert_close(*outs)
    wanted = [leaf for leaf in leaves if leaf.requires_grad]
    torch.testing.assert_close(*(torch.autograd.grad(out.square().sum(), wanted) for out in outs))
    return [name for name in names if f"pellucid.{operator}" in name]
