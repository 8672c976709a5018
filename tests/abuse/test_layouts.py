"""Pictures in every memory layout, dtype and shape: the result of the plain picture, or an error that names the input."""

import warnings

import numpy as np
import pytest
import torch

import pellucid
from pellucid import Key, Pipeline
from tests.abuse.test_constructors import BASES
from tests.abuse.verdicts import attempt, sample, settle


class Marked(torch.Tensor):
    """A subclass of a tensor that means nothing to anybody."""


def _plain(*shape, dtype=torch.float32):
    return torch.rand(shape or (2, 3, 8, 8), generator=torch.Generator().manual_seed(3), dtype=torch.float64).to(dtype)


def _inference():
    with torch.inference_mode():
        return _plain().clone()


def _embedded():
    wide = torch.full((2, 3, 8, 20), 7.0)
    wide[..., 2:18:2] = _plain()
    return wide[..., 2:18:2]


def _quantized():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.quantize_per_tensor(_plain(), 0.1, 0, torch.quint8)


def _nested():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.nested.nested_tensor([_plain(3, 8, 8), _plain(3, 8, 8)])


SAME = {
    "channels last": lambda: _plain().to(memory_format=torch.channels_last),
    "transposed storage": lambda: _plain().transpose(2, 3).contiguous().transpose(2, 3),
    "every other column of a wider one": _embedded,
    "offset storage": lambda: torch.cat((torch.zeros(1), _plain().flatten()))[1:].view(2, 3, 8, 8),
    "part of the graph": lambda: _plain().requires_grad_() * 1.0,
    "made under inference mode": _inference,
    "tensor subclass": lambda: _plain().as_subclass(Marked),
    "Parameter": lambda: torch.nn.Parameter(_plain()),
    "expanded batch": lambda: _plain()[:1].expand(2, 3, 8, 8),
    "expanded channels": lambda: _plain()[:, :1].expand(2, 3, 8, 8),
    "expanded rows": lambda: _plain()[..., :1, :].expand(2, 3, 8, 8),
    "one sample": lambda: _plain(3, 8, 8),
    "video": lambda: _plain(2, 3, 3, 8, 8),
    "float64": lambda: _plain(dtype=torch.float64),
    "float16": lambda: _plain(dtype=torch.float16),
    "bfloat16": lambda: _plain(dtype=torch.bfloat16),
    "uint8": lambda: (_plain() * 255).to(torch.uint8),
    "no samples": lambda: _plain(0, 3, 8, 8),
    "no frames": lambda: _plain(2, 0, 3, 8, 8),
}
"""What must give the result of the same numbers in an ordinary tensor."""
WRONG = {
    "0-d": lambda: _plain()[0, 0, 0, 0],
    "1-d": lambda: _plain(8),
    "2-d": lambda: _plain(8, 8),
    "6-d": lambda: _plain(1, 1, 1, 3, 8, 8),
    "channels at the end": lambda: _plain(2, 8, 8, 3),
    "one sample with channels at the end": lambda: _plain(8, 8, 3),
    "one large sample with channels at the end": lambda: _plain(64, 48, 3),
    "one grey sample with channels at the end": lambda: _plain(8, 8, 1),
    "four channels at the end": lambda: _plain(2, 8, 8, 4),
    "complex": lambda: _plain() + 1j,
    "bool": lambda: _plain() > 0.5,
    "int8": lambda: _plain().to(torch.int8),
    "int32": lambda: _plain().to(torch.int32),
    "int64": lambda: _plain().to(torch.int64),
    "float8": lambda: _plain().to(torch.float8_e4m3fn),
    "sparse": lambda: _plain().to_sparse(),
    "sparse rows": lambda: _plain().to_sparse(2),
    "quantized": _quantized,
    "nested": _nested,
    "no rows": lambda: _plain(2, 3, 0, 8),
    "no columns": lambda: _plain(2, 3, 8, 0),
    "no channels": lambda: _plain(2, 0, 8, 8),
    "nothing at all": lambda: _plain(0),
    "array with channels first": lambda: _plain().numpy(),
    "array of objects": lambda: np.full((8, 8, 3), None),
    "list": lambda: _plain().tolist(),
    "empty list": list,
    "list of batches": lambda: [_plain(), _plain()],
    "None": lambda: None,
    "text": lambda: "picture.png",
    "number": lambda: 3,
    "empty dict": dict,
    "dict of None": lambda: {"image": None},
    "dict of a list": lambda: {"image": [1.0]},
    "dict of labels": lambda: {"labels": torch.zeros(2)},
}
"""What is no picture, or none that transforms can work on."""


