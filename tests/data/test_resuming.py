"""The same call goes on where one was stopped, and makes anew what is no longer so: a full disk, kills, new labels, another IN."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import numpy as np
import pytest
from PIL import Image

import pellucid
from pellucid.core import files
from pellucid.data.folders import Job
from tests.data import hostile
from tests.data.conftest import FLIP, call, contents, picture, saved

LABEL, OTHER = "2 0.25 0.5 0.1 0.2\n", "5 0.25 0.5 0.1 0.2\n"


def shown(folder):
    """What a call has made, without its notes."""
    return {name: value for name, value in contents(folder).items() if not name.startswith(".augment")}


# A full disk


@contextmanager
def small_disk(most):
    """Files end after so many bytes, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("suffix", ["jpg", "png", "bmp", "tif", "ppm", "webp"])
def test_a_full_disk_leaves_nothing_that_is_cut(suffix, tmp_path):
    source, out, file = tmp_path / "in", tmp_path / "out", saved(tmp_path, FLIP)
    source.mkdir()
    noise = np.random.default_rng(0).integers(0, 256, (90, 90, 3), np.uint8)
    Image.fromarray(noise).save(source / f"noise.{suffix}")
    Image.fromarray(noise[:4, :4]).save(source / f"small.{suffix}")
    with small_disk(4000):
        text = call(source, out, "-p", file, code=1)
    assert f"noise.{suffix}: " in text
    assert "1 of 2 could not be augmented" in text
    assert list(shown(out)) == [f"small_0.{suffix}"]
    assert "Wrote 1 picture" in call(source, out, "-p", file)
    call(source, tmp_path / "again", "-p", file)
    assert shown(out) == shown(tmp_path / "again")


def test_a_full_disk_at_the_last_file_is_said(tmp_path):
    source = tmp_path / "in"
    source.mkdir()
    names = [f"{n:02d}.png" for n in range(12)]
    for name in names:
        Image.new("RGB", (8, 8)).save(source / name)
    content = {"images": [{"id": n, "file_name": name, "note": "x" * 200} for n, name in enumerate(names)], "annotations": []}
    (tmp_path / "all.json").write_text(json.dumps(content))
    with small_disk(1500):
        call(source, tmp_path / "out", "-p", saved(tmp_path, FLIP), "--coco", tmp_path / "all.json", code=2)
    assert not (tmp_path / "out" / "all.json").exists()
    assert "12 were there" in call(source, tmp_path / "out", "-p", saved(tmp_path, FLIP), "--coco", tmp_path / "all.json")


# What changes between two calls


def sources(tmp_path, form, name="in"):
    """Two pictures with annotations of a form: (folder, words of the call, what changes the annotation of b)."""
    source = tmp_path / name
    source.mkdir()
    for stem, number in (("a", 1), ("b", 2)):
        picture(40, 60, number).save(source / f"{stem}.png")
    if form == "yolo":
        for stem in "ab":
            (source / f"{stem}.txt").write_text(LABEL)
        return source, ["--annotations", "yolo"], lambda: (source / "b.txt").write_text(OTHER)
    if form == "voc":
        for stem in "ab":
            (source / f"{stem}.xml").write_text(hostile.VOC_RIGHT)
        return source, [], lambda: (source / "b.xml").write_text(hostile.VOC_RIGHT.replace("cat", "dog"))
    if form == "masks":
        masks = tmp_path / f"{name}-masks"
        masks.mkdir()
        for stem in "ab":
            Image.fromarray(np.zeros((40, 60), np.uint8)).save(masks / f"{stem}.png")
        return source, ["--masks", masks], lambda: Image.fromarray(np.ones((40, 60), np.uint8)).save(masks / "b.png")
    content = hostile.coco_content()
    for image, stem in zip(content["images"], "ab", strict=True):
        image["file_name"] = f"{stem}.png"
    file = tmp_path / f"{name}.json"
    file.write_text(json.dumps(content))

    def change():
        content["annotations"][1]["bbox"][0] = 7
        file.write_text(json.dumps(content))

    return source, ["--coco", file], change


FORMS = ["yolo", "voc", "masks", "coco"]


@pytest.mark.parametrize("form", FORMS)
def test_corrected_labels_are_made_anew(form, tmp_path):
    source, words, change = sources(tmp_path, form)
    file = saved(tmp_path, FLIP)
    call(source, tmp_path / "out", "-p", file, *words)
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("a_0.*")}
    change()
    text = call(source, tmp_path / "out", "-p", file, *words)
    assert "Wrote 1 picture" in text
    assert "1 was there" in text
    assert "1 anew" in text
    call(source, tmp_path / "again", "-p", file, *words)
    assert contents(tmp_path / "out") == contents(tmp_path / "again")
    assert all(path.stat().st_mtime_ns == at for path, at in times.items())


