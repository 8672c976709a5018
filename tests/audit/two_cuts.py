"""Functions and modules in which two places cut the gradient at once. Every culprit line carries ``# cut: name``.

Owns: the functions, their inputs, and the command that counts: ``python tests/audit/two_cuts.py``.
Must not: be imported by the library.
Read next: ``test_two_cuts.py``.
"""

import itertools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import edition_causes as causes
import numpy as np
import torch
from torch import nn

from pellucid.audit import AuditReport, Severity, audit

_G = torch.Generator().manual_seed(77)
X = torch.rand(2, 3, 8, 8, generator=_G) + 0.1
GAIN = torch.rand(3, 1, 1, generator=_G) + 0.5
ANGLE = torch.tensor(0.3)
FEW = {"modes": False, "degenerate": False, "quick": True}
CUTS: list["Two"] = []
_LINE = re.compile(r"(\w+\.py:\d+)")


@dataclass(frozen=True)
class Two:
    """A callable with two lines that cut; ``category`` is that of the finding, or several with "|"."""

    name: str
    make: Callable[[], object]
    inputs: object
    category: str = "detached"
    steps: tuple[str, ...] = ()

    def audit(self) -> AuditReport:
        return audit(self.make(), self.inputs, name=self.name, **FEW)

    @property
    def lines(self) -> set[str]:
        """The lines that cut, as ``file.py:line``."""
        marks = [f"# cut: {self.name}", *(f"# bug: {step}" for step in self.steps)]
        found = set()
        for path in (Path(__file__), Path(causes.__file__)):
            lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
            found |= {f"{path.name}:{number}" for number, line in lines if line.rstrip().endswith(tuple(marks))}
        return found

    def named(self, report: AuditReport) -> set[str]:
        """The lines that errors of the category name."""
        hits = [f for f in report.at_least(Severity.ERROR) if str(f.category) in self.category.split("|")]
        return set(_LINE.findall(" ".join(f"{f.place} {f.message}" for f in hits)))


def _two(inputs: object = X, category: str = "detached") -> Callable[[object], object]:
    def keep(made: object) -> object:
        CUTS.append(Two(made.__name__, made if isinstance(made, type) else lambda: made, inputs, category))
        return made

    return keep


# One behind the other: mending the first leaves the second.
@_two()
def series_of_detaches(x):
    centre = x.mean((2, 3), keepdim=True).detach()  # cut: series_of_detaches
    scale = (centre * 2).exp().detach()  # cut: series_of_detaches
    return x.sin() * scale


@_two()
def series_alone(x):
    y = x.sin().detach()  # cut: series_alone
    return y.square().detach()  # cut: series_alone


@_two()
def data_then_detach(x):
    level = x.data.amax((1, 2, 3), keepdim=True) + 1  # cut: data_then_detach
    return x / level.sqrt().detach()  # cut: data_then_detach


@_two()
def detach_then_data(x):
    y = x.detach().cumsum(-1)  # cut: detach_then_data
    return x * y.log1p().data  # cut: detach_then_data


@_two()
def detach_then_numpy(x):
    y = (x * 3).detach()  # cut: detach_then_numpy
    blurred = np.cumsum(y.sin().numpy(), -1)  # cut: detach_then_numpy
    return x.square() + torch.from_numpy(blurred)


@_two()
def two_no_grad_blocks(x):
    with torch.no_grad():
        mean = x.mean((2, 3), keepdim=True)  # cut: two_no_grad_blocks
    mean = mean.square()
    with torch.no_grad():
        spread = (mean + 1).sqrt()  # cut: two_no_grad_blocks
    return x / spread


@_two()
def no_grad_then_rebuilt(x):
    with torch.no_grad():
        gains = x.mean((0, 2, 3))  # cut: no_grad_then_rebuilt
    table = torch.tensor([2 * g for g in gains], dtype=x.dtype)  # cut: no_grad_then_rebuilt
    return x * table[:, None, None]


@_two((X, ANGLE))
def item_then_tensor(x, angle):
    turned = math.cos(angle.item())  # cut: item_then_tensor
    shift = torch.tensor(turned).mul(3).item()  # cut: item_then_tensor
    return x * shift


# Side by side: each explains a part.
@_two()
def parallel_detaches(x):
    a = x.sin().detach()  # cut: parallel_detaches
    b = x.square().detach()  # cut: parallel_detaches
    return a * x + b


@_two()
def parallel_alone(x):
    left = x[..., :4].detach().sin()  # cut: parallel_alone
    right = x[..., 4:].square().data  # cut: parallel_alone
    return torch.cat([left, right], -1)


@_two()
def detach_beside_numpy(x):
    a = x.mean(1, keepdim=True).detach()  # cut: detach_beside_numpy
    b = torch.from_numpy(np.sin(x.detach().numpy()))  # cut: detach_beside_numpy
    return x * a + b


@_two()
def detach_beside_item(x):
    total = x.square().sum().item()  # cut: detach_beside_item
    return x * total + x.exp().detach()  # cut: detach_beside_item


@_two()
def no_grad_beside_data(x):
    with torch.no_grad():
        a = x.cos()  # cut: no_grad_beside_data
    return x * a + x.data.square()  # cut: no_grad_beside_data


@_two((X, GAIN))
def one_for_each_leaf(x, gain):
    return x.detach().sin() * gain.exp().detach() + x.mean() * gain  # cut: one_for_each_leaf


@_two((X, GAIN))
def two_of_a_parameter(x, gain):
    a = x * gain.detach()  # cut: two_of_a_parameter
    b = x.sin() * gain.square().data  # cut: two_of_a_parameter
    return a + b


