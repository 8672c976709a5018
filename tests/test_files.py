"""Files of pipelines and records: whole or as they were, with the user's modes, and a sentence for every damaged one."""

import errno
import os
import stat
from pathlib import Path

import pytest
import torch

import pellucid as P
from pellucid import InvalidArgument, InvalidType, Key, Pipeline, Record
from pellucid.core.files import whole
from pellucid.policy import RandomChoice
from tests.cases import CASES
from tests.refusals import refused


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def record():
    augment = Pipeline([P.RandomAffine(degrees=15), P.RandomHorizontalFlip()], seed=2)
    return augment.draw(torch.rand(3, 3, 6, 7))


@pytest.fixture
def umask():
    before = os.umask(0o027)
    yield
    os.umask(before)


def full_disk(self, text, **_):
    self.write_bytes(text[: len(text) // 2].encode())
    raise OSError(errno.ENOSPC, "No space left on device", str(self))


@pytest.mark.parametrize("name", ["pipeline.toml", "pipeline.json"])
def test_a_full_disk_leaves_the_old_pipeline_and_nothing_else(name, tmp_path, monkeypatch):
    Pipeline([P.RandomRotation(9.0)]).save(tmp_path / name)
    monkeypatch.setattr(Path, "write_text", full_disk)
    refused(OSError, "No space", Pipeline([P.RandomRotation(90.0)]).save, tmp_path / name)
    assert Pipeline.load(tmp_path / name).transforms == (P.RandomRotation(9.0),)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_full_disk_leaves_the_old_record(record, tmp_path, monkeypatch):
    record.save(tmp_path / "record.pt")
    before = (tmp_path / "record.pt").read_bytes()

    def full(_, file):
        file.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device", file.name)

    monkeypatch.setattr(torch, "save", full)
    refused(OSError, "No space", record[0].save, tmp_path / "record.pt")
    assert (tmp_path / "record.pt").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.usefixtures("umask")
def test_modes_are_those_of_the_umask_or_of_the_file_replaced(record, tmp_path):
    augment = Pipeline([P.RandomRotation(9.0)])
    for file, save in ((tmp_path / "record.pt", record.save), (tmp_path / "pipeline.toml", augment.save)):
        save(file)
        assert mode(file) == 0o640
        file.chmod(0o604)
        save(file)
        assert mode(file) == 0o604


def test_links_are_followed_and_missing_folders_named(tmp_path):
    (tmp_path / "real").mkdir()
    target, link = tmp_path / "real" / "a.toml", tmp_path / "b.toml"
    target.write_text("")
    link.symlink_to(target)
    Pipeline([P.RandomRotation(9.0)]).save(link)
    assert link.is_symlink()
    assert Pipeline.load(target).transforms == (P.RandomRotation(9.0),)
    refused(FileNotFoundError, r"missing'$", Pipeline([]).save, tmp_path / "missing" / "a.toml")


def test_names_of_every_length_can_be_written(tmp_path):
    path = tmp_path / ("n" * 250 + ".toml")
    with whole(path) as draft:
        draft.write_text("x")
    assert path.read_text() == "x"


@pytest.mark.parametrize("case", CASES, ids=lambda case: type(case.transform).__name__)
def test_every_record_survives_its_file(case, tmp_path):
    augment = Pipeline([case.transform])
    x = torch.rand(2, 3, *(case.size or (12, 12 if case.square else 14)))
    _, record = augment(x, key=Key(1, 1), return_record=True)
    record.save(tmp_path / "record.pt")
    again = Record.load(tmp_path / "record.pt")
    assert torch.equal(augment.apply(x, again), augment.apply(x, record))


def test_the_record_of_a_choice_survives_its_file(tmp_path):
    choice = RandomChoice([[P.RandomInvert(p=1.0)], [P.RandomRotation(30.0)]])
    x = torch.rand(4, 3, 8, 8)
    out, record = choice(x, key=Key(1, 1), return_record=True)
    record.save(tmp_path / "record.pt")
    assert torch.equal(choice.apply(x, Record.load(tmp_path / "record.pt")), out)


def test_a_record_says_nothing_of_implementations(record):
    """Every pass chooses its own; `explain` says which."""
    assert not hasattr(record, "impl")


def test_a_name_that_promises_another_format_is_refused(record, tmp_path):
    refused(InvalidArgument, r"record\.pt", record.save, tmp_path / "x.safetensors")
    assert not list(tmp_path.iterdir())


def test_a_truncated_record_is_named_wherever_it_was_cut(record, tmp_path):
    file = tmp_path / "record.pt"
    record.save(file)
    content = file.read_bytes()
    for length in range(0, len(content), 97):
        file.write_bytes(content[:length])
        refused(InvalidArgument, r"record\.pt: expected a whole record", Record.load, file)


STATES = {
    "a list": [1, 2],
    "another dict": {"weights": torch.zeros(2)},
    "another version": lambda state: state | {"pellucid_record": 9},
    "no params": lambda state: {k: v for k, v in state.items() if k != "params"},
    "too few params": lambda state: state | {"params": state["params"][:1]},
    "params a tensor": lambda state: state | {"params": torch.zeros(2)},
    "a value missing": lambda state: state | {"params": [{}, state["params"][1]]},
    "a value of text": lambda state: state | {"params": [state["params"][0], {"gate": "open"}]},
    "rows missing": lambda state: state | {"samples": 5},
    "samples text": lambda state: state | {"samples": "3"},
    "image of two": lambda state: state | {"image": [3, 6]},
    "image negative": lambda state: state | {"image": [3, -6, 7]},
    "lead 7": lambda state: state | {"lead": 7},
    "transforms text": lambda state: state | {"transforms": "RandomAffine"},
    "a transform unknown": lambda state: state | {"transforms": [{"name": "os.system"}, {"name": "RandomInvert"}]},
}


@pytest.mark.parametrize("name", STATES)
def test_files_of_torch_that_are_no_records_are_named(name, record, tmp_path):
    file = tmp_path / "record.pt"
    record.save(file)
    change = STATES[name]
    torch.save(change(torch.load(file, weights_only=True)) if callable(change) else change, file)
    with pytest.raises((InvalidArgument, InvalidType)):
        Record.load(file)


HOSTILE = {
    "list.json": b"[1, 2]",
    "number.json": b"3",
    "null.json": b"null",
    "text.json": b'"pellucid"',
    "empty.json": b"",
    "latin.json": '{"pellucid": 1, "passthrough": ["é"]}'.encode("latin-1"),
    "latin.toml": 'pellucid = 1 # "é"'.encode("latin-1"),
    "utf16.toml": "pellucid = 1".encode("utf-16"),
    "bytes.json": bytes(range(256)),
    "zeros.toml": bytes(64),
    "deep.json": b'{"pellucid": 1, "transforms": ' + b"[" * 200 + b"]" * 200 + b"}",
    "deeper.json": b'{"pellucid": 1, "transforms": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep.toml": b"pellucid = 1\ntransforms = " + b"[" * 200 + b"]" * 200,
    "deeper.toml": b"pellucid = 1\ntransforms = " + b"[" * 100_000 + b"]" * 100_000,
    "distributions.json": b'{"pellucid": 1, "transforms": [{"name": "RandomRotation", "degrees": '
    + b'{"distribution": "Uniform", "high": 1, "low": ' * 400
    + b"0"
    + b"}" * 400
    + b"}]}",
    "digits.json": b'{"pellucid": ' + b"1" * 5000 + b"}",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_files_that_are_no_pipelines_are_named(name, tmp_path):
    (tmp_path / name).write_bytes(HOSTILE[name])
    refused((InvalidArgument, InvalidType), name.replace(".", r"\."), Pipeline.load, tmp_path / name)
