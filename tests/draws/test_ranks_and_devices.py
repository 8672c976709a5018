"""Ranks draw differently by default, equally for equal indices; devices draw the same bits."""

import pytest
import torch

from pellucid import ColorJitter, Key, Pipeline, RandomAffine, RandomGaussianNoise, RandomResizedCrop


def flagship():
    affine = RandomAffine(20, translate=(0.1, 0.1))
    return Pipeline([RandomResizedCrop(8), affine, ColorJitter(0.2, 0.2, saturation=0.2, hue=0.1), RandomGaussianNoise()], seed=7)


def _rank_draws(rank: int, world: int, store: str, queue) -> None:
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    x = torch.zeros(2, 3, 9, 9)
    default = flagship().draw(x).params[1]["degrees"]
    named = flagship().draw(x, key=Key(7, 0, torch.tensor([100, 101]))).params[1]["degrees"]
    queue.put((rank, default.tolist(), named.tolist()))
    torch.distributed.destroy_process_group()


@pytest.mark.slow
def test_default_index_folds_in_the_rank(tmp_path):
    if not torch.distributed.is_available():
        pytest.skip("torch is built without distributed")
    context = torch.multiprocessing.get_context("spawn")
    queue = context.Queue()
    workers = [context.Process(target=_rank_draws, args=(rank, 2, str(tmp_path / "store"), queue)) for rank in range(2)]
    for worker in workers:
        worker.start()
    results = {rank: rest for rank, *rest in (queue.get(timeout=120) for _ in workers)}
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    assert results[0][0] == flagship().draw(torch.zeros(2, 3, 9, 9)).params[1]["degrees"].tolist()
    assert not set(results[0][0]) & set(results[1][0])
    assert results[0][1] == results[1][1]


@pytest.mark.gpu
def test_the_same_bits_on_cpu_and_gpu():
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    x = torch.rand(16, 3, 12, 12)
    here, there = flagship().draw(x), flagship().draw(x.cuda())
    for values, other in zip(here.params, there.params, strict=True):
        for name, value in values.items():
            assert torch.equal(value.float(), other[name].cpu().float()), name
    out, on_gpu = flagship()(x), flagship()(x.cuda()).cpu()
    assert (out - on_gpu).abs().max() < 1e-5


@pytest.mark.gpu
def test_the_pipeline_captures_into_a_cuda_graph():
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    augment, x = flagship().cuda(), torch.rand(16, 3, 12, 12, device="cuda")
    augment(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = augment(x)
    graph.replay()
    first = out.clone()
    graph.replay()
    assert not torch.equal(first, out)  # the step counter advances inside the graph
