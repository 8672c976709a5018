"""Planted bugs whose gradient is not finite or explodes, and parameters gone stale. Culprit lines carry ``# bug: name``.

Owns: functions with one defect each, from real life.
Must not: be imported by the library.
Read next: ``planted_hazards.py``.
"""

import torch
from torch import nn


def gamma_at_black(x):
    return x**0.45  # bug: gamma_at_black


def distance_to_itself(x):
    f = x.flatten(2).mT[:, ::16]
    d = (f[:, :, None] - f[:, None]).square().sum(-1)
    return d.sqrt()  # bug: distance_to_itself


def whitening_by_eigh(x):
    f = x.flatten(2)
    f = f - f.mean(-1, keepdim=True)
    cov = f @ f.mT / f.shape[-1] + 1e-4 * torch.eye(3, dtype=x.dtype)
    w, v = torch.linalg.eigh(cov)  # bug: whitening_by_eigh
    return v @ (w.rsqrt()[..., None] * (v.mT @ f))


def hue_at_grey(x):
    r, g, b = x.unbind(1)
    span = x.amax(1) - x.amin(1)
    hue = (g - b) / span + r  # bug: hue_at_grey
    return torch.where(span > 0, hue, torch.zeros_like(hue))


def stretch_guarded_output(x):
    low, high = x.amin((2, 3), keepdim=True), x.amax((2, 3), keepdim=True)
    y = (x - low) / (high - low)  # bug: stretch_guarded_output
    return torch.where(high > low, y, x)


def angle_at_saturation(x):
    return torch.acos(x.clamp(-1, 1))  # bug: angle_at_saturation


def tiny_eps_in_half(x):
    y = (x - x.mean((2, 3), keepdim=True)).square().mean((2, 3)) + 1e-9
    return y.sqrt()  # bug: tiny_eps_in_half


def flat_patch_std(x):
    mean, std = x.mean((2, 3), keepdim=True), x.std((2, 3), keepdim=True)
    return (x - mean) / (std + 1e-7)  # bug: flat_patch_std


def flat_patch_rsqrt(x):
    mean, var = x.mean((2, 3), keepdim=True), x.var((2, 3), keepdim=True)
    return (x - mean) * torch.rsqrt(var + 1e-7)  # bug: flat_patch_rsqrt


class StaleRange(nn.Module):
    """Keeps a copy of its bound, with the graph: a gradient arrives, the value does not."""

    def __init__(self):
        super().__init__()
        self.high = nn.Parameter(torch.tensor(1.5))
        self._high = self.high.clone()

    def forward(self, x):
        return x * self._high


class StaleKernel(nn.Module):
    """Computes its kernel once, at construction."""

    def __init__(self):
        super().__init__()
        self.sigma = nn.Parameter(torch.tensor(1.2))
        t = torch.arange(-2.0, 3.0)
        kernel = torch.exp(-t.square() / (2 * self.sigma.detach() ** 2))
        self.register_buffer("kernel", kernel / kernel.sum())

    def forward(self, x):
        return torch.nn.functional.conv2d(x, self.kernel.expand(3, 1, 1, 5), padding=(0, 2), groups=3)
