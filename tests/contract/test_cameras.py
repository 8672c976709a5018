"""Cameras follow the picture: a point of the scene lands where its pixel went."""

import pytest
import torch
from scipy import linalg
from torch.autograd import gradcheck

import pellucid as P
from pellucid.data import collate
from pellucid.errors import InvalidArgument
from pellucid.functional import split_camera
from pellucid.geometry.vectors import turn_disparity
from tests.cases import CASES, IDS, images

SIZE = (48, 64)
CHAINS = {
    "flips": [P.RandomHorizontalFlip(), P.RandomVerticalFlip(), P.RandomRotation90()],
    "square": [P.CenterCrop(40), P.RandomD4()],
    "affine": [P.RandomAffine(30, translate=(0.1, 0.1), scale=(0.7, 1.4), shear=10), P.RandomRotation(20), P.RandomShear(10)],
    "perspective": [P.RandomPerspective(0.4, p=1.0), P.RandomScale(), P.RandomTranslate()],
    "sizes": [P.RandomCrop(40, pad_if_needed=True), P.Resize((31, 57)), P.Pad(3), P.Letterbox((40, 40)), P.CenterCrop(36)],
    "zooms": [P.RandomResizedCrop(32), P.RandomZoomOut(p=1.0), P.LongestMaxSize(50)],
    "lie": [P.RandomLieAffine(), P.RandomSafeRotation(30, p=1.0)],
    "colours beside": [P.ColorJitter(0.3), P.RandomHorizontalFlip(), P.Normalize((0.5,), (0.2,)), P.CoarseDropout(p=1.0)],
}


def scene(count, points, dtype):
    """Cameras (b, 3, 3), points in front of them (b, n, 3), and their pixels (b, n, 2)."""
    random = torch.Generator().manual_seed(0)
    camera = torch.zeros(count, 3, 3, dtype=dtype)
    camera[:, 0, 0], camera[:, 1, 1], camera[:, 2, 2] = 50.0, 55.0, 1.0
    camera[:, 0, 2], camera[:, 1, 2] = 31.0, 22.0
    there = torch.rand(count, points, 3, generator=random, dtype=torch.float64).to(dtype) * 2 - 1
    there[..., 2] = there[..., 2] + 4
    return camera, there, projected(camera, there)


def projected(matrix, points):
    seen = points @ matrix.mT
    return seen[..., :2] / seen[..., 2:]


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize(("dtype", "close"), [(torch.float32, 1e-3), (torch.float64, 1e-9)])
def test_a_point_of_the_scene_lands_where_its_pixel_went(name, dtype, close):
    camera, points, pixels = scene(16, 100, dtype)
    batch = {"image": torch.rand(16, 3, *SIZE, dtype=dtype), "intrinsics": camera, "keypoints": pixels}
    augment = P.Pipeline(CHAINS[name], seed=1)
    if name == "flips":  # a quarter turn of a picture that is not square changes its shape
        batch["image"] = torch.rand(16, 3, 64, 64, dtype=dtype)
    result = augment(batch)
    moved = result["keypoints"]
    assert "intrinsics_valid" not in result
    assert (moved - pixels).abs().max() > 1
    assert (projected(result["intrinsics"], points) - moved).abs().max() <= close
    assert result["intrinsics"].dtype == dtype


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_every_transform_moves_cameras_as_it_moves_keypoints_or_refuses(case):
    x = images(case)
    camera, points, pixels = scene(len(x), 20, torch.float64)
    augment = P.Pipeline([case.transform], seed=5)
    batch = {"image": x, "intrinsics": camera, "keypoints": pixels}
    if case.objects:
        batch["masks"] = torch.ones(len(x), 2, *x.shape[-2:], dtype=torch.bool)
    plan = augment.draw(x if not case.objects else {name: batch[name] for name in ("image", "masks")}).plan
    if plan.bends or plan.moving_layers:
        with pytest.raises(InvalidArgument, match="bends the picture" if plan.bends else "one picture each"):
            augment(batch)
    else:
        result = augment(batch)
        assert torch.allclose(projected(result["intrinsics"], points), result["keypoints"], atol=1e-9)


def test_projections_follow_too_and_the_inverse_brings_them_back():
    camera, points, pixels = scene(4, 20, torch.float64)
    pose = torch.eye(3, 4, dtype=torch.float64).expand(4, 3, 4).clone()
    pose[..., 3] = torch.tensor([0.1, -0.2, 0.3])
    inside = points - pose[..., 3][:, None]
    batch = {"image": torch.rand(4, 3, *SIZE, dtype=torch.float64), "projection": camera @ pose, "keypoints": pixels}
    augment = P.Pipeline(CHAINS["perspective"], seed=0)
    result, record = augment(batch, return_record=True)
    ones = torch.ones_like(inside[..., :1])
    assert torch.allclose(projected(result["projection"], torch.cat((inside, ones), -1)), result["keypoints"], atol=1e-9)
    back = augment.inverse({name: result[name] for name in ("image", "projection")}, record)
    assert torch.allclose(back["projection"], batch["projection"], atol=1e-9)


