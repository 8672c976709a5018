"""Identity, flips, quarter turns and whole-pixel shifts copy pixels bit for bit, in every dtype and every interpolation."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import pellucid as P
from pellucid import functional as PF

from .strategies import law

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.uint8]
MODES = ["bilinear", "nearest", "bicubic"]


def _image(dtype: torch.dtype, height: int, width: int) -> torch.Tensor:
    return (255 * torch.rand(2, 3, height, width)).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [(7, 9), (64, 33)])
def test_flips_and_identity(size, mode, dtype):
    height, width = size
    image = _image(dtype, height, width)
    across, down = [[-1, 0, width - 1], [0, 1, 0]], [[1, 0, 0], [0, -1, height - 1]]
    assert torch.equal(PF.warp_affine(image, torch.eye(3), (width, height), interpolation=mode), image)
    assert torch.equal(PF.warp_affine(image, across, (width, height), interpolation=mode), image.flip(-1))
    assert torch.equal(PF.warp_affine(image, down, (width, height), interpolation=mode), image.flip(-2))
    assert torch.equal(PF.affine(image, 0.0, interpolation=mode), image)
    assert torch.equal(PF.rotate(image, 180, interpolation=mode), image.flip(-1, -2))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("turns", [1, 2, 3, 4, -1])
@pytest.mark.parametrize("size", [8, 31])
def test_quarter_turns(size, turns, mode, dtype):
    image = _image(dtype, size, size)
    assert torch.equal(PF.rotate(image, 90.0 * turns, interpolation=mode), image.rot90(turns, (-2, -1)))
    middle = ((size - 1) / 2,) * 2
    matrix = PF.get_rotation_matrix2d(middle, 90 * turns, 1.0)
    assert torch.equal(PF.warp_affine(image, matrix, (size, size), interpolation=mode), image.rot90(turns, (-2, -1)))


@pytest.mark.parametrize("mode", MODES)
@law
@given(x=st.integers(-12, 12), y=st.integers(-12, 12))
def test_whole_pixel_shifts(mode, x, y):
    image = _image(torch.float32, 9, 10)
    shifted = PF.warp_affine(image, [[1, 0, x], [0, 1, y]], (10, 9), interpolation=mode, border_value=0.25)
    assert torch.equal(shifted, PF.crop(image, -y, -x, 9, 10, fill=0.25))
    assert torch.equal(PF.affine(image, translate=(x, y), interpolation=mode), PF.crop(image, -y, -x, 9, 10))


@law
@given(left=st.integers(0, 9), top=st.integers(0, 9), right=st.integers(0, 9), bottom=st.integers(0, 9))
def test_crop_undoes_pad(left, top, right, bottom):
    image = _image(torch.float32, 5, 4)
    for mode in ("constant", "border", "reflection", "reflect_101", "wrap"):
        padded = PF.pad(image, (left, top, right, bottom), padding_mode=mode, fill=3.0)
        assert torch.equal(PF.crop(padded, top, left, 5, 4), image)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("before", [[], [P.RandomRotation((180, 180), p=1.0)]], ids=["alone", "a stage"])
def test_posterized_bytes_are_posterized_floats(before, dtype):
    """Every byte and every number of bits, as a pass of its own and as a stage of a warp's."""
    image = torch.arange(256, dtype=torch.uint8).reshape(1, 1, 16, 16).expand(9, 3, 16, 16).contiguous()
    lost = 8 - torch.arange(9)[:, None, None, None]
    kept = (image.long() >> lost << lost).to(torch.uint8)
    augment = P.Pipeline([*before, P.RandomPosterize((0, 8), p=1.0)], seed=3)
    record = augment.draw(image).with_param(len(before), "bits", torch.arange(9.0))
    wanted = P.Pipeline(before)(kept) if before else kept
    assert torch.equal(augment.apply(image, record), wanted)
    assert torch.equal(augment.apply(image.to(dtype) / 255, record), wanted.to(dtype) / 255)
