"""The study of distillation: its peer is what the paper says, it runs, and its rows are what the page says."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from pellucid_bench.distill import NAMES, as_markdown
from pellucid_bench.runs import example
from pellucid_bench.siamese import augmented, siamese

DOCS = Path(__file__).parents[2] / "docs"


def pictures(rows=3, size=16):
    return torch.randn(rows, 1, size, size, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def test_each_of_the_papers_operations_occurs_and_keeps_to_its_range():
    x, found = pictures(), {}
    for seed in range(200):
        draw = torch.Generator().manual_seed(seed)
        u, _, w = torch.rand(3, generator=draw).tolist()
        kind = int(torch.randint(6, (), generator=draw))
        out = augmented(x, torch.Generator().manual_seed(seed))
        found[kind] = found.get(kind, 0) + 1
        assert out.shape == x.shape
        if kind == 0:
            moved = x + u - 0.5
            mean = moved.mean((1, 2, 3), keepdim=True)
            torch.testing.assert_close(out, mean + (0.5 + w) * (moved - mean))
        elif kind == 1:
            padded = np.pad(x.numpy(), ((0, 0), (0, 0), (2, 2), (2, 2)))
            shifts = [padded[:, :, a : a + 16, b : b + 16] for a in range(5) for b in range(5)]
            assert sum(np.array_equal(out, one) for one in shifts) == 1
        elif kind == 2:
            assert 8 <= (out == 0).sum() // 3 <= 64
            assert ((out == 0) | (out == x)).all()
        elif kind == 3:
            assert torch.equal(out, x.flip(3) if u < 0.5 else x)
    assert min(found.get(kind, 0) for kind in range(6)) > 15


def test_turns_and_scales_are_those_of_scipy():
    ndimage = pytest.importorskip("scipy.ndimage")
    x = pictures(1)
    seen = set()
    for seed in range(60):
        draw = torch.Generator().manual_seed(seed)
        u, v, _ = torch.rand(3, generator=draw).tolist()
        kind = int(torch.randint(6, (), generator=draw))
        if kind < 4:
            continue
        seen.add(kind)
        if kind == 4:
            matrix = np.diag([1 / 1.2 + (1.2 - 1 / 1.2) * one for one in (v, u)])  # rows first
        else:
            angle = math.radians(15) * (2 * u - 1)
            matrix = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
        centre = np.array([7.5, 7.5])
        wanted = ndimage.affine_transform(x[0, 0].numpy(), matrix, centre - matrix @ centre, order=1, mode="grid-constant")
        out = augmented(x, torch.Generator().manual_seed(seed))
        np.testing.assert_allclose(out[0, 0].numpy(), wanted, atol=1e-12)
    assert seen == {4, 5}


@pytest.mark.parametrize("which", ["ours", "the paper's"])
def test_siamese_draws_are_one_for_each_class(which):
    """A class's real and learned pictures go through one map, which other classes and steps do not share."""
    one = torch.rand(1, 1, 16, 16)
    real, learned = one.expand(12, -1, -1, -1), one.expand(4, -1, -1, -1).clone().requires_grad_()
    made = example("distill")
    both = made.draws("siamese", 4, seed=1)
    for step in range(3):
        shown, out = both(real, learned, step) if which == "ours" else siamese(real, learned, step, classes=4, seed=1)
        for part, own in zip(shown.chunk(4), out, strict=True):
            torch.testing.assert_close(part, own.expand_as(part), rtol=0, atol=1e-6)
        assert (out[1:] - out[:1]).detach().abs().max() > 0.01
        assert torch.autograd.grad(out.sum(), learned)[0].flatten(1).any(1).all()
    shown, out = made.draws("independent", 4, seed=1)(real, learned, 0)
    assert len({one.numpy().tobytes() for one in [*shown, *out.detach()]}) > 8


def test_the_page_has_the_table_of_its_file():
    rows = json.loads((DOCS / "distillation.json").read_text())["rows"]
    assert as_markdown(rows) in (DOCS / "distillation.md").read_text()


@pytest.mark.long
def test_the_study_runs(tmp_path, monkeypatch):
    pytest.importorskip("sklearn")
    from pellucid.cli import app

    monkeypatch.setattr("pellucid_bench.distill.read", lambda: digits())
    result = CliRunner().invoke(app, ["study", "distill", "--quick", "--seeds", "1", "--images", "1", "--write", str(tmp_path)])
    assert result.exit_code == 0, result.output
    rows = json.loads((tmp_path / "distillation.json").read_text())["rows"]
    assert [row["arm"] for row in rows] == [f"{name} 1" for name in NAMES]
    assert all(0 <= row["with draws"] <= 1 for row in rows)
    assert (tmp_path / "img" / "distillation.png").stat().st_size > 1000


def digits():
    made = example("distill")
    made.find_data = lambda name: None
    return made.read()


def test_numbers_of_pictures_are_checked():
    from pellucid.cli import app

    for wrong in ("0", "ten"):
        result = CliRunner().invoke(app, ["study", "distill", "--images", wrong])
        assert result.exit_code != 0
        assert "numbers of at least 1" in f"{result.output}{result.exception}"
