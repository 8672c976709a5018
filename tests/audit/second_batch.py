"""A second batch of bugs and clean functions, written after the audit first passed its corpus and before it was changed again.

Owns: an estimate of how the audit does on what it was not built against; its first score is in docs/audit.md.
Must not: be tuned to.
Read next: ``corpus.py``.
"""

import math

import numpy as np
import planted_gradients
import torch
import torch.nn.functional as F
from clean_functions import Clean
from torch import nn

_G = torch.Generator().manual_seed(11)
X = torch.rand(2, 3, 16, 16, generator=_G)
Z = torch.randn(2, 3, 16, 16, generator=_G)
V = torch.rand(2, 3, 64, generator=_G)
R = torch.randn(6, 8, generator=_G)
S = torch.randn(5, 5, generator=_G) + 4 * torch.eye(5)
K = torch.rand(4, 3, 3, 3, generator=_G)
GRID = torch.rand(2, 8, 8, 2, generator=_G) * 2 - 1
LABELS = torch.tensor([0, 3, 1, 2, 7, 5])


def numpy_matrix(x, a):
    m = torch.as_tensor(np.array([[math.cos(float(a)), 0], [0, 1.0]]), dtype=x.dtype)  # bug: numpy_matrix
    return torch.einsum("ij,bjhw->bihw", m, x[:, :2])


def new_leaf(x):
    y = x.clone().detach().requires_grad_()  # bug: new_leaf
    return y * 2


def wrapped_as_parameter(x, k):
    return F.conv2d(x, nn.Parameter(k))  # bug: wrapped_as_parameter


def root_in_the_other_branch(x):
    return torch.where(x > 2, torch.sqrt(x - 2), x)  # bug: root_in_the_other_branch


def entropy(x):
    return torch.where(x > 0, x * x.log(), torch.zeros_like(x))  # bug: entropy


def projector_by_svd(x):
    f = x.flatten(2)
    u, s, _ = torch.linalg.svd(f @ f.mT / 256)  # bug: projector_by_svd
    return (u @ u.mT) * s[..., None]


class _Swapped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors  # bug: swapped_gradients
        return g * a, g * b


class _OpenClamp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clamp(0.2, 0.8)

    @staticmethod
    def backward(ctx, g):
        return g  # bug: open_clamp


def masks_its_input(x):
    x[x > 0.5] = 0  # bug: masks_its_input
    return x


def flips_in_numpy(x):
    return torch.from_numpy(np.flip(x.numpy(), -1).copy())  # bug: flips_in_numpy


def copies_with_tensor(x):
    return torch.tensor(x) * 2  # bug: copies_with_tensor


def relu_on_saved(x):
    y = x.exp()
    F.relu_(y)  # bug: relu_on_saved
    return y


def item_scale(x):
    return x / x.mean().item()  # bug: item_scale


class DataWeight(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.rand(3, 1, 1))

    def forward(self, x):
        return x * self.w.data  # bug: data_weight


def reflection_grid(x, grid):
    return F.grid_sample(x, grid, padding_mode="reflection", align_corners=False)  # bug: reflection_grid


def hard_choice(x, p):
    return x[:, torch.multinomial(p, 2)]  # bug: hard_choice


def per_image_float(x):
    return torch.stack([row * float(row.mean()) for row in x])  # bug: per_image_float


def energy(x):
    return (x * 300).square().sum((2, 3)).sqrt()  # bug: energy


def angle_between(x):
    n = F.normalize(x, dim=1, eps=1e-3)
    return torch.acos((n * n.flip(0)).sum(1).clamp(-1, 1))  # bug: angle_between


def signed_root(x):
    return x.sign() * x.abs().pow(0.3)  # bug: signed_root


class Schedule:
    calls = 0

    def __call__(self, x):
        Schedule.calls += 1
        return x * math.cos(Schedule.calls)


class CachedInverse(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.rand(3, 3) + torch.eye(3))
        self.inverse = torch.linalg.inv(self.w)

    def forward(self, x):
        return torch.einsum("ij,bjhw->bihw", self.inverse, x)


def writes_one_of_many(x):
    y = x[:1].expand_as(x)
    y[1, 0, 0, 0] = 5.0  # bug: writes_one_of_many
    return y * x


# name, callable, inputs, category, whether the line can be told
SECOND_BUGS = [
    ("numpy_matrix", lambda: numpy_matrix, (X, planted_gradients.ANGLE), "detached", True),
    ("new_leaf", lambda: new_leaf, X, "detached", True),
    ("wrapped_as_parameter", lambda: wrapped_as_parameter, (X, K), "detached", True),
    ("root_in_the_other_branch", lambda: root_in_the_other_branch, X, "non-finite", True),
    ("entropy", lambda: entropy, X, "non-finite", True),
    ("projector_by_svd", lambda: projector_by_svd, X, "non-finite", True),
    ("swapped_gradients", lambda: _Swapped.apply, (X, Z), "wrong", True),
    ("open_clamp", lambda: _OpenClamp.apply, X, "wrong", True),
    ("masks_its_input", lambda: masks_its_input, X, "in-place", True),
    ("flips_in_numpy", lambda: flips_in_numpy, X, "detached", True),
    ("copies_with_tensor", lambda: copies_with_tensor, X, "detached", True),
    ("relu_on_saved", lambda: relu_on_saved, X, "in-place", True),
    ("item_scale", lambda: item_scale, X, "detached", True),
    ("data_weight", DataWeight, X, "detached", True),
    ("reflection_grid", lambda: reflection_grid, (X, GRID), "crash", True),
    ("hard_choice", lambda: hard_choice, (X, torch.tensor([0.2, 0.3, 0.5])), "detached", True),
    ("per_image_float", lambda: per_image_float, X, "detached", True),
    ("energy", lambda: energy, X, "non-finite", True),
    ("angle_between", lambda: angle_between, X, "non-finite", True),
    ("signed_root", lambda: signed_root, Z, "non-finite", True),
    ("schedule", Schedule, X, "nondeterminism", False),
    ("cached_inverse", CachedInverse, X, "stale", False),
    ("writes_one_of_many", lambda: writes_one_of_many, X, "stride-0", True),
]


