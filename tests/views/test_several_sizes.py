"""Worst draws and expectations of lists and of several pictures in a sample: what each alone gives, and one draw for a group."""

import pytest
import torch
from torch import nn

import pellucid as P
from pellucid import InvalidArgument, Key, Learnable, Pipeline
from pellucid.adversarial import Adversary, AugMax, PatchAdversary, eot, flow_attack, max_up
from pellucid.pipeline.strengths import draw_at_strength
from tests.refusals import refused

SIZES = ((12, 16), (20, 9), (12, 16))
NAMES = {"left": "image", "right": "image"}


def pictures(sizes=SIZES):
    return [torch.rand(3, *size, generator=torch.Generator().manual_seed(i), dtype=torch.float64) for i, size in enumerate(sizes)]


def right(out):
    return torch.stack([(one * torch.linspace(0, 1, one.shape[-1], dtype=one.dtype)).mean() for one in out])


@pytest.mark.parametrize("search", ["random", "grid", "gradient"])
@pytest.mark.parametrize("end", [[], [P.Resize((10, 10))], [P.RandomRescale((0.5, 1.5))]], ids=["moving", "static", "drawn"])
def test_the_worst_draw_of_a_list_is_that_of_each_picture_alone(search, end):
    augment, key = (
        Pipeline([P.RandomAffine(30, translate=(0.2, 0.2)), P.RandomBrightness(0.3), *end]),
        Key(3, 1, torch.tensor([5, 2, 9])),
    )
    how = {"draws": 4, "steps": 3, "search": search, "return_found": True}
    out, record, found = augment.worst(right, pictures(), key=key, **how)
    again = augment.apply(pictures(), record)
    assert (found.losses >= found.start).all()
    assert (found.losses > found.start).any()
    for i, picture in enumerate(pictures()):
        alone, _, one = augment.worst(right, picture[None] if not end else [picture], key=Key(3, 1, key.index[i : i + 1]), **how)
        assert torch.allclose(out[i], alone[0], atol=1e-9)
        assert torch.equal(again[i], out[i])
        assert torch.allclose(found.losses[i], one.losses[0])


def test_learned_numbers_of_lists_have_the_gradient_of_their_pictures():
    """One ``exact`` gate, one choice, one range: the mean of the gradients of each picture."""

    def built():
        gate = P.RandomInvert(p=Learnable(0.4))
        choice = P.OneOf([P.RandomBrightness((0.5, 0.5)), P.RandomGamma((2.0, 2.0))], weights=Learnable((1.0, 2.0)))
        return Pipeline([gate, choice, P.RandomRotation(Learnable(10.0))])

    whole, index = built(), torch.tensor([5, 2, 9])
    whole.expected(right, pictures(), key=Key(3, 1, index)).backward()
    total = [torch.zeros_like(one) for one in whole.parameters()]
    for i, picture in enumerate(pictures()):
        alone = built()
        alone.expected(right, picture[None], key=Key(3, 1, index[i : i + 1])).backward()
        total = [a + one.grad / 3 for a, one in zip(total, alone.parameters(), strict=True)]
    for one, wanted in zip(whole.parameters(), total, strict=True):
        assert torch.allclose(one.grad, wanted, atol=1e-7)
        assert wanted.abs().sum() > 0


def sample(count=4):
    generator = torch.Generator().manual_seed(0)
    return {name: torch.rand(count, 3, *size, generator=generator) for name, size in (("left", (12, 16)), ("right", (20, 18)))}


def shared(*steps, geometry=()):
    return Pipeline(list(steps), seed=0, targets=NAMES, share={"colour": ["left", "right"], "geometry": geometry})


