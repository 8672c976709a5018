"""Compiled operators as differentiable functions: an explicit backward, and the reference for second derivatives.

Owns: the `autograd.Function` that all compiled primitives share, their batching rule, and the choice of who computes.
Must not: know a primitive; it is handed the operators and the reference.
Read next: ``convolve/__init__.py``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from pellucid.core.tape import is_plain_eager
from pellucid.errors import ImplementationError
from pellucid.kernels.derivatives import first_moves_alone, forward_mode, learns, needs_grad
from pellucid.kernels.dispatch import choose
from pellucid.kernels.first_launch import trusted
from pellucid.kernels.pages import in_large_pages
from pellucid.kernels.primitive import Primitive, Tensors
from pellucid.kernels.several import Pictures, listed

__all__ = [
    *("AVAILABLE", "TRITON_KEYS", "add_up", "at_once", "batched", "dtypes", "empty_gradients"),
    *("implementation", "register", "run"),
]

AVAILABLE: tuple[str, ...] = ("cpu", "reference")
TRITON_KEYS: tuple[str, ...] = ("CUDA", "CPU") if os.environ.get("TRITON_INTERPRET") == "1" else ("CUDA",)
"""Dispatch keys of the tensors that Triton's kernels take; CPU only in Triton's interpreter, which the same variable turns on."""


def implementation(impl: str, device: torch.device, available: tuple[str, ...] = AVAILABLE, *linear: Tensor | None) -> str:
    """Name the implementation that computes this call; ``linear``: the primitive's tensors, if it is linear in the first."""
    reference = forward_mode() and not (linear and linear[0] is not None and first_moves_alone(linear[0], *linear[1:]))
    unsupported = "forward-mode differentiation" if reference else ""
    return choose(impl, available=available, device=device.type, unsupported=unsupported)


def dtypes(*tensors: Tensor | None) -> tuple[torch.dtype, torch.dtype]:
    """The dtype to compute in, and the dtype of the result; 16-bit floats are computed in float32."""
    found = [tensor.dtype for tensor in tensors if tensor is not None]
    result = reduce(torch.promote_types, found)
    return torch.promote_types(result, torch.float32), result


def run(primitive: Primitive, static: tuple[Any, ...], image: Tensor | Pictures, *others: Tensor | None) -> Tensor:
    """Compute a primitive with its compiled operators; `Pictures` of several sizes always bypass torch's dispatcher."""
    if not isinstance(image, Tensor):
        if not needs_grad(*image.parts, *others):
            return primitive.direct(image, *others, *static)
        several = image.parts[0], *others, *image.parts[1:]
        several_of = listed(primitive, image.places, len(others))
        return at_once(several_of, static, several_of.direct, *several)
    tensors: Tensors = image, *others
    if primitive.impl == "triton" and is_plain_eager():
        needed = tuple([one is not None and torch.is_grad_enabled() and learns(one) for one in tensors])
        if not trusted(primitive, static, tensors, needed):
            return primitive.reference(*tensors, *static)
    if needs_grad(*tensors):
        duals = [None if tensor is None else forward_ad.unpack_dual(tensor) for tensor in tensors] if forward_mode() else []
        if any(dual is not None and dual.tangent is not None for dual in duals):
            return _carried(primitive, static, duals)
        if is_plain_eager():
            return at_once(primitive, static, primitive.direct, *tensors)
        absent = (None,) * (_MOST - len(tensors))
        out: Tensor = Explicit.apply(primitive, static, len(tensors), *tensors, *absent)
        return out
    # Torch's dispatcher costs as much as a small image, so only calls that are traced or mapped go through it.
    call = primitive.direct if is_plain_eager() else primitive.forward
    return call(*tensors, *static)


def at_once(primitive: Primitive, static: tuple[Any, ...], compute: Callable[..., Tensor], *tensors: Tensor | None) -> Tensor:
    """Compute a primitive with gradients outside of tracing and vmap; ``compute`` returns the same bits as its ``direct``."""
    found: Tensor = _Now.apply(primitive, static, compute, *tensors)
    return found


def _carried(primitive: Primitive, static: tuple[Any, ...], duals: Sequence[Any]) -> Tensor:
    """Compute the result and its forward-mode tangent, as one dual tensor."""
    tensors = [None if dual is None else dual.primal for dual in duals]
    tangents = [None if dual is None else dual.tangent for dual in duals]
    if torch.is_grad_enabled() and any(t is not None and learns(t) for t in (*tensors, *tangents)):
        raise ImplementationError("A jvp of compiled operators has no gradient. Use impl='reference' for tangents that need one.")
    found = None if primitive.dual is None else primitive.dual(tensors, tangents, static)
    if found is None:
        others = primitive.linear(*tensors, *static) if all(tangent is None for tangent in tangents[1:]) else None
        if others is None:
            raise NotImplementedError(f"impl={primitive.impl!r} of {primitive.name} has no jvp. Use impl='reference'.")
        found = primitive.forward(*tensors, *static), primitive.forward(tangents[0], *others, *static)
    out: Tensor = forward_ad.make_dual(*found)
    return out


_MOST = 8


