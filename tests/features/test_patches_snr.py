"""The keypoint gradient's signal-to-noise ratio: what it is, and what antialiasing does for it."""

import pytest
import torch

from pellucid import InvalidArgument, Key
from pellucid.features import keypoint_gradient_signal
from tests.refusals import refused

NAMES = ("astronaut", "brick", "camera", "chelsea", "coffee", "grass", "gravel", "rocket")


def photographs(names=NAMES):
    data = pytest.importorskip("skimage.data")
    pictures = [getattr(data, name)() for name in names]
    grey = [picture.mean(-1) if picture.ndim == 3 else picture for picture in pictures]
    return [torch.tensor(picture, dtype=torch.float32)[None] / 255 for picture in grey]


@pytest.mark.slow
def test_antialiasing_more_than_doubles_it_at_four_pixels_per_sample():
    images = photographs()
    without, with_it = (keypoint_gradient_signal(images, 128.0, antialias=on, draws=48) for on in (False, True))
    assert with_it.snr > 2.5 * without.snr
    assert with_it.right_way > without.right_way


def test_at_one_pixel_per_sample_there_is_nothing_to_blur():
    images = photographs(["camera"])
    assert keypoint_gradient_signal(images, 32.0, antialias=True) == keypoint_gradient_signal(images, 32.0, antialias=False)


def test_a_bowl_always_leads_home():
    """Patches of a smooth bump: no noise, so every draw's gradient points back."""
    y, x = torch.meshgrid(torch.linspace(-1, 1, 64), torch.linspace(-1, 1, 64), indexing="ij")
    bump = torch.exp(-3 * (x**2 + y**2) + 0.5 * x)[None]
    found = keypoint_gradient_signal([bump], 24.0, size=16, noise=0.0, displacement=1 / 16, draws=32)
    assert found.right_way > 0.95
    assert found.mean > 0
    assert found.snr == pytest.approx(found.mean / found.deviation)


def test_draws_depend_on_the_key_alone():
    image = torch.rand(1, 64, 64)
    state = torch.get_rng_state()
    first, again, other = (keypoint_gradient_signal([image], 24.0, size=8, draws=8, key=Key(seed)) for seed in (3, 3, 4))
    assert first == again
    assert first != other
    assert torch.equal(state, torch.get_rng_state())


def test_a_picture_without_room_is_refused():
    refused(InvalidArgument, "more than", keypoint_gradient_signal, [torch.rand(1, 32, 32)], 64.0)
    refused(InvalidArgument, "at least one", keypoint_gradient_signal, [], 64.0)
