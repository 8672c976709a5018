"""Detector and joint runs, and the commands around them."""

import json

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from pellucid.cli import app
from pellucid.errors import InvalidArgument
from pellucid.features import HardNet, KeypointNet
from pellucid.features.data import HomographicPairs, bundled_photographs
from pellucid.features.train import DetectorSettings, JointSettings, JointTrainer, train_detector, train_joint
from pellucid.features.train.trainer import rank_share
from pellucid.features.weights import detector_notes, load_descriptor, load_detector, save_descriptor, save_detector
from pellucid.training import World, read_log
from tests.refusals import refused

CPU = torch.device("cpu")


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def photographs():
    return list(bundled_photographs(("coins",), longest=200).values())


@pytest.fixture(scope="module")
def folder(tmp_path_factory, photographs):
    home = tmp_path_factory.mktemp("photographs")
    Image.fromarray((photographs[0][0] * 255).round().byte().numpy()).save(home / "coins.png")
    return home


def weights(module):
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


@pytest.mark.slow
def test_a_detector_run_is_resumed_exactly(folder, tmp_path):
    settings = DetectorSettings(photographs=str(folder), steps=6, batch=2, size=64, save_every=2, log_every=1, device="cpu")
    whole = train_detector(settings, tmp_path / "whole", quiet=True)
    train_detector(settings, tmp_path / "cut", quiet=True)
    (tmp_path / "cut/detector.safetensors").unlink()
    for late in sorted((tmp_path / "cut/checkpoints").iterdir())[1:]:  # as if it had been killed after step 4
        for file in late.iterdir():
            file.unlink()
        late.rmdir()
    cut = train_detector(settings, tmp_path / "cut", quiet=True)
    first, second = weights(load_detector(whole)), weights(load_detector(cut))
    assert all(torch.equal(tensor, second[name]) for name, tensor in first.items())
    assert len(read_log(tmp_path / "cut/log.csv")["loss"]) == 6
    image = torch.rand(1, 1, 40, 40)
    assert load_detector(tmp_path / "cut")(image).response.shape == (1, 1, 40, 40)


def test_ranks_share_the_pairs_of_a_step(photographs):
    pairs = HomographicPairs(photographs, size=64)
    whole, one = rank_share(pairs, 3, 5, World())
    parts = [rank_share(pairs, 3, 5, World(rank, 2)) for rank in range(2)]
    assert one == 1
    assert [weight for _, weight in parts] == pytest.approx([6 / 5, 4 / 5])
    assert torch.equal(torch.cat([views.first for views, _ in parts]), whole.first)


@pytest.mark.parametrize("heads", [{}, {"orientation": True, "scale": True, "channels": (4, 6)}])
def test_a_detector_is_written_and_read_back(tmp_path, heads):
    network = KeypointNet(seed=3, **heads).eval()
    save_detector(network, tmp_path / "d.safetensors", patch_scale=12.0)
    image = torch.rand(1, 1, 32, 32)
    for mine, theirs in zip(network(image), load_detector(tmp_path / "d.safetensors")(image), strict=True):
        assert mine is theirs is None or torch.equal(mine, theirs)
    assert detector_notes(tmp_path / "d.safetensors")["patch_scale"] == 12.0
    save_descriptor(HardNet(width=0.125), tmp_path / "h.safetensors")
    refused(InvalidArgument, "KeypointNet", load_detector, tmp_path / "h.safetensors")
    refused(InvalidArgument, "detector", load_detector, tmp_path / "absent")


def test_the_pair_term_moves_the_detector_through_the_patches(photographs):
    """Detector gradients change with the weight of the pair term; the descriptor's do not."""
    pairs = HomographicPairs(photographs, size=96, strength=0.3)
    found = {}
    for weight in (0.0, 5.0):
        settings = JointSettings(batch=2, keypoints=24, pair_weight=weight)
        trainer = JointTrainer(settings, KeypointNet(), HardNet(width=0.125, dropout=0.0), pairs, World(), CPU)
        numbers = trainer.step(0, 10)
        assert float(numbers["patches"]) > 10
        assert all(np.isfinite(float(number)) for number in numbers.values())
        found[weight] = {
            name: torch.cat([p.grad.flatten() for p in network.parameters()])
            for name, network in (("detector", trainer.detector), ("descriptor", trainer.descriptor))
        }
    assert torch.equal(found[0.0]["descriptor"], found[5.0]["descriptor"])
    apart = (found[0.0]["detector"] - found[5.0]["detector"]).norm()
    assert apart > 1e-3 * found[0.0]["detector"].norm()


