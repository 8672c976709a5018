"""JPEG against Pillow, bit for bit; and what its declared slopes promise."""

import io
import itertools
import math

import numpy as np
import pytest
import torch
from PIL import Image
from torch.autograd import gradcheck

from pellucid import functional as PF
from pellucid.errors import InvalidArgument
from pellucid.kernels import codec
from pellucid.kernels.codec.reference import Rounding, compress
from pellucid.kernels.codec.surrogate import _SLOPES, _divided
from tests.refusals import refused

QUALITIES = (1, 10, 30, 49, 50, 75, 90, 100)
SIZES = ((37, 53), (8, 8), (17, 16), (16, 17), (1, 1), (33, 4), (2, 6))
SUBSAMPLINGS = ("4:2:0", "4:2:2", "4:4:4")


def written_and_read(picture: np.ndarray, quality: int, subsampling: str) -> np.ndarray:
    file = io.BytesIO()
    grey = picture.shape[-1] == 1
    options = {} if grey else {"subsampling": subsampling}
    Image.fromarray(picture[..., 0] if grey else picture).save(file, "JPEG", quality=quality, **options)
    return np.asarray(Image.open(file)).reshape(picture.shape)


def pictures(size: tuple[int, int]):
    from skimage import data

    noise = np.random.default_rng(0).integers(0, 256, (*size, 3), dtype=np.uint8)
    yield data.astronaut()[50 : 50 + size[0], 80 : 80 + size[1]]
    yield noise
    yield np.where(noise > 127, 255, 0).astype(np.uint8)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("channels", [1, 3])
def test_pillow_reads_the_same(size, channels):
    for picture, subsampling in itertools.product(pictures(size), SUBSAMPLINGS[: 2 * channels - 1]):
        image = torch.tensor(picture[..., :channels]).permute(2, 0, 1)
        batch = image.expand(len(QUALITIES), -1, -1, -1)
        found = PF.jpeg(batch, torch.tensor(QUALITIES, dtype=torch.float32), subsampling=subsampling)
        for quality, decoded in zip(QUALITIES, found, strict=True):
            wanted = written_and_read(np.ascontiguousarray(picture[..., :channels]), quality, subsampling)
            np.testing.assert_array_equal(decoded.permute(1, 2, 0).numpy(), wanted, str((quality, subsampling)))
        same = codec.compress(batch, torch.tensor(QUALITIES, dtype=torch.float32), subsampling, "reference")
        assert torch.equal(found, same)


def test_floats_are_brought_to_bytes_first():
    image = torch.rand(3, 20, 24, generator=torch.Generator().manual_seed(0)) * 1.2 - 0.1
    levels = (image.clamp(0, 1) * 255 + 0.5).floor().to(torch.uint8)
    torch.testing.assert_close(PF.jpeg(image, 40), PF.jpeg(levels, 40) / 255.0, rtol=0, atol=1e-7)


def test_a_gradient_changes_no_value():
    image, quality = torch.rand(2, 3, 20, 24), torch.tensor([20.0, 80.0])
    with_gradient = PF.jpeg(image.clone().requires_grad_(), quality.clone().requires_grad_())
    torch.testing.assert_close(with_gradient, PF.jpeg(image, quality), rtol=0, atol=1e-6)


def test_the_cubic_slopes_are_those_of_the_cubic_codec():
    """Which is a function of its own, and so can be told apart from a wrong transform by finite differences."""
    image = (torch.rand(1, 3, 5, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) * 200 + 20).requires_grad_()
    rounding = Rounding(_divided, _SLOPES["cubic"])
    for subsampling in SUBSAMPLINGS:
        assert gradcheck(lambda x, s=subsampling: compress(x, torch.tensor([60.0]), s, rounding), (image,), fast_mode=False)


def test_slopes_at_a_rounding():
    steps = torch.linspace(-3.0, 3.0, 6001, dtype=torch.float64).requires_grad_()
    for name, mean in {"straight_through": 1.0, "cubic": 0.25, "proximity": math.erf(2.5 / math.sqrt(2.0))}.items():
        (slope,) = torch.autograd.grad(_SLOPES[name](steps).sum(), steps)
        assert slope.mean() == pytest.approx(mean, rel=1e-2)  # a staircase climbs one step per step
    (slope,) = torch.autograd.grad(_SLOPES["proximity"](steps).sum(), steps)
    assert slope[500] > 7 * slope[0]  # at a jump, and half way between two


