"""MONAI's and TorchIO's pipelines of volumes: from plain data, from objects, and the same voxels where nothing is drawn."""

import pytest
import torch

import pellucid as P
from pellucid.interop import Unsupported, from_monai, read_monai, read_torchio

BRATS = [
    {"name": "LoadImaged"},
    {"name": "RandSpatialCropd", "roi_size": [6, 7, 8], "random_size": False},
    {"name": "RandFlipd", "prob": 0.5, "spatial_axis": 0},
    {"name": "RandScaleIntensityd", "factors": 0.1, "prob": 1.0},
    {"name": "RandShiftIntensityd", "offsets": 0.2, "prob": 1.0},
]


def test_brats_from_plain_data():
    read = read_monai(BRATS)
    assert list(read.pipeline) == [
        P.RandomCrop3((8, 7, 6)),
        P.RandomFlip3("x", p=0.5),
        P.RandomBrightness((0.9, 1.1), clip="none", p=1.0),
        P.RandomBrightnessContrast((-0.2, 0.2), 0.0, clip="none", p=1.0),
    ]
    assert read.notes == ("Nearest: LoadImage: it comes before all draws, and is left to the reader of files",)
    out = read.pipeline({"image": torch.rand(2, 1, 9, 9, 9), "label": torch.ones(2, 9, 9, 9)})
    assert out["image"].shape == (2, 1, 8, 7, 6)


def test_what_is_not_here_is_listed():
    with pytest.raises(Unsupported, match="RandGibbsNoise: nothing here"):
        from_monai([{"name": "RandFlipd"}, {"name": "RandGibbsNoised"}])
    strange = read_monai({"name": "RandFlipd", "spatial_axis": 0, "colour": "red"})
    assert "colour='red'): this option is not known" in str(strange.missing[0])
    assert read_monai({"name": "RandAffined", "rotate_range": 0.1}, match="exact").missing
    assert "RandomElastic3" in str(read_torchio({"name": "RandomElasticDeformation"}).missing[0])


def test_monais_objects():
    monai = pytest.importorskip("monai.transforms", reason="MONAI is not installed: its objects are read where it is")
    keys = ["image", "label"]
    theirs = monai.Compose(
        [
            monai.RandCropByPosNegLabeld(keys, label_key="label", spatial_size=(4, 5, 6), pos=3, neg=1, num_samples=1),
            monai.RandFlipd(keys, prob=1.0, spatial_axis=[0, 2]),
            monai.RandAffined(keys, prob=0.3, rotate_range=(0.1, 0.2, 0.3), scale_range=(0.1, 0.2, 0.0), padding_mode="border"),
            monai.RandGaussianNoised("image", prob=0.1, std=0.2),
            monai.RandAdjustContrastd("image", prob=0.2, gamma=(0.7, 1.5), retain_stats=True),
        ]
    )
    read = read_monai(theirs)
    assert not read.missing
    crop, *flips, affine, noise, gamma = read.pipeline
    assert crop == P.RandomCrop3((6, 5, 4), foreground=0.75)
    assert noise == P.RandomGaussianNoise(0.0, (0.0, 0.2), clip="none", p=0.1)
    assert gamma == P.RandomGammaInRange((0.7, 1.5), retain_stats=True, p=0.2)
    assert affine.scale == ((0.9, 1.1), (0.8, 1.2), (1.0, 1.0))
    assert affine.shrinks
    x = torch.rand(1, 4, 5, 6)
    assert torch.equal(P.Pipeline(flips)(x), monai.RandFlip(1.0, [0, 2])(x.permute(0, 3, 2, 1)).permute(0, 3, 2, 1))


def test_torchios_objects():
    tio = pytest.importorskip("torchio", reason="TorchIO is not installed: its objects are read where it is")
    theirs = tio.Compose(
        [
            tio.ToCanonical(),
            tio.RandomFlip(axes=(0, 1), p=0.7),
            tio.OneOf({tio.RandomNoise(std=(0, 0.1)): 0.3, tio.RandomBiasField(0.3, order=2): 0.7}),
            tio.RandomGhosting(p=0.1),
            tio.RandomSpike(),
            tio.RandomAffine(scales=0.1, degrees=(5, 10, 15), isotropic=True),
        ]
    )
    read = read_torchio(theirs)
    assert not read.missing
    flips, either, ghosts, spike, affine = read.pipeline
    assert flips.p == 0.7
    assert either.weights == (0.3, 0.7)
    assert ghosts == P.RandomGhosting(p=0.1)
    assert spike == P.RandomSpike((1, 1))
    assert (affine.degrees, affine.scale) == (((-5, 5), (-10, 10), (-15, 15)), (0.9, 1.1))