def test_views_with_nothing_in_common_are_survived():
    flat = [torch.full((1, 96, 96), 0.5)]
    settings = JointSettings(batch=2, keypoints=8)
    pairs = HomographicPairs(flat, size=64, photometric=0.0)
    trainer = JointTrainer(settings, KeypointNet(), HardNet(width=0.125), pairs, World(), CPU)
    before = weights(trainer.descriptor)
    numbers = trainer.step(0, 10)
    assert all(np.isfinite(float(number)) for number in numbers.values())
    assert all(torch.isfinite(tensor).all() for tensor in weights(trainer.detector).values())
    assert before.keys() == weights(trainer.descriptor).keys()


@pytest.mark.slow
def test_joint_training_keeps_what_it_started_from(folder, tmp_path):
    settings = JointSettings(
        photographs=str(folder),
        detector_steps=2,
        descriptor_steps=2,
        steps=3,
        batch=2,
        size=96,
        keypoints=16,
        width=0.125,
        device="cpu",
        log_every=1,
    )
    home = train_joint(settings, tmp_path, quiet=True)
    for load, name in ((load_detector, "detector"), (load_descriptor, "descriptor")):
        start, end = weights(load(home / "before")), weights(load(home))
        alone = weights(load(home / name))
        assert all(torch.equal(tensor, alone[key]) for key, tensor in start.items())
        assert not all(torch.equal(tensor, end[key]) for key, tensor in start.items())
    assert read_log(home / "joint/log.csv")["step"] == [1, 2, 3]


# The commands


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.mark.slow
def test_commands_train_measure_and_export(folder, tmp_path):
    run = tmp_path / "run"
    settings = tmp_path / "run.toml"
    settings.write_text(f'photographs = "{folder.as_posix()}"\nbatch = 8\nwidth = 0.125\nkeypoints = 60\n')
    result = call("train-descriptor", run, "--config", settings, "--steps", 3, "--set", "dropout=0.0", "--seed", 4, "--quiet")
    assert result.exit_code == 0, result.output
    outputs = ("--json", tmp_path / "t.json", "--markdown", tmp_path / "t.md", "--pictures", tmp_path)
    measured = call("eval-descriptor", "--photographs", "text", "-w", run, "--baselines", "rootsift", "--keypoints", 80, *outputs)
    assert measured.exit_code == 0, measured.output
    rows = json.loads((tmp_path / "t.json").read_text())["rows"]
    assert [row["method"] for row in rows] == ["run", "rootsift"]
    assert (tmp_path / "t.md").read_text().count("\n") == 4
    with Image.open(tmp_path / "matches-text.png") as picture:
        assert picture.height > 300
    exported = call("export-descriptor", run, tmp_path / "d.pth")
    assert exported.exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("train-descriptor", "x", "--set", "bach=3"), "bach"),
        (("train-descriptor", "x", "--set", "batch"), "NAME=VALUE"),
        (("train-descriptor", "x", "--set", "batch=0"), "batch"),
        (("train-descriptor", "x", "--photographs", "nowhere"), "nowhere"),
        (("train-descriptor", "x", "--exclude", "moon"), "moon"),
        (("train-detector", "x", "--set", "rate='fast'"), "rate"),
        (("train-joint", "x", "--config", "nowhere.toml"), "nowhere.toml"),
        (("eval-descriptor",), "DIR"),
        (("eval-descriptor", "nowhere"), "nowhere"),
        (("eval-descriptor", "nowhere", "--weights", "absent"), "absent"),
        (("eval-descriptor", "nowhere", "--baselines", "surf"), "surf"),
        (("eval-descriptor", "nowhere", "--keypoints", "0"), "keypoints"),
        (("export-descriptor", "absent", "x.onnx"), "absent"),
    ],
)
def test_mistakes_end_in_a_sentence(arguments, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = call(*arguments)
    assert result.exit_code == 2, result.output
    assert words in result.output
    assert "Traceback" not in result.output
    assert not list(tmp_path.iterdir())
