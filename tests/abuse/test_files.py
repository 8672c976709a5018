"""Pipelines from files, with every field replaced by what a file can say: a right result, or an error that names the field."""

import json
import math

import pytest
import tomli_w
import torch

from pellucid import Key, Pipeline
from pellucid.pipeline.serialization import transforms_to_list
from tests.abuse.hostile import FILE_VALUES
from tests.abuse.meanings import EITHER, kind_of
from tests.abuse.test_constructors import BASES, declared
from tests.abuse.verdicts import attempt, sample, settle

PICTURE = torch.rand((2, 3, 8, 8), generator=torch.Generator().manual_seed(2))
GOOD = ("learnable", "learnable bounds", "distribution", "bernoulli")
"""Tables that mean something in some fields."""
SETTINGS = ("pellucid", "seed", "same_on_batch", "fuse", "impl", "targets", "passthrough", "interpolation", "return_valid")
PLAIN = {
    "pellucid": (1, 1.0, True),
    "seed": (0, 1, 2, 3, 10, 2**40),
    "same_on_batch": (True, False),
    "fuse": (True, False),
    "return_valid": (True, False),
    "targets": ({}, {"a": 1}),
    "interpolation": ({}, {"a": 1}),
}
"""What settings may be; other values in the pool are none."""


def cases():
    fields = [f"{name}.{field}={label}" for name, field, _ in declared() for label in FILE_VALUES]
    return [*fields, *(f"pipeline.{setting}={label}" for setting in SETTINGS for label in FILE_VALUES)]


def _meant(name, field, annotation, label):
    value = FILE_VALUES[label]
    if value is None:
        return EITHER  # as if it were left out, or refused
    if isinstance(value, dict):
        return EITHER if label in GOOD else None
    return kind_of(name, field, annotation)(value)


def field_fault(name, field, annotation, label):
    entry = {**transforms_to_list([BASES[name]])[0], field: FILE_VALUES[label]}
    meaning = _meant(name, field, annotation, label)
    pipeline, fault, refused = attempt(lambda: Pipeline.from_dict({"pellucid": 1, "transforms": [entry]}), field)
    if refused:
        return fault or ("refuses what it documents" if meaning is not None and meaning.must else None)
    out, fault, refused = attempt(lambda: pipeline(PICTURE, key=Key(3, 1)), field)
    if refused:
        return fault
    if meaning is None:
        return "accepts nonsense"
    return None if bool(torch.isfinite(out).all()) else "a result that is not finite"


def setting_fault(setting, label):
    value = FILE_VALUES[label]
    spec = {"pellucid": 1, "transforms": [{"name": "RandomInvert"}], setting: value}
    pipeline, fault, refused = attempt(lambda: Pipeline.from_dict(spec), setting)
    if refused:
        return fault
    if value is not None and value not in PLAIN.get(setting, ()) and not (setting == "passthrough" and _texts(value)):
        return "accepts nonsense"
    _, fault, refused = attempt(lambda: pipeline(PICTURE), setting)
    return fault if refused else None


def _texts(value):
    return isinstance(value, list) and all(isinstance(part, str) for part in value)


def _verdicts(chosen):
    kinds = {(name, field): annotation for name, field, annotation in declared()}
    faults = {}
    for case in chosen:
        where, label = case.split("=", 1)
        name, field = where.split(".")
        one = setting_fault(field, label) if name == "pipeline" else field_fault(name, field, kinds[name, field], label)
        faults[f"file {case}"] = one
    return faults


def test_a_sample_of_hostile_files_ends_well():
    settle(_verdicts(sample(cases(), 61)))


@pytest.mark.slow
def test_every_hostile_file_ends_well():
    settle(_verdicts(cases()))


@pytest.mark.parametrize("suffix", [".json", ".toml"])
def test_what_a_file_says_is_what_a_dict_says(tmp_path, suffix):
    """The file formats add nothing of their own to the verdicts above."""
    path = tmp_path / f"pipeline{suffix}"
    for value in (math.nan, "false", [1, [2]], {"distribution": "Uniform", "low": "0"}, -1, True):
        spec = {"pellucid": 1, "transforms": [{"name": "RandomRotation", "degrees": value}]}
        path.write_text(json.dumps(spec) if suffix == ".json" else tomli_w.dumps(spec))
        _, fault, refused = attempt(lambda: Pipeline.load(path), "degrees")
        assert refused
        assert fault is None, fault
