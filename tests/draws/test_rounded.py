"""Draws that need an exponential or the like: their plans are taped all the same, with the bits of the code."""

import pytest
import torch

from pellucid import ColorJitter, LogUniform, Normal, Pipeline, RandomErasing, RandomResizedCrop, RandomRotation, RandomScale
from pellucid.engine.drawing import draw_params, draw_uniforms, params_of
from pellucid.engine.lowering import Replayed
from pellucid.types import ImageSpec

ROUNDED = [
    [RandomResizedCrop(8), ColorJitter(0.2, 0.2, saturation=0.2, hue=0.1)],
    [RandomErasing(), RandomResizedCrop(8), RandomScale(LogUniform(0.5, 2.0))],
    [RandomRotation(Normal(0.0, 5.0)), RandomScale(LogUniform(0.5, 2.0))],
]


@pytest.mark.parametrize("transforms", ROUNDED, ids=lambda found: "+".join(type(t).__name__ for t in found))
@pytest.mark.parametrize("batch", [1, 2, 7, 64])
def test_the_tape_has_the_bits_of_the_code(transforms, batch):
    seed, step, index = torch.tensor(3), torch.tensor(5), torch.arange(batch) + 2
    for size in ((20, 30), (31, 17)):
        plan = Pipeline(transforms).plan(ImageSpec(3, *size))
        played = draw_params(plan, seed, step, index, {})
        assert isinstance(played, Replayed)
        for ours, code in zip(played, params_of(plan, draw_uniforms(plan, seed, step, index), {}), strict=True):
            assert ours.keys() == code.keys()
            for name, value in code.items():
                assert torch.equal(ours[name], value), name


def test_pictures_of_different_sizes_are_drawn_as_each_alone():
    augment = Pipeline(ROUNDED[0], seed=7)
    pictures = [torch.rand(3, 20, 30), torch.rand(3, 31, 17), torch.rand(3, 20, 30)]
    record = augment.draw(pictures)
    for i in range(3):
        alone = Pipeline(ROUNDED[0], seed=7).draw(pictures, key=None)[i]
        for name in ("ratio", "scale", "x"):
            assert torch.equal(record[i].params[0][name], alone.params[0][name])
    out = augment.apply(pictures, record)
    for i, picture in enumerate(pictures):
        assert torch.equal(out[i], augment.apply(picture, record[i]))
