"""Fit a camera's effect on known pictures: its lens, brightness, blur and noise, by descent.

Owns: `fit_camera`, `Camera`, the model and its linearisation.
Must not: resample by itself.
Read next: ``newton.py``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from pellucid.core.arguments import finite_number, whole_number
from pellucid.core.constants import pinned
from pellucid.core.recording import check_recording
from pellucid.errors import invalid, wrong_type
from pellucid.functional import remap, resize
from pellucid.registration.losses import correlation
from pellucid.registration.maps import grid
from pellucid.types import Size

__all__ = ["Camera", "fit_camera"]

_NAMES = ("scale", "k1", "k2", "k3", "center_x", "center_y", "v1", "v2", "gain", "gamma", "blur")
_START = {"scale": 1.0, "gain": 1.0, "gamma": 1.0}
_GEOMETRY = 8  # so many leading parameters decide where a pixel reads and how it is shaded
_COARSEST = 40
_LEAST_OVERLAP, _LEAST_CORRELATION, _LEAST_SPREAD = 0.2, 0.3, 1e-4
_STILL = 1e-4  # a step that changes gain, gamma, shading and the blur's square by less has converged
_DARK = 1e-3  # darker pixels are ignored, because the slope of gamma is not reliable there
_REACH = 12  # taps of the blur to each side


@dataclass(frozen=True)
class Camera:
    """The result of `fit_camera`.

    With u a pixel's offset from the center in units of half the picture's diagonal, and r its length, the camera shows
    ``(gain * (1 + v1 r^2 + v2 r^4) * blurred(ideal at center + u * (scale + k1 r^2 + k2 r^4 + k3 r^6))) ** gamma`` plus noise.

    Args:
        parameters: ``scale``, ``k1``, ``k2``, ``k3``; ``center_x`` and ``center_y``, the axis of the lens, in pixels from the
            picture's middle; ``v1``, ``v2``; ``gain``; ``gamma``; ``blur``, the standard deviation in pixels; ``noise``, the
            standard deviation in the pictures' units.
        names: the parameters that were solved for, in the covariance's order.
        covariance: their covariance, for independent noise; the blur's entry is for its square, which is the solved parameter.
        converged: whether the last step moved no pixel by more than the tolerance.
        reason: ``converged`` or why not.
        loss: the mean squared residual.
        overlap: the share of pixels that lie inside the ideal pictures.
        correlation: correlation of the camera's pictures and the model's.
        size: (height, width) of the camera's pictures.
        ideal_size: (height, width) of the ideal pictures.
        history: (size of the level, loss) of every step.

    Example:
        See :func:`fit_camera`.
    """

    parameters: dict[str, float]
    names: tuple[str, ...]
    covariance: Float[Tensor, "n n"]
    converged: bool
    reason: str
    loss: float
    overlap: float
    correlation: float
    size: Size
    ideal_size: Size
    history: tuple[tuple[Size, float], ...]

    def ideal_points(self, points: Float[Tensor, "*n 2"]) -> Float[Tensor, "*n 2"]:
        """Return where in the ideal pictures the camera's pixels lie.

        Args:
            points: (x, y) in the camera's pictures, pixel centres.

        Returns:
            (x, y) in the ideal ones, in the dtype of ``points``.

        Gradient:
            points: exact.
        Errors:
            None.

        Example:
            >>> import torch
            >>> from pellucid.registration import fit_camera
            >>> picture = torch.rand(1, 1, 32, 32, generator=torch.Generator().manual_seed(0))
            >>> camera = fit_camera(picture, picture, steps=1)
            >>> camera.ideal_points(torch.tensor([[3.0, 4.0]])).round()
            tensor([[3., 4.]])
        """
        values, frame = self._values(points), _Frame(self.size, self.ideal_size, self.size)
        x, y, _ = _geometry(values, points.to(values.dtype).unbind(-1), frame)
        return torch.stack((x, y), -1).to(points.dtype)

    def show(self, ideal: Float[Tensor, "b c h w"]) -> Float[Tensor, "b c h2 w2"]:
        """Show ideal pictures through the camera, without noise.

        Args:
            ideal: pictures in [0, 1], of the size of those that the camera was fitted to.

        Returns:
            The pictures as the camera would show them.

        Gradient:
            ideal: exact.
        Errors:
            InvalidArgument for another size, shape or dtype.

        Example:
            >>> import torch
            >>> from pellucid.registration import fit_camera
            >>> picture = torch.rand(1, 1, 32, 32, generator=torch.Generator().manual_seed(0))
            >>> camera = fit_camera(picture, picture, steps=1)
            >>> camera.show(picture).shape
            torch.Size([1, 1, 32, 32])
        """
        if ideal.dim() != 4 or not ideal.is_floating_point() or tuple(ideal.shape[-2:]) != self.ideal_size:
            raise invalid(
                "ideal", expected=f"floating-point (B, C, {self.ideal_size[0]}, {self.ideal_size[1]})", got=tuple(ideal.shape)
            )
        return _rendered(ideal, self._values(ideal), _Frame(self.size, self.ideal_size, self.size), self.size)

    def _values(self, like: Tensor) -> Tensor:
        numbers = {**self.parameters, "blur": self.parameters["blur"] ** 2}
        dtype = torch.float64 if like.dtype == torch.float64 else torch.float32
        return torch.tensor([numbers[name] for name in _NAMES], dtype=dtype, device=like.device)


@pinned
def fit_camera(
    ideal: Float[Tensor, "*b c h w"],
    seen: Float[Tensor, "*b c h2 w2"],
    *,
    radial: int = 3,
    vignetting: int = 2,
    gamma: bool = True,
    blur: bool = True,
    mask: Float[Tensor, "*b 1 h2 w2"] | None = None,
    start: Camera | None = None,
    steps: int = 40,
    tolerance: float = 1e-3,
) -> Camera:
    """Fit one camera to ideal pictures and its own pictures of them: lens, vignetting, gamma, gain, blur and noise, jointly.

    It takes damped Gauss-Newton steps from coarse to fine pictures, for all pairs together. One backward pass of the warp gives the
    derivatives with respect to where a pixel reads.

    Args:
        ideal: (C, H, W) or (B, C, H, W), in [0, 1]: the picture of a pinhole camera in the same place, pixel by pixel, such as
            charts rendered in their known poses. They may be larger than the camera's pictures, with the same centre.
        seen: the camera's pictures of them.
        radial: how many powers of the squared radius the lens has beside its scale, 0 to 3.
        vignetting: how many such powers the shading has, 0 to 2.
        gamma, blur: whether to solve for them.
        mask: the weight of each of the camera's pixels, at least 0.
        start: a camera to begin with.
        steps: the largest number of steps per level.
        tolerance: pixels; the fit is done when a step moves no pixel farther.

    Returns:
        See :class:`Camera`. If the pictures fit no camera, ``converged`` is False and ``reason`` says why.

    Gradient:
        none; the result is detached.
    Errors:
        InvalidArgument and InvalidType for shapes, dtypes and options that do not fit.
    Source:
        Brown and Conrady's radial terms; the fit is compared with ``cv2.calibrateCamera`` by ``pellucid study camera``.

    Example:
        >>> import torch
        >>> from pellucid import LensDistortion, Pipeline
        >>> from pellucid.functional import gaussian_blur
        >>> from pellucid.registration import fit_camera
        >>> noise = torch.rand(2, 1, 96, 96, generator=torch.Generator().manual_seed(0))
        >>> ideal = (0.5 + 4 * (gaussian_blur(noise, 13, 2.0) - 0.5)).clamp(0.05, 0.95)
        >>> found = fit_camera(ideal, 0.9 * Pipeline([LensDistortion(k1=0.05)])(ideal), gamma=False, vignetting=0)
        >>> found.reason, round(found.parameters["k1"], 2), round(found.parameters["gain"], 2)
        ('converged', 0.05, 0.9)
    """
    whole_number("radial", radial, 0, 3)
    whole_number("vignetting", vignetting, 0, 2)
    whole_number("steps", steps, 1, 1 << 16)
    if finite_number("tolerance", tolerance) <= 0:
        raise invalid("tolerance", expected="a number > 0, in pixels", got=tolerance)
    pictures = _read(ideal, seen, mask)
    fixed = {*_NAMES[1 + radial : 4], *_NAMES[6 + vignetting : 8], *(() if gamma else ("gamma",)), *(() if blur else ("blur",))}
    values = torch.tensor([_START.get(name, 0.0) for name in _NAMES], dtype=torch.float64, device="cpu")
    if start is not None:
        if not isinstance(start, Camera):
            raise wrong_type("start", expected="a Camera that fit_camera found", got=repr(start))
        values = start._values(values)
    names = tuple(name for name in _NAMES if name not in fixed)
    problem = _problem(pictures)
    check_recording("fit_camera")
    with torch.no_grad():
        history: list[tuple[Size, float]] = []
        levels = 1 + max(0, round(math.log2(min(pictures.size) / _COARSEST)))
        found = _Found(values, False, torch.eye(len(names), dtype=torch.float64, device="cpu"), math.nan, 0.0, 0.0)
        for level in range(levels - 1, -1, -1) if not problem else ():
            here = tuple(name for name in names if level == 0 or name not in ("blur", "gamma", "v1", "v2", "k3"))
            found = _descended(pictures, found.values, here, level, steps, tolerance, history)
            if not bool(torch.isfinite(found.values).all()):
                problem = "no camera was found: the parameters diverged"
                found = replace(found, values=values)
                break
    return _result(found, names, problem, pictures, tuple(history))


@dataclass(frozen=True)
class _Frame:
    """The sizes of a level's pictures (camera and ideal), and of the full picture, whose half diagonal is the unit."""

    size: Size
    ideal_size: Size
    full: Size

    @property
    def unit(self) -> float:
        """Half the diagonal, in pixels of this level."""
        height, width = self.full
        return max(0.5, math.hypot(height - 1, width - 1) / 2) * self.size[1] / width

    @property
    def pixel(self) -> float:
        """The size of a full picture's pixel, in pixels of this level."""
        return self.size[1] / self.full[1]


