"""Choices in a plan: what is chosen happens and nothing else does, whatever is nested in what."""

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import pellucid as P
from pellucid import Key, Pipeline
from pellucid.engine.plan import Run, make_plan
from pellucid.errors import InvalidArgument, InvalidType
from pellucid.types import ImageSpec
from tests.policy.paths import BARRIERS, COLORS, CROPS, PLAIN, WARPS, alone, trees
from tests.refusals import refused

law = settings(max_examples=15, deadline=None, derandomize=True, phases=[Phase.explicit, Phase.generate])


def pictures(n=6, size=(13, 13), seed=1):
    return 0.4 + 0.2 * torch.rand(n, 3, *size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def check_samples(transforms, x, tolerance=1e-9, **options):
    augment = Pipeline(transforms, seed=3, **options)
    out, record = augment(x, return_record=True)
    for i in range(len(x)):
        path, drawn = alone(augment.transforms, record, i, **options)
        torch.testing.assert_close(out[i : i + 1], path.apply(x[i : i + 1], drawn), rtol=0, atol=tolerance)
    assert torch.equal(augment.apply(x, record), out)
    return augment, record, out


@law
@given(trees(WARPS + PLAIN + COLORS + BARRIERS))
def test_unfused_each_sample_goes_its_own_way(tree):
    check_samples(tree, pictures(), fuse=False)


@law
@given(trees(PLAIN + COLORS + BARRIERS[:1], warps=WARPS))
def test_fused_each_sample_goes_its_own_way(tree):
    """As in lists without choices, fused and step by step agree where one warp interpolates; here it may be any of many."""
    check_samples(tree, pictures())
    check_samples(tree, pictures(), fuse=False)


@law
@given(trees(PLAIN + COLORS), st.lists(st.sampled_from(CROPS), min_size=1, max_size=4), trees(PLAIN + COLORS))
def test_branches_that_crop_share_a_pass(before, crops, after):
    tree = [*before, P.OneOf([[*(crop if isinstance(crop, tuple) else (crop,)), P.RandomInvert()] for crop in crops]), *after]
    _, _, out = check_samples(tree, pictures())
    assert out.shape[-2:] == (9, 9)
    check_samples(tree, pictures(), fuse=False)


@law
@given(trees(PLAIN + COLORS, warps=WARPS[3:6]))
def test_targets_go_where_their_sample_goes(tree):
    x = pictures()
    points = 2.0 + 8.0 * torch.rand(6, 5, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    batch = {"image": x, "mask": (x[:, 0] > 0.5).long(), "keypoints": points, "boxes": torch.cat((points, points + 3.0), -1)}
    augment = Pipeline(tree, seed=3)
    out, record = augment(batch, return_record=True)
    back = augment.inverse({"keypoints": out["keypoints"]}, record)["keypoints"]
    torch.testing.assert_close(back, points, rtol=0, atol=1e-9)
    for i in range(6):
        path, drawn = alone(augment.transforms, record, i)
        mine = path.apply({name: value[i : i + 1] for name, value in batch.items()}, drawn)
        for name, value in mine.items():
            same = out[name][i : i + 1]
            if name == "mask":
                assert (same != value).double().mean() <= 0.02  # a nearest read may round another way
            elif value.is_floating_point():
                torch.testing.assert_close(same, value, rtol=0, atol=1e-9)
            else:
                assert torch.equal(same, value), name
        torch.testing.assert_close(record[i : i + 1].matrix, drawn.matrix, rtol=0, atol=1e-9)


SPEC = ImageSpec(3, 16, 16)
TURN, SHIFT, LEAN = P.RandomRotation(30, fill=0.4), P.RandomTranslate((0.2, 0.2), fill=0.7), P.RandomShear(20)
DARK, BLUR = P.RandomBrightness(0.3), P.RandomGaussianBlur(3)


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        ([P.OneOf([TURN, SHIFT, LEAN, [], DARK])], "Warp[1,2,3] + Color[4]"),
        ([P.OneOf([[TURN, DARK], [DARK, LEAN]]), P.RandomHorizontalFlip()], "Warp[1,4,5] + Color[3,2]"),
        ([P.OneOf([[TURN, BLUR], [BLUR, LEAN], SHIFT])], "Warp[1,5] -> Convolve[2,3] -> Warp[4]"),
        ([P.SomeOf([TURN, DARK], n=1), P.RandomInvert()], "Warp[1] + Color[2,3]"),
        ([P.SomeOf([TURN, SHIFT], n=2, replace=True)], "Warp[1,2,3,4]"),
        ([P.OneOf([P.OneOf([TURN, LEAN]), P.Apply([SHIFT, DARK])])], "Warp[2,3,5] + Color[6]"),
    ],
)
def test_branches_fuse_into_one_pass(tree, text):
    plan = make_plan(tuple(tree), SPEC)
    assert str(plan).replace("Convolve[2] -> Convolve[3]", "Convolve[2,3]") == text
    canvases = [canvas for group in plan.groups if isinstance(group, Run) for canvas in group.canvases]
    assert len(canvases) == sum(isinstance(one, P.SomeOf) and one.replace for one in tree)  # between turns, not between branches


