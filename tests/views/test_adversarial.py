"""Attacks and defences: they raise what they are to raise, stay in their balls and ranges, and leave models alone."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

import pellucid as P
from pellucid.adversarial import Adversary, AugMax, PatchAdversary, eot, flow_attack, max_up
from tests.refusals import refused


@pytest.fixture
def task():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 6, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(6 * 100, 3))
    x = 0.2 + 0.6 * torch.rand(5, 1, 12, 12)
    return model.requires_grad_(False), x, model(x).argmax(1)


def each(model):
    return lambda x, y: F.cross_entropy(model(x), y, reduction="none")


def test_expectation_is_the_mean_over_views(task):
    model, x, y = task
    augment, key = P.Pipeline([P.RandomRotation(30)], seed=0), P.Key(3, 1)
    x = x.clone().requires_grad_()
    out, record = eot(augment, x, 4, key=key)
    assert out.shape == (20, 1, 12, 12)
    assert record.samples == 20
    mean = each(model)(out, y.repeat(4)).unflatten(0, (4, -1)).mean(0)
    want = torch.stack([each(model)(view.result, y) for view in augment.views(x, 4, key=key)]).mean(0)
    assert torch.allclose(mean, want)
    assert torch.equal(augment.apply(x.detach().repeat(4, 1, 1, 1), record), out.detach())


@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("universal", [False, True])
def test_perturbations_stay_in_their_ball_and_raise_the_loss(task, norm, universal):
    model, x, y = task
    radius = 0.1 if norm == "linf" else 0.8
    turns = P.Pipeline([P.RandomRotation(20), P.RandomJPEG((60, 90), p=0.3)], seed=0)
    attack = Adversary(turns, each(model), norm=norm, radius=radius, steps=6, draws=4, universal=universal)
    delta = attack.perturbation(x, y)
    assert delta.shape == ((1, 1, 12, 12) if universal else x.shape)
    length = delta.abs().amax((1, 2, 3)) if norm == "linf" else delta.flatten(1).norm(dim=1)
    assert bool((length <= radius + 1e-5).all())
    assert bool((length > 0.5 * radius).all())
    perturbed = attack(x, y)
    assert bool(((perturbed >= 0) & (perturbed <= 1)).all())
    unseen = P.Key(99, 0)
    before, after = (each(model)(eot(turns, z, 8, key=unseen).result, y.repeat(8)).mean() for z in (x, perturbed))
    assert after > before + 0.05
    assert all(p.grad is None for p in model.parameters())


def test_a_targeted_attack_lowers_the_loss_of_its_label(task):
    model, x, y = task
    wanted = (y + 1) % 3
    attack = Adversary(P.Pipeline([]), each(model), radius=0.3, steps=15, draws=1, targeted=True)
    assert bool((each(model)(attack(x, wanted), wanted) < each(model)(x, wanted)).all())


def test_a_mask_keeps_the_rest(task):
    model, x, y = task
    mask = torch.zeros(1, 12, 12)
    mask[:, 2:6, 3:8] = 1
    change = Adversary(P.Pipeline([P.RandomRotation(10)]), each(model), radius=1.0, steps=3, mask=mask)(x, y) - x
    assert bool((change[..., mask[0] == 0] == 0).all())
    assert bool((change[..., mask[0] == 1] != 0).any())


def test_a_pasted_patch_is_what_torch_pastes():
    """Patch and ones through torch's own sampler, at the places that the record says; enlarged, as it has no antialiasing."""
    placement = P.Pipeline([P.RandomPerspective(0.1, p=1.0), P.RandomAffine(40, (0.2, 0.2), scale=(1.8, 2.2))], seed=3)
    attack = PatchAdversary(P.Pipeline([]), placement, lambda x, y: x, size=(6, 5))
    images = torch.rand(3, 2, 20, 24, dtype=torch.float64, requires_grad=True)
    patch = torch.rand(1, 2, 6, 5, dtype=torch.float64, requires_grad=True)
    found = attack.paste(images, patch, key=P.Key(4, 2))
    record = placement.draw(images, key=P.Key(5, 2))
    v, u = torch.meshgrid(torch.arange(20.0).double(), torch.arange(24.0).double(), indexing="ij")
    points = torch.linalg.inv(record.matrix.double()) @ torch.stack((u, v, torch.ones_like(u))).flatten(1)
    at = (points[:, :2] / points[:, 2:]).mT.unflatten(1, (20, 24)) - torch.tensor([(24 - 5) / 2, (20 - 6) / 2])
    grid = (2 * at + 1) / torch.tensor([5.0, 6.0]).double() - 1
    shown, cover = (
        F.grid_sample(x.expand(3, -1, -1, -1), grid, align_corners=False) for x in (patch, torch.ones_like(patch[:, :1]))
    )
    expected = images * (1 - cover) + shown
    assert 0.01 < float(cover.mean()) < 0.5
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
    weights = torch.rand_like(found)
    slopes = [torch.autograd.grad((weights * out).sum(), (images, patch)) for out in (found, expected)]
    torch.testing.assert_close(slopes[0], slopes[1], rtol=0, atol=1e-5)


