"""Hue over rows of pixels.

Owns: what ``python -m pellucid.kernels.stages.printing`` printed of ``pellucid.color.hsv.shift_hue``.
Must not: be edited: change the reference, and print it again.
Read next: ``../colour.py``.
"""

import numpy as np

from pellucid.kernels.jit import fused, noinline, pick, sign, wide

__all__ = ["hue_backward"]


@fused
def hue_backward(hue_shift, source, grad, along):  # type: ignore[no-untyped-def]
    """Replace the gradients of the result by those of the source, and along those of each number."""
    noinline()
    wide()
    along_0 = along[0]
    grad_0, grad_1, grad_2 = grad[0], grad[1], grad[2]
    source_0, source_1, source_2 = source[0], source[1], source[2]
    cast = source_0.dtype.type
    c6 = cast(6.0)
    cnan = cast(np.nan)
    c1_17549em38 = cast(1.1754943508222875e-38)
    c0 = cast(0.0)
    c2 = cast(2.0)
    c4 = cast(4.0)
    c1 = cast(1.0)
    k7 = hue_shift * c6
    k8 = c1 / c6
    c3 = cast(3.0)
    for u in range(len(source_0)):
        blue = source_2[u]
        v1 = blue == blue
        red = source_0[u]
        v3 = red == red
        green = source_1[u]
        v5 = green == green
        v6 = v3 & v5
        v7 = v1 & v6
        v8 = max(red, green)
        v9 = max(v8, blue)
        v10 = pick(v7, v9, cnan)
        v11 = min(red, green)
        v12 = min(v11, blue)
        v13 = v10 - v12
        v14 = v13 < c1_17549em38
        v15 = red == v10
        v16 = green == v10
        v17 = pick(v16, c2, c4)
        v18 = pick(v15, c0, v17)
        v19 = pick(v16, blue, red)
        v20 = pick(v15, green, v19)
        v21 = pick(v16, red, green)
        v22 = pick(v15, blue, v21)
        v23 = v20 - v22
        v24 = pick(v14, c1, v13)
        v25 = c1 / v24
        v26 = v23 * v25
        v27 = v18 + v26
        v28 = pick(v14, c0, v27)
        v29 = v28 + k7
        v30 = v29 * k8
        v31 = np.floor(v30)
        v32 = c6 * v31
        v33 = v29 - v32
        v34 = v33 < c1
        v35 = c6 + v33
        v36 = pick(v34, v35, v33)
        v37 = v36 - c4
        v38 = v37 < c0
        v39 = c0 < v37
        v40 = v38 | v39
        v41 = abs(v37)
        v42 = v41 - c1
        v43 = c0 <= v42
        v44 = v42 <= c1
        v45 = v43 & v44
        grad2 = grad_2[u]
        v47 = -grad2
        v48 = v13 * v47
        v49 = pick(v45, v48, c0)
        v50 = sign(v37)
        v51 = v49 * v50
        v52 = pick(v40, v51, c0)
        v53 = v33 - c2
        v54 = v53 < c0
        v55 = c0 < v53
        v56 = v54 | v55
        v57 = abs(v53)
        v58 = v57 - c1
        v59 = c0 <= v58
        v60 = v58 <= c1
        v61 = v59 & v60
        grad1 = grad_1[u]
        v63 = -grad1
        v64 = v13 * v63
        v65 = pick(v61, v64, c0)
        v66 = sign(v53)
        v67 = v65 * v66
        v68 = pick(v56, v67, c0)
        v69 = v33 - c3
        v70 = v69 < c0
        v71 = c0 < v69
        v72 = v70 | v71
        v73 = abs(v69)
        v74 = c2 - v73
        v75 = c0 <= v74
        v76 = v74 <= c1
        v77 = v75 & v76
        grad0 = grad_0[u]
        v79 = -grad0
        v80 = v13 * v79
        v81 = pick(v77, v80, c0)
        v82 = -v81
        v83 = sign(v69)
        v84 = v82 * v83
        v85 = pick(v72, v84, c0)
        v86 = v68 + v85
        v87 = v52 + v86
        v88 = c6 * v87
        along_0[u] = v88
        v90 = pick(v14, c0, v87)
        v91 = v25 * v90
        v92 = -v91
        v93 = pick(v15, c0, v92)
        v94 = pick(v15, c0, v91)
        v95 = pick(v16, v93, v94)
        v96 = pick(v7, v12, cnan)
        v97 = red == v96
        v98 = pick(v97, c1, c0)
        v99 = v26 * v91
        v100 = -v99
        v101 = pick(v14, c0, v100)
        v102 = v74 < c0
        v103 = pick(v102, c0, v74)
        v104 = c1 < v103
        v105 = pick(v104, c1, v103)
        v106 = v105 * v79
        v107 = v42 < c0
        v108 = pick(v107, c0, v42)
        v109 = c1 < v108
        v110 = pick(v109, c1, v108)
        v111 = v110 * v47
        v112 = v58 < c0
        v113 = pick(v112, c0, v58)
        v114 = c1 < v113
        v115 = pick(v114, c1, v113)
        v116 = v115 * v63
        v117 = v111 + v116
        v118 = v106 + v117
        v119 = v101 + v118
        v120 = -v119
        v121 = blue == v96
        v122 = pick(v121, c1, c0)
        v123 = green == v96
        v124 = pick(v123, c1, c0)
        v125 = v98 + v124
        v126 = v122 + v125
        v127 = c1 / v126
        v128 = v120 * v127
        v129 = v98 * v128
        v130 = pick(v15, c1, c0)
        v131 = grad1 + grad2
        v132 = grad0 + v131
        v133 = v119 + v132
        v134 = blue == v10
        v135 = pick(v134, c1, c0)
        v136 = pick(v16, c1, c0)
        v137 = v130 + v136
        v138 = v135 + v137
        v139 = c1 / v138
        v140 = v133 * v139
        v141 = v130 * v140
        v142 = v129 + v141
        v143 = v95 + v142
        grad_0[u] = v143
        v145 = v124 * v128
        v146 = v136 * v140
        v147 = v145 + v146
        v148 = pick(v16, c0, v93)
        v149 = pick(v15, v91, c0)
        v150 = v148 + v149
        v151 = v147 + v150
        grad_1[u] = v151
        v153 = v122 * v128
        v154 = v135 * v140
        v155 = v153 + v154
        v156 = pick(v15, v92, c0)
        v157 = pick(v16, v94, c0)
        v158 = v156 + v157
        v159 = v155 + v158
        grad_2[u] = v159
