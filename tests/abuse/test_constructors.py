"""Every field of every transform, given everything in the pool: a right result, or an error that names the field."""

import json
from dataclasses import fields, replace
from functools import lru_cache

import pytest
import torch

import pellucid
from pellucid import Key, Pipeline
from pellucid.pipeline.serialization import transforms_from_list
from tests.abuse.hostile import pool
from tests.abuse.meanings import Meaning, kind_of
from tests.abuse.verdicts import attempt, sample, settle
from tests.cases import CASES

POOL = pool()
BASES = {}
for row in reversed(CASES):  # the first row of a class wins
    BASES[row.name] = replace(row.transform, p=1.0) if hasattr(row.transform, "p") else row.transform
BASES["GridShuffle"] = pellucid.GridShuffle(2, p=1.0)
BASES["RandomCrop"] = pellucid.RandomCrop((6, 5), padding=2)
CONSTANT = {
    *("RandomAffine.scale", "RandomScale.scale", "RandomGamma.gain", "RandomErasing.scale"),
    *("RandomCrop.size", "RandomCrop.padding", "Crop.top", "Crop.left"),
    *("ColorJitter.brightness", "RandomBrightness.brightness", "RandomGaussianNoise.mean", "RandomPosterize.bits"),
    *("HueSaturationValue.value", "RandomBrightnessContrast.brightness", "GridDropout.ratio"),
    *("ChannelDropout.count", "RandomPhotometricDistort.brightness"),
}
"""Where a legal number may make all pixels equal."""


def declared():
    """(class, field, declared type) of every constructor argument."""
    return [(name, field.name, str(field.type)) for name, base in BASES.items() for field in fields(base)]


def cases():
    return [f"{name}.{field}={label}" for name, field, _ in declared() for label in POOL]


@lru_cache
def _picture():
    return torch.rand((2, 3, 8, 8), generator=torch.Generator().manual_seed(1))


def _run(transform):
    return Pipeline([transform], seed=5)(_picture(), key=Key(3, 1))


def _result_fault(name, field, transform, meaning):
    """What is wrong with what an accepted value does."""
    # What a function of the user's returns is refused by its own name.
    out, fault, refused = attempt(lambda: _run(transform), field, *(() if meaning.exact else ("output",)))
    if refused:
        return fault or ("refuses what it documents" if meaning.must else None)
    if out.dtype != torch.float32 or out.dim() != 4 or out.shape[:2] != (2, 3):
        return f"result {tuple(out.shape)} {out.dtype}"
    if not bool(torch.isfinite(out).all()):
        return "a result that is not finite"
    if bool((out == out[0, 0, 0, 0]).all()) and f"{name}.{field}" not in CONSTANT and meaning.exact:
        return "a constant result"
    if meaning.exact:
        return _spelling_fault(name, field, transform, meaning, out)
    return None


def _spelling_fault(name, field, transform, meaning, out):
    canonical = replace(BASES[name], **{field: meaning.value})
    if not torch.equal(out, _run(canonical)):
        return "another result than the canonical spelling"
    alone, fault, refused = attempt(lambda: transform(_picture(), key=Key(3, 1)), field)
    if refused:
        return fault or "refuses alone what it accepts in a pipeline"
    if not torch.equal(alone, out):
        return "another result alone"
    kept, fault, refused = attempt(lambda: json.loads(json.dumps(Pipeline([transform]).to_dict())), field)
    if refused:
        return fault
    return None if transforms_from_list(kept["transforms"])[0] == canonical else "another transform after to_dict and from_dict"


def fault_of(name, field, annotation, label):
    make = POOL[label]
    meaning: Meaning | None = kind_of(name, field, annotation)(make())
    built, fault, refused = attempt(lambda: replace(BASES[name], **{field: make()}), field)
    if refused:
        return fault or ("refuses what it documents" if meaning is not None and meaning.must else None)
    if meaning is None:
        _, fault, refused = attempt(lambda: _run(built), field)
        return fault if refused else "accepts nonsense"
    return _result_fault(name, field, built, meaning)


def _verdicts(chosen):
    kinds = {(name, field): annotation for name, field, annotation in declared()}
    faults = {}
    for case in chosen:
        where, label = case.split("=", 1)
        name, field = where.split(".")
        faults[case] = fault_of(name, field, kinds[name, field], label)
    return faults


ONCE_BAD = (
    *("RandomBiasField.coefficients=1e+30", "RicianNoise.sigma=1e+30", "GridDropout.cells=Parameter", "CoarseDropout.count=Normal"),
    *("RandomGlassBlur.sigma=Parameter", "PerPatch.transforms=[]", "PerChannel.transforms=()", "MixUp.num_classes=huge"),
)
"""Cases that only the whole pool found."""


def test_what_once_ended_badly_ends_well():
    settle(_verdicts(ONCE_BAD))


def test_a_sample_of_hostile_arguments_ends_well():
    settle(_verdicts(sample(cases(), 67)))


@pytest.mark.slow
@pytest.mark.parametrize("name", list(BASES))
def test_every_hostile_argument_ends_well(name):
    settle(_verdicts([case for case in cases() if case.startswith(f"{name}.")]))


def test_every_transform_is_abused():
    assert set(BASES) == {kind.__name__ for kind in pellucid.ALL}
    assert len(cases()) > 20_000
