"""A run that is killed and resumed ends where an undisturbed one ends, to the bit."""

import json
import os
import signal
import subprocess
import sys
import textwrap

import pytest
import torch
from torch import nn

from pellucid.errors import InvalidArgument
from pellucid.training import NonFiniteLoss, TrainState, fit, latest_checkpoint, load_checkpoint, read_log, save_checkpoint
from tests.refusals import refused


def make(seed=0):
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(net.parameters(), 1e-2)
    state = TrainState({"net": net}, {"optimizer": optimizer})

    def step(index):
        generator = torch.Generator().manual_seed(index)
        x = torch.randn(16, 4, generator=generator)
        loss = (net(x) - x.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return {"loss": loss.detach(), "rate": optimizer.param_groups[0]["lr"]}

    return state, step


def weights(state):
    return {key: tensor.clone() for key, tensor in state.modules["net"].state_dict().items()}


def test_a_stopped_run_resumes_to_the_same_weights_and_log(tmp_path):
    state, step = make()
    fit(step, state, total=25, directory=tmp_path / "whole", save_every=7, log_every=2, quiet=True)

    class KilledError(Exception):
        pass

    def stops(index, step):
        if index == 17:
            raise KilledError
        return step(index)

    other, again = make()
    with pytest.raises(KilledError):
        fit(lambda i: stops(i, again), other, total=25, directory=tmp_path / "cut", save_every=7, log_every=2, quiet=True)
    fresh, again = make(seed=9)
    fit(again, fresh, total=25, directory=tmp_path / "cut", save_every=7, log_every=2, quiet=True)
    for key, tensor in weights(state).items():
        assert torch.equal(tensor, weights(fresh)[key]), key
    assert (tmp_path / "whole/log.csv").read_text() == (tmp_path / "cut/log.csv").read_text()


@pytest.mark.slow
def test_a_killed_process_leaves_a_checkpoint_that_loads(tmp_path):
    script = textwrap.dedent(
        f"""
        import torch
        from torch import nn
        from pellucid.training import TrainState, save_checkpoint
        state = TrainState({{"net": nn.Linear(300, 300)}})
        step = 0
        while True:
            step += 1
            with torch.no_grad():
                state.modules["net"].bias.fill_(step)
            save_checkpoint({str(tmp_path)!r}, step, state)
            print(step, flush=True)
        """
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        if int(line) >= 5:
            break
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    state = TrainState({"net": nn.Linear(300, 300)})
    meta = load_checkpoint(latest_checkpoint(tmp_path), state)
    assert meta["step"] >= 5
    assert torch.equal(state.modules["net"].bias, torch.full((300,), float(meta["step"])))


def test_the_global_generator_is_given_back(tmp_path):
    state, step = make()
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    fit(step, state, total=3, directory=tmp_path, quiet=True)
    assert torch.equal(torch.rand(4), expected)


def test_other_settings_do_not_resume(tmp_path):
    state, step = make()
    fit(step, state, total=2, directory=tmp_path, settings={"rate": 0.1, "size": (3, 4)}, quiet=True)
    fit(step, state, total=2, directory=tmp_path, settings={"rate": 0.1, "size": (3, 4)}, quiet=True)
    refused(InvalidArgument, "settings", fit, step, state, total=2, directory=tmp_path, settings={"rate": 0.2}, quiet=True)
    with pytest.raises(InvalidArgument, match="without checkpoints"):
        fit(step, state, total=2, directory=tmp_path, settings={"rate": 0.1}, resume=False, quiet=True)


def test_other_weights_do_not_load(tmp_path):
    save_checkpoint(tmp_path, 1, TrainState({"net": nn.Linear(2, 3)}))
    target = TrainState({"net": nn.Linear(2, 4)})
    before = target.modules["net"].weight.clone()
    refused(InvalidArgument, r"net\.bias.*2 weights differ", load_checkpoint, latest_checkpoint(tmp_path), target)
    assert torch.equal(target.modules["net"].weight, before)


def test_a_loss_that_is_not_finite_stops_the_run(tmp_path):
    state, _ = make()
    with pytest.raises(NonFiniteLoss, match=r"after step 4.*step-00000003"):
        fit(
            lambda i: {"loss": 1.0 if i < 3 else float("nan")},
            state,
            total=9,
            directory=tmp_path,
            log_every=1,
            save_every=3,
            quiet=True,
        )
    assert read_log(tmp_path / "log.csv")["step"] == [1, 2, 3]


def test_old_checkpoints_go_and_half_written_ones_do_not_count(tmp_path):
    state, _ = make()
    for step in (1, 2, 3):
        save_checkpoint(tmp_path, step, state, keep=2, note="x")
    (tmp_path / "step-00000009").mkdir()
    (tmp_path / ".writing-1").mkdir()
    assert sorted(p.name for p in tmp_path.glob("step-*/meta.json")) == ["meta.json"] * 2
    latest = latest_checkpoint(tmp_path)
    assert latest.name == "step-00000003"
    assert json.loads((latest / "meta.json").read_text())["note"] == "x"


def run(folder, *, total=6, seed=0):
    state, step = make(seed)
    fit(step, state, total=total, directory=folder, save_every=2, log_every=1, quiet=True)
    return state


DAMAGE = {
    "weights cut short": ("weights.safetensors", lambda content: content[: len(content) // 2]),
    "weights empty": ("weights.safetensors", lambda content: b""),
    "state cut short": ("state.pt", lambda content: content[: len(content) // 2]),
    "state of zeros": ("state.pt", lambda content: bytes(len(content))),
    "no state": ("state.pt", None),
    "meta cut short": ("meta.json", lambda content: content[:9]),
    "meta of bytes": ("meta.json", lambda content: b"\xff\xfe\x00"),
    "meta a list": ("meta.json", lambda content: b"[]"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_newest_checkpoint_is_named_and_the_older_one_taken(damage, tmp_path):
    whole = run(tmp_path / "whole")
    cut = tmp_path / "cut"
    run(cut)
    name, how = DAMAGE[damage]
    file = cut / "checkpoints" / "step-00000006" / name
    file.write_bytes(how(file.read_bytes())) if how else file.unlink()
    with pytest.warns(UserWarning, match=rf"step-00000006/{name}.*from .*step-00000004"):
        again = run(cut, seed=5)
    for key, tensor in weights(whole).items():
        assert torch.equal(tensor, weights(again)[key]), key
    assert (tmp_path / "whole/log.csv").read_text() == (cut / "log.csv").read_text()
    run(cut, seed=6)  # what was damaged has been written again


def test_damage_of_every_checkpoint_is_an_error_that_names_the_newest_file(tmp_path):
    run(tmp_path)
    for file in tmp_path.glob("checkpoints/*/state.pt"):
        file.write_bytes(b"")
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    refused(InvalidArgument, r"step-00000006/state\.pt: expected a whole file", run, tmp_path)
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before


def test_what_killed_runs_left_is_cleared_away(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left = [f".writing-{gone.pid}", f".removing-{os.getpid()}-step-00000001", f".removing-{gone.pid}-step-00000002"]
    for name in left:
        (tmp_path / name).mkdir()
        (tmp_path / name / "weights.safetensors").write_bytes(b"x")
    alive = tmp_path / f".writing-{os.getppid()}"  # another run's
    alive.mkdir()
    (tmp_path / ".writing-notes").mkdir()  # nobody's of ours
    state, _ = make()
    for step in (3, 4, 5):
        save_checkpoint(tmp_path, step, state, keep=2)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == sorted([alive.name, ".writing-notes", "step-00000004", "step-00000005"])


def test_a_checkpoint_is_never_seen_half_deleted(tmp_path, monkeypatch):
    state, _ = make()
    for step in (1, 2):
        save_checkpoint(tmp_path, step, state, keep=2)
    monkeypatch.setattr("pellucid.training.checkpoint.shutil.rmtree", lambda *_, **__: None)  # as if killed there
    save_checkpoint(tmp_path, 3, state, keep=2)
    found = sorted(path.name for path in tmp_path.glob("step-*"))
    assert found == ["step-00000002", "step-00000003"]
