"""Watching a training loop, the decorator for tests, the pytest option, and mistakes at the command line."""

import json

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

from pellucid.audit import audit, audited, watch_training
from pellucid.cli import app
from pellucid.errors import InvalidArgument, InvalidType
from tests.refusals import refused

pytest_plugins = ["pytester"]

SCRIPT = """
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
extra = nn.Linear(3, 1)
sgd = torch.optim.SGD([*net.parameters(), *extra.parameters()], lr=0.1)


def train_step():
    sgd.zero_grad()
    loss = net(torch.rand(8, 3)).square().mean() + 0 * extra.weight.detach().sum()
    loss.backward()
    sgd.step()
    return loss
"""


def step_of(net, loss, optimizer=torch.optim.SGD):
    made = optimizer(net.parameters(), lr=0.1)

    def step():
        made.zero_grad()
        value = loss(net)
        value.backward()
        made.step()
        return value

    return step


def test_a_healthy_training_is_clean_and_untouched():
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    before = [p.detach().clone() for p in net.parameters()]
    report = watch_training(step_of(net, lambda n: n(torch.rand(8, 3)).square().mean()), 4)
    assert report.exit_code == 0, str(report)
    assert set(report.gradients) == {f"net.{k}" for k, _ in net.named_parameters()}
    assert all(len(v) == 4 and all(n > 0 for n in v) for v in report.gradients.values())
    assert len(report.losses) == 4
    assert all(torch.equal(a, b) for a, b in zip(before, net.parameters(), strict=True))
    assert all(p.grad is None for p in net.parameters())


def test_what_never_learns_is_told():
    net = nn.ModuleDict({"used": nn.Linear(3, 1), "forgotten": nn.Linear(3, 1)})
    report = watch_training(step_of(net, lambda n: n["used"](torch.rand(8, 3)).square().mean()), 3)
    assert {f.subject for f in report.findings} == {"net.forgotten.weight", "net.forgotten.bias"}
    assert report.exit_code == 2


def test_nan_is_told_with_its_step():
    net, calls = nn.Linear(3, 1), iter([1.0, 1.0, 0.0, 0.0])
    report = watch_training(step_of(net, lambda n: (n(torch.rand(8, 3)).square() * next(calls)).sum().sqrt()), 4)
    found = [f for f in report.findings if str(f.category) == "non-finite"]
    assert found
    assert found[0].evidence["step"] == 2


def test_the_first_nan_is_told_and_not_everything_that_it_spread_to():
    net = nn.Sequential(*(m for _ in range(4) for m in (nn.Linear(3, 3), nn.Tanh())))
    net.zero = nn.Parameter(torch.zeros(1))
    step = step_of(net, lambda n: n[:8](torch.rand(8, 3)).square().mean() * (1 + (0 * n.zero).sqrt().sum()))
    found = [f for f in watch_training(step, 3).findings if str(f.category) == "non-finite"]
    assert [f.evidence["step"] for f in found] == [0, 1]
    assert found[0].subject == "net.zero"
    assert "7 other" in found[1].message


def test_a_gradient_that_vanishes_between_layers_is_told():
    class Fades(nn.Module):
        def forward(self, x):
            return 1e-12 * x

    net = nn.Sequential(nn.Linear(3, 4), Fades(), nn.Linear(4, 1))
    report = watch_training(step_of(net, lambda n: n(torch.rand(8, 3)).square().mean()), 3)
    assert {f.subject for f in report.findings if "vanishes" in f.message} >= {"net.0.weight", "net.0.bias"}


def test_runs_that_part_are_told():
    import os

    net = nn.Linear(3, 1)
    report = watch_training(step_of(net, lambda n: n(torch.rand(8, 3)).square().mean() * (1 + os.urandom(1)[0])), 3)
    assert "nondeterminism" in {str(f.category) for f in report.findings}


def test_a_step_that_dies_or_raises_is_told():
    import os

    net = nn.Linear(3, 1)
    assert watch_training(step_of(net, lambda n: os._exit(0)), 2).exit_code == 2
    report = watch_training(step_of(net, lambda n: n(torch.rand(8, 4)).mean()), 2)
    assert "raises" in report.findings[0].message


def test_mistakes_are_named():
    refused(InvalidArgument, "step", watch_training, lambda: None)
    refused(InvalidArgument, "steps", watch_training, step_of(nn.Linear(1, 1), lambda n: n.weight.sum()), 0)
    refused(InvalidType, "step", watch_training, 3)


def test_the_command_watches_a_script(tmp_path):
    (tmp_path / "watched_script.py").write_text(SCRIPT)
    target = f"{tmp_path / 'watched_script.py'}:train_step"
    result = CliRunner().invoke(app, ["audit", "--watch-training", target, "--steps", "3", "-o", str(tmp_path / "r.html")])
    assert result.exit_code == 2
    assert "extra.weight" in result.stdout
    assert (tmp_path / "r.html").read_text().count("<svg") == 6
    result = CliRunner().invoke(app, ["audit", "--watch-training", target, "--steps", "2", "--json"])
    assert result.exit_code == 2
    assert json.loads(result.stdout)["gradients"]["net.0.weight"]


