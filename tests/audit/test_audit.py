"""The entry points: naming, declarations, state left as it was, pipelines, crashes, the pytest helper."""

import functools
import time
from dataclasses import dataclass

import planted_gradients as planted
import planted_hazards as hazards
import planted_singular as singular
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from pellucid.audit import AuditReport, Severity, assert_clean, audit
from pellucid.errors import InvalidArgument, InvalidType
from tests.refusals import refused

X = planted.X


def test_inputs_are_named_after_the_signature():
    assert list(audit(planted.no_grad_gain, (X, planted.GAIN)).measures) == ["x", "gain"]
    assert list(audit(planted.no_grad_gain, {"x": X, "gain": planted.GAIN}).measures) == ["x", "gain"]
    assert list(audit(torch.sin, X).measures) == ["input"]
    nested = audit(lambda batch: batch["image"] * batch["scale"][0], ({"image": X, "scale": [torch.tensor(2.0)]},))
    assert list(nested.measures) == ["batch.image", "batch.scale.0"]


def test_a_module_brings_its_parameters_and_keeps_them():
    layer = nn.Linear(8, 4)
    before = {k: v.clone() for k, v in layer.state_dict().items()}
    for isolate in (True, False):
        report = audit(layer, torch.randn(5, 8), isolate=isolate)
        assert {m.kind for m in report.measures.values()} == {"input", "parameter"}
        assert all(torch.equal(v, before[k]) and v.dtype == before[k].dtype for k, v in layer.state_dict().items())
        assert all(p.grad is None for p in layer.parameters())


def test_a_bound_method_and_a_partial_bring_parameters_too():
    layer = nn.Linear(8, 4)
    assert "weight" in audit(layer.forward, torch.randn(5, 8)).measures
    assert "weight" in audit(functools.partial(layer), torch.randn(5, 8)).measures


def test_running_statistics_are_put_back():
    layer = nn.BatchNorm2d(3)
    audit(layer, X, isolate=False)
    assert torch.equal(layer.running_mean, torch.zeros(3))
    assert int(layer.num_batches_tracked) == 0


def test_random_states_and_inputs_are_left_alone():
    state, kept = torch.get_rng_state(), X.clone()
    for isolate in (True, False):
        audit(F.dropout, X, isolate=isolate)
        audit(hazards.clamps_its_input, X, isolate=isolate)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(X, kept)


def test_both_ways_of_running_say_the_same():
    for subject in (planted.detached_statistics, singular.gamma_at_black, torch.sigmoid):
        there, here = (audit(subject, X, isolate=isolate) for isolate in (True, False))
        assert [(f.category, f.severity, f.place) for f in there.findings] == [
            (f.category, f.severity, f.place) for f in here.findings
        ]


@pytest.mark.parametrize("subject", [torch.sin, singular.gamma_at_black, singular.whitening_by_eigh], ids=lambda f: f.__name__)
def test_an_audit_calls_an_operation_a_few_hundred_times(subject):
    calls = []

    def counted(x):
        calls.append(x)
        return subject(x)

    audit(counted, X, isolate=False)
    assert 50 < len(calls) < 400  # what an audit costs: two seconds where a call takes five milliseconds


def test_a_kept_promise_is_a_note_and_a_broken_one_an_error():
    assert audit(planted.posterize_by_cast, X, declared={"x": "none"}).exit_code == 0
    assert audit(planted.detached_statistics, X, declared={"x": "surrogate"}).exit_code == 0
    assert audit(torch.sin, X, declared={"*": "none"}).of("declaration")
    assert audit(torch.round, 5 * X, declared={"*": "exact"}).of("declaration")
    assert audit(torch.sin, X, declared={"*": "exact"}).exit_code == 0


def test_kinks_and_jumps_at_the_given_point_are_notes():
    report = audit(torch.relu, torch.zeros(2, 3, 8, 8))
    assert [f.severity for f in report.of("kink")] == [Severity.NOTE]
    assert audit(torch.round, 5 * X).of("jump")
    assert audit(planted.straight_through_none, X).of("detached")


