"""Attacks and defences on pipelines: perturbations and patches that survive draws, flows, worst and mixed draws.

Owns: `Adversary`, `PatchAdversary`, `eot`, `flow_attack`, `max_up`, `AugMax`.
Must not: draw, search or resample by itself; pipelines and functions do.
Read next: ``pipeline/worst_draws.py``, ``docs/worst-case.md``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.engine.overlays import Sticker, read_sticker
from pellucid.errors import invalid, wrong_type
from pellucid.functional import remap
from pellucid.geometry.matrices import scale_shift
from pellucid.pipeline import Pipeline
from pellucid.pipeline.records import Record
from pellucid.pipeline.view_draws import View
from pellucid.random import CenteredUniform, Key, LogUniform, MultivariateNormal, Normal, Uniform
from pellucid.random.arguments import check_choice, check_flag, finite_number, whole_number
from pellucid.transforms.base import as_size
from pellucid.types import Size

__all__ = ["Adversary", "AugMax", "PatchAdversary", "eot", "flow_attack", "max_up"]

Loss = Callable[[Tensor], Tensor]
"""Pictures (B, C, H, W) to (B,) losses."""


def eot(pipeline: Pipeline, images: Float[Tensor, "b c h w"], k: int, *, key: Key | None = None) -> View:
    """K draws of every picture in one batch (k B, C, H, W), draw by draw: for the expectation of a loss over transformations.

    Args:
        pipeline: what is drawn.
        images: a batch.
        k: draws of each picture.
        key: as in the pipeline's call; all draws take one step of its stream.

    Returns:
        (result, record). The expected loss of each picture is ``loss(result).unflatten(0, (k, -1)).mean(0)``, with labels repeated
        k times.

    Gradient:
        to the images, from all draws.
    Errors:
        InvalidType for what is no pipeline; InvalidArgument for k below 1.
    Source:
        Athalye et al., "Synthesizing robust adversarial examples", ICML 2018.

    Example:
        >>> import torch, pellucid
        >>> out, record = eot(pellucid.Pipeline([pellucid.RandomRotation(30)]), torch.rand(2, 3, 8, 8), 5)
        >>> out.shape, record.samples
        (torch.Size([10, 3, 8, 8]), 10)
    """
    _check_pipeline(pipeline)
    views = pipeline.views(images, k, key=key)
    return View(torch.cat([view.result for view in views]), Record.cat([view.record for view in views]))


@dataclass(frozen=True)
class Adversary:
    """A perturbation of pictures that raises a loss under a pipeline's draws: projected gradient ascent on the expected loss.

    Args:
        pipeline: what happens between the perturbed pictures and the model; ``Pipeline([])`` for nothing.
        loss_fn: takes k B augmented pictures and the k B labels, returns as many losses.
        norm: ``linf`` or ``l2``, of the whole perturbation of a picture.
        radius: of the ball that it stays in, in the pictures' units, > 0.
        steps: of ascent.
        step_size: of each, in the norm; default 2.5 radius / steps.
        draws: k, drawn anew at each step.
        targeted: the loss is lowered instead: labels are those that the model is to say.
        universal: one perturbation for all pictures.
        mask: where pictures may change, (C, H, W) or what is broadcast to it: with a radius of 1 a patch.
        low, high: the range that perturbed pictures stay in.

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
        none to the inputs: the result is a constant. Surrogates inside of the pipeline (JPEG, posterise) act as they declare.
    Errors:
        InvalidArgument for numbers out of range, and where there is not one loss per augmented picture.
    Source:
        Madry et al., "Towards deep learning models resistant to adversarial attacks", ICLR 2018; Athalye et al., ICML 2018;
        Moosavi-Dezfooli et al., "Universal adversarial perturbations", CVPR 2017.
    """

    pipeline: Pipeline
    loss_fn: Callable[[Tensor, Tensor], Tensor]
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

    def __call__(self, images: Float[Tensor, "b c h w"], labels: Tensor, *, key: Key | None = None) -> Float[Tensor, "b c h w"]:
        """The perturbed pictures."""
        return (images + self.perturbation(images, labels, key=key)).clamp(self.low, self.high).detach()

    def perturbation(
        self, images: Float[Tensor, "b c h w"], labels: Tensor, *, key: Key | None = None
    ) -> Float[Tensor, "*b c h w"]:
        """Return what the call adds to the pictures.

        Args:
            images: floating point, from ``low`` to ``high``.
            labels: one per picture.
            key: of the first step's draws; by default each step takes one of the pipeline's stream.

        Returns:
            One for each picture, or (1, C, H, W) for all of them; no longer than ``radius``.

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
        still = images.detach()
        delta = torch.zeros_like(still[:1] if self.universal else still)
        length = 2.5 * self.radius / max(self.steps, 1) if self.step_size is None else self.step_size
        many = labels.repeat(self.draws, *[1] * (labels.dim() - 1))
        for step in range(self.steps):
            leaf = delta.detach().requires_grad_()
            at = None if key is None else Key(key.seed, key.step + step, key.index)
            with torch.enable_grad():
                out, _ = eot(self.pipeline, (still + leaf).clamp(self.low, self.high), self.draws, key=at)
                slope = _slope(self.loss_fn(out, many), len(many), leaf)
            slope = -slope if self.targeted else slope
            slope = slope if self.mask is None else slope * self.mask
            move = slope.sign() if self.norm == "linf" else slope / _length(slope).clamp(min=1e-30)
            delta = self._inside(delta + length * move, still)
        return delta

    def _inside(self, delta: Tensor, images: Tensor) -> Tensor:
        """The nearest perturbation in the ball, then in the range."""
        if self.norm == "linf":
            delta = delta.clamp(-self.radius, self.radius)
        else:
            delta = delta * (self.radius / _length(delta).clamp(min=1e-30)).clamp(max=1.0)
        return delta if self.universal else (images + delta).clamp(self.low, self.high) - images


