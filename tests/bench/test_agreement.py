"""The check before timing: it passes for who agrees, and names what is wrong with who does not."""

from dataclasses import replace

import pytest
import torch

from pellucid_bench.agreement import check, statistics_of
from pellucid_bench.compare import compare
from pellucid_bench.modes import MODES, call_of, offered
from pellucid_bench.peers import MODULES, subjects
from pellucid_bench.settings import CASES, photographs

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # peers warn as they like


@pytest.fixture(scope="module")
def ours():
    return subjects("flagship", only=["pellucid"])[0][0]


def test_images_stay_in_range():
    images = photographs(2, (20, 33))
    assert images.shape == (2, 3, 20, 33)
    assert images.min() >= 0.1
    assert images.max() <= 0.9


def test_sound_subject_passes(ours):
    assert check(ours, "flagship", statistics_of(ours)) is None


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda result: result[..., 1:], "shape"),
        (lambda result: result / 0.0, "finite"),
        (lambda result: result + 0.5, "means"),
        (lambda result: 1.4 * result, "means"),
    ],
)
def test_unsound_subject_is_named(ours, spoil, complaint):
    spoiled = replace(ours, forward=lambda images: spoil(ours.forward(images)))
    assert complaint in check(spoiled, "flagship", statistics_of(ours))


def test_difference_under_equal_parameters_is_found(ours):
    spoiled = replace(ours, matched=lambda images: (images, images + 0.01), tolerance=0.005)
    assert "equal parameters" in check(spoiled, "flagship")


def test_nan_difference_is_no_agreement(ours):
    spoiled = replace(ours, matched=lambda images: (images, images * torch.nan))
    assert check(spoiled, "flagship") is not None


def test_red_subject_is_refused_not_timed(ours, monkeypatch):
    wrong = replace(ours, name="wrong", forward=lambda images: images[..., 1:])
    monkeypatch.setattr("pellucid_bench.compare.subjects", lambda case, only, impl: ([ours, wrong], {}))
    rows = compare("flagship", batch=2, size=16, budget=0.0, memory=False)
    about = [row for row in rows if row["subject"] == "wrong"]
    assert [row["status"] for row in about] == ["refused"]
    assert "median_ms" not in about[0]


@pytest.mark.parametrize("case", CASES)
def test_installed_peers_agree(case):
    found, missing = subjects(case)
    assert set(missing) <= set(MODULES) - {"pellucid", "torch"}
    expected = statistics_of(found[0])
    assert {subject.name: check(subject, case, None if subject.name == "pellucid" else expected) for subject in found} == {
        subject.name: None for subject in found
    }


def test_missing_library_is_reported(monkeypatch):
    monkeypatch.setitem(MODULES, "kornia", "no_such_module")
    found, missing = subjects("flagship", only=["pellucid", "kornia"])
    assert "not installed" in missing["kornia"]
    assert {subject.name.partition(",")[0] for subject in found} == {"pellucid"}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("mode", MODES)
def test_our_gradients_are_dense_and_finite(case, mode):
    subject = subjects(case, only=["pellucid"])[0][0]
    if case == "flips" and mode == "image+parameters":  # a gate is all that is drawn
        assert not offered(subject, mode)
        return
    assert offered(subject, mode)
    results = call_of(subject, mode, photographs(2, 16))()
    tensors = [t for t in (results if isinstance(results, tuple) else (results,)) if t is not None]
    assert all(torch.isfinite(t).all() for t in tensors)
    assert all(t.any() for t in tensors[:1])
    assert len(tensors) > 1 or mode != "image+parameters"
