"""Targets follow the image: warp a dot and look where it lands; masks, boxes, keypoints and validity."""

import pytest
import torch

import pellucid as P
from pellucid.boxes import convert_boxes
from pellucid.geometry.points import transform_points
from tests.cases import CASES, IDS, pipeline, size_of
from tests.refusals import refused

movers = pytest.mark.parametrize(
    "case", [c for c in CASES if c.targets], ids=[i for c, i in zip(CASES, IDS, strict=True) if c.targets]
)


@movers
def test_a_dot_lands_where_its_keypoint_does(case):
    height, width = size_of(case)
    # A soft dot, so that its centre of mass survives interpolation.
    y, x = torch.meshgrid(torch.arange(height, dtype=torch.float64), torch.arange(width, dtype=torch.float64), indexing="ij")
    center = torch.tensor([6.0, 5.0])
    fill = getattr(case.transform, "fill", 0.0)  # and so that it stands out alone, on a ground of what the transform fills in
    dot = torch.exp(-((x - center[0]) ** 2 + (y - center[1]) ** 2) / 2.0).expand(8, 1, -1, -1) + fill
    angle = torch.arange(8) * (torch.pi / 4)
    skirt = center + 1.6 * torch.stack((angle.cos(), angle.sin()), -1)  # below 0.3 of the peak beyond
    points = torch.cat((center[None], skirt))
    out = pipeline(case)({"image": dot, "keypoints": points.expand(8, -1, -1)})
    found = 0
    for picture, point in zip(out["image"], out["keypoints"], strict=True):
        mass = picture[0] - fill
        if bool((point < 0).any()) or bool((point > torch.tensor(mass.shape).flip(0) - 1).any()):
            continue
        found += 1
        rows, columns = torch.arange(mass.shape[0], dtype=torch.float64), torch.arange(mass.shape[1], dtype=torch.float64)
        peak = mass >= mass.max() * 0.3
        mass = mass * peak
        centroid = torch.stack(((mass.sum(0) * columns).sum(), (mass.sum(1) * rows).sum())) / mass.sum()
        assert (centroid - point[0]).abs().max() < 0.35, (centroid, point)
    assert found


@movers
def test_boxes_are_the_hull_of_their_corners(case):
    height, width = size_of(case)
    augment = pipeline(case)
    boxes = torch.tensor([[2.0, 3.0, 7.0, 8.0], [0.0, 0.0, 4.0, 4.0]]).expand(4, 2, 4)
    image = torch.rand(4, 1, height, width)
    out, record = augment({"image": image, "boxes": boxes}, return_record=True)
    share = torch.arange(200 if record.plan.bends else 1)[:, None] / 200.0
    corners = torch.stack((boxes[..., [0, 1]], boxes[..., [2, 1]], boxes[..., [2, 3]], boxes[..., [0, 3]]), -2).double() - 0.5
    edges = (corners[..., None, :] + share * (corners.roll(-1, -2) - corners)[..., None, :]).flatten(2, 3)
    mapped = record.map_points(edges.flatten(1, 2)).unflatten(1, (2, -1)) + 0.5
    limit = torch.tensor([record.size_out[1], record.size_out[0]])
    hull = torch.cat((mapped.amin(-2), mapped.amax(-2)), -1)
    clipped = torch.minimum(torch.maximum(hull, torch.zeros(4)), limit.repeat(2).double())
    valid = out["boxes_valid"]
    assert valid.shape == (4, 2)
    assert torch.allclose(out["boxes"].double()[valid], clipped[valid], atol=0.05 if record.plan.bends else 1e-4)


@movers
def test_late_targets(case):
    height, width = size_of(case)
    augment = pipeline(case)
    points = torch.rand(3, 5, 2)
    together, record = augment({"image": torch.rand(3, 3, height, width), "keypoints": points}, return_record=True)
    late = augment.apply({"keypoints": points}, record)
    assert torch.equal(late["keypoints"], together["keypoints"])
    assert torch.equal(late["keypoints_valid"], together["keypoints_valid"])


@movers
@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool, torch.float32])
def test_masks_keep_dtype_and_labels(case, dtype):
    height, width = size_of(case)
    mask = (torch.rand(3, height, width) > 0.5).to(dtype)
    out = pipeline(case)({"image": torch.rand(3, 3, height, width), "mask": mask, "mask_two": mask[:, None]})
    assert out["mask"].dtype == dtype
    assert set(out["mask"].unique().tolist()) <= {0, 1}
    assert torch.equal(out["mask"], out["mask_two"][:, 0])
    assert out["mask"].shape[-2:] == out["image"].shape[-2:]


