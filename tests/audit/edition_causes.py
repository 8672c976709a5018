"""Bugs beside harmless lines that look alike: who is to blame? Every culprit line carries ``# bug: name``.

Owns: pairs of a guilty and a harmless step, in both orders, and deaths of the process.
Must not: be imported by the library.
Read next: ``edition_numerics.py``, then ``edition.py``.
"""

import math
import os
import signal
import sys

import numpy as np
import torch
from torch import nn

X = torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(21))


class _Slope(torch.autograd.Function):
    """A sine whose backward forgot a factor."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, g):
        return 0.7 * g * ctx.saved_tensors[0].cos()  # bug: custom_slope


class _Exact(torch.autograd.Function):
    """A cosine with the right backward."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.cos()

    @staticmethod
    def backward(ctx, g):
        return -g * ctx.saved_tensors[0].sin()


class _ViewInForward(torch.autograd.Function):
    """The right backward of a square, taken of a view."""

    @staticmethod
    def forward(ctx, x):
        flat = x.view(-1)
        ctx.save_for_backward(x)
        return (flat * flat).view(x.shape)

    @staticmethod
    def backward(ctx, g):
        return 2 * g * ctx.saved_tensors[0]


# Harmless: right gradients, beside what looks like a cut.
def zeros_canvas(x):
    canvas = torch.zeros_like(x)
    return canvas + x


def new_zeros_canvas(x):
    return x.new_zeros(x.shape) + x


def cast_like(x):
    return torch.tensor([0.4], dtype=torch.float32).to(x) * x


def type_like(x):
    return torch.full((1, 1, 1, 1), 0.7).type_as(x) * x


def ones_border(x):
    return torch.cat([torch.ones_like(x[:, :1]), x], 1)[:, 1:]


def noise_like(x):
    return x + 0.01 * torch.rand_like(x)


def stable_maximum(x):
    e = (x - x.amax(1, keepdim=True).detach()).exp()
    return x + 0.1 * e / e.sum(1, keepdim=True)


def logs_without_grad(x):
    with torch.no_grad():
        _ = x.mean().square()
    return x * 1.1


def drops_a_copy(x):
    _ = x.detach().clone().mean()
    return x * 0.9


def exact_function(x):
    return _Exact.apply(x)


def view_in_forward(x):
    return _ViewInForward.apply(x)


HARMLESS = (
    zeros_canvas, new_zeros_canvas, cast_like, type_like, ones_border, noise_like, stable_maximum, logs_without_grad, drops_a_copy,
    exact_function, view_in_forward,
)  # fmt: skip


# Guilty: part of the path is lost on one line.
def custom_slope(x):
    return _Slope.apply(x)


def detached_mean(x):
    return x * x.mean((2, 3), keepdim=True).detach()  # bug: detached_mean


def no_grad_block(x):
    y = x.square()
    with torch.no_grad():
        scale = y.mean((2, 3), keepdim=True) + 1  # bug: no_grad_block
    return y * scale


def rebuilt_scale(x):
    s = torch.tensor(x.mean(), dtype=x.dtype)  # bug: rebuilt_scale
    return x.sin() * s


def numpy_scale(x):
    s = np.asarray(x.detach()).mean()  # bug: numpy_scale
    return x.exp() * float(s)


def data_scale(x):
    return x * (1 + x.data.square())  # bug: data_scale


def item_power(x):
    return x * math.exp(x.mean().item())  # bug: item_power


def hooked(x):
    y = x.tanh()
    if y.requires_grad:
        y.register_hook(lambda g: 0.5 * g)  # bug: hooked
    return y


GUILTY = {
    custom_slope: "wrong", detached_mean: "detached", no_grad_block: "detached", rebuilt_scale: "detached", numpy_scale: "detached",
    data_scale: "detached", item_power: "detached", hooked: "wrong",
}  # fmt: skip


def after(guilty, harmless):
    return lambda x: guilty(harmless(x))


def before(guilty, harmless):
    return lambda x: harmless(guilty(x))


def ciou_like(boxes, target):
    """Complete IoU written as torchvision writes it: alpha without gradient, beside a zeros_like."""
    lt, rb = torch.max(boxes[:, :2], target[:, :2]), torch.min(boxes[:, 2:], target[:, 2:])
    overlap = torch.zeros_like(boxes[:, 0])
    mask = (rb > lt).all(1)
    overlap[mask] = (rb - lt)[mask].prod(1)
    area = (boxes[:, 2:] - boxes[:, :2]).prod(1) + (target[:, 2:] - target[:, :2]).prod(1)
    iou = overlap / (area - overlap)
    shape = [torch.atan((b[:, 2] - b[:, 0]) / (b[:, 3] - b[:, 1])) for b in (boxes, target)]
    v = (4 / math.pi**2) * (shape[0] - shape[1]).square()
    with torch.no_grad():
        alpha = v / (1 - iou + v)  # bug: ciou_like
    return 1 - iou + alpha * v


def torchvision_loss(name):
    from pellucid_bench.audit_peers import _foreign_kernels_ignored

    with _foreign_kernels_ignored():
        from torchvision import ops
    return getattr(ops, name)


# Deaths.
def killed(x):
    os.kill(os.getpid(), signal.SIGKILL)
    return x


def quits(x):
    os._exit(0)
    return x


def quits_with_three(x):
    os._exit(3)
    return x


def terminated(x):
    os.kill(os.getpid(), signal.SIGTERM)
    return x


def aborts(x):
    os.abort()
    return x


def leaves_python(x):
    sys.exit("no licence")
    return x


class _KilledInBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        os.kill(os.getpid(), signal.SIGKILL)
        return g


killed_in_backward = _KilledInBackward.apply


class QuitsLater:
    """Dies after a few calls, as a process does whose memory runs out."""

    def __init__(self, calls, how):
        self.left, self.how = calls, how

    def __call__(self, x):
        self.left -= 1
        if self.left < 0:
            self.how()
        return x * 2


class KilledInEval(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(3, 1, 1))

    def forward(self, x):
        if not self.training:
            os._exit(0)
        return x * self.w
