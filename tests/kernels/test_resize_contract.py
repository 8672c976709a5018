"""Who computes a resize, and what it computes of a pipeline. What torch may do with it: ``test_resampled.py``."""

from unittest import mock

import numpy as np
import pytest
import torch

import pellucid
from pellucid.errors import ImplementationError
from pellucid.functional import resize as resize_functional
from pellucid.kernels import resize as kernels
from pellucid.kernels.explicit import AVAILABLE, implementation
from pellucid.segments.chain import AffineStage, ClipStage, HueStage
from tests.cases import MEAN, STD

from .warps import cpu, resize


def example(batch=2, dtype=torch.float32, size=(19, 21)):
    generator = torch.Generator().manual_seed(3)
    image = torch.rand(batch, 3, *size, dtype=dtype, generator=generator)
    numbers = torch.rand(batch, 4, dtype=dtype, generator=generator)
    src_from_dst = torch.eye(3, dtype=dtype).repeat(batch, 1, 1)
    src_from_dst[:, 0, 0], src_from_dst[:, 1, 1] = 0.6 + numbers[:, 0], -0.6 - 2 * numbers[:, 1]
    src_from_dst[:, 0, 2], src_from_dst[:, 1, 2] = 5 * numbers[:, 2] - 1, size[0] - 4 * numbers[:, 3]
    window = torch.tensor([[0.3, 1.2, size[1] - 1.7, size[0] - 2.4]], dtype=dtype)
    return image, src_from_dst, window


def jittered(image, src_from_dst, window, **options):
    count, dtype = image.shape[0], image.dtype
    turns = torch.linspace(-0.2, 0.3, count, dtype=dtype)
    mixing = torch.eye(3, dtype=dtype).repeat(count, 1, 1) * 0.7 + 0.1
    epilogue = [HueStage(turns), ClipStage(), AffineStage(mixing, torch.full((1, 3), -0.5, dtype=dtype))]
    fill = torch.ones(1, 3, dtype=dtype)
    return resize(image, src_from_dst, window=window, filled=True, matrix=mixing, fill=fill, epilogue=epilogue, **options)


@pytest.mark.parametrize(
    ("impl", "device", "expected"),
    [
        ("auto", "cpu", "cpu"),
        ("auto", "cuda", "reference"),
        ("reference", "cpu", "reference"),
        ("cpu", "cpu", "cpu"),
        ("cpu", "cuda", ImplementationError),
        ("triton", "cuda", ImplementationError),
    ],
)
def test_choice_table(impl, device, expected):
    assert AVAILABLE == ("cpu", "reference")
    if isinstance(expected, str):
        assert implementation(impl, torch.device(device)) == expected
    else:
        with pytest.raises(expected, match="impl="):
            implementation(impl, torch.device(device))


def test_second_derivatives_of_functions_raise():
    image, src_from_dst, window = example()

    def sized(x, **options):
        return resize(x, src_from_dst, window=window, filled=False, size=(5, 5), **options)

    with pytest.raises(ImplementationError, match="of the resize has no second derivative"):
        torch.func.grad(lambda x: torch.func.grad(lambda y: sized(y, impl="cpu").pow(3).sum())(x).sum())(image)


def test_offsets_beyond_32_bits():
    side = 30_000  # 3 * side^2 > 2^31
    image = torch.from_numpy(np.zeros(3 * side * side, np.uint8)).view(1, 3, side, side)  # never touched but for a corner
    corner = torch.randint(0, 256, (1, 3, 8, 8), dtype=torch.uint8)
    image[..., -8:, -8:] = corner
    shift = torch.tensor([[[1.0, 0.0, side - 8.0], [0.0, 1.0, side - 8.0]]])
    window = torch.tensor([[side - 8.0, side - 8.0, side - 1.0, side - 1.0]])
    found = cpu.resize(image, shift, size=(8, 8), window=window, filled=False, dtype=torch.float32)
    torch.testing.assert_close(found, corner / 255)


TRANSFORMS = [
    pellucid.RandomResizedCrop((16, 18), scale=(0.3, 1.0)),
    pellucid.RandomHorizontalFlip(),
    pellucid.ColorJitter(0.2, 0.2, saturation=0.2, hue=0.05),
    pellucid.Normalize(MEAN, STD),
]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_the_common_pipeline_is_one_compiled_pass(dtype):
    image = torch.rand(4, 3, 40, 50)
    image = (255 * image).to(torch.uint8) if dtype == torch.uint8 else image
    pipeline, slow = (pellucid.Pipeline(TRANSFORMS, dtype=torch.float32, impl=impl) for impl in ("auto", "reference"))
    assert "antialiased, within the crop of [0], by cpu" in pipeline.explain(image)
    with mock.patch("pellucid.engine.execution.settled", wraps=kernels.settled) as passes:
        ours = pipeline(image, key=pellucid.Key(1, 2))
    assert passes.call_args.args[0] is image  # read as it is
    assert passes.call_count == 1
    torch.testing.assert_close(ours, slow(image, key=pellucid.Key(1, 2)), rtol=1e-4, atol=2e-5)


def test_gradients_to_what_was_drawn():
    image = torch.rand(3, 3, 40, 50, dtype=torch.float64)
    found = []
    for impl in ("cpu", "reference"):
        pipeline = pellucid.Pipeline(TRANSFORMS, impl=impl)
        record = pipeline.draw(image, key=pellucid.Key(1, 2)).requires_grad_()
        leaves = [v for values in record.params for v in values.values() if v.requires_grad]
        found.append(torch.autograd.grad(pipeline.apply(image, record).sin().sum(), leaves))
    assert len(found[0]) >= 8
    torch.testing.assert_close(*found, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.uint8])
def test_results_of_another_dtype(dtype):
    image, src_from_dst, window = example()
    mixing = torch.eye(3)[None] * 1.3
    options = {"size": (7, 8), "window": window, "filled": True, "matrix": mixing}
    image.requires_grad_()
    out, wide = (cpu.resize(image, src_from_dst, dtype=d, **options) for d in (dtype, None))
    assert out.dtype == dtype
    if dtype == torch.uint8:
        assert torch.equal(out, (wide.clamp(0, 1) * 255).round().to(torch.uint8))
        assert not out.requires_grad
        return
    assert torch.equal(out, wide.to(dtype))
    weights = torch.rand_like(out)
    ours, theirs = (torch.autograd.grad(o, image, weights.to(o.dtype))[0] for o in (out, wide))
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float64])
def test_functional_resize_is_compiled(dtype):
    image = (torch.rand(2, 3, 30, 40) * 200).to(dtype)
    ours, theirs = (resize_functional(image, (11, 60), impl=impl) for impl in ("cpu", "reference"))
    assert ours.dtype == dtype
    torch.testing.assert_close(ours, theirs, rtol=1e-3 if dtype == torch.float16 else 1e-9, atol=0)
