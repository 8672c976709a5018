"""Who aligns pictures in the benchmark: ours, OpenCV, kornia, SimpleITK, each as good as its options make it.

Owns: every method under one signature.
Must not: know where pairs come from.
Read next: ``register.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from pellucid.functional import warp
from pellucid.registration import align, align_volumes

__all__ = ["FILTERS", "GAIN", "OURS", "methods"]

OURS = "pellucid align"

FILTERS = (1, 5, 11, 21)
"""Sides of the Gaussian that ECC is given; the benchmark shows the best one of every set."""
_IN_LIGHT = ("OpenCV findTransformECC, filter 5", "OpenCV SIFT + MAGSAC")
GAIN = 1.2
"""How much brighter fixed pictures are: SIFT gets them in bytes, without clipping."""

Method = Callable[[Tensor, Tensor, Tensor, str], Tensor | None]
"""(fixed, moving, start, model) -> moving from fixed, or displacements (2, h, w) of a B-spline; None where it gave up."""
_SPACING = 16.0
"""Pixels between a B-spline's control points."""


def methods(model: str) -> dict[str, Method]:
    """Those that are installed; kornia as it comes, without a gain, for similarities only, where it is quick.

    Args:
        model: ``similarity``, ``homography``, ``bspline``, ``rigid volumes`` and ``affine volumes``, which only SimpleITK has
            beside us, or ``light``: homographies again, by who is quick and knows something of light.
    """
    found: dict[str, Method] = {OURS: _ours}
    if model == "light":
        local = {OURS: _ours, f"{OURS}, photometric local": partial(_ours, photometric="local")}
        usual = {name: method for name, method in methods("homography").items() if name in _IN_LIGHT}
        return {name: lambda *given, who=who: who(*given[:3], "homography") for name, who in (local | usual).items()}
    if "bspline" in model or "volumes" in model:
        theirs = _itk_bspline if "bspline" in model else _itk
        return found | ({"SimpleITK": partial(theirs, import_module("SimpleITK"))} if find_spec("SimpleITK") else {})
    if find_spec("cv2"):
        cv2 = import_module("cv2")
        found |= {f"OpenCV findTransformECC, filter {size}": partial(_ecc, cv2, size) for size in FILTERS}
        if hasattr(cv2, "findTransformECCMultiScale"):  # OpenCV 5
            found["OpenCV findTransformECCMultiScale"] = partial(_ecc_pyramid, cv2)
        found["OpenCV SIFT + MAGSAC"] = lambda *given: _sift(cv2, *given[:2])
    if find_spec("kornia"):
        kornia = import_module("kornia")
        if model == "similarity":
            found["kornia ImageRegistrator"] = partial(_kornia, kornia, F.l1_loss)
        found["kornia ImageRegistrator, gain solved for"] = partial(_kornia, kornia, _l1_with_gain)
    if find_spec("SimpleITK"):
        found["SimpleITK" if model == "similarity" else "SimpleITK, affine"] = partial(_itk, import_module("SimpleITK"))
    return found


def _ours(fixed: Tensor, moving: Tensor, start: Tensor, model: str, photometric: str = "gain_bias") -> Tensor | None:
    if fixed.dim() == 4:
        solid = align_volumes(fixed, moving, model=model.split()[0], start=start, spacing=_SPACING)
        return solid.matrix[0] if solid.field is None else solid.field[0]
    found = align(fixed, moving, model=model, start=start, spacing=_SPACING, photometric=photometric)
    return found.matrix[0] if found.field is None else found.field[0]


def _ecc(cv2: Any, size: int, fixed: Tensor, moving: Tensor, start: Tensor, model: str) -> Tensor | None:
    motion = cv2.MOTION_HOMOGRAPHY if model == "homography" else cv2.MOTION_AFFINE
    begin = start.numpy().astype(np.float32)[: 3 if model == "homography" else 2].copy()
    criteria = (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, 200, 1e-7)
    try:
        _, matrix = cv2.findTransformECC(fixed[0].numpy(), moving[0].numpy(), begin, motion, criteria, None, size)
    except cv2.error:
        return None
    return torch.from_numpy(np.vstack([matrix, [0, 0, 1]]) if len(matrix) == 2 else matrix).float()


def _ecc_pyramid(cv2: Any, fixed: Tensor, moving: Tensor, start: Tensor, model: str) -> Tensor | None:
    """On bytes: of numbers from 0 to 1 it finds half as many."""
    options = cv2.ECCParameters()
    options.motionType = cv2.MOTION_HOMOGRAPHY if model == "homography" else cv2.MOTION_AFFINE
    begin = start.numpy().astype(np.float32)[: 3 if model == "homography" else 2].copy()
    try:
        _, matrix = cv2.findTransformECCMultiScale(*_bytes(fixed, moving), begin, options)
    except cv2.error:
        return None
    return torch.from_numpy(np.vstack([matrix, [0, 0, 1]]) if len(matrix) == 2 else matrix).float()


def _bytes(fixed: Tensor, moving: Tensor) -> list[Any]:
    return [(part[0].clamp(0, 1) * 255).to(torch.uint8).numpy() for part in (fixed / GAIN, moving)]