@dataclass(frozen=True)
class _Found:
    """The end of a descent: the parameters, whether they have settled, their covariance, and how well the pictures agree."""

    values: Float[Tensor, "n"]
    settled: bool
    covariance: Float[Tensor, "m m"]
    loss: float
    overlap: float
    correlation: float


class _Pictures(NamedTuple):
    """Ideal pictures, the camera's pictures of them, and the weights of the camera's pixels."""

    ideal: Float[Tensor, "b c h w"]
    seen: Float[Tensor, "b c h2 w2"]
    weights: Float[Tensor, "b 1 h2 w2"]

    @property
    def size(self) -> Size:
        """The size of the camera's pictures."""
        return self.seen.shape[-2], self.seen.shape[-1]

    @property
    def ideal_size(self) -> Size:
        """The size of the ideal pictures."""
        return self.ideal.shape[-2], self.ideal.shape[-1]

    def shrunk(self, level: int) -> Self:
        """Return these pictures at 1 / 2**level of their size."""
        if level == 0:
            return self
        return type(self)(*(resize(part, (round(part.shape[-2] / 2**level), round(part.shape[-1] / 2**level))) for part in self))


def _read(ideal: object, seen: object, mask: object) -> _Pictures:
    """Check the inputs; return both pictures on the CPU in float64 with a batch axis, and the weights of every pixel."""
    parts: list[Tensor] = []
    for name, picture in (("ideal", ideal), ("seen", seen)):
        if not isinstance(picture, Tensor) or not picture.is_floating_point():
            got = str(picture.dtype) if isinstance(picture, Tensor) else type(picture).__name__
            raise wrong_type(name, expected="floating-point pictures (C, H, W) or (B, C, H, W) in [0, 1]", got=got)
        if picture.dim() not in (3, 4) or min(picture.shape) < 1 or min(picture.shape[-2:]) < 16:
            raise invalid(name, expected="(C, H, W) or (B, C, H, W), 16 pixels or more a side", got=tuple(picture.shape))
        parts.append(picture.detach().to("cpu", torch.float64).reshape(-1, *picture.shape[-3:]))
    first, second = parts
    if first.shape[:2] != second.shape[:2]:
        raise invalid("seen", expected=f"{first.shape[0]} pictures of {first.shape[1]} channels, as ideal", got=tuple(second.shape))
    if first.shape[2] < second.shape[2] or first.shape[3] < second.shape[3]:
        expected = f"pictures of at least {tuple(second.shape[2:])}, the camera's size"
        raise invalid("ideal", expected=expected, got=tuple(first.shape[2:]))
    weights = torch.ones_like(second[:, :1])
    if mask is not None:
        wanted = tuple(weights.shape)
        if not isinstance(mask, Tensor) or tuple(mask.reshape(-1, *mask.shape[-3:]).shape) != wanted:
            raise invalid(
                "mask", expected=f"weights of shape {wanted}", got=tuple(mask.shape) if isinstance(mask, Tensor) else mask
            )
        weights = mask.detach().to(weights).reshape(wanted)
    return _Pictures(first, second, weights)


