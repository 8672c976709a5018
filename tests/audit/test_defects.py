"""What the audit once passed, or blamed on the wrong line: one test per defect."""

import inspect
from importlib.util import find_spec
from pathlib import Path

import edition_causes as causes
import edition_numerics as numerics
import edition_state as state
import pytest
import torch
import torch.nn.functional as F
from corpus import place_of
from edition_clean import BOXES, TARGET
from torch import nn

from pellucid.audit import Severity, assert_clean, audit

X = state.X
SMALL = torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(41))


def above_note(report):
    return {str(f.category) for f in report.at_least(Severity.WARNING)}


@pytest.mark.parametrize(
    ("dies", "word"), [(causes.killed, "SIGKILL"), (causes.quits, "exit code 0"), (causes.terminated, "SIGTERM")]
)
def test_a_child_that_dies_is_an_error_that_says_how(dies, word):
    report = audit(dies, SMALL)
    assert report.exit_code == 2
    assert word in report.of("crash")[0].message
    with pytest.raises(AssertionError, match=word):
        assert_clean(dies, SMALL)


def test_a_child_killed_later_is_an_error_and_the_audit_goes_on():
    report = audit(causes.KilledInEval(), SMALL)
    assert report.of("crash")
    assert report.measures["x"].gradient == "exact"


@pytest.mark.parametrize("make", [state.Average, state.CountsUnderCheckpoint, lambda: state.TrainingStep(torch.optim.SGD)])
def test_what_was_not_judged_does_not_pass(make):
    assert audit(make(), X).exit_code >= 1


def test_a_result_kept_with_its_graph_is_an_error_and_no_drift():
    class Keeps(nn.Module):
        def __init__(self):
            super().__init__()
            self.average = torch.zeros(3, 1, 1)

        def forward(self, x):
            self.average = 0.9 * self.average + 0.1 * x.square().mean((0, 2, 3))[:, None, None]
            return x - self.average

    report = audit(Keeps(), X)
    assert "second" in report.at_least(Severity.ERROR)[0].message, str(report)
    assert report.of("state")
    assert not report.of("drift"), str(report)


def test_neighbours_that_raise_leave_the_gradient_unjudged():
    assert audit(state.refuses_neighbours, X).of("unjudged")


def test_a_hazard_is_seen_beside_a_gradient_taken_inside():
    report = audit(state.inner_gradient_and_data_write, X)
    assert report.of("data-write")[0].place.endswith(place_of("inner_gradient_and_data_write"))
    assert audit(state.inner_gradient_and_write, X).of("in-place")


@pytest.mark.parametrize("harmless", [causes.zeros_canvas, causes.cast_like, causes.noise_like, causes.stable_maximum])
def test_the_guilty_line_is_blamed_and_not_the_harmless_one(harmless):
    for guilty in (causes.custom_slope, causes.no_grad_block):
        report = audit(causes.after(guilty, harmless), X, quick=True, modes=False, degenerate=False)
        places = [f.place for f in report.at_least(Severity.ERROR)]
        assert places, str(report)
        assert all(p.endswith(place_of(guilty.__name__)) for p in places), str(report)


def test_a_view_inside_a_custom_forward_is_no_new_leaf():
    assert audit(causes.view_in_forward, SMALL).exit_code == 0


@pytest.mark.skipif(find_spec("torchvision") is None, reason="the loss is torchvision's")
def test_the_no_grad_block_of_a_box_loss_is_blamed_and_not_its_zeros_like():
    report = audit(causes.torchvision_loss("complete_box_iou_loss"), (BOXES, TARGET), quick=True)
    found = report.of("detached")
    assert found, str(report)
    line = int(found[0].place.rsplit(":", 1)[1])
    assert found[0].place.split(":")[0].endswith("ciou_loss.py")
    assert (
        "alpha" in Path(inspect.getsourcefile(causes.torchvision_loss("complete_box_iou_loss"))).read_text().splitlines()[line - 1]
    )


def test_fewer_digits_are_told():
    assert above_note(audit(numerics.half_inside, X)) >= {"precision"}
    assert audit(torch.sin, SMALL).measures["input"].precision == "float64"

    def float32_only(x):
        if x.dtype != torch.float32:
            raise TypeError("float32 only")
        return x.sin()

    report = audit(float32_only, SMALL)
    assert report.measures["x"].gradient == "unverified"
    assert report.measures["x"].precision == "float32"
    assert report.measures["x"].tolerance > 1e-3
    assert "float32" in report.to_html()


