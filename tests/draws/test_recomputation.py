"""What is computed again in backward is the same draw, or refused: never the gradient of another one."""

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from pellucid import Key, Pipeline, RandomAffine, RandomGamma, RandomHorizontalFlip, RandomRotation
from pellucid.policy import RandomChoice, rand_augment, trivial_augment
from tests.refusals import refused

BACKENDS = ["aot_eager_decomp_partition", pytest.param("inductor", marks=pytest.mark.slow)]
X = torch.rand(4, 3, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def pipeline():
    return Pipeline([RandomAffine(30, translate=(0.1, 0.1)), RandomGamma((0.5, 2.0))], seed=3)


def choice():
    return RandomChoice([[RandomRotation(30.0)], [RandomHorizontalFlip(), RandomGamma((0.5, 2.0))]], seed=3)


MAKERS = {
    "pipeline": pipeline,
    "choice": choice,
    "trivial": lambda: trivial_augment(seed=1),
    "rand": lambda: rand_augment(seed=1),
    "alone": lambda: RandomRotation(30.0),
}


def gradient(call):
    x = X.clone().requires_grad_()
    out = call(x)
    out.square().sum().backward()
    return out.detach(), x.grad


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_drawing_inside_of_an_eager_checkpoint_is_refused(make, reentrant):
    augment = make()
    out = checkpoint(augment, X.clone().requires_grad_(), use_reentrant=reentrant)
    refused(RuntimeError, "gradient checkpointing", out.sum().backward)


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_choice_drawn_outside_of_a_checkpoint_has_the_eager_gradient(reentrant):
    augment = choice()
    record = augment.draw(X)
    _, eager = gradient(lambda x: augment.apply(x, record))
    _, again = gradient(lambda x: checkpoint(augment.apply, x, record, use_reentrant=reentrant))
    assert torch.equal(again, eager)


def same_draws(fast, augment):
    for _ in range(2):
        (expected, wanted), (out, found) = gradient(augment), gradient(fast)
        assert (out - expected).abs().max() < 1e-12
        assert (found - wanted).norm() < 1e-12 * wanted.norm()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("make", [pipeline, choice])
@pytest.mark.parametrize("backend", ["aot_eager", *BACKENDS])
def test_a_compiled_checkpoint_has_the_gradient_of_its_draw(make, backend):
    torch._dynamo.reset()
    augment = make()
    # What follows the pipeline inside of the region has to be computed again.
    region = torch.compile(
        lambda x: checkpoint(lambda y: augment(augment(y)).sin(), x, use_reentrant=False), fullgraph=True, backend=backend
    )
    twice = make()
    same_draws(region, lambda x: twice(twice(x)).sin())


@pytest.mark.parametrize("budget", [0.5, 0.01])
@pytest.mark.parametrize("backend", BACKENDS)
def test_saving_memory_by_computing_again_keeps_the_draw(backend, budget):
    torch._dynamo.reset()
    with torch._functorch.config.patch(activation_memory_budget=budget):
        same_draws(torch.compile(pipeline(), fullgraph=True, backend=backend), pipeline())


def test_saving_nothing_is_refused_with_what_to_do_unless_a_key_says_the_draw():
    """A budget of 0 keeps the inputs of the graph alone, and the counter among them has moved on."""
    torch._dynamo.reset()
    with torch._functorch.config.patch(activation_memory_budget=0.0):
        fast = torch.compile(pipeline(), fullgraph=True, backend="aot_eager_decomp_partition")
        refused(RuntimeError, r"Any budget above 0 saves it, such as 0\.01", fast, X.clone().requires_grad_())
        assert torch.equal(fast(X), pipeline()(X))  # without gradients nothing is computed again
        x, y = X.clone().requires_grad_(), X.clone().requires_grad_()
        key = Key(torch.tensor(3), torch.tensor(1))
        fast(x, key=key).square().sum().backward()
        pipeline()(y, key=key).square().sum().backward()
    torch.testing.assert_close(x.grad, y.grad, atol=1e-10, rtol=0)


def test_running_a_compiled_pipeline_again_is_refused():
    torch._dynamo.reset()
    fast = torch.compile(pipeline(), fullgraph=True, backend="aot_eager")
    out = checkpoint(fast, X.clone().requires_grad_(), use_reentrant=False)
    refused(RuntimeError, "gradient checkpointing", out.sum().backward)


def test_a_graph_break_inside_of_a_checkpoint_is_refused_or_right():
    torch._dynamo.reset()
    augment = pipeline()

    def broken(x):
        out = augment(x)
        torch._dynamo.graph_break()
        return out.sin()

    out = torch.compile(lambda x: checkpoint(broken, x, use_reentrant=False), backend="aot_eager")(X.clone().requires_grad_())
    refused(RuntimeError, "gradient checkpointing", out.sum().backward)


def test_the_claim_is_a_sound_operator():
    torch.library.opcheck(torch.ops.pellucid.claim.default, (torch.tensor(7), torch.tensor(3), True))
    taken = torch.ops.pellucid.claim.default(torch.tensor(7), torch.tensor(3), False)
    assert taken.tolist() == [7, 3, 4]
