"""Values that move through a clip: the curve against scipy's, and clips against their frames one by one."""

import pytest
import torch
from torch.autograd import gradcheck

import pellucid as P
from pellucid import InvalidArgument, InvalidType, Key, Pipeline, Record, Smooth, Uniform
from pellucid.random.smooth import at_frames
from tests.refusals import refused


@pytest.mark.parametrize("knots", [2, 3, 4, 7])
@pytest.mark.parametrize("count", [1, 2, 9, 30])
def test_the_curve_is_scipys(knots, count):
    interpolate = pytest.importorskip("scipy.interpolate")
    make = torch.Generator().manual_seed(knots)
    values = torch.randn(50, knots, generator=make, dtype=torch.float64)
    values[:10] = values[:10].sort(1).values  # monotone
    values[10:20] = values[10:20].round()  # equal neighbours
    at = torch.linspace(0, knots - 1, count, dtype=torch.float64)
    wanted = interpolate.PchipInterpolator(range(knots), values.numpy(), axis=1)(at.numpy())
    found = at_frames(values, count)
    torch.testing.assert_close(found, torch.from_numpy(wanted), rtol=0, atol=1e-12)
    assert bool((found <= values.amax(1, keepdim=True)).all())
    assert bool((found >= values.amin(1, keepdim=True)).all())
    assert torch.equal(found[:, 0], values[:, 0])
    assert count == 1 or torch.equal(found[:, -1], values[:, -1])


def test_the_curve_has_its_slopes():
    values = torch.randn(4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).requires_grad_()
    assert gradcheck(lambda v: at_frames(v, 13), (values,), check_forward_ad=True)
    flat = torch.zeros(1, 4, dtype=torch.float64, requires_grad=True)
    at_frames(flat, 9).square().sum().backward()
    assert bool(torch.isfinite(flat.grad).all())


STEPS = [
    P.RandomAffine(Smooth(Uniform(-20.0, 20.0)), translate=(Smooth(Uniform(-0.2, 0.2), knots=3), 0.1)),
    P.RandomBrightness(Smooth(P.Normal(1.0, 0.1), knots=5)),
]


