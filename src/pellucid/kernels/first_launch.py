"""The first launch of a Triton kernel is checked against the reference on the same device, forward and backward.

Owns: what a variant is, the pictures it is checked on, what agreement means, and what is remembered of it.
Must not: know a primitive; it is handed one with its arguments.
Read next: ``explicit.py``, ``docs/adr/0079-first-launch.md``.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pellucid.core.files import written
from pellucid.core.tape import is_plain_eager
from pellucid.kernels.primitive import Primitive

__all__ = ["FOUND", "disagreement", "trusted"]

FOUND: dict[str, str] = {}
"""What the check of each variant found in this process: ``agrees``, or what is wrong."""
_SMALL = 16
"""Static integers below this distinguish variants; larger ones are sizes, and do not."""
_MARGIN, _STRAY = 8.0, 1e-3
"""Errors up to this multiple of the reference's own agree; this share of elements may exceed it, as rounding decides edges."""


def trusted(primitive: Primitive, static: tuple[Any, ...], tensors: Sequence[Tensor | None], needed: tuple[bool, ...]) -> bool:
    """Whether this variant of a kernel may compute; a new variant is checked first.

    Args:
        primitive: computed by Triton.
        static: its static arguments.
        tensors: its tensors.
        needed: which of them have a gradient.
    """
    image = tensors[0]
    if not is_plain_eager() or image is None or not image.numel() or not _wanted(image.device.type):
        return True
    variant = _variant(primitive, static, tensors, needed)
    if variant not in FOUND:
        FOUND[variant] = _remembered(variant, image.device) or ""
        if not FOUND[variant]:
            FOUND[variant] = "agrees"  # a primitive inside of the check is not checked again
            FOUND[variant] = disagreement(primitive, static, tensors, needed) or "agrees"
            _remember(variant, image.device, FOUND[variant])
        if FOUND[variant] != "agrees":
            warnings.warn(
                f"Triton's kernel for {primitive.name} does not agree with the reference on {_device(image.device)}, so the "
                f"reference computes: {FOUND[variant]}. Please send the output of `pellucid doctor`. Variant: {variant}",
                RuntimeWarning,
                stacklevel=2,
            )
    return FOUND[variant] == "agrees"


def disagreement(primitive: Primitive, static: tuple[Any, ...], tensors: Sequence[Tensor | None], needed: tuple[bool, ...]) -> str:
    """Describe what a kernel gets wrong on a picture of noise, ties, extremes and NaN; empty if it agrees."""
    with torch.no_grad():
        sample = [None if tensor is None else tensor[:1].detach().clone() for tensor in tensors]
        assert sample[0] is not None
        sample[0] = _picture(sample[0])
        try:
            out = primitive.forward(*sample, *static)
            again = primitive.forward(*sample, *static) if torch.are_deterministic_algorithms_enabled() else out
            grad = _noise(out) if out.is_floating_point() and any(needed) else None
            back = () if grad is None else primitive.gradients(static, needed, grad, *sample)
        except Exception as error:  # whatever a compiler or a driver raises
            return f"it raises {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    if not (torch.equal(out.nan_to_num(), again.nan_to_num()) and torch.equal(out.isnan(), again.isnan())):
        return "two equal runs differ"
    near, near_back = _referenced(primitive, static, sample, needed, grad)
    wide = [None if one is None else one.double() if one.is_floating_point() else one for one in sample]
    exact, exact_back = _referenced(primitive, static, wide, needed, None if grad is None else grad.double())
    fault = _differs("the result", out, near, exact)
    for i, (found, one, other) in enumerate(zip(back, near_back, exact_back, strict=False)):
        if found is not None and one is not None and other is not None:
            fault = fault or _differs(f"the gradient to argument {i}", found, one, other)
    return fault or _loses_nan(primitive, static, sample)


def _referenced(
    primitive: Primitive, static: tuple[Any, ...], sample: Sequence[Tensor | None], needed: tuple[bool, ...], grad: Tensor | None
) -> tuple[Tensor, tuple[Tensor | None, ...]]:
    with torch.enable_grad():
        pairs = list(zip(sample, needed, strict=True))
        leaves = [one.detach().requires_grad_() if need and one is not None else one for one, need in pairs]
        out = primitive.reference(*leaves, *static)
        if grad is None or not out.requires_grad:
            return out.detach(), (None,) * len(leaves)
        asked = {i: leaf for i, leaf in enumerate(leaves) if needed[i] and leaf is not None}
        found = torch.autograd.grad(out, list(asked.values()), grad.to(out.dtype), allow_unused=True)
    gradients: list[Tensor | None] = [None] * len(leaves)
    for i, one in zip(asked, found, strict=True):
        gradients[i] = one
    return out.detach(), tuple(gradients)


