"""Exported descriptors give the network's numbers, for any number of patches."""

import pytest
import torch

from pellucid.errors import InvalidArgument
from pellucid.features import HardNet
from pellucid.features.export import export_descriptor


@pytest.fixture(scope="module")
def network():
    """Running statistics that are not those of a new network."""
    network = HardNet(width=0.125, seed=1)
    for _ in range(3):
        network(torch.rand(16, 1, 32, 32))
    return network


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_program_runs_without_pellucid(network, tmp_path):
    path = export_descriptor(network, tmp_path / "out" / "descriptor.pt2")
    assert network.training
    program = torch.export.load(path).module()
    network.eval()
    try:
        for count in (1, 7):
            patches = torch.rand(count, 1, 32, 32)
            assert torch.allclose(program(patches), network(patches), atol=1e-6)
    finally:
        network.train()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_onnxruntime_agrees(network, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    path = export_descriptor(network, tmp_path / "descriptor.onnx")
    assert [file.name for file in tmp_path.iterdir()] == ["descriptor.onnx"]
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    network.eval()
    try:
        for count in (1, 9):
            patches = torch.rand(count, 1, 32, 32)
            (found,) = session.run(["descriptors"], {"patches": patches.numpy()})
            assert torch.allclose(torch.from_numpy(found), network(patches), atol=1e-5)
    finally:
        network.train()


def test_other_endings_are_named(network, tmp_path):
    with pytest.raises(InvalidArgument, match=r"path: .*onnx"):
        export_descriptor(network, tmp_path / "descriptor.pth")
