"""What stands before a camera: lenses, poses and boxes in space, beside a matrix or a pose that takes the turn of the picture."""

import contextlib
import functools
import itertools
import random

import numpy as np
import pytest
import torch

import pellucid as P
from pellucid.data import collate
from pellucid.errors import InvalidArgument
from pellucid.geometry.cameras import turn_boxes3d, turn_lens
from tests.cases import CASES
from tests.contract.test_cameras import SIZE, projected, scene
from tests.refusals import refused

DOUBLE = torch.float64
BROWN = torch.tensor([-0.2, 0.05, 0.01, -0.02, 0.01, 0.1, -0.03, 0.02, 0.004, -0.002, 0.006, 0.003], dtype=DOUBLE)
FISHEYE = torch.tensor([0.1, -0.05, 0.02, -0.01], dtype=DOUBLE)
AFFINE = [P.RandomAffine(40, scale=(0.7, 1.4), shear=10), P.RandomResizedCrop(32), P.RandomHorizontalFlip(), P.RandomVerticalFlip()]
UPRIGHT = [P.RandomResizedCrop((30, 44)), P.RandomHorizontalFlip(), P.CenterCrop(24), P.Resize((40, 20)), P.RandomVerticalFlip()]
BOXES = torch.tensor([[1.0, 0.5, 9.0, 4.0, 1.6, 1.8, 0.3], [-2.0, 0.2, 14.0, 3.5, 1.4, 1.7, -2.0]], dtype=DOUBLE)


def bent(lens, x):
    """Points (b, n, 2) of the plane one unit before a camera, through lenses (b, k): OpenCV's formula."""
    k1, k2, p1, p2, k3, k4, k5, k6, s1, s2, s3, s4 = (
        one[:, None] for one in torch.nn.functional.pad(lens, (0, 12 - lens.shape[1])).unbind(1)
    )
    a, b = x.unbind(-1)
    r = a * a + b * b
    radial = (1 + r * (k1 + r * (k2 + r * k3))) / (1 + r * (k4 + r * (k5 + r * k6)))
    return torch.stack(
        (
            a * radial + 2 * p1 * a * b + p2 * (r + 2 * a * a) + s1 * r + s2 * r * r,
            b * radial + p1 * (r + 2 * b * b) + 2 * p2 * a * b + s3 * r + s4 * r * r,
        ),
        -1,
    )


def seen(camera, points, lens=None):
    """Pixels of points before a camera with a lens."""
    flat = points[..., :2] / points[..., 2:]
    flat = flat if lens is None else bent(lens, flat)
    return projected(camera, torch.cat((flat, torch.ones_like(flat[..., :1])), -1))


def corners(boxes):
    """The eight corners (b, n, 8, 3) of upright boxes."""
    centre, (length, height, width), yaw = boxes[..., None, :3], boxes[..., 3:6].unbind(-1), boxes[..., 6]
    sign = torch.tensor(list(itertools.product((-0.5, 0.5), repeat=3)), dtype=boxes.dtype)
    u, v, w = (sign[:, i] * size[..., None] for i, size in enumerate((length, height, width)))
    cos, sin = yaw.cos()[..., None], yaw.sin()[..., None]
    return centre + torch.stack((cos * u + sin * w, v, cos * w - sin * u), -1)


@functools.cache
def _chains(seed):
    """Every transform that moves pixels by a matrix, in chains of three by chance, each with a record."""
    every = []
    for case in CASES:
        plan = None if case.objects or not case.targets else P.Pipeline([case.transform]).draw(torch.rand(2, 3, 32, 32)).plan
        if plan is not None and any(plan.hops) and not (plan.bends or plan.moving_layers or plan.looking):
            every.append(case.transform)
    assert len(every) > 30
    dice, found, left = random.Random(seed), [], every * 2
    while left:
        dice.shuffle(left)
        chain, left = left[:3], left[3:]
        with contextlib.suppress(InvalidArgument):  # a crop larger than what came before it
            found.append((P.Pipeline(chain, seed=len(found)).draw(torch.rand(1, 3, 32, 32)), chain))
    assert len(found) > len(every) / 2
    return found


