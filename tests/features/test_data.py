"""Photographs, pairs of views and patches, and the readers of known layouts."""

import gzip
import struct

import cv2
import numpy as np
import pytest
import torch
from PIL import Image

from pellucid.errors import InvalidArgument
from pellucid.features.data import (
    BUNDLED,
    HomographicPairs,
    ImageFolder,
    PatchPairs,
    PatchPool,
    bundled_photographs,
    find_sequences,
    patch_jitter,
    read_arrays,
    read_idx,
    read_sequence,
    warped_sequences,
)
from pellucid.features.data.patch_pairs import same_place
from pellucid.geometry.points import transform_points
from tests.refusals import refused


@pytest.fixture(scope="module")
def photographs():
    return bundled_photographs(("coins", "text"))


@pytest.fixture(scope="module")
def pool(photographs):
    return PatchPool.from_photographs(list(photographs.values()), keypoints=150)


def write_picture(path, array):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array).save(path)


# Photographs


def test_a_folder_is_read_in_the_order_of_its_paths(tmp_path):
    rng = np.random.default_rng(0)
    colour, grey = rng.integers(0, 256, (6, 8, 3), dtype=np.uint8), rng.integers(0, 256, (5, 4), dtype=np.uint8)
    write_picture(tmp_path / "b.png", colour)
    write_picture(tmp_path / "a" / "z.PNG", grey)
    (tmp_path / "notes.txt").write_text("no picture")
    folder = ImageFolder(tmp_path)
    assert folder.names == ("a/z.PNG", "b.png")
    assert torch.equal(folder[0], torch.from_numpy(grey)[None] / 255)
    expected = cv2.cvtColor(colour.astype(np.float32) / 255, cv2.COLOR_RGB2GRAY)
    assert torch.allclose(folder[1][0], torch.from_numpy(expected), atol=1e-6)
    assert [p.shape for p in folder[:]] == [(1, 5, 4), (1, 6, 8)]
    assert ImageFolder(tmp_path, exclude=("b.png",)).names == ("a/z.PNG",)
    refused(InvalidArgument, "exclude", ImageFolder, tmp_path, exclude=("c.png",))


def test_sixteen_bits_alpha_and_palettes_are_read(tmp_path):
    deep = np.array([[0, 65535], [32768, 1000]], dtype=np.uint16)
    write_picture(tmp_path / "1.png", deep)
    Image.fromarray(np.full((2, 2, 4), 200, np.uint8)).save(tmp_path / "2.png")
    Image.fromarray(np.full((2, 2, 3), 100, np.uint8)).quantize(4).save(tmp_path / "3.png")
    one, two, three = ImageFolder(tmp_path)[:]
    assert torch.allclose(one[0], torch.from_numpy(deep.astype(np.float32)) / 65535)
    assert torch.allclose(two, torch.tensor(200 / 255))
    assert torch.allclose(three, torch.tensor(100 / 255))


def test_colours_of_sixteen_bits_are_refused(tmp_path):
    cv2.imwrite(str(tmp_path / "deep.png"), np.full((2, 2, 3), 1000, np.uint16))
    with pytest.raises(InvalidArgument, match=r"deep\.png: .*got one of 16 bits"):
        ImageFolder(tmp_path)[0]


def test_large_pictures_are_shrunk(tmp_path):
    write_picture(tmp_path / "1.png", np.full((40, 100), 51, np.uint8))
    (shrunk,) = ImageFolder(tmp_path, longest=50)[:]
    assert shrunk.shape == (1, 20, 50)
    assert torch.allclose(shrunk, torch.tensor(0.2), atol=1e-6)


def test_folders_without_pictures_and_broken_pictures_are_named(tmp_path):
    refused(InvalidArgument, "folder: expected a folder", ImageFolder, tmp_path / "nowhere")
    refused(InvalidArgument, "which has none", ImageFolder, tmp_path)
    (tmp_path / "1.png").write_bytes(b"\x89PNG broken")
    with pytest.raises(InvalidArgument, match=r"1\.png: expected a whole picture"):
        ImageFolder(tmp_path)[0]


