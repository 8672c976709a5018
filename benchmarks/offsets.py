"""Offsets of SIFT's keypoints, by parts of a pixel, that a small network reads from the patch; and what homographies they give.

Owns: training the network through the descriptor's loss, or on the known homography, and measuring it on photographs held out.
Must not: train on the photographs it measures on.
Read next: ``refinement.py``, which moves matched points by comparing both pictures; here each picture is looked at alone.

Run: python benchmarks/offsets.py --write docs. Call it again, and it goes on where it was stopped.
"""

import argparse
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from pellucid.features import detect_sift, extract_patches, frames_from_xy, near_in_image
from pellucid.features.data import HomographicPairs, bundled_photographs
from pellucid.features.data.sequences import read_sequence, warped_sequences
from pellucid.features.evaluation.methods import baselines
from pellucid.features.evaluation.run import evaluate_methods
from pellucid.functional import transform_points
from pellucid.learn.data import find_data
from pellucid.losses import hardest_triplet_loss
from pellucid.nn import PatchNorm
from pellucid_bench.report import insert
from pellucid_bench.runs import each, run_all

HELD_OUT = ("chelsea", "coffee", "rocket")
STEPS, PAIRS, BATCH, RATE, MOST = 400, 240, 4, 2e-3, 0.25
"""Steps, the pairs of views they draw on, pairs a step; and the largest offset, as a part of half a patch (twice SIFT's size)."""
SEQUENCE = "hpatches_v_dogman"
ARMS = {
    "none": "SIFT's own places",
    "descriptor": "offsets, trained through the descriptor's loss",
    "geometry": "offsets, trained on the known homography",
}
PLACES = {"photographs": "warped photographs", "sequence": "v_dogman"}


class Offsets(nn.Module):
    """Moves frames by what it reads from their patches, in the frame's own coordinates: it turns and grows with the keypoint."""

    def __init__(self, seed):
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            parts = [
                part
                for inputs, outputs in ((1, 16), (16, 32), (32, 32))
                for part in (nn.Conv2d(inputs, outputs, 3, 2, 1), nn.ReLU())
            ]
            self.read = nn.Sequential(PatchNorm(), *parts, nn.Flatten(), nn.Linear(32 * 4, 2))
        nn.init.zeros_(self.read[-1].weight)
        nn.init.zeros_(self.read[-1].bias)

    def forward(self, image, frames):
        patches = extract_patches(image[None], frames[None], 16)[0]
        move = MOST * self.read(patches).tanh()
        center = frames[:, :, 2] + (frames[:, :, :2] @ move[:, :, None])[:, :, 0]
        return torch.cat([frames[:, :, :2], center[:, :, None]], 2)


def keypoints(image):
    found = detect_sift(image, 200)
    return found.points, found.sizes, frames_from_xy(found.points, 2.0 * found.sizes, found.angles)


def pairs_of(views, index):
    """Frames of both views that show one place: nearest neighbours within 2 px, of sizes alike."""
    (one, size_one, frames_one), (two, size_two, frames_two) = keypoints(views.first[index]), keypoints(views.second[index])
    homography = views.second_from_first[index].float()
    if not len(one) or not len(two):
        return frames_one[:0], frames_two[:0], homography
    apart = torch.cdist(transform_points(one[None], homography[None])[0], two)
    nearest = apart.argmin(1)
    alike = (size_two[nearest] / size_one).log().abs() < 0.5
    kept = (apart.amin(1) < 2.0) & (apart.argmin(0)[nearest] == torch.arange(len(one))) & alike
    return frames_one[kept], frames_two[nearest[kept]], homography


def apart(one, two, homography):
    """How far, in pixels of the second view, each frame's center lies from where the homography sends the first's."""
    return (transform_points(one[None, :, :, 2], homography[None])[0] - two[:, :, 2]).square().sum(1).clamp(min=1e-12).sqrt()


