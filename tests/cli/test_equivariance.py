"""``pellucid equivariance`` writes a table, numbers, curves and the worst draws, and says what it lacks."""

import json

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import pellucid as P
from pellucid.cli import app

NET = """
import torch
torch.manual_seed(0)
net = torch.nn.Conv2d(3, 2, 3, padding=1, stride=2)
"""


@pytest.fixture
def work(tmp_path):
    (tmp_path / "equivariance_net.py").write_text(NET)
    (tmp_path / "pictures").mkdir()
    draw = np.random.default_rng(0)
    for i in range(3):
        Image.fromarray(draw.integers(0, 256, (20, 24 + i, 3), dtype=np.uint8)).save(tmp_path / "pictures" / f"{i}.png")
    P.Pipeline([P.RandomRotation(20), P.RandomHorizontalFlip()]).save(tmp_path / "p.toml")
    return tmp_path


def run(work, *more):
    command = ["equivariance", f"{work / 'equivariance_net.py'}:net", "--pipeline", str(work / "p.toml"), "--size", "16"]
    return CliRunner().invoke(app, [*command, "--data", str(work / "pictures"), "-o", str(work / "out"), "--draws", "1", *more])


def test_everything_is_written(work):
    result = run(work, "--worst", "--count", "2")
    assert result.exit_code == 0, result.output
    rows = json.loads((work / "out" / "equivariance.json").read_text())
    assert [(row["transform"], row["strength"]) for row in rows] == [
        *(("RandomRotation", strength) for strength in (0.25, 0.5, 0.75, 1.0)),
        ("RandomHorizontalFlip", 1.0),
    ]
    assert all(row["samples"] == 2 for row in rows)
    assert "| RandomRotation | 0.25 |" in (work / "out" / "equivariance.md").read_text()
    for name in ("curves.png", "worst.png"):
        with Image.open(work / "out" / name) as picture:
            assert min(picture.size) > 100


def test_a_folder_without_pictures_is_refused(work):
    (work / "pictures").rename(work / "other")
    (work / "pictures").mkdir()
    result = run(work)
    assert result.exit_code != 0
    assert "data: expected a folder with pictures" in result.output


def test_a_function_that_makes_the_model_is_refused(work):
    (work / "making.py").write_text("def net():\n    return None\n")
    given = ["equivariance", f"{work / 'making.py'}:net", "--pipeline", str(work / "p.toml"), "--data", str(work / "pictures")]
    result = CliRunner().invoke(app, given)
    assert result.exit_code == 2
    assert "net()'" in "".join(result.output.split())
