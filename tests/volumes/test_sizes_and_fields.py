"""Crops, pads, resizes, quarter turns and elastic fields against numpy, torch and scipy."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy import ndimage
from scipy.interpolate import NdBSpline

import pellucid as P
from tests.refusals import refused
from tests.volumes.cases import everything, voxels


def test_crops_and_pads_are_slices():
    batch = everything(4, (9, 8, 10))
    out, record = P.Pipeline([P.RandomCrop3((4, 5, 6))], seed=0)(batch, return_record=True)
    starts = [[int(record.params[0][name][b]) for name in ("front", "top", "left")] for b in range(4)]
    assert len(set(map(tuple, starts))) > 1
    for b, (z, y, x) in enumerate(starts):
        assert torch.equal(out["volume"][b], batch["volume"][b, :, z : z + 4, y : y + 5, x : x + 6])
        assert torch.equal(out["labelmap"][b], batch["labelmap"][b, z : z + 4, y : y + 5, x : x + 6])
        assert torch.equal(out["points3"][b], batch["points3"][b] - torch.tensor([x, y, z]))
        inside = ((out["points3"][b] >= -0.5) & (out["points3"][b] < torch.tensor([6, 5, 4]) - 0.5)).all(-1)
        assert torch.equal(out["points3_valid"][b], inside)
    padded = P.Pad3((1, 2, 3), fill=7.0)(batch["volume"])
    assert torch.equal(padded, F.pad(batch["volume"], (3, 3, 2, 2, 1, 1), value=7.0))
    edge = P.Pad3(2, padding_mode="border")(batch["volume"])
    assert torch.equal(edge, F.pad(batch["volume"], (2,) * 6, mode="replicate"))
    both = P.RandomCrop3((11, 8, 4), pad_if_needed=True)(batch["volume"])
    assert torch.equal(both[:, :, 0], torch.zeros_like(both[:, :, 0]))
    assert both[:, :, 1:10].min() > 0


def test_a_crop_before_a_turn_hides_the_rest():
    """What a crop cuts off stays cut off, as in two calls."""
    x, crop, turn = voxels(1, (8, 8, 8)), P.RandomCrop3((8, 4, 4)), P.RandomAffine3(((0, 0), (0, 0), (45, 45)))
    augment = P.Pipeline([crop, turn], seed=3)
    out, record = augment(x, return_record=True)
    assert str(record.plan) == "Warp3[0] -> Warp3[1]"
    assert torch.equal(out, turn(P.Pipeline([crop]).apply(x, record.step(0))))
    after = P.Pipeline([turn, crop], seed=3)
    out, record = after(x, return_record=True)
    assert str(record.plan) == "Warp3[0,1]"
    assert (out - P.Pipeline([crop]).apply(turn(x), record.step(1))).abs().max() < 1e-6


@pytest.mark.parametrize("make", [lambda **o: P.Resize3(3, **o), P.RandomAffine3, P.RandomLowResolution])
def test_antialiasing_of_volumes_is_refused_by_name(make):
    refused(TypeError, "antialias", make, antialias=True)
    assert make()


@pytest.mark.parametrize("size", [(5, 9, 7), (12, 16, 14), (3, 2, 4)])
def test_resize_is_torchs(size):
    x = voxels(2, (6, 8, 7), dtype=torch.float64)
    out = P.Resize3(size)(x)
    assert (out - F.interpolate(x, size, mode="trilinear", align_corners=False)).abs().max() < 1e-12
    batch = everything(1, (6, 8, 7))
    moved = P.Pipeline([P.Resize3(size)])(batch)
    scale = torch.tensor([size[2] / 7, size[1] / 8, size[0] / 6], dtype=torch.float64)
    assert torch.allclose(moved["points3"], (batch["points3"] + 0.5) * scale - 0.5)
    assert torch.allclose(
        torch.linalg.vector_norm(moved["affine"][:, :3, :3], dim=1) * scale, torch.tensor([1.0, 1.0, 2.5]).double()
    )


@pytest.mark.parametrize(("axis", "plane"), [("x", (-2, -3)), ("y", (-3, -1)), ("z", (-1, -2))])
@pytest.mark.parametrize("times", [1, 2, 3])
def test_quarter_turns_are_numpys(axis, plane, times):
    x = voxels(1, (4, 5, 6))
    assert torch.equal(P.RandomQuarterTurn3(axis, (times,))(x), torch.rot90(x, times, plane[::-1]).contiguous())


def test_quarter_turns_agree_with_affine_turns():
    x = voxels(1, (5, 5, 5))
    for k, axis in enumerate("xyz"):
        degrees = tuple((90.0, 90.0) if k == i else (0.0, 0.0) for i in range(3))
        assert torch.equal(P.RandomAffine3(degrees)(x), P.RandomQuarterTurn3(axis, (1,))(x))


def test_turns_that_decide_sizes():
    turn, x = P.RandomQuarterTurn3("z"), voxels(3, (2, 4, 6))
    out = P.Pipeline([turn], seed=0)(list(x))
    assert {tuple(one.shape[1:]) for one in out} == {(2, 4, 6), (2, 6, 4)}
    refused(P.InvalidArgument, "one size for all samples of a batch", P.Pipeline([turn], seed=0), x)
    assert P.Pipeline([turn, P.RandomCrop3(2)], seed=0)(x).shape == (3, 2, 2, 2, 2)


def field_of_scipy(control, size):
    """Displacements (3, d, h, w), x, y, z, of one sample: control (3, gd, gh, gw)."""
    axes, places = [], []
    for length, count in zip(size, control.shape[1:], strict=True):
        axes.append(np.arange(-3.0, count + 1.0))
        places.append(np.arange(length) * (count - 3) / (length - 1))
    grid = np.stack(np.meshgrid(*places, indexing="ij"), -1)
    return np.stack([NdBSpline(tuple(axes), one, 3)(grid) for one in control])


@pytest.mark.parametrize("border", ["locked", "free"])
@pytest.mark.parametrize(("dtype", "error"), [(torch.float64, 1e-9), (torch.float32, 3e-6)])
def test_affine_and_elastic_are_one_read_of_scipy(border, dtype, error):
    size = (9, 11, 10)
    x = voxels(2, size, channels=1, dtype=dtype)
    steps = [P.RandomFlip3("x"), P.RandomAffine3(20, 0.1, scale=(0.9, 1.2)), P.RandomElastic3((4, 5, 3), 0.35, border=border)]
    canvas = "each" if border == "locked" else "image"
    augment = P.Pipeline(steps, seed=5, canvas=canvas)
    out, record = augment(x, return_record=True)
    assert str(record.plan) == "Warp3[0,1,2]"
    affine = P.Pipeline(steps[:2]).draw(x)
    for at in (0, 1):
        for name, value in record.params[at].items():
            affine = affine.with_param(at, name, value)
    control = steps[2].lower(record.params[2], record.plan.specs[2], torch.zeros((), dtype=torch.float64)).control
    for b in range(2):
        z, y, x0 = np.meshgrid(*(np.arange(float(n)) for n in size), indexing="ij")
        moved = np.stack((x0, y, z)) + field_of_scipy(control[b].numpy(), size)
        matrix = affine.src_from_dst[b].numpy()
        at = np.einsum("ij,jdhw->idhw", matrix[:3, :3], moved) + matrix[:3, 3, None, None, None]
        expected = ndimage.map_coordinates(x[b, 0].double().numpy(), at[::-1], order=1, mode="grid-constant")
        assert np.abs(out[b, 0].double().numpy() - expected).max() < error


def test_a_locked_field_keeps_the_border():
    x = voxels(2, (8, 9, 10), dtype=torch.float64)
    out = P.RandomElastic3(3, 0.4)(x)
    for axis in (2, 3, 4):
        for end in (0, -1):
            assert not torch.equal(out, x)
            border, before = out.select(axis, end), x.select(axis, end)
            assert (border - before).abs().max() < 1e-12
    whole = P.Pipeline([P.RandomElastic3(3, 0.4)], return_valid=True)({"volume": x})
    assert (whole["valid"] - 1).abs().max() < 1e-6


def test_points_and_cuboids_follow_fields():
    batch = everything(3, (14, 15, 16)) | {"volume": voxels(3, (14, 15, 16), channels=3)}
    augment = P.Pipeline([P.RandomFlip3("y"), P.RandomElastic3(5, 0.4)], seed=1)
    out, record = augment(batch, return_record=True)
    z, y, x = torch.meshgrid(*(torch.arange(n, dtype=torch.float64) for n in (14, 15, 16)), indexing="ij")
    places = augment.apply(torch.stack((x, y, z)).expand(3, -1, -1, -1, -1), record)  # where each output voxel reads
    grid = 2.0 * out["points3"] / torch.tensor([15.0, 14.0, 13.0], dtype=torch.float64) - 1.0
    read = F.grid_sample(places, grid[:, :, None, None], align_corners=True)[..., 0, 0].mT
    assert (read - batch["points3"]).abs().max() < 0.2  # linear between voxels, the field is cubic
    assert out["points3_valid"].all()
    back = augment.inverse(out, record)
    assert (back["points3"] - batch["points3"]).abs().max() < 1e-6
    assert (back["affine"] - batch["affine"]).abs().max() < 1e-12
    corners = record.map_points(batch["cuboids"][:, :, :3] - 0.5) + 0.5
    assert (out["cuboids"][..., :3] <= corners + 1e-9).all()
    with pytest.raises(P.InvalidArgument, match="map_points"):
        record.matrix  # noqa: B018


def test_inverse_of_a_field():
    z, y, x = torch.meshgrid(*[torch.arange(14, dtype=torch.float64)] * 3, indexing="ij")
    smooth = torch.sin(0.3 * x + 0.2 * y - 0.25 * z)[None, None]
    augment = P.Pipeline([P.RandomElastic3(7, 0.3)], seed=2)
    out, record = augment(smooth, return_record=True)
    assert (out - smooth).abs().max() > 0.02
    error = 2 * (0.3**2 + 0.2**2 + 0.25**2) / 8  # of two linear reads: an eighth of the second derivatives each
    assert (augment.inverse(out, record) - smooth).abs().max() < error
    labels = {"labelmap": (smooth[:, 0] > 0).long()}
    again = augment.inverse(augment.apply(labels, record), record)["labelmap"]
    assert (again == labels["labelmap"]).double().mean() > 0.95


def test_points_have_gradients_through_fields():
    points = torch.rand(1, 3, 3, dtype=torch.float64) * 5 + 1
    augment = P.Pipeline([P.RandomElastic3(3, 0.3)], seed=2)
    record = augment.draw(torch.zeros(1, 1, 8, 8, 8))

    def of(points, magnitude):
        return record.with_param(0, "magnitude", magnitude).map_points(points)

    magnitude = torch.tensor([0.3], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(of, (points.requires_grad_(), magnitude), atol=1e-6)


def test_bounds_of_elastic_fields():
    for wrong in ({"magnitude": 0.5}, {"spacing": 1.0}, {"spacing": (4.0, 4.0)}, {"border": "open"}):
        refused(P.InvalidArgument, "RandomElastic3", P.RandomElastic3, **wrong)
    for make in (lambda: P.RandomCrop3((2, 3)), lambda: P.Pad3(-1), lambda: P.Resize3(0), lambda: P.RandomQuarterTurn3("w")):
        with pytest.raises((P.InvalidArgument, P.InvalidType)):
            make()
