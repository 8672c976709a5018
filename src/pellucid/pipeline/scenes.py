"""Several pictures in a sample: each with draws of its own, and those that groups of them share (ADR 77).

Owns: whose draws a picture takes, which targets belong to it, and the calls of a pipeline picture by picture.
Must not: draw, or compute on pixels.
Read next: ``module.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from pellucid.engine.plan import Plans
from pellucid.errors import InvalidArgument, InvalidType, invalid
from pellucid.pipeline.first_look import Look
from pellucid.pipeline.recipes import Recipes
from pellucid.pipeline.view_draws import View, steps_named
from pellucid.random.key import Key
from pellucid.segments import LayerSpec, WarpSpec
from pellucid.targets.containers import Form, opened
from pellucid.targets.kinds import IMAGE, VALID, kind_in
from pellucid.targets.options import SIDES, Options
from pellucid.transforms.base import ANY_IMAGE, Transform
from pellucid.transforms.choices import Choice, places_of, steps_of

if TYPE_CHECKING:
    from pellucid.pipeline import Pipeline

__all__ = ["Scene", "moves"]


class _Parts(NamedTuple):
    """A batch by its pictures: for each what goes with it, by key; what goes with none; and the form of it all."""

    each: dict[str, Any]
    rest: dict[str, Any]
    form: Form


class Scene:
    """A pipeline whose samples have several pictures: for each of them the same pipeline with draws of its own.

    Args:
        pipeline: whose seed, step and learned numbers all of them use.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        if pipeline.learned.predicts:
            fix = "Leave share out, or predict for one picture."
            raise invalid("share", expected="numbers that no module predicts from the picture", got="Learnable(by=...)", fix=fix)
        self._whole, self._alone = pipeline, dict[str, "Pipeline"]()
        options = pipeline.options
        for name in ("image", *(key for key, kind in options.targets.items() if kind == "image")):
            self.of(name)  # before a graph is made of calls

    def of(self, picture: str) -> Pipeline:
        """The pipeline of one picture."""
        if picture not in self._alone:
            whole, one = self._whole, copy(self._whole)
            streams = _streams(whole.transforms, whole.options.share, picture)
            one.options, one._scene = replace(whole.options, share={}, of={}), None
            one._look, one._recipes = Look(), Recipes()
            one._plans = Plans(
                whole.transforms, fuse=whole.fuse, canvas=whole.canvas, same_on_batch=whole.same_on_batch, streams=streams
            )
            self._alone[picture] = one
        return self._alone[picture]

    def forward(self, batch: Any, key: Key | None, return_record: bool, gradient_scale: Any) -> Any:
        """`Pipeline.forward`; the record is one for each picture."""
        parts = self.parts(batch)
        key = self._key(parts, key)
        found = {
            name: self.of(name)(part, key=key, return_record=return_record, gradient_scale=gradient_scale)
            for name, part in parts.each.items()
        }
        if not return_record:
            return _joined(parts, found)
        return _joined(parts, {name: out for name, (out, _) in found.items()}), {name: one for name, (_, one) in found.items()}

    def draw(self, batch: Any, key: Key | None) -> dict[str, Any]:
        """`Pipeline.draw`."""
        parts = self.parts(batch)
        key = self._key(parts, key)
        return {name: self.of(name).draw(part, key=key) for name, part in parts.each.items()}

    def views(self, batch: Any, n: int, same: Sequence[str | type | int], key: Key | None) -> tuple[View, ...]:
        """`Pipeline.views`."""
        parts = self.parts(batch)
        key = self._key(parts, key)
        found = {name: self.of(name).views(part, n, same=same, key=key) for name, part in parts.each.items()}
        results = [_joined(parts, {name: views[i].result for name, views in found.items()}) for i in range(n)]
        records: list[Any] = [{name: views[i].record for name, views in found.items()} for i in range(n)]
        return tuple(View(result, record) for result, record in zip(results, records, strict=True))

    def replayed(self, batch: Any, records: Mapping[str, Any], call: Callable[[Pipeline, Any, Any], Any]) -> Any:
        """`Pipeline.apply` or `Pipeline.inverse` of each picture, with its record."""
        parts = self.parts(batch, tuple(records))
        missing = [name for name in parts.each if name not in records]
        if missing:
            raise invalid("record", expected=f"one for each picture, {', '.join(parts.each)}", got=f"none for {missing[0]}")
        return _joined(parts, {name: call(self.of(name), part, records[name]) for name, part in parts.each.items()})

    def key_of(self, batch: Any, key: Key | None) -> Key:
        """`Pipeline.key_of`."""
        name, part = next(iter(self.parts(batch).each.items()))
        return self.of(name).key_of(part, key)

    def explain(self, batch: Any) -> str:
        """`Pipeline.explain` of each picture."""
        return "\n\n".join(f"{name}:\n{self.of(name).explain(part)}" for name, part in self.parts(batch).each.items())

    def parts(self, batch: Any, pictures: Sequence[str] = ()) -> _Parts:
        """A batch by its pictures, which are known where a record has them."""
        flat, form = opened(batch)
        if not isinstance(flat, Mapping):
            return _Parts({"image": batch}, {}, form)
        if form.count is not None:
            fix = "Put them into one dict of lists."
            raise invalid("batch", expected="one dict of several pictures and their targets", got="a list of dicts", fix=fix)
        options = self._whole.options
        kinds = {key: kind_in(key, value, options) for key, value in flat.items() if isinstance(key, str)}
        pictures = [*pictures, *(key for key, kind in kinds.items() if kind is IMAGE and key not in pictures)]
        if not pictures:
            raise invalid("batch", expected="at least one image", got=list(flat))
        each: dict[str, Any] = {}
        rest: dict[str, Any] = {}
        for key, value in flat.items():
            kind = kinds.get(key)
            owner = None if key in options.passthrough else _owner(key, pictures, options)
            free = key in options.passthrough or (kind is not None and not kind.axes)
            if owner is None and not free:
                fix = f"Pass of={{{key!r}: {pictures[0]!r}}}, or name it after its picture, such as mask_{pictures[0]}."
                raise invalid(
                    f"batch[{key!r}]", expected=f"a target of one of {', '.join(pictures)}", got="a name of none", fix=fix
                )
            (rest if owner is None else each.setdefault(owner, {}))[key] = value
        _check_counts({name: each[name][name] for name in pictures if name in each.get(name, ())})
        return _Parts(each, rest, form)

    def _key(self, parts: _Parts, key: Key | None) -> Key:
        """One key for all pictures; without one of the caller's, this takes a step of the stream."""
        name, part = next(iter(parts.each.items()))
        return self.of(name).key_of(part) if key is None else key


