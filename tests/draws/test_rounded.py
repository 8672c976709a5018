"""Draws that need an exponential or the like: their plans are taped all the same, with the bits of the code."""

import pytest
import torch

from pellucid import ColorJitter, LogUniform, Normal, Pipeline, RandomErasing, RandomResizedCrop, RandomRotation, RandomScale
from pellucid.engine.drawing import draw_params, draw_uniforms, drawn_at, params_of
from pellucid.engine.lowering import Replayed
from pellucid.policy import RandAugment
from pellucid.types import ImageSpec

ROUNDED = [
    [RandomResizedCrop(8), ColorJitter(0.2, 0.2, saturation=0.2, hue=0.1)],
    [RandomErasing(), RandomResizedCrop(8), RandomScale(LogUniform(0.5, 2.0))],
    [RandomRotation(Normal(0.0, 5.0)), RandomScale(LogUniform(0.5, 2.0))],
    [RandAugment()],
]


@pytest.mark.parametrize("transforms", ROUNDED, ids=lambda found: "+".join(type(t).__name__ for t in found))
@pytest.mark.parametrize("batch", [1, 2, 7, 64])
def test_the_tape_has_the_bits_of_the_code(transforms, batch):
    seed, step, index = torch.tensor(3), torch.tensor(5), torch.arange(batch) + 2
    for size in ((20, 30), (31, 17)):
        plan = Pipeline(transforms).plan(ImageSpec(3, *size))
        u = draw_uniforms(plan, seed, step, index)
        code = params_of(plan, u, {})
        for played in (draw_params(plan, seed, step, index, {}), drawn_at(plan, u, {})):
            assert isinstance(played, Replayed)
            for ours, values in zip(played, code, strict=True):
                assert ours.keys() == values.keys()
                for name, value in values.items():
                    assert torch.equal(ours[name], value), name
        assert not isinstance(drawn_at(plan, u.requires_grad_(), {}), Replayed)  # whose gradient is asked for


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
