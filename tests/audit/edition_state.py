"""Bugs of state: what a call leaves behind, what nothing uses, what no optimiser sees, hooks, caches, recomputation.

Owns: modules and closures with one such defect each.
Must not: be imported by the library.
Read next: ``edition.py``.
"""

import itertools
import os
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

_G = torch.Generator().manual_seed(29)
X = torch.rand(2, 3, 16, 16, generator=_G)


# Nothing judged.
class Average(nn.Module):
    """A moving average that keeps its graph: the second step raises."""

    def __init__(self):
        super().__init__()
        self.average = torch.zeros(3, 1, 1)

    def forward(self, x):
        self.average = 0.9 * self.average.to(x) + 0.1 * x.mean((0, 2, 3))[:, None, None]
        return x - self.average


class CountsUnderCheckpoint(nn.Module):
    def __init__(self, reentrant=False):
        super().__init__()
        self.calls, self.reentrant = 0, reentrant

    def inner(self, x):
        self.calls += 1
        return x.sin() * (1 + 1 / self.calls)

    def forward(self, x):
        return checkpoint(self.inner, x, use_reentrant=self.reentrant)


class TrainingStep:
    """A whole step: forward, backward, update."""

    def __init__(self, optimizer):
        self.net = nn.Conv2d(3, 2, 3)
        self.optimizer = optimizer(self.net.parameters(), lr=0.1)

    def __call__(self, x):
        loss = self.net(x).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()


class History:
    def __init__(self):
        self.seen = []

    def __call__(self, x):
        self.seen.append(x.detach())
        return x * sum(s.mean() for s in self.seen)


class MemoryBank(nn.Module):
    def __init__(self):
        super().__init__()
        self.bank = torch.zeros(4, 3)

    def forward(self, x):
        keys = x.mean((2, 3))
        logits = keys @ self.bank.to(x).mT
        self.bank = torch.cat([keys.detach(), self.bank.to(x)])[:4]
        return logits + keys.sum()


class OneShot:
    def __init__(self):
        self.scales = iter([1.0, 2.0])

    def __call__(self, x):
        return x * next(self.scales)


class Warmup:
    def __init__(self):
        self.step = itertools.count(1)

    def __call__(self, x):
        return x * min(1.0, next(self.step) / 1e6)


def by_the_clock(x):
    return x * (1 + time.perf_counter_ns() % 1000 / 1000)


def by_the_system(x):
    return x * (1 + os.urandom(1)[0] / 255)


def inner_gradient_and_data_write(x):
    y = x * x
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    y.data.mul_(0.5)  # bug: inner_gradient_and_data_write
    return (y.square() + g).sum((2, 3))


def inner_gradient_and_write(x):
    (g,) = torch.autograd.grad(x.square().sum(), x, create_graph=True)
    with torch.no_grad():
        x.mul_(0.5)  # bug: inner_gradient_and_write
    return g.sum((2, 3))


def inner_gradient_and_host_read(x):
    (g,) = torch.autograd.grad(x.square().sum(), x, create_graph=True)
    return g if g.mean() > 0 else -g  # bug: inner_gradient_and_host_read


def refuses_neighbours(x):
    if not torch.equal(x.float(), X):
        raise ValueError("unknown picture")
    return x.square()


# No effect.
def unused_input(x, strength):
    return x.sin()


def only_its_shape(x, like):
    return x.sin().reshape(like.shape)


def only_its_dtype(x, like):
    return x.square().to(like)


def multiplied_by_zero(x, bias):
    return x + 0 * bias


def overwritten(x, bias):
    y = x + bias
    y = x * 2
    return y  # noqa: RET504 - as people write it


def constant_output(x):
    return torch.full((2,), 0.5, dtype=x.dtype)


def second_output_constant(x):
    return x.sin(), torch.zeros_like(x)


def second_output_detached(x):
    return x.sin(), x.square().detach()  # bug: second_output_detached


def loss_of_labels(x):
    return F.cross_entropy(torch.zeros(2, 3, dtype=x.dtype), torch.tensor([0, 1])) + x.new_zeros(())


class ForgottenLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Conv2d(3, 3, 1) for _ in range(3)])

    def forward(self, x):
        return self.layers[0](self.layers[1](x))