def _slope(losses: Tensor, count: int, leaf: Tensor) -> Tensor:
    if tuple(losses.shape) != (count,):
        expected = f"({count},) losses, one per augmented picture"
        raise invalid("loss_fn", expected=expected, got=tuple(losses.shape), fix="Use reduction='none'.")
    return torch.nan_to_num(torch.autograd.grad(losses.sum(), [leaf])[0])


@dataclass(frozen=True)
class PatchAdversary:
    """A patch that covers a part of pictures, placed by drawn maps, and raises a loss under a pipeline's draws.

    Args:
        pipeline: what happens between the pictures with the patch and the model; ``Pipeline([])`` for nothing.
        placement: geometry that keeps the pictures' size; its maps carry the patch away from the pictures' middle. It lies over
            the pictures by the share of each pixel that it covers. A warp that the pipeline begins with goes on from the
            placement: patch and pictures are resampled once, the patch antialiased.
        loss_fn: takes k B augmented pictures and the k B labels, returns as many losses.
        size: (height, width) of the patch in pixels.
        steps: of signed ascent on the patch's values.
        step_size: of each, in the pictures' units.
        draws: k, drawn anew at each step.
        targeted: the loss is lowered instead: labels are those that the model is to say.
        universal: one patch for all pictures.
        low, high: the range of the patch, which begins in its middle.

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
        InvalidArgument for numbers out of range, a placement that changes the size, and where there is not one loss per picture.
    Source:
        Brown et al., "Adversarial patch", 2017; Athalye et al., ICML 2018.
    """

    pipeline: Pipeline
    placement: Pipeline
    loss_fn: Callable[[Tensor, Tensor], Tensor]
    size: Size
    steps: int = 50
    step_size: float = 0.05
    draws: int = 8
    targeted: bool = False
    universal: bool = True
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        _check_ascent(self)
        _check_pipeline(self.placement, "placement")
        object.__setattr__(self, "size", as_size("size", self.size))
        if finite_number("step_size", self.step_size) <= 0:
            raise invalid("step_size", expected="a number > 0", got=self.step_size)

    def __call__(self, images: Float[Tensor, "b c h w"], labels: Tensor, *, key: Key | None = None) -> Float[Tensor, "*b c h2 w2"]:
        """The patch, (1, C, h, w), or one for each picture. Of ``key`` seed and step count."""
        _check_pictures(images, labels, key)
        still = images.detach()
        patch = still.new_full((1 if self.universal else len(still), still.shape[1], *self.size), (self.low + self.high) / 2)
        many, answers = still.repeat(self.draws, 1, 1, 1), labels.repeat(self.draws, *[1] * (labels.dim() - 1))
        for step in range(self.steps):
            leaf = patch.detach().requires_grad_()
            at = None if key is None else Key(key.seed, key.step + step)
            with torch.enable_grad():
                covers = leaf if self.universal else leaf.repeat(self.draws, 1, 1, 1)
                slope = _slope(self.loss_fn(self.show(many, covers, key=at), answers), len(many), leaf)
            move = -slope.sign() if self.targeted else slope.sign()
            patch = (patch + self.step_size * move).clamp(self.low, self.high)
        return patch

    def paste(
        self, images: Float[Tensor, "b c h w"], patch: Float[Tensor, "#b c h2 w2"], *, key: Key | None = None
    ) -> Float[Tensor, "b c h w"]:
        """Lay the patch over the pictures where a draw of the placement puts it.

        Args:
            images: floating point.
            patch: one for all pictures, or one for each.
            key: of the placement; its seed counts as one more, so that the pipeline may take the same.

        Returns:
            The pictures, where the patch lies mixed with it by the share of each pixel that it covers.

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
        return self._sticker(images, patch, key).on(images)

    def show(
        self, images: Float[Tensor, "b c h w"], patch: Float[Tensor, "#b c h2 w2"], *, key: Key | None = None
    ) -> Float[Tensor, "b c2 h3 w3"]:
        """Send the pictures with the patch through the pipeline: what the model sees.

        What ``over`` does in `Pipeline.apply`: patch and pictures are each read once where the pipeline begins with a warp.

        Args:
            images, patch: as for :meth:`paste`.
            key: of the pipeline; the placement's is as for :meth:`paste`.

        Returns:
            What the pipeline makes of them.

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
        sticker, record = self._sticker(images, patch, key), self.pipeline.draw(images, key=key)
        shown: Tensor = self.pipeline.apply(images, record, over=sticker)
        return shown

    def _sticker(self, images: Tensor, patch: Tensor, key: Key | None) -> Sticker:
        """The patch, placed by a draw."""
        _check_pictures(images, key=key)
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
    """What both attacks are given."""
    _check_pipeline(attack.pipeline)
    whole_number("steps", attack.steps, 0, 1 << 20)
    whole_number("draws", attack.draws, 1, 1 << 16)
    check_flag("targeted", attack.targeted)
    check_flag("universal", attack.universal)
    if not attack.low < attack.high:
        raise invalid("low and high", expected="low < high", got=f"{attack.low} and {attack.high}")


