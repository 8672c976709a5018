"""Every field of what stands in for a number, given everything in the pool: distributions, learnables, keys."""

from dataclasses import fields, replace

import pytest
import torch

import pellucid as P
from pellucid.random.distributions import DISTRIBUTIONS, Beta
from tests.abuse.hostile import pool
from tests.abuse.meanings import ABOVE_ZERO, EITHER, choice, first, learned, nothing, number, sequence
from tests.abuse.verdicts import attempt, sample, settle

POOL = pool()
BASES = {
    "Uniform": P.Uniform(0.125, 0.75),
    "CenteredUniform": P.CenteredUniform(0.5, 0.25),
    "LogUniform": P.LogUniform(0.125, 0.75),
    "Normal": P.Normal(0.5, 0.25),
    "MultivariateNormal": P.MultivariateNormal((0.5, 0.25), ((1.0,), (0.5, 1.0))),
    "Bernoulli": P.Bernoulli(0.25),
    "Categorical": P.Categorical((0.25, 0.5), (1.0, 2.0)),
    "Constant": P.Constant(0.5),
    "Beta": Beta(2.0),
    "Smooth": P.Smooth(P.Uniform(0.125, 0.75)),
    "Learnable": P.Learnable(0.5, low=0.0, high=1.0),
}


def _supplied(value):
    """Who supplies a learned number, or nobody; what is no number is refused."""
    return EITHER if value is None or callable(value) or isinstance(value, torch.nn.Parameter) else None


def _column(value):
    return EITHER if number(whole=True)(value) is not None and value >= 0 else None


def _array(entry):
    """Rows of numbers of one shape, each of which the entry's meaning takes."""

    def meaning(value):
        if isinstance(value, torch.Tensor) and value.is_floating_point() and value.dim():
            value = value.tolist()
        if not isinstance(value, list | tuple) or not value:
            return None
        rows = [_array(entry)(row) if isinstance(row, list | tuple) else entry(row) for row in value]
        alike = len({len(row) if isinstance(row, list | tuple) else None for row in value}) == 1
        return EITHER if alike and all(row is not None for row in rows) else None

    return meaning


def _two_rows(value):
    return (isinstance(value, list | tuple) and len(value) == 2 and all(isinstance(row, list | tuple) for row in value)) or None


def _one_number(value):
    """A distribution of one number that is reparameterised."""
    return EITHER if isinstance(value, P.Uniform | P.CenteredUniform | P.LogUniform | P.Normal | P.Constant) else None


NUMBER = first(number(), learned)
POSITIVE = first(number(0), learned)
WEIGHTS = sequence(POSITIVE, 2)
RANGE = choice("reparameterised", "boundary")
KINDS = {
    "Uniform.low": first(number(high=0.75), learned),
    "Uniform.high": first(number(0.125), learned),
    "CenteredUniform.center": NUMBER,
    "CenteredUniform.half_width": POSITIVE,
    "LogUniform.low": first(number(ABOVE_ZERO, 0.75), learned),
    "LogUniform.high": first(number(0.125), learned),
    **{f"{owner}.estimator": RANGE for owner in ("Uniform", "CenteredUniform", "LogUniform")},
    "Normal.mean": NUMBER,
    "Normal.std": POSITIVE,
    "MultivariateNormal.mean": sequence(NUMBER, 2),
    "MultivariateNormal.scale_tril": lambda value: None,  # nothing in the pool has the rows
    "Bernoulli.p": first(number(0, 1), learned),
    "Bernoulli.temperature": first(nothing, number(ABOVE_ZERO)),
    "Bernoulli.estimator": choice("exact", "arm", "reinforce", "relaxed", "straight_through"),
    "Smooth.of": _one_number,
    "Smooth.knots": number(2, 64, whole=True),
    "Categorical.values": first(sequence(number(), 2), lambda value: _two_rows(value) and _array(number())(value)),
    "Categorical.weights": first(
        nothing,
        lambda value: WEIGHTS(value) and (EITHER if _any(value) else None),
        lambda value: EITHER if callable(value) and not isinstance(value, type) else None,  # it predicts all of them
    ),
    "Categorical.estimator": choice("exact", "arm", "reinforce", "relaxed", "straight_through"),
    "Categorical.temperature": first(nothing, number(ABOVE_ZERO)),
    "Beta.alpha": number(0.05, 16),
    "Constant.value": first(NUMBER, _array(number())),
    "Learnable.value": first(number(ABOVE_ZERO, 1.0 - 1e-9), _array(number(ABOVE_ZERO, 1.0 - 1e-9))),
    "Learnable.low": first(nothing, number(high=0.5 - 1e-9)),
    "Learnable.high": first(nothing, number(0.5 + 1e-9)),
    "Learnable.by": _supplied,
    "Learnable.column": _column,
}


def _any(values):
    """Weights must not all be 0; what is learned starts above it."""
    return any(isinstance(value, P.Learnable | torch.Tensor) or callable(value) or value > 0 for value in list(values))


def cases():
    declared = [(name, field.name) for name, base in BASES.items() for field in fields(base)]
    return [f"{name}.{field}={label}" for name, field in declared for label in POOL]


def _use(value):
    """Draw from it where everything is known."""
    if isinstance(value, P.Learnable) or value.start():
        return torch.zeros(())
    u = torch.linspace(0.01, 0.99, 3 * max(value.words, 2)).double()
    return value.sample(u.reshape(3, -1) if value.words > 1 or value.vector else u, {})


def fault_of(name, field, label):
    make = POOL[label]
    meaning = KINDS[f"{name}.{field}"](make())
    # A bound that leaves the start outside may be told as a start outside the bounds.
    names = (field, "value") if name == "Learnable" else (field,)
    built, fault, refused = attempt(lambda: replace(BASES[name], **{field: make()}), *names)
    if refused:
        return fault or ("refuses what it documents" if meaning is not None and meaning.must and meaning.exact else None)
    if meaning is None:
        return "accepts nonsense"
    out, fault, refused = attempt(lambda: (hash(built), repr(built), _use(built))[-1], field)
    if refused:
        return fault
    if not bool(torch.isfinite(out).all()):
        return "a draw that is not finite"
    if meaning.exact and meaning.must and built != replace(BASES[name], **{field: meaning.value}):
        return "not equal to its canonical spelling"
    return None


def _verdicts(chosen):
    return {case: fault_of(*case.split("=", 1)[0].split("."), case.split("=", 1)[1]) for case in chosen}


def test_a_sample_of_hostile_numbers_ends_well():
    settle(_verdicts(sample(cases(), 13)))


@pytest.mark.slow
def test_every_hostile_number_ends_well():
    settle(_verdicts(cases()))


def test_every_distribution_is_abused():
    assert set(DISTRIBUTIONS) < set(BASES)


@pytest.mark.parametrize("field", ["seed", "step"])
def test_keys_take_whole_numbers(field):
    faults = {}
    for label in POOL:
        value = POOL[label]()
        meaning = number(0, 2**31, whole=True)(value)
        whole = torch.is_tensor(value) and value.dim() == 0 and value.dtype == torch.int64
        _, fault, refused = attempt(lambda label=label: P.Key(**{field: POOL[label]()}), field)
        accepted = None if meaning is not None or whole or label in ("1099511627776",) else "accepts nonsense"
        faults[f"Key.{field}={label}"] = fault if refused else accepted
    settle(faults)
