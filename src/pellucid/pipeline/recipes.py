"""Recipes: a fast path from a key to pixels for calls of a kind that the pipeline has seen before.

Owns: `kind_of_call`, which decides whether two calls are of one kind; `Recipe`: the draw's tape, the passes, the result's form.
Must not: trace, hold numbers of a call, or give other results than the normal path.
Read next: ``../engine/prepared.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import methodcaller
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pellucid.core.compilers import numba_works
from pellucid.core.tape import Rows, is_plain_eager
from pellucid.engine.drawing import DrawTape
from pellucid.engine.lowering import Lowered, Replayed
from pellucid.engine.plan import Plan
from pellucid.engine.prepared import Prepared, image_pass
from pellucid.kernels.pixels import cells_of, stacked_pictures
from pellucid.kernels.threads import elements
from pellucid.pipeline.applying import dtype_of_result, image_of
from pellucid.pipeline.settling import settle_each
from pellucid.random.key import RANK_STRIDE, Key, counted, default_index, key_for
from pellucid.random.stream import claim, claim_numbers, rank_now
from pellucid.targets.arrays import as_given, as_tensor, is_array
from pellucid.targets.containers import Form
from pellucid.targets.kinds import IMAGE
from pellucid.targets.options import Options
from pellucid.targets.parsing import Parsed, batch_of
from pellucid.transforms.base import Transform
from pellucid.transforms.choices import steps_of
from pellucid.types import ImageSpec

__all__ = ["DictRecipe", "ListRecipe", "Recipe", "Recipes", "SettledRecipes", "any_shared", "kind_of_call"]

_MOST = 64
_LARGE = 1 << 20  # bytes; larger results are allocated by torch, which may use large pages or shared memory
_LYING = 0x500  # an array's flags WRITEABLE and ALIGNED
_CPU = torch.device("cpu")
_PICTURES = (Tensor, np.ndarray)
_BESIDE = {*_PICTURES, int, float, str, bool}
"""Types of entries whose key alone decides their kind."""


def kind_of_call(batch: Any, recorded: bool = False) -> tuple[Any, ...] | None:
    """Return a key that batches share if they take the same path. None takes the normal path: while tracing or under vmap, for
    tensors without plain memory, for lists of unlike pictures or with ``recorded``, and for dicts without a plain ``image`` or with
    more than tensors, numbers and text beside it.
    """
    if not is_plain_eager():
        return None
    if type(batch) is dict:
        if type(batch.get("image")) not in _PICTURES or not _BESIDE.issuperset(map(type, batch.values())):
            return None
        kind = kind_of_call(batch["image"])
        return None if kind is None else (*batch, kind)
    if type(batch) is Tensor:
        if batch.is_cpu and batch.layout is torch.strided and not (batch.is_neg() or batch.is_nested):
            return batch.shape, batch.stride(), batch.dtype, batch.requires_grad and 1 + torch.is_grad_enabled()
    elif type(batch) is np.ndarray:
        return batch.shape, batch.strides, batch.dtype, batch.flags.num & _LYING
    elif type(batch) is list and not recorded:
        kinds = {kind_of_call(one) if type(one) in (Tensor, np.ndarray) else None for one in batch}
        alike = len(kinds) == 1 and None not in kinds and batch[0].ndim == 3  # gray arrays (H, W) stack to what reads as channels
        return (len(batch), *kinds) if alike else None
    elif is_array(batch) and not isinstance(batch, np.ndarray):
        return batch.size, batch.mode
    return None


class Recipe:
    """The fast path for one kind of call.

    Args:
        plan: of the call.
        tape: of its draws.
        parsed: a batch of this kind.
        options: of the pipeline.
    """

    def __init__(self, plan: Plan, tape: DrawTape, parsed: Parsed, options: Options) -> None:
        (entry,) = parsed.entries
        self.plan, self.samples, self.lead = plan, batch_of(parsed)[0], parsed.lead
        self._last, self._given = entry.channels_last, entry.given
        self._plain = not (self._last or self._given)  # tensors, channels first
        self._draw, self._options, self._index = tape.draw, options, counted(self.samples).numpy()
        self._shared = options.same_on_batch or any(plan.shared)
        self._dtype = dtype_of_result(plan, options, entry.tensor.dtype)
        self._prepared: Prepared | None = None

    @staticmethod
    def of(plan: Plan, parsed: Parsed, options: Options) -> Recipe | None:
        """Make the recipe of a call's picture; None if calls of its kind have to take the normal path."""
        one = len(parsed.entries) == 1 and parsed.entries[0].kind is IMAGE and parsed.lead < 2 and parsed.entries[0].depth is None
        if not one or not batch_of(parsed)[0] or plan.looking or plan.moving_layers or plan.smooth or not numba_works():
            return None
        tape = DrawTape.of(plan)
        return None if tape is None else Recipe(plan, tape, parsed, options)

    def __call__(self, batch: Any, stream: Mapping[str, Any], key: Key | None) -> tuple[Replayed, Any]:
        """Return the draw, and the augmented pictures in the form of the batch.

        Args:
            batch: of this kind.
            stream: the pipeline's seed and step.
            key: as in the call.
        """
        if key is None:
            seed, step = claim_numbers(stream["_seed"], stream["_step"], shared=self._shared)
            rank = rank_now()
            index = self._index + rank * RANK_STRIDE if rank else self._index
        else:
            keyed, at, named = key_for(key, self.samples, _CPU)
            seed, step, index = int(keyed), int(at), named.numpy()
        drawn = self._draw(self.plan, seed, step, index)
        if self._prepared is None:
            return drawn, self._form(self._first(drawn, self._image(batch), batch))
        of_tensors, numbers, of_memory, of_arrays = self._prepared
        if of_arrays is not None:
            made = of_arrays(batch if self._plain else self._image(batch), numbers(drawn.rows))
            return drawn, made if self._plain else self._form(made)
        flat = None if of_memory is None else self._memory(batch)
        lying = None if flat is None or of_memory is None else of_memory(flat, numbers(drawn.rows))
        return drawn, self._form(of_tensors(drawn, self._image(batch))) if lying is None else self._shown(lying)

    def _first(self, drawn: Replayed, image: Tensor, batch: Any) -> Tensor:
        """Compute the first call's result, and prepare the later calls."""
        passing = image_pass(self.plan, drawn, image, self._options.impl, self._dtype) or Prepared(self._looking)
        made = passing.of_tensors(drawn, image)
        self._shown, self._memory = self._shower(made), self._reader(batch, image.stride())
        self._prepared = passing if made.nbytes < _LARGE else Prepared(passing.of_tensors)
        return made

    def _image(self, batch: Any) -> Tensor:
        """Return the pictures as a tensor (b c h w)."""
        image = batch if type(batch) is Tensor else as_tensor("image", "image", batch)
        image = image.movedim(-1, -3) if self._last and image is batch else image
        return image if self.lead else image[None]

    def _reader(self, batch: Any, stride: tuple[int, ...]) -> Callable[[Any], Rows | None]:
        """Return a function from such pictures to their flat memory, for prepared passes; its result is None for another layout."""
        if type(batch) is Tensor:
            return (lambda batch: elements(batch.detach())) if batch.requires_grad else elements
        if type(batch) is np.ndarray and batch.flags.c_contiguous:
            return methodcaller("reshape", -1) if batch.flags.writeable else lambda batch: batch.copy().reshape(-1)

        def read(batch: Any) -> Rows | None:
            image = self._image(batch)
            return elements(image) if image.stride() == stride else None

        return read

    def _form(self, made: Tensor) -> Any:
        """Bring a result into the form of the batch."""
        out = made if self.lead else made[0]
        out = out.movedim(-3, -1) if self._last else out
        return as_given(out, self._given) if self._given else out

    def _shower(self, made: Tensor) -> Callable[[Rows], Any]:
        """Return a function from the flat memory of results with this result's layout to the form of the batch."""
        pixels, (batch, channels, height, width) = cells_of(made) > 1, made.shape
        lead = (batch,) if self.lead else ()
        if self._given == "image" and (pixels or channels == 1):
            return lambda flat: flat.reshape(*lead, height, width, channels)
        shape, n = (*lead, height, width, channels) if pixels else (*lead, channels, height, width), len(lead)
        if not self._given and pixels == self._last:
            return lambda flat: torch.from_numpy(flat.reshape(shape))
        if not self._given:  # NumPy transposes axes much faster than torch
            order = (*range(n), n + 2, n, n + 1) if pixels else (*range(n), n + 1, n + 2, n)
            return lambda flat: torch.from_numpy(flat.reshape(shape).transpose(order))
        if pixels:
            return lambda flat: self._form(torch.from_numpy(flat.reshape(batch, height, width, channels)).movedim(-1, 1))
        return lambda flat: self._form(torch.from_numpy(flat.reshape(batch, channels, height, width)))

    def _looking(self, drawn: Replayed, image: Tensor) -> Tensor:
        """Compute a call without a prepared pass."""
        return image_of(Lowered(self.plan, drawn, _CPU), image, self._options)


