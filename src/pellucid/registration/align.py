"""Align pictures by descent: from coarse to fine, every pair of a batch on its own.

Owns: `align`, its checks, the pyramid, and assembling the result.
Must not: take steps itself.
Read next: ``newton.py``, ``descent.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from pellucid.core.arguments import check_choice
from pellucid.core.constants import pinned
from pellucid.core.recording import check_recording
from pellucid.errors import invalid, wrong_type
from pellucid.functional import resize, warp
from pellucid.registration.bending import bend_levels
from pellucid.registration.descent import Bends, Run, descend
from pellucid.registration.evidence import evidence_of
from pellucid.registration.losses import LOSSES, RESIDUAL, blurred, correlation, evened
from pellucid.registration.maps import basis, corner_distance, lens_field, level_from_full, parts_of, spline_field, spline_near
from pellucid.registration.newton import LEAST_OVERLAP, Equations, Found, Pair, equations, minimise, noise_covariance, plane_moves
from pellucid.registration.verdicts import check_numbers, flags_of, reasons_of, start_of, weighed_pair
from pellucid.types import Size

__all__ = ["Alignment", "Step", "align"]

_COARSEST = 16
_FINEST = 0.5
"""Blur of the finest level, in pixels."""
_TURNS = (0.0, -15.0, 15.0)
"""Rotations in degrees that the coarsest level adds to the start: from a single start, it would not find large rotations."""
_SHIFTS = (0.0, -0.15, 0.15)
"""Shifts along both axes that it adds, as shares of the sides."""
_KEPT = (8, 4, 1)
"""How many maps the coarsest level passes on, the next level, and all further ones."""


@dataclass(frozen=True)
class Step:
    """One step of a descent.

    Args:
        size: size of the level's fixed picture.
        model: the model of the map at this step.
        loss: the loss of every pair.

    Example:
        >>> import torch
        >>> from pellucid.registration import Step
        >>> Step((32, 32), "translation", torch.tensor([0.5])).model
        'translation'
    """

    size: Size
    model: str
    loss: Float[Tensor, "b"]


@dataclass(frozen=True)
class Alignment:
    """The result of `align`.

    Args:
        matrix: moving pixel from fixed pixel, last entry 1; the start for a pair that cannot be used.
        field: displacements in pixels of the moving picture, added to the matrix's map; None for models without bending.
        lens: k1 and k2, which the field includes: before the matrix, radius r becomes r (1 + k1 r^2 + k2 r^4), with r from the
            fixed picture's centre in units of half its longer side; None unless the model has a ``lens``.
        converged: whether each pair converged.
        reason: ``converged`` or why not, for each pair.
        loss, overlap, correlation: values at the end, for the full pictures.
        brightness: gain, offset and exponent that make the moving picture look like the fixed one; 1, 0, 1 if not solved for;
            under ``photometric="local"``, for pictures in units of their local spread.
        covariance: covariance of the model's parameters in the normalised frame (1 is half the longer side from the centre), if
            residuals are independent noise; None for Adam and for models that bend.
        history: every step.
    """

    matrix: Float[Tensor, "b 3 3"]
    field: Float[Tensor, "b 2 h w"] | None
    lens: Float[Tensor, "b 2"] | None
    converged: Bool[Tensor, "b"]
    reason: tuple[str, ...]
    loss: Float[Tensor, "b"]
    overlap: Float[Tensor, "b"]
    correlation: Float[Tensor, "b"]
    brightness: Float[Tensor, "b 3"]
    covariance: Float[Tensor, "b n n"] | None
    history: tuple[Step, ...]

    def warped(self, moving: Shaped[Tensor, "*b c h w"], size: Size, **options: Any) -> Shaped[Tensor, "*b c h2 w2"]:
        """Return the moving picture in the fixed one's frame.

        Args:
            moving: the picture that was aligned, or another of its size.
            size: (height, width) of the fixed picture.
            options: options of :func:`pellucid.functional.warp`.

        Returns:
            The result of :func:`~pellucid.functional.warp`.

        Gradient:
            moving: exact. The alignment's matrix and field: almost everywhere.

        Errors:
            As :func:`~pellucid.functional.warp`.

        Example:
            >>> import torch
            >>> from pellucid.functional import gaussian_blur
            >>> from pellucid.registration import align
            >>> picture = gaussian_blur(torch.rand(1, 40, 40, generator=torch.Generator().manual_seed(0)), 9, 2.0)
            >>> fixed, moving = picture[:, 2:34, 3:35], picture[:, 4:36, 4:36]
            >>> warped = align(fixed, moving, model="translation").warped(moving, (32, 32))
            >>> bool((warped - fixed)[..., 4:-4, 4:-4].abs().max() < 0.01)
            True
        """
        return warp(moving, self.matrix, size=size, displacement=self.field, **options)


@pinned
def align(
    fixed: Shaped[Tensor, "*b c h w"],
    moving: Shaped[Tensor, "*b c h2 w2"],
    *,
    model: str = "homography",
    loss: str = "ssd",
    method: str = "auto",
    photometric: str = "gain_bias",
    start: Float[Tensor, "*b 3 3"] | None = None,
    mask: Float[Tensor, "*b 1 h w"] | None = None,
    moving_mask: Float[Tensor, "*b 1 h2 w2"] | None = None,
    features: Callable[[Tensor], Tensor] | None = None,
    width: float = 0.1,
    spacing: float = 16.0,
    stiffness: float = 5e-4,
    levels: int | None = None,
    steps: int = 30,
    tolerance: float = 1e-3,
) -> Alignment:
    """Find the map that makes the moving picture look like the fixed one.

    The methods are Gauss-Newton with Levenberg-Marquardt damping, on the warp's own derivatives, and Adam through the warp, with
    gradients that are blurred at first (`gradient_scale`). The coarsest level of Gauss-Newton tries three rotations at nine shifts,
    and the best maps go on to finer levels.

    Args:
        fixed, moving: (C, H, W) or (B, C, H, W), floating point in any units, or uint8. Their sizes may differ.
        model: ``translation``, ``similarity``, ``affine``, ``homography``; ``lens``: two radial terms; ``bspline``: displacements;
            or a composition, such as ``similarity+bspline`` or ``affine+lens``. Gauss-Newton finds first the matrix and then the
            bending; Adam finds both at once.
        loss: ``ssd``, ``ncc``, ``charbonnier`` or ``barron`` (exponent -2), ``local_ncc`` or ``mutual_information``.
        method: ``gauss_newton`` (the first four losses, no lens), ``adam`` (all), or ``auto``: Gauss-Newton where possible.
        photometric: ``none``, ``gain_bias``, ``gain_bias_gamma`` (Gauss-Newton of matrices only; pictures in [0, 1]), or ``local``:
            the local mean is subtracted and the local spread divided out, for light that varies across the picture.
        start: moving pixel from fixed pixel, one matrix or one for each pair; default the identity. For pictures of different
            sizes, Gauss-Newton by default also tries to match their centres, and to match their areas.
        mask, moving_mask: the weight of each pixel, at least 0.
        features: maps pictures (B, C, H, W) to feature maps (B, K, H, W), which are aligned instead.
        width: width of the robust losses, in the pictures' units, or in units of the local spread.
        spacing: pixels between a B-spline's control points; on coarse levels, half as many of the level's pixels.
        stiffness: weight of the control points' mean squared second differences, in square pixels, added to the loss's logarithm.
        levels: levels of the pyramid, each half the size; None: down to 16 pixels.
        steps: largest number of steps per level; Adam takes five times as many.
        tolerance: pixels; a pair is done when a step moves its corners by less.

    Returns:
        See :class:`Alignment`. A pair that cannot be aligned does not disturb the others, and its ``reason`` says why: pixels that
        are not finite, a constant picture, no overlap, no steps left, a correlation below 0.3 at the end, or details that do not
        support the map: fewer than nine in ten places match best there, or the matching places do not fix the map.

    Gradient:
        none; the result is detached.

    Errors:
        ``InvalidArgument`` and ``InvalidType`` for shapes, dtypes and options that do not fit.

    Source:
        Lucas and Kanade 1981 in the forwards compositional form of Baker and Matthews (IJCV 2004); Barron 2019; Mattes 2003.

    Example:
        >>> import torch
        >>> from pellucid.functional import gaussian_blur
        >>> from pellucid.registration import align
        >>> picture = gaussian_blur(torch.rand(1, 40, 40, generator=torch.Generator().manual_seed(0)), 9, 2.0)
        >>> found = align(picture[:, 2:34, 3:35], picture[:, 4:36, 4:36], model="translation")
        >>> found.matrix[0, :2, 2].round(decimals=1), found.reason
        (tensor([-1., -2.]), ('converged',))
    """
    matrix_model, bends = parts_of(model)
    check_choice("loss", loss, LOSSES)
    check_choice("photometric", photometric, ("none", "gain_bias", "gain_bias_gamma", "local"))
    exact = loss in RESIDUAL and method != "adam"
    check_choice(
        "method", method, ("auto", "gauss_newton", "adam") if loss in RESIDUAL and "lens" not in bends else ("auto", "adam")
    )
    if photometric == "gain_bias_gamma" and (not exact or bends):
        raise invalid("photometric", expected="none, gain_bias or local for Adam and for models that bend", got=photometric)
    check_numbers(width=width, spacing=spacing, stiffness=stiffness, levels=levels, steps=steps, tolerance=tolerance)
    check_recording("align")
    with torch.no_grad():
        pair, problems = _read(fixed, moving, mask, moving_mask, features)
        size, other = pair.size, (pair.moving.shape[-2], pair.moving.shape[-1])
        if photometric == "local":
            pair = pair._replace(fixed=evened(pair.fixed, pair.mask), moving=evened(pair.moving, pair.moving_mask))
        starts = _starts(start, pair, matrix_model)
        matrix = starts[0]
        if levels is None:
            levels = 1 + max(0, round(math.log2(min(*size, *other) / _COARSEST)))
        photometric = "gain_bias" if loss == "ncc" or photometric == "local" else photometric
        run = _Run(pair, matrix_model, bends, loss, photometric, width, spacing, stiffness, steps, tolerance)
        history: tuple[Step, ...] = ()
        if exact and matrix_model:
            found = run.newton(starts, levels, problems)
            if not bends:
                return found
            matrix, history = found.matrix, found.history
        if exact and "lens" not in bends:
            return run.bend(matrix, levels, problems, history)
        return run.adam(matrix, levels, problems, history)


class _Run(Run):
    def newton(self, starts: Tensor, levels: int, problems: list[str]) -> Alignment:
        assert self.model is not None
        matrix, power = starts if levels > 1 else starts[:1], starts.new_ones((1, starts.shape[1]))  # k b 3 3, k b
        history: list[Step] = []
        for level in range(levels - 1, -1, -1):
            model = _model_of(level, levels, self.model)
            pair, from_full, moving_from_full = self._level(level)
            size = pair.size
            begin = moving_from_full @ matrix @ torch.linalg.inv(from_full)
            if level == levels - 1 and levels > 1:
                begin = (begin[:, None] @ _fan(size, begin, turned=self.model != "translation")[:, None]).flatten(0, 1)
                power = power.expand(len(begin), -1)
            found = minimise(
                partial(self._equations, pair.repeated(len(begin)), model),
                begin.flatten(0, 1),
                plane_moves(model, size, begin),
                steps=math.ceil(self.steps / 3) if level and len(begin) > 1 else self.steps,
                tolerance=self.tolerance,
                exponent=power.flatten(),
            )
            history += [Step(size, model, loss.unflatten(0, begin.shape[:2]).amin(0)) for loss in found.losses]
            rows = _ranked(found, begin.shape[0], size, _KEPT[min(levels - 1 - level, len(_KEPT) - 1)] if level else 1)
            matrix = torch.linalg.inv(moving_from_full) @ found.matrix[rows] @ from_full
            matrix = matrix / matrix[..., 2:, 2:]
            last, settled = Equations(*(part[rows[0]] for part in found.equations)), found.settled[rows[0]]
            power = found.equations.brightness[rows][..., 2]
        matrix = matrix[0]
        used = last.overlap * pair.mask.sum((1, 2, 3)) * pair.fixed.shape[1]
        covariance = noise_covariance(last, used, len(basis(self.model, used))) / _kept_noise(_FINEST)
        measured = (last.loss, last.overlap, last.correlation, last.brightness)
        return self._result(matrix, starts[0], None, None, settled, problems, measured, covariance, history)

    def _equations(self, pair: Pair, model: str, matrix: Tensor, power: Tensor) -> Equations:
        return equations(pair, matrix, model, photometric=self.photometric, exponent=power, weigh=self.weigh)

    def bend(self, matrix: Tensor, levels: int, problems: list[str], before: tuple[Step, ...]) -> Alignment:
        field, found, steps = bend_levels(self, self._level, resize, matrix, levels)
        history, last = [*before, *(Step((size[0], size[1]), "bspline", loss) for size, loss in steps)], found.slopes
        measured = (last.loss, last.overlap, last.correlation, last.brightness)
        return self._result(matrix, matrix, field, None, found.settled, problems, measured, None, history)

    def adam(self, start: Tensor, levels: int, problems: list[str], before: tuple[Step, ...] = ()) -> Alignment:
        matrix, field, lens = start, None, start.new_zeros(len(start), 2) if "lens" in self.bends else None
        history = [*before]
        for level in range(levels - 1, -1, -1):
            model = _model_of(level, levels, self.model) if self.model and not self.bends else self.model
            pair, from_full, moving_from_full = self._level(level)
            size = pair.size
            begin = moving_from_full @ matrix @ torch.linalg.inv(from_full)
            found = descend(
                pair,
                begin,
                Bends(_control(field, size, self.spacing, begin) if "bspline" in self.bends else None, lens),
                self.measure,
                model=model,
                spacing=self.spacing,
                stiffness=self.stiffness,
                steps=5 * self.steps,
                scale=4.0 if level == levels - 1 else 1.0,
                rate=0.5 if level == levels - 1 else 0.2,
            )
            history += [Step(size, "+".join([model or "", *self.bends]).strip("+"), loss) for loss in found.losses]
            lens = found.bends.lens
            if found.bends.control is not None:
                field = spline_field(found.bends.control, size, self.spacing)
            matrix = torch.linalg.inv(moving_from_full) @ found.matrix @ from_full
            matrix = matrix / matrix[:, 2:, 2:]
        full = self.pair.size
        if lens is not None:
            bent = lens_field(lens, matrix, full)
            field = bent if field is None else field + bent
        weight = self.pair.covered(matrix, field)
        out = warp(self.pair.moving, matrix, size=full, displacement=field, padding_mode="border")
        overlap = weight.sum((1, 2, 3)) / self.pair.mask.sum((1, 2, 3)).clamp_min(1e-12)
        ones = torch.ones_like(overlap)
        agreed = ones if self.loss == "mutual_information" else correlation(out, self.pair.fixed, weight)
        measured = (self.measure(out, self.pair.fixed, weight), overlap, agreed, torch.stack((ones, 0 * ones, ones), 1))
        return self._result(matrix, start, field, lens, found.settled, problems, measured, None, history)

    def _level(self, level: int) -> tuple[Pair, Tensor, Tensor]:
        """Return the pair at half the size ``level`` times, and the maps from full pixels to its pixels."""
        parts: list[Tensor | None] = []
        maps = []
        for picture, mask in ((self.pair.fixed, self.pair.mask), (self.pair.moving, self.pair.moving_mask)):
            full = (picture.shape[-2], picture.shape[-1])
            size = (max(4, round(full[0] / 2**level)), max(4, round(full[1] / 2**level)))
            sigma = 1.0 if level else _FINEST
            if mask is None:
                parts += [blurred(resize(picture, size), sigma), None]
            else:  # masked pixels must not blur into the others
                weight = resize(mask, size)
                shown = blurred(resize(picture * mask, size), sigma) / blurred(weight, sigma).clamp_min(1e-6)
                parts += [shown, weight]
            maps.append(level_from_full(full, size, picture))
        fixed, mask, moving, moving_mask = parts
        assert fixed is not None
        assert mask is not None
        assert moving is not None
        return Pair(fixed, moving, mask, moving_mask), maps[0], maps[1]

    def _result(
        self,
        matrix: Tensor,
        start: Tensor,
        field: Tensor | None,
        lens: Tensor | None,
        settled: Tensor,
        problems: list[str],
        measured: tuple[Tensor, Tensor, Tensor, Tensor],
        covariance: Tensor | None,
        history: list[Step],
    ) -> Alignment:
        loss, overlap, agreed, brightness = measured
        model = self.model or "translation"  # a model without a matrix
        evidence = None if self.loss == "mutual_information" else evidence_of(self.pair, matrix, field, model)
        reasons = reasons_of(problems, matrix, loss, overlap, agreed, settled, evidence)
        converged, usable = flags_of(problems, reasons, matrix)
        matrix = torch.where(usable[:, None, None], matrix, start)
        if field is not None:
            field = torch.where(usable[:, None, None, None], field, 0.0)
        lens = None if lens is None else torch.where(usable[:, None], lens, 0.0)
        return Alignment(matrix, field, lens, converged, reasons, loss, overlap, agreed, brightness, covariance, tuple(history))


def _model_of(level: int, levels: int, wanted: str) -> str:
    """Return the model of a level: the coarsest of several has too few pixels for a homography, and finds an affine map."""
    return "affine" if wanted == "homography" and level == levels - 1 > 0 else wanted


def _fan(size: Size, like: Tensor, *, turned: bool) -> Float[Tensor, "k 3 3"]:
    """Return the small maps that the coarsest level tries, the identity first."""
    fan = []
    for turn, x, y in product(_TURNS if turned else (0.0,), _SHIFTS, _SHIFTS):
        shift = like.new_tensor([[1.0, 0.0, x * size[1]], [0.0, 1.0, y * size[0]], [0.0, 0.0, 1.0]])
        fan.append(shift @ _turned(turn, size, like))
    return torch.stack(fan)


def _ranked(found: Found, starts: int, size: Size, kept: int) -> Int[Tensor, "kept b"]:
    """Return the rows of the best maps, best first; maps within a pixel of a better one come last."""
    here = found.equations
    score = torch.nan_to_num(here.overlap * here.correlation.clamp_min(0.0).square(), 0.0)
    score = torch.where(here.overlap > LEAST_OVERLAP, score, -1.0).unflatten(0, (starts, -1))
    matrix, pairs = found.matrix.unflatten(0, (starts, -1)), torch.arange(score.shape[1], device=score.device)
    rows = []
    for _ in range(min(kept, starts)):
        best = score.argmax(0)
        rows.append(best * len(pairs) + pairs)
        chosen = matrix[best, pairs].expand(matrix.shape)
        near = corner_distance(matrix.flatten(0, 1), chosen.flatten(0, 1), size).unflatten(0, score.shape) < 1.0
        near[best, pairs] = True
        score = torch.where(near, -2.0, score)
    return torch.stack(rows)


def _kept_noise(sigma: float) -> float:
    """Return the share of independent noise's variance that remains after a blur, which must not make the covariance smaller."""
    side = 2 * math.ceil(3 * sigma) + 1
    point = torch.zeros(1, 2 * side + 1, 2 * side + 1, device="cpu")
    point[:, side, side] = 1.0
    return float(blurred(point, sigma).square().sum())