def test_the_worst_draw_of_a_group_is_one_and_the_loss_sees_all_pictures():
    """The left gets brighter where the right gets darker: the brighter end is the worst for the left alone, not for both."""
    augment, key = shared(P.RandomBrightness((0.5, 1.5)), P.RandomTranslate((0.3, 0.0))), Key(0, 1)

    def loss(out):
        return out["left"].mean((1, 2, 3)) - 3 * out["right"].mean((1, 2, 3))

    out, record, found = augment.worst(loss, sample(), key=key, return_found=True)
    bright = {name: record[name].params[0]["brightness"] for name in NAMES}
    assert torch.equal(bright["left"], bright["right"])
    assert (bright["left"] < 0.51).all()
    assert not torch.equal(record["left"].params[1]["translate_x"], record["right"].params[1]["translate_x"])
    assert torch.allclose(loss(out), found.losses)
    again = augment.apply(sample(), record)
    assert all(torch.equal(again[name], out[name]) for name in NAMES)
    assert torch.equal(found.start, loss(augment(sample(), key=key)))
    lists = {name: list(value) for name, value in sample().items()}
    listed, _ = augment.worst(
        lambda out: torch.stack([a.mean() - 3 * b.mean() for a, b in zip(*out.values(), strict=True)]), lists, key=key
    )
    assert all(torch.allclose(torch.stack(list(listed[name])), out[name], atol=1e-6) for name in NAMES)
    grid, _ = augment.worst(loss, sample(), key=key, search="grid", draws={"left.1.translate_x": 3, "brightness": 2})
    assert grid["left"].shape == (4, 3, 12, 16)


def test_expectations_of_several_pictures_have_their_closed_form():
    """E loss = p (1 - 2 a) + const, of the gate that both share: the mean of left and right inverts together."""
    augment, batch = shared(P.RandomInvert(p=Learnable(0.3))), sample()
    loss = augment.expected(lambda out: out["left"].mean((1, 2, 3)) * out["right"].mean((1, 2, 3)), batch)
    loss.backward()
    a, b = (batch[name].mean((1, 2, 3)) for name in NAMES)
    wanted = ((1 - a) * (1 - b) - a * b).mean() * 0.3 * 0.7
    (learned,) = augment.parameters()
    assert torch.allclose(learned.grad, wanted, atol=1e-6)
    own = Pipeline([P.RandomInvert(p=Learnable(0.3))], seed=0, targets=NAMES, share={"colour": []})
    own.expected(lambda out: out["left"].mean((1, 2, 3)) + out["right"].mean((1, 2, 3)), batch).backward()
    (learned,) = own.parameters()
    assert torch.allclose(learned.grad, ((1 - 2 * a) + (1 - 2 * b)).mean() * 0.3 * 0.7, atol=1e-6)


class Mean(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(4.0))

    def forward(self, images):
        return self.scale * images.mean((1, 2, 3))


def test_numbers_of_a_group_are_predicted_from_its_first_picture():
    net = Mean()
    constant = P.Constant(Learnable(by=net, low=0.5, high=1.5))
    augment, batch = shared(P.RandomBrightness(constant), P.RandomTranslate((0.3, 0.0))), sample()
    out, record = augment(batch, key=Key(1), return_record=True)
    wanted = 0.5 + torch.sigmoid(net(batch["left"].double()))
    for name in NAMES:
        assert torch.allclose(record[name].params[0]["brightness"], wanted.double(), atol=1e-6)
    assert torch.equal(augment.apply(batch, augment.draw(batch, key=Key(1)))["right"], out["right"])
    (slope,) = torch.autograd.grad(out["right"].sum(), net.parameters())
    assert slope != 0
    lists = {"left": list(batch["left"]), "right": [*batch["right"][:2], torch.rand(3, 9, 7), batch["right"][3]]}
    listed = augment(lists, key=Key(1))
    assert torch.allclose(listed["right"][3], out["right"][3], atol=1e-6)
    own = Pipeline([P.RandomBrightness(constant)], targets=NAMES, share={"colour": []})
    record = own.draw(batch, key=Key(1))
    assert torch.allclose(record["right"].params[0]["brightness"], 0.5 + torch.sigmoid(net(batch["right"])).double(), atol=1e-6)
    refused(InvalidArgument, "'left', from which the numbers of its group are predicted", augment, {"right": batch["right"]})
    (first, _), (_, record) = augment.views(batch, key=Key(1))
    assert torch.equal(first["right"], out["right"])
    assert torch.equal(record["left"].params[0]["brightness"], record["right"].params[0]["brightness"])


