"""Pictures whose channels lie side by side in memory: worked on where they lie, with the bits of pictures in planes."""

import numpy as np
import pytest
import torch

from pellucid import InvalidArgument, Key
from tests.cases import CASES, IDS, images, pipeline


@pytest.fixture(autouse=True)
def _shapes_checked():
    """Shapes in signatures are held to where these calls are made in planes, in ``test_values.py``."""


def _result(run, x):
    try:
        return run(x, key=Key(5, 2, torch.arange(len(x)) if x.ndim == 4 else None))
    except InvalidArgument as error:
        return str(error)


@pytest.mark.parametrize("case", CASES, ids=IDS)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize("channels", [3, 1, 4])
def test_every_transform_gives_the_bits_of_planes(case, dtype, channels):
    x = images(case, batch=3, channels=channels, dtype=torch.float32)
    x = (x * 255).to(torch.uint8) if dtype == torch.uint8 else x
    run = pipeline(case)
    for part in (x, x[0]) if case.group == 1 else (x,):
        pixels = part.movedim(-3, -1).contiguous()
        planes, found = _result(run, part), _result(run, pixels.movedim(-1, -3))
        assert torch.equal(planes, found) if isinstance(planes, torch.Tensor) else planes == found
        if isinstance(planes, torch.Tensor) and not case.objects:
            array = _result(pipeline(case, out="same"), pixels.numpy())
            assert array.flags.c_contiguous
            assert np.array_equal(array, planes.movedim(-3, -1).numpy())
