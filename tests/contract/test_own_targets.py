"""Kinds of targets of somebody else's: the page about them runs, and they obey what ours obey."""

import re
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

import pellucid
from pellucid import InvalidArgument, InvalidType, Pipeline, RandomAffine, RandomHorizontalFlip, RandomPerspective, TargetKind
from pellucid.targets.kinds import KINDS
from tests.refusals import refused

PAGE = Path(__file__).parents[2] / "docs" / "own-targets.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
F64 = torch.float64


@pytest.fixture(autouse=True)
def page(monkeypatch):
    """The page's names; what it registers is forgotten after each test."""
    known = dict(KINDS)
    scope: dict = {}
    exec(BLOCKS[0], scope)
    yield scope
    KINDS.clear()
    KINDS.update(known)


def batch(samples=3):
    generator = torch.Generator().manual_seed(0)
    middle, half = (torch.rand(samples, 5, 2, generator=generator, dtype=F64) for _ in range(2))
    segments = torch.cat((24.0 * middle - 2.0 * half, 24.0 * middle + 2.0 * half), -1)
    return {"image": torch.rand(samples, 3, 24, 24, generator=generator, dtype=F64), "segments": segments}


def test_the_page_runs(page):
    for block in BLOCKS[1:]:
        exec(block, page)


@pytest.mark.parametrize("fuse", [True, False])
def test_segments_go_where_opencv_sends_their_ends(fuse):
    given = batch()
    augment = Pipeline([RandomAffine(40, translate=(0.9, 0.9)), RandomPerspective(p=1.0)], seed=1, fuse=fuse, canvas="image")
    out, record = augment(given, return_record=True)
    for ours, source, matrix in zip(out["segments"], given["segments"], record.matrix, strict=True):
        ends = cv2.perspectiveTransform(source.reshape(1, -1, 2).numpy(), matrix.numpy()).reshape(-1, 4)
        np.testing.assert_allclose(ours.numpy(), ends, atol=1e-9)
    ends = {"image": given["image"], "keypoints": given["segments"].reshape(3, 10, 2)}
    assert torch.equal(out["segments_valid"], augment.apply(ends, record)["keypoints_valid"].reshape(3, 5, 2).any(-1))
    assert out["segments_valid"].any()
    assert not out["segments_valid"].all()
    back = augment.inverse(out, record)["segments"]
    torch.testing.assert_close(back, given["segments"], rtol=0.0, atol=1e-9)


def test_gradients_pass_through_a_kind_of_ones_own():
    given = batch(1)
    augment = Pipeline([RandomAffine(10)], seed=1)
    record = augment.draw(given).requires_grad_()
    degrees = record.params[0]["degrees"]

    def ends(segments, degrees):
        return augment.apply({**given, "segments": segments}, record.with_param(0, "degrees", degrees))["segments"]

    assert torch.autograd.gradcheck(ends, (given["segments"].clone().requires_grad_(), degrees), fast_mode=False)


def test_pictures_of_ones_own_are_resampled_as_depth_is():
    fields = torch.rand(2, 1, 16, 16)
    augment = Pipeline([RandomAffine(30)], seed=2)
    out = augment({"image": torch.rand(2, 3, 16, 16), "weights": fields, "depth": fields})
    assert torch.equal(out["weights"], out["depth"])
    sharp = Pipeline([RandomAffine(30)], seed=2, interpolation={"weights": "nearest", "depth": "nearest"})
    out = sharp({"image": torch.rand(2, 3, 16, 16), "weights": fields, "depth": fields})
    assert torch.equal(out["weights"], out["depth"])
    assert set(out["weights"].unique().tolist()) <= {0.0, *fields.unique().tolist()}


def test_validity_flags_whole_videos_and_files(tmp_path):
    flip = Pipeline([RandomHorizontalFlip(p=1.0)], targets={"lanes": "segments"})
    flip.save(tmp_path / "flip.toml")
    augment = Pipeline.load(tmp_path / "flip.toml")
    lanes = torch.tensor([[0.0, 1.0, 3.0, 2.0], [1.0, 1.0, 2.0, 2.0]]).expand(2, 4, 2, 4)
    told = torch.tensor([True, False]).expand(2, 4, 2)
    out = augment({"image": torch.rand(2, 4, 3, 8, 8), "lanes": lanes, "lanes_valid": told})
    assert torch.equal(out["lanes"][0, 0, 0], torch.tensor([7.0, 1.0, 4.0, 2.0]))
    assert torch.equal(out["lanes_valid"], told)


def test_what_does_not_fit_is_named():
    augment = Pipeline([RandomHorizontalFlip()])
    picture = torch.rand(2, 3, 8, 8)
    with pytest.raises(InvalidArgument, match=r"batch\['segments'\]: expected \(B, N, 4\): x1, y1, x2, y2"):
        augment({"image": picture, "segments": torch.rand(2, 5, 3)})
    with pytest.raises(InvalidType, match=r"batch\['segments'\]: expected a floating-point tensor"):
        augment({"image": picture, "segments": torch.ones(2, 5, 4, dtype=torch.int64)})
    refused(InvalidArgument, "register: expected a name that no kind of ours has", pellucid.register, TargetKind("boxes"))
    for wrong in (
        lambda: TargetKind("two words"),
        lambda: TargetKind("rays", axes=(2,), move=3),
        lambda: TargetKind("rays", interpolation="bilinear"),
        lambda: TargetKind("rays", axes=(2,), interpolation="lanczos"),
    ):
        refused((InvalidArgument, InvalidType), "TargetKind", wrong)