class Explicit(torch.autograd.Function):
    """(primitive, static arguments, number of tensors, eight tensors or None) -> the result."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        primitive: Primitive,
        static: tuple[Any, ...],
        count: int,
        image: Tensor,
        a: Tensor | None,
        b: Tensor | None,
        c: Tensor | None,
        d: Tensor | None,
        e: Tensor | None,
        f: Tensor | None,
        g: Tensor | None,
    ) -> Tensor:
        """Every argument by name: Dynamo counts them to tell whether a context comes first."""
        return primitive.forward(*(image, a, b, c, d, e, f, g)[:count], *static)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        del output
        ctx.primitive, ctx.static, count = inputs[:3]
        _save(ctx, inputs[3 : 3 + count])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        tensors = _saved(ctx)
        needed = tuple(ctx.needs_input_grad[3 : 3 + len(tensors)])
        # Only create_graph=True differentiates the gradient again; a compiled graph never does.
        once = torch.compiler.is_compiling() or not torch.is_grad_enabled()
        compute = Primitive.gradients if once else _Backward.apply
        found = compute(ctx.primitive, ctx.static, needed, grads[0], *tensors)
        return (None, None, None, *found, *[None] * (_MOST - len(tensors)))


class _Now(torch.autograd.Function):
    """`Explicit` for any number of tensors, outside of tracing and vmap. It skips torch's lookup of argument names and torch's
    dispatcher, each of which takes longer than a small picture.
    """

    @staticmethod
    def forward(ctx: Any, primitive: Primitive, static: tuple[Any, ...], compute: Callable[..., Tensor], *tensors: Any) -> Tensor:
        ctx.primitive, ctx.static = primitive, static
        _save(ctx, tensors)
        return compute(*tensors, *static)

    backward = Explicit.backward


def _save(ctx: Any, tensors: tuple[Tensor | None, ...]) -> None:
    ctx.given = tuple([tensor is not None for tensor in tensors])
    ctx.save_for_backward(*[tensor for tensor in tensors if tensor is not None])


def _saved(ctx: Any) -> list[Tensor | None]:
    saved = iter(ctx.saved_tensors)
    return [next(saved) if given else None for given in ctx.given]


class _Backward(torch.autograd.Function):
    """Compute the gradients; their own derivative is the primitive where that is linear, else it goes through the reference."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        primitive: Primitive, static: tuple[Any, ...], needed: tuple[bool, ...], grad: Tensor, *tensors: Tensor | None
    ) -> Any:
        return primitive.gradients(static, needed, grad, *tensors)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        del output
        ctx.primitive, ctx.static, ctx.needed = inputs[:3]
        _save(ctx, inputs[3:])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        if torch._C._are_functorch_transforms_active():
            raise ImplementationError(
                f"impl={ctx.primitive.impl!r} of {ctx.primitive.name} has no second derivative here. "
                "Use impl='reference' where gradients are differentiated again."
            )
        others = None if any(ctx.needed[1:]) else ctx.primitive.linear(*_saved(ctx)[1:], *ctx.static)
        if others is not None:  # the adjoint of a linear primitive's gradient is the primitive
            along = run(ctx.primitive, ctx.static, grads[0], *others) if ctx.needs_input_grad[3] and grads[0] is not None else None
            return (None, None, None, along, *[None] * len(ctx.needed))
        with torch.enable_grad():
            # Views make the derivatives below partial: ``grad`` has a history of its own, which leads to the image too.
            inputs: list[Any] = [None if tensor is None else tensor.view_as(tensor) for tensor in _saved(ctx)]
            grad, *tensors = inputs
            wanted = [tensor for tensor, needed in zip(tensors, ctx.needed, strict=True) if needed]
            out = ctx.primitive.reference(*tensors, *ctx.static)
            first = torch.autograd.grad(out, wanted, grad, create_graph=True, allow_unused=True)
            incoming = [g for g, needed in zip(grads, ctx.needed, strict=True) if needed]
            pairs = [(f, g) for f, g in zip(first, incoming, strict=True) if f is not None and f.requires_grad and g is not None]
        places = [i for i, needed in enumerate(ctx.needs_input_grad[3:]) if needed]
        found: list[Tensor | None] = [None] * len(inputs)
        if pairs and places:
            second = torch.autograd.grad(
                [f for f, _ in pairs],
                [inputs[i] for i in places],
                [g for _, g in pairs],
                allow_unused=True,
                create_graph=torch.is_grad_enabled(),
            )
            for place, gradient in zip(places, second, strict=True):
                found[place] = gradient
        return (None, None, None, *found)


