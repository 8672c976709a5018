"""What losses, boxes and detection promise alike: both derivatives, one graph, checkpoints, vmap, and inputs left alone."""

from functools import partial

import pytest
import torch
from torch.nn.functional import normalize
from torch.utils.checkpoint import checkpoint

from pellucid import boxes, detection, losses

FORMS = ("xyxy", "xywh", "cxcywh", "cxcywhr")
SIZE = (13, 17)
SIZES = torch.tensor([[4.8, 6.4], [3.33, 5.0]])


def pair():
    """Descriptors, and the same with noise."""
    anchors = normalize(torch.randn(6, 4), dim=1)
    return anchors, normalize(anchors + 0.4 * torch.randn(6, 4), dim=1)


def maps(*size):
    """Predictions that are nearly sure, and in places wrong, of one thing in the middle."""
    target = torch.zeros(1, 1, *size)
    target[..., 2:4, 1:3] = 1
    return target + (1 - 2 * target) * (0.81 + 0.15 * torch.rand(target.shape)), target


def logits(count, *shape):
    return tuple(3 * torch.randn(shape) for _ in range(count))


def quads(*shape, form="xyxy", spread=6.0):
    lead = torch.rand(*shape, 2) * spread
    upright = torch.cat([lead, lead + 0.5 + torch.rand(*shape, 2) * 5], -1)
    made = boxes.convert_boxes(upright, "xyxy", form)
    return torch.cat([made[..., :4], torch.randn(*shape, 1) * 2], -1) if form == "cxcywhr" else made


def homographies(count):
    return torch.eye(3) + torch.randn(count, 3, 3) * torch.tensor([[0.2, 0.2, 4.0], [0.2, 0.2, 4.0], [0.005, 0.005, 0.0]])


def places():
    return torch.tensor([[[[0.3, 0.4], [1.3, 0.2]], [[0.7, 0.6], [1.6, 0.9]]]])


def decode(x, y, **options):
    found = detection.DetectionDecoder(3, threshold=0.3, **options)(x, y, SIZES.to(x))
    return found.scores, found.boxes


