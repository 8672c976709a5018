"""Gradients of patches against finite differences at every scale, and continuity across the pyramid's levels."""

import pytest
import torch

from pellucid.features import extract_patches, frame_scale, frames_from_xy, rescale_frames
from pellucid.functional.patches import BLUR

FOOTPRINTS = [0.4, 1.0, 2.3, 4.0, 8.0]


def seam(level):
    """The distance between samples at which a patch stops reading one pair of levels and starts with the next."""
    return ((4.0**level - 1.0) / (3.0 * BLUR**2) + 1.0) ** 0.5


def smooth(*shape):
    """A picture with structure at every scale."""
    total = torch.zeros(shape, dtype=torch.float64)
    for octave in range(5):
        coarse = torch.rand(*shape[:2], shape[2] // 2**octave + 2, shape[3] // 2**octave + 2, dtype=torch.float64)
        total = total + torch.nn.functional.interpolate(coarse, size=shape[2:], mode="bicubic", align_corners=False)
    return total / 5


def off_centres(frames, size):
    """Whether no sample is within 1e-4 of a pixel centre of any level it may read (where the derivative is one-sided)."""
    cells = (2 * torch.arange(size, dtype=torch.float64) + 1) / size - 1
    v, u = torch.meshgrid(cells, cells, indexing="ij")
    at = frames[..., :2] @ torch.stack((u, v)).flatten(1) + frames[..., 2:]
    levels = torch.tensor([2.0**level for level in range(6)], dtype=torch.float64)
    at = at[..., None] / levels
    return bool(((at - at.round()).abs() > 1e-4).all())


@pytest.mark.parametrize("footprint", [*FOOTPRINTS, seam(1), seam(2)])
def test_gradients_to_image_and_frames(footprint):
    """Slow mode; the distance between samples is exactly the footprint, so 1 and the last two probe the seams of the blend."""
    image = torch.rand(1, 2, 9, 10, dtype=torch.float64, requires_grad=True)
    frames = _frames_off_centres(footprint, 2, 3).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, f: extract_patches(x, f, 3, impl="cpu"), (image, frames))


@pytest.mark.parametrize("footprint", [pytest.param(1.0, marks=pytest.mark.slow), 2.3])
def test_gradients_of_the_reference(footprint):
    image = torch.rand(1, 1, 5, 6, dtype=torch.float64, requires_grad=True)
    frames = _frames_off_centres(footprint, 1, 2).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, f: extract_patches(x, f, 2, impl="reference"), (image, frames))


def _frames_off_centres(footprint, count, size):
    """Frames none of whose samples is so near a pixel centre that a finite difference steps over it."""
    for attempt in range(20):
        generator = torch.Generator().manual_seed(attempt)
        xy = 1.0 + 6.0 * torch.rand(1, count, 2, generator=generator, dtype=torch.float64)
        frames = frames_from_xy(xy, 0.5 * size * footprint, torch.tensor([17.0, 203.0], dtype=torch.float64)[:count])
        if off_centres(frames, size):
            return frames
    raise AssertionError(footprint)


@pytest.mark.slow
@pytest.mark.parametrize("footprint", [0.7, 2.3])
def test_second_derivatives_of_the_reference(footprint):
    image = torch.rand(1, 1, 6, 6, dtype=torch.float64, requires_grad=True)
    frames = frames_from_xy(torch.tensor([[[2.6, 3.1]]], dtype=torch.float64), footprint, 17.0).requires_grad_()
    assert torch.autograd.gradgradcheck(lambda x, f: extract_patches(x, f, 2, impl="reference"), (image, frames))


def test_gradients_of_anisotropic_frames_and_zeros():
    image = torch.rand(1, 1, 9, 10, dtype=torch.float64, requires_grad=True)
    frames = torch.tensor([[[[3.1, 1.2, 2.3], [-0.4, 9.7, 7.1]], [[1.3, 0.2, 8.9], [0.7, -2.9, 0.3]]]], dtype=torch.float64)
    frames.requires_grad_()
    for mode in ("border", "zeros"):
        assert torch.autograd.gradcheck(lambda x, f, m=mode: extract_patches(x, f, 3, padding_mode=m), (image, frames))


def test_values_go_on_across_scales():
    """No jump over 1e-3 for a relative step of 1e-3, from a quarter of a pixel to 16 pixels per sample."""
    image = smooth(1, 1, 256, 256)
    frame = frames_from_xy(torch.tensor([[[127.3, 120.8]]], dtype=torch.float64), 1.0, 20.0)
    steps = 1.001 ** torch.arange(4200, dtype=torch.float64)  # six octaves
    frames = rescale_frames(frame.expand(1, 4200, 2, 3), steps)
    patches = extract_patches(image, frames, 8)[0, :, 0]
    assert frame_scale(frames[0, -1]) > 64
    jumps = (patches[1:] - patches[:-1]).abs().flatten(1)
    assert jumps.max() < 1e-3 * 8 * (image.max() - image.min())  # a corner moves by up to 5.7e-3 of a sample's distance
    assert jumps.mean(1).max() < 1e-3


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_neither_value_nor_derivative_jumps_at_a_seam(level):
    """White noise, where levels differ most: the step across a seam shrinks with the step, and so does the derivative's."""
    image = torch.rand(1, 1, 128, 128, dtype=torch.float64)
    factor = torch.tensor([-1e-7, 1e-7], dtype=torch.float64).requires_grad_()
    frame = frames_from_xy(torch.tensor([[[63.3, 60.8]]], dtype=torch.float64), 4 * seam(level), 20.0)
    patches = extract_patches(image, rescale_frames(frame.expand(1, 2, 2, 3), 1 + factor[None]), 8)[0]
    assert (patches[1] - patches[0]).abs().max() < 1e-4
    slopes = torch.stack([torch.autograd.grad(p.flatten()[27], factor, retain_graph=True)[0].sum() for p in patches])
    assert (slopes[1] - slopes[0]).abs() < 1e-4 * (1 + slopes.abs().max())


def test_every_pixel_has_a_gradient_where_samples_are_far_apart():
    image = torch.rand(1, 1, 64, 64, requires_grad=True)
    frame = frames_from_xy(torch.tensor([[[31.5, 31.5]]]), 32.0)
    shares = []
    for antialias in (True, False):
        (gradient,) = torch.autograd.grad(extract_patches(image, frame, 8, antialias=antialias).sum(), image)
        shares.append((gradient != 0).float().mean().item())
    assert shares[0] == 1.0
    assert shares[1] < 0.1
