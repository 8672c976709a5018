"""Functions with nothing wrong: torch's own operations and compositions of them as people write them.

Owns: the clean half of the corpus. A finding above "note" on any of them is a false alarm.
Must not: contain functions that are singular inside [0, 1], such as a bare square root: reporting those is right.
Read next: ``corpus.py``.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

_G = torch.Generator().manual_seed(5)
X = torch.rand(2, 3, 16, 16, generator=_G)
Z = torch.randn(2, 3, 16, 16, generator=_G)
ROWS = torch.randn(6, 8, generator=_G)
GRID = torch.rand(2, 8, 8, 2, generator=_G) * 2 - 1
KERNEL = torch.randn(4, 3, 3, 3, generator=_G)
SQUARE = torch.randn(5, 5, generator=_G) + 4 * torch.eye(5)
LABELS = torch.tensor([0, 3, 1, 2, 7, 5])
THETA = torch.tensor([[[1.1, 0.2, 0.05], [-0.1, 0.9, 0.1]]] * 2)


@dataclass(frozen=True)
class Clean:
    """A callable the audit must leave in peace."""

    name: str
    make: Callable[[], object]
    inputs: object
    options: dict = field(default_factory=dict)


def _c(name: str, fn: object, inputs: object = X) -> Clean:
    return Clean(name, lambda: fn, inputs)


def _m(name: str, make: Callable[[], nn.Module], inputs: object = X) -> Clean:
    return Clean(name, make, inputs)


class _StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.round(x * 7) / 7

    @staticmethod
    def backward(ctx, g):
        return g


class _HiddenFloat32(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.float().sin().to(x.dtype)

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0].cos()


def _float32_only(x):
    if x.dtype != torch.float32:
        raise TypeError("this kernel takes float32")
    return x.sin().clamp(0.1, 0.7)


def _affine(x, theta):
    return F.grid_sample(x, F.affine_grid(theta, list(x.shape), align_corners=False), align_corners=False)


def _ssim(x):
    blur = torch.full((3, 1, 3, 3), 1 / 9, dtype=x.dtype)
    y = x.flip(-1)
    mx, my = F.conv2d(x, blur, groups=3), F.conv2d(y, blur, groups=3)
    sx = F.conv2d(x * x, blur, groups=3) - mx * mx
    sy = F.conv2d(y * y, blur, groups=3) - my * my
    sxy = F.conv2d(x * y, blur, groups=3) - mx * my
    return (2 * mx * my + 1e-2) * (2 * sxy + 9e-2) / ((mx * mx + my * my + 1e-2) * (sx + sy + 9e-2))


def _safe_sqrt(x):
    dark = x < 1e-4
    return torch.where(dark, 0.0, torch.where(dark, 1.0, x).sqrt())


def _stable_softmax(x):
    e = (x - x.amax(1, keepdim=True).detach()).exp()
    return e / e.sum(1, keepdim=True)


def _contrast(x, c):
    mean = (x * x.new_tensor([0.299, 0.587, 0.114])[:, None, None]).sum(1, keepdim=True).mean((2, 3), keepdim=True)
    return (x - mean) * c + mean


CLEAN = [
    _c("sin", torch.sin),
    _c("exp", torch.exp),
    _c("sigmoid", torch.sigmoid, Z),
    _c("relu", torch.relu, Z),
    _c("abs", torch.abs, Z),
    _c("relu at zero", torch.relu, torch.zeros(2, 3, 8, 8)),
    _c("gelu", F.gelu, Z),
    _c("leaky_relu", F.leaky_relu, Z),
    _c("hardtanh", F.hardtanh, Z),
    _c("softplus", F.softplus, Z),
    _c("clamp saturated", lambda x: (2 * x - 0.5).clamp(0, 1)),
    _c("round", lambda x: torch.round(x * 5)),
    _c("floor", lambda x: torch.floor(x * 5)),
    _c("sign", torch.sign, Z),
    _c("straight-through round", lambda x: x + (torch.round(x * 7) / 7 - x).detach()),
    _c("straight-through function", _StraightThrough.apply),
    _c("kernel with hidden float32", _HiddenFloat32.apply),
    _c("kernel for float32 only", _float32_only),
    _c("threshold mask", lambda x, m: torch.where(m > 0.5, x, 0.0), (X, X.flip(0))),
    _c("maximum", torch.maximum, (X, X.flip(-1))),
    _c("amax", lambda x: x.amax((2, 3))),
    _c("max with indices", lambda x: x.max(-1).values),
    _c("argmax", lambda x: x.argmax(1)),
    _c("sort", lambda x: x.sort(-1).values),
    _c("topk", lambda x: x.topk(4, -1).values),
    _c("median", lambda x: x.median(-1).values),
    _c("cumsum", lambda x: x.cumsum(-1)),
    _c("logsumexp", lambda x: x.logsumexp(1)),
    _c("softmax", lambda x: x.softmax(1), Z),
    _c("stable softmax with a detach", _stable_softmax, Z),
    _c("log_softmax", lambda x: x.log_softmax(1), Z),
    _c("log with a floor", lambda x: torch.log(x + 1e-2)),
    _c("safe sqrt", _safe_sqrt),
    _c("matmul", torch.matmul, (ROWS, ROWS.mT)),
    _c("inverse", torch.linalg.inv, SQUARE),
    _c("solve", torch.linalg.solve, (SQUARE, SQUARE[:, :2].clone())),
    _c("determinant", torch.linalg.det, SQUARE),
    _c("cdist", torch.cdist, (ROWS, ROWS.flip(0) + 1)),
    _c("cross entropy", lambda x: F.cross_entropy(x, LABELS), ROWS),
    _c("smooth l1", F.smooth_l1_loss, (X, X.flip(0))),
    _c("mse", F.mse_loss, (X, X.flip(0))),
    _c("cosine similarity", lambda x, y: F.cosine_similarity(x, y, eps=1e-2), (ROWS, ROWS.flip(0))),
    _c("normalize with a floor", lambda x: F.normalize(x, dim=1, eps=1e-2)),
    _c("conv2d", F.conv2d, (X, KERNEL)),
    _c("conv_transpose2d", lambda x, k: F.conv_transpose2d(x, k.mT.transpose(0, 1)[:3], stride=2), (X, KERNEL)),
    _c("unfold and fold", lambda x: F.fold(F.unfold(x, 3, padding=1), (16, 16), 3, padding=1)),
    _c("max_pool2d", lambda x: F.max_pool2d(x, 2)),
    _c("avg_pool2d", lambda x: F.avg_pool2d(x, 3, 2)),
    _c("adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, 5)),
    _c("pad reflect", lambda x: F.pad(x, (2, 2, 2, 2), "reflect")),
    _c("interpolate bilinear", lambda x: F.interpolate(x, scale_factor=1.7, mode="bilinear", align_corners=False)),
    _c("interpolate bicubic", lambda x: F.interpolate(x, size=(11, 9), mode="bicubic", align_corners=False)),
    _c("interpolate nearest", lambda x: F.interpolate(x, scale_factor=0.5)),
    _c("interpolate antialiased", lambda x: F.interpolate(x, size=(7, 7), mode="bilinear", antialias=True)),
    _c("grid_sample", lambda x, g: F.grid_sample(x, g, align_corners=False), (X, GRID)),
    _c("grid_sample nearest", lambda x, g: F.grid_sample(x, g, "nearest", align_corners=False), (X, GRID)),
    _c("affine warp", _affine, (X, THETA)),
    _c("affine warp at the identity", _affine, (X, torch.eye(2, 3).repeat(2, 1, 1))),
    _c("flip", lambda x: x.flip(-1)),
    _c("roll", lambda x: x.roll(3, -1)),
    _c("crop", lambda x: x[..., 2:10, 3:11]),
    _c("view", lambda x: x.flatten(1)),
    _c("index", lambda x: x[:, torch.tensor([2, 0, 1])]),
    _c("gather", lambda x: x.gather(-1, torch.arange(15, -1, -1).expand(2, 3, 16, 16))),
    _c("scatter_add", lambda x: torch.zeros_like(x).scatter_add(-1, torch.arange(16).expand(2, 3, 16, 16) // 2, x)),
    _c("write to its own canvas", lambda x: torch.zeros_like(x).index_copy_(-1, torch.arange(8), x[..., :8])),
    _c("fft", lambda x: torch.fft.rfft2(x)),
    _c("std with a floor", lambda x: x.var((2, 3)).add(1e-3).sqrt()),
    _c("ssim", _ssim),
    _c("contrast", _contrast, (X, torch.tensor([0.8, 1.3]).reshape(2, 1, 1, 1))),
    _c("atan2", torch.atan2, (X + 1, X.flip(0) + 1)),
    _c("einsum", lambda x, m: torch.einsum("ij,bjhw->bihw", m, x), (X, SQUARE[:3, :3].clone())),
    _c("dropout", lambda x: F.dropout(x, 0.3)),
    _c("noise", lambda x: x + 0.1 * torch.randn_like(x)),
    _c("gumbel softmax", lambda x: F.gumbel_softmax(x, dim=1), Z),
    _c("checkpoint", lambda x: checkpoint(torch.sin, x, use_reentrant=False)),
    _c("checkpointed dropout", lambda x: checkpoint(F.dropout, x, use_reentrant=False)),
    _c("attention", F.scaled_dot_product_attention, (X, X.flip(0), X.flip(-1))),
    _m("linear", lambda: nn.Linear(8, 4), ROWS),
    _m("conv and relu", lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(inplace=True), nn.Conv2d(4, 2, 3))),
    _m("conv and batch norm", lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))),
    _m("batch norm", lambda: nn.BatchNorm2d(3)),
    _m("batch norm in eval mode", lambda: nn.BatchNorm2d(3).eval()),
    _m("instance norm", lambda: nn.InstanceNorm2d(3)),
    _m("group norm", lambda: nn.GroupNorm(3, 3)),
    _m("layer norm", lambda: nn.LayerNorm([16, 16])),
    _m("prelu", lambda: nn.PReLU(), Z),
    _m("lstm", lambda: nn.LSTM(8, 4), ROWS),
    _m("attention layer", lambda: nn.MultiheadAttention(8, 2), (ROWS, ROWS.flip(0), ROWS)),
    _m("encoder layer", lambda: nn.TransformerEncoderLayer(8, 2, 16), ROWS),
    _m("identity", nn.Identity),
    _m("dropout in eval mode", lambda: nn.Dropout().eval()),
    _m("weight norm", lambda: nn.utils.parametrizations.weight_norm(nn.Linear(8, 4)), ROWS),
]
