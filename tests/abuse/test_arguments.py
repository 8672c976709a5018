"""What a pipeline is built from and called with, given everything in the pool."""

import inspect
import json

import numpy as np
import pytest
import torch

import pellucid
import pellucid.policy
from pellucid import InvalidArgument, InvalidType, Key, Pipeline
from tests.abuse.hostile import pool
from tests.abuse.meanings import ABOVE_ZERO, EITHER, choice, first, nothing, number, sequence, truth
from tests.abuse.verdicts import attempt, sample, settle
from tests.refusals import refused

POOL = pool()
FLIP = pellucid.RandomHorizontalFlip(p=1.0)


def _texts(value):
    good = isinstance(value, list | tuple) and all(isinstance(part, str) for part in value)
    return truth(True) if good else None


def _parts(value):
    """Parts of names; those that no transform has may be refused."""
    meaning = _texts(value)
    return meaning if meaning is None or not value else EITHER


def _mapping(value):
    return truth(True) if value is None or (isinstance(value, dict) and not value) else None


def _absent(value):
    return EITHER if value is None or (torch.is_tensor(value) and value.dtype == torch.int64 and not value.dim()) else None


def _transforms(value):
    return truth(True) if isinstance(value, list | tuple) and not value else None


def _dtype(value):
    return EITHER if value is None or value is torch.float16 else None


def _weights(value):
    """Two that are not both 0."""
    meaning = sequence(number(0), 2)(value)
    return meaning if meaning is None or not meaning.exact or sum(meaning.value) > 0 else None


FORMAT = choice("xyxy", "xywh", "cxcywh", "cxcywhr", "coco", "pascal_voc", "yolo", "albumentations")
OPTIONS = {
    "transforms": _transforms,
    "seed": first(_absent, number(0, 2**62, whole=True)),
    "same_on_batch": truth,
    "fuse": truth,
    "impl": choice("auto", "reference", "cpu", "triton"),
    "out": first(nothing, choice("tensor", "same", "numpy")),
    "like": first(nothing, choice("albumentations")),
    "targets": _mapping,
    "passthrough": _texts,
    "interpolation": _mapping,
    "return_valid": truth,
    "canvas": choice("each", "image"),
    "dtype": _dtype,
    "box_format": lambda value: EITHER if isinstance(value, dict) and not value else FORMAT(value),
    "channels_last": lambda value: EITHER if value is None or isinstance(value, bool) else None,
    "min_area": number(0),
    "min_visibility": number(0, 1),
    "min_size": first(number(0), sequence(number(0), 2)),
    "mask_fill": first(number(), lambda value: EITHER if isinstance(value, float) else None),
    "pad_targets": truth,
    "pairs": _mapping,
    "drop_invalid": first(nothing, truth),
    "share": _mapping,
    "only": _mapping,
    "of": _mapping,
    "per_frame": _parts,
    "cameras": choice("matrix", "pose", "residual"),
}
"""What each argument of the constructor takes; an empty or missing table counts as none."""
BRANCHES = [[FLIP], [pellucid.RandomInvert(p=1.0), pellucid.RandomRotation(9.0)]]
SEED, CHANNELS = OPTIONS["seed"], first(number(1, 1, whole=True), number(3, 3, whole=True))
POLICIES = {
    "RandomChoice.branches": lambda value: None,  # nothing in the pool is one
    "RandomChoice.weights": first(
        nothing, _weights, lambda value: EITHER if callable(value) and not isinstance(value, type) else None
    ),
    "RandomChoice.learn": truth,
    "RandomChoice.times": number(1, 64, whole=True),
    "RandomChoice.temperature": first(nothing, number(ABOVE_ZERO)),
    "RandomChoice.seed": SEED,
    "RandomChoice.same_on_batch": truth,
    "RandomChoice.impl": OPTIONS["impl"],
    "TrivialAugmentWide.bins": number(2, 1000, whole=True),
    "TrivialAugmentWide.same_on_batch": truth,
    "RandAugment.n": number(0, 64, whole=True),
    "RandAugment.magnitude": number(0, 30, whole=True),
    "RandAugment.bins": number(10, 1000, whole=True),  # more than the magnitude
    "RandAugment.same_on_batch": truth,
    "AutoAugment.policy": choice("imagenet", "cifar10", "svhn"),
    "AutoAugment.same_on_batch": truth,
    "AugMix.operations": choice("google", "torchvision"),
    "AugMix.severity": number(1, 10, whole=True),
    "AugMix.width": number(1, 16, whole=True),
    "AugMix.depth": first(nothing, number(1, 16, whole=True)),
    "AugMix.alpha": number(0.05, 16),
    "AugMix.same_on_batch": truth,
    "DiffAugment.policy": lambda value: None,  # nothing in the pool is one
    "DiffAugment.same_on_batch": truth,
    "ADA.p": number(0, 1),
    "ADA.target": number(),
    "ADA.images": number(ABOVE_ZERO),
    "ADA.seed": SEED,
    "trivial_augment.channels": CHANNELS,
    "trivial_augment.strength": number(0, 1),
    "trivial_augment.seed": SEED,
    "rand_augment.n": number(1, 64, whole=True),
    "rand_augment.magnitude": number(ABOVE_ZERO, 1),
    "rand_augment.channels": CHANNELS,
    "rand_augment.seed": SEED,
    "searchable.method": choice("pairs", "faster_autoaugment", "dada", "adversarial_autoaugment"),
    "searchable.operations": nothing,  # for pairs
    "searchable.estimator": nothing,
    "searchable.channels": CHANNELS,
    "searchable.pairs": first(nothing, number(1, whole=True)),
    "searchable.temperature": number(ABOVE_ZERO),
    "searchable.seed": SEED,
}
"""What each argument of a choice and of the published policies takes."""
CALLS = {
    "Pipeline.key": lambda value: Pipeline([FLIP])(_picture(), key=value),
    "Pipeline.draw key": lambda value: Pipeline([FLIP]).draw(_picture(), key=value),
    "Pipeline.return_record": lambda value: Pipeline([FLIP])(_picture(), return_record=value),
    "Pipeline.apply record": lambda value: Pipeline([FLIP]).apply(_picture(), value),
    "Pipeline.inverse record": lambda value: Pipeline([FLIP]).inverse(_picture(), value),
    "Pipeline.valid_mask record": lambda value: Pipeline([FLIP]).valid_mask(value),
    "Pipeline.from_dict spec": lambda value: Pipeline.from_dict(value),
    "Pipeline.batch": lambda value: Pipeline([FLIP])(value),
    "transform.batch": lambda value: FLIP(value),
    "Pipeline.expected loss_fn": lambda value: Pipeline([FLIP]).expected(value, _picture()),
    "Pipeline.explain size": lambda value: Pipeline([FLIP]).explain(size=value),
    "Pipeline.explain channels": lambda value: Pipeline([FLIP]).explain(channels=value),
}
ACCEPTED = {
    "Pipeline.key": ("None", "Key"),
    "Pipeline.draw key": ("None", "Key"),
    "Pipeline.return_record": ("True", "False"),
    "Pipeline.batch": ("image", "np 2-d"),
    "transform.batch": ("image", "np 2-d"),
    "Pipeline.explain size": (
        *("1", "2", "3", "10", "(1, 2)", "(2, 1)", "(3, 5)", "[1, 2]", "[2, 1]", "[3, 5]"),
        *("size", "IntEnum", "np.int64", "np.uint8"),
    ),
    "Pipeline.explain channels": ("1", "2", "3", "10", "IntEnum", "1099511627776", "huge"),
}