def _check_pictures(images: Tensor, labels: Tensor | None = None, key: Key | None = None) -> None:
    for name, value in (("images", images), ("labels", labels)):
        if not isinstance(value, Tensor) and not (name == "labels" and value is None):
            raise wrong_type(name, expected="a tensor", got=type(value).__name__)
    if not images.is_floating_point() or images.dim() != 4:
        raise invalid("images", expected="floating-point (B, C, H, W)", got=f"{images.dtype} {tuple(images.shape)}")
    if labels is not None and (labels.dim() == 0 or len(labels) != len(images)):
        raise invalid("labels", expected=f"one for each of {len(images)} images", got=tuple(labels.shape))
    if key is not None and not isinstance(key, Key):
        raise wrong_type("key", expected="a Key", got=repr(key), fix="For example key=Key(seed=0, step=7).")


def _length(rows: Tensor) -> Tensor:
    return rows.square().sum((1, 2, 3), keepdim=True).sqrt()


def flow_attack(
    images: Float[Tensor, "b c h w"], loss_fn: Loss, *, steps: int = 50, smoothness: float = 0.05, learning_rate: float = 0.05
) -> tuple[Float[Tensor, "b c h w"], Float[Tensor, "b 2 h w"]]:
    """Move pixels instead of changing them: a smooth displacement field that raises a loss (stAdv).

    Args:
        images: floating point.
        loss_fn: pictures to (B,) losses, to be raised.
        steps: of Adam on the field.
        smoothness: weight of the term that is lowered: the mean length of the difference of neighbouring displacements, in pixels.
        learning_rate: of Adam, in pixels.

    Returns:
        The moved pictures and the field: pixel p shows what was at p + field(p), x before y, in pixels.

    Gradient:
        none to the images: the result is a constant.

    Errors:
        InvalidArgument for pictures that are not floating-point (B, C, H, W), and where there is not one loss per picture.

    Source:
        Xiao et al., "Spatially transformed adversarial examples", ICLR 2018.

    Example:
        >>> import torch
        >>> moved, field = flow_attack(torch.rand(1, 1, 6, 6), lambda x: x[:, 0, 0, 0], steps=3)
        >>> moved.shape, field.shape
        (torch.Size([1, 1, 6, 6]), torch.Size([1, 2, 6, 6]))
    """
    _check_pictures(images)
    whole_number("steps", steps, 0, 1 << 20)
    still = images.detach()
    field = torch.zeros((len(images), 2, *images.shape[2:]), dtype=images.dtype, device=images.device, requires_grad=True)
    optimizer = torch.optim.Adam([field], lr=learning_rate)
    for _ in range(steps):
        with torch.enable_grad():
            losses = _losses(loss_fn, _moved(still, field))
            (slope,) = torch.autograd.grad((smoothness * _roughness(field) - losses).sum(), [field])
        field.grad = slope
        optimizer.step()
    result = field.detach()
    return _moved(still, result).detach(), result


