"""Suppression and fusion choose as OpenCV, torchvision and the published code do; gradients pass to what is kept."""

import numpy as np
import pytest
import torch

from pellucid.detection import box_iou, nms, soft_nms, weighted_box_fusion
from pellucid.errors import InvalidArgument
from tests.peers import opencv
from tests.refusals import refused

BOXES = torch.tensor([[0.0, 0.0, 4.0, 4.0], [0.0, 0.0, 4.0, 3.6], [6.0, 6.0, 9.0, 9.0]])
SCORES = torch.tensor([0.6, 0.9, 0.3])


def crowd(n, seed, side=60.0):
    """Many boxes of a few places, so that chains of overlaps are long."""
    draw = torch.Generator().manual_seed(seed)
    corner = torch.rand(n, 2, generator=draw, dtype=torch.float64) * side
    extent = torch.rand(n, 2, generator=draw, dtype=torch.float64) * 20 + 2
    scores = torch.rand(n, generator=draw, dtype=torch.float64) * 0.98 + 0.01
    return torch.cat((corner, corner + extent), 1), scores, torch.randint(0, 3, (n,), generator=draw)


def as_opencv(boxes, number=float):
    corner = boxes[:, :2]
    return [[number(value) for value in box] for box in torch.cat((corner, boxes[:, 2:] - corner), 1)]


@pytest.mark.parametrize("threshold", [0.2, 0.5, 0.8])
@pytest.mark.parametrize("n", [1, 40, 1300])
def test_nms_keeps_what_opencv_keeps(n, threshold):
    boxes, scores, labels = crowd(n, seed=n)
    wanted = opencv().dnn.NMSBoxes(as_opencv(boxes), scores.tolist(), 0.0, threshold)
    assert nms(boxes, scores, iou_threshold=threshold).tolist() == np.asarray(wanted).flatten().tolist()
    wanted = opencv().dnn.NMSBoxesBatched(as_opencv(boxes), scores.tolist(), labels.tolist(), 0.0, threshold)
    kept = nms(boxes, scores, iou_threshold=threshold, labels=labels)
    assert sorted(kept.tolist()) == sorted(np.asarray(wanted).flatten().tolist())
    assert (scores[kept].diff() <= 0).all()


def test_nms_of_equal_scores_nothing_and_other_formats():
    assert nms(BOXES[:2], torch.ones(2)).tolist() == [0]
    assert nms(BOXES[:0], SCORES[:0]).tolist() == []
    centred = torch.tensor([[2.0, 2.0, 4.0, 4.0], [2.0, 1.8, 4.0, 3.6], [7.5, 7.5, 3.0, 3.0]])
    assert nms(centred, SCORES, format="cxcywh").tolist() == [1, 2]
    rotated = torch.cat((centred, torch.tensor([[0.0], [torch.pi], [0.5]])), 1)
    assert nms(rotated, SCORES, format="cxcywhr").tolist() == [1, 2]


def test_nms_of_a_chain_is_the_greedy_one():
    # Each box overlaps its neighbours only: the first drops the second, which therefore spares the third, and so on.
    at = torch.arange(1100.0)[:, None]
    boxes = torch.cat((at, 0 * at, at + 2, 0 * at + 1), 1)
    assert nms(boxes, -at[:, 0], iou_threshold=0.3).tolist() == list(range(0, 1100, 2))


def test_kept_rows_keep_their_gradient():
    scores = SCORES.clone().requires_grad_()
    assert scores[nms(BOXES, scores)].requires_grad


@pytest.mark.parametrize(("decay", "method"), [("linear", 1), ("gaussian", 2)])
def test_soft_nms_gives_opencvs_scores(decay, method):
    boxes, scores, _ = crowd(60, seed=3)
    whole = boxes.round()
    made, wanted = opencv().dnn.softNMSBoxes(as_opencv(whole, int), scores.tolist(), 0.01, 0.4, 0, 0.5, method)
    order, lowered = soft_nms(whole, scores, decay=decay, sigma=0.5, iou_threshold=0.4, score_threshold=0.01)
    assert order.tolist() == np.asarray(wanted).flatten().tolist()
    assert np.allclose(lowered, np.asarray(made).flatten(), atol=1e-6)


