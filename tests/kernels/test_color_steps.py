"""The compiled chain of clipped colour steps, on the CPU and in Triton, computes what the reference computes."""

import itertools

import pytest
import torch

from pellucid import ColorJitter, Pipeline
from pellucid.kernels.color import jitter_steps

from .primitives import Kernel, agree, placed

NAMES = ("brightness", "contrast", "saturation", "hue")
ORDERS = torch.tensor(list(itertools.permutations(range(4))))


def jitters(batch=2, channels=3, size=(9, 11), dtype=torch.float64, seed=0, low=0.0):
    generator = torch.Generator().manual_seed(seed)
    image = low + (1 - 2 * low) * torch.rand(batch, channels, *size, generator=generator, dtype=dtype)
    order = ORDERS[torch.randint(24, (batch,), generator=generator)]
    factors = 1 + 0.8 * (torch.rand(batch, 4, generator=generator, dtype=dtype) - 0.5)
    factors[:, 3] -= 1
    return image, order, factors


def steps(image, order, factors, *, names=NAMES, impl="auto"):
    return jitter_steps(image, order, {name: factors[:, NAMES.index(name)] for name in names}, impl=impl)


STEPS = Kernel(steps, jitters, "jitter_steps", (15,))


def test_every_order_and_its_gradients_equal_the_reference_in_double(by):
    stride = 1 if by == "cpu" else 3
    image, _, factors = jitters(batch=24 // stride, size=(7, 6) if by == "cpu" else (3, 2))
    agree(steps, (image, ORDERS[::stride], factors), by)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_some_of_the_steps(count, by):
    tensors = jitters(batch=3, size=(30, 41) if by == "cpu" else (9, 17))  # more pixels than a strip or a block
    for names in itertools.combinations(NAMES, count):
        agree(steps, tensors, by, names=names)


@pytest.mark.parametrize("channels", [1, 2, 5])
def test_other_numbers_of_channels(channels, by):
    tensors = jitters(channels=channels, size=(9, 11) if by == "cpu" else (36, 40))  # several chunks
    agree(steps, tensors, by, names=NAMES[:3])
    with pytest.raises(ValueError, match="unpack"):
        steps(*placed(tensors, by), impl=by)


@pytest.mark.parametrize("order", [[0, 0, 2, 3], [2, 9, 2, 1], [-1, 1, 2**40, 3]])
def test_an_order_that_is_no_permutation(order, by):
    """A step that stands twice is done twice, and what is no step does nothing; no memory is read or left as it was."""
    image, _, factors = jitters(batch=2, size=(9, 17))
    agree(steps, (image, torch.tensor([order] * 2), factors), by)


def test_fixed_order_and_one_row_for_all(by):
    image, _, factors = placed(jitters(batch=3, size=(4, 5)), by)
    rows = {name: factors[:1, i] for i, name in enumerate(NAMES)}
    spread = {name: row.expand(3) for name, row in rows.items()}
    torch.testing.assert_close(jitter_steps(image, None, rows, impl=by), jitter_steps(image, None, spread, impl="reference"))
    leaf = factors[:1].clone().requires_grad_()
    steps(image, placed([ORDERS[:1]], by)[0], leaf, impl=by).sum().backward()
    assert leaf.grad.shape == (1, 4)


@pytest.mark.parametrize(
    ("levels", "names", "factors"),
    [
        # Black, white and grey, and results that lie exactly on the ends of the clip.
        ((0.0, 0.25, 0.5, 1.0), NAMES[:3], [(1.0, 1.0, 1.0), (2.0, 1.0, 1.0), (1.0, 0.5, 2.0), (0.0, 0.0, 0.0)]),
        # Two or three channels alike. Inside the clip: whether a rotated hue lies on its end or beside it is a matter of rounding.
        ((0.25, 0.5, 0.75), NAMES, [(1.0, 1.0, 1.0, 0.0), (0.9, 0.9, 0.9, 0.5), (0.8, 1.1, 0.7, 1.0 / 3), (1.0, 0.0, 1.0, -0.25)]),
    ],
)
def test_ties_and_kinks_have_the_references_gradients(levels, names, factors):
    levels = torch.tensor(levels, dtype=torch.float64)
    image = torch.cartesian_prod(levels, levels, levels).T.reshape(1, 3, len(levels), -1)
    for given in factors:
        for order in ([0, 1, 2, 3], [3, 2, 1, 0], [2, 3, 0, 1]):
            row = torch.tensor([(*given, 0.0)[:4]], dtype=torch.float64)
            tensors = image, torch.tensor([order]), row
            agree(steps, tensors, names=names)


def test_what_is_not_a_number_stays_so():
    image, order, factors = jitters()
    image[0, 1, 3, 4] = torch.nan
    found = [steps(image, order, factors, names=("brightness", "saturation", "hue"), impl=impl) for impl in ("cpu", "reference")]
    assert torch.equal(found[0].isnan(), found[1].isnan())


@pytest.mark.parametrize("channel", [0, 1, 2])
def test_what_is_not_a_number_stays_so_beside_two_equal_channels(channel):
    image = torch.full((1, 3, 4, 8), 0.5)
    image[0, channel] = torch.nan
    order, factors = torch.tensor([[3, 0, 1, 2]]), torch.full((1, 4), 0.2)
    found = [steps(image, order, factors, names=("hue",), impl=impl) for impl in ("cpu", "reference")]
    assert found[1].isnan().all()
    assert found[0].isnan().all()


def test_the_pipeline_uses_it_and_says_so():
    made = [
        Pipeline([ColorJitter(0.4, 0.4, saturation=0.4, hue=0.1, clip="each")], seed=3, impl=impl) for impl in ("auto", "reference")
    ]
    image = torch.rand(4, 3, 20, 30)
    assert "by cpu" in made[0].explain(image)
    torch.testing.assert_close(*(pipeline(image) for pipeline in made), atol=1e-6, rtol=0)
    torch.testing.assert_close(*(pipeline((255 * image).to(torch.uint8)) for pipeline in made), atol=1, rtol=0)
