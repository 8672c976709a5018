"""Flow and disparity between two pictures that each went through a draw of its own (ADR 77)."""

import re

import numpy as np
import pytest
import torch

import pellucid as P
from pellucid.errors import InvalidArgument
from pellucid.pipeline.between import moved_between
from tests.refusals import refused

NAMES = {"one": "image", "two": "image"}
H, W = 72, 96


def _scene(x, y):
    """A picture that is smooth enough to be read between pixels."""
    waves = 0.5 + 0.3 * torch.sin(0.11 * x + 0.07 * y), 0.5 + 0.3 * torch.cos(0.09 * y - 0.05 * x)
    return torch.stack([*waves, 0.5 + 0.2 * torch.sin(0.05 * x) * torch.cos(0.08 * y)])


def _grid(height, width):
    y, x = torch.meshgrid(*(torch.arange(n, dtype=torch.float64) for n in (height, width)), indexing="ij")
    return x, y


def _pair(samples=4):
    """Two frames and the flow between them, which grows across the picture."""
    x, y = _grid(H, W)
    flow = torch.stack([3 + 0.02 * x, -2 + 0.03 * y])
    frames = {"one": _scene(x, y), "two": _scene((x - 3) / 1.02, (y + 2) / 1.03), "flow": flow}
    return {name: value.expand(samples, -1, -1, -1) for name, value in frames.items()}


def _pipeline(steps, share=None, **options):
    return P.Pipeline(steps, seed=0, targets=NAMES, share=share or {"colour": []}, of={"flow": ("one", "two")}, **options)


def _read(picture, places):
    """A picture at places (b, h, w, 2) in pixels, by torch's own reader."""
    size = torch.tensor([picture.shape[-1], picture.shape[-2]], dtype=places.dtype)
    grid = (2 * places + 1) / size - 1
    return torch.nn.functional.grid_sample(picture, grid, align_corners=False, padding_mode="border")


WARPS = {
    "nothing": [],
    "affine": [P.RandomAffine(10, translate=(0.05, 0.05), scale=(0.9, 1.2))],
    "perspective": [P.RandomPerspective(0.2, p=1.0)],
    "field": [P.RandomElastic(4, magnitude=0.03)],
    "crop": [P.RandomResizedCrop((48, 60), scale=(0.5, 1.0), antialias=False), P.RandomHorizontalFlip()],
    "chain": [P.RandomCrop((60, 80)), P.RandomElastic(3, magnitude=0.03), P.RandomPerspective(0.1, p=1.0), P.RandomRotation(10)],
}


@pytest.mark.parametrize("name", WARPS)
def test_the_second_picture_read_along_the_flow_is_the_first(name):
    out = _pipeline(WARPS[name], return_valid=True)(_pair())
    one, two, flow, valid = out["one"], out["two"], out["flow"], out["flow_valid"]
    ends = torch.stack(_grid(*one.shape[-2:]), -1) + flow.movedim(1, -1)
    apart = (_read(two, ends) - one).abs().amax(1)
    inner = -torch.nn.functional.max_pool2d(-valid.double(), 5, 1, 2) > 0  # no reader mixes the border in
    shown = -torch.nn.functional.max_pool2d(-out["valid_two"].double(), 3, 1, 1)
    inner = inner & (_read(shown, ends)[:, 0] > 0.999)
    assert inner.double().mean() > 0.35
    assert apart[inner].max() < 0.02
    assert apart[inner].mean() < 1e-3
    wrong = (_read(two, ends + 2.0) - one).abs().amax(1)
    assert wrong[inner].mean() > 0.05


def test_affine_maps_by_hand():
    """flow' = A2 (x + flow) - A1 x, in NumPy."""
    out, record = _pipeline(WARPS["affine"])(_pair(3), return_record=True)
    x, y = (part.numpy().ravel() for part in _grid(H, W))
    for i in range(3):
        back, there = (record[name].matrix[i].numpy() for name in NAMES)
        source = np.linalg.inv(back) @ np.stack([x, y, np.ones_like(x)])
        flow = np.stack([3 + 0.02 * source[0], -2 + 0.03 * source[1], np.zeros_like(x)])
        moved = (there @ (source + flow))[:2] - np.stack([x, y])
        valid = out["flow_valid"][i].numpy().ravel()
        assert valid.mean() > 0.4
        assert np.abs(out["flow"][i].flatten(1).numpy() - moved)[:, valid].max() < 1e-9


def test_one_draw_for_both_is_the_flow_of_one_picture():
    batch, key = _pair(), P.Key(seed=2)
    both = _pipeline(WARPS["affine"], share={"geometry": ["one", "two"]})
    out, record = both(batch, key=key, return_record=True)
    plain = P.Pipeline(WARPS["affine"]).apply({"flow": batch["flow"]}, record["one"])["flow"]
    valid = out["flow_valid"][:, None].expand_as(plain)
    assert valid.double().mean() > 0.5
    assert (plain - out["flow"])[valid].abs().max() < 1e-9