@movers
def test_mask_agrees_with_a_nearest_image(case):
    height, width = size_of(case)
    labels = torch.arange(height * width, dtype=torch.float64).reshape(1, height, width).expand(4, -1, -1)
    augment = pipeline(case)
    record = augment.draw({"mask": labels})
    out = augment.apply({"mask": labels}, record)["mask"]
    ys, xs = torch.meshgrid(torch.arange(out.shape[1]), torch.arange(out.shape[2]), indexing="ij")
    grid = torch.stack((xs, ys), -1).double().flatten(0, 1).expand(4, -1, 2)
    source = torch.floor(grid + record.flow().flatten(2).mT + 0.5)
    inside = (source[..., 0] >= 0) & (source[..., 0] < width) & (source[..., 1] >= 0) & (source[..., 1] < height)
    expected = torch.where(inside, source[..., 1] * width + source[..., 0], 0.0).unflatten(1, tuple(out.shape[1:]))
    agree = (out == expected).double().mean()
    assert agree > 0.97  # ties on pixel edges may fall either way in float32


def test_what_came_out_goes_in_again_whatever_its_key():
    augment = P.Pipeline([P.RandomHorizontalFlip(p=1.0)])
    boxes, points = torch.tensor([[[1.0, 2.0, 3.0, 4.0]]]), torch.ones(1, 2, 2)
    batch = {"image": torch.rand(1, 3, 5, 5), "boxes_2": boxes, "keypoints_left": points}
    out, record = augment(batch, return_record=True)
    assert {"boxes_2_valid", "keypoints_left_valid"} <= set(out)
    for back in (augment(out), augment.inverse(out, record)):
        assert torch.equal(back["boxes_2"], batch["boxes_2"])
        assert torch.equal(back["keypoints_left"], batch["keypoints_left"])
    assert not augment({**out, "boxes_2_valid": torch.zeros(1, 1, dtype=torch.bool)})["boxes_2_valid"].any()


def test_valid_mask_and_return_valid():
    augment = P.Pipeline([P.RandomTranslate(((0.5, 0.5), (0.0, 0.0)))], return_valid=True)
    out, record = augment({"image": torch.ones(2, 3, 8, 8)}, return_record=True)
    assert out["valid"].shape == (2, 1, 8, 8)
    assert torch.equal(out["valid"][0, 0, 0], torch.tensor([0.0, 0, 0, 0, 1, 1, 1, 1]))
    assert torch.equal(augment.valid_mask(record), out["valid"])


def test_several_targets_of_a_kind_and_passthrough():
    augment = P.Pipeline([P.RandomHorizontalFlip(p=1.0)], targets={"left": "image"}, passthrough=("name",))
    picture = torch.rand(2, 3, 4, 5)
    out = augment(
        {
            "left": picture,
            "image_right": picture,
            "labels": torch.tensor([1, 2]),
            "name": ["a", "b"],
            "depth": picture[:, 0],
            "heatmap": picture,
        }
    )
    assert torch.equal(out["left"], picture.flip(-1))
    assert torch.equal(out["image_right"], picture.flip(-1))
    assert torch.equal(out["depth"], picture[:, 0].flip(-1))
    assert torch.equal(out["heatmap"], picture.flip(-1))
    assert out["name"] == ["a", "b"]
    assert out["labels"].tolist() == [1, 2]


def test_boxes_are_filtered_into_the_valid_mask():
    augment = P.Pipeline([P.RandomTranslate(((0.5, 0.5), (0.0, 0.0)))], min_area=4.0, min_visibility=0.6)
    boxes = torch.tensor([[[0.0, 0, 4, 4], [4, 0, 8, 4], [2, 0, 6, 4], [0, 0, 1, 1], [float("nan"), 0, 1, 1]]])
    out = augment({"image": torch.rand(1, 3, 8, 8), "boxes": boxes, "boxes_valid": torch.tensor([[True, True, True, True, True]])})
    assert out["boxes_valid"].tolist() == [[True, False, False, False, False]]
    assert out["boxes"].shape == boxes.shape
    assert bool(torch.isfinite(out["boxes"]).all())
    none = augment({"image": torch.rand(1, 3, 8, 8), "boxes": boxes[:, :0]})
    assert none["boxes"].shape == (1, 0, 4)


