"""The smallest Triton kernel, to learn whether Triton works on this machine's device before a call depends on it.

Owns: `launchable`, which needs all that can be missing: a driver, a device that Triton supports, an assembler, a C compiler.
Must not: be imported without Triton; ``__init__.py`` checks that first.
Read next: ``__init__.py``.
"""

import triton

__all__ = ["launchable"]


@triton.jit
def _nothing(count):  # type: ignore[no-untyped-def]
    """Do nothing."""


def launchable() -> None:
    """Compile and load a kernel and make its launcher; raise what Triton raises. Nothing runs on the device, so this is safe."""
    _nothing.warmup(1, grid=(1,)).run  # noqa: B018 - the property makes the launcher, which takes a C compiler
