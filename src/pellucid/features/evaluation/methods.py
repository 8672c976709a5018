"""The methods that are measured: ways to turn a picture into points and descriptors.

Owns: the baselines (SIFT, RootSIFT, raw pixels, an untrained network), and running trained networks.
Must not: match or measure.
Read next: ``protocol.py``.

All descriptors describe the same keypoints, OpenCV's SIFT, so that rows differ only by the descriptor; only :func:`joint_method`
has its own keypoints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from pellucid.errors import invalid
from pellucid.features.detect import detect
from pellucid.features.evaluation.protocol import Described, Protocol
from pellucid.features.frames_cv2 import frames_from_cv2
from pellucid.features.hardnet import HardNet
from pellucid.features.sift import as_bytes
from pellucid.functional.patches import extract_patches
from pellucid.nn import PatchNorm

__all__ = ["BASELINES", "Method", "SiftView", "baselines", "describe_patches", "detect_view", "joint_method", "network_method"]

_CHUNK: Final = 512


@dataclass(frozen=True)
class SiftView:
    """A picture with its SIFT keypoints.

    Args:
        image: (1, H, W) in [0, 1].
        pixels: the same for OpenCV, (H, W) uint8.
        keypoints: ``cv2.KeyPoint`` objects, the strongest first.
        frames: (N, 2, 3), covering ``factor`` keypoint sizes.
    """

    image: Float[Tensor, "1 h w"]
    pixels: Any
    keypoints: tuple[Any, ...]
    frames: Float[Tensor, "n 2 3"]


Method = Callable[[SiftView], Described]


def detect_view(image: Float[Tensor, "1 h w"], protocol: Protocol) -> SiftView:
    """Detect SIFT keypoints in a picture: at most ``protocol.keypoints``, by OpenCV with its default options."""
    cv2: Any = import_module("cv2")
    pixels = as_bytes(image)
    ordered = sorted(cv2.SIFT_create(protocol.keypoints).detect(pixels, None), key=lambda point: -point.response)
    keypoints = tuple(ordered[: protocol.keypoints])
    return SiftView(image, pixels, keypoints, frames_from_cv2(keypoints, factor=protocol.factor))


def describe_patches(
    network: Callable[[Tensor], Tensor], image: Float[Tensor, "1 h w"], frames: Float[Tensor, "n 2 3"]
) -> Float[Tensor, "n d"]:
    """Describe frames of one picture by a network that takes (N, 1, 32, 32), a few hundred at a time, without gradients."""
    with torch.no_grad():
        patches = extract_patches(image[None], frames[None], 32)[0]  # n 1 32 32
        rows = [network(chunk) for chunk in patches.split(_CHUNK)]
        return torch.cat(rows) if rows else torch.zeros(0, 128)


def network_method(network: nn.Module) -> Method:
    """Return the method that describes SIFT keypoints by a network in evaluation mode."""
    network = network.eval()
    return lambda view: _described(view, describe_patches(network, view.image, view.frames))


def joint_method(detector: nn.Module, descriptor: nn.Module, protocol: Protocol, *, scale: float = 16.0) -> Method:
    """Return the method that describes a detector's own keypoints, at most ``protocol.keypoints``, by a network, without SIFT.

    Args:
        detector: returns a response map.
        descriptor: takes (N, 1, 32, 32).
        protocol: gives the number of keypoints.
        scale: half the side of the patches in pixels, for a detector without a scale map.
    """
    detector, descriptor = detector.eval(), descriptor.eval()

    def method(view: SiftView) -> Described:
        with torch.no_grad():
            detections = detect(detector, view.image[None], protocol.keypoints, scale=scale, border=8)
        kept = detections.keypoints.valid[0]
        descriptors = describe_patches(descriptor, view.image, detections.frames[0][kept])
        points, frames = detections.keypoints.points[0][kept], detections.frames[0][kept]
        return Described(points, descriptors, (view.image.shape[-2], view.image.shape[-1]), frames)

    return method


def _described(view: SiftView, descriptors: Tensor) -> Described:
    points = torch.tensor([point.pt for point in view.keypoints], dtype=torch.float32).reshape(-1, 2)
    return Described(points, descriptors, (view.image.shape[-2], view.image.shape[-1]), view.frames)


def _sift_histograms(view: SiftView) -> Float[Tensor, "n 128"]:
    cv2: Any = import_module("cv2")
    if not view.keypoints:
        return torch.zeros(0, 128)
    kept, values = cv2.SIFT_create().compute(view.pixels, list(view.keypoints))
    if len(kept) != len(view.keypoints):
        raise RuntimeError("OpenCV left out keypoints it had found itself")
    return torch.from_numpy(values)


def _flattened(patches: Float[Tensor, "n 1 h w"]) -> Float[Tensor, "n d"]:
    return F.normalize(PatchNorm()(patches).flatten(1), dim=1)


BASELINES: Final[Mapping[str, Method]] = {
    "rootsift": lambda view: _described(view, F.normalize(_sift_histograms(view), p=1.0, dim=1).sqrt()),
    "sift": lambda view: _described(view, F.normalize(_sift_histograms(view), dim=1)),
    "raw": lambda view: _described(view, describe_patches(_flattened, view.image, view.frames)),
    "random": lambda view: network_method(HardNet(width=0.5, seed=0))(view),
}
"""RootSIFT, SIFT, 32x32 pixels standardised, and a HardNet with its initial weights."""


def baselines(names: str) -> dict[str, Method]:
    """Return the baselines named in a comma-separated list, which may be empty.

    Errors:
        ``InvalidArgument`` for a name that is not in :data:`BASELINES`.
    """
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    for name in wanted:
        if name not in BASELINES:
            raise invalid("baselines", expected=f"names among {', '.join(BASELINES)}, comma-separated", got=repr(name))
    return {name: BASELINES[name] for name in wanted}
