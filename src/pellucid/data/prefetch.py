"""Augment beside the training step: a thread keeps the next batches ready, in order.

Owns: `Prefetcher`.
Must not: change what is drawn.
Read next: ``__init__.py``.
"""

from __future__ import annotations

import atexit
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor

from pellucid.core.arguments import whole_number
from pellucid.data.collate import Collate
from pellucid.data.samples import Order
from pellucid.errors import invalid, wrong_type

__all__ = ["Prefetcher"]

_END = object()


class Prefetcher:
    """Iterate over a loader while a thread reads the next batches, moves them to a device and augments them.

    Args:
        loader: a ``DataLoader`` whose ``collate_fn`` is ``collate(pipeline).read``, or anything that gives lists of samples.
        collate: augments each list in one ragged pass; None passes batches on.
        device: the device of the batches: the samples' tensors are moved before the pass, labels made from numbers after it.
        depth: how many batches may be ready at most.

    Leaving a loop early stops the thread without waiting for it or for the loader: the thread ends after its current batch, and the
    next loop begins then. An error in the thread is raised where its batch would have come.

    Errors:
        InvalidArgument for a depth below 1; InvalidType for a ``collate`` that is no `Collate`.

    Example:
        >>> import torch, pellucid
        >>> from torch.utils.data import DataLoader
        >>> from pellucid.data import Indexed, Order, Prefetcher, collate
        >>> pictures = [torch.rand(3, 20 + i, 30) for i in range(4)]
        >>> augment = collate(pellucid.Pipeline([pellucid.CenterCrop(16)]))
        >>> loader = DataLoader(Indexed(pictures), 2, sampler=Order(pictures), collate_fn=augment.read)
        >>> batches = Prefetcher(loader, augment)
        >>> [tuple(batch.shape) for batch in batches]
        [(2, 3, 16, 16), (2, 3, 16, 16)]
        >>> batches.state_dict()
        {'epoch': 1, 'done': 0}
    """

    def __init__(
        self, loader: Iterable[Any], collate: Collate | None = None, *, device: torch.device | str | None = None, depth: int = 2
    ) -> None:
        self.loader, self.depth = loader, whole_number("depth", depth, 1, 1 << 20)
        self.device = None if device is None else torch.device(device)
        if collate is not None and not isinstance(collate, Collate):
            raise wrong_type("collate", expected="the result of collate(pipeline)", got=repr(collate))
        self._augment = collate
        self._thread: threading.Thread | None = None
        self._epoch, self._done = self._order.epoch if self._order is not None else 0, 0

    @property
    def _order(self) -> Order | None:
        sampler = getattr(self.loader, "sampler", None)
        return sampler if isinstance(sampler, Order) else None

    def __len__(self) -> int:
        return len(self.loader)  # type: ignore[arg-type] # a loader without a length raises TypeError itself

    def state_dict(self) -> dict[str, int]:
        """Return the epoch and how many of its samples were handed out; `load_state_dict` goes on from there."""
        return {"epoch": self._epoch, "done": self._done}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Go on where a run was stopped: the loader's `Order` skips the samples that were handed out.

        Args:
            state: the result of :meth:`state_dict`.

        Errors:
            InvalidArgument where the loader's sampler is no `Order`, and for a state without ``epoch`` and ``done``.

        Example:
            >>> import torch
            >>> from torch.utils.data import DataLoader
            >>> from pellucid.data import Indexed, Order, Prefetcher
            >>> batches = Prefetcher(DataLoader(Indexed(range(6)), 2, sampler=Order(6, shuffle=False), collate_fn=list))
            >>> batches.load_state_dict({"epoch": 0, "done": 4})
            >>> [[sample.value for sample in batch] for batch in batches]
            [[4, 5]]
        """
        if self._order is None:
            raise invalid("loader", expected="a loader whose sampler is an Order, which can leave samples out", got=self.loader)
        if not isinstance(state, Mapping) or not {"epoch", "done"} <= state.keys():
            raise invalid("state", expected="a dict with epoch and done, as state_dict gives it", got=repr(state))
        epoch, done = (whole_number(f"state[{name!r}]", state[name], 0, 1 << 62) for name in ("epoch", "done"))
        self._epoch, self._done = self._order.epoch, self._order.done = epoch, done

    def __iter__(self) -> Iterator[Any]:
        """The batches, in the loader's order."""
        order = self._order
        if order is not None:
            self._epoch, self._done = order.epoch, order.done
        ready: queue.Queue[Any] = queue.Queue(self.depth)
        stop = threading.Event()
        work = (ready, stop, self._thread)
        self._thread = thread = threading.Thread(target=self._work, args=work, name="pellucid-prefetch", daemon=True)
        thread.start()
        try:
            while (found := ready.get()) is not _END:
                if isinstance(found, BaseException):
                    raise found
                batch, count, event = found
                if event is not None:
                    self._hand_over(batch, event)
                self._done += count
                yield batch
        finally:
            stop.set()
            _drain(ready)  # the thread may be waiting for room in the queue
            _running.add(thread)
        self._epoch, self._done = self._epoch + 1, 0

    def _hand_over(self, batch: Any, event: Any) -> None:
        """Make the current stream wait for a batch, and keep the side stream from reusing the batch's memory before it is read."""
        reading = torch.cuda.current_stream(self.device)
        reading.wait_event(event)
        for tensor in _tensors(batch):
            tensor.record_stream(reading)

    def _work(self, ready: queue.Queue[Any], stop: threading.Event, before: threading.Thread | None) -> None:
        if before is not None:
            before.join()  # one thread at a time reads a loader
            del before
        try:
            side = torch.cuda.Stream(self.device) if self.device is not None and self.device.type == "cuda" else None
            with torch.cuda.stream(side):  # no effect for None
                for samples in self.loader:
                    if stop.is_set():
                        return
                    count = len(samples) if isinstance(samples, list) else 1
                    batch = self._moved(samples)
                    batch = batch if self._augment is None else self._moved(self._augment(batch))
                    ready.put((batch, count, None if side is None else side.record_event()))
                    if stop.is_set():
                        return
            ready.put(_END)
        except BaseException as error:  # the loop raises it again
            ready.put(error)

    def _moved(self, value: Any) -> Any:
        if self.device is None:
            return value
        return _mapped(value, lambda tensor: tensor.to(self.device, non_blocking=True))


_running: WeakSet[threading.Thread] = WeakSet()
"""Threads whose loop has ended or was left, and that may still run."""


@atexit.register
def _join() -> None:
    """Wait up to 2 s for these threads: Python must not shut down while they run compiled code. A stalled thread is left alone."""
    end = time.monotonic() + 2.0
    for thread in list(_running):
        thread.join(max(0.0, end - time.monotonic()))


def _drain(ready: queue.Queue[Any]) -> None:
    while not ready.empty():
        ready.get_nowait()


def _tensors(value: Any) -> Iterator[Tensor]:
    """The tensors in a nest of tuples, lists and dicts."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping | tuple | list):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _tensors(part)


def _mapped(value: Any, function: Callable[[Tensor], Tensor]) -> Any:
    """Apply a function to every tensor in a nest of tuples, lists and dicts."""
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, Mapping):
        return {key: _mapped(part, function) for key, part in value.items()}
    if isinstance(value, tuple | list):
        parts = [_mapped(part, function) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value
