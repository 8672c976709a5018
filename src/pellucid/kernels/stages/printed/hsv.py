"""Hsv over rows of pixels.

Owns: the functions that ``python -m printer.printing`` printed from ``pellucid.color.hsv.shift_hsv``.
Must not: be edited: change the reference, and print it again.
Read next: ``../colour.py``.
"""

import numpy as np

from pellucid.kernels.jit import fused, pick, sign

__all__ = ["gated_hsv_backward", "hsv"]


@fused.noinline.wide
def hsv(hue, saturation, value, source, target):  # type: ignore[no-untyped-def]
    """Apply the stage to the source."""
    target_0, target_1, target_2, source_0, source_1 = target[0], target[1], target[2], source[0], source[1]
    source_2 = source[2]
    cast = source_0.dtype.type
    c1, cnan, c0, c1_17549em38, c2 = cast(1.0), cast(np.nan), cast(0.0), cast(1.1754943508222875e-38), cast(2.0)
    c4, c6, c3 = cast(4.0), cast(6.0), cast(3.0)
    k0, k1 = hue * c6, c1 / c6
    for u in range(len(source_0)):
        blue, red, green = source_2[u], source_0[u], source_1[u]
        v3 = max(max(red, green), blue)
        v4 = value + pick((blue == blue) & ((red == red) & (green == green)), v3, cnan)
        v5 = pick(v4 < c0, c0, v4)
        v6, v7 = pick(c1 < v5, c1, v5), v3 - min(min(red, green), blue)
        v8 = v7 < c1_17549em38
        v9 = pick(v8 | (v3 < c1_17549em38), c0, saturation + v7 * (c1 / v3))
        v10 = pick(v9 < c0, c0, v9)
        v11, v12, v13 = v6 * pick(c1 < v10, c1, v10), red == v3, green == v3
        v14 = (pick(v12, green, pick(v13, blue, red)) - pick(v12, blue, pick(v13, red, green))) * (c1 / v7)
        v15 = pick(v8, c0, pick(v12, c0, pick(v13, c2, c4)) + v14) + k0
        v16 = v15 - c6 * np.floor(v15 * k1)
        v17 = c2 - abs(v16 - c3)
        v18 = pick(v17 < c0, c0, v17)
        target_0[u] = v6 - v11 * pick(c1 < v18, c1, v18)
        v20 = abs(v16 - c2) - c1
        v21 = pick(v20 < c0, c0, v20)
        target_1[u] = v6 - v11 * pick(c1 < v21, c1, v21)
        v23 = abs(pick(v16 < c1, c6 + v16, v16) - c4) - c1
        v24 = pick(v23 < c0, c0, v23)
        target_2[u] = v6 - v11 * pick(c1 < v24, c1, v24)


