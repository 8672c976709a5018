"""``pellucid import`` writes a pipeline file, says what is missing, and runs nothing that it is not told to."""

import json

import pytest
from typer.testing import CliRunner

from pellucid import Pipeline
from pellucid.cli import app

ROTATE = {"__version__": "2.0.8", "transform": {"__class_fullname__": "Compose", "transforms": [{"__class_fullname__": "Rotate"}]}}


def run(*words):
    return CliRunner().invoke(app, ["import", *map(str, words)])


@pytest.mark.parametrize("suffix", ["json", "toml", "yaml"])
def test_a_file_of_plain_data(tmp_path, suffix):
    source, out = tmp_path / f"theirs.{suffix}", tmp_path / "augment.toml"
    if suffix == "toml":
        tomli_w = pytest.importorskip("tomli_w")
        source.write_text(tomli_w.dumps(ROTATE))
    elif suffix == "yaml":
        yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: files in YAML are not read")
        source.write_text(yaml.safe_dump(ROTATE))
    else:
        source.write_text(json.dumps(ROTATE))
    done = run(source, "-o", out)
    assert done.exit_code == 0, done.output
    assert "1 of 1 transforms of albumentations" in done.output
    assert Pipeline.load(out)[0].degrees == (-90.0, 90.0)


def test_what_hydra_instantiates(tmp_path):
    source = tmp_path / "config.json"
    step = {"_target_": "albumentations.HorizontalFlip", "p": 0.3}
    compose = {"_target_": "albumentations.Compose", "transforms": [step], "_convert_": "all"}
    source.write_text(json.dumps({"seed": 1, "train": {"loader": [{"size": 4}], "augment": compose}}))
    done = run(source)
    assert "RandomHorizontalFlip(0.3)" in done.output, done.output
    assert "1 of 1 transforms of albumentations" in done.output


def test_another_library_is_named(tmp_path):
    source, out = tmp_path / "theirs.json", tmp_path / "augment.json"
    source.write_text(json.dumps({"name": "RandomAffine", "degrees": [0, 10]}))
    assert run(source, "-o", out).exit_code != 0
    assert run(source, "-o", out, "--from", "torchvision").exit_code == 0
    assert Pipeline.load(out)[0].degrees == (-10.0, 0.0)


def test_what_is_missing_is_listed_and_may_be_left_out(tmp_path):
    source, out = tmp_path / "theirs.json", tmp_path / "augment.toml"
    both = {"name": "Compose", "transforms": [{"name": "RandomInvert"}, {"name": "FiveCrop", "size": 9}]}
    source.write_text(json.dumps(both))
    done = run(source, "-o", out, "--from", "torchvision")
    assert done.exit_code != 0
    assert not out.exists()
    done = run(source, "-o", out, "--from", "torchvision", "--skip")
    assert done.exit_code == 0
    assert "pipeline.transforms[1]: FiveCrop" in done.output
    assert len(Pipeline.load(out)) == 1


def test_python_files_run_only_where_allowed(tmp_path):
    source, out, trace = tmp_path / "theirs.py", tmp_path / "augment.toml", tmp_path / "trace"
    source.write_text(f"open({str(trace)!r}, 'w').close()\naugment = {{'name': 'RandomInvert'}}\n")
    done = run(f"{source}:augment", "-o", out, "--from", "torchvision")
    assert done.exit_code != 0
    assert not trace.exists()
    done = run(f"{source}:augment", "-o", out, "--from", "torchvision", "--allow")
    assert done.exit_code == 0, done.output
    assert trace.exists()
    assert Pipeline.load(out)[0].p == 0.5