@pytest.mark.parametrize(("dtype", "close"), [(torch.float32, 1e-3), (DOUBLE, 1e-9)])
def test_ten_thousand_points_in_random_chains_land_where_their_pixels_went(dtype, close):
    count, far = 0, 0.0
    for record, chain in _chains(0):
        camera, points, _ = scene(1, 600, dtype)
        lens = (0.2 * BROWN).to(dtype).expand(1, 12)
        batch = {"intrinsics": camera, "keypoints": seen(camera, points, lens), "lens": lens}
        out = P.Pipeline([]).apply(batch, record)
        assert torch.equal(out["lens"], lens)
        near = (out["keypoints"].abs() < 1e3).all(-1)  # of perspectives some points have no image, or one far away
        apart = (seen(out["intrinsics"], points, out["lens"]) - out["keypoints"]).abs()[near]
        assert apart.max() <= close, chain
        count, far = count + int(near.sum()), far + float((out["keypoints"] - batch["keypoints"]).abs()[near].mean())
    assert count > 10_000
    assert far > 20


def test_gradients_of_random_chains_are_those_of_finite_differences():
    camera, points, _ = scene(1, 20, DOUBLE)
    weights, checked = torch.rand(1, 20, 2, dtype=DOUBLE) / 100, set()
    for record, _ in _chains(0):
        for i, values in enumerate(record.params):
            for name, value in values.items():
                if not value.is_floating_point() or "gate" in name:
                    continue

                def moved(x, record=record, i=i, name=name):
                    return (
                        seen(P.Pipeline([]).apply({"intrinsics": camera}, record.with_param(i, name, x))["intrinsics"], points)
                        * weights
                    ).sum()

                leaf = value.double().clone().requires_grad_()
                there = moved(leaf)
                slope = torch.autograd.grad(there, leaf, allow_unused=True)[0] if there.requires_grad else None
                if slope is None or not slope.any():
                    continue
                way = torch.sign(slope)
                step = 1e-6 * max(1.0, float(value.abs().max()))
                wanted = (moved(leaf.detach() + step * way) - moved(leaf.detach() - step * way)) / (2 * step)
                assert torch.allclose((slope * way).sum(), wanted, rtol=1e-4, atol=1e-6), (record.plan.steps[i].transform, name)
                checked.add((type(record.plan.steps[i].transform).__name__, name))
    assert len(checked) > 25


def test_opencv_projects_to_where_the_pixels_went():
    """With a plain matrix and coefficients that turned, where OpenCV knows them: unequal scales of turned pictures have a skew."""
    cv2 = pytest.importorskip("cv2")
    steps = [P.RandomRotation(180), P.RandomHorizontalFlip(), P.RandomVerticalFlip(), P.CenterCrop(40), P.Resize(64)]
    camera, points, _ = scene(16, 30, DOUBLE)
    camera[:, 0, 0] = camera[:, 1, 1] = 50.0
    augment = P.Pipeline(steps, seed=2, cameras="pose")
    pose = torch.eye(4, dtype=DOUBLE)[:3].expand(16, 3, 4)
    for coefficients, project in ((BROWN[None, :5], cv2.projectPoints), (BROWN[None], cv2.projectPoints), (FISHEYE[None], None)):
        lens = coefficients.expand(16, -1)
        pixels = (
            seen(camera, points, lens)
            if project
            else torch.stack([_fisheye(cv2, *one) for one in zip(points, camera, lens, strict=True)])
        )
        batch = {"image": torch.rand(16, 3, *SIZE, dtype=DOUBLE), "intrinsics": camera, "keypoints": pixels, "extrinsics": pose}
        out = augment(batch | {"lens" if project else "fisheye": lens})
        mirrored = torch.linalg.det(out["extrinsics"][..., :3]) < 0
        assert 0 < mirrored.sum() < 16
        for i in range(16):
            there = points[i] @ out["extrinsics"][i, :, :3].mT
            if project:
                found = cv2.projectPoints(
                    there.numpy(), np.zeros(3), np.zeros(3), out["intrinsics"][i].numpy(), out["lens"][i].numpy()
                )[0]
            else:
                found = _fisheye(cv2, there, out["intrinsics"][i], out["fisheye"][i])[:, None]
            assert np.abs(np.asarray(found)[:, 0] - out["keypoints"][i].numpy()).max() < 1e-9
        if project:
            assert not torch.allclose(out["lens"][mirrored], lens[mirrored])


def _fisheye(cv2, points, camera, lens):
    zero = np.zeros(3)
    return torch.from_numpy(cv2.fisheye.projectPoints(points[None].numpy(), zero, zero, camera.numpy(), lens.numpy())[0][0])


