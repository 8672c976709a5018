"""Flow, normals, and left and right: what a map does to targets beside moving them."""

import numpy as np
import pytest
import torch
from scipy.optimize import approx_fprime

import pellucid as P
from pellucid.geometry.points import transform_points
from pellucid.geometry.vectors import mirrors, turn_flow, turn_normals
from tests.refusals import refused

MAPS = {
    "affine": [P.RandomAffine(40, (0.1, 0.1), scale=(0.7, 1.4), shear=12), P.RandomHorizontalFlip(0.5)],
    "perspective": [P.RandomPerspective(0.5, p=1.0), P.RandomVerticalFlip(0.5)],
}


def _pixels(height, width):
    rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    return torch.stack((columns, rows), -1).double().reshape(1, -1, 2)


@pytest.mark.parametrize("maps", MAPS.values(), ids=MAPS)
def test_flow_leads_to_where_the_second_picture_shows_the_point(maps):
    """Every flow is linear in the pixel here, so that reading it between pixels costs nothing."""
    augment, pixels = P.Pipeline(maps, seed=3), _pixels(19, 23)
    flow = (pixels @ torch.tensor([[0.05, 0.11], [-0.07, 0.02]], dtype=torch.float64) + 0.4).mT.unflatten(-1, (19, 23))
    batch = {"image": torch.rand(6, 3, 19, 23), "flow": flow.expand(6, -1, -1, -1)}
    out, record = augment(batch, return_record=True)
    at = transform_points(pixels.expand(6, -1, -1), record.src_from_dst)
    there = at + at @ torch.tensor([[0.05, 0.11], [-0.07, 0.02]], dtype=torch.float64) + 0.4
    wanted = transform_points(there, record.matrix) - pixels
    inside = ((at > 0) & (at < torch.tensor([22, 18]))).all(-1)
    found = out["flow"].flatten(2).mT
    assert inside.float().mean() > 0.4
    torch.testing.assert_close(found[inside], wanted[inside], atol=1e-10, rtol=0)
    if maps is MAPS["perspective"]:  # which leaves nothing linear to read on the way back
        return
    back = augment.inverse({"image": out["image"], "flow": out["flow"]}, record)["flow"]
    middle = (slice(None), slice(None), slice(8, 11), slice(10, 13))
    torch.testing.assert_close(back[middle], batch["flow"][middle], atol=1e-6, rtol=0)


@pytest.mark.parametrize("maps", MAPS.values(), ids=MAPS)
def test_normals_are_those_of_the_moved_surface(maps):
    """Oracle: finite differences (scipy) of a plane that the map carries along, its depth zoomed as the docstring says."""
    augment = P.Pipeline(maps, seed=5)
    record = augment.draw({"image": torch.rand(3, 1, 20, 20)})
    slope = np.array([0.4, -0.3])
    normal = torch.tensor([-0.4, 0.3, 1.0], dtype=torch.float64)
    normal = normal / normal.norm()
    field = normal[:, None, None].expand(3, 3, 20, 20)
    found = turn_normals(field, record.src_from_dst.double())
    for sample in range(3):
        back = record.src_from_dst[sample].double().numpy()

        def source(q, back=back):
            x, y, w = back @ np.array([q[0], q[1], 1.0])
            return np.array([x, y]) / w

        for column, row in ((3, 4), (15, 9)):
            at = np.array([column, row], dtype=float)
            jacobian = approx_fprime(at, source, 1e-6)
            zoom = 1.0 / np.sqrt(abs(np.linalg.det(jacobian)))
            gradient = zoom * (slope @ jacobian)
            wanted = np.array([-gradient[0], -gradient[1], 1.0])
            np.testing.assert_allclose(found[sample, :, row, column], wanted / np.linalg.norm(wanted), atol=2e-5)


def test_closed_forms_of_normals():
    unit = torch.tensor([0.6, 0.0, 0.8])[:, None, None].expand(1, 3, 4, 4)
    image = torch.zeros(1, 1, 4, 4)

    def through(*transforms):
        return P.Pipeline(transforms)({"image": image, "normals": unit})["normals"][0, :, 2, 2]

    assert torch.equal(through(P.RandomHorizontalFlip(1.0)), torch.tensor([-0.6, 0.0, 0.8]))
    assert torch.equal(through(P.RandomVerticalFlip(1.0)), torch.tensor([0.6, 0.0, 0.8]))
    torch.testing.assert_close(through(P.RandomRotation90((1,))), torch.tensor([0.0, -0.6, 0.8]))  # counter-clockwise, y down
    torch.testing.assert_close(through(P.RandomScale((2.0, 2.0))), torch.tensor([0.6, 0.0, 0.8]))
    assert torch.equal(through(P.RandomRotation(0)), torch.tensor([0.6, 0.0, 0.8]))


