"""The compiled shift in HSV computes what the reference computes."""

import pytest
import torch

from pellucid import HueSaturationValue, Pipeline
from pellucid.kernels.color import shift_hsv
from pellucid.kernels.conversion import as_bytes, as_colors

from .primitives import Kernel, agree


def shifts(batch=2, size=(9, 11), dtype=torch.float64, seed=0, low=0.0):
    generator = torch.Generator().manual_seed(seed)
    image = low + (1 - 2 * low) * torch.rand(batch, 3, *size, generator=generator, dtype=dtype)
    numbers = 0.3 * (torch.rand(batch, 4, generator=generator, dtype=dtype) - 0.5)
    numbers[:, 3] += 0.7
    return image, numbers


def shifted(image, numbers, *, impl="auto"):
    return shift_hsv(image, *numbers.unbind(1), impl=impl)


SHIFT = Kernel(shifted, shifts, "shift_hsv")


@pytest.mark.parametrize("columns", [3, 4])
def test_values_and_gradients_equal_the_reference_in_double(columns):
    image, numbers = shifts(batch=3, size=(47, 53))  # more pixels than a strip
    agree(shifted, (1.4 * image - 0.2, numbers[:, :columns]))
    agree(shifted, (image, numbers[:1, :columns]))


@pytest.mark.parametrize("numbers", [(0.0, 0.0, 0.0), (0.1, 0.3, -0.1), (-0.37, -0.2, 0.15), (0.2, -1.0, 0.0), (0.2, 1.0, 1.0)])
def test_ties_grey_and_black_have_the_references_gradients(numbers):
    """Black, white, grey, two channels alike, and results on the ends of the clip."""
    levels = torch.tensor((0.0, 0.25, 0.5, 1.0), dtype=torch.float64)
    image = torch.cartesian_prod(levels, levels, levels).T.reshape(1, 3, 4, 16)
    hue, *rest = numbers
    # No whole sixth of a turn: whether a hue lies on an end or beside it is a matter of rounding.
    agree(shifted, (image, torch.tensor([[hue + 0.013, *rest, 0.8]], dtype=torch.float64)))


@pytest.mark.parametrize("strange", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_is_not_a_number_stays_so(strange, dtype):
    image, numbers = shifts(dtype=dtype)
    for c in range(3):
        image[0, c, 3, 2 * c] = strange
    image[0, :, 5, 5] = strange
    given = [numbers, numbers[:, :3], *(numbers.index_fill(1, torch.tensor(place), torch.nan) for place in range(4))]
    for rows in given:
        ours, theirs = (shifted(image, rows, impl=impl) for impl in ("cpu", "reference"))
        assert torch.equal(ours.isnan(), theirs.isnan())


def test_the_pipeline_uses_it_and_says_so():
    made = [Pipeline([HueSaturationValue(p=0.7)], seed=3, impl=impl) for impl in ("auto", "reference")]
    image = torch.rand(4, 3, 20, 30)
    assert "by cpu" in made[0].explain(image)
    torch.testing.assert_close(*(pipeline(image) for pipeline in made), atol=1e-6, rtol=0)


@pytest.mark.parametrize("gate", [1.0, 0.0])
def test_bytes_are_those_of_the_numbers(gate):
    image, numbers = shifts(batch=3, size=(47, 53), dtype=torch.float32)
    numbers[:, 3] = gate
    levels = (image * 255).round().to(torch.uint8)
    made = shifted(as_colors(levels, torch.float32), numbers, impl="cpu")
    assert torch.equal(shifted(levels, numbers, impl="cpu"), as_bytes(made, torch.uint8))