def _joined(parts: _Parts, results: Mapping[str, Any]) -> Any:
    """The results of all pictures in the form of the batch."""
    if parts.form.bare:
        return results["image"]
    everything: dict[str, Any] = {}
    for name, result in results.items():
        everything |= {f"{VALID}{_suffix(name)}" if key == VALID else key: value for key, value in result.items()}
    return parts.form.closed(everything | parts.rest)


def _owner(key: str, pictures: Sequence[str], options: Options) -> str | None:
    """The picture that a target belongs to: as declared, or the longest name of one that its key ends in, or begins with."""
    key = key.removesuffix(f"_{VALID}")
    if key in options.of or key in pictures:
        return options.of.get(key, key)
    named = [one for one in pictures if key.endswith(_suffix(one)) or key.startswith(f"{one}_")]
    return max(named, key=len, default=pictures[0] if len(pictures) == 1 else None)


def _suffix(picture: str) -> str:
    """How the keys of a picture's targets end: ``_left`` for ``left`` and ``image_left``, nothing for ``image``."""
    return picture.removeprefix("image") if picture.startswith("image") else f"_{picture}"


def _check_counts(pictures: Mapping[str, Any]) -> None:
    counts = {name: _count(value) for name, value in pictures.items()}
    first = next(iter(counts), "")
    for name, count in counts.items():
        if count != counts[first]:
            raise invalid(f"batch[{name!r}]", expected=f"{counts[first]} samples, as batch[{first!r}] has", got=count)


def _count(picture: Any) -> int:
    """How many samples: one where there is no axis for them."""
    if isinstance(picture, list | tuple):
        return len(picture)
    shape: Sequence[int] = getattr(picture, "shape", ())
    return shape[0] if len(shape) > 3 else 1


def _streams(transforms: tuple[Transform, ...], share: Mapping[str, Sequence[Sequence[str]]], picture: str) -> tuple[str, ...]:
    """For each step, the picture by whose name it draws: the first of its group, or the picture itself."""
    leads = {name: next((group[0] for group in groups if picture in group), picture) for name, groups in share.items()}
    named = {at: name for name in share if name not in SIDES for at in steps_named(transforms, (name,), option="share")}
    found = [leads[named[at]] if at in named else "" for at in range(len(steps_of(transforms)))]
    for i, transform in enumerate(transforms):
        open_ones = [at for at in places_of(transforms, i) if at not in named]
        chosen = {leads.get(side, picture) for side in _sides(transform)}
        if len(chosen) > 1 and open_ones:
            name = type(transform).__name__
            raise invalid(
                "share",
                expected=f"one group for {name}, which may change both geometry and colour",
                got=f"another for each of them, for {picture!r}",
                fix=f"Name it: share={{..., {name!r}: [...]}}; an empty list leaves it to each picture.",
            )
        for at in open_ones:
            (found[at],) = chosen
    return tuple(found)


def _sides(transform: Transform) -> set[str]:
    """Whether a transform moves points, changes colours, or is a choice of both."""
    if isinstance(transform, Choice):
        return {side for branch in transform.branches for one in branch for side in _sides(one)} or {"colour"}
    return {"geometry" if moves(transform) else "colour"}


def moves(transform: Transform) -> bool:
    """Whether points of the picture move: all else counts as colour. What refuses pictures for their channels moves none."""
    if type(transform).decides is not Transform.decides:  # the size of the result
        return True
    try:
        segment = transform.segment(ANY_IMAGE)
    except (InvalidArgument, InvalidType):
        return False
    return isinstance(segment, WarpSpec) or (isinstance(segment, LayerSpec) and segment.moves)
