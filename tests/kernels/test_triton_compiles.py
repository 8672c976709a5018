"""The Triton kernels compile to machine code for a GPU, which needs no GPU: what the interpreter accepts, the compiler may not."""

import json
import os
import platform
import subprocess
import sys
from importlib.util import find_spec

import pytest

# Everything that is compiled is compiled as a launch would: same specialisation of strides and sizes, same options.
PROGRAM = """
import json, pathlib, re, subprocess, sys, tempfile
import torch, triton
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver

CUDA = sys.argv[2].isdigit()
if not CUDA:
    torch.version.hip = "6.0"  # as in torch's builds for AMD; the launchers ask for it when they are imported

class Device:
    def get_current_target(self): return GPUTarget("cuda", int(sys.argv[2]), 32) if CUDA else GPUTarget("hip", sys.argv[2], 64)
    def get_current_device(self): return 0
    def get_current_stream(self, device=0): return 0

driver.set_active(Device())
from pellucid.kernels.stages.chain import GROUND, parameter_count
from pellucid.kernels.warp.layout import BENDS, CANVASES, LINK
from pellucid.kernels.warp.triton import launch
from pellucid.kernels.blend.triton import kernels as blending
from pellucid.kernels.color.triton import kernels as colors
from pellucid.kernels.convolve.triton import kernels as filters
from pellucid.random import philox_triton

found = []
READER = pathlib.Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"

def stack(cubin):
    "Bytes of a thread's registers that had to go to memory."
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        shown = subprocess.run([READER, "--dump-resource-usage", file.name], capture_output=True, text=True, check=True).stdout
    return int(re.search(r"STACK:(\\d+)", shown).group(1))

class Compiling:
    def __init__(self, kernel): self.kernel = kernel
    def __getitem__(self, grid):
        def compile_only(*args, **options):
            made = self.kernel.warmup(*args, grid=grid, **options)
            asm, name = made.asm, ("noise " if ".blend." in self.kernel.__module__ else "") + self.kernel.__name__
            code, text = (asm["cubin"], asm["ptx"]) if CUDA else (asm["hsaco"], asm["amdgcn"])
            rounding = sorted(set(re.findall(r"cvt\\.rn\\.b?f16\\S*", text)) | set(re.findall("0f4B400000", text)))
            spilled = stack(code) if CUDA else int(re.search(r"\\.vgpr_spill_count: +(\\d+)", text).group(1))
            found.append((name, len(code), asm["ttgir"].count("convert_layout"), spilled, rounding))
        return compile_only

for name in ("forward", "copy_labels", "gradients", "gather", "add_folded", "add_weighted", "add_tabled", "bounds", "spread",
             "collect", "retrace", "add_knots"):
    setattr(launch, name, Compiling(getattr(launch, name)))
for module, names in ((philox_triton, ["_draw"]), (blending, ["forward", "backward"]),
                      (colors, ["forward", "backward", "luma_sums"]), (filters, ["filtered", "adjoint", "tap_sums"])):
    for name in names:
        setattr(module, name, Compiling(getattr(module, name)))

def compile_all(
    channels=3, out_channels=3, rows=2, flags=0, taps=2, mode=0, window=False, field=False, dtype="float32", out=None,
    plane=(224, 224), kinds=(), spans=False, weights=None,
):
    dtype = getattr(torch, dtype)
    work = torch.float64 if dtype == torch.float64 else torch.float32
    image = torch.zeros(2, channels, *plane, dtype=dtype)
    held = torch.zeros(2, 4, dtype=work) if window or spans else None
    grounds = len(kinds) * out_channels if flags & GROUND else 0
    colors = torch.zeros(2, parameter_count(flags, channels, out_channels) + grounds, dtype=work)
    shifts = torch.zeros(2, 2, *plane, dtype=work) if field else None
    links = torch.zeros(2, len(kinds), LINK, dtype=work) if kinds else None
    numbers = [taps, mode, flags, out_channels, *(CANVASES[kind] for kind in kinds)]
    mapping = torch.zeros(2, 3 * rows, dtype=work)
    table = weights and torch.zeros(2, *weights, *([plane[0] * plane[1]] if len(weights) == 1 else []), dtype=work)
    table = torch.zeros(1, 2, 6, 5, dtype=work) if set(kinds) & set(BENDS) else table
    args = (image, mapping, held, colors, shifts, links, table, list(plane), numbers, -0.5, spans)
    out = torch.zeros(2, out_channels, *plane, dtype=getattr(torch, out) if out else work)
    moves = True
    launch.forward_warp(out, args)
    if dtype.is_floating_point and out.dtype.is_floating_point:
        launch.backward_warp(torch.zeros_like(out), args, [True, moves, True, field and moves, moves])

for case in json.loads(sys.argv[1]):
    if case == "labels":
        image = torch.zeros(2, 1, 32, 30, dtype=torch.uint8)
        fill = torch.zeros(1, 1, dtype=torch.uint8)
        launch.copy(torch.zeros_like(image), image, torch.zeros(1, 9), None, fill, None, 2)
        launch.copy(torch.zeros_like(image), image, torch.zeros(1, 6), None, fill, torch.zeros(1, 2, 32, 30), 0)
    elif case == "words":
        one, many = torch.ones((), dtype=torch.int64), torch.arange(40)
        philox_triton.draw_words(one, one, many, many[:3], None)
        philox_triton.draw_words(one, one, many, many[:3], many[:3])
    elif case == "noise":
        image, rows, words = torch.zeros(2, 3, 32, 30), torch.zeros(2), torch.zeros(2, 2, dtype=torch.int64)
        blending.add_noise(image, image, words, rows, rows, clip=True)
        blending.fill_field(image, words)
        blending.noise_gradients(image, image, words, rows, rows, clip=True, to_image=image, sums=True)
    elif case == "jitter":
        image, order, factors = torch.zeros(2, 3, 32, 30), torch.zeros(2, 4, dtype=torch.int64), torch.zeros(2, 4)
        colors.steps(image, image, order, factors, 15)
        colors.gradients(image, image, order, factors, 15, image)
    elif case == "blur":
        image, kernel = torch.zeros(2, 3, 32, 30), torch.zeros(2, 7)
        for across in (True, False):
            filters.along(image, kernel, across=across)
            filters.back_along(image, kernel, across=across)
            filters.sums_along(image, image, 7, across=across)
    else:
        compile_all(**case)
print(json.dumps(found))
"""

