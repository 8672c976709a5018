"""What a user gets wrong ends in one sentence that names it and exit code 2, before any work is done."""

import sys

import pytest
from typer.testing import CliRunner

from pellucid import Pipeline, RandomRotation
from pellucid.cli import app

MODULES = {
    "safetensors": [
        ["learn", "augerino"],
        ["learn", "bilevel", "--held", "50"],
        ["learn", "density"],
        ["learn", "teach"],
        ["learn", "rotation"],
        ["learn", "demo"],
        ["study", "learned"],
        ["train-descriptor", "run"],
        ["train-joint", "run"],
        ["eval-descriptor", "--photographs", "camera"],
    ],
    "matplotlib": [["learn", "augerino"], ["train-detector", "run"], ["study", "detach", "--quick", "--write", "docs"]],
    "skimage": [
        ["demo", "--small"],
        ["study", "detach", "--quick"],
        ["train-detector", "run"],
        ["eval-descriptor", "--photographs", "camera"],
    ],
    "cv2": [["train-detector", "run"], ["eval-descriptor", "somewhere"]],
    "onnx": [["export-descriptor", "run", "out.onnx"]],
}


def invoke(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


@pytest.mark.parametrize(
    ("module", "arguments"), [(module, arguments) for module, calls in MODULES.items() for arguments in calls], ids=str
)
def test_a_missing_extra_is_named_up_front(module, arguments, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setitem(sys.modules, "pellucid.training.loop", None)  # whoever goes on to train fails on this
    result = invoke(*arguments)
    assert result.exit_code == 2, result.output
    assert "pip install 'pellucid[" in result.output
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["train-descriptor", "train-detector", "train-joint"])
def test_a_wrong_name_is_blamed_on_where_it_stood(command, tmp_path):
    config = tmp_path / "settings.toml"
    config.write_text("steps = 3\n")
    for assignment in ("widht=1", "path=1", "kind=1", "origins=1"):
        result = invoke(command, tmp_path / "run", "--config", config, "--set", assignment)
        assert result.exit_code == 2, result.output
        assert f"--set: {assignment[:-2]}" in result.output
        assert "settings.toml" not in result.output
    config.write_text("widht = 3\n")
    result = invoke(command, tmp_path / "run", "--config", config, "--set", "steps=2")
    assert result.exit_code == 2
    assert "settings.toml: widht" in result.output
    result = invoke(command, tmp_path / "run", "--set", "steps=many")
    assert result.exit_code == 2
    assert "--set: steps" in result.output


@pytest.mark.parametrize("content", [b"\xff\xfe", b"steps = ", b"steps = " + b"[" * 50_000])
def test_settings_that_are_no_toml_are_named(content, tmp_path):
    config = tmp_path / "settings.toml"
    config.write_bytes(content)
    for call in (["learn", "augerino", "--config", config], ["train-detector", tmp_path / "run", "--config", config]):
        result = invoke(*call)
        assert result.exit_code == 2, result.output
        assert "settings.toml: expected a TOML file" in result.output


FILES = {
    "list.json": b"[1, 2]",
    "latin.toml": "a = 'é'".encode("latin-1"),
    "deep.json": b"[" * 100_000,
    "empty.json": b"",
    "folder.json": None,
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("command", ["explain", "preview"])
def test_hostile_pipeline_files_end_in_a_sentence(name, command, tmp_path):
    path = tmp_path / name
    path.mkdir() if FILES[name] is None else path.write_bytes(FILES[name])
    picture = tmp_path / "picture.png"
    picture.write_bytes(b"no picture")
    result = invoke(*([command, "--pipeline", path] if command == "explain" else [command, picture, "--pipeline", path]))
    assert result.exit_code == 2, result.output
    assert name in result.output


def test_pictures_and_outputs_that_cannot_be_are_named(tmp_path):
    pipeline = tmp_path / "pipeline.toml"
    Pipeline([RandomRotation(9.0)]).save(pipeline)
    (tmp_path / "picture.png").write_bytes(b"no picture")
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "broken.py").write_text("def f(:")
    for arguments in (
        ["preview", tmp_path / "picture.png", "--pipeline", pipeline],
        ["preview", tmp_path, "--pipeline", pipeline],
        ["preview", tmp_path / "missing.png", "--pipeline", pipeline],
        ["explain", "--pipeline", tmp_path / "file" / "pipeline.toml"],
        ["audit", "no_such_module:function"],
        ["audit", "math:no_such_function"],
        ["explain", "--pipeline", pipeline, "--size", "9" * 5000],
        ["audit", "nothing"],
        ["audit", "torch.nn:Linear(3)"],
        ["audit", "torch.nn:Linear(3,)("],
        ["audit", tmp_path / "broken.py:f"],
        ["audit", tmp_path / "absent.py:f"],
        ["audit", "math:sin", "--inputs", "9999999x9999999x99"],
        ["audit", "math:sin", "--inputs", "scalar:eye"],
        ["study", "detach", "--threads", "0"],
    ):
        result = invoke(*arguments)
        assert result.exit_code == 2, (arguments, result.output)
        assert result.exception is None or isinstance(result.exception, SystemExit), (arguments, result.exception)


@pytest.mark.parametrize("recipe", ["augerino", "bilevel", "teach"])
def test_a_run_that_diverges_ends_in_a_sentence(recipe, tmp_path):
    config = tmp_path / "settings.toml"
    config.write_text("rate = 1e12\nimages = 64\nbatch = 32\nsteps = 20\nheld = 32\n")
    result = invoke("learn", recipe, "--config", config, "--output", tmp_path / "run")
    assert result.exit_code == 2, result.output
    assert isinstance(result.exception, SystemExit), result.exception
    assert "Lower the learning rate" in result.output
