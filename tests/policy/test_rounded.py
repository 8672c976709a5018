"""Choices that round: pictures of bytes are bytes after every operation, whoever computes them; others are as ever."""

import pytest
import torch

import pellucid as P
from pellucid import Key, Pipeline
from pellucid.engine import execution
from pellucid.policy import AugMix, AutoAugment, RandAugment, TrivialAugmentWide
from tests.policy.test_published import pictures as two_pictures

POLICIES = {
    "trivial": TrivialAugmentWide(),
    "rand": RandAugment(n=3),
    "imagenet": AutoAugment(),
    "cifar10": AutoAugment("cifar10"),
    "svhn": AutoAugment("svhn"),
    "google": AugMix(),
    "torchvision": AugMix("torchvision"),
}
LEAN = P.RandomShear((0.0, 9.0, 0.0, 0.0), p=0.9)
OPERATIONS = {
    "flip": P.RandomHorizontalFlip(p=0.7),
    "nearest": P.RandomRotation(40, interpolation="nearest", p=0.7),
    "turn": P.RandomRotation(40, p=0.7),
    "lean": LEAN,
    "shift": P.RandomTranslate((0.3, 0.3), interpolation="nearest"),
    "slide": P.RandomTranslate((0.3, 0.3), p=0.7),
    "grey": P.RandomGrayscale(p=0.7),
    "brightness": P.RandomBrightness(0.9),
    "contrast": P.RandomContrast(0.9, p=0.8),
    "saturation": P.RandomSaturation(0.9, clip="none"),
    "invert": P.RandomInvert(),
    "channels": P.RandomChannelShuffle(p=0.7),
    "sharpness": P.RandomSharpness((0.0, 2.0), p=0.8),
    "gamma": P.RandomGamma((0.5, 2.0), (0.5, 1.5), p=0.8),
    "posterize": P.RandomPosterize((1, 8)),
    "solarize": P.RandomSolarize((0.0, 1.0)),
    "autocontrast": P.RandomAutoContrast(),
    "equalize": P.RandomEqualize(),
}
OTHERS = {
    "hue": P.RandomHue(0.2, p=0.7),
    "jitter": P.ColorJitter(0.4, 0.4, saturation=0.4, clip="each", p=0.7),
    "filled": P.RandomRotation(40, fill=0.5, p=0.7),
    "blur": P.RandomGaussianBlur(p=0.7),
    "crop": P.RandomResizedCrop((21, 34)),
}


def pictures(batch=12, channels=3, size=(21, 34)):
    generator = torch.Generator().manual_seed(5)
    coarse = torch.rand(batch, channels, 6, 6, generator=generator)
    smooth = torch.nn.functional.interpolate(coarse, size=size, mode="bicubic").clamp(0, 1)
    return (40 + 170 * smooth).to(torch.uint8)


def both(transforms, x, monkeypatch, key, **options):
    """What lists of operations make, and what passes make; and whether there were lists."""
    augment, listed = Pipeline(transforms, seed=1, **options), []
    apply = execution.bytewise.apply
    with monkeypatch.context() as patch:
        patch.setattr(execution.bytewise, "apply", lambda *given: listed.append(1) or apply(*given))
        ours = augment(x, key=key)
    with monkeypatch.context() as patch:
        patch.setattr(execution, "operations_of", lambda *_: None)
        return ours, augment(x, key=key), bool(listed)


@pytest.mark.parametrize("fuse", [True, False])
@pytest.mark.parametrize("name", POLICIES)
def test_lists_of_operations_make_the_bytes_of_passes(name, fuse, monkeypatch):
    x = pictures()
    kept = x.clone()
    for step in range(3):
        ours, theirs, listed = both([POLICIES[name]], x, monkeypatch, Key(3, step), fuse=fuse)
        assert listed
        assert torch.equal(ours, theirs)
        reference = Pipeline([POLICIES[name]], seed=1, impl="reference", fuse=fuse)(x, key=Key(3, step))
        assert (ours != reference).float().mean() < 2e-3  # multiply-adds are fused: a half may go either way
        assert torch.equal(x, kept)


