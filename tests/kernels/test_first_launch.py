"""A Triton kernel that does not agree with the reference is found when it is first launched, and the reference computes."""

import warnings

import pytest
import torch

import pellucid as P
from pellucid.kernels import convolve, dispatch, first_launch

from .interpreted import DEVICE, runs  # noqa: F401

PIPELINES = {
    "colours on the way": [P.RandomAffine(30, scale=(0.8, 1.2)), P.ColorJitter(0.4, 0.4)],
    "crop": [P.RandomResizedCrop(9), P.RandomHorizontalFlip()],
    "blur": [P.RandomGaussianBlur(3, sigma=(0.5, 1.5))],
    "noise": [P.RandomGaussianNoise(sigma=0.1)],
    "gamma": [P.RandomGamma(0.5)],
    "hue": [P.ColorJitter(hue=0.2)],
}


@pytest.fixture(autouse=True)
def checked(monkeypatch):
    monkeypatch.setattr(dispatch, "_runs_on", lambda name, device: True)
    monkeypatch.setenv("PELLUCID_CHECK", "1")
    monkeypatch.setattr(first_launch, "FOUND", {})


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8, torch.float16], ids=["float32", "uint8", "float16"])
def test_no_kernel_of_ours_is_accused(name, dtype):
    if dtype == torch.uint8 and name not in ("colours on the way", "crop"):
        pytest.skip("bytes have no such kernel of their own")
    image = torch.rand(2, 3, 13, 15, generator=torch.Generator().manual_seed(0))
    image = (image * 255).to(dtype) if dtype == torch.uint8 else image.to(dtype).requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out = P.Pipeline(PIPELINES[name], seed=0, impl="triton")(image.to(DEVICE))
    if out.requires_grad:
        out.float().square().sum().backward()
    assert first_launch.FOUND
    assert set(first_launch.FOUND.values()) == {"agrees"}


def example(dtype=torch.float32):
    draw = torch.Generator().manual_seed(0)
    image = torch.rand(2, 3, 11, 13, generator=draw).to(dtype)
    return [one.to(DEVICE) for one in (image, torch.full((1, 3), 1 / 3), torch.full((1, 5), 0.2))]


def gain(primitive):
    return {"forward": lambda *given: primitive.forward(*given) * 1.0001}


def border(primitive):
    def forward(*given):
        out = primitive.forward(*given)
        return torch.cat((out[..., :1] * 0.5, out[..., 1:]), -1)

    return {"forward": forward}


def holes(primitive):
    return {"forward": lambda *given: primitive.forward(*given).nan_to_num()}


def slope(primitive):
    def backward(*given):
        first, *rest = primitive.backward(*given)
        return (first, *(one * 1.0001 for one in rest))

    return {"backward": backward}


def race(primitive):
    calls = []

    def forward(*given):
        calls.append(0)
        return primitive.forward(*given) * (1 + 2e-7 * len(calls))

    return {"forward": forward}


def crash(primitive):
    del primitive

    def forward(*_):
        raise RuntimeError("an illegal instruction")

    return {"forward": forward}


FAULTS = {
    gain: "the result is off by",
    border: "the result is off by",
    holes: "NaN in the picture is wrong in",
    slope: "the gradient to argument 1 is off by",
    race: "two equal runs differ",
    crash: "it raises RuntimeError: an illegal instruction",
}


@pytest.fixture
def deterministic():
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_planted_fault_is_found_and_the_reference_computes(fault, monkeypatch, deterministic):
    primitive = convolve._SEPARABLE["triton"]
    monkeypatch.setitem(convolve._SEPARABLE, "triton", primitive._replace(**fault(primitive)))
    tensors = [one.requires_grad_() for one in example()]
    with pytest.warns(RuntimeWarning, match=f"the separable filter does not agree .*{FAULTS[fault]}"):
        out = convolve.separable(*tensors, impl="triton")
    wanted = convolve.separable(*tensors, impl="reference")
    assert torch.equal(out, wanted)
    found, known = (torch.autograd.grad(one.square().sum(), tensors) for one in (out, wanted))
    assert all(torch.equal(one, other) for one, other in zip(found, known, strict=True))
    with warnings.catch_warnings():  # said once
        warnings.simplefilter("error")
        convolve.separable(*tensors, impl="triton")


def test_a_variant_is_checked_once_and_sizes_make_none(monkeypatch):
    asked = []
    monkeypatch.setattr(first_launch, "disagreement", lambda *given: asked.append(given) or "")
    image, down, across = example()
    for one in (image, image, image[..., :9], image[:1]):
        convolve.separable(one, down, across, impl="triton")
    assert len(asked) == 1
    convolve.separable(image.clone().requires_grad_(), down, across, impl="triton")
    convolve.separable(image.double(), down, across, impl="triton")
    assert len(asked) == 3


def test_it_can_be_switched_off(monkeypatch):
    monkeypatch.setenv("PELLUCID_CHECK", "0")
    convolve.separable(*example(), impl="triton")
    assert first_launch.FOUND == {}


def test_another_driver_is_another_device(monkeypatch):
    pytest.importorskip("triton")
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a device")
    for driver in (12040, 13000):
        monkeypatch.setattr(torch._C, "_cuda_getDriverVersion", lambda driver=driver: driver, raising=False)
        first_launch._device.cache_clear()
        assert f"a device, driver {driver}, CUDA" in first_launch._device(torch.device("cuda"))
    first_launch._device.cache_clear()


def test_what_agrees_is_remembered_on_a_device_and_a_broken_file_is_not_believed(monkeypatch, tmp_path):
    device = torch.device("cuda")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(first_launch, "_device", lambda device: "a device")
    first_launch._remember("one", device, "agrees")
    first_launch._remember("two", device, "the result is off by 1")
    assert first_launch._remembered("one", device) == "agrees"
    assert first_launch._remembered("two", device) is None  # looked at again
    assert first_launch._remembered("three", device) is None
    monkeypatch.setattr(first_launch, "_device", lambda device: "another device")
    assert first_launch._remembered("one", device) is None
    monkeypatch.setattr(first_launch, "_device", lambda device: "a device")
    first_launch._file(device).write_text("half a fi")
    assert first_launch._remembered("one", device) is None
    first_launch._remember("one", device, "agrees")  # and does not raise
