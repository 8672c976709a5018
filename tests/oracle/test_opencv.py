"""OpenCV's conventions: which way matrices lead, which corner is the origin, what each border shows.

The tolerance: OpenCV 5 computes coordinates and weights in float32. A coordinate near 40 has a spacing of 3.8e-6, and noise in
[0, 1] changes by up to 1 per pixel on each axis, so a few units of that, about 1e-5, is what its result can mean.
"""

import numpy as np
import pytest
import torch

from pellucid import functional as PF
from pellucid.functional.opencv import read_border
from tests.peers import BORDERS, cv_image, cv_remap, cv_warp, opencv

NOISE = 1e-5
MODES = {"bilinear": 1, "bicubic_opencv": 2, "nearest": 0}
AFFINE = np.array([[1.05, 0.42, -3.3], [-0.37, 0.93, 6.1]])
HOMOGRAPHY = np.array([[1.1, 0.21, -2.3], [-0.14, 0.93, 3.7], [0.003, -0.002, 1.0]])


@pytest.fixture
def image() -> torch.Tensor:
    return torch.rand(3, 21, 26)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize(
    ("ours", "theirs", "matrix"),
    [(PF.warp_affine, "warpAffine", AFFINE), (PF.warp_perspective, "warpPerspective", HOMOGRAPHY)],
    ids=["affine", "perspective"],
)
def test_warps(image, ours, theirs, matrix, mode, border):
    value = (0.7, -0.2, 0.1)
    found = ours(image, matrix, (31, 24), interpolation=mode, border_mode=border, border_value=value)
    assert (found - cv_warp(theirs, image, matrix, (31, 24), MODES[mode], border, value)).abs().max() < NOISE


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("border", BORDERS)
def test_remap(image, mode, border):
    generator = np.random.default_rng(1)
    # float32 from the start: both sides read the same coordinates.
    x, y = (generator.uniform(-9, 35, (17, 19)).astype(np.float32) for _ in range(2))
    ours = PF.remap(image, x, y, interpolation=mode, border_mode=border, border_value=0.4)
    peer = cv_remap(image, x, y, MODES[mode], border, (0.4, 0.4, 0.4))
    assert (ours - peer).abs().max() < NOISE


@pytest.mark.parametrize("border", BORDERS)
def test_relative_remap(image, border):
    flag = getattr(opencv(), "WARP_RELATIVE_MAP", None)
    if flag is None:
        pytest.skip("this OpenCV has no relative maps")
    generator = np.random.default_rng(2)
    x, y = (generator.uniform(-5, 5, (17, 19)).astype(np.float32) for _ in range(2))
    peer = cv_remap(image, x, y, opencv().INTER_LINEAR | flag, border, (0.4, 0.4, 0.4))
    options = {"border_mode": border, "border_value": 0.4}
    ours = PF.remap(image, x, y, relative=True, **options)
    assert (ours - peer).abs().max() < NOISE
    assert torch.equal(PF.remap(image, x, y, interpolation=1 | flag, **options), ours)
    moved = PF.warp(image, torch.eye(3), size=(17, 19), displacement=np.stack((x, y)), fill=0.4, padding_mode=read_border(border))
    assert torch.equal(moved, ours)


@pytest.mark.parametrize("kind", ["warpAffine", "warpPerspective"])
def test_inverse_map_reads_the_matrix_the_other_way(image, kind):
    matrix = AFFINE if kind == "warpAffine" else HOMOGRAPHY
    function = PF.warp_affine if kind == "warpAffine" else PF.warp_perspective
    flags = opencv().INTER_LINEAR | opencv().WARP_INVERSE_MAP
    peer = cv_warp(kind, image, matrix, (31, 24), flags, "constant", 0)
    assert (function(image, matrix, (31, 24), inverse_map=True) - peer).abs().max() < NOISE
    assert (function(image, matrix, (31, 24), interpolation=flags) - peer).abs().max() < NOISE
    assert (function(image, matrix, (31, 24)) - peer).abs().max() > 0.1


@pytest.mark.parametrize("border", BORDERS)
def test_integer_flags_mean_what_they_mean_in_opencv(image, border):
    cv2 = opencv()
    for flags in (cv2.INTER_NEAREST, cv2.INTER_LINEAR, cv2.INTER_CUBIC):
        ours = PF.warp_affine(image, AFFINE, (31, 24), interpolation=flags, border_mode=BORDERS[border])
        assert (ours - cv_warp("warpAffine", image, AFFINE, (31, 24), flags, border, 0)).abs().max() < NOISE


def test_channels_last_batches_and_shared_matrices(image):
    images = torch.rand(2, 3, 21, 26)
    matrices = np.stack([AFFINE, AFFINE[:, [1, 0, 2]] * [1, -1, 1] + [[0, 0, 20], [0, 0, 0]]])
    ours = PF.warp_affine(images, matrices, (31, 24))
    last = PF.warp_affine(images.permute(0, 2, 3, 1), matrices.tolist(), (31, 24), channels_last=True)
    assert torch.equal(last.permute(0, 3, 1, 2), ours)
    for i in range(2):
        assert (ours[i] - cv_warp("warpAffine", images[i], matrices[i], (31, 24), 1, "constant", 0)).abs().max() < NOISE
        assert torch.equal(PF.warp_affine(images[i], matrices[i], (31, 24)), ours[i])
    single = PF.warp_affine(torch.from_numpy(cv_image(image)), AFFINE, (31, 24), channels_last=True)
    assert (single.permute(2, 0, 1) - cv_warp("warpAffine", image, AFFINE, (31, 24), 1, "constant", 0)).abs().max() < NOISE
    assert torch.equal(PF.warp_affine(images, AFFINE, (31, 24))[1], PF.warp_affine(images[1], AFFINE, (31, 24)))
    assert torch.equal(PF.warp_affine(images[0], matrices, (31, 24))[1], PF.warp_affine(images[0], matrices[1], (31, 24)))


def test_eight_bit_images_round_as_opencv_does():
    image = (torch.rand(3, 21, 26) * 255).round().to(torch.uint8)
    ours = PF.warp_affine(image, AFFINE, (31, 24), border_value=(200, 10, 77))
    peer = cv_warp("warpAffine", image, AFFINE, (31, 24), 1, "constant", (200, 10, 77))
    assert ours.dtype == torch.uint8
    # Halves may fall on either side of the rounding; nothing else may differ, and not by more than one level.
    difference = (ours.int() - peer.int()).abs()
    assert difference.max() <= 1
    assert (difference > 0).float().mean() < 0.01