def _turned(degrees: float, size: Size, like: Tensor) -> Float[Tensor, "3 3"]:
    c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    x, y = (size[1] - 1) / 2, (size[0] - 1) / 2
    return like.new_tensor([[c, -s, x - c * x + s * y], [s, c, y - s * x - c * y], [0.0, 0.0, 1.0]])


def _control(field: Tensor | None, size: Size, spacing: float, like: Tensor) -> Float[Tensor, "b 2 m n"]:
    """Return the control points of a level whose field is nearest to the enlarged field of the coarser level."""
    if field is None:
        return spline_near(like.new_zeros((len(like), 2, *size)), spacing)
    y, x = size[0] / field.shape[-2], size[1] / field.shape[-1]
    return spline_near(resize(field, size) * like.new_tensor([x, y])[:, None, None], spacing)


def _read(
    fixed: object, moving: object, mask: Tensor | None, moving_mask: Tensor | None, features: Callable[[Tensor], Tensor] | None
) -> tuple[Pair, list[str]]:
    """Return the pair in floating point with a batch axis and weights, and the problem of each pair, if any."""
    pictures = []
    for name, picture in (("fixed", fixed), ("moving", moving)):
        if not isinstance(picture, Tensor):
            raise wrong_type(name, expected="a tensor", got=type(picture).__name__)
        if picture.dim() not in (3, 4) or min(picture.shape[-3:]) < 1 or min(picture.shape[-2:]) < 4:
            raise invalid(name, expected="(C, H, W) or (B, C, H, W), at least 4 pixels a side", got=f"shape {tuple(picture.shape)}")
        if not picture.is_floating_point() and picture.dtype != torch.uint8:
            raise wrong_type(name, expected="floating-point or uint8 pixels", got=picture.dtype)
        batch = picture if picture.dim() == 4 else picture[None]
        wide = torch.promote_types(batch.dtype, torch.float32) if batch.is_floating_point() else torch.float32
        pictures.append(batch.to(wide) / (255.0 if batch.dtype == torch.uint8 else 1.0))
    pair, problems = weighed_pair(pictures[0], pictures[1], mask, moving_mask)
    if features is not None:
        a, b = features(pair.fixed), features(pair.moving)
        if (a.shape[-2:], b.shape[-2:]) != (pair.fixed.shape[-2:], pair.moving.shape[-2:]):
            raise invalid(
                "features", expected="maps of the pictures' own height and width", got=f"{tuple(a.shape)}, {tuple(b.shape)}"
            )
        pair = pair._replace(fixed=a, moving=b)
    return pair, problems


def _starts(start: Tensor | Sequence[Sequence[float]] | None, pair: Pair, model: str | None) -> Float[Tensor, "k b 3 3"]:
    """Return the given start; or the identity and, for pictures of different sizes, maps that match centres and areas."""
    like, count = pair.fixed, len(pair.fixed)
    if start is None:
        (h, w), (h2, w2) = like.shape[-2:], pair.moving.shape[-2:]
        zooms = [] if (h, w) == (h2, w2) else [1.0] if model == "translation" else [1.0, math.sqrt(h2 * w2 / (h * w))]
        middles = [[[z, 0, (w2 - 1 - z * (w - 1)) / 2], [0, z, (h2 - 1 - z * (h - 1)) / 2], [0, 0, 1]] for z in zooms]
        return like.new_tensor([[[1, 0, 0], [0, 1, 0], [0, 0, 1]], *middles])[:, None].repeat(1, count, 1, 1)
    given = start_of(start, like)
    return (given / given[:, 2:, 2:])[None]
