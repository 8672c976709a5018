"""Compiled curves of numbers, and their declared slopes, are the reference's."""

import functools

import numpy as np
import pytest
import torch

from pellucid import Pipeline, RandomEqualize, RandomGamma, functional
from pellucid.kernels import curve
from pellucid.kernels.curve import clahe, cpu
from tests.compare import within_budget

from .primitives import Kernel, agree, both, gradients

TONES = ("posterize", "solarize", "autocontrast", "equalize")
AMOUNTS = {"posterize": (1.0, 3.4, 8.0, 5.0), "solarize": (0.0, 0.3, 1.0, 0.5)}
HOW = [("straight_through", "secant"), ("soft", "straight_through"), ("none", "none")]


def powers(batch=2, channels=3, size=(9, 11), dtype=torch.float64, seed=0, low=0.05):
    generator = torch.Generator().manual_seed(seed)
    image = low + (1 - low) * torch.rand(batch, channels, *size, generator=generator, dtype=dtype)
    exponent, gain = 0.3 + 2.0 * torch.rand(2, batch, generator=generator, dtype=dtype)
    return image, exponent, gain


def power(image, exponent, gain, *, clip=True, impl="auto"):
    return curve.power(image, exponent, gain, clip=clip, impl=impl)


def stretches(batch=2, channels=3, size=(9, 11), dtype=torch.float64, seed=0):
    image, gate, _ = powers(batch, channels, size, dtype, seed)
    return image, gate / 2.5


def stretch(image, gate, impl="auto"):
    return toned(image, None, gate, name="autocontrast", impl=impl)


def toned(image, amount, gate, *, name, how=("none", "none"), scale=1.0, impl="auto"):
    given = {"image_gradient": how[0], "surrogate": how[1], "h": 0.2 if name == "solarize" else 1.0}
    return curve.tone(image, name, amount, gate, scale=scale, impl=impl, **given)


POWER = Kernel(power, powers, "tone", ([0, 0, 0, 1], 1.0, 1.0))
STRETCH = Kernel(stretch, stretches, "tone", ([3, 0, 0, 0], 1.0, 1.0))


