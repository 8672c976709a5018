"""CPU seconds of the first call of the flagship: ``python benchmarks/first_call.py``. Exit code 1 over ten cold or one warm.

The first process finds an empty cache of compiled kernels and fills it, the second one loads them.

Owns: the program that both processes run, and the two limits.
Must not: count importing; that is torch's.
Read next: ``../docs/adr/0003-fused-cpu-kernels.md``.
"""

import os
import subprocess
import sys
import tempfile

COLD, WARM = 10.0, 1.0
PROGRAM = """
import time, torch
torch.set_num_threads(1)
from pellucid_bench.peers import ours
pipeline = ours.flagship_pipeline()
images = torch.rand(2, 3, 64, 64)
start = time.process_time()
pipeline(images)
print(time.process_time() - start)
"""


def main() -> int:
    with tempfile.TemporaryDirectory() as cache:
        run = [sys.executable, "-c", PROGRAM]
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
        cold, warm = (float(subprocess.check_output(run, env=environment, text=True)) for _ in range(2))
    print(f"first call: {cold:.2f} s cold (at most {COLD:.0f}), {warm:.2f} s warm (at most {WARM:.0f})")
    return int(cold > COLD or warm > WARM)


if __name__ == "__main__":
    sys.exit(main())
