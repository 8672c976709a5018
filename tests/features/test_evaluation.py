"""The measurement: each number against somebody else's, and the whole on scenes whose truth is known."""

import json
import os
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.metrics import average_precision_score

from pellucid.errors import InvalidArgument
from pellucid.features import HardNet
from pellucid.features.data import PlanarSequence, bundled_photographs, read_sequence, warped_sequences
from pellucid.features.evaluation import (
    BASELINES,
    Described,
    Protocol,
    accuracy_under,
    area_under_accuracy,
    average_precision,
    evaluate_methods,
    measure_pair,
    mutual_nearest,
    network_method,
    repeatability,
)
from pellucid.features.evaluation.methods import baselines, detect_view
from pellucid.features.evaluation.pictures import draw_matches, stack_pictures
from pellucid.features.evaluation.protocol import corner_error, estimate_homography
from pellucid.features.evaluation.table import markdown_table, plain_table
from pellucid.geometry.points import transform_points
from tests.refusals import refused

SHIFT = torch.tensor([[1.0, 0, 7], [0, 1, -4], [0, 0, 1]], dtype=torch.float64)
TILT = torch.tensor([[1.1, 0.1, 5], [-0.05, 0.9, 3], [2e-4, -1e-4, 1]], dtype=torch.float64)


def shared_data():
    roots = [Path(os.environ["PELLUCID_DATA"])] if "PELLUCID_DATA" in os.environ else []
    roots += [parent / "shared" / "data" for parent in Path(__file__).resolve().parents]
    return next((root for root in roots if root.is_dir()), None)


# The parts


def test_mutual_nearest_is_opencvs_cross_check():
    first, second = torch.randn(60, 16), torch.randn(50, 16)
    matches = mutual_nearest(first, second)
    found = cv2.BFMatcher(cv2.NORM_L2, crossCheck=True).match(first.numpy(), second.numpy())
    assert matches.pairs.tolist() == sorted([m.queryIdx, m.trainIdx] for m in found)
    expected = {m.queryIdx: m.distance for m in found}
    for (i, _), distance in zip(matches.pairs.tolist(), matches.distances.tolist(), strict=True):
        assert distance == pytest.approx(expected[i], rel=1e-5)


def test_nothing_matches_nothing():
    assert len(mutual_nearest(torch.zeros(0, 8), torch.rand(5, 8)).pairs) == 0
    refused(InvalidArgument, "second", mutual_nearest, torch.rand(5, 8), torch.rand(5, 9))


def test_average_precision_is_scikit_learns_where_everything_is_listed():
    scores, correct = torch.rand(200, dtype=torch.float64), torch.rand(200) < 0.4
    ours = average_precision(scores, correct, int(correct.sum()))
    assert ours == pytest.approx(average_precision_score(correct.numpy(), -scores.numpy()), abs=1e-12)
    assert average_precision(scores, correct, 2 * int(correct.sum())) == pytest.approx(ours / 2)
    assert np.isnan(average_precision(scores[:0], correct[:0], 0))
    assert average_precision(scores[:0], correct[:0], 5) == 0


def test_the_area_is_the_integral_of_the_accuracy():
    errors = torch.rand(50).mul(6).tolist() + [float("inf")] * 5
    at = np.linspace(0, 3, 20001)
    accuracy = (np.array(errors)[:, None] <= at).mean(0)
    assert area_under_accuracy(errors, 3.0) == pytest.approx(np.trapezoid(accuracy, at) / 3, abs=1e-4)


def test_accuracy_counts_what_is_within():
    assert accuracy_under(torch.tensor([0.5, 1.0, 2.0, float("inf")]), (1.0, 3.0)) == [0.5, 0.75]
    assert accuracy_under(torch.zeros(0), (1.0,)) == [0.0]


