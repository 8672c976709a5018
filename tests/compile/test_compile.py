"""Everything compiles: one graph, draws included."""

import pytest
import torch
from torch._dynamo.testing import CompileCounter

import pellucid as P
from tests.cases import CASES, IDS, images, pipeline

every = pytest.mark.parametrize("case", CASES, ids=IDS)
KINDS = {case.name: case for case in CASES}
ROWS = 12
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()


@pytest.mark.parametrize("row", range(ROWS))
def test_one_graph_for_five_draws_of_every_transform(row):
    """Some pipelines of one transform each in one graph: the compiler starts once for them."""
    some = list(KINDS.values())[row::ROWS]
    x = [images(case, batch=4, dtype=torch.float32) for case in some]
    augment, expected = ([pipeline(case) for case in some] for _ in range(2))
    counter = CompileCounter()
    fast = torch.compile(
        lambda batches: [one(batch) for one, batch in zip(augment, batches, strict=True)], fullgraph=True, backend=counter
    )
    for _ in range(5):
        for case, found, one, batch in zip(some, fast(x), expected, x, strict=True):
            assert torch.equal(found, one(batch)), case.name
    assert counter.frame_count == 1


@every
def test_one_graph_for_five_draws_and_two_for_five_batch_sizes(case):
    x = images(case, dtype=torch.float32)
    counter = CompileCounter()
    augment, expected = pipeline(case), pipeline(case)
    fast = torch.compile(augment, fullgraph=True, backend=counter)
    for _ in range(5):
        assert torch.equal(fast(x), expected(x))
    assert counter.frame_count == 1
    for batch in (2, 4, 5, 6):
        fast(images(case, batch=batch, dtype=torch.float32))
    assert counter.frame_count <= 2


def flagship():
    transforms = [
        P.RandomResizedCrop((12, 12), scale=(0.5, 1.0)),
        P.RandomAffine(degrees=P.Learnable(15.0), translate=(0.1, 0.1), shear=5),
        P.RandomHorizontalFlip(),
        P.ColorJitter(0.2, 0.2, saturation=0.2, hue=0.05),
        P.Normalize(MEAN, STD),
        P.RandomGaussianNoise(sigma=0.02, clip="none"),
    ]
    return P.Pipeline(transforms, seed=3)


@pytest.mark.slow
def test_inductor_agrees_with_eager_in_value_gradient_and_draw():
    x = torch.rand(3, 3, 16, 14, requires_grad=True)
    eager, compiled = flagship(), flagship()
    fast = torch.compile(compiled, fullgraph=True)
    out, result = eager(x), fast(x)
    # The same bits are drawn; float32 arithmetic may be contracted differently by the compiler.
    assert (out - result).abs().max() < 2e-5
    weights = torch.rand_like(out)
    expected = torch.autograd.grad((out * weights).sum(), [x, *eager.parameters()])
    gradients = torch.autograd.grad((result * weights).sum(), [x, *compiled.parameters()])
    for gradient, wanted in zip(gradients, expected, strict=True):
        assert (gradient - wanted).norm() <= 1e-4 * wanted.norm()
    assert int(compiled._step) == int(eager._step) == 1


def test_dict_record_and_key_compile():
    augment = flagship()
    x, points = torch.rand(3, 3, 16, 14), torch.rand(3, 4, 2) * 10
    boxes = torch.tensor([[[1.0, 2, 8, 9]]]).expand(3, 1, 4)
    mask = torch.randint(0, 3, (3, 16, 14))

    def step(image, index):
        out, record = augment(
            {"image": image, "keypoints": points, "boxes": boxes, "mask": mask}, key=P.Key(1, 2, index), return_record=True
        )
        return out, record.matrix

    counter = CompileCounter()
    fast = torch.compile(step, fullgraph=True, backend=counter)
    for start in (0, 5, 9):
        index = torch.arange(3) + start
        out, matrix = fast(x, index)
        expected, wanted = step(x, index)
        assert torch.allclose(matrix, wanted, rtol=0, atol=1e-12)
        for key, value in expected.items():
            assert torch.allclose(out[key].double(), value.double(), atol=1e-5), key
    assert counter.frame_count == 1


def test_boxes_before_and_behind_layers_compile():
    transforms = [P.RandomRotation(20), P.Mosaic(p=0.8), P.RandomHorizontalFlip()]
    batch = {"image": torch.rand(4, 3, 12, 12), "boxes": torch.tensor([[[1.0, 2, 8, 9]]]).expand(4, 1, 4)}
    found = torch.compile(P.Pipeline(transforms, seed=1), fullgraph=True, backend="eager")(batch)
    torch.testing.assert_close(found, P.Pipeline(transforms, seed=1)(batch))


# The first test takes the same graph from the second batch size on, with Numba's kernels.
@pytest.mark.sampled(6)
@every
def test_dynamic_shapes_from_the_first_call(case):
    """Whatever Dynamo makes a symbol of, sizes and numbers of the transforms: one graph, and the same values."""
    x = images(case, dtype=torch.float32)
    fast = torch.compile(pipeline(case, impl="reference"), fullgraph=True, dynamic=True, backend="eager")
    assert torch.equal(fast(x), pipeline(case, impl="reference")(x))


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "transform", [P.Normalize(MEAN, STD), P.ColorJitter(0.2, 0.2, saturation=0.2, hue=0.05), P.RandomAffine(10)], ids=repr
)
def test_dynamic_shapes_with_gradients_by_default(transform, backend):
    """As users call it: no ``impl``, sizes that change, a backward pass."""
    eager = P.Pipeline([transform], seed=1)
    fast = torch.compile(P.Pipeline([transform], seed=1), fullgraph=True, dynamic=True, backend=backend)
    for shape in ((2, 3, 8, 9), (3, 3, 12, 10)):
        x = torch.rand(shape, requires_grad=True)
        (out, slope), (wanted, expected) = ((o := f(x), torch.autograd.grad(o.square().sum(), x)[0]) for f in (fast, eager))
        torch.testing.assert_close(out, wanted)
        torch.testing.assert_close(slope, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.sampled(6)
@every
def test_export_by_default(case):
    x, eager = images(case, dtype=torch.float32), pipeline(case)
    program = torch.export.export(pipeline(case), (x,)).module()
    for other in (x, x.flip(-1)):
        torch.testing.assert_close(program(other), eager(other))
