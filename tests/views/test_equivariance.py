"""A model's distance from equivariance: zero where it is zero by construction, and by hand elsewhere."""

import json

import pytest
import torch

import pellucid as P
from pellucid.equivariance import measure_equivariance
from pellucid.errors import InvalidArgument, InvalidType
from tests.refusals import refused

FLIPS = P.Pipeline([P.RandomHorizontalFlip(), P.RandomVerticalFlip(0.3), P.RandomRotation90()])
X = torch.rand(5, 3, 12, 12, generator=torch.Generator().manual_seed(0))


def orbit(net, x):
    """What a network says of the eight symmetries of a square, each brought back."""
    views = [(k, mirrored) for k in range(4) for mirrored in (False, True)]
    for k, mirrored in views:
        view = x.flip(-1) if mirrored else x
        said = net(view.rot90(k, (-2, -1)))
        if said.dim() == 4:
            said = said.rot90(-k, (-2, -1))
            said = said.flip(-1) if mirrored else said
        yield said


@pytest.mark.parametrize("dense", [True, False])
def test_a_net_of_symmetries_is_exactly_equivariant(dense):
    torch.manual_seed(0)
    net = torch.nn.Conv2d(3, 4, 3, padding=1)
    head = net if dense else torch.nn.Sequential(net, torch.nn.Flatten(), torch.nn.Linear(4 * 144, 6))
    report = measure_equivariance(lambda x: torch.stack(list(orbit(head, x))).amax(0), FLIPS, X, strengths=[1.0], draws=3)
    assert [row.error for row in report.rows] == [0.0] * 3
    assert [row.agreement for row in report.rows] == [1.0] * 3
    plain = measure_equivariance(head, FLIPS, X, strengths=[1.0], draws=3)
    assert all(row.error > 0.1 for row in plain.rows)


def test_strided_maps_go_along():
    report = measure_equivariance(torch.nn.AvgPool2d(3), FLIPS, X, strengths=[1.0], draws=3)
    assert all(row.error < 1e-6 for row in report.rows)


def test_the_error_of_a_constant_answer_is_that_of_its_mirror_image():
    still = torch.rand(1, 2, 12, 12, generator=torch.Generator().manual_seed(1))
    model = lambda x: still.expand(len(x), -1, -1, -1)  # noqa: E731
    (row,) = measure_equivariance(model, P.Pipeline([P.RandomHorizontalFlip()]), X, strengths=[1.0], draws=1).rows
    about = still - still.mean((2, 3), keepdim=True)
    wanted = ((still - still.flip(-1)).square().sum() / about.square().sum()).sqrt()
    assert row.error == pytest.approx(float(wanted), rel=1e-5)
    assert row.margin == pytest.approx(0.0, abs=1e-6)
    assert row.resampling == 0.0


def test_scores_change_by_how_far_answers_lie_from_their_mean():
    x = X / 2
    model = lambda x: x.mean((2, 3))  # noqa: E731
    (row,) = measure_equivariance(model, P.Pipeline([P.RandomBrightness((0.5, 1.5))]), x, strengths=[1.0], draws=2).rows
    base = model(x)
    spread = (base - base.mean(0)).square().sum(1).mean().sqrt()
    changes = (0.5 * base).square().sum(1).sqrt() / spread  # half as bright, or half as bright again
    assert row.error == pytest.approx(float(changes.mean()), rel=1e-4)
    assert row.margin == pytest.approx(1.96 * float(changes.std()) / 5**0.5, rel=1e-3)
    assert row.samples == 10


def test_strength_is_the_distance_from_the_middle():
    seen = []

    def model(x):
        seen.append(x)
        return x

    turn = P.Pipeline([P.RandomRotation(20)])
    rows = measure_equivariance(model, turn, X, strengths=[0.0, 0.5, 1.0], draws=2).rows
    assert [row.error for row in rows] == pytest.approx([0.0] * 3, abs=1e-5)  # an identity is equivariant
    assert rows[0].resampling == pytest.approx(0.0, abs=1e-6)
    assert 0 < rows[1].resampling < 1
    assert 0 < rows[2].resampling < 1  # and turning there and back costs it all the same
    assert torch.allclose(seen[1], X, atol=1e-6)
    for at, degrees in ((5, 10.0), (9, 20.0)):  # after the picture: two draws of each strength, each followed by its way back
        turned = [P.Pipeline([P.RandomRotation((d, d))])(X) for d in (-degrees, degrees)]
        assert all(any(torch.allclose(one, other[i], atol=1e-5) for other in turned) for i, one in enumerate(seen[at]))


def test_masks_points_and_boxes_move_too():
    def model(x):
        at = x[:, 0].flatten(1).argmax(1)
        point = torch.stack((at % x.shape[-1], at // x.shape[-1]), -1).float()[:, None]
        return {
            "mask": (x[:, 0] > 0.5).long(),
            "keypoints": point,
            "boxes": torch.cat((point, point + 1), -1),  # the pixel's edges
        }

    report = measure_equivariance(model, FLIPS, X, strengths=[1.0], draws=2)
    assert {row.output for row in report.rows} == {"mask", "keypoints", "boxes"}
    assert all(row.error == pytest.approx(0.0, abs=1e-5) for row in report.rows)
    stuck = {"keypoints": torch.tensor([[[2.0, 5.0]]]).expand(5, -1, -1)}
    (row,) = measure_equivariance(lambda x: stuck, P.Pipeline([P.RandomHorizontalFlip()]), X, strengths=[1.0], draws=1).rows
    assert row.error == pytest.approx(7.0)  # column 2 of 12 becomes column 9


def test_pairs_worst_draws_and_files(tmp_path):
    torch.manual_seed(0)
    net = torch.nn.Conv2d(3, 2, 3, padding=1, stride=2)
    both = P.Pipeline([P.RandomRotation(30), P.RandomBrightness(0.5)])
    report = measure_equivariance(net, both, X, strengths=[1.0], draws=2, pairs=True, worst=True)
    assert [row.transform for row in report.rows] == ["RandomRotation", "RandomBrightness", "RandomRotation + RandomBrightness"]
    assert [one.images.shape for one in report.worst] == [X.shape] * 3
    for one in report.worst:
        assert one.error.shape == (5,)
        assert bool((one.error > 0).all())
    rows = json.loads(report.save(tmp_path / "report.json").read_text())
    assert rows[2]["error"] == report.rows[2].error
    assert str(report).count("\n") == 4
    assert "RandomRotation + RandomBrightness" in str(report)


def test_the_worst_draw_is_no_better_than_the_ends():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    bright = P.Pipeline([P.RandomBrightness(0.5)])
    report = measure_equivariance(net, bright, X / 2, strengths=[0.25, 0.5, 1.0], draws=2, worst=True)
    assert float(report.worst[0].error.mean()) >= max(row.error for row in report.rows) - 1e-6


def test_mistakes_are_named():
    flip = P.Pipeline([P.RandomHorizontalFlip()])
    refused(InvalidType, "pipeline: expected a Pipeline", measure_equivariance, lambda x: x, P.RandomHorizontalFlip(), X)
    refused(InvalidArgument, "images: expected a floating-point batch", measure_equivariance, lambda x: x, flip, X[0])
    refused(InvalidArgument, "strengths: expected numbers from 0 to 1", measure_equivariance, lambda x: x, flip, X, strengths=[2.0])
    refused(InvalidArgument, "prediction: expected a map", measure_equivariance, lambda x: x.sum(), flip, X)
    with pytest.raises(InvalidArgument, match="worst: expected a model that returns a bare map"):
        measure_equivariance(lambda x: {"logits": x}, flip, X, worst=True)
