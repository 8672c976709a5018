"""Hsv over rows of pixels.

Owns: what ``python -m pellucid.kernels.stages.printing`` printed of ``pellucid.color.hsv.shift_hsv``.
Must not: be edited: change the reference, and print it again.
Read next: ``../colour.py``.
"""

import numpy as np

from pellucid.kernels.jit import fused, noinline, pick, sign, wide

__all__ = ["gated_hsv_backward", "hsv"]


@fused
def hsv(hue, saturation, value, source, target):  # type: ignore[no-untyped-def]
    """Target = the stage of the source."""
    noinline()
    wide()
    target_0, target_1, target_2 = target[0], target[1], target[2]
    source_0, source_1, source_2 = source[0], source[1], source[2]
    cast = source_0.dtype.type
    c1 = cast(1.0)
    cnan = cast(np.nan)
    c0 = cast(0.0)
    c1_17549em38 = cast(1.1754943508222875e-38)
    c2 = cast(2.0)
    c4 = cast(4.0)
    c6 = cast(6.0)
    k7 = hue * c6
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
        v11 = value + v10
        v12 = v11 < c0
        v13 = pick(v12, c0, v11)
        v14 = c1 < v13
        v15 = pick(v14, c1, v13)
        v16 = min(red, green)
        v17 = min(v16, blue)
        v18 = v9 - v17
        v19 = v18 < c1_17549em38
        v20 = v9 < c1_17549em38
        v21 = v19 | v20
        v22 = c1 / v9
        v23 = v18 * v22
        v24 = saturation + v23
        v25 = pick(v21, c0, v24)
        v26 = v25 < c0
        v27 = pick(v26, c0, v25)
        v28 = c1 < v27
        v29 = pick(v28, c1, v27)
        v30 = v15 * v29
        v31 = red == v9
        v32 = green == v9
        v33 = pick(v32, c2, c4)
        v34 = pick(v31, c0, v33)
        v35 = pick(v32, blue, red)
        v36 = pick(v31, green, v35)
        v37 = pick(v32, red, green)
        v38 = pick(v31, blue, v37)
        v39 = v36 - v38
        v40 = c1 / v18
        v41 = v39 * v40
        v42 = v34 + v41
        v43 = pick(v19, c0, v42)
        v44 = v43 + k7
        v45 = v44 * k8
        v46 = np.floor(v45)
        v47 = c6 * v46
        v48 = v44 - v47
        v49 = v48 - c3
        v50 = abs(v49)
        v51 = c2 - v50
        v52 = v51 < c0
        v53 = pick(v52, c0, v51)
        v54 = c1 < v53
        v55 = pick(v54, c1, v53)
        v56 = v30 * v55
        v57 = v15 - v56
        target_0[u] = v57
        v59 = v48 - c2
        v60 = abs(v59)
        v61 = v60 - c1
        v62 = v61 < c0
        v63 = pick(v62, c0, v61)
        v64 = c1 < v63
        v65 = pick(v64, c1, v63)
        v66 = v30 * v65
        v67 = v15 - v66
        target_1[u] = v67
        v69 = v48 < c1
        v70 = c6 + v48
        v71 = pick(v69, v70, v48)
        v72 = v71 - c4
        v73 = abs(v72)
        v74 = v73 - c1
        v75 = v74 < c0
        v76 = pick(v75, c0, v74)
        v77 = c1 < v76
        v78 = pick(v77, c1, v76)
        v79 = v30 * v78
        v80 = v15 - v79
        target_2[u] = v80


