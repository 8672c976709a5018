"""pipeline.expected: what it returns, what it calls, what it refuses, and that it compiles."""

import pytest
import torch
from torch._dynamo.testing import CompileCounter

import pellucid as P
from pellucid import Bernoulli, Categorical, Key, Learnable, Pipeline, Uniform

L = Learnable


def every_estimator():
    """One learned draw under each estimator, in one pipeline."""
    return Pipeline(
        [
            P.RandomAffine(
                degrees=Uniform(L(-20.0), L(20.0)),
                scale=Uniform(L(0.8), L(1.2), estimator="boundary"),
                shear=Categorical((-5.0, 0.0, 5.0), (L(1.0), L(1.0), L(2.0))),
                p=L(0.6),
            ),
            P.RandomHorizontalFlip(p=Bernoulli(L(0.3), estimator="arm")),
            P.RandomVerticalFlip(p=Bernoulli(L(0.4), estimator="arm")),
            P.ColorJitter(L(0.2), p=Bernoulli(L(0.7), estimator="reinforce")),
            P.RandomInvert(p=Bernoulli(L(0.3), estimator="relaxed", temperature=0.4)),
            P.RandomGrayscale(p=Bernoulli(L(0.3), estimator="straight_through")),
            P.RandomSolarize((L(0.4), L(0.6)), p=L(0.5)),
        ],
        seed=3,
    )


def losses(out):
    weights = torch.rand(out.shape[1:], generator=torch.Generator().manual_seed(5))
    return (out * weights).square().mean((1, 2, 3))


def test_the_value_is_the_loss_of_the_draw():
    augment = every_estimator()
    x = torch.rand(6, 3, 10, 10)
    value = augment.expected(losses, x, key=Key(2, 5))
    assert torch.equal(value, losses(augment(x, key=Key(2, 5))).mean())
    assert value.dim() == 0


def test_it_evaluates_as_often_as_it_says_and_only_once_with_gradient():
    augment = every_estimator()
    calls = []

    def counted(out):
        calls.append(out.requires_grad)
        return losses(out)

    augment.expected(counted, torch.rand(6, 3, 10, 10))
    assert len(calls) == augment.evaluations() + 2  # a loss not seen before is checked for mixing the samples
    calls.clear()
    augment.expected(counted, torch.rand(6, 3, 10, 10))
    # the draw, two exact gates, two other shears, two ends of the scale, and all ARM gates at once
    assert augment.evaluations() == 1 + 2 + 2 + 2 + 1 == len(calls)
    assert calls == [True] + [False] * 7
    plain = Pipeline([P.RandomAffine(10), P.RandomHorizontalFlip()])
    assert plain.evaluations() == 1


def test_steps_advance_and_keys_decide():
    augment = every_estimator()
    x = torch.rand(6, 3, 10, 10)
    first, second = augment.expected(losses, x), augment.expected(losses, x)
    assert augment.step == 2
    assert first != second
    assert torch.equal(first, augment.expected(losses, x, key=Key(3, 0)))
    assert augment.step == 2


def test_every_learned_number_and_the_image_get_a_gradient():
    augment = every_estimator()
    x = torch.rand(32, 3, 10, 10, requires_grad=True)
    augment.expected(losses, x).backward()
    for name, parameter in augment.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs() > 0, name
    assert (x.grad != 0).float().mean() > 0.5


def test_every_learned_number_takes_part_even_where_the_loss_looks_away():
    augment = every_estimator()
    augment.expected(lambda out: torch.zeros(out.shape[0]), torch.rand(4, 3, 10, 10)).backward()
    for name, parameter in augment.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad == 0, name


def test_the_image_gradient_is_that_of_the_draw():
    augment = every_estimator()
    x = torch.rand(4, 3, 10, 10, requires_grad=True)
    (ours,) = torch.autograd.grad(augment.expected(losses, x, key=Key(1, 1)), x)
    (plain,) = torch.autograd.grad(losses(augment(x, key=Key(1, 1))).mean(), x)
    assert torch.equal(ours, plain)


def test_targets_video_and_single_images():
    augment = Pipeline([P.RandomRotation(L(10.0), p=L(0.5)), P.RandomHorizontalFlip(p=L(0.5))])
    batch = {"image": torch.rand(4, 3, 8, 8), "keypoints": torch.rand(4, 2, 2) * 7}
    value = augment.expected(lambda out: out["keypoints"].square().mean((1, 2)), batch)
    value.backward()
    assert all(parameter.grad.abs() > 0 for parameter in augment.parameters())
    augment.expected(lambda out: out.mean((1, 2, 3, 4)), torch.rand(2, 5, 3, 8, 8)).backward()
    augment.expected(lambda out: out.mean()[None], torch.rand(3, 8, 8)).backward()


