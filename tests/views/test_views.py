"""Several views of a batch, one draw for several batches, and predictions merged over views."""

import pytest
import torch
import torch.nn.functional as F

import pellucid as P
from pellucid.views import TTA, same_draw
from tests.cases import CASES, IDS
from tests.refusals import refused

TRANSFORMS = {name: case.transform for case, name in zip(CASES, IDS, strict=True) if case.targets}
FLIPS = [P.Pipeline([]), P.Pipeline([P.RandomHorizontalFlip(p=1.0)]), P.Pipeline([P.RandomVerticalFlip(p=1.0)])]


def augment(**options):
    return P.Pipeline([P.RandomCrop(8), P.RandomHorizontalFlip(), P.ColorJitter(0.3, 0.3)], seed=1, **options)


def test_the_first_view_is_the_ordinary_call():
    x, key = torch.rand(5, 3, 12, 12), P.Key(4, 2)
    (first, record), (second, other) = augment().views(x, key=key)
    assert torch.equal(first, augment()(x, key=key))
    assert not torch.equal(first, second)
    assert torch.equal(second, augment().apply(x, other))
    assert augment().views(x, 3, key=key)[1].result.equal(second)
    assert record.map_to(other).matrix.shape == (5, 3, 3)
    pipeline = augment()
    pipeline.views(x, 4)
    assert pipeline.step == 1
    again, fresh = augment(), augment()
    assert torch.equal(again.views(x)[0].result, fresh(x))


@pytest.mark.parametrize("same", [("crop",), (P.RandomCrop,), (0,), (-3, "Crop")], ids=str)
def test_what_is_the_same_is_drawn_once(same):
    views = augment().views(torch.rand(32, 3, 12, 12), 3, same=same)
    params = [view.record.params for view in views]
    for other in params[1:]:
        assert all(torch.equal(value, other[0][name]) for name, value in params[0][0].items())
        assert not torch.equal(params[0][1]["gate"], other[1]["gate"])
        assert not torch.equal(params[0][2]["brightness"], other[2]["brightness"])
    points = torch.rand(32, 4, 2)
    flips = params[0][1]["gate"] == params[1][1]["gate"]
    moved = views[0].record.map_to(views[1].record).points(points)
    assert torch.allclose(moved[flips], points[flips], atol=1e-5)


def test_a_choice_is_the_same_with_all_in_it():
    pipeline = P.Pipeline([P.OneOf([P.RandomRotation(30), [P.RandomCrop(12, padding=2)]]), P.ColorJitter(0.3)], seed=0)
    a, b = (view.record for view in pipeline.views(torch.rand(16, 3, 12, 12), same=("OneOf",)))
    for at in range(3):
        assert all(torch.equal(value, b.params[at][name]) for name, value in a.params[at].items())
    assert not torch.equal(a.params[3]["brightness"], b.params[3]["brightness"])


def test_learned_ranges_learn_from_every_view():
    pipeline = P.Pipeline([P.RandomRotation(P.Learnable(20.0))], seed=0)
    views = pipeline.views(torch.rand(4, 3, 9, 9), 3)
    for view in views:
        (slope,) = torch.autograd.grad(view.result.square().sum(), list(pipeline.parameters()), retain_graph=True)
        assert float(slope) != 0


def test_targets_and_videos_have_views():
    batch = {"image": torch.rand(2, 4, 3, 12, 12), "boxes": torch.tensor([[2.0, 2.0, 9.0, 9.0]]).expand(2, 4, 1, 4)}
    (a, _), (b, _) = augment().views(batch)
    assert a["image"].shape == b["image"].shape == (2, 4, 3, 8, 8)
    assert a["boxes_valid"].shape == (2, 4, 1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"same": ("blur",)}, r"same: expected transforms of this pipeline \(ColorJitter, RandomCrop, RandomHorizontalFlip\)"),
        ({"same": (7,)}, "same: expected transforms of this pipeline"),
        ({"same": ("",)}, "same: expected transforms of this pipeline"),
        ({"same": "crop"}, "same: expected a sequence"),
        ({"n": 0}, "n: expected a whole number from 1"),
    ],
)
def test_mistakes_about_views_are_told(options, words):
    refused((P.InvalidArgument, P.InvalidType), words, augment().views, torch.rand(1, 3, 12, 12), **options)
    refused((P.InvalidArgument, P.InvalidType), words, augment().views, [torch.rand(3, 12, 12), torch.rand(3, 13, 12)], **options)


