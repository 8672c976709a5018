"""Several pictures in a sample: what groups of them share, and what each draws for itself (ADR 77)."""

import copy
import json
import pickle
import re

import pytest
import torch

import pellucid as P
from pellucid.errors import InvalidArgument, InvalidType
from pellucid.pipeline.scenes import moves
from pellucid.segments import LayerSpec, WarpSpec
from pellucid.types import ImageSpec
from pellucid.views import TTA
from tests.cases import CASES
from tests.refusals import refused

CAMERAS = {"left": "image", "right": "image", "wrist": "image"}
SHARE = {"colour": ["left", "right", "wrist"], "geometry": ["left", "right"]}
STEPS = [P.RandomCrop(16), P.RandomAffine(20), P.RandomHorizontalFlip(), P.ColorJitter(0.4, 0.4, saturation=0.4, hue=0.1)]


def _batch(samples=3):
    generator = torch.Generator().manual_seed(0)
    sizes = {"left": (20, 30), "right": (20, 30), "wrist": (40, 24)}
    return {name: torch.rand(samples, 3, *size, generator=generator) for name, size in sizes.items()}


def _same(a, b, steps):
    return all(torch.equal(a.params[at][name], b.params[at][name]) for at in steps for name in a.params[at])


def test_groups_share_and_the_others_draw_for_themselves():
    _, record = P.Pipeline(STEPS, seed=0, targets=CAMERAS, share=SHARE)(_batch(8), return_record=True)
    assert list(record) == list(CAMERAS)
    assert _same(record["left"], record["right"], range(4))
    assert _same(record["left"], record["wrist"], [3])
    for at in range(3):
        assert not _same(record["left"], record["wrist"], [at])


def test_colours_differ_where_only_the_position_of_the_jitter_does():
    """The published mistake (Physical-Intelligence/openpi, issue 859): one key for all cameras of a sample, but chains of another
    length for the wrist. The scene is gray where it was, and its brightness differs between the cameras.
    """
    jitter, key = P.ColorJitter(brightness=0.3, contrast=0.4, saturation=0.5), P.Key(seed=0, step=3)
    gray = torch.full((4, 3, 16, 16), 0.4)
    base = P.Pipeline([P.RandomCrop(15), P.Resize(16), P.RandomRotation(5, padding_mode="border"), jitter])(gray, key=key)
    wrist = P.Pipeline([jitter])(gray, key=key)
    assert ((base - wrist).abs().amax((1, 2, 3)) > 0.01).all()

    steps = [P.RandomCrop(15), P.Resize(16), P.RandomRotation(5, padding_mode="border"), jitter]
    names, sizes = dict.fromkeys(("base", "left", "wrist"), "image"), {"base": (16, 16), "left": (24, 20), "wrist": (14, 18)}
    share = {"colour": ["base", "left", "wrist"], "geometry": ["base", "left"]}
    right = P.Pipeline(steps, targets=names, share=share, only={"geometry": ["base", "left"]})
    out, record = right({name: torch.full((4, 3, *size), 0.4) for name, size in sizes.items()}, key=key, return_record=True)
    assert {name: tuple(one.shape[2:]) for name, one in out.items()} == {"base": (16, 16), "left": (16, 16), "wrist": (14, 18)}
    colours = [one.amax((2, 3)) for one in out.values()]
    assert all((colour - colours[0]).abs().max() < 1e-6 for colour in colours)
    assert all(torch.equal(one.amin((2, 3)), colour) for one, colour in zip(out.values(), colours, strict=True))  # still gray
    assert _same(record["base"], record["left"], [2])
    assert record["wrist"].params[:3] == ({}, {}, {})


