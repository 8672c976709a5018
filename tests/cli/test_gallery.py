"""``pellucid gallery`` shows every transform there is, and each doing something."""

import importlib

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import pellucid
from pellucid import ALL, Key, Pipeline
from pellucid.cli import app
from pellucid.transforms import GROUPS

gallery = importlib.import_module("pellucid.cli.gallery")  # the name in the package is the command
SIZE = gallery.SIZE


@pytest.fixture
def photograph(tmp_path):
    file = tmp_path / "photograph.png"
    pixels = np.random.default_rng(0).integers(40, 200, (40, 60, 3), dtype=np.uint8)
    Image.fromarray(pixels).resize((240, 160)).save(file)
    return file


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_every_example_does_something(kind, photograph):
    """A new transform with a field that has no default wants a value for it in ``_REQUIRED`` or ``_SHOWN``."""
    batch = gallery.photograph(photograph)
    pipeline = Pipeline([gallery.example(kind)], impl="reference")
    shown = [pipeline(batch, key=Key(seed=0, step=step))["image"] for step in range(3)]
    assert any(out.shape != batch["image"].shape or not torch.equal(out, batch["image"]) for out in shown)


def test_the_page_holds_together(photograph, tmp_path, monkeypatch):
    pytest.importorskip("pellucid_bench")
    from pellucid_bench.site.check import check_site

    some = (pellucid.RandomAffine, pellucid.Normalize, pellucid.RandomRotation90, pellucid.Pad, pellucid.OneOf)
    monkeypatch.setattr("pellucid.transforms.ALL", some)
    result = CliRunner().invoke(app, ["gallery", str(photograph), "-o", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    page = (tmp_path / "out" / "index.html").read_text()
    assert check_site(tmp_path / "out") == []
    assert page.count("<section>") == len(some)
    for wanted in ("Draw 3", "Gradient", "degrees = -20", "times = 3", "(208 x 208)", "almost everywhere: gate, degrees"):
        assert wanted in page, wanted
    assert "mean =" not in page
    for wanted in ('<p class="group">Crops and sizes</p>', '<a href="#Pad"><img src="Pad-draws-1.webp"', "<b>RandomAffine</b>"):
        assert wanted in page, wanted


def test_every_transform_is_in_one_group_and_has_a_summary_of_one_line():
    listed = [kind for kinds in GROUPS.values() for kind in kinds]
    assert len(listed) == len(set(listed))
    assert set(listed) == set(ALL)
    assert all(8 < len(gallery.summary(kind)) < 140 for kind in ALL)


def test_a_sweep_goes_from_end_to_end_and_gates_are_open(photograph):
    batch = gallery.photograph(photograph)
    transform = gallery.example(pellucid.RandomBrightness)
    pipeline = Pipeline([transform], impl="reference")
    record = pipeline.draw(batch, key=Key(seed=0))
    values = [(name, round(value, 6)) for name, value, _ in gallery._sweep(transform, record)]
    assert values == [("brightness", value) for value in (0.8, 0.9, 1.0, 1.1, 1.2)]
    assert transform.p == 1.0


def test_a_photograph_is_needed_or_its_package(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "skimage", None)
    result = CliRunner().invoke(app, ["gallery", "-o", str(tmp_path / "out")])
    assert result.exit_code == 2
    assert "pellucid[demo]" in result.output
    assert not (tmp_path / "out").exists()