def test_soft_nms_knows_labels_and_nan():
    _, marks = soft_nms(BOXES, SCORES, labels=torch.tensor([0, 1, 0]))
    assert marks.tolist() == sorted(SCORES.tolist(), reverse=True)
    order, _ = soft_nms(BOXES, torch.tensor([0.6, torch.nan, 0.3]))
    assert order.tolist() == [0, 2]


def test_soft_nms_has_the_gradient_of_its_scores():
    boxes, scores, _ = crowd(8, seed=5, side=12.0)
    assert torch.autograd.gradcheck(lambda b, s: soft_nms(b, s)[1], (boxes.requires_grad_(), scores.requires_grad_()))


def test_nms_is_that_of_the_published_ensembles():
    published = pytest.importorskip("ensemble_boxes")
    boxes, scores, labels = crowd(90, seed=7, side=20.0)
    boxes = boxes / 100
    wanted = published.nms([boxes.tolist()], [scores.tolist()], [labels.tolist()], iou_thr=0.4)
    kept, order = nms(boxes, scores, labels=labels, iou_threshold=0.4), np.argsort(-wanted[1])
    assert len(kept) < 70
    assert np.allclose(boxes[kept], wanted[0][order], atol=1e-12)
    assert labels[kept].tolist() == wanted[2][order].tolist()


@pytest.mark.parametrize("labelled", [False, True])
def test_fusion_is_the_published_one(labelled):
    published = pytest.importorskip("ensemble_boxes")
    boxes, scores, labels = crowd(90, seed=7)
    boxes = boxes / 100
    parts = [slice(0, 30), slice(30, 60), slice(60, 90)]
    kinds = labels if labelled else torch.zeros(90)
    wanted = published.weighted_boxes_fusion(
        *[[rows[part].tolist() for part in parts] for rows in (boxes, scores, kinds)], iou_thr=0.4
    )
    found = weighted_box_fusion(boxes, scores, predictions=3, iou_threshold=0.4, labels=labels if labelled else None)
    assert np.allclose(found[0], wanted[0], atol=1e-6)
    assert np.allclose(found[1], wanted[1], atol=1e-6)
    assert not labelled or found[2].tolist() == wanted[2].tolist()


def test_fusion_of_one_group_is_a_weighted_mean():
    boxes, scores = BOXES[:2].double(), SCORES[:2].double()
    fused, marks, labels = weighted_box_fusion(boxes, scores, predictions=3)
    assert torch.allclose(fused[0], (boxes * scores[:, None]).sum(0) / scores.sum())
    assert torch.allclose(marks, scores.mean() * 2 / 3)
    assert labels is None
    assert [rows.shape[0] for rows in weighted_box_fusion(boxes[:0], scores[:0], predictions=1)[:2]] == [0, 0]


def test_fusion_keeps_boxes_apart_that_overlap_little():
    boxes, scores, _ = crowd(200, seed=11)
    fused, _, _ = weighted_box_fusion(boxes, scores, predictions=2, iou_threshold=0.999)
    assert len(fused) == 200
    assert (box_iou(fused, boxes).amax(1) > 0.999999).all()


def test_fusion_has_the_gradient_of_its_means():
    boxes, scores, labels = crowd(10, seed=13, side=12.0)
    inputs = (boxes.requires_grad_(), scores.requires_grad_())
    assert torch.autograd.gradcheck(lambda b, s: weighted_box_fusion(b, s, predictions=2, labels=labels)[:2], inputs)


def test_errors_say_what_to_do():
    refused(InvalidArgument, "scores: expected one per box", nms, BOXES, SCORES[:2])
    refused(InvalidArgument, "one image", nms, BOXES[None], SCORES)
    refused(InvalidArgument, "sigma: expected above 0", soft_nms, BOXES, SCORES, sigma=0)
    refused(InvalidArgument, "scores: expected above 0", weighted_box_fusion, BOXES, SCORES * 0, predictions=2)
    refused(InvalidArgument, "predictions", weighted_box_fusion, BOXES, SCORES, predictions=0)
