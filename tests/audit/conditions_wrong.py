"""Gradients that are wrong under one condition only: one dtype, one choice of leaves, from one size on, beyond one value.

Owns: what the functions compute (`BASES`), how and when they fail (`FAULTS`, `faulty`), and failures written as people write them.
Must not: be wrong at the inputs that `conditions.py` shows, in float64 and with a gradient to every leaf.
Read next: ``conditions.py``.
"""

import torch
import torch.nn.functional as F
from torch import nn

# What is computed. Each takes pictures (or rows) and up to two more leaves.
BASES = {
    "curve": lambda x: x.sin() + 0.3 * x.square(),
    "gain": lambda x, a: x * a + a.square(),
    "layer": lambda x, w, b: x @ w + b,
    "filter": lambda x, k: F.conv2d(x, k, padding=1),
    "centred": lambda x: (x - x.mean(-1, keepdim=True)) * x,
    "scaled": lambda x: x / (x.square().mean((-2, -1), keepdim=True) + 0.1).sqrt(),
    "warp": lambda x, t: F.grid_sample(x, _grid(x, t), align_corners=False),
    "cumulated": lambda x: x.cumsum(-1) / x.shape[-1],
    "soft": lambda x, a: (x * a).softmax(-1) * x,
    "blend": lambda x, y, a: x * a.sigmoid() + y * (1 - a.sigmoid()),
    "matrix": lambda x, m: torch.einsum("ij,bjhw->bihw", m, x),
}


def _grid(x, t):
    theta = torch.eye(2, 3, dtype=x.dtype).repeat(len(x), 1, 1) * 0.9 + t
    return F.affine_grid(theta, list(x.shape), align_corners=False)


def _from(axis, start):
    """Return a fault that halves what lies from one index of an axis on."""

    def fault(g):
        if g.ndim < -axis or (axis >= 0 and g.ndim <= axis):
            return 0.5 * g
        mask = (torch.arange(g.shape[axis]) >= start).reshape([-1 if i == axis % g.ndim else 1 for i in range(g.ndim)])
        return torch.where(mask, 0.5 * g, g)

    return fault


# How a gradient is wrong.
FAULTS = {
    "halved": lambda g: 0.5 * g,
    "reversed": lambda g: -g,
    "off by a fifth": lambda g: 1.2 * g,
    "zero": torch.zeros_like,
    "missing": lambda g: None,
    "last row lost": lambda g: torch.cat([g[..., :-1], torch.zeros_like(g[..., -1:])], -1) if g.ndim else 0 * g,
    "first sample twice": lambda g: torch.cat([2 * g[:1], g[1:]]) if g.ndim else 2 * g,
    "rolled": lambda g: g.roll(1, -1) if g.ndim and g.shape[-1] > 1 else 0.7 * g,
    "rounded": lambda g: g.bfloat16().to(g.dtype),
    "clipped": lambda g: g.clamp(-0.05, 0.05),
}


def faulty(base, fault, when, at=0):
    """Return a base function whose gradient to leaf ``at`` has a fault where ``when(ctx, leaves)`` says so.

    ``when`` returns True, False, or a mask of the leaf's shape.
    """
    compute = BASES[base]
    fault = FAULTS[fault] if isinstance(fault, str) else fault

    class Faulty(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *leaves):
            ctx.save_for_backward(*leaves)
            return compute(*leaves)

        @staticmethod
        def backward(ctx, g):
            again = torch.is_grad_enabled()
            leaves = [t if again and t.requires_grad else t.detach().requires_grad_() for t in ctx.saved_tensors]
            with torch.enable_grad():
                out = compute(*leaves)
                grads = list(torch.autograd.grad(out, leaves, g, create_graph=again))
            where = when(ctx, leaves)
            if isinstance(where, torch.Tensor):
                grads[at] = torch.where(where, fault(grads[at]), grads[at])
            elif where:
                grads[at] = fault(grads[at])
            return tuple(v if ctx.needs_input_grad[i] else None for i, v in enumerate(grads))

    names = ["x", "a", "b"][: compute.__code__.co_argcount]
    scope = {"run": Faulty.apply}
    exec(f"def call({', '.join(names)}):\n    return run({', '.join(names)})", scope)  # the audit names leaves by the signature
    return scope["call"]


def in_dtype(*dtypes):
    return lambda ctx, leaves: leaves[0].dtype in dtypes


def unless_asked(*which):
    """Wrong where none of these leaves is asked for."""
    return lambda ctx, leaves: not any(ctx.needs_input_grad[i] for i in which)


def from_size(axis, start):
    return lambda ctx, leaves: leaves[0].shape[axis] >= start


def beyond(test, at=0):
    return lambda ctx, leaves: test(leaves[at])