def _loses_nan(primitive: Primitive, static: tuple[Any, ...], sample: Sequence[Tensor | None]) -> str:
    """Describe errors with NaN: output pixels that lose one which matters, or that have one where the reference has none."""
    image = sample[0]
    if image is None or not image.is_floating_point():
        return ""

    def holed(value: float) -> Tensor:
        found = image.clone()
        found.flatten()[found.numel() // 3 :: max(found.numel() // 5, 1)] = value
        return found

    with torch.no_grad():
        out, most, low, high = (
            compute(holed(value), *sample[1:], *static)
            for compute, value in (
                (primitive.forward, torch.nan),
                (primitive.reference, torch.nan),
                (primitive.reference, 0.0),
                (primitive.reference, 1.0),
            )
        )
    wrong = (out.isnan() & ~most.isnan()) | (~out.isnan() & most.isnan() & (low != high))
    return f"NaN in the picture is wrong in {int(wrong.sum())} pixels" if wrong.sum() > max(1, _STRAY * out.numel()) else ""


def _differs(what: str, found: Tensor, near: Tensor, exact: Tensor) -> str:
    """Describe the largest error, if more elements than the allowed share are off by more than rounding explains; else empty."""
    level = 0.0 if found.is_floating_point() else 1.0  # bytes are rounded
    found, near, exact = (one.detach().double() for one in (found, near, exact))
    if found.shape != exact.shape:
        return f"{what} has shape {tuple(found.shape)}, not {tuple(exact.shape)}"
    error, own = (found - exact).abs(), (near - exact).abs()
    strays = max(int(_STRAY * error.numel()), 1)
    kept = own.flatten().sort().values[: max(own.numel() - strays, 1)].max()  # without the strays of the reference itself
    bound = torch.clamp(_MARGIN * kept + 1e-6 * exact.abs().nan_to_num().max(), min=level)
    beyond = ~(error <= bound)
    beyond &= ~(found.isnan() & exact.isnan())
    if int(beyond.sum()) <= (strays if error.numel() > 1 / _STRAY else 0):
        return ""
    return f"{what} is off by {float(error.nan_to_num(torch.inf).max()):.3g} where {float(bound):.3g} is allowed"


def _picture(like: Tensor) -> Tensor:
    """Noise; its right half in steps, so that values tie; its corner at both ends of the range."""
    noise = torch.rand(like.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64, device="cpu")
    width = like.shape[-1]
    noise[..., width // 2 :] = (noise[..., width // 2 :] * 8).round() / 8
    noise[..., :2, : width // 3] = (noise[..., :2, : width // 3]).round()
    levels = noise * 255 if like.dtype == torch.uint8 else noise
    return levels.to(like.dtype).to(like.device)


def _noise(like: Tensor) -> Tensor:
    noise = torch.randn(like.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64, device="cpu")
    return noise.to(like.dtype).to(like.device)


def _variant(primitive: Primitive, static: tuple[Any, ...], tensors: Sequence[Tensor | None], needed: tuple[bool, ...]) -> str:
    pairs = zip(tensors, needed, strict=True)
    kinds = ["none" if one is None else f"{one.dtype} {one.dim()}-d{' with gradient' if need else ''}" for one, need in pairs]
    return f"{primitive.name}({', '.join(kinds)}; {_kind(static)})".replace("torch.", "")


def _kind(value: Any) -> str:
    """A static argument without its sizes."""
    if isinstance(value, tuple | list):
        return f"({', '.join(map(_kind, value))})"
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value) if abs(value) < _SMALL else "n"
    return "x" if isinstance(value, float) else str(value)


def _wanted(device: str) -> bool:
    """Check on CUDA unless switched off, and in Triton's interpreter only if switched on."""
    switch = os.environ.get("PELLUCID_CHECK", "")
    return switch == "1" if device == "cpu" else device == "cuda" and switch != "0"


@functools.cache
def _kernels() -> str:
    """A hash of every file that a Triton kernel may be made of."""
    files = sorted(path for path in Path(__file__).parent.rglob("*.py") if "cpu" not in path.parts)
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]


@functools.cache
def _device(device: torch.device) -> str:
    import triton

    if device.type != "cuda":
        return f"Triton's interpreter, Triton {triton.__version__}"
    driver = getattr(torch._C, "_cuda_getDriverVersion", int)()
    return f"{torch.cuda.get_device_name(device)}, driver {driver}, CUDA {torch.version.cuda}, Triton {triton.__version__}"


def _file(device: torch.device) -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    place = hashlib.sha256(f"{_kernels()} {_device(device)}".encode()).hexdigest()[:16]
    return base / "pellucid" / f"first-launches-{place}.json"


def _remembered(variant: str, device: torch.device) -> str | None:
    """``agrees`` if any process found so on this device with these kernels; else None, as failures are checked again."""
    if device.type == "cpu":
        return None
    try:
        found = json.loads(_file(device).read_text()).get(variant)
    except (OSError, ValueError, AttributeError):
        return None
    return "agrees" if found == "agrees" else None


def _remember(variant: str, device: torch.device, found: str) -> None:
    if device.type == "cpu":
        return
    file = _file(device)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        known = json.loads(file.read_text()) if file.exists() else {}
        written(file, lambda draft: draft.write_text(json.dumps({**known, variant: found}, indent=1)))
    except (OSError, ValueError):
        pass  # a disk that is full or read-only costs the check again
