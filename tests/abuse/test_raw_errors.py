"""What is broken outside of the program (files, the environment, saved states) ends in a sentence that names it."""

import importlib
import json
import struct

import numpy as np
import pytest
import torch

import pellucid as P
from pellucid import InvalidArgument, InvalidType, Learnable, Pipeline, Record, Smooth, Uniform
from pellucid.core.files import parsed
from pellucid.data import Indexed, Order, Prefetcher
from pellucid.data.arrays import read_arrays
from pellucid.data.folders import shard_of
from pellucid.features import CollapseGuard, load_descriptor
from pellucid.learn.data import load_pictures
from pellucid.training import TrainState, World, join_world, load_checkpoint, save_checkpoint
from tests.refusals import refused

register = importlib.import_module("pellucid.cli.register")


@pytest.fixture
def record():
    steps = [
        P.RandomAffine(degrees=15),
        P.RandomHorizontalFlip(),
        P.ColorJitter(0.2, 0.2, saturation=0.2, hue=0.1),
        P.RandomCrop(4),
    ]
    choice = P.OneOf([P.RandomInvert(p=1.0), P.RandomRotation(4)])
    return Pipeline([*steps, choice], seed=2).draw(torch.rand(16, 3, 6, 7))


def test_a_larger_record_is_named_wherever_it_was_cut(record, tmp_path):
    file = tmp_path / "record.pt"
    record.save(file)
    content = file.read_bytes()
    for length in range(4000, len(content), 61):  # behind its first 4 kB torch seeks before the beginning
        file.write_bytes(content[:length])
        refused(InvalidArgument, r"record\.pt: expected a whole record", Record.load, file)


@pytest.mark.parametrize(
    "value",
    [
        torch.zeros(16, 7, dtype=torch.float64),
        torch.zeros(16, 1, dtype=torch.float64),
        torch.zeros(16, dtype=torch.int64),
        torch.zeros(16, dtype=torch.bool),
        torch.zeros(16, dtype=torch.complex64),
    ],
    ids=lambda value: f"{value.dtype} {tuple(value.shape)}",
)
def test_a_value_of_another_form_than_is_drawn_is_refused(record, tmp_path, value):
    record.save(tmp_path / "record.pt")
    state = torch.load(tmp_path / "record.pt", weights_only=True)
    state["params"][0]["degrees"] = value
    torch.save(state, tmp_path / "record.pt")
    refused(InvalidArgument, r"params\[0\]\.degrees: expected real numbers of shape \(16,\)", Record.load, tmp_path / "record.pt")


def test_values_that_pipelines_draw_pass(tmp_path):
    steps = [
        P.RandomRotation(Learnable(5.0)),
        P.RandomRotation(Smooth(Uniform(-5.0, 5.0))),
        P.RandomIoUCrop(8),
        P.Shuffle([P.RandomInvert()]),
    ]
    record = Pipeline(steps, seed=0).draw(torch.rand(2, 3, 3, 8, 8))
    for one in (record, record.frames(3), record.with_param(0, "degrees", torch.zeros(2))):
        one.save(tmp_path / "record.pt")
        again = Record.load(tmp_path / "record.pt")
        assert all(torch.equal(value, again.params[at][name]) for at, step in enumerate(one.params) for name, value in step.items())


@pytest.mark.parametrize("version", [True, 1.0, "1", 2])
def test_only_the_number_one_is_version_one(version):
    with pytest.raises(InvalidArgument, match="pellucid: expected a pipeline of format version 1"):
        Pipeline.from_dict({"pellucid": version, "transforms": []})


@pytest.mark.parametrize("mix", [P.MixUp, P.CutMix, P.Mosaic])
def test_an_empty_batch_keeps_its_labels(mix):
    shares = torch.zeros(0, 5)
    out = Pipeline([mix(num_classes=5)])({"image": torch.rand(0, 3, 8, 8), "label": shares})
    assert out["image"].shape == (0, 3, 8, 8)
    assert out["label"].shape == (0, 5)


@pytest.mark.parametrize("mix", [P.MixUp, P.CutMix, P.Mosaic])
def test_clips_without_frames_are_mixed_to_such_clips(mix):
    clips = torch.rand(2, 0, 3, 8, 8, requires_grad=True)
    out = Pipeline([mix()])(clips)
    assert out.shape == clips.shape
    out.sum().backward()
    assert clips.grad.shape == clips.shape


@pytest.mark.parametrize("depth", [float("nan"), float("inf"), 2.5, True, "2", None])
def test_a_depth_is_a_whole_number(depth):
    refused((InvalidArgument, InvalidType), "depth: expected a whole number", Prefetcher, [], depth=depth)


@pytest.mark.parametrize("state", [None, {}, {"epoch": 0}, {"epoch": 0, "done": -3}, {"epoch": "x", "done": 0}, [0, 1]])
def test_junk_for_a_loader_is_refused(state):
    batches = Prefetcher(torch.utils.data.DataLoader(Indexed(range(4)), 2, sampler=Order(4), collate_fn=list))
    refused((InvalidArgument, InvalidType), "state", batches.load_state_dict, state)