@pytest.mark.parametrize("count", [4, 5, 8, 12])
def test_a_lens_turns_with_any_affine_map(count):
    camera, points, _ = scene(16, 40, DOUBLE)
    lens = BROWN[:count].expand(16, count)
    batch = {
        "image": torch.rand(16, 3, *SIZE, dtype=DOUBLE),
        "intrinsics": camera,
        "keypoints": seen(camera, points, lens),
        "lens": lens,
    }
    augment = P.Pipeline(AFFINE, seed=1, cameras="pose")
    out, record = augment(batch | {"extrinsics": torch.eye(4, dtype=DOUBLE).expand(16, 4, 4)}, return_record=True)
    turn = out["extrinsics"][:, :3, :3]
    assert torch.allclose(turn @ turn.mT, torch.eye(3, dtype=DOUBLE), atol=1e-9)
    assert out["intrinsics"].tril(-1).abs().max() == 0
    assert (out["intrinsics"].diagonal(dim1=1, dim2=2) > 0).all()
    found = seen(out["intrinsics"], points @ turn.mT, out["lens"])
    assert (found - out["keypoints"]).abs().max() < 1e-9
    unturned = seen(out["intrinsics"], points @ turn.mT, lens)
    assert (unturned - out["keypoints"]).abs().max() > 0.1
    back = augment.inverse({name: out[name] for name in ("image", "intrinsics", "lens", "extrinsics")}, record)
    assert torch.allclose(back["lens"], lens, atol=1e-12)
    assert torch.allclose(back["intrinsics"], camera, atol=1e-9)
    assert torch.allclose(back["extrinsics"], torch.eye(4, dtype=DOUBLE), atol=1e-12)


def test_a_pose_takes_perspectives_too_but_a_lens_does_not():
    camera, points, pixels = scene(4, 20, DOUBLE)
    batch = {"image": torch.rand(4, 3, *SIZE, dtype=DOUBLE), "intrinsics": camera, "keypoints": pixels}
    steps = [P.RandomPerspective(0.3, p=1.0), P.RandomHorizontalFlip()]
    out = P.Pipeline(steps, seed=0, cameras="pose")(batch | {"extrinsics": torch.eye(4, dtype=DOUBLE)[:3].expand(4, 3, 4)})
    there = points @ out["extrinsics"][..., :3].mT
    assert torch.allclose(projected(out["intrinsics"], there), out["keypoints"], atol=1e-9)
    for name, value in (("lens", BROWN[:5].expand(4, 5)), ("fisheye", FISHEYE.expand(4, 4))):
        with pytest.raises(InvalidArgument, match=rf"batch\['{name}'\].*affine maps.*RandomPerspective.*cameras='matrix'"):
            P.Pipeline(steps, seed=0, cameras="pose")(batch | {name: value})
        assert torch.equal(P.Pipeline(steps, seed=0)(batch | {name: value})[name], value)


@pytest.mark.parametrize("cameras", ["matrix", "pose"])
def test_maps_of_a_camera_frame_keep_to_its_matrix(cameras):
    """Every pixel's point and ray, projected by the matrix, are that pixel, and the normal is that of the plane of the points."""
    camera = scene(6, 1, DOUBLE)[0]
    x, y = torch.meshgrid(torch.arange(SIZE[1], dtype=DOUBLE), torch.arange(SIZE[0], dtype=DOUBLE), indexing="xy")
    pixels = torch.stack((x, y, torch.ones_like(x))).flatten(1)
    rays = (torch.linalg.inv(camera) @ pixels).unflatten(2, SIZE)
    normal = torch.nn.functional.normalize(torch.tensor([[0.3, -0.2, -1.0]], dtype=DOUBLE), dim=1)[..., None, None]
    points = rays * (-5.0 / (rays * normal).sum(1, keepdim=True))  # on the plane normal . x = -5
    batch = {"image": torch.rand(6, 3, *SIZE, dtype=DOUBLE), "intrinsics": camera, "rays": rays}
    augment = P.Pipeline([*AFFINE[:1], *AFFINE[2:], P.CenterCrop(30)], seed=4, cameras=cameras, return_valid=True)
    if cameras == "pose":  # beside the matrix they turn with their picture, whatever its camera is
        batch |= {"normals": normal.expand(6, 3, *SIZE), "pointmap": points}
    out, record = augment(batch, return_record=True)
    shown = -torch.nn.functional.max_pool2d(-out["valid"], 5, 1, 2)[:, 0] > 0.999
    assert shown.double().mean() > 0.3
    grid = torch.stack(torch.meshgrid(*[torch.arange(30, dtype=DOUBLE)] * 2, indexing="xy"), -1)
    there = projected(out["intrinsics"], out["rays"].flatten(2).mT).unflatten(1, (30, 30))  # rays are linear in pixels
    assert (there - grid).abs()[shown].max() < 1e-9
    if cameras == "matrix":
        return
    there = projected(out["intrinsics"], out["pointmap"].flatten(2).mT).unflatten(1, (30, 30))
    assert (there - grid).abs()[shown].max() < 0.01  # points of the plane are read between pixels
    assert ((out["pointmap"] * out["normals"]).sum(1) + 5.0).abs()[shown].max() < 1e-9
    back = augment.inverse({name: value for name, value in out.items() if name != "valid"}, record)
    known = shown.double()[:, None].expand(-1, 3, -1, -1)
    known = augment.inverse({"heatmap": known, "intrinsics": out["intrinsics"]}, record)["heatmap"] > 0.999
    assert known.double().mean() > 0.1
    for name in ("rays", "normals"):
        assert (back[name] - batch[name]).abs()[known].max() < 1e-9
    refused(InvalidArgument, "intrinsics of its camera beside it", augment, {"image": batch["image"], "rays": rays})
    with pytest.raises(InvalidArgument, match=r"batch\['normals'\].*RandomElastic"):
        P.Pipeline([P.RandomElastic()], cameras="pose")({name: batch[name] for name in ("image", "intrinsics", "normals")})


