"""The record of a call: what was drawn for each sample, enough to replay, invert and differentiate it.

Owns: `Record`.
Must not: hold pixels.
Read next: ``pipeline.py``.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.constants import wide_dtype
from pellucid.errors import invalid
from pellucid.execute import total_src_from_dst
from pellucid.geometry.matrices import inverse
from pellucid.lowering import Lowered, Replayed
from pellucid.plan import Plan, make_plan
from pellucid.serialize import transforms_from_list, transforms_to_list
from pellucid.types import ImageSpec, Size

__all__ = ["Record"]

_VERSION = 1
_CPU = torch.device("cpu")


@dataclass(frozen=True, eq=False)
class Record:
    """What was drawn, per sample.

    Args:
        plan: how it runs; holds the transforms and the image kind.
        params: for each transform its drawn values by name, (B,) or (B, n) tensors, part of the graph.
        samples: B.
        lead: how many leading axes the batch had: 0 (one sample), 1 (batch), 2 (video).
        impl: the implementation that ran.

    Change a value with :meth:`with_param`; ``pipeline.apply(images, record)`` then differentiates to it.
    """

    plan: Plan
    params: Sequence[Mapping[str, Tensor]]
    samples: int
    lead: int = 1
    impl: str = "reference"

    @property
    def size_in(self) -> Size:
        """(height, width) before."""
        return self.plan.size_in

    @property
    def size_out(self) -> Size:
        """(height, width) after."""
        return self.plan.size_out

    @property
    def device(self) -> torch.device:
        """Where the drawn values are."""
        if isinstance(self.params, Replayed):
            return _CPU
        return next((value.device for values in self.params for value in values.values()), _CPU)

    @property
    def src_from_dst(self) -> Float[Tensor, "b 3 3"]:
        """Output pixel to input pixel, float64; differentiable in the drawn values."""
        matrix = total_src_from_dst(Lowered(self.plan, self.params, self.device))
        if matrix is None:
            matrix = torch.eye(3, dtype=wide_dtype(self.device), device=self.device)[None]
        return matrix.expand(self.samples, 3, 3)

    @property
    def matrix(self) -> Float[Tensor, "b 3 3"]:
        """Input pixel to output pixel (``dst_from_src``), float64; differentiable in the drawn values."""
        return inverse(self.src_from_dst)

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, item: int | slice | Tensor) -> Record:
        """The record of some of the samples; an int keeps the batch axis, with one sample."""
        if isinstance(item, int):
            if not -self.samples <= item < self.samples:
                raise IndexError(f"sample {item} of a record of {self.samples}")
            item = slice(item % self.samples, item % self.samples + 1)
        params = tuple({name: value[item] for name, value in values.items()} for values in self.params)
        kept = len(torch.arange(self.samples)[item.cpu() if isinstance(item, Tensor) else item])
        return replace(self, params=params, samples=kept, lead=max(self.lead, 1))

    def with_param(self, transform: int, name: str, value: Tensor) -> Record:
        """The same record with one drawn value replaced, for instance by a tensor that requires a gradient."""
        if not -len(self.params) <= transform < len(self.params) or name not in self.params[transform]:
            known = [f"{i}: {', '.join(values)}" for i, values in enumerate(self.params) if values]
            raise invalid(
                "with_param", expected=f"one of the drawn values ({'; '.join(known)})", got=f"transform {transform}, {name!r}"
            )
        if value.shape != self.params[transform][name].shape:
            raise invalid(
                f"with_param({name!r})", expected=f"shape {tuple(self.params[transform][name].shape)}", got=tuple(value.shape)
            )
        transform %= len(self.params)
        params = tuple({**values, name: value} if i == transform else values for i, values in enumerate(self.params))
        return replace(self, params=params)

    def requires_grad_(self) -> Record:
        """The same record with every continuous value a fresh leaf that requires a gradient."""
        params = tuple(
            {n: v.detach().clone().requires_grad_() if v.is_floating_point() else v for n, v in values.items()}
            for values in self.params
        )
        return replace(self, params=params)

    def to(self, device: torch.device | str) -> Record:
        """The record on another device."""
        return replace(self, params=tuple({n: v.to(device) for n, v in values.items()} for values in self.params))

    def step(self, transform: int) -> Record:
        """The record of one transform on its own, as a pipeline of that transform would have made it."""
        transform %= len(self.params)
        plan = make_plan((self.plan.transforms[transform],), self.plan.specs[transform], canvas=self.plan.canvas)
        return replace(self, plan=plan, params=(self.params[transform],))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to a file, atomically."""
        spec = self.plan.specs[0]
        state: dict[str, Any] = {
            "pellucid_record": _VERSION,
            "transforms": transforms_to_list(self.plan.transforms),
            "image": [spec.channels, spec.height, spec.width],
            "fuse": self.plan.fuse,
            "canvas": self.plan.canvas,
            "samples": self.samples,
            "lead": self.lead,
            "impl": self.impl,
            "params": [{name: value.detach().cpu() for name, value in values.items()} for values in self.params],
        }
        target = Path(path)
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=target.name)
        os.close(handle)
        try:
            torch.save(state, temporary)
            Path(temporary).replace(target)
        finally:
            Path(temporary).unlink(missing_ok=True)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Record:
        """Read what :meth:`save` wrote. Loads tensors and plain values only, never code."""
        state: Mapping[str, Any] = torch.load(path, weights_only=True)
        if state.get("pellucid_record") != _VERSION:
            raise invalid("Record.load", expected=f"a record of version {_VERSION}", got=state.get("pellucid_record"))
        rule = state.get("canvas", "image")  # which was the only one when records did not say
        transforms = transforms_from_list(state["transforms"])
        plan = make_plan(transforms, ImageSpec(*state["image"]), fuse=state["fuse"], canvas=rule)
        return Record(plan, tuple(state["params"]), state["samples"], state["lead"], state["impl"])