@fused.noinline.wide
def gated_hsv_backward(hue, saturation, value, gate, source, grad, along, into):  # type: ignore[no-untyped-def]
    """Compute the gradients of the source, and in ``along`` those of each number."""
    along_0, along_1, along_2, along_3, into_0, into_1 = along[0], along[1], along[2], along[3], into[0], into[1]
    into_2, source_0, source_1, source_2, grad_0, grad_1 = into[2], source[0], source[1], source[2], grad[0], grad[1]
    grad_2 = grad[2]
    cast = source_0.dtype.type
    c6, cnan, c1_17549em38, c0, c2 = cast(6.0), cast(np.nan), cast(1.1754943508222875e-38), cast(0.0), cast(2.0)
    c4, c1, c3 = cast(4.0), cast(1.0), cast(3.0)
    k0, k1, k2 = hue * c6, c1 / c6, c1 - gate
    for u in range(len(source_0)):
        blue, red, green = source_2[u], source_0[u], source_1[u]
        v3 = (blue == blue) & ((red == red) & (green == green))
        v4, v5 = pick(v3, max(max(red, green), blue), cnan), min(min(red, green), blue)
        v6 = v4 - v5
        v7, v8, v9 = v6 < c1_17549em38, red == v4, green == v4
        v10 = c1 / pick(v7, c1, v6)
        v11 = (pick(v8, green, pick(v9, blue, red)) - pick(v8, blue, pick(v9, red, green))) * v10
        v12 = pick(v7, c0, pick(v8, c0, pick(v9, c2, c4)) + v11) + k0
        v13 = v12 - c6 * np.floor(v12 * k1)
        v14 = pick(v13 < c1, c6 + v13, v13) - c4
        v15, v16 = abs(v14) - c1, value + v4
        v17 = pick(v16 < c0, c0, v16)
        v18, v19 = pick(c1 < v17, c1, v17), v7 | (v4 < c1_17549em38)
        v20 = c1 / pick(v19, c1, v4)
        v21 = v6 * v20
        v22 = pick(v19, c0, saturation + v21)
        v23 = pick(v22 < c0, c0, v22)
        v24 = pick(c1 < v23, c1, v23)
        v25, grad2 = v18 * v24, grad_2[u]
        v27 = gate * grad2
        v28, v29 = -v27, v13 - c2
        v30, grad1 = abs(v29) - c1, grad_1[u]
        v32 = gate * grad1
        v33, v34 = -v32, v13 - c3
        v35, grad0 = c2 - abs(v34), grad_0[u]
        v37 = gate * grad0
        v38 = -v37
        v39 = pick((v34 < c0) | (c0 < v34), -pick((c0 <= v35) & (v35 <= c1), v25 * v38, c0) * sign(v34), c0)
        v40 = pick((v29 < c0) | (c0 < v29), pick((c0 <= v30) & (v30 <= c1), v25 * v33, c0) * sign(v29), c0) + v39
        v41 = pick((v14 < c0) | (c0 < v14), pick((c0 <= v15) & (v15 <= c1), v25 * v28, c0) * sign(v14), c0) + v40
        along_0[u] = c6 * v41
        v43 = pick(v35 < c0, c0, v35)
        v44, v45 = pick(c1 < v43, c1, v43), pick(v15 < c0, c0, v15)
        v46, v47 = pick(c1 < v45, c1, v45), pick(v30 < c0, c0, v30)
        v48 = pick(c1 < v47, c1, v47)
        v49 = v44 * v38 + (v46 * v28 + v48 * v33)
        v50 = pick(v19, c0, pick((c0 <= v22) & (v22 <= c1), v18 * v49, c0))
        along_1[u] = v50
        v52 = pick((c0 <= v16) & (v16 <= c1), v24 * v49 + (v37 + (v27 + v32)), c0)
        along_2[u] = v52
        v54 = grad1 * (v18 - v25 * v48) + (grad2 * (v18 - v25 * v46) - (red * grad0 + (blue * grad2 + green * grad1)))
        along_3[u] = grad0 * (v18 - v25 * v44) + v54
        v56 = v10 * pick(v7, c0, v41)
        v57 = -v56
        v58, v59, v60, v61 = pick(v8, c0, v57), pick(v8, c0, v56), pick(v8, c1, c0), v20 * v50
        v62, v63, v64 = v61 + pick(v7, c0, -(v11 * v56)), pick(blue == v4, c1, c0), pick(v9, c1, c0)
        v65, v66 = (v62 + (v52 + pick(v19, c0, -(v21 * v61)))) * (c1 / (v63 + (v60 + v64))), pick(v3, v5, cnan)
        v67, v68, v69 = pick(red == v66, c1, c0), pick(blue == v66, c1, c0), pick(green == v66, c1, c0)
        v70 = -v62 * (c1 / (v68 + (v67 + v69)))
        into_0[u] = pick(v9, v58, v59) + (v60 * v65 + (grad0 * k2 + v67 * v70))
        into_1[u] = pick(v8, v56, c0) + (pick(v9, c0, v58) + (v64 * v65 + (grad1 * k2 + v69 * v70)))
        into_2[u] = pick(v9, v59, c0) + (pick(v8, v57, c0) + (v63 * v65 + (grad2 * k2 + v68 * v70)))
