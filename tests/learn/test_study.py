"""The study: its arms run, it goes on where it was stopped, and what the page says follows from the rows."""

import json

import pytest
import torch
from typer.testing import CliRunner

from pellucid.cli import app
from pellucid.learn.data import load_pictures, small_task
from pellucid.learn.settings import Settings
from pellucid.policy.operations import ORDER, REACH, magnitudes, operation
from pellucid_bench.learned import arms
from pellucid_bench.learned.arms import ARMS
from pellucid_bench.learned.page import as_markdown, equal_cost
from pellucid_bench.learned.pictures import data_named


@pytest.mark.parametrize("arm", ARMS)
def test_every_arm_trains_and_repeats_itself(arm):
    task = small_task(load_pictures(), 40, seed=0)
    settings = Settings(images=40, steps=4, batch=8)
    one, other = (ARMS[arm].train(task, settings).net.state_dict() for _ in range(2))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_search_takes_what_reads_the_others_best(monkeypatch):
    """A pipeline that blackens the pictures loses against one that leaves them as they are."""
    from pellucid import RandomBrightness, RandomHorizontalFlip

    trained = []
    plain = arms._trained

    def seen(augment, task, settings):
        trained.append((augment.pipeline[0], len(task.x), settings.steps))
        return plain(augment, task, settings)

    monkeypatch.setattr(arms, "_trained", seen)
    black, same = RandomBrightness((0.0, 0.0), p=1.0), RandomHorizontalFlip(p=0.0)
    task = small_task(load_pictures(), 200, seed=0)
    arms._searched([lambda: black, lambda: same])(task, Settings(images=200, steps=60, batch=16))
    assert trained == [(black, 160, 30), (same, 160, 30), (same, 200, 60)]


def test_learned_arms_begin_in_the_space_of_randaugment():
    """Two operations of the published list, each as likely; of the heads that predict, every picture's is that, too."""
    x = torch.rand(6, 3, 16, 16)
    names = [type(operation(name, magnitudes(name, REACH, 2))) for name in ORDER]
    for by in (False, True):
        pipeline = arms._space(x, 0, by=by)
        for stage in (pipeline[0], pipeline[1]):
            assert [type(one) for branch in stage.transforms for one in branch] == names
            assert len(stage.transforms) == len(names) + by  # and nothing
        choices = [list(numbers.values()) for name, numbers in pipeline.ranges(x).items() if name.endswith("choice")]
        assert [len(numbers) for numbers in choices] == [len(names) + by] * 2
        assert all((one == numbers[0]).all() for numbers in choices for one in numbers)


def test_pictures_of_small_loss_get_more_operations(monkeypatch):
    task, counted = small_task(load_pictures(), 40, seed=0), []
    mixed = arms._mixed
    monkeypatch.setattr(arms, "_mixed", lambda made, counts, *rest: (counted.append(counts), mixed(made, counts, *rest))[1])
    arms._by_loss((3, 1), spread=1.0)(task, Settings(images=40, steps=4, batch=6))
    assert [sorted(counts.tolist()) for counts in counted] == [[m - 1] * 2 + [m] * 2 + [m + 1] * 2 for m in (3, 3, 1, 1)]


def test_patches_show_their_own_part_of_the_photographs():
    pytest.importorskip("skimage")
    pictures = data_named("patches")
    assert pictures.x_train.shape[1:] == pictures.x_test.shape[1:] == (3, 24, 24)
    assert pictures.classes == 8
    assert pictures.digest == data_named.__wrapped__("patches").digest


def test_the_command_goes_on_where_it_was_stopped_and_writes_the_tables(tmp_path):
    page, file = tmp_path / "learned-augmentation.md", tmp_path / "learned-augmentation.json"
    page.write_text("# Page\n\n<!-- study:learned-augmentation -->\n<!-- /study:learned-augmentation -->\n")
    what = ["study", "learned", "--write", str(tmp_path), "--data", "digits", "--images", "500", "--steps", "2", "--seeds", "2"]
    several = [*what, "--arms", "none,random,worst2"]
    for command in ([*what, "--arms", "none", "--resume"], [*several, "--resume"], several):
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 0, result.output
    rows = json.loads(file.read_text())["rows"]
    assert len({(row["arm"], row["seed"]) for row in rows}) == len(rows) == 6
    assert all(row["random_seconds"] > 0 for row in rows)
    assert as_markdown(rows) in page.read_text()
    assert (tmp_path / "img/learned-augmentation.png").exists()
    assert CliRunner().invoke(app, [*what, "--arms", "magic"]).exit_code == 2


def rows(**figures):
    return [
        {"arm": f"shapes 500 9 {arm}", "seed": seed, "accuracy": value / 100, "cpu_seconds": seconds}
        for arm, (seconds, values) in figures.items()
        for seed, value in enumerate(values)
    ]


def test_the_tables_follow_from_pairs():
    # By hand: differences 1, 2, 3; mean 2, standard deviation 1, standard error 1 / sqrt(3) = 0.58.
    page = as_markdown(rows(random=(1.0, [80, 80, 80]), none=(1.0, [78, 78, 78]), worst2=(1.0, [81, 82, 83])))
    assert "### shapes: 500 images, 9 steps" in page
    assert "| worst of two draws (MaxUp) | 3 | 82.00 ± 0.58 | +2.00 ± 0.58 | 1.00 |  |" in page
    assert page.endswith("none.\n")  # without longer runs nothing is known at equal CPU
    assert "| RandAugment | 1 | 80.00 |" in as_markdown(rows(random=(1.0, [80])))


def test_costs_are_those_of_one_hour():
    figures = rows(random=(1.0, [80, 80]), worst2=(6.0, [81, 81]))
    slow = [row | {"random_seconds": 3.0} if row["arm"].endswith("worst2") else row for row in figures]
    assert "| 6.00 |  |" in as_markdown(figures)
    assert "| 2.00 |  |" in as_markdown(slow)


def test_equal_cost_lies_between_longer_runs():
    figures = rows(
        random=(2.0, [80, 82]), random15=(3.0, [82, 84]), random20=(4.0, [83, 83]), worst2=(3.5, [85, 86]), late2=(9.0, [85, 85])
    )
    cell = {name: {r["seed"]: r for r in figures if r["arm"].endswith(f" {name}")} for name in ("random15", "random20", "worst2")}
    cell |= {name: {r["seed"]: r for r in figures if r["arm"].endswith(f" {name}")} for name in ("random", "late2")}
    assert [round(100 * other, 6) for _, other in equal_cost(cell, "worst2")] == [82.5, 83.5]  # 1.75 times the steps
    assert [round(100 * other, 6) for _, other in equal_cost(cell, "late2")] == [83.0, 83.0]  # the longest there are
    won = rows(random=(2.0, [80, 80.1, 80]), random20=(4.0, [80, 80, 80.1]), worst2=(3.0, [81, 81, 81]), none=(1.0, [85, 85, 85]))
    assert as_markdown(won).endswith("worst of two draws (MaxUp) (shapes, 500 images, 9 steps).\n")
