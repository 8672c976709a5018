"""While a command works a terminal says so; a file or a pipe gets results alone."""

import io
import sys

import pytest
from PIL import Image
from typer.testing import CliRunner

from pellucid.cli import app
from pellucid.cli.waiting import waiting


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_is_told_and_left_clean(monkeypatch, capsys):
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with waiting("Doing one thing") as say:
        say("Doing [another]")
    assert "Doing [another]" in terminal.getvalue()
    assert terminal.getvalue().rstrip().endswith("\x1b[2K")  # the line is erased
    assert capsys.readouterr().out == ""


def test_nothing_is_written_elsewhere(capsys):
    with waiting("Doing"):
        pass
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("command", ["register", "warmup", "doctor", "audit", "export-descriptor", "eval-descriptor"])
def test_what_takes_longer_than_two_seconds_says_what_it_does(command, monkeypatch, tmp_path):
    seen = []

    class Enough(BaseException):
        pass

    def recorded(what):
        seen.append(what)
        raise Enough

    monkeypatch.setattr("pellucid.cli.waiting.waiting", recorded)
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    picture = str(tmp_path / "a.png")
    arguments = {
        "register": [picture, picture],
        "audit": ["torch:sin"],
        "export-descriptor": [str(tmp_path / "w.safetensors"), str(tmp_path / "w.pt2")],
        "eval-descriptor": ["--photographs", "coffee"],
    }
    with pytest.raises(Enough):
        CliRunner().invoke(app, [command, *arguments.get(command, [])])
    assert len(seen) == 1
