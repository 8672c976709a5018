"""The corpus of the audit's second edition: bugs and clean functions per group, written before the audit was changed for them.

Owns: the list of bugs with the categories accepted, and the command that counts: ``python tests/audit/edition.py``.
Must not: contain the functions themselves.
Read next: ``edition_causes.py``.
"""

import os
import signal
from importlib.util import find_spec

import edition_causes as c
import edition_numerics as n
import edition_state as s
import torch
from corpus import Bug, score
from edition_clean import BIG, BOXES, EDITION_CLEAN, LARGE, TARGET, X

STRENGTH = torch.tensor(0.4)
_KILL = [
    ("killed after", lambda: os.kill(os.getpid(), signal.SIGKILL)),
    ("quits after", lambda: os._exit(0)),
]


def _b(name, make, category, inputs=X, subject=None, line=False, **options):
    return Bug(name, make, inputs, category, subject, line, options)


def _f(module, name, category, inputs=X, subject=None, line=False, **options):
    return _b(name, lambda: getattr(module, name), category, inputs, subject, line, **options)


def _pairs():
    """Every guilty step beside five harmless ones, in alternating order."""
    for i, (guilty, category) in enumerate(c.GUILTY.items()):
        for j in range(5):
            harmless = c.HARMLESS[(2 * i + j) % len(c.HARMLESS)]
            order = c.before if (i + j) % 2 else c.after
            name = f"{guilty.__name__} {order.__name__} {harmless.__name__}"
            yield Bug(name, lambda o=order, g=guilty, h=harmless: o(g, h), X, category, culprit=guilty.__name__)


DEATHS = [
    *(_f(c, name, "crash") for name in ("killed", "quits", "quits_with_three", "terminated", "aborts", "killed_in_backward")),
    _f(c, "leaves_python", "crash|raises"),
    *(_b(f"{k} {calls}", lambda k=k, h=h, calls=calls: c.QuitsLater(calls, h), "crash") for k, h in _KILL for calls in (1, 9, 40)),
    _b("killed_in_eval", c.KilledInEval, "crash"),
]
UNJUDGED = [
    _b("average", s.Average, "state|raises|nondeterminism|unjudged"),
    _b("counts_under_checkpoint", s.CountsUnderCheckpoint, "unjudged|nondeterminism|checkpoint"),
    _b("counts_under_reentrant_checkpoint", lambda: s.CountsUnderCheckpoint(True), "unjudged|nondeterminism|checkpoint"),
    _b("step_with_sgd", lambda: s.TrainingStep(torch.optim.SGD), "unjudged|in-place|nondeterminism"),
    _b("step_with_adam", lambda: s.TrainingStep(torch.optim.Adam), "unjudged|in-place|nondeterminism"),
    _b("history", s.History, "nondeterminism|unjudged"),
    _b("memory_bank", s.MemoryBank, "nondeterminism|unjudged"),
    _b("one_shot", s.OneShot, "raises|unjudged|nondeterminism"),
    _b("warmup", s.Warmup, "nondeterminism|unjudged"),
    _f(s, "by_the_clock", "nondeterminism|unjudged"),
    _f(s, "by_the_system", "nondeterminism|unjudged"),
    _f(s, "inner_gradient_and_data_write", "data-write", line=True),
    _f(s, "inner_gradient_and_write", "in-place", line=True),
    _f(s, "inner_gradient_and_host_read", "host-read", line=True),
    _f(s, "refuses_neighbours", "unjudged", s.X),
]
CAUSES = [
    *_pairs(),
    _f(c, "ciou_like", "detached", (BOXES, TARGET), "boxes", line=True),
    *(
        [_b("ciou of torchvision", lambda: c.torchvision_loss("complete_box_iou_loss"), "detached", (BOXES, TARGET))]
        if find_spec("torchvision")
        else []
    ),
]
PRECISION = [
    *(_f(n, name, "wrong|precision") for name in ("half_factor", "bfloat_factor", "half_sign_of_small_term")),
    *(
        _f(n, name, "precision", line=True)
        for name in ("half_inside", "bfloat16_inside", "downcast_matmul", "downcast_mean", "autocast_inside")
    ),
    *(_f(n, name, "wrong") for name in ("float32_closure", "float32_canvas")),
    _b("float32_weight", n.Float32Weight, "wrong"),
]
STAIRCASES = [
    *(
        _b(f"{name} promised exact at {x.shape[-1]}", lambda name=name: getattr(n, name), "declaration", x, declared={"x": "exact"})
        for name in ("levels", "posterize", "equalize", "quantile_levels")
        for x in (X, BIG, LARGE)
    ),
    _f(n, "straight_through_levels", "declaration", BIG, declared={"*": "almost_everywhere"}),
    _b("straight_through_levels_64", lambda: n.straight_through_levels, "declaration", LARGE, declared={"*": "exact"}),
]
_LAYOUTS = ("writes_its_gradient", "views_its_gradient", "strided_gradient", "demands_contiguous", "numpy_order", "storage_order",
            "memory_order", "channels_last_blind")  # fmt: skip
