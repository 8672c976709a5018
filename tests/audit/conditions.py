"""Sixty gradients that are wrong under a condition that the shown inputs do not meet, and clean functions that switch on the same.

Owns: the lists by group, and the command that counts: ``python tests/audit/conditions.py``.
Must not: contain the faulty functions themselves.
Read next: ``conditions_wrong.py``.
"""

import conditions_wrong as w
import torch
import torch.nn.functional as F
from clean_functions import Clean
from conditions_wrong import COLUMNS_FROM, HALVES, SAMPLES_FROM, beyond, faulty, from_size, in_dtype, unless_asked
from corpus import Bug, score
from torch import nn

_G = torch.Generator().manual_seed(71)
X = torch.rand(2, 3, 16, 16, generator=_G)
Y = torch.rand(2, 3, 16, 16, generator=_G)
ROWS = torch.rand(4, 8, generator=_G)
WEIGHT = torch.randn(8, 6, generator=_G)
BIAS = torch.randn(6, generator=_G)
KERNEL = torch.randn(4, 3, 3, 3, generator=_G)
MATRIX = torch.randn(3, 3, generator=_G)
A = torch.tensor(0.4)
MOVE = torch.full((2, 3), 0.03)
F16, BF16, F32 = torch.float16, torch.bfloat16, torch.float32
BIG = torch.randn(700, 5, generator=_G)
LAYER = (ROWS, WEIGHT, BIAS)


def _b(name, make, inputs, category, subject=None):
    return Bug(name, make, inputs, category, subject, line=False)


def _f(base, fault, when, inputs, category, at=0, told=""):
    said = fault if isinstance(fault, str) else "halved from there on"
    return _b(f"{base}: {said} {told}", lambda: faulty(base, fault, when, at), inputs, category)