def any_shared(transforms: Sequence[Transform], options: Options) -> bool:
    """Return whether some draw is the same for all samples of a batch."""
    return options.same_on_batch or any(getattr(step.transform, "same_on_batch", False) for step in steps_of(transforms))


class DictRecipe:
    """The fast path for dicts with one picture: the recipe of the picture, and the keys of entries that are returned unchanged."""

    def __init__(self, recipe: Recipe, beside: Iterable[str]) -> None:
        self._recipe, self._beside = recipe, tuple(beside)
        self.plan, self.samples, self.lead = recipe.plan, recipe.samples, recipe.lead

    @staticmethod
    def of(plan: Plan, parsed: Parsed, options: Options) -> DictRecipe | None:
        """Make the recipe of a call; None if such calls take the normal path or return more than the picture and these entries."""
        plain = parsed.form == Form() and [entry.key for entry in parsed.entries] == ["image"] and not options.return_valid
        recipe = Recipe.of(plan, parsed, options) if plain else None
        return None if recipe is None else DictRecipe(recipe, parsed.untouched)

    def __call__(self, batch: Any, stream: Mapping[str, Any], key: Key | None) -> tuple[Replayed, Any]:
        """As `Recipe`."""
        drawn, out = self._recipe(batch["image"], stream, key)
        return drawn, {"image": out, **{name: batch[name] for name in self._beside}}