def test_the_bundled_photographs_leave_out_those_nobody_may_train_on(photographs):
    assert set(photographs) == {"coins", "text"}
    assert not {"moon", "page", "motorcycle", "lfw_subset"} & set(BUNDLED)
    for name in ("moon", "../secret"):
        refused(InvalidArgument, "photograph", bundled_photographs, (name,))
    refused(InvalidArgument, "exclude", bundled_photographs, ("coins",), exclude=("coins",))


# Pairs of views


def test_the_homography_of_a_pair_says_where_a_dot_lands():
    """Photographs of one soft dot each: its centre of mass in both views must agree with the matrix."""
    v, u = torch.meshgrid(torch.arange(120.0), torch.arange(140.0), indexing="ij")
    pairs = HomographicPairs(
        [torch.exp(-((u - 70) ** 2 + (v - 60) ** 2) / 18)[None]], size=96, strength=0.6, photometric=0.0, overlap=(0.0, 1.0)
    )
    batch = pairs(0, 12)
    y, x = torch.meshgrid(torch.arange(96.0), torch.arange(96.0), indexing="ij")
    seen = 0
    for i in range(12):
        places = []
        for view in (batch.first[i, 0], batch.second[i, 0]):
            mass = view.clamp(min=0.02) - 0.02
            places.append(torch.stack(((mass * x).sum(), (mass * y).sum())) / mass.sum())
        if all(bool(((p > 16) & (p < 79)).all()) for p in places):
            moved = transform_points(places[0][None].double(), batch.second_from_first[i])[0]
            assert (moved - places[1]).norm() < 0.25
            seen += 1
    assert seen >= 4


def test_pairs_depend_on_seed_step_and_number_alone(photographs):
    pictures = list(photographs.values())
    pairs = HomographicPairs(pictures, size=64, seed=3)
    torch.manual_seed(1)
    whole = pairs(5, 4)
    state = torch.random.get_rng_state()
    part = HomographicPairs(pictures, size=64, seed=3)(5, 2, start=2)
    assert torch.equal(state, torch.random.get_rng_state())
    for name in ("first", "second", "second_from_first", "photographs", "overlap"):
        assert torch.equal(getattr(whole, name)[2:], getattr(part, name)), name
    assert not torch.equal(whole.first, pairs(6, 4).first)
    assert not torch.equal(whole.first, HomographicPairs(pictures, size=64, seed=4)(5, 4).first)


def test_overlap_is_kept_in_range_and_is_what_it_says(photographs):
    pairs = HomographicPairs(list(photographs.values()), size=64, overlap=(0.6, 0.9), tries=8)
    batch = pairs(0, 24)
    inside = (batch.overlap >= 0.6) & (batch.overlap <= 0.9)
    assert inside.float().mean() > 0.9
    for i in range(3):  # the polygon's area by OpenCV
        corners = torch.tensor([[0.0, 0], [63, 0], [63, 63], [0, 63]], dtype=torch.float64)
        back = transform_points(corners, torch.linalg.inv(batch.second_from_first[i]))
        area, _ = cv2.intersectConvexConvex(corners.float().numpy(), back.float().numpy())
        assert abs(area / 63**2 - float(batch.overlap[i])) < 0.06


def test_views_look_at_one_window_under_two_lights(photographs):
    batch = HomographicPairs([photographs["coins"]], size=96, strength=0.0)(0, 3)
    assert torch.allclose(batch.second_from_first, torch.eye(3, dtype=torch.float64).expand(3, 3, 3), atol=1e-9)
    assert batch.first_valid.all()
    for first, second in zip(batch.first.flatten(1), batch.second.flatten(1), strict=True):
        assert not torch.equal(first, second)
        assert torch.corrcoef(torch.stack((first, second)))[0, 1] > 0.9


@pytest.mark.parametrize("options", [{"size": 8}, {"strength": 2.5}, {"overlap": (0.9, 0.2)}, {"tries": 0}, {"photometric": -1}])
def test_pairs_refuse_numbers_out_of_range(options):
    refused(InvalidArgument, next(iter(options)), HomographicPairs, [torch.rand(1, 64, 64)], **options)
    refused(InvalidArgument, "photographs", HomographicPairs, [])