def _problem(pictures: _Pictures) -> str:
    for name, picture in (("ideal", pictures.ideal), ("camera's", pictures.seen)):
        if not bool(torch.isfinite(picture).all()):
            return f"the {name} pictures have pixels that are not finite"
        if float(picture.std()) < _LEAST_SPREAD:
            return f"the {name} pictures are constant"
    return "" if float(pictures.weights.sum()) > 0 else "the mask is empty"


def _geometry(values: Tensor, pixels: tuple[Tensor, ...], frame: _Frame) -> tuple[Tensor, Tensor, Tensor]:
    """Return where pixels read in the ideal picture, x and y, and their shading."""
    x, y = pixels
    scale, k1, k2, k3, center_x, center_y, v1, v2 = values.unbind()[:_GEOMETRY]
    (height, width), (tall, wide) = frame.size, frame.ideal_size
    center_x, center_y = center_x * frame.pixel, center_y * frame.pixel
    u, v = (x - (width - 1) / 2 - center_x) / frame.unit, (y - (height - 1) / 2 - center_y) / frame.unit
    square = u * u + v * v
    reach = frame.unit * (scale + square * (k1 + square * (k2 + square * k3)))
    return (wide - 1) / 2 + center_x + u * reach, (tall - 1) / 2 + center_y + v * reach, 1.0 + square * (v1 + square * v2)