def test_the_matrix_is_the_records_times_the_camera():
    camera = scene(2, 1, torch.float64)[0]
    augment = P.Pipeline(CHAINS["affine"], seed=3)
    result, record = augment({"image": torch.rand(2, 3, *SIZE, dtype=torch.float64), "intrinsics": camera}, return_record=True)
    assert torch.allclose(result["intrinsics"], record.matrix.to(camera) @ camera, atol=1e-9)


def test_rows_that_are_dropped_leave_the_camera_alone():
    camera = scene(1, 1, torch.float32)[0][0]
    augment = P.Pipeline([P.CenterCrop(16)], drop_invalid=True)
    batch = {"image": torch.rand(3, *SIZE), "intrinsics": camera, "keypoints": torch.tensor([[1.0, 1.0], [32.0, 24.0]])}
    result = augment(batch)
    assert result["keypoints"].shape == (1, 2)
    assert result["intrinsics"].shape == (3, 3)


def test_the_gradient_to_a_learned_range_is_that_of_finite_differences():
    batch = {"image": torch.rand(2, 3, *SIZE, dtype=torch.float64), "intrinsics": scene(2, 1, torch.float64)[0]}

    def moved(degrees):
        return P.Pipeline([P.RandomRotation(degrees), P.RandomPerspective(0.3, p=1.0)])(batch, key=P.Key(3))["intrinsics"]

    augment = P.Pipeline([P.RandomRotation(P.Learnable(15.0)), P.RandomPerspective(0.3, p=1.0)])
    weights = torch.rand(2, 3, 3, dtype=torch.float64)
    (augment(batch, key=P.Key(3))["intrinsics"] * weights).sum().backward()
    (learned,) = augment.parameters()
    step = 1e-4
    wanted = ((moved(15.0 + step) - moved(15.0 - step)) * weights).sum() / (2 * step)
    assert wanted.abs() > 1e-3
    assert torch.allclose(learned.grad.double(), wanted, rtol=1e-5)


@pytest.mark.parametrize("step", [P.RandomElastic(p=1.0), P.LensDistortion(p=1.0)])
def test_what_bends_is_refused(step):
    camera = scene(1, 1, torch.float32)[0]
    with pytest.raises(InvalidArgument, match=r"bends the picture.*rays="):
        P.Pipeline([step])({"image": torch.rand(1, 3, *SIZE), "intrinsics": camera})


def test_pictures_of_several_are_refused():
    camera = scene(2, 1, torch.float32)[0]
    with pytest.raises(InvalidArgument, match=r"one picture each.*Mosaic"):
        P.Pipeline([P.Mosaic(p=1.0)])({"image": torch.rand(2, 3, *SIZE), "intrinsics": camera})


def test_keys_of_cameras_are_told_their_kind():
    with pytest.raises(InvalidArgument, match=r"targets=\{'K': 'intrinsics'\}"):
        P.Pipeline([P.RandomHorizontalFlip()])({"image": torch.rand(1, 3, *SIZE), "K": torch.eye(3)[None]})


def test_a_camera_is_split_as_scipy_does():
    random = torch.Generator().manual_seed(0)
    cameras = torch.randn(50, 3, 3, generator=random, dtype=torch.float64)
    intrinsics, rotation = split_camera(cameras)
    for camera, inner, turn in zip(cameras, intrinsics, rotation, strict=True):
        upper, orthogonal = map(torch.from_numpy, linalg.rq(camera.numpy()))
        sign = upper.diagonal().sign()
        assert torch.allclose(inner, upper * sign / (upper * sign)[2, 2], atol=1e-9)
        assert torch.allclose(turn, sign[:, None] * orthogonal, atol=1e-9)
    assert gradcheck(split_camera, (cameras[:2].requires_grad_(),))


def test_a_pose_takes_the_rotation():
    camera, points, pixels = scene(8, 20, torch.float64)
    augment = P.Pipeline([P.RandomHorizontalFlip(), P.RandomRotation(40)], seed=0)
    result = augment({"image": torch.rand(8, 3, *SIZE, dtype=torch.float64), "intrinsics": camera, "keypoints": pixels})
    intrinsics, rotation = split_camera(result["intrinsics"])
    assert (intrinsics.diagonal(dim1=-2, dim2=-1) > 0).all()
    assert intrinsics[:, 1, 0].abs().max() == 0
    assert {round(value) for value in torch.linalg.det(rotation).tolist()} == {-1, 1}
    assert torch.allclose(projected(intrinsics, points @ rotation.mT), result["keypoints"], atol=1e-9)