def test_pictures_pass_by_what_is_not_for_them_and_all_else_is_as_it_was():
    batch, key = _batch(6) | {"mask_wrist": torch.rand(6, 40, 24)}, P.Key(2)
    steps = [*STEPS, P.OneOf([P.RandomRotation(20), P.RandomBrightness(0.5)]), P.Resize((8, 6))]
    share = SHARE | {"OneOf": list(CAMERAS)}
    whole = P.Pipeline(steps, seed=0, targets=CAMERAS, share=share)
    some = P.Pipeline(steps, seed=0, targets=CAMERAS, share=share, only={"geometry": ["left", "right"], 5: ["right"]})
    plain, out = whole(batch, key=key), some(batch, key=key)
    assert torch.equal(out["right"], plain["right"])
    assert out["left"].shape == (6, 3, 16, 16)
    assert torch.equal(out["mask_wrist"], batch["mask_wrist"])
    drawn, record = whole.draw(batch, key=key), some.draw(batch, key=key)
    assert _same(record["left"], drawn["left"], range(5))
    assert _same(record["wrist"], drawn["wrist"], [3, 4, 6])  # the jitter, which branch is taken, and its colour
    jitter = P.Pipeline(STEPS, targets=CAMERAS, share=SHARE, only={"geometry": ["left", "right"]})
    own = P.Pipeline(STEPS[3:]).apply(batch["wrist"], drawn["wrist"].step(3).at((40, 24)))
    found, record = jitter(batch, key=key, return_record=True)
    assert torch.equal(found["wrist"], own)
    assert torch.equal(jitter.inverse(found, record)["mask_wrist"], batch["mask_wrist"])
    lists = jitter({name: list(value) for name, value in batch.items()}, key=key)
    assert all(torch.equal(lists["wrist"][i], own[i]) for i in range(6))
    # Parts, sums, files and worst draws.
    assert some[5:].options.only == {"geometry": ("left", "right"), 0: ("right",)}
    assert (some + some).options.only == {"geometry": ("left", "right"), 5: ("right",), 11: ("right",)}
    again = P.Pipeline.from_dict(json.loads(json.dumps(some.to_dict())))
    assert again.options == some.options
    assert torch.equal(again(batch, key=key)["wrist"], out["wrist"])
    worst, found = some.worst(lambda out: out["left"].mean((1, 2, 3)) - out["wrist"].mean((1, 2, 3)), batch, key=key, draws=3)
    assert {name: tuple(one.shape[2:]) for name, one in worst.items() if name in CAMERAS}["wrist"] == (40, 24)
    assert torch.equal(found["left"].params[3]["hue"], found["wrist"].params[3]["hue"])


def test_draws_depend_on_the_name_and_on_no_other_picture():
    batch, key = _batch(4), P.Key(seed=5, step=2, index=torch.tensor([3, 9, 4, 100]))
    whole = P.Pipeline(STEPS, targets=CAMERAS, share=SHARE)
    together = whole.draw(batch, key=key)
    alone = whole.draw({"wrist": batch["wrist"]}, key=key)["wrist"]
    part = whole.draw({k: v[1:3] for k, v in batch.items()}, key=P.Key(5, 2, torch.tensor([9, 4])))
    turned = whole.draw(dict(reversed(batch.items())), key=key)
    other = P.Pipeline(STEPS, targets=CAMERAS, share={"colour": ["wrist"]}).draw(batch, key=key)
    assert _same(together["wrist"], alone, range(4))
    assert all(_same(together[name], turned[name], range(4)) for name in CAMERAS)
    assert all(_same(together[name][1:3], part[name], range(4)) for name in CAMERAS)
    assert _same(together["wrist"], other["wrist"], range(3))  # geometry of its own, whatever the others share
    assert not _same(together["wrist"], other["wrist"], [3])
    assert not _same(together["left"], P.Pipeline(STEPS, targets=CAMERAS, share=SHARE).draw(batch, key=P.Key(5, 3))["left"], [1])


def test_shared_geometry_keeps_to_each_size():
    """The same words decide: a crop's place is drawn among those that the picture has."""
    names = dict.fromkeys(("small", "large"), "image")
    crops = P.Pipeline([P.RandomCrop(16)], seed=0, targets=names, share={"geometry": ["small", "large"]})
    _, record = crops({"small": torch.rand(64, 3, 16, 32), "large": torch.rand(64, 3, 16, 144)}, return_record=True)
    small, large = (record[name].params[0]["left"] for name in names)
    assert small.max() <= 16 < large.max() <= 128
    assert ((large / 129 - small / 17).abs() < 1 / 17).all()


