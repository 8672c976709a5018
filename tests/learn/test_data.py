"""Readers, subsets and the order of batches."""

import gzip
import struct

import numpy as np
import torch

from pellucid.errors import InvalidArgument
from pellucid.learn.data import Batches, find_data, load_pictures, small_task
from pellucid.training import World
from tests.refusals import refused

RNG = np.random.default_rng(0)
ARRAYS = {
    "x_train": RNG.integers(0, 256, (12, 6, 5), dtype=np.uint8),
    "y_train": np.arange(12, dtype=np.uint8) % 3,
    "x_test": RNG.integers(0, 256, (4, 6, 5), dtype=np.uint8),
    "y_test": np.arange(4, dtype=np.uint8) % 3,
}
FILES = {
    "x_train": "train-images-idx3-ubyte",
    "y_train": "train-labels-idx1-ubyte.gz",
    "x_test": "t10k-images.idx3-ubyte",
    "y_test": "t10k-labels-idx1-ubyte",
}


def same(pictures):
    for name, array in ARRAYS.items():
        got = getattr(pictures, name)
        assert np.array_equal((got[:, 0] if name.startswith("x") else got).numpy(), array)
    assert pictures.classes == 3


def test_an_archive_and_a_folder_with_one(tmp_path):
    np.savez(tmp_path / "shapes.npz", **ARRAYS)
    same(load_pictures(tmp_path / "shapes.npz"))
    same(load_pictures(tmp_path))
    assert load_pictures(tmp_path).name == "shapes"


def test_idx_files_plain_and_gzipped(tmp_path):
    for name, file in FILES.items():
        array = ARRAYS[name]
        raw = struct.pack(">HBB", 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()
        (tmp_path / file).write_bytes(gzip.compress(raw) if file.endswith("gz") else raw)
    same(load_pictures(tmp_path))
    (tmp_path / FILES["x_test"]).write_bytes(struct.pack(">HBBI", 0, 13, 1, 1) + bytes(4))
    refused(InvalidArgument, "x_test: expected .*uint8 images", load_pictures, tmp_path)


def test_colour_pictures_come_channels_first(tmp_path):
    colour = {name: np.repeat(a[..., None], 3, -1) if name.startswith("x") else a for name, a in ARRAYS.items()}
    np.savez(tmp_path / "colour.npz", **colour)
    assert load_pictures(tmp_path).x_train.shape == (12, 3, 6, 5)


def test_what_is_wrong_with_a_data_set_is_named(tmp_path):
    refused(InvalidArgument, "npz file or", load_pictures, tmp_path)
    np.savez(tmp_path / "half.npz", x_train=ARRAYS["x_train"])
    refused(InvalidArgument, "y_train", load_pictures, tmp_path)
    np.savez(tmp_path / "half.npz", **{**ARRAYS, "x_test": ARRAYS["x_test"].astype(np.float32)})
    refused(InvalidArgument, "uint8", load_pictures, tmp_path)
    refused(InvalidArgument, "npz", load_pictures, tmp_path / "pictures.txt")


def test_the_shared_folder_is_found_from_below_and_by_name(tmp_path, monkeypatch):
    (tmp_path / "shared/data/shapes").mkdir(parents=True)
    below = tmp_path / "checkout/src"
    below.mkdir(parents=True)
    monkeypatch.delenv("PELLUCID_DATA", raising=False)
    assert find_data("shapes", below) == tmp_path / "shared/data/shapes"
    assert find_data("nothing", below) is None
    monkeypatch.setenv("PELLUCID_DATA", str(tmp_path / "elsewhere"))
    (tmp_path / "elsewhere/shapes").mkdir(parents=True)
    assert find_data("shapes", below) == tmp_path / "elsewhere/shapes"


def test_a_task_holds_disjoint_parts_in_unit_range():
    pictures = load_pictures()
    task = small_task(pictures, 100, held=50, seed=3, test=20)
    assert [len(part) for part in (task.x, task.x_held, task.x_test)] == [100, 50, 20]
    assert task.x.min() >= 0
    assert task.x.max() <= 1
    assert task.x.shape[1:] == (1, 16, 16)
    everything = torch.cat([task.x, task.x_held]).flatten(1)
    assert len(torch.unique(everything, dim=0)) == 150
    assert torch.equal(small_task(pictures, 100, held=50, seed=3).x, task.x)
    assert not torch.equal(small_task(pictures, 100, held=50, seed=4).x, task.x)
    refused(InvalidArgument, "at most 1097", small_task, pictures, 1000, held=98)


def test_batches_go_through_every_row_once_per_epoch():
    batches = Batches(20, 6, seed=1)
    epoch = torch.cat([batches(step) for step in range(3)])
    assert len(epoch) == 18 == len(torch.unique(epoch))
    assert not torch.equal(batches(0), batches(3))
    assert torch.equal(batches(4), Batches(20, 6, seed=1)(4))


def test_ranks_share_a_batch_without_overlap():
    whole = Batches(20, 6, seed=1)(4)
    parts = [Batches(20, 6, 1, World(rank, 2))(4) for rank in range(2)]
    assert sorted(torch.cat(parts).tolist()) == sorted(whole.tolist())
