"""Maps of volumes against scipy, and every target against the volume."""

import math

import numpy as np
import pytest
import torch
from scipy import ndimage
from scipy.spatial.transform import Rotation

import pellucid as P
from pellucid.geometry.space import transform_points3
from tests.volumes.cases import everything, voxels


def by_scipy(volume, src_from_dst, size, order=1, mode="grid-constant", cval=0.0):
    """scipy's axes are (z, y, x)."""
    linear, shift = src_from_dst[:3, :3][::-1, ::-1], src_from_dst[:3, 3][::-1]
    return ndimage.affine_transform(volume, linear, shift, output_shape=size, order=order, mode=mode, cval=cval)


@pytest.mark.parametrize(("dtype", "error"), [(torch.float64, 1e-12), (torch.float32, 1e-6)])
@pytest.mark.parametrize("mode", ["zeros", "border"])
def test_a_run_is_one_affine_transform_of_scipy(dtype, error, mode):
    x = voxels(2, (7, 9, 8), dtype=dtype)
    steps = [P.RandomFlip3("x"), P.RandomFlip3("z"), P.RandomAffine3((30, 20, 15), 0.1, scale=(0.8, 1.2), padding_mode=mode)]
    out, record = P.Pipeline(steps, seed=1)(x, return_record=True)
    assert str(record.plan) == "Warp3[0,1,2]"
    for b in range(2):
        for c in range(2):
            how = {"mode": "grid-constant"} if mode == "zeros" else {"mode": "nearest"}
            expected = by_scipy(x[b, c].double().numpy(), record.src_from_dst[b].numpy(), (7, 9, 8), **how)
            assert np.abs(out[b, c].double().numpy() - expected).max() < error


def test_turns_are_scipys_and_agree_with_pictures():
    degrees = (25.0, -40.0, 70.0)
    turn = P.RandomAffine3(tuple((d, d) for d in degrees))
    matrix = P.Pipeline([turn]).draw(voxels(1)).matrix[0, :3, :3].numpy()
    # Scipy's turns go the other way round in a frame whose axes point right, down and away.
    assert np.abs(matrix - Rotation.from_euler("xyz", [-d for d in degrees], degrees=True).as_matrix()).max() < 1e-12
    x = voxels(1, (3, 9, 9))
    flat = P.RandomRotation((33.0, 33.0))(x[0].transpose(0, 1))
    assert (P.RandomAffine3(((0, 0), (0, 0), (33.0, 33.0)))(x)[0].transpose(0, 1) - flat).abs().max() < 1e-6


def test_angles_are_angles_in_millimetres():
    """With voxels 2.5 mm long along z, a turn keeps distances in millimetres, not in voxels."""
    batch = everything(2, spacing=(1.0, 1.0, 2.5))
    augment = P.Pipeline([P.RandomAffine3(40)], seed=4)
    record = augment(batch, return_record=True)[1]
    scale = torch.diag(torch.tensor((1.0, 1.0, 2.5), dtype=torch.float64))
    world = scale @ record.matrix[:, :3, :3] @ torch.linalg.inv(scale)
    assert (world @ world.mT - torch.eye(3)).abs().max() < 1e-12
    bare = augment.apply(batch, augment.draw(batch["volume"]))  # nothing says of voxels that they are no cubes
    assert bare["volume"].shape == batch["volume"].shape
    unlike = augment.draw(batch["volume"], key=P.Key(4)).matrix[:, :3, :3]
    assert (unlike @ unlike.mT - torch.eye(3)).abs().max() < 1e-12