def test_replay_inverse_views_and_lists():
    whole, batch, key = P.Pipeline(STEPS, seed=0, targets=CAMERAS, share=SHARE), _batch(), P.Key(seed=1)
    batch |= {"boxes_left": torch.tensor([[[2.0, 3.0, 12.0, 15.0]]] * 3), "keypoints_wrist": torch.rand(3, 4, 2) * 20}
    batch |= {"depth_right": torch.rand(3, 20, 30), "labels": torch.tensor([1, 2, 3])}
    out, record = whole(batch, key=key, return_record=True)
    assert out["boxes_left"].shape == (3, 1, 4)
    assert out["labels"] is batch["labels"]
    again = whole.apply(batch, record)
    assert all(torch.equal(again[name], out[name]) for name in out)
    back = whole.inverse({"keypoints_wrist": out["keypoints_wrist"], "left": out["left"]}, record)
    assert (back["keypoints_wrist"] - batch["keypoints_wrist"]).abs().max() < 1e-4
    assert back["left"].shape == batch["left"].shape
    assert {name: one.shape for name, one in whole.valid_mask(record).items()} == dict.fromkeys(CAMERAS, (3, 1, 16, 16))
    (first, a), (_, b) = whole.views(batch, 2, same=("crop",), key=key)
    assert all(torch.equal(first[name], out[name]) for name in out)
    assert _same(a["wrist"], b["wrist"], [0])
    assert not _same(a["wrist"], b["wrist"], [1])
    lists = {name: list(value) for name, value in batch.items()}
    listed = whole(lists, key=key)
    assert all(torch.equal(listed[name], out[name]) for name in out if name != "labels")
    moved = P.Pipeline([]).apply({"keypoints": batch["keypoints_wrist"]}, record["wrist"])["keypoints"]  # records are as any others
    assert torch.equal(moved, out["keypoints_wrist"])


def test_targets_belong_to_the_picture_in_their_key_or_that_of_the_option():
    steps = [P.RandomCrop(16)]
    names = {"left": "image", "right": "image", "left_boxes": "boxes", "grips": "keypoints"}
    whole = P.Pipeline(steps, seed=0, targets=names, share={"colour": ["left", "right"]}, of={"grips": "right"}, return_valid=True)
    batch = {
        "left": torch.rand(1, 3, 40, 40),
        "right": torch.rand(1, 3, 60, 60),
        "left_boxes": torch.tensor([[[2.0, 3.0, 12.0, 15.0]]]),
    }
    batch |= {"grips": torch.rand(1, 2, 2), "mask_right": torch.zeros(1, 60, 60, dtype=torch.int64), "id": ["a"]}
    refused(InvalidArgument, "'id'", whole, batch)
    del batch["id"]
    out, record = whole(batch, return_record=True)
    assert out["mask_right"].shape == (1, 16, 16)
    assert {"valid_left", "valid_right"} <= set(out)
    for key, owner in (("left_boxes", "left"), ("grips", "right")):
        alone = P.Pipeline([], targets=names).apply({key: batch[key]}, record[owner])
        assert torch.equal(alone[key], out[key])
    refused(InvalidArgument, re.escape("of={'keypoints': 'left'}"), whole, batch | {"keypoints": torch.rand(1, 2, 2)})
    plain = {"image": torch.rand(1, 3, 20, 20), "image_left": torch.rand(1, 3, 30, 30), "mask": torch.zeros(1, 20, 20)}
    plain["mask_left"] = torch.zeros(1, 30, 30)
    assert P.Pipeline(steps, share={"colour": ["image"]})(plain)["mask_left"].shape == (1, 16, 16)


def test_a_pair_of_a_picture_and_its_target_and_a_picture_alone():
    whole, picture = P.Pipeline(STEPS, seed=0, share={"colour": ["image"]}), torch.rand(3, 20, 30)
    key = P.Key(seed=3)
    image, target = whole((picture, {"boxes": torch.tensor([[1.0, 1.0, 9.0, 9.0]])}), key=key)
    bare, record = whole(picture, key=key, return_record=True)
    assert torch.equal(image, bare)
    assert target["boxes"].shape == (1, 4)
    assert isinstance(record, P.Record)
    assert torch.equal(whole.apply(picture, record), bare)
    assert torch.equal(whole.apply(picture, {"image": record}), bare)
    assert whole.views(picture, 2)[1].record.samples == 1
    predict = TTA(P.Pipeline([P.RandomHorizontalFlip()], share={"colour": ["image"]}), torch.nn.Conv2d(3, 2, 1))
    assert predict(torch.rand(2, 3, 8, 6)).shape == (2, 2, 8, 6)


