"""What the Triton kernels compile to: how much, how often, and that NaN survives; by the compiler, which needs no GPU."""

import json
import os
import platform
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = """
import json, sys
sys.path.insert(0, sys.argv[1])
import gpu_counts, torch, triton
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver
"""
COUNT = "print(json.dumps(gpu_counts.table(90)))"
SEEN = """
seen = {}
driver.set_active(gpu_counts.Target(90))
gpu_counts.compile_instead(lambda name, kernel, options: seen.setdefault(name, set()).add(kernel.hash))
generator = torch.Generator().manual_seed(0)
sizes = torch.randint(33, 400, (297, 2), generator=generator).tolist() + [[33, 400], [64, 64], [128, 256]]
"""
PIPELINE = """
for number, size in enumerate(sizes):
    gpu_counts.run(batch=1 + number % 5, plane=size, flags=63, apart=number % 7 == 6)
plain = {name: len(hashes) for name, hashes in seen.items()}
for number, size in enumerate(sizes):
    gpu_counts.run(batch=1 + number % 5, plane=size, flags=63, channels_last=number % 2 == 0, expanded=number % 3 == 0)
print(json.dumps([plain, {name: len(hashes) for name, hashes in seen.items()}]))
"""
OTHERS = """
for number, size in enumerate(sizes[:60] + sizes[-3:]):
    given = {"plane": size, "expanded": number % 3 == 0}
    gpu_counts.run(batch=1 + number % 5, flags=3, **given)
    gpu_counts.run(batch=2, mode=1, channels_last=number % 2 == 0, **given)
    gpu_counts.run(batch=1 + number % 4, flags=3, spans=True, **given)
    gpu_counts.run(batch=1 + number % 3, weights=(9, 6 + number % 3, 9, 16), needs=(True, False, False), **given)
print(json.dumps({name: len(hashes) for name, hashes in seen.items()}))
"""
NAN = """
driver.set_active(gpu_counts.Target(int(sys.argv[2])))
found = {}
gpu_counts.compile_instead(lambda name, kernel, options: found.setdefault(name, kernel.asm["ptx"]))
gpu_counts.run(flags=4)  # the hue alone
print(json.dumps({name: [code.count(word) for word in ("max.f32", "max.NaN.f32", "min.NaN.f32")] for name, code in found.items()}))
"""


