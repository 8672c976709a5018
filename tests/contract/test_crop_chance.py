"""Crops with a probability: what the other samples show."""

import pytest
import torch

from pellucid import CenterCrop, InvalidArgument, OneOf, Pipeline, RandomCrop, RandomResizedCrop, RandomRotation, Resize


@pytest.mark.parametrize(
    ("crop", "resting"),
    [
        (lambda p: RandomCrop((5, 6), p=p), CenterCrop((5, 6))),
        (lambda p: RandomCrop((15, 6), pad_if_needed=True, p=p), CenterCrop((15, 6))),
        (lambda p: RandomResizedCrop((5, 6), p=p), Resize((5, 6))),
    ],
)
def test_a_sample_is_cropped_or_rests(crop, resting):
    image = torch.rand(32, 3, 12, 13)
    augment = Pipeline([crop(0.5)], seed=3)
    out, record = augment(image, return_record=True)
    open_ = record.params[0]["gate"] > 0.5
    assert 4 < open_.sum() < 28
    cropped, rested = Pipeline([crop(1.0)], seed=3)(image), resting(image)
    torch.testing.assert_close(out[~open_], rested[~open_], atol=2e-6, rtol=0)
    assert not torch.allclose(out[open_], rested[open_])
    assert cropped.shape == out.shape


def test_a_sure_crop_draws_no_gate_and_what_it_drew_before():
    record = Pipeline([RandomCrop(5), RandomResizedCrop(5)], seed=0).draw(torch.zeros(2, 3, 9, 9))
    assert [set(values) for values in record.params] == [{"top", "left"}, {"scale", "ratio", "x", "y"}]


def test_a_canvas_that_grows_shows_a_resting_sample_whole_and_in_the_middle():
    image = torch.rand(1, 3, 6, 9)
    out = RandomRotation(40, expand=True, p=0.0)(image)
    height, width = out.shape[-2:]
    assert torch.equal(CenterCrop((6, 9))(out), image)
    assert out.sum() == image.sum()
    assert height > 6
    assert width > 9
    with pytest.raises(InvalidArgument, match="expand"):
        RandomRotation(40, expand=True, center=(0.0, 0.0))


@pytest.mark.parametrize("transform", [RandomCrop((5, 6), p=0.5), RandomResizedCrop((5, 6), p=0.5)])
def test_what_a_choice_leaves_out_does_not_even_rest(transform):
    image, size = torch.rand(24, 3, 12, 13), (5, 6)
    out, record = Pipeline([OneOf([transform, Resize(size)])], seed=1)(image, return_record=True)
    resized = record.params[0]["choice"][:, 1] > 0.5
    assert 4 < resized.sum() < 20
    torch.testing.assert_close(out[resized], Resize(size)(image)[resized], atol=2e-6, rtol=0)
