"""Pictures that are views with a bit set, and calls under another default device: as if neither were so."""

import pytest
import torch

import pellucid as P
from pellucid import Key, Pipeline
from pellucid import functional as PF
from tests.cases import CASES, IDS, images, pipeline

every = pytest.mark.parametrize("case", CASES, ids=IDS)
KEY = Key(3, 1)


def negated(tensor):
    """The same numbers, held with their signs turned around and a bit that says so."""
    made = torch.complex(torch.zeros_like(tensor), -tensor).conj().imag
    assert made.is_neg()
    assert torch.equal(made, tensor)
    return made


def followed(augment, batch):
    """The result where a gradient is asked for, which goes other ways."""
    return augment(batch.requires_grad_(), key=KEY).detach()


@every
def test_a_negative_bit_is_resolved(case):
    augment, batch = pipeline(case), images(case, 4, dtype=torch.float32)
    assert torch.equal(augment(negated(batch), key=KEY), augment(batch, key=KEY))
    assert torch.equal(followed(augment, negated(batch)), followed(augment, batch.clone()))


@every
def test_the_default_device_decides_nothing(case):
    augment, batch = pipeline(case), images(case, 4, dtype=torch.float32)
    wanted, record = augment(batch, key=KEY, return_record=True)
    traced = followed(augment, batch.clone())
    with torch.device("meta"):
        assert torch.equal(pipeline(case)(batch, key=KEY), wanted)
        assert torch.equal(augment.apply(batch, record), wanted)
        assert torch.equal(followed(augment, batch.clone()), traced)


def test_functions_resolve_a_negative_bit():
    image = torch.rand(2, 3, 8, 9)
    for function in (lambda x: PF.rotate(x, 20.0), lambda x: PF.gaussian_blur(x, 3), lambda x: PF.resize(x, (4, 5))):
        assert torch.equal(function(negated(image)), function(image))


def test_lists_and_targets_resolve_a_negative_bit():
    augment = Pipeline([P.RandomRotation(20), P.RandomCrop((6, 7))])
    batch = {"image": [torch.rand(3, 8, 9), torch.rand(3, 9, 7)], "boxes": [torch.rand(2, 4).sort(-1).values * 6] * 2}
    wanted = augment(batch, key=KEY)
    found = augment({key: [negated(one) for one in values] for key, values in batch.items()}, key=KEY)
    for key, value in wanted.items():
        assert torch.equal(found[key], value)


def test_a_module_that_predicts_makes_its_tensors_beside_the_pictures():
    def turn(pictures):
        return pictures.mean((1, 2, 3)) + torch.zeros(len(pictures))

    augment, batch = Pipeline([P.RandomRotation(P.Learnable(1.0, by=turn))]), torch.rand(2, 3, 8, 8)
    wanted = augment(batch, key=KEY)
    with torch.device("meta"):
        assert torch.equal(augment(batch, key=KEY), wanted)