def test_disparity_scales_with_the_width_and_turns_with_a_mirror():
    disparity = torch.full((1, 1, 20, 40), 4.0)
    wide = P.Pipeline([P.Resize((20, 80))])({"image": torch.rand(1, 3, 20, 40), "disparity": disparity})["disparity"]
    assert torch.allclose(wide, torch.tensor(8.0))
    flat = P.Pipeline([P.Resize((10, 40))])({"image": torch.rand(1, 3, 20, 40), "disparity": disparity[:, 0]})["disparity"]
    assert flat.shape == (1, 10, 40)
    assert torch.allclose(flat, torch.tensor(4.0))
    mirrored = P.Pipeline([P.RandomHorizontalFlip(p=1.0)])({"image": torch.rand(1, 3, 20, 40), "disparity": disparity})
    assert torch.equal(mirrored["disparity"], -disparity)


def test_the_bundled_stereo_pair_stays_a_pair():
    data = pytest.importorskip("skimage.data")
    left, right, disparity = (torch.from_numpy(one.copy()) for one in data.stereo_motorcycle())
    left, right = (one.permute(2, 0, 1)[None] / 255 for one in (left, right))
    disparity = torch.where(torch.isfinite(disparity), disparity, 0.0)[None, None].to(torch.float32)
    augment = P.Pipeline(
        [P.RandomResizedCrop((200, 300), scale=(0.4, 0.9), antialias=False)],
        seed=2,
        targets={"left": "image", "right": "image"},
        interpolation={"disparity": "nearest"},
    )
    before = photometric(left, right, disparity)
    result = augment({"left": left, "right": right, "disparity": disparity})
    after = photometric(result["left"], result["right"], result["disparity"])
    unscaled = photometric(result["left"], result["right"], disparity.mean() + 0 * result["disparity"])
    assert after < 1.2 * before
    assert after < 0.5 * unscaled


def photometric(left, right, disparity):
    """How far the right picture, read where the left one's pixels lie in it, is from the left one: the median."""
    height, width = left.shape[-2:]
    x = torch.arange(width) - disparity[:, 0]
    y = torch.arange(height)[:, None].expand(height, width)[None]
    grid = torch.stack(((2 * x + 1) / width - 1, ((2 * y + 1) / height - 1).expand_as(x)), -1)
    read = torch.nn.functional.grid_sample(right, grid, align_corners=False)
    known = (disparity != 0) & (x[:, None] >= 0)
    return (read - left).abs().mean(1, keepdim=True)[known].median()


def test_a_disparity_is_exact_under_a_perspective():
    disparity = torch.tensor(3.0, dtype=torch.float64).expand(1, 1, 4, 5)
    src_from_dst = torch.tensor([[[0.9, 0.0, 1.0], [0.0, 1.1, 2.0], [0.01, 0.0, 1.0]]], dtype=torch.float64)
    found = turn_disparity(disparity, src_from_dst)
    x, y = torch.meshgrid(torch.arange(5.0, dtype=torch.float64), torch.arange(4.0, dtype=torch.float64), indexing="xy")
    pixels = torch.stack((x, y, torch.ones_like(x)), -1)
    source = pixels @ src_from_dst[0].T
    source = source / source[..., 2:]
    other = (source - torch.tensor([3.0, 0.0, 0.0], dtype=torch.float64)) @ torch.linalg.inv(src_from_dst[0]).T
    assert torch.allclose(found[0, 0], x - other[..., 0] / other[..., 2], atol=1e-12)


@pytest.mark.parametrize(("kind", "channels"), [("pointmap", 3), ("rays", 3), ("uv", 2)])
def test_values_of_places_move_and_stay_what_they_are(kind, channels):
    values = torch.rand(2, channels, 8, 10)
    result = P.Pipeline([P.RandomHorizontalFlip(p=1.0)])({"image": torch.rand(2, 3, 8, 10), kind: values})
    assert torch.equal(result[kind], values.flip(-1))


def test_labels_of_a_collated_batch_do_not_follow_cameras():
    samples = [
        {"image": torch.rand(3, 40, 50), "intrinsics": torch.eye(3), "labels": torch.arange(3), "keypoints": torch.rand(i + 1, 2)}
        for i in range(2)
    ]
    batch = collate(P.Pipeline([P.CenterCrop(32)]))(samples)
    assert batch["intrinsics"].shape == (2, 3, 3)
    assert batch["keypoints"].shape == (2, 2, 2)
    assert torch.equal(batch["labels"], torch.arange(3).expand(2, 3))
