"""The decoder equals the reference maths, image by image, and lets gradients through for what it keeps."""

import math

import pytest
import torch

from pellucid.detection import DetectionDecoder
from pellucid.errors import InvalidArgument, InvalidType
from tests.refusals import refused

SIZES = torch.tensor([[480, 640], [333, 500], [1080, 37]])  # (height, width), all different


def outputs(queries=12, classes=5, dtype=torch.float64):
    return torch.randn(3, queries, classes, dtype=dtype) * 3, torch.rand(3, queries, 4, dtype=dtype)


def oracle(logits, boxes, sizes, activation, top_k, threshold):
    """One image at a time, in plain Python floats: the post-processing of the RT-DETR paper's detector."""
    out = []
    for rows, quads, (height, width) in zip(logits.tolist(), boxes.tolist(), sizes.tolist(), strict=True):
        found = []
        for q, row in enumerate(rows):
            if activation == "sigmoid":
                found += [(1 / (1 + math.exp(-v)), c, q) for c, v in enumerate(row)]
            else:
                total = sum(math.exp(v) for v in row)
                found.append(max((math.exp(v) / total, c, q) for c, v in enumerate(row[:-1])))
        best = sorted(found, reverse=True)[:top_k]
        image = []
        for score, label, q in best:
            cx, cy, w, h = quads[q]
            box = [(cx - w / 2) * width, (cy - h / 2) * height, (cx + w / 2) * width, (cy + h / 2) * height]
            if score > threshold:
                image.append((score, label, box))
        out.append(image)
    return out


@pytest.mark.parametrize("activation", ["sigmoid", "softmax"])
@pytest.mark.parametrize("top_k", [4, 12, 500])
@pytest.mark.parametrize("threshold", [0.0, 0.6])
def test_equals_the_reference_on_a_batch_of_mixed_sizes(activation, top_k, threshold):
    logits, boxes = outputs()
    found = DetectionDecoder(top_k, activation=activation, threshold=threshold)(logits, boxes, SIZES)
    assert found.scores.shape == found.labels.shape == found.valid.shape == found.queries.shape == (3, top_k)
    assert found.boxes.shape == (3, top_k, 4)
    want = oracle(logits, boxes, SIZES, activation, top_k, threshold)
    counts = [len(image) for image in want]
    assert max(counts) > 2
    for got, image in zip(found.to_list(), want, strict=True):
        assert got["labels"].tolist() == [label for _, label, _ in image]
        assert got["scores"].tolist() == pytest.approx([score for score, _, _ in image], abs=1e-12)
        for box, expected in zip(got["boxes"].tolist(), [box for _, _, box in image], strict=True):
            assert box == pytest.approx(expected, abs=1e-9)
    assert found.valid.sum(1).tolist() == counts
    padding = ~found.valid
    assert (found.scores[padding] == 0).all()
    assert (found.labels[padding] == -1).all()
    assert (found.boxes[padding] == 0).all()


def test_queries_say_where_each_detection_came_from():
    logits, boxes = outputs()
    found = DetectionDecoder(6, box_format="cxcywh")(logits, boxes, torch.ones(3, 2))
    for i in range(3):
        assert torch.equal(found.boxes[i], boxes[i, found.queries[i]])
        assert torch.equal(found.scores[i], logits[i, found.queries[i], found.labels[i]].sigmoid())


@pytest.mark.parametrize("activation", ["sigmoid", "softmax"])
def test_gradients_reach_exactly_the_kept_queries(activation):
    logits, boxes = (v.requires_grad_() for v in outputs())
    found = DetectionDecoder(5, activation=activation, threshold=0.5)(logits, boxes, SIZES)
    (found.scores.sum() + found.boxes.sum()).backward()
    kept = torch.zeros(3, 12, dtype=torch.bool)
    for i in range(3):
        kept[i, found.queries[i][found.valid[i]]] = True
    assert 0 < kept.sum() < kept.numel()
    assert torch.equal((boxes.grad != 0).any(-1), kept)
    assert torch.equal((logits.grad != 0).any(-1), kept)


@pytest.mark.parametrize("activation", ["sigmoid", "softmax"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 0.0])
def test_degenerate_logits_and_boxes_stay_finite(activation, dtype, value):
    logits, boxes = outputs(dtype=torch.float32)
    logits[0] = value
    logits[1, 3] = value
    boxes[2, 5, 0] = math.nan
    logits, boxes = logits.to(dtype).requires_grad_(), boxes.to(dtype).requires_grad_()
    found = DetectionDecoder(20, activation=activation)(logits, boxes, SIZES)
    (found.scores.sum() + found.boxes.sum()).backward()
    assert found.scores.dtype == dtype
    assert found.boxes.dtype == torch.float32
    assert found.scores.isfinite().all()
    assert found.boxes.isfinite().all()
    assert logits.grad.isfinite().all()
    assert boxes.grad.isfinite().all()
    assert (found.queries[2][found.valid[2]] != 5).all()


def test_a_score_must_exceed_the_threshold():
    logits = torch.tensor([[[0.0, 0.1]]])  # the sigmoid of 0 is 0.5, exactly
    found = DetectionDecoder(2, threshold=0.5)(logits, torch.zeros(1, 1, 4), torch.ones(1, 2))
    assert found.valid.tolist() == [[True, False]]


def test_no_queries_and_no_images():
    decoder = DetectionDecoder(4)
    assert not decoder(torch.zeros(2, 0, 3), torch.zeros(2, 0, 4), torch.ones(2, 2)).valid.any()
    assert decoder(torch.zeros(0, 5, 3), torch.zeros(0, 5, 4), torch.ones(0, 2)).to_list() == []
    assert decoder.state_dict() == {}
    assert "top_k=4" in repr(decoder)


def test_errors_say_what_to_do():
    decode, zeros = DetectionDecoder(), torch.zeros
    refused(InvalidArgument, "top_k", DetectionDecoder, 0)
    refused(InvalidArgument, "activation", DetectionDecoder, activation="relu")
    refused(InvalidArgument, "box_format", DetectionDecoder, box_format="cxcywhr")
    refused(InvalidArgument, r"logits: expected \(B, Q, C\)", decode, zeros(2, 3), zeros(2, 3, 4), SIZES[:2])
    refused(InvalidArgument, r"boxes: expected \(B, Q, 4\)", decode, zeros(2, 3, 5), zeros(2, 4, 4), SIZES[:2])
    refused(InvalidArgument, r"sizes: expected \(height, width\)", decode, zeros(2, 3, 5), zeros(2, 3, 4), SIZES)
    refused(InvalidType, "logits", decode, zeros(2, 3, 5).int(), zeros(2, 3, 4), SIZES[:2])
    refused(InvalidArgument, "at least 2", DetectionDecoder(activation="softmax"), zeros(2, 3, 1), zeros(2, 3, 4), SIZES[:2])