def test_repeatability_against_a_plain_loop():
    rng = np.random.default_rng(1)
    first, second = rng.uniform(0, 100, (80, 2)), rng.uniform(0, 90, (70, 2))
    sizes, matrix = ((100, 110), (95, 90)), TILT.numpy()

    def send(points, m):
        moved = np.c_[points, np.ones(len(points))] @ m.T
        return moved[:, :2] / moved[:, 2:]

    hits = seen = 0
    for here, there, m, size in ((first, second, matrix, sizes[1]), (second, first, np.linalg.inv(matrix), sizes[0])):
        for point in send(here, m):
            if -0.5 <= point[0] <= size[1] - 0.5 and -0.5 <= point[1] <= size[0] - 0.5:
                seen += 1
                hits += np.linalg.norm(there - point, axis=1).min() <= 3
    ours = repeatability(torch.from_numpy(first), torch.from_numpy(second), TILT, sizes, (3.0, 1e9))
    assert ours == [pytest.approx(hits / seen), 1.0]


def test_a_homography_is_found_among_wrong_matches_and_found_again():
    points = torch.rand(200, 2, dtype=torch.float64) * 300
    moved = transform_points(points, TILT)
    moved[:80] = torch.rand(80, 2, dtype=torch.float64) * 300
    estimate, inliers = estimate_homography(points, moved)
    assert corner_error(estimate, TILT, (300, 300)) < 0.05
    assert 118 <= inliers <= 130
    assert torch.equal(estimate, estimate_homography(points, moved)[0])
    assert estimate_homography(points[:3], moved[:3]) == (None, 0)
    assert corner_error(None, TILT, (10, 10)) == float("inf")


def test_corner_error_of_a_shift_is_its_length():
    assert corner_error(SHIFT, torch.eye(3, dtype=torch.float64), (50, 60)) == pytest.approx((49 + 16) ** 0.5)


# A pair


def described(points, descriptors):
    return Described(points, descriptors, (100, 100))


def test_perfect_descriptors_have_perfect_scores():
    points, rows = torch.rand(120, 2) * 80 + 10, torch.nn.functional.normalize(torch.randn(120, 32), dim=1)
    moved = transform_points(points.double(), SHIFT).float()
    result = measure_pair(described(points, rows), described(moved, rows), SHIFT, Protocol())
    assert result.average_precision == pytest.approx(1)
    assert result.matching_accuracy[0] == result.repeatability[0] == 1
    assert result.matches == result.correct == result.inliers == 120
    assert result.corner_error < 1e-3


def test_missing_and_wrong_matches_both_cost():
    """Half the descriptors are wrong: the matches are a mixture, and what was to be found does not change."""
    points = torch.stack(torch.meshgrid(torch.arange(10.0), torch.arange(10.0), indexing="xy"), -1).reshape(-1, 2) * 9 + 5
    rows = torch.eye(100)
    wrong = rows.clone()
    wrong[:50] = rows[:50].roll(1, 0)
    result = measure_pair(described(points, rows), described(points, wrong), torch.eye(3, dtype=torch.float64), Protocol())
    assert result.matches == 100
    assert result.correct == 50
    # All distances are equal, ties keep the order of the keypoints: 50 wrong ones come first.
    expected = sum((k + 1) / (51 + k) for k in range(50)) / 100
    assert result.average_precision == pytest.approx(expected)


def test_keypoints_that_nobody_sees_are_not_to_be_found():
    points = torch.tensor([[10.0, 10], [95, 50]])
    rows = torch.eye(2)
    result = measure_pair(described(points, rows), described(points[:1] + torch.tensor([7.0, -4]), rows[:1]), SHIFT, Protocol())
    assert result.average_precision == 1


def test_an_image_without_keypoints_scores_nothing():
    empty = described(torch.zeros(0, 2), torch.zeros(0, 32))
    result = measure_pair(described(torch.rand(5, 2) * 50, torch.rand(5, 32)), empty, SHIFT, Protocol())
    assert np.isnan(result.average_precision)
    assert (result.matches, result.inliers, result.corner_error) == (0, 0, float("inf"))


@pytest.mark.parametrize("options", [{"keypoints": 0}, {"factor": 0.0}, {"correct": -1.0}])
def test_the_protocol_refuses_nonsense(options):
    refused(InvalidArgument, next(iter(options)), Protocol, **options)


# The whole