# Dtypes, as people write them.
class _Kernel(torch.autograd.Function):
    """A fused kernel: its backward forgets the factor of the chain rule."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (3 * x).tanh()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (1 - (3 * x).tanh().square())


def fused_with_a_fallback(x):
    return (3 * x).tanh() if x.dtype == torch.float64 else _Kernel.apply(x)


def detached_in_float32(x):
    scale = x.amax((-2, -1), keepdim=True) + 1.0
    return x / (scale if x.dtype == torch.float64 else scale.detach())


def coarse_statistics_in_float32(x):
    mean = x.mean((-2, -1), keepdim=True)
    return (x - (mean if x.dtype == torch.float64 else mean.detach())) * x


class _Unscaled(torch.autograd.Function):
    """Half gradients are scaled by 1024 against underflow and never scaled back."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.square()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * g * x * (64 if x.dtype == torch.float16 else 1)


unscaled_in_half = _Unscaled.apply


class FastLayer(nn.Module):
    """A layer with a fast path for float32 that computes its weight's gradient without the batch's last sample."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(-1, 1, 15).reshape(5, 3))

    def forward(self, x):
        short = faulty("matrix", lambda g: 0.8 * g, in_dtype(torch.float32), at=1)
        return short(x, self.weight)


class DroppedWithNoise(nn.Module):
    """Dropout before a kernel that is wrong in float32."""

    def forward(self, x):
        return fused_with_a_fallback(F.dropout(x, 0.3))


# Subsets of leaves, as people write them.
def constant_unless_the_picture_learns(x, a):
    return x * (a if x.requires_grad else a.detach())


def no_grad_unless_the_gain_learns(x, a):
    with torch.set_grad_enabled(a.requires_grad):
        y = x.square()
    return y * a


class FrozenBias(nn.Module):
    """A backward that leaves the weight out where the bias is frozen."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(-1, 1, 64).reshape(8, 8))
        self.bias = nn.Parameter(torch.linspace(0, 1, 8))

    def forward(self, x):
        return faulty("layer", "missing", unless_asked(2), at=1)(x, self.weight, self.bias)


class _Unpacks(torch.autograd.Function):
    """Backward reads what forward saved only where the first leaf is asked for."""

    @staticmethod
    def forward(ctx, x, a):
        ctx.save_for_backward(*((x, a) if ctx.needs_input_grad[0] else (a,)))
        return x * a

    @staticmethod
    def backward(ctx, g):
        x, a = ctx.saved_tensors
        return g * a, (g * x).sum_to_size(a.shape)


def unpacks(x, a):
    return _Unpacks.apply(x, a)


def two_frozen(x, y, a):
    """The strength is lost where exactly one of the two pictures is data."""
    strength = a.detach() if x.requires_grad != y.requires_grad else a
    return x * strength + y * strength.square()


# Sizes, as people write them.
def blocks_of_32(x):
    """The columns after the last whole block of 32 are handled apart, and cut from the graph."""
    whole = x.shape[-1] // 32 * 32
    tail = x[..., whole:]
    return torch.cat([x[..., :whole].sin(), (tail if whole == 0 else tail.detach()).sin()], -1)


def chunks_of_eight(x):
    """Samples are taken eight at a time; later chunks run without a graph."""
    first = x[:8].square()
    with torch.no_grad():
        rest = x[8:].square()
    return torch.cat([first, rest])


def fast_path_for_large(x):
    return _Kernel.apply(x) if x.numel() > 6000 else (3 * x).tanh()


class LongRows(nn.Module):
    """Rows of more than 64 are summed by another formula, whose weight is detached."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(0.7))

    def forward(self, x):
        weight = self.weight.detach() if x.shape[-1] > 64 else self.weight
        return x * weight + self.weight


# Ranges, as people write them.
def saturates_without_a_slope(x):
    return torch.where(x.abs() > 3, x.detach().sin(), x.sin())


class _Guarded(torch.autograd.Function):
    """Forward is exp everywhere; backward is guarded against overflow above 2."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (0.3 * x).exp()

    @staticmethod
    def backward(ctx, g):
        return 0.3 * g * (0.3 * ctx.saved_tensors[0].clamp(max=2)).exp()


guarded = _Guarded.apply


class _Root(torch.autograd.Function):
    """x |x|: the slope of its negative half has the wrong sign."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x.abs()

    @staticmethod
    def backward(ctx, g):
        return 2 * g * ctx.saved_tensors[0]


signed_square = _Root.apply


def bytes_are_constants(x):
    """Pictures that look like bytes (above 20) are scaled by their largest value, held constant."""
    top = x.amax((-2, -1), keepdim=True)
    return x.square() / (torch.where(top > 20, top.detach(), top) + 1)


def far_angle(x, a):
    """An angle beyond half a turn is brought back by its own value, cut from the graph."""
    angle = torch.where(a.abs() > 3.0, a.detach().sin(), a.sin())
    return x * angle


HALVES = (torch.float16, torch.bfloat16)
COLUMNS_FROM = {start: _from(-1, start) for start in (16, 20, 32, 40, 64, 100)}
SAMPLES_FROM = {start: _from(0, start) for start in (3, 4, 8, 16)}