@pytest.mark.parametrize("universal", [False, True])
@pytest.mark.parametrize("targeted", [False, True])
def test_a_patch_works_where_it_was_never_put(task, universal, targeted):
    model, x, y = task
    labels = (y + 1) % 3 if targeted else y
    camera, placement = P.Pipeline([P.RandomBrightness(0.1)], seed=0), P.Pipeline([P.RandomAffine(20, (0.2, 0.2))], seed=1)
    attack = PatchAdversary(camera, placement, each(model), (5, 6), steps=12, draws=4, universal=universal, targeted=targeted)
    patch = attack(x, labels)
    assert patch.shape == (1 if universal else 5, 1, 5, 6)
    assert bool(((patch >= 0) & (patch <= 1)).all())
    many, answers, unseen = x.repeat(16, 1, 1, 1), labels.repeat(16), P.Key(77, 0)
    grey, made = (
        each(model)(attack.paste(many, one if universal else one.repeat(16, 1, 1, 1), key=unseen), answers).mean()
        for one in (torch.full_like(patch, 0.5), patch)
    )
    assert made < grey - 0.01 if targeted else made > grey + 0.01
    assert torch.equal(attack(x, labels, key=P.Key(1, 1)), attack(x, labels, key=P.Key(1, 1)))
    assert all(p.grad is None for p in model.parameters())


def test_one_key_gives_one_attack(task):
    model, x, y = task
    attack = Adversary(P.Pipeline([P.RandomRotation(20)]), each(model), steps=2, draws=2)
    assert torch.equal(attack(x, y, key=P.Key(1, 1)), attack(x, y, key=P.Key(1, 1)))


def test_a_flow_raises_the_loss_and_smoothness_smooths(task):
    model, x, y = task
    losses = {}
    for weight in (0.0, 5.0):
        moved, field = flow_attack(x, lambda z: each(model)(z, y), steps=15, smoothness=weight)
        losses[weight] = (each(model)(moved, y), (field[..., 1:] - field[..., :-1]).abs().mean())
        assert bool((moved >= x.amin() - 1e-6).all() and (moved <= x.amax() + 1e-6).all())
    assert bool((losses[0.0][0] > each(model)(x, y)).all())
    assert losses[5.0][1] < 0.5 * losses[0.0][1]
    still, none = flow_attack(x, lambda z: each(model)(z, y), steps=0)
    assert torch.equal(still, x)
    assert not none.any()


def test_a_flow_with_a_goal_is_shorter_and_reaches_it(task):
    model, x, y = task

    def loss(z):
        return each(model)(z, y)

    _, free = flow_attack(x, loss, steps=40, smoothness=0.05)
    goal = float(loss(x).max()) + 0.02
    moved, field = flow_attack(x, loss, steps=40, smoothness=0.05, goal=goal)
    assert bool((loss(flow_attack(x, loss, steps=40)[0]) > goal).all())  # it can be reached
    assert bool((loss(moved) >= goal).all())
    assert bool((field.square().sum(1).sqrt().mean((1, 2)) < free.square().sum(1).sqrt().mean((1, 2))).all())
    at_once, none = flow_attack(x, loss, steps=5, goal=-1.0)
    assert torch.equal(at_once, x)
    assert not none.any()


