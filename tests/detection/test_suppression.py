"""Suppression is torchvision's: called with the right arguments where it works, and a clear complaint where it does not."""

import subprocess
import sys
import types

import pytest
import torch

from pellucid.detection import nms
from pellucid.errors import ImplementationError, InvalidArgument

BOXES = torch.tensor([[0.0, 0.0, 4.0, 4.0], [0.0, 0.0, 4.0, 3.6], [6.0, 6.0, 9.0, 9.0]], requires_grad=True)
SCORES = torch.tensor([0.6, 0.9, 0.3], requires_grad=True)


@pytest.fixture
def stand_in(monkeypatch):
    calls = []
    ops = types.SimpleNamespace(
        nms=lambda *a: calls.append(("nms", *a)) or torch.tensor([1, 2]),
        batched_nms=lambda *a: calls.append(("batched_nms", *a)) or torch.tensor([1, 0, 2]),
    )
    module = types.ModuleType("torchvision")
    module.ops = ops
    monkeypatch.setitem(sys.modules, "torchvision", module)
    return calls


def test_calls_torchvision_with_corners_and_without_a_graph(stand_in):
    kept = nms(torch.tensor([[2.0, 2.0, 4.0, 4.0]], requires_grad=True), SCORES[:1], iou_threshold=0.7, format="cxcywh")
    assert kept.tolist() == [1, 2]
    ((name, boxes, scores, threshold),) = stand_in
    assert (name, boxes.tolist(), threshold) == ("nms", [[0.0, 0.0, 4.0, 4.0]], 0.7)
    assert not boxes.requires_grad
    assert not scores.requires_grad
    nms(BOXES, SCORES, labels=torch.tensor([0, 1, 0]))
    assert stand_in[1][0] == "batched_nms"
    assert stand_in[1][3].tolist() == [0, 1, 0]


@pytest.mark.parametrize("broken", ["missing", "without operators"])
def test_says_what_to_install(monkeypatch, broken):
    module = None
    if broken == "without operators":

        def fail(*_):
            raise RuntimeError("operator torchvision::nms does not exist")

        module = types.ModuleType("torchvision")
        module.ops = types.SimpleNamespace(nms=fail)
    monkeypatch.setitem(sys.modules, "torchvision", module)
    with pytest.raises(ImplementationError, match="DetectionDecoder, which needs no suppression"):
        nms(BOXES, SCORES)


def test_result_of_the_real_one():
    # Asked in another process: an import that fails half-way would leave its registrations behind in this one.
    probe = "import torch; from torchvision import ops; ops.nms(torch.zeros(1, 4), torch.zeros(1), 0.5)"
    if subprocess.run([sys.executable, "-c", probe], capture_output=True, check=False).returncode:
        pytest.skip("torchvision with compiled operators for this torch is not installed")
    kept = nms(BOXES, SCORES)
    assert kept.tolist() == [1, 2]
    assert SCORES[kept].requires_grad
    assert nms(BOXES, SCORES, labels=torch.tensor([0, 1, 0])).tolist() == [1, 0, 2]


def test_errors_say_what_to_do():
    with pytest.raises(InvalidArgument, match="scores: expected one per box"):
        nms(BOXES, SCORES[:2])
    with pytest.raises(InvalidArgument, match="one image"):
        nms(BOXES[None], SCORES)
