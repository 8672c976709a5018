"""Pipelines inside of a data set: no draw repeats between workers or epochs; what a key names is the same everywhere."""

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from pellucid import Key, Pipeline, RandomRotation

X = torch.zeros(1, 1, 2, 2)
SAMPLES = 12


class Views(Dataset):
    """Each sample is what was drawn for it."""

    def __init__(self, seed=None, *, keyed=False, alone=False, shared=False):
        self.augment = RandomRotation(5) if alone else Pipeline([RandomRotation(5)], seed=seed, same_on_batch=shared)
        self.keyed = keyed

    def __len__(self):
        return SAMPLES

    def __getitem__(self, i):
        key = Key(5, 0, torch.tensor([i])) if self.keyed else None
        _, record = self.augment(X, key=key, return_record=True)
        return record.params[0]["degrees"][0]


def epochs(views, workers, count=2, **options):
    generator = torch.Generator().manual_seed(options.pop("generator", 0))
    context = options.pop("context", "fork") if workers else None
    loader = DataLoader(views, batch_size=2, num_workers=workers, generator=generator, multiprocessing_context=context, **options)
    return [torch.cat(list(loader)).tolist() for _ in range(count)]


def all_differ(drawn):
    flat = [value for epoch in drawn for value in epoch]
    return len(set(flat)) == len(flat)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("make", [dict, lambda: {"seed": 0}, lambda: {"alone": True}, lambda: {"shared": True, "seed": 0}])
def test_nothing_repeats_between_workers_and_epochs(workers, make):
    assert all_differ(epochs(Views(**make()), workers))


def test_nothing_repeats_in_workers_that_persist():
    assert all_differ(epochs(Views(0), 2, persistent_workers=True))


def test_a_loader_with_a_generator_is_reproducible():
    first, again = (epochs(Views(0), 2, count=1) for _ in range(2))
    assert first == again
    assert all_differ([*first, *epochs(Views(0), 2, count=1, generator=1)])


@pytest.mark.filterwarnings("ignore:This DataLoader will create 8 worker processes")
def test_with_a_key_workers_change_nothing():
    alone = epochs(Views(keyed=True), 0, count=1)
    assert all(epochs(Views(keyed=True), workers, count=1) == alone for workers in (2, 8))


@pytest.mark.slow
def test_spawned_workers_do_the_same():
    assert all_differ(epochs(Views(0), 2, context="spawn"))
    assert epochs(Views(keyed=True), 2, count=1, context="spawn") == epochs(Views(keyed=True), 0, count=1)


def test_a_worker_knows_the_rank_of_its_launcher(monkeypatch):
    drawn = []
    for rank in range(2):  # as a spawned one must, which has no process group
        monkeypatch.setenv("RANK", str(rank))
        drawn += epochs(Views(0), 1, count=1)
    assert all_differ(drawn)
