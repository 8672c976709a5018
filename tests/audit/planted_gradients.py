"""Planted bugs whose gradient is lost or wrong. Every culprit line carries ``# bug: name``.

Owns: functions with one defect each, from real life, and the inputs that run them.
Must not: be imported by the library.
Read next: ``planted_singular.py``, then ``corpus.py``.
"""

import math

import numpy as np
import torch

X = torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(1))
ANGLE = torch.tensor(0.3)
GAIN = torch.rand(2, 3, 1, 1, generator=torch.Generator().manual_seed(2)) + 0.5


def _mix(x, m):
    return torch.einsum("ij,bihw->bjhw", m, x[:, :2])


def detached_matrix(x, angle):
    m = torch.stack([torch.stack([angle.cos(), -angle.sin()]), torch.stack([angle.sin(), angle.cos()])])
    return _mix(x, m.detach())  # bug: detached_matrix


def rebuilt_matrix(x, angle):
    c, s = torch.cos(angle), torch.sin(angle)
    m = torch.tensor([[c, -s], [s, c]], dtype=x.dtype)  # bug: rebuilt_matrix
    return _mix(x, m)


def item_angle(x, angle):
    a = angle.item()  # bug: item_angle
    return x * math.cos(a) + math.sin(a)


def numpy_round_trip(x):
    blurred = np.cumsum(x.detach().numpy(), -1) / 16  # bug: numpy_round_trip
    return torch.from_numpy(blurred)


def no_grad_gain(x, gain):
    with torch.no_grad():
        scale = gain.exp()  # bug: no_grad_gain
    return x * scale


def long_index(x, coords):
    rows, cols = coords.unbind(-1)
    return x[..., rows.long(), cols.long()]  # bug: long_index


def hard_sampled_probability(x, p):
    keep = torch.rand(x.shape[0], 1, 1, 1) < p  # bug: hard_sampled_probability
    return torch.where(keep, 1 - x, x)


def bernoulli_gate(x, p):
    gate = torch.bernoulli(p.expand(x.shape[0]))  # bug: bernoulli_gate
    return x * gate[:, None, None, None]


def posterize_by_cast(x):
    return ((x * 255).to(torch.uint8) // 32 * 32).to(x.dtype) / 255  # bug: posterize_by_cast


def detached_statistics(x):
    mean = x.mean((2, 3), keepdim=True).detach()  # bug: detached_statistics
    return (x - mean) / (x.var((2, 3), keepdim=True) + 1e-3).sqrt()


class _NoneBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.round(x * 7) / 7

    @staticmethod
    def backward(ctx, g):
        return None  # bug: straight_through_none


class _WrongSign(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 1 - x

    @staticmethod
    def backward(ctx, g):
        return g  # bug: wrong_sign


class _Transposed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, m):
        ctx.save_for_backward(x, m)
        return torch.einsum("ij,bjhw->bihw", m, x)

    @staticmethod
    def backward(ctx, g):
        x, m = ctx.saved_tensors  # bug: transposed_matrix
        return torch.einsum("ij,bjhw->bihw", m, g), torch.einsum("bihw,bjhw->ij", g, x)


class _ZeroBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.sin()

    @staticmethod
    def backward(ctx, g):
        return torch.zeros_like(g)  # bug: zero_backward


class _LostFactor(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.square()

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]  # bug: lost_factor


class _MeanForSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, gain):
        ctx.save_for_backward(x, gain)
        return x * gain

    @staticmethod
    def backward(ctx, g):
        x, gain = ctx.saved_tensors  # bug: mean_for_sum
        return g * gain, (g * x).mean((2, 3), keepdim=True)


class _HiddenFloat32(torch.autograd.Function):
    """Like a kernel that computes in float32 whatever it is given."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.float().sin().to(x.dtype)

    @staticmethod
    def backward(ctx, g):
        return 1.2 * g * ctx.saved_tensors[0].cos()  # bug: wrong_in_hidden_float32


class _FrozenBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.cube = 3 * x.detach().square()
        return x**3

    @staticmethod
    def backward(ctx, g):
        return g * ctx.cube  # bug: frozen_double_backward


class _WrongTangent(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x * 3

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, g):
        return g * 3  # bug: wrong_tangent

    @staticmethod
    def jvp(ctx, t):
        return t


@torch.library.custom_op("planted::double", mutates_args=())
def _double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


_double.register_autograd(lambda ctx, g: g * 2)


def silent_zero_tangent(x):
    return _double(x).sin()  # bug: silent_zero_tangent


@torch.library.custom_op("planted::invert", mutates_args=())
def _invert(x: torch.Tensor) -> torch.Tensor:
    return 1 - x


_invert.register_autograd(lambda ctx, g: g)


def registered_wrong_sign(x):
    return _invert(x)  # bug: registered_wrong_sign


def masked_by_hook(x):
    y = x * 2
    if y.requires_grad:
        y.register_hook(lambda g: g * (torch.arange(g.shape[-1]) < 8))
    return y.tanh()


straight_through_none = _NoneBackward.apply
wrong_sign = _WrongSign.apply
zero_backward = _ZeroBackward.apply
lost_factor = _LostFactor.apply
wrong_in_hidden_float32 = _HiddenFloat32.apply
frozen_double_backward = _FrozenBackward.apply
wrong_tangent = _WrongTangent.apply


def transposed_matrix(x, m):
    return _Transposed.apply(x, m)


def mean_for_sum(x, gain):
    return _MeanForSum.apply(x, gain)
