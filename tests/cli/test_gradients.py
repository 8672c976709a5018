"""The comparison with finite differences sees a wrong gradient, and is not fooled by kinks."""

import pytest
import torch

from pellucid import Key, Pipeline, RandomBrightness, RandomInvert, RandomRotation
from pellucid.cli.gradients import FixedNet, compare_gradients, count_comparisons, pixel_gradient, worst


@pytest.fixture
def images():
    return torch.rand((2, 3, 16, 16), generator=torch.Generator().manual_seed(3), dtype=torch.float64)


class HalvedGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value):
        return value.clone()

    @staticmethod
    def backward(ctx, gradient):
        return 0.5 * gradient


def test_right_gradients_agree(images):
    augment = Pipeline([RandomRotation(20), RandomBrightness(0.3)])
    record = augment.draw(images, key=Key(seed=1))
    lines = list(compare_gradients(augment, images, record))
    assert len(lines) == count_comparisons(record) == 3
    assert [line.name for line in lines[1:]] == ["degrees", "brightness"]
    assert lines[1].declared == "almost_everywhere"
    assert worst(lines) < 1e-4


def test_a_wrong_gradient_shows(images, monkeypatch):
    lower = RandomRotation.lower

    def wrong(self, values, spec, like):
        return lower(self, {**values, "degrees": HalvedGradient.apply(values["degrees"])}, spec, like)

    monkeypatch.setattr(RandomRotation, "lower", wrong)
    augment = Pipeline([RandomRotation(20)])
    lines = list(compare_gradients(augment, images, augment.draw(images, key=Key(seed=1))))
    assert lines[0].best < 1e-4  # the image's own gradient is still right
    assert lines[1].best == pytest.approx(0.5, abs=0.01)


def test_a_pipeline_without_parameters(images):
    augment = Pipeline([RandomInvert(p=1.0)])
    assert worst(list(compare_gradients(augment, images, augment.draw(images)))) < 1e-6


def test_behind_a_closed_gate_nothing_flows(images):
    augment = Pipeline([RandomRotation(20, p=0.0)])
    image, gate, degrees = compare_gradients(augment, images, augment.draw(images))
    assert not image.flows  # the identity moves no feature
    assert gate.name == "gate"
    assert (degrees.flows, degrees.autograd, degrees.best) == (False, 0.0, 0.0)


def test_pixel_gradient_stays_where_the_frame_is(images):
    augment = Pipeline([RandomRotation((0.0, 0.0))])
    record = augment.draw(images)
    assert float(pixel_gradient(augment, images, record).abs().max()) < 1e-12  # the identity moves no feature
    turned = Pipeline([RandomRotation((90.0, 90.0))])
    assert float(pixel_gradient(turned, images, turned.draw(images)).min()) > 0


def test_the_network_is_fixed_and_handles_any_channels():
    for channels in (1, 3, 5):
        image = torch.rand((1, channels, 16, 16), generator=torch.Generator().manual_seed(0))
        assert torch.equal(FixedNet(channels, image.dtype)(image), FixedNet(channels, image.dtype)(image))