def _picture():
    return torch.rand((2, 3, 4, 4), generator=torch.Generator().manual_seed(4))


def cases():
    return [f"{name}={label}" for name in (*OPTIONS, *POLICIES, *CALLS) for label in POOL]


def option_fault(name, label):
    make = POOL[label]
    meaning = OPTIONS[name](make())
    arguments = {"transforms": [FLIP], name: make()}
    pipeline, fault, refused = attempt(lambda: Pipeline(**arguments), name)
    if refused:
        return fault or ("refuses what it documents" if meaning is not None and meaning.must else None)
    if meaning is None:
        return "accepts nonsense"
    out, fault, refused = attempt(lambda: pipeline(_picture(), key=Key(1)), "impl" if name == "impl" else name)
    if refused:
        return fault if name != "impl" else None  # an implementation that is not there says so
    wanted = _picture() if name == "transforms" else _picture().flip(-1)
    out = torch.from_numpy(out).movedim(-1, -3) if isinstance(out, np.ndarray) else out
    right = torch.equal(out, wanted) if meaning.exact else bool(torch.isfinite(out).all())
    return None if right else "another result"


def policy_fault(name, label):
    make, (owner, argument) = POOL[label], name.split(".")
    meaning = POLICIES[name](make())
    given = {"branches": BRANCHES} if owner == "RandomChoice" else {"pairs": 2} if owner == "searchable" else {}
    policy, fault, refused = attempt(lambda: getattr(pellucid.policy, owner)(**{**given, argument: make()}), argument)
    if refused:
        return fault or ("refuses what it documents" if meaning is not None and meaning.must and meaning.exact else None)
    if meaning is None:
        return "accepts nonsense"
    grey = make() == 1 if argument == "channels" else owner == "searchable"
    picture = _picture()[:, : 1 if grey else 3]
    pipeline = policy if isinstance(policy, torch.nn.Module) else Pipeline([policy])
    # What a function of the user's returns is refused by its own name.
    named = (argument,) if meaning.exact else (argument, "output")
    out, fault, refused = attempt(lambda: pipeline(picture, key=Key(1)), *named)
    if refused:
        return fault if argument != "impl" else None
    return None if out.shape == picture.shape and bool(torch.isfinite(out).all()) else "no finite picture"