class PlainList(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Conv2d(3, 3, 1)
        self.layers = [nn.Conv2d(3, 3, 1) for _ in range(2)]

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).tanh()
        return self.head(x)


class PlainDict(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = {"a": nn.Linear(16, 2)}

    def forward(self, x):
        return self.heads["a"](x)


class PlainTensor(nn.Module):
    """A learned number that never became a parameter."""

    def __init__(self):
        super().__init__()
        self.gain = torch.ones(3, 1, 1, requires_grad=True)

    def forward(self, x):
        return x * self.gain


class CutClosure:
    """A loss whose network is cut off."""

    def __init__(self):
        self.net = nn.Conv2d(3, 2, 3)

    def __call__(self, x):
        with torch.no_grad():
            weight = self.net.weight * 2  # bug: cut_closure
        return F.conv2d(x, weight) + self.net.bias[:, None, None]


def closure_with_wrong_gradient():
    gain = nn.Parameter(torch.rand(3, 1, 1) + 0.5)

    def call(x):
        return x * gain * gain.detach()  # bug: closure_with_wrong_gradient

    return call


def closure_unused():
    gain, bias = nn.Parameter(torch.rand(3, 1, 1)), nn.Parameter(torch.rand(3, 1, 1))
    return lambda x: x * gain + 0 * bias


def closure_list():
    layers = [nn.Linear(16, 16), nn.Linear(16, 16)]

    def call(x):
        return layers[1](layers[0](x).detach())  # bug: closure_list

    return call


class ReplacedParameter(nn.Module):
    """Makes a new parameter in every call; the optimiser holds the first."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(3, 1, 1))

    def forward(self, x):
        self.w = nn.Parameter(torch.ones(3, 1, 1, dtype=x.dtype))
        return x * self.w


class NeedsInputGradient(nn.Module):
    """Reentrant checkpointing of the first layer: without a gradient on the input, its parameters get none."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 2, 3)

    def forward(self, x):
        return self.second(checkpoint(self.first, x, use_reentrant=True))


class FrozenUnlessAsked(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3)

    def forward(self, x):
        with torch.set_grad_enabled(x.requires_grad):
            return self.first(x)


# Hooks.
def _masks(grad):
    return grad * (torch.arange(grad.shape[-1]) % 2 + 0.5)  # bug: masking_hook


def masking_hook(x):
    y = x.square()
    if y.requires_grad:
        y.register_hook(_masks)
    return y.sin()


def clipping_hook(x):
    y = x * 3
    if y.requires_grad:
        y.register_hook(lambda g: g.clamp(-0.1, 0.1))  # bug: clipping_hook
    return y.square()


class ModuleHook(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3)
        self.conv.register_full_backward_hook(self.halve)

    @staticmethod
    def halve(_module, grads, _outputs):
        return tuple(0.5 * g for g in grads)  # bug: module_hook

    def forward(self, x):
        return self.conv(x).tanh()


class ParameterHook(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3)
        self.conv.weight.register_hook(lambda g: 2 * g)  # bug: parameter_hook

    def forward(self, x):
        return self.conv(x).tanh()


class ForwardHookDetaches(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3)
        self.conv.register_forward_hook(lambda _m, _a, out: 0.5 * out + 0.5 * out.detach())  # bug: forward_hook_detaches

    def forward(self, x):
        return self.conv(x).tanh()


# Two calls before backward.
class Remembers(nn.Module):
    """Its backward reads an attribute that the second call overwrites."""

    def forward(self, x):
        self.saved = x.detach()
        return _ReadsOwner.apply(x, self)


class _ReadsOwner(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, owner):
        ctx.owner = owner
        return x.square()

    @staticmethod
    def backward(ctx, g):
        return 2 * g * ctx.owner.saved, None


class _ClassAttribute(torch.autograd.Function):
    saved = None

    @staticmethod
    def forward(ctx, x):
        _ClassAttribute.saved = x
        return x.square()

    @staticmethod
    def backward(ctx, g):
        return 2 * g * _ClassAttribute.saved


on_the_class = _ClassAttribute.apply


class WritesItsBuffer(nn.Module):
    """Autograd saved the buffer; the next call writes to it."""

    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.ones(3, 1, 1))

    def forward(self, x):
        self.scale.mul_(1.5)
        return x * self.scale


