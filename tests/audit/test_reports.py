"""What an audit is turned into: terminal, JSON, HTML, Markdown, exit code, and what the command prints."""

import base64
import io
import json
import re

import numpy as np
import planted_gradients as planted
import planted_singular as singular
import pytest
import torch
from PIL import Image
from rich.console import Console
from typer.testing import CliRunner

from pellucid.audit import audit
from pellucid.audit.pictures import agreement_plot, heat, states
from pellucid.audit.spec import parse_inputs, resolve
from pellucid.audit.table import audit_table
from pellucid.audit.terminal import show
from pellucid.cli import app
from pellucid.errors import InvalidArgument
from tests.refusals import refused

X = planted.X


@pytest.fixture(scope="module")
def report():
    return audit(planted.rebuilt_matrix, (X, planted.ANGLE))


def decode(png):
    picture = Image.open(io.BytesIO(png))
    assert (picture.format, picture.mode) == ("PNG", "RGB")
    return np.asarray(picture)


def test_json_is_json_and_says_all(report, tmp_path):
    data = json.loads(report.to_json(tmp_path / "r.json"))
    assert data == json.loads((tmp_path / "r.json").read_text())
    assert data["exit_code"] == 2
    assert data["findings"][0]["category"] == "detached"
    assert data["findings"][0]["place"].split(":")[0].endswith("planted_gradients.py")
    assert data["findings"][0]["advice"]
    assert data["measures"]["angle"]["coverage"] == 0.0
    # Also where numbers are not finite.
    json.loads(audit(singular.distance_to_itself, X).to_json(), parse_constant=lambda c: pytest.fail(f"{c} is not JSON"))


def test_html_is_self_contained(report, tmp_path):
    text = report.to_html(tmp_path / "r.html")
    assert (tmp_path / "r.html").read_text(encoding="utf-8") == text
    assert not re.search(r"<script|<link|src=\"(?!data:)|https?://", text)
    pictures = re.findall(r"data:image/png;base64,([A-Za-z0-9+/=]+)", text)
    assert len(pictures) == 2  # magnitude and dead zones of x; angle is a scalar
    assert all(decode(base64.b64decode(p)).shape == (48, 32, 3) for p in pictures)
    assert text.count('<svg class="plot"') == 2
    assert "torch.stack" in text


def test_html_escapes_names():
    report = audit(torch.sin, X, name="<b>&")
    assert "<b>" not in report.to_html()


def test_terminal_shows_every_finding(report):
    out = io.StringIO()
    show(report, Console(file=out, width=160))
    text = out.getvalue()
    for word in ("error", "detached", "planted_gradients.py", "angle", "exit code 2"):
        assert word in text


def test_pictures_have_the_pixels_they_claim():
    values = np.zeros((2, 3, 4, 5))
    values[1, 2, 3, 4] = 1.0
    pixels = decode(heat(values))
    assert pixels.shape == (12, 10, 3)
    assert (pixels[-1, -1] != pixels[0, 0]).any()
    assert (pixels.reshape(-1, 3) == pixels[0, 0]).all(1).sum() == 119
    classes = decode(states(np.array([[0, 1, 2, 3]])))
    assert len({tuple(p) for p in classes[0]}) == 4
    assert decode(heat(np.array(2.0))).shape == (1, 1, 3)


def test_the_plot_marks_disagreement():
    svg = agreement_plot([(1.0, 1.0), (0.5, -0.5), (float("nan"), 0.0)])
    assert svg.count('class="good"') == 1
    assert svg.count('class="bad"') == 1


def test_the_table_has_a_row_per_argument():
    text = audit_table(
        [("contrast", lambda x, c: x * c, (X, torch.tensor(0.5)), {"*": "exact"}), ("round", torch.round, 5 * X, {})]
    )
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) == 2 + 2 + 1
    assert len({row.count("|") for row in rows}) == 1
    assert "| contrast | x | exact | exact | 100 % |" in text
    assert "none" in rows[-1]


def command(*words):
    return CliRunner().invoke(app, ["audit", *map(str, words)])


def test_the_command_returns_the_exit_code(tmp_path):
    assert command("torch:sin", "-i", "2x3x8x8").exit_code == 0
    assert command("planted_gradients:wrong_sign", "-o", tmp_path / "r.html").exit_code == 2
    assert (tmp_path / "r.html").stat().st_size > 2000
    assert command("planted_gradients:wrong_sign", "--allow", "wrong").exit_code == 0
    assert command("planted_singular:gamma_at_black").exit_code == 1
    assert command("planted_singular:StaleRange", "-i", "2x3x8x8").exit_code == 2
    result = command("torch.nn:Conv2d(3, 4, kernel_size=3)", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["measures"]["weight"]["shape"] == [4, 3, 3, 3]
    for name, value in (("output", tmp_path / "r.pdf"), ("level", "loud")):
        result = command("torch:sin", f"--{name}", value)
        assert result.exit_code == 2
        assert f"error: {name}" in result.stderr


def test_a_file_can_be_audited(tmp_path):
    (tmp_path / "subject_of_audit.py").write_text("def f(x, k):\n    return x * k.detach()\n")
    assert command(f"{tmp_path / 'subject_of_audit.py'}:f", "-i", "x=2x3x8x8,k=scalar").exit_code == 2


def test_input_specifications():
    image, angle, flag = parse_inputs("2x3x4x4:normal:float64, scalar, 3")
    assert image.shape == (2, 3, 4, 4)
    assert image.dtype == torch.float64
    assert angle.shape == ()
    assert flag == 3
    named = parse_inputs("x=1x3x4x4:zeros, m=2x3x3:eye, s=0.5")
    assert float(named["x"].sum()) == 0
    assert torch.equal(named["m"][1], torch.eye(3))
    assert named["s"] == 0.5
    assert parse_inputs(None)[0].shape == (2, 3, 16, 16)
    for wrong in ("2x3x", "x=3x3,4x4", "2x2:purple"):
        refused(InvalidArgument, "inputs", parse_inputs, wrong)


def test_targets_evaluate_literals_only():
    assert resolve("torch.nn:Linear(3, out_features=2)").weight.shape == (2, 3)
    for wrong in ("torch", "torch:", "torch:sin + 1"):
        refused(InvalidArgument, "target", resolve, wrong)
    refused(ValueError, "malformed", resolve, "torch.nn:Linear(__import__('os').getpid(), 2)")