@pytest.mark.parametrize(("least", "valid"), [(3.0, [True, True, False, False]), ((4.0, 1.0), [True, False, True, False])])
@pytest.mark.parametrize("form", ["xyxy", "cxcywh"])
def test_boxes_with_short_sides_are_invalid(least, valid, form):
    boxes = torch.tensor([[[0.0, 0, 4, 4], [2, 0, 6, 3], [6, 0, 10, 4], [0, 0, 1, 1]]])  # the third is cut to 2 x 4
    augment = P.Pipeline([], min_size=least, box_format=form)
    out = augment({"image": torch.rand(1, 3, 8, 8), "boxes": convert_boxes(boxes, "xyxy", form)})
    assert out["boxes_valid"].tolist() == [valid]


@pytest.mark.parametrize("form", ["xyxy", "xywh", "cxcywh", "cxcywhr"])
def test_box_formats(form):
    boxes = torch.tensor([[[1.0, 2.0, 5.0, 7.0]]])
    given = convert_boxes(boxes, "xyxy", form)
    out = P.Pipeline([P.RandomHorizontalFlip(p=1.0)], box_format=form)({"image": torch.rand(1, 3, 10, 10), "boxes": given})
    assert torch.allclose(convert_boxes(out["boxes"], form, "xyxy"), torch.tensor([[[5.0, 2.0, 9.0, 7.0]]]), atol=1e-6)


def test_keypoint_visibility_column():
    augment = P.Pipeline([P.RandomTranslate(((0.5, 0.5), (0.0, 0.0)))])
    out = augment({"image": torch.rand(1, 3, 8, 8), "keypoints": torch.tensor([[[1.0, 1, 2], [6, 1, 2], [1, 1, 0]]])})
    assert out["keypoints"][0, :, 2].tolist() == [2.0, 0.0, 0.0]
    assert out["keypoints_valid"].tolist() == [[True, False, False]]


def test_record_matrix_is_differentiable_and_exact_across_barriers():
    augment = P.Pipeline([P.RandomRotation(30), P.RandomGamma(), P.RandomScale((0.8, 1.2))], seed=1)
    x = torch.rand(2, 3, 9, 9)
    record = augment.draw(x).requires_grad_()
    record.matrix.pow(2).sum().backward()
    assert all(
        bool((values[name].grad != 0).all())
        for values, name in zip((record.params[0], record.params[2]), ("degrees", "scale"), strict=True)
    )
    points = torch.rand(2, 4, 2)
    out = augment.apply({"image": x, "keypoints": points}, record)
    expected = transform_points(points.double(), record.matrix)
    assert torch.allclose(out["keypoints"].double(), expected, atol=1e-6)


def test_image_inverse_restores_the_interior():
    y, x = torch.meshgrid(torch.linspace(0, 1, 64), torch.linspace(0, 1, 64), indexing="ij")
    smooth = torch.stack((x, y, x * y))[None]
    augment = P.Pipeline([P.RandomAffine(10, scale=(0.9, 1.0))], seed=3)
    out, record = augment(smooth, return_record=True)
    back = augment.inverse(out, record)
    assert (back - smooth)[..., 16:48, 16:48].abs().max() < 5e-3


def test_tv_tensors_in_and_out():
    from tests.peers import torchvision_functional

    torchvision_functional()
    from torchvision import tv_tensors

    image = tv_tensors.Image(torch.rand(3, 10, 12))
    boxes = tv_tensors.BoundingBoxes(torch.tensor([[1.0, 2, 4, 3]]), format="XYWH", canvas_size=(10, 12))
    mask = tv_tensors.Mask(torch.randint(0, 2, (10, 12)))
    out = P.Pipeline([P.RandomHorizontalFlip(p=1.0), P.Resize((20, 24))])({"image": image, "boxes": boxes, "mask": mask})
    assert isinstance(out["image"], tv_tensors.Image)
    assert isinstance(out["mask"], tv_tensors.Mask)
    assert isinstance(out["boxes"], tv_tensors.BoundingBoxes)
    assert out["boxes"].canvas_size == (20, 24)
    assert out["boxes"].tolist() == [[14.0, 4.0, 8.0, 6.0]]
    assert isinstance(P.RandomHorizontalFlip(p=1.0)(image), tv_tensors.Image)