def test_each_branch_shows_its_own_fill():
    ones = torch.ones(64, 1, 4, 4, dtype=torch.float64)
    shifts = [P.RandomTranslate(((0.5, 0.5), (0.0, 0.0)), fill=fill) for fill in (0.25, 0.5)]
    out = Pipeline([P.OneOf([*shifts, []])], seed=0)(ones)
    assert {tuple(row) for row in out[:, 0, 0, :1].tolist()} == {(0.25,), (0.5,), (1.0,)}


def test_alternatives_that_would_mean_something_else_together_get_a_pass_each():
    mixed = P.OneOf([P.RandomRotation(30), P.RandomRotation(30, padding_mode="border"), P.RandomResizedCrop(13)])
    assert str(make_plan((mixed,), ImageSpec(3, 13, 13))) == "Warp[1] -> Warp[2] -> Warp[3]"
    check_samples([mixed], pictures())


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        (P.OneOf([P.RandomCrop(8), P.RandomCrop(9)]), r"end in one size, got \[0\] 8x8, \[1\] 9x9"),
        (P.OneOf([P.RandomCrop(8), []]), r"\[1\] 16x16"),
        (P.Apply([P.RandomCrop(8)]), "keep the size, 16x16"),
        (P.SomeOf([P.RandomCrop(8), P.CenterCrop(8)], n=1), "keep the size, 16x16"),
        (P.Shuffle([P.RandomCrop(8), P.CenterCrop(8)]), "keep the size, 16x16"),
        (P.OneOf([P.RandomResizedCrop(8), [P.RandomRotation(9), P.CenterCrop(8)]]), "changes of size can be one pass"),
        (P.OneOf([[BLUR, P.RandomCrop(8)], [P.RandomCrop(9), BLUR, P.CenterCrop(8)]]), "changes of size can be one pass"),
        (P.OneOf([P.Normalize((0.5,), (0.5,))]), "before or after a choice"),
    ],
)
def test_what_cannot_be_chosen_among_says_why(tree, words):
    refused(InvalidArgument, words, make_plan, (tree,), SPEC)


def test_a_blur_after_the_crops_of_a_choice_is_fine():
    tree = [P.OneOf([[P.RandomCrop(9), BLUR], [P.CenterCrop(9), P.RandomRotation(20), P.RandomGamma()]])]
    check_samples(tree, pictures())


def test_mistakes_in_constructors_are_named():
    refused(InvalidArgument, r"OneOf|SomeOf|Apply|Categorical", P.OneOf, [])
    refused(InvalidArgument, r"OneOf|SomeOf|Apply|Categorical", P.OneOf, [DARK], weights=(1.0, 2.0))
    refused(InvalidArgument, r"OneOf|SomeOf|Apply|Categorical", P.OneOf, [DARK, BLUR], weights=(-1.0, 2.0))
    refused(InvalidArgument, r"OneOf|SomeOf|Apply|Categorical", P.OneOf, [DARK, BLUR], weights=P.Learnable((1.0, 2.0, 3.0)))
    refused(InvalidArgument, r"OneOf|SomeOf|Apply|Categorical", P.OneOf, [DARK, BLUR], temperature=0.0)
    refused(InvalidArgument, r"OneOf|SomeOf|Apply|Categorical", P.OneOf, [DARK, BLUR], estimator="guess")
    refused(InvalidArgument, r"OneOf|SomeOf|Apply|Categorical", P.SomeOf, [DARK, BLUR], n=3)
    refused(InvalidArgument, r"OneOf|SomeOf|Apply|Categorical", P.SomeOf, [DARK, BLUR], n=1, weights=(1.0, 2.0))
    refused(InvalidArgument, r"OneOf|SomeOf|Apply|Categorical", P.Apply, [DARK], p=1.5)


@pytest.mark.parametrize("wrong", [DARK, "RandomInvert", {"a": DARK}, [3], None])
def test_what_is_no_list_of_transforms_is_refused(wrong):
    for kind in (P.OneOf, P.SomeOf, P.Shuffle, P.Apply):
        with pytest.raises(InvalidType):
            kind(wrong)