def test_spacing_follows_the_steps_before():
    """The second turn is rigid in the frame that the first map has made, as a first turn of what that made would be."""
    batch = everything(1, spacing=(1.0, 2.0, 3.0))
    stretch = P.RandomAffine3(scale=((2, 2), (1, 1), (0.5, 0.5)))
    _, record = P.Pipeline([stretch, P.RandomAffine3((20, 30, 40))], seed=1, canvas="image")(batch, return_record=True)
    between = P.Pipeline([stretch])(batch)
    spacing = torch.linalg.vector_norm(between["affine"][:, :3, :3], dim=1)
    assert torch.allclose(spacing, torch.tensor([[0.5, 2.0, 6.0]], dtype=torch.float64))
    second = P.Pipeline([P.RandomAffine3((20, 30, 40))])
    step = second.draw(between).with_param(0, "spacing", spacing)
    for name in ("degrees_x", "degrees_y", "degrees_z"):
        step = step.with_param(0, name, record.params[1][name])
    assert (record.matrix - step.matrix @ P.Pipeline([stretch]).draw(batch).matrix).abs().max() < 1e-12


def test_world_coordinates_stay():
    """A point's place in the world is the same before and after."""
    batch = everything()
    out = P.Pipeline([P.RandomFlip3("y"), P.RandomAffine3(30, 0.1, scale=(0.7, 1.3))], seed=5)(batch)

    def world(one):
        return one["points3"] @ one["affine"][:, :3, :3].mT + one["affine"][:, None, :3, 3]

    assert (world(out) - world(batch)).abs().max() < 1e-10


def test_a_bright_voxel_lands_where_its_point_does():
    x, at = torch.zeros(4, 1, 15, 17, 16), torch.tensor([[8.0, 7.0, 6.0]])
    x[:, 0, 6, 7, 8] = 1.0
    out, record = P.Pipeline([P.RandomFlip3("x"), P.RandomAffine3(40, 0.1, scale=(0.9, 1.3))], seed=2)(
        {"volume": x, "points3": at.expand(4, 1, 3)}, return_record=True
    )
    weight = out["volume"][:, 0]
    z, y, x = (torch.arange(n, dtype=torch.float32) for n in weight.shape[1:])
    total = weight.sum((1, 2, 3))
    centre = torch.stack(((weight.sum((1, 2)) @ x) / total, (weight.sum((1, 3)) @ y) / total, (weight.sum((2, 3)) @ z) / total), -1)
    assert (centre - out["points3"][:, 0]).abs().max() < 0.2  # the kernel's weights are not quite symmetric
    assert (record.map_points(at[None].double())[:, 0] - out["points3"][:, 0]).abs().max() < 1e-5
    assert out["points3_valid"].all()


def test_labels_are_a_nearest_volume():
    batch = everything(3, (9, 8, 7))
    steps = [P.RandomFlip3("z"), P.RandomAffine3(25, 0.1, scale=(0.8, 1.2), interpolation="nearest")]
    batch["volume"] = batch["labelmap"][:, None].to(torch.float32)
    out = P.Pipeline(steps, seed=3)(batch)
    assert out["labelmap"].dtype == torch.int64
    assert torch.equal(out["labelmap"], out["volume"][:, 0].long())


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int64, torch.bool, torch.float32])
def test_labels_of_any_dtype(dtype):
    labels = torch.randint(0, 2, (2, 5, 6, 7)).to(dtype)
    labels = labels + (1 << 40) if dtype == torch.int64 else labels
    out = P.Pipeline([P.RandomFlip3("x", p=1.0)], mask_fill=0)({"labelmap": labels})["labelmap"]
    assert out.dtype == dtype
    assert torch.equal(out, labels.flip(-1))