_LOW = "wrong|precision|detached|coverage"
DTYPES = [
    _f("curve", "halved", in_dtype(F32), X, _LOW, told="in float32"),
    _f("curve", "rounded", in_dtype(F32), X, _LOW, told="in float32"),
    _f("gain", "reversed", in_dtype(F32), (X, A), _LOW, at=1, told="in float32"),
    _f("layer", "missing", in_dtype(F32), LAYER, _LOW, at=1, told="in float32"),
    _f("filter", "last row lost", in_dtype(F32), (X, KERNEL), _LOW, told="in float32"),
    _f("warp", "off by a fifth", in_dtype(F32, *HALVES), (X, MOVE), _LOW, at=1, told="below float64"),
    _f("scaled", "halved", in_dtype(F16), X, _LOW, told="in float16"),
    _f("soft", "zero", in_dtype(BF16), (X, A), _LOW, told="in bfloat16"),
    _f("centred", "first sample twice", in_dtype(*HALVES), X, _LOW, told="in half"),
    _b("fused with a fallback", lambda: w.fused_with_a_fallback, X, _LOW),
    _b("detached in float32", lambda: w.detached_in_float32, X, _LOW),
    _b("coarse statistics in float32", lambda: w.coarse_statistics_in_float32, X, _LOW),
    _b("unscaled in half", lambda: w.unscaled_in_half, X, _LOW),
    _b("fast layer", w.FastLayer, X, _LOW, "weight"),
    _b("dropped with noise", w.DroppedWithNoise, X, _LOW),
]
_PART = "detached|wrong|raises|state"
SUBSETS = [
    _f("gain", "missing", unless_asked(0), (X, A), _PART, at=1, told="if the picture is data"),
    _f("gain", "reversed", unless_asked(1), (X, A), _PART, at=0, told="if the gain is fixed"),
    _f("layer", "zero", unless_asked(0), LAYER, _PART, at=2, told="if the rows are data"),
    _f("layer", "off by a fifth", unless_asked(2), LAYER, _PART, at=0, told="if the bias is fixed"),
    _f("layer", "halved", unless_asked(0, 2), LAYER, _PART, at=1, told="if only the weight learns"),
    _f("filter", "rolled", unless_asked(0), (X, KERNEL), _PART, at=1, told="if the picture is data"),
    _f("blend", "halved", unless_asked(1), (X, Y, A), _PART, at=2, told="if the second picture is data"),
    _f("blend", "missing", unless_asked(0, 1), (X, Y, A), _PART, at=2, told="if both pictures are data"),
    _f("warp", "clipped", unless_asked(0), (X, MOVE), _PART, at=1, told="if the picture is data"),
    _f("matrix", "last row lost", unless_asked(1), (X, MATRIX), _PART, at=0, told="if the matrix is fixed"),
    _b("constant unless the picture learns", lambda: w.constant_unless_the_picture_learns, (X, A), _PART),
    _b("no grad unless the gain learns", lambda: w.no_grad_unless_the_gain_learns, (X, A), _PART),
    _b("frozen bias", w.FrozenBias, ROWS, _PART, "weight"),
    _b("unpacks", lambda: w.unpacks, (X, A), _PART),
    _b("two frozen", lambda: w.two_frozen, (X, Y, A), _PART),
]
_SIZE = "shape|wrong|detached"
SIZES = [
    _f("curve", COLUMNS_FROM[32], from_size(-1, 33), X, _SIZE, told="with 33 columns"),
    _f("curve", COLUMNS_FROM[64], from_size(-1, 65), X, _SIZE, told="with 65 columns"),
    _f("centred", "halved", from_size(-1, 32), X, _SIZE, told="with 32 columns"),
    _f("scaled", "off by a fifth", from_size(-1, 129), X, _SIZE, told="with 129 columns"),
    _f("cumulated", COLUMNS_FROM[100], from_size(-1, 101), X, _SIZE, told="with 101 columns"),
    _f("warp", "rolled", from_size(-1, 40), (X, MOVE), _SIZE, told="with 40 columns"),
    _f("soft", "halved", from_size(-1, 65), (X, A), _SIZE, at=1, told="with 65 columns"),
    _f("curve", COLUMNS_FROM[32], from_size(-1, 33), ROWS, _SIZE, told="in rows of 33"),
    _f("gain", SAMPLES_FROM[8], from_size(0, 9), (X, A), _SIZE, told="with 9 samples"),
    _f("filter", "reversed", from_size(0, 8), (X, KERNEL), _SIZE, at=1, told="with 8 samples"),
    _f("curve", SAMPLES_FROM[16], from_size(0, 33), X, _SIZE, told="with 33 samples"),
    _f("layer", "off by a fifth", from_size(0, 33), LAYER, _SIZE, at=2, told="with 33 rows"),
    _b("blocks of 32", lambda: w.blocks_of_32, X, _SIZE),
    _b("chunks of eight", lambda: w.chunks_of_eight, X, _SIZE),
    _b("fast path for large", lambda: w.fast_path_for_large, X, _SIZE),
    _b("long rows", w.LongRows, X, _SIZE, "weight"),
]
_FAR = "wrong|detached|coverage"
RANGES = [
    _f("curve", "halved", beyond(lambda x: x > 3), X, _FAR, told="above 3"),
    _f("curve", "reversed", beyond(lambda x: x < 0), X, _FAR, told="below 0"),
    _f("gain", "off by a fifth", beyond(lambda x: x < -2), (X, A), _FAR, told="below -2"),
    _f("filter", "zero", beyond(lambda x: x > 1.5), (X, KERNEL), _FAR, told="above 1.5"),
    _f("layer", "halved", beyond(lambda x: x > 3), LAYER, _FAR, told="above 3"),
    _f("centred", "rolled", beyond(lambda x: bool((x > 10).any())), X, _FAR, told="where one is above 10"),
    _f("gain", "halved", beyond(lambda a: bool(a > 1), 1), (X, A), _FAR, at=1, told="for a gain above 1"),
    _f("gain", "reversed", beyond(lambda a: bool(a < -1), 1), (X, A), _FAR, at=1, told="for a gain below -1"),
    _f("matrix", "last row lost", beyond(lambda x: bool((x.abs() > 3).any())), (X, MATRIX), _FAR, told="beyond 3"),
    _b("saturates without a slope", lambda: w.saturates_without_a_slope, X, _FAR),
    _b("guarded", lambda: w.guarded, X, _FAR),
    _b("signed square", lambda: w.signed_square, X, _FAR),
    _b("bytes are constants", lambda: w.bytes_are_constants, X, _FAR),
    _b("far angle", lambda: w.far_angle, (X, A), _FAR),
]
GROUPS = {"dtypes": DTYPES, "subsets": SUBSETS, "sizes": SIZES, "ranges": RANGES}
CONDITIONS = [bug for bugs in GROUPS.values() for bug in bugs]


