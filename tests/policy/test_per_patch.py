"""Draws for each cell of a grid: against the transforms on each cell alone, and against kornia's PatchSequential."""

import pytest
import torch

import pellucid as P
from pellucid import InvalidArgument, Pipeline
from pellucid.interop import from_kornia, read_kornia
from tests.refusals import refused

STEPS = [P.RandomAffine(20, p=0.7), P.OneOf([P.RandomInvert(p=1.0), P.RandomGaussianBlur(3, p=1.0)])]


def floats(batch=2, size=(8, 9)):
    return torch.rand(batch, 3, *size, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(("grid", "size"), [((2, 3), (8, 9)), ((2, 3), (7, 8)), (1, (8, 9)), ((5, 2), (8, 9))])
def test_each_cell_goes_through_the_transforms_alone(grid, size):
    augment, x = Pipeline([P.PerPatch(STEPS, grid)], seed=1), floats(size=size)
    out, record = augment(x, return_record=True)
    rows, columns = (grid, grid) if isinstance(grid, int) else grid
    high, wide = -(-size[0] // rows), -(-size[1] // columns)
    inner, wanted = Pipeline(STEPS), torch.zeros(2, 3, rows * high, columns * wide, dtype=torch.float64)
    padded = torch.nn.functional.pad(x, (0, columns * wide - size[1], 0, rows * high - size[0]), mode="replicate")
    for place in range(rows * columns):
        top, left = place // columns * high, place % columns * wide
        part = padded[..., top : top + high, left : left + wide]
        own = inner.draw(part)
        for i, values in enumerate(own.params):
            for name in values:
                values[name] = record.params[0][f"{i}_{name}"][:, place]
        wanted[..., top : top + high, left : left + wide] = inner.apply(part, own)
    torch.testing.assert_close(out, wanted[..., : size[0], : size[1]], rtol=0, atol=1e-12)
    assert torch.equal(augment.apply(x, record), out)


def test_cells_draw_for_themselves_and_samples_too():
    augment = Pipeline([P.PerPatch([P.RandomBrightness((0.0, 1.0), p=1.0)], 4)], seed=3)
    drawn = augment.draw(floats(50)).params[0]["0_brightness"]
    assert drawn.shape == (50, 16)
    assert torch.corrcoef(drawn.T).fill_diagonal_(0.0).abs().max() < 0.6
    assert len(drawn.unique()) == 800


def test_a_cell_is_kornias_of_the_same_factors():
    kornia = pytest.importorskip("kornia", reason="kornia is not installed")
    theirs = kornia.augmentation.PatchSequential(
        kornia.augmentation.RandomBrightness((0.5, 1.5), p=1.0), grid_size=(2, 3), patchwise_apply=False
    )
    ours, x = from_kornia(theirs), 0.3 + 0.2 * floats(2, (8, 9))
    assert ours.transforms[0].grid == (2, 3)
    out, record = ours(x, return_record=True)
    torch.manual_seed(0)
    params = theirs.forward_parameters(x.shape)
    params[0].param.data["brightness_factor"] = record.params[0]["0_brightness"].flatten() + 1.0
    torch.testing.assert_close(out, theirs(x, params=params), atol=1e-6, rtol=0)


@pytest.mark.parametrize("frames", [None, 4])
def test_bytes_lists_and_clips(frames):
    lead = (2,) if frames is None else (2, frames)
    pictures = torch.randint(256, (*lead, 3, 8, 9), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    rounded = P.OneOf([P.RandomInvert(p=1.0), P.RandomPosterize(2, p=1.0)], rounded=True)
    augment = Pipeline([P.PerPatch([rounded, P.RandomBrightness(0.3)], 2)], seed=5)
    out, record = augment(pictures, return_record=True)
    assert out.dtype == torch.uint8
    assert record.params[0]["1_gate"].shape == (2, 4)
    numbers = augment.apply(pictures / 255, record)
    assert (out.double() / 255 - numbers).abs().max() < 1.01 / 255
    if frames is None:
        several = augment([pictures[0], pictures[1, :, :6]])
        assert [one.shape for one in several] == [(3, 8, 9), (3, 6, 9)]


def test_what_is_learned_is_one_number_for_all_cells():
    curve = P.RandomGamma(P.Learnable(1.2), p=1.0)
    slopes = []
    for transform in (curve, P.PerPatch([curve], (2, 3))):
        augment = Pipeline([transform], seed=1)
        (number,) = augment.parameters()
        augment(0.5 * floats()).square().sum().backward()
        slopes.append(number.grad)
    torch.testing.assert_close(*slopes)


def test_cells_refuse_what_they_cannot_do():
    for inner, text in (
        (P.CenterCrop(2), "keep 2x3"),
        (P.MixUp(), "one picture, got MixUp"),
        (P.RandomBoxSafeCrop(4), "pictures alone, got RandomBoxSafeCrop"),
        (P.Normalize((0.5,) * 3, (0.5,) * 3), "without Normalize"),
        (P.RandomInvert(p=P.Learnable(0.5)), "learns by 'exact'"),
    ):
        with pytest.raises(InvalidArgument, match=text):
            Pipeline([P.PerPatch([inner], 4)])(floats())
    refused(InvalidArgument, "at most 8x9 cells", Pipeline([P.PerPatch([P.RandomInvert()], (9, 1))]), floats())
    refused(InvalidArgument, "at most 64 cells", P.PerPatch, [P.RandomInvert()], 9)


@pytest.mark.parametrize(
    ("options", "inner"),
    [
        ({"patchwise_apply": False}, (P.RandomInvert, P.RandomGrayscale)),
        ({"patchwise_apply": False, "random_apply": True}, (P.Shuffle,)),
        ({"patchwise_apply": False, "random_apply": 1}, (P.SomeOf,)),
        ({"patchwise_apply": False, "random_apply": (1,)}, (P.OneOf,)),
        ({"random_apply": True}, (P.OneOf,)),
        ({"grid_size": (1, 2)}, (P.OneOf,)),
    ],
    ids=str,
)
def test_kornias_patches_come_whole_from_objects_and_data(options, inner):
    steps = [{"name": "RandomInvert", "p": 0.5}, {"name": "RandomGrayscale", "p": 0.1}]
    sources = [{"name": "PatchSequential", "transforms": steps, **options}]
    K = pytest.importorskip("kornia.augmentation", reason="kornia is not installed")
    sources.append(K.PatchSequential(K.RandomInvert(p=0.5), K.RandomGrayscale(p=0.1), **options))
    for source in sources:
        read = read_kornia(source)
        assert not read.missing
        assert any("Nearest" in note for note in read.notes) == (inner[0] not in (P.Shuffle, P.RandomInvert))
        assert tuple(map(type, read.pipeline.transforms[0].transforms)) == inner