def test_casts_are_lifted_to_check_the_formula():
    report = audit(numerics.float32_closure, X)  # 2 % wrong, beside weights that only float32 fits
    assert report.of("wrong")
    assert "casts lifted" in audit(lambda x: torch.einsum("ij,bjhw->bihw", numerics.W32, x), SMALL).measures["x"].precision


def test_lifted_casts_are_no_fault_of_checkpointing():
    report = audit(numerics.downcast_mean, X)
    assert report.of("precision")
    assert not report.of("checkpoint"), str(report)


@pytest.mark.parametrize("make", [torch.tensor, torch.as_tensor, lambda value: torch.full((), value)])
def test_a_value_that_comes_back_in_the_default_dtype_is_a_cut_and_no_kink(make):
    def scaled(x):
        return x * make(x.mean().item())

    report = audit(scaled, SMALL, quick=True, modes=False, degenerate=False)
    assert report.measures["x"].gradient == "wrong", str(report)
    assert report.of("detached")[0].evidence["cut"] == "torch.Tensor.item"


@pytest.mark.parametrize("size", [16, 32, 64])
def test_a_staircase_is_one_at_every_size(size):
    image = torch.rand(1, 3, size, size, generator=torch.Generator().manual_seed(size))
    report = audit(numerics.levels, image, modes=False, degenerate=False)
    assert report.measures["x"].gradient == "none"
    assert audit(numerics.levels, image, declared={"x": "none"}, modes=False, degenerate=False).exit_code == 0
    assert audit(numerics.straight_through_levels, image, modes=False, degenerate=False).measures["input"].gradient == "surrogate"


@pytest.mark.parametrize(
    ("subject", "category"),
    [
        (numerics.writes_its_gradient, "layout"),
        (numerics.storage_order, "layout"),
        (numerics.channels_last_blind, "layout"),
        (numerics.fixed_batch, "shape"),
        (numerics.square_only, "shape"),
        (numerics.odd_centre, "shape"),
        (numerics.leaky, "wrong"),
        (numerics.two_outputs_undefined, "outputs"),
        (state.on_the_class, "state"),
    ],
)
def test_another_layout_shape_sign_or_call_is_tried(subject, category):
    assert category in above_note(audit(subject, X, modes=False, degenerate=False))
    assert category not in above_note(audit(subject, X, modes=False, degenerate=False, quick=True))


def test_a_picture_without_a_batch_is_tried_odd_and_not_square():
    def transposed(g, x):
        return g.mT if g.shape[-1] == g.shape[-2] else g.reshape(x.shape)

    report = audit(numerics.function(lambda x: 1 * x.mT, transposed), X[0], modes=False, degenerate=False)
    assert "shape" in above_note(report), str(report)


def test_the_other_mode_of_a_module_is_tried():
    assert above_note(audit(numerics.WrongInEval(), X)) & {"wrong", "detached"}


@pytest.mark.parametrize(
    ("subject", "inputs", "told"),
    [
        (state.unused_input, (SMALL, torch.tensor(0.4)), "strength"),
        (state.only_its_shape, (SMALL, SMALL.flip(0)), "like"),
        (state.constant_output, SMALL, "output"),
        (state.second_output_constant, SMALL, "output 1"),
    ],
)
def test_no_effect_is_a_finding(subject, inputs, told):
    report = audit(subject, inputs, modes=False, degenerate=False)
    assert told in {f.subject for f in report.of("no-effect")}, str(report)


def test_a_loss_of_its_input_gradient_is_a_finding():
    assert audit(state.NeedsInputGradient(), X).of("detached")


def test_leaves_without_a_name_are_listed_and_checked():
    report = audit(state.PlainList(), X)
    assert "layers.0.weight" in report.measures
    assert report.of("unregistered")
    assert "net.weight" in audit(state.CutClosure(), X).measures
    assert audit(state.closure_with_wrong_gradient(), X).of("detached")[0].subject == "gain"