def test_a_shared_draw_takes_a_scalar_loss_that_mixes_the_samples():
    """Two branches by hand: the loss of the whole batch, flipped and not."""
    x = torch.rand(5, 1, 4, 4, dtype=torch.float64)

    def mixing(out):
        return (out.mean((1, 2, 3)).prod() * out[:, 0, 0, 0].sum()).sin()

    for estimator in ("exact", "arm", "reinforce"):
        augment = Pipeline([P.RandomHorizontalFlip(p=Bernoulli(L(0.3), estimator=estimator))], same_on_batch=True)
        found = []
        for step in range(1 if estimator == "exact" else 400):
            value = augment.expected(mixing, x, key=Key(0, step))
            found.append(torch.autograd.grad(value, list(augment.parameters()))[0] / 0.21)
        found = torch.stack(found)
        oracle = mixing(x.flip(-1)) - mixing(x)
        error = found.std() / len(found) ** 0.5 if len(found) > 1 else 1e-6
        assert abs(found.mean() - oracle) <= 3 * error


def test_arm_and_reinforce_take_a_scalar_that_mixes_independent_samples():
    x = torch.rand(2, 1, 2, 3, dtype=torch.float64)
    cases = torch.tensor([[a, b] for a in (0, 1) for b in (0, 1)], dtype=torch.float64)

    def mixing(out):
        return (out[:, 0, 0, 0].prod() + out[:, 0, 1, 2].sum()).square()

    raw = torch.logit(torch.tensor(0.3, dtype=torch.float64)).requires_grad_()
    p = torch.sigmoid(raw)
    expectation = sum(
        mixing(torch.where(gates[:, None, None, None] > 0, x.flip(-1), x)) * torch.where(gates > 0, p, 1 - p).prod()
        for gates in cases
    )
    (oracle,) = torch.autograd.grad(expectation, raw)
    for estimator in ("arm", "reinforce"):
        augment = Pipeline([P.RandomHorizontalFlip(p=Bernoulli(L(0.3), estimator=estimator))])
        found = torch.stack(
            [
                torch.autograd.grad(augment.expected(mixing, x, key=Key(0, step)), list(augment.parameters()))[0]
                for step in range(400)
            ]
        )
        assert abs(found.mean() - oracle) <= 3 * found.std() / 400**0.5


CHOICE = Categorical((-30.0, 0.0, 30.0), (L(1.0), L(1.0), L(2.0)), estimator="reinforce")
LONELY = {
    "a scalar": ({}, 3, lambda out: out[:, 0, 0, 0].sin().prod() + out.mean()),
    "a shared draw": ({"same_on_batch": True}, 3, lambda out: out[..., 1:3, :2].sum((1, 2, 3))),
    "a scalar of a shared draw": ({"same_on_batch": True}, 3, lambda out: out[..., 1:3, :2].sum()),
    "one sample": ({}, 1, lambda out: out[..., 1:3, :2].sum((1, 2, 3))),
}
"""Where no other sample's loss is a baseline: options, samples, loss."""


@pytest.mark.parametrize("what", LONELY)
@pytest.mark.parametrize(
    "transform",
    [P.RandomHorizontalFlip(p=Bernoulli(L(0.3), estimator="reinforce")), P.RandomRotation(CHOICE)],
    ids=["a gate", "a choice"],
)
def test_a_constant_in_the_loss_adds_nothing_to_a_score_that_is_alone(transform, what):
    options, samples, loss = LONELY[what]
    x = torch.rand(samples, 1, 4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))

    def gradients(constant):
        augment = Pipeline([transform], **options).double()
        values = [augment.expected(lambda out: loss(out) + constant, x, key=Key(0, step)) for step in range(12)]
        return torch.stack([torch.stack(torch.autograd.grad(value, list(augment.parameters()))) for value in values])

    plain, raised = gradients(0.0), gradients(10.0)
    assert plain.abs().max() > 0
    assert torch.allclose(plain, raised, rtol=1e-9, atol=1e-12)


def test_the_second_draw_is_another_and_counted_once():
    flip, choice = P.RandomHorizontalFlip(p=Bernoulli(L(0.5), estimator="reinforce")), P.RandomRotation(CHOICE)
    augment = Pipeline([flip, choice])
    seen = []

    def noted(out):
        seen.append(out.detach().clone())
        return out.mean()

    x = torch.rand(8, 1, 5, 5)
    augment.expected(noted, x, key=Key(0, 0)).backward()
    assert len(seen) == 2
    assert not torch.equal(*seen)
    assert torch.equal(seen[0], augment(x, key=Key(0, 0)))
    seen.clear()
    augment.expected(lambda out: seen.append(out) or out.mean((1, 2, 3)), x, key=Key(0, 0))
    assert len(seen) == 1 + 2, "single losses have one another, and are looked at for mixing"


