"""The worst draw within a pipeline's distributions: found, bounded, counted, never worse than the plain draw."""

import pytest
import torch

import pellucid as P
from tests.cases import CASES, IDS, images, pipeline
from tests.refusals import refused


def smooth(batch=4, size=16):
    y, x = torch.meshgrid(torch.linspace(-1, 1, size), torch.linspace(-1, 1, size), indexing="ij")
    centres = torch.linspace(-0.3, 0.3, batch)[:, None, None]
    return torch.exp(-((x - centres) ** 2 + y**2) / 0.3)[:, None]


def right(out):
    """How much light lies on the right."""
    return (out * torch.linspace(0, 1, out.shape[-1])).mean((1, 2, 3))


@pytest.mark.sampled(13)
@pytest.mark.parametrize("search", ["random", "grid", "gradient"])
@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_no_search_is_worse_than_the_plain_draw(case, search):
    x, augment = images(case), pipeline(case)
    weight = torch.linspace(-1, 1, augment(x, key=P.Key(1, 1)).shape[-1], dtype=torch.float64)
    shared = getattr(case.transform, "same_on_batch", False)

    def loss(out):
        found = (out * weight).mean((1, 2, 3))
        return found.mean().expand_as(found) if shared else found  # of a draw for all it is the mean

    plain = loss(augment(x, key=P.Key(1, 2)))
    out, record, found = augment.worst(loss, x, draws=3, steps=2, restarts=1, search=search, key=P.Key(1, 2), return_found=True)
    assert torch.equal(found.start, plain)
    assert bool((loss(out) >= plain).all())
    assert torch.allclose(loss(out), found.losses, rtol=0, atol=1e-9)
    assert torch.equal(augment.apply(x, record), out)
    for label, (low, high) in record.bounds().items():
        at, name = label.split(".")
        values = record.params[int(at)][name]
        assert bool(((values >= low) & (values <= high)).all()), label


def test_evaluations_are_counted_and_the_stream_moves_once():
    augment, x, calls = P.Pipeline([P.RandomAffine(30, translate=(0.1, 0.1))], seed=0), smooth(), []

    def loss(out):
        calls.append(1)
        return right(out)

    _, _, found = augment.worst(loss, x, draws=9, steps=4, restarts=3, return_found=True)
    assert found.evaluations == len(calls) == 9 + 3 * (4 + 1) + 1  # one looks, at the first call, whether losses mix
    calls.clear()
    _, _, found = augment.worst(loss, x, draws=5, steps=4, search="random", return_found=True)
    assert found.evaluations == len(calls) == 5
    calls.clear()
    _, _, found = augment.worst(loss, x, draws={"degrees": 3, "translate_x": 2}, search="grid", return_found=True)
    assert found.evaluations == len(calls) == 1 + 3 * 2
    assert augment.step == 3


def test_the_ends_of_a_range_are_found():
    augment = P.Pipeline([P.RandomTranslate((0.1, 0.0)), P.RandomBrightness((0.5, 1.5))], seed=0)
    _, record = augment.worst(right, smooth())
    assert torch.allclose(record.params[0]["translate_x"], torch.tensor(0.1, dtype=torch.float64), atol=1e-6)
    assert torch.allclose(record.params[1]["brightness"], torch.tensor(1.5, dtype=torch.float64), atol=1e-6)


def test_steps_find_what_starts_miss():
    """A sharp maximum inside of the range."""
    augment = P.Pipeline([P.RandomRotation(45)], seed=0)
    x = smooth(3)
    aims = P.Pipeline([P.RandomRotation((13.0, 13.0))])(x)

    def loss(out):
        return -(out - aims).square().mean((1, 2, 3))

    _, record, found = augment.worst(loss, x, draws=5, steps=20, return_found=True)
    _, _, starts = augment.worst(loss, x, draws=5, steps=0, return_found=True)
    assert bool((found.losses > starts.losses).all())
    assert torch.allclose(record.params[0]["degrees"][[0, 2]], torch.tensor(13.0, dtype=torch.float64), atol=1.0)


def test_gates_and_choices_are_searched():
    augment = P.Pipeline([P.RandomInvert(p=0.5), P.OneOf([P.RandomBrightness((0.5, 0.5)), P.RandomBrightness((1.0, 1.0))])], seed=0)
    dark = torch.full((8, 3, 4, 4), 0.1)
    out, record = augment.worst(lambda y: y.mean((1, 2, 3)), dark, draws=24, search="random")
    assert record.params[0]["gate"].tolist() == [1.0] * 8
    assert torch.allclose(out, torch.full_like(out, 0.9))


def test_a_search_that_climbs_is_refused_in_inference_mode():
    """It recorded no gradient there, took it for zero, and found a draw that was not the worst."""
    turn = P.Pipeline([P.RandomRotation(30)], seed=0)
    with torch.inference_mode():
        refused(P.InvalidArgument, r"Pipeline.worst: .*inference_mode.*no_grad", turn.worst, right, smooth(), draws=2, steps=1)
        assert len(turn.worst(right, smooth(), draws=2, steps=0)[0]) == 4


def test_unbounded_draws_stay_within_their_quantiles():
    augment = P.Pipeline([P.RandomRotation(P.Normal(0.0, 5.0))], seed=0)
    _, record = augment.worst(lambda out: -right(out).abs(), smooth(), draws=3, steps=30)
    assert bool((record.params[0]["degrees"].abs() <= 5.0 * 3.1).all())


