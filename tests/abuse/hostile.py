"""What users might hand in where something else belongs: one pool for every field, made anew for every use."""

import array
import decimal
import enum
import fractions
import math
import pathlib
from collections import deque

import numpy as np
import torch
from torch import nn

import pellucid
from pellucid.random.distributions import Bits, Permutation


class Mode(enum.StrEnum):
    BILINEAR = "bilinear"


class Level(enum.IntEnum):
    TWO = 2


NUMBERS = (
    *(math.nan, math.inf, -math.inf, -1, -1.0, -0.5, 0, 0.0, 1, 1.0, 0.5, 2, 3, 10, 1e30, 1e300, 2**40, 5e-324, 1e-30),
    *(1 + 2j, True, False),
)
TEXTS = ("", "false", "true", "1", "nan", "bilinear", "zeros", "none", "end", "random", "xyxy", "é\n{}%s", b"1", b"", b"\x01\x02")
SEQUENCES = (
    *((), (1,), (1, 2), (2, 1), (0, 0), (0.25, 0.5), (-2, -1), (1, 2, 3), (1, 2, 3, 4), (4, 3, 2, 1), (1, 2, 3, 4, 5)),
    *((0.25, 0.5, 0.75), (-1, 0, 1), (0, 1), (1, 1, 1), (3, 5), (0.2, 1e300), (2**40, 2**40)),
    *((math.nan, 1), (0, math.inf), (-math.inf, math.inf), (0.5, math.nan, 0.5), (math.nan,) * 4),
    *(("1", "2"), (1, "2"), (None, 1), (True, False), (False, True, True), (1, None), (1 + 1j, 2)),
    *((((1, 2),),), ((1,), (2,)), ((1, 2), (3, 4)), ((0, 0.2), (0, 0.2)), (((((1,),),),),)),
)


def _lists(value):
    return [_lists(part) for part in value] if isinstance(value, tuple) else value


_MAKERS = {
    "None": lambda: None,
    "huge": lambda: 10**400,
    "minus huge": lambda: -(10**400),
    "(huge, huge)": lambda: (10**400, 10**400),
    "long text": lambda: "x" * 5000,
    "bytearray": lambda: bytearray(b"1"),
    "Ellipsis": lambda: ...,
    "NotImplemented": lambda: NotImplemented,
    "object": object,
    "class": lambda: int,
    "exception": lambda: ValueError("no"),
    "module": lambda: math,
    "slice": lambda: slice(1, 2),
    "dict": lambda: {"low": 1, "high": 2},
    "empty dict": dict,
    "number dict": lambda: {0: 0.1, 1: 0.2},
    "set": lambda: {0.25, 0.5},
    "frozenset": lambda: frozenset((0.25, 0.5)),
    "range(2)": lambda: range(2),
    "range(1, 4)": lambda: range(1, 4),
    "iterator": lambda: iter([1, 2]),
    "generator": lambda: (x for x in (0.25, 0.5)),
    "deque": lambda: deque((0.25, 0.5)),
    "array.array": lambda: array.array("d", (0.25, 0.5)),
    "dict keys": lambda: {1: 0, 2: 0}.keys(),
    "Decimal": lambda: decimal.Decimal("0.5"),
    "Fraction": lambda: fractions.Fraction(1, 2),
    "IntEnum": lambda: Level.TWO,
    "StrEnum": lambda: Mode.BILINEAR,
    "Path": lambda: pathlib.Path("bilinear"),
    "np.float32": lambda: np.float32(0.5),
    "np.float64": lambda: np.float64(0.5),
    "np.float64 nan": lambda: np.float64("nan"),
    "np.float16 inf": lambda: np.float16("inf"),
    "np.int64": lambda: np.int64(3),
    "np.uint8": lambda: np.uint8(3),
    "np.bool_": lambda: np.bool_(True),
    "np.str_": lambda: np.str_("bilinear"),
    "np 0-d": lambda: np.array(0.5),
    "np 1-d": lambda: np.array((0.25, 0.5)),
    "np 1-d int": lambda: np.array((1, 2)),
    "np 1-d of 3": lambda: np.array((0.25, 0.5, 0.75), np.float32),
    "np 2-d": lambda: np.ones((2, 2)),
    "np empty": lambda: np.zeros(0),
    "np text": lambda: np.array("a"),
    "np objects": lambda: np.array((None, 1), dtype=object),
    "tensor 0-d": lambda: torch.tensor(0.5),
    "tensor 0-d int": lambda: torch.tensor(3),
    "tensor 0-d bool": lambda: torch.tensor(True),
    "tensor 1-d": lambda: torch.tensor((0.25, 0.5)),
    "tensor 1-d int": lambda: torch.tensor((1, 2)),
    "tensor 2-d": lambda: torch.ones(2, 2),
    "tensor empty": lambda: torch.zeros(0),
    "tensor complex": lambda: torch.tensor(1j),
    "tensor of the graph": lambda: torch.tensor(0.5, requires_grad=True) * 1.0,
    "pair of tensors": lambda: (torch.tensor(0.25), torch.tensor(0.5)),
    "Parameter": lambda: nn.Parameter(torch.tensor(0.5)),
    "Parameter of 2": lambda: nn.Parameter(torch.ones(2)),
    "Parameter int": lambda: nn.Parameter(torch.tensor(1), requires_grad=False),
    "Parameter empty": lambda: nn.Parameter(torch.zeros(0)),
    "function of the images": lambda: _means,
    "function to None": lambda: _nothing,
    "function to text": lambda: _text,
    "function to a number": lambda: _number,
    "function to another shape": lambda: _shape,
    "module of the images": lambda: nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()),
    "Learnable": lambda: pellucid.Learnable(0.5),
    "Learnable bounded": lambda: pellucid.Learnable(0.5, low=0.0, high=1.0),
    "Learnable outside": lambda: pellucid.Learnable(-7.0, low=-9.0, high=-5.0),
    "pair of Learnables": lambda: (pellucid.Learnable(0.25), pellucid.Learnable(0.5)),
    "Uniform": lambda: pellucid.Uniform(0.25, 0.5),
    "Uniform outside": lambda: pellucid.Uniform(-9.0, -8.0),
    "Constant": lambda: pellucid.Constant(0.5),
    "Normal": lambda: pellucid.Normal(0.5, 0.01),
    "LogUniform": lambda: pellucid.LogUniform(0.25, 0.5),
    "CenteredUniform": lambda: pellucid.CenteredUniform(0.5, 0.1),
    "Bernoulli": lambda: pellucid.Bernoulli(0.5),
    "Categorical": lambda: pellucid.Categorical((0.25, 0.5)),
    "MultivariateNormal": lambda: pellucid.MultivariateNormal((0.0,), ((1.0,),)),
    "MultivariateNormal of 6": lambda: pellucid.MultivariateNormal((0.0,) * 6, tuple((0.01,) * i for i in range(1, 7))),
    "Permutation": lambda: Permutation(4),
    "Bits": Bits,
    "pair of distributions": lambda: (pellucid.Uniform(0.25, 0.5), pellucid.Constant(0.25)),
    "transform": lambda: pellucid.RandomInvert(),
    "pipeline": lambda: pellucid.Pipeline([]),
    "Key": lambda: pellucid.Key(1, 2),
    "dtype": lambda: torch.float16,
    "device": lambda: torch.device("cpu"),
    "size": lambda: torch.Size((2, 3)),
    "image": lambda: torch.rand(1, 3, 4, 4),
}


