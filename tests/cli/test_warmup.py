"""``pellucid warmup`` compiles what a pipeline needs, once, and keeps it for other processes."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from pellucid import ColorJitter, Learnable, Normalize, Pipeline, RandomAffine, RandomCrop, RandomGaussianBlur
from pellucid.cli import app
from pellucid.core import compilers
from pellucid.data import collate


@pytest.fixture
def file(tmp_path):
    Pipeline([ColorJitter(0.2), Normalize((0.5,), (0.5,))]).save(tmp_path / "p.toml")
    return tmp_path / "p.toml"


def warm(*arguments):
    return CliRunner().invoke(app, ["warmup", "--size", "24x32", *map(str, arguments)])


def test_the_second_time_nothing_is_compiled(file):
    first, second = warm("-p", file, "--dtype", "float32"), warm("-p", file, "--dtype", "float32")
    assert first.exit_code == second.exit_code == 0, first.output
    assert str(file) in first.output
    assert "0 compiled" in second.output
    assert "All were there already." in second.output


@pytest.mark.parametrize("name", ["float", "float33", "complex64", "bool", "nn"])
def test_a_dtype_that_is_none_is_named(file, name):
    done = warm("-p", file, "--dtype", name)
    if name == "float":  # torch's own second name of float32
        assert done.exit_code == 0
        return
    assert done.exit_code == 2
    assert "--dtype" in done.output
    assert repr(name) in done.output


@pytest.mark.slow
def test_another_process_compiles_nothing(tmp_path):
    """Neither the way forward nor the way back, whatever is drawn."""
    Pipeline([RandomGaussianBlur(3, p=0.5)]).save(tmp_path / "p.toml")
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": os.pathsep.join(sys.path)}
    call = [sys.executable, "-m", "pellucid.cli", "warmup", "-p", tmp_path / "p.toml", "--size", "24x32"]
    first, second = (subprocess.run(call, env=environment, capture_output=True, text=True, check=True).stdout for _ in range(2))
    assert "compiled and kept" in first
    assert "All were there already." in second


def test_a_pipeline_that_is_warm_changes_nothing_but_the_disk():
    """Neither its stream of draws, nor the batch, nor the gradients of what it learns."""
    width = Learnable(9.0)
    augment, twin = (Pipeline([RandomAffine(width), ColorJitter(0.2)], seed=3) for _ in range(2))
    batch = {"image": torch.rand(2, 3, 9, 8), "mask": torch.ones(2, 9, 8, dtype=torch.int64)}
    before = {name: value.clone() for name, value in batch.items()}
    augment.warmup(batch)
    assert all(torch.equal(batch[name], before[name]) and not batch[name].requires_grad for name in batch)
    assert all(value.grad is None for value in augment.parameters())
    assert augment.step == 0
    assert torch.equal(augment(batch)["image"], twin(batch)["image"])


def test_every_form_of_batch_can_be_warmed():
    augment = Pipeline([RandomCrop(8), Normalize((0.5,), (0.5,))], seed=0)
    for batch in (torch.rand(3, 9, 9), [torch.rand(3, 9, 9), torch.rand(3, 12, 10)], np.zeros((9, 9, 3), np.uint8)):
        assert augment.warmup(batch) >= 0
        assert augment.warmup(batch) == 0


def test_a_collate_function_is_warmed_for_samples_as_they_come():
    augment = collate(Pipeline([RandomCrop(8), Normalize((0.5,), (0.5,))], seed=0))
    samples = [(np.zeros((12, 9 + i, 3), np.uint8), {"mask": torch.zeros(12, 9 + i, dtype=torch.int64)}) for i in range(2)]
    assert augment.warmup(samples) >= 0
    assert augment.warmup(samples) == 0
    assert augment.pipeline.step == 0


def test_without_numba_there_is_nothing_to_compile(monkeypatch):
    monkeypatch.setattr(compilers, "_numba", False)
    assert Pipeline([Normalize((0.5,), (0.5,))]).warmup(torch.rand(3, 9, 9)) == 0


@pytest.mark.slow
def test_another_process_compiles_nothing_after_a_warmup_in_python(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    code = (
        "import torch, pellucid as P\n"
        "augment = P.Pipeline([P.RandomHorizontalFlip(), P.RandomGaussianBlur(3)], seed=0)\n"
        "print(augment.warmup(torch.rand(2, 3, 16, 16)))\n"
    )
    first, second = (
        int(subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True).stdout)
        for _ in range(2)
    )
    assert first > 0
    assert second == 0
