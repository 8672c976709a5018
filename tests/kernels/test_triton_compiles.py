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
import json, sys
import torch
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver

class Device:
    def get_current_target(self): return GPUTarget("cuda", 90, 32)
    def get_current_device(self): return 0
    def get_current_stream(self, device=0): return 0

driver.set_active(Device())
from pellucid.kernels.warp.layout import parameter_count
from pellucid.kernels.warp.triton import launch

found = []

class Compiling:
    def __init__(self, kernel): self.kernel = kernel
    def __getitem__(self, grid):
        def compile_only(*args, **options):
            made = self.kernel.warmup(*args, grid=grid, **options)
            found.append((self.kernel.__name__, len(made.asm["cubin"]), made.asm["ttgir"].count("convert_layout")))
        return compile_only

for name in ("forward", "copy_labels", "gradients", "gather", "add_folded"):
    setattr(launch, name, Compiling(getattr(launch, name)))

def compile_all(channels=3, out_channels=3, rows=2, flags=0, taps=2, mode=0, window=False, dtype="float32", plane=(224, 224)):
    dtype = getattr(torch, dtype)
    work = torch.float64 if dtype == torch.float64 else torch.float32
    image = torch.zeros(2, channels, *plane, dtype=dtype)
    held = torch.zeros(2, 4, dtype=work) if window else None
    colors = torch.zeros(2, parameter_count(flags, channels, out_channels), dtype=work)
    args = (image, torch.zeros(2, 3 * rows, dtype=work), held, colors, list(plane), [taps, mode, flags, out_channels], -0.5)
    out = torch.zeros(2, out_channels, *plane, dtype=work)
    launch.forward_warp(out, args)
    if dtype.is_floating_point:
        launch.backward_warp(torch.zeros_like(out), args, [True, True, True])

for case in json.loads(sys.argv[1]):
    if case == "labels":
        image = torch.zeros(2, 1, 32, 30, dtype=torch.uint8)
        launch.copy(torch.zeros_like(image), image, torch.zeros(1, 9), None, torch.zeros(1, 1, dtype=torch.uint8), 2)
    else:
        compile_all(**case)
print(json.dumps(found))
"""

QUICK = [
    {"flags": 63},  # all colour stages
    {"taps": 4, "mode": 1, "window": True, "rows": 3, "channels": 1, "out_channels": 1, "plane": [9, 1]},
    "labels",
]
SLOW = [
    {},
    {"rows": 3, "flags": 3, "dtype": "bfloat16"},
    {"channels": 7, "out_channels": 7, "flags": 18, "mode": 3},
    {"channels": 4, "out_channels": 2, "flags": 3, "taps": 1, "mode": 4},
    {"dtype": "float64", "flags": 63, "rows": 3, "mode": 2, "window": True},
    {"dtype": "uint8", "flags": 3},
    {"dtype": "float16", "channels": 1, "out_channels": 1, "plane": [1, 7], "taps": 4},
]


@pytest.mark.parametrize("cases", [QUICK, pytest.param(SLOW, marks=pytest.mark.slow)], ids=["quick", "slow"])
def test_kernels_compile_for_sm_90(cases, tmp_path):
    if find_spec("triton") is None or platform.machine() != "x86_64":
        pytest.skip("needs Triton and its assembler")
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"} | {"TRITON_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", PROGRAM, json.dumps(cases)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    found = json.loads(run.stdout)
    assert {name for name, _, _ in found} >= ({"forward", "gradients", "gather"} if cases is QUICK else {"forward", "add_folded"})
    assert all(size > 1000 for _, size, _ in found)
    # A block of one pixel per thread in one layout: nothing crosses shared memory between a kernel's loads and its stores.
    assert not any(moves for _, _, moves in found), found
