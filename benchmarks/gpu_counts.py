"""What the GPU kernels cost, without a GPU: instructions per pixel and registers, by compiling alone.

    python benchmarks/gpu_counts.py                       # sm_90
    python benchmarks/gpu_counts.py --capability 80
    python benchmarks/gpu_counts.py --docs docs/cuda.md   # also writes the table there
    python benchmarks/gpu_counts.py --each 4 --only flagship   # what another setting of the launchers would give
    python benchmarks/gpu_counts.py --json counts.json

A model, not a measurement. Instructions are those of the machine code, counted once outside of loops and once inside, and shared
among the pixels of a thread (a program of sums goes through its loop for each of its tiles, so these share the outside). The
gather is counted as it is executed where nothing is scaled and the map turns by up to 19 degrees: its squares of 2 x 2 pixels are
then read by no more than 4 x 4 output pixels; by 5 x 5 for other turns, in the next column. Other loops are counted once.

Warps there are those that a scheduler holds by their registers; needed are the cycles that a lone warp takes for the longest loop
(or for all), each instruction in its turn, over its instructions: with as many, one of them can always go on. Loads of pixels take
600 cycles in it, of a sample's numbers 40, as those lie in the nearest cache.
"""

import argparse
import json
import re
import subprocess
import tempfile
from pathlib import Path

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver

from pellucid.kernels.blend.triton import kernels as blending
from pellucid.kernels.color.triton import kernels as colors
from pellucid.kernels.convolve.triton import kernels as filters
from pellucid.kernels.stages.chain import GROUND, parameter_count
from pellucid.kernels.warp.layout import CANVASES, LINK
from pellucid.kernels.warp.triton import launch as warps
from pellucid_bench.report import insert

TOOL = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
CASES = {
    "affine, float32": {},
    "affine, bfloat16 to bfloat16": {"dtype": torch.bfloat16, "out": torch.bfloat16},
    "uint8 HWC to bfloat16, normalised": {"dtype": torch.uint8, "out": torch.bfloat16, "flags": 3, "channels_last": True},
    "flagship": {"flags": 63},
    "flagship, to the image alone": {"flags": 63, "needs": (True, False, False)},
    "flagship, to parameters alone": {"flags": 63, "needs": (False, True, True)},
    "projective": {"rows": 3},
    "border": {"mode": 1},
    "displacement field": {"field": True},
    "crop and resize, flagship colours, to the image alone": {"flags": 63, "spans": True, "needs": (True, False, False)},
    "crop and resize, with parameters": {"flags": 3, "spans": True},
    "antialiased affine, to the image alone": {"weights": (9, 6, 9, 16), "needs": (True, False, False)},
    "antialiased affine, to its map": {"weights": (9, 6, 9, 16), "needs": (False, True, False)},
    "antialiased homography, to the image alone": {"rows": 3, "weights": (7,), "needs": (True, False, False)},
    "antialiased homography, to its map": {"rows": 3, "weights": (7,), "needs": (False, True, False)},
    "cubic spline of 7 x 7 knots, to the image alone": {"kinds": ("bend",), "needs": (True, False, False)},
    "cubic spline of 7 x 7 knots, to maps and knots": {"kinds": ("bend",), "needs": (False, True, False)},
    "affine, canvas, affine, with parameters": {"kinds": ("zeros",), "flags": 259},
    "affine, canvas, cubic spline, with parameters": {"kinds": ("zeros", "bend"), "flags": 259},
}
"""Warps of 3 x 224 x 224; flags are those of ``pellucid.kernels.warp.layout``, needs those of image, map and colours."""

KERNELS = (
    *("forward", "copy_labels", "gradients", "gather", "add_folded", "add_weighted", "add_tabled", "bounds", "spread"),
    *("collect", "retrace", "add_knots"),
)
"""What the warp's launchers launch."""


class Target:
    """A device that is not there, for which Triton compiles."""

    def __init__(self, capability):
        self.target = GPUTarget("cuda", capability, 32)

    def get_current_target(self):
        return self.target

    def get_current_device(self):
        return 0

    def get_current_stream(self, device=0):  # noqa: ARG002
        return 0


class Compiling:
    """Stands for a kernel: compiles what a launch would run, and hands it on."""

    def __init__(self, kernel, made, **changed):
        self.kernel, self.made, self.changed = kernel, made, changed

    def __getitem__(self, grid):
        def compile_only(*arguments, **options):
            self.made(self.kernel.__name__, self.kernel.warmup(*arguments, grid=grid, **(options | self.changed)), options)

        return compile_only


