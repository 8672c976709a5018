"""Bias and spread of every estimator on closed forms: ``python benchmarks/estimators.py [--write docs/estimators.md]``.

Owns: running the table and putting it between the markers of a document.
Must not: measure; ``pellucid_bench.estimator_table`` does.
Read next: ``../docs/estimators.md``.
"""

import argparse
from pathlib import Path

from pellucid_bench.estimator_table import rows, table

BEGIN, END = "<!-- table: benchmarks/estimators.py -->", "<!-- end of table -->"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=200_000)
    parser.add_argument("--write", type=Path, help="a Markdown file whose table, between markers, is replaced")
    arguments = parser.parse_args()
    text = table(rows(arguments.samples))
    print(text)
    if arguments.write is not None:
        before, rest = arguments.write.read_text().split(BEGIN)
        arguments.write.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main()