def test_a_label_that_goes_or_comes_is_a_change(tmp_path):
    source, words, _ = sources(tmp_path, "yolo")
    file = saved(tmp_path, FLIP)
    for change in (lambda: (source / "b.txt").unlink(), lambda: (source / "b.txt").write_text(OTHER)):
        call(source, tmp_path / "out", "-p", file, *words)
        change()
        assert "1 anew" in call(source, tmp_path / "out", "-p", file, *words)


def test_another_picture_of_that_name_is_a_change(tmp_path):
    source, words, _ = sources(tmp_path, "yolo")
    file = saved(tmp_path, FLIP)
    call(source, tmp_path / "out", "-p", file, *words)
    picture(40, 60, 5).save(source / "b.png")
    assert "1 anew" in call(source, tmp_path / "out", "-p", file, *words)
    call(source, tmp_path / "again", "-p", file, *words)
    assert contents(tmp_path / "out") == contents(tmp_path / "again")


def test_another_folder_with_equal_names_is_another(tmp_path):
    source, words, _ = sources(tmp_path, "yolo")
    other, _, change = sources(tmp_path, "yolo", "other")
    change()
    picture(40, 60, 7).save(other / "a.png")
    file = saved(tmp_path, FLIP)
    call(source, tmp_path / "out", "-p", file, *words)
    assert "2 anew" in call(other, tmp_path / "out", "-p", file, *words)
    call(other, tmp_path / "again", "-p", file, *words)
    assert contents(tmp_path / "out") == contents(tmp_path / "again")


def test_a_coco_file_of_another_name_is_refused(tmp_path):
    source, words, _ = sources(tmp_path, "coco")
    file = saved(tmp_path, FLIP)
    call(source, tmp_path / "out", "-p", file, *words)
    shutil.copy(words[1], tmp_path / "new.json")
    assert "other settings" in call(source, tmp_path / "out", "-p", file, "--coco", tmp_path / "new.json", code=2)


def test_results_of_pictures_that_are_gone_are_refused(tmp_path):
    source, words, _ = sources(tmp_path, "yolo")
    file = saved(tmp_path, FLIP)
    call(source, tmp_path / "out", "-p", file, *words)
    (source / "b.png").unlink()
    text = call(source, tmp_path / "out", "-p", file, *words, code=2)
    assert "b.png" in text
    assert "Wrote 1 picture" in call(source, tmp_path / "out", "-p", file, *words, "--overwrite")
    assert sorted(shown(tmp_path / "out")) == ["a_0.png", "a_0.txt"]


def test_a_label_that_breaks_takes_its_old_result_away(tmp_path):
    source, words, _ = sources(tmp_path, "coco")
    file = saved(tmp_path, FLIP)
    call(source, tmp_path / "out", "-p", file, *words)
    content = json.loads(words[1].read_text())
    content["annotations"][1]["bbox"] = "gone"
    words[1].write_text(json.dumps(content))
    call(source, tmp_path / "out", "-p", file, *words, code=1)
    assert sorted(shown(tmp_path / "out")) == ["a_0.png", "in.json"]
    assert len(json.loads((tmp_path / "out" / "in.json").read_text())["images"]) == 1


DAMAGE = {
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-9]),
    "changed": lambda path: path.write_bytes(path.read_bytes()[:-9] + bytes(9)),
    "empty": lambda path: path.write_bytes(b""),
    "gone": lambda path: path.unlink(),
}


@pytest.mark.parametrize("what", ["b_0.png", "b_0.txt", "note"])
@pytest.mark.parametrize("damage", DAMAGE)
def test_what_is_damaged_is_made_again(damage, what, tmp_path):
    source, words, _ = sources(tmp_path, "yolo")
    file, out = saved(tmp_path, FLIP), tmp_path / "out"
    call(source, out, "-p", file, *words)
    wanted = contents(out)
    notes = [path for path in (out / ".augment").rglob("*.json") if "b_0.png" in path.read_text()]
    DAMAGE[damage](notes[0] if what == "note" else out / what)
    assert "Wrote 1 picture" in call(source, out, "-p", file, *words)
    assert contents(out) == wanted
    assert "2 were there" in call(source, out, "-p", file, *words)


# Ranks, and kills