def test_a_patch_goes_on_from_a_start_in_mini_batches():
    attack = PatchAdversary(P.Pipeline([]), P.Pipeline([]), lambda x, y: x.mean((1, 2, 3)) * y, size=(3, 3), steps=2, draws=1)
    x, y = torch.rand(4, 1, 8, 8), torch.tensor([1.0, 1.0, -1.0, -1.0])
    begun = attack(x[:2], y[:2])
    assert torch.allclose(begun, torch.full((1, 1, 3, 3), 0.6))
    assert torch.allclose(attack(x[:2], y[:2], start=begun), torch.full((1, 1, 3, 3), 0.7))
    # Two pictures want it bright and two dark: of two steps on two pictures each one takes the other back.
    assert torch.allclose(replace(attack, batch=2)(x, y), torch.full((1, 1, 3, 3), 0.5))
    assert torch.allclose(replace(attack, batch=2, steps=3)(x, y), torch.full((1, 1, 3, 3), 0.55))
    refused(P.InvalidArgument, "start: expected a patch of shape", attack, x, y, start=torch.zeros(1, 1, 2, 2))
    refused(P.InvalidArgument, "batch: expected None", replace, attack, batch=2, universal=False)


def test_a_penalty_is_lowered_beside_the_loss():
    attack = PatchAdversary(
        P.Pipeline([]),
        P.Pipeline([]),
        lambda x, y: x.mean((1, 2, 3)),
        size=(3, 3),
        steps=4,
        penalty=lambda patch: (patch - 0.55).abs().flatten(1).sum(1),
    )
    x, y = torch.rand(2, 1, 8, 8), torch.zeros(2)
    found = attack(x, y)
    assert torch.allclose(found, torch.full_like(found, 0.55), atol=0.051)
    assert bool((replace(attack, penalty=None)(x, y) > 0.69).all())
    alone = replace(attack, universal=False)(x, y)
    assert torch.allclose(alone[:1], found)


def test_max_up_is_the_largest_of_its_draws(task):
    model, x, y = task
    model.requires_grad_(True)
    augment, seen = P.Pipeline([P.RandomRotation(40), P.RandomBrightness(0.5)], seed=0), []

    def loss(z):
        seen.append(each(model)(z, y))
        return seen[-1]

    worst = max_up(augment, loss, x, k=6)
    drawn = torch.stack([one.detach() for one in seen[:6]])
    assert torch.allclose(worst, drawn.amax(0))
    worst.mean().backward()
    assert all(bool((p.grad != 0).any()) for p in model.parameters())


def test_augmax_raises_the_loss_by_weights_and_draws(task):
    model, x, y = task
    augment = P.Pipeline([P.RandomRotation(30), P.RandomTranslate((0.1, 0.1)), P.RandomHorizontalFlip()], seed=0)

    def loss(z):
        return each(model)(z, y)

    key = P.Key(2, 2)
    start = AugMax(augment, loss, steps=0)(x, key=key)
    views = torch.stack([view.result for view in augment.views(x, 3, key=key)])
    assert torch.allclose(start, 0.5 * x + 0.5 * views.mean(0), atol=1e-6)
    found = AugMax(augment, loss, steps=6)(x, key=key)
    assert bool((loss(found) >= loss(start) - 1e-6).all())
    assert bool((loss(found) > loss(start) + 1e-3).any())
    x = x.clone().requires_grad_()
    AugMax(augment, loss, steps=1)(x, key=key).sum().backward()
    assert bool((x.grad != 0).any())