def test_cuboids_are_the_hulls_of_their_corners():
    batch = everything(2, (20, 20, 20))
    batch["cuboids"] = (
        torch.tensor([[[6.0, 7.0, 8.0, 12.0, 11.0, 13.0], [0.0, 0.0, 0.0, 20.0, 20.0, 20.0]]]).expand(2, 2, 6).double()
    )
    out, record = P.Pipeline([P.RandomAffine3(20, 0.0, scale=(0.8, 1.1))], seed=6)(batch, return_record=True)
    corners = [[a, b, c] for a in (6.0, 12.0) for b in (7.0, 11.0) for c in (8.0, 13.0)]
    moved = record.map_points(torch.tensor([corners]).double() - 0.5) + 0.5
    assert (out["cuboids"][:, 0] - torch.cat((moved.amin(1), moved.amax(1)), -1)).abs().max() < 1e-10
    assert out["cuboids"][:, 1].min() >= 0
    assert out["cuboids"][:, 1].max() <= 20
    assert out["cuboids_valid"].all()
    gone = P.Pipeline([P.RandomAffine3(translate=((0.9, 0.9), 0, 0))])(batch)
    assert gone["cuboids_valid"].tolist() == [[False, True]] * 2


def test_left_and_right_change_places():
    batch = everything(2)
    pairs = {"labelmap": [(1, 2)], "points3": [(0, 3)]}
    steps = [P.RandomFlip3("x"), P.RandomFlip3("z", p=1.0)]
    out, record = P.Pipeline(steps, seed=0, pairs=pairs)(batch, return_record=True)
    plain = P.Pipeline(steps).apply(batch, record)
    mirrored = record.params[0]["gate"] == 0  # with the other flip, a map that mirrors
    assert mirrored.any()
    assert not mirrored.all()
    swap = torch.tensor([0, 2, 1, 3, 4])
    for b in range(2):
        assert torch.equal(out["labelmap"][b], swap[plain["labelmap"][b]] if mirrored[b] else plain["labelmap"][b])
        order = [3, 1, 2, 0, 4] if mirrored[b] else [0, 1, 2, 3, 4]
        assert torch.equal(out["points3"][b], plain["points3"][b, order])


def test_inverse():
    batch = everything(2, (9, 9, 9))
    augment = P.Pipeline([P.RandomFlip3("x"), P.RandomFlip3("y")], seed=1)
    out, record = augment(batch, return_record=True)
    back = augment.inverse(out, record)
    assert all(torch.equal(back[key], batch[key]) for key in ("volume", "labelmap"))
    assert all((back[key] - batch[key]).abs().max() < 1e-10 for key in ("points3", "cuboids", "affine"))
    turn = P.Pipeline([P.RandomAffine3(20, scale=(1.6, 1.7))], seed=2)
    z, y, x = torch.meshgrid(*[torch.arange(9.0, dtype=torch.float64)] * 3, indexing="ij")
    smooth = (x + 2 * y - z)[None, None] / 20.0  # which linear interpolation keeps
    out, record = turn(smooth, return_record=True)
    again, valid = turn.inverse(out, record, return_valid=True)
    assert (again - smooth)[valid > 0.999].abs().max() < 1e-9
    assert (valid > 0.999).double().mean() > 0.1


def test_what_a_step_cuts_off_stays_cut_off():
    """Two turns about z by 45 degrees leave of a cube's corners what two calls leave; the rule ``image`` shows all of it."""
    x = torch.ones(1, 1, 4, 12, 12)
    turn = P.RandomAffine3(((0, 0), (0, 0), (45, 45)))
    twice = P.Pipeline([turn, turn])
    assert str(twice.draw(x).plan) == "Warp3[0] -> Warp3[1]"
    assert torch.equal(twice(x), turn(turn(x)))
    whole = P.Pipeline([turn, turn], canvas="image")
    assert str(whole.draw(x).plan) == "Warp3[0,1]"
    assert torch.equal(whole(x), x)
    corner = {"points3": torch.zeros(1, 1, 3), "volume": x}
    assert not twice(corner)["points3_valid"].any()
    assert whole(corner)["points3_valid"].all()


