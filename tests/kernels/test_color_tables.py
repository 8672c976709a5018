"""Colours of single channels on bytes are looked up: the bytes of the pass that computes every pixel."""

import pytest
import torch

import pellucid as P
from pellucid import Pipeline
from pellucid.kernels.warp.cpu import op

APART = {
    "brightness": [P.RandomBrightness((0.6, 1.6))],
    "contrast": [P.RandomContrast((0.6, 1.6))],
    "invert": [P.RandomInvert(p=1.0)],
    "shift": [P.RGBShift(p=1.0)],
    "curved": [P.RandomBrightness((0.6, 1.6)), P.RandomGamma((0.5, 2.0)), P.RandomContrast((0.6, 1.6))],
    "normalized": [P.RandomBrightness((0.6, 1.6)), P.Normalize((0.4, 0.5, 0.6), (0.2, 0.3, 0.1))],
}
TOGETHER = {
    "gray": [P.RandomGrayscale(p=1.0)],
    "hue": [P.RandomHue(0.1)],
    "moved": [P.RandomHorizontalFlip(p=0.5), P.RandomInvert(p=0.5)],
}


def results(transforms, image, monkeypatch):
    looked_up, found = [], op.by_levels
    monkeypatch.setattr(op, "by_levels", lambda *given: looked_up.append(found(*given)))
    return Pipeline(transforms, seed=5)(image), looked_up


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("name", APART)
def test_levels_give_the_bytes_of_the_pass(name, channels, monkeypatch):
    if channels != 3 and name in ("shift", "normalized"):
        pytest.skip("three channels")
    image = torch.randint(0, 256, (3, channels, 29, 37), generator=torch.Generator().manual_seed(1), dtype=torch.uint8)
    ours, looked_up = results(APART[name], image, monkeypatch)
    monkeypatch.setattr(op, "_MANY", 1 << 30)
    theirs, none = results(APART[name], image, monkeypatch)
    assert looked_up
    assert not none
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize("name", TOGETHER)
def test_what_mixes_channels_or_moves_is_computed(name, monkeypatch):
    image = torch.randint(0, 256, (4, 3, 29, 37), generator=torch.Generator().manual_seed(1), dtype=torch.uint8)
    _, looked_up = results(TOGETHER[name], image, monkeypatch)
    assert not looked_up


@pytest.mark.parametrize("transform", [P.RandomInvert(p=1.0), P.RandomGamma(2.0), P.RandomToneCurve(p=1.0)])
def test_a_batch_of_nothing_is_nothing(transform):
    assert Pipeline([transform])(torch.zeros(0, 3, 64, 64, dtype=torch.uint8)).shape == (0, 3, 64, 64)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=["planes", "turns"])
def test_lines_have_the_bits_of_the_pass(layout, monkeypatch):
    """Of any slope and start: one that is not found again is looked up."""
    image = torch.randint(0, 256, (1, 3, 31, 37), generator=torch.Generator().manual_seed(1), dtype=torch.uint8)
    image = image.contiguous(memory_format=layout)
    numbers = torch.rand(20, 2, 3, generator=torch.Generator().manual_seed(2)).tolist()
    steps = [P.Normalize(mean, [0.02 + value for value in std]) for mean, std in numbers]
    ours = [Pipeline([step])(image) for step in steps]
    monkeypatch.setattr(op, "_MANY", 1 << 30)
    assert all(torch.equal(one, Pipeline([step])(image)) for one, step in zip(ours, steps, strict=True))