@lru_cache(2)
def views_of(seed, count, held_out):
    """Pairs of views with the frames that show one place: both pictures, both frames, the homography."""
    pictures = bundled_photographs(longest=512)
    chosen = [one for name, one in pictures.items() if (name in HELD_OUT) == held_out]
    data, found = HomographicPairs(chosen, size=160, strength=0.5, seed=seed), []
    while len(found) < count:
        views = data(len(found), BATCH)
        for index in range(BATCH):
            one, two, homography = pairs_of(views, index)
            if len(one):
                found.append((views.first[index], views.second[index], one, two, homography))
    return found


def trained(arm, seed):
    pool, draw = views_of(seed, PAIRS, False), torch.Generator().manual_seed(seed)
    net, norm = Offsets(seed), PatchNorm()
    optimizer = torch.optim.Adam(net.parameters(), RATE)
    for step in range(STEPS):
        optimizer.param_groups[0]["lr"] = RATE * (1.0 - step / STEPS)
        shown, described, wrong = [], [], []
        for index in torch.randint(len(pool), (BATCH,), generator=draw).tolist():
            first, second, one, two, homography = pool[index]
            moved = [net(first, one), net(second, two)]
            wrong.append(apart(*moved, homography) / two[:, :, :2].det().abs().sqrt())
            if arm == "descriptor":
                sides = zip((first, second), moved, strict=True)
                patches = torch.stack([extract_patches(image[None], frames[None], 32)[0] for image, frames in sides])
                described.append(F.normalize(norm(patches.flatten(0, 1)).reshape(2, len(one), -1), dim=2))
                shown.append(one[:, :, 2] + 1e4 * len(shown))  # no pair's points are near another's
        if arm == "descriptor":
            near = near_in_image(torch.cat(shown), radius=8.0)
            loss = hardest_triplet_loss(*torch.cat(described, 1), not_negative=near)
        else:
            loss = torch.cat(wrong).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return net


def measured(arm, seed):
    """The protocol of docs/features.md by RootSIFT, whose points the network has moved; descriptors are those of SIFT's places."""
    plain, net = baselines("rootsift")["rootsift"], None if arm == "none" else trained(arm, seed)

    def method(view):
        described = plain(view)
        if net is None:
            return described
        narrow = described.frames.clone()
        narrow[:, :, :2] /= 2.0  # the protocol's patches are twice as wide
        with torch.no_grad():
            return replace(described, points=net(view.image, narrow)[:, :, 2])

    move = net or (lambda _, frames: frames)
    with torch.no_grad():
        errors = [apart(move(first, one), move(second, two), h) for first, second, one, two, h in views_of(100 + seed, 40, True)]
    found = {"apart": float(torch.cat(errors).median())}
    sequences = {"photographs": warped_sequences(bundled_photographs(HELD_OUT), seed=seed)}
    folder = find_data(SEQUENCE)
    if folder is not None:
        sequences["sequence"] = [read_sequence(folder)]
    for name, several in sequences.items():
        (row,) = evaluate_methods(several, {arm: method}).rows
        shares = {"MMA@1": row.matching_accuracy["1"], "AUC@1": row.homography["1"], "AUC@3": row.homography["3"]}
        found[name] = {"mAP": row.mean_average_precision, **shares}
    return found


def table(rows):
    heads = ["mAP", "MMA@1", "AUC@1", "AUC@3"]
    lines = [f"| pairs | points | true pairs apart, px | {' | '.join(heads)} |", "|---|---|---|" + "---|" * len(heads)]
    for place, title in PLACES.items():
        for arm, said in ARMS.items():
            mine = [row for row in rows if row["arm"] == arm and place in row]
            if mine:
                near = each([row["apart"] for row in mine], ".3f") if place == "photographs" else ""
                cells = [each([row[place][name] for row in mine], ".3f") for name in heads]
                lines.append(f"| {title} | {said} | {near} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--write", type=Path, help="the folder of offsets.json and registration.md")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows = run_all(
        measured,
        list(ARMS),
        arguments.seeds,
        about={"steps": STEPS, "pairs": PAIRS, "batch": BATCH, "rate": RATE, "most": MOST},
        path=None if arguments.write is None else arguments.write / "offsets.json",
        say=print,
    )
    print(table(rows))
    if arguments.write is not None:
        insert(arguments.write / "registration.md", "offsets", f"\n{table(rows)}")


if __name__ == "__main__":
    main()