def test_fill_and_valid():
    x = torch.full((1, 1, 4, 4, 4), 2.0)
    shift = P.Pipeline([P.RandomAffine3(translate=((0.5, 0.5), 0, 0), fill=-1000.0, mask_fill=9)], return_valid=True)
    out = shift({"volume": x, "labelmap": torch.ones(1, 4, 4, 4, dtype=torch.uint8)})
    assert out["volume"][0, 0, 0, 0].tolist() == [-1000.0, -1000.0, 2.0, 2.0]
    assert out["labelmap"][0, 0, 0].tolist() == [9, 9, 1, 1]
    assert out["valid"].shape == (1, 1, 4, 4, 4)
    assert out["valid"][0, 0, 0, 0].tolist() == [0.0, 0.0, 1.0, 1.0]


def test_gates_are_drawn_as_often_as_they_say():
    gates = P.Pipeline([P.RandomFlip3("x", p=0.3)], seed=0).draw(torch.zeros(4000, 1, 1, 1, 1)).params[0]["gate"]
    assert abs(gates.mean() - 0.3) < 4 * math.sqrt(0.3 * 0.7 / 4000)


@pytest.mark.parametrize("canvas", ["each", "image"])
def test_a_window_behind_a_field_reads_only_what_it_keeps(canvas):
    steps = [P.RandomAffine3(20, scale=(0.8, 1.2)), P.RandomElastic3(5, magnitude=0.3), P.RandomCrop3((9, 12, 7))]
    batch = {
        "volume": voxels(3, (16, 20, 18), dtype=torch.float64),
        "labelmap": torch.randint(0, 5, (3, 16, 20, 18), generator=torch.Generator().manual_seed(1)),
        "points3": torch.tensor([[[8.0, 9.0, 7.0]]], dtype=torch.float64).expand(3, 1, 3),
    }
    out, record = P.Pipeline(steps, seed=2, canvas=canvas)(batch, return_record=True)
    assert str(record.plan) == "Warp3[0,1,2]"
    whole = P.Pipeline(steps[:2], seed=2, canvas=canvas)(batch)
    corner = torch.stack([record.params[2][name] for name in ("left", "top", "front")], 1)
    for b, (left, top, front) in enumerate(corner.long().tolist()):
        window = (..., slice(front, front + 9), slice(top, top + 12), slice(left, left + 7))
        torch.testing.assert_close(out["volume"][b], whole["volume"][b][window], rtol=0.0, atol=1e-12)
        assert torch.equal(out["labelmap"][b], whole["labelmap"][b][window])
    torch.testing.assert_close(out["points3"] + corner[:, None], whole["points3"].double(), rtol=0.0, atol=1e-6)
    turned = P.Pipeline([*steps[:2], P.RandomFlip3("x", p=1.0)])
    assert str(turned(batch, return_record=True)[1].plan) == "Warp3[0,1] -> Warp3[2]"


def test_a_window_behind_a_field_has_a_gradient():
    x = voxels(2, (4, 5, 4), channels=1, dtype=torch.float64)
    augment = P.Pipeline([P.RandomElastic3(4, magnitude=0.3), P.RandomCrop3(2)], seed=3)
    _, record = augment(x, return_record=True)
    left = record.params[1]["left"].double()

    def cropped(left, x):
        return augment.apply(x, record.with_param(1, "left", left))

    assert torch.autograd.gradcheck(cropped, ((left + 0.25).requires_grad_(), x.requires_grad_()))
    assert torch.autograd.gradcheck(lambda x: cropped(left, x), x)


@pytest.mark.parametrize("broken", ["point", "map"])
def test_points_in_space_that_are_not_finite_in_one_number_give_nan_without_a_gradient(broken):
    points = torch.arange(12.0, dtype=torch.float64).reshape(2, 2, 3)
    maps = torch.eye(4, dtype=torch.float64).repeat(2, 1, 1)
    (points if broken == "point" else maps)[0, 0, 1] = torch.nan
    points.requires_grad_()
    moved = transform_points3(points, maps)
    (slope,) = torch.autograd.grad(moved.sum(), points)
    lost = torch.tensor([[True, broken == "map"], [False, False]])[..., None].expand(2, 2, 3)
    assert torch.equal(moved.isnan(), lost)
    assert torch.equal(slope, (~lost).double())
