"""Bytes go only through the passes that change them: the same bytes as passes over all samples give."""

import numpy as np
import pytest
import torch
from scipy import ndimage

import pellucid as P
from pellucid import Key, Pipeline
from pellucid.engine import execution, passes
from pellucid.engine.lowering import Openings
from pellucid.policy import TrivialAugmentWide

RARE = [
    P.RandomGaussianBlur(p=0.4),
    P.RandomEqualize(p=0.4),
    P.RandomGaussianNoise(p=0.4),
    P.RandomRotation(20, p=0.4),
    P.RandomPosterize(p=0.4),
    P.ColorJitter(0.4, 0.4, saturation=0.4, hue=0.1, p=0.4),
    P.RandomGamma(p=0.4),
]
ONE_OF = P.OneOf(TrivialAugmentWide().transforms)
CASES = {
    "chosen": [ONE_OF],
    "chosen twice": [P.SomeOf(ONE_OF.transforms, 2, replace=True)],
    "rare": RARE,
    "nested": [P.Apply([*RARE[:3], P.OneOf([P.RandomInvert(p=0.5), [P.RandomSolarize(p=0.7), P.RandomErasing(p=0.5)]])], p=0.6)],
    "unclipped": [P.RandomBrightness(2.0, clip="none", p=0.5), P.RandomGamma(2.0, p=0.5), P.RandomContrast(0.5, p=0.5), *RARE[:3]],
    "relaxed": [P.OneOf([P.RandomPosterize(p=1.0), P.RandomAutoContrast(p=1.0)], temperature=0.5)],
    "cropped": [P.RandomResizedCrop(24), P.RandomHorizontalFlip(), ONE_OF],
    "crop inside": [P.OneOf([P.RandomResizedCrop((33, 40)), P.RandomCrop((33, 40))]), P.RandomEqualize(p=0.5)],
    "curves": [P.RandomEqualize(p=0.6), P.RandomPosterize(3, p=0.6), P.RandomAutoContrast(p=0.6), P.RandomSolarize(p=0.6)],
    "curves and others": [
        P.RandomSolarize(p=0.5),
        P.OneOf([P.RandomEqualize(p=0.5), P.RandomInvert(p=0.5), P.RandomRotation(20, p=0.5)]),
        P.RandomPosterize(p=0.5),
        P.RandomEqualize(p=0.5),
    ],
    "mixture": [P.RandomHorizontalFlip(), P.Mixture([ONE_OF, P.RandomEqualize(p=0.5)])],
    "mixture of bytes": [P.Mixture([[ONE_OF, ONE_OF]]), P.RandomEqualize(p=0.5)],
    "normalised": [ONE_OF, P.Normalize((0.5,) * 3, (0.2,) * 3)],
    "clips though closed": [P.RandomBrightness((2.0, 2.0), clip="none"), P.MultiplicativeNoise(p=0.5), P.Normalize(0.5, 0.2)],
    "painted": [P.RandomErasing(p=0.5), P.RandomGaussianBlur(p=0.4), P.RandomErasing(p=0.5), P.RandomGaussianNoise(p=0.4)],
    "gray": [
        P.RandomResizedCrop(24),
        P.RandomGrayscale(p=0.5),
        *RARE[:1],
        P.RandomErasing(p=0.3),
        P.Normalize((0.5,) * 3, (0.2,) * 3),
    ],
}


def pictures(batch=12):
    generator = torch.Generator().manual_seed(5)
    coarse = torch.rand(batch, 3, 6, 6, generator=generator)
    smooth = torch.nn.functional.interpolate(coarse, size=(33, 40), mode="bicubic")
    return (40 + 170 * smooth.clamp(0, 1)).to(torch.uint8)


@pytest.mark.parametrize("name", CASES)
def test_the_result_is_that_of_all_passes_over_all_samples(name, monkeypatch):
    augment = Pipeline(CASES[name], seed=1)
    used = []
    for step in range(4):
        before = pictures()
        kept = before.clone()
        ours, record = augment(before, key=Key(3, step), return_record=True)
        again = augment.apply(before, record)
        with monkeypatch.context() as patch:
            patch.setattr(execution.Openings, "of", classmethod(lambda cls, *_: used.append(1)))
            theirs = augment(before, key=Key(3, step))
        assert torch.equal(ours, theirs)
        assert torch.equal(again, theirs)
        assert torch.equal(before, kept)
    assert used


