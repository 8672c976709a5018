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
    with pytest.raises(InvalidArgument, match="settings"):
        fit(step, state, total=2, directory=tmp_path, settings={"rate": 0.2}, quiet=True)
    with pytest.raises(InvalidArgument, match="without checkpoints"):
        fit(step, state, total=2, directory=tmp_path, settings={"rate": 0.1}, resume=False, quiet=True)


def test_other_weights_do_not_load(tmp_path):
    save_checkpoint(tmp_path, 1, TrainState({"net": nn.Linear(2, 3)}))
    target = TrainState({"net": nn.Linear(2, 4)})
    before = target.modules["net"].weight.clone()
    with pytest.raises(InvalidArgument, match=r"net\.bias.*2 weights differ"):
        load_checkpoint(latest_checkpoint(tmp_path), target)
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