@_two()
def cancelling_halves(x):
    a = x.sin().detach()  # cut: cancelling_halves
    b = (2 * x).sin().detach()  # cut: cancelling_halves
    return x + a - 0.5 * b


@_two()
def weak_beside_strong(x):
    strong = x.exp().detach() * 100  # cut: weak_beside_strong
    weak = x.sin().detach() * 0.01  # cut: weak_beside_strong
    return x + strong + weak


# Among harmless ones.
@_two()
def among_harmless(x):
    largest = x.detach().amax()
    shifted = x - largest
    soft = shifted.exp()
    gate = (soft / soft.sum(1, keepdim=True)).detach()  # cut: among_harmless
    mean = x.mean((2, 3), keepdim=True).detach()  # cut: among_harmless
    return x * gate - mean


@_two()
def in_a_loop(x):
    y = x
    for _ in range(3):
        y = y + 0.1 * y.sin().detach()  # cut: in_a_loop
    return y + x.square().detach()  # cut: in_a_loop


def _normalised(x):
    return x / (x.square().mean((2, 3), keepdim=True) + 1).sqrt().detach()  # cut: in_two_helpers


def _offset(x):
    return x.mean((1, 2, 3), keepdim=True).data  # cut: in_two_helpers


@_two()
def in_two_helpers(x):
    return _normalised(x) + _offset(x)


@_two()
def three_ways(x):
    a = x.detach()  # cut: three_ways
    b = torch.tensor(x.sin().tolist())  # cut: three_ways
    with torch.no_grad():
        c = x.square()  # cut: three_ways
    return x + a * b + c


class _Squeeze(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.full((3, 3), 0.2))

    def forward(self, x):
        pooled = x.mean((2, 3)).detach()  # cut: SubmoduleAndBody
        return torch.sigmoid(pooled @ self.weight.detach())  # cut: SubmoduleAndBody


@_two()
class SubmoduleAndBody(nn.Module):
    def __init__(self):
        super().__init__()
        self.squeeze = _Squeeze()
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x):
        gate = self.squeeze(x)[:, :, None, None]
        return x * gate * self.scale.data  # cut: SubmoduleAndBody


class _Inner(nn.Module):
    def forward(self, x):
        return x.square().detach()  # cut: InnerAndOuter


@_two()
class InnerAndOuter(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = _Inner()

    def forward(self, x):
        return x + self.inner(x).sqrt().detach()  # cut: InnerAndOuter


@_two()
class BufferInPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("running", torch.zeros(3))

    def forward(self, x):
        with torch.no_grad():
            self.running.mul_(0.9).add_(x.mean((0, 2, 3)))  # cut: BufferInPlace
        spread = x.std((0, 2, 3)).detach()  # cut: BufferInPlace
        return (x - self.running[:, None, None]) / spread[:, None, None]


@_two()
def canvas_filled_in_place(x):
    canvas = torch.zeros_like(x)
    canvas.copy_(x.sin().detach())  # cut: canvas_filled_in_place
    return x * canvas + x.data.square()  # cut: canvas_filled_in_place


# Staircases beside cuts.
@_two()
def round_beside_detach(x):
    gain = x.mean((2, 3), keepdim=True).detach()  # cut: round_beside_detach
    return x * gain + x.sin().detach() + (x * 7).round()  # cut: round_beside_detach


@_two()
def integer_cast_beside_detach(x):
    rows = (x[:, 0] * 7).long().clamp(0, 7)
    picked = x.detach().sin().gather(2, rows[:, None].expand(-1, 3, -1, -1))  # cut: integer_cast_beside_detach
    return picked + x * x.square().mean().detach()  # cut: integer_cast_beside_detach


@_two()
def threshold_beside_cuts(x):
    mask = (x > 0.5).to(x.dtype)
    return mask * x.sin().detach() + (1 - mask) * x.cos().data + x  # cut: threshold_beside_cuts


class _Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x.sin()

    @staticmethod
    def backward(ctx, g):
        return g  # cut: detach_and_wrong_backward


@_two(category="detached|wrong")
def detach_and_wrong_backward(x):
    return _Doubled.apply(x) * x.mean().detach()  # cut: detach_and_wrong_backward


@_two(category="detached|wrong")
def detach_and_hook(x):
    y = x.sin()
    if y.requires_grad:
        y.register_hook(lambda g: g * 2)  # cut: detach_and_hook
    return y * x.square().detach()  # cut: detach_and_hook


# Every two of the second edition's guilty steps, one after the other, and added.
def _both(first, second):
    return lambda x: first(x) + second(x)


def _composed(how, first, second):
    names = (first.__name__, second.__name__)
    return Two(f"{names[0]} {how.__name__} {names[1]}", lambda: how(first, second), X, "detached|wrong", names)


CUTS += [_composed(causes.after, *pair) for pair in itertools.permutations(causes.GUILTY, 2)]
CUTS += [_composed(_both, *pair) for pair in itertools.combinations(causes.GUILTY, 2)]


if __name__ == "__main__":
    torch.set_num_threads(1)
    right = 0
    for two in CUTS:
        report = two.audit()
        named, wanted = two.named(report), two.lines
        right += named == wanted
        if named != wanted:
            print(f"{two.name}: named {sorted(named)} of {sorted(wanted)}")
            print(*(f"    {f.category} {f.severity.label} ({f.subject}) {f.place}: {f.message}" for f in report.findings), sep="\n")
    print(f"every line of two cuts, and no other, is named: {right} of {len(CUTS)}")
