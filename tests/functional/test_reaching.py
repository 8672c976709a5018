"""Gradients that reach: slopes from a picture that scipy blurs, and the image's gradient widened, by its adjoint's laws."""

import numpy as np
import pytest
import torch
from scipy import ndimage
from torch.autograd import gradcheck

import pellucid
from pellucid import functional as PF
from pellucid.errors import InvalidArgument, InvalidType
from pellucid.functional.patches import extract_patches
from tests.refusals import refused


def noise(*shape, seed=0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def blurred(image, sigma):
    """By scipy, sample by sample."""
    sigmas = [sigma] * len(image) if isinstance(sigma, float) else sigma
    found = [
        ndimage.gaussian_filter(one, (0, s, s), mode="mirror", truncate=4) for one, s in zip(image.numpy(), sigmas, strict=True)
    ]
    return torch.from_numpy(np.stack(found))


IMAGE = noise(2, 3, 19, 23)
MATRIX = torch.tensor([[[0.913, 0.217, 0.331], [-0.173, 1.071, 0.219], [0.0031, -0.0043, 1.0]]], dtype=torch.float64)
FIELD = 5 * noise(2, 2, 12, 13, seed=1) - 2
MAPS = 22 * noise(2, 12, 13, seed=2), 18 * noise(2, 12, 13, seed=3)
FRAMES = torch.tensor([[6.1, 0.7, 11.3], [-0.8, 4.9, 9.2]], dtype=torch.float64).expand(2, 3, 2, 3) * (
    0.5 + noise(2, 3, 1, 1, seed=4)
)
CALLS = {
    "warp": (lambda x, m, d, **o: PF.warp(x, m, size=(12, 13), padding_mode="border", displacement=d, **o), MATRIX, FIELD),
    "warp_affine": (lambda x, m, **o: PF.warp_affine(x, m, (13, 12), border_value=0.4, **o), MATRIX[:, :2]),
    "warp_perspective": (lambda x, m, **o: PF.warp_perspective(x, m, (13, 12), interpolation="bicubic", **o), MATRIX),
    "remap": (lambda x, u, v, **o: PF.remap(x, u, v, **o), *MAPS),
    "affine": (lambda x, a, s, **o: PF.affine(x, a, scale=s, **o), torch.tensor(7.3).double(), torch.tensor([1.1, 0.9]).double()),
    "rotate": (lambda x, a, **o: PF.rotate(x, a, **o), torch.tensor([7.3, -11.1]).double()),
    "extract_patches": (lambda x, f, **o: extract_patches(x, f, 7, **o), FRAMES),
    "extract_patches of the image": (lambda x, f, **o: extract_patches(x, f, 7, antialias=False, **o), FRAMES),
}


def gradients(call, image, moving, **options):
    leaves = [image.clone().requires_grad_(), *(part.clone().requires_grad_() for part in moving)]
    out = call(*leaves, **options)
    return out.detach(), torch.autograd.grad(out, leaves, noise(*out.shape, seed=9))


@pytest.mark.parametrize("impl", ["cpu", "reference"])
@pytest.mark.parametrize("name", CALLS)
def test_slopes_are_those_of_the_blurred_picture(name, impl):
    call, *moving = CALLS[name]
    out, exact = gradients(call, IMAGE, moving, impl=impl)
    for scale, sigma in ((1.7, 1.7), (torch.tensor([3.1, 0.6]), [3.1, 0.6])):
        soft, found = gradients(call, IMAGE, moving, impl=impl, gradient_scale=scale)
        _, wanted = gradients(call, blurred(IMAGE, sigma), moving, impl=impl)
        assert torch.equal(soft, out)
        assert torch.equal(found[0], exact[0])
        for one, other in zip(found[1:], wanted[1:], strict=True):
            assert torch.allclose(one, other, rtol=1e-6, atol=1e-6 * float(other.abs().max()))  # the scale is float32


@pytest.mark.parametrize("impl", ["cpu", "reference"])
@pytest.mark.parametrize("name", CALLS)
def test_a_scale_of_zero_is_exact_bit_for_bit(name, impl):
    call, *moving = CALLS[name]
    out, exact = gradients(call, IMAGE, moving, impl=impl)
    for scale in (0, torch.zeros(()), torch.zeros(2)):
        same, found = gradients(call, IMAGE, moving, impl=impl, gradient_scale=scale)
        assert torch.equal(same, out)
        assert all(torch.equal(*pair) for pair in zip(found, exact, strict=True))


def test_gradcheck_at_zero():
    image, matrix, zero = noise(1, 1, 5, 6).requires_grad_(), MATRIX[:, :2].clone().requires_grad_(), torch.zeros(())
    assert gradcheck(lambda x, m: PF.warp_affine(x, m, (5, 4), gradient_scale=zero), (image, matrix))


def test_bytes_are_blurred_as_the_levels_they_are():
    image = (255 * IMAGE).to(torch.uint8)
    _, wanted = gradients(CALLS["warp_affine"][0], blurred(image.double(), 2.0).float(), [MATRIX[:, :2]])
    matrix = MATRIX[:, :2].clone().requires_grad_()
    pipeline_like = PF.warp_affine(image.float(), matrix, (13, 12), border_value=0.4, gradient_scale=2.0)
    (found,) = torch.autograd.grad(pipeline_like, matrix, noise(*pipeline_like.shape, seed=9).float())
    assert torch.allclose(found, wanted[1], rtol=1e-3)


def test_the_fill_keeps_its_gradient():
    fill = torch.tensor([0.2, 0.4, 0.6], dtype=torch.float64, requires_grad=True)
    found = [
        torch.autograd.grad(
            PF.warp_affine(IMAGE, MATRIX[:, :2] * 1.3, (20, 20), border_value=fill, gradient_scale=s).square().sum(), fill
        )
        for s in (0.0, 3.0)
    ]
    assert torch.equal(found[0][0], found[1][0])
    assert float(found[0][0].abs().min()) > 0


def test_one_graph_for_every_scale():
    torch._dynamo.reset()
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    def slope(image, matrix, scale):
        return PF.warp_affine(image, matrix, (13, 12), gradient_scale=scale).square().sum()

    compiled = torch.compile(slope, fullgraph=True, backend=backend)
    for scale in PF.anneal(8.0, 5):
        matrix = MATRIX[:, :2].clone().requires_grad_()
        (found,) = torch.autograd.grad(compiled(IMAGE, matrix, scale), matrix)
        (wanted,) = torch.autograd.grad(slope(IMAGE, matrix, scale), matrix)
        assert torch.allclose(found, wanted)
    assert len(graphs) == 1


def test_vmap_over_scales():
    def slope(scale, matrix):
        return PF.warp_affine(IMAGE, matrix, (13, 12), gradient_scale=scale).square().sum()

    scales = torch.tensor([0.0, 1.5, 4.0])
    mapped = torch.vmap(torch.func.grad(slope, 1), (0, None))(scales, MATRIX[0, :2])
    alone = torch.stack([torch.func.grad(slope, 1)(scale, MATRIX[0, :2]) for scale in scales])
    assert torch.allclose(mapped, alone)


PIPELINES = {
    "affine": [pellucid.RandomAffine(degrees=20, translate=(0.1, 0.1))],
    "crop": [pellucid.RandomResizedCrop((11, 12), scale=(0.5, 0.9))],
    "canvases": [pellucid.RandomAffine(degrees=20), pellucid.CenterCrop((15, 16)), pellucid.RandomPerspective(0.3)],
}


@pytest.mark.parametrize("name", PIPELINES)
def test_drawn_values_get_the_slopes_of_the_blurred_picture(name):
    pipeline = pellucid.Pipeline(PIPELINES[name], seed=3)
    record = pipeline.draw(IMAGE)

    def slopes(image, scale):
        leaves = record.requires_grad_()
        out = pipeline.apply(image, leaves, gradient_scale=scale)
        values = [v for values in leaves.params for v in values.values() if v.requires_grad]
        return out.detach(), torch.autograd.grad(out, values, noise(*out.shape, seed=9), materialize_grads=True)

    out, exact = slopes(IMAGE, 0.0)
    soft, found = slopes(IMAGE, torch.tensor([2.5, 1.5]))
    _, wanted = slopes(blurred(IMAGE, [2.5, 1.5]), 0.0)
    assert torch.equal(out, soft)
    assert any(float(g.abs().max()) > 0 for g in found)
    assert not all(torch.equal(*pair) for pair in zip(found, exact, strict=True))
    for one, other in zip(found, wanted, strict=True):
        assert torch.allclose(one, other, rtol=1e-5, atol=1e-8)
    called, again = pipeline(IMAGE, key=pellucid.Key(1), gradient_scale=2.0), pipeline(IMAGE, key=pellucid.Key(1))
    assert torch.equal(called, again)


def test_descent_reaches_further():
    """A shift of 8 pixels on a picture of fine stripes within a coarse blob: the sharp slopes do not know where to go."""
    y, x = torch.meshgrid(torch.arange(64.0), torch.arange(64.0), indexing="ij")
    image = (torch.exp(-((x - 32) ** 2 + (y - 32) ** 2) / 150) * (1.2 + torch.cos(2 * x) * torch.cos(1.9 * y)))[None, None]

    def ends(scales):
        shift = torch.tensor([8.0, 0.0], requires_grad=True)
        optimiser = torch.optim.Adam([shift], lr=0.2)
        for scale in scales:
            matrix = torch.cat((torch.eye(2), shift[:, None]), 1)
            loss = (PF.warp_affine(image, matrix, (64, 64), gradient_scale=scale) - image).square().mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        return float(shift.detach().norm())

    assert ends(PF.anneal(8.0, 120)) < 0.25
    assert ends(torch.zeros(120)) > 2


@pytest.mark.parametrize("scale", [-1.0, 17.0, float("nan"), float("inf")])
def test_scales_that_are_none(scale):
    refused(InvalidArgument, "gradient_scale: expected", PF.warp, IMAGE, MATRIX, size=(4, 4), gradient_scale=scale)


def test_other_mistakes():
    for name in CALLS:
        call, *moving = CALLS[name]
        refused(InvalidArgument, "gradient_scale: expected", call, IMAGE, *moving, gradient_scale=torch.ones(3))
        refused(InvalidType, "gradient_scale: expected", call, IMAGE, *moving, gradient_scale="2")
    refused(InvalidArgument, "image_gradient: expected", PF.warp, IMAGE, MATRIX, size=(4, 4), image_gradient="wide")
    pipeline = pellucid.Pipeline(PIPELINES["crop"])
    refused(InvalidArgument, "gradient_scale: expected a batch of one size", pipeline, [IMAGE[0], IMAGE[1]], gradient_scale=1.0)
    refused(InvalidArgument, "gradient_scale: expected 1 or 2", pipeline, IMAGE, gradient_scale=torch.ones(3))


def test_anneal():
    assert torch.allclose(PF.anneal(16.0, 3, end=4.0), torch.tensor([16.0, 8.0, 4.0]))
    assert PF.anneal(2.0, 1).tolist() == [2.0]
    for start, steps, end in ((0.0, 3, 0.5), (17.0, 3, 0.5), (8.0, 0, 0.5), (8.0, 2.5, 0.5), (8.0, 3, 0.0), (8.0, 3, 9.0)):
        with pytest.raises(InvalidArgument):
            PF.anneal(start, steps, end=end)


@pytest.mark.parametrize("name", [name for name in CALLS if "patches" not in name])
def test_a_widened_gradient_is_a_symmetric_blur_of_the_adjoint(name):
    call, *moving = CALLS[name]
    out, exact = gradients(call, IMAGE, moving)
    same, found = gradients(call, IMAGE, moving, image_gradient="widened")
    assert torch.equal(same, out)
    assert all(torch.equal(*pair) for pair in zip(found[1:], exact[1:], strict=True))
    wanted = ndimage.gaussian_filter(exact[0].numpy(), (0, 0, 1, 1), mode="constant", truncate=4)
    assert torch.allclose(found[0], torch.from_numpy(wanted), atol=1e-12)


def test_widening_is_symmetric_positive_definite():
    image = torch.zeros(1, 1, 6, 7, dtype=torch.float64, requires_grad=True)
    out = PF.warp(image, torch.eye(3), size=(6, 7), image_gradient="widened").flatten()
    rows = [torch.autograd.grad(out[i], image, retain_graph=True)[0].flatten() for i in range(42)]
    matrix = torch.stack(rows)
    assert torch.allclose(matrix, matrix.T, atol=1e-15)
    assert float(torch.linalg.eigvalsh(matrix).min()) > 1e-6


def test_a_widened_gradient_reaches_pixels_that_are_not_read():
    image = noise(1, 3, 64, 64).requires_grad_()
    small = torch.diag(torch.tensor([0.25, 0.25, 1.0]))
    seen = {}
    for kind in ("exact", "widened"):
        (grad,) = torch.autograd.grad(PF.warp_perspective(image, small, (16, 16), image_gradient=kind).square().sum(), image)
        seen[kind] = int((grad != 0).sum())
    assert seen == {"exact": 768, "widened": 12288}
