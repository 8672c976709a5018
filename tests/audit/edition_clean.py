"""Clean neighbours of the bugs in ``edition_*.py``: the same constructs, used rightly.

Owns: the clean half of the second edition's corpus. A finding above "note" on any of them is a false alarm.
Must not: contain functions that are singular inside [0, 1].
Read next: ``edition.py``.
"""

import functools
import math
from importlib.util import find_spec

import edition_causes as c
import edition_numerics as n
import torch
import torch.nn.functional as F
from clean_functions import Clean
from torch import nn
from torch.utils.checkpoint import checkpoint

_G = torch.Generator().manual_seed(31)
X = torch.rand(2, 3, 16, 16, generator=_G)
Z = torch.randn(2, 3, 16, 16, generator=_G)
BIG = torch.rand(2, 3, 32, 32, generator=_G)
LARGE = torch.rand(2, 3, 64, 64, generator=_G)
ODD = torch.rand(3, 3, 9, 15, generator=_G)
ROWS = torch.randn(6, 8, generator=_G)
LABELS = torch.tensor([0, 3, 1, 2, 7, 5])
BOXES = torch.tensor([[1.0, 1.5, 6.0, 7.0], [2.0, 2.0, 5.0, 9.0], [0.0, 1.0, 3.0, 4.0]])
TARGET = BOXES + torch.tensor([0.7, -0.4, 1.1, 0.3])


def _c(name, fn, inputs=X, **options):
    return Clean(name, lambda: fn, inputs, options)


def _m(name, make, inputs=X, **options):
    return Clean(name, make, inputs, options)


def _custom(forward, backward):
    return n.function(forward, backward)