def test_draws_of_one_strength():
    augment = Pipeline([P.RandomRotation(30)], seed=0)
    assert (draw_at_strength(augment, pictures(), 0.5).params[0]["degrees"].abs() == 15).all()
    record = draw_at_strength(shared(P.RandomBrightness((0.5, 1.5))), sample(), 1.0)
    assert torch.equal(record["left"].params[0]["brightness"], record["right"].params[0]["brightness"])


def losses(x, y=None):
    """Of each picture of a batch or a list, how bright its left half is."""
    return torch.stack([one[..., : one.shape[-1] // 2].mean() for one in x])


LABELS = torch.tensor([0, 1, 0])


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_perturbations_of_a_list_are_those_of_each_picture(norm):
    attack = Adversary(Pipeline([P.RandomRotation(20)], seed=0), losses, norm=norm, radius=0.1, steps=3, draws=2)
    images, index = pictures(), torch.tensor([5, 2, 9])
    found = attack(images, LABELS, key=Key(1, 0, index))
    for i, image in enumerate(images):
        alone = attack(image[None], LABELS[i : i + 1], key=Key(1, 0, index[i : i + 1]))
        assert torch.allclose(found[i], alone[0], atol=1e-9)
        assert found[i].shape == image.shape
    universal = Adversary(Pipeline([]), losses, universal=True, steps=2)
    assert universal.perturbation(images[::2]).shape == (1, 3, 12, 16)
    refused(InvalidArgument, "one size for a universal perturbation", universal, images, LABELS)


def test_perturbations_see_the_targets_that_the_pipeline_moved():
    seen = []

    def loss(out, labels):
        seen.append({key: len(value) for key, value in out.items()})
        return losses(out["image"])

    batch = {"image": pictures(), "boxes": [torch.tensor([[1.0, 2.0, 7.0, 8.0]])] * 3}
    out = Adversary(Pipeline([P.RandomHorizontalFlip()], seed=0), loss, steps=2, draws=2)(batch)
    assert seen == [{"image": 6, "boxes": 6, "boxes_valid": 6}] * 2
    assert out["boxes"] is batch["boxes"]
    assert [one.shape for one in out["image"]] == [one.shape for one in batch["image"]]


def test_flows_patches_mixtures_and_expectations_of_lists():
    images, index = pictures(), torch.tensor([5, 2, 9])
    moved, fields = flow_attack(images, losses, steps=3)
    patch = PatchAdversary(
        Pipeline([P.RandomBrightness(0.2)], seed=0), Pipeline([P.RandomTranslate((0.2, 0.2))], seed=1), losses, (3, 3), steps=2
    )
    mixer = AugMax(Pipeline([P.RandomRotation(20)], seed=0), losses, width=2, steps=2)
    mixed = mixer(images, key=Key(1, 0, index))
    one = patch(images, LABELS)
    assert one.shape == (1, 3, 3, 3)
    pasted = patch.paste(images, one, key=Key(1, 0, index))
    drawn, record = eot(mixer.pipeline, images, 2, key=Key(1, 0, index))
    largest = max_up(mixer.pipeline, losses, images, key=Key(1, 0, index))
    assert len(drawn) == len(record) == 6
    for i, image in enumerate(images):
        key = Key(1, 0, index[i : i + 1])
        alone, field = flow_attack(image[None], losses, steps=3)
        assert torch.allclose(moved[i], alone[0], atol=1e-9)
        assert torch.allclose(fields[i], field[0], atol=1e-9)
        assert torch.allclose(mixed[i], mixer(image[None], key=key)[0], atol=1e-9)
        assert torch.allclose(pasted[i], patch.paste(image[None], one, key=key)[0], atol=1e-9)
        both, _ = eot(mixer.pipeline, image[None], 2, key=key)
        assert torch.allclose(torch.stack([drawn[i], drawn[i + 3]]), both, atol=1e-9)
        assert torch.allclose(largest[i], max_up(mixer.pipeline, losses, image[None], key=key)[0])
        assert losses([moved[i]]) > losses([image])
    again = mixer.pipeline.apply(images * 2, record)
    assert all(torch.equal(a, b) for a, b in zip(again, drawn, strict=True))
    own = PatchAdversary(Pipeline([]), Pipeline([]), losses, (2, 2), steps=1, universal=False)
    assert own(images, LABELS).shape == (3, 3, 2, 2)


@pytest.mark.parametrize("listed", [False, True])
def test_attacks_take_pictures_with_their_targets(listed):
    """What comes back of a dict is what its pictures alone give; a loss finds the targets beside them, where draws moved them."""
    images = pictures() if listed else torch.stack(pictures([(12, 16)] * 3))
    boxes = [torch.tensor([[1.0, 2.0, 7.0, 8.0], [3.0, 3.0, 9.0, 9.0]][: 1 + i]).double() for i in range(3)]
    labels = [torch.tensor([4 + i]) for i in range(3)]
    batch = {"image": images} | ({"boxes": boxes, "labels": labels} if listed else {"labels": torch.cat(labels)})
    seen = []

    def loss(out, answers=None):
        seen.append(set(out) - {"boxes_valid"})
        return losses(out["image"])

    def same(found, wanted):
        return all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True))

    (moved, field), (alone, other) = flow_attack(batch, loss, steps=2), flow_attack(images, losses, steps=2)
    assert same(moved["image"], alone)
    assert same(field, other)
    assert moved["labels"] is batch["labels"]

    dark = Pipeline([P.RandomBrightness(0.3)], seed=0)
    mixed = AugMax(dark, loss, width=2, steps=2)(batch, key=Key(1))
    assert same(mixed["image"], AugMax(dark, losses, width=2, steps=2)(images, key=Key(1)))
    assert mixed["labels"] is batch["labels"]

    for universal in (True, False):
        more = {"size": (3, 3), "steps": 2, "draws": 2, "universal": universal}
        flip, place = Pipeline([P.RandomHorizontalFlip(p=1.0)]), Pipeline([P.RandomTranslate((0.2, 0.2))])
        attack, plain = PatchAdversary(flip, place, loss, **more), PatchAdversary(flip, place, losses, **more)
        patch = attack(batch, LABELS, key=Key(2))
        assert torch.equal(patch, plain(images, LABELS, key=Key(2)))
        shown, pasted = attack.show(batch, patch, key=Key(3)), attack.paste(batch, patch, key=Key(3))
        assert same(shown["image"], plain.show(images, patch, key=Key(3)))
        assert same(pasted["image"], plain.paste(images, patch, key=Key(3)))
        if listed:
            assert [one[0, 0].item() for one in shown["boxes"]] == [one.shape[-1] - 7.0 for one in images]
            assert [len(one) for one in shown["boxes"]] == [1, 2, 2]
            assert [one.item() for one in shown["labels"]] == [4, 5, 6]
    assert seen[0] == set(batch)
    assert len(set(map(frozenset, seen))) == 1

    if listed:
        with pytest.raises(InvalidArgument, match=r"images\['boxes'\].*an entry that no draw moves.*boxes"):
            AugMax(Pipeline([P.RandomRotation(20)]), loss, width=2, steps=1)(batch)
    refused(InvalidArgument, "pictures under 'image'", flow_attack, {"left": images}, losses)


def test_views_of_lists():
    augment = Pipeline([P.RandomCrop(8), P.RandomRotation(20)], seed=0)
    (x, a), (_, b) = augment.views(pictures(), same=("crop",), key=Key(2))
    assert torch.equal(x, augment(pictures(), key=Key(2)))
    assert torch.equal(a.params[0]["left"], b.params[0]["left"])
    assert not torch.equal(a.params[1]["degrees"], b.params[1]["degrees"])
