"""Volumes resampled through an affine map in space and a cubic B-spline field.

Owns: `volume`, which picks an implementation.
Must not: compute anything itself.
Read next: ``reference.py``.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from pellucid.kernels.explicit import AVAILABLE, Primitive, implementation, run
from pellucid.kernels.volume import cpu, reference

__all__ = ["AVAILABLE", "volume"]


def volume(
    image: Float[Tensor, "b c d h w"],
    src_from_dst: Float[Tensor, "b_or_1 3 4"],
    control: Float[Tensor, "b_or_1 3 gd gh gw"] | None = None,
    *,
    size: tuple[int, int, int],
    window: tuple[Float[Tensor, "b_or_1 3"], tuple[int, int, int]] | None = None,
    border: bool = False,
    nearest: bool = False,
    impl: str = "auto",
) -> Float[Tensor, "b c d2 h2 w2"]:
    """See :func:`pellucid.kernels.volume.reference.volume`; ``impl`` says who computes it. The field is A times ``control``: a
    spline of displacements in voxels of the output, before the map. ``window`` is (start, lattice), if they are not (0, size);
    no gradient goes to it.

    The compiled one's second derivative goes through the reference; forward mode raises. Bit for bit the same for any number of
    threads: forwards they share slices, backwards each sample has one.
    """
    linear = src_from_dst[:, :, :3]
    field = None if control is None else (linear @ control.flatten(2).to(linear.dtype)).unflatten(2, control.shape[2:])
    start, lattice = (None, size) if window is None else (window[0].detach(), window[1])
    static = (list(size), list(lattice), border, nearest)
    if implementation(impl, image.device) == "reference":
        return reference.volume(image, src_from_dst, field, start, *static)
    return run(_VOLUME, static, image, src_from_dst, field, start)


_VOLUME = Primitive("volume", reference.volume, *cpu.VOLUME)