def test_coverage_counts_what_is_cropped_and_what_is_saturated():
    cropped = audit(lambda x: x[..., :4], X)
    assert cropped.measures["x"].coverage == pytest.approx(0.25)
    assert set(cropped.measures["x"].state.flatten()) == {0, 2}
    saturated = audit(lambda x: (2 * x).clamp(0, 1), X)
    share = float((X < 0.5).float().mean())
    assert saturated.measures["x"].coverage == pytest.approx(share, abs=0.01)
    assert set(saturated.measures["x"].state.flatten()) == {1, 2}
    masked = audit(planted.masked_by_hook, X)
    assert set(masked.measures["x"].state.flatten()) >= {2, 3}


def test_a_pipeline_is_audited_with_its_draws_replayed():
    @dataclass(frozen=True)
    class Jitter:
        """Draws fresh numbers on every call, and replays them from a record."""

        def draw(self, images):
            return torch.rand(images.shape[0], 1, 1, 1, generator=None)

        def apply(self, images, record):
            return images * record

        def __call__(self, images):
            return self.apply(images, self.draw(images))

    report = audit(Jitter(), X)
    assert report.exit_code == 0, str(report)
    assert report.measures["images"].gradient == "exact"


def test_a_learnable_pipeline_is_drawn_anew_from_the_same_key():
    @dataclass(frozen=True)
    class Record:
        """What was drawn."""

        key: int
        gain: torch.Tensor

    class Brighten(nn.Module):
        """Advances its step with every draw that is not given a key."""

        def __init__(self):
            super().__init__()
            self.width = nn.Parameter(torch.tensor(0.3))
            self.step = 0

        def draw(self, images, key=None):
            if key is None:
                key, self.step = self.step, self.step + 1
            unit = torch.rand(images.shape[0], 1, 1, 1, generator=torch.Generator().manual_seed(key), dtype=images.dtype)
            return Record(key, 1 + (unit - 0.5) * self.width)

        def apply(self, images, record):
            return images * record.gain

        def forward(self, images):
            return self.apply(images, self.draw(images))

    report = audit(Brighten(), X)
    assert report.exit_code == 0, str(report)
    assert report.measures["width"].gradient == "exact"
    assert report.measures["width"].coverage == 1.0


def test_a_subject_that_dies_is_reported():
    def dies(x):
        import ctypes

        return x + ctypes.string_at(0)[0]  # reads address 0

    report = audit(dies, X)
    assert [str(f.category) for f in report.findings] == ["crash"]
    assert "SIGSEGV" in report.findings[0].message
    assert "test_audit.py" in report.findings[0].place


def test_a_subject_that_hangs_is_reported():
    report = audit(lambda x: time.sleep(60) or x, X, timeout=0.5)
    assert [str(f.category) for f in report.findings] == ["crash"]


def test_a_subject_that_raises_is_reported():
    report = audit(lambda x: x @ x[:, :, :3], X)
    assert [str(f.category) for f in report.findings] == ["raises"]
    assert "test_audit.py" in report.findings[0].place


def test_assert_clean_raises_with_the_findings_unless_allowed():
    assert isinstance(assert_clean(torch.tanh, X), AuditReport)
    refused(AssertionError, "detached", assert_clean, planted.detached_matrix, (X, planted.ANGLE))
    assert_clean(planted.detached_matrix, (X, planted.ANGLE), allow=["detached"])
    assert_clean(planted.detached_matrix, (X, planted.ANGLE), allow=["detached:angle"])
    with pytest.raises(AssertionError):
        assert_clean(planted.detached_matrix, (X, planted.ANGLE), allow=["detached:x"])
    refused(AssertionError, "jump", assert_clean, torch.round, 5 * X, level="note")


def test_mistakes_are_named():
    refused(InvalidType, "fn", audit, 3, X)
    refused(InvalidArgument, "floating-point", audit, torch.bincount, torch.arange(4))
    refused(InvalidArgument, "options", audit, torch.sin, X, colour="red")
    refused(InvalidArgument, "declared", audit, torch.sin, X, declared={"x": "perhaps"})
    refused(InvalidArgument, "level", assert_clean, torch.sin, X, level="fatal")


def test_integer_results_are_a_note():
    assert audit(torch.argmax, X).exit_code == 0