def pictures(dtype, scale):
    """Grey levels, among them ties and a flat channel, longer than a strip."""
    generator = torch.Generator().manual_seed(1)
    image = torch.randint(0, 256, (4, 3, 61, 84), generator=generator)
    image[1] = image[1] // 5 + 60
    image[2, 0] = 7
    image[3, :, 1:] = 200
    image = image.to(dtype) * (1 / 255)
    return image if scale == 255.0 else image + 0.003 * torch.rand(image.shape, generator=generator, dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("gate", [None, (1.0, 0.0, 1.0, 0.25)])
@pytest.mark.parametrize("scale", [1.0, 255.0])
@pytest.mark.parametrize("name", TONES)
def test_every_curve_and_its_slopes(name, scale, gate, dtype):
    image = pictures(dtype, scale)
    amount = torch.tensor(AMOUNTS[name], dtype=dtype) if name in AMOUNTS else None
    gate = None if gate is None else torch.tensor(gate, dtype=dtype)
    tensors = [part for part in (image, amount, gate) if part is not None]

    def function(image, *rest, impl, how):
        rest = list(rest)
        own = rest.pop(0) if amount is not None else None
        return toned(image, own, *(rest or [None]), name=name, how=how, scale=scale, impl=impl)

    for how in HOW:
        values, *slopes = both(functools.partial(function, how=how), tensors)
        assert torch.equal(*values)  # bit for bit
        for mine, other in slopes:
            close = 1e-11 if dtype == torch.float64 else 2e-5
            torch.testing.assert_close(mine, other, rtol=close, atol=close * float(other.abs().max()))


@pytest.mark.parametrize(("scale", "factor"), [(1.0, 1.0), (1e-13, 1.0), (1e12, 1.0), (1.9, 2.0)])
def test_a_power_is_as_precise_as_torchs(scale, factor):
    image = scale * torch.rand(3, 2, 100, 110, generator=torch.Generator().manual_seed(0)) ** 3
    image[0, 0, 0, :6] = torch.tensor([0.0, -1.0, 1.0, 1e-40, torch.inf, torch.nan])
    for exponent in (-0.5, 0.0, 0.3, 0.5, 1.0, 1.4, 2.2, 3.0, 3.1, 5.0):
        numbers = torch.full((3,), exponent), torch.full((3,), 1.25)
        ours, theirs = (power(image, *numbers, clip=False, impl=impl) for impl in ("cpu", "reference"))
        truth = power(image.double(), *(n.double() for n in numbers), clip=False, impl="reference")
        assert within_budget(ours, theirs, truth, factor=factor)
        assert torch.equal(ours[0, 0, 0, :6], theirs[0, 0, 0, :6])


def test_powers_in_float32_err_by_two_units_in_the_last_place_at_most():
    image, gain = 2 * torch.rand(1, 1, 300, 300, generator=torch.Generator().manual_seed(3)) ** 2, torch.ones(1)
    for exponent in torch.linspace(-3, 3, 21):
        ours = power(image, exponent[None], gain, clip=False, impl="cpu").double()
        truth = image.double() ** exponent.double()
        assert ((ours - truth).abs() <= 2 * 2.0 ** (truth.log2().floor() - 23)).all()


def test_slopes_of_powers_are_as_precise_as_torchs_and_sums_of_logarithms_precise():
    image = 0.01 + 0.98 * torch.rand(2, 3, 60, 70, generator=torch.Generator().manual_seed(2))
    numbers = torch.tensor([0.6, 2.4]), torch.tensor([1.0, 1.1])
    ours, theirs = (gradients(power, (image, *numbers), impl=impl) for impl in ("cpu", "reference"))
    truth = gradients(power, (image.double(), *(n.double() for n in numbers)), impl="reference")
    assert within_budget(*(found[1] for found in (ours, theirs, truth)))
    for mine, exact in zip(ours[2:], truth[2:], strict=True):
        torch.testing.assert_close(mine.double(), exact, rtol=1e-6, atol=0)  # sums over 12,600 numbers


def test_an_exponent_of_one_is_the_identity_bit_for_bit():
    image, one = torch.rand(2, 3, 50, 60), torch.ones(2)
    assert torch.equal(power(image, one, one), image)


def test_a_power_of_bytes_is_numpys_lookup_table():
    image = torch.randint(0, 256, (4, 3, 40, 50), dtype=torch.uint8)
    _, record = (augment := Pipeline([RandomGamma((0.5, 2.0), p=0.7)], seed=1))(image, return_record=True)
    values, result = record.params[0], augment.apply(image, record)
    for picture, of, gamma, gate in zip(image, result, values["gamma"], values["gate"], strict=True):
        table = np.rint(255 * (np.arange(256) / 255) ** (float(gamma) if gate else 1.0)).astype(np.int16)
        assert np.abs(table[picture.numpy()] - of.numpy().astype(np.int16)).max() <= 1
        assert (table[picture.numpy()] == of.numpy()).mean() > 0.99


def test_what_is_not_a_number_spoils_its_channel_or_pixel_as_in_the_reference():
    image = torch.rand(2, 3, 20, 30)
    image[0, 1, 3, 4] = torch.nan
    for name in ("posterize", "solarize", "autocontrast"):
        amount = torch.full((2,), 0.5) if name == "solarize" else torch.full((2,), 3.0) if name == "posterize" else None
        ours, theirs = (toned(image, amount, None, name=name, impl=impl) for impl in ("cpu", "reference"))
        assert torch.equal(ours.isnan(), theirs.isnan())


def test_one_row_for_all_and_functions():
    image, exponent, gain = powers()
    leaf = exponent[:1].clone().requires_grad_()
    power(image, leaf, gain[:1], clip=False, impl="cpu").sum().backward()
    assert leaf.grad.shape == (1,)
    torch.testing.assert_close(functional.adjust_gamma(image, 2.0), image**2)


def test_the_pipeline_uses_it():
    made = [Pipeline([RandomGamma(), RandomEqualize()], seed=3, impl=impl) for impl in ("auto", "reference")]
    image = torch.rand(4, 3, 20, 30)
    torch.testing.assert_close(*(pipeline(image) for pipeline in made), atol=1e-6, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("tiles", [(1, 1), (4, 4), (3, 5), (80, 2)])
def test_tiles_and_their_slopes_are_the_references_bit_for_bit(tiles, dtype):
    image = pictures(dtype, 1.0)
    image[3, 0, 5, 6:9] = torch.tensor([torch.nan, torch.inf, -torch.inf], dtype=dtype)
    limit = torch.tensor([0.01, 1.0, 3.3, 40.0], dtype=dtype)
    ours, theirs = (function(image, limit, tiles) for function in (cpu.clahe, clahe.clahe))
    for mine, other in zip(ours, theirs, strict=True):
        assert torch.equal(mine, other)
    small = image[:1, :, :2, :1]
    assert torch.equal(cpu.clahe(small, limit[:1], tiles)[0], clahe.clahe(small, limit[:1], tiles)[0])
    assert cpu.clahe(image[:0], limit[:0], tiles)[0].shape == image[:0].shape
    assert cpu.clahe(image, limit, tiles, sloped=False)[1].numel() == 0
    torch.library.opcheck(torch.ops.pellucid.cpu_clahe.default, (image[..., :9, :9], limit, *tiles, True))


@pytest.mark.parametrize("how", HOW)
def test_gradients_under_tiles_are_the_references(how):
    image, gate = pictures(torch.float64, 1.0), torch.tensor([1.0, 0.0, 0.5, 1.0], dtype=torch.float64)
    function = functools.partial(toned, name="clahe", how=how)
    given = image, torch.tensor([1.0, 3.3, 2.0, 4.0], dtype=torch.float64), gate
    agree(function, given)
