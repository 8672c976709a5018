"""Stages on blocks of pixels, for Triton: each takes numbers, then tuples of channels, and returns such tuples.

Owns: what ``python -m pellucid.kernels.stages.printing`` printed of the references in ``../colour.py``.
Must not: be edited: change the reference, and print it again.
Read next: ``../blocks.py``.
"""

import triton
import triton.language as tl

from pellucid.kernels.lanes import greater, lesser, over

__all__ = ["clip", "clip_backward", "hue", "hue_backward"]


@triton.jit
def clip(source):  # type: ignore[no-untyped-def]
    """Target = the stage of the source."""
    x = source[0]
    v0 = lesser(greater(x, 0.0), 1.0)
    return (v0,)


@triton.jit
def clip_backward(source, grad):  # type: ignore[no-untyped-def]
    """Write the gradients of the source, and along those of each number."""
    x = source[0]
    grad0 = grad[0]
    v0 = lesser(greater(x, 0.0), 1.0)
    v1 = tl.where(x == v0, grad0, 0.0)
    return (v1,)


@triton.jit
def hue(hue_shift, source):  # type: ignore[no-untyped-def]
    """Target = the stage of the source."""
    red, green, blue = source
    v0 = greater(greater(red, green), blue)
    v1 = lesser(lesser(red, green), blue)
    v2 = v0 - v1
    v3 = v2 < 1.1754943508222875e-38
    v4 = red == v0
    v5 = green == v0
    v6 = 1.0 / tl.where(v3, 1.0, v2)
    v7 = (tl.where(v4, green, tl.where(v5, blue, red)) - tl.where(v4, blue, tl.where(v5, red, green))) * v6
    v8 = tl.where(v3, 0.0, tl.where(v4, 0.0, tl.where(v5, over(2.0, red), 4.0)) + v7) + (hue_shift * 6.0)
    v9 = tl.fma(over(-6.0, red), tl.floor(v8 * 0.16666666666666666), v8)
    v10 = v9 - 3.0
    v11 = 2.0 - tl.abs(v10)
    v12 = lesser(greater(v11, 0.0), 1.0)
    v13 = tl.fma(-v2, v12, v0)
    v14 = v9 - 2.0
    v15 = tl.abs(v14) - 1.0
    v16 = lesser(greater(v15, 0.0), 1.0)
    v17 = tl.fma(-v2, v16, v0)
    v18 = tl.where(v9 < 1.0, 6.0 + v9, v9) - 4.0
    v19 = tl.abs(v18) - 1.0
    v20 = lesser(greater(v19, 0.0), 1.0)
    v21 = tl.fma(-v2, v20, v0)
    return v13, v17, v21


@triton.jit
def hue_backward(hue_shift, source, grad):  # type: ignore[no-untyped-def]
    """Write the gradients of the source, and along those of each number."""
    red, green, blue = source
    grad0, grad1, grad2 = grad
    v0 = greater(greater(red, green), blue)
    v1 = lesser(lesser(red, green), blue)
    v2 = v0 - v1
    v3 = v2 < 1.1754943508222875e-38
    v4 = red == v0
    v5 = green == v0
    v6 = 1.0 / tl.where(v3, 1.0, v2)
    v7 = (tl.where(v4, green, tl.where(v5, blue, red)) - tl.where(v4, blue, tl.where(v5, red, green))) * v6
    v8 = tl.where(v3, 0.0, tl.where(v4, 0.0, tl.where(v5, over(2.0, red), 4.0)) + v7) + (hue_shift * 6.0)
    v9 = tl.fma(over(-6.0, red), tl.floor(v8 * 0.16666666666666666), v8)
    v10 = tl.where(v9 < 1.0, 6.0 + v9, v9) - 4.0
    v11 = tl.abs(v10) - 1.0
    v12 = lesser(greater(v11, 0.0), 1.0)
    v13 = -grad2
    v14 = v2 * v13
    v15 = v9 - 2.0
    v16 = tl.abs(v15) - 1.0
    v17 = lesser(greater(v16, 0.0), 1.0)
    v18 = -grad1
    v19 = v2 * v18
    v20 = v9 - 3.0
    v21 = 2.0 - tl.abs(v20)
    v22 = lesser(greater(v21, 0.0), 1.0)
    v23 = -grad0
    v24 = v2 * v23
    v25 = tl.where(v16 == v17, tl.where(v15 < 0.0, -v19, v19), 0.0) + tl.where(v21 == v22, tl.where(v20 < 0.0, v24, -v24), 0.0)
    v26 = tl.where(v11 == v12, tl.where(v10 < 0.0, -v14, v14), 0.0) + v25
    v27 = 6.0 * v26
    v28 = v6 * tl.where(v3, 0.0, v26)
    v29 = -v28
    v30 = red == v1
    v31 = tl.fma(v17, v18, tl.fma(v12, v13, tl.fma(v22, v23, tl.where(v3, 0.0, -(v7 * v28)))))
    v32 = green == v1
    v33 = blue == v1
    v34 = v30 & v33
    v35 = (-v31) * tl.where(v32 & v34, 0.3333333333333333, tl.where((v34 | (v30 & v32)) | (v32 & v33), over(0.5, red), 1.0))
    v36 = blue == v0
    v37 = v4 & v36
    v38 = tl.where(v5 & v37, 0.3333333333333333, tl.where((v37 | (v4 & v5)) | (v5 & v36), over(0.5, red), 1.0))
    v39 = (v31 + (grad0 + (grad1 + grad2))) * v38
    v40 = tl.fma(tl.where(v30, over(1.0, red), 0.0), v35, tl.where(v4, 0.0, tl.where(v5, v29, v28)))
    v41 = tl.fma(tl.where(v4, over(1.0, red), 0.0), v39, v40)
    v42 = tl.fma(tl.where(v32, over(1.0, red), 0.0), v35, tl.where(v4, v28, tl.where(v5, 0.0, v29)))
    v43 = tl.fma(tl.where(v5, over(1.0, red), 0.0), v39, v42)
    v44 = tl.fma(tl.where(v33, over(1.0, red), 0.0), v35, tl.where(v4, v29, tl.where(v5, v28, 0.0)))
    v45 = tl.fma(tl.where(v36, over(1.0, red), 0.0), v39, v44)
    return (v27,), (v41, v43, v45)
