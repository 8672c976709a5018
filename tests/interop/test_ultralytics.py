"""What Ultralytics reads in an ONNX file: that it does read it, and prepares pictures as ours does then."""

import ast

import numpy as np
import pytest
import torch

import pellucid as P
from pellucid.errors import InvalidArgument
from pellucid.interop import Unsupported, to_ultralytics
from tests.refusals import refused

LETTERBOX = P.Letterbox((96, 128), fill=114, antialias=False)
NAMES = ["cat", "dog"]


def test_the_keys_are_those_of_their_exporter():
    found = to_ultralytics(P.Pipeline([LETTERBOX]), names=NAMES)
    assert {key: ast.literal_eval(value) for key, value in found.items() if key != "task"} == {
        "imgsz": [96, 128],
        "names": {0: "cat", 1: "dog"},
        "stride": 32,
        "batch": 1,
        "channels": 3,
        "args": {"dynamic": False},
    }
    assert found["task"] == "detect"


def test_their_backend_reads_it_and_their_letterbox_is_ours(tmp_path):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    backend = pytest.importorskip("ultralytics.nn.autobackend", exc_type=ImportError)
    from ultralytics.data.augment import LetterBox

    places = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 3, 96, 128]) for name in ("images", "output0")]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Identity", ["images"], ["output0"])], "g", places[:1], places[1:])
    network = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    onnx.helper.set_model_props(network, to_ultralytics([LETTERBOX], names=NAMES))
    onnx.save(network, tmp_path / "network.onnx")
    read = backend.AutoBackend(str(tmp_path / "network.onnx"), device=torch.device("cpu"))
    assert (list(read.imgsz), read.stride, read.task, read.names) == ([96, 128], 32, "detect", {0: "cat", 1: "dog"})
    for size in ((60, 200), (211, 97), (96, 128)):
        picture = np.random.default_rng(0).integers(0, 256, (*size, 3), dtype=np.uint8)
        theirs = torch.from_numpy(LetterBox(tuple(read.imgsz))(image=picture)).movedim(-1, 0)
        ours = P.Pipeline([LETTERBOX])(torch.from_numpy(picture).movedim(-1, 0))
        assert (ours.int() - theirs.int()).abs().max() <= 1, size


@pytest.mark.parametrize(
    ("steps", "named"),
    [
        ([P.Letterbox(96)], "bars are 114"),
        ([LETTERBOX] * 2, "letterboxes once"),
        ([P.RandomHorizontalFlip()], "RandomHorizontalFlip"),
    ],
)
def test_what_it_does_otherwise_is_named(steps, named):
    refused(Unsupported, named, to_ultralytics, steps, names=NAMES)


def test_mistakes_are_named():
    refused(InvalidArgument, "sides that 40 divides", to_ultralytics, [LETTERBOX], names=NAMES, stride=40)
    refused(InvalidArgument, "task", to_ultralytics, [LETTERBOX], names=NAMES, task="classify")