@fused
def gated_hsv_backward(hue, saturation, value, gate, source, grad, along, into):  # type: ignore[no-untyped-def]
    """Write the gradients of the source, and along those of each number."""
    noinline()
    wide()
    along_0, along_1, along_2, along_3 = along[0], along[1], along[2], along[3]
    into_0, into_1, into_2 = into[0], into[1], into[2]
    source_0, source_1, source_2 = source[0], source[1], source[2]
    grad_0, grad_1, grad_2 = grad[0], grad[1], grad[2]
    cast = source_0.dtype.type
    c6 = cast(6.0)
    cnan = cast(np.nan)
    c1_17549em38 = cast(1.1754943508222875e-38)
    c0 = cast(0.0)
    c2 = cast(2.0)
    c4 = cast(4.0)
    c1 = cast(1.0)
    k7 = hue * c6
    k8 = c1 / c6
    c3 = cast(3.0)
    k10 = c1 - gate
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
        v46 = value + v10
        v47 = v46 < c0
        v48 = pick(v47, c0, v46)
        v49 = c1 < v48
        v50 = pick(v49, c1, v48)
        v51 = v10 < c1_17549em38
        v52 = v14 | v51
        v53 = pick(v52, c1, v10)
        v54 = c1 / v53
        v55 = v13 * v54
        v56 = saturation + v55
        v57 = pick(v52, c0, v56)
        v58 = v57 < c0
        v59 = pick(v58, c0, v57)
        v60 = c1 < v59
        v61 = pick(v60, c1, v59)
        v62 = v50 * v61
        grad2 = grad_2[u]
        v64 = gate * grad2
        v65 = -v64
        v66 = v62 * v65
        v67 = pick(v45, v66, c0)
        v68 = sign(v37)
        v69 = v67 * v68
        v70 = pick(v40, v69, c0)
        v71 = v33 - c2
        v72 = v71 < c0
        v73 = c0 < v71
        v74 = v72 | v73
        v75 = abs(v71)
        v76 = v75 - c1
        v77 = c0 <= v76
        v78 = v76 <= c1
        v79 = v77 & v78
        grad1 = grad_1[u]
        v81 = gate * grad1
        v82 = -v81
        v83 = v62 * v82
        v84 = pick(v79, v83, c0)
        v85 = sign(v71)
        v86 = v84 * v85
        v87 = pick(v74, v86, c0)
        v88 = v33 - c3
        v89 = v88 < c0
        v90 = c0 < v88
        v91 = v89 | v90
        v92 = abs(v88)
        v93 = c2 - v92
        v94 = c0 <= v93
        v95 = v93 <= c1
        v96 = v94 & v95
        grad0 = grad_0[u]
        v98 = gate * grad0
        v99 = -v98
        v100 = v62 * v99
        v101 = pick(v96, v100, c0)
        v102 = -v101
        v103 = sign(v88)
        v104 = v102 * v103
        v105 = pick(v91, v104, c0)
        v106 = v87 + v105
        v107 = v70 + v106
        v108 = c6 * v107
        along_0[u] = v108
        v110 = c0 <= v57
        v111 = v57 <= c1
        v112 = v110 & v111
        v113 = v93 < c0
        v114 = pick(v113, c0, v93)
        v115 = c1 < v114
        v116 = pick(v115, c1, v114)
        v117 = v116 * v99
        v118 = v42 < c0
        v119 = pick(v118, c0, v42)
        v120 = c1 < v119
        v121 = pick(v120, c1, v119)
        v122 = v121 * v65
        v123 = v76 < c0
        v124 = pick(v123, c0, v76)
        v125 = c1 < v124
        v126 = pick(v125, c1, v124)
        v127 = v126 * v82
        v128 = v122 + v127
        v129 = v117 + v128
        v130 = v50 * v129
        v131 = pick(v112, v130, c0)
        v132 = pick(v52, c0, v131)
        along_1[u] = v132
        v134 = c0 <= v46
        v135 = v46 <= c1
        v136 = v134 & v135
        v137 = v61 * v129
        v138 = v64 + v81
        v139 = v98 + v138
        v140 = v137 + v139
        v141 = pick(v136, v140, c0)
        along_2[u] = v141
        v143 = v62 * v116
        v144 = v50 - v143
        v145 = grad0 * v144
        v146 = v62 * v126
        v147 = v50 - v146
        v148 = grad1 * v147
        v149 = v62 * v121
        v150 = v50 - v149
        v151 = grad2 * v150
        v152 = red * grad0
        v153 = blue * grad2
        v154 = green * grad1
        v155 = v153 + v154
        v156 = v152 + v155
        v157 = v151 - v156
        v158 = v148 + v157
        v159 = v145 + v158
        along_3[u] = v159
        v161 = pick(v14, c0, v107)
        v162 = v25 * v161
        v163 = -v162
        v164 = pick(v15, c0, v163)
        v165 = pick(v15, c0, v162)
        v166 = pick(v16, v164, v165)
        v167 = pick(v15, c1, c0)
        v168 = v54 * v132
        v169 = v26 * v162
        v170 = -v169
        v171 = pick(v14, c0, v170)
        v172 = v168 + v171
        v173 = v55 * v168
        v174 = -v173
        v175 = pick(v52, c0, v174)
        v176 = v141 + v175
        v177 = v172 + v176
        v178 = blue == v10
        v179 = pick(v178, c1, c0)
        v180 = pick(v16, c1, c0)
        v181 = v167 + v180
        v182 = v179 + v181
        v183 = c1 / v182
        v184 = v177 * v183
        v185 = v167 * v184
        v186 = grad0 * k10
        v187 = pick(v7, v12, cnan)
        v188 = red == v187
        v189 = pick(v188, c1, c0)
        v190 = -v172
        v191 = blue == v187
        v192 = pick(v191, c1, c0)
        v193 = green == v187
        v194 = pick(v193, c1, c0)
        v195 = v189 + v194
        v196 = v192 + v195
        v197 = c1 / v196
        v198 = v190 * v197
        v199 = v189 * v198
        v200 = v186 + v199
        v201 = v185 + v200
        v202 = v166 + v201
        into_0[u] = v202
        v204 = pick(v15, v162, c0)
        v205 = pick(v16, c0, v164)
        v206 = v180 * v184
        v207 = grad1 * k10
        v208 = v194 * v198
        v209 = v207 + v208
        v210 = v206 + v209
        v211 = v205 + v210
        v212 = v204 + v211
        into_1[u] = v212
        v214 = pick(v16, v165, c0)
        v215 = pick(v15, v163, c0)
        v216 = v179 * v184
        v217 = grad2 * k10
        v218 = v192 * v198
        v219 = v217 + v218
        v220 = v216 + v219
        v221 = v215 + v220
        v222 = v214 + v221
        into_2[u] = v222
