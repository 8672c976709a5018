"""Everything here compiles without a graph break, numbers and lists included."""

import pytest
import torch

from pellucid import functional as PF

SQUARE = [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]

CALLS = {
    "matrix": lambda x, p: PF.warp_affine(x, p, (20, 18), border_value=(1, 2, 3)),
    "nested list": lambda x, p: PF.warp_affine(x * p.sum(), [[1, 0.1, 2], [-0.1, 1, 1]], (20, 18), border_value=0.5),
    "rotation": lambda x, p: PF.warp_affine(x, PF.get_rotation_matrix2d((3, 4), p.sum(), 1.1), (20, 18)),
    "quad": lambda x, p: PF.warp_perspective(x, PF.get_perspective_transform(p.new_tensor(SQUARE) + p.sum(), SQUARE), (9, 8)),
    "affine": lambda x, p: PF.affine(x, p[0, 0], (1.0, 2.0), scale=1.1, shear=p[:, 1], center=(3, 4)),
    "colour": lambda x, p: PF.adjust_hue(PF.adjust_contrast(x, 1.2), p[0, 1]),
    "filters": lambda x, p: PF.adjust_sharpness(PF.gaussian_blur(x, 3, p[0, 0]), 1.5),
    "sizes": lambda x, p: PF.resize(PF.erase(PF.pad(x * p[0, 0], 3, fill=(1, 2, 3)), (1, 2, 5, 6.5)), (9, 13)),
}
FAST = ("matrix", "colour")


@pytest.mark.parametrize("name", [*FAST, *(pytest.param(name, marks=pytest.mark.slow) for name in CALLS if name not in FAST)])
def test_fullgraph(name):
    torch._dynamo.reset()
    image, parameters = torch.rand(2, 3, 12, 14), torch.tensor([[1.0, 0.1, 2.0], [-0.1, 1.0, 1.0]], requires_grad=True)
    compiled = torch.compile(CALLS[name], fullgraph=True, backend="eager")(image, parameters)
    eager = CALLS[name](image, parameters)
    assert (compiled - eager).abs().max() < 1e-6
    gradients = [torch.autograd.grad(out.square().sum(), parameters)[0] for out in (compiled, eager)]
    assert torch.allclose(*gradients, rtol=1e-4, atol=1e-4)