@pytest.mark.parametrize("name", ["affine", "perspective", "field", "crop"])
def test_replay_and_inverse(name):
    batch = _pair()
    whole = _pipeline(WARPS[name])
    out, record = whole(batch, return_record=True)
    again = whole.apply(batch, record)
    assert all(torch.equal(again[key], out[key]) for key in out)
    back = whole.inverse({key: out[key] for key in ("flow", "flow_valid")}, record)
    known = back["flow_valid"]
    assert known.double().mean() > 0.3
    assert (back["flow"] - batch["flow"]).abs().amax(1)[known].max() < 0.01  # of a flow that is no plane once perspective bent it


def test_slopes_to_the_draws_of_both_pictures():
    flow = torch.rand(1, 2, 3, 4, dtype=torch.float64)
    records = [P.Pipeline([P.RandomAffine(20, scale=(0.8, 1.2))], seed=s).draw(torch.zeros(1, 3, 3, 4)) for s in (0, 1)]
    known = torch.ones(1, 3, 4)

    def moved(flow, a, b):
        one, two = records[0].with_param(0, "degrees", a), records[1].with_param(0, "degrees", b)
        return moved_between(flow, known, one, two)[0]

    leaves = [flow, *(one.params[0]["degrees"].clone() for one in records)]
    assert torch.autograd.gradcheck(moved, [leaf.requires_grad_() for leaf in leaves])


def test_flags_follow_and_unknown_numbers_are_no_flow():
    batch = _pair(2)
    batch["flow_valid"] = torch.ones(2, H, W, dtype=torch.bool)
    batch["flow_valid"][:, 20:40, 30:60] = False
    flow = batch["flow"].clone()
    flow[:, :, 20:40, 30:60] = torch.nan
    crop = [P.RandomCrop((64, 80))]
    out, record = _pipeline(crop)(batch, return_record=True)
    for i in range(2):
        top, left = (int(record["one"].params[0][name][i]) for name in ("top", "left"))
        hole = out["flow_valid"][i, 20 - top : 40 - top, 30 - left : 60 - left]
        assert not hole.any()
    assert out["flow_valid"].double().mean() > 0.4
    other = _pipeline(crop).apply({"flow": flow}, record)
    assert torch.equal(other["flow_valid"], out["flow_valid"])
    assert other["flow"].isfinite().all()


def test_lists_clips_arrays_and_one_sample():
    batch, key = _pair(2), P.Key(seed=1)
    whole = _pipeline(WARPS["affine"])
    out = whole(batch, key=key)
    lists = whole({name: list(value) for name, value in batch.items()}, key=key)
    for name in out:
        assert isinstance(lists[name], list)
        assert all((a.double() - b.double()).abs().max() < 1e-12 for a, b in zip(lists[name], out[name], strict=True))
    one, record = whole({name: value[0] for name, value in batch.items()}, key=key, return_record=True)
    assert all(one[name].shape == out[name].shape[1:] for name in out)
    assert (one["flow"] - out["flow"][0]).abs().max() < 1e-12
    arrays = _pipeline(WARPS["affine"], out="same")({"flow": batch["flow"][0].numpy()} | {k: batch[k][0] for k in NAMES}, key=key)
    assert isinstance(arrays["flow"], np.ndarray)
    assert isinstance(arrays["flow_valid"], np.ndarray)
    clips = whole({name: value[:, None].expand(-1, 3, -1, -1, -1) for name, value in batch.items()}, key=key)
    assert clips["flow"].shape == (2, 3, 2, H, W)
    assert clips["flow_valid"].shape == (2, 3, H, W)
    assert (clips["flow"][:, 2] - out["flow"]).abs().max() < 1e-9
    back = whole.inverse({"flow": [one["flow"]]}, record)
    assert back["flow"][0].shape == (2, H, W)


def test_frames_of_moving_clips_take_the_maps_of_their_frame():
    turn = [P.RandomRotation(P.Smooth(P.Uniform(-20.0, 20.0)))]
    batch = {name: value[:, None].expand(-1, 4, -1, -1, -1) for name, value in _pair(1).items()}
    out, record = _pipeline(turn)(batch, return_record=True)
    frames = {name: one.frames(4) for name, one in record.items()}
    each = _pipeline(turn).apply({"flow": batch["flow"][0]}, frames)
    assert (each["flow"] - out["flow"][0]).abs().max() < 1e-9
    assert torch.equal(each["flow_valid"], out["flow_valid"][0])