def cases():
    return [f"{name} on {label}" for name in BASES for label in (*SAME, *WRONG)]


def same_fault(name, label):
    make, key = SAME[label], Key(3, 1)
    ordinary = make().detach().as_subclass(torch.Tensor).clone(memory_format=torch.contiguous_format)
    wanted, _, unable = attempt(lambda: Pipeline([BASES[name]])(ordinary, key=key), "image")
    out, fault, refused = attempt(lambda: Pipeline([BASES[name]])(make(), key=key), "image", "batch", "dtype")
    if refused:
        return fault or (None if unable else "refuses a picture")
    normalised = name == "Normalize" and ordinary.dtype == torch.uint8  # no bytes hold it
    if unable or out.shape != wanted.shape or out.dtype != (torch.float32 if normalised else ordinary.dtype):
        return f"result {tuple(out.shape)} {out.dtype}"
    # A sum over the pixels may run in another order.
    rounding = 8.0 * torch.finfo(out.dtype).eps if name in ("ColorJitter", "RandomContrast") and out.is_floating_point() else 0.0
    if not torch.allclose(out.detach().as_subclass(torch.Tensor), wanted, rtol=0.0, atol=rounding):
        return "another result than from an ordinary tensor"
    return None if bool(torch.isfinite(out).all()) else "a result that is not finite"


def wrong_fault(name, label):
    _, fault, refused = attempt(lambda: Pipeline([BASES[name]])(WRONG[label](), key=Key(3, 1)), "image", "batch")
    return fault if refused else "accepts what is no picture"


def _verdicts(chosen):
    parts = [case.split(" on ", 1) for case in chosen]
    return {f"{name} on {label}": (same_fault if label in SAME else wrong_fault)(name, label) for name, label in parts}


def test_a_sample_of_layouts_ends_well():
    settle(_verdicts(sample(cases(), 41)))


@pytest.mark.slow
@pytest.mark.parametrize("name", list(BASES))
def test_every_layout_ends_well(name):
    settle(_verdicts([case for case in cases() if case.startswith(f"{name} on ")]))


@pytest.mark.parametrize("label", ["no samples", "no frames"])
@pytest.mark.parametrize("name", ["RandomAffine", "RandomCrop", "ColorJitter", "RandomGaussianNoise", "RandomErasing"])
def test_nothing_is_recorded_replayed_and_undone(name, label):
    x = SAME[label]()
    pipeline = Pipeline([BASES[name]])

    def around():
        out, record = pipeline(x, return_record=True)
        again = pipeline.apply(x, record)
        return out.shape == again.shape and pipeline.inverse(out, record).shape == x.shape

    same, fault, refused = attempt(around, "image", "batch")
    settle({f"{name} recorded on {label}": fault if refused else (None if same else "other shapes")})


@pytest.mark.parametrize("shape", [(2, 0), (0, 3), (0, 0)])
def test_no_boxes_and_no_keypoints(shape):
    faults = {}
    for name in ("RandomAffine", "RandomCrop", "RandomHorizontalFlip", "Resize", "ColorJitter"):
        batch = {"image": _plain(shape[0], 3, 8, 8), "boxes": torch.zeros(*shape, 4), "keypoints": torch.zeros(*shape, 2)}
        out, fault, refused = attempt(lambda name=name, batch=batch: Pipeline([BASES[name]])(batch), "batch")
        right = not refused and out["boxes"].shape == (*shape, 4) and out["keypoints_valid"].shape == shape
        faults[f"{name} on boxes {shape}"] = fault if refused else (None if right else "other shapes")
    settle(faults)


def test_no_transforms_on_any_layout():
    for label, make in SAME.items():
        x = make()
        assert torch.equal(Pipeline([])(x), x), label


def test_a_transform_in_inference_mode_leaves_training_alone():
    x = _plain().requires_grad_()
    flip = pellucid.RandomHorizontalFlip(p=1.0)
    with torch.inference_mode():
        flip(_plain())
    flip(x).sum().backward()
    assert torch.equal(x.grad, torch.ones_like(x))
