"""Apple's and Intel's GPUs, where the reference computes: what it asks of a device, seen on torch's meta device in their place."""

import contextlib
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.utils._pytree as tree
from torch.utils._python_dispatch import TorchDispatchMode

import pellucid as P
from pellucid.core import constants
from pellucid.errors import InvalidArgument
from tests.cases import CASES
from tests.refusals import refused


@pytest.fixture
def narrow(monkeypatch):
    """The meta device stands for one without float64."""
    monkeypatch.setattr(constants, "_has_float64", lambda device: device.type != "meta")
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: contextlib.nullcontext())  # which the meta device does not know


class Asked(TorchDispatchMode):
    """The operators that run on the meta device, and those among them that make float64."""

    def __init__(self):
        super().__init__()
        self.operators, self.wide = set(), set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        tensors = [one for one in tree.tree_leaves((args, kwargs, out)) if isinstance(one, torch.Tensor) and one.is_meta]
        if tensors:
            self.operators.add(str(func).removeprefix("aten.").removesuffix(".default"))
        if any(one.dtype in (torch.float64, torch.complex128) for one in tensors):
            self.wide.add(str(func))
        return out


def asked_of(case):
    with Asked() as asked:
        picture = torch.empty(2 * case.group, 3, *(case.size or (32, 32)), device="meta").requires_grad_()
        P.Pipeline([case.transform], seed=0)(picture).sum().backward()
    return asked


def kernels_of_torch():
    """By operator: the devices that torch's own list of operators has kernels for; none where it is made of other operators."""
    torchgen = pytest.importorskip("torchgen")
    text = (Path(torchgen.__file__).parent / "packaged/ATen/native/native_functions.yaml").read_text()
    entries = {entry.split("(")[0]: entry for entry in text.split("\n- func: ")[1:]}
    found = {}
    for name, entry in entries.items():
        delegate = re.search(r"^  structured_delegate: (\S+)", entry, flags=re.MULTILINE)
        lines = re.findall(r"^    ([\w, ]+): \w+", (entry if delegate is None else entries[delegate[1]]), flags=re.MULTILINE)
        found[name] = {key.strip() for line in lines for key in line.split(",")}
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: type(case.transform).__name__)
def test_a_device_without_float64_is_asked_for_none_and_for_what_it_has(case, narrow):
    if "narrow" in case.transform.absent:
        refused(InvalidArgument, "float64", asked_of, case)
        return
    asked, kernels = asked_of(case), kernels_of_torch()
    assert len(asked.operators) > 3
    assert asked.wide == set()
    lacking = {
        name.split(".")[0]
        for name in asked.operators & kernels.keys()
        if kernels[name] and not any(key == "MPS" or key.startswith("Composite") for key in kernels[name])
    }
    assert lacking == {operator.replace(".", "_") for operator in [case.transform.absent.get("mps")] if operator}


def test_the_list_of_torch_tells_what_apple_has():
    kernels = kernels_of_torch()
    assert "MPS" in kernels["grid_sampler_3d"]
    assert "MPS" in kernels["erfinv"]  # through what it delegates to
    assert "MPS" not in kernels["linalg_matrix_exp"]


def test_what_a_device_lacks_is_known_before_the_call(monkeypatch):
    monkeypatch.setattr(P.RandomLieAffine, "absent", {"meta": "linalg.matrix_exp"})
    pipeline = P.Pipeline([P.RandomHorizontalFlip(), P.RandomLieAffine()])
    images = torch.empty(2, 3, 8, 8, device="meta")
    lines = pipeline.explain(images).splitlines()
    assert "impl   auto -> reference on meta" in lines
    assert "lacks  torch.linalg.matrix_exp (of RandomLieAffine), so this does not run on meta" in lines
    refused(InvalidArgument, r"a device that has torch.linalg.matrix_exp \(of RandomLieAffine\), got meta", pipeline, images)
    assert "lacks" not in pipeline.explain(torch.rand(2, 3, 8, 8))
    assert pipeline(torch.rand(2, 3, 8, 8)).shape == (2, 3, 8, 8)


def test_a_codec_needs_float64_and_says_so(narrow):
    images = torch.empty(2, 3, 8, 8, device="meta")
    for pipeline in (P.Pipeline([P.RandomJPEG()]), P.Pipeline([P.OneOf([P.RandomJPEG(), P.RandomInvert()])])):
        refused(InvalidArgument, r"a device that has torch.float64 \(of RandomJPEG\), got meta", pipeline, images)


def test_an_intel_gpu_says_whether_it_has_float64(monkeypatch):
    for has in (True, False):
        monkeypatch.setattr(torch.xpu, "get_device_properties", lambda device, has=has: SimpleNamespace(has_fp64=has))
        assert constants.wide_dtype(torch.device("xpu:0")) is (torch.float64 if has else torch.float32)
    assert constants.wide_dtype(torch.device("mps")) is torch.float32
