"""Options that come from the fields of a run's settings: each is there, says what its docstring says, and beats the file."""

import dataclasses
import inspect
import re

import pytest
import typer
from typer.testing import CliRunner

from pellucid.cli.settings import takes
from pellucid.features.train import DescriptorSettings, DetectorSettings, JointSettings
from pellucid.learn import RECIPES
from pellucid.learn.demo import Rotation
from pellucid.training.settings import described

KINDS = [DescriptorSettings, DetectorSettings, JointSettings, *(recipe.settings for recipe in RECIPES.values())]
OPTIONS = {"exclude": ["coffee,rocket", "text"], "hypergradient": ["implicit"], "statistics": ["full"]}
VALUES = {"exclude": ("coffee", "rocket", "text"), "hypergradient": "implicit", "statistics": "full"}


def invoke(kind, *arguments):
    seen = []

    def command(settings):
        seen.append(settings)

    app = typer.Typer()
    app.command()(takes(kind)(command))
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return seen[0] if seen else result.output


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_is_an_option(kind, tmp_path):
    changes, arguments = {}, []
    for field in dataclasses.fields(kind):
        name, flag = field.name, f"--{field.name.replace('_', '-')}"
        if name in OPTIONS:
            changes[name] = VALUES[name]
            arguments += [word for value in OPTIONS[name] for word in (flag, value)]
        elif isinstance(field.default, bool):
            changes[name] = not field.default
            arguments.append(flag if changes[name] else flag.replace("--", "--no-", 1))
        else:
            changes[name] = "cpu" if isinstance(field.default, str) else 0.25 if isinstance(field.default, float | None) else 3
            arguments += [flag, str(changes[name])]
    assert invoke(kind) == kind()
    assert invoke(kind, *arguments) == kind(**changes)
    file = tmp_path / "run.toml"
    file.write_text("steps = 7\nbatch = 8\nseed = 9\n")
    found = invoke(kind, "--config", str(file), "--set", "batch=5", "--set", "seed=4", "--seed", "6")
    assert (found.steps, found.batch, found.seed) == (7, 5, 6)


@pytest.mark.parametrize("kind", [*KINDS, Rotation])
def test_every_field_is_described_once(kind):
    fields = {field.name for field in dataclasses.fields(kind)}
    assert described(kind).keys() >= fields
    own = re.findall(r"^    (\w[\w, ]*): ", inspect.getdoc(kind), re.MULTILINE)
    assert {name for names in own for name in names.split(", ")} <= fields