def register(
    name: str,
    schema: str,
    fill: Callable[..., None],
    give_back: Callable[..., None] | None = None,
    keys: tuple[str, ...] = ("CPU",),
    *,
    empty: Callable[..., Tensor] = lambda image, *_: torch.empty_like(image, memory_format=torch.contiguous_format),
    through: bool = False,
) -> tuple[Callable[..., Tensor], Any, Any]:
    """Register the two operators of a primitive; returns its ``direct``, ``forward`` and ``backward``.

    Args:
        name: of the forward operator; the backward's is ``name_backward``.
        schema: the arguments as torch writes them, tensors first.
        fill: (memory of the result, arguments) writes the result; not called for an empty one.
        give_back: (memory of the gradients from `empty_gradients`, gradient of the result, arguments, which are needed) writes
            the gradients; not called for an empty result. None: the primitive has no gradients and no backward operator.
        keys: dispatch keys of the devices.
        empty: (arguments) -> memory for the result; by default like the first tensor.
        through: ``give_back`` writes the first tensor's gradient whether or not it is needed.
    """
    count = schema.count("Tensor")

    def direct(*given: Any) -> Tensor:
        out = in_large_pages(empty(*given))
        if out.numel():
            fill(out, *given)
        return out

    def back(grad: Tensor, *given: Any) -> Tensor | tuple[Tensor, ...]:
        assert give_back is not None
        needs, some = given[-1], grad.numel() > 0
        found = empty_gradients(given[:count], [needs[0] or (through and some), *needs[1:]])
        if some:
            give_back(found, grad, *given)
        for gradient in () if some else found:
            gradient.zero_()
        if through and not needs[0]:
            found[0] = found[0].new_empty((0,))
        return tuple(found) if count > 1 else found[0]

    forward = operator(name, f"({schema}) -> Tensor", direct, empty, count, 0, keys)
    quick = direct if keys == ("CPU",) else forward  # tensors of other devices may have no memory
    if give_back is None:
        return quick, forward, None
    empties = lambda *given: empty_gradients(given[1 : 1 + count], given[-1])  # noqa: E731
    fake = (lambda *given: tuple(empties(*given))) if count > 1 else lambda *given: empties(*given)[0]
    gradients = f"(Tensor grad, {schema}, bool[] needs) -> ({', '.join(['Tensor'] * count)})"
    return quick, forward, operator(f"{name}_backward", gradients, back, fake, 1 + count, 1, keys)


def operator(
    name: str, schema: str, compute: Any, fake: Any, tensors: int, image_at: int = 0, keys: tuple[str, ...] = ("CPU",)
) -> Any:
    """Register an operator, and its vmap rule: the mapped axis joins the batch axis.

    Args:
        name: of the operator.
        schema: arguments and results, as torch writes them.
        compute: the implementation, for the devices in ``keys``.
        fake: makes results without computing them.
        tensors: how many arguments, from the first on, may have a mapped axis.
        image_at: position of the argument that always has the batch axis.
        keys: dispatch keys of the devices.
    """
    full = f"pellucid::{name}"
    torch.library.define(full, schema)
    for key in keys:
        torch.library.impl(full, key)(compute)
    torch.library.register_fake(full)(fake)
    found = getattr(torch.ops.pellucid, name).default
    batched(full, found, tensors, image_at)
    return found


def add_up(sums: Any, found: Tensor) -> None:
    """Add up each sample's partial sums, which follow one another, and write them to a gradient; skip an empty one."""
    if found.numel():
        found.copy_(torch.from_numpy(sums.reshape(found.shape[0], -1, *found.shape[1:]).sum(1)))


def empty_gradients(tensors: tuple[Tensor | None, ...], needs: list[bool]) -> list[Tensor]:
    """Memory for the gradients, as `Primitive` describes them."""
    image = tensors[0]
    assert image is not None
    return [
        in_large_pages(image.new_empty(image.shape if needs[0] else (0,))),
        *(
            image.new_empty((image.shape[0], *t.shape[1:]) if need and t is not None else (0,), dtype=torch.float64)
            for t, need in zip(tensors[1:], needs[1:], strict=True)
        ),
    ]


def batched(name: str, operator: Any, tensors: int, image_at: int) -> None:
    """Register an operator's vmap rule: the mapped axis of the first ``tensors`` arguments joins the batch axis."""

    def rule(info: Any, dims: Any, *arguments: Any) -> Any:
        lanes, image, dim = info.batch_size, arguments[image_at], dims[image_at]
        batch = image.shape[0] if dim is None else image.movedim(dim, 0).shape[1]
        found = operator(*_fold(arguments[:tensors], dims[:tensors], lanes, batch), *arguments[tensors:])
        if isinstance(found, Tensor):
            return found.unflatten(0, (lanes, batch)), 0
        split = tuple(r.unflatten(0, (lanes, batch)) if r.numel() else r.new_empty((lanes, 0)) for r in found)
        return split, (0,) * len(split)

    torch.library.register_vmap(name, rule)


def _fold(tensors: Any, dims: Any, lanes: int, batch: int) -> list[Tensor | None]:
    """Merge the mapped axis into the batch axis; a tensor without a mapped axis and with one row for all stays as it is."""
    folded: list[Tensor | None] = []
    for tensor, dim in zip(tensors, dims, strict=True):
        if tensor is None or (dim is None and tensor.shape[0] == 1 and batch > 1):
            folded.append(tensor)
            continue
        lane = tensor[None].expand(lanes, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
        lane = lane.expand(lanes, batch, *lane.shape[2:])
        folded.append(lane.reshape(lanes * batch, *lane.shape[2:]))
    return folded
