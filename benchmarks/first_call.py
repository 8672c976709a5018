"""CPU seconds of three first calls: ``python benchmarks/first_call.py``. Exit code 1 over ten cold or one warm.

The first process finds an empty cache of compiled kernels and fills it, the second one loads them. The calls are the flagship's,
that of a crop with colours on bytes, and that of crop, affine, blur and noise on a picture that wants its gradient, forward alone.

Owns: the program that both processes run, and the two limits.
Must not: count importing; that is torch's.
Read next: ``../docs/adr/0003-fused-cpu-kernels.md``.
"""

import os
import subprocess
import sys
import tempfile

COLD, WARM = 10.0, 1.0
CALLS = {
    "flagship": "ours.flagship_pipeline()(torch.rand(2, 3, 64, 64))",
    "bytes": "P.Pipeline([P.RandomHorizontalFlip(), P.RandomResizedCrop(64), P.ColorJitter(.4, .4, .4, .1), P.Normalize(.5, .2)])"
    "(torch.randint(0, 256, (2, 3, 96, 80), dtype=torch.uint8))",
    "gradients": "P.Pipeline([P.RandomCrop(64), P.RandomAffine(20), P.RandomGaussianBlur(7), P.RandomGaussianNoise()])"
    "(torch.rand(2, 3, 96, 80, requires_grad=True))",
}
PROGRAM = """
import time, torch, pellucid as P
torch.set_num_threads(1)
from pellucid_bench.peers import ours
start = time.process_time()
{}
print(time.process_time() - start)
"""


def main() -> int:
    failed = False
    for name, call in CALLS.items():
        with tempfile.TemporaryDirectory() as cache:
            run = [sys.executable, "-c", PROGRAM.format(call)]
            environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
            cold, warm = (float(subprocess.check_output(run, env=environment, text=True)) for _ in range(2))
        print(f"{name}: {cold:.2f} s cold (at most {COLD:.0f}), {warm:.2f} s warm (at most {WARM:.0f})")
        failed |= cold > COLD or warm > WARM
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
