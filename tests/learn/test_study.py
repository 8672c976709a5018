"""The study: resumable run by run, honest about settings, and a verdict that follows from the numbers."""

import json

import pytest
from typer.testing import CliRunner

from pellucid.cli import app
from pellucid.errors import InvalidArgument
from pellucid.learn.data import load_pictures
from pellucid_bench.augmentation.arms import OPERATIONS, choices
from pellucid_bench.augmentation.page import study_page, verdict
from pellucid_bench.augmentation.run import ARMS, USUAL, Study, StudySettings, read_arms, read_sizes, run_study

TINY = StudySettings(steps=2, batch=16, pairs=2)


def test_each_run_is_done_once(tmp_path, monkeypatch):
    study = Study(images=(32,), seeds=1, arms=tuple(ARMS), settings=TINY, search_steps=1, held=100)
    pictures = load_pictures()
    told = []
    first = run_study(study, pictures, tmp_path, lambda done, text: told.append((done, text)))
    assert [r["about"]["arm"] for r in first] == list(ARMS)
    assert [done for done, _ in told] == list(range(1, 9))
    (tmp_path / "digits-none-32-0.json").unlink()
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.json")}
    assert [r["accuracy"] for r in run_study(study, pictures, tmp_path)] == [r["accuracy"] for r in first]
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in stamps.items())
    other = Study(
        images=(32,), seeds=1, arms=tuple(ARMS), settings=StudySettings(steps=3, batch=16, pairs=2), search_steps=1, held=100
    )
    with pytest.raises(InvalidArgument, match="steps"):
        run_study(other, pictures, tmp_path)
    ranges = next(r for r in first if r["about"]["arm"] == "ranges")
    assert 0 <= ranges["accuracy_over_draws"] <= 1
    assert "1.RandomAffine.degrees.high" in ranges["learned"]
    learned = next(r for r in first if r["about"]["arm"] == "choices")["learned"]
    weights = [value for name, value in learned.items() if "weight" in name]
    assert len(weights) == len(OPERATIONS)
    assert sum(weights) == pytest.approx(1.0)
    assert max(weights) != min(weights)  # they move


def test_the_operations_are_named_in_their_order():
    kinds = [{type(step).__name__ for step in branch} for branch in choices()[0].branches]
    named = {"Identity": set(), "Rotate": {"RandomRotation"}, "Color": {"RandomSaturation"}}
    assert kinds == [named.get(name, {f"Random{name.removesuffix('X').removesuffix('Y')}"}) for name in OPERATIONS]


def test_the_command_writes_page_picture_and_numbers(tmp_path):
    arguments = ["--images", "32", "--seeds", "2", "--steps", "1", "--arms", "none,ranges", "--held", "50"]
    page = tmp_path / "docs/page.md"
    result = CliRunner().invoke(app, ["study", "augmentation", *arguments, "-o", str(tmp_path / "runs"), "--write", str(page)])
    assert result.exit_code == 0, result.output
    text = " ".join(page.read_text().split())
    assert "--data digits --images 32 --seeds 2 --steps 1 --arms none,ranges --held 50`" in text
    assert "50 held-out training images" in text
    assert "| learned ranges (Augerino) | no augmentation |" in text
    assert (tmp_path / "docs/img/page.png").exists()
    assert len(json.loads(page.with_suffix(".json").read_text())) == 4


ABOUT = {"steps": 9, "batch": 8, "rate": 0.1, "held_out": 0, "search_steps": 1, "entropy": 0.5, "policy_entropy": 0.25}


def results(**accuracies):
    return [
        {
            "about": {"arm": arm, "images": 500, "seed": seed, **ABOUT},
            "accuracy": value / 100,
            "accuracy_over_draws": 0.9,
            "cpu_seconds": 1.0,
            "search_cpu_seconds": 0.0,
            "learned": {"0.RandomRotation.degrees.low": -4.0, "0.RandomRotation.degrees.high": 4.0},
        }
        for arm, values in accuracies.items()
        for seed, value in enumerate(values)
    ]


def test_the_verdict_follows_from_pairs():
    # By hand: differences 1, 2, 3; mean 2, standard deviation 1, standard error 1 / sqrt(3) = 0.58.
    better = verdict(results(none=[80, 80, 80], hand=[79, 79, 79], ranges=[81, 82, 83]), 500)
    assert (
        better
        == "* learned ranges (Augerino), 500 images: **better**: +2.00 points (standard error 0.58) against “no augmentation”."
    )
    assert "**worse**: -2.00" in verdict(results(mild=[83, 84, 85], none=[70, 70, 70], ranges=[82, 82, 82]), 500)
    assert "**within noise**" in verdict(results(none=[80, 82, 81], ranges=[82, 80, 81.5]), 500)


def test_the_page_has_means_and_deviations():
    page = study_page(results(none=[80, 82], hand=[81, 81], ranges=[81, 84]), data="shapes", command="run", picture="p.png")
    assert "9 AdamW steps of 8 images" in " ".join(page.split())
    assert "| hand-set: affine, flip, erasing | no augmentation | +0.00 ± 1.00 |" in page
    assert "| no augmentation | 81.00 ± 1.41 |" in page
    assert "| learned ranges (Augerino) | no augmentation | +1.50 ± 0.50 |" in page
    assert "| RandomRotation degrees: upper end | 4.000 ± 0.000 |" in page


def test_one_seed_has_no_deviation():
    page = study_page(results(none=[80], ranges=[81]), data="shapes", command="run", picture="p.png")
    assert "one seed, so no deviation" in " ".join(page.split())
    assert "| learned ranges (Augerino) | no augmentation | +1.00 |" in page
    assert "inf" not in page
    assert "**above**: +1.00 points (one seed)" in page


def test_mistakes_are_named():
    assert read_sizes("500,2000") == (500, 2000)
    assert read_arms(None) == USUAL
    with pytest.raises(InvalidArgument, match="500,2000"):
        read_sizes("many")
    with pytest.raises(InvalidArgument, match="none,mild"):
        read_arms("none,magic")
