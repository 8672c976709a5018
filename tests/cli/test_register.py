"""``pellucid register``: its files, and its exit code."""

import json

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from pellucid.cli import app
from pellucid.cli.files import to_picture
from pellucid.functional import gaussian_blur


@pytest.fixture
def folder(tmp_path):
    whole = gaussian_blur(torch.rand(3, 60, 70, generator=torch.Generator().manual_seed(0)), 13, 2.0)
    whole = (whole - whole.min()) / (whole.max() - whole.min())
    to_picture(whole[:, 4:54, 4:64]).save(tmp_path / "a.png")
    to_picture(whole[:, 6:56, 7:67]).save(tmp_path / "b.png")
    Image.new("RGB", (60, 50), (90, 90, 90)).save(tmp_path / "flat.png")
    return tmp_path


def run(folder, *arguments):
    return CliRunner().invoke(app, ["register", *map(str, arguments), "-o", str(folder / "out")])


def test_it_writes_the_map_and_two_pictures(folder):
    done = run(folder, folder / "a.png", folder / "b.png", "--model", "translation")
    assert done.exit_code == 0, done.output
    assert done.output.startswith("converged")
    numbers = json.loads((folder / "out" / "alignment.json").read_text())
    assert torch.allclose(
        torch.tensor(numbers["moving_from_fixed"]), torch.tensor([[1.0, 0, -3], [0, 1, -2], [0, 0, 1]]), atol=0.05
    )
    with Image.open(folder / "out" / "warped.png") as warped:
        assert warped.size == (60, 50)
    with Image.open(folder / "out" / "before-and-after.png") as opened:
        picture = opened.convert("RGB")
    assert picture.size == (124, 104)
    right = [
        picture.crop((70, top + 10, 118, top + 44)).convert("L").resize((1, 1), Image.Resampling.BOX).getpixel((0, 0))
        for top in (0, 54)
    ]
    assert right[1] < 0.2 * right[0]  # the difference, before and after


def test_what_does_not_converge_says_why(folder):
    done = run(folder, folder / "a.png", folder / "flat.png")
    assert done.exit_code == 1
    assert "the moving picture is constant" in done.output
    assert run(folder, folder / "a.png", folder / "b.png", "--model", "rigid").exit_code == 2
    assert run(folder, folder / "a.png", tmp_volume(folder)).exit_code == 2


def tmp_volume(folder, name="v", shift=0.0, dtype=np.int16):
    z, y, x = np.meshgrid(*[np.arange(24.0)] * 3, indexing="ij")
    places = ((6, 7, 8), (15, 11, 6), (9, 5, 16), (16, 17, 14))
    blobs = sum(np.exp(-((x - a - shift) ** 2 + (y - b) ** 2 + (z - c) ** 2) / 18) for a, b, c in places)
    np.save(folder / f"{name}.npy", (1000 * blobs).astype(dtype))
    return folder / f"{name}.npy"


def test_volumes_are_numpy_files(folder):
    a, b = tmp_volume(folder, "a", 0.0), tmp_volume(folder, "b", 1.5)
    done = run(folder, a, b, "--model", "rigid")
    assert done.exit_code == 0, done.output
    numbers = json.loads((folder / "out" / "alignment.json").read_text())
    assert numbers["model"] == "rigid"
    assert np.abs(np.array(numbers["moving_from_fixed"])[:3, 3] - [1.5, 0, 0]).max() < 0.05
    warped, wanted = np.load(folder / "out" / "warped.npy"), np.load(a)
    assert warped.shape == (24, 24, 24)
    assert np.abs(warped - wanted)[2:-2, 2:-2, 2:-2].max() < 40  # of 1000; the volume is read trilinearly
    with Image.open(folder / "out" / "before-and-after.png") as opened:
        rows = np.asarray(opened.convert("L"), float)
    assert rows.shape == (6 * 24 + 5 * 4, 24 + 4 + 24)
    differences = [rows[28 * k + 4 : 28 * k + 20, 32:48].mean() for k in range(6)]
    assert all(after < 0.2 * before for before, after in zip(differences[:2], differences[3:5], strict=True))


def test_masks_are_files(folder):
    a, b = tmp_volume(folder, "a", 0.0), tmp_volume(folder, "b", 1.5)
    spoiled, mask = np.load(a), np.ones((24, 24, 24), bool)
    spoiled[4:12, 4:12, 4:12], mask[3:13, 3:13, 3:13] = 9000, False
    np.save(folder / "spoiled.npy", spoiled)
    np.save(folder / "mask.npy", mask)
    done = run(folder, folder / "spoiled.npy", b, "--model", "translation", "--mask", folder / "mask.npy")
    assert done.exit_code == 0, done.output
    numbers = json.loads((folder / "out" / "alignment.json").read_text())
    assert np.abs(np.array(numbers["moving_from_fixed"])[:3, 3] - [1.5, 0, 0]).max() < 0.05
    Image.new("L", (60, 50), 255).save(folder / "white.png")
    Image.new("L", (60, 50), 0).save(folder / "black.png")
    pictures = [folder / "a.png", folder / "b.png", "--model", "translation", "--mask"]
    assert run(folder, *pictures, folder / "white.png").exit_code == 0
    done = run(folder, *pictures, folder / "black.png")
    assert done.exit_code == 1
    assert "mask is empty" in done.output


@pytest.mark.parametrize("broken", ["flat", "text", "missing"])
def test_files_that_are_no_volumes(folder, broken):
    np.save(folder / "flat.npy", np.zeros((4, 4)))
    (folder / "text.npy").write_text("no array")
    done = run(folder, tmp_volume(folder), folder / f"{broken}.npy")
    assert done.exit_code == 2
    assert "VOLUME" in done.output