def _never(_ctx, _leaves):
    return False


def blocked(x):
    """Columns in blocks of 32, as fast code takes them."""
    return torch.cat([part.sin() for part in x.split(32, -1)], -1)


def by_dtype(x):
    """Another formula for float64, right in both."""
    return x.sigmoid() if x.dtype == torch.float64 else 0.5 * ((0.5 * x).tanh() + 1)


def robust(x):
    return torch.where(x.abs() > 3, 6 * x.abs() - 9, x.square())


class Careful(nn.Module):
    """Computes less where less is asked for, and gets it right."""

    def __init__(self):
        super().__init__()
        self.weight, self.bias = nn.Parameter(0.3 * torch.ones(8, 4)), nn.Parameter(torch.linspace(0, 1, 4))

    def forward(self, x):
        return faulty("layer", "zero", _never)(x, self.weight, self.bias)


CLEAN_CONDITIONS = [
    *(
        Clean(f"{name}, right everywhere", lambda name=name: faulty(name, "zero", _never), inputs)
        for name, inputs in {
            "curve": X, "gain": (X, A), "layer": LAYER, "filter": (X, KERNEL), "centred": X, "scaled": X, "warp": (X, MOVE),
            "cumulated": X, "soft": (X, A), "blend": (X, Y, A), "matrix": (X, MATRIX),
        }.items()
    ),
    Clean("blocked", lambda: blocked, X),
    Clean("by dtype", lambda: by_dtype, X),
    Clean("robust", lambda: robust, X),
    Clean("careful", Careful, ROWS),
    Clean("frozen weight", lambda: nn.Linear(8, 4).requires_grad_(False), ROWS),
    Clean("long sum", lambda: lambda x: x.cumsum(-1).mean() + x.square().sum() / 1000, torch.rand(8, 3, 64, 64, generator=_G)),
    Clean("wide product", lambda: lambda x, m: (x @ m).tanh(), (ROWS @ torch.randn(8, 700, generator=_G), BIG / 26)),
    Clean("cancels", lambda: lambda x: (x + 300) - x.mean() - 300, X),
    Clean("small variance", lambda: lambda x: ((x + 20).var((-2, -1), keepdim=True) + 1e-3).sqrt() * x, X),
    Clean("inverse", lambda: lambda m: torch.linalg.inv(m + 0.05 * torch.eye(6)), torch.rand(6, 6, generator=_G) + torch.eye(6)),
    Clean("spectrum", lambda: lambda x: torch.fft.rfft2(x).abs().square().log1p(), X),
    Clean("median", lambda: lambda x: x - x.median(-1, keepdim=True).values, X),
    Clean("largest", lambda: lambda x: F.max_pool2d(x, 2) * x.amax((-2, -1), keepdim=True), X),
    Clean("sorted", lambda: lambda x: x.sort(-1).values.cumsum(-1), X),
    Clean("cosine", lambda: lambda x, y: F.cosine_similarity(x, y, eps=1e-3), (X, Y)),
    Clean("dropped", lambda: nn.Sequential(nn.Dropout(0.4), nn.Conv2d(3, 4, 3)), X),
    Clean("recurrent", lambda: nn.GRU(8, 5, batch_first=True), torch.rand(2, 12, 8, generator=_G)),
    Clean("power", lambda: lambda x: (x.abs() + 0.2) ** 2.2, X),
    Clean("exponential", lambda: lambda x: x.exp() / (1 + x.exp()), X),
    Clean("thresholded", lambda: lambda x: F.hardswish(4 * x - 2) + F.softshrink(x), X),
    Clean("normalised before a bias cancels", lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)), X),
]  # fmt: skip


if __name__ == "__main__":
    torch.set_num_threads(1)
    for group, bugs in GROUPS.items():
        print(f"{group}:", score(bugs, []), flush=True)
    print("clean:", score([], CLEAN_CONDITIONS))
