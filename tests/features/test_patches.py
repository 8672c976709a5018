"""Patches: values against SciPy, OpenCV and NumPy, the border, what is not finite, errors."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from pellucid import InvalidArgument, InvalidType
from pellucid.features import compose_frames, extract_patches, frames_from_xy, frames_inside, patch_coverage, turn_frames
from pellucid.functional.patches import BLUR
from tests.features.oracle import gaussian_patch, sample_positions, scipy_patch

SIZE = (6, 8)


def noise(*shape, dtype=torch.float64):
    return torch.rand(shape, dtype=dtype)


def span_of(frame, size, blur=BLUR):
    """The squared distance to blur to, from the documented rule."""
    steps = [np.hypot(frame[0, k], frame[1, k]) * 2 / n for k, n in ((0, size[1]), (1, size[0]))]
    return 1 + 3 * blur**2 * max((steps[0] ** 2 + steps[1] ** 2) / 2 - 1, 0)


@pytest.mark.parametrize("footprint", [0.4, 1.0, 1.5, 2.3, 4.0, 8.0, 20.0])
def test_values_are_scipys(footprint):
    image = noise(1, 2, 45, 60)
    frames = frames_from_xy(torch.tensor([[[30.3, 21.7], [2.1, 44.0], [-9.0, 70.0]]], dtype=torch.float64), footprint * 4, 33.0)
    frames = compose_frames(frames, torch.tensor([[1.2, 0.1, 0], [0.2, 0.8, 0.0]], dtype=torch.float64))
    patches = extract_patches(image, frames, SIZE)
    for n, frame in enumerate(frames[0].numpy()):
        for c in range(2):
            expected = scipy_patch(image[0, c].numpy(), frame, SIZE, span_of(frame, SIZE))
            np.testing.assert_allclose(patches[0, n, c].numpy(), expected, atol=1e-12)


def test_without_antialiasing_the_image_itself_is_read():
    image = noise(1, 1, 45, 60)
    frame = frames_from_xy(torch.tensor([[[30.3, 21.7]]], dtype=torch.float64), 40.0, 33.0)
    expected = scipy_patch(image[0, 0].numpy(), frame[0, 0].numpy(), SIZE, 1.0)
    for options in ({"antialias": False}, {"blur": 0.0}):
        np.testing.assert_allclose(extract_patches(image, frame, SIZE, **options)[0, 0, 0].numpy(), expected, atol=1e-12)


def test_the_convention_is_opencvs():
    cv2 = pytest.importorskip("cv2")
    image = noise(1, 1, 40, 50, dtype=torch.float32)
    frame = frames_from_xy(torch.tensor([[[22.3, 18.9]]]), 5.0, 25.0)
    cells = np.array([[2 / 12, 0, 1 / 12 - 1], [0, 2 / 12, 1 / 12 - 1], [0, 0, 1]])  # patch pixel to [-1, 1]^2
    matrix = frame[0, 0].double().numpy() @ cells
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    expected = cv2.warpAffine(image[0, 0].numpy(), matrix, (12, 12), flags=flags, borderMode=cv2.BORDER_REPLICATE)
    tolerance = 1e-4 if int(cv2.__version__.split(".")[0]) >= 5 else 3e-2  # OpenCV 4 rounds weights to 1/32 pixel
    np.testing.assert_allclose(extract_patches(image, frame, 12)[0, 0, 0].numpy(), expected, atol=tolerance)


def test_an_upright_frame_of_whole_pixels_is_a_crop():
    image = noise(1, 3, 20, 30)
    frame = frames_from_xy(torch.tensor([[[9.5, 7.5]]], dtype=torch.float64), 4.0)  # covers columns 6 to 13, rows 4 to 11
    assert torch.equal(extract_patches(image, frame, 8)[0, 0], image[0, :, 4:12, 6:14])
    turned = extract_patches(image, turn_frames(frame, 90.0), 8)[0, 0]
    np.testing.assert_allclose(turned.numpy(), np.rot90(image[0, :, 4:12, 6:14].numpy(), axes=(1, 2)), atol=1e-12)


def test_constants_stay_constant_and_ramps_stay_ramps():
    frames = frames_from_xy(40.0 + 20 * noise(1, 30, 2), 3.0 * 5 ** noise(1, 30), 360 * noise(1, 30))
    flat = extract_patches(torch.full((1, 1, 100, 100), 0.3), frames.float(), 8)
    assert torch.equal(flat, torch.full_like(flat, 0.3))
    y, x = torch.meshgrid(torch.arange(100.0, dtype=torch.float64), torch.arange(100.0, dtype=torch.float64), indexing="ij")
    patches = extract_patches((0.3 * x - 0.7 * y)[None, None], frames, 8)
    for n, frame in enumerate(frames[0].numpy()):
        rows, columns = sample_positions(frame, (8, 8))
        np.testing.assert_allclose(patches[0, n, 0].numpy(), 0.3 * columns - 0.7 * rows, atol=1e-9)


@pytest.mark.parametrize("side", [1, 2, 5, 33])
def test_outside_is_the_border_repeated_at_every_scale(side):
    """Against the same picture with the border repeated by hand, far enough that nothing else is near."""
    image = noise(1, 1, side, 19)
    frames = frames_from_xy(60 * noise(1, 40, 2) - 20, 0.5 * 40 ** noise(1, 40), 360 * noise(1, 40))
    margin = 256
    padded = torch.nn.functional.pad(image, (margin,) * 4, mode="replicate")
    shifted = torch.cat((frames[..., :2], frames[..., 2:] + margin), -1)
    torch.testing.assert_close(extract_patches(image, frames, 8), extract_patches(padded, shifted, 8), atol=1e-10, rtol=0)


def test_zeros_fade_by_coverage():
    image = noise(1, 2, 16, 16)
    frames = frames_from_xy(30 * noise(1, 20, 2) - 7, 1.0 + 10 * noise(1, 20), 360 * noise(1, 20))
    patches = extract_patches(image, frames, 6, padding_mode="zeros")
    coverage = patch_coverage(frames, (16, 16), 6)
    torch.testing.assert_close(patches, coverage * extract_patches(image, frames, 6))
    assert bool(((coverage >= 0) & (coverage <= 1)).all())
    inside = frames_inside(frames, (16, 16), margin=0.5 + 12 / 6)
    assert bool((coverage[inside] == 1).all())
    # Where samples are less than a pixel apart, it is bilinear interpolation with zeros outside.
    small = frames_from_xy(16 * noise(1, 20, 2), 3.0, 360 * noise(1, 20))
    grid = torch.stack([torch.tensor(sample_positions(f, (6, 6))) for f in small[0].numpy()])  # n 2 h w
    grid = (2 * grid.flip(1).movedim(1, -1) + 1) / 16 - 1
    expected = torch.nn.functional.grid_sample(image.expand(20, -1, -1, -1), grid, align_corners=False)
    torch.testing.assert_close(extract_patches(image, small, 6, padding_mode="zeros")[0], expected)


def test_coverage_is_the_share_inside():
    frame = frames_from_xy(torch.tensor([[-0.5, 8.0], [8.0, 8.0], [-90.0, 8.0]]), 4.0)
    assert patch_coverage(frame, (16, 16), 8).mean((-1, -2, -3)).tolist() == pytest.approx([0.5, 1.0, 0.0])


def test_frames_that_are_not_finite_touch_nothing_else():
    image = noise(2, 1, 20, 20).requires_grad_()
    frames = frames_from_xy(20 * noise(2, 4, 2), 5.0, 10.0)
    bad = frames.clone()
    bad[0, 1, 0, 2], bad[0, 2, 1, 1], bad[1, 3, 0, 0] = torch.nan, torch.inf, 1e300
    spoiled = torch.zeros(2, 4, dtype=torch.bool)
    spoiled[0, 1:3], spoiled[1, 3] = True, True
    bad.requires_grad_()
    for mode in ("border", "zeros"):
        patches = extract_patches(image, bad, 6, padding_mode=mode)
        expected = extract_patches(image, frames, 6, padding_mode=mode)
        assert bool((patches[spoiled] == 0).all())
        assert torch.equal(patches[~spoiled], expected[~spoiled])
        to_image, to_frames = torch.autograd.grad(patches.square().sum(), [image, bad])
        assert torch.isfinite(to_image).all()
        assert bool((to_frames[spoiled] == 0).all())
        assert bool((to_frames[~spoiled] != 0).any(-1).any(-1).all())
    assert bool((patch_coverage(bad, (20, 20), 6)[spoiled] == 0).all())


def test_flat_saturated_and_degenerate_input_is_finite():
    image = torch.stack((torch.zeros(1, 20, 20), torch.ones(1, 20, 20))).requires_grad_()
    frames = torch.cat((frames_from_xy(torch.rand(2, 3, 2) * 20, 40.0), torch.zeros(2, 2, 2, 3)), 1).requires_grad_()
    patches = extract_patches(image, frames, 8)
    assert torch.equal(patches, image.detach()[:, None, :, :1, :1].expand_as(patches))
    for gradient in torch.autograd.grad(patches.sum(), [image, frames]):
        assert torch.isfinite(gradient).all()


def test_a_pixel_that_is_not_finite_stays_where_it_is():
    image = torch.rand(1, 1, 32, 32)
    image[0, 0, 2, 2] = torch.nan
    frame = frames_from_xy(torch.tensor([[[20.0, 20.0]]]), 4.0)  # samples a pixel apart: the image alone is read
    assert torch.isfinite(extract_patches(image, frame, 8)).all()


def test_empty_and_dtypes():
    image = torch.rand(2, 3, 16, 16)
    assert extract_patches(image, torch.zeros(2, 0, 2, 3), 8).shape == (2, 0, 3, 8, 8)
    assert extract_patches(image[:0], torch.zeros(0, 5, 2, 3), 8).shape == (0, 5, 3, 8, 8)
    frames = frames_from_xy(8 + torch.rand(2, 4, 2), 10.0)
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        patches = extract_patches(image.to(dtype), frames, 8)
        assert patches.dtype == dtype
        torch.testing.assert_close(patches.float(), extract_patches(image, frames, 8), atol=2e-2, rtol=0)
    exact = extract_patches(image.double(), frames.double(), 8)
    assert torch.equal(extract_patches(image.double(), frames, 8), exact)


@pytest.mark.parametrize("impl", ["cpu", "reference"])
def test_autocast_leaves_patches_alone(impl):
    image, frames = torch.rand(1, 1, 40, 40, requires_grad=True), frames_from_xy(40 * torch.rand(1, 4, 2), 10.0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = extract_patches(image, frames, 8, impl=impl)
    assert inside.dtype == torch.float32
    assert torch.equal(inside, extract_patches(image, frames, 8, impl=impl))
    inside.sum().backward()


def test_the_input_is_not_changed():
    image, frames = torch.rand(1, 1, 16, 16), frames_from_xy(8 + torch.rand(1, 4, 2), 10.0)
    versions = image._version, frames._version
    extract_patches(image, frames, 8)
    assert (image._version, frames._version) == versions


def test_the_pyramid_is_close_to_a_gaussian():
    """White noise is the worst there is; the error is a fraction of the unfiltered one's."""
    image = torch.rand(1, 1, 256, 256, dtype=torch.float64)
    for footprint in (2.0, 3.0, 4.0, 5.5, 8.0):
        frame = frames_from_xy(torch.tensor([[[127.3, 128.1]]], dtype=torch.float64), 4 * footprint, 20.0)
        oracle = gaussian_patch(image[0, 0].numpy(), frame[0, 0].numpy(), (8, 8), BLUR * footprint)
        error, without = (
            np.sqrt(np.mean((extract_patches(image, frame, 8, antialias=on)[0, 0, 0].numpy() - oracle) ** 2))
            for on in (True, False)
        )
        assert error < 0.2 * without, (footprint, error, without)


def test_the_pages_example_runs():
    page = (Path(__file__).parents[2] / "docs" / "patches.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    scope = {}
    exec(block, scope)
    assert scope["valid"].tolist() == [[True, False]]


def test_errors_say_what_to_do():
    image, frames = torch.rand(1, 1, 16, 16), torch.zeros(1, 4, 2, 3)
    cases = [
        ((image[0], frames), {}, InvalidArgument, r"image\[None\]"),
        ((image.to(torch.uint8), frames), {}, InvalidType, "image / 255"),
        ((image, frames[0]), {}, InvalidArgument, r"\(B, N, 2, 3\) with B = 1"),
        ((image, torch.zeros(2, 4, 2, 3)), {}, InvalidArgument, "as there are 1 images"),
        ((image, frames), {"padding_mode": "wrap"}, InvalidArgument, "padding_mode"),
        ((image, frames), {"blur": -1.0}, InvalidArgument, "blur"),
        ((image, frames, 0), {}, InvalidArgument, "size"),
        ((image, frames), {"impl": "fast"}, InvalidArgument, "impl"),
    ]
    for arguments, options, error, text in cases:
        with pytest.raises(error, match=text):
            extract_patches(*arguments, **options)