def compile_instead(made, **changed):
    """Let the launchers compile, with options ``changed``; ``made`` gets each kernel's name, what it became, and its options."""
    names = {
        warps: KERNELS,
        blending: ("forward", "backward"),
        colors: ("forward", "backward", "luma_sums"),
        filters: ("filtered", "adjoint", "tap_sums"),
    }
    for module, kernels in names.items():
        for name in kernels:
            setattr(module, name, Compiling(getattr(module, name), made, **changed))


def run(
    channels=3, rows=2, flags=0, taps=2, mode=0, field=False, dtype=torch.float32, out=torch.float32, channels_last=False,
    batch=2, plane=(224, 224), needs=(True, True, True), kinds=(), spans=False, weights=None, expanded=False, apart=False,
):  # fmt: skip
    """One warp forward and, where it has one, backward; of a gradient that is one number, or an image that begins between words."""
    image = torch.zeros(batch + apart, channels, *plane, dtype=dtype)
    image = image.contiguous(memory_format=torch.channels_last) if channels_last else image
    image = image.flatten()[1:][: image[0].numel() * batch].view(batch, channels, *plane) if apart else image
    grounds = len(kinds) * channels if flags & GROUND else 0
    params = torch.zeros(batch, parameter_count(flags, channels, channels) + grounds)
    shifts = torch.zeros(batch, 2, *plane) if field else None
    links = torch.zeros(batch, len(kinds), LINK) if kinds else None
    options = [taps, mode, flags, channels, *(CANVASES[kind] for kind in kinds)]
    window = torch.zeros(batch, 4) if spans else None
    table = weights and torch.zeros(batch, *weights, *([plane[0] * plane[1]] if len(weights) == 1 else []))
    table = torch.zeros(batch, 2, 9, 9) if "bend" in kinds else table
    arguments = (image, torch.zeros(batch, 3 * rows), window, params, shifts, links, table, list(plane), options, -0.5, spans)
    result = torch.zeros(batch, channels, *plane, dtype=out)
    warps.forward_warp(result, arguments)
    if dtype.is_floating_point:
        upstream = torch.zeros((), dtype=out).expand(result.shape) if expanded else torch.zeros_like(result)
        warps.backward_warp(upstream, arguments, [*needs, field, needs[1]])


def machine_code(cubin):
    """(address, instruction) lines, registers and bytes of stack."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        code, usage = (
            subprocess.run([TOOL, option, file.name], capture_output=True, text=True, check=True).stdout
            for option in ("-sass", "--dump-resource-usage")
        )
    lines = re.findall(r"^\s+/\*([0-9a-f]{4,})\*/\s+(\S[^;]*);", code, re.MULTILINE)
    registers, stack = (int(re.search(rf"{what}:(\d+)", usage).group(1)) for what in ("REG", "STACK"))
    return [(int(address, 16), text) for address, text in lines if not text.startswith("NOP")], registers, stack


def counts(cubin):
    """What the machine code of one kernel consists of."""
    lines, registers, stack = machine_code(cubin)
    loops = []
    for address, text in lines:
        target = re.search(r"\bBRA\b.*?(0x[0-9a-f]+)", text)
        if target and int(target.group(1), 16) < address:
            loops.append((int(target.group(1), 16), address))
    inside = sum(any(low <= address <= high for low, high in loops) for address, _ in lines)
    # Of every loop that lies in no other: its instructions, and those of the loops in it.
    length = {loop: sum(loop[0] <= address <= loop[1] for address, _ in lines) for loop in loops}
    within = {loop: [one for one in loops if one != loop and loop[0] <= one[0] and one[1] <= loop[1]] for loop in loops}
    nested = {one for found in within.values() for one in found}
    own = [[length[one] for one in (loop, *within[loop])] for loop in sorted(within) if loop not in nested]
    double = sum(bool(re.search(r"\b(DADD|DMUL|DFMA|DSETP)\b|F64", text)) for _, text in lines)
    found = {"outside": len(lines) - inside, "inside": inside, "double": double, "registers": registers, "stack": stack}
    # Of the longest loop, else of all: (cycles that a warp alone would take) / (instructions).
    low, high = max(loops, key=lambda loop: loop[1] - loop[0], default=(0, lines[-1][0]))
    body = [line for line in lines if low <= line[0] <= high]
    return found | {"loops": own, "needed": round(alone(body) / len(body), 1)}


def executed(found, side):
    """Instructions that a thread of the gather executes whose squares are read by ``side`` x ``side`` output pixels.

    Its loops are one over the rows of four columns and one over further columns, with their rows in it; only the second where the
    map's steps differ from place to place.
    """
    *wide, (rest, *inner) = found["loops"]
    columns = side - 4 * len(wide)
    rows = sum(inner)
    return found["outside"] + side * sum(map(sum, wide)) + columns * (rest - rows + side * rows)


LATENCY = {"ATOMG": 600, "LDC": 30, "S2R": 25, "I2F": 25, "F2I": 25, "MUFU": 25, "REDUX": 25}
"""Cycles until a result can be used, at the slow end of what is published of sm_90; 5 of what is not named."""
FAR, NEAR = 600, 40
"""The same of loads: of pixels, and of a sample's numbers, which lie in the nearest cache."""


