"""A small multi-scale keypoint network: it maps derivatives of an image pyramid to a response map.

Owns: the architecture, its initial weights, and the optional orientation and scale maps.
Must not: pick keypoints (``keypoints.py``) or compute losses (``detector_step.py``).
Read next: ``detect.py``, ``detector_step.py``.
"""

from typing import NamedTuple, final

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from pellucid.errors import invalid
from pellucid.features.derivatives import check_grey, gaussian_derivatives

__all__ = ["DetectorMaps", "KeypointNet", "derivative_features"]

_FLOOR = 3e-4
"""Root mean square, of images in [0, 1], below which a channel counts as flat."""

FEATURES = 10


class DetectorMaps(NamedTuple):
    """The network's maps, for every pixel.

    Example:
        >>> from pellucid.features import KeypointNet
        >>> KeypointNet()(torch.rand(1, 1, 32, 32)).response.shape
        torch.Size([1, 1, 32, 32])
    """

    response: Tensor
    """(B, 1, H, W): keypoints are its maxima."""
    direction: Tensor | None
    """(B, 2, H, W): a vector (x, y) along the keypoint's orientation; its length means nothing."""
    log_scale: Tensor | None
    """(B, 1, H, W): log2 of the keypoint's scale over the network's base scale, between -2 and 2."""


def derivative_features(image: Float[Tensor, "b 1 h w"], *, sigma: float = 1.0) -> Float[Tensor, "b 10 h w"]:
    """Return first and second derivatives and their products, each of root mean square 1 over its image.

    The channels are dx, dy, dxx, dxy, dyy, dx^2, dy^2, dx dy, dxx dyy and dxy^2: the structure tensor and the determinant of the
    Hessian are linear in them. Dividing by the root mean square makes them the same under any gain and offset of the image.

    Gradient:
        image: exact, through the root mean squares too. Finite on flat images, where all channels are 0.
    """
    orders = [(0, 1), (1, 0), (0, 2), (1, 1), (2, 0)]
    first_and_second = gaussian_derivatives(image, sigma, orders, truncate=3.0)[:, 0]  # b 5 h w
    dx, dy, dxx, dxy, dyy = first_and_second.split(1, dim=1)
    products = torch.cat((dx * dx, dy * dy, dx * dy, dxx * dyy, dxy * dxy), dim=1)
    return torch.cat((_unit_rms(first_and_second, _FLOOR), _unit_rms(products, _FLOOR**2)), dim=1)


def _unit_rms(x: Float[Tensor, "b c h w"], floor: float) -> Float[Tensor, "b c h w"]:
    return x * torch.rsqrt(x.square().mean((-2, -1), keepdim=True) + floor**2)


@final
class KeypointNet(nn.Module):
    """Score every pixel as a keypoint, from derivatives at several scales.

    Each level of an image pyramid (half the size of the one before) has ten derivative channels; two 3x3 convolutions, shared by
    all levels, add learned channels. One 3x3 convolution per level maps both to that level's response; the responses of all
    levels, enlarged, are summed.

    Args:
        levels: number of levels of the pyramid.
        channels: channels of the two shared convolutions.
        sigma: smoothing inside the derivatives, in pixels of each level.
        orientation: also give a direction for every pixel.
        scale: also give a scale for every pixel.
        seed: decides the initial weights. torch's global generator is left alone.

    Gradient:
        image, weights: exact. Second order: yes. Deterministic: yes on CPU.
    Errors:
        InvalidArgument for images that are not (B, 1, H, W) or too small for the pyramid; InvalidType for integers.
    Source:
        Barroso-Laguna et al., "Key.Net: keypoint detection by handcrafted and learned CNN filters", ICCV 2019, for handcrafted and
        learned filters side by side; the layout here is smaller.

    Example:
        >>> net = KeypointNet()
        >>> net(torch.rand(2, 1, 64, 48)).response.shape, sum(p.numel() for p in net.parameters())
        (torch.Size([2, 1, 64, 48]), 3105)
    """

    def __init__(
        self,
        *,
        levels: int = 3,
        channels: tuple[int, int] = (16, 8),
        sigma: float = 1.0,
        orientation: bool = False,
        scale: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if levels < 1 or min(channels) < 1:
            raise invalid("levels, channels", expected="at least 1", got=f"{levels}, {channels}")
        self.levels, self.sigma = levels, sigma
        first, second = channels
        self.body = nn.Sequential(_conv(FEATURES, first), nn.ReLU(), _conv(first, second), nn.ReLU())
        self.heads = nn.ModuleList(_conv(FEATURES + second, 1) for _ in range(levels))
        self.direction = _conv(FEATURES + second, 2) if orientation else None
        self.log_scale = _conv(FEATURES + second, 1) if scale else None
        generator = torch.Generator().manual_seed(seed)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, generator=generator)
                nn.init.zeros_(module.bias)  # type: ignore[arg-type]

    def forward(self, image: Float[Tensor, "b 1 h w"]) -> DetectorMaps:
        """Return the maps of each grey image."""
        check_grey("image", image)
        height, width = image.shape[-2:]
        if min(height, width) < 2 ** (self.levels - 1):
            raise invalid("image", expected=f"at least {2 ** (self.levels - 1)} pixels a side", got=tuple(image.shape))
        response, direction, log_scale = None, None, None
        for level, head in enumerate(self.heads):
            size = (-(-height // 2**level), -(-width // 2**level))
            small = image if level == 0 else _resized(image, size, "bilinear")
            derivatives = derivative_features(small, sigma=self.sigma)  # b 10 h_l w_l
            features = torch.cat((derivatives, self.body(derivatives)), dim=1)
            part = _resized(head(features), (height, width), "bicubic")
            response = part if response is None else response + part
            if level == min(1, self.levels - 1):  # coarse enough for an orientation, and fine enough to locate it
                if self.direction is not None:
                    direction = _resized(self.direction(features), (height, width), "bilinear")
                if self.log_scale is not None:
                    log_scale = 2 * torch.tanh(_resized(self.log_scale(features), (height, width), "bilinear"))
        assert response is not None
        return DetectorMaps(response, direction, log_scale)


def _conv(before: int, after: int) -> nn.Conv2d:
    return nn.utils.skip_init(nn.Conv2d, before, after, kernel_size=3, padding=1, padding_mode="replicate", device="cpu")


def _resized(x: Tensor, size: tuple[int, int], mode: str) -> Tensor:
    shrinks = size[0] < x.shape[-2] or size[1] < x.shape[-1]
    return x if size == x.shape[-2:] else F.interpolate(x, size, mode=mode, align_corners=False, antialias=shrinks)
