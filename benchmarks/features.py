"""The tables of docs/features.md: descriptors beside SIFT, and detector and descriptor before and after they are trained together.

Owns: what is trained, and on what it is measured.
Must not: train on what it measures on.
Read next: ``src/pellucid/features/evaluation/run.py``, ``src/pellucid/features/train/joint.py``.

Run: python benchmarks/features.py --write docs; ``--only joint`` measures a part. Call it again, and it goes on where it stopped,
in the middle of a training, too.
"""

import argparse
from dataclasses import asdict
from pathlib import Path
from statistics import mean

import torch

from pellucid.features import load_descriptor, load_detector
from pellucid.features.data import bundled_photographs
from pellucid.features.data.sequences import read_sequence, warped_sequences
from pellucid.features.evaluation.methods import baselines, joint_method, network_method
from pellucid.features.evaluation.protocol import Protocol
from pellucid.features.evaluation.run import Report, Row, evaluate_methods
from pellucid.features.evaluation.table import markdown_table
from pellucid.features.train import DescriptorSettings, JointSettings, train
from pellucid.learn.data import find_data
from pellucid_bench.report import insert
from pellucid_bench.runs import run_all

SEQUENCE, PHOTOGRAPHS = "hpatches_v_dogman", ("chelsea", "coffee", "rocket")
DESCRIPTORS = {
    "sequence": ("6000 0", "2400 0", "2400 1", "2400 2", "1494 3", "1000 0", "baselines"),
    "photographs": ("1000 1", "baselines"),
}
"""Steps and seed of the trainings measured on each; the photographs are held out."""
JOINT = {"detector_steps": 150, "descriptor_steps": 200, "steps": 60, "batch": 2}
KEYPOINTS = 512
"""Of a picture, for the joint rows."""
PAIRS = {
    "both as before": ("before", "before"),
    "detector trained on": ("", "before"),
    "descriptor trained on": ("before", ""),
    "both trained on": ("", ""),
}
"""Which stage each network is taken from, detector first."""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=3, help="of joint training")
    parser.add_argument("--only", choices=[*DESCRIPTORS, "joint"], help="measure one table, and write all")
    parser.add_argument("--runs", type=Path, default=Path("runs/features"), help="where trainings are kept")
    parser.add_argument("--write", type=Path, help="the folder of features.json and features.md")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    places = [f"{on} {what}" for on, several in DESCRIPTORS.items() for what in several]
    places += [f"joint {seed}" for seed in range(arguments.seeds)]
    rows = run_all(
        lambda place, _: {"methods": measured(place, arguments.runs / place.replace(" ", "-"))},
        [place for place in places if arguments.only in (None, place.split()[0])],
        1,
        about={"joint": JOINT, "joint keypoints": KEYPOINTS},
        path=None if arguments.write is None else arguments.write / "features.json",
        say=print,
    )
    by_place = {row["arm"]: row["methods"] for row in rows}
    texts = {on: table([one for what in DESCRIPTORS[on] for one in by_place.get(f"{on} {what}", ())]) for on in DESCRIPTORS}
    texts["joint"] = joint_table([by_place[place] for place in places if place.startswith("joint") and place in by_place])
    for on, text in texts.items():
        print(text)
        if arguments.write is not None and text:
            insert(arguments.write / "features.md", on, f"\n{text}")


def measured(place, run):
    """What is trained for this place, or the methods that learn nothing, in numbers."""
    on, *what = place.split()
    protocol = Protocol(keypoints=KEYPOINTS) if on == "joint" else Protocol()
    if on == "joint":
        train(JointSettings(seed=int(what[0]), **JOINT), run, quiet=True)
        methods = {
            name: joint_method(load_detector(run / detector), load_descriptor(run / descriptor), protocol)
            for name, (detector, descriptor) in PAIRS.items()
        }
    elif what == ["baselines"]:
        methods = baselines("rootsift,sift,raw,random")
    else:
        exclude = PHOTOGRAPHS if on == "photographs" else ()
        path = train(DescriptorSettings(steps=int(what[0]), seed=int(what[1]), exclude=exclude), run, quiet=True)
        methods = {f"{what[0]} steps, seed {what[1]}": network_method(load_descriptor(path))}
    report = evaluate_methods(sequences(on), methods, protocol)
    return [{name: value for name, value in asdict(row).items() if name != "pairs"} for row in report.rows]


def sequences(on):
    if on == "photographs":
        return warped_sequences(bundled_photographs(PHOTOGRAPHS), seed=0)
    folder = find_data(SEQUENCE)
    if folder is None:
        raise SystemExit(f"{SEQUENCE} is not under PELLUCID_DATA or shared/data")
    return [read_sequence(folder)]


def table(methods):
    return markdown_table(Report(Protocol(), (), tuple(Row(**one, pairs={}) for one in methods))) if methods else ""


def joint_table(seeds):
    """Means over the seeds, and mAP by seed."""
    columns = {
        "mAP": lambda one: one["mean_average_precision"],
        **{f"MMA@{limit}": lambda one, limit=limit: one["matching_accuracy"][limit] for limit in ("1", "3")},
        **{f"AUC@{limit}": lambda one, limit=limit: one["homography"][limit] for limit in ("1", "3", "5")},
        "rep@3": lambda one: one["repeatability"]["3"],
        "matches": lambda one: one["matches"],
        "correct": lambda one: one["correct"],
    }
    lines = [f"| networks | mAP by seed | {' | '.join(columns)} |", "|---|---|" + "---|" * len(columns)]
    for index, name in enumerate(PAIRS):
        each = [methods[index] for methods in seeds]
        cells = [", ".join(f"{columns['mAP'](one):.4f}" for one in each)]
        for title, read in columns.items():
            cells.append(f"{mean(map(read, each)):.{0 if title in ('matches', 'correct') else 4 if title == 'mAP' else 3}f}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n" if seeds else ""


if __name__ == "__main__":
    main()
