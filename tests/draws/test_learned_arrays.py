"""Learned arrays: a `Learnable` of any shape is one parameter, drawn by every sample, trained, frozen and saved."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest
import torch

import pellucid
from pellucid import Constant, Distribution, InvalidArgument, InvalidType, Key, Learnable, Pipeline
from pellucid.pipeline import serialization
from pellucid.segments import Color, ColorSpec
from pellucid.transforms.base import drawn, gated
from tests.refusals import refused


def _array(name: str, value: Any) -> Distribution:
    del name
    return value if isinstance(value, Distribution) else Constant(value)


@dataclass(frozen=True)
class Mix(pellucid.Transform):
    """Multiply colours by a matrix."""

    mix: Any = field(default=((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)), metadata=drawn(_array))
    gradients: ClassVar = {"image": "exact", "mix": "exact"}

    def segment(self, spec):
        return ColorSpec()

    def lower(self, values, spec, like):
        return Color(gated(values, values["mix"], torch.eye(3, dtype=like.dtype, device=like.device)))


@pytest.fixture(autouse=True)
def table(monkeypatch):
    monkeypatch.setattr(serialization, "_TRANSFORMS", {**serialization._TRANSFORMS, "Mix": Mix})


START = torch.tensor([[0.5, 0.1, 0.2], [0.0, 0.6, 0.1], [0.3, 0.0, 0.4]])


def images(batch=4):
    return torch.rand(batch, 3, 5, 6, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("bounds", [{}, {"low": -1.0}, {"high": 2.0}, {"low": -1.0, "high": 1.0}], ids=repr)
def test_it_starts_where_told_and_has_torchs_gradient(bounds):
    augment = Pipeline([Mix(Learnable(START, **bounds))], seed=0)
    (parameter,) = augment.parameters()
    assert parameter.shape == (3, 3)
    mix = augment.ranges()["0.mix"]["value"]
    torch.testing.assert_close(mix.detach(), START, rtol=0.0, atol=1e-6)
    x, weight = images(), torch.rand(4, 3, 5, 6)
    out = augment(x)
    (ours,) = torch.autograd.grad((out * weight).sum(), parameter)
    truth = torch.einsum("ij,bjhw->bihw", mix, x)
    torch.testing.assert_close(out, truth, rtol=0.0, atol=1e-5)
    (theirs,) = torch.autograd.grad((truth * weight).sum(), parameter)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_frozen_saved_and_loaded_it_draws_the_same(tmp_path):
    augment = Pipeline([Mix(Learnable(START, low=-1.0))], seed=3)
    assert Pipeline.from_dict(augment.to_dict()).transforms == augment.transforms
    with torch.no_grad():
        next(augment.parameters()).add_(torch.rand(3, 3))
    plain = augment.frozen()
    assert not list(plain.parameters())
    x = images()
    torch.testing.assert_close(plain(x, key=Key(0, 0)), augment(x, key=Key(0, 0)).detach(), rtol=0.0, atol=1e-6)
    plain.save(tmp_path / "mix.toml")
    assert Pipeline.load(tmp_path / "mix.toml").transforms == plain.transforms
    again = Pipeline([Mix(Learnable(START, low=-1.0))], seed=3)
    again.load_state_dict(augment.state_dict())
    assert torch.equal(again(x, key=Key(0, 0)), augment(x, key=Key(0, 0)))
    refused(InvalidArgument, "bounds", Pipeline([Mix(Learnable(START, low=-2.0))], seed=3).load_state_dict, augment.state_dict())


def test_an_array_does_not_spread():
    augment = Pipeline([Mix(Learnable(START))])
    assert augment.entropy() == {}
    assert augment.numbers() == {"0.mix.value": pytest.approx(START.mean().item())}


@pytest.mark.parametrize("shape", [(1,), (4,), (2, 3, 4)])
def test_any_shape_is_a_row_of_every_sample(shape):
    start = torch.arange(1.0, 1.0 + torch.Size(shape).numel(), dtype=torch.float64).reshape(shape)
    fixed, learned = Constant(start.tolist()), Constant(Learnable(start))
    assert fixed.shape == learned.shape == shape
    assert hash(learned) == hash(Constant(Learnable(start)))
    u = torch.rand(5, 1, dtype=torch.float64)
    assert torch.equal(fixed.sample(u, {}), start.expand(5, *shape))
    assert torch.equal(learned.sample(u, {"value": start}), start.expand(5, *shape))


def test_an_array_is_refused_where_one_number_belongs():
    for wrong in (
        lambda: pellucid.RandomRotation(Learnable((1.0, 2.0))),
        lambda: pellucid.RandomGamma(Constant((1.0, 2.0))),
        lambda: pellucid.Uniform(Learnable((1.0, 2.0)), 3.0),
    ):
        refused((InvalidArgument, InvalidType), "number", wrong)
    for wrong in (
        lambda: Learnable(((1.0, 2.0), (3.0,))),
        lambda: Learnable(()),
        lambda: Learnable((0.5, 1.5), high=1.0),
        lambda: Learnable(("a",)),
        lambda: Pipeline([Mix(Learnable(START, by=torch.nn.Identity()))]),
    ):
        refused((InvalidArgument, InvalidType), "Learnable", wrong)