def test_siamese_batches_get_one_draw():
    real, made = torch.rand(6, 3, 12, 12), torch.rand(3, 3, 12, 12)
    one, two = same_draw(augment(), real, made)
    alike = augment()(real)
    assert torch.equal(one, alike)
    record = augment().draw(real)
    assert torch.equal(two, augment().apply(made, record[:3]))
    shared = augment(same_on_batch=True)
    one, two = same_draw(shared, real, real[:2], key=P.Key(3, 3))
    assert torch.equal(one[:2], two)
    assert torch.equal(
        shared.draw(real, key=P.Key(3, 3)).params[2]["brightness"].unique(),
        shared.draw(made[:1], key=P.Key(3, 3)).params[2]["brightness"],
    )
    refused(P.InvalidArgument, "same_draw: expected at least one batch", same_draw, augment())
    made.requires_grad_()
    same_draw(augment(), real, made)[1].sum().backward()
    assert bool((made.grad != 0).any())


@pytest.mark.parametrize("how", ["mean", "max"])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("mover", TRANSFORMS)
def test_constant_logits_come_back_as_they_were(mover, stride, how):
    level = torch.tensor([0.3, -1.7, 12.345])

    def constant(pictures):
        height, width = pictures.shape[-2] // stride, pictures.shape[-1] // stride
        return level.reshape(1, 3, 1, 1).expand(len(pictures), 3, max(height, 1), max(width, 1))

    size = (12, 12)
    views = [P.Pipeline([P.Resize(12), P.RandomHorizontalFlip(p=1.0)]), P.Pipeline([TRANSFORMS[mover], P.Resize((12, 12))])]
    out, seen = TTA(views[1:], constant, how, return_valid=True)(torch.rand(2, 3, *size))
    assert out.shape == (2, 3, 12 // stride, 12 // stride)
    assert bool(seen.any())
    assert torch.equal(out, torch.where(seen, level.reshape(1, 3, 1, 1), 0.0))
    whole = TTA(views, constant, how)(torch.rand(2, 3, *size))
    assert torch.equal(whole, level.reshape(1, 3, 1, 1).expand_as(whole))


def test_a_model_that_knows_no_place_predicts_as_without_views():
    torch.manual_seed(0)
    model = torch.nn.Conv2d(3, 4, 1)
    x = torch.rand(3, 3, 10, 10)
    turns = [*FLIPS, P.Pipeline([P.RandomRotation90(times=(1,), p=1.0)])]
    with torch.no_grad():
        plain = model(x)
        assert torch.allclose(TTA(turns, model)(x), plain, atol=1e-6)
        assert torch.allclose(TTA(turns, model, "max")(x), plain, atol=1e-6)
        votes = TTA(turns, model, "vote")(x)
        assert torch.equal(votes, F.one_hot(plain.argmax(1), 4).movedim(-1, 1).float())
        labels = TTA(turns, lambda y: model(y).argmax(1))(x)
        assert torch.equal(labels, plain.argmax(1))


def test_mean_and_maximum_over_flips_are_torchs():
    torch.manual_seed(0)
    model = torch.nn.Conv2d(3, 4, 3, padding=1)
    x = torch.rand(2, 3, 9, 11)
    views = torch.stack([model(x), model(x.flip(-1)).flip(-1), model(x.flip(-2)).flip(-2)])
    assert torch.allclose(TTA(FLIPS, model)(x), views.mean(0), atol=1e-6)
    assert torch.allclose(TTA(FLIPS, model, "max")(x), views.amax(0), atol=1e-6)
    scores = torch.stack([model(y).mean((2, 3)) for y in (x, x.flip(-1), x.flip(-2))])
    pooled = torch.nn.Sequential(model, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    assert torch.allclose(TTA(FLIPS, pooled)(x), scores.mean(0), atol=1e-6)
    TTA(FLIPS, model)(x).sum().backward()
    assert all(bool((p.grad != 0).any()) for p in model.parameters())


def test_drawn_views_do_not_depend_on_the_batch():
    model = torch.nn.Conv2d(3, 4, 3, padding=1, stride=2)
    predict = TTA(P.Pipeline([P.RandomAffine(20), P.RandomResizedCrop(16)], seed=0), model, views=5)
    x = torch.rand(4, 3, 16, 16)
    with torch.no_grad():
        together = predict(x)
        assert together.shape == (4, 4, 8, 8)
        assert torch.allclose(together[2:3], predict(x[2:3]), atol=1e-6)


def test_pixels_that_no_view_shows_are_zero():
    out, seen = TTA([P.Pipeline([P.CenterCrop(4)])], torch.nn.Identity(), return_valid=True)(torch.ones(1, 1, 8, 8))
    expected = F.pad(torch.ones(1, 1, 4, 4), (2, 2, 2, 2))
    assert torch.equal(out, expected)
    assert torch.equal(seen.float(), expected)


def brightest(pictures):
    """Where the brightest pixel is, with its value, and a box of three pixels around it."""
    width = pictures.shape[-1]
    value, at = pictures[:, 0].flatten(1).max(1)
    xy = torch.stack((at % width, at // width), -1).float()[:, None]
    box = torch.cat((xy - 1, xy + 2), -1)
    return {
        "keypoints": torch.cat((xy, value[:, None, None]), -1),
        "boxes": box,
        "scores": value[:, None],
        "labels": 3 + 0 * at[:, None],
    }


def test_points_and_boxes_come_back():
    pictures = torch.zeros(2, 1, 12, 14)
    pictures[0, 0, 4, 5] = 1
    pictures[1, 0, 7, 9] = 1
    turns = [*FLIPS, P.Pipeline([P.CenterCrop((10, 12))])]
    for how in ("mean", "max"):
        out = TTA(turns, brightest, how)(pictures)
        assert torch.allclose(out["keypoints"][:, 0, :2], torch.tensor([[5.0, 4.0], [9.0, 7.0]]), atol=1e-5)
        assert torch.allclose(out["boxes"][:, 0], torch.tensor([[4.0, 3, 7, 6], [8.0, 6, 11, 9]]), atol=1e-4)
        assert out["boxes_valid"].tolist() == [[True], [True]]  # four views, one box
        assert out["labels"].tolist() == [[3], [3]]
    empty = TTA(turns, lambda x: {"boxes": torch.zeros(len(x), 0, 4), "scores": torch.zeros(len(x), 0)})(pictures)
    assert empty["boxes"].shape == (2, 0, 4)


def detector(pictures):
    """What torchvision's detectors return: for each picture its brightest pixels as boxes with masks and two points, best first."""
    found = []
    for picture in pictures:
        seen = brightest(picture[None])
        rows, columns = torch.arange(picture.shape[-2])[:, None], torch.arange(picture.shape[-1])
        left, top, right, bottom = seen["boxes"][0, 0]
        inside = (rows >= top) & (rows < bottom) & (columns >= left) & (columns < right)
        # The picture holds which side is left: the dimmer neighbour in a row.
        x, y = seen["keypoints"][0, 0, :2].long().tolist()
        sides = torch.tensor([[x - 1.0, y, 1.0], [x + 1.0, y, 1.0]])
        swap = picture[0, y, x - 1] > picture[0, y, x + 1]
        found.append(
            {
                "boxes": seen["boxes"][0],
                "scores": seen["scores"][0],
                "labels": seen["labels"][0],
                "masks": inside[None, None].float(),
                "keypoints": (sides.flip(0) if swap else sides)[None],
                "keypoints_scores": torch.tensor([[0.25, 0.5]]),
            }
        )
    found[-1] = {name: rows[:0] for name, rows in found[-1].items()}  # nothing in the last picture
    return found


@pytest.mark.parametrize("how", ["nms", "soft_nms"])
def test_lists_of_detections_come_back(how):
    pictures = torch.zeros(3, 1, 12, 14)
    for i, (y, x) in enumerate([(4, 5), (7, 9), (3, 3)]):
        pictures[i, 0, y, x] = 1
        pictures[i, 0, y, x + 1] = 0.5
    turns = [*FLIPS, P.Pipeline([P.CenterCrop((10, 12))])]
    out = TTA(turns, detector, merge_boxes=how)(pictures)
    assert [len(one["scores"]) for one in out][2] == 0
    for one, box, point in zip(out, ([4.0, 3, 7, 6], [8.0, 6, 11, 9]), ([5.0, 4.0], [9.0, 7.0]), strict=False):
        assert len(one["scores"]) == 1 or how == "soft_nms"
        assert torch.allclose(one["boxes"][0], torch.tensor(box), atol=1e-4)
        left, top, right, bottom = (int(number) for number in box)
        wanted = torch.zeros(12, 14)
        wanted[top:bottom, left:right] = 1
        assert torch.allclose(one["masks"][0, 0], wanted, atol=1e-5)
        wanted = torch.tensor([[point[0] - 1, point[1], 1.0], [point[0] + 1, point[1], 1.0]])
        assert torch.allclose(one["keypoints"][0], wanted, atol=1e-4)
        assert one["keypoints_scores"][0].tolist() == [0.25, 0.5]
        assert one["labels"][0] == 3


def test_fused_boxes_are_the_mean_over_views():
    shift = iter([0.0, 1.0])

    def model(x):
        moved = next(shift)
        return {
            "boxes": torch.tensor([[[2.0, 2, 8, 8]]]) + moved,
            "scores": torch.full((1, 1), 0.5),
            "labels": torch.ones(1, 1).long(),
        }

    out = TTA([P.Pipeline([]), P.Pipeline([])], model, merge_boxes="fusion")(torch.rand(1, 1, 12, 12))
    assert torch.allclose(out["boxes"], torch.tensor([[[2.5, 2.5, 8.5, 8.5]]]))
    assert torch.allclose(out["scores"], torch.tensor([[0.5]]))
    with pytest.raises(P.InvalidArgument, match="merge_boxes: expected nothing but labels"):
        TTA(FLIPS, lambda x: detector(x), merge_boxes="fusion")(torch.rand(2, 1, 12, 12))


def test_vectors_turn_and_cameras_move_with_their_views():
    def model(x):
        right = F.pad(x[..., 2:] - x[..., :-2], (1, 1))  # of the first channel: a vector in every pixel, and a camera
        down = F.pad(x[..., 2:, :] - x[..., :-2, :], (0, 0, 1, 1))
        where = (x[:, 0] * torch.arange(x.shape[-1])).sum((1, 2)) / x[:, 0].sum((1, 2))
        below = (x[:, 0] * torch.arange(x.shape[-2])[:, None]).sum((1, 2)) / x[:, 0].sum((1, 2))
        zero, one = torch.zeros_like(where), torch.ones_like(where)
        camera = torch.stack((one, zero, where, zero, one, below, zero, zero, one), -1).reshape(-1, 3, 3)
        return {"flow": torch.cat((right, down), 1), "normals": torch.cat((right, down, x), 1), "intrinsics": camera}

    x = torch.rand(2, 1, 9, 11)
    turns = [*FLIPS, P.Pipeline([P.RandomRotation90(times=(1,), p=1.0)])]
    plain, merged = model(x), TTA(turns, model)(x)
    inner = (..., slice(1, -1), slice(1, -1))
    assert torch.allclose(merged["flow"][inner], plain["flow"][inner], atol=1e-5)
    assert torch.allclose(merged["normals"][inner], plain["normals"][inner], atol=1e-5)
    assert torch.allclose(merged["intrinsics"][:, :2, 2], plain["intrinsics"][:, :2, 2], atol=1e-4)


def test_a_list_of_detections_must_have_a_row_for_each_box():
    rows = {"boxes": torch.zeros(2, 4), "scores": torch.zeros(2)}
    with pytest.raises(P.InvalidArgument, match=r"'scores'.*a row for each of 2 boxes"):
        TTA(FLIPS, lambda x: [rows | {"scores": torch.zeros(3)}])(torch.rand(1, 1, 8, 8))
    refused(P.InvalidArgument, "each of 2 pictures", TTA(FLIPS, lambda x: [rows]), torch.rand(2, 1, 8, 8))


def test_dicts_of_maps_say_what_was_seen():
    def model(x):
        return {"logits": x * 1.0, "mask": (x[:, 0] > 0.5).long(), "score": x.mean((2, 3))}

    x = torch.rand(2, 3, 8, 8)
    out = TTA([P.Pipeline([P.CenterCrop(6)])], model, return_valid=True)(x)
    assert set(out) == {"logits", "logits_seen", "mask", "mask_seen", "score"}
    inner = (..., slice(1, 7), slice(1, 7))
    assert torch.allclose(out["logits"][inner], x[inner], atol=1e-6)
    assert torch.equal(out["mask"][inner], (x[:, 0] > 0.5).long()[inner])


PAIRS = {"heatmap": [(0, 1)], "keypoints": [(0, 2)], "keypoints_hand": [(1, 2)], "mask": [(1, 2)], "maps": [(0, 2)]}
LEFT_RIGHT = {"pairs": PAIRS, "targets": {"maps": "heatmap"}}
FLIP, FLIP_UP = P.RandomHorizontalFlip(p=1.0), P.RandomVerticalFlip(p=1.0)
MIRRORS = [[], [FLIP], [FLIP_UP], [FLIP, FLIP_UP]]


class LeftAndRight(torch.nn.Module):
    """Says the same of every view of a picture, in the view's frame and with the view's left and right."""

    def __init__(self, said, views):
        super().__init__()
        self.said, self.views, self.count = said, views, 0

    def forward(self, pictures):
        view = self.views[self.count % len(self.views)]
        self.count += 1
        said = {**self.said, "image": torch.zeros_like(pictures)}
        out = P.Pipeline(view, **LEFT_RIGHT, passthrough=["scores"])(said)
        return {name: out[name] for name in self.said}


@pytest.mark.parametrize("how", ["mean", "max"])
def test_left_and_right_come_back_for_every_kind(how):
    """A model that tells left from right says one thing of a picture and of its mirror image: merging changes nothing."""
    torch.manual_seed(3)
    points = torch.tensor([[[10.0, 3.0], [31.0, 5.0], [53.0, 2.0]]]).expand(2, 3, 2)
    said = {
        "heatmap": torch.rand(2, 3, 8, 64),
        "maps": torch.rand(2, 3, 8, 64) + torch.tensor([0.0, 5.0, 9.0])[:, None, None],
        "keypoints": torch.cat((points, torch.tensor([[[0.9], [0.5], [0.2]]]).expand(2, 3, 1)), -1),
        "keypoints_hand": torch.cat((points + 1.0, torch.ones(2, 3, 1)), -1),
        "mask": torch.randint(0, 5, (2, 3, 8, 64)),
        "scores": torch.rand(2, 4),
    }
    views = [P.Pipeline(view, **LEFT_RIGHT) for view in MIRRORS]
    merged = TTA(views, LeftAndRight(said, MIRRORS), how)(torch.zeros(2, 3, 8, 64))
    assert merged.keys() == said.keys()
    for name, values in said.items():
        assert torch.allclose(merged[name], values, atol=1e-6), name


def test_one_flipped_view_is_the_inverse_of_the_pipeline():
    flip = P.Pipeline([FLIP], **LEFT_RIGHT)
    said = {"heatmap": torch.rand(2, 3, 4, 6), "keypoints": torch.rand(2, 3, 2) * 4, "mask": torch.randint(0, 5, (2, 3, 4, 6))}
    merged = TTA([flip], lambda x: said)(torch.rand(2, 3, 4, 6))
    back = flip.inverse(said, flip.draw(torch.rand(2, 3, 4, 6)))
    for name in said:
        assert torch.allclose(merged[name].to(torch.float32), back[name].to(torch.float32), atol=1e-6), name
    bare = TTA([flip], lambda x: said["heatmap"])(torch.rand(2, 3, 4, 6))  # which is a heatmap
    assert torch.allclose(bare, said["heatmap"][:, [1, 0, 2]].flip(-1), atol=1e-6)
    classes = TTA([flip], lambda x: {"logits": said["heatmap"]})(torch.rand(2, 3, 4, 6))["logits"]
    assert torch.allclose(classes, said["heatmap"].flip(-1), atol=1e-6)  # a key of its own, of which no pairs are said


def test_what_does_not_mirror_swaps_nothing():
    turn = P.Pipeline([P.RandomRotation90(p=1.0)], **LEFT_RIGHT)
    x = torch.rand(1, 3, 8, 8)
    assert torch.allclose(TTA([turn], torch.nn.Identity())(x), x, atol=1e-6)
    votes = TTA([P.Pipeline(view, **LEFT_RIGHT) for view in MIRRORS], LeftAndRight({"heatmap": x}, MIRRORS), "vote")(x)
    assert torch.equal(votes["heatmap"], F.one_hot(x.argmax(1), 3).movedim(-1, 1).float())


def test_mistakes_about_predictions_are_told():
    wrong, x, resized = ((P.InvalidArgument, P.InvalidType), torch.rand(1, 3, 4, 4), [FLIPS[0], P.Pipeline([P.Resize(8)])])
    refused(wrong, "pipeline: expected a Pipeline, or a sequence", TTA, [], torch.nn.Identity())
    refused(wrong, "model: expected a module or function", TTA, FLIPS, 3)
    refused(wrong, "merge: expected one of", TTA, FLIPS, torch.nn.Identity(), "sum")
    refused(wrong, r"images: expected a batch \(B, C, H, W\)", TTA(FLIPS, torch.nn.Identity()), x[0])
    refused(wrong, r"prediction: expected a map", TTA(FLIPS, lambda x: x[0]), x)
    refused(wrong, "scores", TTA(FLIPS, lambda x: {"boxes": x[:, 0]}), x)
    refused(wrong, "merge: expected 'mean'", TTA(FLIPS, lambda x: {"keypoints": x[:, 0, :, :2]}, "vote"), x)
    refused(wrong, "one stride in all views", TTA(resized, lambda x: x[..., :3, :3]), x)


class Same:
    """Says of every view what it says of the picture: what a pipeline makes of it there."""

    def __init__(self, said, pipelines, listed=False):
        self.said, self.pipelines, self.count, self.listed = said, pipelines, 0, listed

    def __call__(self, pictures):
        pipeline = self.pipelines[self.count % len(self.pipelines)]
        self.count += 1
        record = pipeline.draw(torch.zeros(1, *PICTURE), key=P.Key(0, self.count - 1, torch.tensor([0])))
        kinds = {name: value for name, value in self.said.items() if name not in ("scores", "labels")}
        rest = {name: value for name, value in self.said.items() if name not in kinds}
        out = pipeline.apply(kinds, record)
        out = {name: out[name] for name in kinds} | rest
        return [{name: value[i] for name, value in out.items()} for i in range(len(pictures))] if self.listed else out


PICTURE = (3, 40, 48)
RIGID = [[], [FLIP], [FLIP_UP], [P.RandomTranslate((0.1, 0.1))], [P.CenterCrop((36, 44))]]
TURNS = [*RIGID[:4], [P.RandomRotation(20)], [P.RandomPerspective(0.2, p=1.0)], [P.RandomElastic(p=1.0)]]
SPOTS = torch.tensor([[10.0, 12.0], [30.0, 20.0]])
SQUARE = torch.tensor([[-4.0, -3.0], [4.0, -3.0], [5.0, 3.0], [-4.0, 3.0]])
QUADS = (SPOTS[:, None] + SQUARE).expand(2, 2, 4, 2)


@pytest.mark.parametrize("kind", ["polygons", "quads", "polylines"])
def test_outlines_are_the_mean_over_views(kind):
    """Of a model that says the same corners of every view: merging changes nothing, whatever the map."""
    steps = RIGID if kind != "quads" else TURNS  # fields give polygons more corners
    pipelines = [P.Pipeline(view) for view in steps[:4] + steps[5:]]
    merged = TTA(pipelines, Same({kind: QUADS, "scores": torch.rand(2, 2)} if kind == "polylines" else {kind: QUADS}, pipelines))
    assert torch.allclose(merged(torch.zeros(2, *PICTURE))[kind], QUADS, atol=1e-3)


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("beside", ["boxes", "alone"])
@pytest.mark.parametrize("kind", ["polygons", "quads", "polylines"])
def test_outlines_with_scores_come_back_once_each(kind, beside, listed):
    if kind == "polylines" and beside == "alone":
        return  # whose rows correspond: the test above
    said = {kind: QUADS, "scores": torch.tensor([[0.5, 0.9]]).expand(2, 2), "labels": torch.tensor([[1, 2]]).expand(2, 2)}
    if beside == "boxes":
        said["boxes"] = torch.cat((QUADS.amin(2), QUADS.amax(2)), -1)
    pipelines = [P.Pipeline(view) for view in RIGID]
    found = TTA(pipelines, Same(said, pipelines, listed))(torch.zeros(2, *PICTURE))
    if not listed:
        flags = found["boxes_valid" if beside == "boxes" else f"{kind}_valid"]
        assert flags.sum(1).tolist() == [2, 2]
        assert ("boxes" in found) == (beside == "boxes")
        found = [{name: value[i][flags[i]] for name, value in found.items() if "valid" not in name} for i in range(2)]
    for one in found:
        assert one["labels"].tolist() == [2, 1]  # the better one first
        assert torch.allclose(one[kind], QUADS[0].flip(0), atol=1e-3)
    several = [[[0, 0, 9, 0, 9, 9], [1.0, 1, 5, 1, 5, 5, 1, 5]], [[20, 20, 30, 20, 25, 30]]]  # as COCO has them, of any length
    rows = [{"polygons": [one], "scores": torch.ones(1)} for one in several]
    one, other = TTA([P.Pipeline([])], lambda x: rows)(torch.zeros(2, *PICTURE))
    assert one["polygons"].shape[0] == other["polygons"].shape[0] == 1


def test_boxes_in_space_come_back_from_mirrors():
    """A network that knows plain cameras alone says of a mirrored picture that all is mirrored."""
    boxes = torch.tensor([[[1.0, 0.5, 9.0, 4.0, 1.6, 1.8, 0.3]]])
    camera = torch.tensor([[[40.0, 0, 23.5], [0, 40, 19.5], [0, 0, 1]]])
    said = {"boxes": torch.tensor([[[8.0, 8, 30, 30]]]), "boxes3d": boxes, "scores": torch.ones(1, 1)}
    pipelines = [P.Pipeline(view, cameras="pose") for view in ([], [FLIP])]
    model, seen = Same(said | {"intrinsics": camera}, pipelines), []

    def plain(x):
        seen.append({name: value for name, value in model(x).items() if name != "intrinsics"})
        return seen[-1]

    found = TTA(pipelines, plain, merge_boxes="soft_nms")(torch.zeros(1, *PICTURE))
    assert seen[1]["boxes3d"][0, 0, 0] == -1
    assert torch.allclose(found["boxes3d"], boxes.expand(1, found["boxes3d"].shape[1], 7), atol=1e-5)
    assert found["boxes3d"].shape[1] == 2


def test_rays_come_back_from_mirrors():
    """A network that knows one plain camera says the same rays of every view; a mirror's, mirrored, are those of the picture."""
    x, y = torch.meshgrid(torch.linspace(-1, 1, 12), torch.linspace(-1, 1, 10), indexing="xy")
    rays = torch.stack((x, y, torch.ones_like(x)))[None]
    for cameras, close in (("pose", True), ("matrix", False)):
        views = [P.Pipeline(steps, cameras=cameras) for steps in ([], [FLIP])]
        found = TTA(views, lambda pictures: {"rays": rays})(torch.zeros(1, 3, 10, 12))["rays"]
        assert torch.allclose(found, rays, atol=1e-6) == close


@pytest.mark.parametrize("given", [torch.nn.Identity(), None, 3])
def test_what_is_no_pipeline_is_named(given):
    with pytest.raises(P.InvalidType, match="pipeline: expected a Pipeline, or a sequence"):
        TTA(given, P.Pipeline([]))
