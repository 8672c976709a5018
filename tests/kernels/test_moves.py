"""Pictures that are only moved are copied, whatever their elements: bit for bit, and so are their gradients."""

import pytest
import torch

from pellucid import Pad, Pipeline, RandomHorizontalFlip, RandomRotation90, RandomVerticalFlip
from pellucid import functional as F
from pellucid.kernels.warp.cpu import op

DTYPES = (torch.uint8, torch.float16, torch.bfloat16, torch.float32, torch.float64)
STEPS = ((1, 0, 0, 1), (-1, 0, 0, 1), (1, 0, 0, -1), (-1, 0, 0, -1), (0, 1, 1, 0), (0, 1, -1, 0), (0, -1, 1, 0), (0, -1, -1, 0))


@pytest.fixture
def moved(monkeypatch):
    """The maps of every pass that only moved pictures."""
    seen, before = [], op._moved
    monkeypatch.setattr(op, "_moved", lambda image, maps, *rest: (seen.append(maps), before(image, maps, *rest))[1])
    return seen


def pictures(dtype, size, layout):
    """No number appears twice in a row, and there are some that are none."""
    image = torch.randint(0, 256, (8, 3, *size), generator=torch.Generator().manual_seed(0)).to(dtype)
    if dtype.is_floating_point:
        image = image / 255
        image[0, 0, 0, :2] = torch.tensor([torch.nan, -torch.inf])
    if layout == "channels last":
        return image.contiguous(memory_format=torch.channels_last)
    return image.transpose(2, 3).contiguous().transpose(2, 3) if layout == "columns" else image


def expected(picture, row, size):
    """Pixel by pixel, 0 outside."""
    (a, b, c), (d, e, f) = row
    v, u = torch.meshgrid(torch.arange(size[0]), torch.arange(size[1]), indexing="ij")
    x, y = a * u + b * v + c, d * u + e * v + f
    inside = (x >= 0) & (x < picture.shape[2]) & (y >= 0) & (y < picture.shape[1])
    found = picture[:, torch.where(inside, y, 0), torch.where(inside, x, 0)]
    return torch.where(inside, found, torch.zeros((), dtype=picture.dtype))


def maps(size, out, slack):
    """One of each kind, centred but for so many pixels."""
    rows = []
    for k, (a, b, d, e) in enumerate(STEPS):
        x = (size[1] - 1 if a + b < 0 else 0) + slack * (k % 3 - 1)
        y = (size[0] - 1 if d + e < 0 else 0) - slack * (k % 2)
        rows.append(((a, b, x), (d, e, y)))
    return rows


@pytest.mark.parametrize("layout", ["rows", "columns", "channels last"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("size", "out", "slack"), [((7, 5), (7, 5), 0), ((70, 131), (70, 131), 3), ((40, 33), (66, 90), 20)])
def test_every_element_arrives_as_it_was(size, out, slack, dtype, layout, moved):
    image, rows = pictures(dtype, size, layout), maps(size, out, slack)
    matrix = torch.tensor(rows, dtype=torch.float64 if dtype == torch.float64 else torch.float32)
    result = F.warp(image, matrix, size=out)
    assert len(moved) == 1
    for picture, row, found in zip(image, rows, result, strict=True):
        assert torch.equal(found.nan_to_num(7.0), expected(picture, row, out).nan_to_num(7.0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("size", "out", "slack"), [((9, 14), (9, 14), 0), ((40, 33), (66, 90), 20), ((50, 60), (20, 30), 5)])
def test_gradients_go_the_way_back(size, out, slack, dtype, moved):
    image = pictures(dtype, size, "rows").nan_to_num(0.5).clamp(0, 1).requires_grad_()
    matrix = torch.tensor(maps(size, out, slack), dtype=torch.float64 if dtype == torch.float64 else torch.float32)
    upstream = torch.rand(8, 3, *out, generator=torch.Generator().manual_seed(1)).to(dtype)
    found = {}
    for impl in ("cpu", "reference"):
        (found[impl],) = torch.autograd.grad(F.warp(image, matrix, size=out, impl=impl), image, upstream)
    assert len(moved) == 2  # there and back
    assert torch.equal(found["cpu"], found["reference"])


@pytest.mark.parametrize("padding_mode", ["border", "reflection", "wrap"])
def test_what_reaches_over_the_border_is_no_move(padding_mode, moved):
    image, matrix = torch.rand(2, 3, 12, 14), torch.tensor([[[-1.0, 0, 13], [0, 1, 0]]])
    assert torch.equal(F.warp(image, matrix, size=(12, 14), padding_mode=padding_mode), image.flip(-1))
    assert len(moved) == 1
    F.warp(image, matrix, size=(12, 15), padding_mode=padding_mode)
    F.warp(image, matrix + torch.tensor([[[0.0, 0, 0.5], [0, 0, 0]]]), size=(12, 14))
    F.warp(image, matrix * torch.tensor([[[1.0, 1, torch.nan], [1, 1, 1]]]), size=(12, 14))
    F.warp(image, matrix, size=(12, 14), fill=0.5)
    assert len(moved) == 1


def test_a_batch_of_flips_is_one_copy(moved):
    image = torch.randint(0, 256, (16, 3, 40, 40), dtype=torch.uint8)
    flip = Pipeline([RandomHorizontalFlip(), RandomVerticalFlip(p=0.3), RandomRotation90()], seed=0)
    result, record = flip(image, return_record=True)
    assert len(moved) == 1
    across, down = (record.params[k]["gate"].bool() for k in (0, 1))
    for k, picture in enumerate(image):
        picture = picture.flip(-1) if across[k] else picture
        picture = picture.flip(-2) if down[k] else picture
        assert any(torch.equal(result[k], picture.rot90(turn, (-2, -1))) for turn in range(4))
    assert torch.equal(result, Pipeline(flip.transforms, seed=0, impl="reference")(image))


@pytest.mark.parametrize("fill", [0.0, 0.5])
def test_black_around_a_picture_is_no_colour(fill, moved):
    image = pictures(torch.float32, (9, 12), "rows")
    ours = Pipeline([Pad(2, fill=fill)], seed=0)(image)
    assert len(moved) == (fill == 0.0)
    assert torch.equal(ours.nan_to_num(7.0), torch.nn.functional.pad(image, (2, 2, 2, 2), value=fill).nan_to_num(7.0))
