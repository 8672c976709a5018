"""Learned ranges under DistributedDataParallel: two processes with half of the batch each learn what one learns with all of it."""

import socket

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import pellucid as P
from pellucid import Bernoulli, Key, Learnable, Pipeline, Uniform

RANKS, SAMPLES, STEPS = 2, 8, 3


class Model(nn.Module):
    """Augmentation and a layer; the loss is expected, so that gates and ranges learn."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        turn = P.RandomAffine(degrees=Uniform(Learnable(-10.0), Learnable(10.0)), p=Learnable(0.5))
        flip = P.RandomHorizontalFlip(p=Bernoulli(Learnable(0.4), estimator="arm"))
        self.augment = Pipeline([turn, P.ColorJitter(Learnable(0.2)), flip], seed=5)
        self.head = nn.Linear(192, 2)

    def forward(self, images, key):
        return self.augment.expected(lambda out: self.head(out.flatten(1)).square().mean(1), images, key=key)


def learn(model, rows):
    images = torch.rand(SAMPLES, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    optimiser = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(STEPS):
        optimiser.zero_grad()
        model(images[rows], Key(1, step, rows)).backward()
        optimiser.step()


def work(rank, port, folder):
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=RANKS)
    model = Model()
    learn(DistributedDataParallel(model), torch.arange(SAMPLES).chunk(RANKS)[rank])
    drawn = model.augment.draw(torch.zeros(4, 3, 8, 8)).params[0]["degrees"]
    torch.save({"state": model.state_dict(), "drawn": drawn.detach()}, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


@pytest.mark.slow
def test_two_ranks_learn_what_one_process_learns_and_draw_apart(tmp_path):
    alone = Model()
    learn(alone, torch.arange(SAMPLES))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.spawn(work, args=(port, str(tmp_path)), nprocs=RANKS)
    ranks = [torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(RANKS)]
    start = Model().state_dict()
    for name, value in alone.named_parameters():
        assert all(torch.allclose(rank["state"][name], value, atol=1e-6) for rank in ranks), name
        assert torch.equal(ranks[0]["state"][name], ranks[1]["state"][name]), name
    assert all(not torch.equal(start[name], value) for name, value in alone.named_parameters())
    assert not torch.isin(ranks[0]["drawn"], ranks[1]["drawn"]).any(), "without a key every rank draws its own"
