"""Pictures that are views with a bit set, and calls under another default device: as if neither were so."""

import pytest
import torch

import pellucid as P
from pellucid import Key, Pipeline
from pellucid import functional as PF
from pellucid.features import extract_patches, frames_from_xy
from tests.cases import CASES, IDS, images, pipeline

every = pytest.mark.parametrize("case", CASES, ids=IDS)
KEY = Key(3, 1)


def negated(tensor):
    """The same numbers, held with their signs turned around and a bit that says so."""
    made = torch.complex(torch.zeros_like(tensor), -tensor).conj().imag
    assert made.is_neg()
    assert torch.equal(made, tensor)
    return made


def followed(augment, batch):
    """The result where a gradient is asked for, which goes other ways."""
    return augment(batch.requires_grad_(), key=KEY).detach()


@every
def test_a_negative_bit_is_resolved(case):
    augment, batch = pipeline(case), images(case, 4, dtype=torch.float32)
    assert torch.equal(augment(negated(batch), key=KEY), augment(batch, key=KEY))
    assert torch.equal(followed(augment, negated(batch)), followed(augment, batch.clone()))


@every
def test_the_default_device_decides_nothing(case):
    augment, batch = pipeline(case), images(case, 4, dtype=torch.float32)
    wanted, record = augment(batch, key=KEY, return_record=True)
    traced = followed(augment, batch.clone())
    with torch.device("meta"):
        assert torch.equal(pipeline(case)(batch, key=KEY), wanted)
        assert torch.equal(augment.apply(batch, record), wanted)
        assert torch.equal(followed(augment, batch.clone()), traced)


def test_functions_resolve_a_negative_bit():
    image = torch.rand(2, 3, 8, 9)
    for function in (lambda x: PF.rotate(x, 20.0), lambda x: PF.gaussian_blur(x, 3), lambda x: PF.resize(x, (4, 5))):
        assert torch.equal(function(negated(image)), function(image))


CALLS = {
    "rotate": lambda x: PF.rotate(x, 20.0),
    "warp": lambda x: PF.warp_affine(x, torch.tensor([[1.0, 0.1, 0.5], [0.0, 1.0, 0.2]], device="cpu"), (6, 7)),
    "resize": lambda x: PF.resize(x, (4, 5)),
    "crop": lambda x: PF.resized_crop(x, 1, 1, 5, 6, (4, 4)),
    "flip": PF.horizontal_flip,
    "blur": lambda x: PF.gaussian_blur(x, 3),
    "motion blur": lambda x: PF.motion_blur(x, 3, 20.0, 0.5),
    "zoom blur": lambda x: PF.zoom_blur(x, 1.5),
    "median": lambda x: PF.median_blur(x, 3),
    "colours": lambda x: PF.adjust_hue(x, 0.1),
    "curve": lambda x: PF.adjust_gamma(x, 1.5),
    "levels": PF.equalize,
    "holes": lambda x: PF.erase(x, (1.0, 0.0, 2.5, 3.0)),
    "codec": lambda x: PF.jpeg(x, 30),
    "noise": lambda x: PF.gaussian_noise(x, key=KEY),
    "patches": lambda x: extract_patches(x, frames_from_xy(torch.tensor([[[3.5, 2.5]]], device="cpu"), 1.0), 2),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("bytes_", [False, True])
def test_functions_compute_where_their_pictures_lie(name, bytes_):
    image = torch.rand(2 if name != "patches" else 1, 3, 8, 9)
    image = (image * 255).to(torch.uint8) if bytes_ and name != "patches" else image
    wanted = CALLS[name](image)
    with torch.device("meta"):
        assert torch.equal(CALLS[name](image), wanted)


def test_lists_and_targets_resolve_a_negative_bit():
    augment = Pipeline([P.RandomRotation(20), P.RandomCrop((6, 7))])
    batch = {"image": [torch.rand(3, 8, 9), torch.rand(3, 9, 7)], "boxes": [torch.rand(2, 4).sort(-1).values * 6] * 2}
    wanted = augment(batch, key=KEY)
    found = augment({key: [negated(one) for one in values] for key, values in batch.items()}, key=KEY)
    for key, value in wanted.items():
        assert torch.equal(found[key], value)


def test_a_module_that_predicts_makes_its_tensors_beside_the_pictures():
    def turn(pictures):
        return pictures.mean((1, 2, 3)) + torch.zeros(len(pictures))

    augment, batch = Pipeline([P.RandomRotation(P.Learnable(1.0, by=turn))]), torch.rand(2, 3, 8, 8)
    wanted = augment(batch, key=KEY)
    with torch.device("meta"):
        assert torch.equal(augment(batch, key=KEY), wanted)