NESTED = [
    P.OneOf([[TURN, P.SomeOf([DARK, P.RandomInvert(p=1.0)], n=1)], P.Shuffle([LEAN, P.RandomHue(0.1)])], weights=(1.0, 3.0)),
    P.SomeOf([P.RandomHorizontalFlip(p=1.0), P.Apply([SHIFT, BLUR], p=0.3)], n=2, replace=True),
]


@pytest.mark.parametrize("suffix", ["toml", "json"])
def test_trees_are_written_to_files_and_read_back(tmp_path, suffix):
    Pipeline(NESTED, seed=4).save(tmp_path / f"tree.{suffix}")
    read = Pipeline.load(tmp_path / f"tree.{suffix}")
    assert read.transforms == Pipeline(NESTED).transforms
    assert torch.equal(read(pictures()), Pipeline(NESTED, seed=4)(pictures()))
    assert hash(read.transforms) == hash(Pipeline(NESTED).transforms)


def test_records_of_trees_are_saved_sliced_and_taken_apart(tmp_path):
    x, augment = pictures(), Pipeline(NESTED, seed=4)
    out, record = augment(x, return_record=True)
    record.save(tmp_path / "record.pt")
    assert torch.equal(augment.apply(x, P.Record.load(tmp_path / "record.pt")), out)
    assert torch.equal(augment.apply(x[2:], record[2:]), out[2:])
    first = Pipeline([NESTED[0]]).apply(x, record.step(0))
    at = next(i for i, step in enumerate(record.plan.steps) if step.transform == NESTED[1])
    torch.testing.assert_close(
        Pipeline([NESTED[1]]).apply(first, record.step(at)), Pipeline(NESTED, fuse=False).apply(x, record), rtol=0, atol=0.2
    )
    turned = record.step(1)  # inside of a choice: where it was not chosen, it rests
    rested = record.params[0]["choice"][:, 0] == 0
    assert torch.equal(turned.matrix[rested], torch.eye(3, dtype=torch.float64).expand(int(rested.sum()), 3, 3))


def test_lists_of_pictures_choose_as_batches_do():
    tree = [P.OneOf([P.RandomCrop(9), P.RandomResizedCrop(9)]), *NESTED]
    pictures_of = [pictures(1, size)[0] for size in ((13, 13), (11, 17), (13, 13))]
    key = Key(1, 2, torch.arange(3))
    whole = Pipeline(tree)(pictures_of, key=key)
    for i, one in enumerate(pictures_of):
        alone_ = Pipeline(tree)(one[None], key=Key(1, 2, torch.tensor([i])))
        torch.testing.assert_close(whole[i : i + 1], alone_, rtol=0, atol=1e-12)


def test_explain_says_what_is_chosen_among():
    text = Pipeline(NESTED).explain()
    assert "choice [0] OneOf(2 branches, weights=(1.0, 3.0)" in text
    assert "in [0].0" in text


def test_pipelines_are_sequences_and_nest():
    x = pictures()
    whole = Pipeline([TURN, P.OneOf([DARK, BLUR]), P.RandomInvert(p=P.Learnable(0.4))], seed=3)
    with torch.no_grad():
        whole.learned.get_parameter("4_gate_p").fill_(1.5)
    assert len(whole) == 3
    assert whole[0] == TURN
    assert whole[-1] == list(whole)[2]
    assert whole[1:].transforms == whole.transforms[1:]
    assert whole[1:].numbers()["3.gate.p"] == whole.numbers()["4.gate.p"] != pytest.approx(0.4)
    again = whole[:1] + whole[1:]
    assert torch.equal(again(x), whole(x))
    assert whole.__add__([SHIFT]).transforms == (*whole.transforms, SHIFT)
    nested = Pipeline([whole[:2], P.OneOf([[whole[:1], DARK], BLUR])])
    assert nested.transforms == (*whole.transforms[:2], P.OneOf([[TURN, DARK], BLUR]))
    with pytest.raises(InvalidArgument, match="same options"):
        whole + Pipeline([DARK], fuse=False)


def test_turns_share_what_is_learned():
    augment = Pipeline([P.SomeOf([P.RandomRotation(P.Learnable(5.0)), DARK], n=3, replace=True, weights=P.Learnable((1.0, 2.0)))])
    assert sorted(name for name, _ in augment.named_parameters()) == [
        "learned.0_choice_0_weight_0",
        "learned.0_choice_0_weight_1",
        "learned.1_degrees_half_width",
    ]
    plain = augment.frozen()
    assert not list(plain.parameters())
    assert plain.transforms[0].branches[0][0].degrees == pytest.approx(5.0)
    assert plain.transforms[0].weights == pytest.approx((1 / 3, 2 / 3))