def _losses(loss_fn: Loss, images: Tensor) -> Float[Tensor, "b"]:
    losses = loss_fn(images)
    if tuple(losses.shape) != (len(images),):
        raise invalid("loss_fn", expected=f"({len(images)},) losses, one per sample", got=tuple(losses.shape))
    return losses


def _moved(images: Tensor, field: Tensor) -> Tensor:
    return remap(images, field[:, 0], field[:, 1], border_mode="replicate", relative=True)


def _roughness(field: Tensor) -> Float[Tensor, "b"]:
    """The mean length of the difference to the right and lower neighbours."""
    down, right = field[:, :, 1:] - field[:, :, :-1], field[..., 1:] - field[..., :-1]
    small = 1e-8  # the slope of a length at 0
    return (down.square().sum(1) + small).sqrt().mean((1, 2)) + (right.square().sum(1) + small).sqrt().mean((1, 2))


def max_up(pipeline: Pipeline, loss_fn: Loss, images: Any, k: int = 4, *, key: Key | None = None) -> Float[Tensor, "b"]:
    """Return the largest loss of each picture over k draws, with its gradient: train on its mean.

    k evaluations without gradient, one with (and one more at the first call, which looks whether losses mix).

    Args:
        pipeline: what is drawn.
        loss_fn: augmented pictures to (B,) losses.
        images: a batch, as in the pipeline's call.
        k: draws of each picture.
        key: as in the pipeline's call.

    Returns:
        (B,).

    Gradient:
        to the model, and to learned ranges through the draw that was worst.
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
    """Mix several draws of each picture, and search mixture and draws for the largest loss.

    The result is ``(1 - m) x + m sum_k w_k draw_k(x)``, with w from a softmax and m from a sigmoid, one set for each picture.

    Args:
        pipeline: what is drawn; it keeps the size of the pictures.
        loss_fn: pictures to (B,) losses, to be raised.
        width: how many draws are mixed.
        steps: of signed ascent, on the logits of w and m and on every continuous drawn value.
        step_size: of each: of the logits, and as a share of the range of a drawn value where it has one.

    Gradient:
        result: to the images, at the worst mixture.
    Errors:
        InvalidArgument where the pipeline changes the size, or there is not one loss per picture.
    Source:
        Wang et al., "AugMax: Adversarial composition of random augmentations for robust training", NeurIPS 2021. There only the
        weights are searched.

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

    def __call__(self, images: Float[Tensor, "b c h w"], *, key: Key | None = None) -> Float[Tensor, "b c h w"]:
        """The mixed pictures."""
        records = [view.record for view in self.pipeline.views(images, self.width, key=key)]
        if records[0].size_out != tuple(images.shape[-2:]):
            fix = "Crop or resize before or after."
            raise invalid("pipeline", expected="one that keeps the size of the pictures", got=records[0].size_out, fix=fix)
        still = images.detach()
        logits = torch.zeros((len(images), self.width + 1), dtype=torch.float64, device=images.device)
        best = self._numbers(logits, records)
        largest: Tensor | None = None
        now = best
        for step in range(self.steps + 1):
            leaves = [number.detach().requires_grad_() for number in now]
            with torch.enable_grad():
                losses = _losses(self.loss_fn, self._mixed(still, leaves, records))
                slopes = torch.autograd.grad(losses.sum(), leaves, allow_unused=True) if step < self.steps else None
            known = losses.detach()
            more = torch.ones_like(known, dtype=torch.bool) if largest is None else known > largest
            best = [torch.where(more.reshape(-1, *[1] * (new.dim() - 1)), new, old) for new, old in zip(now, best, strict=True)]
            largest = known if largest is None else torch.maximum(largest, known)
            if slopes is not None:
                now = self._moved(now, slopes, records)
        return self._mixed(images, best, records)

    def _numbers(self, logits: Tensor, records: list[Record]) -> list[Tensor]:
        """What is searched: the logits, then every continuous drawn value."""
        return [logits, *(record.params[at][name].detach() for record in records for at, name in _continuous(record))]

    def _moved(self, numbers: list[Tensor], slopes: tuple[Tensor | None, ...], records: list[Record]) -> list[Tensor]:
        ends = [
            (-torch.inf, torch.inf),
            *(record.bounds()[f"{at}.{name}"] for record in records for at, name in _continuous(record)),
        ]
        moved: list[Tensor] = []
        for number, slope, (low, high) in zip(numbers, slopes, ends, strict=True):
            if slope is None:
                moved.append(number)
                continue
            scale = high - low if high - low < torch.inf else 1.0
            moved.append((number + self.step_size * scale * torch.nan_to_num(slope).sign()).clamp(low, high))
        return moved

    def _mixed(self, images: Tensor, numbers: list[Tensor], records: list[Record]) -> Tensor:
        logits, *values = numbers
        weights, share = logits[:, 1:].softmax(1), logits[:, :1].sigmoid()
        mixed = torch.zeros_like(images)
        left = iter(values)
        for i, record in enumerate(records):
            for at, name in _continuous(record):
                record = record.with_param(at, name, next(left))
            mixed = mixed + weights[:, i].to(images.dtype)[:, None, None, None] * self.pipeline.apply(images, record)
        share = share.to(images.dtype)[:, :, None, None]
        return (1.0 - share) * images + share * mixed


def _continuous(record: Record) -> list[tuple[int, str]]:
    """The drawn values that are searched: on a scale with ends, gates and choices left as they are."""
    return [(draw.transform, draw.name) for draw in record.plan.draws if isinstance(draw.distribution, _SCALES)]


_SCALES = (Uniform, CenteredUniform, LogUniform, Normal, MultivariateNormal)
