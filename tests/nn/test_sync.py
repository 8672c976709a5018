"""SyncBatchNorm: two processes with unequal batches against one process with all of it, over gloo."""

import tempfile
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

from pellucid.nn import SyncBatchNorm

POLICIES = ["full", "detached", "mean_only", "var_only"]
SPLITS = [(5, 2), (7, 0)]  # unequal, and one process without a sample
CASES = [(policy, split, masked) for policy in POLICIES for split in SPLITS for masked in (False, True)]


def problem():
    generator = torch.Generator().manual_seed(3)
    x, g = (torch.randn(7, 3, 4, 4, dtype=torch.float64, generator=generator) for _ in range(2))
    mask = torch.rand(7, 1, 4, 4, generator=generator) < 0.6
    weight, bias = (torch.randn(3, dtype=torch.float64, generator=generator) for _ in range(2))
    return 2 * x + 1, g, mask, weight, bias


def norm_with(weight, bias, policy):
    norm = SyncBatchNorm(3, dtype=torch.float64, statistics_grad=policy)
    with torch.no_grad():
        norm.weight.copy_(weight)
        norm.bias.copy_(bias)
    return norm


def run(norm, x, g, mask):
    x = x.clone().requires_grad_()
    out = norm(x, mask=mask)
    dx, dw, db = torch.autograd.grad(out, [x, norm.weight, norm.bias], g)
    return {"out": out.detach(), "dx": dx, "dw": dw, "db": db, "mean": norm.running_mean, "var": norm.running_var}


def worker(rank, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2)
    x, g, mask, weight, bias = problem()
    results = []
    for policy, split, masked in CASES:
        part = slice(0, split[0]) if rank == 0 else slice(split[0], 7)
        results.append(run(norm_with(weight, bias, policy), x[part], g[part], mask[part] if masked else None))
    second = second_order(norm_with(weight, bias, "full"), x[:4] if rank == 0 else x[4:], g[:4] if rank == 0 else g[4:])
    torch.save((results, second), Path(folder) / f"{rank}.pt")
    dist.destroy_process_group()


def second_order(norm, x, g):
    x = x.clone().requires_grad_()
    (dx,) = torch.autograd.grad(norm(x), x, g, create_graph=True)
    return torch.autograd.grad(dx.pow(3).sum(), x)[0]


@pytest.fixture(scope="module")
def two_processes():
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(worker, args=(folder,), nprocs=2, join=True)
        return [torch.load(Path(folder) / f"{rank}.pt") for rank in range(2)]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_two_processes_equal_one(two_processes, case):
    policy, _, masked = case
    first, second = (results[CASES.index(case)] for results, _ in two_processes)
    x, g, mask, weight, bias = problem()
    alone = run(norm_with(weight, bias, policy), x, g, mask if masked else None)
    for name in ("out", "dx"):
        torch.testing.assert_close(torch.cat([first[name], second[name]]), alone[name], rtol=0, atol=1e-12)
    for name in ("dw", "db"):  # DDP adds the shares up
        torch.testing.assert_close(first[name] + second[name], alone[name], rtol=0, atol=1e-12)
    for name in ("mean", "var"):
        assert torch.equal(first[name], second[name])
        torch.testing.assert_close(first[name], alone[name], rtol=0, atol=1e-12)


@pytest.mark.slow
def test_second_order_across_processes(two_processes):
    x, g, _, weight, bias = problem()
    alone = second_order(norm_with(weight, bias, "full"), x, g)
    torch.testing.assert_close(torch.cat([second for _, second in two_processes]), alone, rtol=0, atol=1e-10)


def test_without_a_process_group_it_is_torchs_batch_norm():
    norm, oracle = SyncBatchNorm(3), nn.BatchNorm2d(3)
    assert list(norm.state_dict()) == list(nn.SyncBatchNorm(3).state_dict())
    x = torch.randn(4, 3, 5, 5)
    assert torch.equal(norm(x), oracle(x))
    assert torch.equal(norm.running_var, oracle.running_var)