def _taps(variance: Tensor) -> Float[Tensor, "taps"]:
    """Return a Gaussian of this variance in pixels, from its spectrum: so variances add up exactly, and 0 has a derivative."""
    count = 4 * _REACH
    wave = torch.arange(count, dtype=variance.dtype, device=variance.device) * (2 * math.pi / count)
    wave = torch.where(wave > math.pi, wave - 2 * math.pi, wave)
    places = torch.arange(-_REACH, _REACH + 1, dtype=variance.dtype, device=variance.device)
    taps = (torch.cos(places[:, None] * wave) * torch.exp(-0.5 * variance * wave * wave)).mean(1)
    return taps / taps.sum()


def _convolved(planes: Float[Tensor, "*n h w"], across: Tensor, down: Tensor) -> Float[Tensor, "*n h w"]:
    flat = planes.reshape(-1, 1, *planes.shape[-2:])
    padded = F.pad(flat, (_REACH,) * 4, mode="replicate")
    return F.conv2d(F.conv2d(padded, across[None, None, None]), down[None, None, :, None]).reshape(planes.shape)


def _rendered(ideal: Tensor, values: Tensor, frame: _Frame, size: Size) -> Tensor:
    x, y, shade = _geometry(values, grid(size, values), frame)
    taps = _taps(values[10] * frame.pixel**2).to(ideal.dtype)
    sharp = remap(ideal, x, y, interpolation="bicubic", border_mode="replicate")
    linear = values[8] * shade * _convolved(sharp, taps, taps)
    return linear.clamp_min(0.0) ** values[9]


