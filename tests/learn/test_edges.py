"""Odd calls of the learning commands: each ends in one sentence of ours that names what is wrong, before anything is trained."""

import gzip
import math
import struct

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from pellucid.cli import app
from pellucid.errors import InvalidArgument
from pellucid.learn import RECIPES, AugerinoSettings
from pellucid.learn.data import Batches, Pictures, load_pictures, small_task
from pellucid.learn.demo import Rotation
from pellucid.learn.run import learn
from pellucid.training import World, fit
from pellucid.training.settings import described
from pellucid_bench.runs import read_sizes
from tests.refusals import refused
from tests.training.test_loop import make

RNG = np.random.default_rng(0)
GOOD = {
    "x_train": RNG.integers(0, 256, (12, 10, 9), dtype=np.uint8),
    "y_train": np.arange(12, dtype=np.uint8) % 3,
    "x_test": RNG.integers(0, 256, (4, 10, 9), dtype=np.uint8),
    "y_test": np.arange(4, dtype=np.uint8) % 3,
}

NUMBERS = [
    *((name, value) for name in ("images", "steps", "batch", "every") for value in (0, -5)),
    *((name, 0) for name in ("unrolled_steps", "terms", "critic_steps", "augmenter_every")),
    ("images", 2.5),
    ("steps", True),
    *((name, value) for name in ("rate", "range_rate", "inner_rate") for value in (0.0, -1.0, math.nan, math.inf)),
    *((name, value) for name in ("weight_decay", "entropy", "policy_entropy", "content", "penalty") for value in (-1.0, math.nan)),
    *((name, -1) for name in ("pairs", "held", "seed", "caution")),
    *(("momentum", value) for value in (2, 1.0, -0.1, math.nan)),
    ("hypergradient", "magic"),
]


KINDS = [recipe.settings for recipe in RECIPES.values()]


@pytest.mark.parametrize(("name", "value"), NUMBERS)
def test_a_setting_out_of_range_is_named(name, value):
    refused(InvalidArgument, f"^{name}: expected", next(kind for kind in KINDS if name in described(kind)), **{name: value})


@pytest.mark.parametrize("value", [0.0, math.nan, 180.0])
@pytest.mark.parametrize("name", ["theta", "start", "steps", "batch"])
def test_a_rotation_out_of_range_is_named(name, value):
    refused(InvalidArgument, f"^{name}: expected", Rotation, **{name: value})


@pytest.mark.parametrize("text", ["", "0", "-5", "500,", "a", "500,0"])
def test_sizes_of_a_study(text):
    refused(InvalidArgument, r"^images: expected", read_sizes, text)


