"""The detach study: its guards on one photograph, and the command with its page and picture."""

import pytest
import torch

from pellucid_bench.detach.drift import measure_drift
from pellucid_bench.detach.gradients import measure_exactness
from pellucid_bench.detach.subject import make_subject

data = pytest.importorskip("skimage.data")


@pytest.fixture(scope="module")
def subjects():
    picture = torch.from_numpy(data.camera()).float()[None] / 255
    return [make_subject(torch.nn.functional.avg_pool2d(picture[None], 2)[0], count=3, seed=0)]


@pytest.mark.slow
def test_full_statistics_are_exact_and_detached_ones_are_not(subjects):
    full, detached, mean_only, var_only = measure_exactness(subjects, seed=0)
    assert full.error < 0.02
    assert max(full.brightness, full.contrast) < 1e-5
    assert min(detached.brightness, detached.contrast) > 1e-3
    assert detached.error > 0.02
    # One statistic each: the mean carries brightness, the deviation contrast.
    assert mean_only.brightness < 1e-5 < 1e-3 < mean_only.contrast
    assert var_only.contrast < 1e-5 < 1e-3 < var_only.brightness
    assert max(row.weights for row in (full, detached, mean_only, var_only)) < 1e-12


def test_a_learnable_brightness_stays_or_drifts(subjects):
    full, detached = measure_drift(subjects, seeds=1, steps=4)
    assert abs(full.brightness[-1]) < 1e-6
    assert abs(detached.brightness[-1]) > 1e-3


@pytest.mark.slow
def test_the_command_writes_its_page_and_picture(tmp_path):
    from typer.testing import CliRunner

    from pellucid.cli import app

    done = CliRunner().invoke(app, ["study", "detach", "--quick", "--write", str(tmp_path)])
    assert done.exit_code == 0, done.output
    page = (tmp_path / "detach-study.md").read_text()
    assert "does not hold" not in page
    assert sum(line.startswith("| detached |") for line in page.splitlines()) == 2  # a row of each table
    assert (tmp_path / "img" / "detach-study.png").stat().st_size > 10_000