@dataclass(frozen=True)
class _Line:
    """The normal equations at some parameter values, and the loss, overlap, correlation and number of pixels."""

    left: Float[Tensor, "n n"]
    right: Float[Tensor, "n"]
    loss: float
    overlap: float
    correlation: float
    pixels: float


class _Light(NamedTuple):
    """The light that reaches the sensor, before gamma.

    Args:
        level: the light of each pixel.
        slopes: its derivatives with respect to every parameter but gamma, in the order of `_NAMES`.
        known: which pixels read inside the ideal pictures; those next to the border are not known if there is a blur.
    """

    level: Float[Tensor, "b c h w"]
    slopes: list[Float[Tensor, "b c h w"]]
    known: Bool[Tensor, "h w"]


def _light(ideal: Tensor, values: Tensor, frame: _Frame) -> _Light:
    """Return the light and its derivatives; a lens's parameter counts by the picture's slope times how far it moves a pixel."""
    pixels = grid(frame.size, values)
    x, y, shade = _geometry(values, pixels, frame)
    to_x, to_y, to_shade = torch.func.jacfwd(lambda v: _geometry(v, pixels, frame))(values[:_GEOMETRY])  # h w 8
    sharp, slope_x, slope_y = _read_with_slopes(ideal, x, y)
    moving = (slope_x[..., None] * to_x + slope_y[..., None] * to_y).movedim(-1, 0)  # 8 b c h w
    variance, gain = values[10] * frame.pixel**2, values[8]
    taps, bend = torch.func.jvp(_taps, (variance,), (torch.full_like(variance, frame.pixel**2),))[:2]
    soft = _convolved(sharp, taps, taps)
    wider = _convolved(sharp, bend, taps) + _convolved(sharp, taps, bend)
    lens = [gain * (shade * _convolved(move, taps, taps) + to_shade[..., k] * soft) for k, move in enumerate(moving)]
    edge = 0.0 if values[10] == 0 else 1.0
    tall, wide = frame.ideal_size
    known = (x >= edge) & (x <= wide - 1 - edge) & (y >= edge) & (y <= tall - 1 - edge)
    return _Light(gain * shade * soft, [*lens, shade * soft, gain * shade * wider], known)


def _read_with_slopes(ideal: Float[Tensor, "b c h w"], x: Float[Tensor, "h2 w2"], y: Float[Tensor, "h2 w2"]) -> list[Tensor]:
    """Return the pictures read at these places, and their derivatives along x and y, from one backward pass with ones."""
    planes = ideal.flatten(0, 1)[:, None]
    with torch.enable_grad():
        at_x, at_y = (part.expand(len(planes), -1, -1).clone().requires_grad_() for part in (x, y))
        sharp = remap(planes, at_x, at_y, interpolation="bicubic", border_mode="replicate")
        slopes = torch.autograd.grad(sharp, (at_x, at_y), torch.ones_like(sharp))
    return [part.reshape(*ideal.shape[:2], *x.shape) for part in (sharp.detach(), *slopes)]