def _spd(a):
    return a @ a.mT + torch.eye(5, dtype=a.dtype)


def _c(name, fn, inputs=X):
    return Clean(name, lambda: fn, inputs)


_POINTWISE = ("celu", "elu", "selu", "mish", "silu", "hardswish", "softshrink", "hardshrink", "tanhshrink", "softsign", "relu6")
_UNARY = ("log1p", "tanh", "erf", "sinc", "expm1", "cos", "cosh", "square", "frac", "tril")

SECOND_CLEAN = [
    *(_c(name, getattr(F, name), Z) for name in _POINTWISE),
    *(_c(name, getattr(torch, name)) for name in _UNARY),
    _c("logit", lambda x: torch.logit(x * 0.8 + 0.1)),
    _c("xlogy", lambda x: torch.xlogy(x + 0.1, x + 0.1)),
    _c("huber", F.huber_loss, (X, X.flip(0))),
    _c("kl", lambda x, y: F.kl_div(x.log_softmax(1), y.softmax(1), reduction="batchmean"), (X, Z)),
    _c("triplet", F.triplet_margin_loss, (R, R.flip(0), R.roll(1, 0))),
    _c("multi margin", lambda x: F.multi_margin_loss(x, LABELS), R),
    _c("pixel shuffle", lambda x: F.pixel_shuffle(x.repeat(1, 4, 1, 1), 2)),
    _c("conv1d", F.conv1d, (V, torch.rand(4, 3, 3, generator=_G))),
    _c("conv3d", lambda x: F.conv3d(x[:, :, None], torch.ones(2, 3, 1, 3, 3, dtype=x.dtype))),
    _c("trilinear", lambda x: F.interpolate(x[:, :, None], scale_factor=(1, 1.5, 1.5), mode="trilinear")),
    _c("cumprod", lambda x: (x + 0.5).cumprod(-1)),
    _c("prod", lambda x: (x + 0.5).prod(-1)),
    _c("norm", lambda x: (x + 1).norm(dim=1)),
    _c("cholesky", lambda a: torch.linalg.cholesky(_spd(a)), S),
    _c("qr", lambda a: torch.linalg.qr(a)[1], S),
    _c("pinv", torch.linalg.pinv, S),
    _c("slogdet", lambda a: torch.linalg.slogdet(a)[1], S),
    _c("eigvalsh", lambda a: torch.linalg.eigvalsh(_spd(a)), S),
    _c("svdvals", torch.linalg.svdvals, S),
    _c("lstsq", lambda a, b: torch.linalg.lstsq(a, b).solution, (S, S[:, :2].clone())),
    _c("quantile", lambda x: x.quantile(0.3, -1)),
    _c("kthvalue", lambda x: x.kthvalue(3, -1).values),
    _c("diff", lambda x: x.diff(dim=-1)),
    _c("stft", lambda x: torch.stft(x.flatten(0, 1), 16, window=torch.hann_window(16, dtype=x.dtype), return_complex=True), V),
    _c("rms norm", lambda x: F.rms_norm(x, [16], eps=1e-3)),
    _c("local response norm", lambda x: F.local_response_norm(x, 2)),
    _c("alpha dropout", lambda x: F.alpha_dropout(x, 0.3, True)),
    _c("lp pool", lambda x: F.lp_pool2d(x + 0.1, 2, 2)),
    _c("max unpool", lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2)),
    _c("masked fill", lambda x: x.masked_fill(x > 0.5, 0.0)),
    _c("lerp", torch.lerp, (X, Z, X.flip(-1))),
    _c("bucketize", lambda x: torch.bucketize(x, torch.linspace(0, 1, 5, dtype=x.dtype))),
    _c("complex modulus", lambda x: torch.fft.fft2(x).abs()[..., 1:, 1:]),
    _c("cummax", lambda x: x.cummax(-1).values),
    _c("var_mean", lambda x: torch.var_mean(x, (2, 3))),
    _c("chunk", lambda x: x.chunk(2, -1)),
    _c("dropout2d", F.dropout2d),
    _c("random permutation", lambda x: x[torch.randperm(x.shape[0])]),
    _c("total variation", lambda x: (x[..., 1:] - x[..., :-1]).abs().mean()),
    _c("gram matrix", lambda x: x.flatten(2) @ x.flatten(2).mT / 256),
    _c("soft argmax", lambda x: (x.flatten(2).softmax(-1) * torch.arange(256, dtype=x.dtype)).sum(-1), Z),
    _c("mixup", lambda x, w: w * x + (1 - w) * x.flip(0), (X, torch.tensor(0.3))),
    _c("saturation with a floor", lambda x: (x.amax(1) - x.amin(1)) / (x.amax(1) + 1e-2)),
    _c("gamma with a floor", lambda x, g: (x + 0.05) ** g, (X, torch.tensor(1.7))),
    Clean("gru", lambda: nn.GRU(8, 4), R),
    Clean("bilinear layer", lambda: nn.Bilinear(8, 8, 3), (R, R.flip(0))),
    Clean("embedding", lambda: nn.Embedding(10, 4), LABELS),
    Clean("relu6 in place", lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4).eval(), nn.ReLU6(inplace=True)), X),
]
