"""The file and the plan printed in docs/cli.md are the ones the code writes."""

import re
from pathlib import Path

from typer.testing import CliRunner

from pellucid import Pipeline
from pellucid.cli import app

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


def test_the_printed_file_is_what_save_writes(tmp_path):
    printed = re.search(r"```toml\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)[1]
    (tmp_path / "augment.toml").write_text(printed)
    Pipeline.load(tmp_path / "augment.toml").save(tmp_path / "again.toml")
    assert (tmp_path / "again.toml").read_text() == printed


def test_the_printed_plan_is_what_explain_prints(tmp_path):
    text = PAGE.read_text()
    file = tmp_path / "augment.toml"
    file.write_text(re.search(r"```toml\n(.*?)```", text, flags=re.DOTALL)[1])
    printed = re.search(r"```\n(Warp.*?)```", text, flags=re.DOTALL)[1]
    output = CliRunner().invoke(app, ["explain", "-p", str(file), "--size", "480x640"]).output
    # Which implementation runs depends on the machine.
    without = re.compile(r"^impl .*\n", flags=re.MULTILINE)
    assert without.sub("", printed) == without.sub("", output)
