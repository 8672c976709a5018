"""Attacks and defences with pipelines: perturbations and patches under random transforms, flow attacks, worst and mixed draws.

Owns: `Adversary`, `PatchAdversary`, `eot`, `flow_attack`, `max_up`, `AugMax`.
Must not: draw, search or resample by itself: pipelines and functions do.
Read next: ``pipeline/worst_draws.py``, ``docs/worst-case.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.core.arguments import check_choice, check_flag, finite_number, whole_number
from pellucid.core.recording import check_recording
from pellucid.errors import invalid, wrong_type
from pellucid.functional import remap
from pellucid.geometry.matrices import scale_shift
from pellucid.pipeline import Pipeline
from pellucid.pipeline.ragged import RaggedRecord
from pellucid.pipeline.records import Record
from pellucid.pipeline.stickers import Sticker, read_sticker
from pellucid.pipeline.view_draws import View
from pellucid.pipeline.worst_search import read_losses
from pellucid.random import CenteredUniform, Key, LogUniform, MultivariateNormal, Normal, Uniform
from pellucid.targets.kinds import IMAGE, kind_of
from pellucid.transforms.base import as_size
from pellucid.types import Size

__all__ = ["Adversary", "AugMax", "PatchAdversary", "eot", "flow_attack", "max_up"]

Loss = Callable[[Any], Tensor]
"""Maps pictures (a batch, a list or a dict) to (B,) losses."""


def eot(pipeline: Pipeline, images: Any, k: int, *, key: Key | None = None) -> View:
    """Return k draws of every picture in one batch (k B, C, H, W), draw by draw, for the expected loss over transformations.

    Args:
        pipeline: to draw from.
        images: a batch as in the pipeline's call: (B, C, H, W), a list of pictures, or a dict of them with their targets. For a
            list or dict, so is the result, k times as long.
        k: draws of each picture.
        key: as in the pipeline's call; all draws take one step of its stream.

    Returns:
        (result, record). The expected loss of each picture is ``loss(result).unflatten(0, (k, -1)).mean(0)``, with labels repeated
        k times.

    Gradient:
        to the images, from all draws.
    Errors:
        InvalidType for anything but a pipeline; InvalidArgument for k below 1.
    Source:
        Athalye et al., "Synthesizing robust adversarial examples", ICML 2018.

    Example:
        >>> import torch, pellucid
        >>> out, record = eot(pellucid.Pipeline([pellucid.RandomRotation(30)]), torch.rand(2, 3, 8, 8), 5)
        >>> out.shape, record.samples
        (torch.Size([10, 3, 8, 8]), 10)
    """
    _check_pipeline(pipeline)
    results, records = zip(*pipeline.views(images, k, key=key), strict=True)
    return View(_joined(results), _joined_records(records))


def _joined(results: Sequence[Any]) -> Any:
    """Concatenate results: batches, lists, or dicts of them."""
    first = results[0]
    if isinstance(first, Mapping):
        return {name: _joined([result[name] for result in results]) for name in first}
    return torch.cat(list(results)) if isinstance(first, Tensor) else [one for result in results for one in result]


def _joined_records(records: Sequence[Any]) -> Any:
    first = records[0]
    if isinstance(first, Mapping):
        return {name: _joined_records([record[name] for record in records]) for name in first}
    if isinstance(first, Record):
        return Record.cat(records)
    parts = [(k, part) for k, record in enumerate(records) for part in record.parts()]
    return RaggedRecord.of([(tuple(i + k * len(first) for i in where), record) for k, (where, record) in parts])


def _blocks(images: Any) -> list[Tensor]:
    """Return the pictures as detached batches: a batch as one, a list as batches of one picture."""
    images = _pictures(images)
    return [images.detach()] if isinstance(images, Tensor) else [one.detach()[None] for one in images]


def _pictures(images: Any) -> Any:
    """Return the pictures: a batch or a list, or those of a dict."""
    return images["image"] if isinstance(images, Mapping) else images


def _chosen(images: Any, places: Tensor, times: int) -> Any:
    """Select samples of a batch, a list, or a dict of these, and repeat them ``times`` times."""
    if isinstance(images, Mapping):
        return {name: _chosen(value, places, times) for name, value in images.items()}
    if isinstance(images, Tensor):
        return images[places].repeat(times, *[1] * (images.dim() - 1))
    return [images[i] for i in places.tolist()] * times


def _in_place(blocks: Sequence[Tensor], images: Any) -> Any:
    """Bring blocks back into the form of the images that they were made of."""
    if isinstance(images, Mapping):
        return {**images, "image": _in_place(blocks, images["image"])}
    return blocks[0] if isinstance(images, Tensor) else [block[0] for block in blocks]


@dataclass(frozen=True)
class Adversary:
    """A perturbation of pictures that raises a loss under a pipeline's draws: projected gradient ascent on the expected loss.

    Args:
        pipeline: transforms the perturbed pictures before the model sees them; ``Pipeline([])`` for no transforms.
        loss_fn: takes k B augmented pictures and the k B labels, returns as many losses.
        norm: ``linf`` or ``l2``, of the whole perturbation of a picture.
        radius: of the ball that contains the perturbation, in the pictures' units, > 0.
        steps: the number of ascent steps.
        step_size: of each step, in the norm; default 2.5 radius / steps.
        draws: k, the number of draws at each step.
        targeted: lower the loss instead: the labels are those that the model should predict.
        universal: one perturbation for all pictures.
        mask: where pictures may change, (C, H, W) or broadcast to it; with a radius of 1, a patch.
        low, high: the range of perturbed pictures.

    Example:
        >>> import torch, pellucid
        >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 8 * 8, 2)).requires_grad_(False)
        >>> attack = Adversary(
        ...     pellucid.Pipeline([pellucid.RandomRotation(20)], seed=0),
        ...     lambda x, y: torch.nn.functional.cross_entropy(model(x), y, reduction="none"), radius=0.1, steps=3)
        >>> images, labels = torch.rand(4, 3, 8, 8), torch.tensor([0, 1, 0, 1])
        >>> perturbed = attack(images, labels)
        >>> bool((perturbed - images).abs().max() <= 0.1 + 1e-6)
        True

    Gradient:
        none to the inputs: the result is a constant. Surrogates inside of the pipeline (JPEG, posterise) work as declared.
    Errors:
        InvalidArgument for numbers out of range, and if there is not one loss per augmented picture.
    Source:
        Madry et al., "Towards deep learning models resistant to adversarial attacks", ICLR 2018; Athalye et al., ICML 2018;
        Moosavi-Dezfooli et al., "Universal adversarial perturbations", CVPR 2017.
    """

    pipeline: Pipeline
    loss_fn: Callable[[Any, Any], Tensor]
    norm: str = "linf"
    radius: float = 8 / 255
    steps: int = 20
    step_size: float | None = None
    draws: int = 8
    targeted: bool = False
    universal: bool = False
    mask: Tensor | None = None
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        check_choice("norm", self.norm, ("linf", "l2"))
        _check_ascent(self)
        step = self.radius if self.step_size is None else self.step_size
        if min(finite_number("radius", self.radius), finite_number("step_size", step)) <= 0:
            raise invalid("radius and step_size", expected="numbers > 0", got=f"{self.radius} and {self.step_size}")

    def __call__(self, images: Any, labels: Tensor | None = None, *, key: Key | None = None) -> Any:
        """Return the perturbed pictures, in a batch of the same form."""
        found = self.perturbation(images, labels, key=key)
        return _in_place(self._on(_blocks(images), [found] if self.universal else _blocks(found)), images)

    def perturbation(self, images: Any, labels: Tensor | None = None, *, key: Key | None = None) -> Any:
        """Return the perturbation that the call adds to the pictures.

        Args:
            images: floating point, from ``low`` to ``high``: a batch as in a call, (B, C, H, W), a list of pictures, or
                a dict of them under ``image`` with targets, which the pipeline moves before ``loss_fn`` gets them.
            labels: one per picture; None for a loss without labels.
            key: of the first step's draws; by default each step takes a step of the pipeline's stream.

        Returns:
            A perturbation for each picture, or (1, C, H, W) for all of them, with a norm of at most ``radius``.

        Gradient:
            none: the result is a constant.

        Errors:
            As the call.

        Example:
            >>> import torch, pellucid
            >>> attack = Adversary(pellucid.Pipeline([]), lambda x, y: x.mean((1, 2, 3)), radius=0.1, steps=3)
            >>> attack.perturbation(torch.full((1, 3, 4, 4), 0.5), torch.tensor([0])).mean()
            tensor(0.1000)
        """
        _check_pictures(images, labels, key)
        check_recording("Adversary")
        still = _blocks(images)
        if self.universal and len({block.shape for block in still}) > 1:
            fix = "Bring them to one size, or give each a perturbation of its own."
            raise invalid("images", expected="one size for a universal perturbation", got="pictures of several", fix=fix)
        deltas = [torch.zeros_like(block[:1] if self.universal else block) for block in still[: 1 if self.universal else None]]
        length = 2.5 * self.radius / max(self.steps, 1) if self.step_size is None else self.step_size
        count = self.draws * sum(map(len, still))
        many = None if labels is None else labels.repeat(self.draws, *[1] * (labels.dim() - 1))
        for step in range(self.steps):
            leaves = [delta.detach().requires_grad_() for delta in deltas]
            at = None if key is None else Key(key.seed, key.step + step, key.index)
            with torch.enable_grad():
                out, _ = eot(self.pipeline, _in_place(self._on(still, leaves), images), self.draws, key=at)
                slopes = _slope(self.loss_fn(out, many), count, leaves)
            deltas = [
                self._inside(delta + length * self._move(slope), block)
                for delta, slope, block in zip(deltas, slopes, still, strict=False)
            ]
        return deltas[0] if self.universal else _in_place(deltas, _pictures(images))

    def _on(self, images: Sequence[Tensor], deltas: Sequence[Tensor]) -> list[Tensor]:
        return [(image + delta).clamp(self.low, self.high) for image, delta in zip(images, cycle(deltas), strict=False)]

    def _move(self, slope: Tensor) -> Tensor:
        slope = (-slope if self.targeted else slope) * (1.0 if self.mask is None else self.mask)
        return slope.sign() if self.norm == "linf" else slope / _length(slope).clamp(min=1e-30)

    def _inside(self, delta: Tensor, images: Tensor) -> Tensor:
        """Project a perturbation onto the ball, and then clip the pictures to their range."""
        if self.norm == "linf":
            delta = delta.clamp(-self.radius, self.radius)
        else:
            delta = delta * (self.radius / _length(delta).clamp(min=1e-30)).clamp(max=1.0)
        return delta if self.universal else (images + delta).clamp(self.low, self.high) - images


def _slope(losses: Tensor, count: int, leaves: Sequence[Tensor]) -> list[Tensor]:
    return [torch.nan_to_num(slope) for slope in torch.autograd.grad(read_losses(losses, count).sum(), list(leaves))]


@dataclass(frozen=True)
class PatchAdversary:
    """A patch that covers a part of pictures, placed by drawn maps, and raises a loss under a pipeline's draws.

    Args:
        pipeline: transforms the pictures with the patch before the model sees them; ``Pipeline([])`` for no transforms.
        placement: geometry that keeps the pictures' size; its maps move the patch from the middle of the pictures. The patch is
            blended with the pictures by the share of each pixel that it covers. If the pipeline begins with a warp, that is
            composed with the placement: patch and pictures are resampled once, and the patch is antialiased.
        loss_fn: takes k B augmented pictures and the k B labels, returns as many losses.
        size: (height, width) of the patch in pixels.
        steps: the number of signed ascent steps on the patch's values.
        step_size: of each step, in the pictures' units.
        draws: k, the number of draws at each step.
        targeted: lower the loss instead: the labels are those that the model should predict.
        universal: one patch for all pictures.
        low, high: the range of the patch, which starts in the middle of it.
        batch: the number of pictures in a step, taken in turn; by default all. For a universal patch.
        penalty: takes the patch (1 or B, C, h, w), returns a term (1 or B,) that is lowered as well, such as roughness or the
            distance to printable colours.

    Example:
        >>> import torch, pellucid
        >>> attack = PatchAdversary(
        ...     pellucid.Pipeline([pellucid.RandomBrightness(0.2)], seed=0),
        ...     pellucid.Pipeline([pellucid.RandomAffine(20, (0.3, 0.3))], seed=1),
        ...     lambda x, y: x.mean((1, 2, 3)), size=(4, 4), steps=3)
        >>> images = torch.full((2, 3, 12, 12), 0.5)
        >>> patch = attack(images, torch.tensor([0, 1]))
        >>> patch.shape, attack.paste(images, patch).shape
        (torch.Size([1, 3, 4, 4]), torch.Size([2, 3, 12, 12]))

    Gradient:
        call: none to the inputs, the result is a constant. paste, show: exact to pictures and patch; to learned placements almost
        everywhere.
    Errors:
        InvalidArgument for numbers out of range, a placement that changes the size, and if there is not one loss per picture.
    Source:
        Brown et al., "Adversarial patch", 2017; Athalye et al., ICML 2018.
    """

    pipeline: Pipeline
    placement: Pipeline
    loss_fn: Callable[[Any, Tensor], Tensor]
    size: Size
    steps: int = 50
    step_size: float = 0.05
    draws: int = 8
    targeted: bool = False
    universal: bool = True
    low: float = 0.0
    high: float = 1.0
    batch: int | None = None
    penalty: Callable[[Tensor], Tensor] | None = None

    def __post_init__(self) -> None:
        _check_ascent(self)
        _check_pipeline(self.placement, "placement")
        if self.batch is not None and not self.universal:
            raise invalid("batch", expected="None where each picture has a patch of its own", got=self.batch)
        whole_number("batch", 1 if self.batch is None else self.batch, 1, 1 << 20)
        object.__setattr__(self, "size", as_size("size", self.size))
        if finite_number("step_size", self.step_size) <= 0:
            raise invalid("step_size", expected="a number > 0", got=self.step_size)

    def __call__(
        self, images: Any, labels: Tensor, *, key: Key | None = None, start: Tensor | None = None
    ) -> Float[Tensor, "*b c h2 w2"]:
        """Return the patch, (1, C, h, w), or one for each picture, starting from ``start``; ``key`` gives seed and step only."""
        _check_pictures(images, labels, key)
        check_recording("PatchAdversary")
        still = _blocks(images)
        count = sum(map(len, still))
        shape = (1 if self.universal else count, still[0].shape[1], *self.size)
        patch = still[0].new_full(shape, (self.low + self.high) / 2) if start is None else start.detach().to(still[0])
        if patch.shape != shape:
            raise invalid("start", expected=f"a patch of shape {shape}", got=tuple(patch.shape))
        places = torch.arange(count, device=labels.device)
        for step in range(self.steps):
            some = places if self.batch is None else places.roll(-step * self.batch)[: self.batch]
            many, answers = (_chosen(rows, some, self.draws) for rows in (images, labels))
            leaf = patch.detach().requires_grad_()
            at = None if key is None else Key(key.seed, key.step + step)
            with torch.enable_grad():
                covers = leaf if self.universal else leaf.repeat(self.draws, 1, 1, 1)
                (slope,) = _slope(self.loss_fn(self.show(many, covers, key=at), answers), len(answers), [leaf])
                slope = -slope if self.targeted else slope
                if self.penalty is not None:
                    share = self.draws * (len(some) if self.universal else 1)  # as if every loss contained the penalty
                    slope = slope - share * torch.autograd.grad(self.penalty(leaf).sum(), [leaf])[0]
            patch = (patch + self.step_size * slope.sign()).clamp(self.low, self.high)
        return patch

    def paste(self, images: Any, patch: Float[Tensor, "#b c h2 w2"], *, key: Key | None = None) -> Any:
        """Blend the patch onto the pictures at the place that the placement draws.

        Args:
            images: floating point, (B, C, H, W), a list of pictures of any sizes, or a dict of them under ``image`` with targets.
            patch: one for all pictures, or one for each.
            key: of the placement; 1 is added to its seed, so that the pipeline can use the same key.

        Returns:
            The same structure, with the patch blended into the pictures by the share of each pixel that it covers.

        Gradient:
            images, patch: exact.

        Errors:
            As the call.

        Example:
            >>> import torch, pellucid
            >>> attack = PatchAdversary(
            ...     pellucid.Pipeline([]), pellucid.Pipeline([pellucid.RandomHorizontalFlip(p=1.0)]), lambda x, y: x, size=(1, 3))
            >>> attack.paste(torch.zeros(1, 1, 1, 5), torch.tensor([[[[1.0, 2.0, 3.0]]]])).flatten()
            tensor([0., 3., 2., 1., 0.])
        """

        def pasted(one: Any, own: Tensor, at: Key | None) -> Any:
            return _in_place([self._sticker(one, own, at).on(_pictures(one))], one)

        return self._alone(images, patch, key, self.placement, pasted)

    def show(self, images: Any, patch: Float[Tensor, "#b c h2 w2"], *, key: Key | None = None) -> Any:
        """Send the pictures with the patch through the pipeline, and return what the model sees.

        This uses ``over`` of `Pipeline.apply`: if the pipeline begins with a warp, patch and pictures are resampled once each.

        Args:
            images, patch: as for :meth:`paste`.
            key: of the pipeline; the placement uses it as in :meth:`paste`.

        Returns:
            The pipeline's result.

        Gradient:
            images, patch: as the pipeline's transforms declare.

        Errors:
            As the call.

        Example:
            >>> import torch, pellucid
            >>> flip = pellucid.Pipeline([pellucid.RandomHorizontalFlip(p=1.0)])
            >>> attack = PatchAdversary(flip, pellucid.Pipeline([]), lambda x, y: x, size=(1, 3))
            >>> attack.show(torch.zeros(1, 1, 1, 5), torch.tensor([[[[1.0, 2.0, 3.0]]]])).flatten()
            tensor([0., 3., 2., 1., 0.])
        """

        def shown(one: Any, own: Tensor, at: Key | None) -> Any:
            sticker, record = self._sticker(one, own, at), self.pipeline.draw(one, key=at)
            return self.pipeline.apply(one, record, over=sticker)

        return self._alone(images, patch, key, self.pipeline, shown)

    def _alone(self, images: Any, patch: Any, key: Key | None, of: Pipeline, call: Callable[..., Any]) -> Any:
        """Return a call's result for a batch; for a list, call it for each picture with that picture's index of the key."""
        _check_pictures(images, key=key)
        pictures = _pictures(images)
        if isinstance(pictures, Tensor) or not isinstance(patch, Tensor):
            return call(images, patch, key)
        key, count = of.key_of(pictures, key), len(pictures)
        alone = [Key(key.seed, key.step, key.index[i : i + 1]) for i in range(count)]  # type: ignore[index]
        covers = patch.expand(count, *patch.shape[1:]).split(1)
        if not isinstance(images, Mapping):
            return [call(one[None], own, at)[0] for one, own, at in zip(images, covers, alone, strict=True)]
        samples = [{n: v[i][None] if isinstance(v[i], Tensor) else [v[i]] for n, v in images.items()} for i in range(count)]
        found = [call(one, own, at) for one, own, at in zip(samples, covers, alone, strict=True)]
        return {name: [one[name][0] for one in found] for name in found[0]}

    def _sticker(self, images: Any, patch: Tensor, key: Key | None) -> Sticker:
        """Place the patch by a draw of the placement."""
        _check_pictures(images, key=key)
        images = _pictures(images)
        if not isinstance(patch, Tensor):
            raise wrong_type("patch", expected="a tensor", got=type(patch).__name__)
        record = self.placement.draw(images, key=None if key is None else Key(key.seed + 1, key.step, key.index))
        size = (images.shape[-2], images.shape[-1])
        if record.size_out != size:
            raise invalid("placement", expected=f"one that keeps pictures of {size}", got=record.size_out)
        centred = ((patch.shape[-2] - size[0]) / 2, (patch.shape[-1] - size[1]) / 2)
        maps = record.src_from_dst
        return read_sticker((patch, scale_shift(1.0, centred[1], 1.0, centred[0], maps[:, 0, 0]) @ maps), [images], "patch")


def _check_pipeline(given: object, name: str = "pipeline") -> None:
    if not isinstance(given, Pipeline):
        raise wrong_type(name, expected="a Pipeline", got=repr(given))


def _check_ascent(attack: Adversary | PatchAdversary) -> None:
    """Check the arguments that both attacks share."""
    _check_pipeline(attack.pipeline)
    whole_number("steps", attack.steps, 0, 1 << 20)
    whole_number("draws", attack.draws, 1, 1 << 16)
    check_flag("targeted", attack.targeted)
    check_flag("universal", attack.universal)
    if not attack.low < attack.high:
        raise invalid("low and high", expected="low < high", got=f"{attack.low} and {attack.high}")


def _check_pictures(images: Any, labels: Tensor | None = None, key: Key | None = None) -> None:
    if isinstance(images, Mapping) and "image" not in images:
        raise invalid("images", expected="pictures under 'image'", got=list(images))
    images = _pictures(images)
    listed = isinstance(images, list | tuple) and len(images) > 0
    for name, value in (("images", images), ("labels", labels)):
        if not isinstance(value, Tensor) and not (value is None and name == "labels") and not (listed and name == "images"):
            expected = "a tensor" if name == "labels" else "a tensor, or a list of at least one picture"
            raise wrong_type(name, expected=expected, got=type(value).__name__)
    for one in images if listed else [images]:
        if not isinstance(one, Tensor) or not one.is_floating_point() or one.dim() != 4 - listed:
            got = f"{one.dtype} {tuple(one.shape)}" if isinstance(one, Tensor) else type(one).__name__
            raise invalid("images", expected=f"floating-point ({'' if listed else 'B, '}C, H, W)", got=got)
    if labels is not None and (labels.dim() == 0 or len(labels) != len(images)):
        raise invalid("labels", expected=f"one for each of {len(images)} images", got=tuple(labels.shape))
    if key is not None and not isinstance(key, Key):
        raise wrong_type("key", expected="a Key", got=repr(key), fix="For example key=Key(seed=0, step=7).")


def _length(rows: Tensor) -> Tensor:
    return rows.square().sum((1, 2, 3), keepdim=True).sqrt()


def flow_attack(
    images: Any,
    loss_fn: Loss,
    *,
    steps: int = 50,
    smoothness: float = 0.05,
    learning_rate: float = 0.05,
    goal: float | None = None,
) -> tuple[Any, Any]:
    """Move pixels instead of changing them: a smooth displacement field that raises a loss (stAdv).

    Args:
        images: floating point, (B, C, H, W), a list of pictures of any sizes, or a dict of them under ``image``; other entries,
            such as labels, stay unchanged.
        loss_fn: takes pictures in the form of ``images``, returns (B,) losses, which the attack raises.
        steps: the number of Adam steps on the field.
        smoothness: weight of the smoothness term: the mean length of the difference of neighbouring displacements, in pixels.
        learning_rate: of Adam, in pixels.
        goal: a loss at which to stop, such as a margin of 0 by which a wrong class leads. Once a picture reaches it, only the
            smoothness term acts on its field, and the result is the shortest field that reached it; without a goal, the last one.

    Returns:
        The moved pictures, in the form of ``images``, and the field (B, 2, H, W), or a list of fields: pixel p shows the point
        p + field(p) of the original, x before y, in pixels.

    Gradient:
        none to the images: the result is a constant.

    Errors:
        InvalidArgument for pictures that are not floating-point (B, C, H, W), and if there is not one loss per picture.

    Source:
        Xiao et al., "Spatially transformed adversarial examples", ICLR 2018.

    Example:
        >>> import torch
        >>> moved, field = flow_attack(torch.rand(1, 1, 6, 6), lambda x: x[:, 0, 0, 0], steps=3)
        >>> moved.shape, field.shape
        (torch.Size([1, 1, 6, 6]), torch.Size([1, 2, 6, 6]))
    """
    _check_pictures(images)
    check_recording("flow_attack")
    whole_number("steps", steps, 0, 1 << 20)
    still = _blocks(images)
    fields = [block.new_zeros((len(block), 2, *block.shape[2:])).requires_grad_() for block in still]
    optimizer = torch.optim.Adam(fields, lr=learning_rate)
    counts = [len(block) for block in still]
    enough = torch.inf if goal is None else finite_number("goal", goal)
    best = [(field.detach(), field.new_full((len(field),), torch.inf)) for field in fields]
    for step in range(steps + 1):
        with torch.enable_grad():
            losses = read_losses(loss_fn(_in_place(list(map(_moved, still, fields)), images)), sum(counts))
            each = losses.detach().split(counts)
            best = [_shorter(field, now, *known, enough) for field, now, known in zip(fields, each, best, strict=True)]
            if step == steps:
                break
            aim = torch.where(losses < enough, losses, 0.0)
            slopes = torch.autograd.grad(smoothness * torch.cat(list(map(_roughness, fields))).sum() - aim.sum(), fields)
        for field, slope in zip(fields, slopes, strict=True):
            field.grad = slope
        optimizer.step()
    found = [short for short, _ in best]
    return _in_place([_moved(*one).detach() for one in zip(still, found, strict=True)], images), _in_place(found, _pictures(images))


def _shorter(field: Tensor, losses: Tensor, best: Tensor, least: Tensor, enough: float) -> tuple[Tensor, Tensor]:
    """Return for each picture the shortest field that reached the goal, and its mean length; until there is one, the last field."""
    field = field.detach()
    length = torch.where(losses >= enough, field.square().sum(1).sqrt().mean((1, 2)), torch.inf)
    taken = (length < least) | least.isinf()
    return torch.where(taken[:, None, None, None], field, best), torch.minimum(length, least)


def _moved(images: Tensor, field: Tensor) -> Tensor:
    return remap(images, field[:, 0], field[:, 1], border_mode="replicate", relative=True)


def _roughness(field: Tensor) -> Float[Tensor, "b"]:
    """Return the mean length of the difference to the right and lower neighbours."""
    down, right = field[:, :, 1:] - field[:, :, :-1], field[..., 1:] - field[..., :-1]
    small = 1e-8  # keeps the gradient of a length finite at 0
    return (down.square().sum(1) + small).sqrt().mean((1, 2)) + (right.square().sum(1) + small).sqrt().mean((1, 2))


def max_up(pipeline: Pipeline, loss_fn: Loss, images: Any, k: int = 4, *, key: Key | None = None) -> Float[Tensor, "b"]:
    """Return the largest loss of each picture over k draws, with its gradient: train on its mean.

    It evaluates the loss k times without gradient and once with (and once more at the first call, to test whether losses mix).

    Args:
        pipeline: to draw from.
        loss_fn: takes augmented pictures, returns (B,) losses.
        images: a batch, as in the pipeline's call; ``loss_fn`` gets the call's result, which may be a list or a dict.
        k: draws of each picture.
        key: as in the pipeline's call.

    Returns:
        (B,).

    Gradient:
        to the model, and to learned ranges through the worst draw.
    Source:
        Gong et al., "MaxUp: Lightweight adversarial training with data augmentation improves neural network training", CVPR 2021.

    Example:
        >>> import torch, pellucid
        >>> bright = pellucid.Pipeline([pellucid.RandomBrightness((0.5, 1.5))], seed=0)
        >>> max_up(bright, lambda x: x.mean((1, 2, 3)), torch.full((2, 3, 4, 4), 0.4), k=8).shape
        torch.Size([2])
    """
    worst, _ = pipeline.worst(loss_fn, images, draws=k, search="random", key=key)
    return loss_fn(worst)


@dataclass(frozen=True)
class AugMax:
    """Mix several draws of each picture, with the mixture weights and the draws that give the largest loss found.

    The result is ``(1 - m) x + m sum_k w_k draw_k(x)``, with w from a softmax and m from a sigmoid, one set for each picture.

    Args:
        pipeline: to draw from; it keeps the size of the pictures.
        loss_fn: takes pictures, returns (B,) losses, which the search raises.
        width: the number of draws to mix.
        steps: the number of signed ascent steps, on the logits of w and m and on every continuous drawn value.
        step_size: of each step: for logits, and for drawn values relative to their range, if they have one.

    Gradient:
        result: to the images, at the worst mixture.
    Errors:
        InvalidArgument if the pipeline changes the size, or there is not one loss per picture.
    Source:
        Wang et al., "AugMax: Adversarial composition of random augmentations for robust training", NeurIPS 2021, which searches the
        weights only.

    Example:
        >>> import torch, pellucid
        >>> mix = AugMax(pellucid.Pipeline([pellucid.RandomRotation(30)], seed=0), lambda x: x[:, 0, 0, 0], width=2, steps=2)
        >>> mix(torch.rand(3, 1, 8, 8)).shape
        torch.Size([3, 1, 8, 8])
    """

    pipeline: Pipeline
    loss_fn: Loss
    width: int = 3
    steps: int = 5
    step_size: float = 0.1

    def __post_init__(self) -> None:
        _check_pipeline(self.pipeline)
        whole_number("width", self.width, 1, 1 << 10)
        whole_number("steps", self.steps, 0, 1 << 20)
        finite_number("step_size", self.step_size)

    def __call__(self, images: Any, *, key: Key | None = None) -> Any:
        """Return the mixed pictures in the form of the input: (B, C, H, W), a list, or a dict of them under ``image``. A dict may
        not contain targets that a draw moves.
        """
        _check_pictures(images, key=key)
        check_recording("AugMax")
        records = [view.record for view in self.pipeline.views(images, self.width, key=key)]
        still, pictures = _in_place(_blocks(images), images), _pictures(images)
        if isinstance(images, Mapping):
            _check_still(images, self.pipeline, _one(records[0]))
        sizes = [records[0].size_out] if isinstance(records[0], Record) else records[0].sizes_out
        for one, size in zip(pictures, sizes, strict=False):
            if size != tuple(one.shape[-2:]):
                fix = "Crop or resize before or after."
                raise invalid("pipeline", expected="one that keeps the size of the pictures", got=size, fix=fix)
        logits = torch.zeros((len(pictures), self.width + 1), dtype=torch.float64, device=pictures[0].device)
        # The search is over the logits and every continuous drawn value.
        best = [logits, *(record.params[at][name].detach() for record in records for at, name in _continuous(record))]
        largest: Tensor | None = None
        now = best
        for step in range(self.steps + 1):
            leaves = [number.detach().requires_grad_() for number in now]
            with torch.enable_grad():
                losses = read_losses(self.loss_fn(self._mixed(still, leaves, records)), len(pictures))
                slopes = torch.autograd.grad(losses.sum(), leaves, allow_unused=True) if step < self.steps else None
            known = losses.detach()
            more = torch.ones_like(known, dtype=torch.bool) if largest is None else known > largest
            best = [torch.where(more.reshape(-1, *[1] * (new.dim() - 1)), new, old) for new, old in zip(now, best, strict=True)]
            largest = known if largest is None else torch.maximum(largest, known)
            if slopes is not None:
                now = self._moved(now, slopes, records)
        return self._mixed(images, best, records)

    def _moved(self, numbers: list[Tensor], slopes: tuple[Tensor | None, ...], records: list[Any]) -> list[Tensor]:
        ends = [
            (-torch.inf, torch.inf),
            *(_one(record).bounds()[f"{at}.{name}"] for record in records for at, name in _continuous(record)),
        ]
        moved: list[Tensor] = []
        for number, slope, (low, high) in zip(numbers, slopes, ends, strict=True):
            if slope is None:
                moved.append(number)
                continue
            scale = high - low if high - low < torch.inf else 1.0
            moved.append((number + self.step_size * scale * torch.nan_to_num(slope).sign()).clamp(low, high))
        return moved

    def _mixed(self, images: Any, numbers: list[Tensor], records: list[Any]) -> Any:
        logits, *values = numbers
        weights, share = logits[:, 1:].softmax(1), logits[:, :1].sigmoid()
        pictures = _pictures(images)
        blocks = [pictures] if isinstance(pictures, Tensor) else [one[None] for one in pictures]
        counts = [len(block) for block in blocks]
        mixed = [torch.zeros_like(block) for block in blocks]
        left = iter(values)
        for i, record in enumerate(records):
            for at, name in _continuous(record):
                record = record.with_param(at, name, next(left))
            drawn = self.pipeline.apply(pictures, record)
            drawn = [drawn] if isinstance(pictures, Tensor) else [one[None] for one in drawn]
            each = weights[:, i, None, None, None].split(counts)
            mixed = [sum_ + one.to(new) * new for sum_, one, new in zip(mixed, each, drawn, strict=True)]
        shares = share[:, :, None, None].split(counts)
        found = [(1.0 - m.to(x)) * x + m.to(x) * sum_ for m, x, sum_ in zip(shares, blocks, mixed, strict=True)]
        return _in_place(found, images)


def _check_still(images: Mapping[str, Any], pipeline: Pipeline, record: Record) -> None:
    """Raise for targets that draws move: a mixture shows several draws at once."""
    plan = record.plan
    for key in images if any(plan.hops) or plan.moving_layers or plan.hiding else ():
        kind = kind_of(key, pipeline.options.targets)
        if kind is not None and kind is not IMAGE and (kind.axes or plan.moving_layers) and key not in pipeline.options.passthrough:
            fix = f"Leave {key!r} out, or take transforms of colour alone."
            raise invalid(f"images[{key!r}]", expected="an entry that no draw moves: a mixture has several", got=kind.name, fix=fix)


def _one(record: Any) -> Record:
    """Return the record, or for a list the record of its first picture."""
    return record if isinstance(record, Record) else record[0]


def _continuous(record: Any) -> list[tuple[int, str]]:
    """Return the continuous drawn values, which are searched; gates and choices stay as drawn."""
    return [(draw.transform, draw.name) for draw in _one(record).plan.draws if isinstance(draw.distribution, _SCALES)]


_SCALES = (Uniform, CenteredUniform, LogUniform, Normal, MultivariateNormal)