@pytest.mark.parametrize("target", ["no.such.module:f", "torch:no_such_name", "torch.nn:Linear()", "nowhere.py:f", "torch"])
def test_a_bad_target_is_one_sentence_and_exits_with_two(target):
    result = CliRunner().invoke(app, ["audit", target])
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_an_audited_test_audits_what_it_returns():
    @audited(quick=True)
    def clean():
        return torch.tanh, torch.rand(2, 8)

    @audited(quick=True, modes=False)
    def cut():
        return lambda x: x * x.detach(), torch.rand(2, 8)

    @audited
    def wrong():
        return torch.tanh

    clean()
    refused(AssertionError, "detached", cut)
    refused(InvalidType, "wrong", wrong)


def test_the_option_turns_audits_on(pytester):
    pytester.makepyfile("""
        import torch
        from pellucid.audit import audited

        @audited(quick=True, modes=False)
        def test_cut():
            return lambda x: x * x.detach(), torch.rand(2, 8)

        def test_other():
            pass
    """)
    options = ("-p", "pellucid.audit.plugin", "-p", "no:cacheprovider")
    pytester.runpytest(*options).assert_outcomes(passed=1, skipped=1)
    pytester.runpytest(*options, "--pellucid-audit").assert_outcomes(passed=1, failed=1)


class Split(nn.Module):
    """A body and a head."""

    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(3, 4), nn.Linear(4, 1)

    def forward(self, x):
        return self.head(self.body(x).tanh()).square().mean()


def steps_of(net, optimizer, *, clear="before", every=1):
    """Return a step that clears gradients before backward, between backward and the update, or never."""
    count = iter(range(1000))

    def step():
        number = next(count)
        if clear == "before" and number % every == 0:
            optimizer.zero_grad()
        value = net(torch.rand(8, 3))
        value.backward()
        if clear == "between":
            optimizer.zero_grad()
        if number % every == every - 1:
            optimizer.step()
        return value

    return step


def told(report, category):
    return [f for f in report.findings if str(f.category) == category]


def test_a_head_that_the_optimiser_misses_is_named():
    net = Split()
    report = watch_training(steps_of(net, torch.optim.Adam(net.body.parameters())), 4)
    found = told(report, "unmoved")
    assert {f.subject for f in found} == {"net.head.weight", "net.head.bias"}
    assert all("no optimiser" in f.message for f in found)
    assert report.exit_code == 2


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW])
def test_gradients_cleared_before_the_update_are_told(kind):
    net = Split()
    report = watch_training(steps_of(net, kind(net.parameters(), lr=0.1, weight_decay=0.0), clear="between"), 4)
    found = told(report, "unmoved")
    assert {f.subject for f in found} == {f"net.{k}" for k, _ in net.named_parameters()}
    assert all("cleared" in f.message for f in found)


def test_gradients_that_only_accumulate_are_told():
    net = Split()
    report = watch_training(steps_of(net, torch.optim.SGD(net.parameters(), lr=0.01), clear="never"), 4)
    assert {f.subject for f in told(report, "accumulated")} == {f"net.{k}" for k, _ in net.named_parameters()}
    assert not told(report, "unmoved")


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW])
@pytest.mark.parametrize("every", [1, 2])
def test_ordinary_updates_and_gradients_of_several_batches_raise_no_alarm(kind, every):
    net = Split()
    report = watch_training(steps_of(net, kind(net.parameters(), lr=0.01), every=every), 6)
    assert report.exit_code == 0, str(report)


def test_a_learning_rate_of_zero_is_told():
    net = Split()
    groups = [{"params": net.body.parameters()}, {"params": net.head.parameters(), "lr": 0.0}]
    found = told(watch_training(steps_of(net, torch.optim.SGD(groups, lr=0.1)), 3), "unmoved")
    assert {f.subject for f in found} == {"net.head.weight", "net.head.bias"}
    assert all("learning rate" in f.message for f in found)


def test_an_update_by_hand_needs_no_optimiser():
    net = Split()

    def step():
        net.zero_grad()
        value = net(torch.rand(8, 3))
        value.backward()
        with torch.no_grad():
            for p in net.parameters():
                p -= 0.1 * p.grad
        return value

    assert watch_training(step, 3).exit_code == 0


class Cooled(nn.Module):
    """A temperature behind its clamp, and a bias before a normalisation."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
        self.temperature = nn.Parameter(torch.tensor(0.01))

    def forward(self, x):
        return self.norm(self.conv(x)) / self.temperature.clamp(min=0.05)


def test_a_parameter_whose_gradient_is_exactly_zero_is_a_warning_and_a_cancelled_bias_a_note():
    net = Cooled()
    report = watch_training(step_of(net, lambda n: n(torch.rand(4, 3, 8, 8)).tanh().square().mean()), 3)
    (found,) = [f for f in report.findings if f.subject == "net.temperature"]
    assert "exactly 0" in found.message
    assert found.severity.label == "warning"
    assert {f.severity.label for f in report.findings if f.subject == "net.conv.bias"} == {"note"}


def test_the_audit_tells_a_parameter_on_a_plateau():
    report = audit(Cooled(), torch.rand(2, 3, 8, 8), modes=False, degenerate=False, budget=0)
    assert {f.subject for f in report.at_least(1)} == {"temperature"}, str(report)


def test_a_bias_that_cancels_is_told_by_tolerance_and_not_by_bits():
    net = nn.Linear(3, 3)
    report = audit(lambda x: net(x) - net.bias, torch.rand(4, 3), modes=False, degenerate=False, budget=0)
    assert report.exit_code == 0
    (found,) = [f for f in report.findings if f.subject == "net.bias"]
    assert "cancels" in found.message
