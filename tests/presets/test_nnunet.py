"""nnU-Net's recipe: distributions against batchgeneratorsv2, and how a trainer calls it."""

import numpy as np
import pytest
import torch
from scipy import stats

import pellucid as P
from pellucid import presets
from pellucid.interop import as_batchgenerators
from tests.refusals import refused

SIZE, DRAWS = (14, 16, 18), 400


def sample():
    """A volume of two channels with an ellipsoid of label 1 off its middle."""
    generator = torch.Generator().manual_seed(0)
    z, y, x = torch.meshgrid(*(torch.arange(float(n)) for n in SIZE), indexing="ij")
    labels = (((x - 11) / 4) ** 2 + ((y - 6) / 3) ** 2 + ((z - 8) / 2.5) ** 2 < 1).to(torch.int16)[None]
    channels = torch.stack((labels[0] * 1.5, 1.0 - labels[0]))
    return channels + 0.3 * torch.randn((2, *SIZE), generator=generator), labels


def statistics(image, labels):
    """Numbers that tell what was done to a sample: of both channels, and where the label lies."""
    where = torch.nonzero(labels[0] == 1).double().mean(0).tolist()
    edges = (image[:, :, :, 1:] - image[:, :, :, :-1]).std((1, 2, 3))
    return [*image.mean((1, 2, 3)), *image.std((1, 2, 3)), *edges, *image.amax((1, 2, 3)), (labels == 1).sum(), *where]


def test_its_draws_have_nnunets_distributions():
    spatial = "batchgeneratorsv2.transforms.spatial.spatial"
    pytest.importorskip(spatial, reason="batchgeneratorsv2 is not installed, or pandas, which it needs: the oracle of the recipe")
    from batchgeneratorsv2.transforms.intensity.brightness import MultiplicativeBrightnessTransform
    from batchgeneratorsv2.transforms.intensity.contrast import BGContrast, ContrastTransform
    from batchgeneratorsv2.transforms.intensity.gamma import GammaTransform
    from batchgeneratorsv2.transforms.intensity.gaussian_noise import GaussianNoiseTransform
    from batchgeneratorsv2.transforms.noise.gaussian_blur import GaussianBlurTransform
    from batchgeneratorsv2.transforms.spatial.low_resolution import SimulateLowResolutionTransform
    from batchgeneratorsv2.transforms.spatial.mirroring import MirrorTransform
    from batchgeneratorsv2.transforms.spatial.spatial import SpatialTransform
    from batchgeneratorsv2.transforms.utils.compose import ComposeTransforms
    from batchgeneratorsv2.transforms.utils.random import RandomTransform

    turn, near = np.pi / 6, {"synchronize_channels": False}
    gammas = [GammaTransform(BGContrast((0.7, 1.5)), inverted, False, 1, 1) for inverted in (1, 0)]
    space = {"p_rotation": 0.2, "rotation": (-turn, turn), "p_scaling": 0.2, "scaling": (0.7, 1.4), "mode_seg": "nearest"}
    theirs = ComposeTransforms(
        [
            SpatialTransform(SIZE, 0, random_crop=False, p_synchronize_scaling_across_axes=1, **space),
            RandomTransform(GaussianNoiseTransform((0, 0.1), 1, synchronize_channels=True), 0.1),
            RandomTransform(GaussianBlurTransform((0.5, 1.0), synchronize_axes=False, p_per_channel=0.5, **near), 0.2),
            RandomTransform(MultiplicativeBrightnessTransform(BGContrast((0.75, 1.25)), p_per_channel=1, **near), 0.15),
            RandomTransform(ContrastTransform(BGContrast((0.75, 1.25)), preserve_range=True, p_per_channel=1, **near), 0.15),
            RandomTransform(SimulateLowResolutionTransform((0.5, 1), False, True, None, None, 0.5), 0.25),
            RandomTransform(gammas[0], 0.1),
            RandomTransform(gammas[1], 0.3),
            MirrorTransform((0, 1, 2)),
        ]
    )
    image, labels = sample()
    np.random.seed(1)  # theirs draw from the global generators
    torch.manual_seed(1)
    expected = []
    for _ in range(DRAWS):
        out = theirs(image=image.clone(), segmentation=labels.clone())
        expected.append(statistics(out["image"], out["segmentation"]))
    out = presets.nnunet(SIZE, seed=2)({"volume": image.expand(DRAWS, -1, *SIZE), "labelmap": labels.expand(DRAWS, 1, *SIZE)})
    found = [statistics(one, label) for one, label in zip(out["volume"], out["labelmap"], strict=True)]
    each = zip(np.array(expected, float).T, np.array(found, float).T, strict=True)
    values = [stats.ks_2samp(a, b).pvalue for a, b in each]
    assert min(values) > 0.05 / len(values), values


def test_a_trainer_calls_it():
    image, labels = sample()
    call = as_batchgenerators(presets.nnunet(SIZE, seed=0))
    out = call(image=image, segmentation=labels, name="case")
    assert (out["image"].shape, out["segmentation"].dtype, out["name"]) == (image.shape, torch.int16, "case")
    again = as_batchgenerators([P.RandomFlip3("x", p=1.0)])(image=image, segmentation=labels)
    assert torch.equal(again["image"], image.flip(-1))
    assert torch.equal(again["segmentation"], labels.flip(-1))
    refused(P.InvalidArgument, "regression_target", call, image=image, regression_target=image)


def test_one_resample_and_the_shape_of_patches():
    image, labels = sample()
    augment = presets.nnunet((8, 12, 12), seed=0)
    record = augment({"volume": image, "labelmap": labels}, return_record=True)[1]
    assert str(record.plan).startswith("Warp3[0,1,2,3,4,5] -> ")
    flat = presets.nnunet((4, 16, 16))
    assert flat.transforms[1].degrees == (0, 0, 180)
    assert flat.transforms[10].transforms[0].axes == "xy"
    for wrong in (64, (64, 64), "abc"[:2]):
        refused(P.InvalidArgument, "patch_size", presets.nnunet, wrong)