@pytest.mark.parametrize("name", ["done", "epoch"])
@pytest.mark.parametrize("value", [-3, 1.5, "x", None])
def test_an_order_begins_at_a_whole_number(name, value):
    refused((InvalidArgument, InvalidType), f"Order.{name}: expected a whole number", setattr, Order(6), name, value)


@pytest.mark.parametrize("junk", ["x", torch.zeros(3), torch.zeros(2, 2)])
def test_junk_for_learned_numbers_is_refused(junk):
    augment = Pipeline([P.RandomRotation(Learnable(5.0))])
    with pytest.raises(InvalidArgument, match=r"state_dict\['learned\._extra_state'\]: expected a tensor \(n, 3\)"):
        augment.load_state_dict({**augment.state_dict(), "learned._extra_state": junk})


@pytest.mark.parametrize("junk", [None, {}, {"looks": "x", "suspicious": 0, "mean_loss": 0.0}])
def test_junk_for_a_guard_is_refused(junk):
    refused(InvalidArgument, "state: expected numbers for looks", CollapseGuard(margin=1.0).load_state_dict, junk)


@pytest.mark.parametrize("name", ["RANK", "WORLD_SIZE"])
@pytest.mark.parametrize("text", ["x", "-1", "1.5", "²", "9" * 30])
def test_junk_in_the_environment_is_named(monkeypatch, name, text):
    monkeypatch.setenv(name, text)
    for call in (join_world, lambda: shard_of(None)):
        refused(InvalidArgument, f"{name} in the environment: expected a whole number", call)


def test_a_rank_is_below_their_number_and_an_empty_variable_none(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "2")
    refused(InvalidArgument, "below WORLD_SIZE, which is 2", shard_of, None)
    for name in ("WORLD_SIZE", "RANK"):
        monkeypatch.setenv(name, "")
    assert join_world() == World()


def promising(shape):
    """An ``.npy`` file whose header says more than is there."""
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(64)


@pytest.mark.parametrize("shape", [(1 << 20, 1 << 20, 1000), (1 << 40, 1 << 40, 1), (2, 2, 9)])
def test_an_array_that_promises_too_much_is_named(tmp_path, shape):
    (tmp_path / "volume.npy").write_bytes(promising(shape))
    refused(InvalidArgument, r"volume\.npy: expected an \.npy file of numbers", register._volume, tmp_path / "volume.npy")


@pytest.mark.parametrize("read", [read_arrays, load_pictures])
def test_an_archive_that_promises_too_much_is_named(tmp_path, read):
    names = ("x_train", "y_train", "x_test", "y_test")
    np.savez(tmp_path / "data.npz", **{name: np.zeros((4, 2, 3)) for name in names})
    content = (tmp_path / "data.npz").read_bytes().replace(b"(4, 2, 3)", b"(9<<50,) ", 1)
    (tmp_path / "data.npz").write_bytes(content)
    refused(InvalidArgument, r"data\.npz: expected an \.npz archive of numbers", read, tmp_path / "data.npz")


def test_what_a_parser_raises_names_the_file_and_a_missing_one_stays_missing(tmp_path):
    (tmp_path / "a.pt").write_bytes(b"x" * 99)
    for error in (OSError(22, "Invalid argument"), MemoryError(), KeyError("x"), RecursionError("deep")):

        def fail(_, error=error):
            raise error

        with pytest.raises(InvalidArgument, match=rf"a\.pt: expected tensors, got {type(error).__name__}"):
            parsed(tmp_path / "a.pt", fail, expected="tensors")
    with pytest.raises(FileNotFoundError):
        parsed(tmp_path / "b.pt", json.load, expected="tensors")
    refused(InvalidArgument, r"a\.pt", load_descriptor, tmp_path / "a.pt")


@pytest.mark.parametrize("junk", [{}, {"state": {}, "param_groups": []}, "x", None])
def test_junk_for_an_optimiser_leaves_everything_as_it_was(tmp_path, junk):
    def trained():
        model = torch.nn.Linear(2, 1)
        optimiser = torch.optim.Adam(model.parameters())
        model(torch.rand(4, 2)).sum().backward()
        optimiser.step()
        return TrainState({"model": model}, {"first": torch.optim.SGD(model.parameters(), 0.25), "optimiser": optimiser})

    saved, state = trained(), trained()
    folder = save_checkpoint(tmp_path, 3, saved)
    torch.save({"first": torch.optim.SGD([torch.zeros(1)], 0.5).state_dict(), "optimiser": junk}, folder / "state.pt")
    before = {name: value.clone() for name, value in state.modules["model"].state_dict().items()}
    refused(InvalidArgument, r"state\.pt: expected a state of (first|optimiser), got", load_checkpoint, folder, state)
    assert all(torch.equal(value, before[name]) for name, value in state.modules["model"].state_dict().items())
    assert state.others["first"].param_groups[0]["lr"] == 0.25
    assert state.others["optimiser"].state_dict()["state"]