FEW = [
    {"flags": 63},  # all colour stages
    {"taps": 4, "mode": 1, "window": True, "rows": 3, "channels": 1, "out_channels": 1, "plane": [9, 1]},
    {"field": True, "dtype": "bfloat16", "out": "bfloat16"},
    {"dtype": "uint8", "out": "uint8", "flags": 66},
    {"kinds": ["bend"], "flags": 63},
    {"kinds": ["zeros", "bend", "hard"], "flags": 259, "rows": 3},
    {"spans": True, "dtype": "bfloat16", "out": "bfloat16", "flags": 55},
    {"weights": [9, 6, 9, 16], "flags": 63},
    "labels",
    "words",
    "noise",
    "blur",
    "jitter",
]
MORE = [
    {},
    {"rows": 3, "flags": 3, "dtype": "bfloat16"},
    {"channels": 7, "out_channels": 7, "flags": 18, "mode": 3},
    {"channels": 4, "out_channels": 2, "flags": 3, "taps": 1, "mode": 4},
    {"dtype": "float64", "flags": 63, "rows": 3, "mode": 2, "window": True},
    {"dtype": "uint8", "out": "uint8"},
    {"dtype": "uint8", "flags": 3},
    {"dtype": "uint8", "flags": 3, "out": "bfloat16"},
    {"field": True, "rows": 3, "flags": 63, "dtype": "bfloat16", "out": "float16"},
    {"field": True, "taps": 4, "mode": 2, "window": True, "channels": 6, "out_channels": 6, "flags": 2},
    {"field": True, "taps": 1, "dtype": "float64", "out": "float32"},
    {"weights": [9, 6, 9, 16], "mode": 3, "taps": 4, "dtype": "uint8", "out": "bfloat16"},
    {"weights": [7], "rows": 3, "dtype": "bfloat16", "field": True},
    {"spans": True, "taps": 4, "mode": 1, "rows": 3, "dtype": "float64"},
    {"spans": True, "dtype": "uint8", "flags": 3, "out": "bfloat16"},
    {"kinds": ["kink"], "rows": 3, "taps": 4, "mode": 1, "dtype": "bfloat16"},
    {"kinds": ["reflection", "border"], "channels": 6, "out_channels": 6, "flags": 2, "mode": 1, "out": "bfloat16"},
    {"kinds": ["bend", "zeros", "zeros"], "flags": 319, "dtype": "float64"},
    {"dtype": "float16", "channels": 1, "out_channels": 1, "plane": [1, 7], "taps": 4},
]


