"""CPU seconds of first calls: ``python benchmarks/first_call.py [--shipped] [--levels] [--workers]``. Exit code 1 beyond a limit.

A process that finds an empty cache of compiled kernels is measured beside one that finds it full. The calls are the flagship's,
that of a crop with colours on bytes, and that of crop, affine, blur and noise on a picture that wants its gradient, forward alone.
With ``--shipped`` the cold process has what `pellucid warmup --export` made for a level of this processor, and whole processes are
compared, forward and backward. ``--levels`` times warm calls in such code. With ``--workers`` a `DataLoader` starts its workers on
an empty cache and on a full one.

Owns: the programs that the processes run, and the limits.
Must not: count importing where a call is measured; that is torch's.
Read next: ``../docs/adr/0054-shipped-kernels.md``.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COLD, WARM, SHIPPED = 10.0, 1.0, 1.3
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
BOTH_WAYS = """
import torch, pellucid as P
torch.set_num_threads(1)
crop, jitter, end = P.RandomResizedCrop(64), P.ColorJitter(.4, .4, .4, .1), P.Normalize(.5, .2)
P.Pipeline([crop, P.RandomHorizontalFlip(), jitter, end])(torch.randint(0, 256, (4, 3, 96, 80), dtype=torch.uint8))
for step in range(4):
    images = torch.rand(4, 3, 64, 64, requires_grad=True)
    P.Pipeline([P.RandomAffine(20), P.RandomHorizontalFlip(), jitter, end], seed=step)(images).sum().backward()
"""
LOADER = """
import sys, warnings, torch, pellucid as P
warnings.simplefilter("ignore")
class Pictures(torch.utils.data.Dataset):
    pipeline = P.Pipeline([P.RandomHorizontalFlip(), P.RandomResizedCrop(64), P.ColorJitter(.4, .4, .4, .1), P.Normalize(.5, .2)])
    def __len__(self): return 16
    def __getitem__(self, i): return self.pipeline(torch.randint(0, 256, (3, 96, 80), dtype=torch.uint8))
if __name__ == "__main__":
    torch.set_num_threads(1)
    workers, how = int(sys.argv[1]), sys.argv[2]
    for batch in torch.utils.data.DataLoader(Pictures(), 2, num_workers=workers, multiprocessing_context=how if workers else None):
        pass
"""


SPEED = """
import time, torch
from pellucid_bench.peers import ours
torch.set_num_threads(1)
pipeline, images = ours.flagship_pipeline(), torch.rand(4, 3, 224, 224)
leaf = images.clone().requires_grad_()
def least(call, count=20):
    times = []
    for _ in range(count):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)
print(least(lambda: pipeline(images)), least(lambda: pipeline(leaf).sum().backward()))
"""


def spent(*command: str, **variables: str) -> tuple[float, float]:
    """CPU seconds of a process and its children, and how long it took."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, env={**os.environ, **variables}, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, time.perf_counter() - start


def first_calls() -> bool:
    failed = False
    for name, call in CALLS.items():
        with tempfile.TemporaryDirectory() as cache:
            run = [sys.executable, "-c", PROGRAM.format(call)]
            environment = {**os.environ, "NUMBA_CACHE_DIR": cache, "PELLUCID_KERNELS": "off"}
            cold, warm = (float(subprocess.check_output(run, env=environment, text=True)) for _ in range(2))
        print(f"{name}: {cold:.2f} s cold (at most {COLD:.0f}), {warm:.2f} s warm (at most {WARM:.0f})")
        failed |= cold > COLD or warm > WARM
    return failed


def shipped() -> bool:
    from pellucid.core.compilers.processors import levels_here

    failed = False
    with tempfile.TemporaryDirectory() as folder:
        run = (sys.executable, "-c", BOTH_WAYS)
        cold, warm = (spent(*run, NUMBA_CACHE_DIR=f"{folder}/usual", PELLUCID_KERNELS="off")[0] for _ in range(2))
        print(f"a process, forward and backward: {cold:.2f} s cold, {warm:.2f} s warm")
        for level in levels_here():
            export = (sys.executable, "-m", "pellucid.cli", "warmup", "--export", f"{folder}/{level}", "--processor", level)
            subprocess.run(export, check=True, stdout=subprocess.DEVNULL)
            files = list(Path(folder, level).iterdir())
            size = sum(file.stat().st_size for file in files) / 1e6
            with_it = spent(*run, NUMBA_CACHE_DIR=f"{folder}/empty", PELLUCID_KERNELS=f"{folder}/{level}")[0]
            print(f"{level}: {with_it:.2f} s with an empty cache (at most {SHIPPED} times warm), {len(files)} files, {size:.1f} MB")
            failed |= with_it > SHIPPED * warm
    return failed


def levels() -> bool:
    """The flagship in code for this very processor and for its levels, in alternate processes: the least of each."""
    from pellucid.core.compilers.processors import levels_here

    found: dict[str, list[tuple[float, ...]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(4):
            for name in ("this", *levels_here()):
                told = {} if name == "this" else {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": ""}
                environment = {**os.environ, **told, "NUMBA_CACHE_DIR": f"{folder}/{name}", "PELLUCID_KERNELS": "off"}
                said = subprocess.check_output([sys.executable, "-c", SPEED], env=environment, text=True)
                found.setdefault(name, []).append(tuple(1e3 * float(word) for word in said.split()))
    for name, runs in found.items():
        forward, both = map(min, zip(*runs, strict=True))
        print(f"{name}: flagship, four pictures, one thread: {forward:.2f} ms forward, {both:.2f} ms forward and backward")
    return False


def workers() -> bool:
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "program.py")
        program.write_text(LOADER)
        for count, how in ((0, "fork"), (2, "fork"), (8, "fork"), (8, "spawn")):
            cache = f"{folder}/{count}{how}"
            run = (sys.executable, str(program), str(count), how)
            (cold, waited), (warm, _) = (spent(*run, NUMBA_CACHE_DIR=cache, PELLUCID_KERNELS="off") for _ in range(2))
            print(f"{count} workers ({how}): {cold:.1f} s of CPU cold, {waited:.1f} s waited, {warm:.1f} s of CPU warm")
    return False


def main() -> int:
    asked = [part for part in (shipped, levels, workers) if f"--{part.__name__}" in sys.argv] or [first_calls]
    failed = [part() for part in asked]  # all of them, whatever the first one says
    return int(any(failed))


if __name__ == "__main__":
    sys.exit(main())