@pytest.fixture
def compiled(tmp_path):
    """What a program that compiles for a device that is not there prints, as JSON."""
    if find_spec("triton") is None or platform.machine() != "x86_64":
        pytest.skip("needs Triton and its assembler")
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"} | {"TRITON_CACHE_DIR": str(tmp_path)}

    def run(code, *arguments):
        command = [sys.executable, "-c", PROGRAM + code, str(ROOT / "benchmarks"), *map(str, arguments)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        return json.loads(done.stdout)

    return run


MOST = {
    ("affine, float32", "forward"): (120, 40),
    ("affine, float32", "gradients"): (175, 64),
    ("affine, float32", "gather"): (228, 64),
    ("affine, bfloat16 to bfloat16", "forward"): (135, 40),
    ("uint8 HWC to bfloat16, normalised", "forward"): (190, 40),
    ("flagship", "forward"): (250, 48),
    ("flagship", "gradients"): (520, 116),
    ("flagship, to the image alone", "gradients"): (365, 80),
    ("flagship, to parameters alone", "gradients"): (450, 116),
    ("projective", "gather"): (640, 64),
    ("border", "add_folded"): (380, 40),
    ("displacement field", "gather"): (65, 40),
    ("crop and resize, flagship colours, to the image alone", "forward"): (325, 64),
    ("crop and resize, flagship colours, to the image alone", "collect"): (205, 64),
    ("crop and resize, with parameters", "gradients"): (720, 128),
    ("antialiased affine, to the image alone", "forward"): (155, 48),
    ("antialiased affine, to the image alone", "add_weighted"): (245, 40),
    ("antialiased affine, to its map", "gradients"): (245, 64),
    ("antialiased affine, to its map", "add_tabled"): (320, 40),
    ("antialiased homography, to the image alone", "forward"): (400, 64),
    ("antialiased homography, to its map", "gradients"): (590, 96),
    ("cubic spline of 7 x 7 knots, to the image alone", "forward"): (505, 48),
    ("cubic spline of 7 x 7 knots, to maps and knots", "retrace"): (735, 80),
    ("cubic spline of 7 x 7 knots, to maps and knots", "add_knots"): (215, 80),
    ("affine, canvas, affine, with parameters", "forward"): (350, 48),
    ("affine, canvas, affine, with parameters", "retrace"): (245, 64),
    ("affine, canvas, cubic spline, with parameters", "gradients"): (835, 80),
}
"""(instructions per pixel, registers) of some kernels; what they are is in docs/cuda.md."""
TO_THE_IMAGE = {
    "affine, float32": (("gather",), 3.0, 4.1),
    "flagship, to the image alone": (("gradients", "gather"), 3.4, 3.9),
}
"""Of some cases: what runs backward, and how many forwards both take at most, turned by up to 19 degrees and by 45."""
BUSY = "flagship", "flagship, to the image alone", "flagship, to parameters alone", "affine, float32"
"""Cases whose sums are added up by enough warps to keep a scheduler busy, as far as registers let it hold them."""


@pytest.mark.slow
def test_kernels_stay_as_small_as_they_are(compiled):
    rows = {(row["case"], row["kernel"]): row for row in compiled(COUNT)}
    for name, (instructions, registers) in MOST.items():
        assert rows[name]["per_pixel"] <= instructions, name
        assert rows[name]["registers"] <= registers, name
    assert not any(row["double"] for row in rows.values())  # 1/32 or 1/64 of the speed on most devices
    assert all(row["stack"] <= (8 if row["case"] == "flagship" else 0) for row in rows.values())  # bytes: two registers
    for case, (backward, *most) in TO_THE_IMAGE.items():
        forward = rows[case, "forward"]["per_pixel"]
        for kind, times in zip(("per_pixel", "turned"), most, strict=True):
            assert forward + sum(rows[case, name][kind] for name in backward) <= times * forward, (case, kind)
    for case in BUSY:
        assert rows[case, "gradients"]["needed"] <= rows[case, "gradients"]["warps"], case


@pytest.mark.slow
def test_a_pipeline_is_compiled_once_for_all_sizes_and_batches(compiled):
    """300 sizes and 5 batch sizes, also of images that begin between words: the four kernels of the flagship, once. Where channels
    lie side by side two of them are compiled anew: six variants. An expanded gradient makes none, as the gather takes another.
    """
    plain, seen = compiled(SEEN + PIPELINE)
    assert plain == {"forward": 1, "gradients": 1, "bounds": 1, "gather": 1}
    assert seen == {"forward": 2, "gradients": 2, "bounds": 1, "gather": 1}


@pytest.mark.slow
def test_sizes_batches_and_layouts_are_compiled_once(compiled):
    """One variant of each kernel for filled, border, crops and antialiased; for border another for channels side by side."""
    seen = compiled(SEEN + OTHERS)
    assert {"forward", "gradients", "gather", "spread", "collect", "add_weighted", "add_folded", "bounds"} <= set(seen)
    assert max(seen.values()) <= 6
    assert seen["forward"] <= 5
    assert max(seen[name] for name in ("spread", "collect", "add_weighted", "bounds")) == 1


@pytest.mark.slow
@pytest.mark.parametrize("capability", [80, 90])
def test_nan_survives_the_hue_on_a_device(compiled, capability):
    """The interpreter's maximum gives NaN in any case; the machine's does where the code says so."""
    found = compiled(NAN, capability)
    for name in ("forward", "gradients"):
        assert found[name][1] >= 2, found
        assert found[name][2] >= 2, found
