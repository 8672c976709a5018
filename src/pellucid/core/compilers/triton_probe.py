"""The smallest Triton kernel, to learn whether Triton works on this machine's device before a call depends on it.

Owns: `launchable`, which goes through all that can be missing: a driver, a device that Triton knows, an assembler, a C compiler.
Must not: be imported where Triton is not; ``__init__.py`` asks.
Read next: ``__init__.py``.
"""

import triton

__all__ = ["launchable"]


@triton.jit
def _nothing(count):  # type: ignore[no-untyped-def]
    """Do nothing."""


def launchable() -> None:
    """Compile, load and make ready to launch; raises what Triton raises. Nothing runs on the device: this is safe anywhere."""
    _nothing.warmup(1, grid=(1,)).run  # noqa: B018 - the property makes the launcher, which takes a C compiler