@pytest.mark.parametrize(
    ("transform", "options", "loss", "message"),
    [
        (P.RandomInvert(p=L(0.3)), {}, lambda out: out.mean(), "arm"),
        (P.RandomRotation(Uniform(L(-9.0), L(9.0), estimator="boundary")), {}, lambda out: out.mean(), "boundary"),
        (P.RandomInvert(p=L(0.3)), {}, lambda out: out.mean(0), "one per sample"),
        (P.RandomInvert(p=L(0.3)), {}, lambda out: out.mean((1, 2, 3))[:2], "one per sample"),
        (P.RandomInvert(p=L(0.3, by=lambda x: x.mean((1, 2, 3)))), {"same_on_batch": True}, lambda out: out.mean(), "predicted"),
    ],
)
def test_losses_of_the_wrong_kind_are_explained(transform, options, loss, message):
    with pytest.raises(ValueError, match=message):
        Pipeline([transform], **options).expected(loss, torch.rand(4, 3, 5, 5))


def test_reparameterised_ranges_take_any_scalar():
    augment = Pipeline([P.RandomRotation(Uniform(L(-9.0), L(9.0)))])
    augment.expected(lambda out: out.square().mean(), torch.rand(4, 3, 5, 5)).backward()
    assert all(parameter.grad.abs() > 0 for parameter in augment.parameters())


def test_a_step_moves_every_number_where_the_oracle_says():
    """A few hundred steps from the wrong side: invert pictures that should be dark, rotate ones that should stay upright."""
    x = torch.zeros(64, 1, 12, 12)
    x[:, :, 2:10, 5:7] = 1.0
    augment = Pipeline([P.RandomRotation(L(40.0), p=L(0.5)), P.RandomInvert(p=L(0.5))])
    optimiser = torch.optim.Adam(augment.parameters(), lr=0.1)
    for step in range(80):
        optimiser.zero_grad()
        augment.expected(lambda out: (out - x).square().mean((1, 2, 3)), x, key=Key(1, step)).backward()
        optimiser.step()
    now = augment.numbers()
    assert now["1.gate.p"] < 0.02
    assert now["0.gate.p"] < 0.1 or now["0.degrees.half_width"] < 30.0


@pytest.mark.slow
def test_it_compiles_as_one_graph_and_gives_the_eager_gradients():
    torch._dynamo.reset()
    x = torch.rand(4, 3, 10, 10)
    eager, compiled = every_estimator(), every_estimator()
    counter = CompileCounter()
    fast = torch.compile(lambda batch: compiled.expected(losses_compiled, batch), fullgraph=True, backend=counter)
    for _ in range(2):
        wanted, found = eager.expected(losses_compiled, x), fast(x)
        assert torch.equal(wanted, found)
        expected = torch.autograd.grad(wanted, list(eager.parameters()))
        for a, b in zip(torch.autograd.grad(found, list(compiled.parameters())), expected, strict=True):
            assert torch.allclose(a, b, rtol=1e-5, atol=1e-8)
    assert counter.frame_count == 1
    assert compiled.step == 2


def losses_compiled(out):
    return (out * torch.linspace(0.1, 1.0, 10)).square().mean((1, 2, 3))


def test_a_predicted_policy_compiles_with_its_module():
    torch._dynamo.reset()
    torch.manual_seed(1)
    head = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(300, 2))
    own = torch.nn.Parameter(torch.tensor(0.2))
    augment = Pipeline([P.RandomRotation(L(9.0, by=head), p=L(0.4, by=head, column=1)), P.RandomInvert(p=own)])
    x = torch.rand(4, 3, 10, 10)
    fast = torch.compile(
        lambda batch: augment.expected(losses_compiled, batch, key=Key(0, 0)), fullgraph=True, backend=CompileCounter()
    )
    expected = torch.autograd.grad(augment.expected(losses_compiled, x, key=Key(0, 0)), list(augment.parameters()))
    for a, b in zip(torch.autograd.grad(fast(x), list(augment.parameters())), expected, strict=True):
        assert torch.allclose(a, b, rtol=1e-4, atol=1e-7)


@pytest.mark.slow
def test_inductor_agrees():
    torch._dynamo.reset()
    x = torch.rand(4, 3, 10, 10)
    eager, compiled = every_estimator(), every_estimator()
    fast = torch.compile(lambda batch: compiled.expected(losses_compiled, batch), fullgraph=True)
    wanted, found = eager.expected(losses_compiled, x), fast(x)
    assert torch.allclose(wanted, found, rtol=1e-5)
    pairs = zip(
        torch.autograd.grad(wanted, list(eager.parameters())), torch.autograd.grad(found, list(compiled.parameters())), strict=True
    )
    for a, b in pairs:
        assert (a - b).abs() <= 1e-4 * (a.abs() + 1e-3)