PADDING = {
    "xyxy": [[0.0] * 4, [-1.0] * 4, [9.0, 9.0, 3.0, 3.0], [9.0, 3.0, 3.0, 9.0], [5.0, 5.0, 5.0, 9.0]],
    "xywh": [[0.0] * 4, [9.0, 9.0, -6.0, -6.0], [5.0, 5.0, 0.0, 4.0]],
    "cxcywh": [[0.0] * 4, [9.0, 9.0, -6.0, -6.0], [5.0, 5.0, 0.0, 4.0]],
    "cxcywhr": [[0.0] * 5, [0.0, 0.0, 0.0, 0.0, 0.7], [9.0, 9.0, -6.0, -6.0, 0.2], [5.0, 5.0, 0.0, 40.0, 0.3]],
}


@pytest.mark.parametrize("form", PADDING)
@pytest.mark.parametrize(
    "mover",
    [
        P.RandomCrop(6),
        P.CenterCrop(6),
        P.RandomResizedCrop(7),
        P.RandomRotation(180),
        P.RandomAffine(180, translate=(0.5, 0.5)),
        P.Resize(9),
    ],
    ids=lambda t: type(t).__name__,
)
def test_rows_without_size_stay_padding(form, mover):
    rows = torch.tensor(PADDING[form])
    real = torch.tensor([5.0, 5.0, 4.0, 4.0, 0.0])[: rows.shape[1]] if form != "xyxy" else torch.tensor([3.0, 3.0, 7.0, 7.0])
    boxes = torch.cat((rows, real[None])).expand(50, -1, -1)
    batch = {"image": torch.rand(50, 1, 12, 12), "boxes": boxes}
    out = P.Pipeline([mover, P.RandomHorizontalFlip()], box_format=form)(batch)
    assert not out["boxes_valid"][:, :-1].any()
    assert out["boxes_valid"][:, -1].any()
    assert (out["boxes"][:, :-1] == 0).all()


def test_options_of_targets_are_checked_when_they_are_given():
    wrong = (P.InvalidArgument, P.InvalidType)
    refused(wrong, "from 0 to 1", P.Pipeline, [], min_visibility=50)
    refused(wrong, "from 0 to 1", P.Pipeline, [], min_visibility=-0.1)
    refused(wrong, "from 0 to 1", P.Pipeline, [], min_visibility=float("nan"))
    refused(wrong, "from 0 to 1", P.Pipeline, [], min_visibility=True)
    refused(wrong, "square pixels", P.Pipeline, [], min_area=float("nan"))
    refused(wrong, "square pixels", P.Pipeline, [], min_area=float("inf"))
    refused(wrong, "square pixels", P.Pipeline, [], min_area=-1)
    refused(wrong, "square pixels", P.Pipeline, [], min_area="4")
    refused(wrong, r"\(height, width\)", P.Pipeline, [], min_size=(1, 2, 3))
    refused(wrong, r"\(height, width\)", P.Pipeline, [], min_size=-1)
    refused(wrong, r"like: expected one of \('albumentations',\)", P.Pipeline, [], like="imgaug")
    refused(wrong, "a number", P.Pipeline, [], mask_fill="0")
    refused(wrong, r"box_format\['boxes'\]: expected one of", P.Pipeline, [], box_format={"boxes": "yxyx"})
    refused(wrong, "targets={'ships': 'boxes'}", P.Pipeline, [], box_format={"ships": "cxcywhr"})
    refused(wrong, "box_format: expected one of", P.Pipeline, [], box_format=None)
    assert len(P.Pipeline([], min_visibility=1, min_area=2, box_format={"ships": "xywh"}, targets={"ships": "boxes"})) == 0


@pytest.mark.parametrize(
    ("dtype", "good", "bad"),
    [
        (torch.uint8, 255, (-1, 256, 0.5, float("nan"))),
        (torch.int8, -128, (128,)),
        (torch.bool, 1, (2, -1)),
        (torch.int64, -100, (0.5, float("inf"))),
    ],
)
def test_a_label_for_outside_fits_the_masks_dtype(dtype, good, bad):
    batch = {"image": torch.rand(1, 3, 6, 6), "mask": torch.ones(1, 6, 6).to(dtype)}
    away = P.RandomTranslate(((1.0, 1.0), (0.0, 0.0)))
    assert (P.Pipeline([away], mask_fill=good)(batch)["mask"] == good).all()
    for fill in bad:
        refused(P.InvalidArgument, "mask_fill: expected a whole number from", P.Pipeline([away], mask_fill=fill), batch)


EMPTY = [(0, 3, 8, 8), (0, 4, 3, 8, 8), (2, 0, 3, 8, 8)]


