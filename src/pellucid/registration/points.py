"""Refine matched points to subpixels, by aligning their surroundings.

Owns: `refine_matches`.
Must not: match.
Read next: ``newton.py``.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pellucid.core.arguments import check_choice
from pellucid.core.constants import pinned
from pellucid.core.recording import check_recording
from pellucid.functional.patches import check_frames, extract_patches
from pellucid.registration.maps import MODELS, basis
from pellucid.registration.newton import Equations, Pair, equations, minimise, noise_covariance, plane_moves

__all__ = ["refine_matches"]

_SIDE, _MARGIN, _CHUNK = 32, 6, 512
_LEAST_CORRELATION, _LEAST_GAIN, _MOST_DEVIATION = 0.9, 0.5, 0.1
"""The least correlation of patches afterwards; the largest share of 1 - correlation that may remain; and a point's largest standard
deviation in pixels of the moving picture. Chosen on warped photographs, see docs/registration.md."""


@pinned
def refine_matches(
    fixed: Float[Tensor, "c h w"],
    moving: Float[Tensor, "c h2 w2"],
    fixed_frames: Float[Tensor, "n 2 3"],
    moving_frames: Float[Tensor, "n 2 3"],
    *,
    model: str = "affine",
    reach: float = 3.0,
    steps: int = 40,
) -> tuple[Float[Tensor, "n 2"], Bool[Tensor, "n"]]:
    """Move points of one picture to where their surroundings look most like those of their partners in the other.

    A match's two frames give its approximate local map. Patches of 32 samples a side are extracted through them and aligned by
    Gauss-Newton, with gain and offset.

    Args:
        fixed: the picture whose points stay, floating point.
        moving: the picture whose points are refined.
        fixed_frames, moving_frames: image_from_patch of both points of each match, see ``../features/frames.py``.
        model: the model of the map between the two patches, a matrix of :func:`pellucid.registration.align`.
        reach: how far a point may move, in pixels of the moving picture.
        steps: the largest number of steps.

    Returns:
        Points (x, y) of the moving picture, and a mask of those that were refined. The others are unchanged: not settled, too far
        away, not finite, a correlation below 0.9 or not twice as near to 1 as before, or a standard deviation above 0.1 pixels.

    Gradient:
        none; the result is detached.

    Errors:
        ``InvalidArgument`` and ``InvalidType`` for malformed frames.

    Example:
        >>> import torch
        >>> from pellucid.functional import gaussian_blur
        >>> from pellucid.registration import refine_matches
        >>> picture = gaussian_blur(torch.rand(1, 64, 64, generator=torch.Generator().manual_seed(0)), 9, 2.0)
        >>> frames = torch.tensor([[[12.0, 0.0, 31.0], [0.0, 12.0, 30.0]]])
        >>> off = frames + torch.tensor([[0.0, 0.0, 0.8], [0.0, 0.0, -0.6]])
        >>> refine_matches(picture, picture, frames, off)[0].round(decimals=1)
        tensor([[31., 30.]])
    """
    check_choice("model", model, MODELS)
    check_recording("refine_matches")
    for name, frames in (("fixed_frames", fixed_frames), ("moving_frames", moving_frames)):
        check_frames(name, frames)
    points, done = [moving_frames[:0, :, 2]], [moving_frames.new_zeros(0, dtype=torch.bool)]
    with torch.no_grad():
        for some, others in zip(fixed_frames.split(_CHUNK), moving_frames.split(_CHUNK), strict=True):
            found, good = _refined(fixed, moving, some, others, model, reach, steps)
            points.append(found)
            done.append(good)
    return torch.cat(points), torch.cat(done)


def _refined(
    fixed: Tensor, moving: Tensor, some: Tensor, others: Tensor, model: str, reach: float, steps: int
) -> tuple[Tensor, Tensor]:
    usable = torch.isfinite(some).all(2).all(1) & torch.isfinite(others).all(2).all(1)
    larger, side = (_SIDE + 2 * _MARGIN) / _SIDE, _SIDE + 2 * _MARGIN
    wide = torch.cat((others[..., :2] * larger, others[..., 2:]), 2)
    patch, around = extract_patches(fixed[None], some[None], _SIDE)[0], extract_patches(moving[None], wide[None], side)[0]
    pair = Pair(patch, around, torch.ones_like(patch[:, :1]))
    start = torch.eye(3, dtype=patch.dtype, device=patch.device)
    start[:2, 2] = _MARGIN
    begin = start.repeat(len(patch), 1, 1)
    ones = begin.new_ones(len(begin))

    def linearise(matrix: Tensor, power: Tensor) -> Equations:
        return equations(pair, matrix, model, exponent=power)

    before = linearise(begin, ones).correlation
    moves = plane_moves(model, (_SIDE, _SIDE), begin)
    found = minimise(linearise, begin, moves, steps=steps, tolerance=1e-2, exponent=ones)
    centre = found.matrix @ patch.new_tensor([(_SIDE - 1) / 2, (_SIDE - 1) / 2, 1.0])
    inner = (2 * centre[:, :2] / centre[:, 2:] + 1) / side - 1  # in the wide frame's own coordinates
    points = (wide[..., :2] @ inner[..., None])[..., 0] + wide[..., 2]
    near = (points - others[..., 2]).norm(dim=1) <= reach
    after = found.equations.correlation
    agrees = (after >= _LEAST_CORRELATION) & (1 - after <= _LEAST_GAIN * (1 - before))
    sharp = _deviation(found.equations, model, patch.shape[1]) * torch.linalg.det(others[..., :2]).abs().sqrt() <= _MOST_DEVIATION
    good = usable & found.settled & near & agrees & sharp
    return torch.where(good[:, None], points, others[..., 2]), good


def _deviation(found: Equations, model: str, channels: int) -> Float[Tensor, "n"]:
    """Return the standard deviation of the patch's centre, if residuals are independent noise, in units of half the patch."""
    spanned = basis(model, found.left)
    covariance = noise_covariance(found, found.left.new_tensor(channels * _SIDE**2), len(spanned))
    shifts = spanned[:, [2, 5]]
    return torch.einsum("bij,ik,jk->b", covariance, shifts, shifts).clamp_min(0).sqrt()