def _linearised(pictures: _Pictures, values: Tensor, frame: _Frame) -> _Line:
    """Return the normal equations of all parameters, over the pixels that are known and bright enough for gamma's slope."""
    ideal, seen, weights = pictures
    light, power = _light(ideal, values, frame), values[9]
    bright = light.level > _DARK
    base = torch.where(bright, light.level, 1.0)
    steep = power * base ** (power - 1.0)
    gamma = base * base.log() / power  # so that steep times it is the derivative with respect to gamma
    jacobian = torch.stack([steep * slope for slope in (*light.slopes[:9], gamma, light.slopes[9])])  # n b c h w
    weight = (weights * light.known * bright).expand_as(seen)
    residual = torch.where(bright, base**power - seen, 0.0).flatten()
    flat, share = jacobian.flatten(1), (weight / max(float(weight.sum()), 1e-12)).flatten()
    weighed = flat * share
    return _Line(
        left=weighed @ flat.T,
        right=weighed @ residual,
        loss=float(share @ residual.square()),
        overlap=float((weights * light.known).sum() / weights.sum().clamp_min(1e-12)),
        correlation=float(correlation(base**power * bright, seen, weight).mean()),
        pixels=float((weight > 0).sum()),
    )


def _descended(
    pictures: _Pictures,
    values: Tensor,
    names: tuple[str, ...],
    level: int,
    steps: int,
    tolerance: float,
    history: list[tuple[Size, float]],
) -> _Found:
    """Take damped steps on one level, in these parameters only."""
    full = pictures.size
    pictures = pictures.shrunk(level)
    frame = _Frame(pictures.size, pictures.ideal_size, full)
    places = torch.tensor([_NAMES.index(name) for name in names], device=values.device)
    pixels = grid(frame.size, values)
    damping, settled = 1e-3, False
    here = _linearised(pictures, values, frame)
    for _ in range(steps):
        history.append((frame.size, here.loss))
        left, right = here.left[places][:, places], here.right[places]
        diagonal = left.diagonal()
        change = -torch.linalg.solve_ex(left + torch.diag(damping * diagonal + 1e-12 * diagonal.mean() + 1e-30), right)[0]
        candidate = values.index_add(0, places, change)
        candidate = torch.cat((candidate[:8], candidate[8:10].clamp(0.05, 20.0), candidate[10:].clamp(0.0, (_REACH / 3) ** 2)))
        moved = [
            (new - old).abs().max()
            for new, old in zip(_geometry(candidate, pixels, frame), _geometry(values, pixels, frame), strict=True)
        ]
        changed = float((candidate[_GEOMETRY:] - values[_GEOMETRY:]).abs().max())
        settled = float(torch.stack(moved[:2]).max()) < tolerance * frame.pixel and max(float(moved[2]), changed) < _STILL
        there = _linearised(pictures, candidate, frame)
        if math.isfinite(there.loss) and there.loss < here.loss and there.overlap > _LEAST_OVERLAP:
            values, here, damping = candidate, there, max(0.2 * damping, 1e-9)
        else:
            settled, damping = settled or damping > 1e3, max(6.0 * damping, 1e-4)
        if settled:
            break
    left = here.left[places][:, places]
    spread = here.loss / max(here.pixels - len(names), 1.0) * torch.linalg.pinv(left)
    noise = here.loss * here.pixels / max(here.pixels - len(names), 1.0)
    return _Found(values, settled, spread, noise, here.overlap, here.correlation)


def _result(
    found: _Found, names: tuple[str, ...], problem: str, pictures: _Pictures, history: tuple[tuple[Size, float], ...]
) -> Camera:
    if not problem and found.overlap <= _LEAST_OVERLAP:
        problem = f"the pictures overlap by {100 * found.overlap:.0f} %"
    elif not problem and not found.correlation >= _LEAST_CORRELATION:
        problem = f"the pictures do not agree: their correlation is {found.correlation:.2f}"
    reason = problem or ("converged" if found.settled else "out of steps")
    numbers = dict(zip(_NAMES, found.values.tolist(), strict=True))
    numbers |= {"blur": math.sqrt(numbers["blur"]), "noise": math.sqrt(found.loss) if found.loss >= 0 else math.nan}
    return Camera(
        parameters=numbers,
        names=names,
        covariance=found.covariance,
        converged=reason == "converged",
        reason=reason,
        loss=found.loss,
        overlap=found.overlap,
        correlation=found.correlation,
        size=pictures.size,
        ideal_size=pictures.ideal_size,
        history=history,
    )
