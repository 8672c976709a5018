"""``python -m tests.fuzz --runs 2000``: mutated files of the corpus, and what is neither read nor
refused by a sentence.

The exit code says whether anything was. The same seed gives the same runs. With ``--coverage`` also how many lines of the readers
ran.
"""

import argparse

from tests.fuzz.mutated import READERS, covered, faults

parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
parser.add_argument("--runs", type=int, default=2000, help="Mutations for each kind of files.")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--coverage", action="store_true")
given = parser.parse_args()
count = 0
for kind in READERS:
    with covered() as lines:
        found = list(faults(kind, given.runs, given.seed, lines if given.coverage else None))
    count += len(found)
    print(f"{kind}: {given.runs} runs, {len(found)} faults", *found, sep="\n  ")
    if given.coverage:
        print(*(f"  {name}: {ran} of {all_lines} lines" for name, (ran, all_lines) in lines().items()), sep="\n")
raise SystemExit(bool(count))