@pytest.mark.parametrize("batch", [1, 2, 12])
@pytest.mark.parametrize("name", ["rare", "painted", "gray"])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float64])
def test_prepared_passes_give_the_bits_of_others(name, batch, dtype):
    augment, images = Pipeline(CASES[name], seed=2), pictures(batch)
    images = images if dtype == torch.uint8 else images.to(dtype) / 255.0
    for _ in range(10):
        made, record = augment(images, return_record=True)
        assert torch.equal(made, augment.apply(images, record))


@pytest.mark.parametrize("sigma", [0.2, 0.5, 1.0, 2.0])
def test_a_blur_of_bytes_leaves_out_no_tap_that_its_numbers_show(sigma):
    image = (pictures(2) > 128).to(torch.uint8) * 255  # black beside white: there light taps count most
    found = Pipeline([P.RandomGaussianBlur(23, sigma=(sigma, sigma)), P.Normalize(0.0, 1.0)])(image)
    wanted = image.double().numpy() / 255.0
    taps = np.exp(-0.5 * ((np.arange(23) - 11) / sigma) ** 2)
    for axis in (2, 3):
        wanted = ndimage.correlate1d(wanted, taps / taps.sum(), axis=axis, mode="mirror")
    assert np.abs(found.numpy() - wanted).max() < 4 * np.finfo(np.float32).eps


def test_samples_are_picked_on_the_cpu_whatever_the_default_device_is():
    augment, again = (Pipeline(CASES["painted"], seed=2) for _ in range(2))
    wanted = [augment(pictures(3), key=Key(1, step)) for step in range(6)]
    images = pictures(3)
    with torch.device("meta"):
        assert all(torch.equal(again(images, key=Key(1, step)), one) for step, one in enumerate(wanted))


def test_samples_whose_last_steps_are_curves_keep_their_places():
    first = torch.tensor([1.0, 0, 1, 0, 0, 1], dtype=torch.float64)  # some end on the first curve, the others on the second
    augment = Pipeline([P.RandomPosterize(3, p=0.5), P.RandomSolarize(p=0.5)], seed=1)
    record = augment.draw(pictures(6))
    record = record.with_param(0, "gate", first).with_param(1, "gate", 1.0 - first)
    reference = Pipeline(augment.transforms, impl="reference")
    assert torch.equal(augment.apply(pictures(6), record), reference.apply(pictures(6), record))


def test_a_pass_sees_the_samples_that_it_changes(monkeypatch):
    seen = []
    bend = passes.curve.tone_of_bytes
    monkeypatch.setattr(passes.curve, "tone_of_bytes", lambda image, *rest: seen.append(len(image)) or bend(image, *rest))
    augment = Pipeline([P.RandomEqualize(p=0.6), P.RandomRotation(20, p=0.5)], seed=3)
    _, record = augment(pictures(), return_record=True)
    assert sum(seen) == int(record.params[0]["gate"].sum())
    assert 0 < sum(seen) < 12


@pytest.mark.parametrize(
    "transforms",
    [[P.RandomEqualize(p=P.Learnable(0.5))], [P.RandomRotation(P.Learnable(9.0), p=0.5)], [P.RandomRotation(20)]],
    ids=["learned gate", "learned range", "always open"],
)
def test_gradients_and_open_passes_take_all_samples(transforms, monkeypatch):
    found = []
    of = Openings.of
    monkeypatch.setattr(execution.Openings, "of", classmethod(lambda cls, *given: found.append(of(*given)) or found[-1]))
    Pipeline(transforms, seed=1)(pictures())
    assert found == [None]


def test_a_warp_alone_goes_over_all_samples_and_copies_those_that_it_leaves(monkeypatch):
    augment, before, key = Pipeline([P.RandomRotation(20, p=0.5)], seed=1), pictures(), Key(3, index=torch.arange(12))
    monkeypatch.setattr(execution, "apply_sparsely", None)
    closed = augment.draw(before, key=key).params[0]["gate"] == 0
    after = augment(before, key=key)
    assert closed.any()
    assert torch.equal(after[closed], before[closed])
    each = [augment(before[i : i + 1], key=Key(3, index=torch.tensor([i]))) for i in range(12)]
    assert torch.equal(after, torch.cat(each))


def test_where_none_is_open_the_result_is_a_copy():
    before = pictures(2)
    after = Pipeline([P.RandomEqualize(p=0.0)])(before)
    assert torch.equal(before, after)
    assert before.data_ptr() != after.data_ptr()