OTHERS = [
    {"flags": 63},
    {"kinds": ["bend", "zeros"], "flags": 259},
    {"rows": 3, "dtype": "bfloat16", "out": "bfloat16", "mode": 1},
    "labels",
    "noise",
    "blur",
    "jitter",
]


def compiled(cases, target, tmp_path):
    """(name, bytes, conversions between layouts, bytes that are spilled, how it rounds) of each kernel."""
    if find_spec("triton") is None or platform.machine() != "x86_64":
        pytest.skip("needs Triton and its assembler")
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"} | {"TRITON_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", PROGRAM, json.dumps(cases), target]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    return json.loads(run.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["75", "80", "86", "89", "120", "gfx942"])
def test_kernels_compile_for_other_devices(target, tmp_path):
    found = compiled(OTHERS, target, tmp_path)
    assert {"forward", "gradients", "gather", "add_folded", "bounds", "copy_labels", "retrace", "add_knots"} <= {
        name for name, *_ in found
    }
    known = {("backward", 8)} if target == "80" else set()  # the step-by-step jitter, 8 bytes of stack
    assert {(name, spilled) for name, *_, spilled, _ in found if spilled} == known


@pytest.mark.slow
@pytest.mark.parametrize("cases", [FEW, MORE], ids=["few", "more"])
def test_kernels_compile_for_sm_90(cases, tmp_path):
    found = compiled(cases, "90", tmp_path)
    warp = {"forward", "gradients", "gather", "add_folded", "bounds", "spread", "collect", "add_weighted", "retrace", "add_knots"}
    others = {
        "add_tabled",
        "copy_labels",
        "_draw",
        "backward",
        "filtered",
        "adjoint",
        "tap_sums",
        "luma_sums",
        "noise forward",
        "noise backward",
    }
    assert {name for name, *_ in found} == (warp | others if cases is FEW else warp)
    assert all(size > 1000 for _, size, *_ in found)
    # A block of one pixel per thread in one layout: nothing crosses shared memory between a kernel's loads and its stores.
    # But for noise: a thread draws four numbers at once, which lie side by side.
    assert not any(moves for name, _, moves, *_ in found if not name.startswith("noise")), found
    # No register goes to memory, except where the sums of all stages are kept in float64.
    assert {name for name, *_, stack, _ in found if stack} <= (set() if cases is FEW else {"gradients"}), found
    # The interpreter cuts off bfloat16, so that the tests round by themselves; the compiler must round as they do.
    if cases is FEW:
        written = {tuple(rounding) for name, *_, rounding in found if name == "forward"}
        assert written == {(), ("0f4B400000",), ("cvt.rn.bf16.f32",)}
        assert ["cvt.rn.bf16.f32"] in [rounding for name, *_, rounding in found if name == "gather"]
