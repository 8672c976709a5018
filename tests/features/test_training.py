"""The run of a descriptor: it learns, survives a kill, does not care how many ranks share it, and can be exported."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

from pellucid.errors import InvalidArgument
from pellucid.features import HardNet
from pellucid.features.data import PatchPairs, PatchPool, bundled_photographs, patch_jitter
from pellucid.features.train import DescriptorSettings, DescriptorTrainer, train_descriptor
from pellucid.features.train.precision import resolve_precision
from pellucid.features.train.run import decide_steps
from pellucid.features.weights import load_descriptor, save_descriptor
from pellucid.training import World, read_log, read_settings
from pellucid.training.distributed import pick_device
from tests.refusals import refused

SMALL = {
    "batch": 15,
    "width": 0.125,
    "keypoints": 60,
    "steps": 12,
    "save_every": 3,
    "log_every": 1,
    "precision": "float32",
    "device": "cpu",
}


# Sums are rounded in another order by another number of threads; processes must agree to the last bit here.
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two small photographs as files."""
    home = tmp_path_factory.mktemp("photographs")
    for name, picture in bundled_photographs(("coins", "text"), longest=200).items():
        Image.fromarray((picture[0] * 255).round().byte().numpy()).save(home / f"{name}.png")
    return home


def settings_for(folder, **changes):
    return DescriptorSettings(**{**SMALL, "photographs": str(folder), **changes})


def run_cli(*arguments, ranks=1, wait=True):
    command = [sys.executable, "-m"]
    if ranks > 1:
        command += ["torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}", "-m"]
    command += ["pellucid.cli", "train-descriptor", *map(str, arguments), "--quiet"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if wait:
        output, _ = process.communicate(timeout=500)
        assert process.returncode == 0, output
    return process


def assignments(folder, **changes):
    values = {**SMALL, "photographs": str(folder), **changes}
    return [part for name, value in values.items() for part in ("--set", f"{name}={json.dumps(value)}")]


@pytest.mark.slow
def test_a_run_learns_and_leaves_what_it_says(folder, tmp_path):
    path = train_descriptor(settings_for(folder, steps=40, batch=24), tmp_path, quiet=True)
    log = read_log(tmp_path / "log.csv")
    assert log["step"] == [float(i) for i in range(1, 41)]
    assert np.mean(log["loss"][-5:]) < np.mean(log["loss"][:5]) - 0.1
    assert log["rate"][0] == pytest.approx(3e-3)
    assert log["rate"][-1] == pytest.approx(3e-3 / 40)
    assert np.mean(log["positive"][-5:]) < np.mean(log["negative"][-5:])
    assert (tmp_path / "curves.png").stat().st_size > 1000
    network = load_descriptor(tmp_path)
    assert not network.training
    assert load_descriptor(path)(torch.rand(3, 1, 32, 32)).shape == (3, 128)
    refused(InvalidArgument, "settings", train_descriptor, settings_for(folder, steps=40, batch=20), tmp_path, quiet=True)


@pytest.mark.slow
def test_killed_in_mid_run_and_resumed_ends_with_the_same_weights(folder, tmp_path):
    changes = {"dropout": 0.2, "average": 0.9, "steps": 40}
    whole = train_descriptor(settings_for(folder, **changes), tmp_path / "whole", quiet=True)
    process = run_cli(tmp_path / "cut", *assignments(folder, **changes), wait=False)
    until = time.monotonic() + 300
    while not (tmp_path / "cut/checkpoints/step-00000009").exists():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < until
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert not (tmp_path / "cut/descriptor.safetensors").exists(), "the kill came too late to show anything"
    cut = train_descriptor(settings_for(folder, **changes), tmp_path / "cut", quiet=True)
    first, second = load_file(whole), load_file(cut)
    for name, tensor in first.items():
        assert torch.equal(tensor, second[name]), name
    assert (tmp_path / "whole/log.csv").read_text() == (tmp_path / "cut/log.csv").read_text()


@pytest.mark.slow
def test_two_ranks_follow_the_loss_curve_of_one(folder, tmp_path):
    """torchrun with gloo; 15 pairs are 8 and 7. Without dropout, whose draw differs from rank to rank, and at a tenth of the
    default rate: at 3e-3 the first steps are chaotic, and any rounding (another order of the rows will do) grows fourfold a step.
    """
    changes = {"dropout": 0.0, "second_order": 0.5, "rate": 3e-4}
    train_descriptor(settings_for(folder, **changes), tmp_path / "one", quiet=True)
    run_cli(tmp_path / "two", *assignments(folder, **changes), ranks=2)
    one, two = read_log(tmp_path / "one/log.csv"), read_log(tmp_path / "two/log.csv")
    assert len(one["loss"]) == len(two["loss"]) == 12
    for name in ("loss", "positive", "negative", "others"):
        assert np.abs(np.array(one[name]) - np.array(two[name])).max() < 1e-4, name
    first, second = load_file(tmp_path / "one/descriptor.safetensors"), load_file(tmp_path / "two/descriptor.safetensors")
    assert first.keys() == second.keys()
    for name in (name for name in first if "running" in name):  # the statistics are those of all rows
        assert torch.allclose(first[name], second[name], rtol=1e-2, atol=1e-3), name


def test_autocast_average_and_second_order_train(folder, tmp_path):
    changes = {"precision": "bfloat16", "average": 0.9, "second_order": 1.0, "both_views": True, "steps": 4}
    path = train_descriptor(settings_for(folder, **changes), tmp_path, quiet=True)
    assert all(torch.isfinite(tensor).all() for tensor in load_file(path).values())


def test_the_average_begins_as_a_plain_mean(folder):
    settings = settings_for(folder, average=0.999, steps=3)
    pool = PatchPool.from_photographs([bundled_photographs(("text",))["text"]], keypoints=60)
    trainer = DescriptorTrainer(settings, PatchPairs(pool, patch_jitter(), batch=15), World(), torch.device("cpu"), "float32")
    seen = []
    for index in range(3):
        trainer.step(index, 3)
        seen.append(trainer.network.features[19].weight.detach().clone())
    assert torch.allclose(trainer.average.features[19].weight, torch.stack(seen).mean(0), atol=1e-7)


@pytest.mark.slow
def test_compiled_steps_are_those_of_eager(folder, tmp_path):
    for compile_it in (False, True):
        train_descriptor(settings_for(folder, compile=compile_it, dropout=0.0, steps=4), tmp_path / str(compile_it), quiet=True)
    losses = [read_log(tmp_path / str(compile_it) / "log.csv")["loss"] for compile_it in (False, True)]
    assert np.allclose(losses[0], losses[1], atol=1e-4)


# The budget


def test_minutes_become_steps_once(tmp_path, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])

    def rehearse():
        return lambda index: clock.__setitem__(0, clock[0] + 0.01)

    number = decide_steps(500, 0.05, tmp_path, rehearse, started=0.0)
    assert 250 < number < 300  # 97 % of three seconds, less the rehearsal's share
    again = decide_steps(500, 0.05, tmp_path, lambda: pytest.fail("measured again"), started=0.0)
    assert again == number
    assert decide_steps(500, None, tmp_path, rehearse, started=0.0) == 500


