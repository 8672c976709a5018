"""What the laws are tried on: matrices about the middle of a small image, and how often.

Owns: hypothesis strategies and settings.
Must not: assert.
Read next: ``test_warp_laws.py``.
"""

import math

import torch
from hypothesis import settings
from hypothesis import strategies as st

__all__ = ["law", "matrices"]

law = settings(max_examples=25, deadline=None, derandomize=True)

angles = st.floats(-180, 180)
scales = st.floats(0.4, 2.5)
shifts = st.floats(-6, 6)
tilts = st.floats(-0.02, 0.02)


@st.composite
def matrices(draw, projective=True):
    """A rotation, scale, shear and shift about the middle, with a slight tilt."""
    angle, scale, shear = math.radians(draw(angles)), draw(scales), draw(st.floats(-0.5, 0.5))
    c, s = scale * math.cos(angle), scale * math.sin(angle)
    middle = torch.tensor([[1.0, 0, -5], [0, 1, -4], [0, 0, 1]], dtype=torch.float64)
    tilt = [draw(tilts), draw(tilts)] if projective else [0.0, 0.0]
    linear = torch.tensor([[c, -s + shear, draw(shifts)], [s, c, draw(shifts)], [*tilt, 1.0]], dtype=torch.float64)
    return middle.inverse() @ linear @ middle
