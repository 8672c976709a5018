"""Two maps side by side are those of torch.stack, in every layout and dtype, forwards and back."""

import pytest
import torch

from pellucid.kernels.warp import paired


def maps(shape, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    return [torch.rand(shape, dtype=dtype, generator=generator) for _ in range(2)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(1, 3, 5), (7, 1, 4), (3, 190, 180), (0, 2, 2), (2, 0, 3)])
def test_is_a_stack(shape, dtype):
    x, y = maps(shape, dtype)
    assert torch.equal(paired(x, y), torch.stack((x, y), 1))


def test_strided_and_expanded_maps():
    x, y = maps((4, 6, 5, 2))[0].unbind(-1)
    assert torch.equal(paired(x, y), torch.stack((x, y), 1))
    x, y = (part[:1].expand(4, 6, 5) for part in (x, y))
    assert torch.equal(paired(x, y), torch.stack((x, y), 1))


@pytest.mark.parametrize("needs", [(True, True), (True, False), (False, True)])
def test_gradients(needs):
    x, y = (part.requires_grad_(need) for part, need in zip(maps((2, 3, 4)), needs, strict=True))
    wanted = [part for part in (x, y) if part.requires_grad]

    def function(*leaves):
        rest = iter(leaves)
        return paired(*(next(rest) if need else part for part, need in zip((x, y), needs, strict=True))).sin()

    assert torch.autograd.gradcheck(function, wanted, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(function, wanted)


def test_under_transforms_it_is_torch():
    x, y = maps((2, 3, 4))
    assert torch.equal(torch.func.vmap(paired)(x[:, None], y[:, None])[:, 0], paired(x, y))
    assert torch.equal(torch.compile(paired, fullgraph=True, backend="aot_eager")(x, y), paired(x, y))
    with torch.no_grad():
        assert torch.equal(paired(x.requires_grad_(), y), torch.stack((x, y), 1))
