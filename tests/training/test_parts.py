"""Settings, curves, and gathering across ranks."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
import torch.multiprocessing as mp
from PIL import Image

from pellucid.errors import InvalidArgument, InvalidType
from pellucid.training import World, all_gather_rows, average_gradients, join_world, read_settings
from pellucid.training.log import plot_curves


@dataclass(frozen=True)
class Settings:
    steps: int = 100
    rate: float = 0.1
    size: tuple[int, int] = (32, 32)
    name: str | None = None


def test_settings_merge_defaults_file_and_overrides(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text("steps = 5\nsize = [8, 9]\nrate = 1\n")
    assert read_settings(Settings, path, steps=None, name="x") == Settings(5, 1.0, (8, 9), "x")
    assert isinstance(read_settings(Settings, path).rate, float)


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("stepz = 5", InvalidArgument, "stepz.*one of name, rate, size, steps"),
        ("steps = 'five'", InvalidType, "steps.*int"),
        ("steps = true", InvalidType, "steps.*int"),
        ("steps = ", InvalidArgument, "TOML"),
    ],
)
def test_mistakes_in_settings_are_named(tmp_path, text, error, words):
    path = tmp_path / "run.toml"
    path.write_text(text)
    with pytest.raises(error, match=words):
        read_settings(Settings, path)


def test_curves_draw_lines_and_bands(tmp_path):
    columns = {"step": [1, 2, 3], "loss": [3.0, 2.0, 1.0], "low": [-1.0, -2.0, -3.0], "high": [1.0, 2.0, 3.0]}
    path = plot_curves(columns, tmp_path / "a" / "curves.png", panels={"loss": ["loss"]}, bands={"range": [("low", "high")]})
    pixels = np.asarray(Image.open(path).convert("RGB")).astype(int)
    coloured = (pixels.max(-1) - pixels.min(-1)) > 30
    assert coloured[:, : coloured.shape[1] // 2].any()
    assert coloured[:, coloured.shape[1] // 2 :].mean() > 0.05  # the band fills an area
    assert [p.name for p in path.parent.iterdir()] == ["curves.png"]


def _rank(rank, port, results):
    import os

    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "RANK": str(rank), "WORLD_SIZE": "2"}
    world = join_world()
    full = torch.arange(10.0, dtype=torch.float64).reshape(5, 2)
    rows = (full[:2] if rank == 0 else full[2:]).clone().requires_grad_()
    everyone = all_gather_rows(rows, world)
    # Each rank has its own loss; the gradient of their sum must reach the owner of the row.
    ((everyone**3).sum() * (rank + 1)).backward()
    weight = torch.nn.Parameter(torch.ones(2))
    if rank == 0:
        weight.grad = torch.tensor([2.0, 4.0])
    average_gradients([weight], world)
    results[rank] = (everyone.detach(), rows.grad, weight.grad)
    torch.distributed.destroy_process_group()


@pytest.mark.slow
def test_gathered_rows_carry_gradients_back_to_their_owner():
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with mp.get_context("spawn").Manager() as manager:
        results = manager.dict()
        mp.spawn(_rank, (port, results), nprocs=2)
        outcome = dict(results)
    full = torch.arange(10.0, dtype=torch.float64).reshape(5, 2)
    for rank, rows in ((0, full[:2]), (1, full[2:])):
        everyone, grad, averaged = outcome[rank]
        assert torch.equal(everyone, full)
        assert torch.allclose(grad, 3 * rows**2 * 3.0)  # (1 + 2) times the derivative
        assert torch.equal(averaged, torch.tensor([1.0, 2.0]))


def test_alone_nothing_is_gathered(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert join_world() == World()
    rows = torch.ones(2, 3)
    assert all_gather_rows(rows, World()) is rows