def call_fault(name, label):
    if name == "Pipeline.expected loss_fn" and callable(POOL[label]()):
        return None  # what a function of the user's does is the user's
    _, fault, refused = attempt(
        lambda: CALLS[name](POOL[label]()), name.replace(".", " ").split()[-1], "batch", "image", "pellucid"
    )
    if refused:
        return fault
    return None if label in ACCEPTED.get(name, ()) else "accepts nonsense"


def _verdicts(chosen):
    parts = [case.split("=", 1) for case in chosen]
    fault_of = {**dict.fromkeys(OPTIONS, option_fault), **dict.fromkeys(POLICIES, policy_fault), **dict.fromkeys(CALLS, call_fault)}
    return {f"{name}={label}": fault_of[name](name, label) for name, label in parts}


def test_every_argument_of_a_pipeline_and_of_the_policies_is_abused():
    def arguments(function):
        return {p.name for p in inspect.signature(function).parameters.values() if p.kind is not p.VAR_KEYWORD}

    assert arguments(Pipeline) == set(OPTIONS)
    for owner in pellucid.policy.__all__:
        assert {f"{owner}.{name}" for name in arguments(getattr(pellucid.policy, owner))} <= set(POLICIES)


def test_a_sample_of_hostile_calls_ends_well():
    settle(_verdicts(sample(cases(), 29)))


@pytest.mark.slow
def test_every_hostile_call_ends_well():
    settle(_verdicts(cases()))


def test_a_long_text_is_shortened():
    settle(_verdicts(["passthrough=long text", "per_frame=long text", "DiffAugment.policy=long text"]))


def test_transforms_may_come_from_a_generator():
    chosen = Pipeline(t for t in (FLIP, pellucid.RandomInvert(p=1.0)))
    assert len(chosen.transforms) == 2
    assert torch.equal(chosen(_picture()), 1.0 - _picture().flip(-1))


NONSENSE = {
    "transforms": [FLIP, [[FLIP]], {0: FLIP}, {"flip": FLIP}, {FLIP}, None, 3, "RandomHorizontalFlip", [FLIP, None]],
    "targets": [{3: "mask"}, {"left": 3}, {"left": ["mask"]}, {None: "mask"}, [("left", "mask")], "mask"],
    "interpolation": ["bilinear", ["bilinear"], {3: "bilinear"}, {"mask": 3}, {"mask": ["nearest"]}, {"image": "nearest"}],
    "passthrough": ["name", 3, {"name": 1}, ["name", 3], [["name"]], b"name"],
}


@pytest.mark.parametrize(("option", "value"), [(option, value) for option, values in NONSENSE.items() for value in values])
def test_lists_and_tables_that_are_none_are_refused(option, value):
    refused((InvalidArgument, InvalidType), option, Pipeline, **{"transforms": [FLIP], option: value})


def test_no_transforms_change_nothing():
    for empty in ([], (), iter(())):
        out, record = Pipeline(empty)(_picture(), return_record=True)
        assert torch.equal(out, _picture())
        assert torch.equal(Pipeline([]).inverse(out, record), _picture())


@pytest.mark.parametrize("key", [0, None, 1.5, ("image", 0), b"image"])
def test_keys_of_a_batch_are_text(key):
    fault = attempt(lambda: Pipeline([FLIP])({"image": _picture(), key: _picture()}), "batch")[1:]
    settle({f"batch key {key!r}": fault[0] if fault[1] else "accepts nonsense"})


@pytest.mark.parametrize("options", [{"params": {}}, {"generator": None}, {"p": 0.5}, {"return_records": True}])
def test_unknown_arguments_of_a_call_are_named(options):
    name = next(iter(options))
    faults = {}
    for owner, call in (("Pipeline", Pipeline([FLIP])), ("transform", FLIP)):
        _, fault, refused = attempt(lambda call=call: call(_picture(), **options), name)
        faults[f"{owner} call {name}"] = fault if refused else "accepts nonsense"
    settle(faults)


def test_settings_survive_a_file():
    pipeline = Pipeline([FLIP], seed=np.int64(3), same_on_batch=True, passthrough=["name"])
    again = Pipeline.from_dict(json.loads(json.dumps(pipeline.to_dict())))
    assert again.to_dict() == pipeline.to_dict()
