"""Who gets which gradient when detector and descriptor train together; negatives by distance; the collapse guard."""

import math

import pytest
import torch

from pellucid import InvalidArgument
from pellucid.features import CollapseError, CollapseGuard, HardNet, joint_losses, keypoint_pair_loss, near_in_image
from pellucid.features.collapse import mean_off_diagonal_distance
from pellucid.losses import hardest_triplet_loss
from tests.refusals import refused


def test_near_in_image_equals_a_loop():
    points, image = 20 * torch.rand(30, 2), torch.randint(3, (30,))
    near = near_in_image(points, image, radius=6.0)
    for i in range(30):
        for j in range(30):
            close = math.dist(points[i].tolist(), points[j].tolist()) <= 6.0
            assert bool(near[i, j]) == (close and bool(image[i] == image[j]))


def test_points_a_pixel_apart_are_no_negatives():
    descriptors = torch.nn.functional.normalize(torch.randn(4, 16), dim=1)
    descriptors[1] = torch.nn.functional.normalize(descriptors[0] + 0.05 * torch.randn(16), dim=0)
    points = torch.tensor([[10.0, 10], [11, 10], [40, 40], [10, 10]])
    image = torch.tensor([0, 0, 0, 1])
    near = near_in_image(points, image)
    plain = hardest_triplet_loss(descriptors, descriptors, reduction="none")
    masked = hardest_triplet_loss(descriptors, descriptors, reduction="none", not_negative=near)
    keep = torch.tensor([0, 2, 3])
    without = hardest_triplet_loss(descriptors[keep], descriptors[keep], reduction="none")
    assert plain[0] > 0.5
    assert torch.isclose(masked[0], without[0])
    refused(InvalidArgument, "not_negative", hardest_triplet_loss, descriptors, descriptors, not_negative=near[:2])


def parts(stop_gradient=False):
    net = HardNet(width=0.125)
    first, second = (torch.rand(6, 1, 32, 32, requires_grad=True) for _ in range(2))
    before = {k: v.clone() for k, v in net.state_dict().items()}
    losses = joint_losses(net, first, second, hardest_triplet_loss, stop_gradient=stop_gradient)
    return net, first, second, losses, before


def test_each_loss_reaches_only_its_own():
    net, first, second, losses, before = parts()
    weights = list(net.parameters())
    descriptor = torch.autograd.grad(losses.descriptor, [*weights, first, second], allow_unused=True, retain_graph=True)
    assert all(bool((g != 0).any()) for g in descriptor[:-2])
    assert descriptor[-2:] == (None, None)
    pair = torch.autograd.grad(losses.pair, [*weights, first, second], allow_unused=True)
    assert all(g is None for g in pair[:-2])
    assert all(bool((g != 0).any()) for g in pair[-2:])
    assert net.training
    assert all(w.requires_grad for w in weights)
    # One training pass over both views, and none by the pair term.
    assert int(net.features[1].num_batches_tracked) == int(before["features.1.num_batches_tracked"]) + 1


def test_stop_gradient_holds_the_targets():
    _, first, second, losses, _ = parts(stop_gradient=True)
    grads = torch.autograd.grad(losses.pair, [first, second], allow_unused=True)
    assert bool((grads[0] != 0).any())
    assert grads[1] is None


def test_pair_term_without_valid_rows_is_zero():
    patches = torch.rand(3, 1, 32, 32, requires_grad=True)
    losses = joint_losses(HardNet(width=0.125), patches, patches, hardest_triplet_loss, valid=torch.zeros(3, dtype=torch.bool))
    (grad,) = torch.autograd.grad(losses.pair, patches)
    assert float(losses.pair.detach()) == 0.0
    assert bool((grad == 0).all())


def test_keypoint_pairs():
    first = torch.tensor([[[5.0, 5.0], [20.0, 20.0], [40.0, 1.0]]], requires_grad=True)
    second = torch.tensor([[[21.0, 22.0], [torch.nan, 3.0], [6.0, 5.0]]], requires_grad=True)
    loss = keypoint_pair_loss(first, second)
    assert loss.item() == (1 + 5) / 2
    (grad,) = torch.autograd.grad(loss, first)
    assert torch.allclose(grad, torch.tensor([[[-1.0, 0.0], [-1.0, -2.0], [0.0, 0.0]]]))
    only_last = torch.tensor([[False, False, True]])
    assert keypoint_pair_loss(first, second, valid=only_last).item() == 0.0


# The collapse guard


def test_mean_distance_equals_the_table():
    x = torch.randn(9, 5, dtype=torch.float64)
    table = torch.cdist(x, x).square().sum() / (9 * 8)
    assert torch.isclose(mean_off_diagonal_distance(x), table.sqrt())


def test_guard_stops_a_collapsed_run_and_no_other():
    same = torch.nn.functional.normalize(1 + 0.01 * torch.randn(64, 128), dim=1)
    spread = torch.nn.functional.normalize(torch.randn(64, 128), dim=1)

    def run(losses, descriptors):
        guard = CollapseGuard(patience=5, warmup=5)
        for step, loss in enumerate(losses):
            guard.update(loss, descriptors, step=step)
        return guard

    refused(CollapseError, r"step 9.*margin 1.*one vector", run, [1.0] * 20, same)
    run([1.0] * 20, spread)  # hard batches: far apart, and still at the margin
    run([0.9] * 20, same)  # close together, and learning
    run([1.0] * 5 + [0.5] * 5 + [1.0] * 3, same)
    refused(CollapseError, "nan", run, [float("nan")], spread)


def test_guard_notices_a_network_that_really_collapses():
    net = HardNet(width=0.125)
    guard = CollapseGuard(patience=3, warmup=0)
    patches = torch.rand(32, 1, 32, 32)
    with torch.no_grad():
        net.features[19].weight.zero_()
        net.eval()
        net.features[20].running_mean.fill_(-1.0)  # every patch gives the same vector
        descriptors = net(patches)
    loss = hardest_triplet_loss(descriptors, descriptors, duplicate_distance=0)
    assert float(loss) == 1.0
    guard.update(loss, descriptors, step=0)
    guard.update(loss, descriptors, step=1)
    refused(CollapseError, "collapsed", guard.update, loss, descriptors, step=2)


def test_guard_resumes():
    guard, other = CollapseGuard(patience=3, warmup=0), CollapseGuard(patience=3, warmup=0)
    same = torch.ones(4, 2)
    guard.update(1.0, same, step=0)
    guard.update(1.0, same, step=1)
    other.load_state_dict(guard.state_dict())
    with pytest.raises(CollapseError):
        other.update(1.0, same, step=2)


def test_wrong_shapes():
    refused(InvalidArgument, "points", near_in_image, torch.rand(3, 3))
    refused(InvalidArgument, "two rows", mean_off_diagonal_distance, torch.rand(1, 3))
