"""After a first call, a pipeline makes no tensor of host data and reads no value, so that a CUDA graph can capture its calls.

Checked on the meta device, which takes the code paths of an accelerator without one: every operation that torch sees is recorded.
"""

from contextlib import nullcontext

import pytest
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

import pellucid
from pellucid import Key, Pipeline
from pellucid.core import compilers, constants
from pellucid.core.caches import Recent
from pellucid.kernels import dispatch
from pellucid.policy import RandomChoice
from tests.cases import CASES, MEAN, STD

META = torch.device("meta")
READS = ("_local_scalar_dense", "nonzero", "masked_select", "_linalg_check_errors", "is_nonzero", "equal.default", "unique")


class Host(TorchDispatchMode):
    """Collects operations that touch the host's memory, or whose result's shape depends on values."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = str(function)
        given = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        result = function(*args, **(kwargs or {}))
        made = [x for x in pytree.tree_leaves(result) if isinstance(x, torch.Tensor)]
        by_mask = name.startswith("aten.index") and any(x.dtype in (torch.bool, torch.uint8) for x in given[1:])
        if any(x.device != META for x in given + made) or any(r in name for r in READS) or by_mask:
            self.seen.append(name)
        return result


@pytest.fixture(autouse=True)
def accelerator(monkeypatch):
    """The meta device counts as one that Triton's kernels run on."""
    runs_on = {"cpu": "cpu", "triton": "meta"}
    monkeypatch.setattr(dispatch, "_runs_on", lambda name, device: name == "reference" or runs_on[name] == device)
    monkeypatch.setattr(compilers, "_triton", True)
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())  # which knows no meta device


def batches(size, objects=False):
    image = torch.empty(4, 3, *size, device=META)
    yield "images", {}, image
    boxes, points = torch.empty(4, 2, 4, device=META), torch.empty(4, 2, 2, device=META)
    masks = {"mask": torch.empty(4, 1, *size, dtype=torch.int64, device=META)}
    if objects:
        masks["masks"] = torch.empty(4, 2, *size, dtype=torch.bool, device=META)
    yield "targets", {"return_valid": True}, {"image": image, **masks, "boxes": boxes, "keypoints": points}
    yield "8-bit video", {"dtype": torch.bfloat16}, torch.empty(2, 2, 3, *size, dtype=torch.uint8, device=META)


def touched(call):
    call()  # what is made once is made here
    with Host() as host:
        call()
    return host.seen


@pytest.mark.parametrize("case", CASES, ids=[f"{i}-{case.name}" for i, case in enumerate(CASES)])
def test_no_transform_touches_the_host(case):
    size = case.size or ((16, 16) if case.square else (16, 18))
    for what, options, batch in batches(size, case.objects):
        pipeline = Pipeline([case.transform], **options).to(META)
        assert touched(lambda p=pipeline, b=batch: p(b)) == [], what


FLAGSHIP = (
    pellucid.RandomResizedCrop((16, 16), antialias=False),
    pellucid.RandomAffine(degrees=pellucid.Uniform(pellucid.Learnable(-10.0), pellucid.Learnable(10.0)), shear=5),
    pellucid.RandomHorizontalFlip(p=pellucid.Learnable(0.3)),
    pellucid.ColorJitter(brightness=0.2, contrast=0.2, saturation=0.2, hue=0.05),
    pellucid.Normalize(mean=MEAN, std=STD),
)


@pytest.mark.parametrize("impl", ["triton", "reference"])
def test_neither_does_a_step_of_training(impl):
    pipeline, images = Pipeline(FLAGSHIP, impl=impl).to(META), torch.empty(4, 3, 20, 20, device=META)
    images.requires_grad_()

    def step():
        wanted = (images, *pipeline.parameters())
        torch.autograd.grad(pipeline(images).sum(), wanted, allow_unused=True)

    assert touched(step) == []


def test_nor_do_keys_replays_and_choices():
    pipeline, images = Pipeline(FLAGSHIP).to(META), torch.empty(4, 3, 20, 20, device=META)
    step = torch.zeros((), dtype=torch.int64, device=META)
    index = torch.arange(4, device=META)
    assert touched(lambda: pipeline(images, key=Key(seed=7, step=3))) == []
    assert touched(lambda: pipeline(images, key=Key(seed=step, step=step, index=index))) == []
    _, record = pipeline(images, return_record=True)
    assert touched(lambda: pipeline.apply(images, record)) == []
    assert touched(lambda: pipeline.inverse(torch.empty(4, 3, 16, 16, device=META), record)) == []
    values = pellucid.Categorical((-90.0, 0.0, 90.0), (0.2, 0.5, 0.3))
    rotation = Pipeline([pellucid.RandomRotation(values)]).to(META)
    assert touched(lambda: rotation(images)) == []
    branches = RandomChoice([[pellucid.RandomInvert()], [pellucid.RandomGaussianBlur(3)]]).to(META)
    assert touched(lambda: branches(images)) == []


def test_the_recorder_sees_what_it_should():
    there = torch.empty(3, device=META)
    with Host() as host:
        there + torch.tensor([1.0, 2.0, 3.0]).to(META)
    assert "aten._to_copy.default" in host.seen
    with pytest.raises(RuntimeError), Host():
        there.sum().item()


def test_constants_are_made_once_and_told_apart():
    first = constants.constant((1.0, 0.0), torch.float32, META)
    assert constants.constant((1.0, 0.0), torch.float32, META) is first
    assert constants.constant((1.0, -0.0), torch.float32, META) is not first
    assert constants.constant((1.0, 0.0), torch.float64, META) is not first
    assert not constants.constant((1.0, 0.5), torch.float32, torch.device("cpu")).is_meta
    with torch.inference_mode():
        assert not constants.constant((4.0, 5.0), torch.float32, META).is_inference()
    inside = torch.func.vmap(lambda x: x * constants.constant((6.03125,), torch.float32, META))
    inside(torch.empty(2, 1, device=META))
    assert not any("6.03125" in key[0] for key in constants._made._kept)


def test_what_a_graph_reads_is_never_forgotten(monkeypatch):
    monkeypatch.setattr(constants, "_made", Recent(2))
    monkeypatch.setattr(constants, "_captured", {})
    known = constants.constant((1.0,), torch.float32, META)
    monkeypatch.setattr(constants, "_capturing", lambda device: True)
    assert constants.constant((1.0,), torch.float32, META) is known
    fresh = constants.constant((2.0,), torch.float32, META)  # belongs to the graph that captures it
    assert constants.constant((2.0,), torch.float32, META) is not fresh
    monkeypatch.setattr(constants, "_capturing", lambda device: False)
    for value in (3.0, 4.0, 5.0):
        constants.constant((value,), torch.float32, META)
    assert len(constants._made) <= 2
    assert list(constants._captured.values()) == [known]