@pytest.mark.parametrize("shape", EMPTY, ids=str)
@pytest.mark.parametrize(
    "transform",
    [
        P.ColorJitter(0.1, 0.1, saturation=0.1, hue=0.1),
        P.RandomChannelShuffle(),
        P.RandomAffine(10),
        P.RandomResizedCrop(4),
        P.RandomErasing(),
        P.RandomGamma(),
    ],
    ids=lambda t: type(t).__name__,
)
def test_nothing_in_nothing_out(transform, shape):
    lead = shape[:-3]
    batch = {
        "image": torch.rand(shape),
        "mask": torch.zeros(*lead, 8, 8).long(),
        "boxes": torch.rand(*lead, 2, 4).sort(-1).values,
        "keypoints": torch.rand(*lead, 1, 2),
    }
    augment = P.Pipeline([transform], return_valid=True)
    plain = augment(batch)
    out, record = augment(batch, return_record=True)
    again = augment.apply(batch, record)
    back = augment.inverse({key: out[key] for key in batch}, record)
    height, width = record.size_out
    for result in (plain, out, again):
        assert result["image"].shape == (*lead, 3, height, width)
        assert result["mask"].shape == (*lead, height, width)
        assert result["boxes"].shape == (*lead, 2, 4)
        assert result["boxes_valid"].shape == (*lead, 2)
    assert back["image"].shape == shape
    assert record.matrix.shape == (shape[0], 3, 3)
    assert augment.valid_mask(record).shape == (shape[0], 1, height, width)


@pytest.mark.parametrize(
    ("batch", "error"),
    [
        ({"image": torch.rand(2, 3, 8, 8), "segmentation": torch.rand(2, 8, 8)}, P.InvalidArgument),
        ({"image": torch.rand(2, 3, 8, 8), "mask": torch.rand(2, 4, 4)}, P.InvalidArgument),
        ({"image": torch.rand(2, 3, 8, 8), "boxes": torch.rand(2, 1, 3)}, P.InvalidArgument),
        ({"image": torch.rand(2, 3, 8, 8), "boxes": torch.rand(3, 1, 4)}, P.InvalidArgument),
        ({"image": torch.rand(2, 3, 8, 8), "boxes": torch.zeros(2, 1, 4, dtype=torch.uint8)}, P.InvalidType),
        ({"image": torch.rand(2, 3, 8, 8), "keypoints": torch.zeros(2, 1, 2, dtype=torch.bool)}, P.InvalidType),
        ({"image": torch.rand(2, 3, 8, 8), "boxes": torch.rand(2, 1, 5)}, P.InvalidArgument),
        ({"image": torch.rand(2, 3, 8, 8), "keypoints": [[1, 2]]}, P.InvalidArgument),
        (torch.rand(8, 8), P.InvalidArgument),
        (torch.zeros(2, 3, 8, 8, dtype=torch.int32), P.InvalidType),
        (torch.zeros(2, 3, 0, 8), P.InvalidArgument),
        (torch.zeros(2, 3, 8, 8, dtype=torch.complex64), P.InvalidType),
        ([1, 2], P.InvalidType),
        ({"boxes": torch.rand(2, 1, 4)}, P.InvalidArgument),
    ],
)
def test_bad_batches_are_explained(batch, error):
    with pytest.raises(error) as caught:
        P.Pipeline([P.RandomRotation(10)])(batch)
    assert "expected" in str(caught.value)
    assert "got" in str(caught.value)


@pytest.mark.parametrize("impl", ["reference", "auto"])
def test_inverse_rounds_every_kind_of_pixel(impl):
    """Bytes, halves and bilinear labels come back as the nearest of what float32 would give."""
    pipeline = P.Pipeline([P.RandomAffine(degrees=30)], interpolation={"mask": "bilinear"}, impl=impl)
    generator = torch.Generator().manual_seed(0)
    image = torch.randint(0, 256, (2, 3, 9, 11), generator=generator)
    _, record = pipeline(image.float(), key=P.Key(1, 2), return_record=True)
    for dtype, wide in ((torch.uint8, image.float()), (torch.float16, image.half().float())):
        back, exact = (pipeline.inverse(given, record) for given in (image.to(dtype), wide))
        assert torch.equal(back, exact.round().to(dtype) if dtype == torch.uint8 else exact.to(dtype))
    labels = image[:, :1] - 128
    back = pipeline.inverse({"image": image.float(), "mask": labels, "heatmap": labels.float()}, record)
    assert torch.equal(back["mask"], back["heatmap"].round().to(torch.int64))