@pytest.mark.parametrize(("turn", "channels"), [(turn_flow, 2), (turn_normals, 3)])
def test_gradients(turn, channels):
    maps = torch.tensor([[[0.9, 0.2, 1.0], [-0.1, -1.1, 2.0], [0.02, -0.01, 1.0]]], dtype=torch.float64, requires_grad=True)
    field = torch.rand(1, channels, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 0.2
    assert torch.autograd.gradcheck(turn, (field.requires_grad_(), maps), fast_mode=False)
    zeros = torch.zeros(1, channels, 3, 4, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(turn(zeros, maps).sum(), zeros)
    assert gradient.isfinite().all()


def test_left_and_right_change_places_where_the_map_mirrors():
    points = torch.tensor([[2.0, 3.0, 1.0], [5.0, 6.0, 1.0], [9.0, 8.0, 0.0]]).expand(16, 3, 3)
    maps = torch.rand(16, 3, 12, 12)
    augment = P.Pipeline(
        [P.RandomHorizontalFlip(0.5), P.RandomVerticalFlip(0.5), P.RandomRotation(180)],
        seed=2,
        pairs={"keypoints": [(1, 2)], "heatmap": [(0, 2)]},
    )
    flags = torch.tensor([True, True, False]).expand(16, 3)
    batch = {"image": maps, "keypoints": points, "keypoints_valid": flags, "heatmap": maps}
    out, record = augment(batch, return_record=True)
    plain = P.Pipeline(augment.transforms, seed=2).apply(batch, record)
    mirrored = torch.linalg.det(record.matrix.double()) < 0
    assert 0 < mirrored.sum() < 16
    for sample in range(16):
        order = [0, 2, 1] if mirrored[sample] else [0, 1, 2]
        assert torch.equal(out["keypoints"][sample], plain["keypoints"][sample][order])
        assert torch.equal(out["keypoints_valid"][sample], plain["keypoints_valid"][sample][order])
        channels = [2, 1, 0] if mirrored[sample] else [0, 1, 2]
        assert torch.equal(out["heatmap"][sample], plain["heatmap"][sample][channels])
    back = augment.inverse({"image": out["image"], "keypoints": out["keypoints"]}, record)["keypoints"]
    torch.testing.assert_close(back[..., :2], points[..., :2], atol=1e-4, rtol=0)


def test_one_sample_a_video_and_a_file(tmp_path):
    augment = P.Pipeline([P.RandomHorizontalFlip(1.0)], pairs={"keypoints": [(0, 1)]}, seed=1)
    points = torch.tensor([[1.0, 1.0], [4.0, 2.0]])
    wanted = torch.tensor([[3.0, 2.0], [6.0, 1.0]])
    one = augment({"image": torch.zeros(3, 8, 8), "keypoints": points})
    assert torch.equal(one["keypoints"], wanted)
    assert one["keypoints_valid"].shape == (2,)
    video = augment({"image": torch.zeros(2, 4, 3, 8, 8), "keypoints": points.expand(2, 4, 2, 2)})
    assert torch.equal(video["keypoints"], wanted.expand(2, 4, 2, 2))
    for name in ("a.toml", "a.json"):
        augment.save(tmp_path / name)
        again = P.Pipeline.load(tmp_path / name)
        assert again.options.pairs == {"keypoints": ((0, 1),)}


def test_mirrors_is_judged_in_the_middle():
    horizon = torch.tensor([[[1.0, 0, 0], [0, 1, 0], [0.2, 0, -1]], [[1.0, 0, 0], [0, 1, 0], [0, 0, torch.nan]]])
    # Beyond the horizon (x > 5) the depth is positive and the determinant is negative: mirrored there, not before it.
    assert mirrors(horizon, (3, 20)).tolist() == [True, False]
    assert mirrors(horizon, (3, 4)).tolist() == [False, False]


def test_pairs_that_are_none_are_refused():
    refused(P.InvalidArgument, "pairs", P.Pipeline, [], pairs={"keypoints": [(0, 0)]})
    refused(P.InvalidArgument, "pairs", P.Pipeline, [], pairs={"keypoints": [(0, 1), (1, 2)]})
    refused(P.InvalidArgument, "pairs", P.Pipeline, [], pairs={"keypoints": [(-1, 1)]})
    refused(P.InvalidArgument, "pairs", P.Pipeline, [], pairs={"boxes": [(0, 1)]})
    refused(P.InvalidArgument, "pairs", P.Pipeline, [], pairs={"what": [(0, 1)]})
    refused(P.InvalidType, "pairs", P.Pipeline, [], pairs={"keypoints": 3})
    refused(P.InvalidType, "pairs", P.Pipeline, [], pairs={"keypoints": [(0.0, 1)]})
    refused(P.InvalidType, "pairs", P.Pipeline, [], pairs=[(0, 1)])


def test_what_does_not_fit_is_refused():
    image = torch.zeros(1, 3, 8, 8)
    with pytest.raises(P.InvalidArgument, match="places below 2"):
        P.Pipeline([P.RandomHorizontalFlip()], pairs={"keypoints": [(0, 2)]})({"image": image, "keypoints": torch.zeros(1, 2, 2)})
    refused(P.InvalidArgument, r"\(B, 2, H, W\)", P.Pipeline([]), {"image": image, "flow": torch.zeros(1, 3, 8, 8)})
    refused(P.InvalidArgument, r"\(B, 3, H, W\)", P.Pipeline([]), {"image": image, "normals": torch.zeros(1, 8, 8)})


def test_boxes_and_rotated_boxes_in_one_batch():
    augment = P.Pipeline([P.RandomHorizontalFlip(1.0)], box_format={"boxes_turned": "cxcywhr"})
    boxes, turned = torch.tensor([[[1.0, 2.0, 4.0, 5.0]]]), torch.tensor([[[2.5, 3.5, 3.0, 3.0, 0.25]]])
    out = augment({"image": torch.zeros(1, 3, 8, 8), "boxes": boxes, "boxes_turned": turned}, key=P.Key(0))
    assert torch.equal(out["boxes"], torch.tensor([[[4.0, 2.0, 7.0, 5.0]]]))
    torch.testing.assert_close(out["boxes_turned"], torch.tensor([[[5.5, 3.5, 3.0, 3.0, -0.25]]]))
    assert out["boxes_valid"].all()
    assert out["boxes_turned_valid"].all()


def test_flow_under_a_field_ends_where_its_points_go():
    """Every flow is the same here, so that reading it costs nothing; points go by the record, whose oracle is scipy's."""
    augment = P.Pipeline([P.RandomRotation(20), P.RandomElastic(8, magnitude=0.3), P.RandomHorizontalFlip(0.5)], seed=3)
    image, pixels = torch.rand(4, 3, 24, 28), _pixels(24, 28).expand(4, -1, -1)
    flow = torch.tensor([2.5, -1.25], dtype=torch.float64)
    batch = {"image": image, "flow": flow[:, None, None].expand(4, 2, 24, 28), "heatmap": torch.ones(4, 1, 24, 28)}
    out, record = augment(batch, return_record=True)
    source = record.flow().flatten(2).mT + pixels
    wanted = record.map_points(source + flow) - pixels
    inside = out["heatmap"].flatten(1) == 1  # elsewhere a canvas shows, and its flow of zero, in part or alone
    assert inside.float().mean() > 0.5
    torch.testing.assert_close(out["flow"].flatten(2).mT[inside], wanted[inside], atol=1e-6, rtol=0)
    back = augment.inverse({"image": out["image"], "flow": out["flow"]}, record)["flow"][..., 10:14, 12:16]
    assert (back.mean((2, 3)) - flow).abs().max() < 0.2  # read between pixels of a flow that is no longer linear


@pytest.mark.parametrize("field", [P.RandomElastic(8, magnitude=0.3), P.GridDistortion(3, magnitude=0.33)], ids=["cubic", "linear"])
def test_normals_under_a_field_are_turned_by_its_derivative(field):
    """Oracle: central differences (of record.flow's exact places) in the place of the derivative, and the closed form of a map."""
    augment = P.Pipeline([P.RandomRotation(20), field], seed=4)
    normal = torch.tensor([0.48, -0.36, 0.8], dtype=torch.float64)
    batch = {"image": torch.rand(2, 3, 24, 28), "normals": normal[:, None, None].expand(2, 3, 24, 28)}
    out, record = augment(batch, return_record=True)
    places = record.flow() + _pixels(24, 28).mT.unflatten(2, (24, 28))
    for row, column in ((9, 11), (15, 16)):
        for sample in range(2):
            step = 1e-4
            here = places[sample, :, row, column]
            offsets = step * torch.tensor([[1.0, 0], [-1, 0], [0, 1], [0, -1]], dtype=torch.float64)
            ends = record[sample].map_points((here + offsets)[None])[0]  # the map forwards, near the source
            forth = torch.stack(((ends[0] - ends[1]), (ends[2] - ends[3])), 1) / (2 * step)
            maps = torch.eye(3, dtype=torch.float64)[None].clone()
            maps[0, :2, :2] = torch.linalg.inv(forth)
            wanted = turn_normals(normal[None, :, None, None], maps)[0, :, 0, 0]
            torch.testing.assert_close(out["normals"][sample, :, row, column], wanted, atol=1e-5, rtol=0)


def test_gradients_of_vectors_under_a_field():
    augment = P.Pipeline([P.RandomElastic(4, magnitude=0.3)], seed=4)
    record = augment.draw(torch.rand(1, 3, 3, 4, dtype=torch.float64))
    field = torch.rand(1, 3, 3, 4, dtype=torch.float64) + 0.3

    def turned(vectors, magnitude):
        batch = {"image": vectors, "flow": vectors[:, :2], "normals": vectors}
        out = augment.apply(batch, record.with_param(0, "magnitude", magnitude))
        return out["flow"], out["normals"]

    magnitude = record.params[0]["magnitude"].double().requires_grad_()
    assert torch.autograd.gradcheck(turned, (field.requires_grad_(), magnitude), fast_mode=False)
