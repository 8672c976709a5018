"""Planted bugs that write, draw, read or compile where they should not. Every culprit line carries ``# bug: name``.

Owns: functions with one hazard each, from real life, and the inputs that run them.
Must not: be imported by the library.
Read next: ``corpus.py``.
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

GENERATOR = torch.Generator().manual_seed(3)


def clamps_its_input(x):
    x.clamp_(0.1, 0.9)  # bug: clamps_its_input
    return x * 2


def writes_through_numpy(x):
    x.detach().numpy()[:, :, :4] = 0.0  # bug: writes_through_numpy
    return x.sin()


def normalizes_in_place(x):
    x -= x.mean((2, 3), keepdim=True)  # bug: normalizes_in_place
    return x


def overwrites_saved_output(x):
    y = x.exp()
    y += 1  # bug: overwrites_saved_output
    return y


def scales_unbound_rows(x):
    rows = (x + 0).unbind(0)
    for row in rows:
        row.mul_(2)  # bug: scales_unbound_rows
    return torch.stack(rows)


def data_clamp(x):
    y = x * 1.5
    y.data.clamp_(0.2, 0.8)  # bug: data_clamp
    return y.square()


def detached_alias_write(x):
    y = x * 2
    y.detach().mul_(x.detach())  # bug: detached_alias_write
    return y


class ClampedParameter(nn.Module):
    """Keeps its parameter in range by writing to it in forward."""

    def __init__(self):
        super().__init__()
        self.strength = nn.Parameter(torch.tensor([0.3, 1.4, 0.5]).reshape(3, 1, 1))

    def forward(self, x):
        self.strength.data.clamp_(0, 1)  # bug: clamped_parameter
        return x * self.strength


def expand_then_write(x):
    canvas = x.mean(0, keepdim=True).expand(2, -1, -1, -1)
    canvas[0] = canvas[0] * 2  # bug: expand_then_write
    return canvas + x


def generator_in_checkpoint(x):
    def noisy(t):
        return t * torch.rand(t.shape, generator=GENERATOR, dtype=t.dtype)  # bug: generator_in_checkpoint

    return checkpoint(noisy, x, use_reentrant=False)


def numpy_in_checkpoint(x):
    def noisy(t):
        return t * torch.from_numpy(np.random.rand(*t.shape)).to(t.dtype)  # bug: numpy_in_checkpoint

    return checkpoint(noisy, x, use_reentrant=False)


def unpreserved_state(x):
    def drop(t):
        return F.dropout(t, 0.5)  # bug: unpreserved_state

    return checkpoint(drop, x, use_reentrant=False, preserve_rng_state=False)


def hidden_generator(x):
    return x + 0.1 * torch.randn(x.shape, generator=GENERATOR, dtype=x.dtype) * x


def fresh_generator(x):
    generator = torch.Generator()
    generator.seed()
    return x * torch.rand(x.shape, generator=generator, dtype=x.dtype)  # bug: fresh_generator


class CountsCalls:
    """Changes with every call."""

    def __init__(self):
        self.calls = 0

    def __call__(self, x):
        self.calls += 1
        return x * (1 + 1 / self.calls)


def hard_coded_float32(x):
    return x.float() * 0.5 + 0.5  # bug: hard_coded_float32


def numpy_constant_float64(x):
    ramp = torch.from_numpy(np.linspace(0.5, 1.0, x.shape[-1]))
    return x * ramp  # bug: numpy_constant_float64


def branch_on_value(x):
    if x.mean() > 0.5:  # bug: branch_on_value
        return x * 2
    return x * 3


def steps_from_value(x):
    for _ in range(int(x.mean() * 8)):  # bug: steps_from_value
        x = x * 1.1
    return x


def prints(x):
    y = x * 2
    print("", end="")  # bug: prints
    return y + 1


def loops_over_batch(x):
    return torch.stack([row * (index + 1) for index, row in enumerate(x)])


def nan_grid_with_border(x, grid):
    return F.grid_sample(x, grid, padding_mode="border", align_corners=False)  # bug: nan_grid_with_border


class UnusedParameter(nn.Module):
    """Defines a parameter and forgets it."""

    def __init__(self):
        super().__init__()
        self.used = nn.Parameter(torch.ones(3, 1, 1))
        self.forgotten = nn.Parameter(torch.ones(3, 1, 1))

    def forward(self, x):
        return x * self.used
