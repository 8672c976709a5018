"""Samples that carry their number and their epoch, so that a sample's draw depends on these and the pipeline's seed alone.

Owns: `Sample`, the wrappers that number a data set, and the order of an epoch.
Must not: read pictures.
Read next: ``collate.py``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sized
from typing import Any, NamedTuple

import torch
from torch.utils.data import Dataset, IterableDataset, Sampler, get_worker_info

from pellucid.core.arguments import whole_number
from pellucid.errors import invalid, wrong_type

__all__ = ["Indexed", "Numbered", "Order", "Sample", "index_of"]

_MOST = (1 << 63) - 1


class Sample(NamedTuple):
    """A data set's value with two numbers, which decide its draw together with the pipeline's seed.

    Args:
        epoch: the step of the draw.
        number: the sample's number, which is the index of the draw, from 0 to 2^63 - 1.
        value: the data set's own sample.

    Example:
        >>> from pellucid.data import Sample
        >>> Sample(epoch=3, number=7, value="cat").number
        7
    """

    epoch: int
    number: int
    value: Any


def index_of(name: str | bytes) -> int:
    """Return a number for a sample that has a name: 63 bits of its BLAKE2 hash, the same on every machine.

    Args:
        name: text, hashed as UTF-8, or bytes.

    Example:
        >>> from pellucid.data import index_of
        >>> index_of("n01440764_10026") == index_of(b"n01440764_10026") != index_of("n01440764_10027")
        True
    """
    raw = name.encode() if isinstance(name, str) else name
    return int.from_bytes(hashlib.blake2b(raw, digest_size=8).digest(), "big") >> 1


class Indexed(Dataset[Sample]):
    """A data set whose samples come with their index, and with the epoch that `Order` asks for.

    Args:
        dataset: with a length and numbered items, such as ``torchvision.datasets.ImageFolder`` or a Hugging Face data set. Parts
            and sums of data sets go inside: ``Indexed(Subset(...))``, ``Indexed(ConcatDataset(...))``.

    Errors:
        InvalidType where a sampler other than `Order` chooses the samples: its indices carry no epoch.

    Example:
        >>> from pellucid.data import Indexed
        >>> Indexed(["cat", "dog"])[3, 1]
        Sample(epoch=3, number=1, value='dog')
    """

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, at: Any) -> Sample:
        """The sample at (epoch, index)."""
        if not isinstance(at, tuple):
            fix = "DataLoader(..., sampler=Order(len(data)))."
            raise wrong_type("Indexed", expected="(epoch, index), as Order gives them", got=repr(at), fix=fix)
        epoch, index = at
        return Sample(epoch, index, self.dataset[index])


class Numbered(IterableDataset[Sample]):
    """A stream of samples, numbered by the hash of their keys, and divided among the workers.

    Args:
        samples: dicts, in an iterable that can be read more than once, such as a WebDataset.
        key: the dict's key for the sample's name or number.
        divided: the stream divides itself among workers, as WebDataset does; else every worker reads all of it and keeps its share.

    Set ``epoch`` before each pass; workers that persist see it, too.

    Example:
        >>> from pellucid.data import Numbered
        >>> stream = Numbered([{"__key__": 7, "image": "cat"}])
        >>> stream.epoch = 3
        >>> stream.epoch, next(iter(stream))
        (3, Sample(epoch=3, number=7, value={'__key__': 7, 'image': 'cat'}))
    """

    def __init__(self, samples: Iterable[Any], *, key: str = "__key__", divided: bool = False) -> None:
        self.samples, self.key, self.divided = samples, key, divided
        self._epoch = torch.zeros((), dtype=torch.int64).share_memory_()

    @property
    def epoch(self) -> int:
        """The step of the draws."""
        return int(self._epoch)

    @epoch.setter
    def epoch(self, value: int) -> None:
        self._epoch.fill_(whole_number("Numbered.epoch", value, 0, _MOST))

    def __iter__(self) -> Iterator[Sample]:
        """Iterate over this worker's share."""
        worker = get_worker_info()
        every, first = (1, 0) if worker is None or self.divided else (worker.num_workers, worker.id)
        epoch = self.epoch
        for place, value in enumerate(self.samples):
            if place % every == first:
                name = _name_of(value, self.key)
                yield Sample(epoch, name if isinstance(name, int) else index_of(name), value)


def _name_of(value: Any, key: str) -> Any:
    if not isinstance(value, Mapping) or key not in value:
        got = sorted(value) if isinstance(value, Mapping) else type(value).__name__
        raise invalid("Numbered", expected=f"samples that are dicts with a key {key!r}", got=got, fix="Pass their names' key.")
    return value[key]


class Order(Sampler[Any]):
    """A sampler with another permutation in each epoch, equal for equal seeds, that can resume within an epoch.

    Every pass over it takes the next epoch.

    Args:
        samples: how many samples there are, or the data set.
        seed: with the epoch, decides the permutation.
        shuffle: if False, samples come in the data set's order.
        rank, ranks: this process's share: every ``ranks``-th sample of the order.

    Attributes:
        epoch: the epoch of the next pass; set it to begin elsewhere.
        done: how many samples the next pass skips, because they were seen before the run stopped. The pass sets it back to 0.

    Errors:
        InvalidArgument for a negative number of samples, epoch or ``done``, and for a rank that is not below ``ranks``.

    Example:
        >>> from pellucid.data import Order
        >>> order = Order(4, seed=1)
        >>> whole = list(order)
        >>> order.epoch, order.done = 0, 2
        >>> list(order) == whole[2:]
        True
    """

    def __init__(self, samples: int | Sized, *, seed: int = 0, shuffle: bool = True, rank: int = 0, ranks: int = 1) -> None:
        self.samples = samples if isinstance(samples, int) else len(samples)
        if self.samples < 0:
            raise invalid("samples", expected="how many there are, at least 0", got=samples)
        if not 0 <= rank < ranks:
            raise invalid("rank", expected=f"a number from 0 to {ranks - 1}", got=rank)
        self.seed, self.shuffle, self.rank, self.ranks = seed, shuffle, rank, ranks
        self.epoch = 0
        self.done = 0

    @property
    def epoch(self) -> int:
        """The epoch of the next pass."""
        return self._epoch

    @epoch.setter
    def epoch(self, value: int) -> None:
        self._epoch = whole_number("Order.epoch", value, 0, _MOST)

    @property
    def done(self) -> int:
        """How many samples the next pass skips."""
        return self._done

    @done.setter
    def done(self, value: int) -> None:
        self._done = whole_number("Order.done", value, 0, _MOST)

    def __len__(self) -> int:
        return max(len(range(self.rank, self.samples, self.ranks)) - self.done, 0)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """(epoch, index) of each sample."""
        epoch, done = self.epoch, self.done
        self.epoch, self.done = epoch + 1, 0
        order = list(range(self.samples))
        if self.shuffle:
            chance = torch.Generator().manual_seed(index_of(f"{self.seed} {epoch}"))
            order = torch.randperm(self.samples, generator=chance).tolist()
        return iter([(epoch, index) for index in order[self.rank :: self.ranks][done:]])
