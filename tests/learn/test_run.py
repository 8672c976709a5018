"""Every recipe from the command line's side: it learns, leaves its files, and resumes exactly."""

import base64
import json

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from pellucid import Pipeline
from pellucid.cli import app
from pellucid.errors import InvalidArgument, InvalidType
from pellucid.learn import AugerinoSettings, BilevelSettings
from pellucid.learn.data import load_pictures
from pellucid.learn.ranges import numbers_of, readable
from pellucid.learn.run import RECIPES, learn, narrow
from pellucid.policy import RandomChoice
from pellucid.training import NonFiniteLoss, read_log
from tests.refusals import refused

OWN = {"augerino": {}, "bilevel": {"every": 2, "terms": 2}, "density": {"pairs": 3}, "teach": {}}
SETTINGS = {name: RECIPES[name].settings(images=64, held=48, steps=6, batch=16, **own) for name, own in OWN.items()}


@pytest.fixture(scope="module")
def digits():
    return load_pictures()


@pytest.mark.sampled(len(RECIPES))
@pytest.mark.parametrize("recipe", RECIPES)
def test_a_run_learns_and_leaves_its_files(recipe, digits, tmp_path):
    outcome = learn(recipe, digits, SETTINGS[recipe], tmp_path / "run", quiet=True)
    moved = [name for name, value in outcome.learned.items() if value != outcome.start[name]]
    ends = [name for name in outcome.learned if not name.endswith(".low")]
    assert len([name for name in moved if name in ends]) >= 0.9 * len(ends) if recipe != "density" else moved
    log = read_log(outcome.directory / "log.csv")
    assert log["step"] == [6]
    for name, value in outcome.learned.items():
        assert log[name][-1] == pytest.approx(value, rel=1e-6)
    pixels = np.asarray(Image.open(outcome.directory / "ranges.png").convert("RGB"))
    assert min(pixels.shape[:2]) > 100
    result = json.loads((outcome.directory / "result.json").read_text())
    assert 0 <= result["accuracy"] <= 1
    if recipe != "density":
        plain = Pipeline.load(outcome.directory / "augment.toml")
        assert not list(plain.parameters())
        assert plain(digits.x_train[:2].float() / 255).shape == (2, 1, 16, 16)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES)
def test_a_killed_run_resumes_to_the_same_numbers(recipe, digits, tmp_path, monkeypatch):
    from pellucid.learn import run
    from pellucid.training import loop

    real = loop.fit

    def dies(step, *args, **kwargs):
        def stops(index):
            if index == 4:
                raise KeyboardInterrupt
            return step(index)

        return real(stops, *args, **{**kwargs, "save_every": 2})

    monkeypatch.setattr(run, "plot_ranges", lambda *args, **kwargs: None)  # the slowest part, and not the subject here
    monkeypatch.setattr(loop, "fit", dies)
    with pytest.raises(KeyboardInterrupt):
        learn(recipe, digits, SETTINGS[recipe], tmp_path / "cut", quiet=True)
    monkeypatch.setattr(loop, "fit", real)
    whole = learn(recipe, digits, SETTINGS[recipe], tmp_path / "whole", quiet=True)
    resumed = learn(recipe, digits, SETTINGS[recipe], tmp_path / "cut", quiet=True)
    assert resumed.learned == whole.learned
    assert resumed.accuracy == whole.accuracy
    refused(InvalidArgument, "Resume", learn, recipe, digits, SETTINGS[recipe], tmp_path / "cut", quiet=True, resume=False)


def test_what_a_recipe_needs_is_named(digits, tmp_path):
    with pytest.raises(InvalidArgument, match="held-out"):
        learn("bilevel", digits, BilevelSettings(images=64, steps=1, held=0), tmp_path, quiet=True)
    with pytest.raises(InvalidArgument, match="unrolled"):
        learn("bilevel", digits, BilevelSettings(images=64, steps=1, held=32, hypergradient="magic"), tmp_path, quiet=True)
    refused(InvalidArgument, "augerino", learn, "autoaugment", digits, AugerinoSettings(), tmp_path, quiet=True)
    with pytest.raises(InvalidType, match="expected AugerinoSettings, got BilevelSettings"):
        learn("augerino", digits, BilevelSettings(images=64, steps=1), tmp_path, quiet=True)
    with pytest.raises(NonFiniteLoss):
        learn("augerino", digits, AugerinoSettings(images=64, steps=20, rate=1e12), tmp_path, quiet=True)


def test_ranges_read_like_ranges():
    lines = readable(numbers_of(narrow()))
    assert lines["0 RandomHorizontalFlip p"] == "0.25"
    assert lines["1 RandomAffine degrees"] == "-4.5 .. 4.5"
    assert lines["1 RandomAffine scale"] == "0.977 .. 1.02"
    choice = RandomChoice([narrow().transforms[:1], []], weights=(1.0, 3.0), learn=True)
    assert readable(numbers_of(choice))["0 OneOf choice"] == "0.25, 0.75"


@pytest.mark.slow
def test_the_commands(tmp_path):
    runner = CliRunner()
    config = tmp_path / "run.toml"
    config.write_text("images = 48\nbatch = 16\nheld = 32\n")
    for recipe in ("bilevel",):
        result = runner.invoke(app, ["learn", recipe, "-c", str(config), "--steps", "2", "-o", str(tmp_path / recipe)])
        assert result.exit_code == 0, result.output
        assert "RandomAffine degrees" in result.output
        assert "Test accuracy" in result.output
    result = runner.invoke(app, ["learn", "augerino", "--rate", "1e12", "--steps", "20", "-o", str(tmp_path / "diverging")])
    assert result.exit_code == 2
    assert "Lower the learning rate" in result.output
    config.write_text("imagez = 48\n")
    result = runner.invoke(app, ["learn", "density", "-c", str(config), "-o", str(tmp_path / "density")])
    assert result.exit_code == 2
    assert "imagez" in result.output


@pytest.mark.slow
def test_a_rotation_that_has_not_arrived_fails_the_command(tmp_path):
    result = CliRunner().invoke(app, ["learn", "rotation", "--steps", "3", "-o", str(tmp_path)])
    assert result.exit_code == 1
    assert "Truth 45.0 degrees; optimum with this reward 45.91." in result.output
    assert (tmp_path / "rotation-from-10/ranges.png").exists()


@pytest.mark.slow
@pytest.mark.parametrize("theta", [45.0, 60.0])
def test_augerino_finds_the_width_from_both_sides(theta, tmp_path):
    from pellucid.learn.demo import Rotation, turn_both_ways

    settings = Rotation(theta=theta)
    for result in turn_both_ways(settings, tmp_path):
        assert result.learned == pytest.approx(settings.truth, rel=0.1), result


@pytest.mark.slow
def test_the_demo_is_small_and_tells_what_it_did(tmp_path):
    result = CliRunner().invoke(app, ["learn", "demo", "--steps", "3", "--turns", "3", "-o", str(tmp_path)])
    assert result.exit_code == 0, result.output
    page = (tmp_path / "index.html").read_text()
    assert "RandomAffine degrees" in page
    for name in ("digits/ranges.png", "rotation-from-10/ranges.png", "rotation-from-120/ranges.png"):
        assert base64.b64encode((tmp_path / name).read_bytes()).decode() in page
    assert 'src="data:' in page
    assert "--accent" in page  # the look of the other reports
    assert torch.is_grad_enabled()
