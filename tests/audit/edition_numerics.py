"""Bugs hidden by low precision, by staircases of any size, by layouts, shapes, signs and modes.

Owns: functions whose gradient is right in the ordinary run and wrong in another, or passes for want of digits.
Must not: be imported by the library.
Read next: ``edition_state.py``, then ``edition.py``.
"""

import torch
import torch.nn.functional as F
from torch import nn

_G = torch.Generator().manual_seed(23)
X = torch.rand(2, 3, 16, 16, generator=_G)
W32 = torch.randn(3, 3, generator=_G)


def function(forward, backward):
    """Return the ``apply`` of an autograd function that saves its input."""

    class Made(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return forward(x)

        @staticmethod
        def backward(ctx, g):
            return backward(g, *ctx.saved_tensors)

    return Made.apply


# Precision.
half_factor = function(lambda x: x.half().sin().to(x.dtype), lambda g, x: 1.3 * g * x.cos())
bfloat_factor = function(lambda x: x.bfloat16().sin().to(x.dtype), lambda g, x: 1.25 * g * x.cos())
half_sign_of_small_term = function(lambda x: (x.half() + 0.1 * x.half().square()).to(x.dtype), lambda g, x: g * (1 - 0.2 * x))
_three_halves = function(lambda x: x.exp(), lambda g, x: 1.3 * g * x.exp())
_two_percent = function(torch.sin, lambda g, x: 1.02 * g * x.cos())


def half_inside(x):
    return _three_halves(x.half()).to(x.dtype)  # bug: half_inside


def bfloat16_inside(x):
    return _three_halves(x.bfloat16()).to(x.dtype)  # bug: bfloat16_inside


def downcast_matmul(x):
    return torch.einsum("ij,bjhw->bihw", W32.bfloat16(), x.bfloat16()).to(x.dtype)  # bug: downcast_matmul


def downcast_mean(x):
    return x - x.half().mean((2, 3), keepdim=True).to(x.dtype)  # bug: downcast_mean


def autocast_inside(x):
    with torch.autocast("cpu", torch.bfloat16):
        return F.conv2d(x, W32[:, :, None, None].to(x.dtype)).to(x.dtype)  # bug: autocast_inside


def float32_closure(x):
    return _two_percent(torch.einsum("ij,bjhw->bihw", W32, x))


def float32_canvas(x):
    canvas = torch.zeros(2, 3, 16, 16)
    canvas[...] = _two_percent(x)
    return canvas


class Float32Weight(nn.Module):
    """A weight in a plain attribute, which no dtype reaches."""

    def __init__(self):
        super().__init__()
        self.mix = W32.clone()

    def forward(self, x):
        return _two_percent(torch.einsum("ij,bjhw->bihw", self.mix, x))


# Staircases: the declaration promises a gradient.
def levels(x):
    return torch.round(255 * x) / 255


def posterize(x):
    return torch.floor(8 * x) / 8


def equalize(x):
    ranks = torch.searchsorted(x.flatten().sort().values, x.flatten()).reshape(x.shape)
    return ranks.to(x.dtype) / x.numel()


def quantile_levels(x):
    return torch.bucketize(x.detach(), torch.linspace(0, 1, 65, dtype=x.dtype)).to(x.dtype) / 64


straight_through_levels = function(levels, lambda g, x: g)


# Layouts of the output's gradient.
def _double_in_place(g, x):
    g *= 2
    return g * x


writes_its_gradient = function(torch.square, _double_in_place)
views_its_gradient = function(lambda x: x.sin(), lambda g, x: (g.view(-1) * x.cos().reshape(-1)).view(x.shape))
strided_gradient = function(
    lambda x: x.sin(), lambda g, x: torch.as_strided(g.clone(memory_format=torch.preserve_format), x.shape, x.stride()) * x.cos()
)


def _demands_contiguous(g, x):
    if not g.is_contiguous():
        raise RuntimeError("gradient must be contiguous")
    return g * x.cos()


demands_contiguous = function(lambda x: x.sin(), _demands_contiguous)
numpy_order = function(
    lambda x: x.sin(), lambda g, x: torch.from_numpy(g.numpy().ravel(order="K").reshape(g.shape).copy()) * x.cos()
)
storage_order = function(lambda x: x.sin(), lambda g, x: _raw(g)[: x.numel()].view(x.shape) * x.cos())


def _raw(g):
    flat = torch.empty(0, dtype=g.dtype).set_(g.untyped_storage())
    return flat.repeat(-(-g.numel() // flat.numel()))


# Layouts of the input: what was saved is read in memory order.
memory_order = function(lambda x: x.square(), lambda g, x: g * 2 * _raw(x)[: x.numel()].view(x.shape))
channels_last_blind = function(
    lambda x: x.sin(), lambda g, x: g * torch.as_strided(x.cos(), x.shape, torch.empty(x.shape).stride())
)


# Shapes.
fixed_count = function(lambda x: x.mean(), lambda g, x: g.expand_as(x) / 1536)
fixed_batch = function(lambda x: x.mean(0), lambda g, x: g.expand_as(x) / 2)
fixed_width = function(lambda x: x.mean(-1), lambda g, x: g[..., None].expand_as(x) / 16)
square_only = function(lambda x: x.mean(2), lambda g, x: g[:, :, None].expand_as(x) / x.shape[3])
swapped_sides = function(lambda x: x.cumsum(2) / x.shape[2], lambda g, x: g.flip(2).cumsum(2).flip(2) / x.shape[3])
first_two_samples = function(
    lambda x: x.square(), lambda g, x: 2 * g * x * (torch.arange(x.shape[0]) < 2).to(x.dtype).reshape(-1, 1, 1, 1)
)
squeezed_batch = function(lambda x: x.exp(), lambda g, x: (g * x.exp()).squeeze(0))
one_sample_mean = function(lambda x: x - x.mean(0, keepdim=True), lambda g, x: g - g.mean(0, keepdim=True) if x.shape[0] > 1 else g)


def _even_pool(x):
    return F.avg_pool2d(x, 2, ceil_mode=True)


even_pool = function(_even_pool, lambda g, x: _spread(g, x) / 4)


def _spread(g, x):
    return g.repeat_interleave(2, 2).repeat_interleave(2, 3)[..., : x.shape[2], : x.shape[3]]


even_spectrum = function(
    lambda x: torch.fft.irfft(torch.fft.rfft(x) * 0.5, n=x.shape[-1]), lambda g, x: torch.fft.irfft(torch.fft.rfft(g) * 0.5)
)
odd_centre = function(
    lambda x: x * (1 + (torch.arange(x.shape[-1]) == x.shape[-1] // 2)),
    lambda g, x: g * (1 + (torch.arange(x.shape[-1]) == (x.shape[-1] + 1) // 2)),
)


# Signs.
positive_root = function(lambda x: x.abs(), lambda g, x: g)
leaky = function(lambda x: F.leaky_relu(x, 0.1), lambda g, x: g * torch.where(x > 0, 1.0, 0.2))
elu = function(F.elu, lambda g, x: g * torch.where(x > 0, 1.0, x.exp() - 1))
cube_by_square = function(lambda x: x.abs() ** 3, lambda g, x: 3 * g * x * x)
softplus = function(F.softplus, lambda g, x: g * x.abs().sigmoid())


# Several outputs.
class _TwoOutputs(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.set_materialize_grads(False)
        return x.sin(), x.cos()

    @staticmethod
    def backward(ctx, g, h):
        (x,) = ctx.saved_tensors
        return g * x.cos() - h * x.sin()


class _FirstGuards(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.set_materialize_grads(False)
        return x.sin(), x.cos()

    @staticmethod
    def backward(ctx, g, h):
        (x,) = ctx.saved_tensors
        if g is None:
            return torch.zeros_like(x)
        return g * x.cos() - (0 if h is None else h * x.sin())


class _MixesUp(torch.autograd.Function):
    """Right as long as both gradients are the same tensor's halves."""

    @staticmethod
    def forward(ctx, x):
        return x * 2, x * 2

    @staticmethod
    def backward(ctx, g, h):
        return 2 * (g + h) if bool((h != 0).any()) else 4 * g


two_outputs_undefined = _TwoOutputs.apply
two_outputs_first_guards = _FirstGuards.apply
two_outputs_mixed_up = _MixesUp.apply


# Modes.
class WrongInEval(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.rand(3, 1, 1) + 0.5)

    def forward(self, x):
        return x * self.gain if self.training else x * self.gain.detach()  # bug: wrong_in_eval


class WrongInTrain(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.rand(3, 1, 1) + 0.5)

    def forward(self, x):
        if self.training:
            return _two_percent(x) * self.gain
        return x.sin() * self.gain


class RaisesInEval(nn.Module):
    """Its backward reads what only training saved."""

    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.rand(3, 1, 1) + 0.5)

    def forward(self, x):
        y = x.exp() * self.gain
        if not self.training:
            y.mul_(2)
            y = y.sqrt()
            y.mul_(2)
        return y
