"""``pellucid register``: its files, and its exit code."""

import json

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
