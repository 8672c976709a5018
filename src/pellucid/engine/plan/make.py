"""Make a plan: decide from shapes alone which steps are fused.

Owns: sizes along the steps, grouping them into runs, and the random words of each draw.
Must not: hold tensors or read values.
Read next: ``schedule.py``, ``runs.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from pellucid.core.caches import Recent
from pellucid.core.compilers import numba_works
from pellucid.core.tape import Recording, is_plain_eager, settled
from pellucid.engine.plan.paths import cuts
from pellucid.engine.plan.runs import Pending
from pellucid.engine.plan.schedule import order_of
from pellucid.engine.plan.spaces import with_warp3
from pellucid.engine.plan.tree import Tree
from pellucid.engine.plan.values import Draw, Group, Kind, Part, Plan, Run, Single
from pellucid.errors import invalid
from pellucid.random.distributions import Bernoulli, Distribution, Smooth
from pellucid.random.smooth import PerFrame
from pellucid.random.stream import slot_of
from pellucid.segments import (
    BlendSpec,
    CallSpec,
    CodecSpec,
    ColorSpec,
    ConvolveSpec,
    CurveSpec,
    LayerSpec,
    SegmentSpec,
    Warp3Spec,
    WarpSpec,
)
from pellucid.transforms.base import Transform
from pellucid.transforms.choices import Choice, Step, exclude, places_of, steps_of
from pellucid.transforms.mixture import rounds
from pellucid.types import ImageSpec

__all__ = ["Plans", "ends_of", "for_size", "layout_of", "make_plan"]

_NAMES = {
    ColorSpec: "Color",
    CurveSpec: "Curve",
    ConvolveSpec: "Convolve",
    BlendSpec: "Blend",
    CodecSpec: "Codec",
    LayerSpec: "Layers",
    CallSpec: "Call",
}


class Plans:
    """The plans of a list of transforms for images of any kind.

    Planning is recorded with symbolic sizes. If another size does not change which steps are fused, its plan is the recorded one
    with other numbers, and shares its recordings.

    Args:
        transforms, fuse, canvas, same_on_batch, streams, per_frame, often: as :func:`make_plan` takes them.
    """

    def __init__(
        self,
        transforms: tuple[Transform, ...],
        *,
        fuse: bool,
        canvas: str,
        same_on_batch: bool,
        streams: tuple[str, ...] = (),
        per_frame: tuple[int, ...] = (),
        often: bool = True,
    ) -> None:
        self._transforms, self.streams = transforms, streams
        self._settings: dict[str, Any] = {
            "fuse": fuse,
            "canvas": canvas,
            "same_on_batch": same_on_batch,
            "streams": streams,
            "per_frame": per_frame,
            "often": often,
        }
        self._plan: Callable[..., Plan] = partial(_for_size, transforms, **self._settings)
        self._recorded: Recent[int, Recording] = Recent(8)  # by channels
        self._made: Recent[ImageSpec, Plan] = Recent(64)
        self._settled: Recent[tuple[Transform, ...], Plans] = Recent(64)

    def __getstate__(self) -> dict[str, object]:  # a copy starts with empty caches
        return self.__dict__ | {"_recorded": Recent(8), "_made": Recent(64), "_settled": Recent(64)}

    def settled(self, transforms: tuple[Transform, ...]) -> Plans:
        """Return the plans for transforms whose output sizes have been drawn."""
        for place, (one, taken) in enumerate(zip(self._transforms, transforms, strict=True)):
            if one is not taken and not {*places_of(self._transforms, place)}.isdisjoint(self._settings["per_frame"]):
                fix = "Leave it out of per_frame: it draws once for the clip then."
                raise invalid("per_frame", expected="transforms that keep all frames at one size", got=type(one).__name__, fix=fix)
        often = not any(type(one).many_sizes and one is not taken for one, taken in zip(self._transforms, transforms, strict=True))
        return self._settled.get(transforms, lambda: Plans(transforms, **self._settings | {"often": often}))

    def named(self, transforms: tuple[Transform, ...], streams: tuple[str, ...]) -> Plans:
        """Return plans of other transforms, whose draws also depend on these names."""
        return Plans(transforms, **self._settings | {"streams": streams})

    def of(self, spec: ImageSpec) -> Plan:
        """Return the plan for one kind of image."""
        if torch.compiler.is_compiling():
            return self._plan(spec.channels, *spec.extent)
        return self._made.get(spec, lambda: self._make(spec))

    def _make(self, spec: ImageSpec) -> Plan:
        plan = partial(self._plan, spec.channels)
        if spec.depth:
            return plan(*spec.extent)
        if not (self._settings["often"] and is_plain_eager() and numba_works()):
            return plan(*spec.size)
        recording = self._recorded.get(spec.channels, lambda: Recording(plan, spec.size))
        made: Plan = recording.play(np.array([spec.size], np.float64))
        return made


def _for_size(transforms: tuple[Transform, ...], channels: int, *extent: int, **options: Any) -> Plan:
    return make_plan(transforms, ImageSpec.of(channels, extent), **options)


def for_size(plan: Plan) -> Callable[[int, int], Plan]:
    """Return a function that plans the same transforms for another (height, width) inside of a recording; it holds no plan."""
    return partial(_again, plan.transforms, plan.specs[0].channels, fuse=plan.fuse, canvas=plan.canvas, per_frame=plan.per_frame)


def _again(transforms: tuple[Transform, ...], channels: int, height: int, width: int, **options: Any) -> Plan:
    plan = _for_size(transforms, channels, height, width, **options)
    settled(height)  # all plans of a kind take the same branches in planning, so these need not be noted
    return plan


def make_plan(
    transforms: tuple[Transform, ...],
    spec: ImageSpec,
    *,
    fuse: bool = True,
    canvas: str = "each",
    same_on_batch: bool = False,
    streams: tuple[str, ...] = (),
    per_frame: tuple[int, ...] = (),
    often: bool = True,
) -> Plan:
    """Plan the transforms for one kind of image.

    Args:
        transforms: in order.
        spec: channels, height and width of the input.
        fuse: compose runs; off gives the step-by-step semantics.
        canvas: ``each``: no step sees what an earlier step cut off; ``image``: a run sees the whole of its source.
        same_on_batch: share every draw across the batch.
        streams: for each step a name that its draws also depend on; empty for none.
        per_frame: the steps that are drawn anew for each frame of a clip.
        often: whether these transforms will be planned again; if not, nothing is recorded.
    """
    if any(count < 1 for count in (spec.channels, spec.height, spec.width)):
        raise invalid("image", expected="at least one channel, row and column", got=f"{spec.channels}x{spec.height}x{spec.width}")
    steps = steps_of(transforms)
    specs: list[ImageSpec] = []
    segments: list[SegmentSpec | None] = []
    specs.append(_through(transforms, spec, specs, segments, nested=False))
    draws, slots, shared = layout_of(steps, specs, same_on_batch, streams, per_frame)
    tree = Tree(segments, specs, partial(exclude, steps), _excluding(steps), _resizing(steps, segments, specs), canvas)
    order = order_of(transforms, segments)
    groups = _groups(order, tree, fuse=fuse)
    _check_sizes(steps, groups, tree)
    rounded = [rounds(steps, index) for index in range(len(steps))]
    in_bytes = _parts(_groups(order, tree._replace(rounded=rounded), fuse=fuse), rounded, segments) if any(rounded) else ()
    hops = _hops(groups, tree)
    kind = Kind() if often and not torch.compiler.is_compiling() else None
    looking = tuple(draw for draw in draws if draw.distribution.boxes or draw.distribution.masks or draw.distribution.spacing)
    smooth = tuple(draw for draw in draws if isinstance(draw.distribution, Smooth | PerFrame))
    layers = tuple(i for i, segment in enumerate(segments) if isinstance(segment, LayerSpec) and segment.moves)
    spaces: list[Group] = []  # the passes of labels, which fuse more maps because no intensity steps lie between
    for index in order:
        if isinstance(segments[index], Warp3Spec):
            spaces = with_warp3(spaces, index, tree, fuse=fuse)
    parts = steps, tuple(specs), tuple(segments), tuple(groups)
    more: dict[str, Any] = {"spaces": tuple(spaces), "kind": kind}
    return Plan(transforms, *parts, draws, slots, shared, fuse, canvas, hops, looking, smooth, per_frame, layers, in_bytes, **more)


def _groups(order: Sequence[int], tree: Tree, *, fuse: bool) -> list[Group]:
    """Group the steps into passes."""
    groups: list[Group] = []
    pending = Pending(tree)
    last = None
    for index in order:
        segment, choice = tree.segments[index], tree.resizing[index]
        if isinstance(segment, Warp3Spec):
            groups = with_warp3([*groups, *pending.closed()], index, tree, fuse=fuse)
        elif not pending.takes(index, fuse=fuse):
            groups += [*pending.closed(), Single(index, _NAMES[type(segment)])]
        elif fuse or (choice is not None and choice == last):
            groups += pending.add(index)
        else:
            groups += [*pending.closed(), *pending.add(index)]
        last = choice
    return groups + pending.closed()


def _parts(groups: Sequence[Group], rounded: Sequence[bool], segments: Sequence[SegmentSpec | None]) -> tuple[Part, ...]:
    """Divide passes into parts that round to bytes and parts that do not; a mixture that rounds is a part of its own."""
    parts: list[Part] = []
    alone = False
    for group in groups:
        index = group.indices[0]
        mixes = isinstance(segments[index], CallSpec)
        if not parts or parts[-1].rounds != rounded[index] or alone or (mixes and rounded[index]):
            parts.append(Part((), rounded[index]))
        parts[-1] = parts[-1]._replace(groups=(*parts[-1].groups, group))
        alone = mixes and rounded[index]
    return tuple(parts)


def ends_of(transforms: Sequence[Transform], spec: ImageSpec) -> ImageSpec:
    """Return the kind of image that results from transforms of one kind of image."""
    return _through(transforms, spec, [], [], nested=False)


def _through(
    transforms: Sequence[Transform], spec: ImageSpec, specs: list[ImageSpec], segments: list[SegmentSpec | None], *, nested: bool
) -> ImageSpec:
    """Append each step's kind of input image and its segment, in the tree's written order; return the kind of the result."""
    for transform in transforms:
        specs.append(spec)
        if isinstance(transform, Choice):
            segments.append(None)
            for turn in range(transform.turns):
                ends = [_through(branch, spec, specs, segments, nested=True) for branch in transform.branches]
                spec = _one_size(transform, ends, None if transform.whole and turn + 1 == transform.turns == 1 else spec)
            continue
        _check_dimensions(transform, spec)
        segment = transform.segment(spec)
        _check_fill(transform, segment, spec.channels)
        if nested:
            _check_inside(transform, segment, spec)
        segments.append(segment)
        spec = spec.resized(segment.size) if isinstance(segment, WarpSpec | Warp3Spec) else spec
    return spec


def _one_size(choice: Choice, ends: list[ImageSpec], before: ImageSpec | None) -> ImageSpec:
    """Return the kind of image in which all branches end. If ``before`` is given (no branch may be taken, or another choice
    follows), that must be the kind before the choice.
    """
    sizes = [end.size for end in ends] + ([] if before is None else [before.size])
    if any(size != sizes[0] for size in sizes):
        each = ", ".join(f"[{i}] {height}x{width}" for i, (height, width) in enumerate(end.size for end in ends))
        must = "branches that end in one size" if before is None else f"branches that keep the size, {sizes[-1][0]}x{sizes[-1][1]}"
        fix = "A batch keeps one size: end every branch in a Resize or crop to the same one, or put it after the choice."
        raise invalid(type(choice).__name__, expected=must, got=each, fix=fix)
    return ends[0]


def _check_dimensions(transform: Transform, spec: ImageSpec) -> None:
    """Raise for a transform of volumes that is given pictures, or a transform of pictures that is given volumes."""
    wanted = 3 if spec.depth else 2
    if wanted not in transform.dimensions:
        name = type(transform).__name__
        raise invalid(
            name,
            expected="pictures (B, C, H, W)" if wanted == 3 else "volumes (B, C, D, H, W), alone or under the key 'volume'",
            got="volumes" if wanted == 3 else "pictures",
            fix="pellucid.VOLUMES are the transforms made for volumes; others accept them if their ``dimensions`` contain 3."
            if wanted == 3
            else "",
        )


def _check_inside(transform: Transform, segment: SegmentSpec, spec: ImageSpec) -> None:
    """Raise for a transform that cannot be the identity while another branch is taken."""
    name = type(transform).__name__
    if isinstance(segment, Warp3Spec) and segment.size != spec.extent:
        raise invalid(name, expected="a place before or after a choice", got="one inside", fix="It changes the size of volumes.")
    if transform.units is not None:
        fix = "A batch has one unit of brightness."
        raise invalid(name, expected="a place before or after a choice", got="one inside", fix=fix)
    if "gate" not in transform.gradients and not isinstance(segment, WarpSpec | Warp3Spec | ColorSpec):
        raise invalid(name, expected="a transform with a probability p, inside of a choice", got="one without", fix="Give it p.")


def _excluding(steps: Sequence[Step]) -> list[int | None]:
    """For each step, return the outermost choice around it that takes one branch only, or None."""
    choices = {i: step.transform for i, step in enumerate(steps) if isinstance(step.transform, Choice)}
    found = {i for i, choice in choices.items() if choice.excludes((0, 0), (0, 1))}
    return [next((gate.choice for gate in step.gates if gate.choice in found), None) for step in steps]


def _resizing(steps: Sequence[Step], segments: list[SegmentSpec | None], specs: list[ImageSpec]) -> list[int | None]:
    """For each step, return the outermost choice around it in which sizes change, or None."""
    changing = {gate.choice for i, step in enumerate(steps) if _resizes(segments[i], specs[i]) for gate in step.gates}
    return [next((gate.choice for gate in step.gates if gate.choice in changing), None) for step in steps]


def _resizes(segment: SegmentSpec | None, spec: ImageSpec) -> bool:
    return isinstance(segment, WarpSpec) and segment.size != spec.size


def _check_sizes(steps: Sequence[Step], groups: list[Group], tree: Tree) -> None:
    """Raise if a choice that changes sizes needs more than one pass: pictures of different sizes cannot form a batch in between."""
    seen: dict[int, tuple[int, int]] = {}  # by choice: the group of its first change of size, and that step
    for number, group in enumerate(groups):
        for index in group.indices if isinstance(group, Run) else ():
            choice = tree.resizing[index]
            if choice is None or not _resizes(tree.segments[index], tree.specs[index]):
                continue
            begun, first = seen.setdefault(choice, (number, index))
            if begun != number:
                both = " and ".join(type(steps[i].transform).__name__ for i in (first, index))
                raise invalid(
                    type(steps[choice].transform).__name__,
                    expected="branches whose changes of size can be one pass: crops, resizes and pads of one padding mode, "
                    "interpolation and antialiasing, with nothing between them that needs a pass of its own",
                    got=f"{both}, which need two",
                    fix="Put rotations, blurs and the like after the crops, or bring all branches to one size after the choice.",
                )


def _hops(groups: list[Group], tree: Tree) -> tuple[tuple[int, ...], ...]:
    """Return the hops of a plan (see `Plan.hops`)."""
    found: list[list[int]] = []
    left: list[int] = []  # the warps of the last hop that leave something out; `bends`: whether one of its warps has a field
    bends = False
    entered: set[int] = set()
    for group in groups:
        layer = tree.segments[group.index] if isinstance(group, Single) else None
        if isinstance(group, Single) and isinstance(layer, LayerSpec) and layer.moves:
            found += [[group.index], []]
            left, bends = [], False
        warps = group.warps if isinstance(group, Run) else ()
        for part in ((warps,) if warps else ()) if tree.rule == "image" else ((i,) for i in warps):  # one canvas for all of them
            leaves = any(tree.warp(i).exposes for i in part)
            choice = tree.resizing[part[0]]
            if choice is not None and choice not in entered:  # its branches begin on one canvas
                entered.add(choice)
                leaves = True
            bent = sum(tree.warp(j).bends for j in part)
            if not found or bent + bends > 1 or (leaves and any(not tree.exclusive(i, j) for i in part for j in left)):
                found.append([])
                left, bends = [], False
            found[-1] += part
            left += [j for j in part if tree.warp(j).exposes or cuts(tree.warp(j), tree.specs[j].size)]
            bends |= bent > 0
    return tuple(tuple(indices) for indices in found if indices)


def _check_fill(transform: Transform, segment: SegmentSpec, channels: int) -> None:
    fill = getattr(segment, "fill", getattr(transform, "fill", 0.0))
    if isinstance(fill, tuple | list) and len(fill) != 1 and len(fill) != channels:
        raise invalid(f"{type(transform).__name__}.fill", expected=f"one number, or {channels} (one per channel)", got=fill)


def layout_of(
    steps: Sequence[Step],
    specs: Sequence[ImageSpec],
    same_on_batch: bool,
    streams: Sequence[str] = (),
    per_frame: Sequence[int] = (),
) -> tuple[tuple[Draw, ...], tuple[int, ...], tuple[bool, ...]]:
    """Give every draw slots of its own by position, class and name, so that it does not depend on other draws of the pipeline."""
    draws: list[Draw] = []
    slots: dict[int, bool] = {}  # in their order, each with whether its draw is shared
    for index, (transform, *_) in enumerate(steps):
        for name, distribution in transform.draws(specs[index]).items():
            if isinstance(distribution, Bernoulli) and distribution.p == 1.0 and (distribution.temperature is None):
                continue
            if index in per_frame:
                distribution = _per_frame(transform, name, distribution)
            draws.append(Draw(index, name, distribution, 4 * len(slots)))
            for block in range(-(-distribution.words // 4)):
                slot = slot_of(index, type(transform).__name__, name, block, *streams[index : index + 1], taken=slots)
                slots[slot] = same_on_batch or getattr(transform, "same_on_batch", False)
    return tuple(draws), tuple(slots), tuple(slots.values())


def _per_frame(transform: Transform, name: str, distribution: Distribution) -> Distribution:
    """Return a distribution that draws anew for each frame."""
    if isinstance(distribution, Smooth | PerFrame):
        return distribution
    if distribution.learned() or distribution.boxes or distribution.masks or distribution.spacing:
        expected = "draws that neither learn nor look at the sample"
        raise invalid("per_frame", expected=expected, got=f"{type(transform).__name__}.{name}, {distribution}")
    return PerFrame(distribution)