@pytest.mark.parametrize("cameras", ["matrix", "pose"])
def test_corners_of_boxes_in_space_land_where_their_pixels_went(cameras):
    camera = scene(16, 1, DOUBLE)[0]
    boxes = BOXES.expand(16, 2, 7)
    batch = {"image": torch.rand(16, 3, *SIZE, dtype=DOUBLE), "intrinsics": camera, "boxes3d": boxes}
    batch["keypoints"] = projected(camera, corners(boxes).flatten(1, 2))
    augment = P.Pipeline(UPRIGHT if cameras == "pose" else AFFINE, seed=3, cameras=cameras)
    out, record = augment(batch, return_record=True)
    found = projected(out["intrinsics"], corners(out["boxes3d"]).flatten(1, 2)).unflatten(1, (2, 8))
    wanted = out["keypoints"].unflatten(1, (2, 8))
    if cameras == "pose":  # a mirror exchanges corners of left and right
        assert (torch.cdist(found, wanted).amin(-1) < 1e-9).all()
        assert len(out["boxes3d"][:, 0, 6].unique()) > 1
        assert (out["intrinsics"].diagonal(dim1=1, dim2=2) > 0).all()
    else:
        assert torch.equal(out["boxes3d"], boxes)
        assert (found - wanted).abs().max() < 1e-9
    assert out["boxes3d_valid"].all()
    back = augment.inverse({name: out[name] for name in ("image", "intrinsics", "boxes3d")}, record)
    assert torch.allclose(corners(back["boxes3d"]), corners(boxes), atol=1e-9)


def test_what_a_box_cannot_follow_beside_a_pose_is_refused():
    camera = scene(2, 1, torch.float32)[0]
    batch = {"image": torch.rand(2, 3, *SIZE), "intrinsics": camera, "boxes3d": BOXES.float().expand(2, 2, 7)}
    refused(InvalidArgument, r"boxes3d.*upright.*RandomRotation", P.Pipeline([P.RandomRotation(5)], cameras="pose"), batch)
    del batch["intrinsics"]
    refused(InvalidArgument, r"intrinsics of its camera.*0 of them", P.Pipeline([P.RandomHorizontalFlip()], cameras="pose"), batch)
    assert P.Pipeline([P.RandomRotation(5)])(batch)["boxes3d_valid"].all()
    refused(InvalidArgument, r"one picture each.*Mosaic", P.Pipeline([P.Mosaic(p=1.0)]), batch)
    refused(InvalidArgument, "4, 5, 8 or 12", P.Pipeline([]), {"image": batch["image"], "lens": torch.zeros(2, 14)})


def test_gradients_of_what_turns():
    assert torch.autograd.gradcheck(
        turn_lens, (BROWN[None].clone().requires_grad_(), torch.eye(3, dtype=DOUBLE)[None].requires_grad_())
    )
    turn = torch.diag(torch.tensor([-1.0, 1.0, 1.0], dtype=DOUBLE))[None]
    assert torch.autograd.gradcheck(turn_boxes3d, (BOXES[None].clone().requires_grad_(), turn.requires_grad_()))
    camera, points, _ = scene(1, 5, DOUBLE)
    lens = BROWN[None, :5]
    augment = P.Pipeline([P.RandomAffine(30, scale=(0.8, 1.2)), P.RandomHorizontalFlip(p=1.0)], seed=1, cameras="pose")
    batch = {"image": torch.rand(1, 3, *SIZE, dtype=DOUBLE), "intrinsics": camera, "lens": lens}
    batch["extrinsics"] = torch.eye(4, dtype=DOUBLE)[None]
    record = augment.draw(batch)

    def pixels(degrees, scale):
        out = augment.apply(batch, record.with_param(0, "degrees", degrees).with_param(0, "scale", scale))
        return seen(out["intrinsics"], points @ out["extrinsics"][:, :3, :3].mT, out["lens"])

    values = [record.params[0][name].double().clone().requires_grad_() for name in ("degrees", "scale")]
    assert torch.autograd.gradcheck(pixels, values)