# Pairs of patches


def test_without_jitter_both_views_are_the_middle_of_the_stored_patch(pool):
    batch = PatchPairs(pool, patch_jitter(geometric=0.0, photometric=0.0), batch=16)(0)
    assert torch.allclose(batch.anchors, batch.positives, atol=1e-6)
    middles = pool.patches[..., 8:40, 8:40].flatten(1) / 255
    for patch in batch.anchors.flatten(1):
        assert (middles - patch).abs().amax(1).amin() < 1e-5


def test_every_patch_is_visited_once_in_an_epoch_and_batches_repeat(pool):
    still = patch_jitter(geometric=0.0, photometric=0.0)
    pairs = PatchPairs(pool, still, batch=99, seed=2)
    sizes = [len(pairs(step).anchors) for step in range(pairs.batches_per_epoch)]
    assert sum(sizes) in (len(pool), len(pool) - 1)
    assert set(sizes[:-1]) == {99}
    again = PatchPairs(pool, still, batch=99, seed=2)
    assert torch.equal(pairs(2).anchors, again(2).anchors)
    assert not torch.equal(pairs(2).anchors, pairs(2 + pairs.batches_per_epoch).anchors)


@pytest.mark.parametrize("both", [True, False])
def test_ranks_share_a_batch_row_by_row(pool, both):
    pairs = PatchPairs(pool, patch_jitter(), batch=15, seed=1, both=both, variants=True)
    whole = pairs(3)
    parts = [pairs(3, rank=rank, ranks=2) for rank in range(2)]
    assert [len(part.anchors) for part in parts] == [8, 7]
    for name in ("anchors", "positives", "ids"):
        assert torch.equal(torch.cat([getattr(part, name) for part in parts]), getattr(whole, name)), name


def test_variants_turn_the_main_gradient_back(pool):
    """A ramp that brightens to the right does so in every variant."""
    ramp = torch.arange(48, dtype=torch.uint8).mul(4).expand(8, 1, 48, 48).contiguous()
    flat = PatchPool(ramp, torch.zeros(8, dtype=torch.int64), torch.arange(24.0).reshape(8, 3) * 100)
    batch = PatchPairs(flat, patch_jitter(geometric=0.0, photometric=0.0), batch=8, variants=True)(0)
    slopes = batch.anchors.diff(dim=-1)
    assert (slopes > 0).all()


def test_many_photographs_give_fewer_patches_each(photographs):
    pool = PatchPool.from_photographs(list(photographs.values()), keypoints=150, total=40)
    assert pool.photographs.bincount().tolist() == [20, 20]


def test_near_keypoints_of_one_photograph_are_one_place():
    photographs = torch.tensor([0, 0, 1, 0, 0])
    places = torch.tensor([[10.0, 10, 8], [13, 10, 8], [10, 10, 8], [16, 10, 8], [40, 40, 8]])
    assert same_place(photographs, places).tolist() == [0, 0, 2, 0, 4]


def test_a_batch_must_fit_the_pool(pool):
    for batch in (1, len(pool) + 1):
        refused(InvalidArgument, "batch", PatchPairs, pool, patch_jitter(), batch=batch)
    with pytest.raises(InvalidArgument, match="photographs: expected pictures with SIFT keypoints"):
        PatchPool.from_photographs([torch.zeros(1, 64, 64)])


# Sequences


def test_a_written_sequence_is_read_back(tmp_path):
    rng = np.random.default_rng(0)
    matrix = np.array([[1.1, 0.02, 3.0], [-0.01, 0.9, 2.0], [1e-4, 2e-4, 1.0]])
    pictures = [rng.integers(0, 256, (20, 30, 3), dtype=np.uint8) for _ in range(2)]
    home = tmp_path / "v_made"
    for number, picture in enumerate(pictures, 1):
        write_picture(home / f"{number}.ppm", picture)
    np.savetxt(home / "H_1_2", matrix)
    (tmp_path / "other").mkdir()
    assert find_sequences(tmp_path) == find_sequences(home) == [home]
    sequence = read_sequence(home)
    assert sequence.name == "v_made"
    assert [view.shape for view in sequence.views] == [(1, 20, 30)] * 2
    assert torch.allclose(sequence.view_from_first[1], torch.from_numpy(matrix))
    assert torch.equal(sequence.view_from_first[0], torch.eye(3, dtype=torch.float64))


