"""The primitives that transforms lower to: a fixed set of kinds of segments.

Owns: the segments' static descriptions (``specs.py``), their tensors (``values.py``) and how colour maps compose (``chain.py``).
Must not: know a transform, or touch pixels.
Read next: ``specs.py``.
"""

from pellucid.core.docstrings import introduce
from pellucid.segments.specs import (
    BlendSpec,
    CallSpec,
    CodecSpec,
    ColorSpec,
    ConvolveSpec,
    CurveSpec,
    LayerSpec,
    SegmentSpec,
    Warp3Spec,
    WarpSpec,
)
from pellucid.segments.values import (
    Call,
    Cells,
    Codec,
    Color,
    ColorSteps,
    Convolve,
    Curve,
    Filter,
    Grain,
    Hsv,
    Layers,
    Median,
    Mixture,
    Noise,
    Patch,
    Segment,
    Sharpen,
    Tone,
    Warp,
    Warp3,
)

__all__ = [
    "BlendSpec", "Call", "CallSpec", "Cells", "Codec", "CodecSpec", "Color", "ColorSpec", "ColorSteps", "Convolve",
    "ConvolveSpec", "Curve", "CurveSpec", "Filter", "Grain", "Hsv", "LayerSpec", "Layers", "Median", "Mixture", "Noise",
    "Patch", "Segment", "SegmentSpec", "Sharpen", "Tone", "Warp", "Warp3", "Warp3Spec", "WarpSpec",
]  # fmt: skip

introduce(*map(globals().get, __all__))
