"""The run-time checker behind the shape annotations, used when PELLUCID_CHECK_SHAPES is set."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
MODULES = [f"pellucid.{name}" for name in ("kernels", "geometry", "color", "random", "execute", "draw", "segments")]