def clip(frames=6, dtype=torch.float64):
    make = torch.Generator().manual_seed(0)
    return torch.rand(3, frames, 3, 12, 10, generator=make, dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_clip_is_its_frames(dtype):
    x, augment = clip(dtype=dtype), Pipeline(STEPS, seed=3)
    boxes = torch.tensor([[2.0, 3.0, 7.0, 8.0]]).expand(3, 6, 1, 4)
    out, record = augment({"image": x, "boxes": boxes, "mask": x[:, :, 0]}, return_record=True)
    frames = record.frames(6)
    flat = augment.apply({"image": x.flatten(0, 1), "boxes": boxes.flatten(0, 1), "mask": x[:, :, 0].flatten(0, 1)}, frames)
    for key in ("image", "boxes", "mask"):
        assert torch.equal(out[key].flatten(0, 1), flat[key]), key
    assert record.params[0]["degrees"].shape == (3, 4)
    assert frames.params[0]["degrees"].unflatten(0, (3, 6)).unique(dim=1).shape == (3, 6)
    assert torch.equal(frames.params[0]["degrees"][::6], record.params[0]["degrees"][:, 0])
    still = record.params[0].get("translate_y")
    assert still is None or still.shape == (3,)
    assert frames.matrix.shape == (18, 3, 3)


def test_records_replay_save_invert_and_slice(tmp_path):
    x, augment = clip(), Pipeline(STEPS, seed=3)
    out, record = augment(x, return_record=True)
    assert torch.equal(augment.apply(x, record), out)
    record.save(tmp_path / "record.pt")
    assert torch.equal(augment.apply(x, Record.load(tmp_path / "record.pt")), out)
    assert torch.equal(augment.apply(x[1:], record[1:]), out[1:])
    back = augment.inverse(out, record)
    flat = augment.inverse(out.flatten(0, 1), record.frames(6))
    assert torch.equal(back.flatten(0, 1), flat)
    one = augment.apply(x[:1].expand(3, -1, -1, -1, -1), record[:1])
    assert torch.equal(one[2], out[0])
    for suffix in ("toml", "json"):
        augment.save(tmp_path / f"smooth.{suffix}")
        assert Pipeline.load(tmp_path / f"smooth.{suffix}").transforms == augment.transforms
    with pytest.raises(InvalidArgument, match=r"degrees.*record.frames\(count\)"):
        _ = record.matrix
    refused(InvalidArgument, r"record.frames\(count\)", record.map_points, torch.zeros(1, 1, 2))
    refused(InvalidArgument, r"record.frames\(count\)", augment.valid_mask, record)
    assert augment.valid_mask(record.frames(6)).shape == (18, 1, 12, 10)


def test_a_picture_has_the_first_knot():
    x, augment = clip(), Pipeline(STEPS, seed=3)
    video = augment(x, key=Key(3, 1))
    assert torch.equal(augment(x[:, 0], key=Key(3, 1)), video[:, 0])
    assert torch.equal(augment(x[:, :1], key=Key(3, 1))[:, 0], video[:, 0])
    many = augment([picture[0] for picture in x], key=Key(3, 1))
    assert torch.equal(torch.stack(list(many)), video[:, 0])


def test_same_on_batch_shares_the_knots():
    x = clip()[:1].expand(3, -1, -1, -1, -1)
    out = Pipeline(STEPS, same_on_batch=True, seed=1)(x)
    assert torch.equal(out, out[:1].expand_as(out))
    assert not torch.equal(out[:, 0], out[:, 1])


def test_ranges_learn_through_the_knots():
    augment = Pipeline([P.RandomRotation(Smooth(P.CenteredUniform(0.0, P.Learnable(10.0))))], seed=2).double()
    x, key = clip(), Key(2, 0)
    (parameter,) = augment.learned.parameters()

    def loss():
        return augment(x, key=key).square().sum()

    loss().backward()
    step = 1e-6
    with torch.no_grad():
        parameter += step
        above = loss()
        parameter -= 2 * step
        below = loss()
    torch.testing.assert_close(parameter.grad, (above - below) / (2 * step), rtol=1e-5, atol=0)
    assert set(augment.learned.ranges()) == {"0.degrees"}
    assert "Smooth" in repr(augment.frozen()[0])
    knots = augment.draw(x, key=key).params[0]["degrees"].detach()[:1].requires_grad_()
    record = augment.draw(x, key=key)[:1]
    assert gradcheck(lambda v: augment.apply(x[:1, :3], record.with_param(0, "degrees", v)), (knots,))


def test_bounds_hold_in_every_frame():
    augment = Pipeline([P.RandomGamma(Smooth(Uniform(0.5, 2.0), knots=6))], seed=0)
    gamma = augment.draw(clip(40)).frames(40).params[0]["gamma"]
    assert bool(((gamma > 0.5) & (gamma < 2.0)).all())
    refused(InvalidArgument, "quality", P.RandomJPEG, Smooth(Uniform(0.0, 50.0)))


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: Smooth((-1.0, 1.0)), InvalidType),
        (lambda: Smooth(P.Categorical((1.0, 2.0))), InvalidArgument),
        (lambda: Smooth(Uniform(0.0, P.Learnable(1.0), estimator="boundary")), InvalidArgument),
        (lambda: Smooth(Smooth(Uniform(0.0, 1.0))), InvalidType),
        (lambda: Smooth(Uniform(0.0, 1.0), knots=1), InvalidArgument),
        (lambda: P.RandomInvert(p=Smooth(Uniform(0.0, 1.0))), InvalidType),
    ],
)
def test_errors(make, error):
    with pytest.raises(error):
        make()


def _moving(fields):
    turn = P.RandomAffine(Smooth(Uniform(-12.0, 12.0)), translate=(Smooth(Uniform(-0.1, 0.1), knots=3), 0.05))
    return [turn, P.RandomElastic(8, magnitude=0.1), P.RandomHorizontalFlip()] if fields else [turn, P.RandomHorizontalFlip()]


@pytest.mark.parametrize("fields", [False, True])
@pytest.mark.parametrize("shift", [(0.0, 0.0), (1.5, -0.5)])
def test_flow_ends_in_the_next_frame(fields, shift):
    """A point of frame t lies at x, and at x + shift in the next; the record's own maps say where either is shown."""
    frames, height, width = 5, 24, 30
    rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    pixels = torch.stack((columns, rows), -1).double().reshape(1, -1, 2)
    flow = torch.tensor(shift, dtype=torch.float64)[:, None, None].expand(2, frames, 2, height, width)
    augment = Pipeline(_moving(fields), seed=1)
    batch = {"image": torch.rand(2, frames, 3, height, width), "flow": flow, "heatmap": torch.ones(2, frames, 1, height, width)}
    out, record = augment(batch, return_record=True)
    each = record.frames(frames)
    source = each.flow().flatten(2).mT + pixels
    following = [min(t + 1, frames - 1) + frames * clip for clip in range(2) for t in range(frames)]  # the last one by its own map
    wanted = each[following].map_points(source + flow[0, 0, :, 0, 0]) - pixels
    shown = out["heatmap"].reshape(2 * frames, -1) == 1
    found = out["flow"].flatten(0, 1).flatten(2).mT
    assert shown.float().mean() > 0.5
    torch.testing.assert_close(found[shown], wanted[shown], atol=1e-6, rtol=0)
    still = found.unflatten(0, (2, frames))[shown.unflatten(0, (2, frames))].norm(dim=-1)
    assert still.max() > 0.3  # of a scene at rest, too: the camera moves
    back = augment.inverse({"image": out["image"], "flow": out["flow"]}, record)["flow"][..., 10:14, 12:18]
    if not fields:
        torch.testing.assert_close(back, flow[..., 10:14, 12:18], atol=1e-6, rtol=0)
    assert (back.mean((3, 4)) - flow[..., 0, 0]).abs().max() < 0.1