def test_a_reentrant_checkpoint_can_be_audited():
    from torch.utils.checkpoint import checkpoint

    report = audit(lambda x: checkpoint(torch.sin, x, use_reentrant=True), SMALL)
    assert report.exit_code == 0, str(report)
    assert report.measures["x"].gradient == "exact"


def test_hooks_are_named_by_line():
    for name, make in (("clipping_hook", lambda: state.clipping_hook), ("module_hook", state.ModuleHook)):
        found = audit(make(), X, modes=False, degenerate=False).of("wrong")
        assert found
        assert found[0].place.endswith(place_of(name))


def test_what_a_second_call_overwrites_is_found():
    assert audit(state.Remembers(), X, modes=False, degenerate=False).of("state")


def test_what_an_earlier_call_left_is_found():
    assert audit(state.CachedOutput(), X, modes=False, degenerate=False).of("state")


def test_a_saturated_clamp_is_no_staircase():
    report = audit(lambda x: (10 * x + 5).clamp(0, 1), SMALL)
    assert not report.of("jump")
    assert "plateau" in report.of("coverage")[0].message


def test_an_input_that_is_saturated_out_of_reach_is_not_called_unused():
    report = audit(lambda x: (x + 50).clamp(0, 1), SMALL)
    assert "saturated" in report.of("no-effect")[0].message
    assert "signature" in audit(lambda x, y: 2 * x + 0 * y.shape[0], (SMALL, SMALL)).of("no-effect")[0].advice


def test_a_dead_parameter_is_not_called_a_stale_copy():
    class Dead(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.ones(3, 1, 1))

        def forward(self, x):
            return x + 0 * self.w

    found = audit(Dead(), SMALL).of("stale")
    assert "multiplied by zero" in found[0].message
    assert "copy" not in found[0].advice


def test_a_large_module_is_audited_by_projection_and_says_so():
    torch.manual_seed(0)
    deep = nn.Sequential(*(m for _ in range(16) for m in (nn.Linear(8, 8), nn.Tanh())))
    report = audit(deep, torch.randn(4, 8), modes=False, degenerate=False, quick=True)
    assert report.exit_code == 0, str(report)
    assert "together" in report.of("coverage")[0].message
    assert "projection" in report.measures["0.weight"].precision

    class Wrong(nn.Module):
        def forward(self, x):
            return numerics.function(torch.tanh, lambda g, x: 1.1 * g / x.cosh().square())(x)

    deep[9] = Wrong()
    report = audit(deep, torch.randn(4, 8), modes=False, degenerate=False, quick=True)
    wrong = {f.subject for f in report.of("wrong")}
    assert {"0.weight", "8.weight"} <= wrong
    assert not wrong & {"10.weight", "30.weight"}


def test_quick_leaves_out_the_other_conditions():
    report = audit(numerics.fixed_batch, X, quick=True)
    assert report.exit_code == 0, str(report)


def test_a_loss_that_is_right_stays_clean_with_its_network():
    net = nn.Sequential(nn.Conv2d(3, 2, 3), nn.Tanh())
    report = audit(lambda x, y: F.mse_loss(net(x), net(y)), (SMALL, SMALL.flip(0)))
    assert report.exit_code == 0, str(report)
    assert {"net.0.weight", "net.0.bias"} <= set(report.measures)


class Keeps(torch.nn.Module):
    """A parameter that nothing reads, a leaf in a plain list, and a result kept from call to call."""

    def __init__(self):
        super().__init__()
        self.unread = torch.nn.Parameter(torch.ones(3))
        self.plain = [torch.ones(3, requires_grad=True)]
        self.kept = {}

    def forward(self, x):
        y = x * self.plain[0]
        self.kept.setdefault("first", y.sum())
        self.kept["last"] = y
        return y + self.kept["first"]


def test_what_no_run_shows_has_a_line():
    lines = inspect.getsource(Keeps).splitlines()
    start = inspect.getsourcelines(Keeps)[1]
    report = audit(Keeps(), torch.rand(2, 3), modes=False, degenerate=False, budget=0)
    for category, text in (("stale", "self.unread ="), ("unregistered", "self.plain ="), ("state", 'self.kept["last"] =')):
        number = start + next(i for i, line in enumerate(lines) if text in line)
        assert {f.place.split(":")[-1] for f in report.of(category)} == {str(number)}, f"{category}\n{report}"
