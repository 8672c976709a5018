"""Each stage has its part of a training, whoever asks: a loop, a resumed loop, or a compiled call."""

import pytest
import torch

from pellucid import InvalidArgument, Key, Learnable, Pipeline, RandomBrightness, RandomRotation
from pellucid.learn import Weakening
from pellucid.policy import RandAugment
from tests.refusals import refused


def stages():
    return [Pipeline([RandomRotation(Learnable(40.0))]), Pipeline([RandomBrightness((0.5, 0.9))]), Pipeline([])]


def test_every_step_is_augmented_by_its_stage():
    augment, images = Weakening(7, stages()), torch.rand(3, 1, 8, 8)
    for step, place in enumerate([0, 0, 0, 1, 1, 2, 2]):
        key = Key(3, step)
        assert torch.equal(augment(images, key=key), augment.stages[place](images, key=key))
        assert torch.equal(augment(images, key=key), Weakening(7, stages())(images, key=key))  # resumed at this step


def test_what_a_stage_learned_is_in_the_state():
    augment, other, images, key = Weakening(7, stages()), Weakening(7, stages()), torch.rand(3, 1, 8, 8), Key(0, 0)
    with torch.no_grad():
        next(augment.parameters()).add_(1.0)
    assert not torch.equal(other(images, key=key), augment(images, key=key))
    other.load_state_dict(augment.state_dict())
    assert torch.equal(other(images, key=key), augment(images, key=key))


def test_the_default_is_randaugment_of_fewer_and_fewer_operations():
    augment, images, key = Weakening(8), torch.randint(0, 256, (4, 3, 8, 8), dtype=torch.uint8), Key(1, 6)
    assert [augment.stage(step)[0].n for step in range(8)] == [4, 4, 3, 3, 2, 2, 1, 1]
    assert torch.equal(augment(images, key=key), Pipeline([RandAugment(1)])(images, key=key))
    assert torch.equal(augment(images, key=key), Weakening(8, [RandAugment(2), RandAugment(1)])(images, key=key))


@pytest.mark.slow
def test_it_compiles_whole():
    augment, images = Weakening(4, stages()[1:]), torch.rand(2, 1, 8, 8)
    compiled = torch.compile(augment, fullgraph=True, backend="eager")
    for step in (1, 2):
        assert torch.equal(compiled(images, key=Key(0, step)), augment(images, key=Key(0, step)))


@pytest.mark.parametrize("steps", [0, -1])
def test_a_training_has_steps_and_stages(steps):
    refused(InvalidArgument, "steps", Weakening, steps)
    refused(InvalidArgument, "at least one pipeline", Weakening, 4, [])
    refused(InvalidArgument, "0 to 3, as the training has 4 steps", Weakening(4), torch.rand(1, 1, 8, 8), key=Key(0, 4))