def test_flow_leads_to_the_same_light():
    """A drifting scene, smooth enough to be read between pixels: following the flow into the next frame finds the same values."""
    frames, size, shift = 6, 48, torch.tensor([1.0, 0.5], dtype=torch.float64)
    rows, columns = torch.meshgrid(torch.arange(size).double(), torch.arange(size).double(), indexing="ij")
    time = torch.arange(frames, dtype=torch.float64)[:, None, None]
    x, y = columns - time * shift[0], rows - time * shift[1]
    scene = torch.stack((torch.sin(x / 7) * torch.cos(y / 9), torch.cos(x / 8 + y / 6)), 1)[None]
    flow = shift[:, None, None].expand(1, frames, 2, size, size)
    out = Pipeline(_moving(False), seed=4)({"heatmap": scene, "flow": flow, "depth": torch.ones(1, frames, 1, size, size)})
    at = torch.stack((columns, rows), -1) + out["flow"][0, :-1].movedim(1, -1)
    grid = (2 * at + 1) / size - 1
    seen = torch.cat((out["heatmap"][0, 1:], out["depth"][0, 1:]), 1)
    ahead = torch.nn.functional.grid_sample(seen, grid, align_corners=False)
    shown = (out["depth"][0, :-1, 0] == 1) & (ahead[:, 2] > 1 - 1e-6)
    assert shown.double().mean() > 0.5
    errors = (ahead[:, :2] - out["heatmap"][0, :-1]).abs().amax(1)[shown]
    assert errors.max() < 0.02


def test_pictures_alone_have_the_first_frame_in_every_call():
    """The first call is looked at, later ones of its kind go a prepared way."""
    augment, x, key = Pipeline(STEPS), clip(dtype=torch.float32), Key(2)
    whole = augment(x, key=key)
    for _ in range(3):
        assert torch.equal(augment(x[:, 0], key=key), whole[:, 0])


def test_cameras_polygons_and_boxes_follow_the_map_of_their_own_frame():
    """Under a map that moves: a clip's targets are those of each frame alone, and none is like the first."""
    shake = P.Pipeline([P.RandomAffine(P.Smooth(P.Uniform(-20.0, 20.0)), translate=(P.Smooth(P.Uniform(-0.1, 0.1)), 0.0))], seed=0)
    frames, f64 = 5, torch.float64
    camera = torch.tensor([[50.0, 0.0, 10.0], [0.0, 55.0, 8.0], [0.0, 0.0, 1.0]], dtype=f64).expand(2, frames, 3, 3)
    ring = torch.tensor([[4.0, 4.0], [14.0, 5.0], [12.0, 12.0], [5.0, 11.0]], dtype=f64).expand(2, frames, 1, 4, 2)
    points = torch.rand(20, 3, dtype=f64) + torch.tensor([-0.5, -0.5, 4.0], dtype=f64)
    pixels = (points @ camera[0, 0].T)[:, :2] / points[:, 2:]
    clip = {"image": torch.rand(2, frames, 3, 16, 20, dtype=f64), "intrinsics": camera, "polygons": ring}
    clip["keypoints"] = pixels.expand(2, frames, -1, 2)
    out, record = shake(clip, return_record=True)
    seen = points @ out["intrinsics"].mT
    assert torch.allclose(seen[..., :2] / seen[..., 2:], out["keypoints"], atol=1e-9)
    each = record.frames(frames)
    alone = shake.apply({key: value.flatten(0, 1) for key, value in clip.items()}, each)
    for key, value in out.items():
        assert torch.equal(value.flatten(0, 1).nan_to_num(7.7), alone[key].nan_to_num(7.7)), key
    assert (out["intrinsics"][:, 1:] - out["intrinsics"][:, :1]).abs().amax((-2, -1)).min() > 0.1
    assert (out["polygons"][:, 1:, 0, 0] - out["polygons"][:, :1, 0, 0]).abs().amax(-1).min() > 0.01
    back = shake.inverse(out, record)
    assert torch.allclose(back["intrinsics"], camera, atol=1e-9)