def test_a_budget_too_short_is_named(tmp_path):
    with pytest.raises(InvalidArgument, match="minutes"):
        decide_steps(1, 0.01, tmp_path, lambda: lambda index: time.sleep(0.05), started=time.perf_counter() - 1)
    refused(InvalidArgument, "minutes", decide_steps, 1, -1.0, tmp_path, lambda: lambda index: None, started=0.0)


@pytest.mark.slow
def test_a_rehearsal_leaves_no_trace(folder, tmp_path):
    """The weights of a run with minutes are those of a run with the same number of steps."""
    timed = train_descriptor(settings_for(folder, minutes=0.06, log_every=50), tmp_path / "timed", quiet=True)
    steps = json.loads((tmp_path / "timed/budget.json").read_text())["steps"]
    counted = train_descriptor(settings_for(folder, steps=steps, log_every=50), tmp_path / "counted", quiet=True)
    first, second = load_file(timed), load_file(counted)
    assert all(torch.equal(tensor, second[name]) for name, tensor in first.items())


# Settings, devices, weights


@pytest.mark.parametrize(
    "changes", [{"batch": 0}, {"rate": 0.0}, {"dropout": 1.0}, {"average": -0.1}, {"seed": -1}, {"second_order": -1.0}]
)
def test_settings_out_of_range_are_named(changes):
    refused(InvalidArgument, next(iter(changes)), DescriptorSettings, **changes)


def test_settings_come_from_toml(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text('exclude = ["coffee"]\nminutes = 2\nbatch = 64\n')
    found = read_settings(DescriptorSettings, path, seed=3)
    assert found == dataclasses.replace(DescriptorSettings(), exclude=("coffee",), minutes=2.0, batch=64, seed=3)


def test_devices_and_precisions_that_do_not_exist_are_named():
    for name in ("gpu", "meta"):
        refused(InvalidArgument, "device", pick_device, name)
    refused(InvalidArgument, "precision", resolve_precision, "float16", torch.device("cpu"))
    assert resolve_precision("auto", torch.device("cpu")) in ("float32", "bfloat16")


def test_weights_are_told_from_their_shapes(tmp_path):
    network = HardNet(width=0.25, dimensions=64, seed=5).eval()
    patches = torch.rand(4, 1, 32, 32)
    save_descriptor(network, tmp_path / "a.safetensors", note="kept")
    torch.save({"state_dict": network.state_dict(), "epoch": 3}, tmp_path / "b.pth")
    for name in ("a.safetensors", "b.pth"):
        assert torch.equal(load_descriptor(tmp_path / name)(patches), network(patches)), name


def test_files_that_are_no_descriptors_are_named(tmp_path):
    (tmp_path / "text.safetensors").write_text("hello")
    (tmp_path / "text.pt").write_text("hello")
    torch.save({"weight": torch.zeros(3)}, tmp_path / "other.pt")
    torch.save([1, 2], tmp_path / "list.pt")
    for name in ("text.safetensors", "text.pt", "other.pt", "list.pt", "absent.pt"):
        with pytest.raises(InvalidArgument):
            load_descriptor(tmp_path / name)
    refused(InvalidArgument, "finished run", load_descriptor, tmp_path)