def _motorcycle():
    data = pytest.importorskip("skimage.data")
    left, right, disparity = data.stereo_motorcycle()
    pictures = [torch.from_numpy(one).movedim(-1, 0)[None].double() / 255 for one in (left, right)]
    return {"left": pictures[0], "right": pictures[1], "disparity": torch.from_numpy(disparity)[None].double()}


def _mismatch(batch, valid):
    height, width = batch["left"].shape[-2:]
    x, y = _grid(height, width)
    known = torch.where(valid, batch["disparity"], 0.0)
    found = _read(batch["right"], torch.stack([x - known, y.expand_as(known)], -1))
    return (found - batch["left"]).abs().mean(1)[valid].mean().item()


def test_a_stereo_pair_stays_rectified_with_a_horizontal_draw_for_each():
    """One crop for both, then a shift along the rows for each eye: disparity' = disparity + shift of the left - of the right."""
    names, batch = {"left": "image", "right": "image"}, _motorcycle()
    steps = [P.RandomResizedCrop((300, 440), scale=(0.5, 0.8), antialias=False), P.RandomTranslate((0.05, 0.0))]
    share = {"geometry": ["left", "right"], "translate": []}
    stereo = P.Pipeline(steps, seed=0, targets=names, share=share, of={"disparity": ("left", "right")})
    out, record = stereo(batch, return_record=True)
    valid = out["disparity_valid"]
    assert valid.double().mean() > 0.6
    before = _mismatch(batch, batch["disparity"].isfinite())
    assert _mismatch(out, valid) < 1.1 * before  # which is noise of the two cameras, and what one of them does not see
    off = {**out, "disparity": out["disparity"] + 4.0}
    assert _mismatch(off, valid) > 1.4 * before
    shifts = [record[name].step(1).matrix[0, 0, 2] for name in names]
    assert shifts[0] != shifts[1]
    x, y = _grid(300, 440)
    back, there = record["left"].src_from_dst[0], record["right"].matrix[0]
    source = torch.stack([x, y, torch.ones_like(x)], -1) @ back.mT
    known = _read(batch["disparity"][:, None].nan_to_num(0.0, 0.0), source[None, ..., :2])[0, 0]
    moved = x - ((source - torch.stack([known, 0 * known, 0 * known], -1)) @ there.mT)[..., 0]
    assert (out["disparity"][0] - moved)[valid[0]].abs().max() < 1e-3  # read in float32


def test_eyes_that_turn_apart_hold_no_disparity():
    names, batch = {"left": "image", "right": "image"}, _motorcycle()
    turned = P.Pipeline([P.RandomAffine(5)], seed=0, targets=names, share={"colour": []}, of={"disparity": ("left", "right")})
    assert turned(batch)["disparity_valid"].double().mean() < 0.05


def test_what_leads_between_pictures_says_so():
    refused(InvalidArgument, re.escape("of={'flow': ('one', 'two')}"), P.Pipeline([], targets=NAMES, share={"colour": []}), _pair())
    with pytest.raises(InvalidArgument, match="flow and disparity"):
        P.Pipeline([], targets=NAMES, share={"colour": []}, of={"boxes": ("one", "two")})
    batch = _pair()
    del batch["two"]
    refused(InvalidArgument, "both pictures", _pipeline([]), batch)


def test_distance_shrinks_as_the_picture_is_zoomed_and_depth_does_not():
    zoom = P.Pipeline([P.RandomAffine(0, scale=(2.0, 2.0))], seed=0)
    far = torch.full((1, 8, 8), 6.0)
    out = zoom({"image": torch.rand(1, 3, 8, 8), "depth": far, "distance": far})
    assert torch.allclose(out["depth"], far)
    assert torch.allclose(out["distance"], far / 2)


@pytest.mark.parametrize("steps", [[P.RandomPerspective(0.3, p=1.0)], [P.RandomElastic(3, magnitude=0.05)]])
def test_the_zoom_of_distance_is_the_area_of_a_pixel(steps):
    """By finite differences of where points of the picture were."""
    whole, far = P.Pipeline(steps, seed=1), torch.full((1, 1, 32, 40), 3.0, dtype=torch.float64)
    out, record = whole({"image": torch.rand(1, 3, 32, 40).double(), "distance": far}, return_record=True)
    places = torch.stack(_grid(32, 40)).double() + record.flow()[0]
    right, down = (torch.gradient(places, dim=dim, edge_order=1)[0] for dim in (2, 1))
    area = (right[0] * down[1] - right[1] * down[0]).abs()
    inner = (slice(8, -8), slice(10, -10))
    assert ((out["distance"][0, 0] - 3 * area.sqrt())[inner].abs() < 0.02).all()