@pytest.mark.parametrize(
    ("text", "words"), [("1 2 3", "nine numbers, got 3"), ("a " * 9, "nine numbers"), ("0 " * 9, "has an inverse")]
)
def test_broken_homographies_are_named(tmp_path, text, words):
    write_picture(tmp_path / "1.ppm", np.zeros((4, 4), np.uint8))
    write_picture(tmp_path / "2.ppm", np.zeros((4, 4), np.uint8))
    (tmp_path / "H_1_2").write_text(text)
    refused(InvalidArgument, words, read_sequence, tmp_path)


def test_folders_that_are_no_sequences_are_named(tmp_path):
    for path in (tmp_path, tmp_path / "nowhere"):
        refused(InvalidArgument, "DIR", find_sequences, path)
    (tmp_path / "H_1_2").write_text("1 0 0 0 1 0 0 0 1")
    refused(InvalidArgument, r"a picture 1\.ppm", read_sequence, tmp_path)


def test_warped_sequences_carry_the_true_homography(photographs):
    """OpenCV, warping the photograph through the matrix, makes the same picture up to light, blur and noise."""
    (sequence,) = warped_sequences({"coins": photographs["coins"]}, views=3, strength=0.5)
    height, width = sequence.views[0].shape[-2:]
    top, left = (photographs["coins"].shape[-2] - height) // 2, (photographs["coins"].shape[-1] - width) // 2
    assert torch.equal(sequence.views[0], photographs["coins"][:, top : top + height, left : left + width])
    for view, matrix in zip(sequence.views[1:], sequence.view_from_first[1:], strict=True):
        warped = cv2.warpPerspective(sequence.views[0][0].numpy(), matrix.numpy(), (width, height))
        inside = torch.from_numpy(warped) > 0
        assert inside.float().mean() > 0.5
        both = torch.stack((torch.from_numpy(warped)[inside], view[0][inside]))
        assert torch.corrcoef(both)[0, 1] > 0.97
        assert (view > 0.03).float().mean() > 0.97  # no border without a picture


# IDX and npz


@pytest.mark.parametrize(("code", "kind"), [(0x08, ">u1"), (0x0B, ">i2"), (0x0D, ">f4"), (0x0E, ">f8")])
@pytest.mark.parametrize("zipped", [False, True])
def test_idx_files_are_read(tmp_path, code, kind, zipped):
    values = np.arange(24).reshape(2, 3, 4).astype(kind)
    raw = struct.pack(">HBB3I", 0, code, 3, 2, 3, 4) + values.tobytes()
    path = tmp_path / "images-idx3"
    path.write_bytes(gzip.compress(raw) if zipped else raw)
    assert np.array_equal(read_idx(path).numpy(), values)


@pytest.mark.parametrize("raw", [b"", b"PNG.....", struct.pack(">HBB1I", 0, 8, 1, 9) + b"short", b"\x1f\x8bbroken"])
def test_broken_idx_files_are_named(tmp_path, raw):
    path = tmp_path / "broken"
    path.write_bytes(raw)
    refused(InvalidArgument, "broken", read_idx, path)


def test_archives_are_read_and_objects_refused(tmp_path):
    np.savez(tmp_path / "set.npz", x=np.arange(6).reshape(2, 3), y=np.array([1.5, 2.5]))
    found = read_arrays(tmp_path / "set.npz")
    assert found["x"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert found["y"].dtype == torch.float64
    np.savez(tmp_path / "objects.npz", x=np.array([{}, []], dtype=object))
    np.save(tmp_path / "single.npy", np.arange(3))
    (tmp_path / "text.npz").write_text("hello")
    for name in ("objects.npz", "single.npy", "text.npz"):
        refused(InvalidArgument, "archive", read_arrays, tmp_path / name)