def test_augmax_moves_what_was_drawn_and_how_it_is_mixed():
    x, key = torch.full((3, 1, 4, 4), 0.4), P.Key(1, 1)

    def light(z):
        return z.mean((1, 2, 3))

    bright = P.Pipeline([P.RandomBrightness((0.5, 1.5))], seed=0)
    brightest = torch.stack([light(view.result) for view in bright.views(x, 3, key=key)]).amax(0)
    found = light(AugMax(bright, light, steps=12, step_size=0.5)(x, key=key))
    assert bool((found > torch.maximum(brightest, light(x)) + 1e-3).all())  # no mixture of the first draws is that bright
    halves = P.Pipeline([P.RandomVerticalFlip(0.5)], seed=0)  # nothing here is on a scale
    ramp = torch.linspace(0.0, 1.0, 4).view(1, 1, 4, 1).expand(12, 1, 4, 4)
    top = AugMax(halves, lambda z: z[:, 0, 0].mean(1), steps=12, step_size=0.5)(ramp, key=key)[:, 0, 0, 0]
    flipped = torch.stack([view.result[:, 0, 0, 0] for view in halves.views(ramp, 3, key=key)]).amax(0)
    assert bool((top[flipped > 0] > 0.9).all())
    assert bool((flipped > 0).any())


def test_attacks_are_refused_in_inference_mode(task):
    model, x, y = task
    still = P.Pipeline([])
    calls = [
        lambda: Adversary(still, each(model), radius=0.1)(x, y),
        lambda: PatchAdversary(still, still, each(model), size=4)(x, y),
        lambda: flow_attack(x, lambda out: each(model)(out, y)),
        lambda: AugMax(still, lambda out: each(model)(out, y))(x),
    ]
    with torch.inference_mode():
        for call in calls:
            refused(P.InvalidArgument, r"inference_mode\(\).*no_grad", call)


def test_mistakes_are_told(task):
    m, x, y = task
    wrong, still = (P.InvalidArgument, P.InvalidType), P.Pipeline([])
    attack, sticker = Adversary(still, each(m)), PatchAdversary(still, still, each(m), 3)
    refused(wrong, "norm: expected one of", Adversary, still, each(m), norm="l1")
    refused(wrong, "radius and step_size: expected numbers > 0", Adversary, still, each(m), radius=0.0)
    refused(wrong, "pipeline: expected a Pipeline", Adversary, [], each(m))
    refused(wrong, "labels: expected one for each of 5", attack, x, y[:2])
    refused(wrong, "images: expected floating-point", attack, x.byte(), y)
    refused(wrong, r"images: expected floating-point \(C, H, W\)", attack, [x[:2]], y[:1])
    refused(wrong, "labels: expected a tensor, got list", attack, x, [0, 1, 2, 0, 1])
    refused(wrong, "key: expected a Key", sticker, x, y, key=3)
    refused(wrong, "patch: expected", sticker.paste, x, x.repeat(1, 2, 1, 1))
    refused(wrong, "patch: expected a tensor", sticker.show, x, None)
    refused(wrong, "pipeline: expected a Pipeline", eot, [], x, 2)
    refused(wrong, "images: expected a tensor, or a list", flow_attack, None, each(m))
    refused(wrong, r"loss_fn: expected \(40,\) losses", Adversary(still, lambda a, b: a.mean()), x, y)
    refused(wrong, "placement: expected one that keeps", PatchAdversary(still, P.Pipeline([P.CenterCrop(8)]), each(m), 3), x, y)
    refused(wrong, "placement: expected a Pipeline", PatchAdversary, still, [], each(m), 3)
    refused(wrong, r"loss_fn: expected \(40,\) losses", PatchAdversary(still, still, lambda a, b: a.mean(), 3), x, y)
    refused(wrong, r"loss_fn: expected \(5,\) losses", flow_attack, x, lambda z: z.mean())
    refused(wrong, "one that keeps the size", AugMax(P.Pipeline([P.CenterCrop(8)]), lambda z: z.mean((1, 2, 3))), x)
    refused(wrong, r"loss_fn: expected \(5,\) losses", AugMax(still, lambda z: z.mean()), x)
    refused(wrong, r"loss_fn: expected \(5,\) losses", max_up, still, lambda z: z.mean(), x)