class ListRecipe:
    """The fast path for lists of pictures of one kind: the recipe of the stacked batch, and whether results come back as a list."""

    def __init__(self, recipe: Recipe, result: Any) -> None:
        self._recipe, self._listed = recipe, type(result) is list

    @staticmethod
    def of(plan: Plan, parsed: Parsed, options: Options, result: Any) -> ListRecipe | None:
        """Make the recipe of a call, given its result; None if such calls take the normal path or return more than tensors."""
        tensors = {type(one) for one in result} == {Tensor} if type(result) is list else type(result) is Tensor
        recipe = Recipe.of(plan, parsed, options) if tensors else None
        return None if recipe is None else ListRecipe(recipe, result)

    def __call__(self, batch: Any, stream: Mapping[str, Any], key: Key | None) -> tuple[Replayed, Any]:
        """As `Recipe`."""
        drawn, out = self._recipe(stacked_pictures(batch) if type(batch[0]) is Tensor else np.stack(batch), stream, key)
        return drawn, list(out.unbind(0)) if self._listed else out


class SettledRecipes(dict[tuple[Transform, ...], Recipe | DictRecipe]):
    """The recipes for single pictures of one kind if a draw decides the size of the result, by the settled transforms.

    Args:
        transforms: of the pipeline.
        spec: the kind of picture.
        options, streams: of the pipeline.
    """

    def __init__(self, transforms: tuple[Transform, ...], spec: ImageSpec, options: Options, streams: Sequence[str]) -> None:
        super().__init__()
        self._settle = partial(settle_each, transforms, [spec], same_on_batch=options.same_on_batch, streams=streams)
        self._shared = any_shared(transforms, options)

    def chosen(self, stream: Mapping[str, Any], key: Key | None) -> tuple[Recipe | DictRecipe | None, Key]:
        """Return the recipe of a call, or None if it is new, and the key to draw with; arguments as of `Recipe`."""
        if key is None:
            numbers = *claim(stream["_seed"], stream["_step"], shared=self._shared), default_index(1, _CPU)
        else:
            numbers = key_for(key, 1, _CPU)
        return self.get(self._settle(*numbers)[0]), Key(*numbers)


class Recipes(dict[tuple[Any, ...], Any]):
    """A pipeline's recipes by kind of call: a `Recipe`, a `DictRecipe`, a `ListRecipe`, or `SettledRecipes`."""

    def __reduce__(self) -> Any:  # a copy starts empty
        return Recipes, ()

    def keep(self, kind: tuple[Any, ...], recipe: Any, deciding: SettledRecipes | None = None) -> None:
        """Keep the recipe of a kind, if it has one; if there are too many kinds, pictures seem to differ each time: forget all."""
        if len(self) >= _MOST:
            self.clear()
        if recipe is not None and deciding is not None:
            self.setdefault(kind, deciding)[recipe.plan.transforms] = recipe
        elif recipe is not None:
            self[kind] = recipe