IOUS = {name: getattr(detection, name) for name in ("box_iou", "generalized_box_iou", "rotated_box_iou")}
LEAVES = {
    "triplet": (losses.hardest_triplet_loss, pair),
    "triplet squared": (partial(losses.hardest_triplet_loss, power=2), pair),
    "second order": (partial(losses.second_order_similarity_loss, neighbours=3), pair),
    **{
        f"erosion {n}-D": (partial(losses.hausdorff_erosion_loss, iterations=2), partial(maps, *((5, 4) if n == 2 else (4, 3, 3))))
        for n in (2, 3)
    },
    **{f"distance {n}-D": (losses.hausdorff_distance_loss, partial(maps, *((5, 4) if n == 2 else (4, 3, 3)))) for n in (2, 3)},
    **{
        f"level {n}-D": (lambda q: losses.hausdorff_level_loss(q, (q > 0.5).to(q).flip(-1), levels=3), partial(logits, 1, 1, 1, *s))
        for n, s in ((2, (5, 4)), (3, (3, 3, 3)))
    },
    **{
        f"consistency {kind}": (partial(losses.consistency, kind=kind), partial(logits, 2, 1, 3, 2, 2))
        for kind in ("soft", "square")
    },
    "equivariance": (losses.equivariance, partial(logits, 2, 1, 3, 2, 2)),
    "equivariance cosine": (partial(losses.equivariance, kind="cosine"), partial(logits, 2, 1, 3, 2, 2)),
    "correspondence": (
        partial(losses.dense_correspondence, temperature=0.5, radius=0.45),
        lambda: (*logits(1, 1, 3, 2, 2), *logits(1, 1, 3, 2, 3), places()),
    ),
    "Jensen-Shannon": (losses.jensen_shannon_loss, partial(logits, 3, 2, 3)),
    **{
        f"{name}{'' if pairwise else ' by rows'}": (
            partial(function, pairwise=pairwise),
            lambda form="cxcywhr" if "rotated" in name else "xyxy": (
                quads(4, form=form, spread=3.0),
                quads(4, form=form, spread=3.0),
            ),
        )
        for name, function in IOUS.items()
        for pairwise in (True, False)
    },
    "scale": (detection.scale_boxes, lambda: (quads(2, 3), SIZES)),
    "normalize": (detection.normalize_boxes, lambda: (quads(2, 3), SIZES)),
    "refine": (detection.refine_boxes, lambda: (0.1 + 0.8 * torch.rand(3, 4), torch.randn(3, 4))),
    **{
        f"decoder {activation} {form}": (
            partial(decode, activation=activation, box_format=form),
            lambda: (*logits(1, 2, 4, 3), torch.rand(2, 4, 4)),
        )
        for activation, form in (("sigmoid", "xyxy"), ("sigmoid", "xywh"), ("softmax", "cxcywh"))
    },
    **{
        f"flip {form}": (partial(detection.flip_boxes, size=SIZE, format=form, horizontal=True), lambda f=form: (quads(4, form=f),))
        for form in FORMS
    },
    **{
        f"clip {form}": (partial(boxes.clip_boxes, size=(8, 11), format=form), lambda f=form: (quads(5, form=f) - 1,))
        for form in FORMS
    },
    **{
        f"transform {form}": (partial(boxes.transform_boxes, format=form), lambda f=form: (quads(2, 2, form=f), homographies(2)))
        for form in FORMS
    },
    **{
        f"convert {source} to {target}": (
            partial(boxes.convert_boxes, source=source, target=target),
            lambda f=source: (quads(4, form=f),),
        )
        for source in FORMS
        for target in FORMS
    },
}
every = pytest.mark.parametrize("name", LEAVES)


def inputs(name, dtype=torch.float64):
    return tuple(tensor.to(dtype).requires_grad_() for tensor in LEAVES[name][1]())


def outcome(function, given):
    """Values, and the gradients of a loss."""
    out = function(*given)
    out = out if isinstance(out, tuple) else (out,)
    return *out, *torch.autograd.grad(sum(part.square().sum() for part in out), given)


def close(found, wanted):
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


@every
def test_both_derivatives_by_finite_differences(name):
    """In float64, every element, and several at once."""
    function, given = LEAVES[name][0], inputs(name)
    assert torch.autograd.gradcheck(function, given, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(function, given, atol=1e-4)


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
@every
def test_one_graph_has_the_values_and_gradients_of_the_call(name, backend):
    torch.compiler.reset()
    function, given = LEAVES[name][0], inputs(name, torch.float32)
    close(outcome(torch.compile(function, fullgraph=True, backend=backend), given), outcome(function, given))


@every
def test_a_checkpoint_has_the_gradients_of_the_call_and_inputs_stay_as_they_are(name):
    function, given = LEAVES[name][0], inputs(name)
    before = [tensor.detach().clone() for tensor in given]
    plain = outcome(function, given)
    again = outcome(lambda *tensors: checkpoint(function, *tensors, use_reentrant=False), given)
    assert all(map(torch.equal, plain, again))
    assert all(map(torch.equal, given, before))
    assert all(tensor._version == 0 for tensor in given)


@every
def test_a_mapped_call_is_a_loop(name):
    function, one = LEAVES[name][0], inputs(name)
    other = tuple(tensor.detach() for tensor in inputs(name))
    found = torch.vmap(function)(*(torch.stack(both) for both in zip(one, other, strict=True)))
    for lane, given in enumerate((one, other)):
        wanted = function(*given)
        close(
            [part[lane] for part in found] if isinstance(found, tuple) else [found[lane]],
            wanted if isinstance(wanted, tuple) else [wanted],
        )