ARRAYS = {
    "labels as shares": ({"y_train": np.full(12, 0.7)}, r"y_train: expected 12 whole numbers.*float64.*astype"),
    "negative labels": ({"y_test": np.array([0, -1, 2, 0])}, "y_test: expected classes 0, 1"),
    "labels like pixels": ({"y_train": np.full(12, 1 << 40)}, "y_train: expected classes 0, 1"),
    "one-hot labels": ({"y_train": np.eye(12, dtype=np.uint8)}, r"y_train: expected 12 whole numbers, shape \(12,\)"),
    "text labels": ({"y_train": np.array(["cat"] * 12)}, "an .npz archive of numbers, got y_train of <U3"),
    "labels of another number": ({"y_train": GOOD["y_train"][:-1]}, "y_train: expected 12 whole numbers"),
    "channels first": (
        {"x_train": np.zeros((12, 3, 32, 32), np.uint8), "x_test": np.zeros((4, 3, 32, 32), np.uint8)},
        r"x_train: expected .*\(N, H, W, C\).*transpose\(0, 2, 3, 1\)",
    ),
    "floats": ({"x_train": GOOD["x_train"].astype(np.float32)}, "x_train: expected .*uint8"),
    "flat": ({"x_train": GOOD["x_train"].reshape(12, -1)}, "x_train: expected"),
    "no images": ({"x_train": GOOD["x_train"][:0], "y_train": GOOD["y_train"][:0]}, "x_train: expected"),
    "no test images": ({"x_test": GOOD["x_test"][:0], "y_test": GOOD["y_test"][:0]}, "x_test: expected"),
    "test images of another size": ({"x_test": GOOD["x_test"][:, :-1]}, r"x_test: expected images like those of x_train"),
    "test images in colour": ({"x_test": np.repeat(GOOD["x_test"][..., None], 3, -1)}, "x_test: expected images like"),
    "one grey value": ({"x_train": np.full((12, 10, 9), 7, np.uint8)}, "x_train: expected images with different values"),
    "objects": ({"y_train": np.array([{}] * 12)}, "an .npz archive of numbers"),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_that_are_no_data_set_are_named(name, tmp_path):
    changes, words = ARRAYS[name]
    np.savez(tmp_path / "data.npz", **{**GOOD, **changes})
    refused(InvalidArgument, words, load_pictures, tmp_path / "data.npz")


def _good_npz(path):
    np.savez(path, **GOOD)
    return path.read_bytes()


FILES = {
    "junk": lambda path: b"not an archive",
    "empty": lambda path: b"",
    "cut": lambda path: _good_npz(path)[:300],
    "a single array": lambda path: (np.save(path.with_suffix(".npy"), np.zeros(3)), path.with_suffix(".npy").read_bytes())[1],
    "a text in place of a pickle": lambda path: b"PK\x03\x04" + bytes(50),
}


@pytest.mark.parametrize("name", FILES)
def test_an_archive_that_is_none_is_named(name, tmp_path):
    path = tmp_path / "data.npz"
    path.write_bytes(FILES[name](path))
    refused(InvalidArgument, r"data\.npz: expected an \.npz archive of numbers", load_pictures, path)


def idx(array):
    return struct.pack(">HBB", 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


IDX = {
    "": (lambda raw: b"", "an IDX file"),
    "no header": (lambda raw: raw[:3], "an IDX file"),
    "half a header": (lambda raw: raw[:9], "an IDX file"),
    "short": (lambda raw: raw[:-1], r"1080 bytes after the header, for shape \(12, 10, 9\), got 1079"),
    "long": (lambda raw: raw + b"0", "1080 bytes after the header"),
    "junk zipped": (lambda raw: b"junk", "a complete gzip file"),
    "cut zipped": (lambda raw: gzip.compress(raw)[:-20], "a complete gzip file"),
}


@pytest.mark.parametrize("name", IDX)
def test_an_idx_file_that_is_none_is_named(name, tmp_path):
    change, words = IDX[name]
    zipped = ".gz" if "zipped" in name else ""
    (tmp_path / f"train-images-idx3-ubyte{zipped}").write_bytes(change(idx(GOOD["x_train"])))
    for key, file in {"y_train": "train-labels-idx1", "x_test": "t10k-images-idx3", "y_test": "t10k-labels-idx1"}.items():
        (tmp_path / f"{file}-ubyte").write_bytes(idx(GOOD[key]))
    refused(InvalidArgument, f"train-images-idx3-ubyte{zipped}: expected.*{words}", load_pictures, tmp_path)


def test_what_a_file_system_leaves_beside_an_archive_is_not_read(tmp_path):
    np.savez(tmp_path / "data.npz", **GOOD)
    (tmp_path / "._data.npz").write_bytes(b"\0\5\x16\7")
    assert load_pictures(tmp_path).name == "data"
    refused(InvalidArgument, "--data: expected an existing file", load_pictures, tmp_path / "other.npz")


@pytest.fixture(scope="module")
def pictures():
    images, labels = torch.randint(0, 256, (40, 1, 16, 16), dtype=torch.uint8), torch.arange(40) % 4
    return Pictures("noise", images, labels, images[:10], labels[:10])


@pytest.mark.parametrize(("name", "value"), [("images", 0), ("images", -5), ("held", -1), ("test", 0), ("images", 41)])
def test_parts_of_a_task_are_counted(name, value, pictures):
    refused(InvalidArgument, f"^{name}: expected", small_task, pictures, **{"images": 8, name: value})


@pytest.mark.parametrize("device", ["tpu", "gpu", "meta", "", "cuda:99"])
def test_a_device_that_is_not_there_is_named(device, pictures, tmp_path):
    with pytest.raises(InvalidArgument, match=r"^device: expected"):
        learn("augerino", pictures, AugerinoSettings(images=8, steps=1), tmp_path, device=device, quiet=True)


def test_pictures_that_the_network_cannot_learn_are_named(pictures, tmp_path):
    def small(side, classes=4):
        labels = pictures.y_train % classes
        return Pictures("x", pictures.x_train[..., :side, :side], labels, pictures.x_test, labels[:10])

    for data, batch, words in ((small(16, 1), 4, "two classes"), (small(7), 4, "8 x 8 pixels"), (small(8), 1, "batch: expected")):
        with pytest.raises(InvalidArgument, match=words):
            learn("augerino", data, AugerinoSettings(images=8, steps=1, batch=batch), tmp_path, quiet=True)


def test_every_process_needs_an_image():
    refused(InvalidArgument, r"^batch: expected at least one image for every process", Batches, 8, 1, 0, World(0, 2))
    refused(InvalidArgument, r"^batch", Batches, 8, 0, 0)


@pytest.mark.slow
def test_other_pictures_under_the_same_name_do_not_resume(pictures, tmp_path):
    settings = AugerinoSettings(images=8, steps=1, batch=4)
    learn("augerino", pictures, settings, tmp_path / "run", quiet=True)
    other = Pictures("noise", pictures.x_train.clone(), pictures.y_train, pictures.x_test, pictures.y_test)
    other.x_train[0, 0, 0, 0] ^= 1
    with pytest.raises(InvalidArgument, match=r"settings\.pictures: expected '\w{16}', got '\w{16}'"):
        learn("augerino", other, settings, tmp_path / "run", quiet=True)


@pytest.mark.parametrize("name", ["total", "save_every", "log_every"])
@pytest.mark.parametrize("value", [0, -1, 2.5])
def test_the_loop_counts_from_one(name, value, tmp_path):
    state, step = make()
    with pytest.raises(InvalidArgument, match=f"^{name}: expected a whole number, at least 1"):
        fit(step, state, **{"total": 2, name: value}, directory=tmp_path, quiet=True)


@pytest.mark.parametrize(
    "arguments",
    [
        ("learn", "augerino", "--images", "-1"),
        ("learn", "augerino", "--steps", "0"),
        ("learn", "teach", "--device", "tpu"),
        ("learn", "density", "--pairs", "-1"),
        ("learn", "bilevel", "--held", "-4"),
        ("learn", "bilevel", "--hypergradient", "magic"),
        ("study", "learned", "--images", "-5"),
    ],
)
def test_the_command_line_says_it_in_a_sentence(arguments, tmp_path):
    result = CliRunner().invoke(app, [*arguments, "--write" if arguments[0] == "study" else "-o", str(tmp_path)])
    assert result.exit_code == 2
    assert arguments[2].strip("-") in result.output
    assert "expected" in result.output
    assert not isinstance(result.exception, ValueError)