_SHAPES = ("fixed_count", "fixed_batch", "fixed_width", "square_only", "swapped_sides", "first_two_samples", "squeezed_batch",
           "even_pool", "even_spectrum", "odd_centre")  # fmt: skip
_SIGNS = ("positive_root", "leaky", "elu", "cube_by_square", "softplus")
_OUTPUTS = ("two_outputs_undefined", "two_outputs_first_guards", "two_outputs_mixed_up")
LAYOUTS = [
    *(_f(n, name, "layout|wrong|raises|in-place") for name in _LAYOUTS),
    *(_f(n, name, "shape|wrong|raises|coverage") for name in _SHAPES),
    *(_f(n, name, "wrong") for name in _SIGNS),
    *(_f(n, name, "layout|outputs|wrong|raises|coverage") for name in _OUTPUTS),
    _b("wrong_in_eval", n.WrongInEval, "wrong|detached", line=True),
    _b("wrong_in_train", lambda: n.WrongInTrain().eval(), "wrong"),
    _b("raises_in_eval", n.RaisesInEval, "raises|in-place"),
]
EFFECTS = [
    _f(s, "unused_input", "no-effect", (X, STRENGTH), "strength"),
    _f(s, "only_its_shape", "no-effect", (X, X.flip(0)), "like"),
    _f(s, "only_its_dtype", "no-effect", (X, X.flip(0)), "like"),
    _f(s, "multiplied_by_zero", "no-effect|wrong", (X, STRENGTH), "bias"),
    _f(s, "overwritten", "no-effect", (X, STRENGTH), "bias"),
    _f(s, "constant_output", "no-effect"),
    _f(s, "second_output_constant", "no-effect"),
    _f(s, "second_output_detached", "detached", line=True),
    _f(s, "loss_of_labels", "no-effect"),
    _b("forgotten_layer", s.ForgottenLayer, "stale", subject="layers.2.weight"),
    *(_b(name, make, "unregistered") for name, make in (("plain_list", s.PlainList), ("plain_dict", s.PlainDict))),
    _b("plain_tensor", s.PlainTensor, "unregistered"),
    _b("cut_closure", s.CutClosure, "detached", subject="net.weight", line=True),
    _b("closure_with_wrong_gradient", s.closure_with_wrong_gradient, "detached", subject="gain", line=True),
    _b("closure_unused", s.closure_unused, "stale|no-effect|wrong", subject="bias"),
    _b("closure_list", s.closure_list, "detached", line=True),
    _b("replaced_parameter", s.ReplacedParameter, "stale"),
    _b("needs_input_gradient", s.NeedsInputGradient, "detached|checkpoint|state"),
    _b("frozen_unless_asked", s.FrozenUnlessAsked, "detached|state"),
]
STATE = [
    _f(s, "masking_hook", "wrong", line=True),
    _f(s, "clipping_hook", "wrong", line=True),
    _b("module_hook", s.ModuleHook, "wrong", line=True),
    _b("parameter_hook", s.ParameterHook, "wrong", line=True),
    _b("forward_hook_detaches", s.ForwardHookDetaches, "detached", line=True),
    _b("remembers", s.Remembers, "state|wrong"),
    _f(s, "on_the_class", "state|wrong"),
    _b("writes_its_buffer", s.WritesItsBuffer, "state|in-place|raises"),
    _b("reuses_its_canvas", s.ReusesItsCanvas, "state|wrong"),
    _b("stack_of_inputs", s.StackOfInputs, "state|wrong"),
    _b("cached_output", s.CachedOutput, "state|detached|nondeterminism|wrong|unjudged", line=True),
    _b("cached_weight", s.CachedWeight, "stale", subject="w"),
    _b("cached_once", s.CachedOnce, "stale", subject="a"),
    _b("cached_by_shape", s.CachedByShape, "state|stale|wrong|nondeterminism|raises|unjudged", line=True),
    _b("cached_graph", s.CachedGraph, "state|stale|raises|unjudged"),
    _f(s, "draws_in_backward", "rng-recompute|wrong", line=True),
    _f(s, "numpy_in_backward", "rng-recompute|wrong", line=True),
    _f(s, "reentrant_generator", "rng-recompute", line=True),
    _f(s, "reentrant_unpreserved", "rng-recompute", line=True),
    _f(s, "checkpointed_wrong", "detached|wrong", line=True),
    _f(s, "border_without_gradient", "coverage|detached", line=True),
    *(_f(s, name, "coverage|detached|wrong", line=True) for name in ("one_channel_cut", "one_sample_cut", "where_cut")),
    _f(s, "masked_backward", "coverage|wrong", line=True),
]
GROUPS = {
    "deaths": DEATHS, "unjudged": UNJUDGED, "causes": CAUSES, "precision": PRECISION, "staircases": STAIRCASES, "layouts": LAYOUTS,
    "effects": EFFECTS, "state": STATE,
}  # fmt: skip
EDITION = [bug for bugs in GROUPS.values() for bug in bugs]


if __name__ == "__main__":
    torch.set_num_threads(1)
    for group, bugs in GROUPS.items():
        print(f"{group}:", score(bugs, []), flush=True)
    print("clean:", score([], EDITION_CLEAN))
