"""Two processes over gloo: the same policy on both after every step, and the gradient one process would have."""

import os
import socket

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn

import pellucid as P
from pellucid import CenteredUniform, Key, Learnable, Pipeline
from pellucid.learn.data import load_pictures, small_task
from pellucid.learn.density import DensitySettings
from pellucid.learn.run import RECIPES
from pellucid.learn.weaken import Weakening
from pellucid.policy import RandomChoice
from pellucid.training import World, average_gradients, join_world

SETTINGS = {name: RECIPES[name].settings(images=64, held=32, steps=3, batch=16) for name in RECIPES}
SETTINGS["density"] = DensitySettings(images=64, held=32, steps=3, batch=16, pairs=3)


class Joint(nn.Module):
    """A pipeline, a choice with branches that one rank may never draw, and a model, as one module for DDP."""

    def __init__(self):
        super().__init__()
        self.augment = Pipeline(
            [
                P.RandomHorizontalFlip(p=Learnable(0.3)),
                P.RandomRotation(Learnable(20.0, low=0.0, high=90.0)),
                P.RandomErasing(p=1.0, scale=(0.0, Learnable(0.2, low=0.0, high=0.6))),
            ]
        )
        self.choice = RandomChoice(
            [[P.RandomBrightness(CenteredUniform(1.0, Learnable(0.2 + 0.01 * i, low=0.0, high=0.9)))] for i in range(6)], learn=True
        )
        torch.manual_seed(0)
        self.net = nn.Linear(64, 3)
        self.double()

    def forward(self, images, labels, key):
        def losses(augmented):
            return F.cross_entropy(self.net(self.choice(augmented, key=key).flatten(1)), labels, reduction="none")

        return self.augment.expected(losses, images, key=key)


def weakening():
    return Weakening(8, [Pipeline([P.RandomRotation(30)]), Pipeline([P.RandomRotation(5)])])


def data():
    generator = torch.Generator().manual_seed(1)
    return torch.rand(6, 1, 8, 8, generator=generator, dtype=torch.float64), torch.tensor([0, 1, 2, 0, 1, 2])


def index_of(rank):
    """What ``default_index`` gives three samples on this rank."""
    return torch.arange(3) + rank * (1 << 32)


def gradients(module):
    return {name: parameter.grad.clone() for name, parameter in module.named_parameters()}


def _rank(rank, port, results):
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "RANK": str(rank), "WORLD_SIZE": "2"}
    torch.set_num_threads(1)
    world = join_world()
    images, labels = (part[3 * rank : 3 * rank + 3] for part in data())
    out = {}
    wrapped = nn.parallel.DistributedDataParallel(Joint())
    wrapped(images, labels, Key(7, 5)).backward()  # an unused parameter would raise at the next forward pass
    out["ddp"] = gradients(wrapped.module)
    by_hand = Joint()
    by_hand(images, labels, Key(7, 5)).backward()
    average_gradients(by_hand.parameters(), world)
    out["by hand"] = gradients(by_hand)
    out["draw"] = by_hand.augment.draw(images, key=Key(7, 5)).params[1]["degrees"].detach()
    out["weakening"] = weakening()(images, key=Key(7, 5))
    optimizer = torch.optim.Adam(wrapped.parameters(), 0.05)
    for step in range(3):
        optimizer.zero_grad()
        wrapped(images, labels, Key(7, step)).backward()
        optimizer.step()
    out["weights"] = {name: p.detach().clone() for name, p in wrapped.module.named_parameters()}
    task = small_task(load_pictures(), 64, held=32)
    for name, recipe in RECIPES.items():
        learning = recipe.build(task, recipe.start(SETTINGS[name], 1), SETTINGS[name], world)
        for step in range(2):
            learning.step(step)
        out[name] = {
            f"{part}.{key}": p.detach().clone()
            for part, module in learning.state.modules.items()
            if part != "teacher"
            for key, p in module.named_parameters()
        }
    results[rank] = out
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def ranks():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with mp.get_context("spawn").Manager() as manager:
        results = manager.dict()
        mp.spawn(_rank, (port, results), nprocs=2)
        return [dict(results)[rank] for rank in range(2)]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["ddp", "by hand"])
def test_gradients_are_those_of_one_process_with_both_halves(ranks, how):
    images, labels = data()
    total = {}
    for rank in range(2):
        module = Joint()
        part = slice(3 * rank, 3 * rank + 3)
        module(images[part], labels[part], Key(7, 5, index_of(rank))).backward()
        for name, grad in gradients(module).items():
            total[name] = total.get(name, 0) + grad / 2
    assert total.keys() == ranks[0][how].keys()
    for name, grad in total.items():
        for rank in range(2):
            torch.testing.assert_close(ranks[rank][how][name], grad, rtol=1e-6, atol=1e-9)
    # A branch that neither rank drew takes part with a zero; ranges, gates and weights all have a slope.
    assert sum(bool(grad.abs().sum() > 0) for grad in total.values()) >= 6


@pytest.mark.slow
def test_ranks_draw_different_parameters(ranks):
    assert not torch.equal(ranks[0]["draw"], ranks[1]["draw"])
    for rank in range(2):
        alone = Joint().augment.draw(data()[0][:3], key=Key(7, 5, index_of(rank)))
        assert torch.equal(alone.params[1]["degrees"].detach(), ranks[rank]["draw"])
        own = weakening()(data()[0][3 * rank : 3 * rank + 3], key=Key(7, 5, index_of(rank)))
        assert torch.equal(own, ranks[rank]["weakening"])


@pytest.mark.slow
@pytest.mark.parametrize("what", ["weights", *RECIPES])
def test_both_ranks_hold_the_same_numbers_after_steps(ranks, what):
    start = Joint().state_dict() if what == "weights" else {}
    for name, value in ranks[0][what].items():
        assert torch.equal(value, ranks[1][what][name]), name
    moved = [name for name, value in ranks[0][what].items() if name in start and not torch.equal(value, start[name])]
    assert what != "weights" or len(moved) >= 6


def test_alone_is_a_world_of_one(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert join_world() == World()
