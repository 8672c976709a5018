"""Where channels stand: first, or last on request; a shape that could be either is refused with both ways out."""

import pytest
import torch

from pellucid import InvalidArgument
from pellucid import functional as PF

SIZE = (2, 3)
FIELD = torch.tensor([0.2, -0.3]).expand(1, *SIZE, 2)
CALLS = {
    "warp": lambda image, **options: PF.warp(image, [[1.0, 0.1, 0.3], [0.2, 1.0, -0.2]], size=(3, 5), **options),
    "rotate": lambda image, **options: PF.rotate(image, 20.0, **options),
    "rotate, larger": lambda image, **options: PF.rotate(image, 90.0, expand=True, **options),
    "affine": lambda image, **options: PF.affine(image, 10.0, (0.5, 0.2), scale=1.2, **options),
    "elastic": lambda image, **options: PF.elastic(image, FIELD, **options),
}


@pytest.mark.parametrize("name", CALLS)
def test_channels_stand_where_the_caller_says(name):
    call, image = CALLS[name], torch.rand(1, 4, *SIZE)
    wanted, last = call(image), image.movedim(1, -1)
    assert torch.equal(call(last, channels_last=True), wanted.movedim(1, -1))
    assert torch.equal(call(last[0], channels_last=True), wanted[0].movedim(0, -1))


@pytest.mark.parametrize("name", CALLS)
def test_a_shape_that_could_be_either_has_both_ways_out(name):
    call = CALLS[name]
    image = torch.rand(1, 2, 3, 4)
    with pytest.raises(InvalidArgument, match=r"channels_last=True; channels_last=False takes the axes as they stand"):
        call(image)
    assert call(image, channels_last=True).shape[-1] == 4
    if name != "elastic":  # whose field has the other size
        assert call(image, channels_last=False).shape[1] == 2


def test_elastic_takes_narrow_pictures_at_their_word():
    image, field = torch.rand(1, 2, 3, 4), torch.zeros(1, 3, 4, 2)
    assert torch.equal(PF.elastic(image, field, channels_last=False), image)