class ReusesItsCanvas(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("canvas", torch.zeros(2, 3, 16, 16), persistent=False)

    def forward(self, x):
        canvas = self.canvas.to(x)
        with torch.no_grad():
            canvas.copy_(x)
        return _Product.apply(x, canvas)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, canvas):
        ctx.canvas = canvas
        return x.square()

    @staticmethod
    def backward(ctx, g):
        return 2 * g * ctx.canvas, None


class StackOfInputs:
    """Pops what the last call pushed, not its own."""

    def __init__(self):
        stack = []

        class Pushes(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                stack.append(x.detach().clone())
                return x.exp()

            @staticmethod
            def backward(ctx, g):
                return g * stack[-1].exp()

        self.apply = Pushes.apply

    def __call__(self, x):
        return self.apply(x)


# Caches.
class CachedOutput:
    def __init__(self):
        self.cache = None

    def __call__(self, x):
        if self.cache is None:
            self.cache = x.mean((2, 3), keepdim=True).detach()  # bug: cached_output
        return x - self.cache.to(x)


class CachedWeight(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.rand(3, 3))
        self.cache = None

    def forward(self, x):
        if self.cache is None:
            self.cache = torch.linalg.matrix_exp(self.w).detach()
        return torch.einsum("ij,bjhw->bihw", self.cache.to(x), x)


class CachedOnce(nn.Module):
    """Fuses its weights on the first call and never again."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Parameter(torch.rand(3, 3)), nn.Parameter(torch.rand(3, 3))
        self.register_buffer("fused", torch.eye(3) * 0.5 + 0.1)

    def forward(self, x):
        return torch.einsum("ij,bjhw->bihw", self.fused, x)


class CachedByShape:
    def __init__(self):
        self.cache = {}

    def __call__(self, x):
        key = tuple(x.shape)
        if key not in self.cache:
            self.cache[key] = x.square()  # bug: cached_by_shape
        return self.cache[key].to(x) + x


class CachedGraph(nn.Module):
    """Keeps the graph of its kernel: a second backward through it raises."""

    def __init__(self):
        super().__init__()
        self.sigma = nn.Parameter(torch.tensor(1.2))
        self.kernel = None

    def forward(self, x):
        if self.kernel is None:
            self.kernel = torch.exp(-torch.arange(-2.0, 3.0).square() / (2 * self.sigma.float() ** 2))
        return x * self.kernel.to(x).sum()


# Recomputation and randomness.
class _DrawsInBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * torch.rand_like(x)

    @staticmethod
    def backward(ctx, g):
        return g * torch.rand_like(g)  # bug: draws_in_backward


draws_in_backward = _DrawsInBackward.apply


class _NumpyInBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x + torch.from_numpy(np.random.rand(*x.shape)).to(x)

    @staticmethod
    def backward(ctx, g):
        return g + torch.from_numpy(np.random.rand(*g.shape)).to(g)  # bug: numpy_in_backward


numpy_in_backward = _NumpyInBackward.apply


def reentrant_generator(x):
    generator = torch.Generator().manual_seed(4)

    def noisy(t):
        return t * torch.rand(t.shape, generator=generator, dtype=t.dtype)  # bug: reentrant_generator

    return checkpoint(noisy, x, use_reentrant=True)


def reentrant_unpreserved(x):
    def drop(t):
        return F.dropout(t, 0.5)  # bug: reentrant_unpreserved

    return checkpoint(drop, x, use_reentrant=True, preserve_rng_state=False)


def checkpointed_wrong(x):
    return checkpoint(lambda t: t * t.mean().detach(), x, use_reentrant=True)  # bug: checkpointed_wrong


# Coverage.
def border_without_gradient(x):
    y = x.square()
    z = y.detach().clone()  # bug: border_without_gradient
    z[..., 1:-1, 1:-1] = y[..., 1:-1, 1:-1]
    return z


def one_channel_cut(x):
    return torch.cat([x[:, :2], x[:, 2:].detach()], 1).sin()  # bug: one_channel_cut


def one_sample_cut(x):
    return torch.stack([x[0], x[1].data])  # bug: one_sample_cut


def where_cut(x):
    return torch.where(x > 0.7, x.detach(), x).exp()  # bug: where_cut


class _Masked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.exp()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors  # bug: masked_backward
        return g * x.exp() * (x > 0.2)


masked_backward = _Masked.apply