@pytest.fixture(scope="module")
def report():
    """A small scene under gentle warps."""
    sequences = warped_sequences(bundled_photographs(("coins",)), views=3, strength=0.5)
    methods = {"network": network_method(HardNet(width=0.125)), **baselines("rootsift,sift,raw")}
    return evaluate_methods(sequences, methods, Protocol(keypoints=300))


def test_rootsift_beats_sift_and_noise_does_worse(report):
    scores = {row.method: row.mean_average_precision for row in report.rows}
    assert scores["rootsift"] > scores["sift"] > 0.3
    assert len({row.repeatability["3"] for row in report.rows}) == 1  # the same keypoints
    assert report.rows[0].keypoints <= 300
    accuracy = list(report.rows[1].matching_accuracy.values())
    assert accuracy == sorted(accuracy)


def test_sift_rows_are_opencvs_own_descriptors():
    image = bundled_photographs(("coins",))["coins"]
    view = detect_view(image, Protocol(keypoints=200))
    points, values = cv2.SIFT_create(200).detectAndCompute((image[0] * 255).round().byte().numpy(), None)
    theirs = {(p.pt, p.angle): row / np.linalg.norm(row) for p, row in zip(points, values, strict=True)}
    ours = BASELINES["sift"](view).descriptors.numpy()
    for point, row in zip(view.keypoints, ours, strict=True):
        assert np.allclose(row, theirs[point.pt, point.angle], atol=1e-6)


def test_a_report_becomes_json_and_a_table(report):
    data = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert data["protocol"]["factor"] == 8
    assert len(data["rows"][0]["pairs"]) == 2
    lines = markdown_table(report).splitlines()
    assert len(lines) == 2 + len(report.rows)
    assert len({line.count("|") for line in lines}) == 1
    plain = plain_table(report).splitlines()
    assert plain[0].startswith("2 pairs of 1 sequence,")
    assert len({len(line) for line in plain[2:]}) == 1


def test_methods_and_sequences_are_asked_for():
    refused(InvalidArgument, "methods", evaluate_methods, [], {})
    refused(InvalidArgument, "sequences", evaluate_methods, [], baselines("sift"))
    refused(InvalidArgument, "baselines", baselines, "sift,surf")


def test_matches_that_do_not_agree_are_no_matches():
    sequences = list(warped_sequences(bundled_photographs(("coins",)), views=2))
    rows = []
    for how in ({}, {"refine": True}, {"refine": True, "agreeing": True}):
        rows += evaluate_methods(sequences, baselines("rootsift"), Protocol(keypoints=300), **how).rows
    before, refined, agreeing = rows
    assert refined.matches == before.matches > agreeing.matches
    assert agreeing.correct > 0.75 * refined.correct  # what it costs
    assert agreeing.matching_accuracy["1"] > before.matching_accuracy["1"] + 0.08
    refused(InvalidArgument, "agreeing", evaluate_methods, sequences, baselines("rootsift"), agreeing=True)


def test_a_picture_of_matches_is_drawn(tmp_path):
    points, rows = torch.tensor([[5.0, 5], [20, 20]]), torch.eye(2)
    both = (Described(points, rows, (30, 40)), Described(points, rows.flip(0), (30, 40)))
    result = measure_pair(*both, torch.eye(3, dtype=torch.float64), Protocol())
    picture = draw_matches((torch.rand(1, 30, 40), torch.rand(1, 30, 40)), both, result, caption="wrong")
    assert picture.size == (40 + 8 + 40, 30 + 22)
    with Image.open(stack_pictures([picture, picture], tmp_path / "out.png")) as written:
        assert written.size == (88, 2 * 52 + 8)


@pytest.mark.slow
@pytest.mark.skipif(shared_data() is None, reason="needs the shared data folder")
def test_a_real_sequence():
    sequence = read_sequence(shared_data() / "hpatches_v_dogman")
    short = PlanarSequence(sequence.name, sequence.views[:3], sequence.view_from_first[:3])
    rows = {row.method: row for row in evaluate_methods([short], baselines("rootsift,sift")).rows}
    assert rows["rootsift"].mean_average_precision > rows["sift"].mean_average_precision > 0.35
    assert rows["rootsift"].homography["5"] > 0.6