def _means(images):
    return images.mean((1, 2, 3))


def _nothing(images):
    return None


def _text(images):
    return "0.5"


def _number(images):
    return 0.5


def _shape(images):
    return images.mean((0, 1, 2))


def pool():
    """Every hostile value by its label, as a function that makes it."""
    found = {repr(v): (lambda v=v: v) for v in (*NUMBERS, *TEXTS, *SEQUENCES)}
    found |= {repr(_lists(v)): (lambda v=v: _lists(v)) for v in SEQUENCES}
    return found | _MAKERS


FILE_VALUES = {
    **{repr(v): v for v in (*(n for n in NUMBERS if not isinstance(n, complex)), *(t for t in TEXTS if isinstance(t, str)))},
    **{repr(_lists(v)): _lists(v) for v in SEQUENCES if "j" not in repr(v)},
    "null": None,
    "huge": 10**400,
    "empty table": {},
    "other table": {"a": 1},
    "learnable": {"learnable": 0.5},
    "learnable text": {"learnable": "0.5"},
    "learnable null": {"learnable": None},
    "learnable list": {"learnable": [1]},
    "learnable bounds": {"learnable": 0.5, "low": "0", "high": [1]},
    "learnable by": {"learnable": 0.5, "by": "print"},
    "learnable column": {"learnable": 0.5, "column": "a"},
    "learnable inside out": {"learnable": 0.5, "low": 1.0, "high": 0.0},
    "learnable nan": {"learnable": math.nan},
    "distribution": {"distribution": "Uniform", "low": 0.25, "high": 0.5},
    "distribution text": {"distribution": "Uniform", "low": "0.25", "high": "0.5"},
    "distribution nan": {"distribution": "Uniform", "low": math.nan, "high": 0.5},
    "distribution lacks": {"distribution": "Uniform", "low": 0.25},
    "distribution nested": {"distribution": "Uniform", "low": {"distribution": "Uniform", "low": 0, "high": 1}, "high": 2},
    "distribution unknown": {"distribution": "Cauchy"},
    "distribution list": {"distribution": ["Uniform"]},
    "categorical text": {"distribution": "Categorical", "values": "abc"},
    "categorical none": {"distribution": "Categorical", "values": []},
    "categorical number": {"distribution": "Categorical", "values": 3},
    "categorical nan": {"distribution": "Categorical", "values": [math.nan, 1.0]},
    "bernoulli": {"distribution": "Bernoulli", "p": 0.5},
    "bernoulli temperature": {"distribution": "Bernoulli", "p": 0.5, "temperature": "warm"},
    "multivariate number": {"distribution": "MultivariateNormal", "mean": 0.0, "scale_tril": 1.0},
    "multivariate ragged": {"distribution": "MultivariateNormal", "mean": [0.0, 0.0], "scale_tril": [[1.0], [1.0]]},
}
"""What a TOML or JSON file can say where something else belongs."""
