"""What keyed functions do, against scipy and closed forms; several holes; light and hue."""

import colorsys

import pytest
import torch
from scipy import stats

import pellucid
from pellucid import InvalidArgument, Key
from pellucid import functional as PF
from tests.refusals import refused


def grey(value, side=96):
    return torch.full((2, 3, side, side), value, dtype=torch.float64)


def test_the_sensor_has_its_variance():
    for level in (0.0, 0.3, 0.8):
        found = PF.poisson_gaussian_noise(grey(level), torch.tensor([0.01, 0.0]), 0.05, clip=False, key=Key(1))
        for sample, gain in enumerate((0.01, 0.0)):
            wanted = gain * level + 0.05**2
            values = found[sample] - level
            assert abs(float(values.var()) / wanted - 1) < 5 * (2 / values.numel()) ** 0.5
            assert abs(float(values.mean())) < 5 * (wanted / values.numel()) ** 0.5


def test_photons_are_counted_by_the_law_of_poisson():
    found = PF.shot_noise(grey(0.4), 10.0, key=Key(2)) * 10
    counts = torch.bincount(found.round().long().flatten(), minlength=11)[:10].double()
    wanted = torch.from_numpy(stats.poisson.pmf(range(10), 4.0)) * found.numel()
    assert (found - found.round()).abs().max() < 1e-9
    assert stats.chi2.sf(float(((counts - wanted) ** 2 / wanted).sum()), 10) > 1e-4


def test_salt_and_pepper_have_their_shares():
    found = PF.salt_and_pepper(grey(0.5), 0.2, 0.25, key=Key(3))
    for value, share in ((1.0, 0.05), (0.0, 0.15), (0.5, 0.8)):
        assert abs(float((found == value).double().mean()) - share) < 5 * (share * (1 - share) / found.numel()) ** 0.5


@pytest.mark.parametrize(
    "name", ["poisson_gaussian_noise", "shot_noise", "salt_and_pepper", "plasma_fog", "plasma_brightness", "plasma_shadow"]
)
def test_a_key_decides_each_image_for_itself(name):
    function, image = getattr(PF, name), torch.full((3, 3, 16, 16), 0.5)
    found = function(image, key=Key(4, 2))
    assert torch.equal(found, function(image, key=Key(4, 2)))
    assert torch.equal(found[1:2], function(image[:1], key=Key(4, 2, torch.tensor([1]))))
    assert not torch.equal(found[0], found[1])
    assert not torch.equal(found, function(image, key=Key(4, 3)))
    assert function((255 * image).to(torch.uint8), key=Key(4)).dtype == torch.uint8
    assert 0 <= found.min() <= found.max() <= 1


def test_numbers_out_of_range_are_refused():
    x = torch.zeros(3, 4, 4)
    refused(InvalidArgument, "expected a number", PF.poisson_gaussian_noise, x, -0.1, key=Key(0))
    refused(InvalidArgument, "expected a number", PF.shot_noise, x, 0.5, key=Key(0))
    refused(InvalidArgument, "expected a number", PF.salt_and_pepper, x, 1.5, key=Key(0))
    refused(InvalidArgument, "expected a number", PF.plasma_fog, x, 1.0, 0.5, key=Key(0))
    refused(InvalidArgument, "expected a number", PF.plasma_brightness, x, 2.0, key=Key(0))
    refused(InvalidArgument, "expected a number", PF.plasma_shadow, x, 0.5, -1.0, key=Key(0))


def test_hue_is_that_of_colorsys():
    image = torch.rand(3, 4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = PF.shift_hsv(image, hue=0.2, saturation=-0.1, value=0.15).flatten(1).mT.tolist()
    for before, after in zip(image.flatten(1).mT.tolist(), found, strict=True):
        h, s, v = colorsys.rgb_to_hsv(*before)
        wanted = colorsys.hsv_to_rgb((h + 0.2) % 1, max(0.0, s - 0.1), min(1.0, v + 0.15))
        assert max(abs(a - b) for a, b in zip(after, wanted, strict=True)) < 1e-12


def test_light_is_that_of_the_transform():
    image = torch.rand(1, 3, 4, 5, dtype=torch.float64)
    for kelvin in (2500.0, 6500.0, 20000.0):
        wanted = pellucid.PlanckianJitter((kelvin, kelvin), p=1.0)(image)
        torch.testing.assert_close(PF.color_temperature(image, kelvin), wanted, atol=1e-12, rtol=0)
    refused(InvalidArgument, "2000 to 25000", PF.color_temperature, image, 100.0)


def test_several_holes_are_one_after_the_other():
    image = torch.rand(2, 3, 9, 9)
    boxes = torch.tensor([[[0.5, 0.0, 3.0, 2.25], [4.0, 4.0, 8.0, 6.5]], [[1.0, 1.0, 2.0, 2.0], [5.0, 1.0, 6.0, 8.0]]])
    wanted = PF.erase(PF.erase(image, boxes[:, 0], fill=0.3), boxes[:, 1], fill=0.3)
    torch.testing.assert_close(PF.erase(image, boxes, fill=0.3), wanted, atol=1e-6, rtol=0)
