"""The keypoint network, its frames, and the losses that train it."""

import math

import pytest
import torch
from torch.autograd import gradcheck

from pellucid import InvalidArgument, InvalidType
from pellucid.features import (
    DetectorMaps,
    KeypointNet,
    SharedView,
    agreement_loss,
    consistency_loss,
    covariant_index_loss,
    detect,
    detector_losses,
    dispersity_loss,
    frame_covariance_loss,
    frame_orientation,
    frame_scale,
    frames_from_xy,
    harris_response,
    imitation_loss,
    peakiness_loss,
    share_view,
)
from pellucid.features.detector_step import window_offset
from pellucid.features.keypoint_net import derivative_features
from pellucid.features.response_windows import cut_windows
from tests.refusals import refused


def picture(b=2, size=48, seed=0):
    noise = torch.rand(b, 1, size, size, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.avg_pool2d(noise, 3, 1, 1)


def bump(x, y, size=32, sigma=1.5, dtype=torch.float64):
    place = torch.arange(size, dtype=dtype)
    return torch.exp(-((place[:, None] - y) ** 2 + (place - x) ** 2) / (2 * sigma**2))[None, None]


IDENTITY = torch.eye(3)[None]


# The network


def test_gain_and_offset_change_nothing():
    net = KeypointNet()
    image = 0.2 + 0.5 * picture()
    change = net(image).response - net(1.7 * image - 0.1).response
    assert change.abs().max() < 0.01 * net(image).response.std()  # not 0: flat channels have a floor


def test_shifting_the_image_shifts_the_response():
    net = KeypointNet(levels=2)
    image = torch.nn.functional.pad(picture(1, 24), (20, 20, 20, 20))
    moved = net(image.roll((4, 8), (-2, -1))).response[..., 20:44, 24:48]
    assert torch.allclose(moved, net(image).response[..., 16:40, 16:40], atol=1e-4)


def test_initial_weights_are_seeded_and_leave_the_global_generator_alone():
    before = torch.get_rng_state()
    a, b, c = KeypointNet(seed=1), KeypointNet(seed=1), KeypointNet(seed=2)
    assert torch.equal(before, torch.get_rng_state())
    image = picture()
    assert torch.equal(a(image).response, b(image).response)
    assert not torch.equal(a(image).response, c(image).response)


def test_gradients_of_the_network():
    net = KeypointNet(levels=2, channels=(2, 2), orientation=True, scale=True).double()
    image = picture(1, 5).double().requires_grad_()
    assert gradcheck(lambda i: tuple(net(i)), image)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_flat_images_are_finite(value):
    net = KeypointNet(orientation=True, scale=True)
    image = torch.full((1, 1, 24, 24), value, requires_grad=True)
    found = detect(net, image, 5)
    grads = torch.autograd.grad(found.frames.sum(), [image, *net.parameters()], allow_unused=True)
    assert all(bool(g.isfinite().all()) for g in grads if g is not None)
    assert float(derivative_features(image).detach().abs().max()) < 1e-3


def test_small_and_odd_images():
    assert KeypointNet(levels=3)(torch.rand(1, 1, 5, 7)).response.shape == (1, 1, 5, 7)
    refused(InvalidArgument, "at least 4 pixels", KeypointNet(levels=3), torch.rand(1, 1, 3, 7))
    with pytest.raises(InvalidType):
        KeypointNet()(torch.zeros(1, 1, 8, 8, dtype=torch.uint8))


# Frames


def test_detect_reads_orientation_and_scale():
    maps = DetectorMaps(bump(12.3, 15.8), torch.tensor([0.0, 2.0]).double().reshape(1, 2, 1, 1).expand(1, 2, 32, 32), None)
    found = detect(lambda image: maps, torch.zeros(1, 1, 32, 32), 1, scale=10.0)
    assert torch.allclose(frame_orientation(found.frames), torch.tensor([[90.0]]).double())
    assert torch.allclose(frame_scale(found.frames), torch.tensor([[10.0]]).double())
    assert torch.allclose(found.frames[..., 2], found.keypoints.points)
    larger = maps._replace(log_scale=torch.ones(1, 1, 32, 32).double())
    assert torch.allclose(frame_scale(detect(lambda i: larger, torch.zeros(1), 1, scale=10.0).frames), torch.tensor(20.0).double())


def test_detect_takes_classical_responses_and_reaches_the_image():
    image = picture().requires_grad_()
    (grad,) = torch.autograd.grad(detect(harris_response, image, 6).frames[..., 2].square().sum(), image)
    assert bool((grad != 0).flatten(1).any(1).all())


def test_frames_that_follow_the_homography_cost_nothing():
    angle, ratio = math.radians(25.0), 1.3
    c, s = ratio * math.cos(angle), ratio * math.sin(angle)
    turn = torch.tensor([[[c, -s, 6.0], [s, c, -4.0], [0, 0, 1]]])

    def maps(direction, log_scale):
        flat = torch.zeros(1, 1, 40, 40)
        towards = torch.stack((torch.cos(direction), torch.sin(direction))).reshape(1, 2, 1, 1).expand(1, 2, 40, 40)
        return DetectorMaps(flat, towards, flat + log_scale)

    start = torch.tensor(0.4)
    points = torch.tensor([[[15.0, 12.0], [20.0, 18.0], [500.0, 0.0]]])
    follows = (maps(start, 0.3), maps(start + angle, 0.3 + math.log2(ratio)))
    assert float(frame_covariance_loss(follows, points, turn)) < 1e-6
    stays = (maps(start, 0.3), maps(start, 0.3))
    expected = 1 - math.cos(angle) + math.log2(ratio) ** 2
    assert abs(float(frame_covariance_loss(stays, points, turn)) - expected) < 1e-5
    no_point = torch.zeros(1, 3, dtype=torch.bool)
    assert float(frame_covariance_loss(stays, points, turn, valid=no_point)) == 0.0
    assert frames_from_xy(points, 1.0).shape == (1, 3, 2, 3)


# Losses


def view_of(first, second):
    return SharedView(first, second, torch.ones_like(first, dtype=torch.bool))


def test_correlations_equal_numpy():
    import numpy as np

    first, second = torch.randn(2, 2, 1, 9, 11, dtype=torch.float64).unbind(0)
    seen = torch.rand(2, 1, 9, 11) > 0.3
    pairs = [np.corrcoef(a[m].numpy(), b[m].numpy())[0, 1] for a, b, m in zip(first, second, seen, strict=True)]
    assert abs(consistency_loss(SharedView(first, second, seen)).item() - (1 - np.mean(pairs))) < 1e-12
    teacher = second[0].flatten().numpy()
    whole = np.corrcoef(first[0].flatten().numpy(), np.sign(teacher) * np.abs(teacher) ** 0.5)[0, 1]
    assert abs(imitation_loss(first[:1], second[:1]).item() - (1 - whole)) < 1e-12
    assert abs(imitation_loss(first, -1e-6 * first * first.abs()).item() - 2) < 1e-9


def test_gradients_of_the_correlations():
    first, second = torch.randn(2, 1, 1, 4, 5, dtype=torch.float64).unbind(0)
    first.requires_grad_()
    second.requires_grad_()
    assert gradcheck(lambda a, b: consistency_loss(view_of(a, b)), (first, second))
    assert torch.autograd.grad(imitation_loss(first, second), second, allow_unused=True) == (None,)
    flat = torch.ones(1, 1, 8, 8, requires_grad=True)
    loss = consistency_loss(view_of(flat, flat)) + imitation_loss(flat, torch.rand(1, 1, 8, 8))
    (grad,) = torch.autograd.grad(loss, flat)
    assert loss.item() == 0.0
    assert bool((grad == 0).all())


def test_windows():
    maps = torch.arange(42.0).reshape(1, 1, 6, 7)
    cut = cut_windows(maps, 3, (0, 1))
    assert cut.shape == (1, 4, 3, 3)
    assert torch.equal(cut[0, 1], maps[0, 0, 0:3, 4:7])
    assert torch.equal(cut[0, 2], maps[0, 0, 3:6, 1:4])
    refused(InvalidArgument, "side", cut_windows, maps, 8)


def test_share_view_follows_the_homography():
    shift = torch.tensor([[[1.0, 0, 3], [0, 1, -2], [0, 0, 1]]], dtype=torch.float64)
    view = share_view(bump(10, 12), bump(13, 10), shift, border=2)
    assert torch.allclose(view.first[view.visible], view.second[view.visible], atol=1e-9)
    # x + 3 must stay off the second view's last two columns, y - 2 off its first two rows.
    assert view.visible[0, 0].any(0).nonzero().flatten().tolist() == list(range(2, 27))
    assert view.visible[0, 0].any(1).nonzero().flatten().tolist() == list(range(4, 30))
    refused(InvalidArgument, "homography", share_view, bump(1, 1), bump(1, 1), torch.eye(3))


@pytest.mark.parametrize("loss", [agreement_loss, covariant_index_loss])
def test_losses_prefer_the_same_place(loss):
    sharp = 20.0
    first = sharp * bump(14, 17)
    values = [float(loss(view_of(first, sharp * bump(14 + d, 17)), windows=(32,))) for d in (0, 2, 4, 6)]
    assert values == sorted(values)
    assert values[0] < 0.6 * values[-1]


def test_agreement_has_no_flat_solution_and_the_index_loss_has():
    flat = torch.zeros(1, 1, 32, 32, dtype=torch.float64)
    assert float(covariant_index_loss(view_of(flat, flat), windows=(16,))) < 1e-12
    assert abs(float(agreement_loss(view_of(flat, flat), windows=(16,), tolerance=0)) - 1) < 1e-3
    peak = 50 * bump(7, 7, sigma=1.0)
    assert float(agreement_loss(view_of(peak, peak), windows=(32,), tolerance=0)) < 0.3


def test_agreement_equals_the_double_sum():
    first, second = torch.randn(2, 1, 1, 8, 8, dtype=torch.float64).unbind(0)
    loss = float(agreement_loss(view_of(first, second), windows=(8,), tolerance=0))
    p, q = first.flatten().softmax(0), second.flatten().softmax(0)
    assert abs(loss + math.log(float((p * q).sum()) + 1e-6) / math.log(64)) < 1e-12


def test_gradients_of_the_losses():
    first, second = torch.randn(2, 1, 1, 7, 6, dtype=torch.float64).unbind(0)
    first.requires_grad_()
    second.requires_grad_()
    assert gradcheck(lambda a, b: agreement_loss(view_of(a, b), windows=(3, 6), offset=(1, 2)), (first, second))
    assert gradcheck(lambda a: peakiness_loss(a, window=3), (first,))

    def target_only(a, b):
        return covariant_index_loss(view_of(a, b), windows=(6,), stop_gradient=True)

    grads = torch.autograd.grad(target_only(first, second), (first, second), allow_unused=True)
    assert bool((grads[0] != 0).any())
    assert grads[1] is None or bool((grads[1] == 0).all())


def test_a_homography_that_shows_nothing_in_common_gives_zero():
    away = torch.tensor([[[1.0, 0, 1000], [0, 1, 0], [0, 0, 1]]])
    response = torch.randn(1, 1, 32, 32, requires_grad=True)
    view = share_view(response, response, away)
    loss = agreement_loss(view) + covariant_index_loss(view)
    (grad,) = torch.autograd.grad(loss, response)
    assert float(loss.detach()) == 0.0
    assert bool((grad == 0).all())


def test_peaked_windows_have_little_peakiness_and_dispersity_loss():
    peak, flat = 60 * bump(7.5, 7.5, size=16, sigma=1.0), torch.zeros(1, 1, 16, 16).double()
    assert float(peakiness_loss(peak)) < float(peakiness_loss(flat)) == 1.0
    assert float(dispersity_loss(peak)) < 0.1 < float(dispersity_loss(flat))


def test_step_spreads_its_windows_and_checks_its_input():
    places = {window_offset(step, 32) for step in range(64)}
    assert len(places) > 55
    refused(InvalidArgument, "second", detector_losses, KeypointNet(), torch.rand(1, 1, 48, 48), torch.rand(1, 1, 40, 48), IDENTITY)


@pytest.mark.slow
def test_a_few_steps_lower_the_loss():
    net = KeypointNet(levels=2, channels=(8, 4), orientation=True, scale=True)
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-2)
    shift = torch.tensor([[1.0, 0, 5], [0, 1, 3], [0, 0, 1]]).expand(4, 3, 3)
    large = picture(4, 56)
    first, second = large[..., 3:51, 5:53], large[..., :48, :48]  # x in the first view is x + 5 in the second
    totals = []
    for step in range(25):
        losses = detector_losses(net, first, second, shift, step=step, agreement_weight=0.5, index_weight=0.1)
        optimiser.zero_grad()
        losses.total.backward()
        assert all(bool(p.grad.isfinite().all()) for p in net.parameters())
        optimiser.step()
        totals.append(losses.total.item())
    assert sum(totals[-5:]) < 0.8 * sum(totals[:5])


@pytest.mark.slow
def test_detection_compiles_as_one_graph():
    net, image = KeypointNet(orientation=True, scale=True), picture(2, 48)
    compiled = torch.compile(lambda i: detect(net, i, 12, border=4), fullgraph=True, backend="aot_eager")
    ours, plain = compiled(image), detect(net, image, 12, border=4)
    assert torch.allclose(ours.keypoints.points, plain.keypoints.points, atol=1e-2)
    assert torch.equal(ours.keypoints.valid, plain.keypoints.valid)
