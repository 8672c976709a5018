"""A run's folder: one run at a time, nobody's file deleted, and a word about what differs."""

import subprocess
import sys
import textwrap

import pytest

from pellucid.errors import InvalidArgument
from pellucid.training import CsvLog, fit, read_log
from pellucid.training.loop import only_run_in
from tests.refusals import refused
from tests.training.test_loop import make


@pytest.mark.slow
def test_a_second_run_in_a_folder_is_refused_until_the_first_is_dead(tmp_path):
    script = textwrap.dedent(
        f"""
        import sys
        from pathlib import Path
        from pellucid.training.loop import only_run_in
        with only_run_in(Path({str(tmp_path)!r})):
            print("held", flush=True)
            sys.stdin.read()
        """
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    state, step = make()
    with pytest.raises(InvalidArgument, match="directory: expected a folder that no other run is writing to"):
        fit(step, state, total=2, directory=tmp_path, quiet=True)
    assert not (tmp_path / "log.csv").exists()
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()
    fit(step, state, total=2, directory=tmp_path, quiet=True)
    assert read_log(tmp_path / "log.csv")["step"] == [2]


def test_the_lock_is_given_back_by_a_run_that_stops(tmp_path):
    state, step = make()

    def dies(index):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(dies, state, total=2, directory=tmp_path, quiet=True)
    fit(step, state, total=2, directory=tmp_path, quiet=True)


def test_a_file_system_without_locks_is_mentioned(tmp_path, monkeypatch):
    import errno

    from pellucid.training import loop

    def refuses(handle):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(loop, "_lock", refuses)
    with pytest.warns(UserWarning, match="cannot be locked"), only_run_in(tmp_path):
        pass


def test_a_log_that_was_there_is_put_aside_with_a_word(tmp_path):
    (tmp_path / "log.csv").write_text("mine, and dear to me\n")
    (tmp_path / "log-1.csv").write_text("this one too\n")
    state, step = make()
    with pytest.warns(UserWarning, match=r"log\.csv was there.*kept as log-2\.csv"):
        fit(step, state, total=2, directory=tmp_path, log_every=1, quiet=True)
    assert (tmp_path / "log-2.csv").read_text() == "mine, and dear to me\n"
    assert (tmp_path / "log-1.csv").read_text() == "this one too\n"
    assert read_log(tmp_path / "log.csv")["step"] == [1, 2]


@pytest.mark.parametrize("content", [b"name,score\nanna,3\n", b"step,loss\n1,good\n", b"\xff\xfe\x00", b"epoch,loss\n1,2\n"])
def test_a_log_to_go_on_with_must_be_one(content, tmp_path):
    path = tmp_path / "log.csv"
    path.write_bytes(content)
    refused(InvalidArgument, r"log\.csv: expected the log of a run", CsvLog, path, resume_at=3)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"settings": {"rate": 0.2, "size": 3}}, r"settings\.rate: expected 0\.2, got 0\.1\. Resume"),
        ({"settings": {"rate": 0.1}}, r"settings\.size: expected None, got 3"),
        ({"settings": {"rate": 0.1, "size": 3, "extra": "x"}}, r"settings\.extra: expected 'x', got None"),
        ({"settings": {"rate": 0.2, "size": 4}}, r"settings\.rate: expected 0\.2, got 0\.1\. 2 settings differ"),
        ({"seed": 5}, r"seed: expected 5, got 0"),
        ({"total": 9}, r"total: expected 9, got 2"),
    ],
)
def test_the_setting_that_differs_is_named(changes, words, tmp_path):
    state, step = make()
    options = {"total": 2, "seed": 0, "settings": {"rate": 0.1, "size": 3}}
    fit(step, state, directory=tmp_path, quiet=True, **options)
    refused(InvalidArgument, words, fit, step, state, directory=tmp_path, quiet=True, **{**options, **changes})
