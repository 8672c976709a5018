"""Offsets are counted in 64 bits wherever one within a sample may leave 32: what the launchers say, on tensors without memory."""

import pytest
import torch

from pellucid.kernels.stages.chain import FIRST_MIX, MATRIX, parameter_count

pytest.importorskip("triton", reason="Triton is not installed")


def index(channels, plane, out_channels=None, size=None, table=None, strides=None):
    """The integer of a call's offsets."""
    from pellucid.kernels.warp.triton import launch

    out_channels, size = out_channels or channels, list(size or plane)
    flags = FIRST_MIX | MATRIX if out_channels != channels else 0
    image = torch.empty((1, channels, *plane), device="meta")
    image = torch.empty_strided(image.shape, strides, device="meta") if strides else image
    params = torch.empty(1, parameter_count(flags, channels, out_channels), device="meta")
    mapping = torch.empty(1, 9 if table else 6, device="meta")
    weights = torch.empty(1, 7, size[0] * size[1], device="meta") if table else None
    shown = torch.empty(1, out_channels, *size, device="meta")
    options = [2, 0, flags, out_channels]
    call = launch._Call(shown, image, mapping, None, params, None, None, weights, size, options, -0.5)
    return call.fixed["INDEX"].name


@pytest.mark.parametrize(
    ("given", "wide"),
    [
        ({"channels": 3, "plane": (224, 224)}, False),
        ({"channels": 24, "plane": (8192, 8192)}, False),
        ({"channels": 33, "plane": (8192, 8192)}, True),
        ({"channels": 1, "plane": (2049, 8), "strides": (0, 0, 2**20, 1)}, True),
        ({"channels": 3, "plane": (64, 64), "size": (32768, 32768)}, True),
        # Scratch memory: the source's gradient has the picture's channels and the result's size; sums before the mix the reverse.
        ({"channels": 33, "plane": (64, 64), "out_channels": 3, "size": (8192, 8192)}, True),
        ({"channels": 3, "plane": (8192, 8192), "out_channels": 33, "size": (64, 64)}, True),
        # A homography's shapes are seven planes.
        ({"channels": 1, "plane": (64, 64), "size": (17000, 17000), "table": True}, False),
        ({"channels": 1, "plane": (64, 64), "size": (17600, 17600), "table": True}, True),
    ],
)
def test_offsets_fit_their_integer(given, wide):
    assert index(**given) == ("int64" if wide else "int32")