@pytest.mark.parametrize("image_gradient", ["proximity", "straight_through", "cubic"])
@pytest.mark.parametrize("quality", [10.0, 50.0, 90.0])
def test_the_slope_is_about_the_codecs(image_gradient, quality):
    """Over eight levels along the gradient's signs, the codec's own loss falls, and by what the slope says up to a factor of two.

    That is 1.1 to 1.8 times the codec's central difference on photographs; ``cubic`` knowingly gives less than half of it.
    """
    from skimage import data

    image = torch.tensor(data.chelsea()[40:104, 100:164]).permute(2, 0, 1)[None] / 255.0
    target = torch.rand(image.shape, generator=torch.Generator().manual_seed(0))

    def loss(x):
        return (PF.jpeg(x, quality, image_gradient=image_gradient) - target).square().sum()

    leaf = image.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(leaf), leaf)
    step = gradient.sign() * (8.0 / 255.0)
    with torch.no_grad():
        assert loss(image - step) < loss(image)
        measured = (loss(image + step) - loss(image - step)) / 2.0
    ratio = float((gradient * step).sum() / measured)
    assert (0.0 < ratio < 0.5) if image_gradient == "cubic" else (0.5 < ratio < 2.0)


def test_the_quality_learns_by_its_secant():
    image, quality = torch.rand(1, 3, 16, 16), torch.tensor([40.0], requires_grad=True)
    weights = torch.rand(1, 3, 16, 16)
    (slope,) = torch.autograd.grad((PF.jpeg(image, quality, h=10.0) * weights).sum(), quality)
    wanted = ((PF.jpeg(image, 50.0) - PF.jpeg(image, 30.0)) * weights).sum() / 20.0
    torch.testing.assert_close(slope[0], wanted)
    (none,) = torch.autograd.grad((PF.jpeg(image, quality, surrogate="none") * weights).sum() + 0 * quality.sum(), quality)
    assert none == 0


def test_errors_name_the_argument():
    refused(InvalidArgument, "quality", PF.jpeg, torch.rand(3, 8, 8), quality=0)
    refused(InvalidArgument, "subsampling", PF.jpeg, torch.rand(3, 8, 8), quality=50, subsampling="4:1:1")
    refused(InvalidArgument, "image_gradient", PF.jpeg, torch.rand(3, 8, 8), quality=50, image_gradient="soft")
    refused(InvalidArgument, "surrogate", PF.jpeg, torch.rand(3, 8, 8), quality=50, surrogate="exact")
    refused(InvalidArgument, "h", PF.jpeg, torch.rand(3, 8, 8), quality=50, h=0.0)
    refused(InvalidArgument, "channels", PF.jpeg, torch.rand(2, 8, 8), 50)


def test_the_transform_is_pillows_file_in_a_pipeline():
    from skimage import data

    from pellucid import Pipeline, RandomHorizontalFlip, RandomJPEG

    picture = data.astronaut()[50:87, 80:133]
    batch = torch.tensor(picture).permute(2, 0, 1).expand(6, -1, -1, -1)
    augment = Pipeline([RandomHorizontalFlip(p=1.0), RandomJPEG((10, 90), p=0.5)], seed=2)
    out, record = augment(batch, return_record=True)
    gates, qualities = record.params[1]["gate"], record.params[1]["quality"]
    assert 0 < gates.sum() < 6
    flipped = np.ascontiguousarray(picture[:, ::-1])
    for result, gate, quality in zip(out, gates, qualities, strict=True):
        wanted = written_and_read(flipped, math.floor(quality + 0.5), "4:2:0") if gate else flipped
        np.testing.assert_array_equal(result.permute(1, 2, 0).numpy(), wanted)
    assert "Codec[1]  (by cpu)" in augment.explain(batch)


def test_a_quality_is_learned_by_the_secant():
    from pellucid import Learnable, Pipeline, RandomJPEG

    image = torch.rand(2, 3, 24, 32, generator=torch.Generator().manual_seed(1))
    augment = Pipeline([RandomJPEG(Learnable(40.0), p=1.0)])
    loss = (augment(image) - image).pow(2).mean()
    loss.backward()
    (slope,) = [p.grad for p in augment.parameters()]
    assert float(slope) < 0  # a higher quality loses less