def _sift(cv2: Any, fixed: Tensor, moving: Tensor) -> Tensor | None:
    (a, da), (b, db) = (cv2.SIFT_create(4000).detectAndCompute(side, None) for side in _bytes(fixed, moving))
    if da is None or db is None or min(len(da), len(db)) < 2:
        return None
    found = cv2.BFMatcher().knnMatch(da, db, 2)
    good = [pair[0] for pair in found if len(pair) == 2 and pair[0].distance < 0.8 * pair[1].distance]
    if len(good) < 4:
        return None
    places = [np.array([a[m.queryIdx].pt for m in good], np.float32), np.array([b[m.trainIdx].pt for m in good], np.float32)]
    matrix, _ = cv2.findHomography(*places, cv2.USAC_MAGSAC, 2.0, maxIters=5000, confidence=0.999)
    return None if matrix is None else torch.from_numpy(matrix).float()


def _l1_with_gain(warped: Tensor, fixed: Tensor, *, reduction: str) -> Tensor:
    """Absolute differences after the gain and offset that suit best."""
    a, b = warped - warped.mean(), fixed - fixed.mean()
    gain = (a * b).mean() / a.square().mean().clamp_min(1e-6)
    return F.l1_loss(gain * a, b, reduction=reduction)


def _kornia(kornia: Any, loss: Callable[..., Tensor], fixed: Tensor, moving: Tensor, start: Tensor, model: str) -> Tensor | None:
    """Its rates are the best of 5e-3 and 2e-2 for each model on pictures of 128 pixels, levels and steps are its own.

    It begins at the identity, so the picture is moved to the start.
    """
    size = (fixed.shape[-2], fixed.shape[-1])
    begun = warp(moving, start, size=size)
    registrator = kornia.geometry.ImageRegistrator(
        model if model == "homography" else "similarity",
        loss_fn=loss,
        lr=2e-2 if model == "similarity" else 5e-3,
        num_iterations=100,
        tolerance=1e-7,
    )
    found = registrator.register(begun[None], fixed[None]).detach()
    middle = torch.tensor([[2 / size[1], 0, 1 / size[1] - 1], [0, 2 / size[0], 1 / size[0] - 1], [0, 0, 1]])
    return start @ torch.linalg.inv(middle) @ found[0] @ middle


def _itk_registration(sitk: Any, image: Any, begin: Any, *, in_place: bool = True) -> Any:
    method = sitk.ImageRegistrationMethod()
    method.SetMetricAsCorrelation()  # knows gain and offset
    method.SetInterpolator(sitk.sitkLinear)
    method.SetShrinkFactorsPerLevel([8, 4, 2, 1] if min(image.GetSize()) >= 256 else [4, 2, 1])
    method.SetSmoothingSigmasPerLevel([4, 2, 1, 0] if min(image.GetSize()) >= 256 else [2, 1, 0])
    method.SetInitialTransform(begin, in_place)
    return method


def _itk_image(sitk: Any, picture: Tensor) -> Any:
    sitk.ProcessObject.SetGlobalDefaultNumberOfThreads(torch.get_num_threads())
    return sitk.GetImageFromArray(picture[0].numpy())


def _itk(sitk: Any, fixed: Tensor, moving: Tensor, start: Tensor, model: str) -> Tensor | None:
    """It has no homography: an affine map is looked for instead. Volumes begin at the identity."""
    size = tuple(fixed.shape[1:])
    a, b = _itk_image(sitk, fixed), _itk_image(sitk, moving if len(size) == 3 else warp(moving, start, size=(size[0], size[1])))
    kinds = {"similarity": sitk.Similarity2DTransform, "rigid volumes": sitk.Euler3DTransform}
    found = kinds.get(model, partial(sitk.AffineTransform, len(size)))()
    found.SetCenter([(side - 1) / 2 for side in reversed(size)])
    method = _itk_registration(sitk, a, found)
    method.SetOptimizerAsRegularStepGradientDescent(2.0, 1e-4, 300, gradientMagnitudeTolerance=1e-8)
    method.SetOptimizerScalesFromPhysicalShift()
    try:
        method.Execute(a, b)
    except RuntimeError:
        return None
    linear = torch.tensor(found.GetMatrix()).reshape(len(size), -1)
    centre = torch.tensor(found.GetCenter())
    offset = torch.tensor(found.GetTranslation()) + centre - linear @ centre
    matrix = torch.eye(len(size) + 1)
    matrix[:-1] = torch.cat((linear, offset[:, None]), 1)
    return start @ matrix


def _itk_bspline(sitk: Any, fixed: Tensor, moving: Tensor, _start: Tensor, _model: str) -> Tensor:
    a, b = _itk_image(sitk, fixed), _itk_image(sitk, moving)
    found = sitk.BSplineTransformInitializer(a, [max(1, round(side / _SPACING)) for side in a.GetSize()])
    method = _itk_registration(sitk, a, found)
    method.SetOptimizerAsLBFGSB(gradientConvergenceTolerance=1e-6, numberOfIterations=200, maximumNumberOfCorrections=5)
    method.Execute(a, b)
    field = sitk.TransformToDisplacementField(
        found, sitk.sitkVectorFloat64, a.GetSize(), a.GetOrigin(), a.GetSpacing(), a.GetDirection()
    )
    return torch.from_numpy(sitk.GetArrayFromImage(field)).movedim(-1, 0).float()