def test_groups_by_class_and_several_of_them():
    names = dict.fromkeys(("a", "b", "c", "d"), "image")
    share = {"geometry": [["a", "b"], ["c", "d"]], "color": ["a", "b", "c", "d"], "noise": []}
    whole = P.Pipeline(
        [P.RandomRotation(20), P.RandomBrightness(0.5), P.RandomGaussianNoise(0.1)], seed=0, targets=names, share=share
    )
    record = whole.draw({name: torch.rand(4, 3, 8, 8) for name in names})
    pairs = {(one, other): [_same(record[one], record[other], [at]) for at in range(3)] for one in names for other in names}
    assert pairs["a", "b"] == pairs["c", "d"] == [True, True, False]
    assert pairs["a", "c"] == pairs["b", "d"] == [False, True, False]


def test_a_choice_of_both_is_named():
    names, batch = dict.fromkeys(("a", "b"), "image"), dict.fromkeys(("a", "b"), torch.rand(16, 3, 8, 8))
    steps = [P.OneOf([P.RandomRotation(20), P.RandomBrightness(0.5)])]
    refused(InvalidArgument, "OneOf", P.Pipeline, steps, targets=names, share={"colour": ["a", "b"]})
    record = P.Pipeline(steps, seed=0, targets=names, share={"colour": ["a", "b"], "OneOf": ["a", "b"]}).draw(batch)
    assert _same(record["a"], record["b"], range(3))
    both = P.Pipeline(steps, seed=0, targets=names, share={"colour": ["a", "b"], "geometry": ["a", "b"]}).draw(batch)
    assert _same(both["a"], both["b"], range(3))


def test_draws_that_decide_sizes_take_the_streams_of_pictures():
    names = dict.fromkeys(("a", "b", "c"), "image")
    whole = P.Pipeline([P.RandomRescale((0.5, 1.5))], seed=0, targets=names, share={"geometry": ["a", "b"]})
    lists = {name: [torch.rand(3, 20, 20) for _ in range(6)] for name in names}
    out = whole(lists)
    sizes = {name: [tuple(one.shape) for one in out[name]] for name in names}
    assert sizes["a"] == sizes["b"] != sizes["c"]


def test_streams_state_copies_and_files():
    whole, batch = P.Pipeline(STEPS, seed=4, targets=CAMERAS, share=SHARE, of={"boxes": "left"}), _batch()
    first = whole(batch)
    assert whole.step == 1
    others = [copy.deepcopy(whole), pickle.loads(pickle.dumps(whole)), P.Pipeline.from_dict(whole.to_dict())]
    others[2].load_state_dict(whole.state_dict())
    second = whole(batch)
    assert not torch.equal(first["left"], second["left"])
    for other in others:
        assert torch.equal(other(batch)["wrist"], second["wrist"])
        assert other.step == 2
    key = whole.key_of(batch)
    assert torch.equal(whole(batch, key=key)["right"], whole.apply(batch, whole.draw(batch, key=key))["right"])
    assert whole.explain(batch).count("pass 1") == 3


def test_learned_numbers_are_those_of_all_pictures():
    whole = P.Pipeline([P.RandomBrightness(P.Learnable(0.5))], seed=0, targets=CAMERAS, share={"colour": []})
    out = whole(_batch())
    (learned,) = whole.parameters()
    slopes = [torch.autograd.grad(out[name].sum(), learned, retain_graph=True)[0] for name in CAMERAS]
    total = torch.autograd.grad(sum(out[name].sum() for name in CAMERAS), learned)[0]
    assert all(slope != 0 for slope in slopes)
    assert torch.allclose(total, sum(slopes))