class _TwoOutputs(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.set_materialize_grads(False)
        return x.sin(), x.cos()

    @staticmethod
    def backward(ctx, g, h):
        (x,) = ctx.saved_tensors
        return sum((t for t in (None if g is None else g * x.cos(), None if h is None else -h * x.sin()) if t is not None), 0 * x)


class Shared(nn.Module):
    """One layer used twice under two names."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)
        self.b = self.a

    def forward(self, x):
        return self.b(self.a(x).tanh())


class Frozen(nn.Module):
    """A frozen backbone in a plain list, as perceptual losses keep it."""

    def __init__(self):
        super().__init__()
        self.hidden = [nn.Conv2d(3, 4, 3).requires_grad_(False)]
        self.head = nn.Conv2d(4, 2, 3)

    def forward(self, x):
        return self.head(self.hidden[0](x))


class CountsHarmlessly(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0
        self.conv = nn.Conv2d(3, 2, 3)

    def forward(self, x):
        self.calls += 1
        return self.conv(x)


class BufferAverage(nn.Module):
    """A moving average without graph, in a buffer, as batch normalisation keeps it."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(3, 1, 1))

    def forward(self, x):
        mean = x.mean((0, 2, 3))[:, None, None]
        with torch.no_grad():
            self.mean.copy_(0.9 * self.mean + 0.1 * mean)
        return x - mean


class Hooked(nn.Module):
    """Hooks that look and leave alone."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 2, 3)
        self.conv.register_full_backward_hook(lambda _m, _i, _o: None)
        self.conv.register_forward_hook(lambda _m, _a, _o: None)
        self.conv.weight.register_hook(lambda _g: None)

    def forward(self, x):
        return self.conv(x).tanh()


class Cached(nn.Module):
    """A cache that is right: constants by shape and dtype."""

    def __init__(self):
        super().__init__()
        self.cache = {}

    def forward(self, x):
        key = (x.shape[-1], x.dtype)
        if key not in self.cache:
            self.cache[key] = torch.linspace(0.5, 1, x.shape[-1], dtype=x.dtype)
        return x * self.cache[key]


class Residual(nn.Module):
    def __init__(self, depth=6, width=4):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.GroupNorm(2, width), nn.SiLU(), nn.Conv2d(width, width, 3, padding=1)) for _ in range(depth)
        )

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = x + block(x)
        return x.mean((2, 3))


class TrainsAndTests(nn.Module):
    """Noise in training, none in evaluation: different, and right in both."""

    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(3, 1, 1))

    def forward(self, x):
        return x * self.gain * (1 + 0.1 * torch.randn_like(x)) if self.training else x * self.gain


def _closure():
    gain = nn.Parameter(torch.rand(3, 1, 1) + 0.5)
    return lambda x: (x * gain).sin()


def _loss_with_network():
    net = nn.Sequential(nn.Conv2d(3, 2, 3), nn.Tanh())  # without the tanh the bias would cancel, and be called so
    return lambda x, y: (net(x) - net(y)).square().mean()


def _list_of_layers():
    layers = [nn.Linear(16, 16), nn.Linear(16, 4)]
    return lambda x: functools.reduce(lambda v, layer: layer(v).tanh(), layers, x)


def _focal(x, t):
    p = x.sigmoid()
    return -(t * (1 - p) ** 2 * F.logsigmoid(x) + (1 - t) * p**2 * F.logsigmoid(-x)).mean()


def _gradient_penalty(x):
    (g,) = torch.autograd.grad(x.sin().square().sum(), x, create_graph=True)
    return (g.square().sum((1, 2, 3)) + 1e-2).sqrt()


def _saturated(x):
    return (10 * x + 5).clamp(0, 1)


def _info_nce(a, b):
    logits = F.normalize(a, dim=1, eps=1e-3) @ F.normalize(b, dim=1, eps=1e-3).mT / 0.2
    return F.cross_entropy(logits, torch.arange(len(a)))


def _sobel(x):
    k = x.new_tensor([[1, 0, -1], [2, 0, -2], [1, 0, -1]])
    w = torch.stack([k, k.mT])[:, None]
    g = F.conv2d(x.flatten(0, 1)[:, None], w, padding=1)
    return (g.square().sum(1) + 1e-3).sqrt()


def _polar(x):
    angle = torch.linspace(0, 2 * math.pi, 12, dtype=x.dtype)[:, None]
    radius = torch.linspace(0.1, 0.9, 7, dtype=x.dtype)
    grid = torch.stack([radius * angle.cos(), radius * angle.sin()], -1)
    return F.grid_sample(x, grid.expand(x.shape[0], -1, -1, -1), align_corners=False)


_ORDINARY = {
    "levels": n.levels, "posterize": n.posterize, "equalize": n.equalize,
}  # fmt: skip
_SIZES = {16: X, 32: BIG, 64: LARGE}

_TORCHVISION = [
    _c("generalized iou of torchvision", lambda a, b: c.torchvision_loss("generalized_box_iou_loss")(a, b), (BOXES, TARGET)),
    _c("distance iou of torchvision", lambda a, b: c.torchvision_loss("distance_box_iou_loss")(a, b), (BOXES, TARGET)),
    _c("focal of torchvision", lambda a, b: c.torchvision_loss("sigmoid_focal_loss")(a, b, reduction="mean"), (Z, X)),
]

EDITION_CLEAN = [
    # Harmless lines alone, two in a row, and around a custom function with the right backward.
    *(_c(h.__name__, h) for h in c.HARMLESS),
    *(_c(f"{h.__name__} twice", lambda x, h=h: h(h(x))) for h in c.HARMLESS[:6]),
    *(_c(f"{h.__name__} and an exact function", lambda x, h=h: c.exact_function(h(x))) for h in c.HARMLESS[:9]),
    *(_c(f"{h.__name__} on odd sizes", h, ODD) for h in c.HARMLESS[:9]),
    # Staircases, declared, at every size; and undeclared, which is a note.
    *(_c(f"{k} declared at {s}", f, x, declared={"x": "none"}) for k, f in _ORDINARY.items() for s, x in _SIZES.items()),
    *(_c(f"{k} at {s}", f, x) for k, f in _ORDINARY.items() for s, x in _SIZES.items()),
    _c("straight-through levels at 32", n.straight_through_levels, BIG, declared={"input": "surrogate"}),
    _c("straight-through levels at 64", n.straight_through_levels, LARGE, declared={"input": "surrogate"}),
    _c("sine at 64", torch.sin, LARGE, declared={"*": "exact"}),
    _c("relu at 64", torch.relu, torch.randn(2, 3, 64, 64, generator=_G), declared={"*": "exact"}),
    _c("half clamped at 32", lambda x: (2 * x - 0.5).clamp(0, 1), BIG),
    _c("saturated clamp", _saturated),
    # Custom functions that are right whatever the layout, the shape and the sign.
    _c("custom square", _custom(torch.square, lambda g, x: 2 * g * x)),
    _c("custom mean", _custom(lambda x: x.mean(), lambda g, x: g.expand_as(x) / x.numel())),
    _c("custom row mean", _custom(lambda x: x.mean(-1), lambda g, x: g[..., None].expand_as(x) / x.shape[-1])),
    _c("custom contiguous", _custom(torch.sin, lambda g, x: (g.contiguous().view(-1) * x.cos().reshape(-1)).view(x.shape))),
    _c("custom reshape", _custom(torch.exp, lambda g, x: (g.reshape(-1) * x.exp().reshape(-1)).reshape(x.shape))),
    _c("custom abs", _custom(torch.abs, lambda g, x: g * x.sign()), Z),
    _c("custom leaky", _custom(lambda x: F.leaky_relu(x, 0.1), lambda g, x: g * torch.where(x > 0, 1.0, 0.1)), Z),
    _c("custom flip", _custom(lambda x: x.flip(-1), lambda g, x: g.flip(-1))),
    _c("custom cumsum", _custom(lambda x: x.cumsum(-1), lambda g, x: g.flip(-1).cumsum(-1).flip(-1))),
    _c("custom transpose", _custom(lambda x: x.mT.contiguous(), lambda g, x: g.mT)),
    _c("custom two outputs", _TwoOutputs.apply),
    _c("custom clone in backward", _custom(torch.square, lambda g, x: g.clone().mul_(2) * x)),
    # Layouts and shapes of torch's own.
    _c("permute", lambda x: x.permute(0, 2, 3, 1)),
    _c("transpose and multiply", lambda x: x.mT * torch.arange(16, dtype=x.dtype)[: x.shape[2]]),
    _c("channels_last inside", lambda x: x.to(memory_format=torch.channels_last).square()),
    _c("expand", lambda x: x.mean(0, keepdim=True).expand(4, -1, -1, -1)),
    _c("as a scalar", lambda x: x.square().sum()),
    _c("split into outputs", lambda x: x.unbind(1)),
    _c("dict of outputs", lambda x: {"a": x.sin(), "b": x.cos().mean()}),
    _c("odd spectrum", lambda x: torch.fft.irfft(torch.fft.rfft(x), n=x.shape[-1])),
    _c("pool with ceil", lambda x: F.avg_pool2d(x, 2, ceil_mode=True, count_include_pad=False), ODD),
    _c("max pool", lambda x: F.max_pool2d(x, 3, 2, 1), ODD),
    _c("polar", _polar),
    _c("sobel", _sobel),
    _c("one sample", torch.sin, X[:1]),
    _c("one pixel", lambda x: x.square(), torch.rand(2, 3, 1, 1, generator=_G)),
    _c("vector", lambda x: x.softmax(0), torch.rand(7, generator=_G)),
    _c("scalar", lambda a: a.sin() * 2, torch.tensor(0.4)),
    _c("fixed size", lambda x: x.reshape(2, 3, 256).sin()),
    _c("fixed size matmul", lambda x: x @ torch.eye(16, dtype=x.dtype)),
    # Losses.
    _c("focal", _focal, (Z, X)),
    _c("info nce", _info_nce, (ROWS, ROWS.flip(0))),
    _c("bce with logits", F.binary_cross_entropy_with_logits, (Z, X)),
    _c("nll", lambda x: F.nll_loss(x.log_softmax(1), LABELS), ROWS),
    _c("charbonnier", lambda x, y: ((x - y).square() + 1e-3).sqrt().mean(), (X, X.flip(0))),
    _c("dice", lambda x, y: 1 - (2 * (x * y).sum() + 1) / (x.sum() + y.sum() + 1), (X, X.flip(0))),
    _c("gradient penalty", _gradient_penalty),
    *(_TORCHVISION if find_spec("torchvision") else []),
    # Leaves that have no name, modules in both modes, state that is harmless.
    _m("closure parameter", _closure),
    _m("loss with a network", _loss_with_network, (X, X.flip(0))),
    _m("list of layers in a closure", _list_of_layers),
    _m("shared layer", Shared, ROWS),
    _m("frozen backbone", Frozen),
    _m("counts harmlessly", CountsHarmlessly),
    _m("buffer average", BufferAverage),
    _m("hooks that look", Hooked),
    _m("cache of constants", Cached),
    _m("residual network", Residual),
    _m("trains and tests", TrainsAndTests),
    _m("dropout layer", lambda: nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.4), nn.Linear(8, 2)), ROWS),
    _m("batch norm network", lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 2, 3))),
    _m("batch norm 1d", lambda: nn.BatchNorm1d(8), ROWS),
    _m("conv transpose layer", lambda: nn.ConvTranspose2d(3, 2, 3, stride=2)),
    _m("depthwise", lambda: nn.Conv2d(3, 6, 3, groups=3)),
    _m("rnn", lambda: nn.RNN(8, 4), ROWS),
    _m("upsample", lambda: nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d(3, 1, 3))),
    _m("mlp", lambda: nn.Sequential(*(m for _ in range(4) for m in (nn.Linear(8, 8), nn.GELU()))), ROWS),
    # Recomputation and randomness.
    _c("reentrant checkpoint", lambda x: checkpoint(torch.sin, x, use_reentrant=True)),
    _c("reentrant dropout", lambda x: checkpoint(F.dropout, x, use_reentrant=True)),
    _c("checkpoint of two", lambda x: checkpoint(lambda t: (t.sin(), t.cos()), x, use_reentrant=False)),
    _m("checkpointed network", lambda: functools.partial(checkpoint, nn.Conv2d(3, 2, 3), use_reentrant=False)),
    _c("noise with a fixed generator", lambda x: x + 0.1 * torch.randn(x.shape, generator=torch.Generator().manual_seed(1))),
    _c("hook that logs", lambda x: (y := x.square(), y.requires_grad and y.register_hook(lambda _g: None))[0]),
    _c("retained gradient", lambda x: (y := x.square(), y.requires_grad and y.retain_grad())[0].sin()),
    # Precision: rounding of its own kind, told and not judged worse than it is.
    _c("float64 in, float64 out", torch.sin, X.double(), declared={"*": "exact"}),
    _c("float32 weights in a closure", lambda x: torch.einsum("ij,bjhw->bihw", n.W32.to(x), x), X),
    _c("float64 inside", lambda x: x.double().square().mean((2, 3)).to(x.dtype)),
]