@pytest.mark.parametrize(
    "steps", [[P.RandomElastic(p=1.0)], [P.CenterCrop(40), P.LensDistortion(p=1.0), P.RandomAffine(20), P.RandomHorizontalFlip()]]
)
def test_a_field_leaves_a_residual_beside_the_matrix(steps):
    camera, points, pixels = scene(3, 60, DOUBLE)
    batch = {"image": torch.rand(3, 3, *SIZE, dtype=DOUBLE), "intrinsics_left": camera, "keypoints": pixels}
    augment = P.Pipeline(steps, seed=1, cameras="residual")
    out, record = augment(batch, return_record=True)
    height, width = out["image"].shape[-2:]
    assert out["residual_left"].shape == (3, 2, height, width)
    # A point's pixel, plus what the residual says there, is where the matrix puts it.
    straight = projected(out["intrinsics_left"], points)
    inner = ((out["keypoints"] > 1) & (out["keypoints"] < torch.tensor([width - 2, height - 2]))).all(-1)
    grid = (2 * out["keypoints"] + 1) / torch.tensor([width, height]) - 1
    read = torch.nn.functional.grid_sample(out["residual_left"], grid[:, None], align_corners=False)[:, :, 0].mT
    assert inner.sum() > 20
    assert (out["keypoints"] + read - straight)[inner].abs().max() < 0.02  # read between pixels
    assert (out["keypoints"] - straight)[inner].abs().max() > 0.3
    back = augment.inverse(out, record)
    assert torch.allclose(back["intrinsics_left"], camera, atol=1e-9)
    plain = P.Pipeline([P.RandomRotation(20)], seed=1, cameras="residual")(batch)
    assert "residual_left" not in plain


def test_scenes_in_lists_clips_shares_and_collate():
    camera, boxes, lens = scene(2, 1, torch.float32)[0], BOXES.float(), BROWN[:5].float()
    augment = P.Pipeline([P.RandomResizedCrop(32), P.RandomHorizontalFlip()], seed=0, same_on_batch=True, cameras="pose")
    images = [torch.rand(3, 40, 50), torch.rand(3, 64, 32)]
    given = {"image": images, "intrinsics": list(camera), "boxes3d": [boxes, boxes[:1]], "lens": [lens, lens.tolist()]}
    listed = augment(given, key=P.Key(7))
    for i in range(2):
        alone = augment({name: value[i] for name, value in given.items()}, key=P.Key(7))
        for name in ("intrinsics", "lens"):
            assert torch.allclose(listed[name][i], alone[name], atol=1e-4), name
        assert torch.allclose(listed["boxes3d"][i][: 2 - i], alone["boxes3d"], atol=1e-5)
        assert alone["image"].shape == listed["image"][i].shape == (3, 32, 32)
    assert listed["boxes3d_valid"].tolist() == [[True, True], [True, False]]
    clip = {"image": torch.rand(1, 2, 3, 40, 50), "intrinsics": camera[None], "lens": lens.expand(1, 2, 5)}
    assert augment(clip)["lens"].shape == (1, 2, 5)
    names = {"left": "image", "right": "image"}
    shared = P.Pipeline([P.RandomHorizontalFlip(p=1.0)], targets=names, share={"geometry": []}, cameras="pose")
    eyes = {"left": torch.rand(2, 3, 8, 8), "right": torch.rand(2, 3, 8, 12), "lens_left": lens.expand(2, 5)}
    eyes |= {"intrinsics_left": camera, "intrinsics_right": camera}
    assert torch.allclose(shared(eyes)["lens_left"][:, 3], -lens[3])
    samples = [{name: value[i] for name, value in given.items()} for i in range(2)]
    batch = collate(augment)(samples)
    assert batch["lens"].shape == (2, 5)
    assert batch["boxes3d"].shape == (2, 2, 7)
    # Objects go with their upright boxes.
    flat = {"image": images[0], "boxes": torch.tensor([[1.0, 1, 5, 5], [20, 15, 30, 25]]), "boxes3d": boxes, "labels": [1, 2]}
    kept = P.Pipeline([P.CenterCrop(16)], drop_invalid=True)(flat)
    assert kept["labels"] == [2]
    assert torch.equal(kept["boxes3d"], boxes[1:])
