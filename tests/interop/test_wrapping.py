"""What has no stand-in is the original, on request: pictures alone, with the reason where that cannot be."""

import numpy as np
import pytest
import torch

from pellucid import Pipeline
from pellucid.interop import read_albumentations, read_torchvision
from tests.peers import albumentations, torchvision_functional


@pytest.mark.filterwarnings("ignore")
def test_the_original_of_albumentations_is_a_step():
    A = albumentations()
    described = {"name": "RingingOvershoot", "blur_limit": [7, 7], "cutoff": [1.0, 1.0], "p": 1.0}
    assert read_albumentations(described).missing[0].reason == "nothing here does what it does"
    found = read_albumentations(described, unknown="wrap")
    assert found.missing == ()
    assert "the original of albumentations" in found.notes[0]
    image = np.random.default_rng(0).integers(0, 256, (9, 8, 3), dtype=np.uint8)
    wanted = A.RingingOvershoot((7, 7), (1.0, 1.0), p=1.0)(image=image)["image"]
    out = found.pipeline(torch.from_numpy(image).movedim(-1, 0))
    assert np.array_equal(out.movedim(0, -1).numpy(), wanted)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "options"), [("Spatter", {}), ("Superpixels", {"p_replace": [1.0, 1.0]})])
def test_what_draws_on_pictures_is_a_step_on_request(name, options):
    albumentations()
    described = {"name": "Compose", "transforms": [{"name": name, "p": 1.0, **options}]}
    assert read_albumentations(described).missing[0].name == name
    found = read_albumentations(described, unknown="wrap")
    image = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    out = found.pipeline(image=image, mask=image[..., 0])
    assert (out["image"].shape, out["image"].dtype) == (image.shape, image.dtype)
    assert (out["image"] != image).any()
    assert np.array_equal(out["mask"], image[..., 0])


def test_the_reason_where_it_cannot_be():
    albumentations()
    for name, word in (("MaskDropouts", "has no MaskDropouts either"), ("RandomCropNearBBox", "moves masks, boxes and points")):
        found = read_albumentations({"name": name, "p": 1.0}, unknown="wrap")
        assert word in found.missing[0].reason
    asking = read_albumentations({"name": "TextImage", "font_path": "font.ttf"}, unknown="wrap")
    assert "asks for textimage_metadata with each call" in asking.missing[0].reason
    wrong = read_albumentations({"name": "RingingOvershoot", "cutoff": "wide"}, unknown="wrap")
    assert "does not take its options" in wrong.missing[0].reason


def test_the_original_of_torchvision_is_a_step():
    torchvision_functional()
    found = read_torchvision({"name": "RandomChannelPermutation"}, unknown="wrap")
    assert "original" not in str(found.notes)  # it has an equal
    mixed = {"name": "UniformTemporalSubsample", "num_samples": 1}
    found = read_torchvision(mixed, unknown="wrap")
    image = torch.rand(1, 3, 2, 2)
    assert isinstance(found.pipeline, Pipeline)
    assert torch.equal(found.pipeline(image), image)