def started(words, code="from pellucid.cli import main; main()", **variables):
    command = [sys.executable, "-c", code, *map(str, words)]
    return subprocess.Popen(command, env={**os.environ, **variables}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # beside threads, from Python 3.12 on
@pytest.mark.parametrize("number", range(7))
def test_a_kill_blocks_nothing(number, tmp_path):
    """Seven files are flushed: what the folder is, and for each of two pictures its labels, itself, and the note on it."""
    source, words, _ = sources(tmp_path, "yolo")
    file, out = saved(tmp_path, FLIP), tmp_path / "out"
    before, left = files.flush, [number]

    def flush(path):
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        before(path)

    child = os.fork()
    if not child:
        files.flush = flush
        call(source, out, "-p", file, *words)
        os._exit(0)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    call(source, out, "-p", file, *words)
    call(source, tmp_path / "again", "-p", file, *words)
    assert shown(out) == shown(tmp_path / "again")


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_worker_that_is_killed_is_said(tmp_path, monkeypatch):
    source, words, _ = sources(tmp_path, "yolo")
    file, out = saved(tmp_path, FLIP), tmp_path / "out"

    def killed(self, picture, work=Job.work):
        if picture.name == "b.png":
            os.kill(os.getpid(), signal.SIGKILL)
        return work(self, picture)

    monkeypatch.setattr(Job, "work", killed)
    assert "the same call goes on" in call(source, out, "-p", file, *words, "--workers", 1, code=2)
    monkeypatch.undo()
    assert "Wrote 1 picture" in call(source, out, "-p", file, *words)


def test_notes_name_nothing_outside_of_the_folder(tmp_path):
    """Files that a stale note names are removed; a note that somebody wrote names what it likes."""
    source, words, change = sources(tmp_path, "yolo")
    file, out, letter = saved(tmp_path, FLIP), tmp_path / "out", tmp_path / "letter.txt"
    letter.write_text("dear")
    call(source, out, "-p", file, *words)
    note = next(path for path in (out / ".augment").rglob("*.json") if "b_0.png" in path.read_text())
    for name in ("../letter.txt", str(letter)):
        note.write_text(note.read_text().replace("b_0.txt", name))
        change()
        call(source, out, "-p", file, *words)
        assert letter.read_text() == "dear"


def test_old_drafts_are_cleared_away(tmp_path):
    source, words, _ = sources(tmp_path, "yolo")
    file, out = saved(tmp_path, FLIP), tmp_path / "out"
    call(source, out, "-p", file, *words)
    drafts = out / ".augment" / "drafts"
    old, new = drafts / ".writing-1-a", drafts / ".writing-2-b"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (time.time() - 200_000,) * 2)
    call(source, out, "-p", file, *words)
    assert [path.name for path in drafts.iterdir()] == [new.name]


def test_ranks_find_each_other_at_every_moment_of_their_beginning(tmp_path):
    """A second rank begins when the first one has written this much of its settings: nothing, a draft, all of it."""
    source, words, _ = sources(tmp_path, "yolo")
    file = saved(tmp_path, FLIP)
    for number in range(2):
        out, before, seen = tmp_path / f"out{number}", files.flush, []

        def flush(path, before=before, seen=seen, number=number, out=out):
            if len(seen) == number:
                seen.append(path)
                call(source, out, "-p", file, *words, "--shard", "2/2")
            seen.append(path)
            before(path)

        files.flush = flush
        try:
            call(source, out, "-p", file, *words, "--shard", "1/2")
        finally:
            files.flush = before
        assert sorted(shown(out)) == ["a_0.png", "a_0.txt", "b_0.png", "b_0.txt"]


@pytest.mark.slow
def test_ranks_that_begin_together(tmp_path):
    source, words, _ = sources(tmp_path, "coco")
    file = saved(tmp_path, FLIP)
    for turn in range(3):
        out = tmp_path / f"out{turn}"
        ranks = [started(["augment", source, out, "-p", file, *words], RANK=str(rank), WORLD_SIZE="4") for rank in range(4)]
        for rank in ranks:
            text = rank.communicate()[0].decode()
            assert rank.returncode == 0, text
        assert len(json.loads((out / "in.json").read_text())["images"]) == 2


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_kills_at_any_time_and_the_same_bytes_at_last(workers, folder, tmp_path):
    file, out = saved(tmp_path, [pellucid.RandomAffine(20), pellucid.ColorJitter(0.3)]), tmp_path / "out"
    words = ["augment", folder, out, "-p", file, "-n", 3, "-w", workers]
    call(folder, tmp_path / "whole", "-p", file, "-n", 3)
    for tenths in range(10, 40, 4):
        process = started(words)
        time.sleep(tenths / 10)
        process.kill()
        process.communicate()
    call(*words[1:])
    assert shown(out) == shown(tmp_path / "whole")
