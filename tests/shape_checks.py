"""The run-time checker behind the shape annotations, used when PELLUCID_CHECK_SHAPES is set."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
# Compiled kernels are left out: what Numba compiles must not be wrapped.
PACKAGES = ("geometry", "color", "execute", "draw", "segments")
RANDOM = tuple(f"random.{name}" for name in ("distributions", "fields", "key", "learnable", "philox"))
COLORS = tuple(f"color.{name}" for name in ("mean", "mix", "reference"))
REFERENCES = (
    "blend.reference",
    *COLORS,
    "convolve.reference",
    "curve",
    "patches.reference",
    "resize.reference",
    "warp.reference",
    "warp.prefilter",
)
MODULES = [f"pellucid.{name}" for name in (*PACKAGES, *RANDOM, *(f"kernels.{name}" for name in REFERENCES))]
