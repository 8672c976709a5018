"""The program as a whole: help, explain, exit codes, and how little it imports."""

import json
import subprocess
import sys

import pytest
from PIL import Image
from typer.testing import CliRunner

import pellucid
from pellucid import Pipeline, RandomAffine, RandomHorizontalFlip
from pellucid.cli import app


@pytest.fixture
def pipeline(tmp_path):
    file = tmp_path / "pipeline.toml"
    Pipeline([RandomAffine(degrees=15), RandomHorizontalFlip()]).save(file)
    return file


def explain(*arguments):
    return CliRunner().invoke(app, ["explain", *map(str, arguments)])


def test_help_imports_nothing_heavy():
    heavy = ["matplotlib", "numba", "skimage", "triton", "PIL"]
    code = f"""
import json, sys
from pellucid.cli import main
sys.argv = ["pellucid", "--help"]
try:
    main()
except SystemExit as stop:
    assert not stop.code, stop.code
print(json.dumps([name for name in {heavy} if name in sys.modules]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *text, loaded = done.stdout.strip().splitlines()
    assert json.loads(loaded) == []
    for command in ("demo", "preview", "explain"):
        assert any(command in line for line in text)


def test_runs_as_a_module():
    done = subprocess.run([sys.executable, "-m", "pellucid.cli", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"pellucid {pellucid.__version__}"


@pytest.mark.parametrize("command", ["explain", "preview"])
def test_modules_are_imported_where_allowed(command, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "others", raising=False)
    (tmp_path / "others.py").write_text("import pellucid\n\n\nclass Turn(pellucid.RandomRotation):\n    pass\n")
    (tmp_path / "p.json").write_text('{"pellucid": 1, "transforms": [{"name": "others.Turn", "degrees": 5}]}')
    Image.new("RGB", (20, 20)).save(tmp_path / "a.png")
    files = ["a.png", "--output", str(tmp_path / "sheet.png")] if command == "preview" else []
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()
    refused = runner.invoke(app, [command, *files, "--pipeline", "p.json"])
    assert refused.exit_code == 2, refused.output
    assert "others" not in sys.modules
    done = runner.invoke(app, [command, *files, "--pipeline", "p.json", "--allow", "others"])
    assert done.exit_code == 0, done.output


def test_explain(pipeline):
    result = explain("--pipeline", pipeline, "--size", "48x64", "--channels", 1)
    assert result.exit_code == 0, result.output
    assert result.output.strip() == Pipeline.load(pipeline).explain(size=(48, 64), channels=1)
    assert "48 x 64" in result.output


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--size", "many"], "--size"),
        (["--size", "0x4"], "from 1 to"),
        (["--channels", "0"], "an integer >= 1"),
        (["--channels", "few"], "--channels"),
    ],
)
def test_explain_names_a_mistake(pipeline, options, words):
    result = explain("--pipeline", pipeline, *options)
    assert result.exit_code == 2
    assert words in result.output


def test_files_that_are_not_pipelines(tmp_path):
    for name, content in (("a.toml", "transforms = 3"), ("b.toml", "= no toml"), ("c.yaml", ""), ("d.json", "{}")):
        (tmp_path / name).write_text(content)
        result = explain("--pipeline", tmp_path / name)
        assert result.exit_code == 2, result.output
        assert "error: " in result.output
    assert explain("--pipeline", tmp_path / "missing.toml").exit_code == 2


def test_our_own_defects_keep_their_traceback(pipeline, monkeypatch):
    def broken(*_, **__):
        raise ZeroDivisionError

    monkeypatch.setattr(Pipeline, "explain", broken)
    assert isinstance(explain("--pipeline", pipeline).exception, ZeroDivisionError)


@pytest.mark.parametrize("command", ["demo", "gallery"])
def test_help_keeps_the_names_of_extras(command):
    """Rich takes brackets for its own marks."""
    said = CliRunner().invoke(app, [command, "--help"]).output
    assert "'pellucid[demo]'" in said


def test_a_reader_who_has_read_enough_is_no_mistake(pipeline, monkeypatch):
    def closed(*_arguments, **_options):
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr("pellucid.pipeline.Pipeline.explain", closed)
    done = explain("--pipeline", pipeline)
    assert done.exit_code == 1
    assert not done.output
