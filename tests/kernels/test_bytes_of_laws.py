"""Laws that take bytes make of them what they make of fractions of 255, clipped and rounded, up to ties between two levels."""

import pytest
import torch

import pellucid as P
from pellucid.engine.passes import reads_bytes
from pellucid.kernels.blend.grain import OF_BYTES
from pellucid.kernels.conversion import as_bytes

LAWS = {
    "band": (P.RandomShadow(p=1.0), P.RandomShadow((0.0, 1.0), degrees=90.0, p=0.5)),
    "contrast": (P.RandomPlasmaContrast(p=1.0), P.RandomPlasmaContrast(1.0, p=0.5)),
    "corner": (P.RandomCornerIllumination(p=1.0), P.RandomCornerIllumination(1.0, p=0.5)),
    "flare": (P.RandomSunFlare(p=1.0), P.RandomSunFlare(1.0, radius=0.5, p=0.5)),
    "fog": (P.RandomPlasmaFog(p=1.0), P.RandomPlasmaFog(3.0, p=0.5)),
    "light": (P.RandomPlasmaBrightness(p=1.0), P.RandomPlasmaBrightness(1.0, p=0.5)),
    "shadow": (P.RandomPlasmaShadow(p=1.0), P.RandomPlasmaShadow(1.0, (0.0, 1.0), p=0.5)),
    "slope": (P.RandomLinearIllumination(p=1.0), P.RandomLinearIllumination((-1.0, 1.0), p=0.5)),
    "spot": (P.RandomSpotIllumination(p=1.0), P.RandomSpotIllumination((-1.0, 1.0), p=0.5)),
    "blocks": (P.RandomDownscale(p=1.0), P.RandomDownscale((0.01, 1.0), p=0.5), P.RandomDownscale(0.02, p=1.0)),
    "rain": (P.RandomRain(p=1.0), P.RandomRain(strength=1.0, density=0.3, length=5.0, slant=90.0, p=0.7)),
    "salt_and_pepper": (P.SaltAndPepper(p=1.0), P.SaltAndPepper(amount=0.7, salt=0.2, p=0.5)),
    "speckle": (P.MultiplicativeNoise(p=1.0), P.MultiplicativeNoise(strength=1.0, p=0.5)),
    "snow": (P.RandomSnow(p=1.0), P.RandomSnow(1.0, severity=5, p=0.5)),
}


def test_each_law_has_a_case():
    assert set(LAWS) == set(OF_BYTES)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("size", [(37, 53), (3, 2), (1, 9)])
@pytest.mark.parametrize("channels", [3, 1])
def test_bytes_are_the_rounded_numbers(law, size, channels):
    image = torch.randint(0, 256, (5, channels, *size), generator=torch.Generator().manual_seed(1), dtype=torch.uint8)
    for transform in LAWS[law]:
        augment = P.Pipeline([transform], seed=4)
        record = augment.draw(image)
        found = augment.apply(image, record)
        expected = as_bytes(P.Pipeline([transform], seed=4, impl="reference").apply(image / 255.0, record), torch.uint8)
        assert found.dtype == torch.uint8
        assert (found != image).any() or size != (37, 53)
        apart = (found.int() - expected.int()).abs()
        assert apart.max() <= 1
        assert (apart > 0).float().mean() < 1e-3


@pytest.mark.parametrize("law", LAWS)
def test_of_no_pictures_there_are_none(law):
    assert P.Pipeline([LAWS[law][0]])(torch.zeros(0, 3, 8, 9, dtype=torch.uint8)).shape == (0, 3, 8, 9)


def test_a_gate_that_is_half_open_takes_the_way_through_numbers():
    image = torch.zeros(2, 3, 4, 4, dtype=torch.uint8)
    gates = torch.tensor([1.0, 0.0]), torch.tensor([1.0, 0.5])
    grains = [P.segments.Grain("blocks", None, (torch.ones(2),), gate, clip=False, most=0.0) for gate in gates]
    assert [reads_bytes(grain, image, "cpu") for grain in grains] == [True, False]