def alone(lines):
    """Cycles in which a lone warp issues these instructions: each in its turn, when what it takes is there."""
    ready, now = {}, 0
    for _, text in lines:
        words = re.sub(r"^@!?U?P\d ", "", text).split(None, 1)
        now = max([now + 1, *(ready.get(name, 0) for name in re.findall(r"\bU?[RP]\d+\b", text))])
        written = [] if words[0].startswith(("ST", "BRA", "EXIT", "RED.")) or len(words) == 1 else words[1].split(", ")
        names = written[:1] + [part for part in written[1:3] if re.fullmatch(r"U?P\d", part)]
        latency = LATENCY.get(words[0].split(".")[0].replace("I2FP", "I2F"), 5)
        if words[0].startswith("LDG"):  # those of pixels are predicated
            latency = FAR if text.startswith("@") else NEAR
        ready |= {re.sub(r"\W.*", "", name): now + latency for name in names}
    return max([now, *ready.values()])


def resident(registers, warps):
    """Warps on each of the four schedulers of a multiprocessor, which holds 32 programs at most, here of so many warps."""
    return min(64, 32 * warps, 65536 // (32 * -(-registers // 8) * 8) // warps * warps) // 4


def table(capability, only="", **changed):
    """A row for each kernel of each case whose name has ``only`` in it."""
    driver.set_active(Target(capability))
    rows, case = [], ""

    def made(name, kernel, options):
        found = counts(kernel.asm["cubin"])
        fixed = {name: getattr(value, "value", value) for name, value in vars(options["S"]).items()}
        side = fixed.get("SIDE", 1)
        pixels = fixed["P"] // (32 * options["num_warps"]) * side**2
        each = (found["outside"] / fixed.get("STEPS", 1) + found["inside"]) / pixels
        turned = each
        if side > 1:
            each, turned = (executed(found, side) / pixels for side in (4, 5))
        warps = resident(found["registers"], options["num_warps"])
        rows.append({"case": case, "kernel": name, **found, "pixels": pixels, "per_pixel": round(each), "turned": round(turned)})
        rows[-1]["warps"] = warps

    compile_instead(made, **changed)
    for case, options in CASES.items():
        if only in case:
            run(**options)
    return [row for row in rows if row["kernel"] not in ("bounds", "spread")]


def markdown(rows, capability):
    lines = [f"Compiled for sm_{capability} by Triton {triton.__version__}; a model, nothing was run.", ""]
    heads = ("case", "kernel", "instructions per pixel", "turned by 45 degrees", "pixels per thread", "outside of loops", "in them")
    lines += ["| " + " | ".join((*heads, "double precision", "registers", "warps there", "needed")) + " |"]
    lines += ["|---" * 11 + "|"]
    names = ("case", "kernel", "per_pixel", "turned", "pixels", "outside", "inside", "double", "registers", "warps", "needed")
    for row in rows:
        cells = [row[name] for name in names]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--capability", type=int, default=90, help="75, 80, 86, 89, 90, 120")
    parser.add_argument("--json", type=Path, help="write the rows here")
    parser.add_argument("--docs", type=Path, help="write the table into this page, between its counts markers")
    parser.add_argument("--only", default="", help="cases with this in their names")
    parser.add_argument("--each", type=int, default=warps._EACH, help="pixels of a thread where nothing is summed")
    parser.add_argument("--steps", type=int, default=warps._STEPS, help="the most tiles that a program of sums adds up")
    parser.add_argument("--registers", type=int, help="the most registers of a thread")
    arguments = parser.parse_args()
    warps._EACH, warps._STEPS = arguments.each, arguments.steps
    rows = table(arguments.capability, arguments.only, **({"maxnreg": arguments.registers} if arguments.registers else {}))
    text = markdown(rows, arguments.capability)
    print(text)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    if arguments.docs is not None:
        insert(arguments.docs, "counts", text)


if __name__ == "__main__":
    main()