def test_a_shared_draw_is_the_worst_for_the_mean():
    augment = P.Pipeline([P.RandomTranslate((0.3, 0.0))], seed=0, same_on_batch=True)
    _, record, found = augment.worst(right, smooth(), return_found=True)
    assert record.params[0]["translate_x"].unique().numel() == 1
    assert float(found.losses[0]) >= float(found.start[0])
    with pytest.raises(P.InvalidArgument, match="worst: expected draws that all samples share, or none"):
        P.Pipeline([P.RandomTranslate((0.3, 0.0), same_on_batch=True), P.RandomRotation(3)]).worst(right, smooth())


def test_the_model_stays_as_it_was():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Dropout(0.5), torch.nn.Flatten())
    model[1].eval()  # whose batch statistics would mix the samples
    model[1].momentum = 0.5
    counting = torch.nn.BatchNorm2d(1)

    def loss(out):
        counting(out)  # in training mode, not part of the loss
        return model(out).square().mean(1)

    before = {name: value.clone() for name, value in [*model.state_dict().items(), *counting.state_dict().items()]}
    state = torch.get_rng_state()
    P.Pipeline([P.RandomRotation(30)], seed=0).worst(loss, smooth(), draws=3, steps=2, search="gradient")
    after = dict([*model.state_dict().items(), *counting.state_dict().items()])
    assert all(torch.equal(value, after[name]) for name, value in before.items())
    assert all(p.grad is None for p in model.parameters())
    assert torch.equal(torch.get_rng_state(), state)
    assert model.training
    assert counting.training


def test_gradients_flow_at_the_draw_that_was_found():
    augment = P.Pipeline([P.RandomTranslate((P.Learnable(0.2), 0.0)), P.RandomBrightness((0.5, 1.5))], seed=0)
    x = smooth().requires_grad_()
    out, _ = augment.worst(right, x)
    right(out).sum().backward()
    assert bool((x.grad != 0).any())
    assert all(bool((p.grad != 0).any()) for p in augment.parameters())


def test_targets_come_along():
    augment = P.Pipeline([P.RandomCrop(10), P.RandomHorizontalFlip(), P.RandomGamma((0.5, 2.0))], seed=0)
    batch = {"image": smooth().double(), "keypoints": torch.tensor([[[8.0, 8.0]]]).expand(4, 1, 2)}
    out, record = augment.worst(lambda y: y["keypoints"][:, 0, 0] + 0.0 * y["image"].sum((1, 2, 3)), batch, draws=40, search="grid")
    assert torch.equal(out["keypoints"], augment.apply(batch, record)["keypoints"])
    assert out["keypoints"][:, 0, 0].tolist() == [8.0] * 4  # the crop at the left end, not flipped


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"loss_fn": lambda out: out.mean()}, r"loss_fn: expected \(4,\) losses, one per sample, got \(\)"),
        ({"loss_fn": lambda out: out}, r"loss_fn: expected \(4,\) losses"),
        ({"loss_fn": 3}, "loss_fn: expected a function"),
        ({"loss_fn": lambda out: right(out) - right(out).mean()}, "depend on their own sample's draw alone"),
        ({"search": "evolution"}, "search: expected one of"),
        ({"draws": 0}, "draws: expected a whole number"),
        ({"draws": {"sharpness": 3}}, r"draws: expected numbers on a scale, such as \['0.degrees'\]"),
        ({"draws": {"degrees": 3}, "search": "random"}, "draws: expected a whole number for a random search"),
        ({"steps": -1}, "steps: expected a whole number"),
        ({"restarts": 0}, "restarts: expected a whole number"),
    ],
)
def test_mistakes_are_told(options, words):
    augment = P.Pipeline([P.RandomRotation(30)], seed=0)
    with pytest.raises((P.InvalidArgument, P.InvalidType), match=words):
        augment.worst(**{"loss_fn": right, "batch": smooth(), **options})


def lists_of(batch):
    """The losses of pictures of any size, in the order of the list."""
    return torch.stack([right(one[None])[0] for one in batch])


@pytest.mark.parametrize("search", ["random", "grid", "gradient"])
def test_the_worst_draw_of_a_list_is_that_of_each_picture(search):
    x = smooth(3, 16)
    pictures = [x[0], x[1, :, :12], x[2]]
    augment = P.Pipeline([P.RandomAffine(30, translate=(0.2, 0.2)), P.RandomBrightness((0.5, 1.5))], seed=0)
    options = {"draws": 6, "steps": 3, "restarts": 1, "search": search, "return_found": True}
    out, record, found = augment.worst(lists_of, pictures, key=P.Key(1, 2), **options)
    assert [one.shape for one in out] == [one.shape for one in pictures]
    assert record.samples == 3
    for i, picture in enumerate(pictures):
        alone, _, best = augment.worst(right, picture[None], key=P.Key(1, 2, torch.tensor([i])), **options)
        assert torch.allclose(found.losses[i], best.losses[0], atol=1e-6)
        assert torch.allclose(out[i], alone[0], atol=1e-5)
    again = augment.apply(pictures, record)
    assert all(torch.equal(one, other) for one, other in zip(again, out, strict=True))
    assert bool((found.losses >= found.start).all())


def test_lists_with_boxes_and_learned_ranges_are_searched():
    augment = P.Pipeline([P.RandomCrop(8), P.RandomBrightness(P.Learnable(0.3))], seed=0)
    batch = {"image": [torch.rand(1, 12, 10), torch.rand(1, 9, 14)], "boxes": [torch.tensor([[1.0, 1, 5, 5]]), torch.rand(0, 4)]}
    out, record = augment.worst(lambda out: right(out["image"]), batch, draws=4, steps=2)
    assert out["image"].shape == (2, 1, 8, 8)
    assert out["boxes"].shape == (2, 1, 4)
    out["image"].sum().backward()
    assert any(parameter.grad is not None and bool((parameter.grad != 0).any()) for parameter in augment.parameters())
    assert record.samples == 2
