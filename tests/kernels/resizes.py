"""Random calls of the resize kernel, for tests that compare implementations."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import strategies as st

from .warps import Call, draw_colors


@st.composite
def resizes(draw: Any) -> Call:
    """Up and down, mirrored, windows inside and over the edge; with every stage of colour, in every layout."""
    torch.manual_seed(draw(st.integers(0, 2**31)))
    channels, batch = draw(st.sampled_from((1, 2, 3, 3, 4, 5))), draw(st.integers(1, 3))
    height, width = draw(st.integers(1, 23)), draw(st.integers(1, 23))
    size = (draw(st.integers(1, 19)), draw(st.integers(1, 19)))
    tensors = {"image": torch.rand(batch, channels, height, width, dtype=torch.float64)}
    rows = draw(st.sampled_from((1, batch)))
    corners = torch.rand(rows, 2, 2, dtype=torch.float64).sort(1).values.flatten(1)
    lengths = torch.tensor([width, height, width, height], dtype=torch.float64)
    kind = draw(st.sampled_from(("whole", "inside", "over the edge", "whole pixels")))
    if kind == "whole":
        window = torch.tensor([[0.0, 0.0, width - 1.0, height - 1.0]], dtype=torch.float64)
    else:
        window = corners * lengths - 0.5 if kind != "over the edge" else (corners * 2 - 0.5) * lengths
        window = window.round() if kind == "whole pixels" else window
    tensors["window"] = window
    scale = torch.rand(rows, 2, dtype=torch.float64) * 2.5 + 0.05
    scale = scale * (torch.randint(0, 2, scale.shape) * 2 - 1) * torch.tensor([width / size[1], height / size[0]])
    src_from_dst = torch.zeros(rows, 3, 3, dtype=torch.float64)
    src_from_dst[:, 0, 0], src_from_dst[:, 1, 1], src_from_dst[:, 2, 2] = scale[:, 0], scale[:, 1], 1.0
    src_from_dst[:, :2, 2] = torch.rand(rows, 2, dtype=torch.float64) * torch.tensor([width, height])
    tensors["src_from_dst"] = src_from_dst[:, : draw(st.sampled_from((2, 3)))]
    stages = draw_colors(draw, tensors, channels, batch)
    options = {"size": size, "filled": draw(st.booleans()), "interpolation": draw(st.sampled_from(("bilinear", "bicubic")))}
    options["antialias"] = draw(st.booleans())
    layout = draw(st.sampled_from(("contiguous", "channels_last", "transposed", "expanded", "cropped")))
    return Call(tensors, options, stages, layout)