def test_one_graph():
    batch, key = _batch() | {"flow": torch.rand(3, 2, 20, 30)}, P.Key(seed=0)
    whole = P.Pipeline(STEPS, seed=0, targets=CAMERAS, share=SHARE, of={"flow": ("left", "wrist")})
    compiled = torch.compile(whole, fullgraph=True, backend="eager")
    out = whole(batch, key=key)
    assert all((value.float() - out[name].float()).abs().max() < 1e-4 for name, value in compiled(batch, key=key).items())


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"share": {"colour": "left"}}, InvalidType, "names of pictures"),
        ({"share": {"colour": [["left"], ["left"]]}}, InvalidArgument, "none twice"),
        ({"share": {"colour": ["left", "front"]}}, InvalidArgument, "targets={'front': 'image'}"),
        ({"share": {"colours": ["left"]}}, InvalidArgument, "share: expected colour, geometry, or transforms of this pipeline"),
        ({"share": {"colour": ["left"]}, "of": {"boxes": "front"}}, InvalidArgument, "of['boxes']"),
        ({"share": ["left"]}, InvalidType, "share"),
        ({"only": {"colour": ["left"]}}, InvalidArgument, "only: expected share= as well"),
        ({"share": {"colour": []}, "only": {"geometry": "left"}}, InvalidType, "only['geometry']: expected a list of texts"),
        ({"share": {"colour": []}, "only": {9: ["left"]}}, InvalidArgument, "only: expected colour, geometry, or transforms"),
        ({"share": {"colour": []}, "only": {"colour": ["front"]}}, InvalidArgument, "targets={'front': 'image'}"),
    ],
)
def test_wrong_options(options, error, says):
    refused(error, re.escape(says), P.Pipeline, STEPS, targets={"left": "image"}, **options)


def test_wrong_batches_and_calls():
    whole, batch = P.Pipeline(STEPS, targets=CAMERAS, share=SHARE), _batch()
    refused(InvalidArgument, "3 samples, as batch\\['left'\\] has", whole, batch | {"wrist": batch["wrist"][:2]})
    refused(InvalidArgument, "one for each picture", whole.apply, batch, {"left": whole.draw(batch)["left"]})
    refused(InvalidArgument, "at least one image", whole, {"boxes": torch.rand(1, 2, 4)})


@pytest.mark.parametrize("case", CASES, ids=lambda case: type(case.transform).__name__)
def test_what_moves_points_does_so_at_every_size(case):
    if isinstance(case.transform, P.transforms.choices.Choice):
        return
    segment = case.transform.segment(ImageSpec(3, 48, 48))
    decides = type(case.transform).decides is not P.Transform.decides
    assert moves(case.transform) == (decides or isinstance(segment, WarpSpec) or (isinstance(segment, LayerSpec) and segment.moves))


def test_parts_and_sums_of_pipelines():
    share = {"colour": ["a", "b"], "Crop": ["a", "b"]}
    names = dict.fromkeys(("a", "b"), "image")
    whole = P.Pipeline([P.RandomCrop(4), P.RandomBrightness(0.2)], seed=0, targets=names, share=share, per_frame=("Crop",))
    batch = {name: torch.rand(2, 3, 8, 8) for name in names}
    assert _same(*whole[1:].draw(batch).values(), [0])
    assert whole[1:].options.per_frame == ()
    longer = whole + [P.RandomRotation(10)]  # noqa: RUF005 - the sum of pipelines
    record = longer.draw(batch)
    assert _same(*record.values(), [0, 1])
    assert not _same(*record.values(), [2])
    assert (whole + whole[:]).options == whole.options
    alone = P.Pipeline([P.RandomCrop(4), P.RandomBrightness(0.2)], seed=0, targets=names, share={"Crop": ["a", "b"]})[1:]
    assert not _same(*alone.draw(batch).values(), [0])


def test_labels_of_mixed_pictures_belong_to_one():
    names = dict.fromkeys(("a", "b"), "image")
    batch = {name: torch.rand(2, 3, 8, 8) for name in names} | {"labels": torch.tensor([0, 1])}
    with pytest.raises(InvalidArgument, match="batch\\['labels'\\]"):
        P.Pipeline([P.MixUp(num_classes=2)], targets=names, share={"geometry": ["a", "b"]})(batch)
    out = P.Pipeline([P.MixUp(num_classes=2)], targets=names, share={"geometry": ["a", "b"]}, of={"labels": "a"})(batch)
    assert out["labels"].shape == (2, 2)


def test_a_key_of_no_kind_is_told_so():
    refused(InvalidArgument, "img", P.Pipeline(STEPS, targets=CAMERAS, share=SHARE), {"img": torch.rand(1, 3, 20, 20)})