@pytest.mark.parametrize("layout", ["three", "one", "small", "last", "column"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_each_operation_makes_the_bytes_of_its_pass(name, layout, monkeypatch):
    channels = 1 if layout == "one" else 3
    x = pictures(channels=channels, size={"small": (2, 3), "column": (9, 1)}.get(layout, (21, 34)))
    if layout == "last":
        x = x.contiguous(memory_format=torch.channels_last)
    for transforms in (
        [P.OneOf([OPERATIONS[name]], rounded=True)],
        [P.SomeOf([LEAN, OPERATIONS[name]], 3, replace=True, rounded=True)],
    ):
        ours, theirs, listed = both(transforms, x, monkeypatch, Key(3, 1))
        assert listed
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_operation_on_bytes_is_a_pass(name, monkeypatch):
    choice = P.OneOf([OTHERS[name], [OTHERS[name], P.RandomInvert(p=0.5)]], rounded=True)
    ours, theirs, listed = both([choice], pictures(), monkeypatch, Key(3, 1))
    assert not listed
    assert torch.equal(ours, theirs)
    reference = Pipeline([choice], seed=1, impl="reference")(pictures(), key=Key(3, 1))
    assert (ours.int() - reference.int()).abs().max() <= 1


@pytest.mark.parametrize(
    "transforms",
    [
        [P.RandomHorizontalFlip(), RandAugment(), P.Normalize((0.5,) * 3, (0.2,) * 3)],
        [P.RandomResizedCrop(16), RandAugment(), P.CenterCrop((12, 13))],
        [RandAugment(), P.RandomGaussianBlur(), AugMix(), TrivialAugmentWide()],
        [P.OneOf([TrivialAugmentWide(), P.RandomRotation(20)]), P.RandomErasing()],
    ],
    ids=["normalised", "cropped", "several", "beside others"],
)
def test_what_stands_around_a_policy_is_a_pass_of_its_own(transforms, monkeypatch):
    ours, theirs, listed = both(transforms, pictures(), monkeypatch, Key(3, 2))
    assert listed
    assert torch.equal(ours, theirs)
    augment = Pipeline(transforms, seed=1)
    out, record = augment(pictures(), key=Key(3, 2), return_record=True)
    assert torch.equal(out, ours)
    assert torch.equal(augment.apply(pictures(), record), ours)
    each = augment(list(pictures()), key=Key(3, 2))
    assert all(torch.equal(one, alone) for one, alone in zip(each, ours, strict=True))


@pytest.mark.parametrize("policy", ["google", "rand"])
def test_lists_of_several_sizes_go_as_each_picture_alone(policy):
    augment = Pipeline([P.RandomResizedCrop(16), P.RandomHorizontalFlip(), POLICIES[policy]], seed=1)
    sizes = ((21, 34), (30, 20), (16, 40), (21, 34))
    for x in ([pictures(1, size=size)[0] for size in sizes], [pictures(1, size=size)[0] / 255.0 for size in sizes]):
        record = augment.draw(x, key=Key(3, 2))
        for i, out in enumerate(augment.apply(x, record)):
            assert torch.equal(out, augment.apply(x[i], record[i])), i


def test_relaxed_choices_are_operations_too(monkeypatch):
    relaxed = P.OneOf([OPERATIONS["posterize"], OPERATIONS["autocontrast"], OPERATIONS["invert"]], temperature=0.5, rounded=True)
    ours, theirs, listed = both([relaxed], pictures(), monkeypatch, Key(3, 1))
    assert listed
    assert torch.equal(ours, theirs)


def test_each_operation_ends_in_bytes():
    dark, bright = P.RandomBrightness((0.1, 0.1)), P.RandomBrightness((10.0, 10.0))
    x = torch.arange(256, dtype=torch.uint8).reshape(1, 1, 16, 16)
    rounded = Pipeline([P.OneOf([[dark, bright]], rounded=True)])(x)
    assert torch.equal(rounded, Pipeline([bright])(Pipeline([dark])(x)))
    assert len(rounded.unique()) == 27
    assert torch.equal(Pipeline([P.OneOf([[dark, bright]])])(x), x)


@pytest.mark.parametrize("name", POLICIES)
def test_floating_point_pictures_are_as_without(name):
    x, policy = pictures() / 255.0, POLICIES[name]
    plain = policy
    if isinstance(policy, P.Mixture):
        one = policy.transforms[0][0]
        plain = P.Mixture((P.OneOf(one.transforms, one.weights),) * 3)
        policy = P.Mixture((one,) * 3)
    else:
        plain = P.OneOf(policy.transforms) if isinstance(policy, P.OneOf) else P.SomeOf(policy.transforms, policy.n, replace=True)
    assert torch.equal(Pipeline([policy], seed=1)(x, key=Key(3, 1)), Pipeline([plain], seed=1)(x, key=Key(3, 1)))


def test_gradients_go_straight_through_rounding():
    x = pictures(2)
    augment = Pipeline(
        [P.OneOf([[P.RandomBrightness(0.5), P.RandomBrightness(0.5, clip="none")]], rounded=True)], dtype=torch.float32
    )
    record = augment.draw(x)
    first, second = (torch.tensor([0.6, 0.8], dtype=torch.float64, requires_grad=True) for _ in range(2))
    given = record.with_param(1, "brightness", first).with_param(2, "brightness", second)
    out = augment.apply(x, given)
    with torch.no_grad():
        assert torch.equal(out, augment.apply(x, given))
    levels = (x.double() * first.detach()[:, None, None, None]).round()
    to_first, to_second = torch.autograd.grad(out.sum(), (first, second))
    torch.testing.assert_close(to_second, levels.sum((1, 2, 3)) / 255.0, rtol=1e-5, atol=0)
    torch.testing.assert_close(to_first, second.detach() * x.double().sum((1, 2, 3)) / 255.0, rtol=1e-5, atol=0)


def test_gradients_reach_what_stands_before_a_mixture_and_its_weights():
    x = pictures(2)
    augment = Pipeline([P.RandomBrightness(0.5), AugMix()], dtype=torch.float32, seed=1)
    record = augment.draw(x)
    drawn = [torch.tensor([0.6, 0.8], dtype=torch.float64), record.params[1]["share"].clone(), record.params[1]["weights"].clone()]
    for asked in range(3):
        given = [value.detach().requires_grad_(k == asked) for k, value in enumerate(drawn)]
        changed = record.with_param(0, "brightness", given[0]).with_param(1, "share", given[1]).with_param(1, "weights", given[2])
        out = augment.apply(x, changed)
        with torch.no_grad():
            assert (out - augment.apply(x, changed)).abs().max() < 1e-6
        (gradient,) = torch.autograd.grad(out.square().sum(), given[asked])
        assert (gradient != 0).all()


def test_files_keep_it(tmp_path):
    augment = Pipeline([P.OneOf([P.RandomInvert(), P.RandomSolarize()], rounded=True), P.SomeOf([P.RandomInvert()], rounded=True)])
    augment.save(tmp_path / "rounded.toml")
    loaded = Pipeline.load(tmp_path / "rounded.toml")
    assert loaded.transforms == augment.transforms
    assert [choice.rounded for choice in loaded.transforms] == [True, True]
    assert POLICIES["torchvision"].rounded
    assert "rounded after each pass" in Pipeline([RandAugment()]).explain(two_pictures())
